"""What the case files say a converter must make of them: prefixes cut, indices closed up, matrices turned, norms fused.

Names, digests and values in `expect.json` were made with torch, apart from this package.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from importer.arrays import to_numpy
from importer.checkpoint import open_checkpoint
from importer.options import AdapterChoice, Options
from importer.plan import Plan, build_plan
from importer.recipes import parse_recipe

CASES = Path(__file__).resolve().parents[2] / "fixtures" / "cases"


def planned(case: str, recipe: str, adapter: AdapterChoice) -> tuple[Plan, dict[str, Any]]:
    """Apply a recipe to a case; return the plan and what the case says was derived."""
    expected = json.loads((CASES / case / "expect.json").read_text())
    checkpoint = open_checkpoint(CASES / case / expected["input"])
    return build_plan(checkpoint, parse_recipe(f"recipe: 1\nname: case\n{recipe}"), Options(adapter=adapter)), expected[
        "derived"
    ][0]


def names(plan: Plan) -> dict[str, str]:
    """Return source name → output name."""
    return {step.sources[0]: step.name for step in plan.tensors}


def test_prefixes_of_wrapped_models_are_renamed_away() -> None:
    recipe = "rename:\n  - ['(^|\\.)((_orig_mod|module)\\.)+', '$1']\n  - ['^model\\.', '']\n"
    plan, derived = planned("compile-orig-mod-prefix", recipe, AdapterChoice.NONE)
    found = names(plan)
    assert {source: found[source] for source in derived["names"]} == derived["names"]


def test_gaps_in_layer_numbers_are_closed_where_the_recipe_asks() -> None:
    recipe = "rename: []\nrenumber: ['^fc\\.', '^flow\\.flows\\.']\n"
    plan, derived = planned("gaps-in-layer-numbers", recipe, AdapterChoice.NONE)
    assert names(plan) == derived["names"]


def test_matrices_stored_in_by_out_are_turned_to_torch_orientation() -> None:
    recipe = "rename: []\nstored_as:\n  Conv1D: '\\.(c_attn|c_proj|c_fc)$'\n"
    plan, derived = planned("conv1d-layout-gpt2", recipe, AdapterChoice.NONE)
    arrays = {step.name: step.array for step in plan.tensors}
    for tensor in derived["tensors"]:
        assert list(arrays[tensor["name"]].shape) == tensor["shape"]
        assert hashlib.sha256(to_numpy(arrays[tensor["name"]]).tobytes()).hexdigest() == tensor["sha256"]


def test_weight_norm_is_fused_by_the_layer_type_in_both_spellings() -> None:
    recipe = "rename: []\ntypes:\n  - ['^(old|new)', Conv1d]\n  - ['^spectral_free$', Linear]\n"
    plan, derived = planned("weight-norm-both-spellings", recipe, AdapterChoice.BURN)
    steps = {step.name: step for step in plan.tensors}
    assert plan.errors == ()
    for tensor in derived["tensors"]:
        step = steps[tensor["name"]]
        assert list(step.sources) == tensor["from"]
        assert list(step.array.shape) == tensor["shape"]
        expected = np.array(tensor["values"], np.float32).reshape(tensor["shape"])
        np.testing.assert_allclose(np.asarray(to_numpy(step.array), np.float32), expected, rtol=tensor["rtol"])
