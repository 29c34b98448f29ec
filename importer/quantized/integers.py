"""What `integers` gives instead of real values: codes with their scales and zeros, never under the name of the weight.

Integer codes come unpacked, as `NAME.int_repr` with `NAME.scale` and `NAME.zero_point` (torch's words); codes of another kind, 8-bit
floats or levels, as they are stored. Not here: which codes a format has.
"""

from __future__ import annotations

from collections.abc import Mapping

from importer.arrays import Array
from importer.arrays.decoding import Decoder, decoded
from importer.dtypes import F32, I8, I32, U8, DType, Kind
from importer.errors import Location
from importer.quantized.codes import Bits, Levels, RowParts, Stored
from importer.quantized.model import Weight
from importer.quantized.parts import location_of
from importer.quantized.scales import Scaled

__all__ = ["integer_parts"]

_BYTE = range(-128, 128)
_UNSIGNED_BYTE = range(256)


def integer_parts(weight: Weight, stored: Mapping[str, Array]) -> dict[str, Array]:
    """Return what stands for a weight, by full name; `stored` are the tensors of the source."""
    if weight.integers:
        return {f"{weight.name}.{end}": array for end, array in weight.integers.items()}
    decoder = weight.decoder
    kind = _kind(decoder.codes) if isinstance(decoder, Scaled) else None
    if kind is None or not isinstance(decoder, Scaled) or decoder.last is not None:
        return _as_stored(weight, stored)
    where = next((location_of(stored[part]) for part in weight.parts if part in stored), Location(path="<source>"))
    made = {"int_repr": weight.moved(decoded(decoder.codes, kind, weight.shape, where))}
    factors = {"scale": decoder.scales, "zero_point": decoder.zeros, "shift": decoder.shifts}
    for end, factor in factors.items():
        if factor is not None:
            dtype = _kind(factor.grid) if end == "zero_point" else None
            made[end] = decoded(factor.grid, dtype or F32, factor.grid.shape, where)
        if factor is not None and factor.index is not None:
            made["g_idx"] = factor.index.array
    return {f"{weight.name}.{end}": array for end, array in made.items()}


def _as_stored(weight: Weight, stored: Mapping[str, Array]) -> dict[str, Array]:
    return {(f"{part}.codes" if part == weight.name else part): stored[part] for part in weight.parts if part in stored}


def _kind(codes: Decoder) -> DType | None:
    """Return a type that holds codes; None if they are no integers."""
    if isinstance(codes, Stored):
        return codes.array.dtype if codes.array.dtype.kind is Kind.INTEGER else None
    if isinstance(codes, Levels):
        if isinstance(codes.levels, Array) or any(level != int(level) for level in codes.levels):
            return None
        least, most = int(min(codes.levels)), int(max(codes.levels))
    elif isinstance(codes, Bits):
        least, most = -codes.minus, (1 << codes.bits) - 1 - codes.minus
    elif isinstance(codes, RowParts):
        least, most = 0, (1 << codes.bits) - 1
    else:
        return None
    if least in _BYTE and most in _BYTE:
        return I8
    return U8 if least in _UNSIGNED_BYTE and most in _UNSIGNED_BYTE else I32
