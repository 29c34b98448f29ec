"""Bytes of a laid-out file into an open descriptor, by a few threads; the same bytes whatever their number.

Large tensors are cut into tasks; runs of small ones are put together in memory and written at once. Not here: what a
tensor's bytes are (`importer.arrays`), creating and publishing files (`publishing`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from importer.arrays import Sink, Task, Workspace, load_kernels, read_into, tasks
from importer.system import SYSTEM
from importer.writers.output import FileLayout, Placed

__all__ = ["MAX_WORKERS", "stream"]

_BATCH_BYTES = 4 << 20
_SMALL_BYTES = 256 << 10
_MAX_WORKERS = 4
_ALONE_BYTES = 1 << 20
"""What is smaller is written sooner than a second thread is started."""

_JOIN_SECONDS = 1.0
_MAX_END_SECONDS = 30.0
MAX_WORKERS = 64
"""More threads than that only cost memory, whatever was asked for."""

_MEMORY_BYTES = 128 << 20
"""Memory of all workers together for blocks; with the interpreter and numpy a run stays below 200 MB."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """Neighbouring small tensors, and the padding between them, as one write."""

    placed: Sequence[Placed]

    def run(self, sink: Sink, workspace: Workspace) -> None:
        first = self.placed[0].offset
        last = self.placed[-1]
        buffer = workspace.take("batch", last.offset + last.tensor.array.nbytes - first)
        end = 0
        for item in self.placed:
            start = item.offset - first
            if start > end:
                buffer[end:start] = bytes(start - end)
            end = start + item.tensor.array.nbytes
            read_into(item.tensor.array, buffer[start:end], workspace)
        sink.write(buffer, (first,), len(buffer))
        sink.pass_on(first, len(buffer))


@dataclass(frozen=True, slots=True)
class _Part:
    """One task of a large tensor."""

    task: Task
    offset: int

    def run(self, sink: Sink, workspace: Workspace) -> None:
        self.task.write(sink, self.offset, workspace)
        if self.task.is_run:
            sink.pass_on(self.offset + self.task.start, self.task.nbytes)


@dataclass(frozen=True, slots=True)
class _Finished:
    """A large tensor whose last task has been handed out."""

    placed: Placed

    def run(self, sink: Sink, workspace: Workspace) -> None:  # noqa: ARG002 - as all jobs
        sink.pass_on(self.placed.offset, self.placed.tensor.array.nbytes)


_Job = _Batch | _Part | _Finished


def stream(layout: FileLayout, descriptor: int, workers: int | None) -> None:
    """Write a whole file into `descriptor`, which is empty and open for writing.

    Raises:
        SourceError: a source cannot be read.
        OSError: the file cannot be written.
    """
    SYSTEM.set_length(descriptor, layout.nbytes)
    # Its place on the disk at once: then writes need not look for one.
    SYSTEM.reserve(descriptor, layout.nbytes)
    sink = Sink(descriptor)
    sink.write(memoryview(layout.header), (0,), len(layout.header))
    count = 1 if layout.nbytes < _ALONE_BYTES else min(workers or min(_MAX_WORKERS, os.cpu_count() or 1), MAX_WORKERS)
    if count > 1:
        load_kernels(placed.tensor.array for placed in layout.placed)
    _Pool(_jobs(layout.placed, _MEMORY_BYTES // count), sink).run(count)


def _jobs(placed: Sequence[Placed], block_bytes: int) -> Iterator[_Job]:
    batch: list[Placed] = []
    filled = 0
    for item in placed:
        nbytes = item.tensor.array.nbytes
        if nbytes > _SMALL_BYTES or filled + nbytes > _BATCH_BYTES:
            if batch:
                yield _Batch(batch)
            batch, filled = [], 0
        if nbytes > _SMALL_BYTES:
            for task in tasks(item.tensor.array, block_bytes=block_bytes):
                yield _Part(task, item.offset)
            yield _Finished(item)
        elif nbytes:
            batch.append(item)
            filled += nbytes
    if batch:
        yield _Batch(batch)


class _Pool:
    """Threads that take jobs from one iterator until it is empty or one of them fails."""

    def __init__(self, jobs: Iterator[_Job], sink: Sink) -> None:
        self._jobs = jobs
        self._sink = sink
        self._lock = threading.Lock()
        self._failures: list[BaseException] = []
        self._stopped = False

    def run(self, workers: int) -> None:
        """Run all jobs; raise what the first failing one raised."""
        threads = []
        try:
            for _ in range(workers - 1):
                thread = threading.Thread(target=self._work, daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    break  # no more threads: those that run, and this one, do the work
                threads.append(thread)
            self._work()
            while not self._stopped and any(thread.is_alive() for thread in threads):
                for thread in threads:
                    thread.join(_JOIN_SECONDS)
        finally:
            # Also when the user interrupts: no thread may still be writing when the file is thrown away.
            self._stopped = True
            self._end(threads)
        if self._failures:
            raise self._failures[0]

    def _end(self, threads: Sequence[threading.Thread]) -> None:
        """Wait for workers to end, which they do after their block; one that hangs in the system is left behind.

        From then on nothing it does reaches the file, whose number may soon belong to another.
        """
        until = time.monotonic() + _MAX_END_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            self._sink.close()

    def _work(self) -> None:
        workspace = Workspace()
        try:
            while (job := self._next()) is not None:
                job.run(self._sink, workspace)
        except Exception as error:  # noqa: BLE001 - carried to the thread that waits, and raised there
            self._failures.append(error)
            self._stopped = True

    def _next(self) -> _Job | None:
        with self._lock:
            return None if self._stopped else next(self._jobs, None)
