"""Replacements: captures as Rust writes them, and arithmetic on captured numbers."""

from __future__ import annotations

import pytest

from importer.recipes.faults import TextError
from importer.recipes.language.patterns import parse_pattern
from importer.recipes.language.replacements import check_replacement, parse_replacement


def expanded(pattern: str, replacement: str, name: str) -> str:
    match = parse_pattern(pattern).search(name)
    assert match is not None
    parsed = parse_replacement(replacement)
    check_replacement(parsed, (parse_pattern(pattern),))
    return parsed.expand(match)


@pytest.mark.parametrize(
    ("pattern", "replacement", "name", "expected"),
    [
        pytest.param(r"layer(\d+)", "blocks.$1.x", "layer12", "blocks.12.x", id="a number ends at the dot"),
        pytest.param(r"(a)b", "$1_x", "ab", "a_x", id="a number ends at the underscore"),
        pytest.param(r"(a)b", "${1}0", "ab", "a0", id="braces"),
        pytest.param(r"(?<layer>\d+)b", "n${layer}", "7b", "n7", id="name"),
        pytest.param(r"(a)b", "$0$0", "ab", "abab", id="whole match"),
        pytest.param(r"(a)b", "$$1", "ab", "$1", id="dollar sign"),
        pytest.param(r"(a)?b", "[$1]", "b", "[]", id="a group that took no part is empty"),
        pytest.param(r"up\.{i}\.", "up.{3 - i}.", "up.1.", "up.2.", id="reversed index"),
        pytest.param(r"h\.{i}\.", "h.{i + 1}.", "h.9.", "h.10.", id="offset"),
        pytest.param(r"(?<i>\d+)b", "{i * 2}", "21b", "42", id="arithmetic on a named group"),
        pytest.param(r"{i}\.{j}", "{i * 10 + j}", "4.2", "42", id="two counters"),
        pytest.param(r"a", "", "a", "", id="nothing"),
        pytest.param(r"^(layer\d)\.", "$1.<Basic>.", "layer1.", "layer1.<Basic>.", id="variant"),
    ],
)
def test_a_match_expands(pattern: str, replacement: str, name: str, expected: str) -> None:
    assert expanded(pattern, replacement, name) == expected


@pytest.mark.parametrize(
    ("replacement", "what", "position"),
    [
        (r"a\1", "is no capture", 1),
        ("a$", "$ without a group number", 1),
        ("$name", "$ without a group number", 0),
        ("x${1", "must hold a group's number", 1),
        ("x{i", "{ without its }", 1),
        ("xi}", "} without its {", 2),
        ("x.{f(i)}", "is no call", 3),
    ],
)
def test_a_malformed_replacement_is_refused_with_its_position(replacement: str, what: str, position: int) -> None:
    with pytest.raises(TextError) as caught:
        parse_replacement(replacement)
    assert what in caught.value.what
    assert caught.value.position == position


@pytest.mark.parametrize("replacement", ["$2", "${other}", "{i}"])
def test_a_capture_the_pattern_lacks_is_refused(replacement: str) -> None:
    with pytest.raises(TextError):
        check_replacement(parse_replacement(replacement), (parse_pattern("(a)"),))


def test_a_near_name_is_suggested() -> None:
    with pytest.raises(TextError) as caught:
        check_replacement(parse_replacement("${lyer}"), (parse_pattern("(?<layer>a)"),))
    assert "layer" in caught.value.how


def test_a_negative_index_is_refused() -> None:
    with pytest.raises(TextError, match="gives"):
        expanded(r"up\.{i}\.", "up.{i - 3}.", "up.1.")


def test_arithmetic_on_a_word_is_refused() -> None:
    with pytest.raises(TextError, match="no number"):
        expanded(r"(?<i>\w+)\.", "{i + 1}", "abc.")


def test_questions_about_the_source_have_no_place_in_a_name() -> None:
    with pytest.raises(TextError):
        check_replacement(parse_replacement("{count('x')}"), (parse_pattern("a"),))


def test_a_replacement_shows_as_written() -> None:
    assert str(parse_replacement("$1.{i + 1}")) == "$1.{i + 1}"
