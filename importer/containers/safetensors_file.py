"""The safetensors layout: 64-bit header length, JSON header, tensor data without gaps.

The rules are those of the reference implementation: a bounded header that begins with `{`, ranges in order that start at
0, leave no gap, never overlap and end with the file. Not here: sharded sets (`sharded_set`), writing.

Format facts: the README of huggingface/safetensors, and `safetensors/src/tensor.rs` for the checks.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

from importer.arrays import Array, contiguous
from importer.containers.base import Opaque, TableContainer
from importer.containers.files import parse_json_object
from importer.dtypes import DTYPES, DType
from importer.errors import CorruptContainerError, Location, TruncatedError, UnsupportedError, shown
from importer.limits import DEFAULT_LIMITS, Limits
from importer.storages import FileRange, SourceFile

__all__ = ["is_safetensors", "open_safetensors"]

_LENGTH = struct.Struct("<Q")
_METADATA = "__metadata__"
_PACKED_BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
_LARGEST = 1 << 63
_HOW = "Download or copy the file again."
_WRITER = (
    "The program that wrote the file is at fault, not the download: save it again with every value of it as a text."
)


def is_safetensors(head: bytes) -> bool:
    """Whether a file that begins with `head` looks like this layout; headers of 4 GiB are not expected."""
    return head[4:9] == b"\0\0\0\0{"


def open_safetensors(file: SourceFile, limits: Limits) -> TableContainer:
    """Open a safetensors file; only the header is read.

    Raises:
        TruncatedError: the file ends before its header says.
        CorruptContainerError: the header is damaged or contradicts itself or the size of the file.
        UnsupportedError: an element type that is not known.
        LimitError: a header larger than `max_header_bytes`.
    """
    header, data_start = _read_header(file, limits)
    where = Location(path=file.path, record="header")
    metadata = _read_metadata(header.pop(_METADATA, {}), where)
    tensors = {name: _Tensor(name, entry, where) for name, entry in header.items()}
    _check_ranges(tensors, file, data_start)
    arrays: dict[str, Array] = {}
    opaque: list[Opaque] = []
    for name, tensor in tensors.items():
        if tensor.dtype is None:
            opaque.append(Opaque(name, "packed", f"elements of type {tensor.type_name} are smaller than a byte"))
        else:
            storage = FileRange(file, data_start + tensor.start, tensor.end - tensor.start, name)
            arrays[name] = contiguous(storage, tensor.dtype, tensor.shape)
    return TableContainer(
        kind="safetensors",
        paths=(file.path,),
        arrays=arrays,
        opaque=tuple(opaque),
        metadata=metadata,
        facts=lambda: {
            "byte_order": "little",
            "header_bytes": data_start - _LENGTH.size,
            "data_bytes": file.size - data_start,
        },
    )


class _Tensor:
    """One entry of the header, checked by itself."""

    __slots__ = ("dtype", "end", "shape", "start", "type_name")

    def __init__(self, name: str, entry: object, where: Location) -> None:
        match entry:
            case {"dtype": str() as type_name, "shape": list() as shape, "data_offsets": [start, end]} if len(
                shape
            ) <= DEFAULT_LIMITS.max_dimensions and all(map(_is_size, (start, end, *shape))):
                self.type_name = type_name
                self.shape = tuple(shape)
                self.start, self.end = start, end
            case _:
                raise CorruptContainerError(f"the entry of {shown(name)} is damaged", where=where, how=_HOW)
        self.dtype = _element_type(type_name, where)
        bits = 8 * self.dtype.itemsize if self.dtype else _PACKED_BITS[type_name]
        if 8 * (end - start) != math.prod(shape) * bits:
            raise CorruptContainerError(
                f"tensor {shown(name)} has {end - start} bytes, which do not make {type_name} {shown(shape)}",
                where=where,
                how=_HOW,
            )


def _read_header(file: SourceFile, limits: Limits) -> tuple[dict[str, object], int]:
    """Return the header, which `is_safetensors` has seen to begin with a brace, and where the data begins."""
    (length,) = _LENGTH.unpack(file.read(0, _LENGTH.size))
    where = Location(path=file.path, record="header")
    limits.require(
        "max_header_bytes",
        length,
        "the header is too large",
        where,
        "The reference implementation refuses it too; the file is damaged.",
    )
    data_start = _LENGTH.size + length
    if data_start > file.size:
        raise TruncatedError(f"the header has {length} bytes, the file only {file.size}", where=where, how=_HOW)
    return dict(parse_json_object(file.read(_LENGTH.size, length), where, file.budget)), data_start


def _read_metadata(metadata: object, where: Location) -> Mapping[str, str]:
    if not isinstance(metadata, dict):
        raise CorruptContainerError(f"{_METADATA} is no map of texts", where=where, how=_WRITER)
    for name, value in metadata.items():
        if not isinstance(value, str):
            raise CorruptContainerError(
                f"entry {shown(name)} of {_METADATA} is {shown(value)}, where only a text may stand",
                where=where,
                how=_WRITER,
            )
    return metadata


def _element_type(name: str, where: Location) -> DType | None:
    """Return the element type of a spelling; None for those smaller than a byte."""
    if name in _PACKED_BITS:
        return None
    dtype = DTYPES.get(name)
    if dtype is None or not dtype.safetensors:
        raise UnsupportedError(
            f"the element type {shown(name)} is not known",
            where=where,
            how="If a safetensors release writes it, report it; otherwise the file is damaged.",
        )
    return dtype


def _check_ranges(tensors: Mapping[str, _Tensor], file: SourceFile, data_start: int) -> None:
    """Check that the ranges cover the data exactly: hidden bytes and overlaps are ways to show two readers two files."""
    where = Location(path=file.path, record="header")
    position = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].start, item[1].end)):
        if tensor.start != position:
            raise CorruptContainerError(
                f"tensor {shown(name)} begins at {tensor.start}, the one before ends at {position}",
                where=where,
                how=_HOW,
            )
        position = tensor.end
    total = data_start + position
    if total > file.size:
        raise TruncatedError(
            f"the file should have {total} bytes and has {file.size}",
            where=Location(path=file.path),
            how="The download or copy was cut off: get the file again.",
        )
    if total < file.size:
        raise CorruptContainerError(
            f"{file.size - total} bytes after the last tensor belong to none", where=Location(path=file.path), how=_HOW
        )


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST
