"""Where tensor bytes lie, and how a range of them is read: one protocol, and the storages every container needs.

A storage is a flat run of bytes. Opening a checkpoint makes storages; nothing is read from them before
`Storage.read_into`. Not here: element types, shapes and strides (`importer.arrays`), and finding out where in a file a
storage lies (`importer.containers`).
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from importer.budgets import Budget
from importer.errors import (
    CorruptContainerError,
    Location,
    SourceError,
    TruncatedError,
    shown,
)
from importer.system import SYSTEM
from importer.temporary import Descriptor, TemporaryFile

__all__ = [
    "FileRange",
    "InflatedRange",
    "MemoryStorage",
    "SourceFile",
    "Storage",
]

_INFLATE_BYTES = 1 << 20


class SourceFile:
    """A file opened once for positioned reads from any thread; closed when the last user drops it.

    Attributes:
        path: as given by the user.
        size: bytes.
        budget: what reading it may cost; one account for all files of a source.
    """

    __slots__ = ("__weakref__", "_descriptor", "_state", "budget", "path", "size")

    def __init__(self, path: str | os.PathLike[str], budget: Budget | None = None) -> None:
        """Open `path`, and pay its size into `budget`.

        Raises:
            OSError: as the system gives it; containers turn it into an error of ours with advice.
        """
        self.path = os.fspath(path)
        number = SYSTEM.open_to_read(self.path)
        self._descriptor = Descriptor(number)
        status = SYSTEM.fstat(number)
        self.size = status.st_size
        self._state = _state_of(status)
        self.budget = Budget() if budget is None else budget
        self.budget.add(self.size)

    @property
    def descriptor(self) -> int:
        """The open file descriptor, for in-kernel copies; positioned reads only."""
        return self._descriptor.number

    def check_unchanged(self) -> None:
        """Check that nobody has written to the file, or put another in its place, since it was opened.

        Raises:
            SourceError: somebody has: what was read may be of two files.
        """
        try:
            now = _state_of(SYSTEM.stat(Path(self.path)))
        except OSError as error:
            now = None
            reason = f"the file was there when it was opened, and is not any more: {error.strerror}"
        else:
            reason = "the file was changed while it was read"
        if now != self._state:
            raise SourceError(
                reason, where=Location(path=self.path), how="Wait until nothing writes to it any more, and run again."
            )

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes at `offset`.

        Raises:
            TruncatedError: the file ends before.
            SourceError: the system could not read.
        """
        if offset < 0 or length < 0 or offset + length > self.size:
            raise self._truncated(offset, length)
        buffer = bytearray(length)
        self.read_into(offset, memoryview(buffer))
        return bytes(buffer)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with the bytes at `offset`.

        Raises:
            TruncatedError: the file ends before (it may have shrunk since it was opened).
            SourceError: the system could not read.
        """
        try:
            done = self._descriptor.read_into(offset, buffer)
        except OSError as error:
            where = Location(path=self.path, offset=offset)
            raise SourceError(
                f"reading failed: {error.strerror}", where=where, how="Check the disk or copy the file anew."
            ) from error
        if done < len(buffer):
            raise self._truncated(offset, len(buffer))

    def _truncated(self, offset: int, length: int) -> TruncatedError:
        if min(offset, length) >= 0 and offset + length <= self.size:
            return TruncatedError(
                f"the file had {self.size} bytes when it was opened and has become shorter",
                where=Location(path=self.path, offset=offset),
                how="Wait until nothing writes to it any more.",
            )
        return TruncatedError(
            f"the file has {self.size} bytes but {length} bytes at {offset} are needed",
            where=Location(path=self.path, offset=offset),
            how="The file is cut off: download or copy it again.",
        )


def _state_of(status: os.stat_result) -> tuple[int, ...]:
    """Return what tells a file and its contents from others: a time can be set back, but not that of the last change."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@runtime_checkable
class Storage(Protocol):
    """A flat run of bytes that can be read in pieces, from any thread."""

    @property
    def nbytes(self) -> int:
        """Length in bytes."""
        ...

    @property
    def where(self) -> Location:
        """Where it lies, for errors."""
        ...

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` (bytes, writable, contiguous) from `offset` bytes into the storage."""
        ...


class FileRange:
    """Bytes that lie as they are in a file: the case in-kernel copies and partial reads are fast for.

    Attributes:
        file: the open file.
        nbytes: length in bytes.
        record: name of the record in the archive, if it is one.
    """

    __slots__ = ("_offset", "file", "nbytes", "record")

    def __init__(
        self, file: SourceFile, offset: int | Callable[[], int], nbytes: int, record: str | None = None
    ) -> None:
        """Describe the range; `offset` may be a function, called at the first read.

        A record of a ZIP archive has a header of its own before the data, which opening a file with 100,000 records
        has no reason to read. The function raises a SourceError where that header contradicts the directory.
        """
        self.file = file
        self.nbytes = nbytes
        self.record = record
        self._offset = offset

    @property
    def offset(self) -> int:
        """Where the range begins in the file.

        Raises:
            SourceError: the record's own header is damaged or contradicts the directory of the archive.
        """
        offset = self._offset
        if not isinstance(offset, int):
            offset = self._offset = offset()
        return offset

    @property
    def where(self) -> Location:
        """File, record, and the offset where it is known already."""
        offset = self._offset if isinstance(self._offset, int) else None
        return Location(path=self.file.path, record=self.record, offset=offset)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Read in place."""
        self.file.read_into(self.offset + offset, buffer)


@dataclass(frozen=True, slots=True, eq=False)
class MemoryStorage:
    """Bytes already in memory: numbers that sit in the pickle itself, constants, and small computed factors."""

    data: bytes | bytearray | memoryview
    where: Location

    @property
    def nbytes(self) -> int:
        """Length in bytes."""
        return len(self.data)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Copy."""
        buffer[:] = memoryview(self.data)[offset : offset + len(buffer)]


@dataclass(slots=True, eq=False)
class InflatedRange:
    """A deflated entry of an archive, inflated on first use into an unnamed temporary file.

    Deflate has no random access; a file keeps memory bounded whatever the order of reads. `nbytes` is what the archive
    declares and the stream must give exactly that; `crc` 0 means "not computed" and is not compared.

    Attributes:
        compressed: the deflated bytes.
        nbytes: length after inflation.
        crc: CRC-32 of the inflated bytes.
        record: name of the entry.
    """

    compressed: FileRange
    nbytes: int
    crc: int
    record: str
    _spool: TemporaryFile | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def where(self) -> Location:
        """File, record and offset of the compressed bytes."""
        return self.compressed.where

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Inflate if that has not happened yet, then read.

        Raises:
            CorruptContainerError: the stream is damaged, or its length or checksum is not the declared one.
            WriteError: there is no room for the temporary file.
        """
        with self._lock:
            spool = self._spool = self._spool or self._inflate()
        if offset + len(buffer) > self.nbytes:
            raise self._corrupt(f"{offset + len(buffer)} bytes were asked of {self.nbytes}")
        spool.read_into(offset, buffer)

    def blocks(self) -> Iterator[bytes]:
        """Yield the inflated bytes in blocks of at most 1 MiB whatever the ratio, checking length and checksum.

        Raises:
            CorruptContainerError: as for `read_into`, at the latest after the last block.
        """
        produced = crc = 0
        try:
            for block in self._inflated_blocks():
                produced += len(block)
                if produced > self.nbytes:
                    raise self._corrupt(f"it inflates to more than the declared {self.nbytes} bytes")
                crc = zlib.crc32(block, crc)
                yield block
        except zlib.error as error:
            raise self._corrupt(f"the compressed data is damaged ({error})") from error
        if produced != self.nbytes:
            raise self._corrupt(f"it inflates to {produced} bytes, {self.nbytes} are declared")
        if self.crc and crc != self.crc:
            raise self._corrupt(f"its checksum is {crc:#010x}, the directory says {self.crc:#010x}")

    def _inflate(self) -> TemporaryFile:
        spool = TemporaryFile(self.nbytes)
        done = 0
        for block in self.blocks():
            spool.write(done, block)
            done += len(block)
        return spool

    def _inflated_blocks(self) -> Iterator[bytes]:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        consumed = 0
        pending = b""
        while not inflater.eof:
            if not pending:
                size = min(_INFLATE_BYTES, self.compressed.nbytes - consumed)
                pending = self.compressed.file.read(self.compressed.offset + consumed, size)
                consumed += size
            block = inflater.decompress(pending, _INFLATE_BYTES)
            # The inflater may hold output back when its input is used up; only silence on no input is the end.
            if not block and not pending and not inflater.eof:
                raise self._corrupt("the compressed data ends too early")
            pending = inflater.unconsumed_tail
            yield block

    def _corrupt(self, what: str) -> CorruptContainerError:
        return CorruptContainerError(
            f"record {shown(self.record)} is damaged: {what}", where=self.where, how="Download or copy the file again."
        )
