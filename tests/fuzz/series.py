"""A series of mutants: child processes are started on it, started again where they die, and what they find is collected."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from ast import literal_eval
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from tests.fuzz.mutations import mutant
from tests.shared import REPOSITORY

__all__ = ["Finding", "Series", "run"]

CHILD = ("-m", "tests.fuzz.child")
"""What Python runs to try mutants; gets the seed, the first number and the one behind the last."""

_MOST_FINDINGS = 20
_MOST_CHILDREN, _LEAST_SHARE = 4, 100


@dataclass(frozen=True)
class Finding:
    """A mutant that was neither read nor refused, and what happened instead."""

    seed: int
    number: int
    what: str

    def save(self, folder: Path) -> Path:
        """Write the files of the mutant below `folder`."""
        sample = mutant(self.seed, self.number)
        target = folder / f"{self.seed}-{self.number}"
        target.mkdir(parents=True, exist_ok=True)
        for name, data in sample.files.items():
            (target / name).write_bytes(data)
        return target / sample.main


@dataclass
class Series:
    """What became of a series: how many mutants ended how, and the findings."""

    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


def run(seed: int, first: int, count: int) -> Series:
    """Try `count` mutants from `first` on, half of them at a time where there are two cores; stop after twenty findings."""
    shares = min(_MOST_CHILDREN, os.cpu_count() or 1, max(1, count // _LEAST_SHARE))
    ends = [first + count * share // shares for share in range(shares + 1)]
    with ThreadPoolExecutor(shares) as pool:
        parts = list(pool.map(lambda bounds: _run_share(seed, *bounds), pairwise(ends)))
    outcomes = sum((part.outcomes for part in parts), Counter[str]())
    return Series(outcomes, [finding for part in parts for finding in part.findings][:_MOST_FINDINGS])


def _run_share(seed: int, first: int, last: int) -> Series:
    series = Series()
    while first < last and len(series.findings) < _MOST_FINDINGS:
        first = _run_child(series, seed, first, last)
    return series


def _run_child(series: Series, seed: int, first: int, last: int) -> int:
    """Let one child try mutants until it ends or dies, and return the next one to try."""
    command = [sys.executable, *CHILD, *map(str, (seed, first, last))]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    child = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    number, is_done = first - 1, True
    for line in child.stdout.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "begin":
            number, is_done = int(rest), False
            continue
        is_done = True
        series.outcomes[line if kind != "find" else "find"] += 1
        if kind == "find":
            series.findings.append(Finding(seed, number, str(literal_eval(rest))))
    if child.returncode == 0:
        return last
    if is_done:
        raise RuntimeError(f"the child failed outside of a mutant, after {number}:\n{child.stderr}")
    series.findings.append(Finding(seed, number, _death(child.returncode, child.stderr)))
    return number + 1


def _death(code: int, errors: str) -> str:
    if code == -signal.SIGPROF:
        return "it took too long"
    cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"the process died ({cause})\n{errors[-2000:]}"
