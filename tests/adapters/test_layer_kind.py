"""Signatures, argument checking and the parameters of every kind."""

from __future__ import annotations

import pytest

from importer.adapters import LAYERS, Args, ArgValue
from importer.errors import UsageError


def test_positional_and_named_arguments_meet_the_signature() -> None:
    args = LAYERS["Linear"].bind([3, 4], {"bias": False})
    assert args == {"in": 3, "out": 4, "bias": False, "layout": "row"}


def test_an_entry_of_types_may_leave_out_everything() -> None:
    assert LAYERS["Linear"].bind([], {}, partial=True) == {}


def test_what_an_entry_of_types_gives_is_still_checked() -> None:
    with pytest.raises(UsageError, match="'norm_first' is"):
        LAYERS["TransformerEncoderLayer"].bind([], {"norm_first": 1}, partial=True)


@pytest.mark.parametrize(
    ("kind", "positional", "named", "word"),
    [
        ("Linear", [3], {}, "'out' is missing"),
        ("Linear", [3, 4, True, "row", 5], {}, "5 values are given"),
        ("Linear", [3, 4], {"out": 4}, "given twice"),
        ("Linear", [3, 4], {"biass": True}, "no argument 'biass'"),
        ("Linear", [3, -4], {}, "'out' is '-4'"),
        ("Linear", [3, True], {}, "'out' is 'True'"),
        ("Linear", [3, 4], {"bias": 1}, "True or False"),
        ("Linear", [3, 4], {"layout": "column"}, "'row' or 'col'"),
        ("Linear", [3, (4, 4)], {}, "must be a size"),
        ("Conv2d", [3, 4, (3, -1)], {}, "'k' is"),
        ("Lstm", [3, 4], {"layers": 10_001}, "must be a number of layers up to 10000"),
        ("TransformerEncoder", [4, 6, -1], {}, "'n' is '-1'"),
        ("Param", [3, "x"], {}, "only sizes"),
        ("Param", [], {"dims": 3}, "only sizes"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(
    kind: str, positional: list[ArgValue], named: dict[str, ArgValue], word: str
) -> None:
    with pytest.raises(UsageError, match=word):
        LAYERS[kind].bind(positional, named)


def test_what_is_unknown_may_be_given_as_unknown() -> None:
    assert LAYERS["TransformerEncoderLayer"].bind([], {"norm_first": None}, partial=True) == {"norm_first": None}


def test_a_refusal_shows_the_signature() -> None:
    with pytest.raises(UsageError) as caught:
        LAYERS["Conv2d"].bind([], {})
    assert caught.value.how == "Write Conv2d(in, out, k, groups=1, bias=True)."


@pytest.mark.parametrize(
    ("kind", "positional", "named", "shapes"),
    [
        ("Linear", [3, 4], {}, {"weight": (3, 4), "bias": (4,)}),
        ("Linear", [3, 4], {"bias": False}, {"weight": (3, 4)}),
        ("Linear", [3, 4], {"layout": "col"}, {"weight": (4, 3), "bias": (4,)}),
        ("Conv1D", [3, 4], {}, {"weight": (3, 4), "bias": (4,)}),
        ("Conv2d", [6, 4, 3], {"groups": 2, "bias": False}, {"weight": (4, 3, 3, 3)}),
        ("Conv1d", [6, 4, 5], {}, {"weight": (4, 6, 5), "bias": (4,)}),
        ("Conv3d", [1, 2, (3, 4, 5)], {"bias": False}, {"weight": (2, 1, 3, 4, 5)}),
        ("ConvTranspose2d", [6, 4, (2, 3)], {"groups": 2}, {"weight": (6, 2, 2, 3), "bias": (4,)}),
        ("DeformConv2d", [6, 4, 3], {"weight_groups": 3, "bias": False}, {"weight": (4, 2, 3, 3)}),
        ("Embedding", [7, 3], {}, {"weight": (7, 3)}),
        ("BatchNorm", [5], {}, {"gamma": (5,), "beta": (5,), "running_mean": (5,), "running_var": (5,)}),
        ("LayerNorm", [5], {"bias": False}, {"gamma": (5,)}),
        ("GroupNorm", [2, 6], {}, {"gamma": (6,), "beta": (6,)}),
        ("GroupNorm", [2, 6], {"affine": False}, {}),
        ("RmsNorm", [5], {}, {"gamma": (5,)}),
        ("PRelu", [], {}, {"alpha": (1,)}),
        ("Param", [2, 3, 4], {}, {"": (2, 3, 4)}),
        ("Param", [], {}, {"": ()}),
    ],
)
def test_parameters_have_the_shapes_burn_gives_them(
    kind: str, positional: list[ArgValue], named: dict[str, ArgValue], shapes: dict[str, tuple[int, ...]]
) -> None:
    layer = LAYERS[kind]
    assert dict(layer.burn_params(layer.bind(positional, named))) == shapes


def test_channels_that_do_not_divide_into_groups_are_refused() -> None:
    layer = LAYERS["Conv2d"]
    with pytest.raises(UsageError, match="in 5 is no multiple of groups 2"):
        layer.burn_params(layer.bind([5, 4, 3], {"groups": 2}))


def test_lstm_parameters_come_in_the_order_of_burns_fields() -> None:
    layer = LAYERS["Lstm"]
    leaves = [leaf for leaf, _ in layer.burn_params(layer.bind([3, 4], {"bias": False}))]
    gates = ("input_gate", "forget_gate", "output_gate", "cell_gate")
    assert leaves == [f"{gate}.{half}_transform.weight" for gate in gates for half in ("input", "hidden")]


@pytest.mark.parametrize(
    ("kind", "named", "leaf", "shape"),
    [
        ("Lstm", {"layers": 2}, "1.cell_gate.input_transform.weight", (4, 4)),
        ("BiLstm", {}, "reverse.cell_gate.input_transform.weight", (3, 4)),
        ("BiGru", {"layers": 2}, "1.forward.new_gate.input_transform.weight", (8, 4)),
        ("BiRnn", {}, "forward.gate.hidden_transform.bias", (4,)),
    ],
)
def test_recurrent_layers_and_directions_have_paths_of_their_own(
    kind: str, named: dict[str, ArgValue], leaf: str, shape: tuple[int, ...]
) -> None:
    layer = LAYERS[kind]
    assert dict(layer.burn_params(layer.bind([3, 4], named)))[leaf] == shape


def test_a_transformer_encoder_lists_its_layers_in_field_order() -> None:
    layer = LAYERS["TransformerEncoder"]
    shapes = dict(layer.burn_params(layer.bind([4, 6, 2], {"norm_first": True})))
    children = list(dict.fromkeys(leaf.rpartition(".")[0] for leaf in shapes))
    one = ["mha.query", "mha.key", "mha.value", "mha.output", "pwff.linear_inner", "pwff.linear_outer"]
    assert children == [f"layers.{n}.{child}" for n in range(2) for child in (*one, "norm_1", "norm_2")]
    assert shapes["layers.1.pwff.linear_inner.weight"] == (4, 6)


def test_a_decoder_layer_lists_its_children_in_field_order() -> None:
    layer = LAYERS["TransformerDecoderLayer"]
    shapes = dict(layer.burn_params(layer.bind([4, 6], {})))
    heads = list(dict.fromkeys(leaf.partition(".")[0] for leaf in shapes))
    assert heads == ["cross_attn", "self_attn", "pwff", "norm_1", "norm_2", "norm_3"]


def test_cross_attention_takes_the_width_of_its_context() -> None:
    layer = LAYERS["CrossAttention"]
    shapes = dict(layer.burn_params(layer.bind([8, 6], {"queries": 16, "keys": 4})))
    weights = {leaf: shape for leaf, shape in shapes.items() if leaf.endswith("weight")}
    assert weights == {
        "query.weight": (8, 16),
        "key.weight": (6, 4),
        "value.weight": (6, 4),
        "output.weight": (16, 8),
    }


def test_swiglu_has_no_biases_unless_asked() -> None:
    layer = LAYERS["SwiGlu"]
    args: Args = layer.bind([4, 6], {})
    assert dict(layer.burn_params(args)) == {"linear_inner.weight": (4, 6), "linear_outer.weight": (4, 6)}
