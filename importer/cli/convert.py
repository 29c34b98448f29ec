"""`importer convert`: run one conversion, print its report, and keep a copy of it where asked.

Not here: the conversion (`importer.conversion`) and what the report says (`importer.report`).
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from importer.cli.arguments import Arguments
from importer.conversion import convert
from importer.errors import Location, WriteError
from importer.limits import adjusted
from importer.report import ApplyResult

__all__ = ["run"]


def run(arguments: Arguments) -> int:
    """Convert, report, and return 0 or, if the report forbids the conversion, 1."""
    result = convert(
        arguments.source,
        arguments.output,
        recipe=arguments.recipe,
        target=arguments.target,
        root=arguments.root,
        dtype=arguments.dtype,
        adapter=arguments.adapter,
        param_ids=arguments.param_ids,
        only=arguments.only,
        shard_size=arguments.shard_size,
        workers=arguments.workers,
        dry_run=arguments.dry_run,
        overwrite=arguments.overwrite,
        allow_missing=arguments.allow_missing,
        strict=arguments.strict,
        sparse=arguments.sparse,
        quantized=arguments.quantized,
        limits=adjusted(dict(arguments.limit)),
    )
    sys.stdout.write(_rendered(result, arguments.format))
    if arguments.report is not None:
        as_markdown = arguments.report.endswith(".md")
        _write_atomically(arguments.report, result.to_markdown(lines=0) if as_markdown else result.to_json())
    return result.exit_code


def _rendered(result: ApplyResult, form: str) -> str:
    if form == "json":
        return result.to_json()
    return result.to_markdown() if form == "markdown" else result.to_text()


def _write_atomically(path: str, text: str) -> None:
    """Write the report beside its place and move it there, so that a job never reads half of one."""
    folder = Path(path).parent
    try:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=folder, prefix=".report-", delete=False) as scratch:
            scratch.write(text)
        Path(scratch.name).chmod(0o644)
        Path(scratch.name).replace(path)
    except OSError as error:
        raise WriteError(
            f"the report cannot be written: {error.strerror}",
            where=Location(path=path),
            how="Name a file in a folder that exists and can be written.",
        ) from error
