"""Attention, transformer layers and stacks. That they compute the same is shown in tests/numbers."""

from __future__ import annotations

import numpy as np
import pytest

from importer.adapters import LAYERS, Args
from importer.arrays import Array
from tests.adapters.samples import Values, assert_same, lazy, numbered, pieces, returned, state

D, FF = 4, 6


def attention_state(prefix: str = "", *, bias: bool = True) -> dict[str, Values]:
    """Return parameters of torch.nn.MultiheadAttention(4, heads)."""
    parameters = {"in_proj_weight": numbered(3 * D, D), "out_proj.weight": numbered(D, D, start=200)}
    if bias:
        parameters |= {"in_proj_bias": numbered(3 * D, start=300), "out_proj.bias": numbered(D, start=400)}
    return {prefix + name: values + len(prefix) for name, values in parameters.items()}


def layer_state(kind: str, prefix: str = "", *, bias: bool = True) -> dict[str, Values]:
    """Return parameters of torch's transformer layer."""
    decoder = kind == "TransformerDecoderLayer"
    parameters = attention_state("self_attn.", bias=bias)
    if decoder:
        parameters |= attention_state("multihead_attn.", bias=bias)
    parameters |= {"linear1.weight": numbered(FF, D, start=500), "linear2.weight": numbered(D, FF, start=600)}
    norms = {f"norm{n}.weight": numbered(D, start=700 + 10 * n) for n in range(1, 4 if decoder else 3)}
    biases = {
        "linear1.bias": numbered(FF, start=800),
        "linear2.bias": numbered(D, start=900),
        **{name.replace("weight", "bias"): values + 1000 for name, values in norms.items()},
    }
    return {prefix + name: values for name, values in (parameters | norms | (biases if bias else {})).items()}


def lazily(parameters: dict[str, Values]) -> dict[str, Array]:
    return {name: lazy(values) for name, values in parameters.items()}


def to_burn(kind: str, parameters: dict[str, Values], args: Args | None = None) -> dict[str, Values]:
    return pieces(LAYERS[kind].to_burn(lazily(parameters), args or {}))


def test_the_fused_projection_is_query_key_value_each_transposed() -> None:
    weight, bias = numbered(12, 4), numbered(12)
    made = to_burn("Mha", {"in_proj_weight": weight, "in_proj_bias": bias})
    names = ("query", "key", "value")
    expected = {f"{n}.weight": part.T for n, part in zip(names, np.split(weight, 3), strict=True)}
    expected |= {f"{n}.bias": part for n, part in zip(names, np.split(bias, 3), strict=True)}
    assert_same(made, expected)


def test_attention_accepts_burns_field_names_in_torch_orientation() -> None:
    made = to_burn("Mha", {"query.weight": numbered(4, 4), "output.bias": numbered(4)})
    assert_same(made, {"query.weight": numbered(4, 4).T, "output.bias": numbered(4)})


def test_attention_there_and_back_changes_nothing() -> None:
    adapted = LAYERS["Mha"].to_burn(lazily(attention_state()), {})
    assert_same(pieces(LAYERS["Mha"].to_torch(returned(adapted), {})), attention_state())


def test_cross_attention_there_and_back_changes_nothing() -> None:
    parameters = {
        "q_proj_weight": numbered(D, D),
        "k_proj_weight": numbered(D, 3, start=20),
        "v_proj_weight": numbered(D, 3, start=40),
        "in_proj_bias": numbered(3 * D, start=60),
        "out_proj.weight": numbered(D, D, start=80),
        "out_proj.bias": numbered(D, start=100),
    }
    adapted = LAYERS["CrossAttention"].to_burn(lazily(parameters), {})
    assert_same(pieces(LAYERS["CrossAttention"].to_torch(returned(adapted), {})), parameters)


def test_attention_without_biases_gets_zeros_where_the_recipe_says_so() -> None:
    adapted = LAYERS["Mha"].to_burn(lazily(attention_state(bias=False)), {"bias": False})
    zeros = {name: values for name, values in pieces(adapted).items() if name.endswith("bias")}
    assert_same(zeros, {f"{name}.bias": np.zeros(D, np.float32) for name in ("query", "key", "value", "output")})
    assert all("zeros" in piece.note for piece in adapted.params if piece.name.endswith("bias"))


def test_a_key_without_bias_gets_zeros_where_the_recipe_says_so() -> None:
    parameters = {f"{name}.weight": numbered(D, D) for name in ("query", "key")} | {"query.bias": numbered(D)}
    made = to_burn("Mha", parameters, {"key_bias": False})
    np.testing.assert_array_equal(made["key.bias"], np.zeros(D, np.float32))
    np.testing.assert_array_equal(made["query.bias"], numbered(D))


def test_a_missing_projection_gets_no_bias() -> None:
    assert list(to_burn("Mha", {"query.weight": numbered(D, D)}, {"bias": False})) == ["query.weight", "query.bias"]


def test_a_name_that_claims_a_huge_layer_number_is_a_fault() -> None:
    name = f"layers.{'9' * 5000}.linear1.weight"
    faults = LAYERS["TransformerEncoder"].to_burn({name: lazy(numbered(6, 4))}, {}).faults
    assert [fault.name for fault in faults] == [name]


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"bias_k": numbered(1, 1, 4)}, "add_bias_kv"),
        ({"q_proj_weight": numbered(4, 4), "k_proj_weight": numbered(4, 3)}, "kdim"),
        ({"in_proj_weight": numbered(10, 4)}, "three equal blocks"),
        ({"in_proj_weight": numbered(12, 4), "query.weight": numbered(4, 4)}, "both become 'query.weight'"),
        ({"gate.weight": numbered(4, 4)}, "no place in Mha"),
    ],
    ids=["bias_k", "kdim", "rows", "twice", "stray"],
)
def test_attention_that_burn_cannot_hold_is_refused(parameters: dict[str, Values], word: str) -> None:
    faults = LAYERS["Mha"].to_burn(lazily(parameters), {}).faults
    assert [word in fault.message for fault in faults] == [True]


@pytest.mark.parametrize("kind", ["TransformerEncoderLayer", "TransformerDecoderLayer"])
@pytest.mark.parametrize("norm_first", [False, True], ids=["post_norm", "pre_norm"])
def test_a_transformer_layer_there_and_back_changes_nothing(kind: str, norm_first: bool) -> None:
    parameters = layer_state(kind)
    args = LAYERS[kind].bind([D, FF], {"norm_first": norm_first})
    adapted = LAYERS[kind].to_burn(lazily(parameters), args)
    shapes = {piece.name: piece.array.shape for piece in adapted.params}
    assert list(shapes.items()) == list(LAYERS[kind].burn_params(args))
    assert_same(pieces(LAYERS[kind].to_torch(returned(adapted), args)), parameters)


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [("TransformerEncoderLayer", {1: 2, 2: 1}), ("TransformerDecoderLayer", {1: 3, 2: 1, 3: 2})],
)
def test_norms_are_renumbered_when_the_layer_normalises_first(kind: str, numbers: dict[int, int]) -> None:
    parameters = {f"norm{n}.weight": numbered(D, start=10 * n) for n in numbers}
    expected = {f"norm_{burn}.gamma": parameters[f"norm{torch}.weight"] for torch, burn in numbers.items()}
    assert_same(to_burn(kind, parameters, {"norm_first": True}), expected)


@pytest.mark.parametrize("number", [1, 2])
def test_norms_named_by_burns_fields_keep_their_number(number: int) -> None:
    made = to_burn("TransformerEncoderLayer", {f"norm_{number}.weight": numbered(D)}, {"norm_first": True})
    assert list(made) == [f"norm_{number}.gamma"]


def test_norm_order_that_nobody_told_is_asked_for_both_ways() -> None:
    layer = LAYERS["TransformerEncoderLayer"]
    there = layer.to_burn(state(norm1__weight=numbered(D)), {})
    back = layer.to_torch(state(norm_1__gamma=numbered(D)), {})
    assert ["norm_first=True" in fault.how for fault in (*there.faults, *back.faults)] == [True, True]


def test_a_layer_without_biases_gets_zeros_where_the_recipe_says_so() -> None:
    parameters = layer_state("TransformerEncoderLayer", bias=False)
    args = LAYERS["TransformerEncoderLayer"].bind([D, FF], {"norm_first": False, "bias": False})
    made = to_burn("TransformerEncoderLayer", parameters, args)
    assert made.keys() == dict(LAYERS["TransformerEncoderLayer"].burn_params(args)).keys()
    assert not any(made[name].any() for name in made if name.endswith(("bias", "beta")))


@pytest.mark.parametrize("settled", [False, True], ids=["types", "template"])
@pytest.mark.parametrize("kind", ["TransformerEncoder", "TransformerDecoder"])
def test_a_stack_there_and_back_changes_nothing(kind: str, settled: bool) -> None:
    parameters = {
        name: values for n in range(2) for name, values in layer_state(f"{kind}Layer", f"layers.{n}.").items()
    }
    args: Args = LAYERS[kind].bind([D, FF, 2], {"norm_first": True}) if settled else {"norm_first": True}
    adapted = LAYERS[kind].to_burn(lazily(parameters), args)
    assert len(adapted.params) == len(LAYERS[kind].burn_params({"n": 2}))
    assert_same(pieces(LAYERS[kind].to_torch(returned(adapted), args)), parameters)


def test_the_last_norm_of_a_stack_is_refused_with_a_way_out() -> None:
    faults = LAYERS["TransformerEncoder"].to_burn(state(norm__weight=numbered(D)), {"norm_first": False}).faults
    assert [("no norm after its last layer" in fault.message, "rename" in fault.how) for fault in faults] == [
        (True, True)
    ]


def test_swiglu_transposes_both_projections_both_ways() -> None:
    parameters = {"linear_inner.weight": numbered(2, 3), "linear_outer.weight": numbered(2, 3, start=6)}
    adapted = LAYERS["SwiGlu"].to_burn(lazily(parameters), {})
    assert_same(pieces(adapted), {name: values.T for name, values in parameters.items()})
    assert_same(pieces(LAYERS["SwiGlu"].to_torch(returned(adapted), {})), parameters)


def test_a_fault_inside_a_stack_names_the_files_own_parameter() -> None:
    params = {"layers.0.self_attn.in_proj_weight": lazy(numbered(10, 4))}
    faults = LAYERS["TransformerEncoder"].to_burn(params, {"norm_first": False}).faults
    assert [(fault.name, fault.message.startswith("layers.0: mha: ")) for fault in faults] == [
        ("layers.0.self_attn.in_proj_weight", True)
    ]


def test_every_piece_names_the_burn_layer_that_owns_it() -> None:
    parameters = layer_state("TransformerEncoderLayer")
    adapted = LAYERS["TransformerEncoderLayer"].to_burn(lazily(parameters), {"norm_first": False})
    owners = {piece.name.rpartition(".")[0]: piece.layer for piece in adapted.params}
    assert owners["mha.query"] == "Linear"
    assert owners["norm_1"] == "LayerNorm"
