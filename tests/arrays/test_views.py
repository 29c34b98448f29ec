"""Movement gives what numpy gives, and never touches a byte."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings

from importer.arrays import (
    Array,
    assemble,
    cast,
    concat,
    contiguous,
    narrow,
    permute,
    reshape,
    split,
    stack,
    to_numpy,
    transpose,
)
from importer.arrays.nodes import Chunked, View
from importer.arrays.views import broadcast
from importer.dtypes import F32, I32, I64
from importer.errors import Location, TensorError
from importer.temporary import TempFileStorage
from tests.builders.programs import WHERE, Pair, counted, movements


@dataclass(frozen=True)
class Unreadable:
    """A storage that fails the test when it is read."""

    nbytes: int = 1 << 40
    where: Location = WHERE

    def read_into(self, offset: int, buffer: memoryview) -> None:
        raise AssertionError(f"{len(buffer)} bytes at {offset} were read")


def described(*shape: int) -> Array:
    return contiguous(Unreadable(), F32, shape)


@given(movements())
def test_any_chain_of_movements_equals_numpy(pair: Pair) -> None:
    array, values = pair
    assert array.shape == values.shape
    np.testing.assert_array_equal(to_numpy(array), values)


@given(movements())
@settings(max_examples=50)
def test_casting_before_or_after_a_chain_is_the_same(pair: Pair) -> None:
    array, values = pair
    np.testing.assert_array_equal(to_numpy(cast(array, I64)), values.astype(np.int64))


@pytest.mark.parametrize(
    "shape",
    [(4096, 4096), (70_000_000_000,), ()],
    ids=["matrix", "140 GB", "number"],
)
def test_movement_reads_nothing(shape: tuple[int, ...]) -> None:
    array = described(*shape)
    flat = reshape(array, (array.size,))
    joined = concat([narrow(flat, 0, 0, 1), flat], 0)
    assert joined.shape == (array.size + 1,)


def test_rotary_order_needs_no_temporary_file() -> None:
    heads = reshape(described(4096, 4096), (32, 2, 64, 4096))
    moved = transpose(reshape(permute(heads, (0, 2, 1, 3)), (4096, 4096)))
    assert isinstance(moved, View)
    assert not isinstance(moved.storage, TempFileStorage)


def test_split_of_a_merged_axis_on_whole_factors_stays_one_view() -> None:
    merged = reshape(transpose(described(6, 4)), (24,))
    assert all(isinstance(part, View) for part in split(merged, 0, (12, 6, 6)))


def test_narrowing_across_factors_gives_pieces() -> None:
    array, values = counted((6, 4))
    part = narrow(reshape(transpose(array), (24,)), 0, 5, 20)
    assert isinstance(part, Chunked)
    np.testing.assert_array_equal(to_numpy(part), values.T.reshape(24)[5:20])


def test_reshape_that_no_strides_express_goes_through_a_temporary_file() -> None:
    array, values = counted((2, 3, 4))
    moved = reshape(permute(array, (0, 2, 1)), (2, 3, 4))
    again = reshape(permute(moved, (2, 0, 1)), (3, 8))
    np.testing.assert_array_equal(
        to_numpy(again), values.transpose(0, 2, 1).reshape(2, 3, 4).transpose(2, 0, 1).reshape(3, 8)
    )


def test_concatenated_rows_can_be_regrouped_without_a_temporary_file() -> None:
    joined = reshape(concat([described(8, 16), described(4, 16)], 0), (3, 2, 2, 16))
    assert isinstance(joined, Chunked)
    assert [chunk.starts for chunk in joined.chunks] == [(0, 0, 0, 0), (2, 0, 0, 0)]


def test_flattening_across_the_seams_of_a_mosaic_equals_numpy() -> None:
    (left, a), (right, b) = counted((3, 2)), counted((3, 5))
    flat = reshape(concat([left, right], 1), (21,))
    np.testing.assert_array_equal(to_numpy(flat), np.concatenate([a, b], 1).reshape(21))


def test_parts_placed_anywhere_make_one_tensor() -> None:
    array, values = counted((5, 7))
    boxes = [(0, 3, 0, 4), (0, 3, 4, 7), (3, 5, 0, 1), (3, 5, 1, 7)]
    placed = [
        ((top, left), narrow(narrow(array, 0, top, bottom), 1, left, right)) for top, bottom, left, right in boxes
    ]
    np.testing.assert_array_equal(to_numpy(assemble(I32, (5, 7), placed)), values)


@pytest.mark.parametrize(
    ("placed", "reason"),
    [
        ([((0, 0), (2, 2)), ((2, 0), (1, 2))], "exactly once"),
        ([((0, 0), (2, 2)), ((1, 0), (2, 2)), ((3, 0), (0, 2))], "exactly once"),
        ([((0, 0), (3, 2)), ((2, 0), (1, 2))], "exactly once"),
        ([((0, 1), (4, 2))], "does not fit"),
        ([((0,), (4, 2))], "does not fit"),
        ([((0, -1), (4, 2))], "does not fit"),
    ],
    ids=["gap", "overlap of equal total", "overlap", "outside", "rank", "negative"],
)
def test_parts_that_do_not_cover_the_shape_exactly_are_refused(
    placed: list[tuple[tuple[int, ...], tuple[int, ...]]], reason: str
) -> None:
    parts = [(starts, described(*shape)) for starts, shape in placed]
    with pytest.raises(TensorError, match=reason):
        assemble(F32, (4, 2), parts)


@pytest.mark.parametrize(
    ("shape", "target"),
    [((), (2, 3)), ((3,), (2, 3)), ((3,), (1, 3)), ((2, 1), (2, 3)), ((1, 1, 3), (4, 2, 3)), ((2, 0), (2, 0))],
    ids=str,
)
def test_broadcast_repeats_as_numpy_does(shape: tuple[int, ...], target: tuple[int, ...]) -> None:
    array, values = counted(shape)
    np.testing.assert_array_equal(to_numpy(broadcast(array, target)), np.broadcast_to(values, target))


@pytest.mark.parametrize(
    "call",
    [
        lambda: permute(described(2, 3), (0, 0)),
        lambda: permute(described(2, 3), (0,)),
        lambda: transpose(described(3)),
        lambda: reshape(described(2, 3), (7,)),
        lambda: reshape(described(2, 3), (-2, -3)),
        lambda: narrow(described(2, 3), 2, 0, 1),
        lambda: narrow(described(2, 3), -1, 0, 1),
        lambda: narrow(described(2, 3), 1, 2, 4),
        lambda: narrow(described(2, 3), 1, 2, 1),
        lambda: split(described(2, 3), 1, (1, 1)),
        lambda: split(described(2, 3), 1, (4, -1)),
        lambda: concat([], 0),
        lambda: concat([described(2, 3), described(2, 4)], 0),
        lambda: concat([described(2, 3), cast(described(2, 3), I64)], 0),
        lambda: concat([described()], 0),
        lambda: stack([described(2), described(3)]),
        lambda: stack([described(2)], 2),
        lambda: broadcast(described(2), (3,)),
        lambda: broadcast(described(1, 2), (2,)),
    ],
    ids=range(19),
)
def test_what_does_not_fit_is_refused_at_once(call: object) -> None:
    with pytest.raises(TensorError):
        call()  # type: ignore[operator]
