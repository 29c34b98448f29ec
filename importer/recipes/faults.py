"""Faults of a recipe while they are gathered: inside one text first, then with file, line and column.

Not here: `importer.errors.RecipeError`, which carries the gathered faults to the user.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from importer.errors import Location, RecipeError, printable

__all__ = ["Faults", "TextError", "as_written", "combined"]


class TextError(Exception):
    """A fault inside one text (a pattern, a replacement, an expression), before anyone knows which line it is on.

    Whoever knows the place (a reader, the engine, an option's parser) turns it into an error for the user.

    Attributes:
        what: one clause saying what is wrong.
        how: one action that mends it.
        position: index into the text, or None when the whole text is meant.
        where: the place, once somebody knows it; the innermost one counts.
    """

    def __init__(self, what: str, *, how: str, position: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.how = how
        self.position = position
        self.where: Location | None = None

    def at(self, where: Location | None) -> RecipeError:
        """Return the fault with a place, for the user."""
        return RecipeError(self.what, how=self.how, where=self.where or where)


@dataclass(slots=True)
class Faults:
    """Collects every fault of one recipe file, so that all are told at once."""

    path: str
    found: list[RecipeError] = field(default_factory=list)

    def add(self, what: str, *, how: str, line: int, column: int) -> None:
        """Note one fault."""
        where = Location(path=self.path, line=line, column=column)
        self.found.append(RecipeError(what, how=how, where=where))

    def sorted(self) -> tuple[RecipeError, ...]:
        """Return the faults in file order."""
        return tuple(sorted(self.found, key=_place))


def combined(
    path: str, faults: tuple[RecipeError, ...], how: str = "Mend them and run `importer recipes check` on the file."
) -> RecipeError:
    """Return the one fault itself, or an error that carries several and says `how` to mend them."""
    if len(faults) == 1:
        return faults[0]
    return RecipeError(
        f"{len(faults)} faults in {path}",
        how=how,
        where=faults[0].where,
        faults=faults,
    )


def as_written(text: str) -> str:
    """Return a piece of a recipe in quotes, its backslashes as they stand in the file, safe to print."""
    return f"'{printable(text)}'"


def _place(fault: RecipeError) -> tuple[int, int]:
    where = fault.where
    return (where.line or 0, where.column or 0) if where is not None else (0, 0)
