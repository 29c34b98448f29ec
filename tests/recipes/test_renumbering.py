"""Closing holes in numbers: the worked table of burn-spec 4.5, and what holds for any set of names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.recipes import apply_recipe, parse_recipe
from importer.recipes.applying.renumbering import renumber
from tests.builders.named import of_names

SEGMENTS = st.one_of(st.sampled_from(["a", "b", "w"]), st.integers(0, 12).map(str))
NAMES = st.lists(st.lists(SEGMENTS, min_size=1, max_size=5).map(".".join), min_size=1, max_size=12, unique=True)


def everything(names: list[str]) -> list[str]:
    changed = renumber(names, lambda _prefix: True)
    return [changed[name][0] if name in changed else name for name in names]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("fc.0.w fc.2.w fc.4.w", "fc.0.w fc.1.w fc.2.w"),
        (
            "f.layers.0.cb.0 f.layers.0.cb.2 f.layers.2.cb.0 f.layers.2.cb.2",
            "f.layers.0.cb.0 f.layers.0.cb.1 f.layers.1.cb.0 f.layers.1.cb.1",
        ),
        ("dec.1.w dec.5.w", "dec.0.w dec.1.w"),
        ("3.weight 7.weight", "0.weight 1.weight"),
        ("a.10.w a.9.w", "a.1.w a.0.w"),
        ("a.0.x a.1.x", "a.0.x a.1.x"),
        ("a.007.x a.9.x", "a.0.x a.1.x"),
        ("a.+3.x a.4.x", "a.0.x a.1.x"),
        ("a.99999999999999999999.x a.5.x", "a.99999999999999999999.x a.0.x"),
        ("a.-1.x a.5.x", "a.-1.x a.0.x"),
    ],
)
def test_holes_close_as_in_burn(names: str, expected: str) -> None:
    assert everything(names.split()) == expected.split()


@given(NAMES)
def test_renumbering_twice_changes_nothing_more(names: list[str]) -> None:
    once = everything(names)
    assert everything(once) == once


@given(NAMES)
def test_numbers_behind_one_prefix_become_a_range(names: list[str]) -> None:
    behind: dict[str, set[int]] = {}
    for name in everything(names):
        segments = name.split(".")
        for position, segment in enumerate(segments):
            if segment.isdigit():
                behind.setdefault(".".join(segments[:position]), set()).add(int(segment))
    assert all(numbers == set(range(len(numbers))) for numbers in behind.values())


@given(NAMES)
def test_names_stay_distinct_and_words_stay(names: list[str]) -> None:
    after = everything(names)
    assert len(set(after)) == len(names)
    for old, new in zip(names, after, strict=True):
        assert [s for s in old.split(".") if not s.isdigit()] == [s for s in new.split(".") if not s.isdigit()]


@given(NAMES)
def test_nothing_changes_where_no_prefix_is_chosen(names: list[str]) -> None:
    assert renumber(names, lambda _prefix: False) == {}


def test_a_recipe_renumbers_only_the_prefixes_it_names() -> None:
    recipe = parse_recipe("recipe: 1\nname: x\ntypes: []\nrenumber: ['^fc\\.']\n", "x.yaml")
    outcome = apply_recipe(recipe, of_names("fc.0.w", "fc.3.5.w", "flows.0.w", "flows.2.w"), None)
    assert [entry.name for entry in outcome.entries] == ["fc.0.w", "fc.1.5.w", "flows.0.w", "flows.2.w"]
    assert str(outcome.entries[1].trail[0].rule) == r"x.yaml:4 renumber '^fc\.'"


def test_true_renumbers_everything() -> None:
    recipe = parse_recipe("recipe: 1\nname: x\ntypes: []\nrenumber: true\n")
    outcome = apply_recipe(recipe, of_names("a.1.w", "b.4.2.w"), None)
    assert [entry.name for entry in outcome.entries] == ["a.0.w", "b.0.0.w"]
