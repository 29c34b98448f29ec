"""Memory is bounded by workers and blocks, not by tensors: measured in a process of its own.

By the kernel's high-water mark of that process: `ru_maxrss` begins with what the parent had when it forked.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT = 200 << 20
SCRIPT = """
import sys
from pathlib import Path
from importer.arrays import cast, contiguous, full, reshape, transpose, weight_norm
from importer.dtypes import BF16, F32
from importer.storages import FileRange, SourceFile
from importer.writers import Destination, OutputFormat, OutputTensor, write

path, kind, workers = sys.argv[1:]
file = SourceFile(path)
array = contiguous(FileRange(file, 0, file.size), BF16, (file.size // 16384, 8192))
made = {
    "copied": lambda: array,
    "transposed": lambda: transpose(array),
    "transposed and widened": lambda: transpose(cast(array, F32)),
    "normed": lambda: weight_norm(full(1, BF16, (array.shape[0], 1)), array),
    "spooled": lambda: reshape(transpose(array), array.shape),
}[kind]()
destination = Destination(path=path + ".out", format=OutputFormat.SAFETENSORS, workers=int(workers))
write([OutputTensor("t", made)], destination)
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(int(status["VmHWM"].split()[0]) * 1024)
"""


def peak(folder: Path, nbytes: int, kind: str, workers: int) -> int:
    """Return the peak resident bytes of writing one tensor of `nbytes`, all holes, so that no disk is needed to read."""
    source = folder / "source"
    with source.open("wb") as file:
        file.truncate(nbytes)
    command = [sys.executable, "-c", SCRIPT, str(source), kind, str(workers)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (folder / "source.out").unlink()
    return int(result.stdout)


pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")


@pytest.mark.parametrize("kind", ["copied", "transposed", "transposed and widened", "normed", "spooled"])
def test_one_large_tensor_stays_below_200_megabytes(kind: str, tmp_path: Path) -> None:
    assert peak(tmp_path, 3 << 26, kind, 2) < LIMIT


@pytest.mark.parametrize("workers", [1, 4])
def test_twice_the_tensor_takes_no_more_memory(workers: int, tmp_path: Path) -> None:
    small, large = (peak(tmp_path, nbytes, "transposed", workers) for nbytes in (3 << 26, 3 << 27))
    assert large < small + (16 << 20)
    assert large < LIMIT
