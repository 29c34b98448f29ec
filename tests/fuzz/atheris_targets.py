"""Coverage-guided fuzzing with atheris, for whoever has it installed; not part of the tests.

    pip install atheris
    python -m tests.fuzz.atheris_targets unpickle|open|recipe -max_len=65536 [CORPUS FOLDER...]

Everything after the target's name goes to libFuzzer. `open` is the whole reader on one file; `unpickle` and `recipe` get below
the archives and files around them. Crashes are whatever `tests/fuzz/child.py` would call a find, without its bounds.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports():
    from importer.checkpoint import open_checkpoint
    from importer.errors import ImporterError, Location
    from importer.limits import DEFAULT_LIMITS
    from importer.recipes import parse_recipe
    from importer.unpickling import unpickle


def unpickle_bytes(data: bytes) -> None:
    """Unpickle one stream."""
    with contextlib.suppress(ImporterError):
        unpickle(data, where=Location(path="fuzz"), limits=DEFAULT_LIMITS)


def open_bytes(data: bytes) -> None:
    """Open one file of any layout."""
    with tempfile.NamedTemporaryFile() as file, contextlib.suppress(ImporterError):
        Path(file.name).write_bytes(data)
        open_checkpoint(file.name, sparse="dense", quantized="dequantize")


def recipe_bytes(data: bytes) -> None:
    """Parse one recipe."""
    with contextlib.suppress(ImporterError):
        parse_recipe(data.decode("utf-8", "replace"))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "unpickle": unpickle_bytes,
    "open": open_bytes,
    "recipe": recipe_bytes,
}

if __name__ == "__main__":
    program, target, *options = sys.argv
    atheris.Setup([program, *options], TARGETS[target])
    atheris.Fuzz()
