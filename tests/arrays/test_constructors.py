"""Views of storages read what numpy's strides read, in every encoding, and never outside of the storage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.arrays import blocks, contiguous, from_bytes, full, reshape, strided, to_numpy, transpose
from importer.dtypes import BF16, BOOL, C64, C128, DTYPES, F16, F32, F64, I32, I64, U8, DType
from importer.errors import TensorError, UnsupportedError
from importer.storages import MemoryStorage
from tests.builders.programs import WHERE


@given(st.data())
def test_any_strided_view_equals_numpys(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(0, 5), max_size=4))
    strides = data.draw(st.lists(st.integers(0, 9), min_size=len(shape), max_size=len(shape)))
    offset = data.draw(st.integers(0, 7))
    need = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) + 1
    numbers = np.arange(max(need, offset + 1) + 3, dtype="<i4")
    array = strided(MemoryStorage(numbers.tobytes(), WHERE), I32, shape, strides, offset)
    expected = np.lib.stride_tricks.as_strided(numbers[offset:], shape, [4 * stride for stride in strides])
    np.testing.assert_array_equal(to_numpy(array), expected)


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((4,), (1,), 1),
        ((2, 2), (3, 1), 0),
        ((5,), (1,), 0),
        ((1 << 62, 1 << 62), (1, 1 << 62), 0),
        ((-1,), (1,), 0),
        ((2,), (-1,), 1),
        ((2,), (1,), -1),
        ((2,), (1, 1), 0),
        ((1,) * 65, (1,) * 65, 0),
    ],
    ids=["offset", "row", "length", "overflow", "negative size", "negative stride", "before", "rank", "65 axes"],
)
def test_a_view_outside_of_its_storage_is_refused(
    shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> None:
    with pytest.raises(TensorError, match="test: shape"):
        strided(MemoryStorage(bytes(16), WHERE), F32, shape, strides, offset)


def test_a_view_without_elements_may_begin_anywhere() -> None:
    assert to_numpy(strided(MemoryStorage(b"", WHERE), F32, (0, 4), (4, 1), 9)).shape == (0, 4)


@pytest.mark.parametrize("name", [name for name, dtype in DTYPES.items() if dtype.itemsize > 1])
def test_big_endian_elements_are_swapped(name: str) -> None:
    dtype = DTYPES[name]
    part = dtype.itemsize // 2 if dtype.kind.value == "complex" else dtype.itemsize
    little = bytes(range(1, 1 + 2 * dtype.itemsize))
    big = b"".join(little[at : at + part][::-1] for at in range(0, len(little), part))
    array = contiguous(MemoryStorage(big, WHERE), dtype, (2,), big_endian=True)
    assert b"".join(map(bytes, blocks(array))) == little


@pytest.mark.parametrize("dtype", [C64, C128], ids=str)
def test_conjugate_and_negative_bits_are_resolved(dtype: DType) -> None:
    values = np.array([1 + 2j, -3j, complex(np.nan, np.inf)], dtype.numpy())
    storage = MemoryStorage(values.tobytes(), WHERE)
    conjugated = to_numpy(strided(storage, dtype, (3,), (1,), conjugate=True))
    negated = to_numpy(strided(storage, dtype, (3,), (1,), negative=True, conjugate=True))
    np.testing.assert_array_equal(conjugated, values.conj())
    np.testing.assert_array_equal(negated, -values.conj())


@pytest.mark.parametrize("dtype", [F32, F16, BF16, F64, I64], ids=str)
def test_the_negative_bit_of_real_numbers_is_resolved(dtype: DType) -> None:
    values = np.array([1, -2, 0, 5]).astype(dtype.numpy())
    array = transpose(
        reshape(strided(MemoryStorage(values.tobytes(), WHERE), dtype, (4,), (1,), negative=True), (2, 2))
    )
    np.testing.assert_array_equal(to_numpy(array), -values.reshape(2, 2).T)


def test_booleans_become_zero_or_one() -> None:
    array = contiguous(MemoryStorage(b"\x00\x01\x02\xff", WHERE), BOOL, (4,))
    assert to_numpy(array).tobytes() == b"\x00\x01\x01\x01"


@pytest.mark.parametrize("name", list(DTYPES))
def test_movement_keeps_every_bit(name: str) -> None:
    dtype = DTYPES[name]
    data = bytes((37 * index + 11) % 256 for index in range(6 * dtype.itemsize))
    if dtype is BOOL:
        data = bytes(byte & 1 for byte in data)
    moved = transpose(reshape(from_bytes(data, dtype, (6,), WHERE), (2, 3)))
    elements = [data[at : at + dtype.itemsize] for at in range(0, len(data), dtype.itemsize)]
    assert b"".join(map(bytes, blocks(moved))) == b"".join(elements[index] for index in (0, 3, 1, 4, 2, 5))


@pytest.mark.parametrize("length", [0, 7, 9])
def test_constants_have_exactly_the_bytes_of_their_shape(length: int) -> None:
    with pytest.raises(TensorError, match="bytes do not make"):
        from_bytes(bytes(length), F32, (2,), WHERE)


@pytest.mark.parametrize(
    "name", [name for name, dtype in DTYPES.items() if dtype.kind.value in {"float", "integer", "bool"}]
)
def test_full_repeats_one_number(name: str) -> None:
    np.testing.assert_array_equal(to_numpy(full(1, DTYPES[name], (2, 3))), np.ones((2, 3), DTYPES[name].numpy()))


def test_full_of_a_complex_number_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="C64"):
        full(1, C64, (2,))


def test_full_takes_no_more_memory_than_one_element() -> None:
    assert full(0, U8, (1 << 20, 1 << 20)).storage.nbytes == 1
