"""Opening and reading small files, with the system's errors turned into ours. Not here: any layout."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from importer.errors import CorruptContainerError, LimitError, Location, MissingFileError, SourceError, shown
from importer.limits import Limits
from importer.storages import SourceFile

__all__ = ["is_folder", "open_source", "parse_json_object", "path_inside", "read_json_object"]


def is_folder(path: Path) -> bool:
    """Whether there is a folder at `path`; a place we may not look at is none, and opening it says why."""
    try:
        return path.is_dir()
    except PermissionError:
        return False


def open_source(path: Path) -> SourceFile:
    """Open a regular file for positioned reads.

    Raises:
        MissingFileError: there is no such file.
        SourceError: it is no regular file, or the system refuses.
    """
    where = Location(path=str(path))
    try:
        # Opening a pipe would wait for a writer for ever, so the kind is asked first.
        if not stat.S_ISREG(path.stat().st_mode):
            raise SourceError("this is no regular file", where=where, how="Save the data to a file and pass that.")
        return SourceFile(path)
    except FileNotFoundError as error:
        raise MissingFileError("there is no such file", where=where, how="Check the path.") from error
    except OSError as error:
        how = "Check the permissions and the path."
        if error.errno == errno.EMFILE:
            how = "Allow more open files (ulimit -n)."
        raise SourceError(
            f"the file cannot be opened: {os.strerror(error.errno or 0)}", where=where, how=how
        ) from error


def path_inside(folder: Path, name: str, where: Location) -> Path:
    """Return the path of a file that an index in `folder` names.

    Names only are judged: a model cache may well hold symbolic links to elsewhere, made by its owner.

    Raises:
        CorruptContainerError: the name leaves the folder.
    """
    pure = PurePosixPath(name)
    if not name or pure.is_absolute() or ".." in pure.parts or any(sign in name for sign in "\\:\0"):
        raise CorruptContainerError(
            f"the file name {shown(name)} leaves the folder of the index",
            where=where,
            how="Do not trust this checkpoint; get it from its source.",
        )
    return folder / pure


def read_json_object(path: Path, limits: Limits) -> Mapping[str, object]:
    """Return the object in a small JSON file, `config.json` or an index.

    Raises:
        LimitError: larger than `max_text_record_bytes`.
        CorruptContainerError: no JSON, no object, or a key twice in one object.
        SourceError, MissingFileError: as for `open_source`.
    """
    file = open_source(path)
    where = Location(path=str(path))
    if file.size > limits.max_text_record_bytes:
        raise LimitError(
            "a text file beside the weights is too large",
            limit="max_text_record_bytes",
            allowed=limits.max_text_record_bytes,
            actual=file.size,
            where=where,
            how="Check that this is the right file.",
        )
    return parse_json_object(file.read(0, file.size), where)


def parse_json_object(data: bytes, where: Location) -> Mapping[str, object]:
    """Return the JSON object in `data`; a key twice in one object is refused, since readers differ in which one wins.

    Raises:
        CorruptContainerError: no UTF-8, no JSON, no object at the top, nested too deeply, or a key twice.
    """
    import json

    how = "Download or copy the file again."
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise CorruptContainerError(f"the JSON text is damaged ({error})", where=where, how=how) from error
    if not isinstance(value, dict):
        raise CorruptContainerError("the JSON text is no object", where=where, how=how)
    return value


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {shown(twice)} stands twice in one object")
    return table
