"""How time and memory grow with bytes and with tensors: this project alone, a row for every size.

Not here: comparisons at one size (`__main__`).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.cases import GROWING, Case, Scale
from benchmarks.measuring import Usage, median
from benchmarks.running import built, fresh, importer_command

__all__ = ["growth_rows"]

_GB = 1 << 30
_SIZES = (100 << 20, _GB, 2 * _GB, 4 * _GB, 8 * _GB)
_COUNTS = (1_000, 10_000, 100_000)
_HEADINGS = ("case", "input", "importer", "for each GB or 10,000 tensors", "processor", "peak memory")


def growth_rows(folder: Path, repeat: int, largest: int) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table, headings first, for inputs of up to `largest` bytes."""
    yield _HEADINGS
    *by_bytes, by_count = GROWING
    for case in by_bytes:
        for size in (size for size in _SIZES if size <= largest):
            usage = _measured(case, Scale(size, 0), folder, repeat)
            yield _row(case, f"{size >> 20} MB", usage, size / _GB)
    for count in _COUNTS:
        usage = _measured(by_count, Scale(0, count), folder, repeat)
        yield _row(by_count, f"{count} tensors", usage, count / 10_000)


def _measured(case: Case, scale: Scale, folder: Path, repeat: int) -> Usage:
    place = folder / "case"
    place.mkdir()
    source = built(case, place, scale)
    output = folder / f"out{case.extension}"
    usages = [fresh(importer_command(case, source, output), folder, output) for _ in range(repeat)]
    output.unlink()
    shutil.rmtree(place)
    return median(usages)


def _row(case: Case, amount: str, usage: Usage, units: float) -> tuple[str, ...]:
    each = f"{usage.wall / units:.2f} s"
    return case.title, amount, f"{usage.wall:.2f} s", each, f"{usage.processor:.2f} s", f"{usage.peak >> 20} MB"
