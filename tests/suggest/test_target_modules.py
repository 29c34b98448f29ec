"""Field names and shapes settle the layer where they can; where several fit, all are kept."""

from __future__ import annotations

import pytest

from importer.suggest.target_modules import Shape, read_target_modules, with_attention

ONE_LAYER = [
    pytest.param({"gamma": (4,), "beta": (4,), "running_mean": (4,), "running_var": (4,)}, ["BatchNorm(4)"], id="batch norm"),
    pytest.param({"gamma": (4,), "beta": (4,)}, ["LayerNorm(4)"], id="norm with shift"),
    pytest.param({"gamma": (4,)}, ["RmsNorm(4)"], id="norm without shift"),
    pytest.param({"alpha": (3,)}, ["PRelu(n=3)"], id="prelu"),
    pytest.param({"weight": (8, 4), "bias": (4,)}, ["Linear(8, 4)", "Conv1D(8, 4)"], id="matrix with bias"),
    pytest.param({"weight": (8, 4), "bias": (8,)}, ["Linear(4, 8, layout='col')"], id="column layout"),
    pytest.param({"weight": (8, 4)}, ["Linear(8, 4, bias=False)", "Embedding(8, 4)"], id="matrix without bias"),
    pytest.param({"weight": (8, 3, 5), "bias": (8,)}, ["Conv1d(3, 8, 5)"], id="rank 3"),
    pytest.param({"weight": (8, 3, 1, 7), "bias": (8,)}, ["Conv2d(3, 8, [1, 7])"], id="oblong kernel"),
    pytest.param({"weight": (8, 3, 2, 2), "bias": (3,)}, ["ConvTranspose2d(8, 3, 2)"], id="transposed by its bias"),
    pytest.param(
        {"weight": (8, 3, 2, 2, 2)},
        ["Conv3d(3, 8, 2, bias=False)", "ConvTranspose3d(8, 3, 2, bias=False)"],
        id="rank 5 without bias",
    ),
    pytest.param({"weight": (8, 1, 3, 3), "bias": (8,)}, ["Conv2d(8, 8, 3, groups=8)"], id="depthwise"),
    pytest.param({"weight": (4,), "bias": (4,)}, ["Param(4)"], id="a norm of one's own"),
    pytest.param({"weight": (8, 4), "bias": (5,)}, ["Param(8, 4)"], id="a bias that fits nowhere"),
]  # fmt: skip


@pytest.mark.parametrize(("leaves", "expected"), ONE_LAYER)
def test_a_module_is_read_as_the_layers_that_have_its_parameters(leaves: dict[str, Shape], expected: list[str]) -> None:
    unit = read_target_modules({f"block.thing.{leaf}": shape for leaf, shape in leaves.items()})[0]
    assert [candidate.text() for candidate in unit.candidates] == expected


def test_an_embedding_comes_first_where_the_name_says_so() -> None:
    (unit,) = read_target_modules({"model.tok_embeddings.weight": (9, 4)})
    assert [candidate.kind for candidate in unit.candidates] == ["Embedding", "Linear"]


def gates(path: str, names: tuple[str, ...], size_in: int, hidden: int) -> dict[str, Shape]:
    """Return the parameters of a recurrent layer in Burn."""
    return {
        f"{path}.{name}_gate.{side}_transform.{leaf}": shape
        for name in names
        for side, size in (("input", size_in), ("hidden", hidden))
        for leaf, shape in (("weight", (size, hidden)), ("bias", (hidden,)))
    }


LSTM = ("input", "forget", "output", "cell")
GRU = ("update", "reset", "new")


def test_gates_make_a_recurrent_layer() -> None:
    units = read_target_modules({**gates("a", LSTM, 3, 5), **gates("b", GRU, 3, 5)})
    assert [unit.candidates[0].text() for unit in units] == ["Lstm(3, 5)", "Gru(3, 5)"]


def test_two_directions_make_a_bidirectional_layer() -> None:
    (unit,) = read_target_modules({**gates("rnn.forward", LSTM, 3, 5), **gates("rnn.reverse", LSTM, 3, 5)})
    assert (unit.path, unit.candidates[0].text()) == ("rnn", "BiLstm(3, 5)")


def test_numbered_recurrent_layers_are_the_layers_of_one() -> None:
    (unit,) = read_target_modules({**gates("rnn.0", GRU, 3, 5), **gates("rnn.1", GRU, 5, 5)})
    assert (unit.path, unit.candidates[0].text()) == ("rnn", "Gru(3, 5, layers=2)")


def test_gates_that_make_no_layer_stay_single_parameters() -> None:
    units = read_target_modules(gates("odd", ("a", "b"), 3, 5))
    assert {unit.candidates[0].kind for unit in units} == {"Param"}


def projections(keys_in: int) -> dict[str, Shape]:
    widths = {"query": 6, "key": keys_in, "value": keys_in, "output": 6}
    return {f"block.attn.{n}.{leaf}": s for n, w in widths.items() for leaf, s in (("weight", (w, 6)), ("bias", (6,)))}


@pytest.mark.parametrize(("keys_in", "expected"), [(6, "Mha(6)"), (4, "CrossAttention(6, 4, queries=6, keys=6)")])
def test_four_projections_make_an_attention_where_a_file_holds_them_fused(keys_in: int, expected: str) -> None:
    (unit,) = with_attention(read_target_modules({**projections(keys_in)}))
    assert (unit.path, unit.candidates[0].text()) == ("block.attn", expected)


def test_three_projections_stay_linears() -> None:
    shapes = {name: shape for name, shape in projections(6).items() if "value" not in name}
    assert [unit.candidates[0].kind for unit in with_attention(read_target_modules(shapes))] == ["Linear"] * 3


def test_every_parameter_belongs_to_one_unit() -> None:
    shapes: dict[str, Shape] = {"scale": (), "fc.weight": (3, 2), **gates("rnn", LSTM, 3, 5), "a.b.table": (2, 2, 2)}
    assert dict(pair for unit in read_target_modules(shapes) for pair in unit.shapes()) == shapes
