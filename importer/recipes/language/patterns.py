r"""Patterns in the syntax of Rust's `regex` crate, translated for the Python module `regex`.

Recipes use Rust's syntax so that a user can paste the rules of a Burn program and take them back. What Rust refuses
(look-around, back-references, atomic groups) is refused here with its position; what differs in meaning is translated:
`$` is the very end of the name, `(?<n>…)` names a group, empty matches follow Rust's rule. One addition is not Rust's:
`{i}` stands for `(\d+)` with a name, for arithmetic in the replacement.

Not here: the reading of the syntax (`pattern_syntax`), and replacements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from importer.errors import LimitError, shown
from importer.limits import DEFAULT_LIMITS
from importer.recipes.faults import TextError, as_written
from importer.recipes.language.pattern_syntax import PatternParser

if TYPE_CHECKING:
    import regex

__all__ = ["Pattern", "parse_pattern"]

_MAX_TEXT = 2_000
"""Characters of one pattern. Real ones have 10 to 80."""


@dataclass(frozen=True, slots=True)
class Pattern:
    r"""A pattern that both Rust and this package understand alike.

    Attributes:
        text: as written.
        translated: for the Python module `regex`.
        groups: name of each capture group from 1 on, None for an unnamed one.
        counters: groups written `{i}`, whose text is a number.
        literal: text that every match contains, for a quick look before the search; "" if there is none for sure.
        dotted: the same pattern with every bare `.` captured, to see what it matched; "" without such a dot.
    """

    text: str
    translated: str = field(compare=False, repr=False)
    groups: tuple[str | None, ...] = field(default=(), compare=False, repr=False)
    counters: frozenset[str] = field(default=frozenset(), compare=False, repr=False)
    literal: str = field(default="", compare=False, repr=False)
    dotted: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    def search(self, text: str, timeout: float = DEFAULT_LIMITS.regex_timeout_seconds) -> regex.Match[str] | None:
        """Return the first match anywhere in `text`.

        Raises:
            LimitError: the search took longer than `timeout` seconds.
        """
        if self.literal and self.literal not in text:
            return None
        try:
            return _compiled(self.translated).search(text, timeout=timeout)
        except TimeoutError as error:
            raise self._too_slow(text, timeout) from error

    def fullmatch(self, text: str, timeout: float = DEFAULT_LIMITS.regex_timeout_seconds) -> bool:
        """Whether the pattern matches all of `text`."""
        try:
            return _compiled(self.translated).fullmatch(text, timeout=timeout) is not None
        except TimeoutError as error:
            raise self._too_slow(text, timeout) from error

    def find_all(self, text: str, timeout: float = DEFAULT_LIMITS.regex_timeout_seconds) -> list[regex.Match[str]]:
        """Return the matches that Rust's `replace_all` replaces.

        They do not overlap, and an empty match directly after another match does not count.

        Raises:
            LimitError: the search took longer than `timeout` seconds.
        """
        if self.literal and self.literal not in text:
            return []
        found: list[regex.Match[str]] = []
        try:
            for match in _compiled(self.translated).finditer(text, timeout=timeout):
                if match.start() == match.end() and found and found[-1].end() == match.start():
                    continue
                found.append(match)
        except TimeoutError as error:
            raise self._too_slow(text, timeout) from error
        return found

    def strayed_dot(self, text: str, timeout: float = DEFAULT_LIMITS.regex_timeout_seconds) -> str | None:
        """Return a character other than a dot that a bare `.` of the pattern matched in `text`, if there is one."""
        if not self.dotted:
            return None
        try:
            match = _compiled(self.dotted).search(text, timeout=timeout)
        except TimeoutError as error:
            raise self._too_slow(text, timeout) from error
        strays = (value for name, value in match.groupdict().items() if name.startswith("dot__")) if match else ()
        return next((value for value in strays if value not in (None, ".")), None)

    def _too_slow(self, text: str, timeout: float) -> LimitError:
        return LimitError(
            f"the pattern {as_written(self.text)} does not get through the name {shown(text)}",
            limit="regex_timeout_seconds",
            allowed=timeout,
            actual=timeout,
            how="Simplify the pattern: one repetition inside another, such as (a+)+, is the usual cause.",
        )


@lru_cache(maxsize=4_096)
def _compiled(translated: str) -> regex.Pattern[str]:
    import regex

    return regex.compile(translated, regex.VERSION1)


def parse_pattern(text: str) -> Pattern:
    """Return the pattern in `text`.

    Raises:
        TextError: Rust's `regex` would refuse it, or it uses something this package leaves out; with the position.
    """
    if len(text) > _MAX_TEXT:
        raise TextError(f"a pattern of {len(text)} characters is too long", how=f"Keep it below {_MAX_TEXT}.")
    parser = PatternParser(text)
    parser.parse()
    plain, dotted = "".join(parser.plain), "".join(parser.dotted)
    return Pattern(
        text=text,
        translated=plain,
        groups=tuple(parser.groups),
        counters=frozenset(parser.counters),
        literal="" if parser.ignores_case else parser.literal,
        dotted=dotted if dotted != plain else "",
    )
