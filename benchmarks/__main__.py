"""`python -m benchmarks`: build the inputs, run this project, torch and `cp` in turn, print a table.

    python -m benchmarks --size 100MB
    python -m benchmarks --size 1GB --growth 8GB --torch-python /path/to/python --markdown benchmarks/RESULTS.md

Every round runs all contestants of a case one after the other, so that whatever else the machine does meets all of them;
the table shows medians. The page cache is warm: inputs have just been written or read. Outputs are synced to the disk.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cases import CASES, LINEAR_RECIPE, Case, Scale
from benchmarks.growth import growth_rows
from benchmarks.measuring import ROOT, Usage, median
from benchmarks.running import built, fresh, importer_command

_UNITS = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_HEADINGS = (
    *("case", "output", "importer", "processor", "peak memory", "cp + fsync", "ratio", "asked"),
    *("torch", "peak memory", "times as fast"),
)


@dataclass(frozen=True, slots=True)
class Line:
    """The results of one case; torch's and cp's where they were run."""

    case: Case
    nbytes: int
    ours: Usage
    copy: Usage | None
    theirs: Usage | None

    def cells(self) -> Iterator[str]:
        """Yield the columns of the table."""
        yield self.case.title
        yield f"{self.nbytes / (1 << 20):.0f} MB" if self.nbytes else "—"
        yield f"{self.ours.wall:.2f} s"
        yield f"{self.ours.processor:.2f} s"
        yield _megabytes(self.ours)
        yield f"{self.copy.wall:.2f} s" if self.copy else "—"
        yield f"{self.ours.wall / self.copy.wall:.2f}" if self.copy else "—"
        yield f"≤ {self.case.allowed}" if self.copy and self.case.allowed else "—"
        yield f"{self.theirs.wall:.2f} s" if self.theirs else "—"
        yield _megabytes(self.theirs) if self.theirs else "—"
        yield f"{self.theirs.wall / self.ours.wall:.1f}" if self.theirs else "—"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks as the command line asks."""
    options = _parser().parse_args(arguments)
    scale = Scale(_bytes(options.size), options.tensors)
    lines = []
    with tempfile.TemporaryDirectory(prefix="importer-bench-", dir=options.folder) as folder:
        (Path(folder) / "linear.yaml").write_text(LINEAR_RECIPE, encoding="utf-8")
        for case in CASES:
            if options.case in case.title:
                lines.append(_measure(case, scale, Path(folder), options))
                print(" | ".join(lines[-1].cells()), flush=True)
        rows = list(growth_rows(Path(folder), options.repeat, _bytes(options.growth))) if options.growth else []
    table = "\n".join(_table([_HEADINGS, *(tuple(line.cells()) for line in lines)]))
    if rows:
        table += "\n\n" + "\n".join(_table(rows))
    print(f"\n{table}")
    if options.markdown:
        command = shlex.join(["python", "-m", "benchmarks", *(sys.argv[1:] if arguments is None else arguments)])
        Path(options.markdown).write_text(f"{_heading(command)}\n{table}\n", encoding="utf-8")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("--size", default="100MB", help="bytes of the large inputs: 100MB, 1GB")
    parser.add_argument("--tensors", type=int, default=100_000, help="tensors of the input with many small ones")
    parser.add_argument("--repeat", type=int, default=5, help="rounds; the table shows medians")
    parser.add_argument(
        "--torch-python", help="an interpreter with torch and safetensors; without it torch is left out"
    )
    parser.add_argument("--case", default="", help="only cases whose title holds this text")
    parser.add_argument(
        "--folder", help="where inputs and outputs go, on the disk to measure (default: the temporary folder)"
    )
    parser.add_argument(
        "--growth", help="also show how time and memory grow, from 100MB to this size and from 1,000 tensors to 100,000"
    )
    parser.add_argument("--markdown", help="also write the table, with machine, date and command, to this file")
    return parser


def _measure(case: Case, scale: Scale, folder: Path, options: argparse.Namespace) -> Line:
    """Build a case's input and run every contestant `repeat` times, in turn."""
    place = folder / "case"
    place.mkdir()
    source = built(case, place, scale)
    output, other = folder / f"out{case.extension}", folder / "other"
    ours = importer_command(case, source, output)
    theirs: list[str | Path] = [options.torch_python, ROOT / "benchmarks" / "torch_side.py", case.rival, source, other]
    copy: list[str | Path] = ["sh", "-c", 'cp "$0" "$1" && sync "$1"', output, other]
    results: dict[str, list[Usage]] = {"ours": [], "copy": [], "theirs": []}
    nbytes = 0
    for _ in range(options.repeat):
        results["ours"].append(fresh(ours, folder, output))
        if case.options is not None:
            nbytes = output.stat().st_size
            results["copy"].append(fresh(copy, folder, other))
        if options.torch_python:
            results["theirs"].append(fresh(theirs, folder, other))
    for path in (output, other):
        path.unlink(missing_ok=True)
    shutil.rmtree(place)
    ours_median, copy_median, theirs_median = (median(usages) if usages else None for usages in results.values())
    assert ours_median is not None
    return Line(case, nbytes, ours_median, copy_median, theirs_median)


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for number, row in enumerate(rows):
        yield "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        if number == 0:
            yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"


def _heading(command: str) -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return (
        "# Results of one run\n\n"
        f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {memory} GB memory, {platform.system()} "
        f"{platform.release().split('-')[0]}, Python {platform.python_version()}\n\n    {command}\n\n"
        "Medians; times include starting the interpreter. `cp + fsync` copies our output, so the bytes are the same; "
        "`asked` is the ratio to it that the project aims at.\n"
    )


def _bytes(text: str) -> int:
    return int(float(text[:-2]) * _UNITS[text[-2:].upper()])


def _megabytes(usage: Usage) -> str:
    return f"{usage.peak / (1 << 20):.0f} MB"


if __name__ == "__main__":
    sys.exit(main())
