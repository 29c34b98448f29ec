"""What lies at a place that is to be written: nothing, a file, a pipe or device, or something that must stay.

Also how the system's errors become ours. Not here: how a file gets there (`publishing`, `shard_sets`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from importer.errors import DiskSpaceError, Location, OutputExistsError, WriteError, shown
from importer.system import FULL, SYSTEM

__all__ = [
    "check_free",
    "check_space",
    "check_target",
    "exists",
    "is_through",
    "mode_of",
    "opened_through",
    "writing_errors",
]

_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
_STREAM_NUMBER = re.compile(r"/(?:dev|proc/self)/fd/(\d{1,9})")
_READER_TRIES = 60
_READER_SECONDS = 0.05


def check_target(path: Path, *, overwrite: bool) -> None:
    """Check that `path` may be written, as far as can be said beforehand.

    Raises:
        OutputExistsError: it exists and `overwrite` is false.
        WriteError: it is a folder, its name is too long, its folder does not exist or is closed to us, or it is not ours to
            replace.
    """
    where = Location(path=str(path))
    if not _can_be_a_name(path):
        raise WriteError(f"no file can be called {shown(path.name)}", where=where, how="Choose another name.")
    with writing_errors(path):
        status, has_place = _status(path), path.parent.is_dir()
        is_folder = path.is_dir()
    if is_folder:
        raise WriteError("the output is a folder", where=where, how="Name a file in it.")
    if not has_place:
        raise WriteError("its folder does not exist", where=where, how="Create the folder, or correct its name.")
    if status is None or is_through(path):
        return
    check_free(path, overwrite=overwrite)
    if stat.S_ISSOCK(status.st_mode) or stat.S_ISBLK(status.st_mode):
        raise WriteError("this is no file and cannot be replaced by one", where=where, how="Name a file.")
    with writing_errors(path):
        is_replaceable = not os.path.ismount(path) and _is_replaceable(path, status)
    if not is_replaceable:
        raise WriteError(
            "the file cannot be replaced: it belongs to another user, or is a mount point",
            where=where,
            how="Choose another name.",
        )


def check_free(path: Path, *, overwrite: bool) -> None:
    """Check that nothing is at `path`, or that it may be replaced.

    Raises:
        OutputExistsError: neither.
    """
    if not overwrite and exists(path):
        raise _exists(path)


def exists(path: Path) -> bool:
    """Whether there is such a name, be it a link that leads nowhere."""
    with writing_errors(path):
        return _status(path) is not None


def check_space(path: Path, nbytes: int) -> None:
    """Check that the file system of `path` has room for `nbytes` more, if it tells.

    Raises:
        DiskSpaceError: it has not.
    """
    if is_through(path):
        return
    with writing_errors(path):
        free = SYSTEM.free_bytes(path.parent)
    if free is not None and free < nbytes:
        raise DiskSpaceError(
            f"the output needs {nbytes} bytes and {free} are free",
            where=Location(path=str(path)),
            how="Free some space or choose another place.",
        )


def mode_of(*paths: Path) -> int | None:
    """Return the permissions of the first of these that is there: a file that is replaced keeps them."""
    for path in paths:
        with contextlib.suppress(OSError):
            status = SYSTEM.stat(path)
            if stat.S_ISREG(status.st_mode):
                return stat.S_IMODE(status.st_mode)
    return None


def is_through(path: Path) -> bool:
    """Whether bytes go through what is at `path` to somebody else: a pipe, a terminal, one of our own streams."""
    if _stream_number(path) is not None:
        return True
    try:
        mode = SYSTEM.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def opened_through(path: Path) -> int:
    """Open such a thing for writing in order; a pipe nobody reads is waited for, three seconds at most.

    Raises:
        WriteError: nobody reads the pipe.
        OSError: the system refuses.
    """
    import time

    if (number := _stream_number(path)) is not None:
        return os.dup(number)
    for _ in range(_READER_TRIES):
        try:
            return SYSTEM.open_through(path)
        except OSError as error:
            if error.errno != errno.ENXIO or not stat.S_ISFIFO(SYSTEM.stat(path).st_mode):
                raise
        time.sleep(_READER_SECONDS)
    raise WriteError("nobody reads this pipe", where=Location(path=str(path)), how="Start its reader first.")


@contextmanager
def writing_errors(path: Path) -> Iterator[None]:
    """Turn what the system reports while `path` is written into errors of ours."""
    try:
        yield
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        raise writing_failed(path, error) from error


def writing_failed(path: Path, error: OSError) -> WriteError:
    """Return what to tell about an error of the system."""
    where = Location(path=str(path))
    if error.errno in FULL:
        return DiskSpaceError(
            f"writing failed: {error.strerror}", where=where, how="Free some space or choose another place."
        )
    if error.errno == errno.ENAMETOOLONG:
        return WriteError("the name, or one made from it, is too long", where=where, how="Choose a shorter name.")
    return WriteError(f"writing failed: {error.strerror}", where=where, how="Choose a place that can be written.")


def _can_be_a_name(path: Path) -> bool:
    """Whether the system would be asked at all: not for NUL, nor for half of a character."""
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _status(path: Path) -> os.stat_result | None:
    try:
        return SYSTEM.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _stream_number(path: Path) -> int | None:
    """Return the number of the stream of ours that a path stands for; opening it anew would begin at its start."""
    number = _STREAM_NUMBER.fullmatch(str(path))
    return int(number[1]) if number else _STREAMS.get(str(path))


def _is_replaceable(path: Path, status: os.stat_result) -> bool:
    """Whether a folder lets us take a name away from a file: in one like /tmp only the file's or folder's owner may."""
    folder = SYSTEM.stat(path.parent)
    if not folder.st_mode & stat.S_ISVTX or not hasattr(os, "geteuid"):
        return True
    return os.geteuid() in {0, status.st_uid, folder.st_uid}


def _exists(path: Path) -> OutputExistsError:
    return OutputExistsError(
        "the file exists already", where=Location(path=str(path)), how="Choose another name or give --overwrite."
    )
