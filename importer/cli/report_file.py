"""The copy of its report that `convert --report` keeps: which places it may go to, and how it gets there.

Not here: what a report says (`importer.report`).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from importer.errors import Location, OutputExistsError, UsageError, shown
from importer.options import Options
from importer.writers import check_target, index_path, is_through, new_file

__all__ = ["check_report", "is_same_file", "write_report", "write_text"]

_OURS = re.compile(rb'### importer: |\{\s*"schema_version": \d+,\s*"is_success": (?:true|false),\s*"exit_code": \d+,')
"""How a report of ours begins, as Markdown and as JSON."""

_HEAD_BYTES = 1024
_OF_A_MODEL = re.compile(
    r".*\.(?:safetensors|bpk|bin|pt|pth|ckpt|index\.json)|(?:config|params)\.json|\.metadata|.*tokenizer.*"
)


def check_report(report: Path, source: str, output: str, options: Options) -> None:
    """Check before hours of work that the report has a place, and destroys nothing there.

    Raises:
        UsageError: it would replace what the command reads or writes.
        OutputExistsError: there is a file that is no report of ours, and `--overwrite` is not given.
        WriteError: its folder does not exist, or it is a folder.
    """
    others = {"source": source, "output": output, "target": options.target, "recipe": options.recipe}
    for role, other in others.items():
        if other is not None and is_same_file(report, Path(other)):
            raise _taken(report, f"also the {role}")
    check_target(report, overwrite=True)
    if is_through(report):
        return
    if _is_of_output(report, Path(output)):
        raise _taken(report, "one of the files of the output")
    if os.path.lexists(report) and not _is_ours(report):
        if _is_of_source(report, Path(source)):
            raise _taken(report, "one of the files of the source")
        if not options.overwrite:
            raise OutputExistsError(
                "there is a file that is no report of this tool",
                where=Location(path=str(report)),
                how="Name another file for the report, or give --overwrite.",
            )


def write_report(report: Path, text: str, *, overwrite: bool) -> None:
    """Publish the report in one step, so that a job never reads half of one.

    Raises:
        WriteError: it cannot be written, or another file has appeared there meanwhile.
    """
    write_text(report, text, overwrite=overwrite or _is_ours(report))


def write_text(path: Path, text: str, *, overwrite: bool) -> None:
    """Write a file in one step, or through a pipe or device.

    Raises:
        OutputExistsError: it exists and `overwrite` is false.
        WriteError: it cannot be written.
    """
    # What goes through our own standard output has its place after what was printed.
    sys.stdout.flush()
    with new_file(path, overwrite=overwrite) as descriptor, os.fdopen(descriptor, "wb", closefd=False) as file:
        # A path may hold bytes that are no UTF-8.
        file.write(text.encode("utf-8", "backslashreplace"))


def is_same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, by whatever links."""
    try:
        return one.resolve() == other.resolve() or one.samefile(other)
    except (OSError, ValueError, RuntimeError):
        return False


def _is_of_output(report: Path, output: Path) -> bool:
    """Whether a conversion to `output` writes a file of this name, with shards or without."""
    place, out = report.resolve(), output.resolve()
    if out.with_name(f"{out.name}.partial") in (place, *place.parents):
        return True
    shard = rf"{re.escape(out.stem)}-\d{{5,}}-of-\d{{5,}}(?:\.[0-9a-f]{{8}})?{re.escape(out.suffix)}"
    names = "|".join((re.escape(index_path(out.name)), shard))
    return any(one.parent == out.parent and re.fullmatch(names, one.name) for one in _spellings(report))


def _is_of_source(report: Path, source: Path) -> bool:
    """Whether a file is, or may be, part of the source: any beside a set of shards, what a model has beside one file."""
    is_set = source.is_dir() or source.name.endswith(".json")
    folder = (source if source.is_dir() else source.parent).resolve()
    return any(
        folder == one.parent and (is_set or _OF_A_MODEL.fullmatch(one.name) is not None) for one in _spellings(report)
    )


def _spellings(path: Path) -> Iterator[Path]:
    """Yield the file with the links to its folder followed, and with all of them."""
    yield path.parent.resolve() / path.name
    yield path.resolve()


def _is_ours(path: Path) -> bool:
    """Whether a file is a report of an earlier run; an empty one holds nothing to be lost."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    return not head or _OURS.match(head) is not None


def _taken(report: Path, role: str) -> UsageError:
    return UsageError(f"the report {shown(str(report))} is {role}", how="Name another file.")
