"""What an attack is: the files, and the defence it meets; with the pieces that most of them are built of.

Not here: the attacks (`attacks`, `out_of_proportion`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from importer.errors import DangerousPickleError, ImporterError
from tests.builders.states import glob, pickled, text
from tests.builders.zips import Entry, build_zip

__all__ = ["MARKER", "RUN", "SYSTEM", "Attack", "blob", "in_pickle", "zipped"]

MARKER = "importer-attack-marker"
"""A file that is there afterwards if anything of an attack was run, relative to the working directory."""

RUN = text(f"touch {MARKER}")
SYSTEM = glob("os", "system")


@dataclass(frozen=True)
class Attack:
    """A file, or several, made to harm whoever opens it.

    Attributes:
        name: of the advisory, or a short one.
        files: contents by name.
        expected: the error it meets; None where the file is read and does no harm.
        says: part of the message, or of the listing where the file is read.
        main: the file that is opened.
        is_recipe: whether it is a recipe.
    """

    name: str
    files: Mapping[str, bytes]
    expected: type[ImporterError] | None
    says: str
    main: str = "model.pt"
    is_recipe: bool = False


def zipped(pickle: bytes) -> dict[str, bytes]:
    """Return a checkpoint with that pickle."""
    return {"model.pt": build_zip([Entry("archive/data.pkl", pickle), Entry("archive/version", b"3\n")])}


def in_pickle(
    name: str, body: bytes, expected: type[ImporterError] | None = DangerousPickleError, says: str = "os.system"
) -> Attack:
    return Attack(name, zipped(pickled(body)), expected, says)


def blob(data: bytes) -> bytes:
    """BINBYTES."""
    return b"B" + struct.pack("<I", len(data)) + data
