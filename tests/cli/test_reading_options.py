"""Options on what is read and within which bounds, for `inspect` and `convert` alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from importer.checkpoint import open_checkpoint
from importer.cli import main
from tests.shared import FIXTURES

SPARSE = str(FIXTURES / "beyond" / "sparse.pt")
QUANTIZED = str(FIXTURES / "beyond" / "quantized.pt")


def test_inspect_lists_sparse_tensors_as_dense_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", SPARSE, "--sparse", "dense", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["unsupported"] == []
    assert {"csr", "bsr", "coo_hybrid"} <= {tensor["name"] for tensor in listed["tensors"]}


def test_convert_dequantizes_on_request(tmp_path: Path) -> None:
    target = tmp_path / "out.bpk"
    assert main(["convert", QUANTIZED, str(target), "--recipe", "none", "--quantized", "dequantize"]) == 0
    assert open_checkpoint(target)["qint8"].dtype.name == "F32"


@pytest.mark.parametrize("command", ["inspect", "convert"])
def test_a_bound_that_is_passed_is_named_with_the_option_to_change_it(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = [str(tmp_path / "out.bpk")] if command == "convert" else []
    assert main([command, SPARSE, *output, "--limit", "max_tensors=0.5"]) == 3
    assert "--limit max_tensors=VALUE" in capsys.readouterr().err


def test_a_bound_takes_a_unit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", SPARSE, "--sparse", "dense", "--limit", "max_dense_bytes=1KB"]) == 0
    assert main(["inspect", SPARSE, "--sparse", "dense", "--limit", "max_dense_bytes=100"]) == 3
    assert "allowed 100" in capsys.readouterr().err


def test_an_unknown_bound_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", SPARSE, "--limit", "max_tensor=1"]) == 2
    assert "max_tensors" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["max_tensors", "max_tensors=", "max_tensors=-1", "max_tensors=many"])
def test_what_is_no_bound_is_a_usage_error(text: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["inspect", SPARSE, "--limit", text])
    assert ended.value.code == 2
