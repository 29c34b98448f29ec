"""Which built-in recipe fits a checkpoint: by what config.json says, else by the names of its tensors.

Each entry of `accepts` is a claim; the strongest claim that holds decides. Claims on values of config.json are stronger than
claims on its fields, and both are stronger than claims on tensor names; among equals the one with more conditions wins.
Two recipes with equally strong claims are a tie, and a tie is not decided here. Not here: the list of recipes (`library`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from importer.errors import shown
from importer.recipes.faults import as_written
from importer.recipes.language.patterns import Pattern
from importer.recipes.library import builtin_files, load_recipe, read_text
from importer.recipes.outcome import Choice
from importer.recipes.recipe import Accept

__all__ = ["choose_recipe"]

_LISTED = 3
_ARCHITECTURE_LIKE = 0.55
"""Likeness from which a class name is worth mentioning (`BertForQuestionAnswering` and `BertForMaskedLM` have 0.6)."""

_BY_CLASS, _BY_VALUE, _BY_FIELD, _BY_NAME = 4, 3, 2, 1
_Strength = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _Claim:
    """One recipe's strongest claim that holds."""

    recipe: str
    strength: _Strength
    why: str


def choose_recipe(config: Mapping[str, object] | None, names: Iterable[str]) -> Choice:
    """Return the built-in recipe for a checkpoint, with the reason; none where several fit equally well, or none does.

    Args:
        config: contents of config.json or params.json, or None.
        names: tensor names below the root.
    """
    from importer.recipes.reading.document import read_accepts

    known = tuple(names)
    facts = _Facts(config or {}, known, "\n".join(known))
    accepts = {path.stem: read_accepts(read_text(path), str(path)) for path in builtin_files()}
    claims = [claim for recipe, entries in accepts.items() if (claim := _strongest(recipe, entries, facts)) is not None]
    claims.sort(key=lambda claim: claim.strength, reverse=True)
    if not claims:
        return Choice(
            None, f"no built-in recipe is for this checkpoint ({facts.described()})", _nearest(accepts, facts)
        )
    best = [claim for claim in claims if claim.strength == claims[0].strength]
    if len(best) > 1:
        listed = " and ".join(claim.recipe for claim in best)
        return Choice(None, f"{listed} fit equally well", tuple((claim.recipe, claim.why) for claim in best))
    others = tuple((claim.recipe, claim.why) for claim in claims[1 : 1 + _LISTED])
    return Choice(load_recipe(best[0].recipe), best[0].why, others)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known about the checkpoint."""

    config: Mapping[str, object]
    names: Sequence[str]
    text: str

    def have(self, pattern: Pattern) -> bool:
        """Whether a tensor name matches; most patterns are settled by one look for their literal text."""
        return pattern.literal in self.text and any(pattern.search(name) for name in self.names)

    def classes(self) -> list[tuple[str, str, int]]:
        """Return the values that name a model in config.json: field, value, strength of a claim on it."""
        found: list[tuple[str, str, int]] = []
        for key, strength in (("architectures", _BY_CLASS), ("_class_name", _BY_CLASS), ("arch", _BY_CLASS)):
            value = self.config.get(key)
            values = value if isinstance(value, (list, tuple)) else (value,)
            found += [(key, text, strength) for text in values if isinstance(text, str)]
        # timm writes "architecture"; model_type is common to all heads of a family, so it says less.
        for key in ("architecture", "model_type"):
            value = self.config.get(key)
            if isinstance(value, str):
                found.append((key, value, _BY_VALUE))
        return found

    def described(self) -> str:
        """Return what the search had to go by."""
        classes = self.classes()
        if classes:
            return ", ".join(f"{key}: {shown(text)}" for key, text, _ in classes)
        return "by the tensor names" if self.names else "there are no tensors"


def _strongest(recipe: str, entries: Sequence[Accept], facts: _Facts) -> _Claim | None:
    held = [claim for entry in entries if (claim := _held(recipe, entry, facts)) is not None]
    return max(held, key=lambda claim: claim.strength, default=None)


def _held(recipe: str, entry: Accept, facts: _Facts) -> _Claim | None:
    """Return the claim an entry makes, if every condition holds."""
    if entry.identifier:
        for key, text, strength in facts.classes():
            if text == entry.identifier:
                return _Claim(recipe, (strength, 1), f"config.json says {key}: {text}")
        return None
    if not _config_holds(entry, facts) or not _names_hold(entry, facts):
        return None
    conditions = len(entry.config) + len(entry.has) + len(entry.names) + len(entry.without)
    if entry.config:
        fields = ", ".join(f"{key}: {facts.config.get(key)}" for key in entry.config)
        return _Claim(recipe, (_BY_VALUE, conditions), f"config.json says {fields}")
    if entry.has:
        return _Claim(recipe, (_BY_FIELD, conditions), f"config.json has {', '.join(entry.has)}")
    first = next((name for name in facts.names if entry.names and entry.names[0].search(name)), "")
    return _Claim(recipe, (_BY_NAME, conditions), f"the tensor names are this family's, such as {shown(first)}")


def _config_holds(entry: Accept, facts: _Facts) -> bool:
    present = all(key in facts.config for key in entry.has)
    return present and all(facts.config.get(key) in values for key, values in entry.config.items())


def _names_hold(entry: Accept, facts: _Facts) -> bool:
    return all(map(facts.have, entry.names)) and not any(map(facts.have, entry.without))


def _nearest(accepts: Mapping[str, Sequence[Accept]], facts: _Facts) -> tuple[tuple[str, str], ...]:
    """Return the recipes that come nearest: a similar class name, or some of the tensor names."""
    scored: list[tuple[float, str, str]] = []
    for recipe, entries in accepts.items():
        for entry in entries:
            score, why = _likeness(entry, facts)
            if score > 0:
                scored.append((score, recipe, why))
    best: dict[str, str] = {}
    for _, recipe, why in sorted(scored, key=lambda one: (-one[0], one[1])):
        best.setdefault(recipe, why)
    return tuple(best.items())[:_LISTED]


def _likeness(entry: Accept, facts: _Facts) -> tuple[float, str]:
    if entry.identifier:
        like = [(_ratio(text, entry.identifier), text) for _, text, _ in facts.classes()]
        ratio, text = max(like, default=(0.0, ""))
        why = f"it is for {entry.identifier}, which reads like {shown(text)}"
        return (ratio, why) if ratio >= _ARCHITECTURE_LIKE else (0.0, "")
    if not entry.names:
        return 0.0, ""
    matched = list(filter(facts.have, entry.names))
    against = list(filter(facts.have, entry.without))
    why = f"{len(matched)} of the {len(entry.names)} names it goes by are there"
    if against:
        why += f", and names it excludes ({as_written(against[0].text)})"
    return 0.9 * len(matched) / (len(entry.names) + len(against)), why


def _ratio(a: str, b: str) -> float:
    from difflib import SequenceMatcher

    return SequenceMatcher(None, a.lower(), b.lower()).ratio()
