"""Every recorded family, and every known difference of its published files, is found, planned, and leaves nothing over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from importer.conversion import convert
from importer.recipes import choose_recipe, list_builtin, load_recipe
from importer.report import ApplyResult
from tests.families.recorded import RECIPES
from tests.families.synthetic import KEYS, Family, load, write
from tests.families.variants import VARIANTS, Variant

LLAMA_LIKE = ("llama", "mistral", "qwen2", "qwen3")
WITHOUT_CONFIG = (
    "albert",
    "bart",
    "bart_classifier",
    "bert",
    "bert_classifier",
    "bert_span",
    "clip",
    "clip_openai",
    "clip_projections",
    "clip_vision",
    "convnext",
    "deit",
    "densenet121",
    "distilbert",
    "distilbert_classifier",
    "distilbert_span",
    "efficientnet_b0",
    "gpt2",
    "inception_v3",
    "llama_meta",
    "mamba",
    "minilm",
    "modernbert",
    "modernbert_classifier",
    "mpnet",
    "mpnet_classifier",
    "resnet18",
    "resnet50",
    "roberta",
    "roberta_tagger",
    "siglip",
    "squeezenet1_0",
    "squeezenet1_1",
    "t5",
    "t5_encoder",
    "t5_small",
    "vgg11_bn",
    "vgg16",
    "vit",
    "vit_encoder",
    "vit_timm",
    "whisper",
    "whisper_openai",
    "xlm_roberta_cls",
)
"""Families whose sizes are all read off the tensors."""


TOLD_BY_THE_CLASS = {"t5_small": ("lm_head.weight",)}
"""Tied heads that are in no file: without a class nothing says that they are due, and none is made up."""


def planned(family: Family, folder: Path, recipe: str = "auto") -> ApplyResult:
    return convert(write(family, folder), folder / "out.bpk", recipe=recipe, dry_run=True)


def leftovers(result: ApplyResult) -> list[str]:
    """What a complete conversion has none of, as text so that a failure shows it: also nothing skipped without a rule."""
    unexplained = [skipped for skipped in result.skipped if not skipped.rule]
    return [str(item) for item in (*result.missing, *result.unused, *result.errors, *unexplained)]


def test_every_recorded_family_has_a_recipe() -> None:
    assert sorted(path.name for path in KEYS.iterdir()) == sorted(RECIPES)


def test_every_builtin_recipe_has_a_recorded_family() -> None:
    named_only = {"llama-hf"}
    assert {builtin.name for builtin in list_builtin()} == set(RECIPES.values()) | named_only


@pytest.mark.parametrize("name", RECIPES)
def test_the_recipe_of_a_family_is_found_from_its_config(name: str) -> None:
    family = load(name)
    choice = choose_recipe(family.config, [row.name for row in family.rows])
    assert choice.recipe is not None, choice.why
    assert choice.recipe.name == RECIPES[name]


@pytest.mark.parametrize("name", RECIPES)
def test_the_recipe_of_a_family_is_found_where_the_config_names_no_class(name: str) -> None:
    family = load(name)
    config = {key: value for key, value in family.config.items() if key != "architectures"}
    choice = choose_recipe(config, [row.name for row in family.untied.rows])
    assert choice.recipe is not None, choice.why
    assert choice.recipe.name == RECIPES[name]


SAME_NAMES = {
    "mistral": ("llama",),
    "gemma": ("llama",),
    "granite": ("llama",),
    "helium": ("llama",),
    "ernie4_5": ("llama",),
    "xlm_roberta": ("roberta",),
}
"""Families whose names are another's, so that names alone cannot tell them apart."""


@pytest.mark.parametrize("name", [name for name in RECIPES if not name.startswith("torch_")])
def test_the_recipe_of_a_family_is_found_from_names_alone(name: str) -> None:
    choice = choose_recipe(None, [row.name for row in load(name).untied.rows])
    assert choice.recipe is not None, (choice.why, choice.nearest)
    assert choice.recipe.name in {RECIPES[name], *SAME_NAMES.get(name, ())}


@pytest.mark.parametrize("name", RECIPES)
def test_a_safetensors_file_of_a_family_converts_without_rest(name: str, tmp_path: Path) -> None:
    assert leftovers(planned(load(name).untied, tmp_path)) == []


@pytest.mark.parametrize("name", [name for name in RECIPES if any(row.tied_to for row in load(name).rows)])
def test_a_file_that_repeats_tied_tensors_converts_without_rest(name: str, tmp_path: Path) -> None:
    assert leftovers(planned(load(name), tmp_path)) == []


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_published_difference_converts_without_rest(variant: Variant, tmp_path: Path) -> None:
    result = planned(variant.load(), tmp_path)
    assert leftovers(result) == []
    assert result.recipe is not None
    assert result.recipe.startswith(variant.recipe)


@pytest.mark.parametrize("name", WITHOUT_CONFIG)
def test_without_a_config_the_sizes_are_those_it_would_have_given(name: str, tmp_path: Path) -> None:
    family = load(name).untied
    there = planned(family, tmp_path)
    (tmp_path / "bare").mkdir()
    bare = planned(replace(family, config={}), tmp_path / "bare")
    assert leftovers(bare) == []
    assert [(entry.name, entry.shape) for entry in bare.applied] == [
        (entry.name, entry.shape) for entry in there.applied if entry.name not in TOLD_BY_THE_CLASS.get(name, ())
    ]


@pytest.mark.parametrize("name", LLAMA_LIKE)
def test_llama_hf_takes_every_llama_like_family_with_its_names(name: str, tmp_path: Path) -> None:
    assert leftovers(planned(load(name).untied, tmp_path, "llama-hf")) == []


@pytest.mark.parametrize("name", sorted({*RECIPES.values(), "llama-hf"}))
def test_a_recipe_says_what_it_is_for(name: str) -> None:
    assert load_recipe(name).about
