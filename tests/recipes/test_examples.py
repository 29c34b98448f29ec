"""Complete recipes on real key lists: every tensor finds its layer, and every layer of the template is filled exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from importer.adapters import LAYERS
from importer.arrays import Array
from importer.recipes import Remapped, apply_recipe, load_recipe
from tests.builders.named import of_shapes

DATA = Path(__file__).resolve().parent / "data"
KEYS = Path(__file__).resolve().parents[2] / "fixtures" / "keys"

# recipe, key list, number of parameters of the Burn module
EXAMPLES = [
    ("llama", "llama", 21),
    ("resnet18", "resnet18", 102),
    ("gpt2", "gpt2", 37),
    ("qwen2", "qwen2", 27),
    ("phi3", "phi3", 21),
    ("mixtral", "mixtral", 23),
]


def applied(recipe: str, family: str) -> Remapped:
    folder = KEYS / family
    keys = json.loads((folder / "keys.json").read_text(encoding="utf-8"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    shapes = {key["name"]: key["shape"] for key in keys if not key.get("tied_to")}
    return apply_recipe(load_recipe(DATA / f"{recipe}.yaml"), of_shapes(shapes), config)


def burn_shapes(outcome: Remapped) -> dict[str, tuple[int, ...]]:
    """Names and shapes after the adapters, module by module."""
    assert outcome.template is not None
    modules: dict[str, dict[str, Array]] = {}
    for entry in outcome.entries:
        path, _, leaf = entry.name.rpartition(".")
        if entry.name in outcome.template.layers:
            path, leaf = entry.name, ""
        assert path in outcome.template.layers, f"nobody asks for {entry.name}"
        modules.setdefault(path, {})[leaf] = entry.array
    shapes: dict[str, tuple[int, ...]] = {}
    for path, params in modules.items():
        layer = outcome.template.layers[path]
        adapted = LAYERS[layer.kind].to_burn(params, layer.args)
        assert adapted.faults == ()
        shapes.update({f"{path}.{piece.name}".rstrip("."): piece.array.shape for piece in adapted.params})
    return shapes


@pytest.mark.parametrize(("recipe", "family", "count"), EXAMPLES, ids=[recipe for recipe, _, _ in EXAMPLES])
def test_a_complete_recipe_fills_its_template_exactly(recipe: str, family: str, count: int) -> None:
    outcome = applied(recipe, family)
    assert outcome.faults == ()
    assert outcome.template is not None
    expected = outcome.template.shapes()
    assert len(expected) == count
    assert burn_shapes(outcome) == expected


def test_resnet_names_hold_the_enum_variant() -> None:
    assert "layer1.blocks.0.Basic.conv1.weight" in burn_shapes(applied("resnet18", "resnet18"))


def test_a_tied_head_is_taken_from_the_embedding() -> None:
    outcome = applied("qwen2", "qwen2")
    head = next(entry for entry in outcome.entries if entry.name == "output.weight")
    assert head.sources == ("model.embed_tokens.weight",)
    assert [step.rule.section for step in head.trail] == ["rename", "rename", "alias"]
