"""Einops-like patterns: `'(h two r) ... -> (h r two) ...'` as one reshape, one permutation and one reshape.

Grammar: names, `1`, `()`, one `...` per side, and groups in parentheses. Every name stands once on each side; unknown
sizes are inferred, one per group. Not here: names of recipes (they arrive as numbers in `sizes`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import EllipsisType

from importer.arrays.nodes import Array
from importer.arrays.views import permute, reshape
from importer.errors import TensorError, shown

__all__ = ["AxisPattern", "parse_axis_pattern", "rearrange"]

_WORD = re.compile(r"\s*(\.\.\.|->|[()]|1\b|[A-Za-z_][A-Za-z0-9_]*)")
_REST = "..."
_HOW = "Correct the pattern; it reads like '(h two r) ... -> (h r two) ...'."

Side = tuple[tuple[str, ...] | EllipsisType, ...]
"""One side of a pattern: per axis the names it is made of, `()` for a size of one; `...` for any number of axes."""


@dataclass(frozen=True, slots=True)
class AxisPattern:
    """A checked pattern: what each side's axes are made of."""

    text: str
    before: Side
    after: Side


def rearrange(array: Array, pattern: str, sizes: Mapping[str, int] | None = None) -> Array:
    """Return the array with its axes split, reordered and joined as the pattern says.

    Raises:
        TensorError: the pattern is faulty, or the shape does not fit it.
    """
    parsed = parse_axis_pattern(pattern)
    axes = _bound(parsed, array.shape, sizes or {})
    order = [name for group in parsed.after for name in _members(group, axes)]
    names = list(axes)
    split = reshape(array, tuple(axes.values()))
    moved = permute(split, [names.index(name) for name in order])
    shape: list[int] = []
    for group in parsed.after:
        members = [axes[name] for name in _members(group, axes)]
        shape += members if group is ... else [math.prod(members)]
    return reshape(moved, shape)


@lru_cache(maxsize=256)
def parse_axis_pattern(text: str) -> AxisPattern:
    """Check a pattern by itself, without a shape.

    Raises:
        TensorError: it is not well-formed, or a name is missing on one side or stands twice.
    """
    sides: list[list[tuple[str, ...] | EllipsisType]] = [[]]
    group: list[str] | None = None
    for word in _words(text):
        match word:
            case "->" if group is None and len(sides) == 1:
                sides.append([])
            case "(" if group is None:
                group = []
            case ")" if group is not None:
                sides[-1].append(tuple(group))
                group = None
            case "->" | "(" | ")":
                raise _fault(text, f"{word!r} cannot stand there")
            case _ if group is not None:
                group += [] if word == "1" else [word]
            case "...":
                sides[-1].append(...)
            case _:
                sides[-1].append(() if word == "1" else (word,))
    if group is not None or len(sides) == 1:
        raise _fault(text, "a ')' is missing" if group is not None else "'->' is missing")
    before, after = (tuple(side) for side in sides)
    _check_names(text, before, after)
    return AxisPattern(text, before, after)


def _words(text: str) -> list[str]:
    words = []
    position = 0
    while text[position:].strip():
        found = _WORD.match(text, position)
        if found is None:
            raise _fault(text, f"{shown(text[position:].strip()[0])} has no meaning here")
        words.append(found[1])
        position = found.end()
    return words


def _check_names(text: str, before: Side, after: Side) -> None:
    names = [[name for group in side for name in ((_REST,) if group is ... else group)] for side in (before, after)]
    for side in names:
        for name in side:
            if side.count(name) > 1:
                raise _fault(text, f"{shown(name)} stands twice on one side")
    for name in {*names[0]} ^ {*names[1]}:
        raise _fault(text, f"{shown(name)} stands on one side only")
    if any(group is not ... and _REST in group for group in before):
        raise _fault(text, "'...' on the left cannot be part of a group")


def _bound(pattern: AxisPattern, shape: tuple[int, ...], sizes: Mapping[str, int]) -> dict[str, int]:
    """Return every elementary axis of the left side with its size, in order; the rest as `...0`, `...1` and so on."""
    fixed = sum(group is not ... for group in pattern.before)
    spare = len(shape) - fixed
    if spare < 0 or (spare and fixed == len(pattern.before)):
        raise _fault(pattern.text, f"it has {fixed} axes, the tensor's shape is {list(shape)}")
    axes: dict[str, int] = {}
    position = 0
    for group in pattern.before:
        if group is ...:
            axes |= {f"{_REST}{index}": shape[position + index] for index in range(spare)}
            position += spare
        else:
            axes |= _group_sizes(pattern, group, shape[position], sizes)
            position += 1
    return axes


def _group_sizes(pattern: AxisPattern, group: tuple[str, ...], size: int, sizes: Mapping[str, int]) -> dict[str, int]:
    known = math.prod(sizes.get(name, 1) for name in group)
    unknown = [name for name in group if name not in sizes]
    if len(unknown) > 1:
        raise _fault(pattern.text, f"the sizes of {' and '.join(unknown)} cannot be told apart; give all but one")
    if unknown and known > 0 and size % known == 0:
        return {name: sizes.get(name, size // known) for name in group}
    if unknown or known != size:
        given = ", ".join(f"{name}={sizes[name]}" for name in group if name in sizes) or "1"
        raise _fault(pattern.text, f"an axis of size {size} cannot be made of ({' '.join(group)}) with {given}")
    return {name: sizes[name] for name in group}


def _members(group: tuple[str, ...] | EllipsisType, axes: Mapping[str, int]) -> list[str]:
    """Return a group's elementary axes, with `...` replaced by what it stands for."""
    rest = [name for name in axes if name.startswith(_REST)]
    if group is ...:
        return rest
    return [name for member in group for name in (rest if member == _REST else [member])]


def _fault(text: str, what: str) -> TensorError:
    return TensorError(f"pattern {shown(text)}: {what}", how=_HOW)
