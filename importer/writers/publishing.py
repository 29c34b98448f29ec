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

__all__ = ["check_space", "check_target", "new_file", "sync_folder", "writing_errors"]

_MODE = 0o666
_NO_UNNAMED = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT})


@contextmanager
def new_file(path: str, *, overwrite: bool) -> Iterator[int]:
    """Yield a descriptor to fill; publish the file as `path` if the block ends well, else leave nothing behind.

    Raises:
        OutputExistsError: there is such a file, at the start or by the end, and `overwrite` is false.
        WriteError: it cannot be created, written or published.
    """
    check_target(path, overwrite=overwrite)
    folder = os.path.dirname(path) or "."
    with writing_errors(path):
        descriptor, scratch = _created(folder, os.path.basename(path))
        try:
            if overwrite:
                _keep_permissions(path, descriptor)
            yield descriptor
            os.fsync(descriptor)
            if scratch is None and overwrite:
                scratch = _named(descriptor, folder, os.path.basename(path))
            if overwrite and scratch is not None:
                os.replace(scratch, path)
                scratch = None
            else:
                _link(descriptor, scratch, path)
        finally:
            os.close(descriptor)
            if scratch is not None:
                os.unlink(scratch)
        sync_folder(folder)


def check_target(path: str, *, overwrite: bool) -> None:
    """Check that `path` may be written, as far as can be said beforehand.

    Raises:
        OutputExistsError: it exists and `overwrite` is false.
        WriteError: it is a folder, or its folder does not exist.
    """
    if os.path.isdir(path):
        raise WriteError("the output is a folder", where=Location(path=path), how="Name a file in it.")
    if os.path.lexists(path) and not overwrite:
        raise _exists(path)
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise WriteError("its folder does not exist", where=Location(path=path), how=f"Create {folder} first.")


def check_space(path: str, nbytes: int) -> None:
    """Check that the file system of `path` has room for `nbytes` more.

    Raises:
        DiskSpaceError: it has not.
    """
    if not hasattr(os, "statvfs"):
        return
    with writing_errors(path):
        system = os.statvfs(os.path.dirname(path) or ".")
    free = system.f_bavail * system.f_frsize
    if free < nbytes:
        raise DiskSpaceError(
            f"the output needs {nbytes} bytes and {free} are free",
            where=Location(path=path),
            how="Free some space or choose another place.",
        )


def sync_folder(folder: str) -> None:
    """Make names in `folder` survive a power cut, where the system has a way to."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def writing_errors(path: str) -> Iterator[None]:
    """Turn what the system reports while `path` is written into errors of ours."""
    try:
        yield
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
        kind = DiskSpaceError if full else WriteError
        raise kind(
            f"writing failed: {error.strerror}",
            where=Location(path=path),
            how="Free some space or choose another place." if full else "Choose a place that can be written.",
        ) from error


def _created(folder: str, name: str) -> tuple[int, str | None]:
    """Return a descriptor of a new file in `folder`, and its scratch path unless it has no name."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        try:
            return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, _MODE), None
        except OSError as error:
            if error.errno not in _NO_UNNAMED:
                raise
    for scratch in _scratch_paths(folder, name):
        try:
            flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
            return os.open(scratch, flags, _MODE), scratch
        except FileExistsError:
            continue
    raise AssertionError("endless")


def _named(descriptor: int, folder: str, name: str) -> str:
    """Give a file without a name a scratch name; the step before it replaces its target."""
    for scratch in _scratch_paths(folder, name):
        try:
            _link(descriptor, None, scratch)
        except FileExistsError:
            continue
        return scratch
    raise AssertionError("endless")


def _link(descriptor: int, scratch: str | None, path: str) -> None:
    """Name the file `path`, failing if there is one: the step that never overwrites."""
    if scratch is not None:
        os.link(scratch, path)
        return
    # Naming a folder makes Python call linkat, which follows the link in /proc; plain link would not.
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.link(
            f"/proc/self/fd/{descriptor}", os.path.basename(path), src_dir_fd=folder, dst_dir_fd=folder,
            follow_symlinks=True,
        )  # fmt: skip
    finally:
        os.close(folder)


def _scratch_paths(folder: str, name: str) -> Iterator[str]:
    return (str(Path(folder, f".{name}.{os.getpid()}-{number}.tmp")) for number in count())


def _keep_permissions(path: str, descriptor: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.fchmod(descriptor, stat.S_IMODE(os.stat(path).st_mode))


def _exists(path: str) -> OutputExistsError:
    return OutputExistsError(
        "the output exists already", where=Location(path=path), how="Choose another name or give --overwrite."
    )
