"""Computed values equal numpy's and ml_dtypes' own, for every bit pattern where there are few enough."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from importer.arrays import (
    Array,
    cast,
    concat,
    dequantize,
    elementwise,
    full,
    narrow,
    permute,
    reshape,
    spectral_norm,
    strided,
    to_numpy,
    transpose,
    weight_norm,
)
from importer.arrays.arithmetic import _sum
from importer.arrays.kernels import Scale
from importer.arrays.tuning import Tuning
from importer.arrays.views import compute
from importer.dtypes import BF16, BOOL, C64, DTYPES, F16, F32, F64, I8, I16, I32, I64, U8, DType
from importer.errors import TensorError
from importer.storages import MemoryStorage
from tests.builders.programs import WHERE, Values, counted, stored

NARROW = ["F16", "BF16", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"]
random = np.random.default_rng(0)


def floats(*shape: int, dtype: DType = F32) -> tuple[Array, Values]:
    values = random.standard_normal(shape).astype(dtype.numpy())
    return stored(values, dtype), values


def every_pattern(dtype: DType) -> Values:
    patterns: Values = np.arange(1 << 8 * dtype.itemsize, dtype=f"<u{dtype.itemsize}").view(dtype.numpy())
    return patterns


def hard_floats() -> Values:
    """Return F32 values around every rounding boundary of the narrower types: any upper half, critical lower halves."""
    upper = np.arange(1 << 16, dtype="<u4") << 16
    lower = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], "<u4")
    values: Values = (upper[:, None] | lower).reshape(-1).view("<f4")
    return values


def read(array: Array) -> Values:
    return to_numpy(array)


def assert_same_numbers(got: Values, wanted: Values) -> None:
    assert got.dtype == wanted.dtype
    nan = np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(got), nan)
    assert got[~nan].tobytes() == wanted[~nan].tobytes()


@pytest.mark.parametrize("name", NARROW)
def test_every_narrow_float_is_widened_exactly(name: str) -> None:
    values = every_pattern(DTYPES[name])
    assert_same_numbers(to_numpy(cast(stored(values, DTYPES[name]), F32)), values.astype(np.float32))


@pytest.mark.parametrize("name", ["F16", "BF16"])
def test_f32_is_rounded_to_nearest_even(name: str) -> None:
    values = hard_floats()
    with np.errstate(all="ignore"):
        wanted = values.astype(DTYPES[name].numpy())
    assert_same_numbers(to_numpy(cast(stored(values, F32), DTYPES[name])), wanted)


def test_f64_is_rounded_by_way_of_f32_as_torch_does() -> None:
    tie = np.array([1 + 2**-9 + 2**-40, 1 + 2**-8 + 2**-9 + 2**-40])
    got = to_numpy(cast(stored(tie, F64), BF16)).astype(np.float64)
    np.testing.assert_array_equal(got, tie.astype(np.float32).astype(BF16.numpy()).astype(np.float64))


def test_every_nan_becomes_a_nan() -> None:
    nans = np.array([0x7F800001, 0xFFFFFFFF, 0x7FFFFFFF, 0xFF800001], "<u4").view("<f4")
    assert np.isnan(to_numpy(cast(stored(nans, F32), BF16)).astype(np.float32)).all()


@pytest.mark.parametrize("target", [I8, I32, U8, I64], ids=str)
def test_integers_wrap_as_numpys_do(target: DType) -> None:
    values = np.array([0, 1, -1, 300, -300, 32767, -32768], "<i2")
    np.testing.assert_array_equal(to_numpy(cast(stored(values, I16), target)), values.astype(target.numpy()))


def test_booleans_become_zero_and_one() -> None:
    assert to_numpy(cast(stored(np.array([0, 2, 1], "u1"), BOOL), I64)).tolist() == [0, 1, 1]


@pytest.mark.parametrize(("source", "target"), [(I32, F32), (F32, I32), (I32, BOOL), (C64, F32), (F32, C64)], ids=str)
def test_casts_between_kinds_are_refused(source: DType, target: DType) -> None:
    with pytest.raises(TensorError, match="cannot be cast"):
        cast(counted((2,), source.name)[0], target)


@pytest.mark.parametrize("name", [name for name in NARROW if name.startswith("F8")])
def test_rounding_to_8_bit_floats_is_refused(name: str) -> None:
    with pytest.raises(TensorError, match="releases of torch disagree"):
        cast(floats(2)[0], DTYPES[name])


def test_a_cast_to_the_same_type_is_the_array_itself() -> None:
    array, _ = floats(2)
    assert cast(array, F32) is array


def test_big_endian_values_are_cast_by_value() -> None:
    values = np.array([1.5, -2.25], ">f4")
    array = strided(MemoryStorage(values.tobytes(), WHERE), F32, (2,), (1,), big_endian=True)
    assert to_numpy(cast(array, F16)).tolist() == [1.5, -2.25]


def test_arithmetic_inside_arithmetic_keeps_its_operands_apart() -> None:
    (left, a), (right, b) = floats(4, 3), floats(3, 4)
    joined = concat([cast(elementwise(left, "x * 2"), F64), cast(transpose(right), F64)], 0)
    made = elementwise(transpose(joined), "x + 1")
    np.testing.assert_array_equal(to_numpy(made), np.concatenate([(a * np.float32(2)).astype("f8"), b.T]).T + 1)


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("boxes", [1 << 20, 7], ids=["one box", "many boxes"])
def test_weight_norm_equals_numpys(dim: int, boxes: int, tuned: Callable[[Tuning], Tuning]) -> None:
    tuned(Tuning(box_elements=boxes))
    v, values = floats(4, 5, 6)
    g, factors = floats(*(size if axis == dim else 1 for axis, size in enumerate(values.shape)))
    axes = tuple(axis for axis in range(3) if axis != dim)
    norm = np.sqrt(np.square(values.astype("f8")).sum(axes, keepdims=True))
    np.testing.assert_allclose(read(weight_norm(g, v)), values * (factors / norm), rtol=1e-6)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
def test_weight_norm_with_one_g_is_over_all_axes(shape: tuple[int, ...]) -> None:
    (g, factor), (v, values) = floats(*shape), floats(3, 4)
    expected = values * (factor.reshape(1, 1) / np.linalg.norm(values.astype("f8")))
    np.testing.assert_allclose(read(weight_norm(g, v)), expected, rtol=1e-6)


def test_weight_norm_can_be_moved_and_cut_before_it_is_read() -> None:
    (g, factors), (v, values) = floats(4, 1), floats(4, 6)
    whole = to_numpy(weight_norm(g, v))
    moved = reshape(narrow(transpose(weight_norm(g, v)), 0, 1, 5), (2, 8))
    np.testing.assert_array_equal(to_numpy(moved), whole.T[1:5].reshape(2, 8))
    assert factors.shape == (4, 1)
    assert values.shape == (4, 6)


@pytest.mark.parametrize("dtype", [F16, BF16, F64], ids=str)
def test_weight_norm_keeps_the_type_of_v(dtype: DType) -> None:
    (g, _), (v, values) = floats(2, 1, dtype=dtype), floats(2, 3, dtype=dtype)
    assert to_numpy(weight_norm(g, v)).dtype == values.dtype


@pytest.mark.parametrize("axis", [0, 1])
def test_spectral_norm_divides_by_sigma(axis: int, tuned: Callable[[Tuning], Tuning]) -> None:
    tuned(Tuning(box_elements=5))
    weight, values = floats(4, 3, 2)
    matrix = np.moveaxis(values, axis, 0).reshape(values.shape[axis], -1).astype("f8")
    (u, left), (v, right) = floats(matrix.shape[0]), floats(matrix.shape[1])
    np.testing.assert_allclose(read(spectral_norm(weight, u, v, axis)), values / (left @ matrix @ right), rtol=2e-6)


@pytest.mark.parametrize(
    ("shape", "u", "v", "axis"),
    [((4, 3), (3,), (4,), 0), ((4, 3), (4,), (4,), 0), ((4, 3), (4,), (3,), 2)],
    ids=["swapped", "length", "axis"],
)
def test_spectral_norm_refuses_vectors_that_do_not_fit(
    shape: tuple[int, ...], u: tuple[int, ...], v: tuple[int, ...], axis: int
) -> None:
    with pytest.raises(TensorError, match="do not go together"):
        spectral_norm(floats(*shape)[0], floats(*u)[0], floats(*v)[0], axis)


@pytest.mark.parametrize(("shape", "axis"), [((), None), ((3,), 1), ((2,), 0)], ids=["tensor", "channel", "row"])
def test_dequantized_values_are_scaled_and_shifted(shape: tuple[int, ...], axis: int | None) -> None:
    values = np.array([[-128, 0, 127], [5, -6, 7]], "i1")
    scales, zeros = random.random(shape).astype("f8"), random.integers(-3, 3, shape)
    got = dequantize(stored(values, DTYPES["QI8"]), stored(scales, F64), stored(zeros, I64), axis, F32)
    along = [-1 if other == axis else 1 for other in range(2)]
    wanted = (values - zeros.reshape(along)).astype("f4") * scales.reshape(along).astype("f4")
    np.testing.assert_array_equal(to_numpy(got), wanted)


@pytest.mark.parametrize(
    "call",
    [
        lambda: dequantize(floats(2)[0], full(1, F32, ()), full(0, I64, ()), None, F32),
        lambda: dequantize(counted((2,), "I8")[0], full(1, F32, ()), full(0, I64, ()), None, I8),
        lambda: dequantize(counted((2,), "I8")[0], full(1, F32, (2,)), full(0, I64, (2,)), 1, F32),
        lambda: dequantize(counted((2,), "I8")[0], full(1, F32, (3,)), full(0, I64, (3,)), 0, F32),
        lambda: weight_norm(floats(2, 1)[0], floats(3, 4)[0]),
        lambda: weight_norm(floats(3)[0], floats(3, 4)[0]),
        lambda: weight_norm(counted((3, 1))[0], floats(3, 4)[0]),
        lambda: elementwise(counted((2,))[0], "x"),
    ],
    ids=["floats", "to integers", "axis", "scales", "g", "rank of g", "integers", "formula of integers"],
)
def test_operands_that_do_not_fit_are_refused(call: object) -> None:
    with pytest.raises(TensorError):
        call()  # type: ignore[operator]


def test_operands_without_common_loops_still_meet() -> None:
    (v, values), (g, _) = floats(6, 4), floats(1, 1)
    merged = reshape(permute(reshape(v, (2, 3, 4)), (1, 0, 2)), (6, 4))
    odd = reshape(permute(reshape(narrow(stored(values, F32), 0, 0, 6), (3, 2, 4)), (1, 0, 2)), (6, 4))
    made = compute(Scale(), F32, [merged, odd])
    wanted = values.reshape(2, 3, 4).swapaxes(0, 1).reshape(6, 4) * values.reshape(3, 2, 4).swapaxes(0, 1).reshape(6, 4)
    np.testing.assert_array_equal(to_numpy(made), wanted)
    assert g.shape == (1, 1)


def test_scales_may_be_computed_themselves() -> None:
    values, scales = np.array([[1, 2], [3, 4]], "i1"), np.array([0.5, 4], "f8")
    got = dequantize(stored(values, I8), cast(stored(scales, F64), F32), full(0, I8, (2,)), 0, F32)
    np.testing.assert_array_equal(to_numpy(got), values * scales[:, None])


def test_norms_are_summed_in_an_order_of_their_own() -> None:
    values = np.random.default_rng(3).standard_normal((7, 33, 5))
    for axes in ((0,), (1, 2), (0, 1, 2), ()):
        np.testing.assert_allclose(_sum(values, axes), values.sum(axis=axes, keepdims=True), rtol=1e-13)
    assert _sum(np.zeros((0, 3)), (0,)).tolist() == [[0.0, 0.0, 0.0]]
    assert _sum(np.zeros((2, 0)), (0,)).shape == (1, 0)
    by_hand = (values[0, 0, 0] + values[2, 0, 0]) + (values[1, 0, 0] + values[3, 0, 0])
    assert _sum(values[:4, :1, :1], (0,))[0, 0, 0] == by_hand
