"""New files that appear at their place whole or not at all.

A file is written without a name where the system can (so that not even a killed process leaves anything), else under a
scratch name beside its target; then fsynced, given its name in one step, and the folder fsynced. A target that exists, or
appears meanwhile, is refused unless it may be replaced. Not here: what is written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from importer.errors import DiskSpaceError, Location, OutputExistsError, WriteError

__all__ = ["check_space", "check_target", "move", "new_file", "sync_folder", "writing_errors"]

_MODE = 0o666
_NEW = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_CLOEXEC", 0)
_NO_UNNAMED = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT})
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


@contextmanager
def new_file(path: Path, *, overwrite: bool) -> Iterator[int]:
    """Yield a descriptor to fill; publish the file as `path` if the block ends well, else leave nothing behind.

    Raises:
        OutputExistsError: there is such a file, at the start or by the end, and `overwrite` is false.
        WriteError: it cannot be created, written or published.
    """
    check_target(path, overwrite=overwrite)
    with writing_errors(path):
        descriptor, scratch = _created(path)
        try:
            if overwrite:
                _keep_permissions(path, descriptor)
            yield descriptor
            os.fsync(descriptor)
            if scratch is None and not overwrite:
                _link_unnamed(descriptor, path)
            else:
                scratch = scratch or _named(descriptor, path)
                move(scratch, path, overwrite=overwrite)
                scratch = None
        finally:
            os.close(descriptor)
            if scratch is not None:
                scratch.unlink(missing_ok=True)
        sync_folder(path.parent)


def move(scratch: Path, path: Path, *, overwrite: bool) -> None:
    """Give a complete file its final name in one step.

    Raises:
        FileExistsError: there is such a file, and `overwrite` is false.
        OSError: the system refuses.
    """
    if overwrite:
        scratch.replace(path)
        return
    try:
        path.hardlink_to(scratch)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # No hard links here (FAT, some network shares): claim the name first, so that nobody else's file is replaced.
        os.close(os.open(path, _NEW, _MODE))
        scratch.replace(path)
    else:
        scratch.unlink()


def check_target(path: Path, *, overwrite: bool) -> None:
    """Check that `path` may be written, as far as can be said beforehand.

    Raises:
        OutputExistsError: it exists and `overwrite` is false.
        WriteError: it is a folder, or its folder does not exist or is closed to us.
    """
    with writing_errors(path):
        is_folder, has_place = path.is_dir(), path.parent.is_dir()
    if is_folder:
        raise WriteError("the output is a folder", where=Location(path=str(path)), how="Name a file in it.")
    if os.path.lexists(path) and not overwrite:
        raise _exists(path)
    if not has_place:
        raise WriteError(
            "its folder does not exist", where=Location(path=str(path)), how="Create the folder, or correct its name."
        )


def check_space(path: Path, nbytes: int) -> None:
    """Check that the file system of `path` has room for `nbytes` more.

    Raises:
        DiskSpaceError: it has not.
    """
    with writing_errors(path):
        system = os.statvfs(path.parent)
    free = system.f_bavail * system.f_frsize
    if free < nbytes:
        raise DiskSpaceError(
            f"the output needs {nbytes} bytes and {free} are free",
            where=Location(path=str(path)),
            how="Free some space or choose another place.",
        )


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` survive a power cut, on file systems that have a way to."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def writing_errors(path: Path) -> Iterator[None]:
    """Turn what the system reports while `path` is written into errors of ours."""
    try:
        yield
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        full = error.errno in _FULL
        kind = DiskSpaceError if full else WriteError
        raise kind(
            f"writing failed: {error.strerror}",
            where=Location(path=str(path)),
            how="Free some space or choose another place." if full else "Choose a place that can be written.",
        ) from error


def _created(path: Path) -> tuple[int, Path | None]:
    """Return a descriptor of a new file beside `path`, and its scratch name unless it has none."""
    if hasattr(os, "O_TMPFILE") and Path("/proc/self/fd").is_dir():
        try:
            return os.open(path.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, _MODE), None
        except OSError as error:
            if error.errno not in _NO_UNNAMED:
                raise
    for scratch in _scratch_names(path):
        with contextlib.suppress(FileExistsError):
            return os.open(scratch, _NEW, _MODE), scratch
    raise AssertionError("the numbers have come to an end")


def _named(descriptor: int, path: Path) -> Path:
    """Give a file without a name a scratch name: only a name can replace another."""
    for scratch in _scratch_names(path):
        with contextlib.suppress(FileExistsError):
            _link_unnamed(descriptor, scratch)
            return scratch
    raise AssertionError("the numbers have come to an end")


def _link_unnamed(descriptor: int, path: Path) -> None:
    """Name the file `path`, failing if there is one."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # Only with a folder given does Python call linkat, which follows the link in /proc (open(2), O_TMPFILE).
        os.link(f"/proc/self/fd/{descriptor}", path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _scratch_names(path: Path) -> Iterator[Path]:
    return (path.with_name(f".{path.name}.{os.getpid()}-{number}.tmp") for number in count())


def _keep_permissions(path: Path, descriptor: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.fchmod(descriptor, stat.S_IMODE(path.stat().st_mode))


def _exists(path: Path) -> OutputExistsError:
    return OutputExistsError(
        "the output exists already", where=Location(path=str(path)), how="Choose another name or give --overwrite."
    )
