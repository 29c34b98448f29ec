"""Storages: positioned reads from any thread, with and without `preadv`, and deflated entries in bounded memory."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import threading
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from importer.errors import CorruptContainerError, DiskSpaceError, Location, SourceError, TruncatedError
from importer.storages import FileRange, InflatedRange, MemoryStorage, SourceFile, Storage
from importer.system import SYSTEM
from importer.temporary import Descriptor

DATA = bytes(range(256)) * 8


@pytest.fixture(params=[True, False], ids=["preadv", "no preadv"])
def file(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SourceFile:
    """Return a file of 2,048 bytes, read as the system can and as Windows has to."""
    monkeypatch.setattr(SYSTEM, "has_positioned_reads", request.param and SYSTEM.has_positioned_reads)
    path = tmp_path / "data"
    path.write_bytes(DATA)
    return SourceFile(path)


def read(storage: Storage, offset: int, length: int) -> bytes:
    buffer = bytearray(length)
    storage.read_into(offset, memoryview(buffer))
    return bytes(buffer)


def deflated(tmp_path: Path, data: bytes, *, declared: int | None = None, crc: int | None = None) -> InflatedRange:
    """Return a deflated entry in a file, between other bytes."""
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    raw = deflater.compress(data) + deflater.flush()
    path = tmp_path / "deflated"
    path.write_bytes(b"head" + raw + b"tail")
    compressed = FileRange(SourceFile(path), 4, len(raw), "data/0")
    size = len(data) if declared is None else declared
    return InflatedRange(compressed, size, zlib.crc32(data) if crc is None else crc, "data/0")


def test_any_part_of_a_file_is_read(file: SourceFile) -> None:
    assert (file.size, file.read(3, 5), file.read(2048, 0)) == (2048, DATA[3:8], b"")


@pytest.mark.parametrize(("offset", "length"), [(2047, 2), (-1, 1), (0, -1), (1 << 70, 1)])
def test_a_read_outside_of_a_file_is_truncated(file: SourceFile, offset: int, length: int) -> None:
    with pytest.raises(TruncatedError, match="the file has 2048 bytes"):
        file.read(offset, length)


def test_a_file_that_shrank_since_it_was_opened_is_truncated(file: SourceFile) -> None:
    os.truncate(file.path, 10)
    with pytest.raises(TruncatedError, match="has become shorter"):
        file.read(0, 20)


def test_a_failing_disk_is_an_error_of_ours(file: SourceFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Descriptor, "read_once", fail)
    with pytest.raises(SourceError, match="reading failed: Input/output error"):
        file.read(0, 1)


def test_a_read_that_comes_in_pieces_is_put_together(file: SourceFile, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Descriptor.read_once
    monkeypatch.setattr(Descriptor, "read_once", lambda self, at, buffer: whole(self, at, buffer[:7]))
    assert file.read(1, 100) == DATA[1:101]


def test_threads_read_one_file_without_disturbing_each_other(file: SourceFile) -> None:
    wrong: list[int] = []

    def check(start: int) -> None:
        offsets = range(start, 2000, 7)
        wrong.extend(offset for offset in offsets if file.read(offset, 40) != DATA[offset : offset + 40])

    threads = [threading.Thread(target=check, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_file_is_closed_when_the_last_user_drops_it(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"x")
    file = SourceFile(tmp_path / "data")
    descriptor = file.descriptor
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_file_that_could_not_be_opened_leaves_nothing_to_close(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SourceFile(tmp_path / "absent")


def test_a_range_is_read_in_place(file: SourceFile) -> None:
    storage = FileRange(file, 100, 50, "data/0")
    assert read(storage, 10, 20) == DATA[110:130]
    assert storage.where == Location(path=file.path, record="data/0", offset=100)


def test_a_range_is_located_at_its_first_read_and_only_once(file: SourceFile) -> None:
    calls: list[int] = []

    def locate() -> int:
        calls.append(1)
        return 100

    storage = FileRange(file, locate, 50)
    before = storage.where.offset
    assert (read(storage, 0, 2), read(storage, 1, 1)) == (DATA[100:102], DATA[101:102])
    assert (before, storage.where.offset, len(calls)) == (None, 100, 1)


def test_memory_is_a_storage() -> None:
    storage = MemoryStorage(b"abcdef", Location(path="x"))
    assert (storage.nbytes, read(storage, 2, 3)) == (6, b"cde")


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path: FileRange(SourceFile(path), 0, 1), id="range"),
        pytest.param(lambda path: MemoryStorage(b"a", Location(path=str(path))), id="memory"),
        pytest.param(lambda path: InflatedRange(FileRange(SourceFile(path), 0, 1), 1, 0, "x"), id="inflated"),
    ],
)
def test_all_of_them_are_storages(tmp_path: Path, make: Callable[[Path], object]) -> None:
    (tmp_path / "data").write_bytes(b"a")
    assert isinstance(make(tmp_path / "data"), Storage)


@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=5000), repeat=st.integers(1, 800), cut=st.integers(0, 1 << 20))
def test_a_deflated_entry_reads_like_its_contents(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, repeat: int, cut: int
) -> None:
    contents = data * repeat
    storage = deflated(tmp_path_factory.mktemp("inflate"), contents)
    start = min(cut, len(contents))
    assert read(storage, start, len(contents) - start) == contents[start:]


def test_a_deflated_entry_is_inflated_once(tmp_path: Path) -> None:
    storage = deflated(tmp_path, DATA)
    assert read(storage, 0, 10) == DATA[:10]
    os.truncate(storage.where.path, 0)
    assert read(storage, 100, 10) == DATA[100:110]
    assert storage.where.record == "data/0"


def test_inflating_takes_bounded_memory(tmp_path: Path) -> None:
    storage = deflated(tmp_path, bytes(64 << 20))
    tracemalloc.start()
    try:
        assert read(storage, 0, 1) == b"\0"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_a_checksum_of_zero_is_not_compared(tmp_path: Path) -> None:
    assert read(deflated(tmp_path, DATA, crc=0), 0, 4) == DATA[:4]


@pytest.mark.parametrize(
    ("declared", "crc", "message"),
    [
        pytest.param(len(DATA) - 1, None, "more than the declared 2047", id="longer"),
        pytest.param(len(DATA) + 1, None, "inflates to 2048 bytes, 2049 are declared", id="shorter"),
        pytest.param(None, 0x12345678, "the directory says 0x12345678", id="checksum"),
    ],
)
def test_an_entry_that_is_not_what_it_declares_is_refused(
    tmp_path: Path, declared: int | None, crc: int | None, message: str
) -> None:
    with pytest.raises(CorruptContainerError, match=message):
        read(deflated(tmp_path, DATA, declared=declared, crc=crc), 0, 1)


def test_a_deflated_entry_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    storage = deflated(tmp_path, DATA)
    storage.compressed.nbytes -= 5
    with pytest.raises(CorruptContainerError, match="ends too early"):
        read(storage, 0, 1)


def test_damaged_compressed_data_is_refused(tmp_path: Path) -> None:
    storage = deflated(tmp_path, DATA)
    Path(storage.where.path).write_bytes(b"\xff" * 500)
    with pytest.raises(CorruptContainerError, match="compressed data is damaged"):
        read(storage, 0, 1)


def test_a_read_behind_the_end_of_an_inflated_entry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptContainerError, match="2050 bytes were asked of 2048"):
        read(deflated(tmp_path, DATA), 2040, 10)


def test_a_full_temporary_folder_says_which_and_how_much_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    for call in ("write_at", "open_temporary"):
        monkeypatch.setattr(SYSTEM, call, fail)
        with pytest.raises(DiskSpaceError, match="Point TMPDIR to a folder with 2048 free bytes") as caught:
            read(deflated(tmp_path, DATA), 0, 1)
        assert caught.value.where is not None
        assert caught.value.where.path == tempfile.gettempdir()


@pytest.mark.parametrize("change", ["written to", "written to, with its time set back", "replaced", "gone"])
def test_a_source_that_changes_after_it_was_opened_is_noticed(change: str, file: SourceFile) -> None:
    file.check_unchanged()
    path = Path(file.path)
    status = path.stat()
    if change.startswith("written to"):
        path.write_bytes(DATA[::-1])
    elif change == "replaced":
        shutil.copy2(path, path.with_name("other"))
        path.with_name("other").replace(path)
    else:
        path.unlink()
    if "time" in change:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(SourceError, match="not any more" if change == "gone" else "changed while it was read"):
        file.check_unchanged()
