"""Scales and zero points over codes: `(q - zero) * scale - shift`, each factor one number for a block of the matrix.

Not here: codes (`codes`), and where a format stores its scales.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from importer.arrays import Array
from importer.arrays.decoding import Decoder, Floats, Span
from importer.errors import TensorError
from importer.quantized.codes import small_table
from importer.quantized.parts import location_of, read_box

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Adjusted", "Blocks", "Factor", "Index", "Regrouped", "Scaled"]

_SCATTERED_ROWS = 128
_FEW_ROWS = 8
"""Blocks of fewer rows are repeated instead of being gone through one by one."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """Rows and columns for which one factor holds; the last block of either may be cut off."""

    rows: int
    columns: int


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """The group of every row or column, where groups are scattered.

    Attributes:
        array: `[n]` integers; all of them negative where it was never filled, and groups follow one another.
        axis: 0 for rows, 1 for columns.
        group: size of a group that was never scattered.
    """

    array: Array
    axis: int
    group: int

    def read(self, span: Span, groups: int) -> np.ndarray[Any, Any]:
        """Return the groups of a range.

        Raises:
            TensorError: one is none of those that have a factor.
        """
        import numpy as np

        from importer.quantized.parts import flat

        found: np.ndarray[Any, Any] = read_box(flat(self.array), (0, 1), span)[0].astype(np.int64)
        if found.size and found.max() < 0:
            found = np.arange(*span) // self.group
        if found.size and (found.min() < 0 or found.max() >= groups):
            raise TensorError(
                f"group {int(found.min() if found.min() < 0 else found.max())} has no scale, there are {groups}",
                where=location_of(self.array),
                how="The file is damaged; get it again from where it came.",
            )
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """Numbers for the blocks of a matrix.

    Attributes:
        grid: one for each block.
        blocks: their size.
        index: the groups of one axis, where they are scattered; the block size of that axis means nothing then.
    """

    grid: Decoder
    blocks: Blocks
    index: Index | None = None

    def apply(self, operation: Callable[..., Any], values: Floats, rows: Span, columns: Span) -> None:
        """Work a factor into a box of values, in place."""
        import numpy as np

        if self.index is not None:
            self._apply_scattered(operation, values, rows, columns)
            return
        top, bottom = _blocks_of(rows, self.blocks.rows)
        left, right = _blocks_of(columns, self.blocks.columns)
        factors = self.grid.read((top, bottom), (left, right))
        width = self.blocks.columns
        if factors.shape[1] > 1 and width > 1:
            if columns[0] % width == 0 and columns[1] % width == 0 and len(factors) in (1, len(values)):
                place = values.reshape(len(values), right - left, width)
                operation(place, factors[:, :, None], out=place)
                return
            begin = columns[0] - left * width
            factors = np.repeat(factors, width, axis=1)[:, begin : begin + columns[1] - columns[0]]
        self._apply_rows(operation, values, factors, rows, top)

    def _apply_rows(self, operation: Callable[..., Any], values: Floats, factors: Floats, rows: Span, top: int) -> None:
        """Work in factors that are settled along the columns."""
        import numpy as np

        height = self.blocks.rows
        if len(factors) == 1 or height == 1:
            operation(values, factors, out=values)
        elif height < _FEW_ROWS:
            begin = rows[0] - top * height
            repeated = np.repeat(factors, height, axis=0)[begin : begin + rows[1] - rows[0]]
            operation(values, repeated, out=values)
        else:
            for number, row in enumerate(factors, start=top):
                part = values[max(number * height - rows[0], 0) : (number + 1) * height - rows[0]]
                operation(part, row, out=part)

    def _apply_scattered(self, operation: Callable[..., Any], values: Floats, rows: Span, columns: Span) -> None:
        """Work in factors of scattered groups, those of one group together where they are neighbours."""
        import numpy as np

        assert self.index is not None
        axis = self.index.axis
        groups = self.index.read(rows if axis == 0 else columns, self.grid.shape[axis])
        first, last = int(groups.min()), int(groups.max()) + 1
        if axis == 1:
            factors = self.grid.read(_blocks_of(rows, self.blocks.rows), (first, last))[:, groups - first]
            self._apply_rows(operation, values, factors, rows, _blocks_of(rows, self.blocks.rows)[0])
            return
        factors = self.grid.read((first, last), _blocks_of(columns, self.blocks.columns))
        starts = np.flatnonzero(np.diff(groups, prepend=-1))
        if len(starts) * _FEW_ROWS <= len(groups):
            for start, stop in zip(starts, [*starts[1:], len(groups)], strict=True):
                part = values[start:stop]
                operation(part, factors[groups[start] - first], out=part)
        else:
            operation(values, factors[groups - first], out=values)


@dataclass(frozen=True, slots=True, eq=False)
class Scaled:
    """`(codes - zeros) * scales - shifts`, in F32.

    Attributes:
        codes: the matrix of codes.
        scales: what they are multiplied with.
        zeros: what is subtracted before, if anything.
        shifts: what is subtracted afterwards, if anything.
        last: a number that the product is multiplied with in the end.
    """

    codes: Decoder
    scales: Factor
    zeros: Factor | None = None
    shifts: Factor | None = None
    last: float | None = None

    @property
    def shape(self) -> Span:
        """Rows and columns."""
        return self.codes.shape

    @property
    def grain(self) -> int:
        """Rows that are best read together: those packed so, or many where each may be of another group."""
        scattered = self.scales.index is not None and self.scales.index.axis == 0
        return max(self.codes.grain, _SCATTERED_ROWS) if scattered else self.codes.grain

    def read(self, rows: Span, columns: Span) -> Floats:
        """Return a box of the real values."""
        import numpy as np

        values = self.codes.read(rows, columns)
        with np.errstate(all="ignore"):
            if self.zeros is not None:
                self.zeros.apply(np.subtract, values, rows, columns)
            self.scales.apply(np.multiply, values, rows, columns)
            if self.last is not None:
                np.multiply(values, np.float32(self.last), out=values)
            if self.shifts is not None:
                self.shifts.apply(np.subtract, values, rows, columns)
        return values


@dataclass(frozen=True, slots=True, eq=False)
class Adjusted:
    """Values of which each is changed by the same number: added, or divided by.

    Attributes:
        values: what is changed.
        plus: added.
        divisor: a tensor of one number that is divided by, if any.
    """

    values: Decoder
    plus: float = 0.0
    divisor: Array | None = None
    _number: list[Any] = field(default_factory=list, repr=False)

    @property
    def shape(self) -> Span:
        """Rows and columns."""
        return self.values.shape

    @property
    def grain(self) -> int:
        """Rows that are packed together."""
        return self.values.grain

    def read(self, rows: Span, columns: Span) -> Floats:
        """Return a box of the changed values."""
        import numpy as np

        values = self.values.read(rows, columns)
        with np.errstate(all="ignore"):
            if self.plus:
                np.add(values, np.float32(self.plus), out=values)
            if self.divisor is not None:
                if not self._number:
                    self._number.append(small_table(self.divisor, 1)[0])
                np.divide(values, self._number[0], out=values)
        return values


@dataclass(frozen=True, slots=True, eq=False)
class Regrouped:
    """The values of another matrix, in C order, as rows of another length."""

    values: Decoder
    shape: Span

    @property
    def grain(self) -> int:
        """Rows of this shape are not packed together."""
        return 1

    def read(self, rows: Span, columns: Span) -> Floats:
        """Return a box: a run of the values underneath, and what of it lies in the box."""
        import numpy as np

        width = self.shape[1]
        start, stop = rows[0] * width + columns[0], (rows[1] - 1) * width + columns[1]
        under = self.values.shape[1]
        first, last = start // under, -(-stop // under)
        if last - first == 1:
            run = self.values.read((first, last), (start - first * under, stop - first * under))[0]
        else:
            run = self.values.read((first, last), (0, under)).reshape(-1)[start - first * under : stop - first * under]
        height = rows[1] - rows[0]
        padded = np.empty(height * width, np.float32) if height > 1 and len(run) < height * width else run
        if padded is not run:
            padded[: len(run)] = run
        if height == 1:
            row: Floats = run.reshape(1, -1)
            return row
        return np.ascontiguousarray(padded.reshape(height, width)[:, : columns[1] - columns[0]])


def _blocks_of(span: Span, size: int) -> Span:
    """Return the blocks that a range touches."""
    return span[0] // size, (span[1] - 1) // size + 1
