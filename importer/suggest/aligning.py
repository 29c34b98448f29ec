"""Both sides laid side by side: repeated blocks first, list by list, then the modules of each block, then the rest.

Not here: the modules of one block (`importer.suggest.assigning`), and what a file holds under another form - fused,
tied, lone (`importer.suggest.fused_and_tied`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from importer.suggest.assigning import Pair, SourceRow, TargetRow, assign
from importer.suggest.fitting import Fitter
from importer.suggest.likeness import likeness, says_the_same
from importer.suggest.source_modules import SourceModule
from importer.suggest.target_modules import Shape, TargetModule

__all__ = ["Alignment", "align"]

_LEAST_FIT = 0.4
"""Share of the modules, of the side that has more, that must have one of their shape on the other side."""
_NEAR = 0.2
"""Difference of two scores below which a choice of lists is marked."""

_NUMBERED = re.compile(r"(?P<word>(?:\w*\D)?)(?P<number>\d+)")

_Content = Counter[tuple[Shape, ...]]


@dataclass(frozen=True, slots=True)
class Alignment:
    """Pairs of rows, and the units of both sides that have none."""

    pairs: tuple[Pair, ...]
    left_sources: tuple[SourceModule, ...]
    left_targets: tuple[TargetModule, ...]

    def paired_targets(self) -> tuple[TargetModule, ...]:
        """Return the units of the target that have a partner."""
        return tuple(unit for pair in self.pairs for unit in pair.target.units)


def align(sources: Sequence[SourceModule], targets: Sequence[TargetModule]) -> Alignment:
    """Pair the modules of a checkpoint with those of a target."""
    fitter = Fitter()
    pairs = _align(
        [SourceRow(unit.path, (unit,)) for unit in sources],
        [TargetRow(unit.path, (unit,)) for unit in targets],
        fitter,
    )
    used = {id(unit) for pair in pairs for unit in (*pair.source.units, *pair.target.units)}
    return Alignment(
        tuple(pairs),
        tuple(unit for unit in sources if id(unit) not in used),
        tuple(unit for unit in targets if id(unit) not in used),
    )


@dataclass(slots=True)
class _SourceList:
    """A path with numbered children: number → rows below it, paths relative to the element."""

    path: str
    elements: dict[int, list[SourceRow]] = field(default_factory=dict)
    contents: tuple[_Content, ...] = ()


@dataclass(slots=True)
class _TargetList:
    """As `_SourceList`, of the other side."""

    path: str
    elements: dict[int, list[TargetRow]] = field(default_factory=dict)
    contents: tuple[_Content, ...] = ()


@dataclass(frozen=True, slots=True)
class _ListPair:
    source: _SourceList
    target: _TargetList
    score: float
    doubt: str = ""


def _align(sources: Sequence[SourceRow], targets: Sequence[TargetRow], fitter: Fitter) -> list[Pair]:
    """Pair the rows of one block: its lists element by element, and what stands outside of them."""
    pairs: list[Pair] = []
    for found in _paired_lists(sources, targets):
        pairs += _align_elements(found, fitter)
    done_sources = {id(unit) for pair in pairs for unit in pair.source.units}
    done_targets = {id(unit) for pair in pairs for unit in pair.target.units}
    rest = assign(
        [row for row in sources if id(row.units[0]) not in done_sources],
        [row for row in targets if id(row.units[0]) not in done_targets],
        fitter,
    )
    return [*pairs, *_with_inherited_doubt(rest, pairs)]


def _with_inherited_doubt(rest: Iterable[Pair], pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Doubt what was left over where a doubtful pair of the same shape may have taken the right partner away."""
    doubtful = {_shape_key(unit.params.values()) for pair in pairs if pair.doubt for unit in pair.target.units}
    for pair in rest:
        is_settled = pair.doubt or says_the_same(pair.source.path, pair.target.path)
        if is_settled or _shape_key(pair.target.units[0].params.values()) not in doubtful:
            yield pair
        else:
            yield replace(pair, doubt="others of this shape are doubtful")


def _align_elements(found: _ListPair, fitter: Fitter) -> list[Pair]:
    """Pair the modules of list elements; elements built alike on both sides are decided together."""
    groups: dict[tuple[object, object], list[tuple[list[SourceRow], list[TargetRow]]]] = {}
    in_order = zip(sorted(found.source.elements), sorted(found.target.elements), strict=True)
    for s, t in in_order:
        rows = found.source.elements[s], found.target.elements[t]
        likewise = (
            frozenset((row.path, tuple(row.units[0].leaves)) for row in rows[0]),
            frozenset((row.path, tuple(row.units[0].params)) for row in rows[1]),
        )
        groups.setdefault(likewise, []).append(rows)
    pairs: list[Pair] = []
    for elements in groups.values():
        sources: dict[str, list[SourceModule]] = {}
        targets: dict[str, list[TargetModule]] = {}
        for source_rows, target_rows in elements:
            for row in source_rows:
                sources.setdefault(row.path, []).extend(row.units)
            for other in target_rows:
                targets.setdefault(other.path, []).extend(other.units)
        pairs += _align(
            [SourceRow(path, tuple(units)) for path, units in sources.items()],
            [TargetRow(path, tuple(units)) for path, units in targets.items()],
            fitter,
        )
    return [replace(pair, doubt=pair.doubt or found.doubt) for pair in pairs]


def _paired_lists(sources: Sequence[SourceRow], targets: Sequence[TargetRow]) -> list[_ListPair]:
    """Return the lists that belong together, outer ones of the target first; none lies inside another."""
    source_lists, target_lists = _source_lists(sources), _target_lists(targets)
    found: list[_ListPair] = []
    for depth in sorted({one.path.count(".") for one in target_lists}):
        scored = [
            _ListPair(source, target, score)
            for target in target_lists
            if target.path.count(".") == depth
            for source in source_lists
            if (score := _score(source, target)) > _LEAST_FIT
        ]
        for one in sorted(scored, key=lambda pair: (-pair.score, pair.source.path.count("."))):
            if not any(_touch(one.source.path, o.source.path) or _touch(one.target.path, o.target.path) for o in found):
                found.append(_with_doubt(one, scored))
    return found


def _with_doubt(one: _ListPair, scored: Sequence[_ListPair]) -> _ListPair:
    near = [
        other
        for other in scored
        if other is not one
        and (other.source is one.source or other.target is one.target)
        and other.score > one.score - _NEAR
    ]
    return replace(one, doubt=f"from {one.source.path}? another list would fit as well" if near else "")


def _touch(one: str, other: str) -> bool:
    """Whether one path is the other, or lies below it."""
    return one == other or f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _score(source: _SourceList, target: _TargetList) -> float:
    """Return how well two lists of equal length agree in shapes, and a little in names; 0 for other lengths."""
    if len(source.elements) != len(target.elements):
        return 0
    shares = [
        sum((one & other).values()) / max(1, sum(one.values()), sum(other.values()))
        for one, other in zip(source.contents, target.contents, strict=True)
    ]
    fit = sum(shares) / len(shares)
    return fit + likeness(source.path, target.path) if fit >= _LEAST_FIT else 0


def _source_lists(rows: Sequence[SourceRow]) -> list[_SourceList]:
    lists: dict[str, _SourceList] = {}
    for row in rows:
        for path, number, below in _numbered(row.path, words=True):
            one = lists.setdefault(path, _SourceList(path))
            one.elements.setdefault(number, []).append(SourceRow(below, row.units))
    for one in lists.values():
        one.contents = tuple(
            _content(
                [a.shape for leaf, a in row.units[0].leaves.items() if leaf != "num_batches_tracked"]
                for row in one.elements[number]
            )
            for number in sorted(one.elements)
        )
    return list(lists.values())


def _target_lists(rows: Sequence[TargetRow]) -> list[_TargetList]:
    lists: dict[str, _TargetList] = {}
    for row in rows:
        for path, number, below in _numbered(row.path):
            one = lists.setdefault(path, _TargetList(path))
            one.elements.setdefault(number, []).append(TargetRow(below, row.units))
    for one in lists.values():
        one.contents = tuple(
            _content(row.units[0].params.values() for row in one.elements[number]) for number in sorted(one.elements)
        )
    return list(lists.values())


def _content(modules: Iterable[Iterable[Shape]]) -> _Content:
    """Return the shapes of an element's modules, however oriented."""
    return Counter(map(_shape_key, modules))


def _shape_key(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    return tuple(sorted(tuple(sorted(shape)) for shape in shapes))


def _numbered(path: str, *, words: bool = False) -> Iterable[tuple[str, int, str]]:
    """Yield (path of the list, number, path below it) for every number in a path.

    Args:
        path: dotted path.
        words: whether words that end in a number (`denselayer3`) count, as files name what Burn holds in a `Vec`.
    """
    segments = path.split(".")
    for place, segment in enumerate(segments):
        match = _NUMBERED.fullmatch(segment)
        if match is None or not (words if match["word"] else place > 0):
            continue
        yield (
            ".".join([*segments[:place], *([match["word"]] if match["word"] else [])]),
            int(match["number"]),
            ".".join(segments[place + 1 :]),
        )
