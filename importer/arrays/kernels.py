"""The arithmetic itself, on one-dimensional numpy arrays, a few thousand elements at a time.

Kernels are frozen values, so that two plans can be compared. Not here: shapes, and which array gets which kernel
(`arithmetic`).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from importer.arrays.formulas import Formula

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Cast", "Dequantize", "FormulaKernel", "OverflowCount", "Scale"]

_BF16 = "bfloat16"
_WORD_BYTES = 4
_NAN_BF16 = 0x7FC0
_HALF_BYTES = 2
_INFINITY_F16, _INFINITY_BF16 = 0x7C00, 0x7F80


class OverflowCount:
    """How many finite numbers have become infinite in a narrower type, by several workers together."""

    __slots__ = ("_lock", "count")

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self, values: np.ndarray, out: np.ndarray) -> None:
        """Count those of one block."""
        import numpy as np

        if out.dtype.itemsize == _HALF_BYTES:
            bits = out.view(np.uint16) & 0x7FFF
            infinite = bits == (_INFINITY_BF16 if out.dtype.name == _BF16 else _INFINITY_F16)
        else:
            infinite = np.isinf(out)
        if infinite.any():
            found = int(np.count_nonzero(np.isfinite(values[infinite])))
            with self._lock:
                self.count += found


@dataclass(frozen=True, slots=True)
class Cast:
    """A value cast, rounded to nearest even, the way torch does it: F64 goes to the 8 and 16-bit floats by way of F32.

    Attributes:
        overflow: counts what becomes infinite, if anybody wants to know.
    """

    overflow: OverflowCount | None = field(default=None, compare=False)

    def __call__(self, operands: list[np.ndarray], out: np.ndarray) -> None:
        """Write operand 0 in the type of `out`."""
        import numpy as np

        (values,) = operands
        with np.errstate(all="ignore"):
            self._cast(values, out)
            if self.overflow is not None:
                self.overflow.add(values, out)

    @staticmethod
    def _cast(values: np.ndarray, out: np.ndarray) -> None:
        import numpy as np

        if values.dtype == np.float64 and out.dtype.itemsize < _WORD_BYTES:
            values = values.astype(np.float32)
        if values.dtype.name == _BF16 and out.dtype == np.float32:
            _widen(values.view(np.uint16), out.view(np.uint32))
        elif values.dtype == np.float32 and out.dtype.name == _BF16:
            _round(values, out.view(np.uint16))
        else:
            np.copyto(out, values, casting="unsafe")


@dataclass(frozen=True, slots=True)
class FormulaKernel:
    """A formula in `x`, computed in F32 (in F64 for F64)."""

    expression: Formula

    def __call__(self, operands: list[np.ndarray], out: np.ndarray) -> None:
        """Write the formula's value for operand 0."""
        import numpy as np

        with np.errstate(all="ignore"):
            np.copyto(out, self.expression.value(_widened(operands[0])), casting="unsafe")


@dataclass(frozen=True, slots=True)
class Scale:
    """The product of operand 0 and a factor, operand 1, in the factor's type."""

    def __call__(self, operands: list[np.ndarray], out: np.ndarray) -> None:
        """Write the product."""
        import numpy as np

        values, factors = operands
        with np.errstate(all="ignore"):
            np.copyto(out, values.astype(factors.dtype) * factors, casting="unsafe")


@dataclass(frozen=True, slots=True)
class Dequantize:
    """`(values - zero points) * scales`, operands in that order, in F32."""

    def __call__(self, operands: list[np.ndarray], out: np.ndarray) -> None:
        """Write the real values."""
        import numpy as np

        values, scales, zero_points = operands
        with np.errstate(all="ignore"):
            real = (values.astype(np.float32) - zero_points.astype(np.float32)) * scales.astype(np.float32)
            np.copyto(out, real, casting="unsafe")


def _widen(halves: np.ndarray, words: np.ndarray) -> None:
    """BF16 to F32, as bits: BF16 is the upper half. `ml_dtypes` would keep the other threads waiting meanwhile."""
    import numpy as np

    np.left_shift(halves, 16, out=words, dtype=words.dtype)


def _round(values: np.ndarray, halves: np.ndarray) -> None:
    """F32 to BF16, as bits (see `_widen`): to nearest even, every NaN to the plain one."""
    import numpy as np

    words = values.view(np.uint32)
    rounded = words >> 16
    rounded &= 1
    rounded += 0x7FFF
    rounded += words
    rounded >>= 16
    np.copyto(halves, rounded, casting="unsafe")
    nans = np.isnan(values)
    if nans.any():
        halves[nans] = _NAN_BF16


def _widened(values: np.ndarray) -> np.ndarray:
    import numpy as np

    return values if values.dtype == np.float64 else values.astype(np.float32)
