"""The burnpack layout of Burn (`.bpk`): ten bytes of header, CBOR metadata, tensors at multiples of 256 bytes.

    0   magic 4E 52 55 42 | 4  version, u16 | 6  metadata length, u32 | 10  metadata | data

Checked here and not by Burn: overlapping ranges, duplicate names, bytes after the last tensor. Not here: writing
(`importer.writers`).

Format facts: Burn's crates/burn-pack. The data begins at the next multiple of 256; releases before that rule (0.19) put
it right behind the metadata and packed the tensors without gaps, which the length of the file tells apart.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from importer.arrays import Array, contiguous
from importer.budgets import JSON_BYTE
from importer.cbor import decode_cbor
from importer.containers.base import Opaque, TableContainer
from importer.dtypes import BOOL, DTYPES, F32, U8, U32, DType
from importer.errors import CorruptContainerError, Location, TruncatedError, UnsupportedError, shown
from importer.limits import DEFAULT_LIMITS, Limits
from importer.storages import FileRange, SourceFile

__all__ = ["MAGIC", "open_burnpack"]

MAGIC = b"NRUB"
_HEADER = struct.Struct("<4sHL")
_NEWEST_VERSION = 1
_ALIGNMENT = 256
_HOW = "Download or copy the file again, or save it anew."

_PLAIN_TYPES = {dtype.burnpack: dtype for dtype in DTYPES.values() if dtype.burnpack} | {"Flex32": F32, "Bool": BOOL}
# How Burn's backends store booleans; only the native ones are one byte with the values 0 and 1.
_BOOL_STORES = {"Native": BOOL, "U8": U8, "U32": U32}


@dataclass(frozen=True, slots=True)
class _TensorDescriptor:
    """One tensor of the metadata; `dtype` is None for a quantized one. Offsets count from the start of the data."""

    name: str
    dtype: DType | None
    shape: tuple[int, ...]
    start: int
    end: int
    param_id: int | None


def open_burnpack(file: SourceFile, limits: Limits) -> TableContainer:
    """Open a burnpack file; header and metadata are read.

    Raises:
        TruncatedError: the file ends before its tables say.
        CorruptContainerError: damaged or contradictory metadata.
        UnsupportedError: a newer version, or an element type that is not known.
        LimitError: more metadata than `max_metadata_bytes`, more tensors than `max_tensors`.
    """
    metadata, metadata_end = _read_metadata(file, limits)
    where = Location(path=file.path, record="metadata")
    tensors = _mapping(metadata, "tensors", where, required=True)
    limits.require("max_tensors", len(tensors), "the file has too many tensors", where)
    descriptors = [_descriptor(name, entry, where) for name, entry in tensors.items()]
    descriptors.sort(key=lambda descriptor: (descriptor.start, descriptor.end))
    _check_overlap(descriptors, where)
    data_start, notes = _place_data(file, descriptors, metadata_end)
    arrays: dict[str, Array] = {}
    opaque: list[Opaque] = []
    for tensor in descriptors:
        if tensor.dtype is None:
            opaque.append(Opaque(tensor.name, "quantized", "quantized tensors of Burn are not unpacked"))
        else:
            storage = FileRange(file, data_start + tensor.start, tensor.end - tensor.start, tensor.name)
            arrays[tensor.name] = contiguous(storage, tensor.dtype, tensor.shape)
    return TableContainer(
        kind="burnpack",
        paths=(file.path,),
        arrays=arrays,
        opaque=tuple(opaque),
        metadata=_texts(_mapping(metadata, "metadata", where), where),
        scalars=_scalars(_mapping(metadata, "scalars", where), where),
        param_ids={tensor.name: tensor.param_id for tensor in descriptors if tensor.param_id is not None},
        notes=notes,
        facts=lambda: {
            "version": _HEADER.unpack(file.read(0, _HEADER.size))[1],
            "byte_order": "little",
            "alignment": _ALIGNMENT if data_start % _ALIGNMENT == 0 else 1,
            "metadata_bytes": metadata_end - _HEADER.size,
            "data_bytes": file.size - data_start,
        },
    )


def _read_metadata(file: SourceFile, limits: Limits) -> tuple[Mapping[str, object], int]:
    """Return the metadata, and the offset of its end."""
    where = Location(path=file.path)
    if file.size < _HEADER.size:
        raise TruncatedError("the file ends within its header", where=where, how=_HOW)
    _, version, length = _HEADER.unpack(file.read(0, _HEADER.size))
    if version > _NEWEST_VERSION:
        raise UnsupportedError(
            f"burnpack version {version} is newer than {_NEWEST_VERSION}", where=where, how="Update this tool."
        )
    limits.require(
        "max_metadata_bytes", length, "the metadata is too large", where, "Burn refuses it too; the file is damaged."
    )
    end = _HEADER.size + length
    if end > file.size:
        raise TruncatedError(f"the metadata has {length} bytes, the file only {file.size}", where=where, how=_HOW)
    where = Location(path=file.path, record="metadata", offset=_HEADER.size)
    file.budget.spend(JSON_BYTE * length, where)
    metadata = decode_cbor(file.read(_HEADER.size, length), where)
    if not isinstance(metadata, dict):
        raise _corrupt("it is no map", where)
    return metadata, end


def _descriptor(name: str, entry: object, where: Location) -> _TensorDescriptor:
    match entry:
        case {"dtype": spelling, "shape": list() as shape, "data_offsets": [start, end], **rest} if len(
            shape
        ) <= DEFAULT_LIMITS.max_dimensions and all(map(_is_size, (start, end, *shape))):
            param_id = _param_id(rest.get("param_id"), name, where)
            dtype = _element_type(spelling, where)
        case _:
            raise _corrupt(f"the entry of {shown(name)} is damaged", where)
    if start > end or (dtype is not None and end - start != math.prod(shape) * dtype.itemsize):
        raise _corrupt(f"tensor {shown(name)} has {end - start} bytes, which do not make {dtype} {shown(shape)}", where)
    return _TensorDescriptor(name, dtype, tuple(shape), start, end, param_id)


def _param_id(value: object, name: str, where: Location) -> int | None:
    if value is None or (isinstance(value, int) and _is_unsigned(value)):
        return value
    raise _corrupt(f"the parameter id of {shown(name)} is no unsigned number", where)


def _element_type(spelling: object, where: Location) -> DType | None:
    """Return the element type of a spelling; None for quantized ones."""
    match spelling:
        case str() if spelling in _PLAIN_TYPES:
            return _PLAIN_TYPES[spelling]
        case {"Bool": str() as store} if store in _BOOL_STORES:
            return _BOOL_STORES[store]
        case {"QFloat": dict()}:
            return None
        case _:
            raise UnsupportedError(
                f"the element type {shown(spelling)} is not known",
                where=where,
                how="If a Burn release writes it, report it; otherwise the file is damaged.",
            )


def _check_overlap(descriptors: Sequence[_TensorDescriptor], where: Location) -> None:
    end = 0
    for tensor in descriptors:
        if tensor.start < end and tensor.start < tensor.end:
            raise _corrupt(f"tensor {shown(tensor.name)} overlaps another one", where)
        end = max(end, tensor.end)


def _place_data(
    file: SourceFile, descriptors: Sequence[_TensorDescriptor], metadata_end: int
) -> tuple[int, tuple[str, ...]]:
    """Return where the data begins, and what is odd about it."""
    data_start = metadata_end + -metadata_end % _ALIGNMENT
    end = max((tensor.end for tensor in descriptors), default=0)
    unaligned = sum(1 for tensor in descriptors if tensor.start % _ALIGNMENT)
    if unaligned and file.size == metadata_end + end:
        return metadata_end, ("the tensors are packed without alignment, as Burn 0.19 did",)
    # Without tensors, a file may end right behind its metadata.
    if descriptors and file.size < data_start + end:
        raise TruncatedError(
            f"the file should have {data_start + end} bytes and has {file.size}",
            where=Location(path=file.path),
            how="The download or copy was cut off: get the file again.",
        )
    notes: list[str] = []
    if unaligned:
        notes.append(f"{unaligned} tensors do not begin at a multiple of {_ALIGNMENT} bytes")
    if file.size > data_start + end:
        notes.append(f"{file.size - data_start - end} bytes after the last tensor are ignored")
    return data_start, tuple(notes)


def _mapping(
    metadata: Mapping[str, object], key: str, where: Location, *, required: bool = False
) -> Mapping[str, object]:
    value = metadata.get(key, None if required else {})
    if not isinstance(value, dict):
        raise _corrupt(f"{shown(key)} is no map", where)
    return value


def _texts(table: Mapping[str, object], where: Location) -> dict[str, str]:
    texts = {key: value for key, value in table.items() if isinstance(value, str)}
    if len(texts) != len(table):
        raise _corrupt("'metadata' is no map of texts", where)
    return texts


def _scalars(table: Mapping[str, object], where: Location) -> dict[str, bool | int | float]:
    """Return the scalars; each is a map from the name of its kind to its value."""
    scalars: dict[str, bool | int | float] = {}
    for name, entry in table.items():
        match entry:
            case {"Bool": bool() as value, **rest} | {"Float": float() as value, **rest} if not rest:
                scalars[name] = value
            case {"Int": int() as value, **rest} | {"UInt": int() as value, **rest} if not (
                rest or isinstance(value, bool)
            ):
                scalars[name] = value
            case _:
                raise _corrupt(f"the scalar {shown(name)} is damaged", where)
    return scalars


def _is_unsigned(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def _is_size(value: object) -> bool:
    return _is_unsigned(value) and isinstance(value, int) and value < 1 << 63


def _corrupt(what: str, where: Location) -> CorruptContainerError:
    return CorruptContainerError(f"the metadata is damaged: {what}", where=where, how=_HOW)
