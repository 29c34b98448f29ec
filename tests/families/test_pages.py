"""The pages below `docs/families` say what the recipes say."""

from __future__ import annotations

from pathlib import Path

import pytest

from importer.recipes import list_builtin, load_recipe
from tests.families.pages import FOLDER, NEEDS, needs, pages

PAGES = pages()


def test_there_is_one_page_per_recipe_and_no_other() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_its_recipe_makes(name: str) -> None:
    """After a change of a recipe: python -m tests.families.pages."""
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name]


@pytest.mark.parametrize("name", [builtin.path for builtin in list_builtin()], ids=lambda path: Path(path).stem)
def test_a_page_says_what_a_module_needs_besides_the_weights(name: str) -> None:
    """Under fixed headings, none left out and none of another name: `# Eps: …` in the comment the recipe closes with."""
    said = needs(load_recipe(name))
    assert tuple(said) == NEEDS
    assert all(said.values())
