"""From single moves to a few ordered rename rules, as a person would write them.

Rules are anchored on both sides. Numbers that go over unchanged become captures, siblings that differ in one word become
an alternative, common endings are left alone. Whatever comes out is run on all names before it is taken; where the short
form would touch other names, a longer one is used. Not here: what moves (`importer.suggest.comparison`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from importer.arrays import full
from importer.checkpoint import Tensor
from importer.dtypes import F32
from importer.errors import RecipeError
from importer.recipes import apply_recipe, parse_recipe
from importer.suggest.comparison import Move
from importer.suggest.quoting import pattern_text, quoted

__all__ = ["RenameRule", "rename_rules"]

_LONGEST_SEGMENT = 200
"""Characters of a segment in which a word is looked for; no field has a name like that."""
_SETTLED = "="
"""Put before names that are done, where one rule's outcome looks like another's source; a last rule removes it."""


_NOTHING = full(0, F32, ())


@dataclass(frozen=True, slots=True)
class RenameRule:
    """One line of `rename`."""

    pattern: str
    replacement: str

    def __str__(self) -> str:
        """Return the pair as a recipe writes it."""
        return f"[{quoted(self.pattern)}, {quoted(self.replacement)}]"


@dataclass(frozen=True, slots=True)
class _Choice:
    """A capture in a segment: fixed text, the captured words (none: any number), fixed text."""

    before: str
    words: tuple[str, ...]
    after: str


_Segment = str | _Choice


@dataclass(frozen=True, slots=True)
class _Draft:
    """A rule in the making: source segments, and target segments whose captures are numbered from 1 by `refs`."""

    source: tuple[_Segment, ...]
    target: tuple[tuple[str, int, str], ...]
    is_tensor: bool

    def pattern(self) -> str:
        """Return the regex."""
        return f"^{_DOT.join(map(_segment_pattern, self.source))}{'$' if self.is_tensor else _DOT}"

    def replacement(self) -> str:
        """Return the new text."""
        segments = (
            f"{_escaped(before)}{_reference(ref, after) if ref else ''}{_escaped(after)}"
            for before, ref, after in self.target
        )
        text = ".".join(segments)
        return text if self.is_tensor or not text else f"{text}."

    def literals(self) -> int:
        """Count fixed segments: rules with more of them speak first."""
        return sum(isinstance(segment, str) for segment in self.source)


@dataclass(frozen=True, slots=True)
class _RuleMember:
    """A draft that may be joined with others: the word that differs, where it stands, and what is around it."""

    draft: _Draft
    source_place: int
    target_place: int
    choice: _Choice
    around: tuple[str, str]


_DOT = pattern_text(".")


def _escaped(text: str) -> str:
    return text.replace("$", "$$")


def _reference(number: int, after: str) -> str:
    """Return `$1`, or `${1}` where a letter or digit follows."""
    return f"${{{number}}}" if after else f"${number}"


def _segment_pattern(segment: _Segment) -> str:
    if isinstance(segment, str):
        return pattern_text(segment)
    inner = "|".join(map(pattern_text, segment.words)) if segment.words else r"\d+"
    return f"{pattern_text(segment.before)}({inner}){pattern_text(segment.after)}"


def rename_rules(moves: Sequence[Move], names: Sequence[str]) -> tuple[RenameRule, ...]:
    """Return rules that take every move's names where they belong and leave all other names apart.

    Args:
        moves: what is to become what.
        names: every tensor name of the checkpoint that is not dropped.
    """
    wanted = _wanted(moves, names)
    changing = [move for move in moves if move.source != move.target]
    attempts = (
        _rules(_shortened(changing), ""),
        _rules(changing, ""),
        _rules(changing, _SETTLED),
        _rules(moves, _SETTLED),  # what stays where it is may have to be said as well
    )
    return next((rules for rules in attempts if _outcome(rules, wanted) == wanted), attempts[-1])


def _wanted(moves: Iterable[Move], names: Sequence[str]) -> dict[str, str]:
    """Return what every moving name is to become."""
    tensors = {move.source: move.target for move in moves if move.is_tensor}
    modules = {move.source: move.target for move in moves if not move.is_tensor}
    wanted: dict[str, str] = {}
    for name in names:
        path = name
        while path and path not in modules:
            path = path.rpartition(".")[0]
        if name in tensors:
            wanted[name] = tensors[name]
        elif path:
            wanted[name] = modules[path] + name[len(path) :]
    return wanted


def _outcome(rules: Sequence[RenameRule], names: Iterable[str]) -> dict[str, str]:
    """Return what the engine makes of the names; nothing for the names that the rules would let collide.

    Nothing at all where a name cannot be written as a rule, as one with braces in it.
    """
    lines = (f"- {rule}" for rule in rules)
    text = "\n".join(["recipe: 1", "name: tried", "strip: []", "rename:" if rules else "rename: []", *lines])
    tensors = {name: Tensor(name, _NOTHING) for name in names}
    try:
        entries = apply_recipe(parse_recipe(text), tensors, None).entries
    except RecipeError:
        return {}
    return {entry.sources[0]: entry.name for entry in entries}


def _shortened(moves: Sequence[Move]) -> list[Move]:
    """Cut common endings off, where at least two moves then say the same."""
    cut = {move: _without_ending(move) for move in moves}
    users: dict[tuple[str, str], int] = {}
    for move in moves:
        users[_shape_of(cut[move])] = users.get(_shape_of(cut[move]), 0) + 1
    kept: dict[Move, None] = {}
    for move in moves:
        short = cut[move]
        kept[short if users[_shape_of(short)] > 1 else move] = None
    return list(kept)


def _without_ending(move: Move) -> Move:
    source, target = move.source.split("."), move.target.split(".")
    while len(source) > 1 and target and source[-1] == target[-1]:
        source.pop()
        target.pop()
    shorter = len(source) < len(move.source.split("."))
    return Move(".".join(source), ".".join(target), is_tensor=move.is_tensor and not shorter)


def _shape_of(move: Move) -> tuple[str, str]:
    return re.sub(r"\b\d+\b", "#", move.source), re.sub(r"\b\d+\b", "#", move.target)


def _rules(moves: Sequence[Move], settled: str) -> tuple[RenameRule, ...]:
    drafts = _merged(_with_numbers(moves))
    drafts.sort(key=lambda draft: (-draft.literals(), len(draft.source)))
    rules = tuple(RenameRule(one.pattern(), settled + one.replacement()) for one in drafts)
    return (*rules, RenameRule(f"^{settled}", "")) if settled else rules


def _with_numbers(moves: Sequence[Move]) -> list[_Draft]:
    """Turn numbers that go over unchanged into captures, unless moves to other places would match the same pattern."""
    users: dict[_Draft, list[Move]] = {}
    for move in moves:
        users.setdefault(_captured(move), []).append(move)
    patterns = Counter(draft.source for draft in users)
    largest = {draft.source: draft for draft in sorted(users, key=lambda draft: len(users[draft]))}
    out: list[_Draft] = []
    for draft, found in users.items():
        # Fixed numbers speak first, so one of those that share a pattern may keep it: the one most moves need.
        if patterns[draft.source] == 1 or largest[draft.source] is draft:
            out.append(draft)
        else:
            out += [_Draft(tuple(m.source.split(".")), _fixed(m.target), m.is_tensor) for m in found]
    return out


def _captured(move: Move) -> _Draft:
    """Return a draft in which every number that both sides have, in the same order, is a capture."""
    source: list[_Segment] = []
    numbers = [(place, text) for place, text in enumerate(move.target.split(".")) if text.isdecimal()]
    references: dict[int, int] = {}
    for segment in move.source.split("."):
        found = next((n for n, (_, text) in enumerate(numbers) if text == segment), None)
        if segment.isdecimal() and found is not None:
            references[numbers[found][0]] = len(references) + 1
            numbers = numbers[found + 1 :]
            source.append(_Choice("", (), ""))
        else:
            source.append(segment)
    target = tuple(
        ("", references[place], "") if place in references else (text, 0, "")
        for place, text in enumerate(move.target.split("."))
    )
    return _Draft(tuple(source), target if move.target else (), move.is_tensor)


def _fixed(path: str) -> tuple[tuple[str, int, str], ...]:
    return tuple((segment, 0, "") for segment in path.split(".")) if path else ()


def _merged(drafts: Sequence[_Draft]) -> list[_Draft]:
    """Join drafts that differ in one word on each side into one with an alternative."""
    ways = {id(draft): dict(_mergeable(draft)) for draft in drafts}
    users = Counter(key for found in ways.values() for key in found)
    groups: dict[object, list[_RuleMember]] = {}
    out: list[_Draft] = []
    for draft in drafts:
        key = max(ways[id(draft)], key=lambda key: users[key], default=None)
        if key is None or users[key] == 1:
            out.append(draft)
        else:
            groups.setdefault(key, []).append(ways[id(draft)][key])
    return [*(_joined(members) for members in groups.values()), *out]


def _mergeable(draft: _Draft) -> Iterator[tuple[object, _RuleMember]]:
    """Yield the ways in which one word of a draft may become an alternative: what its partners share, and the word."""
    for s, segment in enumerate(draft.source):
        for t, (text, ref, _) in enumerate(draft.target):
            if not isinstance(segment, str) or ref or not (word := _common(segment, text)):
                continue
            before, _, after = segment.partition(word)
            left, _, right = text.partition(word)
            rest = draft.source[:s], draft.source[s + 1 :], draft.target[:t], draft.target[t + 1 :]
            key = (rest, before, after, left, right, draft.is_tensor)
            yield key, _RuleMember(draft, s, t, _Choice(before, (word,), after), (left, right))


@lru_cache(maxsize=4096)
def _common(one: str, other: str) -> str:
    """Return the longest text both have, whole words first, the first of equals."""
    if min(len(one), len(other)) > _LONGEST_SEGMENT:
        return ""
    words = [word for word in one.split("_") if word and word in other.split("_")]
    fitting = [word for word in words if _is_word_in(word, one) and _is_word_in(word, other)]
    if fitting:
        return max(fitting, key=len)
    for length in range(min(len(one), len(other)), 0, -1):
        for begin in range(len(one) - length + 1):
            text = one[begin : begin + length]
            if text in other and _is_word_in(text, one) and _is_word_in(text, other):
                return text
    return ""


def _is_word_in(text: str, segment: str) -> bool:
    """Whether a text stands in a segment and cuts no number apart."""
    before, found, after = segment.partition(text)
    cut = (before[-1:] + text[:1]).isdecimal() * len(before) or (text[-1:] + after[:1]).isdecimal() * len(after)
    return bool(found) and not cut and text == text.strip("_")


def _joined(members: Sequence[_RuleMember]) -> _Draft:
    first = members[0]
    draft, s = first.draft, first.source_place
    if len(members) == 1:
        return draft
    words = tuple(dict.fromkeys(member.choice.words[0] for member in members))
    if all(word.isdecimal() for word in words):
        words = tuple(sorted(words, key=int))
    source = (*draft.source[:s], replace(first.choice, words=words), *draft.source[s + 1 :])
    number = 1 + sum(isinstance(segment, _Choice) for segment in draft.source[:s])
    target = [(text, ref + 1 if ref >= number else ref, after) for text, ref, after in draft.target]
    target[first.target_place] = (first.around[0], number, first.around[1])
    return _Draft(source, tuple(target), draft.is_tensor)
