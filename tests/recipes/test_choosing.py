"""Choosing a recipe: the strongest claim decides, a tie does not, and what comes nearest is told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from importer.recipes import Choice, Near, library, load_recipe
from importer.recipes.choosing import choose_recipe, objections

RECIPES = {
    "base": "[BaseModel]",
    "masked": "[BaseForMaskedLM]",
    "family": "[base]",
    "vision": "[{config: {library: vision, arch: [v1, v2]}}]",
    "fields": "[{has: [dim, n_heads], names: '^tok\\.'}]",
    "named": "[{names: ['^tok\\.', '^head\\.']}]",
    "narrower": "[{names: ['^tok\\.', '^head\\.', '\\.bias$']}]",
    "patterned": "[{classes: 'tiny_v\\d'}]",
    "typed": "[{names: '^typ\\.', model_type: [typed, typed2]}]",
    "small": "[Either, {requires: {size < 10: it has small tables}}]",
    "large": "[{classes: Either, requires: {'coalesce(size, 0) > 10': it has large tables}}]",
    "strict": "[{names: '^str\\.'}, Strict, {unless: {scaled: no place for a scale}, unlike: {'Twin.*': it adds a bias}}]",
    "other": "[{names: ['^tok\\.', '^exotic\\.'], without: ['^head\\.']}]",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, accepts in RECIPES.items():
        text = f"recipe: 1\nname: {name}\naccepts: {accepts}\nrename: [['^a$', 'b']]\n"
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(library, "builtin_folder", lambda: tmp_path)


def chosen(config: Mapping[str, object] | None, *names: str) -> Choice:
    return choose_recipe(config, names)


@pytest.mark.parametrize(
    ("config", "names", "recipe", "why"),
    [
        pytest.param({"architectures": ["BaseModel"]}, (), "base", "architectures: BaseModel", id="architecture"),
        pytest.param({"architecture": "tiny_v2"}, (), "patterned", "architecture: tiny_v2", id="pattern for a class"),
        pytest.param({"_class_name": "BaseModel"}, (), "base", "_class_name: BaseModel", id="class name"),
        pytest.param({"arch": "BaseModel"}, (), "base", "arch: BaseModel", id="arch"),
        pytest.param(
            {"architectures": ["BaseForMaskedLM"], "model_type": "base"},
            (),
            "masked",
            "",
            id="a class says more than a type",
        ),
        pytest.param({"model_type": "base"}, (), "family", "model_type: base", id="model type"),
        pytest.param(
            {"library": "vision", "arch": "v2"}, (), "vision", "library: vision, arch: v2", id="fields and values"
        ),
        pytest.param({"dim": 1, "n_heads": 2}, ("tok.w",), "fields", "has dim, n_heads", id="fields"),
        pytest.param(None, ("tok.w", "head.w"), "named", "'tok.w'", id="names alone"),
        pytest.param(None, ("tok.w", "head.bias"), "narrower", "", id="more conditions win"),
        pytest.param({"vocab_size": 3}, ("tok.w", "head.w"), "named", "", id="names where the config names no class"),
        pytest.param({"model_type": "typed"}, ("typ.w",), "typed", "", id="names where the type allows it"),
        pytest.param({"architectures": ["Two", "BaseModel"]}, (), "base", "", id="one of two classes"),
        pytest.param(
            {"architectures": ["Either"], "size": 3}, (), "small", "", id="one class, told apart by a condition"
        ),
        pytest.param({"architectures": ["Either"], "size": 30}, (), "large", "", id="and the other way round"),
        pytest.param({"architectures": ["Either"]}, (), "small", "", id="a field that is not there is not judged"),
    ],
)
def test_the_strongest_claim_decides(
    config: Mapping[str, object] | None, names: tuple[str, ...], recipe: str, why: str
) -> None:
    choice = chosen(config, *names)
    assert choice.recipe is not None
    assert choice.recipe.name == recipe
    assert why in choice.why


def test_a_tie_is_not_decided_and_lists_both(tmp_path: Path) -> None:
    text = "recipe: 1\nname: twin\naccepts: [BaseModel]\nrename: [['^a$', 'b']]\n"
    (tmp_path / "twin.yaml").write_text(text, encoding="utf-8")
    choice = chosen({"architectures": ["BaseModel"]})
    assert choice.recipe is None
    assert choice.why == "base and twin fit equally well"
    assert [near.recipe for near in choice.nearest] == ["base", "twin"]


def test_without_a_match_the_nearest_are_told_with_the_reason() -> None:
    choice = chosen({"architectures": ["BaseForMaskedLN"]})
    assert choice.recipe is None
    assert "architectures: 'BaseForMaskedLN'" in choice.why
    assert choice.nearest[0] == Near("masked", "it is for BaseForMaskedLM, which reads like 'BaseForMaskedLN'")


def test_names_that_match_in_part_are_near() -> None:
    choice = chosen(None, "tok.w", "x.w")
    assert choice.recipe is None
    assert Near("named", "1 of the 2 names it goes by are there") in choice.nearest


def test_excluded_names_speak_against_a_recipe() -> None:
    nearest = {near.recipe: near.why for near in chosen(None, "head.w", "x.w").nearest}
    assert nearest.get("other") is None or "excludes" in nearest["other"]


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"architectures": ["New"]}, id="architectures"),
        pytest.param({"architectures": ["New"], "model_type": "typed"}, id="a class says more than a known type"),
        pytest.param({"_class_name": "New"}, id="class name"),
        pytest.param({"architecture": "new_base"}, id="timm's architecture"),
        pytest.param({"arch": "new"}, id="arch"),
        pytest.param({"model_type": "new"}, id="a type that the claim on names does not allow"),
    ],
)
def test_names_never_decide_against_the_config(config: Mapping[str, object]) -> None:
    choice = chosen(config, "tok.w", "head.w", "typ.w", "str.w")
    assert choice.recipe is None
    assert str(next(iter(config.values()))).strip("[]'") in choice.why
    assert {near.recipe for near in choice.nearest} & {"named", "typed", "strict"}


def test_a_condition_that_does_not_hold_refuses_with_its_reason_and_line() -> None:
    choice = chosen({"architectures": ["Strict"], "scaled": True})
    assert choice.recipe is None
    assert choice.why == (
        "config.json says architectures: Strict, and the config says 'scaled': no place for a scale (strict.yaml:3)"
    )
    assert chosen({"architectures": ["Strict"], "scaled": False}).recipe is not None
    assert chosen({"scaled": True}, "str.w").recipe is None, "the config decides also where names have chosen"


def test_what_is_known_to_differ_is_told() -> None:
    choice = chosen({"architectures": ["TwinModel"]}, "str.w")
    assert choice.why == "config.json says architectures: 'TwinModel', and no built-in recipe accepts that class"
    assert choice.nearest[0].recipe == "strict"
    assert choice.nearest[0].against == ("'TwinModel': it adds a bias (strict.yaml:3)",)


def test_what_speaks_against_a_recipe_that_was_asked_for() -> None:
    strict = load_recipe("strict")
    assert objections(strict, {"architectures": ["Strict"]}, ["str.w"]) == ()
    assert objections(strict, None, ["str.w"]) == ()
    against = objections(strict, {"architectures": ["TwinModel"], "scaled": 1}, ["str.w"])
    assert against == (
        "config.json says architectures: 'TwinModel', which strict does not accept",
        "'TwinModel': it adds a bias (strict.yaml:3)",
        "the config says 'scaled': no place for a scale (strict.yaml:3)",
    )


def test_nothing_at_all_is_near_nothing() -> None:
    assert chosen(None, "zzz") == Choice(None, "no built-in recipe is for this checkpoint (by the tensor names)", ())
    assert "there are no tensors" in chosen(None).why


def test_a_config_with_odd_values_does_no_harm() -> None:
    assert chosen({"architectures": [3, None], "model_type": ["x"], "arch": {}}, "zzz").recipe is None


def test_the_files_are_listed_by_name() -> None:
    assert [path.stem for path in library.builtin_files()] == sorted(RECIPES)
