"""A class of the user with the attributes of a Linear: its weights have to show that they lie as a Linear's do."""

from __future__ import annotations

from importer.arrays import full
from importer.checkpoint import Module
from importer.dtypes import F32
from importer.plan.grouping import group_by_classes
from importer.recipes import Entry

Shape = tuple[int, int]


def linears(**weights: tuple[str, Shape, Shape]) -> set[str]:
    """Return the paths taken for Linears, given class, (in_features, out_features) and shape of the weight by path."""
    modules = {
        path: Module(path, name, {"in_features": features[0], "out_features": features[1]})
        for path, (name, features, _) in weights.items()
    }
    entries = [
        Entry(f"{path}.weight", full(0, F32, shape), (f"{path}.weight",)) for path, (_, _, shape) in weights.items()
    ]
    return {group.path for group in group_by_classes(entries, modules).groups if group.kind.name == "Linear"}


def test_a_weight_of_out_in_shows_that_a_class_is_a_linear() -> None:
    assert linears(a=("m.Own", (3, 4), (4, 3))) == {"a"}


def test_a_graph_convolution_is_none() -> None:
    assert linears(a=("m.GraphConvolution", (3, 4), (3, 4))) == set()


def test_a_square_weight_shows_nothing_by_itself() -> None:
    assert linears(a=("m.Own", (4, 4), (4, 4))) == set()


def test_a_square_weight_lies_as_the_others_of_its_class() -> None:
    assert linears(a=("m.Own", (4, 4), (4, 4)), b=("m.Own", (3, 4), (4, 3))) == {"a", "b"}
    assert linears(a=("m.Own", (4, 4), (4, 4)), b=("m.Own", (3, 4), (3, 4))) == set()
    assert linears(a=("m.Own", (4, 4), (4, 4)), b=("m.Other", (3, 4), (4, 3))) == {"b"}


def test_torchs_own_class_needs_no_proof() -> None:
    assert linears(a=("torch.nn.modules.linear.Linear", (4, 4), (4, 4))) == {"a"}
