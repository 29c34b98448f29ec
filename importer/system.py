"""Every call to the operating system that reads, writes, names or locks a file, in one place.

Storages and writers reach the disk through `SYSTEM` and nothing else, so a test can have any call fail, come short, or be the
last one before the process dies, and no power cut is needed to try one. Not here: what is read or written, and in which
order (`importer.storages`, `importer.writers`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl

__all__ = ["FULL", "SYSTEM", "System"]

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system reports where there is no room."""

_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EBADF})
_NO_RESERVING = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENODEV})
_NO_SYNCING = frozenset(
    {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES, errno.EPERM, errno.EBADF, errno.EISDIR}
)
_NO_RENAMING_NEW = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
_HERE, _NOT_REPLACING = -100, 1
"""AT_FDCWD and RENAME_NOREPLACE, from <fcntl.h> and <linux/fs.h>."""

_CLOSED = getattr(os, "O_CLOEXEC", 0)
_BINARY = getattr(os, "O_BINARY", 0)
_MODE = 0o666


class System:
    """The calls, as methods. All of them raise OSError as the system gives it."""

    has_positioned_reads = hasattr(os, "preadv")

    def open_to_read(self, path: str | os.PathLike[str]) -> int:
        """Return a descriptor for reading."""
        return os.open(path, os.O_RDONLY | _BINARY | _CLOSED)

    def open_new(self, path: Path) -> int:
        """Create a file that must not exist and return a descriptor for reading and writing."""
        return os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | _CLOSED, _MODE)

    def open_unnamed(self, folder: Path) -> int:
        """Create a file without a name, to be linked into the file system of `folder` later."""
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | _CLOSED, _MODE)

    def open_through(self, path: Path) -> int:
        """Open what is no file to keep bytes in, a pipe or a device; a pipe without a reader is ENXIO."""
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | _CLOSED)
        os.set_blocking(descriptor, True)
        return descriptor

    def open_lock(self, path: Path) -> int:
        """Open or create a file to lock."""
        return os.open(path, os.O_CREAT | os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | _CLOSED, _MODE)

    def open_temporary(self) -> int:
        """Create an unnamed file in the temporary folder."""
        import tempfile

        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())

    def close(self, descriptor: int) -> None:
        """Close."""
        os.close(descriptor)

    def stat(self, path: Path) -> os.stat_result:
        """Return what is known of the file a path leads to."""
        return path.stat()

    def lstat(self, path: Path) -> os.stat_result:
        """Return what is known of the name itself: a link is not followed."""
        return path.lstat()

    def fstat(self, descriptor: int) -> os.stat_result:
        """Return what is known of an open file."""
        return os.fstat(descriptor)

    def read_at(self, descriptor: int, buffer: memoryview, offset: int) -> int:
        """Read up to `len(buffer)` bytes at `offset`; return how many came, 0 at the end of the file."""
        return os.preadv(descriptor, [buffer], offset)

    def write_at(self, descriptor: int, data: memoryview, offset: int) -> int:
        """Write at `offset`; return how many bytes were taken."""
        return os.pwrite(descriptor, data, offset)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write at the end of what was written, as pipes and devices need it; return how many bytes were taken."""
        return os.write(descriptor, data)

    def set_length(self, descriptor: int, nbytes: int) -> None:
        """Give a file its length."""
        os.ftruncate(descriptor, nbytes)

    def reserve(self, descriptor: int, nbytes: int) -> None:
        """Give a file its place on the disk, where the system has a way to."""
        if hasattr(os, "posix_fallocate") and nbytes:
            try:
                os.posix_fallocate(descriptor, 0, nbytes)
            except OSError as error:
                if error.errno not in _NO_RESERVING:
                    raise

    def begin_writing(self, descriptor: int, offset: int, nbytes: int) -> None:
        """Ask the system to begin moving a range to the disk."""
        if hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):
                os.posix_fadvise(descriptor, offset, nbytes, os.POSIX_FADV_DONTNEED)

    def set_mode(self, descriptor: int, mode: int) -> None:
        """Set the permissions of an open file."""
        os.fchmod(descriptor, mode)

    def sync(self, descriptor: int) -> None:
        """Have the disk hold what was written."""
        os.fsync(descriptor)

    def sync_folder(self, folder: Path) -> None:
        """Have the disk hold the names in a folder, on file systems that have a way to."""
        descriptor = None
        try:
            descriptor = os.open(folder, os.O_RDONLY | _CLOSED)
            self.sync(descriptor)
        except OSError as error:
            if error.errno not in _NO_SYNCING:
                raise
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def link(self, source: Path, path: Path) -> None:
        """Give a file one more name, which must be free."""
        path.hardlink_to(source)

    def link_unnamed(self, descriptor: int, path: Path) -> None:
        """Give a file without a name one, which must be free."""
        folder = os.open(path.parent, os.O_RDONLY | _CLOSED)
        try:
            # Only with a folder given does Python call linkat, which follows the link in /proc (open(2), O_TMPFILE).
            os.link(
                f"/proc/self/fd/{descriptor}", path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True
            )
        finally:
            os.close(folder)

    def rename(self, source: Path, path: Path) -> None:
        """Give a file another name in one step, whatever has it now."""
        Path(source).replace(path)

    def rename_new(self, source: Path, path: Path) -> None:
        """Give a file another name, which must be free.

        Linux can do so in one step (`renameat2`); elsewhere the name is looked at before, so others are to be kept away.
        """
        if sys.platform == "linux":
            import ctypes

            call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
            if call is not None:
                if call(_HERE, os.fsencode(source), _HERE, os.fsencode(path), _NOT_REPLACING) == 0:
                    return
                if (number := ctypes.get_errno()) not in _NO_RENAMING_NEW:
                    raise OSError(number, os.strerror(number), str(path))
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        self.rename(source, path)

    def unlink(self, path: Path) -> None:
        """Take a name away."""
        Path(path).unlink()

    def make_folder(self, path: Path) -> None:
        """Create a folder."""
        Path(path).mkdir()

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder."""
        Path(path).rmdir()

    def contents(self, path: Path) -> bytes:
        """Return all bytes of a small file."""
        return path.read_bytes()

    def names_in(self, folder: Path) -> list[str]:
        """Return the names in a folder, in no order."""
        return os.listdir(folder)  # noqa: PTH208 - names are what is wanted

    def cut(self, path: Path, nbytes: int) -> None:
        """Shorten a file."""
        os.truncate(path, nbytes)

    def free_bytes(self, folder: Path) -> int | None:
        """Return how much room a file system has, or None if it does not say: totals of 0 mean that it does not know."""
        system = os.statvfs(folder)
        return system.f_bavail * system.f_frsize if system.f_blocks else None

    def lock(self, descriptor: int) -> bool | None:
        """Lock an open file until it is closed or the process ends; False: another has it; None: there are no locks here."""
        if sys.platform == "win32":
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return None
            if error.errno in {errno.EWOULDBLOCK, errno.EACCES}:
                return False
            raise
        return True


SYSTEM = System()
"""The one in use; tests replace its methods."""
