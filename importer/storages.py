"""Where tensor bytes lie, and how a range of them is read: one protocol, and the storages every container needs.

A storage is a flat run of bytes. Opening a checkpoint makes storages; nothing is read from them before
`Storage.read_into`. Not here: element types, shapes and strides (`importer.arrays`), and finding out where in a file a
storage lies (`importer.containers`).
"""

from __future__ import annotations

import os
import tempfile
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from importer.errors import CorruptContainerError, Location, SourceError, TruncatedError

__all__ = ["FileRange", "InflatedRange", "MemoryStorage", "SourceFile", "Storage"]

_INFLATE_BYTES = 1 << 20


class SourceFile:
    """A file opened once for positioned reads from any thread; closed when the last user drops it.

    Attributes:
        path: as given by the user.
        size: bytes.
    """

    __slots__ = ("__weakref__", "_descriptor", "path", "size")

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open `path`.

        Raises:
            OSError: as the system gives it; containers turn it into an error of ours with advice.
        """
        self.path = os.fspath(path)
        self._descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
        self.size = os.fstat(self._descriptor).st_size

    @property
    def descriptor(self) -> int:
        """The open file descriptor, for in-kernel copies; positioned reads only."""
        return self._descriptor

    def read(self, offset: int, length: int) -> bytes:
        """Return `length` bytes at `offset`.

        Raises:
            TruncatedError: the file ends before.
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
        done = 0
        length = len(buffer)
        while done < length:
            try:
                count = os.preadv(self._descriptor, [buffer[done:]], offset + done)
            except OSError as error:
                where = Location(path=self.path, offset=offset + done)
                raise SourceError(
                    f"reading failed: {error.strerror}", where=where, how="Check the disk or copy the file anew."
                ) from error
            if count == 0:
                raise self._truncated(offset, length)
            done += count

    def _truncated(self, offset: int, length: int) -> TruncatedError:
        return TruncatedError(
            f"the file has {self.size} bytes but {length} bytes at {offset} are needed",
            where=Location(path=self.path, offset=offset),
            how="The file is cut off: download or copy it again.",
        )

    def __del__(self) -> None:
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            os.close(descriptor)


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


@dataclass(frozen=True, slots=True, eq=False)
class FileRange:
    """Bytes that lie as they are in a file: the case in-kernel copies and partial reads are fast for."""

    file: SourceFile
    offset: int
    nbytes: int
    record: str | None = None

    @property
    def where(self) -> Location:
        """File, record and offset."""
        return Location(path=self.file.path, record=self.record, offset=self.offset)

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
    """

    file: SourceFile
    offset: int
    compressed_bytes: int
    nbytes: int
    crc: int
    record: str
    _spool: int | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def where(self) -> Location:
        """File, record and offset of the compressed bytes."""
        return Location(path=self.file.path, record=self.record, offset=self.offset)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Inflate if that has not happened yet, then read.

        Raises:
            CorruptContainerError: the stream is damaged, or its length or checksum is not the declared one.
        """
        with self._lock:
            if self._spool is None:
                self._spool = self._inflate()
        done = 0
        while done < len(buffer):
            count = os.preadv(self._spool, [buffer[done:]], offset + done)
            if count == 0:
                raise self._corrupt(f"{offset + len(buffer)} bytes were asked of {self.nbytes}")
            done += count

    def _inflate(self) -> int:
        """Inflate everything, block by block, into an unnamed file; return its descriptor."""
        produced = crc = 0
        with tempfile.TemporaryFile() as spool:
            try:
                for block in self._inflated_blocks():
                    produced += len(block)
                    if produced > self.nbytes:
                        raise self._corrupt(f"it inflates to more than the declared {self.nbytes} bytes")
                    crc = zlib.crc32(block, crc)
                    spool.write(block)
            except zlib.error as error:
                raise self._corrupt(f"the compressed data is damaged ({error})") from error
            if produced != self.nbytes:
                raise self._corrupt(f"it inflates to {produced} bytes, {self.nbytes} are declared")
            if self.crc and crc != self.crc:
                raise self._corrupt(f"its checksum is {crc:#010x}, the directory says {self.crc:#010x}")
            spool.flush()
            return os.dup(spool.fileno())

    def _inflated_blocks(self) -> Iterator[bytes]:
        """Yield the uncompressed bytes in blocks of at most 1 MiB, whatever the compression ratio."""
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        consumed = 0
        while not inflater.eof and consumed < self.compressed_bytes:
            size = min(_INFLATE_BYTES, self.compressed_bytes - consumed)
            pending = self.file.read(self.offset + consumed, size)
            consumed += size
            while pending and not inflater.eof:
                yield inflater.decompress(pending, _INFLATE_BYTES)
                pending = inflater.unconsumed_tail
        if not inflater.eof:
            raise self._corrupt("the compressed data ends too early")

    def _corrupt(self, what: str) -> CorruptContainerError:
        return CorruptContainerError(
            f"record {self.record!r} is damaged: {what}", where=self.where, how="Download or copy the file again."
        )

    def __del__(self) -> None:
        if getattr(self, "_spool", None) is not None:
            os.close(self._spool)  # type: ignore[arg-type]
