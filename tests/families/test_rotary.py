"""Attention scores under Burn's pairwise rotation equal those under Hugging Face's rotate-half: the permutation is right.

Shapes cannot show it: without the permutation every tensor has the same name and shape.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.families.outputs import converted, sources
from tests.families.synthetic import Floats, load, values

HEADS, GROUPS = 4, 2


def rotated_halves(x: Floats, rotating: int) -> Floats:
    """Hugging Face's rotary embedding of [time, heads, width]: element i turns with element i + rotating / 2."""
    turning, rest = x[..., :rotating], x[..., rotating:]
    first, second = np.split(turning, 2, axis=-1)
    cos, sin = angles(len(x), rotating)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin, rest], axis=-1)


def rotated_pairs(x: Floats, rotating: int) -> Floats:
    """Burn's RotaryEncoding: element 2 i turns with element 2 i + 1."""
    out = x.copy()
    cos, sin = angles(len(x), rotating)
    even, odd = x[..., 0:rotating:2], x[..., 1:rotating:2]
    out[..., 0:rotating:2] = even * cos - odd * sin
    out[..., 1:rotating:2] = odd * cos + even * sin
    return out


def angles(length: int, rotating: int) -> tuple[Floats, Floats]:
    frequencies = 10000.0 ** -(np.arange(0, rotating, 2) / rotating)
    angle = np.outer(np.arange(length), frequencies)[:, None, :].astype(np.float32)
    return np.cos(angle), np.sin(angle)


def rms(x: Floats, weight: Floats) -> Floats:
    result: Floats = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(1e-6)) * weight
    return result


def scores(q: Floats, k: Floats) -> Floats:
    """Attention scores of [time, heads, width] queries and [time, groups, width] keys."""
    result: Floats = np.einsum("thw,shw->hts", q, np.repeat(k, q.shape[1] // k.shape[1], axis=1))
    return result


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen2", "mixtral", "gemma", "granite"])
def test_pairwise_rotation_of_the_output_gives_the_scores_of_rotated_halves(name: str, tmp_path: Path) -> None:
    family = load(name).untied
    source, out = sources(family), converted(family, tmp_path)
    x = values("activations", (6, 32))
    theirs, ours = [], []
    for letter, heads in (("q", HEADS), ("k", GROUPS)):
        path = f"model.layers.1.self_attn.{letter}_proj"
        theirs.append(
            (x @ source[f"{path}.weight"].T + source.get(f"{path}.bias", np.float32(0))).reshape(6, heads, -1)
        )
        path = f"layers.1.attention.w{letter}"
        ours.append((x @ out[f"{path}.weight"] + out.get(f"{path}.bias", np.float32(0))).reshape(6, heads, -1))
    width = theirs[0].shape[-1]
    expected = scores(*(rotated_halves(part, width) for part in theirs))
    np.testing.assert_allclose(scores(*(rotated_pairs(part, width) for part in ours)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "whole", "shift"), [("qwen3", False, 0), ("gemma3", False, 1), ("olmo2", True, 0)])
def test_norms_of_queries_and_keys_follow_the_rotation(name: str, *, whole: bool, shift: int, tmp_path: Path) -> None:
    """Qwen3 and Gemma 3 norm each head, OLMo 2 all heads at once; Gemma's norm is (1 + weight)."""
    family = load(name).untied
    source, out = sources(family), converted(family, tmp_path)
    x = values("activations", (6, 32))
    theirs, ours = [], []
    for letter, heads in (("q", HEADS), ("k", GROUPS)):
        path = f"model.layers.0.self_attn.{letter}"
        shape = (6, -1) if whole else (6, heads, -1)
        raw = (x @ source[f"{path}_proj.weight"].T).reshape(shape)
        theirs.append(rms(raw, shift + source[f"{path}_norm.weight"]).reshape(6, heads, -1))
        path = f"layers.0.attention.{letter}_norm.gamma"
        raw = (x @ out[f"layers.0.attention.w{letter}.weight"]).reshape(shape)
        ours.append(rms(raw, out[path]).reshape(6, heads, -1))
    width = theirs[0].shape[-1]
    expected = scores(*(rotated_halves(part, width) for part in theirs))
    np.testing.assert_allclose(scores(*(rotated_pairs(part, width) for part in ours)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("factor", "rotating"), [(1.0, 8), (0.75, 6), (0.5, 4)])
def test_phi3_is_unfused_and_only_its_rotating_rows_are_paired(factor: float, rotating: int, tmp_path: Path) -> None:
    family = load("phi3").untied.configured(rope_parameters={"partial_rotary_factor": factor})
    out = converted(family, tmp_path)
    x = values("activations", (6, 32))
    fused = x @ sources(family)["model.layers.0.self_attn.qkv_proj.weight"].T
    q, k, v = np.split(fused, [32, 48], axis=-1)
    expected = scores(*(rotated_halves(part.reshape(6, -1, 8), rotating) for part in (q, k)))
    ours = ((x @ out[f"layers.0.attention.w{letter}.weight"]).reshape(6, -1, 8) for letter in "qk")
    np.testing.assert_allclose(
        scores(*(rotated_pairs(part, rotating) for part in ours)), expected, rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(x @ out["layers.0.attention.wv.weight"], v, rtol=1e-4, atol=1e-4)


def test_phi3_gate_comes_before_up(tmp_path: Path) -> None:
    family = load("phi3").untied
    out = converted(family, tmp_path)
    gate, up = np.split(sources(family)["model.layers.1.mlp.gate_up_proj.weight"], 2)
    np.testing.assert_array_equal(out["layers.1.feed_forward.swiglu.linear_inner.weight"], gate.T)
    np.testing.assert_array_equal(out["layers.1.feed_forward.swiglu.linear_outer.weight"], up.T)


def test_llama_hf_keeps_the_order_of_rows(tmp_path: Path) -> None:
    family = load("qwen3").untied
    out, source = converted(family, tmp_path, "llama-hf"), sources(family)
    path = "model.layers.0.self_attn"
    np.testing.assert_array_equal(out[f"{path}.q_proj.weight"], source[f"{path}.q_proj.weight"].T)
    np.testing.assert_array_equal(out[f"{path}.q_norm.gamma"], source[f"{path}.q_norm.weight"])
