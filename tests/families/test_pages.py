"""The pages below `docs/families` say what the recipes say."""

from __future__ import annotations

import pytest

from tests.families.pages import FOLDER, pages

PAGES = pages()


def test_there_is_one_page_per_recipe_and_no_other() -> None:
    assert sorted(path.name for path in FOLDER.iterdir()) == sorted(PAGES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_its_recipe_makes(name: str) -> None:
    """After a change of a recipe: python -m tests.families.pages."""
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name]
