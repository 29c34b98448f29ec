"""Options said in other words: several patterns of `only`, aliases of element types, an output without extension."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import importer
from importer.cli import main
from importer.options import DTypeChoice, Options

LLAMA = "fixtures/families/llama"


def test_only_takes_any_of_its_patterns(tmp_path: Path) -> None:
    out = tmp_path / "a.bpk"
    assert main(["convert", LLAMA, str(out), "--only", r"^norm\.", "--only", r"^output\."]) == 0
    assert sorted(importer.open(out).tensors) == ["norm.gamma", "output.weight"]
    one = importer.convert(LLAMA, tmp_path / "b.bpk", only=r"^norm\.")
    assert [entry.name for entry in one.applied] == ["norm.gamma"]
    assert any("--only" in entry.rule for entry in one.skipped)


@pytest.mark.parametrize(
    ("word", "choice"),
    [
        ("fp16", DTypeChoice.F16),
        ("Float32", DTypeChoice.F32),
        ("bfloat16", DTypeChoice.BF16),
        ("double", DTypeChoice.F64),
    ],
)
def test_element_types_have_the_names_that_other_tools_give_them(word: str, choice: DTypeChoice) -> None:
    assert Options(dtype=word).dtype is choice  # type: ignore[arg-type]


def test_floats_can_become_double(tmp_path: Path) -> None:
    out = tmp_path / "llama.bpk"
    assert main(["convert", LLAMA, str(out), "--dtype", "float64"]) == 0
    wide, own = importer.open(out)["norm.gamma"].numpy(), importer.open(LLAMA)["model.norm.weight"].numpy()
    assert wide.dtype == np.float64
    np.testing.assert_array_equal(wide, own.astype(np.float64))


def test_an_output_without_extension_becomes_burnpack(tmp_path: Path) -> None:
    assert main(["convert", LLAMA, str(tmp_path / "llama")]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["llama.bpk"]
