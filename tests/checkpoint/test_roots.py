"""Where the weights lie, for the ways training loops wrap them."""

from __future__ import annotations

import pytest

from importer.checkpoint.roots import candidate_roots, choose_root, root_of_names
from tests.builders.pickles import module, ordered, tensor
from tests.checkpoint.conftest import branches

WEIGHTS = ordered({"fc.weight": tensor(), "fc.bias": tensor((3,))})
OPTIMIZER = {
    "state": {0: {"exp_avg": tensor(), "exp_avg_sq": tensor(), "more": tensor()}},
    "param_groups": [{"lr": 0.1}],
}


@pytest.mark.parametrize(
    ("value", "root"),
    [
        (WEIGHTS, ""),
        ({"state_dict": WEIGHTS, "epoch": 3, "optimizer": OPTIMIZER}, "state_dict"),
        ({"model": WEIGHTS, "optimizer": OPTIMIZER}, "model"),
        ({"model_state_dict": WEIGHTS, "optimizer_state_dict": OPTIMIZER}, "model_state_dict"),
        ({"state": {"model": WEIGHTS, "optim": OPTIMIZER}}, "state.model"),
        ({"checkpoint": {"state_dict": WEIGHTS}}, "checkpoint.state_dict"),
        ({"state_dict": ordered({"w": tensor(), "state_dict": ordered({"left": tensor()})})}, "state_dict"),
        ({"params": WEIGHTS, "params_ema": WEIGHTS}, "params_ema"),
        ({"generator": WEIGHTS, "discriminator": WEIGHTS}, "generator"),
        ({"encoder": WEIGHTS, "decoder": WEIGHTS}, ""),
        ({"encoder": WEIGHTS, "optimizer": OPTIMIZER}, "encoder"),
        ({"rng_state": tensor(), "state_dict": WEIGHTS}, "state_dict"),
        ({"w": tensor(), "b": tensor(), "c": tensor(), "model": {"x": tensor()}}, ""),
        (module(parameters={"weight": tensor()}, children={"model": module(parameters={"weight": tensor()})}), ""),
        ({"model": module(children={"model": module(parameters={"weight": tensor()})})}, "model"),
        ((WEIGHTS, 7), "0"),
        ({"optimizer": OPTIMIZER}, ""),
        ({"epoch": 1}, ""),
        (tensor(), ""),
    ],
    ids=lambda item: item or "top" if isinstance(item, str) else "",
)
def test_the_root_is_the_deepest_sensible_place(value: object, root: str) -> None:
    assert choose_root(branches(value)) == root


def test_candidates_are_all_places_with_tensors_but_the_optimizers() -> None:
    value = {
        "state_dict": WEIGHTS,
        "ema": {"shadow": WEIGHTS},
        "optimizer": OPTIMIZER,
        "model": module(children={"0": module()}),
    }
    assert candidate_roots(branches(value)) == ("state_dict", "ema.shadow")
    value = {"net": module(parameters={"weight": tensor()}, children={"0": module(parameters={"weight": tensor()})})}
    assert candidate_roots(branches(value)) == ("net",)


def test_without_tensors_there_are_no_candidates() -> None:
    assert candidate_roots(branches({"epoch": 1})) == ()


@pytest.mark.parametrize(
    ("names", "roots"),
    [
        (["model.a", "model.b.c", "optimizer.state.a"], ("model", "")),
        (["model.a", "lm_head.weight"], ("",)),
        (["model.a", "model.b"], ("",)),
        (["a", "b"], ("",)),
        (["model.a", "head.b", "optimizer.c"], ("",)),
    ],
    ids=["beside an optimizer", "two parts", "one part", "no parts", "three parts"],
)
def test_flat_names_show_a_root_only_beside_what_is_no_weights(names: list[str], roots: tuple[str, ...]) -> None:
    assert root_of_names(names) == roots


@pytest.mark.parametrize(
    ("names", "beside", "roots"),
    [
        (["model.a"], ["epoch"], ("model", "")),
        (["model.a"], ["model.a._extra_state"], ("",)),
        (["layer.a", "bias"], ["epoch"], ("",)),
    ],
    ids=["beside a value", "value of a layer", "tensors at the top"],
)
def test_flat_names_show_a_root_beside_values(names: list[str], beside: list[str], roots: tuple[str, ...]) -> None:
    assert root_of_names(names, beside) == roots
