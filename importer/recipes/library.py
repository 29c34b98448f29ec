"""Finding and loading recipes: the built-in ones of the wheel or the checkout, and files by path.

Not here: which built-in recipe fits a checkpoint (`importer.recipes.choosing`).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from importer.errors import RecipeError, did_you_mean, shown
from importer.limits import DEFAULT_LIMITS
from importer.recipes.faults import combined
from importer.recipes.recipe import Recipe

if TYPE_CHECKING:
    from importer.recipes.reading.document import OwnRecipe

__all__ = [
    "BuiltinRecipe",
    "builtin_files",
    "builtin_folder",
    "check_recipe",
    "find_builtin",
    "list_builtin",
    "load_recipe",
    "parse_recipe",
    "read_text",
]

_PACKAGE = Path(__file__).resolve().parent.parent
_MAX_PARENTS = 8
"""Length of a chain of `extends`. The built-in recipes have 3."""
_ENDINGS = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class BuiltinRecipe:
    """One line of the list: a recipe's name, what it is for, and its file."""

    name: str
    about: str
    path: Path


def builtin_folder(package: Path = _PACKAGE) -> Path:
    """Return the folder of the built-in recipes: packed into the wheel, or beside the package in a checkout."""
    packed = package / "_recipes"
    return packed if packed.is_dir() else package.parent / "rules"


def list_builtin() -> tuple[BuiltinRecipe, ...]:
    """Return every built-in recipe, by name."""
    from importer.recipes.reading.document import read_about

    return tuple(BuiltinRecipe(path.stem, read_about(read_text(path), str(path)), path) for path in builtin_files())


def builtin_files() -> tuple[Path, ...]:
    """Return the files of the built-in recipes, by name."""
    return tuple(sorted(builtin_folder().glob("*.yaml"), key=lambda path: path.stem))


def find_builtin(name: str) -> Path:
    """Return the file of a built-in recipe.

    Raises:
        RecipeError: there is none of that name; the nearest is named.
    """
    files = {path.stem: path for path in builtin_files()}
    if name in files:
        return files[name]
    how = did_you_mean(name, files, "`importer recipes list` shows them; a file of your own must end in .yaml.")
    raise RecipeError(f"there is no built-in recipe {shown(name)}", how=how)


def load_recipe(name_or_path: str | os.PathLike[str]) -> Recipe:
    """Return a recipe with everything it extends: a built-in one by name, or a file.

    What ends in .yaml or .yml, or holds a path separator, is a file; anything else a name.

    Raises:
        RecipeError: no such recipe or file, or faults in it or in one it extends, all at once.
    """
    text = os.fspath(name_or_path)
    if _is_path(text):
        return parse_recipe(read_text(Path(text)), text)
    return _load_builtin(find_builtin(text))


def parse_recipe(text: str, path: str = "recipe.yaml") -> Recipe:
    """Return the recipe in a YAML text; a parent given by path is looked for beside `path`.

    Raises:
        RecipeError: with every fault of the text.
    """
    recipe, faults = _resolved(_read(text, path), ())
    if faults:
        raise combined(path, faults)
    return recipe


def check_recipe(path: str | os.PathLike[str]) -> tuple[RecipeError, ...]:
    """Return every fault of a recipe file and of those it extends; none if it is sound.

    Raises:
        RecipeError: the file does not exist.
    """
    text = os.fspath(path)
    return _resolved(_read(read_text(Path(text)), text), ())[1]


@lru_cache(maxsize=128)
def _load_builtin(path: Path) -> Recipe:
    recipe, faults = _resolved(_read(read_text(path), str(path)), ())
    if faults:
        raise combined(path.name, faults)
    return replace(recipe, is_builtin=True)


def _read(text: str, path: str) -> OwnRecipe:
    """Return what one text says; the declarations of the language are loaded only for a conversion that has a recipe."""
    from importer.recipes.reading.document import read_recipe

    return read_recipe(text, path)


def _resolved(own: OwnRecipe, chain: Sequence[str]) -> tuple[Recipe, tuple[RecipeError, ...]]:
    """Return a recipe joined with its parents, and the faults of all of them."""
    from importer.recipes.reading.inheritance import joined, without_removals

    if not own.extends:
        recipe = without_removals(own)
        return recipe, own.faults.sorted()
    try:
        parent_path = _parent_path(own, chain)
        text = read_text(parent_path)
    except RecipeError as error:
        own.faults.found.append(RecipeError(error.what, how=error.how, where=own.extends_at))
        return own.recipe, own.faults.sorted()
    parent, faults = _resolved(_read(text, str(parent_path)), (*chain, _identity(own.recipe.path)))
    recipe = joined(own, parent)
    return recipe, (*own.faults.sorted(), *faults)


def _parent_path(own: OwnRecipe, chain: Sequence[str]) -> Path:
    if _is_path(own.extends) and not own.extends.endswith(_ENDINGS):
        # Messages about its contents would show a file that the author of the recipe may not be able to read.
        raise RecipeError(f"{shown(own.extends)} is no name of a recipe", how="Name a .yaml file or a built-in recipe.")
    path = Path(own.recipe.path).parent / own.extends if _is_path(own.extends) else find_builtin(own.extends)
    if len(chain) >= _MAX_PARENTS:
        raise RecipeError("the chain of extends is too long", how=f"Keep it below {_MAX_PARENTS} recipes.")
    if _identity(str(path)) in (*chain, _identity(own.recipe.path)):
        raise RecipeError(f"{shown(own.extends)} extends this recipe itself", how="Break the circle.")
    return path


def _identity(path: str) -> str:
    return os.path.realpath(path)


def _is_path(text: str) -> bool:
    return text.endswith(_ENDINGS) or os.sep in text


def read_text(path: Path) -> str:
    """Return a recipe file's text, or so much of it that the reader sees it is too long.

    Raises:
        RecipeError: it does not exist, cannot be read, or is no UTF-8 text.
    """
    try:
        # A recipe can name its parent, and neither a pipe nor a device ever ends.
        if not path.is_file():
            raise RecipeError(f"there is no recipe file {shown(path)}", how="Check the path.")
        with path.open(encoding="utf-8-sig") as file:
            return file.read(DEFAULT_LIMITS.max_recipe_bytes + 1)
    except UnicodeDecodeError as error:
        raise RecipeError(f"{shown(path)} is no UTF-8 text", how="Save it as UTF-8.") from error
    except OSError as error:
        reason = error.strerror or "unreadable"
        raise RecipeError(f"cannot read the recipe {shown(path)} ({reason})", how="Check the path.") from error
