"""The walk through an unpickled tree: dotted names, tensors, numpy arrays, modules, plain values, and its shape.

Without recursion, every bound held, each container once on a path. Not here: reading single tensors (`tensors`), choosing
the root (`roots`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from importer.arrays import Array
from importer.checkpoint.contents import Module, Tensor, Unsupported
from importer.checkpoint.found import Dense, NotDense, Packed
from importer.checkpoint.numpy_values import is_numpy, read_array, read_scalar
from importer.checkpoint.saved_modules import ModuleReader, SavedModule
from importer.checkpoint.sparse_quantized import AS_STORED, Packing
from importer.checkpoint.structures import attributes, elements, is_mapping, is_sequence, items, key_text
from importer.checkpoint.tensors import TensorReader
from importer.containers.base import PickleContainer, StorageRecord
from importer.errors import LimitError, Location, SourceError, shown
from importer.limits import Limits
from importer.quantized import Composite
from importer.unpickling import Call, Global, PersistentId

__all__ = ["Branch", "WalkedTree", "walk"]

_HOSTILE_HOW = "The file was made to exhaust memory or time; if it is trusted, raise `{limit}`."
_NAMED_DAMAGE = 20


@dataclass(slots=True)
class Branch:
    """A container in the tree, for the choice of the root.

    Attributes:
        path: dotted name.
        key: last part of it, as the container has it.
        kind: mapping, sequence, module or object.
        direct: tensors right in it.
        total: tensors in it and below.
        children: containers in it, in order.
    """

    path: str
    key: str
    kind: str
    direct: int = 0
    total: int = 0
    children: list[Branch] = field(default_factory=list)


@dataclass(slots=True)
class WalkedTree:
    """What walks found, by dotted name and in file order."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    arrays: dict[str, Tensor] = field(default_factory=dict)
    unsupported: list[Unsupported] = field(default_factory=list)
    composites: dict[str, Composite] = field(default_factory=dict)
    values: dict[str, object] = field(default_factory=dict)
    modules: dict[str, Module] = field(default_factory=dict)
    damaged: list[tuple[str, SourceError]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def unique(self, name: str) -> str:
        """Return `name`, or if another tensor has it (`1` and `"1"` are two keys) one that is free, and a note."""
        if name not in self.tensors and name not in self.arrays:
            return name
        number = 2
        while f"{name}#{number}" in self.tensors or f"{name}#{number}" in self.arrays:
            number += 1
        self.notes.append(
            f"two entries are called {shown(name)}; the later one is listed as {shown(f'{name}#{number}')}"
        )
        return f"{name}#{number}"

    def raise_damage(self) -> None:
        """Raise the first fault met in a tensor, naming every tensor that has one, if there are any.

        Raises:
            SourceError: of the kind of the first fault.
        """
        if not self.damaged:
            return
        _, error = self.damaged[0]
        names = ", ".join(shown(name) for name, _ in self.damaged[:_NAMED_DAMAGE])
        more = f" and {len(self.damaged) - _NAMED_DAMAGE} more" if len(self.damaged) > _NAMED_DAMAGE else ""
        error.what = f"tensor {names}{more}: {error.what}"
        raise error


@dataclass(slots=True)
class _Frame:
    """A container being walked.

    Attributes:
        prefix: what names of entries begin with.
        entries: keys and values that are left.
        branch: where tensors are counted.
        identity: of the container, so that it is not entered within itself.
        module_type: class of the module whose tensors the entries are.
    """

    prefix: str
    entries: Iterator[tuple[object, object]]
    branch: Branch
    identity: int
    module_type: str | None = None


def walk(
    container: PickleContainer, limits: Limits, findings: WalkedTree, name: str = "", *, packing: Packing = AS_STORED
) -> Branch:
    """Walk the tree of a container, add what is in it to `findings`, and return the tree's shape.

    Args:
        container: the tree, and what its persistent ids mean.
        limits: those on nesting, visits, names, values and single tensors apply.
        findings: grows.
        name: of the outermost value; empty unless several trees make one checkpoint.
        packing: how sparse and quantized tensors are read.

    Raises:
        LimitError: a bound is passed.
    """
    walker = _Walker(container, limits, findings, packing)
    top = Branch("", "", "object")
    walker.run(_Frame("", iter([(name, container.tree.value)]), top, 0))
    return top.children[0] if top.children else top


class _Walker:
    """One walk: the frames from the top to the place at work, what is left of the bounds, and where findings go."""

    def __init__(self, container: PickleContainer, limits: Limits, findings: WalkedTree, packing: Packing) -> None:
        self.limits = limits
        self.findings = findings
        self.where = Location(path=container.paths[0])
        self.tensors = TensorReader(container.resolve, self.where, big_endian=container.big_endian, packing=packing)
        self.modules = ModuleReader(container.resolve, container.script)
        self.resolve = container.resolve
        self.frames: list[_Frame] = []
        self.entered: set[int] = set()
        size = container.tree.end
        self.visits = min(limits.max_visited, limits.free_visits + limits.max_visits_per_byte * size)
        self.characters = limits.free_name_characters + limits.max_name_characters_per_byte * size

    def run(self, frame: _Frame) -> None:
        """Visit everything below a frame."""
        self.frames.append(frame)
        while self.frames:
            frame = self.frames[-1]
            for key, value in frame.entries:
                self.visit(frame, key if type(key) is str else key_text(key), value)
                if self.frames[-1] is not frame:
                    break
            else:
                self.leave()

    def leave(self) -> None:
        """Finish a container."""
        frame = self.frames.pop()
        self.entered.discard(frame.identity)
        frame.branch.total += frame.branch.direct
        if self.frames and frame.branch.total:
            self.frames[-1].branch.total += frame.branch.total

    def enter(
        self, frame: _Frame, key: str, value: object, kind: str, entries: Iterable[tuple[object, object]]
    ) -> _Frame:
        """Begin a container, unless it is one of those it lies in."""
        path = frame.prefix + key
        branch = Branch(path, key, kind)
        inner = _Frame(f"{path}." if path else "", iter(entries), branch, id(value))
        if inner.identity in self.entered:
            return inner
        if len(path) > self.limits.max_name_length:
            self.bound(f"the name {shown(path)} is too long", "max_name_length", len(path))
        self.bound("the file nests too deeply", "max_nesting", len(self.frames))
        self.entered.add(inner.identity)
        frame.branch.children.append(branch)
        self.frames.append(inner)
        return inner

    def visit(self, frame: _Frame, key: str, value: object) -> None:
        """Look at one value: take it down, or enter it."""
        self.visits -= 1
        if self.visits < 0:
            raise self.exhausted(
                "its parts are used again and again", "max_visits_per_byte", self.limits.max_visits_per_byte
            )
        if type(value) is Call:
            self.visit_call(frame, key, value)
        elif isinstance(value, _PLAIN):
            self.keep(frame.prefix + key, value)
        elif is_mapping(value):
            self.enter(frame, key, value, "mapping", items(value))
        elif is_sequence(value):
            self.enter(frame, key, value, "sequence", enumerate(elements(value)))
        else:
            assert isinstance(value, PersistentId)
            self.visit_persistent(frame, key, value)

    def visit_call(self, frame: _Frame, key: str, call: Call) -> None:
        """Look at what a call stands for."""
        name = frame.prefix + key
        try:
            found = self.tensors.read(call)
        except LimitError:
            raise
        except SourceError as error:
            self.findings.damaged.append((name, error))
            return
        if type(found) is Dense:
            self.add_tensor(frame, name, found.array, found.identity)
        elif type(found) is Packed:
            self.findings.composites[name] = found.composite
            self.findings.unsupported.append(Unsupported(name, found.instead.kind, found.instead.reason))
        elif type(found) is NotDense:
            self.findings.unsupported.append(Unsupported(name, found.kind, found.reason))
        elif isinstance(call.callable, Global) and is_numpy(call.callable):
            self.visit_numpy(name, call)
        else:
            self.visit_object(frame, key, call)

    def visit_numpy(self, name: str, call: Call) -> None:
        """Take a numpy scalar down as the number it is, and an array as an array."""
        number = read_scalar(call)
        if number is not None:
            self.keep(name, number)
            return
        try:
            found = read_array(call, self.where)
        except SourceError as error:
            self.findings.damaged.append((name, error))
            return
        if isinstance(found, NotDense):
            self.findings.unsupported.append(Unsupported(name, found.kind, found.reason))
        else:
            name = self.named(name)
            self.findings.arrays[name] = Tensor(name, found)

    def visit_object(self, frame: _Frame, key: str, call: Call) -> None:
        """Enter a container, a module or any other object."""
        if is_mapping(call):
            self.enter(frame, key, call, "mapping", items(call))
        elif is_sequence(call):
            wrapped = call.args[:1] if call.args and isinstance(call.args[0], Call | dict) else ()
            if wrapped:
                self.visit(frame, key, wrapped[0])
            else:
                self.enter(frame, key, call, "sequence", enumerate(elements(call)))
        elif (module := self.modules.read(call)) is not None:
            self.enter_module(frame, key, call, module)
        else:
            self.enter(frame, key, call, "object", _object_entries(call))

    def enter_module(self, frame: _Frame, key: str, call: Call, module: SavedModule) -> None:
        """Begin a module: its tensors, then its children."""
        inner = self.enter(frame, key, call, "module", chain(module.tensors, module.children))
        inner.module_type = module.class_name
        path = frame.prefix + key
        self.findings.modules[path] = Module(path, module.class_name, module.attributes)

    def visit_persistent(self, frame: _Frame, key: str, pid: PersistentId) -> None:
        """Look at a reference to the outside: in tar files a tensor, elsewhere a bare storage or a class."""
        name = frame.prefix + key
        try:
            found = self.resolve(pid)
        except SourceError as error:
            self.findings.damaged.append((name, error))
            return
        if isinstance(found, Array):
            self.add_tensor(frame, name, found, None)
        elif isinstance(found, StorageRecord):
            reason = f"{found.storage.nbytes} bytes without a shape"
            self.findings.unsupported.append(Unsupported(name, "storage", reason))
        else:
            self.keep(name, found)

    def add_tensor(self, frame: _Frame, name: str, array: Array, identity: object) -> None:
        """Take a tensor down."""
        nbytes = array.nbytes
        if nbytes > self.limits.max_tensor_bytes:
            self.bound(f"tensor {shown(name)} is too large", "max_tensor_bytes", nbytes)
        name = self.named(name or "tensor")
        frame.branch.direct += 1
        self.findings.tensors[name] = Tensor(name, array, frame.module_type, identity)

    def named(self, name: str) -> str:
        """Return the name an array gets, and hold the bounds on names."""
        findings = self.findings
        if name in findings.tensors or name in findings.arrays:
            name = findings.unique(name)
        self.characters -= len(name)
        if self.characters < 0 or len(name) > self.limits.max_name_length:
            self.bound(f"the name {shown(name)} is too long", "max_name_length", len(name))
            allowed = self.limits.max_name_characters_per_byte
            raise self.exhausted("the names of all tensors are too long", "max_name_characters_per_byte", allowed)
        if len(findings.tensors) >= self.limits.max_tensors:
            self.bound("there are too many tensors", "max_tensors", len(findings.tensors) + 1)
        return name

    def keep(self, name: str, value: object) -> None:
        """Take a plain value down, as far as there is room."""
        values = self.findings.values
        if len(values) >= self.limits.max_values:
            return
        if isinstance(value, str | bytes | bytearray | Global):
            text = key_text(value)
            value = text if len(text) <= self.limits.max_value_length else f"{text[: self.limits.max_value_length]}…"
        values[name] = value

    def bound(self, what: str, limit: str, actual: int) -> None:
        """Hold a value against the limit of that name."""
        allowed: int = getattr(self.limits, limit)
        if actual > allowed:
            raise self.exhausted(what, limit, allowed, actual)

    def exhausted(self, what: str, limit: str, allowed: int, actual: int | None = None) -> LimitError:
        """Return the error for a bound that is passed."""
        return LimitError(
            what,
            limit=limit,
            allowed=allowed,
            actual=allowed + 1 if actual is None else actual,
            where=self.where,
            how=_HOSTILE_HOW.format(limit=limit),
        )


_PLAIN = (str, bool, int, float, type(None), bytes, bytearray, complex, Global)


def _object_entries(call: Call) -> Iterator[tuple[object, object]]:
    """Yield what an object of an unknown class holds: arguments by position, elements, entries, attributes."""
    for index, value in enumerate(call.args):
        if not isinstance(value, _PLAIN):
            yield index, value
    yield from (call.kwargs or {}).items()
    yield from enumerate(elements(call))
    yield from items(call)
    held = attributes(call)
    yield from held.items()
    if not held and call.state is not None:
        yield "state", call.state
