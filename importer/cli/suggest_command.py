"""`importer suggest`: draft a recipe from a checkpoint and a file the Burn program saved, and say what is left to check.

The recipe goes to stdout or to a file, the remarks to stderr. Not here: the drafting (`importer.suggest`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from importer.checkpoint import open_checkpoint
from importer.cli.arguments import Arguments
from importer.cli.report_file import is_same_file, write_text
from importer.conversion import open_target
from importer.errors import UsageError, printable, shown
from importer.options import QuantizedChoice
from importer.suggest import Draft, draft_recipe
from importer.writers import check_target

__all__ = ["run"]

_SHOWN = 20


def run(arguments: Arguments) -> int:
    """Draft, print or write, and return 0, or 1 if the draft leaves something undecided."""
    place = None if arguments.recipe_file is None else Path(arguments.recipe_file)
    if place is not None:
        _check_place(place, arguments)
    options = arguments.options
    options = replace(options, quantized=options.quantized or QuantizedChoice.DEQUANTIZE)
    checkpoint = open_checkpoint(arguments.source, options)
    draft = draft_recipe(checkpoint, open_target(arguments.skeleton))
    if place is None:
        sys.stdout.write(draft.text)
    else:
        write_text(place, draft.text, overwrite=arguments.options.overwrite)
    for line in _remarks(draft):
        print(printable(line), file=sys.stderr)
    return 1 if draft.undecided else 0


def _check_place(place: Path, arguments: Arguments) -> None:
    """Check that the recipe has a place; one that a person has edited is not overwritten unasked.

    Raises:
        UsageError: it would replace what the command reads.
        WriteError: it exists, or cannot be written.
    """
    for role, other in (("source", arguments.source), ("target", arguments.skeleton)):
        if is_same_file(place, Path(other)):
            raise UsageError(f"the recipe {shown(str(place))} is also the {role}", how="Name another file.")
    check_target(place, overwrite=arguments.options.overwrite)


def _remarks(draft: Draft) -> Iterator[str]:
    if draft.marks:
        count = len({name for mark in draft.marks for name in mark.names})
        yield f"{len(draft.marks)} things to check, about {count} parameters: look for `check:` in the recipe"
    if draft.undecided:
        yield f"{len(draft.undecided)} undecided:"
        yield from (f"  {line}" for line in draft.undecided[:_SHOWN])
        if len(draft.undecided) > _SHOWN:
            yield f"  … and {len(draft.undecided) - _SHOWN} more"
    else:
        yield "every parameter of the target has a source"
