"""Matching: Rust's rules for empty matches, the quick look before the search, and the timeout."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.errors import LimitError
from importer.recipes.language.patterns import parse_pattern

LITERALS = st.sampled_from(["a", "b", r"\.", "layer", "_1"])
ATOMS = st.one_of(LITERALS, st.sampled_from([r"\d+", r"[^.]+", "x*", "(a|b)?", r"(\d+)", "(?:ab)+", ".", ".*", "a{2}"]))
PATTERNS = st.lists(ATOMS, min_size=1, max_size=6).map("".join)
TEXTS = st.text(alphabet="ab.layer_1x0", max_size=20)


@given(PATTERNS, TEXTS)
def test_the_common_subset_matches_as_the_standard_library_does(pattern: str, text: str) -> None:
    ours, theirs = parse_pattern(pattern).search(text), re.search(pattern, text)
    assert (ours and (ours.span(), ours.groups())) == (theirs and (theirs.span(), theirs.groups()))


@given(st.lists(PATTERNS, min_size=1, max_size=3).map("|".join), TEXTS)
def test_every_match_contains_the_literal_looked_for_first(pattern: str, text: str) -> None:
    match = re.search(pattern, text)
    if match is not None:
        assert parse_pattern(pattern).literal in match[0]


@given(st.text(max_size=30))
def test_an_escaped_text_matches_itself(text: str) -> None:
    escaped = "".join(f"\\{char}" if char in r"\.+*?()|[]{}^$#&-~<>" else char for char in text)
    if "<" in text or ">" in text:
        escaped = escaped.replace("\\<", "<").replace("\\>", ">")
    assert parse_pattern(escaped).fullmatch(text)


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [
        (r"^model\.", "model."),
        (r"\.self_attn\.([qkvo])_proj\.", ".self_attn."),
        (r"(layers\.\d+)\.x", "layers."),
        (r"a|b", ""),
        (r"(?:abc)?d", "d"),
        (r"ab?c", "a"),
        (r"ab{2}cde", "cde"),
        (r"(?i)model", ""),
        (r"\d+", ""),
    ],
)
def test_the_literal_is_the_longest_run_for_sure(pattern: str, literal: str) -> None:
    assert parse_pattern(pattern).literal == literal


def test_an_empty_match_directly_after_a_match_does_not_count() -> None:
    # Rust's regex 1.7.1: replace_all of `x*` by `-` in "axb" gives "-a-b-"; Python's re gives "-a--b-".
    spans = [match.span() for match in parse_pattern("x*").find_all("axb")]
    assert spans == [(0, 0), (1, 2), (3, 3)]


def test_a_runaway_pattern_ends_with_a_limit_error() -> None:
    with pytest.raises(LimitError) as caught:
        parse_pattern("^(a|aa)+$").search("a" * 60 + "b", timeout=0.05)
    assert caught.value.limit == "regex_timeout_seconds"


def test_a_runaway_replacement_search_ends_with_a_limit_error() -> None:
    with pytest.raises(LimitError):
        parse_pattern("^(a|aa)+$").find_all("a" * 60 + "b", timeout=0.05)


def test_a_bare_dot_that_matched_something_else_is_told() -> None:
    assert parse_pattern(r"features\.\d+.conv").strayed_dot("features.10xconv") == "x"


@pytest.mark.parametrize("text", ["features.10.conv"])
def test_a_bare_dot_that_matched_a_dot_is_not_told(text: str) -> None:
    assert parse_pattern(r"features\.\d+.conv").strayed_dot(text) is None


def test_a_bare_dot_in_a_repeated_group_is_looked_at() -> None:
    assert parse_pattern(r"^(\d.)+w$").strayed_dot("1.2xw") == "x"


def test_repeated_dots_are_meant() -> None:
    assert parse_pattern(r"(.+)norm.*").strayed_dot("xnormy") is None


def test_a_runaway_whole_match_ends_with_a_limit_error() -> None:
    with pytest.raises(LimitError):
        parse_pattern("(a|aa)+").fullmatch("a" * 60 + "b", timeout=0.05)


def test_a_runaway_look_for_strayed_dots_ends_with_a_limit_error() -> None:
    with pytest.raises(LimitError):
        parse_pattern("^(a|aa)+.$").strayed_dot("a" * 60 + "bb", timeout=0.05)


def test_a_name_without_the_literal_has_no_matches() -> None:
    assert parse_pattern(r"^model\.").find_all("encoder.x") == []
