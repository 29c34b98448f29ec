"""Values of a checkpoint as nested JSON, whole sub-trees by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import importer
from importer.checkpoint.nested_values import read_value
from importer.cli import main
from importer.errors import DangerousPickleError, ImporterError, UsageError
from tests.builders.pickles import call, dump, glob, ordered
from tests.builders.tables import safetensors, safetensors_entry
from tests.builders.zips import Entry, build_zip
from tests.shared import REPOSITORY

VALUES = {
    "epoch": 3,
    "lr": 0.5,
    "nothing": None,
    "nan": float("inf"),
    "name": "né",
    "raw": b"abc",
    "binary": b"\x00\x01",
    "betas": (0.9, 0.999),
    "hyper_parameters": ordered({"model": {"layers": [1, {"heads": 2}], "act.fn": "gelu"}, "flag": True}),
    "args": call("argparse.Namespace", state={"width": 8, "nested": {"a": 1}}),
    "path": call("pathlib.PosixPath", "a", "b"),
    "steps": call("builtins.range", 0, 5, 1),
    "dtype": glob("torch.float16"),
    7: {"x": 1},
}


def zipped(value: object) -> bytes:
    return build_zip([Entry("a/data.pkl", dump(value)), Entry("a/version", b"3\n")])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "last.ckpt"
    file.write_bytes(zipped(VALUES))
    return file


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epoch", 3),
        ("lr", 0.5),
        ("nothing", None),
        ("nan", "inf"),
        ("name", "né"),
        ("raw", "abc"),
        ("binary", {"bytes": 2}),
        ("betas", [0.9, 0.999]),
        ("betas.1", 0.999),
        ("hyper_parameters", {"model": {"layers": [1, {"heads": 2}], "act.fn": "gelu"}, "flag": True}),
        ("hyper_parameters.model.layers.1", {"heads": 2}),
        ("hyper_parameters.model.act.fn", "gelu"),
        ("args", {"class": "argparse.Namespace", "width": 8, "nested": {"a": 1}}),
        ("args.nested.a", 1),
        ("path", {"class": "pathlib.PosixPath", "args": ["a", "b"]}),
        ("steps", {"class": "builtins.range", "args": [0, 5, 1]}),
        ("dtype", "torch.float16"),
        ("7.x", 1),
    ],
)
def test_a_value_comes_with_everything_below_it(path: Path, name: str, value: object) -> None:
    assert read_value(path, name) == value


def test_everything_is_there_under_no_name(path: Path) -> None:
    assert set(read_value(path, "")) == {str(key) for key in VALUES}  # type: ignore[call-overload] # a dictionary


def test_the_command_prints_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(path), "--value", "hyper_parameters"]) == 0
    assert json.loads(capsys.readouterr().out)["model"]["layers"] == [1, {"heads": 2}]


def test_an_unknown_name_is_refused_with_the_nearest(path: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean hyper_parameters"):
        importer.read_value(path, "hyper_parameter")
    with pytest.raises(UsageError, match="At the top there are: 'epoch'"):
        importer.read_value(path, "zzz")


def test_tensors_are_described_and_not_read() -> None:
    checkpoint = REPOSITORY / "fixtures" / "vintage" / "torch-2.13.0" / "full_model.pt"
    text = json.dumps(read_value(checkpoint, ""))
    assert '{"tensor": {"dtype": "F32"' in text


def test_metadata_of_safetensors_is_parsed_where_it_is_json(tmp_path: Path) -> None:
    file = tmp_path / "m.safetensors"
    entry = safetensors_entry("U8", [1], 0, 1)
    file.write_bytes(safetensors({"__metadata__": {"config": '{"d": [1, 2]}', "format": "pt"}, "w": entry}, b"\x01"))
    assert read_value(file, "config") == {"d": [1, 2]}
    assert read_value(file, "format") == "pt"
    assert read_value(file, "") == {"config": '{"d": [1, 2]}', "format": "pt"}


def test_a_value_within_itself_and_one_too_deep_end(tmp_path: Path) -> None:
    file = tmp_path / "x.pkl"
    file.write_bytes(b"\x80\x02}q\x00X\x01\x00\x00\x00ah\x00s.")
    assert read_value(file, "") == {"a": "… (contains itself)"}
    file.write_bytes(b"\x80\x02" + b"]" * 500 + b"a" * 499 + b".")
    assert "nested more deeply" in json.dumps(read_value(file, ""))


def test_what_doubles_through_the_memo_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.pkl"
    file.write_bytes(b"\x80\x02]q\x00" + b"](h\x00h\x00eq\x00" * 60 + b".")
    with pytest.raises(ImporterError, match="max_cost_per_byte"):
        read_value(file, "")


def test_an_attack_is_refused_here_as_well(tmp_path: Path) -> None:
    file = tmp_path / "x.pkl"
    file.write_bytes(dump({"a": call("os.system", "true")}))
    with pytest.raises(DangerousPickleError):
        read_value(file, "a")
