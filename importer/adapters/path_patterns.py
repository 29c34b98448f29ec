r"""Patterns that match some module paths and no other ones: `^layers\.\d+\.fc$`, `^seq\.(0|2)$`.

In the syntax of Rust's regex crate, which recipes speak. Not here: what the paths are, and how YAML quotes them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations

__all__ = ["pattern_of", "patterns_for"]

_OPEN = r"\d+"
_MOST_OPENED = 6
"""Numbers in one path that are tried in every combination; paths with more are written one by one."""
_NO_ESCAPE = frozenset("_ <>'")
"""What means itself and, in Rust's syntax, may have no backslash."""


def pattern_of(path: str) -> str:
    """Return a pattern for a path with every number open."""
    return _joined(_OPEN if segment.isdecimal() else _escaped(segment) for segment in path.split("."))


def patterns_for(paths: Sequence[str], others: Collection[str]) -> Iterator[str]:
    """Yield patterns that match all of these paths and none of the others; all of them differ in their numbers only.

    Numbers stay open where they may; those that may not are listed, at as few places as will do.
    """
    split = [path.split(".") for path in paths]
    places = [place for place, segment in enumerate(split[0]) if segment.isdecimal()]
    sizes = range(len(places) + 1) if len(places) <= _MOST_OPENED else ()
    tried = (_with_numbers(split, fixed) for size in sizes for fixed in combinations(places, size))
    for pattern in tried:
        if not any(map(re.compile(pattern).search, others)):
            yield pattern
            return
    for segments in split:
        yield _joined(map(_escaped, segments))


def _with_numbers(split: Sequence[Sequence[str]], fixed: Collection[int]) -> str:
    """Return the pattern in which the numbers at some places are those that occur there."""
    segments = []
    for place, segment in enumerate(split[0]):
        if place in fixed:
            numbers = list(dict.fromkeys(path[place] for path in split))
            segments.append(numbers[0] if len(numbers) == 1 else f"({'|'.join(numbers)})")
        else:
            segments.append(_OPEN if segment.isdecimal() else _escaped(segment))
    return _joined(segments)


def _joined(segments: Iterable[str]) -> str:
    return f"^{_escaped('.').join(segments)}$"


def _escaped(text: str) -> str:
    """Return text as a pattern for itself."""
    return "".join(map(_escaped_character, text))


def _escaped_character(one: str) -> str:
    if not one.isprintable():
        return rf"\U{ord(one):08x}"
    return one if one.isalnum() or one in _NO_ESCAPE or not one.isascii() else f"\\{one}"
