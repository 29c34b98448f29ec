"""Values of a checkpoint as they are nested, ready for JSON: hyper-parameters, configurations, arguments, whatever lies there.

What a listing shows flat (`importer.checkpoint.walking`) is here a tree of dictionaries and lists. Tensors are described, not
read; an object of any class is its class and what it holds, as nothing is built. Not here: names of tensors, and the choice
of a root.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator

from importer.budgets import STEP, Budget
from importer.checkpoint.found import Dense, NotDense, Packed
from importer.checkpoint.globals_audit import refuse_hostile
from importer.checkpoint.numpy_values import is_numpy, read_scalar
from importer.checkpoint.structures import attributes, elements, is_mapping, is_sequence, items, key_text
from importer.checkpoint.tensors import TensorReader
from importer.checkpoint.vocabulary import qualified_name
from importer.containers import PickleContainer, Resolved, SetContainer, TableContainer, open_container
from importer.errors import Location, SourceError, UsageError, did_you_mean, shown
from importer.options import DEFAULT_OPTIONS, OptionGroup, Options, changed
from importer.unpickling import Call, Global, PersistentId, collection_paused

__all__ = ["read_value"]

_DEEPEST = 100
"""Levels that are written out; JSON readers elsewhere stop at a thousand, and nobody reads as many."""
_LONG_BITS = 4_096
_NAMES_SHOWN = 8


def read_value(
    source: str | os.PathLike[str], name: str, options: Options | None = None, /, **changes: object
) -> object:
    """Return a value of a checkpoint with everything below it, in types that JSON has.

    Dictionaries and lists stay what they are; a tensor becomes `{"tensor": {"dtype": …, "shape": […]}}`, an object of another
    class `{"class": …, "args": […]}` with its attributes beside. Numbers that JSON lacks and bytes become text.

    Args:
        source: a file, an index of shards, or a folder.
        name: dotted path from the top of the file (`hyper_parameters`, `config.model`); "" for everything. In safetensors and
            burnpack a key of the metadata, whose text is parsed if it is JSON.
        options: of these, the ones about reading count.
        **changes: single options by name.

    Raises:
        UsageError: there is no value of that name.
        SourceError: as for `open_checkpoint`.
    """
    chosen = changed(options or DEFAULT_OPTIONS, changes, OptionGroup.READING)
    with collection_paused():
        budget = Budget(chosen.limits, checksums=chosen.checksums)
        container = open_container(source, chosen.limits, budget).container
        known: list[str] = []
        for part in _parts(container):
            if isinstance(part, PickleContainer):
                refuse_hostile(part.tree, Location(path=part.paths[0]))
            found = _looked_up(part, name, chosen, budget, known)
            if found is not None:
                return found[0]
    listed = ", ".join(shown(one) for one in known[:_NAMES_SHOWN]) or "none"
    raise UsageError(
        f"there is no value {shown(name)} in the file",
        where=Location(path=container.paths[0]),
        how=did_you_mean(name, known, f"At the top there are: {listed}."),
    )


def _parts(container: PickleContainer | TableContainer | SetContainer) -> Iterator[PickleContainer | TableContainer]:
    if isinstance(container, SetContainer):
        yield from (shard.container for shard in container.shards)
    else:
        yield container


def _looked_up(
    part: PickleContainer | TableContainer, name: str, options: Options, budget: Budget, known: list[str]
) -> tuple[object] | None:
    """Return the value of that name in one container, wrapped, since it may be None; add the names there are to `known`."""
    if isinstance(part, PickleContainer):
        writer = _Writer(part, options, budget)
        found = _at(part.tree.value, name, known)
        return None if found is None else (writer.plain(found[0]),)
    known += part.metadata
    if not name:
        return ({**part.metadata, **part.scalars},)
    if name in part.metadata:
        return (_parsed(part.metadata[name]),)
    if name in part.scalars:
        return (part.scalars[name],)
    for key, tree in part.objects.items():
        inner = PickleContainer(kind=part.kind, paths=part.paths, tree=tree, resolve=_no_storages)
        rest = "" if name == key else name.removeprefix(f"{key}.") if name.startswith(f"{key}.") else None
        if rest is not None and (found := _at(tree.value, rest, known)) is not None:
            return (_Writer(inner, options, budget).plain(found[0]),)
    known += part.objects
    return None


def _at(top: object, name: str, known: list[str]) -> tuple[object] | None:
    """Return what lies at a dotted path, wrapped; of keys with dots in them the longest that fits."""
    value, rest = top, name
    while rest:
        held = {key if isinstance(key, str) else key_text(key): inner for key, inner in _entries(value)}
        if value is top:
            known += held
        fitting = [key for key in held if rest == key or rest.startswith(f"{key}.")]
        if not fitting:
            return None
        key = max(fitting, key=len)
        value, rest = held[key], rest[len(key) + 1 :]
    return (value,)


def _entries(value: object) -> Iterable[tuple[object, object]]:
    """Return what a path can lead to: entries, elements by position, attributes."""
    if is_mapping(value):
        return items(value)
    if is_sequence(value):
        return enumerate(elements(value))
    if isinstance(value, Call):
        return [*items(value), *enumerate(elements(value)), *attributes(value).items()]
    return ()


class _Writer:
    """Turns values of one container into what JSON has; what is used twice is written twice, for as long as the budget lasts."""

    def __init__(self, container: PickleContainer, options: Options, budget: Budget) -> None:
        self._where = Location(path=container.paths[0])
        self._budget = budget
        self._tensors = TensorReader(
            container.resolve, self._where, big_endian=container.big_endian, options=options, budget=budget
        )
        self._open: set[int] = set()

    def plain(self, value: object) -> object:
        """Return a value as JSON has it.

        Raises:
            LimitError: parts are used so often that writing them out would have no end.
        """
        self._budget.spend(STEP, self._where)
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int | float | complex | bytes | bytearray | Global):
            return _simple(value)
        if isinstance(value, PersistentId):
            return {"class": "storage"}
        if id(value) in self._open:
            return "… (contains itself)"
        if len(self._open) >= _DEEPEST:
            return "… (nested more deeply)"
        self._open.add(id(value))
        try:
            return self._container(value)
        finally:
            self._open.discard(id(value))

    def _container(self, value: object) -> object:
        if is_mapping(value):
            return self._mapping(items(value))
        if is_sequence(value):
            return [self.plain(item) for item in elements(value)]
        assert isinstance(value, Call)
        tensor = self._tensor(value)
        if tensor is not None:
            return tensor
        if isinstance(value.callable, Global) and is_numpy(value.callable):
            number = read_scalar(value)
            return {"array": "numpy"} if number is None else self.plain(number)
        data = self._tensors.bytes_of(value)
        return _simple(data) if data is not None else self._object(value)

    def _tensor(self, call: Call) -> dict[str, object] | None:
        try:
            found = self._tensors.read(call)
        except SourceError as error:
            return {"damaged": error.what}
        if isinstance(found, Dense):
            return {"tensor": {"dtype": found.array.dtype.name, "shape": list(found.array.shape)}}
        if isinstance(found, NotDense):
            return {"unsupported": {"kind": found.kind, "reason": found.reason}}
        if isinstance(found, Packed):
            return {"unsupported": {"kind": found.instead.kind, "reason": found.instead.reason}}
        return None

    def _object(self, call: Call) -> dict[str, object]:
        node = qualified_name(call.callable)
        made: dict[str, object] = {"class": "unknown" if node is None else str(node)}
        if call.args:
            made["args"] = [self.plain(argument) for argument in call.args]
        if call.elements:
            made["elements"] = [self.plain(item) for item in call.elements]
        held = attributes(call)
        if call.state is not None and not held:
            made["state"] = self.plain(call.state)
        return {**made, **self._mapping([*items(call), *held.items(), *(call.kwargs or {}).items()])}

    def _mapping(self, entries: Iterable[tuple[object, object]]) -> dict[str, object]:
        written: dict[str, object] = {}
        for key, value in entries:
            text = key if isinstance(key, str) else key_text(key)
            self._budget.spend(len(text), self._where)
            written[text] = self.plain(value)
        return written


def _simple(value: object) -> object:
    """Return a number, bytes or a name: as such where JSON has it, as text else."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, int):
        return value if value.bit_length() <= _LONG_BITS else f"a number of {value.bit_length()} bits"
    if isinstance(value, bytes | bytearray):
        text = value.decode("latin-1")
        return text if text.isprintable() else {"bytes": len(value)}
    return str(value)


def _parsed(text: str) -> object:
    """Return the JSON object or list that a text of the metadata holds, or the text."""
    if text[:1] in {"{", "["}:
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError):
            return text
        return value
    return text


def _no_storages(pid: PersistentId) -> Resolved:
    raise AssertionError(f"objects with tensors inside come as opaque entries, not as trees: {pid}")
