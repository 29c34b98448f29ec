"""Integer algebra of strided loops and boxes of indices.

Merging, splitting, slicing and refining lists of (size, stride) factors; when a box is a run of elements, where it lies after
a reshape, whether boxes overlap. Pure functions on tuples. Not here: arrays, dtypes, storages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

__all__ = [
    "Cut",
    "added",
    "any_overlap",
    "axis_factors",
    "axis_groups",
    "box_of_run",
    "coalesce",
    "common_refinement",
    "cut",
    "row_major",
    "run_of_box",
    "split_to",
    "unflatten",
]


class Cut(NamedTuple):
    """A run of indices of one axis as factors of its own: `length` indices, `offset` elements from the axis's first."""

    length: int
    offset: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a dense C-order tensor."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def coalesce(sizes: Sequence[int], strides: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Drop factors of size one, and join neighbours that are one run; a dense tensor becomes one factor of stride 1."""
    out: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if out and out[-1][1] == stride * size:
            out[-1] = (out[-1][0] * size, stride)
        else:
            out.append((size, stride))
    return tuple(size for size, _ in out), tuple(stride for _, stride in out)


def unflatten(
    sizes: Sequence[int], strides: Sequence[int], shape: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Split factors so that every axis of `shape` is made of whole ones; None where no split does.

    The element order stays; `sizes` and `shape` must have the same product, which is not zero.
    """
    left = list(zip(*coalesce(sizes, strides), strict=True))
    out: list[tuple[int, int]] = []
    for axis_size in reversed(shape):
        need = axis_size
        while need > 1:
            size, stride = left.pop()
            step = math.gcd(size, need)
            if step not in (size, need):
                return None
            out.append((step, stride))
            need //= step
            if step < size:
                left.append((size // step, stride * step))
    out.reverse()
    return tuple(size for size, _ in out), tuple(stride for _, stride in out)


def axis_factors(shape: Sequence[int], sizes: Sequence[int]) -> list[slice]:
    """Return, per axis of `shape`, which of the factors `sizes` make it up (see `View`)."""
    if tuple(shape) == tuple(sizes):
        return [slice(axis, axis + 1) for axis in range(len(shape))]
    slices = []
    first = 0
    for axis_size in shape:
        last, product = first, 1
        while product < axis_size:
            product *= sizes[last]
            last += 1
        slices.append(slice(first, last))
        first = last
    return slices


def cut(sizes: tuple[int, ...], strides: tuple[int, ...], start: int, stop: int) -> Iterator[Cut]:
    """Yield the runs that indices `start` to `stop`, at least one, of an axis with these factors consist of, in order.

    One run where the limits fall on whole inner factors, else up to two more per factor.
    """
    inner = math.prod(sizes[1:])
    first, first_rest = divmod(start, inner)
    last, last_rest = divmod(stop, inner)
    if first == last:
        yield from _inside(sizes, strides, first, first_rest, last_rest)
    else:
        if first_rest:
            yield from _inside(sizes, strides, first, first_rest, inner)
            first += 1
        if first < last:
            count = last - first
            yield Cut(count * inner, first * strides[0], (count, *sizes[1:]), strides)
        if last_rest:
            yield from _inside(sizes, strides, last, 0, last_rest)


def _inside(sizes: tuple[int, ...], strides: tuple[int, ...], index: int, start: int, stop: int) -> Iterator[Cut]:
    """Yield the runs within one index of the outermost factor."""
    for run in cut(sizes[1:], strides[1:], start, stop):
        yield run._replace(offset=run.offset + index * strides[0])


def common_refinement(lists: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """Return the coarsest factors that refine every one of `lists` (all of one product), or None if there are none."""
    left = [[size for size in sizes if size > 1] for sizes in lists]
    out = []
    while any(left):
        step = min(sizes[-1] for sizes in left)
        for sizes in left:
            quotient, rest = divmod(sizes.pop(), step)
            if rest:
                return None
            if quotient > 1:
                sizes.append(quotient)
        out.append(step)
    return tuple(reversed(out))


def split_to(sizes: Sequence[int], strides: Sequence[int], parts: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of these factors after splitting them into `parts`, which refine them."""
    left = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size > 1]
    out = []
    for part in reversed(parts):
        size, stride = left.pop()
        out.append(stride)
        if part < size:
            left.append((size // part, stride * part))
    return tuple(reversed(out))


def axis_groups(old: tuple[int, ...], new: tuple[int, ...]) -> Iterable[tuple[slice, slice]]:
    """Yield the smallest groups of axes on both sides that hold the same elements."""
    i = j = 0
    while i < len(old) or j < len(new):
        first_i, first_j, left, right = i, j, 1, 1
        while True:
            if left <= right and i < len(old):
                left *= old[i]
                i += 1
            else:
                right *= new[j]
                j += 1
            if left == right and (i > first_i or i == len(old)) and (j > first_j or j == len(new)):
                break
        yield slice(first_i, i), slice(first_j, j)


def run_of_box(shape: Sequence[int], starts: Sequence[int], sizes: Sequence[int]) -> tuple[int, int] | None:
    """Return the first flat index of a box and the one after its last, if its elements are consecutive."""
    open_axes = [axis for axis, size in enumerate(sizes) if size > 1]
    if open_axes and any(sizes[axis] != shape[axis] for axis in range(open_axes[0] + 1, len(shape))):
        return None
    first = sum(start * stride for start, stride in zip(starts, row_major(shape), strict=True))
    return first, first + math.prod(sizes)


def box_of_run(start: int, stop: int, shape: Sequence[int]) -> tuple[list[int], list[int]] | None:
    """Return starts and sizes of the box that holds exactly the flat indices `start` to `stop`, if there is one."""
    starts: list[int] = []
    sizes: list[int] = []
    for axis, inner in enumerate(row_major(shape)):
        first, rest = divmod(start, inner)
        if (stop - 1) // inner != first:
            if rest or stop % inner:
                return None
            starts += [first, *(0,) * (len(shape) - axis - 1)]
            sizes += [stop // inner - first, *shape[axis + 1 :]]
            return starts, sizes
        starts.append(first)
        sizes.append(1)
        start, stop = rest, stop - first * inner
    return starts, sizes


def any_overlap(boxes: Iterable[tuple[tuple[int, ...], tuple[int, ...]]]) -> bool:
    """Whether two boxes, given as starts and sizes, share an element; sorted, so that only near ones are compared."""
    active: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for starts, ends in sorted((starts, added(starts, sizes)) for starts, sizes in boxes):
        active = [box for box in active if starts and box[1][0] > starts[0]]
        for other_starts, other_ends in active:
            if all(a < d and c < b for a, b, c, d in zip(starts, ends, other_starts, other_ends, strict=True)):
                return True
        active.append((starts, ends))
    return False


def added(left: Sequence[int], right: Sequence[int]) -> tuple[int, ...]:
    """Return the sums, axis by axis."""
    return tuple(a + b for a, b in zip(left, right, strict=True))
