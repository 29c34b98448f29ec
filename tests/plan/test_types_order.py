"""Which module an entry of `types` means: the order of the entries decides, then the outermost path."""

from __future__ import annotations

from importer.arrays import full
from importer.dtypes import F32
from importer.plan.grouping import Grouping, group_by_types
from importer.recipes import Entry, parse_recipe


def grouped(types: str, *names: str) -> Grouping:
    recipe = parse_recipe(f"recipe: 1\nname: x\nrename: []\ntypes:\n{types}")
    return group_by_types([Entry(name, full(0, F32, (2, 2)), (name,)) for name in names], recipe.types)


def kinds(grouping: Grouping) -> dict[str, tuple[str, list[str]]]:
    return {group.path: (group.kind.name, list(group.entries)) for group in grouping.groups}


def test_an_entry_for_a_whole_layer_owns_what_lies_in_it_when_it_stands_first() -> None:
    types = "  - ['layers\\.\\d+', TransformerEncoderLayer]\n  - ['linear\\d$', Linear]\n"
    found = kinds(grouped(types, "layers.0.linear1.weight", "linear2.weight"))
    assert found == {
        "layers.0": ("TransformerEncoderLayer", ["linear1.weight"]),
        "linear2": ("Linear", ["weight"]),
    }


def test_an_entry_for_a_part_wins_when_it_stands_first() -> None:
    types = "  - ['\\.linear\\d$', Linear]\n  - ['layers\\.\\d+', TransformerEncoderLayer]\n"
    found = kinds(grouped(types, "layers.0.linear1.weight", "layers.0.norm1.weight"))
    assert found == {
        "layers.0.linear1": ("Linear", ["weight"]),
        "layers.0": ("TransformerEncoderLayer", ["norm1.weight"]),
    }


def test_a_pattern_never_means_a_parameter_unless_the_kind_is_param() -> None:
    types = "  - ['weight$', Linear]\n  - ['\\.scale$', Param]\n"
    grouping = grouped(types, "fc.weight", "fc.scale")
    assert kinds(grouping) == {"fc.scale": ("Param", [""])}
    assert [entry.name for entry in grouping.rest] == ["fc.weight"]
