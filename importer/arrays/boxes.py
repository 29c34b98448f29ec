"""Geometry of boxes of indices: when a box is a run of elements, where it lies after a reshape, whether boxes overlap.

Pure functions on tuples. Not here: strides (`strides`), arrays (`views`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from importer.arrays.strides import row_major

__all__ = ["added", "any_overlap", "axis_groups", "box_of_run", "run_of_box"]


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
