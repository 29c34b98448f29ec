"""Random chains of array operations, done twice: by the package and by numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from importer.arrays import Array, concat, contiguous, narrow, permute, reshape, stack
from importer.dtypes import DTYPES, DType
from importer.errors import Location
from importer.storages import MemoryStorage

Values = np.ndarray[Any, np.dtype[Any]]
Pair = tuple[Array, Values]

WHERE = Location(path="test")


def stored(values: Values, dtype: DType) -> Array:
    """Return an array of ours over the bytes of one of numpy's."""
    return contiguous(MemoryStorage(values.tobytes(), WHERE), dtype, values.shape)


def counted(shape: tuple[int, ...], name: str = "I32") -> Pair:
    """Return 0, 1, 2… in the given shape, both ways."""
    dtype = DTYPES[name]
    values = np.arange(int(np.prod(shape, dtype=int))).astype(dtype.numpy()).reshape(shape)
    return stored(values, dtype), values


@st.composite
def movements(draw: st.DrawFn, steps: int = 6) -> Pair:
    """Return the result of a random chain of movements, both ways."""
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=0, max_size=4)))
    pair = counted(shape)
    for _ in range(draw(st.integers(0, steps))):
        pair = draw(st.sampled_from([_permuted, _reshaped, _narrowed, _joined, _stacked]))(draw, pair)
    return pair


def _permuted(draw: st.DrawFn, pair: Pair) -> Pair:
    array, values = pair
    axes = draw(st.permutations(range(values.ndim)))
    return permute(array, axes), values.transpose(axes)


def _reshaped(draw: st.DrawFn, pair: Pair) -> Pair:
    array, values = pair
    left = values.size
    shape: list[int] = []
    while left > 1 and len(shape) < 4:
        divisors = [number for number in range(1, left + 1) if left % number == 0]
        shape.append(draw(st.sampled_from(divisors)))
        left //= shape[-1]
    if left != 1 or not shape:
        shape.append(left)
    return reshape(array, shape), values.reshape(shape)


def _narrowed(draw: st.DrawFn, pair: Pair) -> Pair:
    array, values = pair
    if not values.ndim:
        return pair
    axis = draw(st.integers(0, values.ndim - 1))
    start = draw(st.integers(0, values.shape[axis]))
    stop = draw(st.integers(start, values.shape[axis]))
    index = (slice(None),) * axis + (slice(start, stop),)
    return narrow(array, axis, start, stop), values[index]


def _joined(draw: st.DrawFn, pair: Pair) -> Pair:
    array, values = pair
    if not values.ndim or values.size > 2_000:
        return pair
    axis = draw(st.integers(0, values.ndim - 1))
    count = draw(st.integers(1, 3))
    return concat([array] * count, axis), np.concatenate([values] * count, axis)


def _stacked(draw: st.DrawFn, pair: Pair) -> Pair:
    array, values = pair
    if values.ndim > 4 or values.size > 2_000:
        return pair
    axis = draw(st.integers(0, values.ndim))
    return stack([array, array], axis), np.stack([values, values], axis)
