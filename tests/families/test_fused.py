"""Fused projections, gated feed-forwards and experts come apart as the models' forward passes view them.

Shapes cannot show it: every layout here has a wrong twin of the same shape.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.families.outputs import converted, sources
from tests.families.synthetic import Floats, load, values

HEADS, GROUPS = 4, 2


def interleaved(fused: Floats) -> tuple[Floats, ...]:
    """Rows (head, [q | k | v], width): the view BLOOM's and GPT-NeoX's forward passes take."""
    by_head = fused.reshape(HEADS, 3, -1, *fused.shape[1:])
    return tuple(by_head[:, part].reshape(-1, *fused.shape[1:]) for part in range(3))


def grouped(fused: Floats) -> tuple[Floats, ...]:
    """Rows (group, its queries and key and value, width): the view of Falcon's new decoder, 2 groups of 2 queries."""
    by_group = fused.reshape(GROUPS, HEADS // GROUPS + 2, -1, *fused.shape[1:])
    parts = (by_group[:, :-2], by_group[:, -2], by_group[:, -1])
    return tuple(part.reshape(-1, *fused.shape[1:]) for part in parts)


def one_key(fused: Floats) -> tuple[Floats, ...]:
    """Rows [every query | one key | one value], 8 each: Falcon 7B."""
    return tuple(np.split(fused, [32, 40]))


def thirds(fused: Floats) -> tuple[Floats, ...]:
    return tuple(np.split(fused, 3))


@pytest.mark.parametrize(
    ("name", "source_path", "path", "layout"),
    [
        ("bloom", "transformer.h.1.self_attention.query_key_value", "h.1.self_attention", interleaved),
        ("gpt_neox", "gpt_neox.layers.1.attention.query_key_value", "layers.1.attention", interleaved),
        ("falcon", "transformer.h.1.self_attention.query_key_value", "h.1.self_attention", grouped),
        ("falcon_7b", "transformer.h.1.self_attention.query_key_value", "h.1.self_attention", one_key),
        ("falcon_rw", "transformer.h.1.self_attention.query_key_value", "h.1.self_attention", interleaved),
        ("modernbert", "model.layers.1.attn.Wqkv", "layers.1.attn", thirds),
        ("vit_timm", "blocks.1.attn.qkv", "encoder.layers.1.mha", thirds),
    ],
    ids=lambda value: value if isinstance(value, str) and "." not in value else "",
)
def test_a_fused_projection_is_split_as_the_model_views_it(
    name: str, source_path: str, path: str, layout: Callable[[Floats], tuple[Floats, ...]], tmp_path: Path
) -> None:
    family = load(name).untied
    source, out = sources(family), converted(family, tmp_path)
    parts = ("query", "key", "value")
    for part, weight in zip(parts, layout(source[f"{source_path}.weight"]), strict=True):
        np.testing.assert_array_equal(out[f"{path}.{part}.weight"], weight.T)
    if f"{source_path}.bias" in source:
        for part, bias in zip(parts, layout(source[f"{source_path}.bias"]), strict=True):
            np.testing.assert_array_equal(out[f"{path}.{part}.bias"], bias)


@pytest.mark.parametrize(
    ("name", "source_path", "path"),
    [
        ("siglip", "vision_model.head.attention", "vision_model.head.attention"),
        ("clip_openai", "visual.transformer.resblocks.1.attn", "vision_model.encoder.layers.1.attention"),
        ("clip_openai", "transformer.resblocks.0.attn", "text_model.encoder.layers.0.attention"),
    ],
)
def test_in_proj_holds_queries_keys_and_values_in_turn(name: str, source_path: str, path: str, tmp_path: Path) -> None:
    family = load(name).untied
    source, out = sources(family), converted(family, tmp_path)
    for i, part in enumerate(("query", "key", "value")):
        np.testing.assert_array_equal(
            out[f"{path}.{part}.weight"], np.split(source[f"{source_path}.in_proj_weight"], 3)[i].T
        )
        np.testing.assert_array_equal(out[f"{path}.{part}.bias"], np.split(source[f"{source_path}.in_proj_bias"], 3)[i])
    np.testing.assert_array_equal(out[f"{path}.output.weight"], source[f"{source_path}.out_proj.weight"].T)


def test_clip_projections_that_are_stored_in_out_are_not_transposed(tmp_path: Path) -> None:
    family = load("clip_openai").untied
    source, out = sources(family), converted(family, tmp_path)
    np.testing.assert_array_equal(out["text_projection.weight"], source["text_projection"])
    np.testing.assert_array_equal(out["visual_projection.weight"], source["visual.proj"])


def test_modernbert_activates_the_first_half(tmp_path: Path) -> None:
    family = load("modernbert").untied
    first, second = np.split(sources(family)["model.layers.2.mlp.Wi.weight"], 2)
    out = converted(family, tmp_path)
    np.testing.assert_array_equal(out["layers.2.mlp.input.weight"], first.T)
    np.testing.assert_array_equal(out["layers.2.mlp.gate.weight"], second.T)


def test_dinov2_giant_activates_the_first_half(tmp_path: Path) -> None:
    family = load("dinov2_giant").untied
    first, second = np.split(sources(family)["dinov2.encoder.layer.1.mlp.weights_in.weight"], 2)
    out = converted(family, tmp_path)
    np.testing.assert_array_equal(out["layers.1.mlp.swiglu.linear_inner.weight"], first.T)
    np.testing.assert_array_equal(out["layers.1.mlp.swiglu.linear_outer.weight"], second.T)


@pytest.mark.parametrize(
    ("name", "experts", "matrices"),
    [
        ("mixtral", "model.layers.0.block_sparse_moe.experts", ("w1", "w3", "w2")),
        ("qwen3_moe", "model.layers.0.mlp.experts", ("gate_proj", "up_proj", "down_proj")),
    ],
)
def test_batched_experts_compute_what_each_expert_did(
    name: str, experts: str, matrices: tuple[str, str, str], tmp_path: Path
) -> None:
    family = load(name).untied
    source, out = sources(family), converted(family, tmp_path)
    x = values("activations", (5, 32))
    gate, up, down = (out[f"layers.0.moe.{matrix}"] for matrix in ("w1", "w3", "w2"))
    for expert in range(3):
        theirs = [source[f"{experts}.{expert}.{matrix}.weight"] for matrix in matrices]
        expected = (silu(x @ theirs[0].T) * (x @ theirs[1].T)) @ theirs[2].T
        actual = (silu(x @ gate[expert]) * (x @ up[expert])) @ down[expert]
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-3)


def silu(x: Floats) -> Floats:
    result: Floats = x / (1 + np.exp(-x))
    return result
