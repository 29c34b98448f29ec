"""Whether a checkpoint may be quantised at all, at one glance: most are not, and need none of the formats.

Not here: which format it is (`finding`).
"""

from __future__ import annotations

from collections.abc import Iterable

from importer.arrays import Array
from importer.dtypes import Kind

__all__ = ["may_have_codes"]

_CODE_BYTES = 4
"""Codes are at most so wide; 64-bit integers are positions and counters."""


def may_have_codes(arrays: Iterable[Array]) -> bool:
    """Whether any tensor is of a type that codes, or what is said of them, are stored in."""
    return any(
        array.shape
        and array.dtype.itemsize <= _CODE_BYTES
        and (
            array.dtype.kind in (Kind.INTEGER, Kind.BITS, Kind.QUANTIZED)
            or (array.dtype.is_float and array.dtype.itemsize == 1)
        )
        for array in arrays
    )
