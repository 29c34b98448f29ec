"""From a path to an opened container: the layout is told from the contents, never from the extension.

Not here: the layouts themselves, and everything after (`importer.checkpoint`).
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path

from importer.budgets import Budget
from importer.containers.bare_pickle import looks_like_pickle, open_pickle
from importer.containers.base import Container, Opened, PickleContainer, TableContainer
from importer.containers.burnpack_file import MAGIC as BURNPACK_MAGIC
from importer.containers.burnpack_file import open_burnpack
from importer.containers.distributed import is_distributed, read_distributed
from importer.containers.files import is_folder, looks_like_json_object, open_source, read_json_object
from importer.containers.folder import Candidate, CandidateKind, find_config, find_weights
from importer.containers.folder_kinds import part_notes
from importer.containers.legacy_stream import is_legacy, open_legacy
from importer.containers.safetensors_file import is_safetensors, open_safetensors
from importer.containers.sharded_set import is_index, missing_shards, open_sharded, open_slices, open_unlisted
from importer.containers.tar_archive import is_tar, open_tar
from importer.containers.torch_zip import open_zip
from importer.containers.unrecognized import foreign
from importer.containers.zip_archive import ends_as_archive, has_directory
from importer.errors import (
    CorruptContainerError,
    Location,
    MalformedPickleError,
    MissingFileError,
    SourceError,
    TruncatedError,
    UnsupportedError,
    UsageError,
)
from importer.limits import DEFAULT_LIMITS, Limits
from importer.storages import SourceFile

__all__ = ["open_container"]

_HEAD_BYTES = 1024
_ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
_PICKLE_PROTO = b"\x80"
_DISTRIBUTED_PART = ".distcp"
_JOBLIB = b"joblib.numpy_pickle"
_JOBLIB_BYTES = 16 << 20
_SHARD_NAME = re.compile(r".*-\d+-of-(\d+)\.\w+")


def open_container(
    path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS, budget: Budget | None = None
) -> Opened:
    """Open a file or folder, and look for a configuration beside the weights. No tensor byte is read.

    Raises:
        UsageError: no path, or a folder in which more than one file could be meant.
        UnknownContainerError: no checkpoint; the message says what it is.
        SourceError: damaged, incomplete, contradictory, or over a limit.
    """
    if not os.fspath(path):
        raise UsageError("the path of the source is empty", how="Pass a file or a folder.")
    budget = Budget(limits) if budget is None else budget
    path = Path(path)
    if is_folder(path):
        container, notes = _open_folder(path, budget)
        folder = path
    else:
        container, notes = _open_path(path, budget), _shard_note(path)
        folder = path.parent
    config_path = find_config(folder)
    if config_path is None or config_path == path:
        return Opened(container, notes=notes)
    try:
        config = read_json_object(config_path, budget.limits, budget)
    except SourceError as error:
        return Opened(
            container, config_fault=error, notes=(*notes, f"the configuration beside the weights was not read: {error}")
        )
    return Opened(container, config, str(config_path), notes=notes)


def _shard_note(path: Path) -> tuple[str, ...]:
    """Return a remark if the name is that of one shard of several: the rest is easily forgotten."""
    name = _SHARD_NAME.fullmatch(path.name)
    if name is None or int(name[1]) <= 1:
        return ()
    return (f"this file is one of {int(name[1])} shards; pass the folder or the .index.json for all of them",)


def _open_folder(folder: Path, budget: Budget) -> tuple[Container, tuple[str, ...]]:
    """Open the weights of a folder; an index whose shards are not there gives way to other weights that are.

    Raises:
        MissingFileError: shards are missing, and there is nothing else.
        SourceError, UsageError: as for `find_weights`, and whatever is wrong with the files.
    """
    candidates = find_weights(folder)
    notes: list[str] = []
    incomplete: MissingFileError | None = None
    for candidate in candidates:
        if candidate.kind is CandidateKind.INDEX:
            fault = _missing_shards(candidate.paths[0], budget)
            if fault is not None:
                incomplete = incomplete or fault
                notes.append(f"{candidate.paths[0].name} was passed over: {fault.what}")
                continue
        container = _open_candidate(candidate, budget)
        beside = [
            other.paths[0].name
            for other in candidates
            if other.kind is CandidateKind.INDEX and candidate.kind is CandidateKind.FILE
        ]
        unused = [name for name in beside if not any(note.startswith(name) for note in notes)]
        if unused and candidate.paths[0].name != unused[0].removesuffix(".index.json"):
            unused = []  # of another format: the same weights again, as many repositories have them
        notes += [f"{name} lies beside {candidate.paths[0].name} and was not used" for name in unused]
        return container, (*notes, *part_notes(folder))
    assert incomplete is not None  # every candidate that is no index is opened
    raise incomplete


def _missing_shards(index: Path, budget: Budget) -> MissingFileError | None:
    """Return the error for an index that names files which are not there, None if all are."""
    document = read_json_object(index, budget.limits, budget)
    if not is_index(document):
        return None
    return missing_shards(index, document)


def _open_candidate(candidate: Candidate, budget: Budget) -> Container:
    opener = functools.partial(_open_file, budget=budget)
    if candidate.kind is CandidateKind.SLICES:
        return open_slices(candidate.paths, opener)
    if candidate.kind is CandidateKind.SHARDS:
        return open_unlisted(candidate.paths, opener)
    return _open_path(candidate.paths[0], budget)


def _open_path(path: Path, budget: Budget) -> Container:
    """Open a file that may be the index of a set."""
    document = _read_index(path, budget)
    if document is not None:
        return open_sharded(path, document, functools.partial(_open_file, budget=budget))
    container = _open_file(path, budget)
    if isinstance(container, PickleContainer) and is_distributed(container.tree):
        return read_distributed(path, container.tree, budget)
    return container


def _read_index(path: Path, budget: Budget) -> Mapping[str, object] | None:
    """Return the document if the file is the index of a sharded set, told by its contents.

    Raises:
        CorruptContainerError: it is called JSON and is none.
    """
    file = open_source(path)
    named = path.suffix == ".json"
    head = file.read(0, min(file.size, _HEAD_BYTES))
    # One safetensors file in 256 begins with a brace: the low byte of its header's length.
    if is_safetensors(head) or file.size > budget.limits.max_text_record_bytes:
        return None
    if not named and not looks_like_json_object(head):
        return None
    try:
        document = read_json_object(path, budget.limits, budget)
    except SourceError:
        if named:
            raise
        return None
    return document if is_index(document) else None


def _open_file(path: Path, budget: Budget) -> PickleContainer | TableContainer:
    """Open a single file.

    Raises:
        UnsupportedError: a data file of a distributed checkpoint, which means nothing by itself.
    """
    file = open_source(path, budget)
    head = file.read(0, min(file.size, _HEAD_BYTES))
    if path.suffix == _DISTRIBUTED_PART and head.startswith(_ZIP_MAGICS):
        raise UnsupportedError(
            "this is one data file of a distributed checkpoint; which tensors lie in it, only the .metadata beside it says",
            where=Location(path=str(path)),
            how="Pass the folder, with '.metadata' and all of its .distcp files in it.",
        )
    _check_one_layout(file, head)
    if head.startswith(_ZIP_MAGICS):
        return open_zip(file, budget.limits)
    if head.startswith(BURNPACK_MAGIC):
        return open_burnpack(file, budget.limits)
    if is_tar(head):
        return open_tar(file, budget.limits)
    if is_legacy(head):
        return open_legacy(file, budget.limits)
    if is_safetensors(head):
        return open_safetensors(file, budget.limits)
    if looks_like_pickle(head):
        return _open_pickle(file, head, budget)
    if has_directory(file):
        # Something was put before the archive, which begins somewhere inside.
        return open_zip(file, budget.limits)
    raise foreign(file.path, head)


def _check_one_layout(file: SourceFile, head: bytes) -> None:
    """Refuse a file that is of two layouts at once: readers differ in which one they see.

    A safetensors file whose last tensor ends as an archive does is none of these: only its own readers open it.

    Raises:
        CorruptContainerError: it is.
    """
    layouts = {
        "a ZIP archive": head.startswith(_ZIP_MAGICS),
        "a burnpack file": head.startswith(BURNPACK_MAGIC),
        "a tar archive": is_tar(head, checked=True),
        "a legacy stream of torch": is_legacy(head),
        "a safetensors file": is_safetensors(head),
    }
    found = [name for name, claimed in layouts.items() if claimed]
    streams = {"a tar archive", "a legacy stream of torch"}
    is_stream = not streams.isdisjoint(found) or (not found and looks_like_pickle(head))
    if is_stream and ends_as_archive(file):
        found = [*(found or ["a pickle"]), "a ZIP archive"]
    if len(found) > 1:
        raise CorruptContainerError(
            f"the file is {' and '.join(found)} at once",
            where=Location(path=file.path),
            how="Do not trust this file; get it from its source.",
        )


def _open_pickle(file: SourceFile, head: bytes, budget: Budget) -> PickleContainer:
    try:
        return open_pickle(file, budget.limits)
    except (MalformedPickleError, TruncatedError, UnsupportedError) as error:
        if _JOBLIB in file.read(0, min(file.size, _JOBLIB_BYTES)):
            raise foreign(file.path, _JOBLIB) from error
        if head.startswith(_PICKLE_PROTO):
            raise
        # The letters old pickles begin with begin ordinary text as well.
        raise foreign(file.path, head) from error
