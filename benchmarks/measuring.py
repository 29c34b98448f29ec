"""One command in a process of its own: wall time, processor time, peak resident memory.

Not here: which commands (`cases`).
"""

from __future__ import annotations

import os
import shlex
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Usage", "median", "run"]

ROOT = Path(__file__).resolve().parent.parent
"""The checkout, whose package is measured whatever is installed."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a command took.

    Attributes:
        wall: seconds from start to end.
        processor: seconds of processor time, user and system.
        peak: largest resident set in bytes, mapped file pages included.
    """

    wall: float
    processor: float
    peak: int


def run(command: Sequence[str | Path], *, cwd: Path) -> Usage:
    """Run a command to its end.

    Raises:
        RuntimeError: it failed; what it printed is in the message.
    """
    started = time.perf_counter()
    words = list(map(str, command))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(ROOT)
    with subprocess.Popen(words, cwd=cwd, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        printed = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - started
    if process.returncode:
        raise RuntimeError(f"{shlex.join(words)} ended with {process.returncode}:\n{printed.decode(errors='replace')}")
    return Usage(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def median(usages: Sequence[Usage]) -> Usage:
    """Return the medians of times and the largest peak."""
    return Usage(
        statistics.median(usage.wall for usage in usages),
        statistics.median(usage.processor for usage in usages),
        max(usage.peak for usage in usages),
    )
