"""Loop nests: one set of loops that walks some views and the place they are written to, cut into tiles.

A tile is a box of loop indices small enough to be read, worked on and written in one go. Tiles are chosen so that both
the runs read and the runs written are long, which is what makes a transposition as fast as a copy. Plain integers only.
Not here: reading, arithmetic and writing (`evaluation`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from importer.arrays.nodes import Computed, View
from importer.arrays.strides import axis_factors, common_refinement, split_to
from importer.arrays.tuning import current

__all__ = [
    "LoopNest",
    "Span",
    "Tile",
    "loop_nest",
    "runs_of",
    "slowest_first",
    "span_of",
    "strips",
    "views_of",
]

_WRITE_COST = 4
"""A write against a read of the same bytes: the file system has to find, lock and mark pages; long writes use large ones."""

_MOST_READ = 4
"""What is held of a view for a whole tile is at most this many times what is wanted of it."""


class Tile(NamedTuple):
    """First index and number of indices on every loop."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]


class Span(NamedTuple):
    """How the elements of one tile of one view are fetched.

    Attributes:
        outer: loops that make separate reads, outermost first.
        length: elements that one read covers, gaps included.
        reads: number of reads.
    """

    outer: tuple[int, ...]
    length: int
    reads: int


@dataclass(frozen=True, slots=True)
class LoopNest:
    """Loops in output order.

    Attributes:
        sizes: number of indices per loop, outermost first.
        target: step of each loop in the output, in elements.
        steps: step of each loop in each view, in elements.
        itemsizes: bytes per element of the output, then of each view.
    """

    sizes: tuple[int, ...]
    target: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    itemsizes: tuple[int, ...]

    def tiles(self, budget: int) -> Iterator[Tile]:
        """Yield boxes that cover the loops, in output order, for each of which at most `budget` bytes are held."""
        return _boxes(Tile((0,) * len(self.sizes), self.sizes), self.extents(budget))

    def blocks(self, tile: Tile, budget: int) -> Iterator[Tile]:
        """Cut a tile into boxes of at most `budget` output bytes, in output order.

        They are as long as possible in the output, for the writes' sake, but a cache line or two long in the first view,
        or else every line would be fetched once for each of its elements.
        """
        elements = max(1, budget // self.itemsizes[0])
        extents = [1] * len(tile.sizes)
        for steps, wanted in ((self.steps[0], current().run // self.itemsizes[1]), (self.target, elements)):
            _grow(extents, tile.sizes, slowest_first(tile.sizes, steps)[::-1], wanted, elements)
        return _boxes(tile, extents)

    def is_held(self, tile: Tile, block: Tile) -> bool:
        """Whether the first view is better read once for a whole tile than block by block."""
        span = span_of(block.sizes, self.steps[0], self.itemsizes[1])
        is_read_well = span.length * self.itemsizes[1] >= current().long_read and _times_read(block, span) <= _MOST_READ
        return not is_read_well and self._held_bytes(tile) > 0

    def extents(self, budget: int) -> tuple[int, ...]:
        """Return the tile size that takes the fewest and longest reads and writes and holds at most `budget` bytes."""
        elements = max(1, budget // self.itemsizes[1])
        while True:
            best = self.sizes if math.prod(self.sizes) <= elements else self._best(elements, budget)
            if elements == 1 or self._held_bytes(Tile((0,) * len(best), best)) <= budget:
                return best
            elements = elements * 3 // 4

    def _held_bytes(self, tile: Tile) -> int:
        """Return the bytes that hold what a tile reads of the first view; 0 if most of them would be gaps."""
        span = span_of(tile.sizes, self.steps[0], self.itemsizes[1])
        return span.reads * span.length * self.itemsizes[1] if _times_read(tile, span) <= _MOST_READ else 0

    def _best(self, elements: int, budget: int) -> tuple[int, ...]:
        """Return the cheapest extents of at most so many elements.

        For a transposition reads and writes cannot both be whole rows. Candidates differ in the length of the runs
        written; what the budget leaves is spent on the runs read.
        """
        candidates = []
        run = elements
        while run:
            extents = [1] * len(self.sizes)
            for steps, wanted in ((self.target, run), (self.steps[0], elements), (self.target, elements)):
                _grow(extents, self.sizes, slowest_first(self.sizes, steps)[::-1], wanted, elements)
            candidates.append(tuple(extents))
            run //= 2
        return min(candidates, key=lambda extents: self._cost(extents, budget))

    def _cost(self, extents: tuple[int, ...], budget: int) -> float:
        """Return how long reading and writing all tiles takes, in units of one read of nothing."""
        tile = Tile((0,) * len(extents), extents)
        tiles = math.prod(-(-size // extent) for size, extent in zip(self.sizes, extents, strict=True))
        reads = self._read_cost(tile)
        if not 0 < self._held_bytes(tile) <= budget:
            block = next(self.blocks(tile, current().cached))
            reads = self._read_cost(block) * math.prod(extents) / math.prod(block.sizes)
        outer, _ = runs_of(extents, self.target)
        return tiles * (reads + _WRITE_COST * math.prod(extents[:outer]))

    def _read_cost(self, tile: Tile) -> float:
        spans = [
            (span_of(tile.sizes, steps, size), size) for steps, size in zip(self.steps, self.itemsizes[1:], strict=True)
        ]
        return sum(span.reads * (1 + span.length * size / current().call) for span, size in spans)


def _boxes(tile: Tile, extents: Sequence[int]) -> Iterator[Tile]:
    """Cut a tile into boxes of these sizes, smaller ones at the ends."""
    ranges = [range(first, first + size, step) for first, size, step in zip(*tile, extents, strict=True)]
    for starts in product(*ranges):
        sizes = [min(step, span.stop - start) for step, span, start in zip(extents, ranges, starts, strict=True)]
        yield Tile(starts, tuple(sizes))


def _times_read(tile: Tile, span: Span) -> float:
    return span.reads * span.length / math.prod(tile.sizes)


def runs_of(extents: Sequence[int], target: Sequence[int]) -> tuple[int, int]:
    """Return how many loops of a tile are outside of one run of output, and the elements of a run."""
    run = 1
    for outer in range(len(extents), 0, -1):
        if extents[outer - 1] > 1 and target[outer - 1] != run:
            return outer, run
        run *= extents[outer - 1]
    return 0, run


def span_of(extents: Sequence[int], steps: Sequence[int], itemsize: int) -> Span:
    """Return how to fetch a tile: join loops from the innermost outwards while the gaps between them are small."""
    loops = slowest_first(extents, steps)
    length = 1
    while loops and (steps[loops[-1]] - length) * itemsize <= current().read_over:
        loop = loops.pop()
        length += (extents[loop] - 1) * steps[loop]
    return Span(tuple(loops), length, math.prod(extents[loop] for loop in loops))


def strips(tile: Tile, steps: Sequence[int], itemsize: int, budget: int) -> Iterator[Tile]:
    """Cut a tile along the slowest loops of a view, so that neither a part nor what is read for it exceeds `budget`."""
    span = span_of(tile.sizes, steps, itemsize)
    need = max(math.prod(tile.sizes), span.reads * span.length) * itemsize
    loops = slowest_first(tile.sizes, steps) or [loop for loop, size in enumerate(tile.sizes) if size > 1]
    if need <= budget or not loops:
        yield tile
        return
    loop = loops[0]
    count = max(1, tile.sizes[loop] * budget // need)
    for start in range(0, tile.sizes[loop], count):
        size = min(count, tile.sizes[loop] - start)
        part = Tile(
            (*tile.starts[:loop], tile.starts[loop] + start, *tile.starts[loop + 1 :]),
            (*tile.sizes[:loop], size, *tile.sizes[loop + 1 :]),
        )
        yield from strips(part, steps, itemsize, budget)


def slowest_first(extents: Sequence[int], steps: Sequence[int]) -> list[int]:
    """Return the loops that move through a view, by descending step."""
    moving = [loop for loop, size in enumerate(extents) if size > 1 and steps[loop]]
    return sorted(moving, key=lambda loop: -steps[loop])


def loop_nest(leaf: View | Computed, target: Sequence[int]) -> LoopNest:
    """Return the loops over a leaf whose axes have the given steps in the output, joined where all sides allow."""
    views = views_of(leaf)
    slices = [axis_factors(view.shape, view.sizes) for view in views]
    sizes: list[int] = []
    rows: list[list[int]] = [[] for _ in range(len(views) + 1)]
    for axis, (size, step) in enumerate(zip(leaf.shape, target, strict=True)):
        parts = common_refinement([view.sizes[axes[axis]] for view, axes in zip(views, slices, strict=True)])
        assert parts is not None
        sizes += parts
        rows[0] += split_to([size], [step], parts)
        for row, view, axes in zip(rows[1:], views, slices, strict=True):
            row.extend(split_to(view.sizes[axes[axis]], view.strides[axes[axis]], parts))
    joined = _joined(sizes, rows)
    itemsizes = (leaf.dtype.itemsize, *(view.dtype.itemsize for view in views))
    columns = tuple(zip(*(steps for _, steps in joined), strict=True)) or ((),) * len(rows)
    return LoopNest(tuple(size for size, _ in joined), columns[0], columns[1:], itemsizes)


def views_of(leaf: View | Computed) -> tuple[View, ...]:
    """Return the views an expression reads, in the order of its operands."""
    if isinstance(leaf, View):
        return (leaf,)
    return tuple(view for operand in leaf.operands for view in views_of(operand))


def _joined(sizes: Sequence[int], rows: Sequence[Sequence[int]]) -> list[tuple[int, tuple[int, ...]]]:
    """Join neighbouring loops that are one run on every side."""
    out: list[tuple[int, tuple[int, ...]]] = []
    for size, steps in zip(sizes, zip(*rows, strict=True), strict=True):
        if out and all(outer == inner * size for outer, inner in zip(out[-1][1], steps, strict=True)):
            out[-1] = (out[-1][0] * size, steps)
        else:
            out.append((size, steps))
    return out


def _grow(extents: list[int], sizes: Sequence[int], order: Sequence[int], wanted: int, elements: int) -> None:
    """Widen a tile along `order` until a run of it has `wanted` elements, or the tile has `elements`."""
    run = 1
    for loop in order:
        room = elements // (math.prod(extents) // extents[loop])
        extents[loop] = max(extents[loop], min(sizes[loop], -(-wanted // run), room))
        if extents[loop] < sizes[loop]:
            return
        run *= sizes[loop]
