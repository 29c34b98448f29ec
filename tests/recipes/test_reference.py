"""The schema, the reference page and the loader are made from one declaration, and agree."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from importer.recipes.faults import Faults
from importer.recipes.reading.document import read_recipe
from importer.recipes.reading.operation_schema import OPERATIONS
from importer.recipes.reading.sections import RECIPE
from importer.recipes.reading.yaml_nodes import ListNode, MappingNode, Node, Scalar, parse_yaml
from scripts.reference import recipe_schema, with_reference, write_docs

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
RULES = sorted((REPOSITORY / "rules").glob("*.yaml"))
VALIDATOR = jsonschema.Draft202012Validator(recipe_schema())


def plain(node: Node | None) -> object:
    """A node as JSON has it."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, ListNode):
        return [plain(item) for item in node.items]
    assert isinstance(node, MappingNode)
    return {key.text: plain(value) for key, value in node.pairs}


def is_valid(text: str) -> bool:
    return bool(VALIDATOR.is_valid(plain(parse_yaml(text, Faults("x.yaml")))))


def test_the_published_schema_is_the_declared_one() -> None:
    assert json.loads((DOCS / "recipe.schema.json").read_text(encoding="utf-8")) == recipe_schema()


def test_the_reference_page_is_the_declared_one() -> None:
    page = (DOCS / "recipes.md").read_text(encoding="utf-8")
    assert page == with_reference(page), "run: python -m scripts.reference docs"


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks the lines"):
        with_reference("# a page")


def test_the_docs_can_be_written_anew(tmp_path: Path) -> None:
    page = (DOCS / "recipes.md").read_text(encoding="utf-8")
    (tmp_path / "recipes.md").write_text(page, encoding="utf-8")
    write_docs(tmp_path)
    for name in ("recipes.md", "recipe.schema.json"):
        assert (tmp_path / name).read_text(encoding="utf-8") == (DOCS / name).read_text(encoding="utf-8")


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(recipe_schema())


@pytest.mark.parametrize("path", RULES, ids=lambda path: str(path.stem))
def test_every_built_in_recipe_fits_the_schema(path: Path) -> None:
    VALIDATOR.validate(plain(parse_yaml(path.read_text(encoding="utf-8"), Faults(path.name))))


@pytest.mark.parametrize("path", RULES, ids=lambda path: str(path.stem))
def test_another_yaml_reader_sees_the_same(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    theirs = yaml.safe_load(text)
    assert json.dumps(plain(parse_yaml(text, Faults(path.name))), sort_keys=True, default=str) == json.dumps(
        theirs, sort_keys=True, default=str
    )


@pytest.mark.parametrize(
    "section",
    [
        "renames: []",
        "drop: {a: b}",
        "drop: [[a]]",
        "rename: [[a]]",
        "rename: [a]",
        "config: {1a: d}",
        "config: [a]",
        "accepts: [{}]",
        "accepts: [{nams: a}]",
        "alias: [a]",
        "stored_as: {conv: a}",
        "tensors: [{match: a}]",
        "tensors: [{map: x}]",
        "tensors: [{match: a, map: x, split: 2, into: [a, b]}]",
        "tensors: [{match: a, slice: {form: 1}}]",
        "tensors: [{match: a, unstack: 1, into: b}]",
        "target: [a]",
        "target: {a: 'Liner(1, 2)'}",
        "target: {a: Linear}",
        "types: [[a, Liner]]",
        "dtype: {default: []}",
        "dtype: {other: a}",
        "variants: drop",
        "renumber: false",
        "strip: {a: b}",
    ],
)
def test_what_the_schema_refuses_the_loader_refuses_too(section: str) -> None:
    text = f"recipe: 1\nname: x\nextends: llama\n{section}\n"
    assert not is_valid(text)
    assert read_recipe(text, "x.yaml").faults.found


def test_every_section_and_operation_is_in_the_page() -> None:
    page = (DOCS / "recipes.md").read_text(encoding="utf-8")
    for name in [*(one.name for one in RECIPE.fields), *(one.kind for one in OPERATIONS)]:
        assert f"| `{name}`" in page


def test_the_examples_of_the_page_are_sound() -> None:
    page = (DOCS / "recipes.md").read_text(encoding="utf-8")
    examples = [block.partition("```")[0] for block in page.split("```yaml\n")[1:]]
    assert len(examples) == 4
    for example in examples:
        head = "" if example.startswith("recipe:") else "recipe: 1\nname: x\nextends: llama\n"
        assert read_recipe(head + example, "x.yaml").faults.found == []
