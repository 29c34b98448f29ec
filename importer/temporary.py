"""Open descriptors, temporary files, and bytes that are computed when they are first read, into one or into memory.

Not here: files of a source and what lies in them (`importer.storages`), and what is computed (`importer.arrays`).
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from importer.errors import DiskSpaceError, Location, WriteError
from importer.system import FULL, SYSTEM

__all__ = ["DeferredStorage", "Descriptor", "TempFileStorage", "TemporaryFile", "temporary_errors", "write_all"]


class Descriptor:
    """An open file descriptor, owned: positioned reads from any thread, closed when the last user drops it."""

    __slots__ = ("_lock", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self._lock = threading.Lock()

    def read_once(self, offset: int, buffer: memoryview) -> int:
        """Read up to `len(buffer)` bytes at `offset`; return how many came (0 at the end of the file)."""
        if SYSTEM.has_positioned_reads:
            return SYSTEM.read_at(self.number, buffer, offset)
        # Windows has no positioned read: the position belongs to the descriptor, so seek and read go together.
        with self._lock:
            os.lseek(self.number, offset, os.SEEK_SET)
            block = os.read(self.number, len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill `buffer` from `offset` on; return how many bytes the file had, less than asked for only at its end."""
        done = 0
        while done < len(buffer):
            count = self.read_once(offset + done, buffer[done:])
            if count == 0:
                break
            done += count
        return done

    def __del__(self) -> None:
        SYSTEM.close(self.number)


class TemporaryFile:
    """A file without a name in the temporary folder; gone when the last user drops it.

    What goes wrong with it is told of that folder, wherever the output is.
    """

    __slots__ = ("_descriptor", "nbytes")

    def __init__(self, nbytes: int) -> None:
        """Create the file; `nbytes` is what it is to hold.

        Raises:
            DiskSpaceError: there is no room.
            WriteError: the system refuses otherwise.
        """
        self.nbytes = nbytes
        with temporary_errors(nbytes):
            self._descriptor = Descriptor(SYSTEM.open_temporary())

    @property
    def descriptor(self) -> int:
        """The open file."""
        return self._descriptor.number

    def write(self, offset: int, data: bytes) -> None:
        """Write `data` at `offset`.

        Raises:
            DiskSpaceError: there is no room.
            WriteError: the system refuses otherwise.
        """
        with temporary_errors(self.nbytes):
            write_all(self.descriptor, memoryview(data), offset)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with the bytes at `offset`.

        Raises:
            WriteError: the system cannot read what was written.
        """
        with temporary_errors(self.nbytes):
            if self._descriptor.read_into(offset, buffer) < len(buffer):
                raise OSError(errno.EIO, "it has become shorter")


def write_all(descriptor: int, data: memoryview, offset: int) -> None:
    """Write all of `data` at `offset`; the system may take less at once.

    Raises:
        OSError: the system refuses, or takes nothing any more.
    """
    done = 0
    while done < len(data):
        count = SYSTEM.write_at(descriptor, data[done:] if done else data, offset + done)
        if count <= 0:
            raise OSError(errno.EIO, "the system takes no more bytes")
        done += count


@contextmanager
def temporary_errors(nbytes: int) -> Iterator[None]:
    """Turn what the system reports of a temporary file of `nbytes` into errors of ours.

    Raises:
        DiskSpaceError: there is no room.
        WriteError: anything else.
    """
    try:
        yield
    except OSError as error:
        import tempfile

        folder = tempfile.tempdir or os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - named in a message, not used
        kind = DiskSpaceError if error.errno in FULL else WriteError
        raise kind(
            f"a temporary file cannot be used: {error.strerror or error}",
            where=Location(path=folder),
            how=f"Point TMPDIR to a folder with {nbytes} free bytes." if nbytes else "Point TMPDIR to another folder.",
        ) from error


@dataclass(slots=True, eq=False)
class TempFileStorage:
    """Bytes that are computed into an unnamed temporary file on first use.

    Attributes:
        nbytes: length in bytes.
        fill: writes them into an open file, block by block.
        operands: the arrays they follow from.
    """

    nbytes: int
    fill: Callable[[int], None]
    operands: tuple[Any, ...]
    _file: TemporaryFile | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

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
        file = TemporaryFile(self.nbytes)
        with temporary_errors(self.nbytes):
            self.fill(file.descriptor)
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
    operands: tuple[Any, ...] = ()
    _data: bytes | memoryview | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Compute if that has not happened yet, then copy."""
        with self._lock:
            if self._data is None:
                self._data = self.produce()
        buffer[:] = memoryview(self._data)[offset : offset + len(buffer)]
