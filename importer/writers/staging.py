"""The work folder of an output, `OUTPUT.partial`: locked by the run that uses it, with a folder for each run and its journal.

A journal names the shards that are complete, each recorded only after its bytes were synced, and, before it is done, every
name that is given and every old file that is to go. So a later run can keep shards, and can tidy up after one that was killed
at any step. A shard is kept only if inode, length and both times are what was recorded: giving it a name changes the time of
its last change, so it is recorded again after that. Not here: which names are given in which order (`shard_sets`), and the
bytes of a shard (`streaming`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from importer.errors import Location, WriteError
from importer.system import SYSTEM
from importer.writers.output import Destination, Layout
from importer.writers.targets import writing_errors

__all__ = ["Identity", "Run", "WorkFolder", "digest_of", "identity_from", "identity_of"]

Identity = tuple[int, ...]
"""Inode, length, time of the last write and time of the last change of a file."""

_LOCK = "importer.lock"
_JOURNAL = "journal.jsonl"
_KIND = "importer shards 2"
_RUN = re.compile(r"run-[0-9a-f]{8}")
_TRIES = 100
_SAME_FILE = 3
"""How much of an identity says that it is the same file with the same contents, whatever names it was given since."""


def identity_of(path: Path) -> Identity | None:
    """Return what tells a file, or a link to one, and its state from others; None if there is neither."""
    try:
        return identity_from(SYSTEM.lstat(path))
    except OSError:
        return None


def identity_from(status: os.stat_result) -> Identity | None:
    """Return the same from what the file system said."""
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        return None
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def digest_of(layout: Layout, destination: Destination) -> str | None:
    """Return what stands for the whole output: where it comes from, and every byte outside of tensors."""
    if destination.fingerprint is None:
        return None
    from hashlib import sha256

    digest = sha256(destination.fingerprint.encode("utf-8", "surrogatepass"))
    for path, file in layout.files:
        digest.update(f"\0{Path(path).name}\0{file.nbytes}\0".encode("utf-8", "surrogatepass"))
        digest.update(file.header)
    return digest.hexdigest()


@dataclass(slots=True)
class WorkFolder:
    """The folder beside an output in which runs keep what is not published yet; one run at a time.

    Attributes:
        path: `OUTPUT.partial`.
        is_locked: false where the file system has no locks; then nothing of other runs is touched.
    """

    path: Path
    is_locked: bool
    _descriptor: int

    @classmethod
    def taken(cls, output: Path) -> WorkFolder:
        """Create the folder, or take up the one a run has left behind.

        Raises:
            WriteError: another run is at work there, or the folder is not one of ours.
        """
        path = output.with_name(f"{output.name}.partial")
        with writing_errors(path):
            for _ in range(_TRIES):
                try:
                    SYSTEM.make_folder(path)
                except FileExistsError:
                    _check_ours(path)
                try:
                    descriptor = SYSTEM.open_lock(path / _LOCK)
                except FileNotFoundError:
                    continue  # its run has just ended and taken the folder away
                work = cls._locked(path, descriptor)
                if work is not None:
                    return work
        raise _busy(output)

    @classmethod
    def _locked(cls, path: Path, descriptor: int) -> WorkFolder | None:
        """Lock the open file, or close it; None: its run has just ended and taken it away.

        Raises:
            WriteError: another run has locked it.
            OSError: the system refuses.
        """
        mine = False
        try:
            lock = SYSTEM.lock(descriptor)
            if lock is False:
                raise _busy(path.with_name(path.name.removesuffix(".partial")))
            mine = _is_still(path / _LOCK, descriptor)
        finally:
            if not mine:
                SYSTEM.close(descriptor)
        return cls(path, lock is True, descriptor) if mine else None

    @classmethod
    def left_behind(cls, output: Path) -> WorkFolder | None:
        """Take up the folder only if there is one of ours.

        Raises:
            WriteError: another run is at work there.
        """
        path = output.with_name(f"{output.name}.partial")
        with contextlib.suppress(OSError):
            # One of ours may be empty: its run was killed as it began or ended.
            if _is_folder(path) and set(SYSTEM.names_in(path)) - {_LOCK} <= set(
                filter(_RUN.fullmatch, SYSTEM.names_in(path))
            ):
                return cls.taken(output)
        return None

    def runs(self) -> list[Run]:
        """Return what killed or interrupted runs have left."""
        if not self.is_locked:
            return []
        with writing_errors(self.path):
            names = sorted(name for name in SYSTEM.names_in(self.path) if _RUN.fullmatch(name))
        return [Run.read(self.path / name) for name in names if _is_folder(self.path / name)]

    def new_run(self, digest: str | None) -> Run:
        """Begin a run.

        Raises:
            WriteError: its folder cannot be made.
        """
        run = Run(self.path / f"run-{os.urandom(4).hex()}", digest)
        with writing_errors(run.folder):
            SYSTEM.make_folder(run.folder)
        run.append({"kind": _KIND, "digest": digest})
        return run

    def close(self) -> None:
        """Give the folder up, and take it away unless something in it is left."""
        try:
            with contextlib.suppress(OSError):
                if set(SYSTEM.names_in(self.path)) == {_LOCK}:
                    SYSTEM.unlink(self.path / _LOCK)
                    SYSTEM.remove_folder(self.path)
        finally:
            SYSTEM.close(self._descriptor)


@dataclass(slots=True)
class Run:
    """What one run has made and done so far.

    Attributes:
        folder: where its shards wait.
        digest: equal for two runs only if every byte they write is; None: nobody may go on with it.
        complete: recorded shards, and what the file system said of each last.
        names: every name that was given, or was about to be.
        heads: names and states of the files whose appearance makes the output complete.
        old: files of the output that is replaced, to go when the new one is in place.
    """

    folder: Path
    digest: str | None
    complete: dict[str, Identity] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    heads: set[tuple[str, Identity]] = field(default_factory=set)
    old: dict[str, Identity] = field(default_factory=dict)

    @property
    def journal(self) -> Path:
        """The file that tells what the run has made and done."""
        return self.folder / _JOURNAL

    @classmethod
    def read(cls, folder: Path) -> Run:
        """Return what the journal tells: every whole line counts, up to the first that is none."""
        run = cls(folder, None)
        with writing_errors(folder), contextlib.suppress(FileNotFoundError):
            text = SYSTEM.contents(run.journal)
            whole = text[: text.rfind(b"\n") + 1]
            if len(whole) < len(text):
                # The process was killed in the middle of a line; the next one begins where it began.
                SYSTEM.cut(run.journal, len(whole))
            run._note_all(whole.splitlines())
        return run

    def _note_all(self, lines: list[bytes]) -> None:
        """Take in the lines of a journal; of a damaged one what came before the damage, and nothing is built on it."""
        try:
            for number, line in enumerate(lines):
                entry = json.loads(line)
                if number == 0 and entry.get("kind") != _KIND:
                    raise ValueError("no journal of this kind")  # noqa: TRY301 - as for any other damage
                self._note(entry)
        except (ValueError, TypeError, KeyError, AttributeError):
            self.digest = None

    def keeps(self, name: str, header: bytes) -> bool:
        """Whether a shard is complete and unchanged since it was recorded."""
        path = self.folder / name
        if name not in self.complete or identity_of(path) != self.complete[name]:
            return False
        with writing_errors(path), path.open("rb") as file:
            return file.read(len(header)) == header

    def record(self, name: str) -> None:
        """Note that a shard is complete and synced.

        Raises:
            WriteError: it is gone, or the journal cannot be written.
        """
        identity = identity_of(self.folder / name)
        if identity is None:
            raise self.lost(name)
        self.append({"shard": name, "identity": identity})

    def record_again(self, name: str) -> None:
        """Note what a shard looks like that was just given a name or lost one; nothing else is to have changed.

        Raises:
            WriteError: the journal cannot be written.
        """
        there = identity_of(self.folder / name)
        if there is not None and there != self.complete[name]:
            self.append({"shard": name, "identity": there}, is_urgent=False)

    def check(self, name: str) -> None:
        """Check that a recorded shard is still there and still the same.

        Raises:
            WriteError: it is not.
        """
        if self.complete.get(name) is None or identity_of(self.folder / name) != self.complete[name]:
            raise self.lost(name)

    def lost(self, name: str) -> WriteError:
        """Return what to tell about a shard that is not what it was."""
        return WriteError(
            f"shard {name} was removed or changed before it was published",
            where=Location(path=str(self.folder)),
            how="Let nothing else use this folder, and run again.",
        )

    def is_ours(self, path: Path) -> bool:
        """Whether a file that is in place was put there by this run."""
        return self.shard_at(path) is not None

    def shard_at(self, path: Path) -> str | None:
        """Return which shard of this run a file in place is, or None."""
        there = identity_of(path)
        return next((name for name, known in self.complete.items() if _is_same(there, known)), None)

    def head_in_place(self, folder: Path) -> str | None:
        """Return the name of the file that makes the output of this run complete, if it is there."""
        return next((name for name, known in self.heads if _is_same(identity_of(folder / name), known)), None)

    def old_files(self, folder: Path) -> Iterator[Path]:
        """Yield the files of the replaced output that are still there."""
        for name, known in self.old.items():
            if _is_same(identity_of(folder / name), known):
                yield folder / name

    def append(self, entry: dict[str, object], *, is_urgent: bool = True) -> None:
        """Write a line into the journal; an urgent one is on the disk when this returns.

        Raises:
            WriteError: it cannot be written.
        """
        self._note(json.loads(line := json.dumps(entry)))
        with writing_errors(self.journal):
            descriptor = SYSTEM.open_lock(self.journal)
            try:
                data = memoryview(f"{line}\n".encode())
                end = SYSTEM.fstat(descriptor).st_size
                while data and (count := SYSTEM.write_at(descriptor, data, end)):
                    data, end = data[count:], end + count
                if data:
                    raise OSError(0, "the system takes no more bytes")
                if is_urgent:
                    SYSTEM.sync(descriptor)
                    SYSTEM.sync_folder(self.folder)
            finally:
                SYSTEM.close(descriptor)

    def remove_incomplete(self) -> None:
        """Remove what is in the run's folder and is no complete shard."""
        with contextlib.suppress(OSError):
            for name in set(SYSTEM.names_in(self.folder)) - set(self.complete) - {_JOURNAL}:
                SYSTEM.unlink(self.folder / name)

    def discard(self) -> None:
        """Remove the run's folder and the files in it."""
        with contextlib.suppress(OSError):
            # The journal last: as long as there is anything, it tells what it is.
            for name in sorted(SYSTEM.names_in(self.folder), key=lambda name: name == _JOURNAL):
                SYSTEM.unlink(self.folder / name)
            SYSTEM.remove_folder(self.folder)

    def _note(self, entry: dict[str, object]) -> None:
        match entry:
            case {"kind": str(), "digest": str() | None as digest}:
                self.digest = digest
            case {"shard": str(name), "identity": list(numbers)}:
                self.complete[name] = tuple(map(int, numbers))
            case {"names": list(names)}:
                self.names |= set(map(str, names))
            case {"head": str(name), "identity": list(numbers), "old": dict(old)}:
                self.heads.add((name, tuple(map(int, numbers))))
                self.old |= {str(name): tuple(map(int, known)) for name, known in old.items()}
            case _:
                raise ValueError("no entry of a journal")


def _check_ours(path: Path) -> None:
    """Check that what is at `path` is a work folder, or an empty folder.

    Raises:
        WriteError: it is not.
    """
    if _is_folder(path):
        with contextlib.suppress(FileNotFoundError):
            found = set(SYSTEM.names_in(path))
            if _LOCK in found or not found:
                return
            raise WriteError(
                "unfinished shards would be kept in this folder, which holds something else",
                where=Location(path=str(path)),
                how="Rename the folder, or choose another name for the output.",
            )
        return
    with contextlib.suppress(FileNotFoundError):
        SYSTEM.lstat(path)
        raise WriteError(
            "unfinished shards would be kept in a folder of this name, and there is something else",
            where=Location(path=str(path)),
            how="Rename it, or choose another name for the output.",
        )


def _is_same(there: Identity | None, known: Identity) -> bool:
    return there is not None and there[:_SAME_FILE] == known[:_SAME_FILE]


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(SYSTEM.lstat(path).st_mode)
    except OSError:
        return False


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether an open file still has its name: its run may have taken it away between our opening and locking."""
    try:
        return SYSTEM.lstat(path).st_ino == SYSTEM.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


def _busy(output: Path) -> WriteError:
    return WriteError(
        "another run is writing this output",
        where=Location(path=str(output)),
        how="Wait until it has ended, or choose another name.",
    )
