"""Sparse layouts against what numpy makes of them; whole files against torch: tests/checkpoint/test_beyond.py."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from importer.arrays import Array, Compressed, from_bytes, scatter, scatter_compressed, to_numpy
from importer.dtypes import BOOL, F32, I64, DType
from importer.errors import Location, TensorError

WHERE = Location(path="test")
Numbers = NDArray[np.generic]


def lazy(values: Numbers, dtype: DType) -> Array:
    return from_bytes(values.astype(dtype.numpy()).tobytes(), dtype, values.shape, WHERE)


def compressed(matrix: Numbers, *, by_column: bool) -> Compressed:
    """Compress a matrix the slow way."""
    rows = matrix.T if by_column else matrix
    bounds = np.cumsum([0, *(np.count_nonzero(row) for row in rows)])
    others = np.concatenate([np.flatnonzero(row) for row in rows])
    values = np.concatenate([row[row != 0] for row in rows])
    return Compressed(lazy(bounds, I64), lazy(others, I64), lazy(values, F32), by_column=by_column, blocked=False)


matrices = st.builds(
    lambda rows, columns, seed: np.random.default_rng(seed).integers(0, 3, (rows, columns)).astype(np.float32),
    *(st.integers(1, 5), st.integers(1, 5), st.integers(0, 1000)),
)


@given(matrix=matrices)
def test_coordinates_give_the_matrix_back(matrix: Numbers) -> None:
    indices = np.stack(np.nonzero(matrix))
    array = scatter(lazy(indices, I64), lazy(matrix[tuple(indices)], F32), matrix.shape, WHERE)
    assert np.array_equal(to_numpy(array), matrix)


@given(matrix=matrices, by_column=st.booleans())
def test_compressed_rows_or_columns_give_the_matrix_back(matrix: Numbers, by_column: bool) -> None:
    array = scatter_compressed(compressed(matrix, by_column=by_column), matrix.shape, WHERE)
    assert np.array_equal(to_numpy(array), matrix)


def test_elements_given_twice_add_up() -> None:
    array = scatter(lazy(np.array([[1, 1, 0]]), I64), lazy(np.array([1.0, 2.0, 4.0]), F32), (2,), WHERE)
    assert to_numpy(array).tolist() == [4.0, 3.0]


def test_booleans_given_twice_stay_true() -> None:
    array = scatter(lazy(np.array([[1, 1]]), I64), lazy(np.array([True, True]), BOOL), (2,), WHERE)
    assert to_numpy(array).tolist() == [False, True]


@pytest.mark.parametrize("index", [-1, 2], ids=["negative", "too-large"])
def test_an_index_outside_of_the_shape_is_a_fault(index: int) -> None:
    array = scatter(lazy(np.array([[index]]), I64), lazy(np.array([1.0]), F32), (2,), WHERE)
    with pytest.raises(TensorError, match="outside"):
        to_numpy(array)


@pytest.mark.parametrize(
    "bounds", [[0, 2, 1], [1, 1, 2], [0, 1, 1]], ids=["descending", "not-from-zero", "fewer-than-elements"]
)
def test_bounds_that_do_not_cover_the_elements_are_a_fault(bounds: list[int]) -> None:
    values = lazy(np.array([1.0, 2.0]), F32)
    parts = Compressed(lazy(np.array(bounds), I64), lazy(np.array([0, 1]), I64), values, by_column=False, blocked=False)
    with pytest.raises(TensorError, match="cover"):
        to_numpy(scatter_compressed(parts, (2, 2), WHERE))


@pytest.mark.parametrize(
    "bounds",
    [
        pytest.param([0, -(1 << 63), (1 << 63) - 1, 0, 1, 2], id="differences-that-wrap-and-add-up"),
        pytest.param([0, 1 << 62, -(1 << 62), 2, 2, 2], id="far-outside"),
        pytest.param([0, 2, 1, 2, 1, 2], id="falling"),
    ],
)
def test_bounds_are_compared_before_anything_is_computed_from_them(bounds: list[int]) -> None:
    others, values = lazy(np.array([0, 1]), I64), lazy(np.array([1.0, 2.0]), F32)
    parts = Compressed(lazy(np.array(bounds), I64), others, values, by_column=False, blocked=False)
    with pytest.raises(TensorError, match="bounds"):
        to_numpy(scatter_compressed(parts, (5, 2), WHERE))


@pytest.mark.parametrize(
    ("bounds", "others", "values", "shape", "blocked"),
    [
        pytest.param((3,), (2,), (2,), (3, 2), False, id="wrong-number-of-rows"),
        pytest.param((3,), (2,), (3,), (2, 2), False, id="wrong-number-of-elements"),
        pytest.param((3,), (2,), (2,), (2,), False, id="one-dimension"),
        pytest.param((2, 3), (2, 2), (2, 2), (3, 2, 2), False, id="another-batch"),
        pytest.param((3,), (2,), (2, 5), (2, 2, 4), False, id="another-dense-part"),
        pytest.param((2,), (1,), (1, 2, 3), (2, 4), True, id="blocks-that-do-not-divide"),
        pytest.param((2,), (1,), (1, 0, 2), (2, 4), True, id="empty-blocks"),
        pytest.param((2,), (1,), (1, 2), (2, 4), True, id="blocks-of-one-dimension"),
    ],
)
def test_shapes_that_do_not_belong_together_are_refused_at_once(
    bounds: tuple[int, ...], others: tuple[int, ...], values: tuple[int, ...], shape: tuple[int, ...], blocked: bool
) -> None:
    arrays = lazy(np.zeros(bounds), I64), lazy(np.zeros(others), I64), lazy(np.zeros(values), F32)
    with pytest.raises(TensorError, match="do not make a sparse tensor"):
        scatter_compressed(Compressed(*arrays, by_column=False, blocked=blocked), shape, WHERE)
