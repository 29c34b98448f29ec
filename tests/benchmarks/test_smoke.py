"""The benchmarks run to their end on tiny inputs, so that they are there when they are needed. Nothing is timed here."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import growth
from benchmarks.__main__ import main
from benchmarks.cases import CASES


def test_every_case_runs_and_has_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    markdown = tmp_path / "results.md"
    options = ["--size", "64KB", "--tensors", "120", "--repeat", "1", "--folder", str(tmp_path)]
    assert main([*options, "--markdown", str(markdown)]) == 0
    table = markdown.read_text(encoding="utf-8")
    assert table.splitlines()[-len(CASES) :] == capsys.readouterr().out.splitlines()[-len(CASES) :]
    assert [line.split("|")[1].strip() for line in table.splitlines()[-len(CASES) :]] == [case.title for case in CASES]
    assert list(tmp_path.iterdir()) == [markdown]


def test_growth_has_a_row_for_every_number_of_tensors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "_SIZES", (1 << 16,))
    monkeypatch.setattr(growth, "_COUNTS", (10, 100))
    options = ["--case", "no such case", "--repeat", "1", "--growth", "64KB", "--folder", str(tmp_path)]
    assert main(options) == 0
    inputs = [line.split("|")[2].strip() for line in capsys.readouterr().out.splitlines()[-5:]]
    assert inputs == ["0 MB", "0 MB", "0 MB", "10 tensors", "100 tensors"]


def test_a_command_that_fails_is_reported_with_what_it_printed(tmp_path: Path) -> None:
    from benchmarks.measuring import run

    with pytest.raises(RuntimeError, match="ended with 3:\nno"):
        run(["sh", "-c", "echo no; exit 3"], cwd=tmp_path)
