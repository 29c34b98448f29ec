"""`--report` and `suggest -o` destroy nothing that is not a report of ours or was not to be replaced."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest

import importer
from importer.cli import main
from tests.builders.tables import safetensors, safetensors_entry
from tests.shared import FAMILIES

ENTRIES = {"a": safetensors_entry("U8", [8], 0, 8), "b": safetensors_entry("U8", [8], 8, 16)}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder with weights, a configuration and a text."""
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(safetensors(ENTRIES, bytes(range(16))))
    (folder / "config.json").write_text("{}")
    (folder / "README.md").write_text("# A model")
    return folder


def convert(source: Path, report: Path | str, *more: str, output: str = "out.safetensors") -> int:
    place = str(source.parent / output)
    return main(["convert", str(source), place, "--recipe", "none", "--report", str(report), *more])


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "README.md"])
@pytest.mark.parametrize("more", [(), ("--overwrite",), ("--dry-run", "--overwrite")], ids=" ".join)
def test_no_file_of_the_source_is_replaced_whatever_is_asked(name: str, more: tuple[str, ...], source: Path) -> None:
    before = (source / name).read_bytes()
    link = source.parent / "link"
    link.symlink_to(source / name)
    for report in (source / name, link, source / ".." / "source" / name):
        assert convert(source, report, *more) == 2
    assert (source / name).read_bytes() == before
    assert not (source.parent / "out.safetensors").exists()


@pytest.mark.parametrize(
    "name",
    [
        *("out.safetensors", "out.safetensors.index.json", "out-00001-of-00002.safetensors"),
        *("out.safetensors.partial", "out.safetensors.partial/x.json"),
    ],
)
def test_the_report_is_no_file_of_the_output(name: str, source: Path) -> None:
    (source.parent / "out.safetensors.partial").mkdir(exist_ok="partial" in name)
    assert convert(source, source.parent / name, "--shard-size", "8", "--overwrite") in {2, 4}
    assert not (source.parent / "out.safetensors.index.json").exists()


@pytest.mark.parametrize("suffix", [".json", ".md"])
def test_a_report_of_ours_is_replaced_and_any_other_file_only_if_asked(suffix: str, source: Path) -> None:
    report = source.parent / f"report{suffix}"
    report.write_text("my notes")
    assert convert(source, report) == 4
    assert (report.read_text(), (source.parent / "out.safetensors").exists()) == ("my notes", False)
    assert convert(source, report, "--overwrite") == 0
    first = report.read_text()
    assert convert(source, report, "--only", "^a", output="other.safetensors") == 0
    assert report.read_text() not in {"my notes", first}


def read_all(path: Path) -> tuple[threading.Thread, list[str]]:
    got: list[str] = []
    thread = threading.Thread(target=lambda: got.append(path.read_text()))
    thread.start()
    return thread, got


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
class TestPipes:
    def test_the_report_goes_through_a_pipe(self, source: Path) -> None:
        pipe = source.parent / "pipe"
        os.mkfifo(pipe)
        thread, got = read_all(pipe)
        assert convert(source, pipe) == 0
        thread.join()
        assert json.loads(got[0])["is_success"]
        assert stat.S_ISFIFO(pipe.lstat().st_mode)

    def test_an_output_goes_through_a_pipe(self, source: Path) -> None:
        pipe, plain = source.parent / "out.safetensors", source.parent / "plain.safetensors"
        os.mkfifo(pipe)
        got: list[bytes] = []
        thread = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
        thread.start()
        importer.convert(source, pipe, recipe="none")
        thread.join()
        importer.convert(source, plain, recipe="none")
        assert got == [plain.read_bytes()]

    def test_a_pipe_that_nobody_reads_ends_with_4_and_stays(
        self, source: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr("importer.writers.targets._READER_SECONDS", 0)
        pipe = source.parent / "pipe.safetensors"
        os.mkfifo(pipe)
        assert convert(source, pipe) == 4
        assert (
            "nobody reads this pipe. Start its reader first. The output itself is complete" in capsys.readouterr().err
        )
        assert convert(source, source.parent / "r.json", "--overwrite", output=pipe.name) == 4
        assert stat.S_ISFIFO(pipe.lstat().st_mode)


def test_a_device_is_written_through(source: Path) -> None:
    assert convert(source, os.devnull, "--overwrite") == 0
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_report_that_finds_no_room_says_that_the_output_is_there(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(source, "/dev/full") == 4
    printed = capsys.readouterr()
    assert "No space left on device" in printed.err
    assert "The output itself is complete" in printed.err
    assert "Applied:" in printed.out
    assert len(importer.open(source.parent / "out.safetensors")) == 2


def test_standard_output_can_be_named(source: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert convert(source, "/dev/stdout", "--format", "json") == 0
    printed = capfd.readouterr().out
    assert printed.count('"schema_version"') == 2


def test_a_draft_replaces_neither_source_nor_target(tmp_path: Path) -> None:
    fresh = tmp_path / "fresh.bpk"
    importer.convert(FAMILIES / "resnet18", fresh)
    before = fresh.read_bytes()
    for words in (["-o", str(fresh), "--overwrite"], ["-o", str(tmp_path / "no" / "x.yaml")]):
        assert main(["suggest", str(fresh), "--target", str(fresh), *words]) in {2, 4}
    assert fresh.read_bytes() == before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_draft_that_finds_no_room_ends_with_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fresh = tmp_path / "fresh.bpk"
    importer.convert(FAMILIES / "resnet18", fresh)
    assert main(["suggest", str(fresh), "--target", str(fresh), "-o", "/dev/full"]) == 4
    assert "No space left" in capsys.readouterr().err
