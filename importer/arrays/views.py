"""Moving elements without touching them: permute, reshape, narrow, split, concat, stack, assemble.

Every function settles the shape at once and returns the normal form of `nodes`. A reshape that no strides can express
(flattening a chunked array across its seams, say) goes through a temporary file when it is read. Not here: patterns
(`rearranging`), values (`arithmetic`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

from importer.arrays.decoding import retyped
from importer.arrays.evaluation import spooled
from importer.arrays.kernels import Cast
from importer.arrays.nodes import Array, Chunk, Chunked, Computed, Kernel, View, empty, single
from importer.arrays.strides import (
    added,
    any_overlap,
    axis_factors,
    axis_groups,
    box_of_run,
    common_refinement,
    cut,
    run_of_box,
    unflatten,
)
from importer.dtypes import DType
from importer.errors import TensorError

__all__ = [
    "assemble",
    "broadcast",
    "compute",
    "concat",
    "narrow",
    "permute",
    "reshape",
    "split",
    "stack",
    "transpose",
]

_HOW = "Correct the recipe step, or check that the checkpoint is of the expected kind."


def permute(array: Array, axes: Sequence[int]) -> Array:
    """Reorder the axes: axis `i` of the result is axis `axes[i]` of `array`.

    Raises:
        TensorError: `axes` is no permutation of the axes.
    """
    if sorted(axes) != list(range(len(array.shape))):
        raise TensorError(f"axes {list(axes)} are no order of the axes of shape {list(array.shape)}", how=_HOW)
    shape = tuple(array.shape[axis] for axis in axes)
    if isinstance(array, View):
        slices = axis_factors(array.shape, array.sizes)
        sizes = tuple(size for axis in axes for size in array.sizes[slices[axis]])
        strides = tuple(stride for axis in axes for stride in array.strides[slices[axis]])
        return View(array.dtype, shape, array.storage, sizes, strides, array.offset, array.encoding)
    if isinstance(array, Computed):
        return _computed(array, [permute(operand, axes) for operand in array.operands])
    chunks = [
        Chunk(tuple(starts[axis] for axis in axes), single(permute(chunk, axes))) for starts, chunk in _chunks(array)
    ]
    return Chunked(array.dtype, shape, tuple(chunks))


def transpose(array: Array) -> Array:
    """Swap the last two axes.

    Raises:
        TensorError: there are fewer than two.
    """
    rank = len(array.shape)
    if rank < 2:  # noqa: PLR2004 - a matrix has two axes
        raise TensorError(f"shape {list(array.shape)} has no two axes to transpose", how=_HOW)
    return permute(array, (*range(rank - 2), rank - 1, rank - 2))


def reshape(array: Array, shape: Sequence[int]) -> Array:
    """Give the same elements, in the same C order, another shape.

    Raises:
        TensorError: the number of elements differs.
    """
    shape = tuple(shape)
    if min(shape, default=0) < 0 or math.prod(shape) != array.size:
        raise TensorError(f"shape {list(array.shape)} cannot be reshaped to {list(shape)}", how=_HOW)
    if shape == array.shape:
        return array
    if array.size == 0:
        return empty(array.dtype, shape)
    if isinstance(array, View):
        factors = unflatten(array.sizes, array.strides, shape)
        if factors is not None:
            return View(array.dtype, shape, array.storage, *factors, array.offset, array.encoding)
    elif isinstance(array, Computed):
        return _computed(array, [reshape(operand, shape) for operand in array.operands])
    else:
        moved = [_reshaped_chunk(array.shape, starts, chunk, shape) for starts, chunk in _chunks(array)]
        if None not in moved:
            return _chunked(array.dtype, shape, [chunk for chunk in moved if chunk is not None])
    return reshape(spooled(array), shape)


def narrow(array: Array, axis: int, start: int, stop: int) -> Array:
    """Keep the indices from `start` up to, not including, `stop` of one axis.

    Raises:
        TensorError: there is no such axis or range.
    """
    _check_axis(array.shape, axis)
    if not 0 <= start <= stop <= array.shape[axis]:
        raise TensorError(
            f"indices {start} to {stop} of axis {axis} are outside of shape {list(array.shape)}", how=_HOW
        )
    if stop - start == array.shape[axis]:
        return array
    shape = (*array.shape[:axis], stop - start, *array.shape[axis + 1 :])
    if 0 in shape:
        return empty(array.dtype, shape)
    if isinstance(array, View):
        return _narrowed_view(array, axis, start, stop)
    if isinstance(array, Computed):
        return _computed(array, [narrow(operand, axis, start, stop) for operand in array.operands])
    kept = []
    for starts, chunk in _chunks(array):
        first = max(start, starts[axis])
        last = min(stop, starts[axis] + chunk.shape[axis])
        if first < last:
            part = narrow(chunk, axis, first - starts[axis], last - starts[axis])
            kept.append(((*starts[:axis], first - start, *starts[axis + 1 :]), part))
    return _chunked(array.dtype, shape, kept)


def split(array: Array, axis: int, sizes: Sequence[int]) -> tuple[Array, ...]:
    """Cut one axis into consecutive parts of the given sizes.

    Raises:
        TensorError: there is no such axis, or the sizes do not add up to its size.
    """
    _check_axis(array.shape, axis)
    if min(sizes, default=0) < 0 or sum(sizes) != array.shape[axis]:
        raise TensorError(f"sizes {list(sizes)} do not add up to axis {axis} of shape {list(array.shape)}", how=_HOW)
    return tuple(narrow(array, axis, start, stop) for start, stop in pairwise(accumulate(sizes, initial=0)))


def concat(parts: Sequence[Array], axis: int) -> Array:
    """Join arrays along one axis.

    Raises:
        TensorError: there are none, or types or the other sizes differ.
    """
    first = _first(parts)
    _check_axis(first.shape, axis)
    for part in parts:
        if part.dtype is not first.dtype or _without(part.shape, axis) != _without(first.shape, axis):
            raise TensorError(
                f"{part.dtype} {list(part.shape)} cannot be joined with {first.dtype} {list(first.shape)}"
                f" along axis {axis}",
                how=_HOW,
            )
    ends = list(accumulate(part.shape[axis] for part in parts))
    shape = (*first.shape[:axis], ends[-1], *first.shape[axis + 1 :])
    before, after = (0,) * axis, (0,) * (len(shape) - axis - 1)
    placed = [((*before, start, *after), part) for start, part in zip([0, *ends], parts, strict=False)]
    return _chunked(first.dtype, shape, placed)


def stack(parts: Sequence[Array], axis: int = 0) -> Array:
    """Join arrays of one shape along a new axis.

    Raises:
        TensorError: there are none, types or shapes differ, or there is no place for such an axis.
    """
    first = _first(parts)
    if not 0 <= axis <= len(first.shape):
        raise TensorError(f"shape {list(first.shape)} has no place for a new axis {axis}", how=_HOW)
    return concat([reshape(part, (*part.shape[:axis], 1, *part.shape[axis:])) for part in parts], axis)


def assemble(dtype: DType, shape: Sequence[int], placed: Iterable[tuple[Sequence[int], Array]]) -> Array:
    """Return a tensor of `shape` made of parts, each with the index of its first element on every axis.

    Raises:
        TensorError: a part has another type or rank, reaches outside, or the parts do not cover the shape exactly once.
    """
    shape = tuple(shape)
    parts = [(tuple(starts), part) for starts, part in placed]
    for starts, part in parts:
        fits = len(starts) == len(part.shape) == len(shape) and all(
            0 <= start <= end - size for start, size, end in zip(starts, part.shape, shape, strict=True)
        )
        if part.dtype is not dtype or not fits:
            raise TensorError(
                f"a part {part.dtype} {list(part.shape)} at {list(starts)} does not fit into {dtype} {list(shape)}",
                how=_HOW,
            )
    solid = [(starts, part) for starts, part in parts if part.size]
    if sum(part.size for _, part in solid) != math.prod(shape) or any_overlap(
        [(starts, part.shape) for starts, part in solid]
    ):
        raise TensorError(f"{len(parts)} parts do not cover shape {list(shape)} exactly once", how=_HOW)
    return _chunked(dtype, shape, solid)


def broadcast(array: Array, shape: Sequence[int]) -> Array:
    """Repeat axes of size one, and add leading ones, as numpy does.

    Raises:
        TensorError: the shapes do not match that way.
    """
    shape = tuple(shape)
    aligned = (1,) * (len(shape) - len(array.shape)) + array.shape
    if len(aligned) != len(shape) or any(size not in (1, target) for size, target in zip(aligned, shape, strict=True)):
        raise TensorError(f"shape {list(array.shape)} cannot be repeated to {list(shape)}", how=_HOW)
    if 0 in shape:
        return empty(array.dtype, shape)
    if isinstance(array, Computed):
        return _computed(array, [broadcast(operand, shape) for operand in array.operands])
    view = reshape(array if isinstance(array, View) else spooled(array), aligned)
    assert isinstance(view, View)
    slices = axis_factors(aligned, view.sizes)
    sizes: list[int] = []
    strides: list[int] = []
    for size, target, factors in zip(aligned, shape, slices, strict=True):
        if target > 1:
            sizes += view.sizes[factors] if size == target else [target]
            strides += view.strides[factors] if size == target else [0]
    return View(view.dtype, shape, view.storage, tuple(sizes), tuple(strides), view.offset, view.encoding)


def compute(kernel: Kernel, dtype: DType, operands: Sequence[Array]) -> Array:
    """Return a kernel applied to operands of one shape, pushed below any chunked array."""
    shape = operands[0].shape
    if 0 in shape:
        return empty(dtype, shape)
    for operand in operands:
        if isinstance(operand, Chunked):
            placed = [
                (starts, compute(kernel, dtype, [_box(other, starts, chunk.shape) for other in operands]))
                for starts, chunk in operand.chunks
            ]
            return _chunked(dtype, shape, placed)
    alike = [single(operand) for operand in operands]
    if not _share_loops(alike):
        alike = [spooled(operand) for operand in alike]
    first = alike[0]
    if isinstance(kernel, Cast) and isinstance(first, Computed) and not isinstance(first.kernel, Cast):
        # Rounded once: what is computed goes from the arithmetic's own type straight to the one asked for last.
        return Computed(dtype, shape, first.kernel, first.operands)
    if isinstance(kernel, Cast) and (rounded := retyped(first, dtype)) is not None:
        return rounded
    return Computed(dtype, shape, kernel, tuple(alike))


def _computed(array: Computed, operands: Sequence[Array]) -> Array:
    return compute(array.kernel, array.dtype, operands)


def _share_loops(operands: Sequence[View | Computed]) -> bool:
    """Whether one nest of loops runs over all operands."""
    views = list(_views(operands))
    if len(views) == 1:
        return True
    slices = [axis_factors(view.shape, view.sizes) for view in views]
    return all(
        common_refinement([view.sizes[parts[axis]] for view, parts in zip(views, slices, strict=True)]) is not None
        for axis in range(len(operands[0].shape))
    )


def _views(operands: Iterable[View | Computed]) -> Iterable[View]:
    for operand in operands:
        if isinstance(operand, View):
            yield operand
        else:
            yield from _views(operand.operands)


def _chunks(array: Array) -> tuple[Chunk, ...]:
    assert isinstance(array, Chunked)
    return array.chunks


def _chunked(dtype: DType, shape: tuple[int, ...], placed: Iterable[tuple[tuple[int, ...], Array]]) -> Array:
    """Return the array made of these parts, flattening chunked arrays inside and leaving out empty parts."""
    chunks: list[Chunk] = []
    for starts, part in placed:
        if isinstance(part, Chunked):
            chunks += [Chunk(added(starts, inner), chunk) for inner, chunk in part.chunks]
        elif part.size:
            chunks.append(Chunk(starts, single(part)))
    if not chunks:
        return empty(dtype, shape)
    if len(chunks) == 1:
        return chunks[0].array
    return Chunked(dtype, shape, tuple(chunks))


def _box(array: Array, starts: Sequence[int], sizes: Sequence[int]) -> Array:
    """Return the part of `array` with these first indices and sizes."""
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        array = narrow(array, axis, start, start + size)
    return array


def _narrowed_view(view: View, axis: int, start: int, stop: int) -> Array:
    factors = axis_factors(view.shape, view.sizes)[axis]
    placed: list[tuple[tuple[int, ...], Array]] = []
    position = 0
    for length, offset, sizes, strides in cut(view.sizes[factors], view.strides[factors], start, stop):
        part = View(
            view.dtype,
            (*view.shape[:axis], length, *view.shape[axis + 1 :]),
            view.storage,
            (*view.sizes[: factors.start], *sizes, *view.sizes[factors.stop :]),
            (*view.strides[: factors.start], *strides, *view.strides[factors.stop :]),
            view.offset + offset,
            view.encoding,
        )
        placed.append(((*(0,) * axis, position, *(0,) * (len(view.shape) - axis - 1)), part))
        position += length
    return _chunked(view.dtype, (*view.shape[:axis], stop - start, *view.shape[axis + 1 :]), placed)


def _reshaped_chunk(
    old: tuple[int, ...], starts: tuple[int, ...], chunk: View | Computed, new: tuple[int, ...]
) -> tuple[tuple[int, ...], Array] | None:
    """Return where a chunk comes to lie when the whole is reshaped, with the chunk reshaped; None if it is no box there.

    Axes fall into groups of equal product on both sides; within each, the chunk must be one run of consecutive
    elements that is a box of the new axes as well.
    """
    new_starts: list[int] = []
    new_sizes: list[int] = []
    for before, after in axis_groups(old, new):
        run = run_of_box(old[before], starts[before], chunk.shape[before])
        box = run and box_of_run(run[0], run[1], new[after])
        if not box:
            return None
        new_starts += box[0]
        new_sizes += box[1]
    return tuple(new_starts), reshape(chunk, new_sizes)


def _first(parts: Sequence[Array]) -> Array:
    if not parts:
        raise TensorError("there is nothing to join", how=_HOW)
    return parts[0]


def _check_axis(shape: Sequence[int], axis: int) -> None:
    if not 0 <= axis < len(shape):
        raise TensorError(f"shape {list(shape)} has no axis {axis}", how=_HOW)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]
