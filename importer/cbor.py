"""CBOR (RFC 8949), read and written by the cbor2 library, held to what a file of weights may contain.

Decoding gives plain values and nothing else: a key twice in one map is refused (Burn takes the last one, so two readers could
see two files), and so are keys that are not texts, nesting deeper than Burn's own bound, bytes left over, and simple values
beyond booleans and null. Tags are passed over, as Burn's decoder does; what they would make is never made. Encoding gives the
bytes of Burn's encoder (ciborium): heads as short as possible, maps of definite length in the order given, each float in the
narrowest width that holds it. Not here: bounds on the size, which the caller knows before it reads; what the values mean.

cbor2 is imported on first use, so that listing other files does not wait for it.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from importer.errors import CorruptContainerError, Location, shown

if TYPE_CHECKING:
    import cbor2

__all__ = ["Encodable", "decode_cbor", "encode_cbor"]

Encodable = bool | int | float | str | Sequence["Encodable"] | Mapping[str, "Encodable"]
"""Values with a form here: integers lie within 64 bits, texts are valid Unicode."""

_MAX_DEPTH = 128
_TRACED = 1 << 20
_PLAIN = frozenset({str, int, float, bool, bytes, type(None)})
_MEANT_TAGS = (
    *(0, 1, 2, 3, 4, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261),
    *(1004, 43000, 43001, 55799),
)
"""Tags that cbor2 would make dates, fractions, patterns, addresses, sets or references of."""


def decode_cbor(data: bytes, where: Location) -> object:
    """Return the single value in `data`.

    Raises:
        CorruptContainerError: not well-formed CBOR, or something this module refuses; carries the offset.
    """
    import cbor2

    stream = io.BytesIO(data)
    try:
        value = _decoded(stream)
        if stream.tell() < len(data):
            raise ValueError(f"{len(data) - stream.tell()} bytes are left over")  # noqa: TRY301 - translated just below
    except (cbor2.CBORDecodeError, ValueError) as error:
        what = "it ends too early" if isinstance(error, cbor2.CBORDecodeEOF) else str(error)
        raise CorruptContainerError(
            f"the metadata is damaged: {what}",
            where=Location(
                path=where.path, record=where.record, offset=(where.offset or 0) + _end_of(data, stream.tell())
            ),
            how="Download or copy the file again.",
        ) from error
    return value


def _decoded(stream: io.BytesIO, read_size: int = 65536) -> object:
    import cbor2

    value = cbor2.CBORDecoder(
        stream,
        tag_hook=lambda tag, _: tag.value,
        semantic_decoders=dict.fromkeys(_MEANT_TAGS, lambda value, _: value),
        read_size=read_size,
        max_depth=_MAX_DEPTH,
        allow_duplicate_keys=False,
        strict_hashable_types=True,
    ).decode()
    _check_plain(value)
    return value


def _end_of(data: bytes, read: int) -> int:
    """Return how far decoding comes: once more and byte by byte if that does not take long, as the decoder reads ahead."""
    if len(data) > _TRACED:
        return read
    stream = io.BytesIO(data)
    with suppress(Exception):  # it is known to fail
        _decoded(stream, read_size=1)
    return stream.tell()


def _check_plain(value: object) -> None:
    """Check every value, without recursion.

    Raises:
        ValueError: one is not plain, or a key is not a text.
    """
    waiting: list[object] = [[value]]
    while waiting:
        container = waiting.pop()
        if isinstance(container, dict):
            if not {*map(type, container)} <= {str}:
                wrong = next(key for key in container if not isinstance(key, str))
                raise ValueError(f"the key {shown(wrong)} is not a text")
            inner: Sequence[object] = [*container.values()]
        else:
            assert isinstance(container, list)
            inner = container
        for item in inner:
            kind = type(item)
            if kind is dict or kind is list:
                waiting.append(item)
            elif kind not in _PLAIN:
                raise ValueError(f"{shown(str(item))} is not a plain value")


def encode_cbor(value: Encodable) -> bytes:
    """Return the CBOR form of `value`."""
    import cbor2

    return cbor2.dumps(value, encoders={float: _encode_float})


def _encode_float(encoder: cbor2.CBOREncoder, value: float) -> None:
    import cbor2

    encoder.write(cbor2.dumps(value, canonical=True))
