"""A new file appears whole or not at all, whatever goes wrong and whenever."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from importer.errors import DiskSpaceError, OutputExistsError, WriteError
from importer.writers.publishing import check_space, check_target, new_file

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


@pytest.fixture(params=["unnamed", "scratch name", "no hard links"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Three kinds of file system: with unnamed files, without, and without hard links as well."""
    kind: str = request.param
    if kind != "unnamed":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    elif not hasattr(os, "O_TMPFILE"):
        pytest.skip("this system has no unnamed files")
    if kind == "no hard links":

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
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

    @pytest.mark.parametrize("step", ["fsync", "replace"])
    def test_a_failure_while_publishing_leaves_what_was_there(
        self, tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "out"
        path.write_bytes(b"old")
        fail = failing(OSError(errno.EIO, "I/O error"))
        owner = os if step == "fsync" else Path
        monkeypatch.setattr(owner, step, lambda *_: fail())
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


@pytest.mark.parametrize("unnamed", [True, False], ids=["unnamed", "scratch name"])
def test_a_scratch_name_in_use_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, unnamed: bool
) -> None:
    if not unnamed:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    taken = tmp_path / f".out.{os.getpid()}-0.tmp"
    taken.write_bytes(b"theirs")
    publish(tmp_path / "out", overwrite=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"out": TEXT, taken.name: b"theirs"}


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
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(WriteError, match="Permission denied"):
        publish(tmp_path / "out")


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
