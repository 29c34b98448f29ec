"""What cannot be converted without a module type: anything some layers would transpose, split, rename or fuse."""

from __future__ import annotations

import pytest

from importer.arrays import full
from importer.dtypes import F32
from importer.plan.grouping import Grouping
from importer.recipes import Entry

Shape = tuple[int, ...]


def undecided(shapes: dict[str, Shape], *, to_torch: bool = False) -> list[str]:
    rest = tuple(Entry(name, full(0, F32, shape), (name,)) for name, shape in shapes.items())
    return [entry.name for entry in Grouping((), rest).undecided(to_torch=to_torch)]


@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param({"fc.weight": (2, 3), "fc.bias": (2,)}, id="a matrix and its bias"),
        pytest.param({"norm.weight": (2,)}, id="a vector called weight"),
        pytest.param({"weight": (2, 3)}, id="a matrix at the top"),
        pytest.param({"rnn.weight_ih_l0": (8, 2), "rnn.bias_hh_l0": (8,)}, id="stacked gates"),
        pytest.param({"a.in_proj_weight": (6, 2)}, id="stacked projections"),
        pytest.param(
            {"a.q_proj_weight": (2, 2), "a.k_proj_weight": (2, 3), "a.v_proj_weight": (2, 3)}, id="projections"
        ),
        pytest.param({"n.running_mean": (2,)}, id="statistics"),
        pytest.param({"c.weight_g": (2, 1, 1), "c.weight_v": (2, 2, 3)}, id="weight norm"),
        pytest.param({"weight_g": (2, 1, 1), "weight_v": (2, 2, 3)}, id="weight norm at the top"),
        pytest.param({"c.parametrizations.weight.original0": (2, 1, 1)}, id="weight norm, parametrized"),
        pytest.param({"c.parametrizations.weight.original": (2, 2, 3)}, id="spectral norm, parametrized"),
    ],
)
def test_what_layers_treat_differently_needs_a_type(shapes: dict[str, Shape]) -> None:
    assert undecided(shapes) == list(shapes)


def test_the_factors_of_a_spectral_norm_need_a_type() -> None:
    assert "c.weight_orig" in undecided({"c.weight_orig": (2, 2, 3), "c.weight_u": (2,), "c.weight_v": (6,)})


@pytest.mark.parametrize(
    "shapes",
    [
        pytest.param({"c.weight": (2, 2, 3), "c.bias": (2,)}, id="a kernel and its bias"),
        pytest.param({"scale": (2, 2)}, id="a bare parameter"),
        pytest.param({"m.weight_g": (2,), "m.bias": (2,)}, id="a name like a factor's, alone"),
    ],
)
def test_what_every_layer_keeps_needs_none(shapes: dict[str, Shape]) -> None:
    assert undecided(shapes) == []


@pytest.mark.parametrize("leaf", ["gamma", "beta", "alpha"])
def test_what_burn_calls_otherwise_needs_a_type_on_the_way_back_only(leaf: str) -> None:
    assert undecided({f"n.{leaf}": (2,)}) == []
    assert undecided({f"n.{leaf}": (2,)}, to_torch=True) == [f"n.{leaf}"]
