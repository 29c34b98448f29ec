"""Tiles cover every index once, stay within their budget and keep reads and writes long."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.arrays import cast, contiguous, reshape, transpose
from importer.arrays.loops import LoopNest, Tile, loop_nest, runs_of, span_of, strips
from importer.arrays.nodes import single
from importer.arrays.strides import row_major
from importer.dtypes import BF16, F32
from importer.errors import Location
from importer.storages import Storage

sizes_and_steps = st.lists(st.tuples(st.integers(1, 6), st.integers(0, 40), st.integers(0, 40)), max_size=4)


class Huge:
    """A storage of any size that is never read."""

    nbytes = 1 << 50
    where = Location(path="huge")

    def read_into(self, offset: int, buffer: memoryview) -> None:
        raise AssertionError(f"{len(buffer)} bytes at {offset} were read")


HUGE: Storage = Huge()


def indices(tile: Tile) -> list[int]:
    flat = [0]
    for start, size in zip(tile.starts, tile.sizes, strict=True):
        flat = [100 * index + start + step for index in flat for step in range(size)]
    return flat


@given(sizes_and_steps, st.integers(1, 500))
def test_tiles_cover_every_index_once_within_the_budget(loops: list[tuple[int, int, int]], budget: int) -> None:
    sizes = tuple(size for size, _, _ in loops)
    nest = LoopNest(sizes, row_major(sizes), (tuple(step for _, step, _ in loops),), (4, 4))
    tiles = list(nest.tiles(budget))
    whole = Tile((0,) * len(sizes), sizes)
    assert Counter(index for tile in tiles for index in indices(tile)) == Counter(indices(whole))
    assert all(4 * math.prod(tile.sizes) <= max(budget, 4) for tile in tiles)


@given(sizes_and_steps, st.integers(1, 500))
def test_blocks_cover_a_tile_once_within_the_budget(loops: list[tuple[int, int, int]], budget: int) -> None:
    sizes = tuple(size for size, _, _ in loops)
    nest = LoopNest(sizes, row_major(sizes), (tuple(step for _, step, _ in loops),), (4, 4))
    tile = Tile((1,) * len(sizes), sizes)
    blocks = list(nest.blocks(tile, budget))
    assert Counter(index for block in blocks for index in indices(block)) == Counter(indices(tile))
    assert all(4 * math.prod(block.sizes) <= max(budget, 4) for block in blocks)


@pytest.mark.parametrize("shape", [(4096, 4096), (128256, 4096), (32768, 2048)], ids=str)
def test_blocks_of_a_transposition_take_whole_cache_lines_of_what_is_held(shape: tuple[int, int]) -> None:
    array = transpose(contiguous(HUGE, BF16, shape))
    nest = loop_nest(single(array), row_major(array.shape))
    tile = next(nest.tiles(48 << 20))
    block = next(nest.blocks(tile, 1 << 20))
    assert nest.is_held(tile, block)
    assert block.sizes[0] * 2 >= 64
    assert block.sizes[1] >= 4096


def test_what_is_read_in_output_order_is_not_held() -> None:
    array = cast(contiguous(HUGE, BF16, (1 << 20, 64)), F32)
    nest = loop_nest(single(array), row_major(array.shape))
    tile = next(nest.tiles(48 << 20))
    assert not nest.is_held(tile, next(nest.blocks(tile, 1 << 20)))


@given(sizes_and_steps, st.integers(4, 400))
def test_strips_cover_a_tile_once_and_read_little_at_a_time(loops: list[tuple[int, int, int]], budget: int) -> None:
    tile = Tile((1,) * len(loops), tuple(size for size, _, _ in loops))
    steps = [step for _, step, _ in loops]
    parts = list(strips(tile, steps, 4, budget))
    assert Counter(index for part in parts for index in indices(part)) == Counter(indices(tile))
    for part in parts:
        span = span_of(part.sizes, steps, 4)
        assert max(math.prod(part.sizes), span.reads * span.length) * 4 <= budget


@pytest.mark.parametrize("shape", [(4096, 4096), (128256, 4096), (4096, 128256), (32768, 32768), (1 << 30, 2)], ids=str)
def test_a_transposition_neither_reads_nor_writes_short_runs(shape: tuple[int, int]) -> None:
    array = transpose(contiguous(HUGE, BF16, shape))
    nest = loop_nest(single(array), row_major(array.shape))
    extents = nest.extents(32 << 20)
    _, run = runs_of(extents, nest.target)
    span = span_of(extents, nest.steps[0], 2)
    assert run * 2 >= 4096
    assert span.length * 2 >= min(4096, shape[1] * 2)


def test_a_dense_array_is_one_loop() -> None:
    array = cast(reshape(contiguous(HUGE, BF16, (64, 1, 32)), (8, 256)), F32)
    nest = loop_nest(single(array), row_major(array.shape))
    assert (nest.sizes, nest.target, nest.steps) == ((2048,), (1,), ((1,),))


def test_gaps_shorter_than_a_system_call_costs_are_read_over() -> None:
    assert span_of((100, 8), (16, 1), 4).reads == 1
    assert span_of((100, 8), (4096, 1), 4).reads == 100
