"""Which built-in recipe fits a checkpoint: by what config.json says, and by the names of its tensors only where it says nothing.

Each entry of `accepts` is a claim; the strongest claim that holds decides. Where config.json names a class, only claims on
classes and on values of the config count; where it names a model_type alone, claims on names must allow that type. A claim
stands only if the recipe's conditions (`unless`, `requires`) hold as well. Two recipes with equally strong claims are a tie,
and a tie is not decided here. Not here: the list of recipes (`library`), and what a user decides with `--recipe`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from importer.arrays import Array
from importer.errors import shown
from importer.limits import DEFAULT_LIMITS
from importer.recipes.applying.scopes import ConfigScope, class_names
from importer.recipes.applying.wrappers import unwrapped
from importer.recipes.faults import TextError, as_written
from importer.recipes.language.expressions import UnknownNameError
from importer.recipes.language.patterns import Pattern
from importer.recipes.library import builtin_files, load_recipe, read_text
from importer.recipes.outcome import Choice, NamedArray, Near
from importer.recipes.recipe import Accept, Condition, Recipe

__all__ = ["choose_recipe", "objections"]

_LISTED = 3
_MOST_CLASSES, _LONGEST_CLASS = 8, 200
"""Class names of a config that are looked at, and characters of one that are compared; real ones name one or two."""
_ARCHITECTURE_LIKE = 0.55
"""Likeness from which a class name is worth mentioning (`BertForQuestionAnswering` and `BertForMaskedLM` have 0.6)."""

_BEGINNING = 3

_BY_CLASS, _BY_VALUE, _BY_FIELD, _BY_NAME = 4, 3, 2, 1
_Strength = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Claim:
    """One claim of a recipe that holds, its conditions not yet looked at."""

    recipe: str
    strength: _Strength
    why: str
    entry: Accept


def choose_recipe(config: Mapping[str, object] | None, tensors: Iterable[str] | Mapping[str, NamedArray]) -> Choice:
    """Return the built-in recipe for a checkpoint, with the reason; none where several fit equally well, or none does.

    Args:
        config: contents of config.json or params.json, or None.
        tensors: those below the root, or their names; by names alone, conditions on shapes are not judged.
    """
    facts = _facts(config, tensors)
    accepts = {path.stem: _accepts_of(path) for path in builtin_files()}
    claims = [claim for recipe, entries in accepts.items() if (claim := _strongest(recipe, entries, facts)) is not None]
    claims.sort(key=lambda claim: claim.strength, reverse=True)
    refused: list[Near] = []
    while claims:
        best = [claim for claim in claims if claim.strength == claims[0].strength]
        fitting = [claim for claim in best if not _note_refusal(claim, facts, refused)]
        if len(fitting) > 1:
            listed = " and ".join(claim.recipe for claim in fitting)
            return Choice(None, f"{listed} fit equally well", tuple(Near(one.recipe, one.why) for one in fitting))
        claims = claims[len(best) :]
        if fitting:
            others = tuple(Near(one.recipe, one.why) for one in claims[:_LISTED])
            return Choice(load_recipe(fitting[0].recipe), fitting[0].why, others)
    if refused:
        return Choice(None, f"{refused[0].why}, and {refused[0].against[0]}", tuple(refused))
    return Choice(None, facts.unclaimed(), _nearest(accepts, facts))


def objections(
    recipe: Recipe, config: Mapping[str, object] | None, tensors: Iterable[str] | Mapping[str, NamedArray]
) -> tuple[str, ...]:
    """Return what speaks against a recipe that was asked for: a class it does not accept, conditions that do not hold."""
    facts = _facts(config, tensors)
    found = list(_differences(recipe.accepts, facts))
    if facts.classes and any(entry.is_claim for entry in recipe.accepts) and not _accepted(recipe, facts):
        found.insert(0, f"{facts.described()}, which {recipe.name} does not accept")
    return (*found, *_unmet(recipe, (), facts))


@lru_cache(maxsize=128)
def _accepts_of(path: Path) -> tuple[Accept, ...]:
    from importer.recipes.reading.document import read_accepts

    return read_accepts(read_text(path), str(path))


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known about the checkpoint."""

    config: Mapping[str, object]
    tensors: Mapping[str, NamedArray]
    names: Sequence[str]
    classes: Sequence[tuple[str, str]]
    model_type: str
    text: str = field(repr=False)

    def have(self, pattern: Pattern) -> bool:
        """Whether a tensor name matches; most patterns are settled by one look for their literal text."""
        return pattern.literal in self.text and any(pattern.search(name) for name in self.names)

    def said(self) -> list[tuple[str, str]]:
        """Return the values that name a model in config.json, each with its field; model_type says least."""
        kind = [("model_type", self.model_type)] if self.model_type else []
        return [*self.classes, *kind]

    def described(self) -> str:
        """Return what the search had to go by."""
        if self.said():
            told = self.classes or self.said()
            return "config.json says " + ", ".join(f"{key}: {shown(text)}" for key, text in told)
        return "by the tensor names" if self.names else "there are no tensors"

    def unclaimed(self) -> str:
        """Return why there is no claim."""
        if self.classes:
            return f"{self.described()}, and no built-in recipe accepts that class"
        return f"no built-in recipe is for this checkpoint ({self.described()})"


class _Shapeless:
    """A tensor known by name alone; a condition that asks for its shape is not judged."""

    identity: object = None

    @property
    def array(self) -> Array:
        """Raise: nothing but the name is known."""
        raise UnknownNameError("the shapes are not known here", how="Open the checkpoint.")


def _facts(config: Mapping[str, object] | None, tensors: Iterable[str] | Mapping[str, NamedArray]) -> _Facts:
    given = tuple(tensors)
    known = tuple(unwrapped(given))
    held = [tensors[name] for name in given] if isinstance(tensors, Mapping) else [_Shapeless()] * len(known)
    kind = (config or {}).get("model_type")
    return _Facts(
        config=config or {},
        tensors=dict(zip(known, held, strict=True)),
        names=known,
        classes=class_names(config)[:_MOST_CLASSES],
        model_type=kind if isinstance(kind, str) else "",
        text="\n".join(known),
    )


def _strongest(recipe: str, entries: Sequence[Accept], facts: _Facts) -> _Claim | None:
    held = [claim for entry in entries if (claim := _held(recipe, entry, facts)) is not None]
    return max(held, key=lambda claim: claim.strength, default=None)


def _held(recipe: str, entry: Accept, facts: _Facts) -> _Claim | None:
    """Return the claim an entry makes, if it may speak here and everything it names is so."""
    if entry.identifier or entry.classes:
        return _held_class(recipe, entry, facts)
    if not entry.is_claim or not _config_holds(entry, facts) or not _names_hold(entry, facts):
        return None
    conditions = len(entry.config) + len(entry.has) + len(entry.names) + len(entry.without)
    if entry.config:
        fields = ", ".join(f"{key}: {facts.config.get(key)}" for key in entry.config)
        return _Claim(recipe, (_BY_VALUE, conditions), f"config.json says {fields}", entry)
    if facts.classes or (facts.model_type and facts.model_type not in entry.model_types):
        return None
    if entry.has:
        return _Claim(recipe, (_BY_FIELD, conditions), f"config.json has {', '.join(entry.has)}", entry)
    first = next((name for name in facts.names if entry.names and entry.names[0].search(name)), "")
    return _Claim(recipe, (_BY_NAME, conditions), f"the tensor names are this family's, such as {shown(first)}", entry)


def _held_class(recipe: str, entry: Accept, facts: _Facts) -> _Claim | None:
    """Return the claim on a class, or on a model_type where no class is named."""
    for key, text in facts.said():
        if key == "model_type" and facts.classes:
            continue
        fits = len(text) <= _LONGEST_CLASS and any(pattern.fullmatch(text) for pattern in entry.classes)
        if text != entry.identifier and not fits:
            continue
        if _config_holds(entry, facts) and _names_hold(entry, facts):
            strength = _BY_VALUE if key == "model_type" else _BY_CLASS
            conditions = 1 + len(entry.config) + len(entry.names) + len(entry.without)
            return _Claim(recipe, (strength, conditions), f"config.json says {key}: {text}", entry)
    return None


def _config_holds(entry: Accept, facts: _Facts) -> bool:
    present = all(key in facts.config for key in entry.has)
    return present and all(facts.config.get(key) in values for key, values in entry.config.items())


def _names_hold(entry: Accept, facts: _Facts) -> bool:
    return all(map(facts.have, entry.names)) and not any(map(facts.have, entry.without))


def _accepted(recipe: Recipe, facts: _Facts) -> bool:
    return any(_held(recipe.name, entry, facts) is not None for entry in recipe.accepts)


def _note_refusal(claim: _Claim, facts: _Facts, refused: list[Near]) -> bool:
    """Whether the conditions of a claim forbid it; if so, note why."""
    against = tuple(_unmet(load_recipe(claim.recipe), claim.entry.conditions, facts))
    if against:
        refused.append(Near(claim.recipe, claim.why, against))
    return bool(against)


def _unmet(recipe: Recipe, own: Iterable[Condition], facts: _Facts) -> Iterator[str]:
    """Yield the reason of every condition that does not hold; one over a field that is not there is not judged."""
    scope = ConfigScope(recipe.config, facts.config, facts.tensors, DEFAULT_LIMITS.regex_timeout_seconds)
    common = (one for entry in recipe.accepts if not entry.is_claim for one in entry.conditions)
    for condition in (*own, *common):
        try:
            holds = bool(scope.value(condition.expression))
        except UnknownNameError:
            continue
        except TextError as error:
            raise error.at(condition.rule.location) from error
        if holds is not condition.wanted:
            said = "says" if not condition.wanted else "does not say"
            place = f"{condition.rule.file}:{condition.rule.line}"
            yield f"the config {said} {as_written(condition.expression.text)}: {condition.reason} ({place})"


def _differences(entries: Iterable[Accept], facts: _Facts) -> Iterator[str]:
    """Yield what is written down about the classes the config names: the same names, something else computed."""
    for other in (one for entry in entries for one in entry.unlike):
        for text in (text for _, text in facts.said() if other.pattern.fullmatch(text)):
            yield f"{shown(text)}: {other.reason} ({other.rule.file}:{other.rule.line})"


def _nearest(accepts: Mapping[str, Sequence[Accept]], facts: _Facts) -> tuple[Near, ...]:
    """Return the recipes that come nearest: by all their tensor names, else by some of them or a similar class name."""
    scored = [*_by_names(accepts, facts)]
    if not any(score >= 1 for score, _, _ in scored):
        scored += _by_classes(accepts, facts)
    best: dict[str, str] = {}
    for _, recipe, why in sorted(scored, key=lambda one: (-one[0], one[1])):
        best.setdefault(recipe, why)
    return tuple(
        Near(recipe, why, tuple(_differences(accepts[recipe], facts))) for recipe, why in list(best.items())[:_LISTED]
    )


def _by_names(accepts: Mapping[str, Sequence[Accept]], facts: _Facts) -> Iterator[tuple[float, str, str]]:
    """Yield score, recipe and reason of every entry for names of which some are there."""
    for recipe, entry in ((recipe, entry) for recipe, entries in accepts.items() for entry in entries if entry.names):
        matched = list(filter(facts.have, entry.names))
        against = list(filter(facts.have, entry.without)) if matched else []
        if len(matched) == len(entry.names) and not against:
            yield 1.0 + len(matched) + len(entry.without), recipe, "the tensor names resemble its own"
        elif matched:
            why = f"{len(matched)} of the {len(entry.names)} names it goes by are there"
            if against:
                why += f", and names it excludes ({as_written(against[0].text)})"
            yield 0.9 * len(matched) / (len(entry.names) + len(against)), recipe, why


def _by_classes(accepts: Mapping[str, Sequence[Accept]], facts: _Facts) -> Iterator[tuple[float, str, str]]:
    """Yield score, recipe and reason of every class whose name reads like one that the config says."""
    for recipe, entry in ((recipe, entry) for recipe, entries in accepts.items() for entry in entries):
        for text in (text for _, text in facts.said() if entry.identifier and len(text) <= _LONGEST_CLASS):
            ratio = _ratio(text, entry.identifier)
            if ratio > 0:
                yield ratio, recipe, f"it is for {entry.identifier}, which reads like {shown(text)}"


def _ratio(a: str, b: str) -> float:
    """Return how alike two class names are; 0 where they are not, or begin unlike: the family stands first."""
    from difflib import SequenceMatcher

    if a[:_BEGINNING].lower() != b[:_BEGINNING].lower():
        return 0.0
    ratio = SequenceMatcher(None, a.lower(), b.lower()).ratio()
    return ratio if ratio >= _ARCHITECTURE_LIKE else 0.0
