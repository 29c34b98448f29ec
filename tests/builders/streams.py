"""The layouts before ZIP: the legacy stream, and the tar archive with its tables."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from tests.builders.states import (
    MODEL,
    PERSISTENT,
    Stored,
    View,
    boolean,
    call,
    glob,
    group,
    legacy_pid,
    listed,
    number,
    pickled,
    state_dict,
    storages,
    table,
    text,
)

MAGIC = 0x1950A86A20F9469CFC6C


def system_information(*, little_endian: bool = True) -> bytes:
    sizes = table({"short": number(2), "int": number(4), "long": number(4)})
    return table({"protocol_version": number(1001), "little_endian": boolean(little_endian), "type_sizes": sizes})


def legacy_stream(
    views: Mapping[str, View] = MODEL,
    *,
    body: bytes | None = None,
    keys: Sequence[str] | None = None,
    magic: int = MAGIC,
    version: int = 1001,
    count_format: str = "<q",
    system: bytes | None = None,
) -> bytes:
    """Return a checkpoint in the legacy layout; others replace the parts of their names."""
    stored = {item.key: item for item in storages(views)}
    order = list(stored) if keys is None else list(keys)
    stream = (
        pickled(number(magic)) + pickled(number(version)) + pickled(system_information() if system is None else system)
    )
    stream += pickled(state_dict(views, legacy_pid) if body is None else body)
    stream += pickled(listed(*map(text, order)))
    for key in order:
        item = stored.get(key, Stored(key, "FloatStorage", 4, b""))
        stream += struct.pack(count_format, item.numel) + item.data
    return stream


def tar_header(name: str, size: int, kind: bytes = b"0") -> bytes:
    head = bytearray(512)
    head[: len(name)] = name.encode()
    head[124:136] = b"%011o\0" % size
    head[148:156] = b" " * 8
    head[156:157] = kind
    head[257:265] = b"ustar\x0000"
    head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def build_tar(members: Mapping[str, bytes]) -> bytes:
    """Return a tar archive of regular files."""
    blocks = b"".join(tar_header(name, len(data)) + data + bytes(-len(data) % 512) for name, data in members.items())
    return blocks + bytes(1024)


def tar_members(
    views: Mapping[str, View] = MODEL, windows: Sequence[tuple[int, int, int, int]] = ()
) -> dict[str, bytes]:
    """Return the members of a 2016 checkpoint; `windows` are views of storages (key, key looked into, offset, count)."""
    stored = storages(views)
    table_of_storages = pickled(number(len(stored)))
    for item in stored:
        head = group(number(int(item.key)), text("cpu"), glob("torch", item.storage_class))
        table_of_storages += pickled(head) + struct.pack("<q", item.numel) + item.data
    table_of_storages += pickled(listed(*(group(*map(number, window)) for window in windows)))
    table_of_tensors = pickled(number(len(views)))
    for key, view in enumerate(views.values(), 100):
        head = group(number(key), number(int(view.stored.key)), glob("torch", "FloatTensor"))
        rank = len(view.shape)
        numbers = (*view.shape, *view.strides, view.offset)
        table_of_tensors += pickled(head) + struct.pack(f"<i4x{2 * rank + 1}q", rank, *numbers)
    pairs = (group(text(name), text(str(key)) + PERSISTENT) for key, name in enumerate(views, 100))
    return {
        "./sys_info": pickled(system_information()),
        "./pickle": pickled(call(glob("collections", "OrderedDict"), listed(*pairs))),
        "./tensors": table_of_tensors,
        "./storages": table_of_storages,
    }
