"""A new file appears whole or not at all, whatever goes wrong and whenever."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from importer.errors import DiskSpaceError, OutputExistsError, WriteError
from importer.system import SYSTEM
from importer.writers.publishing import new_file, scratch_name
from importer.writers.targets import check_space, check_target

TEXT = b"whole"


def publish(path: Path, *, overwrite: bool = False, then: Callable[[], None] = lambda: None) -> None:
    with new_file(path, overwrite=overwrite) as descriptor:
        os.write(descriptor, TEXT)
        then()


def appear(path: Path) -> None:
    path.write_bytes(b"theirs")


def failing(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def refused(*_: object) -> int:
    raise PermissionError(errno.EPERM, "Operation not permitted")


LACKING: dict[str, tuple[str, ...]] = {
    "unnamed": (),
    "unnamed files that cannot be named": ("link_unnamed",),
    "scratch name": ("open_unnamed",),
    "no hard links": ("open_unnamed", "link"),
}


@pytest.fixture(params=list(LACKING))
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Kinds of file system: with unnamed files, with half of that, without, and without hard links as well."""
    kind: str = request.param
    if kind == "unnamed" and not hasattr(os, "O_TMPFILE"):
        pytest.skip("this system has no unnamed files")
    for call in LACKING[kind]:
        monkeypatch.setattr(SYSTEM, call, refused)
    return kind


@pytest.mark.usefixtures("system")
class TestOnEveryFileSystem:
    def test_the_file_is_there_and_nothing_else(self, tmp_path: Path) -> None:
        publish(tmp_path / "out")
        assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out", TEXT)]

    def test_an_existing_file_is_replaced_with_its_permissions(self, tmp_path: Path) -> None:
        path = tmp_path / "out"
        path.write_bytes(b"old")
        path.chmod(0o640)
        publish(path, overwrite=True)
        assert path.read_bytes() == TEXT
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        assert list(tmp_path.iterdir()) == [path]

    def test_overwriting_needs_no_existing_file(self, tmp_path: Path) -> None:
        publish(tmp_path / "out", overwrite=True)
        assert (tmp_path / "out").read_bytes() == TEXT

    def test_a_file_that_appears_meanwhile_is_kept(self, tmp_path: Path) -> None:
        path = tmp_path / "out"
        with pytest.raises(OutputExistsError):
            publish(path, then=lambda: appear(path))
        assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("out", b"theirs")]

    @pytest.mark.parametrize("overwrite", [True, False], ids=["overwriting", "new"])
    @pytest.mark.parametrize(
        "error", [ValueError("bug"), KeyboardInterrupt(), SystemExit(143), OSError(errno.EIO, "I/O error")], ids=repr
    )
    def test_a_failure_while_writing_leaves_what_was_there(
        self, tmp_path: Path, error: BaseException, *, overwrite: bool
    ) -> None:
        path = tmp_path / "out"
        if overwrite:
            path.write_bytes(b"old")
        expected = WriteError if isinstance(error, OSError) else type(error)
        with pytest.raises(expected):
            publish(path, overwrite=overwrite, then=failing(error))
        assert [path.read_bytes() for path in tmp_path.iterdir()] == ([b"old"] if overwrite else [])

    @pytest.mark.parametrize("step", ["sync", "rename"])
    def test_a_failure_while_publishing_leaves_what_was_there(
        self, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "out"
        path.write_bytes(b"old")
        fail = failing(OSError(errno.EIO, "I/O error"))
        monkeypatch.setattr(SYSTEM, step, lambda *_: fail())
        with pytest.raises(WriteError, match="I/O error"):
            publish(path, overwrite=True)
        assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


def test_an_existing_file_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(OutputExistsError, match="--overwrite") as caught:
        publish(path, then=failing(AssertionError()))
    assert caught.value.exit_code == 4
    assert path.read_bytes() == b"old"


def test_a_dangling_link_counts_as_existing(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputExistsError):
        publish(tmp_path / "out")


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    publish(tmp_path / "out")
    (tmp_path / "plain").touch()
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_what_a_killed_run_left_goes_and_what_a_living_one_writes_stays(tmp_path: Path) -> None:
    path = tmp_path / "out"
    dead, alive, other = scratch_name(path), scratch_name(path), scratch_name(tmp_path / "other")
    for scratch in (dead, alive, other):
        scratch.write_bytes(b"half")
    descriptor = os.open(alive, os.O_RDONLY)
    assert SYSTEM.lock(descriptor)
    publish(path)
    os.close(descriptor)
    assert {entry.name for entry in tmp_path.iterdir()} == {"out", alive.name, other.name}


def test_a_file_system_that_can_neither_link_nor_rename_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for call in ("open_unnamed", "link", "rename"):
        monkeypatch.setattr(SYSTEM, call, refused)
    with pytest.raises(WriteError, match="nothing can be renamed"):
        publish(tmp_path / "out", then=failing(AssertionError()))
    assert not list(tmp_path.iterdir())


def test_a_name_of_full_length_is_written_as_well(tmp_path: Path) -> None:
    publish(tmp_path / ("o" * 255))
    publish(tmp_path / ("o" * 255), overwrite=True)
    assert [entry.name for entry in tmp_path.iterdir()] == ["o" * 255]
    with pytest.raises(WriteError, match="too long"):
        publish(tmp_path / ("o" * 256), then=failing(AssertionError()))


def test_the_error_of_a_folder_that_cannot_be_synced_says_that_the_file_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SYSTEM, "sync_folder", lambda _: failing(OSError(errno.EIO, "I/O error"))())
    with pytest.raises(WriteError, match="in place and complete"):
        publish(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == TEXT


def test_an_interruption_says_what_is_true_of_the_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt, match="nothing was left at"):
        publish(path, then=failing(KeyboardInterrupt()))
    link = SYSTEM.link_unnamed

    def late(descriptor: int, place: Path) -> None:
        link(descriptor, place)
        if place == path:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SYSTEM, "link_unnamed", late)
        with pytest.raises(KeyboardInterrupt, match="out is complete"):
            publish(path)
    assert path.read_bytes() == TEXT
    with pytest.raises(KeyboardInterrupt, match="is as it was"):
        publish(path, overwrite=True, then=failing(KeyboardInterrupt()))


@pytest.mark.parametrize(
    ("name", "reason"), [("missing/out", "its folder does not exist"), (".", "the output is a folder")], ids=str
)
def test_a_place_that_cannot_hold_a_file_is_refused(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(WriteError, match=reason):
        publish(tmp_path / name)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_named(tmp_path: Path, code: int) -> None:
    with pytest.raises(DiskSpaceError, match="Free some space"):
        publish(tmp_path / "out", then=failing(OSError(code, "full")))


def test_a_folder_without_write_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for call in ("open_unnamed", "open_new"):
        monkeypatch.setattr(SYSTEM, call, refused)
    with pytest.raises(WriteError, match="not permitted"):
        publish(tmp_path / "out")


def test_a_file_system_that_does_not_know_its_size_is_not_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_blocks=0, f_bavail=0, f_frsize=4096))
    check_space(tmp_path / "out", 1 << 62)


def test_space_is_compared_with_what_is_free(tmp_path: Path) -> None:
    check_space(tmp_path / "out", 1)
    with pytest.raises(DiskSpaceError, match="are free"):
        check_space(tmp_path / "out", 1 << 62)


def test_a_folder_that_is_closed_to_us_is_a_write_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", denied)
    with pytest.raises(WriteError, match="Permission denied"):
        check_target(tmp_path / "x.bpk", overwrite=False)
