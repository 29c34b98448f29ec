"""Storages that are computed when they are first read: whole arrays into a temporary file, small factors into memory.

Not here: what is computed (`views` asks for spools, `arithmetic` for factors), and reading blocks (`evaluation`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from importer.arrays.nodes import Array
from importer.errors import Location

__all__ = ["DeferredStorage", "TempFileStorage"]


@dataclass(slots=True, eq=False)
class TempFileStorage:
    """The dense bytes of an array, written block by block into an unnamed temporary file on first use.

    The way out for movements that strides cannot express; memory stays bounded whatever the size.
    """

    array: Array
    _descriptor: int | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def nbytes(self) -> int:
        """Length in bytes."""
        return self.array.nbytes

    @property
    def where(self) -> Location:
        """A temporary file has no name."""
        return Location(path="<temporary file>")

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill the file if that has not happened yet, then read."""
        with self._lock:
            if self._descriptor is None:
                self._descriptor = self._filled()
        done = 0
        while done < len(buffer):
            done += os.preadv(self._descriptor, [buffer[done:]], offset + done)

    def _filled(self) -> int:
        import tempfile

        from importer.arrays.evaluation import write_to

        with tempfile.TemporaryFile() as spool:
            write_to(self.array, spool.fileno(), 0)
            return os.dup(spool.fileno())

    def __del__(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


@dataclass(slots=True, eq=False)
class DeferredStorage:
    """Bytes that follow from other tensors (norms, say), computed on first use and kept in memory."""

    nbytes: int
    where: Location
    produce: Callable[[], bytes | memoryview]
    _data: bytes | memoryview | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Compute if that has not happened yet, then copy."""
        with self._lock:
            if self._data is None:
                self._data = self.produce()
        buffer[:] = memoryview(self._data)[offset : offset + len(buffer)]
