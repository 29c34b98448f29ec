"""The machine's registers, the checks on calls and keys, and the errors that name the opcode at work.

Not here: what single opcodes do with them (`importer.unpickling.actions`, `importer.unpickling.machine`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from importer.errors import LimitError, Location, MalformedPickleError, shown
from importer.limits import Limits
from importer.unpickling.values import Call, Callee, Global, PersistentId

__all__ = ["HANDED", "State", "kind_of"]

HANDED = frozenset({Global, Call, list})
"""Types of a first argument that a function may call, or go through calling something."""

_TORCH_UTILS = (
    "torch._utils"  # its functions call nothing they are given, and whole models have one around every tensor
)
_LARGEST_KEY = 1 << 63
_KEYS = (str, bytes, float, bool, type(None), Global, Call, PersistentId)


class State:
    """The machine's registers, and the errors that name the opcode at work.

    Attributes:
        stack: values above the innermost mark.
        below: the stacks below each mark, outermost first.
        memo: values by memo index, as far as the indices come in turn, which they do where a pickler counts them.
        scattered: values by memo index where one was left out before; a dict, so that no index costs by being large.
        globals: every global named, by module and name; one node each.
        called: the callables of every call, by identity.
        instantiated: the classes of every object made without a call, by identity.
        handed: calls whose first argument may be called in turn.
        persistent_ids: every reference to the outside.
        composite_keys: keys so far whose hash the file can choose.
        at: offset of the opcode at work.
        name: its name.
    """

    __slots__ = (
        "at",
        "called",
        "composite_keys",
        "globals",
        "handed",
        "instantiated",
        "limits",
        "memo",
        "metastack",
        "name",
        "persistent_ids",
        "scattered",
        "stack",
        "where",
    )

    def __init__(self, where: Location, limits: Limits) -> None:
        self.where = where
        self.limits = limits
        self.stack: list[Any] = []
        self.metastack: list[list[Any]] = []
        self.memo: list[Any] = []
        self.scattered: dict[int, Any] = {}
        self.globals: dict[tuple[str, str], Global] = {}
        self.called: dict[int, Callee] = {}
        self.instantiated: dict[int, Callee] = {}
        self.handed: list[Call] = []
        self.persistent_ids: list[PersistentId] = []
        self.composite_keys = 0
        self.at = 0
        self.name = ""

    @property
    def here(self) -> Location:
        """Where the opcode at work lies."""
        return replace(self.where, offset=(self.where.offset or 0) + self.at)

    def malformed(self, what: str) -> MalformedPickleError:
        """Return the error for an opcode that cannot be carried out."""
        return MalformedPickleError(
            f"pickle opcode {self.name}: {what}",
            where=self.here,
            how="The file is damaged or was made to mislead; get it again from where it came.",
        )

    def limit(self, what: str, *, limit: str, allowed: int, actual: int) -> LimitError:
        """Return the error for a bound that an opcode passes."""
        return LimitError(
            f"pickle opcode {self.name}: {what}",
            limit=limit,
            allowed=allowed,
            actual=actual,
            where=self.here,
            how=f"If the file is trusted, raise `{limit}`.",
        )

    def memoize(self, index: int) -> None:
        """Remember the top of the stack under an index."""
        value = self.stack[-1]
        if index < len(self.memo):
            self.memo[index] = value
        elif index == len(self.memo) and not self.scattered:
            self.memo.append(value)
        else:
            self.scattered[index] = value

    def memoized(self, index: int) -> Any:
        """Return what is remembered under an index.

        Raises:
            KeyError: nothing is.
        """
        return self.memo[index] if 0 <= index < len(self.memo) else self.scattered[index]

    def unmarked(self) -> list[Any]:
        """Return the values above the innermost mark and remove both."""
        items = self.stack
        self.stack = self.metastack.pop()
        return items

    def named(self, module: str, name: str) -> Global:
        """Return the one node for a global."""
        node = self.globals.get((module, name))
        if node is None:
            node = self.globals[module, name] = Global(module, name)
        return node

    def _check_call(self, target: object, args: object) -> None:
        """Refuse to call what no file can make callable, and arguments that are no tuple."""
        if not isinstance(target, Global | Call | PersistentId):
            raise self.malformed(f"a {kind_of(target)} cannot be called")
        if type(args) is not tuple:
            raise self.malformed(f"the arguments of a call are a {kind_of(args)}, not a tuple")

    def call(self, target: Any, args: Any, kwargs: dict[object, object] | None = None) -> Call:
        """Return an inert call, and note what would be called."""
        self._check_call(target, args)
        self.called[id(target)] = target
        call = Call(target, args, kwargs)
        if args and type(args[0]) in HANDED and not (type(target) is Global and target.module == _TORCH_UTILS):
            self.handed.append(call)
        return call

    def instance(self, target: Any, args: Any, kwargs: dict[object, object] | None = None) -> Call:
        """Return an inert object of a class that is not called, only made an empty object of."""
        self._check_call(target, args)
        self.instantiated[id(target)] = target
        return Call(target, args, kwargs)

    def check_key(self, key: object) -> None:
        """Refuse as a key what cannot be hashed, or only at a cost that the file chooses.

        Tuples are hashed through all they contain, each time anew, and their hashes and those of long integers can be
        made to collide: so tuples are kept short and few. Hashes of strings are secret.
        """
        parts = [key]
        for part in parts:
            if isinstance(part, tuple | frozenset) and len(parts) + len(part) <= self.limits.max_key_parts:
                parts.extend(part)
            elif type(part) is int and -_LARGEST_KEY <= part < _LARGEST_KEY:
                continue
            elif not isinstance(part, _KEYS):
                raise self.malformed(f"a {kind_of(part)} cannot be a key")
        if isinstance(key, tuple | frozenset) and not all(isinstance(part, str | tuple | frozenset) for part in parts):
            self.composite_keys += 1
            allowed = self.limits.max_composite_keys
            if self.composite_keys > allowed:
                raise self.limit(
                    "too many keys are tuples", limit="max_composite_keys", allowed=allowed, actual=allowed + 1
                )


def kind_of(value: object) -> str:
    """Name what a value is, for messages."""
    if isinstance(value, Call):
        return f"call of {shown(value.callable)}"
    if isinstance(value, Global):
        return f"class or function {shown(value)}"
    if isinstance(value, PersistentId):
        return "storage"
    return type(value).__name__
