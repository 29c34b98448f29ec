"""Enum variants in names."""

from __future__ import annotations

import pytest

from importer.recipes import Variants, apply_recipe, parse_recipe
from importer.recipes.applying.variants import with_variants
from tests.builders.named import of_names


@pytest.mark.parametrize(
    ("name", "kept", "skipped"),
    [
        ("layer1.blocks.0.<Basic>.conv1.weight", "layer1.blocks.0.Basic.conv1.weight", "layer1.blocks.0.conv1.weight"),
        ("<A>.<B>.w", "A.B.w", "w"),
        ("a.b", "a.b", "a.b"),
        ("a.<>.b", "a.<>.b", "a.<>.b"),
    ],
)
def test_variants_become_segments_or_vanish(name: str, kept: str, skipped: str) -> None:
    assert with_variants(name, "keep") == kept
    assert with_variants(name, "skip") == skipped


@pytest.mark.parametrize(("asked", "expected"), [(None, "a.w"), ("keep", "a.V.w"), ("skip", "a.w")])
def test_the_output_format_can_overrule_the_recipe(asked: Variants | None, expected: str) -> None:
    recipe = parse_recipe("recipe: 1\nname: x\nvariants: skip\nrename: [['^a\\.', 'a.<V>.']]\n")
    assert [entry.name for entry in apply_recipe(recipe, of_names("a.w"), None, variants=asked).entries] == [expected]
