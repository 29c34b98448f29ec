"""The walk through an unpickled tree: dotted names, tensors, numpy arrays, modules, plain values, and its shape.

Without recursion, every bound held, each container once on a path. Not here: reading single tensors (`tensors`), choosing
the root (`roots`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from importer.arrays import Array
from importer.budgets import CONTAINER, STEP, TENSOR, VALUE, Budget
from importer.checkpoint.contents import Module, Tensor, Unsupported
from importer.checkpoint.found import Dense, NotDense, Packed
from importer.checkpoint.known_objects import (
    CONSOLIDATED,
    array_of_dill,
    entries_of_tensordict,
    new_attributes,
    repeats_entry,
)
from importer.checkpoint.numpy_values import is_numpy, read_scalar
from importer.checkpoint.saved_modules import ModuleReader, SavedModule
from importer.checkpoint.structures import attributes, elements, flat_parts, is_mapping, is_sequence, items, key_text
from importer.checkpoint.tensors import TensorReader
from importer.containers.base import PickleContainer, StorageRecord
from importer.errors import LimitError, Location, SourceError, shown
from importer.limits import HOSTILE_HOW, Limits
from importer.options import DEFAULT_OPTIONS, Options
from importer.quantized import Composite
from importer.unpickling import Call, Global, PersistentId

__all__ = ["Branch", "WalkedTree", "walk"]

_NAMED_DAMAGE = 20
_NAME_CHARACTER = 4  # of a tensor: it is kept under the name, listed, planned and reported
_ERROR = 1_500
_LONG_BITS = 256


@dataclass(slots=True)
class Branch:
    """A container in the tree, for the choice of the root.

    Attributes:
        parent: the container it lies in, None for the outermost.
        key: last part of its path, as the container has it.
        kind: mapping, sequence, module or object.
        direct: tensors right in it.
        total: tensors in it and below.
        children: containers in it that hold tensors or are modules, in order.
    """

    parent: Branch | None
    key: str
    kind: str
    direct: int = 0
    total: int = 0
    children: list[Branch] = field(default_factory=list)

    @property
    def path(self) -> str:
        """Dotted name; the outermost container has none, and may be empty within another."""
        keys, branch = [self.key], self.parent
        while branch is not None:
            keys.append(branch.key)
            branch = branch.parent
        path = ""
        for key in reversed(keys):
            path = f"{path}.{key}" if path else key
        return path


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
    numbers: dict[str, int] = field(default_factory=dict)

    def unique(self, name: str) -> str:
        """Return `name`, or if another tensor has it (`1` and `"1"` are two keys) one that is free, and a note."""
        if name not in self.tensors and name not in self.arrays:
            return name
        number = self.numbers.get(name, 2)
        while f"{name}#{number}" in self.tensors or f"{name}#{number}" in self.arrays:
            number += 1
        self.numbers[name] = number + 1
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
    container: PickleContainer,
    limits: Limits,
    findings: WalkedTree,
    name: str = "",
    *,
    options: Options = DEFAULT_OPTIONS,
    budget: Budget | None = None,
) -> Branch:
    """Walk the tree of a container, add what is in it to `findings`, and return the tree's shape.

    Args:
        container: the tree, and what its persistent ids mean.
        limits: those on nesting, names, values and single tensors apply.
        findings: grows.
        name: of the outermost value; empty unless several trees make one checkpoint.
        options: how sparse and quantized tensors are read.
        budget: what the walk may cost, in the account of the whole source.

    Raises:
        LimitError: a bound is passed.
    """
    walker = _Walker(container, findings, options, Budget(limits, container.tree.end) if budget is None else budget)
    top = Branch(None, "", "object")
    walker.run(_Frame("", iter([(name, container.tree.value)]), top, 0))
    return top.children[0] if top.children else top


class _Walker:
    """One walk: the frames from the top to the place at work, what it has left to spend, and where findings go."""

    def __init__(self, container: PickleContainer, findings: WalkedTree, options: Options, budget: Budget) -> None:
        self.budget = budget
        self.limits = budget.limits
        self.findings = findings
        self.where = Location(path=container.paths[0])
        self.tensors = TensorReader(
            container.resolve, self.where, big_endian=container.big_endian, options=options, budget=budget
        )
        self.modules = ModuleReader(container.resolve, container.script, budget)
        self.resolve = container.resolve
        self.frames: list[_Frame] = []
        self.entered: set[int] = set()

    def run(self, frame: _Frame) -> None:
        """Visit everything below a frame."""
        self.frames.append(frame)
        while self.frames:
            frame = self.frames[-1]
            for key, value in frame.entries:
                self.visit(frame, key if type(key) is str else self.text_of(key), value)
                if self.frames[-1] is not frame:
                    break
            else:
                self.leave()

    def leave(self) -> None:
        """Finish a container."""
        frame = self.frames.pop()
        self.entered.discard(frame.identity)
        branch = frame.branch
        branch.total += branch.direct
        if self.frames and (branch.total or branch.kind == "module"):
            outer = self.frames[-1].branch
            outer.total += branch.total
            outer.children.append(branch)

    def enter(
        self, frame: _Frame, key: str, value: object, kind: str, entries: Iterable[tuple[object, object]]
    ) -> _Frame:
        """Begin a container, unless it is one of those it lies in."""
        path = frame.prefix + key
        self.budget.spend(CONTAINER + len(path), self.where)
        branch = Branch(frame.branch, key, kind)
        inner = _Frame(f"{path}." if path else "", iter(entries), branch, id(value))
        if inner.identity in self.entered:
            return inner
        if len(path) > self.limits.max_name_length:
            self.bound(f"the name {shown(path)} is too long", "max_name_length", len(path))
        self.bound("the file nests too deeply", "max_nesting", len(self.frames))
        self.entered.add(inner.identity)
        self.frames.append(inner)
        return inner

    def visit(self, frame: _Frame, key: str, value: object) -> None:
        """Look at one value: take it down, or enter it."""
        budget = self.budget
        budget.left -= STEP
        if budget.left < 0:
            raise budget.exhausted(self.where)
        if type(value) is Call:
            self.visit_call(frame, key, value)
        elif isinstance(value, _PLAIN):
            self.keep(frame, key, value)
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
            self.note_damage(name, error)
            return
        if type(found) is Dense:
            self.add_tensor(frame, name, found.array, found.identity)
        elif type(found) is Packed:
            self.findings.composites[name] = found.composite
            self.note_unsupported(name, found.instead.kind, found.instead.reason)
        elif type(found) is NotDense:
            self.note_unsupported(name, found.kind, found.reason)
        elif isinstance(call.callable, Global) and is_numpy(call.callable):
            self.visit_numpy(frame, key, call)
        else:
            self.visit_object(frame, key, call)

    def visit_numpy(self, frame: _Frame, key: str, call: Call) -> None:
        """Take a numpy scalar down as the number it is, and an array as an array."""
        number = read_scalar(call)
        if number is not None:
            self.keep(frame, key, number)
            return
        name = frame.prefix + key
        try:
            found = self.tensors.numpy_array(call)
        except LimitError:
            raise
        except SourceError as error:
            self.note_damage(name, error)
            return
        if isinstance(found, NotDense):
            self.note_unsupported(name, found.kind, found.reason)
        else:
            name = self.named(name)
            self.findings.arrays[name] = Tensor(name, found)

    def visit_object(self, frame: _Frame, key: str, call: Call) -> None:
        """Enter a container, a module or any other object."""
        if is_mapping(call):
            self.enter(frame, key, call, "mapping", items(call))
        elif is_sequence(call):
            inner = self.unwrapped(call)
            if inner is call:
                self.enter(frame, key, call, "sequence", enumerate(elements(call)))
            else:
                self.visit(frame, key, inner)
        elif (held := entries_of_tensordict(call)) is not None:
            kind = "sequence" if isinstance(held, list | tuple) else "mapping"
            self.enter(frame, key, call, kind, enumerate(held) if isinstance(held, list | tuple) else items(held))
        elif (module := self.modules.read(call)) is not None:
            self.enter_module(frame, key, call, module)
        elif call.callable == _ENCODE and (data := self.tensors.bytes_of(call)) is not None:
            self.keep(frame, key, data)
        elif call.callable in CONSOLIDATED:
            self.note_unsupported(
                frame.prefix + key or "tensordict",
                "tensordict",
                "its tensors lie in one run of bytes; save its clone()",
            )
        elif (array := array_of_dill(call)) is not None:
            self.visit_numpy(frame, key, array)
        else:
            self.budget.spend(STEP * (len(call.args) + len(call.kwargs or ())) // 8, self.where)
            self.enter(frame, key, call, "object", _object_entries(call))

    def unwrapped(self, call: Call) -> object:
        """Return what sequences of sequences, or TorchScript's remarks on types, are made of."""
        value: object = call
        while isinstance(value, Call) and is_sequence(value) and value.args and isinstance(value.args[0], Call | dict):
            self.budget.spend(STEP, self.where)
            value = value.args[0]
        return value

    def enter_module(self, frame: _Frame, key: str, call: Call, module: SavedModule) -> None:
        """Begin a module: its tensors, then its children."""
        inner = self.enter(frame, key, call, "module", chain(module.tensors, module.children))
        inner.module_type = module.class_name
        path = frame.prefix + key
        self.budget.spend(VALUE + len(path), self.where)
        self.findings.modules[path] = Module(path, module.class_name, module.attributes)

    def visit_persistent(self, frame: _Frame, key: str, pid: PersistentId) -> None:
        """Look at a reference to the outside: in tar files a tensor, elsewhere a bare storage or a class."""
        name = frame.prefix + key
        try:
            found = self.resolve(pid)
        except SourceError as error:
            self.note_damage(name, error)
            return
        if isinstance(found, Array):
            self.add_tensor(frame, name, found, None)
        elif isinstance(found, StorageRecord):
            reason = f"{found.storage.nbytes} bytes without a shape"
            self.note_unsupported(name, "storage", reason)
        else:
            self.keep(frame, key, found)

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
        self.budget.spend(TENSOR + _NAME_CHARACTER * len(name), self.where)
        if len(name) > self.limits.max_name_length:
            self.bound(f"the name {shown(name)} is too long", "max_name_length", len(name))
        if len(findings.tensors) >= self.limits.max_tensors:
            self.bound("there are too many tensors", "max_tensors", len(findings.tensors) + 1)
        return name

    def keep(self, frame: _Frame, key: str, value: object) -> None:
        """Take a plain value down, as far as there is room; one under an endless name is not worth it."""
        values = self.findings.values
        if len(values) >= self.limits.max_values or len(frame.prefix) + len(key) > self.limits.max_name_length:
            return
        name = frame.prefix + key
        if isinstance(value, bytes | bytearray):
            self.note_nested_pickle(name, value)
        if isinstance(value, str | bytes | bytearray | Global) or (
            type(value) is int and value.bit_length() > _LONG_BITS
        ):
            longest = self.limits.max_value_length
            text = key_text(value[: longest + 1] if isinstance(value, str | bytes | bytearray) else value)
            value = text if len(text) <= longest else f"{text[:longest]}…"
            self.budget.spend(_NAME_CHARACTER * len(value), self.where)
        self.budget.spend(VALUE + _NAME_CHARACTER * len(name), self.where)
        values[name] = value

    def note_nested_pickle(self, name: str, data: bytes | bytearray) -> None:
        """Remark on bytes that are a pickle of their own, as RLlib saves its workers: what is in them is not read."""
        if (
            len(data) > _SMALLEST_PICKLE
            and data[0] == _PROTO[0]
            and data[1] <= _HIGHEST_PROTOCOL
            and data[-1:] == _STOP
        ):
            self.budget.spend(VALUE + len(name), self.where)
            self.findings.notes.append(
                f"{shown(name)} holds a pickle of its own ({len(data)} bytes), which is not read; save the weights in it by themselves"
            )

    def note_damage(self, name: str, error: SourceError) -> None:
        """Take down that a tensor cannot be read."""
        self.budget.spend(_ERROR + len(name), self.where)
        self.findings.damaged.append((name, error))

    def note_unsupported(self, name: str, kind: str, reason: str) -> None:
        """Take down something tensor-like that is no dense tensor."""
        self.budget.spend(VALUE + len(name), self.where)
        self.findings.unsupported.append(Unsupported(name, kind, reason))

    def text_of(self, key: object) -> str:
        """Return how a key that is no text stands in names.

        Raises:
            LimitError: it would be longer than a name may be.
        """
        length = sum(len(part) for part in flat_parts(key) if isinstance(part, str | bytes))
        self.bound("a key is too long", "max_name_length", length)
        self.budget.spend(STEP + length, self.where)
        return key_text(key)

    def bound(self, what: str, limit: str, actual: int) -> None:
        """Hold a value against the limit of that name."""
        self.limits.require(limit, actual, what, self.where, HOSTILE_HOW)

    def exhausted(self, what: str, limit: str, allowed: int, actual: int | None = None) -> LimitError:
        """Return the error for a bound that is passed."""
        return self.limits.passed(limit, allowed + 1 if actual is None else actual, what, self.where, HOSTILE_HOW)


_ENCODE = Global("_codecs", "encode")  # bytes, as protocol 2 spells them
_PROTO, _STOP = b"\x80", b"."
_HIGHEST_PROTOCOL = 5
_SMALLEST_PICKLE = 4
_PLAIN = (str, bool, int, float, type(None), bytes, bytearray, complex, Global)


def _object_entries(call: Call) -> Iterator[tuple[object, object]]:
    """Yield what an object of an unknown class holds: arguments by position, elements, entries, attributes."""
    for index, value in enumerate(call.args):
        if not isinstance(value, _PLAIN) and not repeats_entry(call, value):
            yield index, value
    yield from (call.kwargs or {}).items()
    yield from enumerate(elements(call))
    yield from items(call)
    yield from new_attributes(call)
    if not attributes(call) and call.state is not None:
        yield "state", call.state
