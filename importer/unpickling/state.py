"""The machine's registers, the checks on calls and keys, and the errors that name the opcode at work.

Not here: what single opcodes do with them (`importer.unpickling.actions`, `importer.unpickling.machine`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from importer.budgets import OPCODE, Budget
from importer.errors import LimitError, Location, MalformedPickleError, shown
from importer.limits import Limits
from importer.unpickling.container_calls import REBUILDERS, copied, is_filled_when_made, is_special, is_unpickler
from importer.unpickling.values import Call, Callee, Global, Key, PersistentId

__all__ = ["HANDED", "State", "kind_of"]

HANDED = frozenset({Global, Call, list})
"""Types of a first argument that a function may call, or go through calling something."""

_TORCH_UTILS = (
    "torch._utils"  # its functions call nothing they are given, and whole models have one around every tensor
)
_NAMED = 1_000
"""What a class or function that is named for the first time costs: it is judged, and listed. Files name a few dozen."""
_LARGEST_PLAIN_KEY = 1 << 16
_KEYS = (str, bytes, int, float, type(None), Global, Call, PersistentId, Key)


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
        special: identities of the globals whose calls `container_calls` knows more about.
        nested: bytes that a plain unpickler would unpickle in turn.
        budget: what the pickle may cost.
        at: offset of the opcode at work.
        name: its name.
    """

    __slots__ = (
        "at",
        "budget",
        "called",
        "globals",
        "handed",
        "instantiated",
        "limits",
        "memo",
        "metastack",
        "name",
        "nested",
        "persistent_ids",
        "scattered",
        "special",
        "stack",
        "where",
    )

    def __init__(self, where: Location, limits: Limits, budget: Budget) -> None:
        self.where = where
        self.budget = budget
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
        self.special: set[int] = set()
        self.nested: list[object] = []
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
            self.budget.spend(_NAMED)
            node = self.globals[module, name] = Global(module, name)
            if is_special(module, name):
                self.special.add(id(node))
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
        known = type(target) is Global and (id(target) in self.special or target.module in REBUILDERS)
        call = self._copied(target, args) if known else Call(target, args, kwargs)
        if args and type(args[0]) in HANDED and not (type(target) is Global and target.module == _TORCH_UTILS):
            self.handed.append(call)
        return call

    def instance(self, target: Any, args: Any, kwargs: dict[object, object] | None = None) -> Call:
        """Return an inert object of a class that is not called, only made an empty object of."""
        self._check_call(target, args)
        self.instantiated[id(target)] = target
        if id(target) in self.special:
            return self._copied(target, args if is_filled_when_made(target) else ())
        return Call(target, args, kwargs)

    def _copied(self, target: Global, args: tuple[object, ...]) -> Call:
        """Return a call of a container with what it copies, or of a function with bytes that it would unpickle."""
        self.budget.spend(
            OPCODE * sum(len(arg) for arg in args if isinstance(arg, list | tuple | set | frozenset | dict))
        )
        if is_unpickler(target):
            self.nested.extend(args[:1])
        try:
            return copied(target, args, self.key)
        except ValueError as error:
            raise self.malformed(f"{kind_of(target)}: {error}") from None

    def key(self, key: object) -> object:
        """Return what to use for a key that is no text: itself, or, where a file could choose its hash, a `Key`.

        Raises:
            MalformedPickleError: Python cannot hash it, or it is too large.
        """
        if isinstance(key, int | float) and 0 <= key < _LARGEST_PLAIN_KEY and key == int(key):
            return key  # too few of these to hold up a look-up
        parts = [key]
        for part in parts:
            if isinstance(part, tuple | frozenset) and len(parts) + len(part) <= self.limits.max_key_parts:
                parts.extend(part)
            elif not isinstance(part, _KEYS):
                raise self.malformed(f"a {kind_of(part)} cannot be a key")
        return Key(key) if any(isinstance(part, int | float) for part in parts) else key


def kind_of(value: object) -> str:
    """Name what a value is, for messages."""
    if isinstance(value, Call):
        return f"call of {shown(value.callable)}"
    if isinstance(value, Global):
        return f"class or function {shown(value)}"
    if isinstance(value, PersistentId):
        return "storage"
    return type(value).__name__
