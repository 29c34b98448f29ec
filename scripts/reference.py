"""The recipe language described from its own declaration: a JSON Schema for editors, and the tables of the reference page.

`python -m scripts.reference DOCS` writes all of it into a folder, with the pages of `scripts.reference_pages`. Not
here: the declaration (`importer.recipes.reading.sections`), and the prose of the page, outside the generated part.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from importer.adapters import LAYERS
from importer.recipes.reading.accept_schema import ACCEPT_FIELDS
from importer.recipes.reading.operation_schema import OPERATIONS
from importer.recipes.reading.schema import Schema
from importer.recipes.reading.section_schema import DTYPE_FIELDS
from importer.recipes.reading.sections import RECIPE
from importer.recipes.reading.step_schema import STEP_FIELDS
from importer.recipes.reading.template_schema import RESERVED_KEYS, TARGET
from scripts.reference_pages import field_table, reference_pages

__all__ = ["recipe_reference", "recipe_schema", "with_reference", "write_docs"]

_BEGIN = "<!-- generated from importer/recipes/reading/sections.py: python -m scripts.reference docs -->"
_END = "<!-- end of the generated part -->"
_OPERATION_NAMES = {operation.kind for operation in OPERATIONS}


def recipe_schema() -> Schema:
    """Return the JSON Schema (2020-12) of a recipe file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "importer recipe",
        "description": "Turns a PyTorch checkpoint's tensors into those of a Burn module.",
        **RECIPE.schema(),
        "$defs": {"module": TARGET.definition()},
    }


def recipe_reference() -> str:
    """Return the generated part of docs/recipes.md."""
    steps = [one for one in STEP_FIELDS if one.name not in _OPERATION_NAMES]
    parts = [
        "## Sections\n\nIn the order in which they take effect.\n",
        field_table(RECIPE.fields),
        "### `accepts`: conditions\n",
        field_table(ACCEPT_FIELDS),
        "### `tensors`: operations\n\nA step has exactly one of these keys.\n",
        field_table([one for one in STEP_FIELDS if one.name in _OPERATION_NAMES]),
        "### `tensors`: further keys of a step\n",
        field_table(steps),
        "### `target`: keys that are no paths\n",
        field_table(RESERVED_KEYS),
        "### `dtype`: the long form\n",
        field_table(DTYPE_FIELDS),
        "### Layers\n\n| layer | what it is |\n|---|---|\n" + "\n".join(_layers()) + "\n",
    ]
    return "\n".join(parts)


def with_reference(page: str) -> str:
    """Return a page with its generated part renewed.

    Raises:
        ValueError: the page lacks the marks between which the part stands.
    """
    before, begin, rest = page.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"the page lacks the lines {_BEGIN!r} and {_END!r}")
    return f"{before}{begin}\n\n{recipe_reference()}\n{end}{after}"


def write_docs(folder: Path) -> None:
    """Write recipe.schema.json and the pages of reference/, and renew the generated part of recipes.md."""
    schema = json.dumps(recipe_schema(), indent=2, ensure_ascii=False)
    (folder / "recipe.schema.json").write_text(f"{schema}\n", encoding="utf-8")
    (folder / "reference").mkdir(exist_ok=True)
    for name, text in reference_pages().items():
        (folder / "reference" / name).write_text(text, encoding="utf-8")
    page = folder / "recipes.md"
    page.write_text(with_reference(page.read_text(encoding="utf-8")), encoding="utf-8")


def _layers() -> Iterator[str]:
    for kind in LAYERS.values():
        yield f"| `{kind.describe()}` | {kind.about} |"


if __name__ == "__main__":
    write_docs(Path(sys.argv[1]))
