"""New files that appear at their place whole or not at all.

A file is written without a name where the system can (so that not even a killed process leaves anything), else under a
scratch name beside its target; then synced, given its name in one step, and the folder synced. What the file system can do
is tried before anything is written. A target that exists, or appears meanwhile, is refused unless it may be replaced; a pipe
or device gets the bytes one after the other. Not here: what is written, and sets of files (`shard_sets`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from importer.errors import Location, WriteError
from importer.system import FULL, SYSTEM
from importer.temporary import temporary_errors
from importer.writers.targets import check_target, exists, is_through, mode_of, opened_through, writing_errors

__all__ = ["alone_in", "can_link", "give_name", "new_file", "remove_litter", "scratch_name", "sync_folder"]

_SCRATCH = re.compile(r"\.importer-[0-9a-f]{8}-[0-9a-f]{12}\.tmp")
_POUR_BYTES = 1 << 20
_LOCK_TRIES = 200
_LOCK_SECONDS = 0.025


@contextmanager
def new_file(
    path: Path, *, overwrite: bool, mode: int | None = None, before: Callable[[int], None] = lambda _: None
) -> Iterator[int]:
    """Yield a descriptor to fill; publish the file as `path` if the block ends well, else leave nothing behind.

    `before` is called with the descriptor when nothing is left to do but to give the file its name. `mode` are the
    permissions of a file that replaces nothing; None leaves them to the umask.

    Raises:
        OutputExistsError: there is such a file, at the start or by the end, and `overwrite` is false.
        WriteError: it cannot be created, written or published.
    """
    remove_litter(path)
    check_target(path, overwrite=overwrite)
    if is_through(path):
        with _through(path) as descriptor:
            yield descriptor
        return
    there_before = exists(path)
    with writing_errors(path):
        draft = _Draft.created(path, overwrite=overwrite)
        try:
            kept = mode_of(path)
            if (kept := mode if kept is None else kept) is not None:
                SYSTEM.set_mode(draft.descriptor, kept)
            yield draft.descriptor
            SYSTEM.sync(draft.descriptor)
            with alone_in(path.parent):
                before(draft.descriptor)
                draft.publish(overwrite=overwrite)
        except KeyboardInterrupt as interrupt:
            interrupt.args = (draft.told(there_before=there_before),)
            raise
        finally:
            draft.close()
    sync_folder(path)


@dataclass(slots=True)
class _Draft:
    """A file that is being written and has not got its name yet.

    Attributes:
        path: the name it is to have.
        descriptor: open for reading and writing, and locked, so that nobody takes it for litter.
        scratch: the name it has meanwhile, if it has one.
        renames: whether it gets its name by renaming, or else by a link.
    """

    path: Path
    descriptor: int
    scratch: Path | None
    renames: bool
    _identity: tuple[int, int] = field(default=(0, 0))

    @classmethod
    def created(cls, path: Path, *, overwrite: bool) -> _Draft:
        """Find out what the file system can do, and create the file accordingly.

        Raises:
            WriteError: a file cannot be written beside its name and then named.
            OSError: the system refuses.
        """
        unnamed, renames = _ways(path, overwrite=overwrite)
        if unnamed:
            draft = cls(path, SYSTEM.open_unnamed(path.parent), None, renames)
            SYSTEM.lock(draft.descriptor)
        else:
            draft = cls(path, *_scratch_file(path), renames)
        status = SYSTEM.fstat(draft.descriptor)
        draft._identity = (status.st_dev, status.st_ino)
        return draft

    def publish(self, *, overwrite: bool) -> None:
        """Give the file its name.

        Raises:
            FileExistsError: there is such a file, and `overwrite` is false.
            OSError: the system refuses.
        """
        if self.scratch is None and not self.renames:
            SYSTEM.link_unnamed(self.descriptor, self.path)
            return
        if self.scratch is None:
            scratch = scratch_name(self.path)
            SYSTEM.link_unnamed(self.descriptor, scratch)
            self.scratch = scratch
        give_name(self.scratch, self.path, overwrite=overwrite, links=not self.renames)

    def told(self, *, there_before: bool) -> str:
        """Return what an interrupted run has to say about its target."""
        with contextlib.suppress(OSError):
            status = SYSTEM.lstat(self.path)
            if (status.st_dev, status.st_ino) == self._identity:
                return f"{self.path} is complete"
        return f"{self.path} is as it was" if there_before else f"nothing was left at {self.path}"

    def close(self) -> None:
        """Close the file and take its scratch name away."""
        SYSTEM.close(self.descriptor)
        if self.scratch is not None:
            with contextlib.suppress(OSError):
                SYSTEM.unlink(self.scratch)


def give_name(scratch: Path, path: Path, *, overwrite: bool, links: bool) -> None:
    """Give a complete file its final name in one step; with a link it keeps the name it had as well.

    Raises:
        FileExistsError: there is such a file, and `overwrite` is false.
        OSError: the system refuses.
    """
    if overwrite:
        SYSTEM.rename(scratch, path)
    elif links:
        SYSTEM.link(scratch, path)
    else:
        # No hard links here (FAT, some network shares).
        SYSTEM.rename_new(scratch, path)


def scratch_name(path: Path) -> Path:
    """Return a name beside `path` that nobody has: of one length, however long that of `path` is."""
    return path.with_name(f"{_scratch_prefix(path)}{os.urandom(6).hex()}.tmp")


def remove_litter(*paths: Path) -> None:
    """Remove what killed runs left of files of one folder that were to be called so: one that lives is locked by its run."""
    prefixes = tuple(map(_scratch_prefix, paths))
    with contextlib.suppress(OSError):
        for name in SYSTEM.names_in(paths[0].parent):
            if name.startswith(prefixes) and _SCRATCH.fullmatch(name):
                _remove_unless_locked(paths[0].with_name(name))


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Look and publish while no other run does so in this folder; five seconds of waiting at most.

    The folder itself is locked, so nothing has to be created. Where that cannot be, names are still claimed one by one.
    """
    try:
        descriptor = SYSTEM.open_to_read(folder)
    except OSError:
        yield
        return
    try:
        _wait_for_lock(descriptor)
        yield
    finally:
        SYSTEM.close(descriptor)


def can_link(source: Path, path: Path, *, overwrite: bool) -> bool:
    """Whether a file that is at `source` can be given a name beside `path` by a link, or else by renaming.

    Raises:
        WriteError: by neither; or names are to be taken from other files (`overwrite`), and nothing can be renamed.
        OSError: the system refuses otherwise.
    """
    probe, other = scratch_name(path), scratch_name(path)
    try:
        try:
            SYSTEM.link(source, probe)
        except OSError as error:
            if error.errno in FULL:
                raise
            descriptor, probe = _scratch_file(path)
            SYSTEM.close(descriptor)
            _try_renaming(probe, other)
            return False
        if overwrite:
            _try_renaming(probe, other)
        return True
    finally:
        _remove(probe, other)


def sync_folder(path: Path) -> None:
    """Make the name of a file that is in place survive a power cut.

    Raises:
        WriteError: the disk reports an error.
    """
    try:
        SYSTEM.sync_folder(path.parent)
    except OSError as error:
        raise WriteError(
            f"the file is in place and complete, but a power cut may still take its name away: {error.strerror}",
            where=Location(path=str(path)),
            how="Check the disk.",
        ) from error


def _wait_for_lock(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        for _ in range(_LOCK_TRIES):
            if SYSTEM.lock(descriptor) is not False:
                return
            time.sleep(_LOCK_SECONDS)


def _ways(path: Path, *, overwrite: bool) -> tuple[bool, bool]:
    """Return whether a file without a name can be given one here, and whether naming is by renaming; both are tried.

    Raises:
        WriteError: nothing works.
        OSError: the folder cannot be written.
    """
    probe, other = scratch_name(path), scratch_name(path)
    try:
        unnamed = _link_probe(probe)
        if not unnamed:
            descriptor, probe = _scratch_file(path)
            SYSTEM.close(descriptor)
        elif not overwrite:
            return True, False
        if not overwrite:
            with contextlib.suppress(OSError):
                SYSTEM.link(probe, other)
                return unnamed, False
        _try_renaming(probe, other)
        return unnamed, True
    finally:
        _remove(probe, other)


def _link_probe(probe: Path) -> bool:
    """Whether a file without a name can be made and named."""
    if not hasattr(os, "O_TMPFILE"):
        return False
    try:
        descriptor = SYSTEM.open_unnamed(probe.parent)
    except OSError as error:
        if error.errno in FULL:
            raise
        return False
    try:
        SYSTEM.lock(descriptor)
        SYSTEM.link_unnamed(descriptor, probe)
    except OSError as error:
        if error.errno in FULL:
            raise
        return False
    else:
        return True
    finally:
        SYSTEM.close(descriptor)


def _try_renaming(probe: Path, other: Path) -> None:
    try:
        SYSTEM.rename(probe, other)
    except OSError as error:
        raise WriteError(
            f"nothing can be renamed on this file system ({error.strerror}), so an output could not appear whole",
            where=Location(path=str(probe.parent)),
            how="Write to another file system and copy the output.",
        ) from error


def _scratch_file(path: Path) -> tuple[int, Path]:
    """Create a file under a scratch name and lock it; one that somebody took for litter meanwhile is created again."""
    while True:
        scratch = scratch_name(path)
        descriptor = SYSTEM.open_new(scratch)
        SYSTEM.lock(descriptor)
        if SYSTEM.fstat(descriptor).st_nlink:
            return descriptor, scratch
        SYSTEM.close(descriptor)


def _scratch_prefix(path: Path) -> str:
    return f".importer-{zlib.crc32(os.fsencode(path.name)):08x}-"


def _remove_unless_locked(scratch: Path) -> None:
    with contextlib.suppress(OSError):
        if not stat.S_ISREG(SYSTEM.lstat(scratch).st_mode):
            return
        descriptor = SYSTEM.open_to_read(scratch)
        try:
            if SYSTEM.lock(descriptor):
                SYSTEM.unlink(scratch)
        finally:
            SYSTEM.close(descriptor)


def _remove(*paths: Path) -> None:
    for path in paths:
        with contextlib.suppress(OSError):
            SYSTEM.unlink(path)


@contextmanager
def _through(path: Path) -> Iterator[int]:
    """Yield a temporary file; what was put into it goes through the pipe or device at `path` if the block ends well."""
    with writing_errors(path):
        out = opened_through(path)
    try:
        with temporary_errors(0):
            held = SYSTEM.open_temporary()
        try:
            yield held
            with writing_errors(path):
                _pour(held, out)
        finally:
            SYSTEM.close(held)
    finally:
        with contextlib.suppress(OSError):
            SYSTEM.close(out)


def _pour(source: int, out: int) -> None:
    buffer = memoryview(bytearray(_POUR_BYTES))
    offset = 0
    while count := SYSTEM.read_at(source, buffer, offset):
        done = 0
        while done < count:
            taken = SYSTEM.write(out, buffer[done:count])
            if taken == 0:
                raise OSError(errno.EIO, "the system takes no more bytes")
            done += taken
        offset += count
