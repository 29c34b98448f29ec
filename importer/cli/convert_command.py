"""`importer convert`: run one conversion, print its report, and keep a copy of it where asked.

Not here: the conversion (`importer.conversion`) and what the report says (`importer.report`).
"""

from __future__ import annotations

import sys
from pathlib import Path

from importer.cli.arguments import Arguments
from importer.cli.report_file import check_report, write_report
from importer.conversion import convert
from importer.errors import WriteError
from importer.report import ApplyResult

__all__ = ["run"]


def run(arguments: Arguments) -> int:
    """Convert, report, and return 0 or, if the report forbids the conversion, 1."""
    options = arguments.options
    report = None if arguments.report is None else Path(arguments.report)
    if report is not None:
        for source in arguments.source:
            check_report(report, source, arguments.output, options)
    result = convert(arguments.source, arguments.output, options)
    try:
        _publish(result, report, arguments)
    except WriteError as error:
        if result.written:
            error.how = f"{error.how} The output itself is complete."
        raise
    except KeyboardInterrupt as interrupt:
        if result.written:
            interrupt.args = (f"{arguments.output} is complete, its report is not",)
        raise
    return result.exit_code


def _publish(result: ApplyResult, report: Path | None, arguments: Arguments) -> None:
    """Print the report and keep the copy; neither depends on whether the other can be written."""
    try:
        if report is not None:
            as_markdown = report.suffix == ".md"
            write_report(
                report,
                result.to_markdown(lines=0) if as_markdown else result.to_json(),
                overwrite=arguments.options.overwrite,
            )
    finally:
        sys.stdout.write(_rendered(result, arguments.format))
        sys.stdout.flush()


def _rendered(result: ApplyResult, form: str) -> str:
    if form == "json":
        return result.to_json()
    return result.to_markdown() if form == "markdown" else result.to_text()
