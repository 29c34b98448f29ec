"""Small files with known contents: what is fine comes out whole, what is not is refused in time, and nothing is run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from importer.checkpoint import open_checkpoint
from importer.errors import SourceError
from tests.checkpoint.expectations import described, expectations, recorded

CASES = [(path.parent / expected["input"], expected) for _, path, expected in expectations("cases/*/expect.json")]
FINE = [case for case in CASES if case[1]["outcome"] == "ok"]
REFUSED = [case for case in CASES if case[1]["outcome"] == "refuse"]


def case_id(item: object) -> str:
    return item.parent.name if isinstance(item, Path) else ""


@pytest.mark.parametrize(("path", "expected"), FINE, ids=case_id)
def test_a_good_file_comes_out_whole(path: Path, expected: dict[str, Any]) -> None:
    checkpoint = open_checkpoint(path)
    tensors, wanted = described(checkpoint.tensors), recorded(expected["tensors"])
    if expected.get("order") == "any":
        tensors, wanted = sorted(tensors, key=repr), sorted(wanted, key=repr)
    assert tensors == wanted
    assert described(checkpoint.arrays) == recorded(expected.get("arrays", []))
    assert [(entry.name, entry.kind) for entry in checkpoint.unsupported] == [
        (entry["name"], entry["kind"]) for entry in expected.get("unsupported", [])
    ]


@pytest.mark.parametrize(("path", "expected"), FINE, ids=case_id)
def test_ties_roots_and_foreign_names_are_seen(path: Path, expected: dict[str, Any]) -> None:
    checkpoint = open_checkpoint(path)
    assert sorted(map(sorted, checkpoint.aliases)) == sorted(map(sorted, expected.get("aliases", [])))
    assert sorted(entry.name for entry in checkpoint.foreign_globals) == sorted(expected.get("foreign_globals", []))
    assert list(checkpoint.unlisted) == expected.get("unused", [])
    if "root" in expected:
        assert checkpoint.root == expected["root"]


@pytest.mark.parametrize(("path", "expected"), REFUSED, ids=case_id)
def test_a_bad_file_is_refused_by_name_and_nothing_is_run(path: Path, expected: dict[str, Any]) -> None:
    marker = Path(tempfile.gettempdir(), expected.get("marker", "importer-case-executed"))
    with pytest.raises(SourceError) as caught:
        open_checkpoint(path)
    assert caught.value.exit_code == 3
    assert caught.value.how
    for name in expected.get("damaged_tensors", []):
        assert repr(name) in str(caught.value)
    assert not marker.exists()
