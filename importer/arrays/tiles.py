"""One tile: fetch its elements, put them in output order, compute, and store the result. The only user of numpy here.

Not here: which tiles there are (`loops`), and what runs them (`evaluation`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from operator import mul, sub
from types import EllipsisType
from typing import Any

import numpy as np

from importer.arrays.decoding import Decoded
from importer.arrays.loops import LoopNest, Tile, runs_of, span_of, strips, views_of
from importer.arrays.nodes import Computed, Encoding, View
from importer.arrays.strides import row_major
from importer.arrays.tuning import current
from importer.arrays.workspaces import Sink, Workspace
from importer.dtypes import F16, F32, F64, DType, Kind

__all__ = ["fill_small", "fill_tile", "write_tile"]

_RAW: dict[int, np.dtype[Any]] = {
    1: np.dtype("u1"),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
    8: np.dtype("<u8"),
    16: np.dtype("<c16"),
}
"""Types that carry elements of each size without touching a bit of them."""

_CACHE_LINE = 64
_COMPONENT = {4: F16, 8: F32, 16: F64}

Elements = np.ndarray[Any, np.dtype[Any]]


def fill_tile(leaf: View | Computed, nest: LoopNest, tile: Tile, buffer: memoryview, workspace: Workspace) -> None:
    """Compute a tile into memory; `buffer` begins at the tile's first output byte."""
    raw = _RAW[leaf.dtype.itemsize]
    strides = [step * raw.itemsize for step in nest.target]
    place: Elements = np.ndarray(tile.sizes, raw, buffer=buffer, strides=strides)
    work = _Work(leaf, nest, tile, workspace)
    for block in work.blocks:
        work.evaluate(block, place[_inside(block, tile)])


def fill_small(view: View, nbytes: int, buffer: memoryview, workspace: Workspace) -> None:
    """Read a verbatim view, which reaches over `nbytes` of its storage, into memory."""
    raw = _RAW[view.dtype.itemsize]
    stored = workspace.take("small", nbytes)
    view.storage.read_into(view.offset * raw.itemsize, stored)
    place: Elements = np.ndarray(view.sizes, raw, buffer=buffer)
    place[...] = np.ndarray(view.sizes, raw, buffer=stored, strides=[step * raw.itemsize for step in view.strides])


def write_tile(
    leaf: View | Computed, nest: LoopNest, tile: Tile, sink: Sink, offset: int, workspace: Workspace
) -> None:
    """Compute a tile and write it, block by block while they are in the cache; its first output byte is at `offset`."""
    itemsize = leaf.dtype.itemsize
    work = _Work(leaf, nest, tile, workspace)
    for block in work.blocks:
        result = _array(workspace, "result", block.sizes, _RAW[itemsize])
        work.evaluate(block, result)
        outer, run = runs_of(block.sizes, nest.target)
        moved = [start - first for start, first in zip(block.starts, tile.starts, strict=True)]
        place = offset + sum(map(mul, moved, nest.target)) * itemsize
        offsets = [place + step * itemsize for step in _offsets(block.sizes[:outer], nest.target[:outer])]
        sink.write(result.reshape(-1).view(np.uint8).data, offsets, run * itemsize)


class _Work:
    """A tile that is being computed: what is held of its first view, and the blocks it is done in."""

    def __init__(self, leaf: View | Computed, nest: LoopNest, tile: Tile, workspace: Workspace) -> None:
        self.blocks = tuple(nest.blocks(tile, current().cached))
        self._leaf = leaf
        self._nest = nest
        self._tile = tile
        self._workspace = workspace
        self._views = views_of(leaf)
        self._held: Elements | None = None
        if nest.is_held(tile, self.blocks[0]):
            self._held = _fetched(0, self._views[0], nest.steps[0], tile, workspace)

    def evaluate(self, block: Tile, out: Elements) -> None:
        """Fill `out` with a block of the tile."""
        parts: Iterable[Tile] = (block,)
        if self._held is None:
            parts = strips(block, self._nest.steps[0], max(self._nest.itemsizes), current().cached)
        for part in parts:
            fetched = [self._elements(number, part) for number in range(len(self._views))]
            place = out[_inside(part, block)]
            if isinstance(self._leaf, View):
                _reorder(fetched[0], place, self._workspace)
            else:
                place[...] = _computed(self._leaf, fetched, part, self._workspace)

    def _elements(self, number: int, part: Tile) -> Elements:
        if number == 0 and self._held is not None:
            return self._held[_inside(part, self._tile)]
        return _fetched(number, self._views[number], self._nest.steps[number], part, self._workspace)


def _inside(part: Tile, whole: Tile) -> tuple[slice | EllipsisType, ...]:
    """Return where a part lies in an array of the whole, as an index that gives an array whatever the rank."""
    starts = map(sub, part.starts, whole.starts)
    return (*(slice(start, start + size) for start, size in zip(starts, part.sizes, strict=True)), ...)


def _computed(leaf: Computed, fetched: list[Elements], strip: Tile, workspace: Workspace) -> Elements:
    """Return a strip of results; `fetched` are the elements of the views in `views_of` order."""
    operands = []
    for number, (view, source) in enumerate(zip(views_of(leaf), fetched, strict=True)):
        dense = _array(workspace, f"operand {number}", strip.sizes, source.dtype)
        _reorder(source, dense, workspace)
        operands.append(dense.reshape(-1).view(view.dtype.numpy()))
    result = _array(workspace, "computed", strip.sizes, _RAW[leaf.dtype.itemsize])
    flat = result.reshape(-1).view(leaf.dtype.numpy())
    count = current().kernel_elements
    for start in range(0, len(flat), count):
        stop = start + count
        _apply(leaf, iter([operand[start:stop] for operand in operands]), flat[start:stop])
    return result


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


def _fetched(number: int, view: View, steps: Sequence[int], strip: Tile, workspace: Workspace) -> Elements:
    """Read what a strip needs of one view; return its elements by loop index, as values, strided as they were stored."""
    itemsize = view.dtype.itemsize
    outer, length, reads = span_of(strip.sizes, steps, itemsize)
    raw = _array(workspace, f"read {number}", (reads, length), _RAW[itemsize])
    position = _position(view, steps, strip)
    if not _read_runs(view, position, [steps[loop] for loop in outer], raw):
        offsets = _offsets([strip.sizes[loop] for loop in outer], [steps[loop] for loop in outer])
        for row, step in zip(raw, offsets, strict=True):
            _read(view, position + step, row.view(np.uint8).data)
    _decode(raw, view.dtype, view.encoding)
    strides = list(steps)
    for loop, dense in zip(outer, row_major([strip.sizes[loop] for loop in outer]), strict=True):
        strides[loop] = dense * length
    return np.ndarray(strip.sizes, raw.dtype, buffer=raw, strides=[step * itemsize for step in strides])


def _position(view: View, steps: Sequence[int], tile: Tile) -> int:
    return view.offset + sum(start * step for start, step in zip(tile.starts, steps, strict=True))


def _read_runs(view: View, position: int, steps: Sequence[int], out: Elements) -> bool:
    """Read all runs at once where they are a box of a decoded matrix; say whether they were."""
    return len(steps) == 1 and isinstance(view.storage, Decoded) and view.storage.read_runs(position, steps[0], out)


def _read(view: View, position: int, buffer: memoryview) -> None:
    view.storage.read_into(position * view.dtype.itemsize, buffer)


def _reorder(source: Elements, out: Elements, workspace: Workspace) -> None:
    """Copy `source` into `out`, by way of strips where the fastest loops of the two differ.

    numpy walks in output order, which for a transposition takes one element from each cache line, and from lines that
    push each other out where rows are a power of two apart. A strip is first copied row by row into a small buffer whose
    rows are an odd number of cache lines apart; from there columns are fast (2.7 GB/s against 0.3, 16-bit elements).
    """
    moving = [(step, loop) for loop, (size, step) in enumerate(zip(out.shape, source.strides, strict=True)) if size > 1]
    fastest = min((pair for pair in moving if pair[0]), default=(0, out.ndim - 1))[1]
    if fastest == out.ndim - 1 or math.prod(out.shape[fastest:]) < current().small_elements:
        np.copyto(out, source)
    elif fastest > 0:
        for index in range(len(out)):
            _reorder(source[index], out[index], workspace)
    else:
        _transpose(source, out, workspace)


def _transpose(source: Elements, out: Elements, workspace: Workspace) -> None:
    """Copy strips of `source`, whose first loop is its fastest, into columns of `out`."""
    height, width = out.shape[:2]
    inner = math.prod(out.shape[2:])
    tuning = current()
    if inner > tuning.strip_rows:
        for index in range(width):
            _transpose(source[:, index], out[:, index], workspace)
        return
    across = min(height, tuning.strip_columns)
    count = min(width, max(tuning.strip_rows, tuning.strip_elements // across) // inner)
    pitch = (-(-across * out.itemsize // _CACHE_LINE) | 1) * _CACHE_LINE // out.itemsize
    buffer = _array(workspace, "strip", (count, *out.shape[2:], pitch), out.dtype)
    for left in range(0, height, across):
        for first in range(0, width, count):
            box = np.moveaxis(source[left : left + across, first : first + count], 0, -1)
            strip = buffer[: len(box), ..., : box.shape[-1]]
            np.copyto(strip, box)
            out[left : left + across, first : first + count] = np.moveaxis(strip, -1, 0)


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
