"""Whether the pieces of a decoder go together: the last line of defence, whatever a file claims.

Not here: reading; every size is known before.
"""

from __future__ import annotations

from importer.arrays.decoding import Decoder, Span
from importer.dtypes import Kind
from importer.quantized.codes import Bits, Exponents, Levels, RowParts, Stored
from importer.quantized.scales import Adjusted, Factor, Regrouped, Scaled

__all__ = ["fault_of"]

_WORD_BYTES = 4
_BYTE_BITS = 8
_WORD_BITS = 32


def fault_of(decoder: Decoder) -> str | None:
    """Return what does not go together in a decoder, or None if all does."""
    if isinstance(decoder, Scaled):
        factors = (decoder.scales, decoder.zeros, decoder.shifts)
        faults = [_of_factor(factor, decoder.shape) for factor in factors if factor is not None]
        return next((fault for fault in (fault_of(decoder.codes), *faults) if fault is not None), None)
    if isinstance(decoder, Adjusted):
        if decoder.divisor is not None and decoder.divisor.size != 1:
            return f"{decoder.divisor.size} numbers are divided by instead of one"
        return fault_of(decoder.values)
    if isinstance(decoder, Regrouped):
        rows, columns = decoder.values.shape
        return (
            "groups are regrouped into another number" if rows * columns != _size(decoder) else fault_of(decoder.values)
        )
    return _of_codes(decoder)


def _size(decoder: Decoder) -> int:
    return decoder.shape[0] * decoder.shape[1]


def _of_codes(decoder: Decoder) -> str | None:
    rows, columns = decoder.shape
    if isinstance(decoder, Stored | Exponents):
        array = decoder.array
        bad = array.dtype.kind not in (Kind.FLOAT, Kind.INTEGER) or (
            isinstance(decoder, Exponents) and array.dtype.itemsize != 1
        )
        return f"{array.dtype} elements are no numbers of this format" if bad else None
    if isinstance(decoder, Levels):
        need = (rows, -(-columns * decoder.bits // _BYTE_BITS))
        bad = decoder.array.dtype.itemsize != 1 or decoder.array.shape != need or _BYTE_BITS % decoder.bits != 0
        return (
            f"{list(decoder.array.shape)} bytes do not hold {rows}×{columns} codes of {decoder.bits} bits"
            if bad
            else None
        )
    if isinstance(decoder, Bits):
        along = decoder.shape[decoder.axis]
        per = _WORD_BITS // decoder.bits
        words = -(-along * decoder.bits // _WORD_BITS) if decoder.dense else -(-along // per)
        need = (words, columns) if decoder.axis == 0 else (rows, words)
        bad = decoder.array.dtype.itemsize != _WORD_BYTES or decoder.array.shape != need
        return (
            f"{list(decoder.array.shape)} words do not hold {rows}×{columns} codes of {decoder.bits} bits"
            if bad
            else None
        )
    if isinstance(decoder, RowParts):
        size = decoder.array.dtype.itemsize
        fits = size in (1, _WORD_BYTES) and 0 < decoder.bits * decoder.parts <= _BYTE_BITS * size
        bad = not fits or decoder.array.shape != (-(-rows // decoder.parts), columns)
        return f"{list(decoder.array.shape)} do not hold {rows}×{columns} codes of {decoder.bits} bits" if bad else None
    return None


def _of_factor(factor: Factor, whole: Span) -> str | None:
    index = factor.index
    need = [
        -(-size // max(block, 1))
        for size, block in zip(whole, (factor.blocks.rows, factor.blocks.columns), strict=True)
    ]
    if index is not None:
        if index.array.size != whole[index.axis] or index.array.dtype.kind is not Kind.INTEGER or index.group < 1:
            return f"{index.array.dtype} {list(index.array.shape)} does not say the group of {whole[index.axis]}"
        need[index.axis] = factor.grid.shape[index.axis]
    elif factor.blocks.rows < 1 or factor.blocks.columns < 1:
        return "a block is empty"
    if factor.grid.shape != tuple(need):
        return f"{list(factor.grid.shape)} factors do not go with {whole[0]}×{whole[1]} values in blocks"
    return fault_of(factor.grid)
