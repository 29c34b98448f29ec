"""Opening and reading small files, with the system's errors turned into ours. Not here: any layout."""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from importer.budgets import JSON_BYTE, Budget
from importer.containers.unrecognized import describe
from importer.errors import CorruptContainerError, Location, MissingFileError, SourceError, shown
from importer.limits import Limits
from importer.storages import SourceFile

__all__ = [
    "is_file",
    "is_folder",
    "looks_like_json_object",
    "open_source",
    "parse_json_object",
    "path_inside",
    "read_json_object",
]

_DESCRIBED_BYTES = 1024
_LONGEST_NAME, _LONGEST_PATH = 255, 4095  # bytes, on every file system in use
_JSON_DEPTH = 100
"""Nesting of JSON text. Configurations have 5 levels, headers 3."""
_DIGITS_64 = 20
_LONG = re.compile(r"\d{20}")
_TEXTS = re.compile(r'"[^"\\]*(?:\\.?[^"\\]*)*"?', re.DOTALL)
_NO_BRACKETS = re.compile(r"[^][{}]+")


def is_folder(path: Path) -> bool:
    """Whether there is a folder at `path`; a place we may not look at is none, and opening it says why."""
    try:
        return path.is_dir()
    except OSError:
        return False


def is_file(path: Path) -> bool:
    """Whether there is a file at `path`; the name may be one that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def open_source(path: Path, budget: Budget | None = None) -> SourceFile:
    """Open a regular file for positioned reads; its size is paid into `budget`.

    Raises:
        MissingFileError: there is no such file.
        SourceError: it is no regular file, or the system refuses.
    """
    where = Location(path=str(path))
    try:
        # Opening a pipe would wait for a writer for ever, so the kind is asked first.
        if not stat.S_ISREG(path.stat().st_mode):
            raise SourceError("this is no regular file", where=where, how="Save the data to a file and pass that.")
        return SourceFile(path, budget)
    except FileNotFoundError as error:
        raise MissingFileError("there is no such file", where=where, how="Check the path.") from error
    except ValueError as error:
        raise SourceError("no file can have this name", where=where, how="Check the path.") from error
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
    parts = [part.encode() if part.isprintable() else b"" for part in pure.parts]
    if not all(0 < len(part) <= _LONGEST_NAME for part in parts) or sum(map(len, parts)) > _LONGEST_PATH:
        raise CorruptContainerError(
            f"no file can be called {shown(name)}",
            where=where,
            how="Do not trust this checkpoint; get it from its source.",
        )
    if not name or pure.is_absolute() or ".." in pure.parts or any(sign in name for sign in "\\:\0"):
        raise CorruptContainerError(
            f"the file name {shown(name)} leaves the folder of the index",
            where=where,
            how="Do not trust this checkpoint; get it from its source.",
        )
    return folder / pure


def read_json_object(path: Path, limits: Limits, budget: Budget | None = None) -> Mapping[str, object]:
    """Return the object in a small JSON file, `config.json` or an index.

    Raises:
        LimitError: larger than `max_text_record_bytes`.
        CorruptContainerError: no JSON, no object, or a key twice in one object.
        SourceError, MissingFileError: as for `open_source`.
    """
    file = open_source(path, budget)
    where = Location(path=str(path))
    limits.require(
        "max_text_record_bytes",
        file.size,
        "a text file beside the weights is too large",
        where,
        "Check that this is the right file.",
    )
    return parse_json_object(file.read(0, file.size), where, file.budget)


def looks_like_json_object(head: bytes) -> bool:
    """Whether a file that begins with `head` can be a JSON object, with or without a byte order mark."""
    return _decoded(head, errors="ignore").lstrip()[:1] == "{"


def parse_json_object(
    data: bytes, where: Location, budget: Budget | None = None, *, max_depth: int = _JSON_DEPTH
) -> Mapping[str, object]:
    """Return the JSON object in `data`; a key twice in one object is refused, since readers differ in which one wins.

    UTF-8 and UTF-16 are read, with the byte order marks that editors on Windows put first.

    Raises:
        CorruptContainerError: no JSON, no object at the top, nested too deeply, a key twice, or a whole number that no 64 bits
            hold; says what it is instead.
        LimitError: it would take more memory than `budget` has.
    """
    import json

    if budget is not None:
        budget.spend(JSON_BYTE * len(data), where)

    how = "Download or copy the file again."
    try:
        text = _decoded(data)
    except UnicodeDecodeError as error:
        if data[:1] != b"{":
            raise _no_json(data, where) from error
        raise CorruptContainerError(f"the JSON text is damaged ({error})", where=where, how=how) from error
    try:
        _check_depth(text, max_depth)
        # The scanner's own reading of numbers is faster, and only long digits can be too large.
        value = json.loads(text, object_pairs_hook=_unique_keys, parse_int=_whole if _LONG.search(text) else None)
    except json.JSONDecodeError as error:
        if text.lstrip()[:1] not in {"{", "["}:
            raise _no_json(data, where) from error
        raise _damaged_json(text, error.pos, error.msg, where) from error
    except (ValueError, RecursionError) as error:
        raise CorruptContainerError(f"the JSON text is damaged ({error})", where=where, how=how) from error
    if not isinstance(value, dict):
        raise CorruptContainerError("the JSON text is no object", where=where, how=how)
    return value


def _decoded(data: bytes, errors: str = "strict") -> str:
    """Return JSON text by its byte order mark; UTF-16 without one shows in the zeros beside its first sign."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors)
    if data[1:2] == b"\0" and data[:1] != b"\0":
        return data.decode("utf-16-le", errors)
    if data[:1] == b"\0" and data[1:2] != b"\0":
        return data.decode("utf-16-be", errors)
    return data.decode("utf-8-sig", errors)


def _no_json(data: bytes, where: Location) -> CorruptContainerError:
    """Return the error for a file that was to be JSON and is something else: an error page, a pointer, nothing."""
    what, how = describe(data[:_DESCRIBED_BYTES])
    return CorruptContainerError(f"this is no JSON but {what}", where=where, how=how)


def _damaged_json(text: str, position: int, message: str, where: Location) -> CorruptContainerError:
    """Return the error for JSON text with a fault at `position`: which one, and in which line."""
    rest, before = text[position:].lstrip(), text[:position].rstrip()
    what, how = message, "Mend it in an editor, or download the file again."
    if not rest:
        what, how = "it ends too early", "Download or copy the file again."
    elif rest[0] in "}]," and (before[-1:] == "," or message.startswith("Illegal trailing comma")):
        what, how = "a comma before the closing bracket", "Take the comma away."
    elif rest.startswith(("//", "/*", "#")):
        what, how = "a comment, which JSON has none of", "Take the comment away."
    elif rest[0] == "'":
        what, how = "a text in single quotes", "Put it into double quotes."
    place = Location(
        path=where.path,
        record=where.record,
        line=text.count("\n", 0, position) + 1,
        column=position - text.rfind("\n", 0, position),
    )
    return CorruptContainerError(f"the JSON text is damaged: {what}", where=place, how=how)


def _check_depth(text: str, allowed: int) -> None:
    """Refuse text that is nested more than `allowed` deep: whatever goes through it later may then recurse.

    Raises:
        ValueError: it is.
    """
    brackets = _NO_BRACKETS.sub("", _TEXTS.sub("", text))
    for _ in range(allowed):
        if not brackets:
            return
        shorter = brackets.replace("[]", "").replace("{}", "")
        if len(shorter) == len(brackets):
            return  # they do not match, which the parser says better
        brackets = shorter
    if brackets:
        raise ValueError(f"it is nested more than {allowed} deep")


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS_64:
        raise ValueError(f"a whole number of {len(digits)} digits")
    return int(digits)


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {shown(twice)} stands twice in one object")
    return table
