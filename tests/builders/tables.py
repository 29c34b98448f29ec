"""Layouts that name arrays themselves: safetensors and burnpack, and the CBOR that burnpack metadata is."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence

Value = None | bool | int | float | str | Sequence["Value"] | Mapping[str, "Value"]


def safetensors(header: Mapping[str, object] | bytes, data: bytes = b"", *, length: int | None = None) -> bytes:
    """Return a file with that header; `length` is what the file says the header has."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data


def safetensors_entry(dtype: str, shape: Sequence[int], start: int, end: int) -> dict[str, object]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


def cbor_head(major: int, value: int) -> bytes:
    if value < 24:
        return bytes([major << 5 | value])
    for info, width in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if value < 1 << (8 * width):
            return bytes([major << 5 | info]) + value.to_bytes(width, "big")
    raise OverflowError(value)


def cbor(value: Value) -> bytes:
    """Encode plain values, maps in the order given."""
    match value:
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if value else b"\xf4"
        case int():
            return cbor_head(0, value) if value >= 0 else cbor_head(1, -1 - value)
        case float():
            return b"\xfb" + struct.pack(">d", value)
        case str():
            return cbor_head(3, len(value.encode())) + value.encode()
        case Mapping():
            items = b"".join(cbor(key) + cbor(item) for key, item in value.items())
            return cbor_head(5, len(value)) + items
        case _:
            return cbor_head(4, len(value)) + b"".join(map(cbor, value))


def burnpack(metadata: Value | bytes, data: bytes = b"", *, version: int = 1, length: int | None = None) -> bytes:
    """Return a file with that metadata and the data at the next multiple of 256."""
    raw = metadata if isinstance(metadata, bytes) else cbor(metadata)
    head = struct.pack("<4sHL", b"NRUB", version, len(raw) if length is None else length) + raw
    return head + bytes(-len(head) % 256) + data


def burnpack_entry(
    dtype: Value, shape: Sequence[int], start: int, end: int, param_id: int | None = None
) -> dict[str, Value]:
    entry: dict[str, Value] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    return entry if param_id is None else {**entry, "param_id": param_id}
