"""Storages that are computed when they are first read: whole arrays into a temporary file, small factors into memory.

Not here: what is computed (`views` asks for spools, `arithmetic` for factors), and reading blocks (`evaluation`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from importer.arrays.nodes import Array
from importer.errors import Location
from importer.storages import TemporaryFile, temporary_errors

__all__ = ["DeferredStorage", "TempFileStorage"]


@dataclass(slots=True, eq=False)
class TempFileStorage:
    """The dense bytes of an array, written block by block into an unnamed temporary file on first use.

    The way out for movements that strides cannot express; memory stays bounded whatever the size.
    """

    array: Array
    _file: TemporaryFile | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def nbytes(self) -> int:
        """Length in bytes."""
        return self.array.nbytes

    @property
    def operands(self) -> tuple[Array, ...]:
        """The array, as for `DeferredStorage`."""
        return (self.array,)

    @property
    def where(self) -> Location:
        """A temporary file has no name."""
        return Location(path="<temporary file>")

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill the file if that has not happened yet, then read."""
        with self._lock:
            file = self._file = self._file or self._filled()
        file.read_into(offset, buffer)

    def _filled(self) -> TemporaryFile:
        from importer.arrays.evaluation import write_to

        file = TemporaryFile(self.nbytes)
        with temporary_errors(self.nbytes):
            write_to(self.array, file.descriptor, 0)
        return file


@dataclass(slots=True, eq=False)
class DeferredStorage:
    """Bytes that follow from other tensors (norms, say), computed on first use and kept in memory.

    Attributes:
        nbytes: length in bytes.
        where: for errors.
        produce: what computes them.
        operands: the arrays they follow from.
    """

    nbytes: int
    where: Location
    produce: Callable[[], bytes | memoryview]
    operands: tuple[Array, ...] = ()
    _data: bytes | memoryview | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Compute if that has not happened yet, then copy."""
        with self._lock:
            if self._data is None:
                self._data = self.produce()
        buffer[:] = memoryview(self._data)[offset : offset + len(buffer)]
