"""Codes and what each stands for: whole elements, several in a byte or a word, rows in parts. All give boxes of F32.

Not here: scales (`scales`), and which format has which codes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from importer.arrays import Array
from importer.arrays.decoding import Floats, Span
from importer.quantized.parts import as_bytes, matrix, read_box, widened

if TYPE_CHECKING:
    import numpy as np

__all__ = ["AWQ_ORDER", "E2M1", "Bits", "Exponents", "Levels", "RowParts", "Stored", "bits_along_rows", "small_table"]

E2M1 = tuple(sign * value for sign in (1.0, -1.0) for value in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0))
"""The sixteen 4-bit floats (OCP Microscaling formats, table 5): sign, two bits of exponent, one of mantissa."""

AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Which nibble of a word, lowest first, holds each of eight columns: they lie in the order 0 2 4 6 1 3 5 7."""

_WORD_BITS = 32
_BYTE_BITS = 8
_PAIR, _QUAD = 2, 4


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Elements that are the values themselves: integers, and floats of any width."""

    array: Array

    @property
    def shape(self) -> Span:
        """Rows and columns."""
        return self.array.shape[0], self.array.shape[1]

    @property
    def grain(self) -> int:
        """Rows are not packed."""
        return 1

    def read(self, rows: Span, columns: Span) -> Floats:
        """Return a box of the values."""
        import numpy as np

        values = read_box(self.array, rows, columns)
        if values.dtype.itemsize == 1 and self.array.dtype.is_float:
            table = _every_value(self.array.dtype.name)
            found: Floats = np.take(table, values.view(np.uint8))
            return found
        return widened(values)


@dataclass(frozen=True, slots=True, eq=False)
class Exponents:
    """Bytes that are powers of two: `2 ** (byte - 127)`."""

    array: Array

    @property
    def shape(self) -> Span:
        """Rows and columns."""
        return self.array.shape[0], self.array.shape[1]

    @property
    def grain(self) -> int:
        """Rows are not packed."""
        return 1

    def read(self, rows: Span, columns: Span) -> Floats:
        """Return a box of the powers."""
        import numpy as np

        stored = read_box(self.array, rows, columns).view(np.uint8)
        with np.errstate(over="ignore"):
            powers: Floats = np.ldexp(np.float32(1), stored.astype(np.int32) - 127)
        return powers


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Bytes of one, two, four or eight codes along a row, each of which stands for a level.

    Attributes:
        array: `[rows, bytes]`, U8.
        columns: codes in a row; what the last byte has beyond them is padding.
        levels: what each code stands for; a tensor of 2**bits numbers, or these.
        bits: of a code.
        high_first: whether the highest bits of a byte are the first code.
        order: which code of a group of `len(order)` stands at each place; empty where they lie in order.
    """

    array: Array
    columns: int
    levels: Array | Sequence[float]
    bits: int
    high_first: bool = False
    order: tuple[int, ...] = ()
    _table: list[Any] = field(default_factory=list, repr=False)

    @property
    def shape(self) -> Span:
        """Rows and columns."""
        return self.array.shape[0], self.columns

    @property
    def grain(self) -> int:
        """Rows are not packed."""
        return 1

    def read(self, rows: Span, columns: Span) -> Floats:
        """Return a box of the values."""
        import numpy as np

        per = _BYTE_BITS // self.bits
        step = max(per, len(self.order))
        first, last = columns[0] // step, -(-columns[1] // step)
        stored = read_box(self.array, rows, (first * step // per, min(last * step // per, self.array.shape[1])))
        values = np.take(self._levels_of_bytes(), stored.view(np.uint8), axis=0)
        values = values.view(np.float32).reshape(len(stored), -1)
        if self.order:
            values = values.reshape(len(stored), -1, step)[..., self.order].reshape(len(stored), -1)
        begin = columns[0] - first * step
        end = begin + columns[1] - columns[0]
        return values if begin == 0 and end == values.shape[1] else np.ascontiguousarray(values[:, begin:end])

    def _levels_of_bytes(self) -> np.ndarray[Any, Any]:
        """Return what every byte stands for, its levels side by side as one element where numpy has one so wide."""
        import numpy as np

        if not self._table:
            levels = small_table(self.levels, 1 << self.bits)
            per = _BYTE_BITS // self.bits
            shifts = np.arange(per) * self.bits
            codes = np.arange(1 << _BYTE_BITS)[:, None] >> (shifts[::-1] if self.high_first else shifts)
            table = np.ascontiguousarray(levels[codes & ((1 << self.bits) - 1)])
            wide = {_PAIR: np.complex64, _QUAD: np.complex128}.get(per)
            self._table.append(table[:, 0] if per == 1 else table if wide is None else table.view(wide)[:, 0])
        made: np.ndarray[Any, Any] = self._table[0]
        return made


@dataclass(frozen=True, slots=True, eq=False)
class Bits:
    """Unsigned codes in 32-bit words along one axis, the lowest bits first, less a constant.

    Attributes:
        array: `[rows, words]` or, packed along rows, `[words, columns]`; I32 or U32.
        shape: rows and columns of the codes; what the last word has beyond them is padding.
        bits: of a code.
        axis: along which they are packed.
        dense: whether codes go on over the end of a word; else a word has `32 // bits`.
        minus: subtracted from every code.
        plus: added to every code first, modulo `2 ** bits`.
    """

    array: Array
    shape: Span
    bits: int
    axis: int
    dense: bool = True
    minus: int = 0
    plus: int = 0

    @property
    def grain(self) -> int:
        """Rows that are packed together."""
        return self._period[0] if self.axis == 0 else 1

    @property
    def _period(self) -> Span:
        """Codes, and words, after which the places of codes in words come again."""
        if not self.dense:
            return _WORD_BITS // self.bits, 1
        words = self.bits // math.gcd(self.bits, _WORD_BITS)
        return words * _WORD_BITS // self.bits, words

    def read(self, rows: Span, columns: Span) -> Floats:
        """Return a box of the codes."""
        import numpy as np

        spans = [rows, columns]
        codes, words = self._period
        begin, end = spans[self.axis]
        first, last = begin // codes, -(-end // codes)
        spans[self.axis] = (first * words, min(last * words, self.array.shape[self.axis]))
        stored = read_box(self.array, spans[0], spans[1]).view(np.uint32)
        kept = slice(begin - first * codes, end - first * codes)
        if self.axis == 0:
            return self._unpacked(stored, (last - first) * codes)[kept]
        return np.ascontiguousarray(self._unpacked(stored.T, (last - first) * codes)[kept].T)

    def _unpacked(self, stored: np.ndarray[Any, Any], count: int) -> Floats:
        """Return the codes of words that are packed along the first axis."""
        import numpy as np

        codes, words = self._period
        if len(stored) % words:  # the last group of words is not whole
            stored = np.concatenate([stored, np.zeros((-len(stored) % words, stored.shape[1]), np.uint32)])
        out = np.empty((count, stored.shape[1]), np.float32)
        mask = np.uint32((1 << self.bits) - 1)
        for code in range(codes):
            if self.dense:
                word, shift = divmod(code * self.bits, _WORD_BITS)
            else:
                word, shift = 0, code * self.bits
            values = stored[word::words] >> np.uint32(shift)
            if shift + self.bits > _WORD_BITS:
                values |= stored[word + 1 :: words] << np.uint32(_WORD_BITS - shift)
            if self.plus:
                values += np.uint32(self.plus)
            if self.plus or shift + self.bits != _WORD_BITS:
                values &= mask
            out[code::codes] = values
        if self.minus:
            out -= np.float32(self.minus)
        return out


@dataclass(frozen=True, slots=True, eq=False)
class RowParts:
    """Unsigned codes in bytes or words, every one of which holds one of each part of the rows.

    Attributes:
        array: `[rows of a part, columns]`.
        shape: rows and columns of the codes; rows beyond them are padding.
        bits: of a code.
        parts: number of parts.
        high_first: whether the highest bits that are used hold the first part.
    """

    array: Array
    shape: Span
    bits: int
    parts: int
    high_first: bool

    @property
    def grain(self) -> int:
        """Rows of a part are not packed together."""
        return 1

    def read(self, rows: Span, columns: Span) -> Floats:
        """Return a box of the codes."""
        import numpy as np

        size = self.array.shape[0]
        out = np.empty((rows[1] - rows[0], columns[1] - columns[0]), np.float32)
        row = rows[0]
        while row < rows[1]:
            part, inside = divmod(row, size)
            stop = min(rows[1], (part + 1) * size)
            stored = read_box(self.array, (inside, inside + stop - row), columns)
            stored = stored.view(np.uint8 if stored.dtype.itemsize == 1 else np.uint32)
            shift = self.bits * (self.parts - 1 - part if self.high_first else part)
            out[row - rows[0] : stop - rows[0]] = (stored >> stored.dtype.type(shift)) & stored.dtype.type(
                (1 << self.bits) - 1
            )
            row = stop
        return out


def bits_along_rows(
    array: Array, columns: int, bits: int, *, dense: bool = True, minus: int = 0, plus: int = 0
) -> Levels | Bits:
    """Return codes packed along the rows of `[rows, words]`; those that do not go over the ends of bytes by the byte."""
    stored = as_bytes(matrix(array, *array.shape)) if _BYTE_BITS % bits == 0 else None
    if stored is None:
        return Bits(array, (array.shape[0], columns), bits, 1, dense=dense, minus=minus, plus=plus)
    mask = (1 << bits) - 1
    return Levels(stored, columns, [((code + plus) & mask) - minus for code in range(1 << bits)], bits)


def small_table(levels: Array | Sequence[float], count: int) -> Floats:
    """Return a table of `count` levels.

    Raises:
        TensorError: a tensor of them has another size.
    """
    import numpy as np

    if isinstance(levels, Array):
        row: Floats = widened(read_box(matrix(levels, 1, count), (0, 1), (0, count)))[0]
        return row
    return np.array(levels, np.float32)


_TABLES: dict[str, Any] = {}


def _every_value(name: str) -> Floats:
    """Return the 256 values of an 8-bit float type."""
    import numpy as np

    from importer.dtypes import DTYPES

    if name not in _TABLES:
        with np.errstate(all="ignore"):
            _TABLES[name] = np.arange(256, dtype=np.uint8).view(DTYPES[name].numpy()).astype(np.float32)
    table: Floats = _TABLES[name]
    return table
