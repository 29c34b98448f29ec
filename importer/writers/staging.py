"""Sharded output as a set: shards are collected in a folder beside the target and published together, the index last.

A journal in that folder names the shards that are complete, each recorded only after its bytes were synced. A later run
with the same fingerprint and layout keeps them: what the file system says about a shard (inode, length, time of last
change) and its header must still be what was recorded. Not here: the bytes of a shard (`streaming`).
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from importer.writers.output import Destination, FileLayout, Layout
from importer.writers.publishing import move, sync_folder

__all__ = ["Staging"]

_JOURNAL = "journal.jsonl"
_VERSION = 1


@dataclass(slots=True)
class Staging:
    """The folder in which the shards of one output wait for each other.

    Attributes:
        folder: its path, `OUTPUT.partial`.
        digest: what has to be equal for shards of an earlier run to be kept; None keeps none.
        complete: recorded shards, by name.
    """

    folder: Path
    digest: str | None
    complete: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def open(cls, layout: Layout, destination: Destination) -> Staging:
        """Take up the folder of an interrupted run if it holds the same output, else begin with an empty one.

        Raises:
            OSError: the folder cannot be made or read.
        """
        staging = cls(Path(f"{destination.path}.partial"), _digest(layout, destination))
        staging.complete = staging._recorded()
        if not staging.complete:
            staging.discard()
            staging.folder.mkdir()
            staging._append({"version": _VERSION, "digest": staging.digest})
        return staging

    def keeps(self, path: Path, file: FileLayout) -> bool:
        """Whether the shard to be published as `path` is complete, here or published already, and unchanged since."""
        known = self.complete.get(path.name)
        for place in (self.folder / path.name, path):
            if known is not None and _identity(place) == known and _header(place, len(file.header)) == file.header:
                return True
        return False

    def record(self, name: str) -> None:
        """Note that a shard is complete and synced.

        Raises:
            OSError: the journal cannot be written.
        """
        identity = _identity(self.folder / name)
        assert identity is not None
        self._append({"name": name, "identity": identity})

    def publish(self, path: Path, *, overwrite: bool) -> None:
        """Move a shard to its place, unless an interrupted run has done so.

        Raises:
            OSError: the system refuses, or there is another file and `overwrite` is false.
        """
        shard = self.folder / path.name
        if shard.exists():
            move(shard, path, overwrite=overwrite)

    def discard(self) -> None:
        """Remove the folder and what is in it."""
        import shutil

        shutil.rmtree(self.folder, ignore_errors=True)

    def discard_if_useless(self) -> None:
        """Remove the folder unless a later run can go on from it."""
        if self.digest is None or not self._recorded():
            self.discard()

    def _recorded(self) -> dict[str, list[int]]:
        if self.digest is None:
            return {}
        try:
            first, *rest = (self.folder / _JOURNAL).read_text(encoding="utf-8").splitlines()
            if json.loads(first) != {"version": _VERSION, "digest": self.digest}:
                return {}
            entries = [json.loads(line) for line in rest]
            return {entry["name"]: entry["identity"] for entry in entries}
        except (OSError, ValueError, TypeError, KeyError):
            # No folder, or a journal that is not whole: everything is made anew.
            return {}

    def _append(self, entry: dict[str, object]) -> None:
        with (self.folder / _JOURNAL).open("a", encoding="utf-8") as journal:
            journal.write(json.dumps(entry) + "\n")
            journal.flush()
            os.fsync(journal.fileno())
        sync_folder(self.folder)


def _digest(layout: Layout, destination: Destination) -> str | None:
    """Return what stands for the whole output: where it comes from, and every byte outside of tensors."""
    if destination.fingerprint is None:
        return None
    from hashlib import sha256

    digest = sha256(destination.fingerprint.encode("utf-8", "surrogatepass"))
    for path, file in layout.files:
        digest.update(f"\0{Path(path).name}\0{file.nbytes}\0".encode("utf-8", "surrogatepass"))
        digest.update(file.header)
    return digest.hexdigest()


def _identity(path: Path) -> list[int] | None:
    with contextlib.suppress(OSError):
        status = path.stat()
        return [status.st_ino, status.st_size, status.st_mtime_ns]
    return None


def _header(path: Path, length: int) -> bytes:
    with path.open("rb") as file:
        return file.read(length)
