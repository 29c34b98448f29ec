"""Choosing a recipe: the strongest claim decides, a tie does not, and what comes nearest is told."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from importer.recipes import Choice, library
from importer.recipes.choosing import choose_recipe

RECIPES = {
    "base": "[BaseModel]",
    "masked": "[BaseForMaskedLM]",
    "family": "[base]",
    "vision": "[{config: {library: vision, arch: [v1, v2]}}]",
    "fields": "[{has: [dim, n_heads], names: '^tok\\.'}]",
    "named": "[{names: ['^tok\\.', '^head\\.']}]",
    "narrower": "[{names: ['^tok\\.', '^head\\.', '\\.bias$']}]",
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
        pytest.param(
            {"architectures": ["New"]}, ("tok.w", "head.w"), "named", "", id="names where the config says nothing known"
        ),
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
    assert [name for name, _ in choice.nearest] == ["base", "twin"]


def test_without_a_match_the_nearest_are_told_with_the_reason() -> None:
    choice = chosen({"architectures": ["BaseForMaskedLN"]})
    assert choice.recipe is None
    assert "architectures: 'BaseForMaskedLN'" in choice.why
    assert choice.nearest[0] == ("masked", "it is for BaseForMaskedLM, which reads like 'BaseForMaskedLN'")


def test_names_that_match_in_part_are_near() -> None:
    choice = chosen(None, "tok.w", "x.w")
    assert choice.recipe is None
    assert ("named", "1 of the 2 names it goes by are there") in choice.nearest


def test_excluded_names_speak_against_a_recipe() -> None:
    nearest = dict(chosen(None, "head.w", "x.w").nearest)
    assert nearest.get("other") is None or "excludes" in nearest["other"]


def test_nothing_at_all_is_near_nothing() -> None:
    assert chosen(None, "zzz") == Choice(None, "no built-in recipe is for this checkpoint (by the tensor names)", ())
    assert "there are no tensors" in chosen(None).why


def test_a_config_with_odd_values_does_no_harm() -> None:
    assert chosen({"architectures": [3, None], "model_type": ["x"], "arch": {}}, "zzz").recipe is None


def test_the_files_are_listed_by_name() -> None:
    assert [path.stem for path in library.builtin_files()] == sorted(RECIPES)
