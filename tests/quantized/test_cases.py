"""Files of every format against the values of its own reference implementation (../shared/quantized)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from importer.arrays import to_numpy
from importer.checkpoint import open_checkpoint
from importer.conversion import convert
from tests.shared import SHARED

CASES = SHARED / "quantized"
NAMES = sorted(path.parent.name for path in CASES.glob("*/expect.json") if not (path.parent / "base").exists())

if not NAMES:
    pytest.skip("the shared cases are not there", allow_module_level=True)


def source(case: str) -> Path:
    return next(path for path in (CASES / case / "model", CASES / case / "model.pt") if path.exists())


def distance(got: np.ndarray, want: np.ndarray) -> int:
    """Return the greatest distance in units in the last place."""
    kind = np.dtype(f"i{got.itemsize}")

    def line(values: np.ndarray) -> np.ndarray:
        bits = np.ascontiguousarray(values).view(kind).astype(np.int64)
        return np.where(bits < 0, np.iinfo(kind).min - bits, bits)

    return int(np.abs(line(got) - line(want)).max())


@pytest.mark.parametrize("case", NAMES)
def test_the_values_are_those_of_the_reference(case: str, tmp_path: Path) -> None:
    record = json.loads((CASES / case / "expect.json").read_text(encoding="utf-8"))
    expected = open_checkpoint(CASES / case / "expect.safetensors")
    result = convert(source(case), tmp_path / "out.safetensors", recipe="none", adapter="none")
    assert result.is_success, result.to_text()
    made = open_checkpoint(tmp_path / "out.safetensors")
    assert set(made) == set(expected)
    rule = record["compare"]
    for row in record["tensors"]:
        got, want = to_numpy(made[row["name"]].array), to_numpy(expected[row["name"]].array)
        assert (got.shape, got.dtype) == (want.shape, want.dtype), row["name"]
        if row["how"] == "copied":
            assert got.tobytes() == want.tobytes(), row["name"]
        elif distance(got, want) > rule.get("acceptable_ulp", 0):
            error = np.abs(got.astype(np.float64) - want.astype(np.float64)).max()
            largest = error / np.spacing(np.abs(want).max()).astype(np.float64)
            assert largest <= rule.get("acceptable_ulp_of_largest", 0), row["name"]
    skipped = {entry.name for entry in result.skipped}
    dtypes = {name for name in record["unused"] if name.endswith(".dtype")}  # no tensors
    within = {source for applied in result.applied for source in applied.sources}
    assert set(record["unused"]) - dtypes <= skipped | within


@pytest.mark.parametrize("case", NAMES)
def test_a_report_names_the_format_and_writes_no_codes(case: str, tmp_path: Path) -> None:
    quantization = open_checkpoint(source(case)).quantization
    assert quantization is not None
    assert quantization.weights
    assert quantization.fault is None
    assert quantization.expanded_bytes > quantization.stored_bytes / 2
    result = convert(source(case), tmp_path / "out.safetensors", recipe="none", quantized="report")
    assert not result.is_success
    assert not (tmp_path / "out.safetensors").exists()


@pytest.mark.parametrize("case", NAMES)
def test_integers_stand_under_names_of_their_own(case: str, tmp_path: Path) -> None:
    quantization = open_checkpoint(source(case)).quantization
    assert quantization is not None
    plain = {name for name in quantization.weights if not name.endswith("bias")}
    result = convert(source(case), tmp_path / "out.safetensors", recipe="none", quantized="integers")
    assert result.is_success, result.to_text()
    assert not plain & set(open_checkpoint(tmp_path / "out.safetensors"))
