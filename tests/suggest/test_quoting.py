"""Names as YAML: one printable line that reads back as the name."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from importer.errors import RecipeError
from importer.recipes import parse_recipe
from importer.suggest.quoting import pattern_text, quoted


@given(text=st.text(max_size=40))
def test_a_quoted_name_is_one_printable_line_and_reads_back(text: str) -> None:
    assert quoted(text).isprintable()
    assert yaml.safe_load(quoted(text)) == text


@pytest.mark.parametrize(
    "text", ["a.\x1b]0;owned\x07b", "a.b\nextends: x.yaml\n#", "a.\u202eb", "a.# x: y", "a'b", 'a"b', "\U000e0001"]
)
def test_a_name_that_a_terminal_would_obey_is_escaped(text: str) -> None:
    assert quoted(text).isprintable()
    assert yaml.safe_load(quoted(text)) == text


@pytest.mark.parametrize("text", ["a b#c", "a.b*c", "(a|b)", "a\nb", "\\d", "[x]{2}^$", "a-b&c~d"])
def test_a_name_is_a_pattern_that_rust_and_the_recipes_know(text: str) -> None:
    recipe = f"recipe: 1\nname: t\nrename: []\ndrop:\n  - {quoted(f'^{pattern_text(text)}$')}\n"
    (rule,) = parse_recipe(recipe).drop
    assert rule.pattern.search(text)


def test_a_sign_that_means_nothing_must_not_be_escaped() -> None:
    with pytest.raises(RecipeError, match="escape"):
        parse_recipe("recipe: 1\nname: t\ndrop: ['a\\ b']\n")
