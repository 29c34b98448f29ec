"""The bytes do not depend on how many workers write them, and the first failure ends all of them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from importer.arrays import cast, concat, contiguous, narrow, transpose
from importer.dtypes import BF16, F32, U8
from importer.errors import DiskSpaceError, SourceError
from importer.storages import FileRange, SourceFile
from importer.system import SYSTEM
from importer.writers import Destination, OutputFormat, OutputTensor, streaming, write
from importer.writers.burnpack_writer import burnpack_layout
from importer.writers.streaming import stream
from tests.builders.outputs import WHERE, patterned
from tests.shared import REPOSITORY


@pytest.fixture
def mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[OutputTensor]:
    """Small and large tensors, copied, transposed, cast and joined; blocks small enough for many tasks."""
    monkeypatch.setattr(streaming, "_SMALL_BYTES", 2_000)
    monkeypatch.setattr(streaming, "_BATCH_BYTES", 5_000)
    monkeypatch.setattr(streaming, "_MEMORY_BYTES", 8_000)
    monkeypatch.setattr(streaming, "_ALONE_BYTES", 0)
    path = tmp_path / "source"
    path.write_bytes(np.random.default_rng(0).bytes(400_000))
    storage = FileRange(SourceFile(path), 0, 400_000)
    matrix = contiguous(storage, BF16, (200, 300), 11)
    arrays = [
        matrix,
        transpose(matrix),
        cast(transpose(matrix), F32),
        concat([matrix, transpose(contiguous(storage, BF16, (300, 200)))], 1),
        *(narrow(matrix, 0, row, row + 1) for row in range(40)),
        contiguous(storage, U8, (0, 3)),
    ]
    tensors = [OutputTensor(f"t.{index}", array) for index, array in enumerate(arrays)]
    return tensors[:2] + tensors[20:] + tensors[2:20]


@pytest.mark.parametrize("form", list(OutputFormat), ids=lambda form: form.value)
def test_one_worker_and_four_write_the_same_bytes(
    form: OutputFormat, mixed: list[OutputTensor], tmp_path: Path
) -> None:
    outputs = []
    for workers in (1, 4):
        path = tmp_path / f"{workers}"
        write(mixed, Destination(path=str(path), format=form, workers=workers))
        outputs.append(path.read_bytes())
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize("call", ["posix_fallocate", "posix_fadvise"])
def test_the_bytes_are_the_same_where_the_system_lacks(
    call: str, mixed: list[OutputTensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(mixed, Destination(path=str(tmp_path / "with"), format=OutputFormat.BURNPACK))
    monkeypatch.delattr(os, call, raising=False)
    write(mixed, Destination(path=str(tmp_path / "without"), format=OutputFormat.BURNPACK))
    assert (tmp_path / "with").read_bytes() == (tmp_path / "without").read_bytes()


def test_a_file_system_that_reserves_no_room_is_written_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    written = write(
        [patterned("a", "U8", (10,))], Destination(path=str(tmp_path / "out"), format=OutputFormat.BURNPACK)
    )
    assert (tmp_path / "out").stat().st_size == written.nbytes


def test_a_disk_that_fills_up_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(DiskSpaceError):
        write([patterned("a", "U8", (10,))], Destination(path=str(tmp_path / "out"), format=OutputFormat.BURNPACK))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("workers", [1, 4])
def test_every_tensor_lies_at_its_offset_and_padding_is_zero(
    workers: int, mixed: list[OutputTensor], tmp_path: Path
) -> None:
    from importer.arrays import to_numpy

    layout = burnpack_layout(mixed, {}, {})
    path = tmp_path / "out"
    with path.open("wb") as file:
        stream(layout, file.fileno(), workers)
    expected = bytearray(layout.nbytes)
    expected[: len(layout.header)] = layout.header
    for tensor, offset in ((placed.tensor, placed.offset) for placed in layout.placed):
        expected[offset : offset + tensor.array.nbytes] = to_numpy(tensor.array).tobytes()
    assert path.read_bytes() == bytes(expected)


class _Broken:
    nbytes = 1 << 20
    where = WHERE

    def read_into(self, offset: int, buffer: memoryview) -> None:
        raise SourceError(f"{len(buffer)} bytes at {offset} cannot be read", where=self.where, how="")


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("size", [100, 1 << 20], ids=["small", "large"])
def test_a_source_that_fails_ends_the_run_and_leaves_nothing(workers: int, size: int, tmp_path: Path) -> None:
    tensors = [patterned(f"{index}", "U8", (300_000,)) for index in range(8)]
    tensors.insert(3, OutputTensor("broken", contiguous(_Broken(), U8, (size,))))
    before = threading.active_count()
    with pytest.raises(SourceError, match="cannot be read"):
        write(tensors, Destination(path=str(tmp_path / "out"), format=OutputFormat.BURNPACK, workers=workers))
    assert threading.active_count() == before
    assert not list(tmp_path.iterdir())


class _Interrupting:
    nbytes = 1 << 20
    where = WHERE

    def read_into(self, offset: int, buffer: memoryview) -> None:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt(offset, len(buffer))


def test_an_interruption_stops_every_worker_and_leaves_nothing(tmp_path: Path) -> None:
    tensors = [OutputTensor(f"{index}", contiguous(_Interrupting(), U8, (1 << 20,))) for index in range(50)]
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        write(tensors, Destination(path=str(tmp_path / "out"), format=OutputFormat.BURNPACK, workers=3))
    assert threading.active_count() == before
    assert not list(tmp_path.iterdir())


def test_a_file_is_synced_before_it_is_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out"
    seen: list[tuple[bool, int]] = []
    fsync = SYSTEM.sync

    def spy(descriptor: int) -> None:
        seen.append((path.exists(), os.fstat(descriptor).st_size))
        fsync(descriptor)

    monkeypatch.setattr(SYSTEM, "sync", spy)
    write([patterned("a", "U8", (10,))], Destination(path=str(path), format=OutputFormat.BURNPACK))
    assert seen[0] == (False, path.stat().st_size)
    assert [exists for exists, _ in seen] == [False, True]


class _Hanging:
    """A storage that another thread than the first cannot read until it is let go; the first is interrupted."""

    nbytes = 1 << 20
    where = WHERE

    def __init__(self) -> None:
        self.waits = threading.Event()
        self.goes_on = threading.Event()
        self.is_done = threading.Event()

    def read_into(self, offset: int, buffer: memoryview) -> None:
        if threading.current_thread() is threading.main_thread():
            self.waits.wait()
            raise KeyboardInterrupt(offset, len(buffer))
        self.waits.set()
        self.goes_on.wait()
        self.is_done.set()


def test_a_worker_that_hangs_does_not_keep_an_interrupted_run_and_writes_nothing_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "_MAX_END_SECONDS", 0.05)
    storage = _Hanging()
    tensors = [OutputTensor(f"{index}", contiguous(storage, U8, (1 << 20,))) for index in range(4)]
    written: list[int] = []
    write_at = SYSTEM.write_at

    def noting(descriptor: int, data: memoryview, offset: int) -> int:
        written.append(offset)
        return write_at(descriptor, data, offset)

    monkeypatch.setattr(SYSTEM, "write_at", noting)
    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        write(tensors, Destination(path=str(tmp_path / "out"), format=OutputFormat.BURNPACK, workers=2))
    assert not list(tmp_path.iterdir())
    count = len(written)
    storage.goes_on.set()
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
    assert storage.is_done.is_set()
    assert len(written) == count


def test_a_system_without_more_threads_is_written_by_those_there_are(
    mixed: list[OutputTensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(mixed, Destination(path=str(tmp_path / "many"), format=OutputFormat.BURNPACK, workers=4))

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    write(mixed, Destination(path=str(tmp_path / "one"), format=OutputFormat.BURNPACK, workers=4))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "many").read_bytes()


def test_no_more_threads_are_started_than_help(
    mixed: list[OutputTensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def counting(thread: threading.Thread) -> None:
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", counting)
    write(mixed, Destination(path=str(tmp_path / "out"), format=OutputFormat.BURNPACK, workers=10**30))
    assert len(started) == streaming.MAX_WORKERS - 1


def test_what_computing_needs_is_imported_before_any_thread_starts(tmp_path: Path) -> None:
    script = """
import sys, threading
from importer.arrays import contiguous, transpose
from importer.dtypes import BF16
from importer.storages import FileRange, SourceFile
from importer.writers import Destination, OutputFormat, OutputTensor, write

source, out = sys.argv[1:]
array = transpose(contiguous(FileRange(SourceFile(source), 0, 1 << 21), BF16, (1024, 1024)))
start, seen = threading.Thread.start, []
threading.Thread.start = lambda thread: (seen.append({"numpy", "importer.arrays.tiles", "ml_dtypes"} <= set(sys.modules)), start(thread))
write([OutputTensor("a", array)], Destination(path=out, format=OutputFormat.BURNPACK, workers=2))
print(seen)
"""
    (tmp_path / "source").write_bytes(bytes(1 << 21))
    command = [sys.executable, "-c", script, str(tmp_path / "source"), str(tmp_path / "out")]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout == "[True]\n"
