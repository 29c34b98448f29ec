"""`importer convert`: run one conversion, print its report, and keep a copy of it where asked.

Not here: the conversion (`importer.conversion`) and what the report says (`importer.report`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from importer.cli.arguments import Arguments
from importer.conversion import convert
from importer.errors import UsageError, shown
from importer.options import Options
from importer.report import ApplyResult
from importer.writers import check_target, new_file

__all__ = ["run"]


def run(arguments: Arguments) -> int:
    """Convert, report, and return 0 or, if the report forbids the conversion, 1."""
    options = arguments.options
    report = None if arguments.report is None else Path(arguments.report)
    if report is not None:
        _check_report(report, arguments, options)
    result = convert(arguments.source, arguments.output, options)
    sys.stdout.write(_rendered(result, arguments.format))
    if report is not None:
        as_markdown = report.suffix == ".md"
        _write_report(report, result.to_markdown(lines=0) if as_markdown else result.to_json())
    return result.exit_code


def _rendered(result: ApplyResult, form: str) -> str:
    if form == "json":
        return result.to_json()
    return result.to_markdown() if form == "markdown" else result.to_text()


def _check_report(report: Path, arguments: Arguments, options: Options) -> None:
    """Check before hours of work that the report has a place, and that it is not one of the other files.

    Raises:
        UsageError: it would replace what the command reads or writes.
        WriteError: its folder does not exist, or it is a folder.
    """
    others = {
        "source": arguments.source, "output": arguments.output, "target": options.target, "recipe": options.recipe
    }  # fmt: skip
    for role, other in others.items():
        if other is not None and report.resolve() == Path(other).resolve():
            raise UsageError(f"the report {shown(str(report))} is also the {role}", how="Name another file.")
    check_target(report, overwrite=True)


def _write_report(path: Path, text: str) -> None:
    """Publish the report in one step, so that a job never reads half of one."""
    with new_file(path, overwrite=True) as descriptor, os.fdopen(descriptor, "wb", closefd=False) as file:
        # A path may hold bytes that are no UTF-8.
        file.write(text.encode("utf-8", "backslashreplace"))
