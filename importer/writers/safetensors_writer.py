"""safetensors: JSON header and the place of every tensor, as the reference library lays them out.

Order as in safetensors 0.7 and later: dtypes by descending rank (wide ones first, so that every tensor is aligned to its
element), then names; the header begins with `__metadata__`, here with sorted keys so that the same input gives the same
bytes. Not here: reading (`importer.containers`), shards and their index (`sharding`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence

from importer.errors import UnrepresentableError, shown
from importer.writers.output import FileLayout, OutputTensor, Placed
from importer.writers.output_names import check_names, encodable

__all__ = ["safetensors_layout"]

_LENGTH = struct.Struct("<Q")
_ALIGNMENT = 8
_MAX_HEADER_BYTES = 100_000_000

# The reference library's enum, widest first (burn-spec 2); what is not in it cannot be written.
_ORDER = (
    *("U64", "I64", "F64", "C64", "F32", "U32", "I32", "BF16", "F16", "U16", "I16"),
    *("F8_E8M0", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I8", "U8", "BOOL"),
)
_RANK = {name: rank for rank, name in enumerate(_ORDER)}


def safetensors_layout(tensors: Sequence[OutputTensor], metadata: Mapping[str, str]) -> FileLayout:
    """Return the layout of a safetensors file; its own order decides, not that of `tensors`.

    Raises:
        UnrepresentableError: a dtype, name or size that the format has no place for.
    """
    check_names(tensor.name for tensor in tensors)
    for tensor in tensors:
        _check(tensor)
    ordered = sorted(tensors, key=lambda tensor: (_RANK[tensor.array.dtype.name], tensor.name.encode()))
    entries: dict[str, object] = {}
    if metadata:
        entries["__metadata__"] = {encodable(key): encodable(metadata[key]) for key in sorted(metadata)}
    cursor = 0
    starts = []
    for tensor in ordered:
        array = tensor.array
        starts.append(cursor)
        offsets = [cursor, cursor + array.nbytes]
        entries[tensor.name] = {"dtype": array.dtype.name, "shape": list(array.shape), "data_offsets": offsets}
        cursor += array.nbytes
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    length = -(-len(text) // _ALIGNMENT) * _ALIGNMENT
    if length > _MAX_HEADER_BYTES:
        raise UnrepresentableError(
            f"a header of {length} bytes is more than safetensors allows ({_MAX_HEADER_BYTES})",
            how="Write several files with --shard-size.",
        )
    header = _LENGTH.pack(length) + text.ljust(length)
    placed = tuple(Placed(tensor, len(header) + start) for tensor, start in zip(ordered, starts, strict=True))
    return FileLayout(header, placed, len(header) + cursor)


def _check(tensor: OutputTensor) -> None:
    if tensor.array.dtype.name not in _RANK:
        raise UnrepresentableError(
            f"safetensors has no type for {shown(tensor.name)}, which is {tensor.array.dtype}",
            how="Drop the tensor in the recipe.",
        )
    if tensor.name == "__metadata__":
        raise UnrepresentableError(
            "a tensor cannot be called '__metadata__' in safetensors", how="Rename it in the recipe."
        )
