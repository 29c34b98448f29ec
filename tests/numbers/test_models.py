"""Whole models through their recipes compute what the Python library computed: rotary order, fused matrices, norm order."""

from __future__ import annotations

import json

import numpy as np
import pytest

from importer.arrays import to_numpy
from importer.checkpoint import open_checkpoint
from importer.plan import build_plan
from importer.recipes import load_recipe
from tests.adapters.samples import Values
from tests.numbers import burn_formulas as burn
from tests.numbers.reference import NUMBERS, assert_close, case


def converted(name: str, recipe: str) -> dict[str, Values]:
    """Return a recorded model's parameters as the recipe makes them."""
    plan = build_plan(open_checkpoint(NUMBERS / name), load_recipe(recipe))
    assert (plan.missing, plan.unused, plan.errors) == ((), (), ())
    return {step.name: to_numpy(step.array) for step in plan.tensors}


def test_a_whole_saved_model_needs_no_recipe() -> None:
    recorded = case("whole_model")
    plan = build_plan(open_checkpoint(NUMBERS / "whole_model.pt"))
    params = {step.name: to_numpy(step.array) for step in plan.tensors}
    x = burn.linear(recorded.inputs[0], burn.below(params, "0"))
    x = burn.encoder_layer(x, burn.below(params, "1"), heads=2, norm_first=True, activation="relu")
    assert_close(x, recorded.output)


def llama_logits(ids: Values, params: burn.Params, *, heads: int, groups: int) -> Values:
    """Run llama-burn's Transformer: adjacent-pair rotary, grouped queries, SwiGlu."""
    x = params["tok_embeddings.weight"][ids]
    mask = burn.causal_mask(ids.shape[1])
    for number in range(2):
        layer = burn.below(params, f"layers.{number}")
        inner = burn.rms_norm(x, burn.below(layer, "attention_norm"), 1e-5)
        query, key, value = (
            burn.heads_of(inner @ layer[f"attention.w{letter}.weight"], count)
            for letter, count in (("q", heads), ("k", groups), ("v", groups))
        )
        query, key = (burn.rotate_adjacent_pairs(part, 10_000.0) for part in (query, key))
        key, value = (np.repeat(part, heads // groups, axis=1) for part in (key, value))
        x = x + burn.attend(query, key, value, mask) @ layer["attention.wo.weight"]
        inner = burn.rms_norm(x, burn.below(layer, "ffn_norm"), 1e-5)
        swiglu = burn.below(layer, "feed_forward.swiglu")
        gated = burn.silu(inner @ swiglu["linear_inner.weight"]) * (inner @ swiglu["linear_outer.weight"])
        x = x + gated @ layer["feed_forward.w2.weight"]
    return burn.linear(burn.rms_norm(x, burn.below(params, "norm"), 1e-5), burn.below(params, "output"))


def test_llama_with_burns_rotary_encoding() -> None:
    recorded = case("llama")
    params = converted("llama", "llama")
    assert_close(llama_logits(recorded.inputs[0], params, heads=4, groups=2), recorded.output)


def test_the_llama_check_notices_a_missing_rotary_permutation() -> None:
    recorded = case("llama")
    params = converted("llama", "llama")
    rows = np.arange(16).reshape(4, 2, 2).swapaxes(1, 2).ravel()
    params["layers.0.attention.wq.weight"] = params["layers.0.attention.wq.weight"][:, rows]
    ours = llama_logits(recorded.inputs[0], params, heads=4, groups=2)
    assert np.abs(ours - recorded.output).max() > 1e-3


def test_gpt2_with_pre_norm_encoder_layers() -> None:
    recorded = case("gpt2")
    params = converted("gpt2", "gpt2")
    ids = recorded.inputs[0]
    x = params["token_embedding.weight"][ids] + params["position_embedding.weight"][: ids.shape[1]]
    for number in range(2):
        layer = burn.below(params, f"layers.{number}")
        mask = burn.causal_mask(ids.shape[1])
        x = burn.encoder_layer(x, layer, heads=4, norm_first=True, activation="gelu_tanh", mask=mask)
    logits = burn.linear(burn.layer_norm(x, burn.below(params, "norm")), burn.below(params, "lm_head"))
    assert_close(logits, recorded.output)


def test_bert_with_post_norm_encoder_layers() -> None:
    recorded = case("minilm")
    params = converted("minilm", "minilm")
    ids = recorded.inputs[0]
    embeddings = burn.below(params, "embeddings")
    words, positions, kinds = (embeddings[f"{name}_embeddings.weight"] for name in ("word", "position", "token_type"))
    x = words[ids] + positions[: ids.shape[1]] + kinds[0]
    x = burn.layer_norm(x, burn.below(embeddings, "layer_norm"), 1e-12)
    for number in range(2):
        layer = burn.below(params, f"encoder.layers.{number}")
        x = burn.encoder_layer(x, layer, heads=4, norm_first=False, activation="gelu", eps=1e-12)
    assert_close(x, recorded.output)


def residual_block(x: Values, params: burn.Params, stride: int, bottleneck: bool) -> Values:
    """Run resnet-burn's Basic or Bottleneck block."""
    strides, paddings = ((1, stride, 1), (0, 1, 0)) if bottleneck else ((stride, 1), (1, 1))
    out = x
    for number, (step, padding) in enumerate(zip(strides, paddings, strict=True), 1):
        out = burn.conv2d(out, burn.below(params, f"conv{number}"), step, padding)
        out = burn.batch_norm(out, burn.below(params, f"bn{number}"))
        out = burn.relu(out) if number < len(strides) else out
    if "downsample.conv.weight" in params:
        x = burn.conv2d(x, burn.below(params, "downsample.conv"), stride)
        x = burn.batch_norm(x, burn.below(params, "downsample.bn"))
    return burn.relu(out + x)


def max_pool(x: Values) -> Values:
    """Pool 3x3 with stride 2 and padding 1."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    return np.asarray(windows.max((-1, -2)))


@pytest.mark.parametrize(
    ("name", "variant"), [("resnet18", "Basic"), ("resnet50", "Bottleneck"), ("resnet_hugging_face", "Basic")]
)
def test_resnet(name: str, variant: str) -> None:
    recorded = case(name)
    params = converted(name, "resnet")
    config = json.loads((NUMBERS / name / "config.json").read_text())
    x = burn.conv2d(recorded.inputs[0], burn.below(params, "conv1"), 2, 3)
    x = max_pool(burn.relu(burn.batch_norm(x, burn.below(params, "bn1"))))
    for stage, count in enumerate(config.get("layers") or config["depths"], 1):
        for number in range(count):
            block = burn.below(params, f"layer{stage}.blocks.{number}.{variant}")
            stride = 2 if stage > 1 and number == 0 else 1
            x = residual_block(x, block, stride, bottleneck=variant == "Bottleneck")
    assert_close(burn.linear(x.mean((2, 3)), burn.below(params, "fc")), recorded.output)
