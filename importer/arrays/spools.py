"""Storages that are computed when they are first read: whole arrays into a temporary file, small factors into memory.

Not here: what is computed (`movement` asks for spools, `arithmetic` for factors), and reading blocks (`evaluation`).
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO

from importer.arrays.nodes import Array
from importer.errors import Location

__all__ = ["Deferred", "Spool"]


@dataclass(slots=True, eq=False)
class Spool:
    """The dense bytes of an array, written block by block into an unnamed temporary file on first use.

    The way out for movements that strides cannot express; memory stays bounded whatever the size.
    """

    array: Array
    _file: BinaryIO | None = field(default=None, repr=False)
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
            if self._file is None:
                self._file = self._filled()
        done = 0
        while done < len(buffer):
            done += os.preadv(self._file.fileno(), [buffer[done:]], offset + done)

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def _filled(self) -> BinaryIO:
        from importer.arrays.evaluation import write_to

        spool = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this storage
        write_to(self.array, spool.fileno(), 0)
        return spool


@dataclass(slots=True, eq=False)
class Deferred:
    """A few bytes that follow from other tensors (norms, say), computed on first use and kept."""

    nbytes: int
    where: Location
    produce: Callable[[], bytes]
    _data: bytes | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Compute if that has not happened yet, then copy."""
        with self._lock:
            if self._data is None:
                self._data = self.produce()
        buffer[:] = memoryview(self._data)[offset : offset + len(buffer)]
