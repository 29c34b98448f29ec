"""The integer algebra below all views, held to plain enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.arrays.strides import axis_factors, coalesce, common_refinement, cut, row_major, split_to, unflatten

factors = st.lists(st.tuples(st.integers(2, 4), st.integers(0, 30)), min_size=1, max_size=4)


def offsets(sizes: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Return the offset of every element, in order."""
    ranges = [[index * stride for index in range(size)] for size, stride in zip(sizes, strides, strict=True)]
    return [sum(combination) for combination in itertools.product(*ranges)]


@given(factors, st.data())
def test_cut_runs_are_the_asked_indices_in_order(axis: list[tuple[int, int]], data: st.DataObject) -> None:
    sizes, strides = zip(*axis, strict=True)
    whole = offsets(sizes, strides)
    start = data.draw(st.integers(0, len(whole) - 1))
    stop = data.draw(st.integers(start + 1, len(whole)))
    runs = list(cut(sizes, strides, start, stop))
    assert [run.offset + at for run in runs for at in offsets(run.sizes, run.strides)] == whole[start:stop]
    assert all(run.length == math.prod(run.sizes) for run in runs)
    assert len(runs) < 2 * len(axis)


@pytest.mark.parametrize(
    ("start", "stop", "lengths"),
    [(0, 12, [12]), (4, 8, [4]), (5, 7, [2]), (3, 9, [1, 4, 1]), (3, 5, [1, 1]), (0, 9, [8, 1])],
    ids=str,
)
def test_cut_makes_as_few_runs_as_there_are(start: int, stop: int, lengths: list[int]) -> None:
    assert [run.length for run in cut((3, 4), (1, 3), start, stop)] == lengths


@given(factors)
def test_merging_keeps_every_offset(axis: list[tuple[int, int]]) -> None:
    sizes, strides = zip(*axis, strict=True)
    assert offsets(*coalesce(sizes, strides)) == offsets(sizes, strides)


@given(st.lists(st.integers(1, 5), max_size=5))
def test_a_dense_tensor_merges_to_one_run(shape: list[int]) -> None:
    count = math.prod(shape)
    assert coalesce(shape, row_major(shape)) == (((count,), (1,)) if count > 1 else ((), ()))


@given(factors, st.data())
def test_regrouping_keeps_every_offset_and_meets_the_shape(axis: list[tuple[int, int]], data: st.DataObject) -> None:
    sizes, strides = zip(*axis, strict=True)
    count = math.prod(sizes)
    first = data.draw(st.sampled_from([number for number in range(1, count + 1) if count % number == 0]))
    shape = (first, 1, count // first)
    made = unflatten(sizes, strides, shape)
    if made is not None:
        assert offsets(*made) == offsets(sizes, strides)
        assert [math.prod(made[0][part]) for part in axis_factors(shape, made[0])] == list(shape)


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ([[12], [3, 4], [12]], (3, 4)),
        ([[6, 2], [3, 4]], (3, 2, 2)),
        ([[2, 3], [3, 2]], None),
        ([[1, 6], [6]], (6,)),
        ([[], [1]], ()),
    ],
    ids=str,
)
def test_refining_finds_the_coarsest_common_factors(lists: list[list[int]], expected: tuple[int, ...] | None) -> None:
    assert common_refinement(lists) == expected


def test_splitting_follows_the_parts() -> None:
    assert split_to((3, 4), (100, 7), (3, 2, 2)) == (100, 14, 7)
