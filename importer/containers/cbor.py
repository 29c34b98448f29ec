"""A decoder for the part of CBOR that burnpack metadata uses, with the refusals that untrusted metadata needs.

Decoded: integers, texts, byte strings, arrays, maps, booleans, null and floats of every width, of definite and indefinite
length; tags are passed over, as Burn's own decoder does. Refused: a key twice in one map (Burn takes the last one, so
two readers could see two files), keys that are no texts, nesting deeper than 128 (Burn's bound), bytes left over.

Format facts: RFC 8949. Not here: encoding (`importer.writers`), and what the metadata means (`burnpack_file`).
"""

from __future__ import annotations

import struct

from importer.errors import CorruptContainerError, Location, shown

__all__ = ["decode_cbor"]

_MAX_DEPTH = 128
_FLOATS = {25: struct.Struct(">e"), 26: struct.Struct(">f"), 27: struct.Struct(">d")}
_SIMPLE = {20: False, 21: True, 22: None, 23: None}
_BREAK = 0xFF
_INDEFINITE = 31

# Major types (the three upper bits of an item's first byte).
_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG = range(7)


def decode_cbor(data: bytes, where: Location) -> object:
    """Return the single value in `data`.

    Raises:
        CorruptContainerError: no well-formed CBOR, or something this module refuses; carries the offset.
    """
    decoder = _Decoder(data)
    try:
        value = decoder.item(0)
        if decoder.at < len(data):
            raise ValueError(f"{len(data) - decoder.at} bytes are left over")  # noqa: TRY301 - translated just below
    except (ValueError, IndexError, struct.error) as error:
        what = "it ends too early" if isinstance(error, (IndexError, struct.error)) else str(error)
        base = where.offset or 0
        raise CorruptContainerError(
            f"the metadata is damaged: {what}",
            where=Location(path=where.path, record=where.record, offset=base + decoder.at),
            how="Download or copy the file again.",
        ) from error
    return value


class _Decoder:
    """A cursor over the bytes. Faults are ValueError, IndexError and struct.error, translated in one place above."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def item(self, depth: int) -> object:
        """Decode one item; `depth` is how many arrays, maps and tags are around it."""
        if depth > _MAX_DEPTH:
            raise ValueError(f"it is nested more than {_MAX_DEPTH} deep")
        first = self.data[self.at]
        self.at += 1
        major, info = first >> 5, first & 31
        if major > _TAG:
            return self._simple(info)
        argument = None if info == _INDEFINITE and _BYTES <= major <= _MAP else self._argument(info)
        match major:
            case 0 | 1:
                number = argument or 0
                return number if major == _UNSIGNED else -1 - number
            case 2 | 3:
                return self._string(major, argument)
            case 4:
                return self._array(argument, depth)
            case 5:
                return self._map(argument, depth)
            case _:
                return self.item(depth + 1)

    def _argument(self, info: int) -> int:
        """Decode the number that is part of an item's head."""
        if info < 24:  # noqa: PLR2004 - smaller numbers stand in the first byte itself
            return info
        if info > 27:  # noqa: PLR2004 - RFC 8949 section 3 reserves these
            raise ValueError(f"an item begins with the reserved value {info}")
        return int.from_bytes(self._take(1 << (info - 24)), "big")

    def _take(self, length: int) -> bytes:
        taken = self.data[self.at : self.at + length]
        if len(taken) != length:
            raise ValueError("it ends too early")
        self.at += length
        return taken

    def _string(self, major: int, length: int | None) -> str | bytes:
        if length is None:
            chunks = []
            while not self._ends():
                first = self.data[self.at]
                self.at += 1
                if first >> 5 != major:
                    raise ValueError("a string is put together from something else")
                chunks.append(self._take(self._argument(first & 31)))
            raw = b"".join(chunks)
        else:
            raw = self._take(length)
        return raw.decode("utf-8") if major == _TEXT else raw

    def _array(self, length: int | None, depth: int) -> list[object]:
        values: list[object] = []
        while not self._ends() if length is None else len(values) < length:
            values.append(self.item(depth + 1))
        return values

    def _map(self, length: int | None, depth: int) -> dict[str, object]:
        table: dict[str, object] = {}
        while not self._ends() if length is None else len(table) < length:
            key = self.item(depth + 1)
            if not isinstance(key, str):
                raise ValueError(f"the key {shown(key)} is no text")  # noqa: TRY004 - one kind of fault, translated above
            if key in table:
                raise ValueError(f"the key {shown(key)} stands twice in one map")
            table[key] = self.item(depth + 1)
        return table

    def _ends(self) -> bool:
        """Whether the item of indefinite length ends here; passes over the mark if so."""
        ends = self.data[self.at] == _BREAK
        self.at += ends
        return ends

    def _simple(self, info: int) -> object:
        if info in _FLOATS:
            packed = _FLOATS[info]
            (value,) = packed.unpack(self._take(packed.size))
            return value
        if info not in _SIMPLE:
            raise ValueError(f"the simple value {info} is not known")
        return _SIMPLE[info]
