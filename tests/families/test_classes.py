"""Every class of four libraries: never a recipe by its names against its config, never a head that nobody saved.

The models are recorded (`fixtures/classes`, from transformers itself): config.json, saved names and shapes, tied pairs. The files made of
them hold a header and no values, for which a dry run does not ask.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any

import pytest

from importer.conversion import convert
from importer.errors import DecisionNeededError, RecipeError
from importer.recipes import choose_recipe, list_builtin, load_recipe
from importer.recipes.recipe import Accept
from importer.report import ApplyResult

CLASSES = Path(__file__).resolve().parents[2] / "fixtures" / "classes"
NAMED_BY = {
    "transformers": "architectures",
    "diffusers": "_class_name",
    "timm": "architecture",
    "torchvision": "arch",
}
BYTES = {"F32": 4, "BF16": 2, "F16": 2, "I64": 8, "BOOL": 1}

REFUSED = {
    "gpt2, scores by layer": "scale_attn_by_inverse_layer_idx",
    "gpt2, cross attention": "add_cross_attention",
    "bert, cross attention": "add_cross_attention",
    "wav2vec2, adapter": "add_adapter",
    "wav2vec2, adapters in layers": "adapter_attn_dim",
    "hubert, batch norm": "conv_pos_batch_norm",
    "albert, groups": "num_hidden_groups",
    "albert, inner layers": "inner_group_num",
    "vit, no biases": "qkv_bias",
    "mvp, prompts": "use_prompt",
    "ernie, task types": "use_task_id",
    "mistral, partly rotary": "partial_rotary_factor",
}
"""Settings that no target expresses, with the field that the message must name."""


def _read(name: str) -> Any:
    return json.loads(lzma.decompress((CLASSES / name).read_bytes()))


MODELS: dict[str, dict[str, Any]] = _read("models.json.xz")


@lru_cache(maxsize=1)
def accepts() -> Mapping[str, tuple[Accept, ...]]:
    return {builtin.name: load_recipe(builtin.path).accepts for builtin in list_builtin()}


def is_accepted(name: str) -> bool:
    """Whether some recipe's `accepts` names the class, as text or by a pattern."""
    entries = [entry for accepted in accepts().values() for entry in accepted]
    return any(
        entry.identifier == name or any(pattern.fullmatch(name) for pattern in entry.classes) for entry in entries
    )


@pytest.mark.parametrize("library", NAMED_BY)
def test_no_class_takes_a_recipe_that_does_not_accept_it(library: str) -> None:
    table = _read("names.json.xz")
    names = table["names"]
    found: Counter[str] = Counter()
    for name, (_, indices) in table["classes"][library].items():
        value = [name] if library == "transformers" else name
        choice = choose_recipe({NAMED_BY[library]: value}, [names[i].replace("{i}", "0") for i in indices])
        if choice.recipe is not None:
            assert is_accepted(name), f"{name} takes {choice.recipe.name}"
            assert name in choice.why
            found["taken"] += 1
        else:
            found["resembling"] += any("resemble" in near.why for near in choice.nearest)
            assert name in choice.why
    assert found["taken"] > 0
    assert found["resembling"] > 0, "the classes that a choice by names would have taken are among these"


def written(model: Mapping[str, Any], folder: Path, **fields: object) -> Path:
    """Write config.json and a safetensors file with a header and a hole for its values."""
    header: dict[str, Any] = {}
    offset = 0
    for name, dtype, shape in model["tensors"]:
        size = BYTES[dtype] * prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**model["config"], **fields}), encoding="utf-8")
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + offset)
    return folder


def planned(model: Mapping[str, Any], folder: Path, **fields: object) -> ApplyResult:
    return convert(written(model, folder, **fields), folder / "out.bpk", dry_run=True)


ACCEPTED = [title for title, model in MODELS.items() if title not in REFUSED and is_accepted(model["class"])]


@pytest.mark.parametrize("title", ACCEPTED)
def test_an_accepted_class_arrives_whole_and_nothing_is_invented(title: str, tmp_path: Path) -> None:
    model = MODELS[title]
    result = planned(model, tmp_path)
    assert [str(one) for one in (*result.missing, *result.unused, *result.errors)] == []
    assert all(skipped.rule for skipped in result.skipped)
    assert copied(result, model) <= set(model["ties"].values()) | set(model["ties"]), (
        "though the library ties it to nothing"
    )


def copied(result: ApplyResult, model: Mapping[str, Any]) -> set[str]:
    """Return the sources of which more elements are in the output than the source has."""
    written_of: Counter[str] = Counter()
    for applied in result.applied:
        if len(applied.sources) == 1:
            written_of[applied.sources[0]] += prod(applied.shape)
    return {name for name, _, shape in model["tensors"] if written_of[name] > prod(shape)}


@pytest.mark.parametrize("title", REFUSED)
def test_a_setting_that_no_target_expresses_is_refused_by_name(title: str, tmp_path: Path) -> None:
    with pytest.raises(DecisionNeededError, match=REFUSED[title]) as caught:
        planned(MODELS[title], tmp_path)
    assert ".yaml:" in str(caught.value), "the line of the recipe that says so"


REFUSED_CLASSES = [title for title, model in MODELS.items() if title not in REFUSED and not is_accepted(model["class"])]


@pytest.mark.parametrize("title", REFUSED_CLASSES)
def test_a_class_that_nobody_accepts_stops(title: str, tmp_path: Path) -> None:
    with pytest.raises(DecisionNeededError, match="no built-in recipe accepts that class") as caught:
        planned(MODELS[title], tmp_path)
    assert "--recipe" in caught.value.how


HEADS = (
    "lm_head.weight",
    "embed_out.weight",
    "proj_out.weight",
    "cls.predictions.decoder.weight",
    "vocab_projector.weight",
)
OWN_HEADS = [title for title in ACCEPTED if any(row[0] in HEADS for row in MODELS[title]["tensors"])]


@pytest.mark.parametrize("title", OWN_HEADS)
def test_a_head_that_is_due_and_absent_is_missing(title: str, tmp_path: Path) -> None:
    model = MODELS[title]
    assert not model["ties"] or not set(HEADS) & {row[0] for row in model["tensors"]} & set(model["ties"])
    rest = [row for row in model["tensors"] if row[0] not in HEADS]
    result = planned({**model, "tensors": rest}, tmp_path, tie_word_embeddings=False)
    assert not result.is_success
    assert len(result.missing) == 1


TIED_HEADS = [
    title
    for title in ACCEPTED
    if any(name in HEADS or name == "lm_head.decoder.weight" for name in MODELS[title]["ties"])
]


@pytest.mark.parametrize("title", TIED_HEADS)
def test_a_head_stored_in_place_of_the_embedding_it_is_tied_to_fills_both(title: str, tmp_path: Path) -> None:
    model = MODELS[title]
    head = next(name for name in model["ties"] if name in HEADS or name == "lm_head.decoder.weight")
    source = model["ties"][head]
    turned = [[head if row[0] == source else row[0], *row[1:]] for row in model["tensors"]]
    assert turned != model["tensors"]
    result = planned({**model, "tensors": turned}, tmp_path / "tied", tie_word_embeddings=True)
    assert [str(one) for one in (*result.missing, *result.unused, *result.errors)] == []
    loose = planned(model, tmp_path / "loose", tie_word_embeddings=False)
    assert not loose.is_success, "not tied, so the head is missing"


def test_the_tables_are_not_empty() -> None:
    assert len(ACCEPTED) > 200
    assert len(REFUSED_CLASSES) > 5
    assert len(OWN_HEADS) > 10
    assert len(TIED_HEADS) > 15


def test_an_asked_for_recipe_goes_on_and_the_report_says_against_what(tmp_path: Path) -> None:
    folder = written(MODELS["GemmaForCausalLM"], tmp_path)
    result = convert(folder, tmp_path / "out.bpk", recipe="llama", dry_run=True)
    assert any("GemmaForCausalLM" in note and "does not accept" in note for note in result.notes)
    assert any("weight - 1" in note for note in result.notes)
    assert result.recipe is not None
    assert "against what config.json says" in result.recipe
    with pytest.raises(RecipeError):
        convert(folder, tmp_path / "out.bpk", recipe="bert", dry_run=True)


def test_settings_are_in_every_report_with_the_values_of_the_config(tmp_path: Path) -> None:
    result = planned(MODELS["GraniteForCausalLM"], tmp_path, rms_norm_eps=0.25, logits_scaling=7.5, rope_theta=123.0)
    told = {one.name: one.value for one in result.settings}
    assert told["norm eps"] == 0.25
    assert told["logits divided by"] == 7.5
    assert "norm eps: 0.25" in result.to_text()
    assert "norm eps: 0.25" in result.to_markdown()
    assert json.loads(result.to_json())["settings"]["logits divided by"] == 7.5


def test_every_recipe_with_a_config_has_settings() -> None:
    bare = {"densenet", "efficientnet", "efficientnet-timm", "inception_v3", "mobilenet_v2", "resnet", "resnet-timm"}
    bare |= {"squeezenet", "vgg", "torch", "llama-meta"}
    assert {name for name in accepts() if not load_recipe(name).settings} <= bare
