"""One tile: fetch its elements, put them in output order, compute, and store the result. The only user of numpy here.

Not here: which tiles there are (`nests`), and what runs them (`evaluation`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from importer.arrays.factors import row_major
from importer.arrays.nests import Nest, Tile, span_of, views_of
from importer.arrays.nodes import Computed, Encoding, View
from importer.dtypes import F16, F32, F64, DType, Kind

if TYPE_CHECKING:
    from importer.arrays.evaluation import Workspace

__all__ = ["fill_tile", "write_tile"]

_RAW = {1: np.dtype("u1"), 2: np.dtype("<u2"), 4: np.dtype("<u4"), 8: np.dtype("<u8"), 16: np.dtype("<c16")}
"""Types that carry elements of each size without touching a bit of them."""

_KERNEL_ELEMENTS = 1 << 16
"""Elements per call of a kernel, so that its intermediate results stay in the processor's cache."""

_STRIP_BYTES = 64
"""Output bytes per row of one strip of a transposition: a cache line, filled before the next one is begun."""

_COMPONENT = {4: F16, 8: F32, 16: F64}

Elements = np.ndarray[Any, np.dtype[Any]]


def fill_tile(leaf: View | Computed, nest: Nest, tile: Tile, buffer: memoryview, workspace: Workspace) -> None:
    """Compute a tile into memory; `buffer` begins at the tile's first output byte."""
    raw = _RAW[leaf.dtype.itemsize]
    place: Elements = np.ndarray(tile.sizes, raw, buffer=buffer, strides=[step * raw.itemsize for step in nest.target])
    if place.flags.c_contiguous:
        _evaluate(leaf, nest, tile, place, workspace)
    else:
        result = _array(workspace, "result", tile.sizes, raw)
        _evaluate(leaf, nest, tile, result, workspace)
        np.copyto(place, result)


def write_tile(leaf: View | Computed, nest: Nest, tile: Tile, place: tuple[int, int], workspace: Workspace) -> None:
    """Compute a tile and write it; `place` is an open file and the offset of the tile's first output byte."""
    from importer.arrays.evaluation import write_all

    itemsize = leaf.dtype.itemsize
    result = _array(workspace, "result", tile.sizes, _RAW[itemsize])
    _evaluate(leaf, nest, tile, result, workspace)
    outer, run = _runs(tile.sizes, nest.target)
    data = result.reshape(-1).view(np.uint8).data
    descriptor, base = place
    length = run * itemsize
    for index, step in enumerate(_offsets(tile.sizes[:outer], nest.target[:outer])):
        write_all(descriptor, data[index * length : (index + 1) * length], base + step * itemsize)


def _evaluate(leaf: View | Computed, nest: Nest, tile: Tile, out: Elements, workspace: Workspace) -> None:
    """Fill `out`, which is dense and of the tile's shape."""
    if isinstance(leaf, View):
        _fetch(leaf, nest.steps[0], tile, out, workspace)
        return
    fetched = []
    for number, (view, steps) in enumerate(zip(views_of(leaf), nest.steps, strict=True)):
        operand = _array(workspace, f"operand {number}", tile.sizes, _RAW[view.dtype.itemsize])
        _fetch(view, steps, tile, operand, workspace)
        fetched.append(operand.reshape(-1).view(view.dtype.numpy()))
    flat = out.reshape(-1).view(leaf.dtype.numpy())
    for start in range(0, len(flat), _KERNEL_ELEMENTS):
        stop = start + _KERNEL_ELEMENTS
        _apply(leaf, iter([operand[start:stop] for operand in fetched]), flat[start:stop])


def _apply(leaf: Computed, fetched: Iterator[Elements], out: Elements) -> None:
    """Run a kernel, and those inside it, over a few elements; `fetched` are the views in `views_of` order."""
    operands = []
    for operand in leaf.operands:
        if isinstance(operand, View):
            operands.append(next(fetched))
        else:
            inner = np.empty(len(out), operand.dtype.numpy())
            _apply(operand, fetched, inner)
            operands.append(inner)
    leaf.kernel(operands, out)


def _fetch(view: View, steps: Sequence[int], tile: Tile, out: Elements, workspace: Workspace) -> None:
    """Read the elements of a tile of one view into `out`, in loop order, and make values of them."""
    itemsize = view.dtype.itemsize
    first = view.offset + sum(start * step for start, step in zip(tile.starts, steps, strict=True))
    span = span_of(tile.sizes, steps, itemsize)
    outer = span.order[: span.outer]
    if span.count == 1 and all(
        size == 1 or step == dense for size, step, dense in zip(tile.sizes, steps, row_major(tile.sizes), strict=True)
    ):
        view.storage.read_into(first * itemsize, out.reshape(-1).view(np.uint8).data)
    else:
        length = span.length * itemsize
        scratch = workspace.take("scratch", span.count * length)
        offsets = _offsets([tile.sizes[loop] for loop in outer], [steps[loop] for loop in outer])
        for index, step in enumerate(offsets):
            view.storage.read_into((first + step) * itemsize, scratch[index * length : (index + 1) * length])
        strides = list(steps)
        packed = row_major([tile.sizes[loop] for loop in outer])
        for loop, dense in zip(outer, packed, strict=True):
            strides[loop] = dense * span.length
        source: Elements = np.ndarray(
            tile.sizes, out.dtype, buffer=scratch, strides=[step * itemsize for step in strides]
        )
        _reorder(source, out)
    _decode(out, view.dtype, view.encoding)


def _reorder(source: Elements, out: Elements) -> None:
    """Copy; strip by strip where the fastest loop of `source` is not that of `out`.

    numpy walks in output order, which for a transposition reads one element per cache line. Within a strip of a few
    output columns the same cache lines serve all of them, which is seven times as fast.
    """
    loops = [
        (stride, loop) for loop, (size, stride) in enumerate(zip(out.shape, source.strides, strict=True)) if size > 1
    ]
    width = _STRIP_BYTES // out.itemsize
    if not loops or min(loops)[1] == out.ndim - 1 or min(loops)[0] == 0 or out.shape[-1] <= width:
        np.copyto(out, source)
        return
    for start in range(0, out.shape[-1], width):
        out[..., start : start + width] = source[..., start : start + width]


def _decode(values: Elements, dtype: DType, encoding: Encoding) -> None:
    """Turn stored elements into values, in place."""
    flat = values.reshape(-1)
    if dtype.kind is Kind.BOOL:
        np.not_equal(flat, 0, out=flat.view(np.bool_))
    if not any(encoding):
        return
    is_complex = dtype.kind is Kind.COMPLEX
    component = _COMPONENT[dtype.itemsize] if is_complex else dtype
    if encoding.big_endian:
        flat.view(_RAW[component.itemsize]).byteswap(inplace=True)
    numbers = flat.view(component.numpy())
    if encoding.conjugate and is_complex:
        np.negative(numbers[1::2], out=numbers[1::2])
    if encoding.negative:
        np.negative(numbers, out=numbers)


def _runs(sizes: Sequence[int], target: Sequence[int]) -> tuple[int, int]:
    """Return how many loops are outside of one run of output, and the elements of a run."""
    run = 1
    for outer in range(len(sizes), 0, -1):
        if sizes[outer - 1] > 1 and target[outer - 1] != run:
            return outer, run
        run *= sizes[outer - 1]
    return 0, run


def _offsets(sizes: Sequence[int], steps: Sequence[int]) -> Iterator[int]:
    """Yield the offset of every combination of loop indices, innermost fastest."""
    if len(sizes) == 1:
        return iter(range(0, sizes[0] * steps[0], steps[0]) if steps[0] else [0] * sizes[0])
    ranges = [[index * step for index in range(size)] for size, step in zip(sizes, steps, strict=True)]
    return map(sum, product(*ranges))


def _array(workspace: Workspace, slot: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Elements:
    size = dtype.itemsize
    for extent in shape:
        size *= extent
    return np.ndarray(shape, dtype, buffer=workspace.take(slot, size))
