"""What workers of an evaluation share with nobody, and what they share: buffers used again and again, and the file written into.

Not here: what is read, computed and written (`tiles`, `evaluation`).
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import threading
from collections.abc import Sequence

from importer.system import SYSTEM
from importer.temporary import write_all

__all__ = ["Sink", "Workspace"]

_HUGE_PAGE = 2 << 20
_RESERVED_BYTES = 64 << 20


class Workspace:
    """Buffers that one worker uses again and again, so that memory is neither allocated nor cleared per block."""

    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        self._buffers: dict[str, memoryview] = {}

    def take(self, slot: str, nbytes: int) -> memoryview:
        """Return `nbytes` bytes of the buffer called `slot`; what it held before is lost."""
        buffer = self._buffers.get(slot)
        if buffer is None or len(buffer) < nbytes:
            self._buffers.pop(slot, None)
            self._buffers[slot] = buffer = _allocated(nbytes)
        return buffer[:nbytes]


def _allocated(nbytes: int) -> memoryview:
    """Return new memory, at least `nbytes`; large amounts in huge pages: columns need a page for every few elements.

    Of large amounts more is reserved than is used yet. It costs nothing, and a larger tile does not begin with pages that
    the kernel has to clear again.
    """
    if nbytes < _HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return memoryview(bytearray(nbytes))
    try:
        pages = mmap.mmap(-1, max(nbytes, _RESERVED_BYTES), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        # An error of the system that is none of the file being written.
        raise MemoryError(nbytes) from error
    with contextlib.suppress(OSError):  # the kernel may have been built without them
        pages.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(pages)


class Sink:
    """An open file that several workers write into.

    Writes to one file exclude each other in the kernel, where waiting costs processor time; a lock here costs none, and
    leaves the other workers free to read and compute.
    """

    __slots__ = ("_is_closed", "_lock", "descriptor")

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._is_closed = False
        self._lock = threading.Lock()

    def write(self, data: memoryview, offsets: Sequence[int], length: int) -> None:
        """Write consecutive parts of `data`, each `length` bytes, at the given offsets, which ascend.

        Raises:
            OSError: the file cannot be written.
        """
        with self._lock:
            for index, offset in enumerate(offsets):
                if self._is_closed:
                    raise OSError(errno.EBADF, "the file was given up")
                write_all(self.descriptor, data[index * length : (index + 1) * length], offset)

    def close(self) -> None:
        """Write nothing any more, whatever is asked."""
        self._is_closed = True

    def pass_on(self, offset: int, nbytes: int) -> None:
        """Ask the system to begin writing a range to the disk, so that it works meanwhile and the final fsync is short.

        Only for ranges that are complete. A page that is written again, once it is on the disk, costs a read.
        """
        SYSTEM.begin_writing(self.descriptor, offset, nbytes)
