"""Tensors while a recipe works on them, and the record of what the rules did.

Not here: the rules (`importer.recipes.applying.engine`, `steps`), and the frozen outcome.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from importer.arrays import Array
from importer.recipes.outcome import Entry, Problem, Skipped, TrailStep
from importer.recipes.recipe import RuleRef

__all__ = ["ChangeLog", "WorkingTensor", "merged"]

_SHOWN_NAMES = 3


@dataclass(slots=True)
class WorkingTensor:
    """One tensor on its way; `identity` tells one stored tensor under two names."""

    name: str
    array: Array
    sources: tuple[str, ...]
    trail: tuple[TrailStep, ...] = ()
    identity: object = None

    def touch(self, rule: RuleRef, name: str | None = None, array: Array | None = None) -> None:
        """Give it a new name or new values, and note the rule."""
        after = self.name if name is None else name
        self.trail = (*self.trail, TrailStep(rule, self.name, after))
        self.name = after
        if array is not None:
            self.array = array

    def part(self, rule: RuleRef, name: str, array: Array) -> WorkingTensor:
        """Return a tensor made of this one."""
        return WorkingTensor(name, array, self.sources, (*self.trail, TrailStep(rule, self.name, name)))

    def entry(self) -> Entry:
        """Return it frozen."""
        return Entry(self.name, self.array, self.sources, self.trail)


def merged(rule: RuleRef, items: list[WorkingTensor], name: str, array: Array) -> WorkingTensor:
    """Return a tensor made of several, with the history of all of them."""
    names = [item.name for item in items]
    before = " + ".join(names[:_SHOWN_NAMES])
    if len(names) > _SHOWN_NAMES:
        before += f" + {len(names) - _SHOWN_NAMES} more"
    sources = tuple(dict.fromkeys(source for item in items for source in item.sources))
    trail = dict.fromkeys(step for item in items for step in item.trail)
    return WorkingTensor(name, array, sources, (*trail, TrailStep(rule, before, name)))


@dataclass(slots=True)
class ChangeLog:
    """What happened besides the tensors that came through."""

    skipped: list[Skipped] = field(default_factory=list)
    faults: list[Problem] = field(default_factory=list)
    used: set[RuleRef] = field(default_factory=set)
    warnings: dict[tuple[RuleRef, str], str] = field(default_factory=dict)

    def skip(self, item: WorkingTensor, rule: RuleRef | None, reason: str) -> None:
        """Note a tensor that is left out."""
        self.skipped += [Skipped(source, reason if rule is None else str(rule), reason) for source in item.sources]

    def fault(self, name: str, what: str, how: str, rule: RuleRef | None, sources: tuple[str, ...] = ()) -> None:
        """Note what is wrong with a tensor, and which sources are lost by it."""
        self.faults.append(Problem(name, what if rule is None else f"{rule}: {what}", how, sources))

    def warn(self, rule: RuleRef, kind: str, text: str) -> None:
        """Note what is probably not meant; one warning of a kind for each rule is enough."""
        self.warnings.setdefault((rule, kind), f"{rule}: {text}")

    def idle(self, rules: Iterable[RuleRef]) -> tuple[RuleRef, ...]:
        """Return the rules that did nothing."""
        return tuple(rule for rule in rules if rule not in self.used)
