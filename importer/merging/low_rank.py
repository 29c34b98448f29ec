"""The sums: base + factor * left @ right, and rows scaled to a norm (DoRA), box by box in F32.

Products are summed in the order of the rank, by plain multiplications and additions: the same bytes on every processor and
for every number of threads, which no BLAS gives. Not here: which tensors are left and right.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from importer.arrays import Array
from importer.arrays.decoding import Decoder, Floats, Span
from importer.quantized.codes import Stored
from importer.quantized.parts import matrix

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Blended", "LowRank", "Normed", "stored_matrix"]

_GRAIN = 128
_NORM_ROWS = 64


def stored_matrix(array: Array, rows: int, columns: int) -> Stored:
    """Return a tensor as a matrix of F32."""
    return Stored(matrix(array, rows, columns))


@dataclass(frozen=True, slots=True, eq=False)
class LowRank:
    """`base + factor * left @ right`.

    Attributes:
        base: `[rows, columns]`.
        left: `[rows, rank]`.
        right: `[rank, columns]`.
        factor: what the product is multiplied with.
    """

    base: Decoder
    left: Decoder
    right: Decoder
    factor: float

    @property
    def shape(self) -> Span:
        """Rows and columns."""
        return self.base.shape

    @property
    def grain(self) -> int:
        """Rows that are best read together, or the right side would be read for every few of them."""
        return max(self.base.grain, _GRAIN)

    def read(self, rows: Span, columns: Span) -> Floats:
        """Return a box of the sum."""
        import numpy as np

        rank = self.right.shape[0]
        left, right = self.left.read(rows, (0, rank)), self.right.read((0, rank), columns)
        values = self.base.read(rows, columns)
        total: Floats = np.zeros(values.shape, np.float32)
        product = np.empty(values.shape, np.float32)
        with np.errstate(all="ignore"):
            for index in range(rank):
                np.multiply(left[:, index, None], right[index], out=product)
                np.add(total, product, out=total)
            np.multiply(total, np.float32(self.factor), out=total)
            np.add(total, values, out=total)
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Normed:
    """Rows (or columns) of a matrix, scaled so that each has a given norm.

    Attributes:
        values: the matrix.
        magnitude: `[rows]` or `[columns]`, the norms they are to have.
        axis: 0 if rows are scaled, 1 if columns are.
    """

    values: Decoder
    magnitude: Array
    axis: int
    _factors: list[Any] = field(default_factory=list, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def shape(self) -> Span:
        """Rows and columns."""
        return self.values.shape

    @property
    def grain(self) -> int:
        """Rows that are best read together."""
        return self.values.grain

    def read(self, rows: Span, columns: Span) -> Floats:
        """Return a box of the scaled matrix; the first reads all of it, for the norms."""
        import numpy as np

        factors = self._settled()
        part = factors[rows[0] : rows[1], None] if self.axis == 0 else factors[None, columns[0] : columns[1]]
        values = self.values.read(rows, columns)
        np.multiply(values, part, out=values)
        return values

    def _settled(self) -> np.ndarray[Any, Any]:
        with self._lock:
            if not self._factors:
                self._factors.append(self._ratios())
        made: np.ndarray[Any, Any] = self._factors[0]
        return made

    def _ratios(self) -> np.ndarray[Any, Any]:
        """Return what each row or column is multiplied with: the norm it is to have, by the one it has."""
        import numpy as np

        height, width = self.shape
        squares = np.zeros(self.shape[self.axis])
        for top in range(0, height, _NORM_ROWS):
            bottom = min(height, top + _NORM_ROWS)
            box = np.square(self.values.read((top, bottom), (0, width)).astype(np.float64))
            if self.axis == 0:
                squares[top:bottom] = box.sum(axis=1)
            else:
                for row in box:
                    squares += row
        wanted = stored_matrix(self.magnitude, 1, self.magnitude.size).read((0, 1), (0, self.magnitude.size))[0]
        with np.errstate(all="ignore"):
            ratios: np.ndarray[Any, Any] = (wanted.astype(np.float64) / np.sqrt(squares)).astype(np.float32)
        return ratios


@dataclass(frozen=True, slots=True, eq=False)
class Blended:
    """`base + weight * (changed - base)`: a change taken in part, or more than whole."""

    base: Decoder
    changed: Decoder
    weight: float

    @property
    def shape(self) -> Span:
        """Rows and columns."""
        return self.base.shape

    @property
    def grain(self) -> int:
        """Rows that are best read together."""
        return max(self.base.grain, self.changed.grain)

    def read(self, rows: Span, columns: Span) -> Floats:
        """Return a box of the blend."""
        import numpy as np

        base, values = self.base.read(rows, columns), self.changed.read(rows, columns)
        with np.errstate(all="ignore"):
            np.subtract(values, base, out=values)
            np.multiply(values, np.float32(self.weight), out=values)
            np.add(values, base, out=values)
        return values
