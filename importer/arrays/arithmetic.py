"""Arrays whose values are computed: casts, formulas, fused normalisations, dequantisation.

Each is a kernel over operands of one shape (`movement.compute`), so movement passes through. Small factors (norms) are
computed when first read. Not here: the kernels' arithmetic (`kernels`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from importer.arrays.constructors import contiguous
from importer.arrays.evaluation import to_numpy
from importer.arrays.formulas import parse_formula
from importer.arrays.kernels import Cast, Dequantize, FormulaKernel, OverflowCount, Scale
from importer.arrays.nodes import Array
from importer.arrays.tuning import current
from importer.arrays.views import broadcast, compute, narrow, permute, reshape
from importer.dtypes import DTYPES, F32, F64, DType, Kind
from importer.errors import Location, TensorError
from importer.temporary import DeferredStorage

if TYPE_CHECKING:
    import numpy as np

__all__ = ["cast", "dequantize", "elementwise", "spectral_norm", "weight_norm"]

_HOW = "Correct the recipe step, or check that the checkpoint is of the expected kind."
_REPRESENTATION = {"QI8": "I8", "QU8": "U8", "QI32": "I32"}


def cast(array: Array, dtype: DType, overflow: OverflowCount | None = None) -> Array:
    """Return the values in another type: a float as a float, an integer or boolean as an integer.

    `overflow`, if given, has counted what became infinite once all has been read.

    Rounds to nearest even; out-of-range values become what torch makes of them (infinities or NaN, wrapped integers).

    Raises:
        TensorError: the types are not of one kind, or the new one is an 8-bit float.
    """
    if array.dtype is dtype:
        return array
    kinds = (array.dtype.kind, dtype.kind)
    if kinds not in {(Kind.FLOAT, Kind.FLOAT), (Kind.INTEGER, Kind.INTEGER), (Kind.BOOL, Kind.INTEGER)}:
        raise TensorError(
            f"{array.dtype} cannot be cast to {dtype}", how="Cast floats to floats, integers to integers."
        )
    if dtype.is_float and dtype.itemsize == 1:
        raise TensorError(
            f"{array.dtype} is not rounded to {dtype}: releases of torch disagree on what too large a value becomes",
            how="Keep the type, or cast to F16, BF16 or F32.",
        )
    return compute(Cast(overflow), dtype, [array])


def elementwise(array: Array, expression: str) -> Array:
    """Return a formula in `x` of every element, computed in F32 (F64 for F64), in the array's type.

    Raises:
        TensorError: the array holds no floats, or the formula is none.
    """
    if not array.dtype.is_float:
        raise TensorError(f"a formula needs floating-point values, not {array.dtype}", how=_HOW)
    return compute(FormulaKernel(parse_formula(expression)), array.dtype, [array])


def weight_norm(g: Array, v: Array) -> Array:
    """Return `v * g / ||v||`, the norm taken over the axes on which `g` has size 1 (over all, if `g` is one number).

    Raises:
        TensorError: the shapes do not belong together, or the types are no floats.
    """
    _check_floats(g, v)
    g = reshape(g, (1,) * len(v.shape)) if g.size == 1 else g
    if len(g.shape) != len(v.shape) or any(a not in (1, b) for a, b in zip(g.shape, v.shape, strict=True)):
        raise TensorError(f"weight norm: g {list(g.shape)} does not go with v {list(v.shape)}", how=_HOW)
    wide = _accumulator(v.dtype)
    factors = _deferred(wide, g.shape, partial(_weight_norm_factors, g, v, wide), g, v)
    return compute(Scale(), v.dtype, [v, broadcast(factors, v.shape)])


def spectral_norm(weight: Array, u: Array, v: Array, axis: int = 0) -> Array:
    """Return `weight / sigma` with `sigma = u . W v`, where W is `weight` as a matrix with `axis` first.

    Raises:
        TensorError: the shapes do not belong together, or the types are no floats.
    """
    _check_floats(weight, u, v)
    rank = len(weight.shape)
    if not 0 <= axis < rank or u.shape != (weight.shape[axis],) or u.size * v.size != weight.size:
        raise TensorError(
            f"spectral norm: weight {list(weight.shape)}, u {list(u.shape)} and v {list(v.shape)} do not go together",
            how=_HOW,
        )
    rows = permute(weight, (axis, *(other for other in range(rank) if other != axis)))
    wide = _accumulator(weight.dtype)
    factor = _deferred(wide, (), partial(_spectral_factor, rows, u, v, wide), rows, u, v)
    return compute(Scale(), weight.dtype, [weight, broadcast(factor, weight.shape)])


def dequantize(values: Array, scales: Array, zero_points: Array, axis: int | None, dtype: DType) -> Array:
    """Return `(values - zero_points) * scales`: one scale for all, or one per index of `axis`.

    Raises:
        TensorError: the values are no integers, or the scales do not fit the axis.
    """
    representation = DTYPES[_REPRESENTATION.get(values.dtype.name, values.dtype.name)]
    if representation.kind is not Kind.INTEGER or not dtype.is_float:
        raise TensorError(f"{values.dtype} cannot be dequantised to {dtype}", how=_HOW)
    aligned = [1] * len(values.shape)
    if axis is not None:
        if not 0 <= axis < len(aligned):
            raise TensorError(f"shape {list(values.shape)} has no axis {axis}", how=_HOW)
        aligned[axis] = values.shape[axis]
    spread = [broadcast(reshape(factors, aligned), values.shape) for factors in (scales, zero_points)]
    return compute(Dequantize(), dtype, [values, *spread])


def _check_floats(*arrays: Array) -> None:
    for array in arrays:
        if not array.dtype.is_float:
            raise TensorError(f"a normalisation needs floating-point values, not {array.dtype}", how=_HOW)


def _accumulator(dtype: DType) -> DType:
    return F64 if dtype is F64 else F32


def _deferred(dtype: DType, shape: Sequence[int], produce: Callable[[], bytes], *operands: Array) -> Array:
    storage = DeferredStorage(math.prod(shape) * dtype.itemsize, Location(path="<computed>"), produce, operands)
    return contiguous(storage, dtype, shape)


def _boxes(array: Array) -> Iterator[tuple[tuple[slice, ...], np.ndarray]]:
    """Yield the array box by box, in F64, each with its place."""
    import numpy as np

    pending: list[tuple[tuple[slice, ...], Array]] = [(tuple(slice(0, size) for size in array.shape), array)]
    while pending:
        place, box = pending.pop()
        axis = next((axis for axis, size in enumerate(box.shape) if size > 1), None)
        if axis is None or box.size <= current().box_elements:
            yield place, to_numpy(box).astype(np.float64)
            continue
        half = box.shape[axis] // 2
        for start, stop in ((half, box.shape[axis]), (0, half)):
            first = place[axis].start
            part = (*place[:axis], slice(first + start, first + stop), *place[axis + 1 :])
            pending.append((part, narrow(box, axis, start, stop)))


def _weight_norm_factors(g: Array, v: Array, wide: DType) -> bytes:
    import numpy as np

    squares = np.zeros(g.shape)
    axes = tuple(axis for axis, size in enumerate(g.shape) if size == 1)
    for place, box in _boxes(v):
        kept = tuple(slice(0, 1) if axis in axes else part for axis, part in enumerate(place))
        squares[kept] += _sum(np.square(box), axes)
    with np.errstate(all="ignore"):
        factors = to_numpy(g).astype(np.float64) / np.sqrt(squares)
        return factors.astype(wide.numpy()).tobytes()


def _sum(values: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """Return sums over some axes, which stay with size 1: halves are added again and again.

    The order of numpy's own sums follows the processor's vectors, and so their last bits do.
    """
    import numpy as np

    kept = tuple(1 if axis in axes else size for axis, size in enumerate(values.shape))
    if not values.size:
        return np.zeros(kept)
    rows = np.moveaxis(values, tuple(axes), tuple(range(len(axes)))).reshape(-1, math.prod(kept))
    while len(rows) > 1:
        half = len(rows) // 2
        added = rows[:half] + rows[half : 2 * half]
        rows = np.concatenate((added, rows[2 * half :])) if len(rows) % 2 else added
    return np.asarray(rows[0]).reshape(kept)


def _spectral_factor(rows: Array, u: Array, v: Array, wide: DType) -> bytes:
    import numpy as np

    left = to_numpy(u).astype(np.float64).reshape(u.shape + (1,) * (len(rows.shape) - 1))
    right = to_numpy(v).astype(np.float64).reshape(1, *rows.shape[1:])
    sigma = np.float64(0)
    for place, box in _boxes(rows):
        sigma += _sum(box * left[place[0]] * right[(slice(0, 1), *place[1:])], tuple(range(box.ndim))).item()
    with np.errstate(all="ignore"):
        return np.asarray(1 / sigma).astype(wide.numpy()).tobytes()
