"""`importer rust` on the command line: where the file goes, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from importer.cli import main

LLAMA = "fixtures/families/llama"


def test_the_module_goes_to_stdout_or_into_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "llama.rs"
    assert main(["rust", LLAMA]) == 0
    printed = capsys.readouterr().out
    assert main(["rust", LLAMA, "-o", str(out)]) == 0
    assert out.read_text(encoding="utf-8") == printed


def test_a_file_that_is_there_is_replaced_only_when_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "llama.rs"
    out.write_text("mine", encoding="utf-8")
    assert main(["rust", LLAMA, "-o", str(out), "--dry-run"]) == 0
    assert main(["rust", LLAMA, "-o", str(out)]) == 4
    assert "give --overwrite" in capsys.readouterr().err
    assert out.read_text(encoding="utf-8") == "mine"
    assert main(["rust", LLAMA, "-o", str(out), "--overwrite"]) == 0
    assert "pub struct Llama" in out.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rust"], "nothing to write a module for"),
        (["rust", LLAMA, "--set", "hidden_size=3"], "where there is no SRC"),
        (["rust", "--recipe", "bloom", "--set", "hidden_size"], "Write it like hidden_size=384"),
        (["rust", "--recipe", "bloom", "--set", "a=1", "--set", "a.b=2"], "lies inside a field that has a value"),
    ],
)
def test_what_makes_no_sense_is_said(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err
