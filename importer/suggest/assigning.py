"""Which module of one block becomes which: first what names and shapes settle, then the rest in order, marked.

A row is one module of a block together with its twins in every repetition of the block, so that all repetitions are
decided alike. Not here: finding the blocks (`importer.suggest.aligning`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from importer.errors import UsageError
from importer.suggest.fitting import Fitter
from importer.suggest.likeness import are_foreign, likeness, says_the_same
from importer.suggest.source_modules import SourceModule
from importer.suggest.target_modules import TargetModule

__all__ = ["Pair", "SourceRow", "TargetRow", "assign"]

_MAX_PAIRS = 1_000_000
"""Pairs of modules in one block. The largest models have blocks of some 50 modules."""
_MARGIN = 0.1
"""By how much a pair of names must be more alike than every rival pair."""
_ORDER_WEIGHT = 0.25
"""How much distance in order counts against likeness of names, where nothing better is left."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceRow:
    """A module of the checkpoint in every repetition of its block; `path` is relative to the block."""

    path: str
    units: tuple[SourceModule, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TargetRow:
    """A module of the target in every repetition of its block; `path` is relative to the block."""

    path: str
    units: tuple[TargetModule, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two rows that belong together, the layers that fit, and what is not sure about it ("" if nothing)."""

    source: SourceRow
    target: TargetRow
    kinds: tuple[str, ...]
    doubt: str = ""


def assign(sources: Sequence[SourceRow], targets: Sequence[TargetRow], fitter: Fitter) -> tuple[Pair, ...]:
    """Pair the rows of one block; what fits nowhere stays unpaired."""
    table = _Table(sources, targets, fitter)
    while True:
        for step in (table.by_name, table.by_elimination, table.by_parent):
            if step():
                break
        else:
            break
    table.by_order()
    return tuple(table.pairs)


class _Table:
    """The fitting pairs that are still open, and those decided."""

    def __init__(self, sources: Sequence[SourceRow], targets: Sequence[TargetRow], fitter: Fitter) -> None:
        self.pairs: list[Pair] = []
        self._sources = dict(enumerate(sources))
        self._targets = dict(enumerate(targets))
        _check_size(len(sources), len(targets))
        self._open: dict[int, dict[int, tuple[str, ...]]] = {}
        self._rivals: dict[int, set[int]] = {s: set() for s in self._sources}
        self._likeness: dict[tuple[int, int], float] = {}
        for t, target in self._targets.items():
            fitting = {s: kinds for s, source in self._sources.items() if (kinds := _kinds(source, target, fitter))}
            self._open[t] = fitting
            for s in fitting:
                self._rivals[s].add(t)
            self._likeness.update({(s, t): likeness(self._sources[s].path, target.path) for s in fitting})
        self._is_complete = len(sources) == len(targets)
        self._parents: set[tuple[str, str]] = set()
        self._source_parents = {s: _parent(source.path) for s, source in self._sources.items()}
        self._target_parents = {t: _parent(target.path) for t, target in self._targets.items()}

    def by_name(self) -> bool:
        """Decide the pairs whose names say the same, and no rival comes near."""
        return self._decide(
            (s, t, "")
            for s, t in self._pairs()
            if says_the_same(self._sources[s].path, self._targets[t].path) and self._leads(s, t)
        )

    def by_elimination(self) -> bool:
        """Decide one pair where nothing else is left on either side."""
        for t, fitting in self._open.items():
            for s in fitting if len(fitting) == 1 else ():
                if len(self._rivals[s]) == 1:
                    return self._decide([(s, t, self._foreign(s, t))])
        return False

    def by_parent(self) -> bool:
        """Decide the pairs that are the only ones between two parents of which other children are paired."""
        between: dict[tuple[str, str], list[tuple[int, int]]] = {}
        for s, t in self._pairs():
            parents = (self._source_parents[s], self._target_parents[t])
            if parents in self._parents:
                between.setdefault(parents, []).append((s, t))
        only = {pair for pairs in between.values() for pair in _alone(pairs)}
        for s, t in self._pairs() if only else ():
            if (s, t) in only:
                return self._decide([(s, t, self._foreign(s, t))])
        return False

    def by_order(self) -> None:
        """Decide the rest by names and order, each with a mark."""
        sources, targets = self._ranks()
        longest = max(len(sources), len(targets), 1)
        alike_targets = {t: len(fitting) for t, fitting in self._open.items()}
        alike_sources = {s: len(rivals) for s, rivals in self._rivals.items()}
        scored = (
            (_ORDER_WEIGHT * (abs(sources[s] - targets[t]) / longest) - self._likeness[s, t], t, s)
            for s, t in self._pairs()
        )
        for _, t, s in sorted(scored):
            if t in self._open and s in self._open[t]:
                self._decide([(s, t, f"1 of {max(alike_targets[t], alike_sources[s])} of this shape")])

    def _foreign(self, s: int, t: int) -> str:
        """Return a doubt where only shapes and place speak, and there is more on one side than on the other."""
        foreign = not self._is_complete and are_foreign(self._sources[s].path, self._targets[t].path)
        return "the name does not say so" if foreign else ""

    def _ranks(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return the places of the rows that are open, in the order of their sides."""
        sources = {s: n for n, s in enumerate(s for s, rivals in sorted(self._rivals.items()) if rivals)}
        targets = {t: n for n, t in enumerate(t for t, fitting in sorted(self._open.items()) if fitting)}
        return sources, targets

    def _pairs(self) -> list[tuple[int, int]]:
        return [(s, t) for t, fitting in self._open.items() for s in fitting]

    def _leads(self, s: int, t: int) -> bool:
        """Whether the names are more alike than those of every other pair with either side."""
        least = self._likeness[s, t] - _MARGIN
        return all(self._likeness[other, t] < least for other in self._open[t] if other != s) and all(
            self._likeness[s, other] < least for other in self._rivals[s] if other != t
        )

    def _decide(self, found: Iterator[tuple[int, int, str]] | Sequence[tuple[int, int, str]]) -> bool:
        decided = list(found)
        for s, t, doubt in decided:
            source, target = self._sources[s], self._targets[t]
            self.pairs.append(Pair(source, target, self._open[t][s], doubt))
            if not doubt:
                self._parents.add(_parents(source, target))
            for other in self._open.pop(t):
                self._rivals[other].discard(t)
            for rival in self._rivals[s]:
                del self._open[rival][s]
            self._rivals[s] = set()
        return bool(decided)


def _kinds(source: SourceRow, target: TargetRow, fitter: Fitter) -> tuple[str, ...]:
    """Return the layers that fit in every repetition, the likeliest first."""
    kinds: tuple[str, ...] | None = None
    for one, other in zip(source.units, target.units, strict=True):
        fitting = [candidate.kind for candidate in fitter.candidates(one, other)]
        kinds = tuple(kind for kind in fitting if kinds is None or kind in kinds)
        if not kinds:
            return ()
    return kinds or ()


def _parents(source: SourceRow, target: TargetRow) -> tuple[str, str]:
    return _parent(source.path), _parent(target.path)


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _alone(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pairs of which neither side is in another one."""
    sources, targets = Counter(s for s, _ in pairs), Counter(t for _, t in pairs)
    return [(s, t) for s, t in pairs if sources[s] == targets[t] == 1]


def _check_size(sources: int, targets: int) -> None:
    """Refuse to compare what nobody could check.

    Raises:
        UsageError: there are too many modules that stand beside one another; repeated ones count once.
    """
    if sources * targets > _MAX_PAIRS:
        raise UsageError(
            f"{sources} modules of the source would be compared with {targets} of the target, one by one",
            how="Write the recipe by hand, for one part of the model at a time (--root KEY).",
        )
