"""From YAML text to one recipe's own sections, with every fault of the file collected.

Not here: what the sections are (`importer.recipes.reading.sections`), the recipes it extends (`inheritance`), and finding files
(`library`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath

from importer.errors import Location
from importer.limits import DEFAULT_LIMITS, Limits
from importer.recipes.faults import Faults
from importer.recipes.reading import sections as s
from importer.recipes.reading.schema import Fields, ReadContext
from importer.recipes.reading.yaml_nodes import MappingNode, parse_yaml
from importer.recipes.recipe import Accept, DTypePlan, Recipe, Variants

__all__ = ["OwnRecipe", "read_about", "read_accepts", "read_recipe"]

_WORKING_SECTIONS = (
    *(s.EXTENDS, s.UNWRAP, s.STRIP, s.KEEP, s.DROP, s.RENAME, s.RENUMBER, s.ALIAS, s.STORED_AS, s.TENSORS),
    *(s.TARGET_SECTION, s.TYPES, s.DTYPE, s.VARIANTS),
)
"""Any single one of them makes a recipe; the others only say what it is called and which files it is for."""


@dataclass(frozen=True, slots=True)
class OwnRecipe:
    """A recipe file by itself.

    Attributes:
        recipe: what the file says, without its parent.
        extends: the parent as written, or "".
        given: names of the sections that the file has.
        faults: what is wrong with it; `recipe` holds what could be read all the same.
        extends_at: where `extends` stands.
    """

    recipe: Recipe
    extends: str
    given: frozenset[str]
    faults: Faults
    extends_at: Location


def read_recipe(text: str, path: str, limits: Limits = DEFAULT_LIMITS) -> OwnRecipe:
    """Read the text of one recipe file.

    Args:
        text: YAML.
        path: for messages; its last part names the file in trails.
        limits: bound on the size.

    Raises:
        LimitError: the text is too long to be a recipe.
    """
    fields = _open(text, path, limits)
    extends = fields.get(s.EXTENDS) or ""
    node = fields.nodes.get(s.EXTENDS.name, fields.node)
    own = OwnRecipe(
        recipe=_recipe(fields, path),
        extends=extends,
        given=frozenset(fields.nodes),
        faults=fields.reading.faults,
        extends_at=Location(path=path, line=node.line, column=node.column),
    )
    fields.get(s.VERSION)
    if s.TARGET_SECTION in fields and s.TYPES in fields:
        how = "Remove `types`: the layers of `target` are the types."
        fields.reading.fault(fields.nodes[s.TYPES.name], "`types` has no effect beside `target`", how)
    if not any(section in fields for section in _WORKING_SECTIONS) and not fields.reading.faults.found:
        names = ", ".join(section.name for section in _WORKING_SECTIONS)
        fields.reading.fault(fields.node, "a recipe without rules", f"Add at least one of: {names}.")
    return own


def read_about(text: str, path: str) -> str:
    """Read the section `about` alone, for lists."""
    return _open(text, path, DEFAULT_LIMITS).get(s.ABOUT) or ""


def read_accepts(text: str, path: str) -> tuple[Accept, ...]:
    """Read the section `accepts` alone: choosing among many recipes need not read all of each."""
    return _open(text, path, DEFAULT_LIMITS).get(s.ACCEPTS) or ()


def _open(text: str, path: str, limits: Limits) -> Fields:
    limits.require(
        "max_recipe_bytes", len(text), f"{path} is too long for a recipe", how="Check that this is the recipe."
    )
    faults = Faults(path)
    reading = ReadContext(path, PurePath(path).name, faults)
    root = parse_yaml(text, faults)
    empty = MappingNode((), 1, 1)
    if root is None:
        if not faults.found:
            faults.add("the file is empty", how="A recipe begins with recipe: 1.", line=1, column=1)
        return Fields(empty, reading)
    return s.RECIPE.open(root, reading) or Fields(empty, reading)


def _recipe(fields: Fields, path: str) -> Recipe:
    """Read every section but `recipe` and `extends`; a faulty one is left empty."""
    variants = fields.get(s.VARIANTS)
    shown_as: Variants = "skip" if variants == "skip" else "keep"
    return Recipe(
        name=fields.get(s.NAME) or "",
        path=path,
        file=fields.reading.file,
        about=fields.get(s.ABOUT) or "",
        accepts=fields.get(s.ACCEPTS) or (),
        config={bound.name: bound for bound in fields.get(s.CONFIG) or ()},
        settings={one.name: one for one in fields.get(s.SETTINGS) or ()},
        unwrap=fields.get(s.UNWRAP) or (),
        strip=fields.get(s.STRIP) if s.STRIP in fields else None,
        keep=fields.get(s.KEEP) or (),
        drop=fields.get(s.DROP) or (),
        rename=fields.get(s.RENAME) or (),
        renumber=fields.get(s.RENUMBER) or (),
        alias=fields.get(s.ALIAS) or (),
        stored_as=fields.get(s.STORED_AS) or (),
        tensors=fields.get(s.TENSORS) or (),
        target=fields.get(s.TARGET_SECTION),
        types=fields.get(s.TYPES) or (),
        dtype=fields.get(s.DTYPE) or DTypePlan(),
        variants=shown_as,
    )
