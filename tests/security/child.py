"""The process that meets the attacks, under limits of memory and time that the kernel enforces.

    python -m tests.security.child FOLDER

prints a JSON list for each attack before it (`[name]`) and after it (`[name, error or null, text]`). Where the file is read,
the text is its listing, and all its tensors have been read. Not here: the judgement (`test_attacks`).
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from pathlib import Path

from importer.arrays import to_numpy
from importer.checkpoint import open_checkpoint
from importer.cli import main as importer_main
from importer.errors import ImporterError
from importer.recipes import apply_recipe, load_recipe
from tests.builders.named import of_names
from tests.fuzz.child import bound_memory, bounded_time
from tests.security.attacks import ATTACKS, Attack

_NAME = "a" * 60 + "b"
_READ_BYTES = 1 << 20


def meet(attack: Attack, folder: Path) -> tuple[str | None, str]:
    """Do with the files of an attack what a user would; return the error, if any, and what is printed."""
    folder.mkdir()
    for name, data in attack.files.items():
        (folder / name).write_bytes(data)
    path = folder / attack.main
    try:
        if attack.is_recipe:
            apply_recipe(load_recipe(path), of_names(_NAME), {})
            return None, ""
        checkpoint = open_checkpoint(path)
        for tensor in checkpoint.tensors.values():
            if tensor.nbytes <= _READ_BYTES:
                to_numpy(tensor.array)
    except ImporterError as error:
        return type(error).__name__, str(error)
    listing = io.StringIO()
    with contextlib.redirect_stdout(listing):
        importer_main(["--debug", "inspect", "--all", str(path)])
    return None, listing.getvalue()


def main(folder: Path) -> None:
    """Meet all attacks, each in a folder of its own."""
    os.chdir(folder)
    bound_memory()
    for number, attack in enumerate(ATTACKS):
        sys.stdout.write(json.dumps([attack.name]) + "\n")
        sys.stdout.flush()
        with bounded_time():
            error, text = meet(attack, folder / str(number))
        sys.stdout.write(json.dumps([attack.name, error, text]) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
