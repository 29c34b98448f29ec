"""A recipe that leaves nothing is a mistake to be told, not an empty file."""

from __future__ import annotations

from pathlib import Path

import pytest

import importer
from importer.errors import UsageError
from tests.shared import FAMILIES


def test_a_recipe_that_drops_everything_is_refused(tmp_path: Path) -> None:
    recipe = tmp_path / "nothing.yaml"
    recipe.write_text("recipe: 1\nname: nothing\ndrop: ['.']\ntypes: [['.', Linear]]\n")
    with pytest.raises(UsageError, match="leaves out every tensor"):
        importer.convert(FAMILIES / "llama", tmp_path / "out.bpk", recipe=str(recipe))
    assert not (tmp_path / "out.bpk").exists()
