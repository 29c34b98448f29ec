"""burnpack (`.bpk`): header, CBOR metadata and the place of every tensor, as Burn writes them (burn-spec part 1).

Tensor data lies in the order given, the metadata map is sorted by the UTF-8 bytes of the names. Burn's writer checks few
of its reader's limits; here all of them are checked before anything is written. Not here: reading
(`importer.containers`), writing bytes (`streaming`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import TypeVar

from importer.cbor import Encodable, encode_cbor
from importer.dtypes import DType, Kind
from importer.errors import UnrepresentableError, shown
from importer.writers.output import FileLayout, OutputTensor, Placed, Scalar
from importer.writers.output_names import check_names, encodable

__all__ = ["MAX_FILE_BYTES", "MAX_TENSORS", "MAX_TENSOR_BYTES", "burnpack_layout"]

_MAGIC = 0x4255524E
_VERSION = 1
_HEADER = struct.Struct("<IHI")
_ALIGNMENT = 256

MAX_METADATA_BYTES = 100 << 20
MAX_TENSORS = 100_000
MAX_TENSOR_BYTES = 10 << 30
MAX_FILE_BYTES = 100 << 30
_MAX_U64 = (1 << 64) - 1
_MIN_I64 = -(1 << 63)

_Value = TypeVar("_Value")


def burnpack_layout(
    tensors: Sequence[OutputTensor], metadata: Mapping[str, str], scalars: Mapping[str, Scalar]
) -> FileLayout:
    """Return the layout of a burnpack file.

    Raises:
        UnrepresentableError: a dtype, name, number, count or size that the format or Burn's reader has no place for.
    """
    if len(tensors) > MAX_TENSORS:
        raise _too_large(f"{len(tensors)} tensors", f"{MAX_TENSORS} tensors in one file")
    check_names(tensor.name for tensor in tensors)
    offsets = []
    cursor = 0
    for tensor in tensors:
        start = _aligned(cursor)
        nbytes = tensor.array.nbytes
        cursor = start + nbytes
        offsets.append(start)
        if nbytes > MAX_TENSOR_BYTES:
            raise _too_large(f"tensor {shown(tensor.name)} with {nbytes} bytes", "10 GiB per tensor")
    header = _header(tensors, offsets, metadata, scalars)
    total = len(header) + cursor
    if total > MAX_FILE_BYTES:
        raise _too_large(f"a file of {total} bytes", "100 GiB per file")
    placed = tuple(Placed(tensor, len(header) + start) for tensor, start in zip(tensors, offsets, strict=True))
    return FileLayout(header, placed, total)


def _header(
    tensors: Sequence[OutputTensor], offsets: Sequence[int], metadata: Mapping[str, str], scalars: Mapping[str, Scalar]
) -> bytes:
    """Return everything up to the first tensor byte."""
    described = {tensor.name: _described(tensor, start) for tensor, start in zip(tensors, offsets, strict=True)}
    top: dict[str, Encodable] = {"tensors": _sorted(described)}
    if metadata:
        top["metadata"] = _sorted({encodable(key): encodable(text) for key, text in metadata.items()})
    if scalars:
        top["scalars"] = _sorted({encodable(key): _scalar(key, number) for key, number in scalars.items()})
    data = encode_cbor(top)
    if len(data) > MAX_METADATA_BYTES:
        raise _too_large(f"metadata of {len(data)} bytes", "100 MiB of metadata")
    start = _aligned(_HEADER.size + len(data))
    return (_HEADER.pack(_MAGIC, _VERSION, len(data)) + data).ljust(start, b"\0")


def _described(tensor: OutputTensor, start: int) -> Encodable:
    """Return the entry of one tensor."""
    array = tensor.array
    entry: dict[str, Encodable] = {
        "dtype": _dtype(tensor.name, array.dtype),
        "shape": array.shape,
        "data_offsets": (start, start + array.nbytes),
    }
    if tensor.param_id is not None:
        entry["param_id"] = _param_id(tensor.name, tensor.param_id)
    return entry


def _param_id(name: str, number: int) -> int:
    if not 0 <= number <= _MAX_U64:
        raise UnrepresentableError(
            f"parameter id {number} of {shown(name)} is not an unsigned 64-bit number",
            how="Leave parameter ids out with --param-ids none.",
        )
    return number


def _dtype(name: str, dtype: DType) -> Encodable:
    if dtype.burnpack is None:
        way = "cast it with --dtype" if dtype.is_float else "write .safetensors"
        raise UnrepresentableError(
            f"burnpack has no type for {shown(name)}, which is {dtype}", how=f"Drop the tensor in the recipe, or {way}."
        )
    return {"Bool": "Native"} if dtype.kind is Kind.BOOL else dtype.burnpack


def _scalar(name: str, number: Scalar) -> Encodable:
    """Return a number as the one-entry map that tells its type."""
    if isinstance(number, bool):
        return {"Bool": number}
    if isinstance(number, float):
        return {"Float": number}
    if not _MIN_I64 <= number <= _MAX_U64:
        raise UnrepresentableError(f"scalar {shown(name)} does not fit into 64 bits", how="Leave it out.")
    return {"UInt": number} if number >= 0 else {"Int": number}


def _sorted(entries: Mapping[str, _Value]) -> dict[str, _Value]:
    """Return the entries in the order of Burn's maps: plain UTF-8 bytes, not CBOR's canonical order."""
    return {name: entries[name] for name in sorted(entries, key=str.encode)}


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT


def _too_large(what: str, bound: str) -> UnrepresentableError:
    return UnrepresentableError(
        f"{what} is more than Burn reads ({bound})", how="Write several files with --shard-size, or write safetensors."
    )
