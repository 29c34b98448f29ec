"""Pickles one after another in a file, with raw bytes between them: the framing of the legacy stream and of tar members.

The length of a pickle is known only once it is read, and gigabytes of tensors may follow. So a small window is read and
parsed, and a larger one if the pickle goes on. Not here: what the pickles hold.
"""

from __future__ import annotations

import struct

from importer.errors import (
    CorruptContainerError,
    Location,
    MalformedPickleError,
    SourceError,
    TruncatedError,
    UnsupportedError,
)
from importer.limits import Limits
from importer.storages import FileRange, SourceFile
from importer.unpickling import Unpickled, unpickle

__all__ = ["PickleStream"]

_FIRST_WINDOW = 1 << 12
_GROWTH = 4
# Opcode and fixed-size argument of an instruction.
_LONGEST_HEAD = 9
_COUNT = struct.Struct("<q")


class PickleStream:
    """A cursor over a part of a file.

    Attributes:
        position: offset in the file of what comes next.
    """

    __slots__ = ("_end", "_file", "_limits", "position")

    def __init__(self, file: SourceFile, limits: Limits, start: int, end: int) -> None:
        self._file = file
        self._limits = limits
        self.position = start
        self._end = end

    @property
    def remaining(self) -> int:
        """Bytes that are left."""
        return self._end - self.position

    def pickle(self, record: str) -> Unpickled:
        """Read the next pickle; `record` names it in errors.

        Raises:
            TruncatedError: the bytes end within it.
            SourceError: as for `unpickle`.
        """
        where = Location(path=self._file.path, record=record, offset=self.position)
        window = _FIRST_WINDOW
        while True:
            size = min(window, self.remaining)
            try:
                data = self._file.read(self.position, size)
                tree = unpickle(data, where=where, limits=self._limits, budget=self._file.budget)
            except (TruncatedError, MalformedPickleError) as error:
                if size == self.remaining or not self._is_cut(error, size):
                    raise
                window *= _GROWTH
            else:
                self.position += tree.end
                return tree

    def _is_cut(self, error: SourceError, size: int) -> bool:
        """Whether an error in a window of `size` bytes may come from its end: an instruction may have been cut in two."""
        at = error.where.offset if error.where else None
        return isinstance(error, TruncatedError) or at is None or at >= self.position + size - _LONGEST_HEAD

    def read(self, length: int) -> bytes:
        """Read the next `length` bytes.

        Raises:
            TruncatedError: there are fewer.
        """
        self._require(length)
        data = self._file.read(self.position, length)
        self.position += length
        return data

    def storage(self, record: str, itemsize: int, numel: int | None) -> FileRange:
        """Pass over an element count and the elements; return where they lie.

        Torch writes elements least significant byte first on every machine, and so the count since 1.5; releases before
        that wrote the count as the machine has it, and the first ones the elements too. So a count with its bytes
        swapped leaves the order of the elements open (THPStorage_writeFileRaw in the releases).

        Args:
            record: names it in errors.
            itemsize: bytes per element.
            numel: the count declared elsewhere, if it is.

        Raises:
            TruncatedError: the file ends before.
            CorruptContainerError: the count is not the declared one.
            UnsupportedError: the count is big-endian.
        """
        where = Location(path=self._file.path, record=record, offset=self.position)
        raw = self.read(_COUNT.size)
        (count,) = _COUNT.unpack(raw)
        swapped = int.from_bytes(raw, "big", signed=True)
        unlikely = not 0 <= count * itemsize <= self.remaining if numel is None else count != numel
        if unlikely and (swapped == numel if numel is not None else 0 <= swapped * itemsize <= self.remaining):
            raise UnsupportedError(
                "this file was written on a big-endian machine by a release that leaves the order of its bytes open",
                where=where,
                how="Save it again with torch 1.6 or later.",
            )
        if count < 0 or numel not in {None, count}:
            raise CorruptContainerError(
                f"the storage has {count} elements, {numel} are declared",
                where=where,
                how="The file is damaged: download or copy it again.",
            )
        self._require(count * itemsize)
        storage = FileRange(self._file, self.position, count * itemsize, record)
        self.position += storage.nbytes
        return storage

    def _require(self, length: int) -> None:
        if length > self.remaining:
            raise TruncatedError(
                f"{length} bytes are needed here, {self.remaining} are left",
                where=Location(path=self._file.path, offset=self.position),
                how="The file is cut off: download or copy it again.",
            )
