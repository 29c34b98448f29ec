"""Reading arrays: cut into tasks of bounded memory, each of which fills a buffer or writes into an open file by itself.

Tasks touch disjoint parts of the output, so any number of threads may run them in any order with the same bytes as
result. numpy is not needed here; what needs it (anything but plain copies) lies in `tiles` and is imported by the first
task that does. Not here: names, files and their layout (`importer.writers`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from importer.arrays.decoding import Decoded
from importer.arrays.loops import LoopNest, Tile, loop_nest, runs_of
from importer.arrays.nodes import PLAIN, Array, Chunk, Chunked, Computed, View, single
from importer.arrays.provenance import parts_of
from importer.arrays.strides import row_major
from importer.arrays.workspaces import Sink, Workspace
from importer.dtypes import Kind
from importer.storages import FileRange, InflatedRange, MemoryStorage, Storage
from importer.temporary import TempFileStorage

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "BLOCK_BYTES",
    "Task",
    "blocks",
    "load_kernels",
    "read_into",
    "spooled",
    "tasks",
    "to_numpy",
    "write_to",
]

BLOCK_BYTES = 40 << 20
"""Memory one task may use, roughly. Long enough runs for any shape, small enough for two workers on a small runner."""

_COPY_BYTES = 16 << 20
_BUFFER_BYTES = 1 << 20
"""What a copy reads before it writes: it is still in the processor's cache then."""

_SMALL_BYTES = 64 << 10
"""A view that reaches no further is read with all its gaps and put in order at once."""

_STORED = FileRange | InflatedRange | MemoryStorage
"""Storages that need no more than reading."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A run of stored bytes that is a run of the output."""

    storage: Storage
    source: int
    start: int
    nbytes: int

    @property
    def is_run(self) -> bool:
        """Whether the output bytes are consecutive."""
        return True

    def fill(self, buffer: memoryview, workspace: Workspace) -> None:  # noqa: ARG002 - as all tasks
        """Read into the bytes of the whole output."""
        self.storage.read_into(self.source, buffer[self.start : self.start + self.nbytes])

    def write(self, sink: Sink, offset: int, workspace: Workspace) -> None:
        """Write into a file in which the output begins at `offset`."""
        step = self.storage.block_bytes if isinstance(self.storage, Decoded) else _BUFFER_BYTES
        for done in range(0, self.nbytes, step):
            block = workspace.take("copy", min(step, self.nbytes - done))
            self.storage.read_into(self.source + done, block)
            sink.write(block, (offset + self.start + done,), len(block))


@dataclass(frozen=True, slots=True)
class Compute:
    """One tile of the loops over an expression."""

    leaf: View | Computed
    nest: LoopNest
    tile: Tile
    start: int

    @property
    def nbytes(self) -> int:
        """Bytes of output."""
        return math.prod(self.tile.sizes) * self.leaf.dtype.itemsize

    @property
    def is_run(self) -> bool:
        """Whether the output bytes are consecutive."""
        return runs_of(self.tile.sizes, self.nest.target)[0] == 0

    def fill(self, buffer: memoryview, workspace: Workspace) -> None:
        """Compute into the bytes of the whole output."""
        from importer.arrays.tiles import fill_tile

        fill_tile(self.leaf, self.nest, self.tile, buffer[self.start :], workspace)

    def write(self, sink: Sink, offset: int, workspace: Workspace) -> None:
        """Compute, and write into a file in which the output begins at `offset`."""
        from importer.arrays.tiles import write_tile

        write_tile(self.leaf, self.nest, self.tile, sink, offset + self.start, workspace)


Task = Copy | Compute
"""A part of an array's evaluation: `start` is its first output byte, `nbytes` its share of the output."""


def load_kernels(arrays: Iterable[Array]) -> None:
    """Import what reading these arrays needs, so that no worker has to.

    An import that is interrupted in one thread may leave another waiting for it for ever.
    """
    pending = list(arrays)
    if all(
        isinstance(array, View) and array.strides == row_major(array.sizes) and _is_verbatim(array) for array in pending
    ):
        return
    import_module("importer.arrays.tiles")
    for dtype in {part.dtype for part in parts_of(pending)}:
        dtype.numpy()


def tasks(array: Array, *, block_bytes: int = BLOCK_BYTES) -> Iterator[Task]:
    """Yield tasks that together produce every byte of `array` once, each within about `block_bytes` of memory."""
    chunks = array.chunks if isinstance(array, Chunked) else (Chunk((0,) * len(array.shape), single(array)),)
    itemsize = array.dtype.itemsize
    target = row_major(array.shape)
    for starts, leaf in chunks:
        base = sum(start * step for start, step in zip(starts, target, strict=True)) * itemsize
        if 0 in leaf.shape:
            continue
        if isinstance(leaf, View) and _is_verbatim(leaf):
            if leaf is array and leaf.sizes == leaf.shape and leaf.strides == target:
                yield from _copies(leaf, base)
                continue
            nest = loop_nest(leaf, target)
            if nest.target in {(), (1,)} and nest.steps[0] == nest.target:
                yield from _copies(leaf, base)
                continue
        else:
            nest = loop_nest(leaf, target)
        for tile in nest.tiles(block_bytes):
            first = sum(start * step for start, step in zip(tile.starts, nest.target, strict=True))
            yield Compute(leaf, nest, tile, base + first * itemsize)


def read_into(array: Array, buffer: memoryview, workspace: Workspace | None = None) -> None:
    """Fill `buffer` with the C-order little-endian bytes of `array`.

    Raises:
        SourceError: the source cannot be read.
    """
    workspace = workspace or Workspace()
    if isinstance(array, View) and array.size and _is_verbatim(array):
        # The plain cases at once: a checkpoint may hold 100,000 tensors for which planning tasks costs more than reading.
        itemsize = array.dtype.itemsize
        if array.strides == row_major(array.sizes):
            array.storage.read_into(array.offset * itemsize, buffer)
            return
        reach = 1 + sum((size - 1) * stride for size, stride in zip(array.sizes, array.strides, strict=True))
        if reach * itemsize <= _SMALL_BYTES:
            from importer.arrays.tiles import fill_small

            fill_small(array, reach * itemsize, buffer, workspace)
            return
    for task in tasks(array):
        task.fill(buffer, workspace)


def to_numpy(array: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Return the values, in C order and little-endian.

    Raises:
        SourceError: the source cannot be read.
    """
    import numpy as np

    out = np.empty(array.shape, array.dtype.numpy())
    if array.size:
        read_into(array, out.reshape(-1).view(np.uint8).data)
    return out


def blocks(array: Array, *, block_bytes: int = BLOCK_BYTES) -> Iterator[memoryview]:
    """Yield the C-order bytes in order; each block is valid until the next is asked for.

    Raises:
        SourceError: the source cannot be read.
    """
    workspace = Workspace()
    if array.nbytes <= block_bytes:
        buffer = workspace.take("blocks", array.nbytes)
        for task in tasks(array, block_bytes=block_bytes):
            task.fill(buffer, workspace)
        yield buffer
        return
    planned = sorted(tasks(array, block_bytes=block_bytes), key=lambda task: task.start)
    if not all(task.is_run for task in planned):
        planned = list(tasks(spooled(array)))
    for task in planned:
        yield from _task_blocks(task, block_bytes, workspace)


def write_to(array: Array, descriptor: int, offset: int, *, block_bytes: int = BLOCK_BYTES) -> None:
    """Write the C-order little-endian bytes of `array` into an open file from `offset` on.

    Raises:
        SourceError: the source cannot be read.
        OSError: the file cannot be written.
    """
    sink = Sink(descriptor)
    workspace = Workspace()
    for task in tasks(array, block_bytes=block_bytes):
        task.write(sink, offset, workspace)


def spooled(array: Array) -> View:
    """Return the same values as a dense view of a temporary file, which is filled when it is first read.

    The way out for movements that strides cannot express; memory stays bounded whatever the size.
    """
    storage = TempFileStorage(array.nbytes, lambda descriptor: write_to(array, descriptor, 0), (array,))
    return View(array.dtype, array.shape, storage, array.shape, row_major(array.shape), 0)


def _is_copied(view: View) -> bool:
    """Whether a run of stored bytes is all of an array."""
    return view.strides == row_major(view.sizes) and _is_verbatim(view) and isinstance(view.storage, _STORED)


def _is_verbatim(view: View) -> bool:
    """Whether stored elements are output elements bit by bit; booleans may be stored as any non-zero byte."""
    return view.encoding is PLAIN and view.dtype.kind is not Kind.BOOL


def _copies(view: View, base: int) -> Iterator[Copy]:
    first = view.offset * view.dtype.itemsize
    total = view.nbytes
    step = _COPY_BYTES
    if isinstance(view.storage, Decoded):  # what is packed together is taken apart once
        block = view.storage.block_bytes
        step = max(block, step - step % block)
    for done in range(0, total, step):
        yield Copy(view.storage, first + done, base + done, min(step, total - done))


def _task_blocks(task: Task, block_bytes: int, workspace: Workspace) -> Iterator[memoryview]:
    if isinstance(task, Copy):
        for done in range(0, task.nbytes, block_bytes):
            block = workspace.take("blocks", min(block_bytes, task.nbytes - done))
            task.storage.read_into(task.source + done, block)
            yield block
    else:
        block = workspace.take("blocks", task.nbytes)
        Compute(task.leaf, task.nest, task.tile, 0).fill(block, workspace)
        yield block
