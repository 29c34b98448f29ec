"""Factors of weight and spectral norm found in a module's parameters. The fused values are checked in tests/numbers."""

from __future__ import annotations

import pytest

from importer.adapters import LAYERS
from tests.adapters.samples import Values, lazy, numbered, pieces

G, V = numbered(2, 1, start=1), numbered(2, 3, start=1)
U, V_RIGHT = numbered(2, start=1), numbered(3, start=1)


@pytest.mark.parametrize(
    "parameters",
    [
        {"weight_g": G, "weight_v": V},
        {"parametrizations.weight.original0": G, "parametrizations.weight.original1": V},
        {"weight_orig": V, "weight_u": U, "weight_v": V_RIGHT},
        {
            "parametrizations.weight.original": V,
            "parametrizations.weight.0._u": U,
            "parametrizations.weight.0._v": V_RIGHT,
        },
    ],
    ids=["weight norm hook", "weight norm parametrization", "spectral norm hook", "spectral norm parametrization"],
)
def test_all_factors_are_the_sources_of_one_weight(parameters: dict[str, Values]) -> None:
    adapted = LAYERS["Linear"].to_burn({name: lazy(values) for name, values in parameters.items()}, {})
    assert adapted.faults == ()
    assert [(piece.name, piece.sources) for piece in adapted.params] == [("weight", tuple(parameters))]
    assert "norm fused" in adapted.params[0].note


def test_norms_inside_a_recurrent_layer_are_fused_before_its_gates_are_split() -> None:
    parameters = {"weight_hh_l0_g": numbered(2, 1, start=1), "weight_hh_l0_v": numbered(2, 2, start=1)}
    made = pieces(LAYERS["Rnn"].to_burn({name: lazy(values) for name, values in parameters.items()}, {}))
    assert list(made) == ["gate.hidden_transform.weight"]


def test_a_normed_child_of_a_transformer_layer_is_fused() -> None:
    parameters = {"linear1.weight_g": G, "linear1.weight_v": V}
    made = LAYERS["TransformerEncoderLayer"].to_burn({name: lazy(values) for name, values in parameters.items()}, {})
    assert [(piece.name, piece.sources) for piece in made.params] == [
        ("pwff.linear_inner.weight", ("linear1.weight_g", "linear1.weight_v"))
    ]


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"parametrizations.weight.0.base": numbered(2, 2)}, "parametrization other than"),
        ({"weight_g": numbered(5, 1), "weight_v": V}, "do not fit"),
        ({"weight_g": G, "weight_v": V, "weight": V}, "the same weight"),
        ({"weight_g": G, "weight_v": V, "parametrizations.weight.original1": V}, "the same weight"),
    ],
    ids=["unknown parametrization", "factors of other sizes", "fused and apart", "both spellings"],
)
def test_factors_that_make_no_weight_are_faults(parameters: dict[str, Values], word: str) -> None:
    faults = LAYERS["Linear"].to_burn({name: lazy(values) for name, values in parameters.items()}, {}).faults
    assert faults
    assert all(word in fault.message for fault in faults)


def test_a_lone_factor_is_no_parameter_of_the_layer() -> None:
    faults = LAYERS["Linear"].to_burn({"weight_g": lazy(G)}, {}).faults
    assert ["no parameter 'weight_g'" in fault.message for fault in faults] == [True]
