"""The part of CBOR that burnpack metadata uses, byte for byte as Burn's encoder (ciborium) writes it.

Heads are as short as possible, maps keep the order given and have definite lengths, and a float takes the narrowest
width that holds it exactly, which is why a general library will not do (burn-spec 1.2). Not here: decoding.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence

__all__ = ["Encodable", "encode"]

Encodable = bool | int | float | str | bytes | Sequence["Encodable"] | Mapping[str, "Encodable"]
"""Values with a form here. Bytes are no byte string, which burnpack has none of, but a value that is encoded already."""

_HEADS = tuple(
    (1 << 8 * size, code, struct.Struct(f">B{form}").pack)
    for size, code, form in ((1, 24, "B"), (2, 25, "H"), (4, 26, "I"), (8, 27, "Q"))
)
_FLOATS = ((">e", b"\xf9"), (">f", b"\xfa"), (">d", b"\xfb"))
_NAN = b"\xf9\x7e\x00"
_IMMEDIATE = 24


def encode(value: Encodable) -> bytes:
    """Return the CBOR form of `value`; integers lie within 64 bits, texts are valid Unicode."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        data = value.encode()
        return _head(3, len(data)) + data
    if value is True or value is False:
        return b"\xf5" if value else b"\xf4"
    if isinstance(value, int):
        return _head(0, value) if value >= 0 else _head(1, -1 - value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, Mapping):
        return _head(5, len(value)) + b"".join([encode(key) + encode(item) for key, item in value.items()])
    return _head(4, len(value)) + b"".join([encode(item) for item in value])


def _head(major: int, number: int) -> bytes:
    if number < _IMMEDIATE:
        return bytes((major << 5 | number,))
    for bound, code, pack in _HEADS:
        if number < bound:
            return pack(major << 5 | code, number)
    raise OverflowError(f"{number} does not fit into 64 bits")


def _float(value: float) -> bytes:
    if math.isnan(value):
        return _NAN
    for form, lead in _FLOATS:
        try:
            data = struct.pack(form, value)
        except OverflowError:
            continue
        if struct.unpack(form, data)[0] == value:
            return lead + data
    raise AssertionError(value)
