"""`extends`: the child's rules run first, its entries win, and it can take away what the parent has."""

from __future__ import annotations

from pathlib import Path

import pytest

from importer.errors import RecipeError
from importer.recipes import Recipe, apply_recipe, load_recipe
from importer.recipes.operations import Map
from tests.builders.named import of_names

PARENT = r"""recipe: 1
name: parent
about: the base
accepts: [ParentModel]
config: {d: hidden, n: layers, h: heads}
drop: ['\.mask$']
strip: ['m.']
rename:
  - ['^x\.', 'parent.']
alias: {head.weight: emb.weight, other: emb.weight}
tensors:
  - {match: '^p$', map: '1 + x'}
target:
  emb: Embedding(h, d)
  layers.{n}:
    att: Linear(d, d)
    ff.inner: Linear(d, 4 * d)
    ff.outer: Linear(4 * d, d)
  head: Linear(d, h)
dtype: float16
"""


def extended(folder: Path, child: str) -> Recipe:
    (folder / "parent.yaml").write_text(PARENT, encoding="utf-8")
    path = folder / "child.yaml"
    path.write_text(f"recipe: 1\nname: child\nextends: parent.yaml\n{child}", encoding="utf-8")
    return load_recipe(path)


def shapes(recipe: Recipe) -> dict[str, tuple[int, ...]]:
    template = apply_recipe(recipe, {}, {"hidden": 2, "layers": 1, "heads": 3}).template
    assert template is not None
    return template.shapes()


def test_rules_of_the_child_run_before_the_parents(tmp_path: Path) -> None:
    recipe = extended(tmp_path, "rename: [['^x\\.', 'child.']]\ntensors: [{match: q, map: x}]")
    assert [rename.replacement.text for rename in recipe.rename] == ["child.", "parent."]
    assert [step.operation for step in recipe.tensors] == [Map("x"), Map("1 + x")]
    assert [
        entry.name for entry in apply_recipe(recipe, of_names("x.a"), {"hidden": 1, "layers": 1, "heads": 1}).entries
    ] == ["child.a"]


def test_names_of_the_config_and_aliases_are_overridden_one_by_one(tmp_path: Path) -> None:
    recipe = extended(tmp_path, "config: {d: width}\nalias: {other: b}")
    assert {name: str(bound.expression) for name, bound in recipe.config.items()} == {
        "d": "width",
        "n": "layers",
        "h": "heads",
    }
    assert {alias.name: alias.other for alias in recipe.alias} == {"other": "b", "head.weight": "emb.weight"}


def test_name_about_and_accepts_are_not_inherited(tmp_path: Path) -> None:
    recipe = extended(tmp_path, "")
    assert (recipe.name, recipe.about, recipe.accepts, recipe.parents) == ("child", "", (), ("parent",))


def test_whole_sections_are_replaced_only_where_given(tmp_path: Path) -> None:
    kept, replaced = extended(tmp_path, ""), extended(tmp_path, "dtype: keep\nstrip: []")
    assert kept.dtype.default is not None
    assert [prefix.text for prefix in kept.strip or ()] == ["m."]
    assert replaced.dtype.default is None
    assert replaced.strip == ()


def test_a_layer_of_the_template_is_overridden_in_its_place(tmp_path: Path) -> None:
    names = list(shapes(extended(tmp_path, "target:\n  layers.{n}:\n    att: Linear(d, d, bias=False)\n")))
    assert "layers.0.att.bias" not in names
    assert names.index("layers.0.att.weight") < names.index("layers.0.ff.inner.weight")


def test_null_removes_one_entry(tmp_path: Path) -> None:
    assert "head.weight" not in shapes(extended(tmp_path, "target:\n  head: null\n"))


def test_null_with_a_star_removes_everything_below(tmp_path: Path) -> None:
    found = shapes(extended(tmp_path, "target:\n  layers.{n}:\n    ff.*: null\n    moe: Param(d, 7)\n"))
    assert [name for name in found if ".ff." in name] == []
    assert found["layers.0.moe"] == (2, 7)


def test_a_list_with_conditions_takes_the_place_of_a_layer(tmp_path: Path) -> None:
    child = "target:\n  head:\n    - {when: h > 2, a: 'Linear(d, d)'}\n    - {when: h <= 2, b: 'Linear(d, d)'}\n"
    found = shapes(extended(tmp_path, child))
    assert "head.a.weight" in found
    assert "head.b.weight" not in found
    assert "head.weight" not in found


def test_new_entries_come_last(tmp_path: Path) -> None:
    assert list(shapes(extended(tmp_path, "target:\n  extra: Param(d)\n")))[-1] == "extra"


@pytest.mark.parametrize(("line", "near"), [("haed: null", "head"), ("zzz: null", "null removes")])
def test_removing_what_is_not_there_is_a_fault(tmp_path: Path, line: str, near: str) -> None:
    with pytest.raises(RecipeError) as caught:
        extended(tmp_path, f"target:\n  {line}\n")
    assert near in caught.value.how
    assert caught.value.where is not None
    assert caught.value.where.line == 5


def test_faults_of_child_and_parent_are_told_together(tmp_path: Path) -> None:
    (tmp_path / "parent.yaml").write_text("recipe: 1\nname: p\nrename: x\n", encoding="utf-8")
    path = tmp_path / "child.yaml"
    path.write_text("recipe: 1\nname: c\nextends: parent.yaml\ndrop: {}\n", encoding="utf-8")
    with pytest.raises(RecipeError) as caught:
        load_recipe(path)
    places = [fault.where for fault in caught.value.faults]
    assert [Path(place.path).name for place in places if place is not None] == ["child.yaml", "parent.yaml"]


def test_inherited_rules_that_match_nothing_are_not_told(tmp_path: Path) -> None:
    recipe = extended(tmp_path, "rename: [['^mine$', 'm']]")
    idle = apply_recipe(recipe, of_names("y"), {"hidden": 1, "layers": 1, "heads": 1}).unmatched_rules
    assert [str(rule) for rule in idle] == ["child.yaml:4 rename '^mine$'"]


def test_a_target_may_be_new_in_the_child(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("recipe: 1\nname: b\nrename: [['^a$', 'b']]\n", encoding="utf-8")
    path = tmp_path / "child.yaml"
    path.write_text("recipe: 1\nname: c\nextends: base.yaml\ntarget: {b: Param(2)}\n", encoding="utf-8")
    template = apply_recipe(load_recipe(path), of_names("a"), None).template
    assert template is not None
    assert template.shapes() == {"b": (2,)}
