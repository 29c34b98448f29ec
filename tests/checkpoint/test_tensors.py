"""Tensors from every call torch has pickled them as; values are those of the storage `0, 1, … 5` in float32."""

from __future__ import annotations

import re

import numpy as np
import pytest

from importer.arrays import to_numpy
from importer.checkpoint.found import Dense, NotDense, Packed
from importer.checkpoint.tensors import TensorReader
from importer.errors import MissingFileError, SourceError, TensorError
from importer.unpickling import Call, Global, PersistentId
from tests.builders.pickles import call, glob, ordered, parameter, storage, tensor
from tests.checkpoint.conftest import WHERE, resolve
from tests.checkpoint.test_numpy_values import array_call

STORED = np.arange(6, dtype=np.float32)
MATRIX = STORED.reshape(2, 3)
FLOATS = storage()


def read(node: Call, *, big_endian: bool = False) -> Dense | NotDense | Packed | None:
    return TensorReader(resolve, WHERE, big_endian=big_endian).read(node)


def dense(node: Call) -> Dense:
    found = read(node)
    assert isinstance(found, Dense)
    return found


OLD_STATE = (FLOATS, 0, (2, 3), (3, 1))
SUBCLASS_ARGS = (FLOATS, 0, (2, 3), (3, 1), False, ordered())


@pytest.mark.parametrize(
    "node",
    [
        tensor(),
        tensor(flags={}),
        tensor(flags=None),
        call("torch._utils._rebuild_tensor", FLOATS, 0, (2, 3), (3, 1)),
        call("torch._utils._rebuild_tensor", FLOATS, 0, call("torch.Size", (2, 3)), (3, 1)),
        call("torch._utils._rebuild_tensor_v3", FLOATS, 0, (2, 3), (3, 1), False, ordered(), glob("torch.float32")),
        call(
            "torch._utils._rebuild_tensor_v3",
            storage(numel=24, kind="UntypedStorage"),
            *(0, (2, 3), (3, 1), False, ordered(), glob("torch.float32"), {}),
        ),
        parameter(tensor()),
        parameter(parameter(tensor())),
        call("torch._utils._rebuild_parameter_with_state", tensor(), True, ordered(), {"tag": 1}),
        call(
            "torch._utils._rebuild_device_tensor_from_numpy", array_call(MATRIX), glob("torch.float32"), "xla:0", False
        ),
        call("torch._utils._rebuild_xla_tensor", array_call(MATRIX), glob("torch.float32"), "xla:0", False),
        call("torch._utils._rebuild_device_tensor_from_cpu_tensor", tensor(), glob("torch.float32"), "xla:0", False),
        call(
            "torch._tensor._rebuild_from_type_v2",
            *(glob("torch._utils._rebuild_tensor_v2"), glob("mine.Tensor"), SUBCLASS_ARGS, {}),
        ),
        call(
            "torch.tensor._rebuild_from_type",
            *(glob("torch._utils._rebuild_tensor_v2"), glob("mine.Tensor"), SUBCLASS_ARGS, {}),
        ),
        call("torch.FloatTensor", state=OLD_STATE),
        call("torch.FloatTensor", *OLD_STATE),
        call("torch.autograd.variable.Variable", state=(tensor(), None, False, ordered(), None)),
        call("torch.nn.parameter.Parameter", tensor(), state=(True, False, ordered())),
        call("torch.nn.parameter.Parameter", tensor(), True),
        call("copy_reg.__newobj__", glob("torch.nn.parameter.Parameter"), tensor()),
        call("copyreg.__newobj__", glob("torch.FloatTensor"), state=OLD_STATE),
    ],
    ids=lambda node: str(node.callable),
)
def test_every_spelling_of_a_tensor_gives_its_values(node: Call) -> None:
    np.testing.assert_array_equal(to_numpy(dense(node).array), MATRIX)


def test_offset_and_strides_are_those_of_the_view() -> None:
    found = dense(tensor((3, 2), stride=(1, 3)))
    np.testing.assert_array_equal(to_numpy(found.array), MATRIX.T)
    found = dense(tensor((2,), stride=(2,), offset=1))
    np.testing.assert_array_equal(to_numpy(found.array), STORED[1:5:2])


@pytest.mark.parametrize("flags", [{"neg": True}, ordered({"neg": True})], ids=["dict", "ordered dict"])
def test_the_negative_bit_changes_the_values(flags: object) -> None:
    np.testing.assert_array_equal(to_numpy(dense(tensor(flags=flags)).array), -MATRIX)


def test_the_conjugate_bit_changes_the_values() -> None:
    found = dense(tensor((3,), of=storage(numel=3, kind="ComplexFloatStorage"), flags={"conj": True}))
    np.testing.assert_array_equal(to_numpy(found.array), STORED.view(np.complex64).conj())


@pytest.mark.parametrize("flags", [ordered(), {}, None], ids=repr)
def test_no_flags_change_nothing(flags: object) -> None:
    np.testing.assert_array_equal(to_numpy(dense(tensor(flags=flags)).array), MATRIX)


@pytest.mark.parametrize(
    "flags", [{"conj": False}, {"neg": False}, {"neg": 1}, {"other": True}, 7, call("mine.Flags")], ids=repr
)
def test_flags_that_torch_does_not_write_are_refused(flags: object) -> None:
    # torch sets a bit whose key is there, also where it says False.
    with pytest.raises(TensorError, match="lazy bits"):
        read(tensor(flags=flags))


def test_big_endian_storages_are_read_as_such() -> None:
    found = read(tensor(), big_endian=True)
    assert isinstance(found, Dense)
    np.testing.assert_array_equal(to_numpy(found.array), STORED.view(">f4").astype("<f4").reshape(2, 3))


def test_a_device_tensor_is_converted_to_its_type() -> None:
    node = call(
        "torch._utils._rebuild_device_tensor_from_numpy", array_call(MATRIX), glob("torch.float64"), "xla", False
    )
    found = dense(node)
    assert found.array.dtype.name == "F64"
    np.testing.assert_array_equal(to_numpy(found.array), MATRIX.astype(np.float64))
    assert found.identity is None


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (tensor(), parameter(tensor()), True),
        (tensor(), tensor(of=storage("1")), False),
        (tensor(), tensor((3, 2)), False),
        (tensor((2,)), tensor((2,), offset=1), False),
        (tensor(), tensor(flags={"neg": True}), False),
    ],
    ids=["same view", "other storage", "other shape", "other offset", "other bit"],
)
def test_identity_is_that_of_the_view(one: Call, other: Call, equal: bool) -> None:
    assert (dense(one).identity == dense(other).identity) is equal


DTYPE = glob("torch.float32")


@pytest.mark.parametrize(
    ("node", "kind", "reason"),
    [
        (call("torch._utils._rebuild_meta_tensor_no_storage", DTYPE, (2, 3), (3, 1), False), "meta", r"\(2, 3\)"),
        (call("torch._utils._rebuild_meta_tensor_no_storage"), "meta", "no data"),
        (
            call("torch._utils._rebuild_qtensor", FLOATS, 0, (2, 3), (3, 1), (glob("torch.per_tensor_affine"), 0.1, 0)),
            "quantized",
            "per_tensor_affine",
        ),
        (call("torch._utils._rebuild_qtensor"), "quantized", "scales"),
        (tensor(of=storage(kind="QInt8Storage")), "quantized", "QI8"),
        (
            call(
                "torch._utils._rebuild_sparse_tensor",
                glob("torch.sparse_coo"),
                (tensor(), tensor(), call("torch.Size", (4, 5))),
            ),
            "sparse_coo",
            r"\(4, 5\)",
        ),
        (
            call(
                "torch._utils._rebuild_sparse_tensor",
                call("torch.serialization._get_layout", "torch.sparse_csr"),
                (tensor(), tensor(), tensor(), (4, 5)),
            ),
            "sparse_csr",
            r"\(4, 5\)",
        ),
        (call("torch._utils._rebuild_sparse_csr_tensor", "torch.sparse_csr", ()), "sparse_csr", "indices"),
        (call("torch._utils._rebuild_sparse_tensor", 1, 2), "sparse", "indices"),
        (call("torch._utils._rebuild_nested_tensor", tensor(), tensor(), tensor(), tensor()), "nested", "lengths"),
        (call("torch._utils._rebuild_wrapper_subclass", glob("mine.Wrapper"), DTYPE), "wrapper", "mine.Wrapper"),
        (call("torch._utils._rebuild_wrapper_subclass"), "wrapper", "unknown"),
        (call("torch._utils._rebuild_of_the_future", FLOATS), "unknown", "_rebuild_of_the_future"),
        (parameter(call("mine.Tensor")), "unknown", "mine.Tensor"),
        (parameter(call(call("mine.make"))), "unknown", "rebuilt by"),
        (
            call("torch._utils._rebuild_tensor_v3", FLOATS, 0, (2, 3), (3, 1), False, ordered(), glob("torch.float3")),
            "unknown",
            "float3",
        ),
        (
            call(
                "torch._utils._rebuild_device_tensor_from_numpy", array_call(MATRIX), glob("torch.float3"), "xla", False
            ),
            "unknown",
            "float3",
        ),
        (call("torch._utils._rebuild_device_tensor_from_numpy", array_call(MATRIX)), "unknown", "None"),
        (
            call(
                "torch._utils._rebuild_device_tensor_from_numpy",
                *(call("numpy.core.multiarray._reconstruct", state=(1, (1,), "O", False, [])), DTYPE, "xla", False),
            ),
            "numpy",
            "objects",
        ),
        (call("torch.nn.parameter.UninitializedParameter", True), "empty", "without data"),
        (call("torch.FloatTensor"), "empty", "without data"),
        (call("torch._utils._rebuild_tensor", call("m.Storage"), 0, (1,), (1,)), "unknown", "m.Storage"),
    ],
    ids=lambda item: str(item.callable) if isinstance(item, Call) else "",
)
def test_what_has_no_dense_elements_is_described(node: Call, kind: str, reason: str) -> None:
    found = read(node)
    assert isinstance(found, NotDense)
    assert found.kind == kind
    assert re.search(reason, found.reason)


@pytest.mark.parametrize(
    "node",
    [
        ordered(),
        call("mine.Model"),
        call(call("mine.make")),
        call("copyreg.__newobj__", glob("mine.Model")),
        call("numpy.core.multiarray._reconstruct"),
    ],
    ids=str,
)
def test_other_calls_are_no_tensors(node: Call) -> None:
    assert read(node) is None


@pytest.mark.parametrize(
    ("node", "what"),
    [
        (call("torch._utils._rebuild_tensor", FLOATS, 0, (2, 3)), "3 values"),
        (call("torch._utils._rebuild_tensor", 1, 0, (2, 3), (3, 1)), "its storage is none"),
        (
            call("torch._utils._rebuild_tensor", PersistentId(("module", Global("m", "F"))), 0, (2, 3), (3, 1)),
            "its storage is none",
        ),
        (call("torch._utils._rebuild_tensor", FLOATS, 0.5, (2, 3), (3, 1)), "its offset is"),
        (call("torch._utils._rebuild_tensor", FLOATS, True, (2, 3), (3, 1)), "its offset is"),
        (call("torch._utils._rebuild_tensor", storage(kind="UntypedStorage"), 0, (2,), (1,)), "no type"),
        (call("torch._utils._rebuild_tensor", FLOATS, 0, "23", (3, 1)), "no size or stride"),
        (call("torch._utils._rebuild_tensor", FLOATS, 0, (2, "3"), (3, 1)), "no number of elements"),
        (call("torch._utils._rebuild_tensor", FLOATS, 0, (2, True), (3, 1)), "no number of elements"),
        (call("torch._utils._rebuild_tensor_v3", FLOATS, 0, (2, 3)), "without a type"),
        (call("torch._utils._rebuild_tensor_v3"), "without a type"),
        (parameter(1), "wraps '1'"),  # type: ignore[arg-type]
        (call("torch._utils._rebuild_parameter"), "wraps 'None'"),
        (call("torch._tensor._rebuild_from_type_v2", glob("m.F")), "does not write"),
        (tensor((2, -3), stride=(3, 1)), "describes no tensor"),
        (tensor((2, 3), stride=(-3, 1)), "describes no tensor"),
        (tensor((2, 3), stride=(3,)), "describes no tensor"),
        (tensor((2, 3), offset=1), "its storage has 24"),
        (tensor((1 << 62,), stride=(1 << 62,)), "its storage has 24"),
        (tensor((1 << 62,) * 65, stride=(1,) * 65), "65 dimensions"),
        (tensor((1 << 63,), stride=(1,)), "no number of elements"),
        (tensor((1 << 8000,), stride=(1 << 8000,)), "no number of elements"),
        (tensor((1,), offset=-(1 << 8000)), "its offset is"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_what_describes_no_tensor_is_an_error(node: Call, what: str) -> None:
    with pytest.raises(TensorError, match=what):
        read(node)


def test_a_missing_record_is_an_error() -> None:
    with pytest.raises(MissingFileError, match="record 7"):
        read(tensor(of=storage("7")))


def test_wrappers_in_wrappers_do_not_recurse() -> None:
    node = tensor()
    for _ in range(20_000):
        node = parameter(node)
    np.testing.assert_array_equal(to_numpy(dense(node).array), MATRIX)


def test_every_error_is_of_the_source() -> None:
    with pytest.raises(SourceError):
        read(tensor(of=PersistentId("nonsense")))
