"""What the command line was given: the arguments of the one command that runs, and the options of a conversion among them.

Not here: which commands and flags there are (`importer.cli.commands`), and parsing them (`importer.cli.parser`).
"""

from __future__ import annotations

import argparse
from typing import Any

from importer.options import FLAGS, Options

__all__ = ["Arguments"]


class Arguments(argparse.Namespace):
    """Parsed arguments with names and types; each command reads those that its entry of the table declares."""

    command: str
    debug: bool
    source: Any
    output: str
    report: str | None
    format: str
    all: bool
    json: bool
    sha256: bool
    value: str | None
    name: str
    action: str | None
    skeleton: str
    recipe_file: str | None
    struct: str
    numbers: list[str]
    rust_file: str | None
    rust_source: str | None

    @property
    def options(self) -> Options:
        """The options given, the rest at their defaults.

        Raises:
            UsageError: a value that makes no sense.
        """
        given = {name: getattr(self, name) for name in FLAGS if hasattr(self, name)}
        joined = {name: flag.joined(given[name]) for name, flag in FLAGS.items() if flag.joined and name in given}
        return Options(**{**given, **joined})
