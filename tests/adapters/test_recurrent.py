"""Gates of recurrent layers, apart and together. That they compute the same is shown in tests/numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.adapters import LAYERS
from tests.adapters.samples import Values, assert_same, lazy, numbered, pieces, returned, state

GATES = {"Lstm": 4, "Gru": 3, "Rnn": 1}


def torch_state(kind: str, *, layers: int, both: bool, bias: bool, size: int = 3, hidden: int = 2) -> dict[str, Values]:
    """Return parameters named and shaped as torch.nn does."""
    rows = GATES[kind] * hidden
    parameters: dict[str, Values] = {}
    for layer in range(layers):
        columns = size if layer == 0 else hidden * (1 + both)
        for suffix in ("", "_reverse")[: 1 + both]:
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, columns), "weight_hh": (rows, hidden)}
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
            for leaf, shape in shapes.items():
                parameters[f"{leaf}_l{layer}{suffix}"] = numbered(*shape, start=100 * len(parameters))
    return parameters


def test_lstm_gates_are_the_row_blocks_i_f_g_o_transposed() -> None:
    weight = numbered(8, 3)
    made = pieces(LAYERS["Lstm"].to_burn(state(weight_ih_l0=weight), {}))
    blocks = dict(zip(("input", "forget", "cell", "output"), np.split(weight, 4), strict=True))
    assert_same(made, {f"{gate}_gate.input_transform.weight": block.T for gate, block in blocks.items()})


def test_gru_gates_are_the_row_blocks_r_z_n() -> None:
    bias = numbered(6)
    made = pieces(LAYERS["Gru"].to_burn(state(bias_hh_l0=bias), {}))
    blocks = dict(zip(("reset", "update", "new"), np.split(bias, 3), strict=True))
    assert_same(made, {f"{gate}_gate.hidden_transform.bias": block for gate, block in blocks.items()})


@given(
    kind=st.sampled_from(["Lstm", "Gru", "Rnn"]),
    layers=st.integers(1, 3),
    both=st.booleans(),
    bias=st.booleans(),
    settled=st.booleans(),
)
def test_taking_a_recurrent_layer_there_and_back_changes_nothing(
    kind: str, layers: int, both: bool, bias: bool, settled: bool
) -> None:
    layer = LAYERS[f"{'Bi' * both}{kind}"]
    args = layer.bind([3, 2], {"layers": layers, "bias": bias}) if settled else {}
    parameters = torch_state(kind, layers=layers, both=both, bias=bias)
    there = layer.to_burn({name: lazy(values) for name, values in parameters.items()}, args)
    expected = dict(layer.burn_params(layer.bind([3, 2], {"layers": layers, "bias": bias})))
    assert {piece.name: piece.array.shape for piece in there.params} == expected
    assert_same(pieces(layer.to_torch(returned(there), args)), parameters)


def test_pieces_come_in_the_order_of_burns_fields() -> None:
    parameters = torch_state("Lstm", layers=1, both=False, bias=False)
    adapted = LAYERS["Lstm"].to_burn({name: lazy(values) for name, values in parameters.items()}, {})
    gates = [piece.name.partition("_gate")[0] for piece in adapted.params]
    assert gates == ["input", "input", "forget", "forget", "output", "output", "cell", "cell"]


def test_cells_have_no_layer_in_their_names() -> None:
    made = pieces(LAYERS["Rnn"].to_burn(state(weight_ih=numbered(2, 3)), {}))
    assert_same(made, {"gate.input_transform.weight": numbered(2, 3).T})


@pytest.mark.parametrize(
    ("kind", "leaf", "shape", "word"),
    [
        ("Lstm", "weight_hr_l0", (2, 4), "proj_size"),
        ("Lstm", "weight_ih_l0", (6, 3), "stacks 4 gates"),
        ("Gru", "bias_ih_l0", (), "stacks 3 gates"),
        ("Rnn", "weight_hh_l0", (8, 2), "stacks 1 gate"),
        ("Lstm", "peephole", (3,), "no place in Lstm"),
    ],
)
def test_what_burn_cannot_hold_is_refused_by_name(kind: str, leaf: str, shape: tuple[int, ...], word: str) -> None:
    faults = LAYERS[kind].to_burn({leaf: lazy(numbered(*shape))}, {}).faults
    assert [(fault.name, word in fault.message) for fault in faults] == [(leaf, True)]


def test_a_second_direction_where_the_template_has_one_names_the_two_directional_type() -> None:
    layer = LAYERS["Lstm"]
    faults = layer.to_burn(state(weight_ih_l0_reverse=numbered(8, 3)), layer.bind([3, 2], {})).faults
    assert ["type BiLstm" in fault.how for fault in faults] == [True]


def test_more_layers_than_the_template_has_are_faults() -> None:
    layer = LAYERS["Gru"]
    faults = layer.to_burn(state(weight_ih_l1=numbered(6, 2)), layer.bind([3, 2], {})).faults
    assert [fault.how for fault in faults] == ["Correct the number of layers."]


def test_a_missing_gate_is_a_fault_on_the_way_back() -> None:
    params = {"reset_gate.input_transform.weight": lazy(numbered(3, 2))}
    faults = LAYERS["Gru"].to_torch(params, {}).faults
    assert [fault.name for fault in faults] == list(params)
    assert "'update_gate.input_transform.weight'" in faults[0].message


def test_gates_of_different_shapes_are_a_fault_on_the_way_back() -> None:
    names = [f"{gate}_gate.input_transform.weight" for gate in ("reset", "update", "new")]
    params = {name: lazy(numbered(3 + number, 2)) for number, name in enumerate(names)}
    faults = LAYERS["Gru"].to_torch(params, {}).faults
    assert [fault.name for fault in faults] == names
    assert all("cannot be joined" in fault.message for fault in faults)


def test_a_parameter_without_a_place_is_a_fault_on_the_way_back() -> None:
    faults = LAYERS["Gru"].to_torch({"gate.weight": lazy(numbered(2, 2))}, {}).faults
    assert [fault.name for fault in faults] == ["gate.weight"]


def test_a_gate_of_wrong_rank_names_the_files_own_parameter() -> None:
    faults = LAYERS["Rnn"].to_burn(state(weight_ih_l0=numbered(2, 3, 1)), {}).faults
    assert [fault.name for fault in faults] == ["weight_ih_l0"]


@pytest.mark.parametrize("leaf", ["weight_ih_l9999", "weight_ih_l99999999", "weight_ih_l" + "9" * 5000])
def test_a_name_that_claims_a_huge_layer_number_is_a_fault(leaf: str) -> None:
    faults = LAYERS["Lstm"].to_burn({leaf: lazy(numbered(8, 3))}, {}).faults
    assert [fault.name for fault in faults] == [leaf]
