"""Files of torch 2.13 that hold more than dense tensors, against what torch itself read out of them (fixtures/beyond)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from importer.arrays import to_numpy
from importer.checkpoint import Checkpoint, Tensor, open_checkpoint
from importer.conversion import convert
from tests.shared import FIXTURES

BEYOND = FIXTURES / "beyond"
DENSE = ("module", "parametrized", "odd", "mp_rank_00_model_states", "sharded")


def expectation(case: str) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads((BEYOND / f"{case}.json").read_text(encoding="utf-8"))
    return expected


def source(case: str) -> Path:
    return BEYOND / case if case == "sharded" else BEYOND / f"{case}.pt"


def described(tensor: Tensor) -> dict[str, object]:
    """What the recordings say of a tensor."""
    digest = hashlib.sha256(to_numpy(tensor.array).tobytes()).hexdigest()
    return {"dtype": tensor.dtype.name, "shape": list(tensor.shape), "sha256": digest}


def contents(checkpoint: Checkpoint) -> dict[str, dict[str, object]]:
    return {name: described(tensor) for name, tensor in checkpoint.tensors.items()}


@pytest.mark.parametrize("case", DENSE)
def test_the_tensors_are_those_torch_reads(case: str) -> None:
    expected = expectation(case)
    checkpoint = open_checkpoint(source(case))
    assert contents(checkpoint) == expected["tensors"]
    assert checkpoint.root == expected.get("root", "")
    assert {entry.name: entry.kind for entry in checkpoint.unsupported} == expected.get("kinds", {})


def test_a_saved_module_has_its_tensors_in_the_order_of_its_state_dict() -> None:
    assert list(open_checkpoint(source("module"))) == list(expectation("module")["tensors"])


def test_sparse_tensors_are_reported_by_layout_unless_asked_for() -> None:
    expected = expectation("sparse")
    checkpoint = open_checkpoint(source("sparse"))
    assert {entry.name: entry.kind for entry in checkpoint.unsupported} == expected["kinds"]
    assert contents(checkpoint) == expected["dense"]


def test_sparse_tensors_are_dense_on_request() -> None:
    expected = expectation("sparse")
    checkpoint = open_checkpoint(source("sparse"), sparse="dense")
    assert checkpoint.unsupported == ()
    assert contents(checkpoint) == {**expected["tensors"], **expected["dense"]}


def test_quantized_tensors_are_reported_unless_asked_for() -> None:
    checkpoint = open_checkpoint(source("quantized"))
    assert [entry.name for entry in checkpoint.unsupported] == list(expectation("quantized")["tensors"])
    assert {entry.kind for entry in checkpoint.unsupported} == {"quantized"}
    assert len(checkpoint) == 0


def test_quantized_tensors_have_their_real_values_on_request() -> None:
    checkpoint = open_checkpoint(source("quantized"), quantized="dequantize")
    assert contents(checkpoint) == expectation("quantized")["tensors"]


def test_quantized_tensors_are_integers_with_their_scales_on_request() -> None:
    expected = expectation("quantized")["integers"]
    checkpoint = open_checkpoint(source("quantized"), quantized="integers")
    assert {name: described(checkpoint[f"{name}.int_repr"]) for name in expected} == expected
    assert not set(expected) & set(checkpoint)
    assert checkpoint["qint8.scale"].numpy() == 0.0625
    assert checkpoint["qint8.zero_point"].numpy() == 3
    assert checkpoint["rows.scale"].numpy().tolist() == [0.125, 0.25, 0.5, 1.0]
    assert checkpoint["rows.zero_point"].numpy().tolist() == [0, 3, -2, 1]
    assert len(checkpoint) == 3 * len(expected)


def test_a_conversion_takes_the_same_choices(tmp_path: Path) -> None:
    target = tmp_path / "out.safetensors"
    convert(source("quantized"), target, recipe="none", quantized="dequantize")
    assert contents(open_checkpoint(target)) == expectation("quantized")["tensors"]
