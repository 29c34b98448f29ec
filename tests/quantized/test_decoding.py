"""Decoded arrays: any box, run and movement gives what whole decoding gives, and values are rounded once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from importer.arrays import (
    Array,
    cast,
    concat,
    contiguous,
    narrow,
    permute,
    reshape,
    stack,
    to_numpy,
    transpose,
    write_to,
)
from importer.arrays.decoding import Decoder, decoded
from importer.arrays.tuning import Tuning
from importer.dtypes import BF16, F16, F32, I8, I32, U8, U32, DType
from importer.errors import Location, TensorError
from importer.quantized.codes import AWQ_ORDER, Bits, Levels, RowParts, Stored, bits_along_rows
from importer.quantized.parts import as_bytes, matrix
from importer.quantized.scales import Adjusted, Blocks, Factor, Index, Regrouped, Scaled
from importer.storages import MemoryStorage

WHERE = Location(path="made.safetensors")
RANDOM = np.random.default_rng(7)
TYPES = {
    np.dtype(np.uint8): U8,
    np.dtype(np.int8): I8,
    np.dtype(np.uint32): U32,
    np.dtype(np.int32): I32,
    np.dtype(np.float32): F32,
}


def array(values: np.ndarray) -> Array:
    return contiguous(MemoryStorage(values.tobytes(), WHERE), TYPES[values.dtype], values.shape)


def stored(values: np.ndarray) -> Stored:
    return Stored(array(values))


def packed(codes: np.ndarray, bits: int, *, dense: bool = True) -> np.ndarray:
    """Pack rows of codes into words, lowest bits first; by integers of Python, not by shifts of words."""
    rows = []
    for row in codes.tolist():
        per = 32 // bits
        size = bits * len(row) if dense else 32 * -(-len(row) // per)
        number = sum(
            code << (bits * index if dense else 32 * (index // per) + bits * (index % per))
            for index, code in enumerate(row)
        )
        rows.append(np.frombuffer(number.to_bytes(-(-size // 32) * 4, "little"), np.uint32))
    return np.stack(rows)


def whole(decoder: Decoder) -> np.ndarray:
    rows, columns = decoder.shape
    return np.asarray(decoder.read((0, rows), (0, columns)))


CODES = RANDOM.integers(0, 8, (37, 41))
GRID = RANDOM.random((5, 6), dtype=np.float32)
INDEX = RANDOM.integers(0, 5, 37).astype(np.int32)
EXPANDED = np.repeat(np.repeat(GRID, 8, 0), 8, 1)[:37, :41]


@pytest.mark.parametrize(
    ("decoder", "expected"),
    [
        pytest.param(Bits(array(packed(CODES, 3)), (37, 41), 3, 1), CODES, id="dense-along-rows"),
        pytest.param(Bits(array(packed(CODES, 3, dense=False)), (37, 41), 3, 1, dense=False), CODES, id="padded-along-rows"),
        pytest.param(Bits(array(np.ascontiguousarray(packed(CODES.T, 3).T)), (37, 41), 3, 0), CODES, id="dense-along-columns"),
        pytest.param(Bits(array(packed(CODES, 5)), (37, 41), 5, 1, minus=4), CODES - 4, id="five-bits-less-four"),
        pytest.param(Bits(array(packed(CODES, 3)), (37, 41), 3, 1, plus=1), (CODES + 1) % 8, id="modulo"),
        pytest.param(bits_along_rows(array(packed(CODES, 4)), 41, 4, plus=1), CODES + 1, id="by-bytes"),
        pytest.param(bits_along_rows(array(packed(CODES, 8)), 41, 8), CODES, id="eight-bits"),
        pytest.param(RowParts(array(((CODES[:18] << 4) | CODES[18:36]).astype(np.uint8)), (36, 41), 4, 2, high_first=True), CODES[:36], id="high-rows-first"),
        pytest.param(RowParts(array(((CODES[18:36] << 4) | CODES[:18]).astype(np.uint8)), (36, 41), 4, 2, high_first=False), CODES[:36], id="low-rows-first"),
        pytest.param(Scaled(stored(CODES.astype(np.int8)), Factor(stored(GRID), Blocks(8, 8))), CODES * EXPANDED, id="blocks"),
        pytest.param(Scaled(stored(CODES.astype(np.int8)), Factor(stored(GRID), Blocks(8, 8)), Factor(stored(GRID), Blocks(8, 8))), (CODES.astype(np.float32) - EXPANDED) * EXPANDED, id="zeros"),
        pytest.param(Scaled(stored(CODES.astype(np.int8)), Factor(stored(GRID[:, :1]), Blocks(0, 41), Index(array(INDEX), 0, 8))), CODES * GRID[INDEX, :1], id="scattered-rows"),
        pytest.param(Scaled(stored(CODES.T.astype(np.int8)), Factor(stored(np.ascontiguousarray(GRID[:, :1].T)), Blocks(41, 0), Index(array(INDEX), 1, 8))), CODES.T * GRID[INDEX, 0], id="scattered-columns"),
        pytest.param(Scaled(stored(CODES.astype(np.int8)), Factor(stored(GRID), Blocks(8, 8)), last=1 / 127), (CODES.astype(np.float32) * EXPANDED) * np.float32(1 / 127), id="last"),
        pytest.param(Regrouped(stored(CODES.reshape(41, 37).astype(np.int8)), (37, 41)), CODES, id="regrouped"),
        pytest.param(Adjusted(stored(CODES.astype(np.int8)), plus=0.5, divisor=array(np.array([3], np.float32))), (CODES + np.float32(0.5)) / np.float32(3), id="adjusted"),
    ],
)  # fmt: skip
def test_boxes_hold_what_is_packed(decoder: Decoder, expected: np.ndarray) -> None:
    expected = expected.astype(np.float32)
    assert np.array_equal(whole(decoder), expected)
    rows, columns = decoder.shape
    for _ in range(20):
        top, bottom = sorted(RANDOM.choice(rows + 1, 2, replace=False).tolist())
        left, right = sorted(RANDOM.choice(columns + 1, 2, replace=False).tolist())
        assert np.array_equal(decoder.read((top, bottom), (left, right)), expected[top:bottom, left:right])


@pytest.mark.parametrize(("bits", "high_first"), [(1, False), (2, True), (4, True), (4, False), (8, False)])
def test_levels_are_taken_from_a_table(bits: int, high_first: bool) -> None:
    per = 8 // bits
    codes = RANDOM.integers(0, 1 << bits, (5, 24))
    shifts = np.arange(per) * bits
    data = (codes.reshape(5, -1, per) << (shifts[::-1] if high_first else shifts)).sum(2).astype(np.uint8)
    levels = RANDOM.random(1 << bits, dtype=np.float32)
    for given in (array(levels), levels.tolist()):
        decoder = Levels(array(data), 21, given, bits, high_first)
        assert np.array_equal(whole(decoder), levels[codes][:, :21])
        assert np.array_equal(decoder.read((1, 4), (5, 18)), levels[codes][1:4, 5:18])


def test_columns_of_a_word_may_lie_in_another_order() -> None:
    codes = RANDOM.integers(0, 16, (3, 24))
    words = packed(codes.reshape(3, -1, 8)[..., [0, 2, 4, 6, 1, 3, 5, 7]].reshape(3, 24), 4)
    stored_bytes = as_bytes(array(words))
    assert stored_bytes is not None
    decoder = Levels(stored_bytes, 24, range(16), 4, order=AWQ_ORDER)
    assert np.array_equal(whole(decoder), codes)
    assert np.array_equal(decoder.read((0, 2), (3, 22)), codes[:2, 3:22])


def test_a_group_without_a_scale_is_refused() -> None:
    decoder = Scaled(
        stored(CODES.astype(np.int8)), Factor(stored(GRID[:3, :1]), Blocks(0, 41), Index(array(INDEX), 0, 8))
    )
    with pytest.raises(TensorError, match="has no scale"):
        whole(decoder)


def test_groups_that_were_never_scattered_follow_one_another() -> None:
    index = Index(array(np.full(37, -1, np.int32)), 0, 8)
    decoder = Scaled(stored(CODES.astype(np.int8)), Factor(stored(GRID[:, :1]), Blocks(0, 41), index))
    assert np.array_equal(whole(decoder), (CODES * np.repeat(GRID[:, :1], 8, 0)[:37]).astype(np.float32))


VALUES = RANDOM.standard_normal((24, 36)).astype(np.float32)


class Grained(Stored):
    """Stored values whose rows are said to be packed by eights."""

    @property
    def grain(self) -> int:
        return 8


MOVES: dict[str, Callable[[Array], Array]] = {
    "as it is": lambda a: a,
    "transposed": transpose,
    "cut": lambda a: narrow(narrow(a, 0, 3, 20), 1, 5, 31),
    "reshaped": lambda a: reshape(a, (6, 4, 36)),
    "moved about": lambda a: permute(reshape(a, (6, 4, 9, 4)), (2, 0, 3, 1)),
    "stacked": lambda a: stack([a, a], 1),
    "joined": lambda a: concat([narrow(a, 0, 5, 9), a], 0),
}
NUMPY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "as it is": lambda a: a,
    "transposed": np.transpose,
    "cut": lambda a: a[3:20, 5:31],
    "reshaped": lambda a: a.reshape(6, 4, 36),
    "moved about": lambda a: a.reshape(6, 4, 9, 4).transpose(2, 0, 3, 1),
    "stacked": lambda a: np.stack([a, a], 1),
    "joined": lambda a: np.concatenate([a[5:9], a]),
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("dtype", [F32, BF16, F16], ids=str)
@pytest.mark.parametrize("block_bytes", [64, 1000, 1 << 20])
def test_decoded_values_are_moved_like_stored_ones(
    move: str, dtype: DType, block_bytes: int, tmp_path: Path, tuned: Callable[[Tuning], Tuning]
) -> None:
    tuned(Tuning(decoded_elements=100, cached=300))
    made = MOVES[move](decoded(Grained(array(VALUES)), dtype, VALUES.shape, WHERE))
    expected = np.ascontiguousarray(NUMPY[move](VALUES)).astype(dtype.numpy())
    assert np.array_equal(to_numpy(made).view(np.uint8), expected.view(np.uint8))
    with (tmp_path / "out").open("wb") as file:
        write_to(made, file.fileno(), 0, block_bytes=block_bytes)
    assert (tmp_path / "out").read_bytes() == expected.tobytes()


def test_a_cast_rounds_the_real_values_once() -> None:
    value = np.float32(1 + 2**-8 + 2**-11 + 2**-20)  # by way of BF16 it would lose the 2**-8 and what comes after
    made = decoded(stored(np.full((2, 2), value)), BF16, (2, 2), WHERE)
    assert to_numpy(cast(transpose(made), F32)).tolist() == [[value] * 2] * 2
    assert to_numpy(cast(narrow(made, 0, 0, 1), F16))[0, 0] == np.float16(value)
    assert to_numpy(cast(concat([made, made], 0), F32)).tolist() == [[value] * 2] * 4


def test_threads_may_read_one_decoder(tuned: Callable[[Tuning], Tuning]) -> None:
    tuned(Tuning(decoded_elements=64))
    made = decoded(Grained(array(VALUES)), F32, VALUES.shape, WHERE)
    results: list[bytes] = []
    threads = [threading.Thread(target=lambda: results.append(to_numpy(made).tobytes())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [VALUES.tobytes()] * 4


def test_parts_may_lie_strided_in_their_storage() -> None:
    decoder = Stored(matrix(transpose(array(CODES.astype(np.int8))), 41, 37))
    assert np.array_equal(whole(decoder), CODES.T)
    assert np.array_equal(decoder.read((2, 9), (3, 30)), CODES.T[2:9, 3:30])
