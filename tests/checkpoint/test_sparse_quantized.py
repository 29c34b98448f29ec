"""Sparse and quantized tensors whose parts do not fit together, and the bounds on making them dense."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from importer.arrays import Array, to_numpy
from importer.checkpoint import open_checkpoint
from importer.checkpoint.found import Dense, NotDense, Packed
from importer.checkpoint.tensors import TensorReader
from importer.containers import Resolved, StorageRecord
from importer.errors import LimitError, TensorError, UsageError
from importer.limits import DEFAULT_LIMITS
from importer.options import Options, SparseChoice
from importer.storages import MemoryStorage
from importer.unpickling import Call, PersistentId
from tests.builders.pickles import call, glob, storage, tensor
from tests.checkpoint.conftest import WHERE, resolve
from tests.shared import FIXTURES

COUNTS = storage("1", 3, "LongStorage")
UNPACKED = Options(sparse=SparseChoice.DENSE)


def read(node: Call, options: Options = UNPACKED) -> Dense | NotDense | Packed | None:
    return TensorReader(resolve, WHERE, options=options).read(node)


def coo(size: object, *, indices: object = None, values: object = None) -> Call:
    places = tensor((1, 2), of=COUNTS) if indices is None else indices
    parts = (places, tensor((2,)) if values is None else values, size)
    return call("torch._utils._rebuild_sparse_tensor", glob("torch.sparse_coo"), parts)


def quantized(*scheme: object, kind: str = "QInt8Storage") -> Call:
    args = (storage("0", 6, kind), 0, (2, 3), (3, 1), scheme, False, None)
    return call("torch._utils._rebuild_qtensor", *args)


@pytest.mark.parametrize(
    ("node", "what"),
    [
        pytest.param(coo((8, 2)), "do not make", id="too-many-dimensions"),
        pytest.param(coo(()), "do not make", id="no-dimensions"),
        pytest.param(coo((8,), values=tensor((3,))), "do not make", id="more-values-than-indices"),
        pytest.param(coo((8,), indices=tensor((1, 2))), "indices of type F32", id="fractional-indices"),
        pytest.param(coo((8,), indices=7), "no dense tensor", id="no-indices"),
        pytest.param(coo((8,), indices=coo((8,))), "no dense tensor", id="sparse-in-sparse"),
        pytest.param(coo("8"), "no size", id="no-size"),
        pytest.param(quantized(), "scales", id="no-scheme"),
        pytest.param(quantized(glob("torch.per_tensor_affine"), "1", 0), "scales", id="scale-as-text"),
        pytest.param(quantized(glob("torch.per_tensor_affine"), 1.0, 1 << 70), "scales", id="endless-zero-point"),
        pytest.param(quantized(glob("torch.c"), [1.0], [0], 7), "axis", id="no-such-axis"),
        pytest.param(quantized(glob("torch.c"), [1.0], [0], 0), "reshaped", id="too-few-scales"),
        pytest.param(quantized(glob("torch.c"), [1.0, None], [0, 0], 0), "numbers", id="scales-that-are-none"),
    ],
)
def test_parts_that_do_not_fit_are_a_fault(node: Call, what: str) -> None:
    with pytest.raises(TensorError, match=what):
        read(node)


def test_scales_may_be_lists_as_before_torch_1_5() -> None:
    found = read(quantized(glob("torch.per_channel_affine"), [0.5, 2.0], [0, 1], 0))
    assert isinstance(found, Packed)
    scale = found.composite.parts["scale"]
    assert isinstance(scale, Array)
    assert to_numpy(scale).tolist() == [0.5, 2.0]


def test_packed_elements_of_four_bits_are_reported() -> None:
    found = read(quantized(glob("torch.per_tensor_affine"), 1.0, 0, kind="QUInt4x2Storage"))
    assert isinstance(found, NotDense)
    assert found.kind == "quantized"


@pytest.mark.parametrize("size", [(1 << 40,), (1 << 62, 1 << 62)], ids=["large", "beyond-64-bits"])
def test_a_sparse_tensor_that_would_be_too_large_is_refused(size: tuple[int, ...]) -> None:
    with pytest.raises(LimitError) as caught:
        read(coo(size))
    assert caught.value.limit == "max_dense_bytes"


def test_the_bound_on_dense_sizes_can_be_lowered() -> None:
    limits = replace(DEFAULT_LIMITS, max_dense_bytes=31)
    with pytest.raises(LimitError):
        read(coo((8,)), replace(UNPACKED, limits=limits))


@pytest.mark.parametrize("choice", ["sparse", "quantized"])
def test_an_unknown_choice_is_a_usage_error(choice: str) -> None:
    with pytest.raises(UsageError, match=f"{choice} is 'all'"):
        open_checkpoint(FIXTURES / "beyond" / "sparse.pt", **{choice: "all"})


def counted(pid: PersistentId) -> Resolved:
    """Resolve storage 1 as the integers 5, 0 and 9."""
    record = resolve(pid)
    assert isinstance(record, StorageRecord)
    numbers = MemoryStorage(struct.pack("<3q", 5, 0, 9), WHERE)
    return StorageRecord(numbers, record.dtype, record.numel, record.key) if record.key == "1" else record


def test_elements_lie_where_their_indices_say() -> None:
    found = TensorReader(counted, WHERE, options=UNPACKED).read(coo((8,)))
    assert isinstance(found, Dense)
    assert to_numpy(found.array).tolist() == [1.0, 0, 0, 0, 0, 0.0, 0, 0]


def test_an_index_outside_of_the_size_is_found_when_it_is_read() -> None:
    found = TensorReader(counted, WHERE, options=UNPACKED).read(coo((5,)))
    assert isinstance(found, Dense)
    with pytest.raises(TensorError, match="outside of the size 5"):
        to_numpy(found.array)
