"""The pieces of one measurement: an input, our command, and a run of a command on a disk at rest.

Not here: what is measured with them (`__main__`, `growth`).
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cases import Case, Scale
from benchmarks.measuring import Usage, run

__all__ = ["built", "fresh", "importer_command"]


def built(case: Case, place: Path, scale: Scale) -> Path:
    """Build an input in a process of its own: what this one holds counts as peak of all that it starts."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=lambda: there.send(case.build(place, scale)))
    process.start()
    there.close()
    source: Path = here.recv()
    process.join()
    return source


def importer_command(case: Case, source: Path, output: Path) -> list[str | Path]:
    """Return our command for a case."""
    if case.options is None:
        return [sys.executable, "-m", "importer", "inspect", source]
    return [sys.executable, "-m", "importer", "convert", source, output, *case.options]


def fresh(command: Sequence[str | Path], folder: Path, output: Path) -> Usage:
    """Run a command whose output does not exist yet, on a disk that has nothing else to do."""
    output.unlink(missing_ok=True)
    os.sync()
    return run(command, cwd=folder)
