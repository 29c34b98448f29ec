"""Whatever way the bytes are asked for - at once, in blocks, into a file by tasks in any order - they are the same."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from importer.arrays import (
    Array,
    Sink,
    Workspace,
    blocks,
    cast,
    concat,
    contiguous,
    elementwise,
    narrow,
    permute,
    strided,
    tasks,
    to_numpy,
    transpose,
    write_to,
)
from importer.dtypes import BF16, F32, I32, I64
from importer.errors import TruncatedError
from importer.storages import FileRange, MemoryStorage, SourceFile
from tests.builders.programs import WHERE, Pair, counted, movements, stored

ROOT = Path(__file__).parents[2]

hard = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def written(array: Array, block_bytes: int, *, shuffle: int | None = None, before: int = 3) -> bytes:
    """Return what writing gives, tasks in the given random order, `before` bytes into the file."""
    planned = list(tasks(array, block_bytes=block_bytes))
    if shuffle is not None:
        random.Random(shuffle).shuffle(planned)
    with tempfile.TemporaryFile() as file:
        sink = Sink(file.fileno())
        workspace = Workspace()
        for task in planned:
            task.write(sink, before, workspace)
        os.ftruncate(file.fileno(), before + array.nbytes)
        return os.pread(file.fileno(), before + array.nbytes, 0)[before:]


@hard
@given(movements(), st.sampled_from([1, 16, 64, 256]), st.integers(0, 99))
@pytest.mark.usefixtures("small_strips")
def test_tasks_in_any_order_write_numpys_bytes(pair: Pair, block_bytes: int, shuffle: int) -> None:
    array, values = pair
    assert written(array, block_bytes, shuffle=shuffle) == values.tobytes()


@hard
@given(movements(), st.sampled_from([8, 40, 256]))
@pytest.mark.usefixtures("small_strips")
def test_computed_arrays_are_written_by_tiles_as_well(pair: Pair, block_bytes: int) -> None:
    array, values = pair
    assert written(cast(array, I64), block_bytes) == values.astype(np.int64).tobytes()


@hard
@given(movements(), st.sampled_from([1, 16, 64, 1 << 20]))
@pytest.mark.usefixtures("small_strips")
def test_blocks_come_in_order_and_are_bounded(pair: Pair, block_bytes: int) -> None:
    array, values = pair
    got = [bytes(block) for block in blocks(array, block_bytes=block_bytes)]
    assert b"".join(got) == values.tobytes()
    assert max(map(len, got)) <= max(block_bytes, array.dtype.itemsize)


@hard
@given(st.data())
@pytest.mark.usefixtures("small_strips")
def test_views_with_wide_gaps_are_read_in_pieces(data: st.DataObject) -> None:
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    strides = data.draw(st.lists(st.integers(0, 40), min_size=len(shape), max_size=len(shape)))
    end = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    numbers = np.arange(end + 1, dtype="<i4")
    array = strided(MemoryStorage(numbers.tobytes(), WHERE), I32, shape, strides)
    expected = np.lib.stride_tricks.as_strided(numbers, shape, [4 * stride for stride in strides])
    assert written(array, 64) == expected.tobytes()


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("name", ["U8", "BF16", "F32", "C64", "C128"])
def test_large_transpositions_of_every_width_equal_numpy(axes: tuple[int, ...], name: str) -> None:
    array, values = counted((70, 129, 67), name)
    expected = np.ascontiguousarray(values.transpose(axes))
    assert written(permute(array, axes), 50_000, shuffle=1) == expected.tobytes()


def test_a_matrix_larger_than_strips_and_blocks_is_transposed() -> None:
    array, values = counted((1031, 5003), "BF16")
    assert written(transpose(array), 1 << 20) == np.ascontiguousarray(values.T).tobytes()


def test_transposing_and_widening_at_once_equals_numpy() -> None:
    array, values = counted((300, 4100), "BF16")
    assert written(transpose(cast(array, F32)), 1 << 20) == values.T.astype(np.float32).tobytes()


def test_write_to_begins_at_the_offset() -> None:
    array, values = counted((3, 5))
    with tempfile.TemporaryFile() as file:
        write_to(transpose(array), file.fileno(), 7)
        assert os.pread(file.fileno(), 999, 0) == bytes(7) + values.T.tobytes()


@pytest.fixture
def file_range(tmp_path: Path) -> FileRange:
    path = tmp_path / "source"
    path.write_bytes(bytes(5) + np.arange(1000, dtype="<i4").tobytes())
    return FileRange(SourceFile(path), 5, 4000)


def test_bytes_that_lie_in_a_file_are_copied(file_range: FileRange) -> None:
    array = narrow(contiguous(file_range, I32, (10, 100)), 0, 2, 5)
    assert written(array, 64) == np.arange(200, 500, dtype="<i4").tobytes()


def test_a_file_that_shrank_is_reported(file_range: FileRange) -> None:
    os.truncate(file_range.file.path, 100)
    with pytest.raises(TruncatedError):
        written(contiguous(file_range, I32, (1000,)), 64)


def test_a_write_that_is_taken_in_parts_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: whole(descriptor, data[:3], at))
    array, values = counted((4, 6))
    assert written(transpose(array), 64) == values.T.tobytes()


@pytest.mark.parametrize("kind", ["concatenated", "cast", "formula"])
def test_numpy_reads_what_blocks_give(kind: str) -> None:
    values = np.linspace(-2, 2, 60, dtype="<f4").reshape(6, 10)
    array = stored(values, F32)
    made = {
        "concatenated": lambda: concat([array, elementwise(array, "-x")], 1),
        "cast": lambda: cast(array, BF16),
        "formula": lambda: elementwise(array, "1 + x"),
    }[kind]()
    assert b"".join(map(bytes, blocks(made, block_bytes=32))) == to_numpy(made).tobytes()


def test_copying_needs_no_numpy() -> None:
    script = (
        "import sys, tempfile\n"
        "from importer.arrays import concat, contiguous, narrow, reshape, write_to\n"
        "from importer.dtypes import F32\n"
        "from importer.errors import Location\n"
        "from importer.storages import MemoryStorage\n"
        "array = contiguous(MemoryStorage(bytes(64), Location(path='x')), F32, (4, 4))\n"
        "array = concat([narrow(array, 0, 1, 3), reshape(array, (4, 4))], 0)\n"
        "with tempfile.TemporaryFile() as file:\n"
        "    write_to(array, file.fileno(), 0)\n"
        "print('numpy' in sys.modules or 'ml_dtypes' in sys.modules)\n"
    )
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"
