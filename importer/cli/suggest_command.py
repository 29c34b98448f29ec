"""`importer suggest`: draft a recipe from a checkpoint and a file the Burn program saved, and say what is left to check.

The recipe goes to stdout or to a file, the remarks to stderr. Not here: the drafting (`importer.suggest`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from importer.checkpoint import open_checkpoint
from importer.cli.arguments import Arguments
from importer.conversion import open_target
from importer.errors import Location, OutputExistsError, WriteError, printable
from importer.suggest import Draft, draft_recipe

__all__ = ["run"]

_SHOWN = 20


def run(arguments: Arguments) -> int:
    """Draft, print or write, and return 0, or 1 if the draft leaves something undecided."""
    checkpoint = open_checkpoint(arguments.source, arguments.options)
    draft = draft_recipe(checkpoint, open_target(arguments.skeleton))
    if arguments.recipe_file is None:
        sys.stdout.write(draft.text)
    else:
        _write(Path(arguments.recipe_file), draft.text, overwrite=arguments.options.overwrite)
    for line in _remarks(draft):
        print(printable(line), file=sys.stderr)
    return 1 if draft.undecided else 0


def _write(path: Path, text: str, *, overwrite: bool) -> None:
    """Write the recipe; one that a person has edited is not overwritten unasked."""
    try:
        with path.open("w" if overwrite else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise OutputExistsError(
            "the recipe exists already", where=Location(path=str(path)), how="Name another file, or add --overwrite."
        ) from error
    except OSError as error:
        raise WriteError(
            f"the recipe cannot be written: {error.strerror}",
            where=Location(path=str(path)),
            how="Name a file in a folder that exists and can be written.",
        ) from error


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
