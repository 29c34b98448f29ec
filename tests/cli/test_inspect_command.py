"""`importer inspect`: a tree for people, one JSON object for scripts, and no heavy import for either."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import importer
from importer.arrays import full
from importer.checkpoint import Tensor
from importer.cli import main
from importer.cli.tree import human_size, tree_lines
from importer.dtypes import F32
from tests.builders.states import MODEL
from tests.builders.zips import torch_zip
from tests.shared import FAMILIES, FIXTURES, REPOSITORY

FULL_MODEL = FIXTURES / "vintage/torch-2.13.0/full_model.pt"


def listing(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main(["inspect", *arguments, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert isinstance(data, dict)
    return data


def test_the_json_has_what_the_contract_names(capsys: pytest.CaptureFixture[str]) -> None:
    data = listing([str(FULL_MODEL)], capsys)
    assert data["schema_version"] == 1
    assert data["container"] == "zip"
    assert data["root"] == ""
    assert data["tensors"][0] == {
        "name": "conv.weight",
        "dtype": "F32",
        "shape": [4, 3, 3, 3],
        "module_type": "torch.nn.modules.conv.Conv2d",
    }
    assert {"unsupported", "arrays", "foreign_globals"} <= data.keys()


def test_digests_are_those_of_the_elements(capsys: pytest.CaptureFixture[str]) -> None:
    recorded = json.loads(FULL_MODEL.with_suffix(".json").read_text())["tensors"]
    digests = {entry["name"]: entry["sha256"] for entry in listing([str(FULL_MODEL), "--sha256"], capsys)["tensors"]}
    assert digests == {entry["name"]: entry["sha256"] for entry in recorded}


def test_the_text_shows_digests_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(FULL_MODEL), "--sha256"]) == 0
    digest = hashlib.sha256(importer.open(FULL_MODEL)["conv.bias"].numpy().tobytes()).hexdigest()
    assert f"{digest}  conv.bias" in capsys.readouterr().out


def test_what_is_no_tensor_is_listed_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    ghost = listing([str(FIXTURES / "cases/meta-tensors-without-data/pytorch_model.bin")], capsys)
    assert [(entry["name"], entry["kind"]) for entry in ghost["unsupported"]] == [("layer.ghost", "meta")]
    assert main(["inspect", str(FIXTURES / "cases/meta-tensors-without-data/pytorch_model.bin")]) == 0
    assert "layer.ghost  meta" in capsys.readouterr().out


def test_equal_layers_are_folded_unless_all_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(FAMILIES / "llama_meta")]) == 0
    folded = capsys.readouterr().out
    assert "└─ 0–1  × 2  (18 tensors, 31 kB)" in folded
    assert main(["inspect", str(FAMILIES / "llama_meta"), "--all"]) == 0
    assert "│  ├─ 0  (9 tensors, 15.5 kB)" in capsys.readouterr().out


def test_layers_that_differ_are_not_folded() -> None:
    tensors = [Tensor(f"layers.{i}.weight", full(0, F32, (2, 3 if i == 2 else 2))) for i in range(4)]
    assert list(tree_lines(tensors, fold=True)) == [
        "└─ layers  (4 tensors, 72 B)",
        "   ├─ 0–1.weight  × 2  F32 2×2  16 B",
        "   ├─ 2.weight  F32 2×3  24 B",
        "   └─ 3.weight  F32 2×2  16 B",
    ]


def test_hostile_names_are_escaped_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(torch_zip({"a\x1b[2J.weight": next(iter(MODEL.values()))}))
    assert main(["inspect", str(path)]) == 0
    assert "a\\x1b[2J.weight" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (31_000, "31 kB"), (1_500_000_000, "1.5 GB")]
)
def test_sizes_are_decimal(count: int, text: str) -> None:
    assert human_size(count) == text


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["inspect", str(FULL_MODEL)], ["inspect", str(FAMILIES / "llama")]],
    ids=["help", "zip", "folder"],
)
def test_numpy_is_not_imported_for_help_or_a_listing(arguments: list[str]) -> None:
    program = (
        "import sys, importer.cli\n"
        "try:\n    importer.cli.main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'yaml', 'regex', 'ml_dtypes'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], cwd=REPOSITORY, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
