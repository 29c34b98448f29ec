"""A set takes the place of what was there in one step, keeps its permissions, and leaves nothing of it behind."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

import importer
from importer.cli import main
from importer.errors import OutputExistsError, SourceError, WriteError
from importer.system import SYSTEM
from tests.builders.tables import safetensors, safetensors_entry
from tests.shared import FAMILIES
from tests.writers.processes import ONE_EACH, TWO_EACH, Output, outputs

FILE, SET, OTHER, LARGER = Output(1), Output(2, ONE_EACH), Output(3, ONE_EACH), Output(4, TWO_EACH)
INDEX = "m.safetensors.index.json"


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("old", "new"), [(FILE, SET), (SET, FILE), (SET, OTHER), (SET, LARGER), (LARGER, SET)], ids=str
)
class TestReplacing:
    def test_nothing_of_the_old_output_is_left(self, old: Output, new: Output, tmp_path: Path) -> None:
        old.write(tmp_path, overwrite=False)
        (tmp_path / "m-notes.txt").write_text("mine")
        new.write(tmp_path, overwrite=True)
        assert listed(tmp_path) == sorted([*new.names, "m-notes.txt"])
        assert outputs(tmp_path) == [new.contents]

    def test_it_has_to_be_asked_for(self, old: Output, new: Output, tmp_path: Path) -> None:
        old.write(tmp_path, overwrite=False)
        before = tree(tmp_path)
        with pytest.raises(OutputExistsError):
            new.write(tmp_path, overwrite=False)
        assert tree(tmp_path) == before

    def test_permissions_are_kept(self, old: Output, new: Output, tmp_path: Path) -> None:
        old.write(tmp_path, overwrite=False)
        for path in tmp_path.iterdir():
            path.chmod(0o640)
        new.write(tmp_path, overwrite=True)
        assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o640}

    def test_the_old_output_can_be_read_until_the_new_one_is_there(
        self, old: Output, new: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        old.write(tmp_path, overwrite=False)
        seen = []

        def looking(call: Callable[..., object]) -> Callable[..., object]:
            def then(*arguments: object) -> object:
                result = call(*arguments)
                seen.append(outputs(tmp_path))
                return result

            return then

        for name in ("link", "link_unnamed", "rename", "unlink", "open_new"):
            monkeypatch.setattr(SYSTEM, name, looking(getattr(SYSTEM, name)))
        new.write(tmp_path, overwrite=True)
        monkeypatch.undo()
        assert all(there and all(one in (old.contents, new.contents) for one in there) for there in seen)
        assert [old.contents] in seen


@pytest.mark.parametrize("overwrite", [True, False])
@pytest.mark.parametrize("kind", ["folder", "journal", "file", "link"])
def test_what_stands_where_shards_would_wait_and_is_not_ours_stays(
    kind: str, tmp_path: Path, *, overwrite: bool
) -> None:
    place = tmp_path / "m.safetensors.partial"
    if kind in {"folder", "journal"}:
        place.mkdir()
        (place / ("journal.jsonl" if kind == "journal" else "mine.txt")).write_text("mine")
    elif kind == "file":
        place.write_text("mine")
    else:
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    before = tree(tmp_path)
    with pytest.raises(WriteError, match=r"m\.safetensors\.partial.*Rename"):
        SET.write(tmp_path, overwrite=overwrite)
    assert tree(tmp_path) == before
    FILE.write(tmp_path, overwrite=overwrite)
    assert tree(tmp_path).items() >= before.items()


def test_a_shard_that_goes_before_it_is_published_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = SYSTEM.link

    def steal(source: Path, path: Path) -> None:
        link(source, path)
        if path.name.startswith("m-00001"):
            source.with_name("m-00002-of-00003.safetensors").unlink()

    monkeypatch.setattr(SYSTEM, "link", steal)
    with pytest.raises(WriteError, match="was removed or changed"):
        SET.write(tmp_path, overwrite=False)
    assert outputs(tmp_path) == []
    monkeypatch.undo()
    SET.write(tmp_path, overwrite=False)
    assert listed(tmp_path) == SET.names


def test_a_name_that_leaves_no_place_for_numbers_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    long = tmp_path / ("m" * 236 + ".safetensors")
    with pytest.raises(WriteError, match="too long"):
        importer.convert(FAMILIES / "llama", long, shard_size=10_000)
    assert not listed(tmp_path)
    short = tmp_path / ("m" * 226 + ".safetensors")
    for _ in range(2):
        importer.convert(FAMILIES / "llama", short, shard_size=10_000, overwrite=True)
    assert len(importer.open(f"{short}.index.json")) == 21


def test_shards_that_are_links_are_replaced_and_what_they_lead_to_stays(tmp_path: Path) -> None:
    store, place = tmp_path / "store", tmp_path / "place"
    store.mkdir()
    place.mkdir()
    SET.write(store, overwrite=False)
    before = tree(store)
    for name in SET.names:
        (place / name).symlink_to(store / name)
    LARGER.write(place, overwrite=True)
    assert listed(place) == LARGER.names
    assert tree(store) == before


@pytest.mark.parametrize("shard_size", [None, 9_000, 25_000], ids=str)
def test_a_set_can_be_converted_onto_itself(shard_size: int | None, tmp_path: Path) -> None:
    out = tmp_path / "m.safetensors"
    importer.convert(FAMILIES / "llama", out, shard_size=9_000)
    index = tmp_path / INDEX
    before = {name: tensor.numpy().tobytes() for name, tensor in importer.open(index).tensors.items()}
    importer.convert(index, out, recipe="none", shard_size=shard_size, overwrite=True)
    after = importer.open(out if shard_size is None else index)
    assert {name: tensor.numpy().tobytes() for name, tensor in after.tensors.items()} == before


def test_an_interrupted_command_that_had_come_to_its_end_is_done_when_it_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink = SYSTEM.unlink

    def late(path: Path) -> None:
        if (tmp_path / INDEX).exists():
            raise KeyboardInterrupt
        unlink(path)

    with monkeypatch.context() as patch:
        patch.setattr(SYSTEM, "unlink", late)
        with pytest.raises(KeyboardInterrupt):
            SET.write(tmp_path, overwrite=False)
    assert outputs(tmp_path) == [SET.contents]
    SET.write(tmp_path, overwrite=False)
    assert listed(tmp_path) == SET.names


@pytest.mark.parametrize("shard_size", [None, 8], ids=["file", "set"])
@pytest.mark.parametrize("change", ["written", "replaced"])
def test_a_source_that_changes_while_it_is_read_is_noticed_and_nothing_is_published(
    change: str, shard_size: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source.safetensors"
    entries = {name: safetensors_entry("U8", [8], 8 * number, 8 * number + 8) for number, name in enumerate("ab")}
    source.write_bytes(safetensors(entries, bytes(range(16))))
    sync = SYSTEM.sync

    def changing(descriptor: int) -> None:
        sync(descriptor)
        if change == "written":
            with source.open("r+b") as file:
                file.seek(-1, os.SEEK_END)
                file.write(b"!")
        else:
            shutil.copy2(source, tmp_path / "copy")
            (tmp_path / "copy").replace(source)

    monkeypatch.setattr(SYSTEM, "sync", changing)
    with pytest.raises(SourceError, match="changed while it was read"):
        importer.convert(source, tmp_path / "m.safetensors", recipe="none", shard_size=shard_size)
    assert outputs(tmp_path) == []


def test_digests_of_a_file_that_changes_meanwhile_are_not_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "source.safetensors"
    source.write_bytes(safetensors({"a": safetensors_entry("U8", [8], 0, 8)}, bytes(8)))
    read = SYSTEM.read_at

    def changing(descriptor: int, buffer: memoryview, offset: int) -> int:
        if len(buffer) == 8 and offset > 8:
            os.utime(source, ns=(1, 1))
        return read(descriptor, buffer, offset)

    monkeypatch.setattr(SYSTEM, "read_at", changing)
    assert main(["inspect", str(source), "--sha256"]) == 3
    assert capsys.readouterr().out == ""


def test_a_set_that_appears_while_a_file_is_written_over_another_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    FILE.write(tmp_path, overwrite=False)
    sync = SYSTEM.sync

    def late(descriptor: int) -> None:
        sync(descriptor)
        with monkeypatch.context() as patch:
            patch.setattr(SYSTEM, "sync", sync)
            SET.write(tmp_path, overwrite=True)

    monkeypatch.setattr(SYSTEM, "sync", late)
    with pytest.raises(WriteError, match="a set of shards in place meanwhile"):
        FILE.write(tmp_path, overwrite=True)
    assert outputs(tmp_path) == [SET.contents]
    assert listed(tmp_path) == SET.names


def test_a_set_that_could_not_be_replaced_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SET.write(tmp_path, overwrite=False)
    before = tree(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    for call in ("rename", "set_length"):
        monkeypatch.setattr(SYSTEM, call, refuse)
    with pytest.raises(WriteError, match="nothing can be renamed"):
        OTHER.write(tmp_path, overwrite=True)
    assert tree(tmp_path) == before


def test_the_index_names_what_is_there(tmp_path: Path) -> None:
    SET.write(tmp_path, overwrite=False)
    OTHER.write(tmp_path, overwrite=True)
    named = set(json.loads((tmp_path / INDEX).read_text())["weight_map"].values())
    assert sorted([*named, INDEX]) == OTHER.names == listed(tmp_path)
