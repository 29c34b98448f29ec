"""What arrays are made of, through everything that is computed of them: down to the files their bytes come from.

Not here: reading (`evaluation`), and what a file looked like when it was opened (`importer.storages`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass

from importer.arrays.decoding import Decoded
from importer.arrays.nodes import Array, Chunked, Computed, View
from importer.storages import FileRange, InflatedRange, SourceFile, Storage

__all__ = ["parts_of", "source_files"]


def parts_of(arrays: Iterable[Array]) -> Iterator[Array]:
    """Yield these arrays and every one that an element of theirs follows from; what a storage follows from, once."""
    pending = list(arrays)
    seen: set[int] = set()
    while pending:
        array = pending.pop()
        yield array
        if isinstance(array, Chunked):
            pending.extend(chunk.array for chunk in array.chunks)
        elif isinstance(array, Computed):
            pending.extend(array.operands)
        elif isinstance(array, View) and id(array.storage) not in seen:
            seen.add(id(array.storage))
            pending.extend(_behind(array.storage))


def source_files(arrays: Iterable[Array]) -> set[SourceFile]:
    """Return every source file that an element of these arrays lies in, or is computed from."""
    storages = {id(part.storage): part.storage for part in parts_of(arrays) if isinstance(part, View)}
    ranges = [one.compressed if isinstance(one, InflatedRange) else one for one in storages.values()]
    return {one.file for one in ranges if isinstance(one, FileRange)}


def _behind(storage: Storage) -> Iterable[Array]:
    """Return the arrays that what a storage gives is computed from."""
    if isinstance(storage, Decoded):
        return _arrays_in(storage.decoder)
    operands: tuple[Array, ...] = getattr(storage, "operands", ())  # of storages that are computed
    return operands


def _arrays_in(value: object) -> Iterator[Array]:
    """Yield the arrays a decoder holds, and those of the decoders inside it."""
    if isinstance(value, Array):
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _arrays_in(one)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _arrays_in(getattr(value, field.name))
