"""Values that are too large for the type they are written in are counted in the report; nothing is printed besides."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from importer import convert
from importer.arrays import OverflowCount, cast, from_bytes, to_numpy
from importer.dtypes import BF16, F16, F32, F64, DType
from importer.errors import Location
from tests.builders.tables import safetensors, safetensors_entry
from tests.shared import REPOSITORY

VALUES = (1.0, 70_000.0, -1e30, float("inf"), float("nan"), 65_504.0)


def checkpoint(folder: Path) -> Path:
    header = {"big": safetensors_entry("F32", [6], 0, 24), "small": safetensors_entry("F32", [1], 24, 28)}
    path = folder / "model.safetensors"
    path.write_bytes(safetensors(header, struct.pack("<7f", *VALUES, 1.0)))
    return path


def test_what_becomes_infinite_in_f16_is_counted_by_tensor(tmp_path: Path) -> None:
    result = convert(checkpoint(tmp_path), tmp_path / "out.safetensors", recipe="none", dtype="f16")
    assert result.overflows == {"big": 2}
    assert json.loads(result.to_json())["overflows"] == {"big": 2}
    assert "big  2 values" in result.to_text()
    assert "big  2 values" in result.to_markdown()


def test_what_fits_is_not_mentioned(tmp_path: Path) -> None:
    result = convert(checkpoint(tmp_path), tmp_path / "out.safetensors", recipe="none", dtype="bf16")
    assert result.overflows == {}
    assert "infinite" not in result.to_text()


@pytest.mark.parametrize(
    ("values", "dtype", "narrow", "count"),
    [
        pytest.param([1e300, 1e38, -1e39], F64, F32, 2, id="f64-to-f32"),
        pytest.param([1e300, 65_519.0, 65_520.0], F64, F16, 2, id="f64-to-f16"),
        pytest.param([3.4e38, 3.38e38], F32, BF16, 1, id="f32-to-bf16"),
        pytest.param([1e38, 1.0], BF16, F16, 1, id="bf16-to-f16"),
    ],
)
def test_every_narrowing_is_counted(values: list[float], dtype: DType, narrow: DType, count: int) -> None:
    overflow = OverflowCount()
    stored = from_bytes(np.array(values, dtype.numpy()).tobytes(), dtype, (len(values),), Location(path="test"))
    to_numpy(cast(stored, narrow, overflow))
    assert overflow.count == count


def test_no_warning_of_numpys_reaches_the_terminal(tmp_path: Path) -> None:
    source = tmp_path / "f64.safetensors"
    source.write_bytes(
        safetensors({"w": safetensors_entry("F64", [2], 0, 16)}, struct.pack("<2d", 1e300, float("nan")))
    )
    for dtype in ("f16", "bf16", "f32"):
        done = subprocess.run(
            [sys.executable, "-m", "importer", "convert", str(source), str(tmp_path / f"{dtype}.bpk"), "--recipe", "none", "--dtype", dtype],
            cwd=REPOSITORY, capture_output=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")
