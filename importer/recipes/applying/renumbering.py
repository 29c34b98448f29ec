"""Closing the holes in numbered names, by Burn's contiguous index mapping, for chosen prefixes.

`nn.Sequential` counts its activations, a Burn `Vec<Linear>` does not: `fc.0`, `fc.2`, `fc.4` become `fc.0`, `fc.1`, `fc.2`.
The algorithm is that of burn-store's index mapping (burn-spec 4.5): every position at once, each number replaced by its
rank among the numbers with the same original prefix. Not here: which prefixes (`renumber` of a recipe).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

__all__ = ["Renumbered", "renumber"]

_MAX_INDEX = (1 << 64) - 1
"""Burn parses a segment as usize; what does not fit is no number."""

Renumbered = dict[str, tuple[str, str]]
"""Name that changes -> its new name, and the prefix of the first number that did."""


def renumber(names: Iterable[str], chosen: Callable[[str], bool]) -> Renumbered:
    """Return the names that change.

    Args:
        names: all names; the set decides the ranks.
        chosen: whether the numbers behind a prefix (`fc.`, "" for leading numbers) are renumbered.
    """
    numbered = {name: found for name in names if (found := _numbers(name, chosen))}
    values: dict[str, set[int]] = {}
    for found in numbered.values():
        for prefix, (_, number) in found.items():
            values.setdefault(prefix, set()).add(number)
    ranks = {prefix: {number: rank for rank, number in enumerate(sorted(seen))} for prefix, seen in values.items()}
    changed: Renumbered = {}
    for name, found in numbered.items():
        segments = name.split(".")
        first = ""
        for prefix, (position, number) in found.items():
            rank = str(ranks[prefix][number])
            if segments[position] != rank:
                segments[position] = rank
                first = first or prefix
        new = ".".join(segments)
        if new != name:
            changed[name] = (new, first)
    return changed


def _numbers(name: str, chosen: Callable[[str], bool]) -> dict[str, tuple[int, int]]:
    """Return prefix -> position and number, for every numeric segment behind a chosen prefix."""
    found: dict[str, tuple[int, int]] = {}
    prefix = ""
    for position, segment in enumerate(name.split(".")):
        digits = segment.removeprefix("+")
        if digits.isascii() and digits.isdigit() and len(digits) <= len(str(_MAX_INDEX)):
            number = int(digits)
            if number <= _MAX_INDEX and chosen(prefix):
                found[prefix] = (position, number)
        prefix = f"{prefix}{segment}."
    return found
