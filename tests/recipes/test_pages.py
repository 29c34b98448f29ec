"""Every section and operation has a page made from the declaration, with an example that is a recipe."""

from __future__ import annotations

import textwrap

import pytest

from importer.recipes import parse_recipe
from importer.recipes.reading.operation_schema import OPERATIONS
from importer.recipes.reading.sections import RECIPE
from scripts.reference_pages import OPERATION_EXAMPLES, SECTION_EXAMPLES, reference_pages
from tests.shared import REPOSITORY

PAGES = reference_pages()
FOLDER = REPOSITORY / "docs/reference"


def test_the_examples_are_of_the_declared_sections_and_operations() -> None:
    assert list(SECTION_EXAMPLES) == [field.name for field in RECIPE.fields]
    assert set(OPERATION_EXAMPLES) == {form.kind for form in OPERATIONS}


@pytest.mark.parametrize("section", SECTION_EXAMPLES)
def test_a_sections_example_is_a_recipe(section: str) -> None:
    rest = ("recipe: 1", "name: example", "rename: [['^a$', 'b']]")  # a recipe needs at least one rule
    head = "".join(f"{key}\n" for key in rest if not key.startswith(f"{section}:"))
    recipe = parse_recipe(head + SECTION_EXAMPLES[section], "example.yaml")
    assert recipe.name == ("my-encoder" if section == "name" else "example")


@pytest.mark.parametrize("operation", OPERATION_EXAMPLES)
def test_an_operations_example_is_a_step_of_it(operation: str) -> None:
    step = textwrap.indent(OPERATION_EXAMPLES[operation], "  ")
    recipe = parse_recipe(f"recipe: 1\nname: example\ntensors:\n{step}\n", "example.yaml")
    assert len(recipe.tensors) == 1
    assert f"{operation} " in recipe.tensors[0].rule.text


def test_the_published_pages_are_the_made_ones() -> None:
    """After a change: python -m scripts.reference docs."""
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()} == PAGES
