"""A ZIP writer that can lie: every header field of every entry can be set apart from the truth.

`build_zip` writes entries as given; `torch_zip` the layout of `torch.save`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.builders.states import MODEL, View, pickled, state_dict, storages

STORED, DEFLATED = 0, 8


@dataclass(frozen=True)
class Entry:
    """One entry. None in an optional field means the true value.

    Attributes:
        size: declared size of the contents.
        crc: declared checksum.
        local_name: name in the local header.
        local_flags: flags in the local header.
        local_crc: checksum in the local header.
        descriptor: put zeros into the local header and sizes behind the data.
        wide: put sizes and offset into zip64 fields.
        header_at: claim that the local header lies there.
        extra: local extra field, as used for alignment.
    """

    name: str
    data: bytes = b""
    method: int = STORED
    flags: int = 0
    size: int | None = None
    crc: int | None = None
    local_name: str | None = None
    local_flags: int | None = None
    local_crc: int | None = None
    descriptor: bool = False
    wide: bool = False
    header_at: int | None = None
    extra: bytes = b""


@dataclass(frozen=True)
class _Fields:
    raw: bytes
    compressed: int
    size: int
    crc: int
    flags: int


def _fields(entry: Entry) -> _Fields:
    raw = entry.data
    if entry.method == DEFLATED:
        deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        raw = deflater.compress(raw) + deflater.flush()
    size = len(entry.data) if entry.size is None else entry.size
    crc = zlib.crc32(entry.data) if entry.crc is None else entry.crc
    return _Fields(raw, len(raw), size, crc, entry.flags | (8 if entry.descriptor else 0))


def _local(entry: Entry, fields: _Fields) -> bytes:
    name = (entry.name if entry.local_name is None else entry.local_name).encode()
    crc, compressed, size = fields.crc if entry.local_crc is None else entry.local_crc, fields.compressed, fields.size
    if entry.descriptor:
        crc = compressed = size = 0
    extra = entry.extra
    if entry.wide:
        extra = struct.pack("<2H2Q", 1, 16, size, compressed) + extra
        compressed = size = 0xFFFFFFFF
    flags = fields.flags if entry.local_flags is None else entry.local_flags
    head = (b"PK\x03\x04", 45, flags, entry.method, 0, 0, crc, compressed, size, len(name), len(extra))
    return struct.pack("<4s5H3L2H", *head) + name + extra


def _central(entry: Entry, fields: _Fields, header_at: int) -> bytes:
    name = entry.name.encode()
    compressed, size, extra = fields.compressed, fields.size, b""
    if entry.wide:
        extra = struct.pack("<2H", 7, 0) + struct.pack("<2H3Q", 1, 24, size, compressed, header_at)
        compressed = size = header_at = 0xFFFFFFFF
    head = (b"PK\x01\x02", 45, 45, fields.flags, entry.method, 0, 0, fields.crc, compressed, size)
    tail = (len(name), len(extra), 0, 0, 0, 0, header_at)
    return struct.pack("<4s6H3L5H2L", *head, *tail) + name + extra


def build_zip(
    entries: Sequence[Entry], *, before: bytes = b"", comment: bytes = b"", wide_end: bool = False, disk: int = 0
) -> bytes:
    """Return the archive; `before` lies before it and is not counted in its offsets."""
    body, directory = b"", b""
    for entry in entries:
        fields = _fields(entry)
        header_at = len(body) if entry.header_at is None else entry.header_at
        directory += _central(entry, fields, header_at)
        body += _local(entry, fields) + fields.raw
        if entry.descriptor:
            body += struct.pack("<4s3L", b"PK\x07\x08", fields.crc, fields.compressed, fields.size)
    start, count = len(body), len(entries)
    end = b""
    if wide_end:
        end += struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, len(directory), start)
        end += struct.pack("<4sLQL", b"PK\x06\x07", 0, start + len(directory), 1)
        count, length, start = 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF
    else:
        length = len(directory)
    end += struct.pack("<4s4H2LH", b"PK\x05\x06", disk, disk, count, count, length, start, len(comment)) + comment
    return before + body + directory + end


def torch_entries(
    views: Mapping[str, View] = MODEL, *, root: str = "archive/", method: int = STORED, folder: str = "data/"
) -> list[Entry]:
    """Return the entries of `torch.save` for a state dict."""
    return [
        Entry(f"{root}data.pkl", pickled(state_dict(views)), method),
        *(Entry(f"{root}{folder}{stored.key}", stored.data, method) for stored in storages(views)),
        Entry(f"{root}version", b"3\n"),
    ]


def torch_zip(views: Mapping[str, View] = MODEL, *, method: int = STORED, folder: str = "data/") -> bytes:
    """Return a checkpoint in the ZIP layout."""
    return build_zip(torch_entries(views, method=method, folder=folder))
