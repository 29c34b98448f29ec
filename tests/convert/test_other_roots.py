"""The report names the other places in a file that could have been meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from importer.conversion import convert
from tests.builders.pickles import dump, tensor
from tests.builders.zips import Entry, build_zip


def saved(folder: Path, value: object) -> Path:
    entries = [Entry("a/data.pkl", dump(value)), Entry("a/data/0", bytes(24)), Entry("a/version", b"3\n")]
    path = folder / "model.pt"
    path.write_bytes(build_zip(entries))
    return path


WEIGHTS = {"w.weight": tensor()}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (
            {"model": WEIGHTS, "model_ema": WEIGHTS, "epoch": 1},
            "taken from 'model'; other places with tensors: 'model_ema'",
        ),
        ({"params_ema": WEIGHTS, "params": WEIGHTS}, "taken from 'params_ema'; other places with tensors: 'params'"),
        ({"G": WEIGHTS, "D": WEIGHTS}, "looked for in the whole file; other places with tensors: 'G', 'D'"),
    ],
)
def test_other_roots_are_named(tmp_path: Path, value: object, says: str) -> None:
    result = convert(saved(tmp_path, value), tmp_path / "out.bpk", recipe="none")
    assert any(says in note for note in result.notes)
    assert says in result.to_text()


@pytest.mark.parametrize(
    "value", [WEIGHTS, {"state_dict": WEIGHTS, "epoch": 1}, {"model": WEIGHTS, "optimizer": {"s": WEIGHTS}}]
)
def test_where_there_is_no_other_nothing_is_said(tmp_path: Path, value: object) -> None:
    result = convert(saved(tmp_path, value), tmp_path / "out.bpk", recipe="none")
    assert not any("other places" in note for note in result.notes)


def test_who_names_a_root_is_not_told_of_others(tmp_path: Path) -> None:
    source = saved(tmp_path, {"model": WEIGHTS, "model_ema": WEIGHTS})
    assert not convert(source, tmp_path / "out.bpk", recipe="none", root="model_ema").notes
