"""Finding recipes: built-in ones in a wheel and in a checkout, files by path, and what goes wrong on the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from importer.errors import LimitError, RecipeError
from importer.recipes import builtin_folder, check_recipe, find_builtin, list_builtin, load_recipe, parse_recipe
from importer.recipes.library import builtin_files

REPOSITORY = Path(__file__).resolve().parents[2]
MINIMAL = "recipe: 1\nname: x\nrename: [['^a$', 'b']]\n"


def test_recipes_are_found_in_an_installed_wheel(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "importer"
    (package / "_recipes").mkdir(parents=True)
    (tmp_path / "site-packages" / "rules").mkdir()
    assert builtin_folder(package) == package / "_recipes"


def test_recipes_are_found_in_a_checkout() -> None:
    assert builtin_folder(REPOSITORY / "importer") == REPOSITORY / "rules"


@pytest.mark.parametrize("path", builtin_files(), ids=lambda path: str(path.stem))
def test_every_built_in_recipe_is_sound_and_goes_by_its_file_name(path: Path) -> None:
    assert check_recipe(path) == ()
    recipe = load_recipe(path.stem)
    assert recipe.name == path.stem
    assert recipe.is_builtin
    assert recipe.about


def test_the_list_has_every_file() -> None:
    assert [recipe.name for recipe in list_builtin()] == sorted(
        path.stem for path in (REPOSITORY / "rules").glob("*.yaml")
    )


def test_a_misspelt_name_gets_the_nearest() -> None:
    with pytest.raises(RecipeError) as caught:
        find_builtin("lama")
    assert "llama" in caught.value.how


def test_a_file_is_loaded_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINIMAL, encoding="utf-8")
    recipe = load_recipe(path)
    assert (recipe.name, recipe.file, recipe.path, recipe.is_builtin) == ("x", "mine.yaml", str(path), False)


def test_a_missing_file_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"none\.yaml"):
        load_recipe(tmp_path / "none.yaml")


def test_a_file_that_is_no_text_is_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError, match="no UTF-8"):
        load_recipe(path)


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + MINIMAL.encode())
    assert load_recipe(path).name == "x"


def test_a_circle_of_extends_is_refused(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.yaml").write_text(f"recipe: 1\nname: {name}\nextends: {other}.yaml\n", encoding="utf-8")
    with pytest.raises(RecipeError, match="extends this recipe itself"):
        load_recipe(tmp_path / "a.yaml")


def test_a_long_chain_of_extends_is_refused(tmp_path: Path) -> None:
    for number in range(12):
        text = f"recipe: 1\nname: r{number}\nextends: r{number + 1}.yaml\n"
        (tmp_path / f"r{number}.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(RecipeError, match="too long"):
        load_recipe(tmp_path / "r0.yaml")


@pytest.mark.parametrize("parent", ["nobody", "nobody.yaml"])
def test_a_missing_parent_is_a_fault_at_the_line_of_extends(tmp_path: Path, parent: str) -> None:
    path = tmp_path / "child.yaml"
    path.write_text(f"recipe: 1\nname: c\nextends: {parent}\n", encoding="utf-8")
    fault = check_recipe(path)[0]
    assert fault.where is not None
    assert (fault.where.line, fault.where.column) == (3, 10)


@pytest.mark.parametrize("parent", ["/etc/hostname", "../secret.txt", "folder/"])
def test_only_recipes_can_be_extended(tmp_path: Path, parent: str) -> None:
    path = tmp_path / "child.yaml"
    path.write_text(f"recipe: 1\nname: c\nextends: {parent}\n", encoding="utf-8")
    assert "is no name of a recipe" in check_recipe(path)[0].what


def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path):
        with pytest.raises(RecipeError):
            load_recipe(f"{path}/" if path is tmp_path else path)


def test_a_file_is_read_no_further_than_a_recipe_can_be_long(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(LimitError):
        load_recipe(path)


def test_a_text_can_extend_a_built_in_recipe() -> None:
    recipe = parse_recipe("recipe: 1\nname: mine\nextends: llama\n")
    assert recipe.parents == ("llama",)
    assert not recipe.is_builtin
