"""How long it takes to list a checkpoint, beside `torch.load(weights_only=True, mmap=True)` of the same file in the same run.

    python benchmarks/listing.py [--torch PYTHON] [--tensors 100000] [--repeat 3]

Makes a ZIP state dict of one-element tensors in a temporary folder, with the standard library only. Each side opens it in
new processes and times the opening alone (`time.process_time`); the best of the repetitions counts. `--torch` names a
Python that has torch; without it that side is skipped. Then `importer inspect` of a small file: process time from start to
end, and which heavy modules it imported.
"""

from __future__ import annotations

import argparse
import json
import resource
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from benchmarks.pickling import pickled  # noqa: E402 - a script has to find its repository first
from tests.builders.states import Stored, View  # noqa: E402 - as above
from tests.builders.zips import torch_zip  # noqa: E402 - as above

_OURS = """
import json, resource, sys, time
from importer.checkpoint import open_checkpoint
begin = time.process_time()
checkpoint = open_checkpoint(sys.argv[1])
seconds = time.process_time() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([len(checkpoint), seconds, peak, "numpy" in sys.modules]))
"""
_TORCH = """
import json, resource, sys, time
import torch
begin = time.process_time()
state = torch.load(sys.argv[1], weights_only=True, mmap=True)
seconds = time.process_time() - begin
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([len(state), seconds, peak, True]))
"""
_INSPECT = """
import json, sys
from importer.cli import main
code = main(["inspect", sys.argv[1]])
heavy = sorted({"numpy", "ml_dtypes", "yaml", "regex", "cbor2", "safetensors"} & set(sys.modules))
print(json.dumps([code, heavy, len(sys.modules)]), file=sys.stderr)
"""


def make(path: Path, tensors: int) -> None:
    """Write a state dict of one-element tensors, each with a storage of its own, named as a deep model would."""
    views = {
        f"model.layers.{number // 10}.block.{number % 10}.weight": View(
            Stored(str(number), "FloatStorage", 4, struct.pack("<f", number)), (1,), (1,)
        )
        for number in range(tensors)
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickled(views))
        for view in views.values():
            archive.writestr(f"archive/data/{view.stored.key}", view.stored.data)
        archive.writestr("archive/version", b"3\n")


def opened(python: str, program: str, path: Path, repeat: int) -> list[float]:
    """Run a program that opens a file; return the tensors it saw, the best seconds, and the peak memory in KiB."""
    runs = []
    for _ in range(repeat):
        done = subprocess.run(
            [python, "-c", program, str(path)], cwd=REPOSITORY, capture_output=True, text=True, check=True
        )
        runs.append(json.loads(done.stdout))
    return min(runs, key=lambda run: float(run[1]))


def described(side: str, run: Sequence[float]) -> str:
    return f"{side:<46} {run[0]:>8} tensors {run[1]:8.3f} s {run[2] / 1024:8.1f} MiB peak"


def inspected(path: Path, repeat: int) -> tuple[float, list[str]]:
    """Return the least process time of `importer inspect` in seconds, start of Python included, and the heavy imports."""
    best = float("inf")
    heavy: list[str] = []
    for _ in range(repeat):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-c", _INSPECT, str(path)], cwd=REPOSITORY, capture_output=True, text=True, check=True
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
        heavy = json.loads(done.stderr.splitlines()[-1])[1]
    return best, heavy


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--torch", metavar="PYTHON", help="a Python with torch installed")
    parser.add_argument("--tensors", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "many.pt")
        make(path, arguments.tensors)
        print(f"{arguments.tensors} tensors, {path.stat().st_size / 1e6:.1f} MB, best of {arguments.repeat}")
        ours = opened(sys.executable, _OURS, path, arguments.repeat)
        print(described("importer.open", ours))
        if arguments.torch:
            theirs = opened(arguments.torch, _TORCH, path, arguments.repeat)
            print(described("torch.load(weights_only=True, mmap=True)", theirs))
            print(f"importer takes 1/{theirs[1] / ours[1]:.1f} of the time")
        else:
            print("torch: skipped (--torch PYTHON names one that has it)")
        small = Path(folder, "small.pt")
        small.write_bytes(torch_zip())
        seconds, heavy = inspected(small, max(5, arguments.repeat))
        print(f"importer inspect of a small file: {seconds * 1000:.0f} ms, heavy imports: {', '.join(heavy) or 'none'}")


if __name__ == "__main__":
    main()
