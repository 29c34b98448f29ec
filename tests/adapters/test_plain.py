"""Layers whose parameters correspond one to one."""

from __future__ import annotations

import numpy as np
import pytest

from importer.adapters import LAYERS, Args
from tests.adapters.samples import Values, assert_same, numbered, pieces, returned, state

BATCH_NORM = {
    "weight": numbered(3),
    "bias": numbered(3, start=3),
    "running_mean": numbered(3, start=6),
    "running_var": numbered(3, start=9),
}


def test_linear_weight_is_transposed_and_its_bias_kept() -> None:
    weight, bias = numbered(2, 3), numbered(2)
    adapted = LAYERS["Linear"].to_burn(state(weight=weight, bias=bias), {})
    assert_same(pieces(adapted), {"weight": weight.T, "bias": bias})


def test_a_square_linear_weight_is_transposed_too() -> None:
    weight = numbered(3, 3)
    assert_same(pieces(LAYERS["Linear"].to_burn(state(weight=weight), {})), {"weight": weight.T})


def test_a_linear_with_column_layout_keeps_torch_order_both_ways() -> None:
    weight = numbered(2, 3)
    args: Args = {"layout": "col"}
    adapted = LAYERS["Linear"].to_burn(state(weight=weight), args)
    assert_same(pieces(adapted), {"weight": weight})
    assert_same(pieces(LAYERS["Linear"].to_torch(returned(adapted), args)), {"weight": weight})


def test_conv1d_of_hugging_face_is_a_linear_that_is_not_transposed() -> None:
    weight = numbered(2, 6)
    adapted = LAYERS["Conv1D"].to_burn(state(weight=weight), {})
    assert_same(pieces(adapted), {"weight": weight})
    assert [piece.layer for piece in adapted.params] == ["Linear"]


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("Embedding", (5, 3)),
        ("Conv1d", (4, 3, 2)),
        ("Conv2d", (4, 3, 2, 2)),
        ("Conv3d", (4, 3, 2, 2, 2)),
        ("ConvTranspose1d", (3, 4, 2)),
        ("ConvTranspose2d", (3, 4, 2, 2)),
        ("ConvTranspose3d", (3, 4, 2, 2, 2)),
        ("DeformConv2d", (4, 3, 2, 2)),
    ],
)
def test_weights_that_lie_alike_on_both_sides_are_kept(kind: str, shape: tuple[int, ...]) -> None:
    weight = numbered(*shape)
    adapted = LAYERS[kind].to_burn(state(weight=weight), {})
    assert_same(pieces(adapted), {"weight": weight})
    assert_same(pieces(LAYERS[kind].to_torch(returned(adapted), {})), {"weight": weight})


@pytest.mark.parametrize("kind", ["LayerNorm", "GroupNorm", "InstanceNorm"])
def test_norms_rename_weight_and_bias_to_gamma_and_beta(kind: str) -> None:
    params = {"weight": numbered(4), "bias": numbered(4, start=4)}
    adapted = LAYERS[kind].to_burn(state(**params), {})
    assert_same(pieces(adapted), {"gamma": params["weight"], "beta": params["bias"]})
    assert_same(pieces(LAYERS[kind].to_torch(returned(adapted), {})), params)


def test_norms_accept_the_older_spelling_gamma_and_beta() -> None:
    params = {"gamma": numbered(4), "beta": numbered(4, start=4)}
    assert_same(pieces(LAYERS["LayerNorm"].to_burn(state(**params), {})), params)


@pytest.mark.parametrize(("kind", "burn"), [("RmsNorm", "gamma"), ("PRelu", "alpha")])
def test_single_vectors_are_renamed_both_ways(kind: str, burn: str) -> None:
    adapted = LAYERS[kind].to_burn(state(weight=numbered(4)), {})
    assert_same(pieces(adapted), {burn: numbered(4)})
    assert_same(pieces(LAYERS[kind].to_torch(returned(adapted), {})), {"weight": numbered(4)})


def test_a_bare_parameter_is_copied_under_the_path_itself() -> None:
    adapted = LAYERS["Param"].to_burn({"": state(x=numbered(2, 3))["x"]}, {})
    assert_same(pieces(adapted), {"": numbered(2, 3)})
    assert adapted.params[0].layer == ""


def test_batch_norm_keeps_statistics_and_drops_the_counter() -> None:
    params = state(**BATCH_NORM, num_batches_tracked=np.array(7))
    adapted = LAYERS["BatchNorm"].to_burn(params, {})
    expected = {"gamma": BATCH_NORM["weight"], "beta": BATCH_NORM["bias"]}
    assert_same(pieces(adapted), {**expected, **{k: v for k, v in BATCH_NORM.items() if k.startswith("running")}})
    assert [dropped.leaf for dropped in adapted.dropped] == ["num_batches_tracked"]


def test_batch_norm_without_affine_gets_ones_and_zeros_and_says_so() -> None:
    statistics = {name: BATCH_NORM[name] for name in ("running_mean", "running_var")}
    adapted = LAYERS["BatchNorm"].to_burn(state(**statistics), {})
    made: dict[str, Values] = {"gamma": np.ones(3, np.float32), "beta": np.zeros(3, np.float32)}
    assert_same(pieces(adapted), {**made, **statistics})
    assert [bool(piece.note) for piece in adapted.params] == [True, True, False, False]
    assert adapted.params[0].sources == ()


def test_batch_norm_that_lost_only_its_weight_is_not_completed() -> None:
    params = {name: value for name, value in BATCH_NORM.items() if name != "weight"}
    assert "gamma" not in pieces(LAYERS["BatchNorm"].to_burn(state(**params), {}))


def test_batch_norm_without_statistics_is_refused() -> None:
    params = state(weight=numbered(3), bias=numbered(3))
    faults = LAYERS["BatchNorm"].to_burn(params, {}).faults
    assert ["running=False" in fault.how for fault in faults] == [True]


def test_batch_norm_without_statistics_gets_them_where_the_recipe_says_so() -> None:
    params = state(weight=numbered(3), bias=numbered(3))
    made = pieces(LAYERS["BatchNorm"].to_burn(params, {"running": False}))
    assert list(made) == ["gamma", "beta", "running_mean", "running_var"]
    np.testing.assert_array_equal(made["running_mean"], np.zeros(3, np.float32))
    np.testing.assert_array_equal(made["running_var"], np.ones(3, np.float32))


def test_instance_norm_statistics_are_dropped_with_a_reason() -> None:
    params = state(weight=numbered(3), bias=numbered(3), running_mean=numbered(3), running_var=numbered(3))
    dropped = LAYERS["InstanceNorm"].to_burn(params, {}).dropped
    assert {entry.leaf for entry in dropped} == {"running_mean", "running_var"}
    assert all(entry.reason for entry in dropped)


@pytest.mark.parametrize(
    ("kind", "params", "word"),
    [
        ("Linear", {"weight": numbered(2, 3, 1)}, "2 dimensions"),
        ("LayerNorm", {"weight": numbered(2, 3)}, "last dimension only"),
        ("PRelu", {"weight": numbered(2, 3)}, "1 dimension"),
        ("Linear", {"weight": numbered(2, 3), "scale": numbered(2)}, "no parameter 'scale'"),
        ("LayerNorm", {"weight": numbered(2), "gamma": numbered(2)}, "same parameter"),
    ],
    ids=["rank", "several normalised dimensions", "vector", "unknown leaf", "both spellings"],
)
def test_what_does_not_fit_a_layer_is_a_fault(kind: str, params: dict[str, Values], word: str) -> None:
    faults = LAYERS[kind].to_burn(state(**params), {}).faults
    assert [word in str(fault) for fault in faults] == [True]


@pytest.mark.parametrize(
    "params", [{"weight": numbered(2, 3, 1)}, {"scale": numbered(2)}], ids=["rank", "unknown leaf"]
)
def test_what_does_not_fit_a_layer_is_a_fault_on_the_way_back(params: dict[str, Values]) -> None:
    assert len(LAYERS["Linear"].to_torch(state(**params), {}).faults) == 1


def test_every_parameter_of_a_piece_is_named_as_its_source() -> None:
    adapted = LAYERS["Linear"].to_burn(state(weight=numbered(2, 3), bias=numbered(2)), {})
    assert [piece.sources for piece in adapted.params] == [("weight",), ("bias",)]
