"""numpy arrays and scalars read from the calls numpy writes, compared with numpy itself."""

from __future__ import annotations

import struct
from typing import Any, cast

import ml_dtypes
import numpy as np
import pytest

from importer.arrays import to_numpy
from importer.checkpoint.found import NotDense
from importer.checkpoint.numpy_values import is_numpy, read_array, read_scalar
from importer.errors import TensorError
from importer.unpickling import Call
from tests.builders.pickles import call, glob
from tests.checkpoint.conftest import WHERE

CORES = ("numpy.core", "numpy._core")


def dtype_call(dtype: np.dtype[Any]) -> Call:
    """Return what numpy pickles for a dtype."""
    maker, args, state = cast("tuple[object, tuple[object, ...], object]", dtype.__reduce__())
    assert maker is np.dtype
    return call("numpy.dtype", *args, state=state)


def array_call(array: np.ndarray[Any, Any], core: str = "numpy._core", *, latin: bool = False) -> Call:
    """Return what numpy pickles for an array; protocol 2 writes the bytes as Latin-1 text."""
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    raw: object = array.tobytes("F" if fortran else "C")
    if latin:
        raw = call("_codecs.encode", raw.decode("latin-1"), "latin1")  # type: ignore[attr-defined]
    state = (1, array.shape, dtype_call(array.dtype), fortran, raw)
    return call(f"{core}.multiarray._reconstruct", glob("numpy.ndarray"), (0,), b"b", state=state)


ARRAYS: list[np.ndarray[Any, Any]] = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
    np.arange(6, dtype=">f8").reshape(3, 2),
    np.arange(3, dtype="<u2"),
    np.array([True, False]),
    np.array(5, dtype=np.int8),
    np.zeros((0, 3), dtype=np.float16),
    np.array([1 + 2j], dtype=np.complex64),
]


@pytest.mark.parametrize("latin", [True, False])
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype.str}{array.shape}")
def test_an_array_has_numpys_own_values(array: np.ndarray[Any, Any], core: str, latin: bool) -> None:
    node = array_call(array, core, latin=latin)
    found = read_array(node, WHERE)
    assert not isinstance(found, NotDense)
    assert is_numpy(node.callable)  # type: ignore[arg-type]
    np.testing.assert_array_equal(to_numpy(found), array)


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_of_protocol_5_is_read(order: str) -> None:
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    raw = bytearray(array.tobytes(order))  # type: ignore[arg-type]
    found = read_array(call("numpy._core.numeric._frombuffer", raw, dtype_call(array.dtype), (2, 3), order), WHERE)
    assert not isinstance(found, NotDense)
    np.testing.assert_array_equal(to_numpy(found), array)


def test_a_type_of_ml_dtypes_is_read() -> None:
    dtype = call("numpy.dtype", glob("ml_dtypes.bfloat16"), False, True)
    found = read_array(call("numpy._core.multiarray.scalar", dtype, b"\x80\x3f"), WHERE)
    assert not isinstance(found, NotDense)
    assert to_numpy(found) == np.array(1, dtype=ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    ("raw", "size"),
    [
        ("ab", 2),
        (call("builtins.bytearray", b"ab"), 2),
        (call("builtins.bytes"), 0),
    ],
    ids=["text of Python 2", "bytearray", "no bytes"],
)
def test_other_spellings_of_bytes(raw: object, size: int) -> None:
    state = (1, (size,), call("numpy.dtype", "u1", 0, 1, state=(3, "|", None, None, None, -1, -1, 0)), False, raw)
    found = read_array(call("numpy.core.multiarray._reconstruct", state=state), WHERE)
    assert not isinstance(found, NotDense)
    assert to_numpy(found).tobytes() == b"ab"[:size]


@pytest.mark.parametrize(
    ("dtype", "raw"),
    [
        (call("numpy.dtype", "O8", False, True), []),
        (call("numpy.dtype", "U4", False, True), bytes(16)),
        (call("numpy.dtype", "f4", False, True), [1.0]),
        (call("numpy.dtype", 4), bytes(16)),
        ("f4", bytes(16)),
    ],
    ids=["objects", "texts", "a list", "no code", "no dtype"],
)
def test_what_holds_no_numbers_is_described(dtype: object, raw: object) -> None:
    found = read_array(call("numpy.core.multiarray._reconstruct", state=(1, (1,), dtype, False, raw)), WHERE)
    assert isinstance(found, NotDense)
    assert found.kind == "numpy"


@pytest.mark.parametrize(
    "node",
    [
        call("numpy.core.multiarray._reconstruct"),
        call("numpy.core.multiarray._reconstruct", state=(1, ("x",), dtype_call(np.dtype("u1")), False, b"a")),
        call("numpy.core.multiarray._reconstruct", state=(1, (2,), dtype_call(np.dtype("u1")), False, b"a")),
        call("numpy.core.multiarray._reconstruct", state=(1, (-1,), dtype_call(np.dtype("u1")), False, b"a")),
        call(
            "numpy.core.multiarray._reconstruct", state=(1, (1 << 8000,) * 2, dtype_call(np.dtype("u1")), False, b"a")
        ),
        call("numpy.core.multiarray._reconstruct", state=(1, (1,) * 65, dtype_call(np.dtype("u1")), False, b"a")),
    ],
    ids=["no state", "shape of text", "too few bytes", "negative size", "huge size", "65 dimensions"],
)
def test_an_array_that_does_not_fit_its_bytes_is_an_error(node: Call) -> None:
    with pytest.raises(TensorError):
        read_array(node, WHERE)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(
    "scalar",
    [
        np.float64(0.8125),
        np.float32(1e-3),
        np.float16(2.5),
        np.int64(-77),
        np.uint64((1 << 64) - 1),
        np.int8(-1),
        np.bool_(True),
        np.bool_(False),
        np.complex64(1 + 2j),
        np.complex128(-1j),
    ],
    ids=repr,
)
def test_a_scalar_is_the_number_numpy_holds(scalar: np.generic, core: str) -> None:
    found = read_scalar(call(f"{core}.multiarray.scalar", dtype_call(scalar.dtype), scalar.tobytes()))
    assert found == scalar.item()
    assert type(found) is type(scalar.item())


def test_a_big_endian_scalar_is_read() -> None:
    dtype = call("numpy.dtype", "f8", False, True, state=(3, ">", None, None, None, -1, -1, 0))
    assert read_scalar(call("numpy.core.multiarray.scalar", dtype, struct.pack(">d", 1.5))) == 1.5


@pytest.mark.parametrize(
    "node",
    [
        call("numpy.core.multiarray.scalar", call("numpy.dtype", "O8"), b"x"),
        call("numpy.core.multiarray.scalar", dtype_call(np.dtype("f8")), b"short"),
        call("numpy.core.multiarray.scalar", dtype_call(np.dtype("f8")), 1),
        call("numpy.core.multiarray.scalar", call("numpy.dtype", glob("ml_dtypes.bfloat16")), b"\x80\x3f"),
        call("numpy.core.multiarray.scalar"),
        call("mine.scalar2", 1, 2),
    ],
    ids=["object", "short", "no bytes", "bfloat16", "no arguments", "another call"],
)
def test_what_is_no_plain_number_is_none(node: Call) -> None:
    assert read_scalar(node) is None
