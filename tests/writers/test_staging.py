"""Shards appear as a set, and an interrupted run is taken up where it was left."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from importer.arrays import contiguous
from importer.dtypes import U8
from importer.errors import OutputExistsError, SourceError
from importer.system import SYSTEM
from importer.writers import Destination, OutputFormat, OutputTensor, Written, write
from tests.builders.outputs import WHERE, patterned

SIZE = 1000


class Switch:
    """A storage that can be read only while it is on."""

    nbytes = SIZE
    where = WHERE

    def __init__(self, *, on: bool = True, value: int = 7) -> None:
        self.on = on
        self.value = value
        self.reads = 0

    def read_into(self, offset: int, buffer: memoryview) -> None:
        if not self.on:
            raise SourceError(f"cannot read at {offset}", where=self.where, how="")
        self.reads += 1
        buffer[:] = bytes([self.value]) * len(buffer)


def tensors(switches: list[Switch]) -> list[OutputTensor]:
    return [OutputTensor(f"t{index}", contiguous(switch, U8, (SIZE,))) for index, switch in enumerate(switches)]


@pytest.fixture
def switches() -> list[Switch]:
    return [Switch(value=index) for index in range(4)]


@pytest.fixture
def run(tmp_path: Path, switches: list[Switch]) -> Callable[..., Written]:
    def convert(*, fingerprint: str | None = "same", overwrite: bool = False, shard_size: int = SIZE) -> Written:
        destination = Destination(
            path=str(tmp_path / "m.safetensors"),
            format=OutputFormat.SAFETENSORS,
            shard_size=shard_size,
            fingerprint=fingerprint,
            overwrite=overwrite,
            workers=1,
        )
        return write(tensors(switches), destination)

    return convert


def interrupted(run: Callable[..., Written], switches: list[Switch], **options: str | None) -> None:
    """Run with the third shard unreadable."""
    switches[2].on = False
    with pytest.raises(SourceError):
        run(**options)
    switches[2].on = True


def run_folder(folder: Path) -> Path:
    """Return the folder of the one run that was interrupted."""
    (found,) = (folder / "m.safetensors.partial").glob("run-*")
    return found


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def complete(folder: Path) -> bool:
    return names(folder) == [*(f"m-0000{n}-of-00004.safetensors" for n in range(1, 5)), "m.safetensors.index.json"]


def test_a_whole_run_leaves_shards_and_index_only(run: Callable[..., Written], tmp_path: Path) -> None:
    assert run().kept == 0
    assert complete(tmp_path)


def test_an_interrupted_run_publishes_nothing(
    run: Callable[..., Written], switches: list[Switch], tmp_path: Path
) -> None:
    interrupted(run, switches)
    assert [path.name for path in tmp_path.iterdir()] == ["m.safetensors.partial"]


def test_complete_shards_are_kept_and_not_read_again(
    run: Callable[..., Written], switches: list[Switch], tmp_path: Path
) -> None:
    interrupted(run, switches)
    inode = (run_folder(tmp_path) / "m-00001-of-00004.safetensors").stat().st_ino
    written = run()
    assert written.kept == 2
    assert [switch.reads for switch in switches] == [1, 1, 1, 1]
    assert (tmp_path / "m-00001-of-00004.safetensors").stat().st_ino == inode
    assert complete(tmp_path)


def test_the_result_is_that_of_an_uninterrupted_run(
    run: Callable[..., Written], switches: list[Switch], tmp_path: Path
) -> None:
    run()
    expected = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for path in tmp_path.iterdir():
        path.unlink()
    interrupted(run, switches)
    run()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == expected


@pytest.mark.parametrize(
    "change", ["content", "content and time", "length", "gone", "another file", "journal", "not a journal", "header"]
)
def test_a_shard_that_changed_since_is_written_again(
    change: str, run: Callable[..., Written], switches: list[Switch], tmp_path: Path
) -> None:
    interrupted(run, switches)
    folder = run_folder(tmp_path)
    shard, journal = folder / "m-00001-of-00004.safetensors", folder / "journal.jsonl"
    status = shard.stat()
    if change == "content":
        shard.write_bytes(shard.read_bytes()[:-1] + b"!")
    elif change == "content and time":
        shard.write_bytes(shard.read_bytes()[:-1] + b"!")
        os.utime(shard, ns=(status.st_atime_ns, status.st_mtime_ns))
    elif change == "another file":
        shutil.copy2(shard, folder / "copy")
        (folder / "copy").replace(shard)
    elif change == "length":
        os.truncate(shard, 20)
    elif change == "gone":
        shard.unlink()
    elif change == "journal":
        journal.write_text("", encoding="utf-8")
    elif change == "not a journal":
        journal.write_text(journal.read_text(encoding="utf-8") + "{}\n", encoding="utf-8")
    else:
        with shard.open("r+b") as file:
            file.write(b"!")
        os.utime(shard, ns=(status.st_atime_ns, status.st_mtime_ns))
    written = run()
    assert written.kept == (0 if "journal" in change else 1)
    assert (tmp_path / shard.name).read_bytes().endswith(bytes(SIZE))
    assert complete(tmp_path)


def test_another_source_or_layout_begins_anew(
    run: Callable[..., Written], switches: list[Switch], tmp_path: Path
) -> None:
    interrupted(run, switches)
    switches[0].value = 9
    assert run(fingerprint="other").kept == 0
    assert (tmp_path / "m-00001-of-00004.safetensors").read_bytes().endswith(b"\t" * SIZE)


def test_another_shard_size_begins_anew(run: Callable[..., Written], switches: list[Switch], tmp_path: Path) -> None:
    interrupted(run, switches)
    assert run(shard_size=2 * SIZE).kept == 0
    assert len(names(tmp_path)) == 3


def test_without_a_fingerprint_nothing_stays(
    run: Callable[..., Written], switches: list[Switch], tmp_path: Path
) -> None:
    interrupted(run, switches, fingerprint=None)
    assert not list(tmp_path.iterdir())


def test_a_failure_before_the_first_shard_leaves_nothing(
    run: Callable[..., Written], switches: list[Switch], tmp_path: Path
) -> None:
    switches[0].on = False
    with pytest.raises(SourceError):
        run()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["m.safetensors.index.json", "m-00003-of-00004.safetensors"])
def test_existing_output_is_refused_and_kept(name: str, run: Callable[..., Written], tmp_path: Path) -> None:
    (tmp_path / name).write_text("theirs", encoding="utf-8")
    with pytest.raises(OutputExistsError):
        run()
    assert [(path.name, path.read_text(encoding="utf-8")) for path in tmp_path.iterdir()] == [(name, "theirs")]


def test_overwriting_replaces_the_set_and_removes_its_other_shards(run: Callable[..., Written], tmp_path: Path) -> None:
    run()
    foreign = tmp_path / "m-notes.txt"
    foreign.write_text("mine", encoding="utf-8")
    written = run(overwrite=True, shard_size=2 * SIZE)
    assert {Path(path).name for path in written.paths} | {foreign.name} == set(names(tmp_path))
    assert len(written.paths) == 3


def test_an_index_that_points_elsewhere_removes_nothing_there(run: Callable[..., Written], tmp_path: Path) -> None:
    outside = tmp_path.parent / "m-outside.safetensors"
    outside.write_text("mine", encoding="utf-8")
    index = {"weight_map": {"a": "../m-outside.safetensors", "b": str(outside), "c": "other.safetensors", "d": 3}}
    (tmp_path / "other.safetensors").write_text("mine", encoding="utf-8")
    (tmp_path / "m.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    run(overwrite=True)
    assert outside.read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "other.safetensors").read_text(encoding="utf-8") == "mine"


def test_a_run_interrupted_while_publishing_is_finished_by_the_next(
    run: Callable[..., Written], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = SYSTEM.link

    def fail_at_third(source: Path, path: Path) -> None:
        if path.name.startswith("m-00003"):
            raise KeyboardInterrupt
        link(source, path)

    with monkeypatch.context() as patch:
        patch.setattr(SYSTEM, "link", fail_at_third)
        with pytest.raises(KeyboardInterrupt, match="4 of 4 shards are complete and wait in"):
            run()
    assert [path.name for path in tmp_path.iterdir()] == ["m.safetensors.partial"]
    assert run().kept == 4
    assert complete(tmp_path)


def test_a_journal_that_was_cut_off_counts_up_to_there(
    run: Callable[..., Written], switches: list[Switch], tmp_path: Path
) -> None:
    interrupted(run, switches)
    with (run_folder(tmp_path) / "journal.jsonl").open("a", encoding="utf-8") as journal:
        journal.write('{"shard": "m-0')
    assert run().kept == 2
    assert complete(tmp_path)


def test_shards_can_be_burnpack(tmp_path: Path) -> None:
    path = tmp_path / "m.bpk"
    write(
        [patterned("a", "U8", (9,)), patterned("b", "U8", (9,))],
        Destination(path=str(path), format=OutputFormat.BURNPACK, shard_size=9),
    )
    assert names(tmp_path) == ["m-00001-of-00002.bpk", "m-00002-of-00002.bpk", "m.bpk.index.json"]
