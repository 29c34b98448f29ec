r"""Replacements: text with `$1`, `${1}`, `${name}`, `$$`, and arithmetic on captured numbers (`{i + 1}`, `{3 - i}`).

Unlike Rust, a bare `$1` ends after its digits, so `$1_x` is group 1 followed by `_x` (Rust would look for a group named
`1_x` and put nothing there). A segment in angle brackets (`<Basic>`) is an enum variant of the Burn module. Not here: the
patterns whose groups a replacement names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from importer.errors import did_you_mean, shown
from importer.recipes.faults import TextError, as_written
from importer.recipes.language.expressions import Expression, Value, evaluate, parse_expression
from importer.recipes.language.patterns import Pattern

if TYPE_CHECKING:
    import regex

__all__ = ["Replacement", "check_replacement", "parse_replacement"]

_MAX_DIGITS = 18
"""Digits of a captured number; keeps it within 64 bits."""
_MAX_GROUP_DIGITS = 3

_Part: TypeAlias = "str | _Group | Expression"


@dataclass(frozen=True, slots=True)
class _Group:
    key: int | str
    position: int


@dataclass(frozen=True, slots=True)
class Replacement:
    """A checked replacement: its text and the parts it consists of."""

    text: str
    parts: tuple[_Part, ...] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    def expand(self, match: regex.Match[str], numbers: Mapping[str, int] | None = None) -> str:
        """Return the text for one match; a group that took no part is empty, as in Rust.

        Args:
            match: of a pattern the replacement was checked against.
            numbers: further names for arithmetic (`i` of `unstack`).

        Raises:
            TextError: arithmetic on a capture that is no number, or a negative result.
        """
        return "".join(
            part
            if isinstance(part, str)
            else (match[part.key] or "")
            if isinstance(part, _Group)
            else _computed(part, match, numbers or {})
            for part in self.parts
        )


@dataclass(frozen=True, slots=True)
class _Captures:
    """Scope of a replacement's arithmetic: numeric captures by name."""

    values: Mapping[str, int]

    def lookup(self, name: str) -> Value:
        if name in self.values:
            return self.values[name]
        how = did_you_mean(name, self.values, "Name a number in the pattern with {i}.")
        raise TextError(f"{shown(name)} is no number that the pattern captures", how=how)

    def ask(self, function: str, text: str) -> Value:
        raise TextError(f"{function}({shown(text)}) is not available here", how="Use it under config.")


def _computed(part: Expression, match: regex.Match[str], numbers: Mapping[str, int]) -> str:
    captured = {
        name: int(text)
        for name, text in match.groupdict().items()
        if name in part.names and text is not None and text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    }
    value = evaluate(part, _Captures({**captured, **numbers}))
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        what = f"{{{part}}} gives {shown(repr(value))} for {shown(match.string)}"
        raise TextError(what, how="Index arithmetic must give a whole number of at least 0.")
    return str(value)


def parse_replacement(text: str) -> Replacement:
    r"""Return the replacement in `text`.

    Raises:
        TextError: an unclosed `${` or `{`, a lone `$`, or `\1` (Python's spelling).
    """
    parts: list[_Part] = []
    position = 0
    while position < len(text):
        part, position = _next_part(text, position)
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        else:
            parts.append(part)
    return Replacement(text, tuple(parts))


def check_replacement(replacement: Replacement, patterns: Iterable[Pattern], extra: Iterable[str] = ()) -> None:
    """Refuse groups and names that one of the patterns does not capture.

    Args:
        replacement: to check.
        patterns: every one must have the groups.
        extra: names known besides the captures.

    Raises:
        TextError: with the position in the replacement.
    """
    more = set(extra)
    for pattern in patterns:
        names = {name for name in pattern.groups if name is not None}
        for part in replacement.parts:
            if isinstance(part, _Group):
                _check_group(part, pattern, names)
            elif isinstance(part, Expression) and not part.names <= names | more:
                wrong = min(part.names - names - more)
                how = did_you_mean(wrong, names | more, f"Write {{{wrong}}} in the pattern where the number stands.")
                raise TextError(f"{as_written(pattern.text)} captures no number {shown(wrong)}", how=how)


def _check_group(part: _Group, pattern: Pattern, names: set[str]) -> None:
    count = len(pattern.groups)
    if isinstance(part.key, int) and part.key > count:
        what = f"${part.key} does not exist: {as_written(pattern.text)} has {count} groups"
        raise TextError(what, how="Count the opening parentheses; write $$ for a dollar sign.", position=part.position)
    if isinstance(part.key, str) and part.key not in names:
        what = f"${{{part.key}}} does not exist in {as_written(pattern.text)}"
        raise TextError(what, how=did_you_mean(part.key, names, "Name the group (?<name>…)."), position=part.position)


def _next_part(text: str, start: int) -> tuple[_Part, int]:
    char = text[start]
    if char == "$":
        return _dollar(text, start)
    if char == "{":
        return _arithmetic(text, start)
    if char == "}":
        raise TextError("a } without its {", how="Names hold no braces; remove it.", position=start)
    if char == "\\":
        how = "Write $1 for group 1; a backslash has no meaning in a replacement."
        raise TextError(f"{as_written(text[start : start + 2])} is no capture", how=how, position=start)
    return char, start + 1


def _dollar(text: str, start: int) -> tuple[_Part, int]:
    if text.startswith("$$", start):
        return "$", start + 2
    if text.startswith("${", start):
        end = text.find("}", start)
        key = text[start + 2 : end] if end > 0 else ""
        if not (key.isascii() and (key.isdigit() or key.isidentifier())) or len(key) > _MAX_DIGITS:
            raise TextError("${…} must hold a group's number or name", how="Write ${1} or ${name}.", position=start)
        return _Group(int(key) if key.isdigit() else key, start), end + 1
    end = start + 1
    while end < len(text) and text[end] in "0123456789" and end - start <= _MAX_GROUP_DIGITS:
        end += 1
    if end == start + 1:
        how = "Write $1, ${name}, or $$ for a dollar sign."
        raise TextError("a $ without a group number", how=how, position=start)
    return _Group(int(text[start + 1 : end]), start), end


def _arithmetic(text: str, start: int) -> tuple[_Part, int]:
    end = text.find("}", start)
    if end < 0:
        raise TextError("a { without its }", how="Write {i + 1} for arithmetic on a captured number.", position=start)
    try:
        return parse_expression(text[start + 1 : end]), end + 1
    except TextError as error:
        position = start + 1 + (error.position or 0)
        raise TextError(error.what, how=error.how, position=position) from error
