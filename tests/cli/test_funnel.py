"""The funnel: what a user can cause is one message and an exit code; the rest says how to report it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import importer
from importer.cli import main
from importer.cli.arguments import Arguments
from importer.cli.process import Terminated
from tests.builders.tables import safetensors, safetensors_entry
from tests.shared import FAMILIES, REPOSITORY


def fail_with(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: Arguments) -> int:
        raise error

    monkeypatch.setattr("importer.cli.inspect_command.run", run)


def test_a_bug_is_an_internal_error_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(ZeroDivisionError("division by zero"), monkeypatch)
    assert main(["inspect", "x.pt"]) == 70
    assert "internal error (ZeroDivisionError: division by zero)" in capsys.readouterr().err


def test_too_little_memory_is_told_as_that(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fail_with(MemoryError(), monkeypatch)
    assert main(["inspect", "x.pt"]) == 4
    assert "not enough memory" in capsys.readouterr().err


@pytest.mark.parametrize(
    "number", ["9" * 400, "9" * 5000, "nan", "inf", "-1", "1e999", "0", "٣", "1" + "0" * 380 + "GB"]
)
@pytest.mark.parametrize("option", ["--limit=max_tensors={}", "--shard-size={}", "--workers={}"])
def test_absurd_numbers_are_refused_in_a_short_message(
    option: str, number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["inspect", "x.pt"] if "limit" in option else ["convert", "x.pt", "o.bpk"]
    with pytest.raises(SystemExit) as ended:
        main([*command, option.format(number)])
    assert ended.value.code == 2
    assert len(capsys.readouterr().err) < 4_000


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(ZeroDivisionError("division by zero"), monkeypatch)
    with pytest.raises(ZeroDivisionError):
        main(["--debug", "inspect", "x.pt"])


def test_an_interrupt_before_anything_was_written_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_with(KeyboardInterrupt(), monkeypatch)
    assert main(["inspect", "x.pt"]) == 130
    assert "interrupted; nothing was written" in capsys.readouterr().err


def test_a_reader_that_goes_away_is_not_an_error() -> None:
    command = f'"{sys.executable}" -m importer inspect "{FAMILIES / "resnet18"}" --all | head -n 1'
    done = subprocess.run(["bash", "-c", command], cwd=REPOSITORY, capture_output=True, check=False)
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1


def test_a_terminal_without_unicode_gets_escapes_and_no_crash() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "importer", "inspect", str(FAMILIES / "llama")],
        cwd=REPOSITORY, capture_output=True, check=False, env={"PYTHONIOENCODING": "ascii", "PATH": ""},
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.isascii()


def test_json_stays_json_on_a_terminal_without_unicode(tmp_path: Path) -> None:
    source = tmp_path / "größe.safetensors"
    source.write_bytes(safetensors({"größe": safetensors_entry("U8", [1], 0, 1)}, b"\0"))
    done = subprocess.run(
        [sys.executable, "-m", "importer", "inspect", str(source), "--json"],
        cwd=REPOSITORY, capture_output=True, check=True, env={"PYTHONIOENCODING": "ascii", "PATH": ""},
    )  # fmt: skip
    assert json.loads(done.stdout)["tensors"][0]["name"] == "größe"


@pytest.mark.parametrize("redirection", ["1>&-", "2>&-", "1>&- 2>&-"])
def test_closed_streams_do_no_harm(redirection: str, tmp_path: Path) -> None:
    output = tmp_path / "out.bpk"
    command = f'"{sys.executable}" -m importer convert "{FAMILIES / "llama"}" "{output}" {redirection}'
    done = subprocess.run(["bash", "-c", command], cwd=REPOSITORY, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(importer.open(output)) == 21


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [["recipes"], ["inspect", str(FAMILIES / "llama")]], ids=["recipes", "inspect"])
def test_a_full_disk_behind_stdout_ends_with_4(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "importer", *arguments],
            cwd=REPOSITORY, stdout=full, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    assert done.returncode == 4
    assert b"standard output cannot be written: No space left" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    ("words", "code"), [(["inspect", "no-such-file.pt"], 3), (["inspect"], 2), (["--version"], 0)], ids=str
)
@pytest.mark.parametrize("redirection", [">/dev/full 2>/dev/full", ">/dev/full 2>&-", "2>/dev/full"])
def test_the_exit_code_is_the_same_whether_anybody_can_read_the_message(
    words: list[str], code: int, redirection: str
) -> None:
    command = f'"{sys.executable}" -m importer {" ".join(words)} {redirection}'
    assert subprocess.run(["bash", "-c", command], cwd=REPOSITORY, capture_output=True, check=False).returncode == code


def test_an_interruption_that_became_another_error_is_still_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    error = RuntimeError("Error calling __set_name__")
    error.__cause__ = Terminated(signal.SIGTERM)
    fail_with(error, monkeypatch)
    assert main(["inspect", "x.pt"]) == 143
    assert capsys.readouterr().err == "importer: terminated; nothing was written\n"


def test_no_memory_is_told_and_no_bug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fail_with(MemoryError(), monkeypatch)
    assert main(["inspect", "x.pt"]) == 4
    assert "not enough memory" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["convert"], ["convert", "a", "b.bpk", "--dtype", "f8"], ["nope"]])
def test_a_usage_error_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: importer" in capsys.readouterr().err


def test_recipes_are_listed_shown_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipes"]) == 0
    assert "\nllama " in capsys.readouterr().out
    assert main(["recipes", "show", "llama"]) == 0
    assert capsys.readouterr().out == (REPOSITORY / "rules/llama.yaml").read_text(encoding="utf-8")
    broken = tmp_path / "broken.yaml"
    broken.write_text("recipe: 1\nname: x\nrenam: []\ndtype: f99\n")
    assert main(["recipes", "check", str(broken)]) == 2
    printed = capsys.readouterr().out
    assert f"{broken}:3:1: a recipe has no key 'renam'. Did you mean rename?" in printed
    assert printed.endswith(f"{broken}: 2 faults\n")


def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "importer", "--version"], cwd=REPOSITORY, capture_output=True, check=True
    )
    assert done.stdout.startswith(b"importer ")
