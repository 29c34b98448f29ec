"""What the recipes do to values, against numpy formulas written from the models' own forward passes.

Shapes cannot show these: each of the layouts here has a wrong twin of the same shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from importer.checkpoint import Tensor, open_checkpoint
from importer.conversion import convert
from tests.families.synthetic import Family, Floats, Row, load, values, write_values

Tensors = Mapping[str, Floats]


def converted(family: Family, folder: Path, recipe: str = "auto") -> dict[str, Floats]:
    """Return the output's tensors by name, after a conversion that left nothing over."""
    result = convert(write_values(family, folder), folder / "out.bpk", recipe=recipe)
    assert result.is_success, result.to_text()
    return {name: floats(tensor) for name, tensor in open_checkpoint(folder / "out.bpk").tensors.items()}


def floats(tensor: Tensor) -> Floats:
    return tensor.numpy().astype(np.float32, copy=False)


def sources(family: Family) -> dict[str, Floats]:
    return {row.name: values(row.tied_to or row.name, row.shape) for row in family.rows}


# --- rotary embeddings ------------------------------------------------------------------------------------------------


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


HEADS, GROUPS = 4, 2


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen2", "mixtral"])
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


# --- fused projections ------------------------------------------------------------------------------------------------


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
    name: str, source_path: str, path: str, layout: object, tmp_path: Path
) -> None:
    assert callable(layout)
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
        ("clip_openai", "visual.transformer.resblocks.1.attn", "vision_model.encoder.layers.1.mha"),
        ("clip_openai", "transformer.resblocks.0.attn", "text_model.encoder.layers.0.mha"),
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


# --- gated feed-forwards and experts ----------------------------------------------------------------------------------


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


# --- norms ------------------------------------------------------------------------------------------------------------


def test_gemma_norms_gain_one_without_losing_digits_of_bfloat16(tmp_path: Path) -> None:
    """1 + w needs more digits than bfloat16 has, so the file's bfloat16 norms become float32."""
    family = load("gemma2").untied
    weights = {row.name: values(row.name, row.shape).astype(ml_dtypes.bfloat16) for row in family.rows}
    from safetensors.numpy import save_file

    source = write_values(family, tmp_path)
    save_file(weights, source)
    convert(source, tmp_path / "out.bpk")
    out = open_checkpoint(tmp_path / "out.bpk").tensors
    for theirs, ours in (
        ("model.norm", "norm"),
        ("model.layers.1.input_layernorm", "layers.1.attention_norm"),
        ("model.layers.1.post_attention_layernorm", "layers.1.post_attention_norm"),
        ("model.layers.1.pre_feedforward_layernorm", "layers.1.ffn_norm"),
        ("model.layers.1.post_feedforward_layernorm", "layers.1.post_ffn_norm"),
    ):
        expected = np.float32(1) + weights[f"{theirs}.weight"].astype(np.float32)
        np.testing.assert_array_equal(out[f"{ours}.gamma"].numpy(), expected)


@pytest.mark.parametrize(
    ("name", "before_attention", "path", "number"),
    [
        ("vit", "vit.encoder.layer.0.layernorm_before", "encoder.layers.0", 2),
        ("vit_timm", "blocks.0.norm1", "encoder.layers.0", 2),
        ("clip", "text_model.encoder.layers.0.layer_norm1", "text_model.encoder.layers.0", 2),
        ("clip_openai", "visual.transformer.resblocks.0.ln_1", "vision_model.encoder.layers.0", 2),
        ("siglip", "vision_model.encoder.layers.0.layer_norm1", "vision_model.encoder.layers.0", 2),
        ("opt", "model.decoder.layers.0.self_attn_layer_norm", "layers.0", 2),
        ("opt_350m", "model.decoder.layers.0.self_attn_layer_norm", "layers.0", 1),
        ("bert", "bert.encoder.layer.0.attention.output.LayerNorm", "encoder.layers.0", 1),
        ("distilbert", "distilbert.transformer.layer.0.sa_layer_norm", "encoder.layers.0", 1),
        ("bart", "model.decoder.layers.0.self_attn_layer_norm", "decoder.layers.0", 1),
    ],
)
def test_the_norm_of_the_attention_has_the_number_burn_gives_it(
    name: str, before_attention: str, path: str, number: int, tmp_path: Path
) -> None:
    """Burn numbers norms by use: norm_2 precedes the attention where a layer normalises first, norm_1 follows it else."""
    family = load(name).untied
    out = converted(family, tmp_path)
    np.testing.assert_array_equal(out[f"{path}.norm_{number}.gamma"], sources(family)[f"{before_attention}.weight"])


# --- the rest ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "source_path", "path"),
    [
        ("opt", "model.decoder.embed_positions", "position_embedding"),
        ("bart", "model.encoder.embed_positions", "encoder.position_embedding"),
        ("bart", "model.decoder.embed_positions", "decoder.position_embedding"),
    ],
)
def test_positions_begin_at_row_two(name: str, source_path: str, path: str, tmp_path: Path) -> None:
    family = load(name).untied
    out = converted(family, tmp_path)
    np.testing.assert_array_equal(out[f"{path}.weight"], sources(family)[f"{source_path}.weight"][2:])


def weight_norm(g: Floats, v: Floats, axes: tuple[int, ...]) -> Floats:
    result: Floats = v * g / np.sqrt(np.sum(v * v, axis=axes, keepdims=True))
    return result


@pytest.mark.parametrize(
    ("name", "source_path", "path", "axes"),
    [
        ("wav2vec2", "wav2vec2.encoder.pos_conv_embed.conv", "encoder.pos_conv_embed.conv", (0, 1)),
        ("hubert", "hubert.encoder.pos_conv_embed.conv", "encoder.pos_conv_embed.conv", (0, 1)),
        ("encodec", "encoder.layers.4.block.1.conv", "encoder.stages.1.residual.narrow.conv", (1, 2)),
        ("encodec", "decoder.layers.6.conv", "decoder.stages.1.resample.conv", (1, 2)),
    ],
    ids=["wav2vec2", "hubert", "encodec-conv", "encodec-transposed-conv"],
)
@pytest.mark.parametrize(
    ("g", "v"),
    [(".parametrizations.weight.original0", ".parametrizations.weight.original1"), (".weight_g", ".weight_v")],
    ids=["parametrizations", "weight_g"],
)
def test_weight_norm_is_fused_along_the_axes_of_g(
    name: str, source_path: str, path: str, axes: tuple[int, ...], g: str, v: str, tmp_path: Path
) -> None:
    family = load(name).untied.renamed(
        (".parametrizations.weight.original0", g), (".parametrizations.weight.original1", v)
    )
    source, out = sources(family), converted(family, tmp_path)
    expected = weight_norm(source[f"{source_path}{g}"], source[f"{source_path}{v}"], axes)
    np.testing.assert_allclose(out[f"{path}.weight"], expected, rtol=1e-5, atol=1e-6)


def test_encodec_gates_are_split_in_torch_order_for_each_layer(tmp_path: Path) -> None:
    family = load("encodec").untied
    source, out = sources(family), converted(family, tmp_path)
    gates = ("input_gate", "forget_gate", "cell_gate", "output_gate")
    for i, gate in enumerate(gates):
        expected = np.split(source["encoder.layers.7.lstm.weight_hh_l1"], 4)[i].T
        np.testing.assert_array_equal(out[f"encoder.lstm.1.{gate}.hidden_transform.weight"], expected)


def test_whisper_keys_get_a_bias_of_zeros(tmp_path: Path) -> None:
    out = converted(load("whisper").untied, tmp_path)
    assert not out["decoder.layers.0.cross_attn.key.bias"].any()
    assert out["decoder.layers.0.cross_attn.query.bias"].all()


@pytest.mark.parametrize(
    ("name", "head", "embedding"),
    [
        ("qwen2", "output.weight", "tok_embeddings.weight"),
        ("bert", "lm_head.decoder.weight", "embeddings.word_embeddings.weight"),
        ("whisper", "decoder.proj_out.weight", "decoder.token_embedding.weight"),
        ("bart", "lm_head.weight", "shared.weight"),
        ("mamba", "lm_head.weight", "embeddings.weight"),
    ],
)
def test_a_tied_head_is_the_transposed_embedding(name: str, head: str, embedding: str, tmp_path: Path) -> None:
    out = converted(load(name).untied, tmp_path)
    np.testing.assert_array_equal(out[head], out[embedding].T)


def test_a_head_that_differs_from_the_embedding_keeps_its_own_values(tmp_path: Path) -> None:
    """Flan-T5's lm_head is its own, though its predecessors tie it."""
    family = load("t5").untied
    out = converted(family, tmp_path)
    np.testing.assert_array_equal(out["lm_head.weight"], sources(family)["lm_head.weight"].T)
    assert not np.array_equal(out["lm_head.weight"], out["shared.weight"].T)


@pytest.mark.parametrize(
    ("one", "other"), [("whisper", "whisper_openai"), ("vit", "vit_timm"), ("clip", "clip_openai")], ids=str
)
def test_both_publishers_of_a_model_feed_one_burn_module(one: str, other: str, tmp_path: Path) -> None:
    names = [set(converted(load(name).untied, tmp_path / name)) for name in (one, other)]
    assert names[0] == names[1]


def test_a_convolution_over_one_pixel_becomes_a_linear(tmp_path: Path) -> None:
    """proj_in of Stable Diffusion 1 is a 1x1 convolution, that of version 2 a Linear; one Burn module takes both."""
    family = load("unet_sd").untied
    path = "down_blocks.0.attentions.0.proj_in.weight"
    expected = sources(family)[path][:, :, 0, 0].T
    np.testing.assert_array_equal(converted(family, tmp_path)[path], expected)


def test_vgg_blocks_hold_the_norm_behind_their_convolution(tmp_path: Path) -> None:
    family = load("vgg11_bn").without("classifier.0.weight", "classifier.3.weight")
    source, folder = sources(family), tmp_path / "features"
    path = write_values(family, folder)
    result = convert(path, folder / "out.bpk", allow_missing=True)
    assert [missing.name for missing in result.missing] == ["fc1.weight", "fc2.weight"]
    out = open_checkpoint(folder / "out.bpk").tensors
    np.testing.assert_array_equal(floats(out["features.2.conv.weight"]), source["features.8.weight"])
    np.testing.assert_array_equal(floats(out["features.2.norm.gamma"]), source["features.9.weight"])


def test_a_scalar_becomes_a_vector_of_one(tmp_path: Path) -> None:
    assert converted(load("clip").untied, tmp_path)["logit_scale"].shape == (1,)


def test_two_different_tensors_for_one_name_are_refused(tmp_path: Path) -> None:
    """The embedding under a second name is only taken for the same one where it holds the same bytes."""
    family = load("t5").untied
    stranger = Row("encoder.embed_tokens.weight", (64, 32), "float32")
    source = write_values(replace(family, rows=(*family.rows, stranger)), tmp_path)
    result = convert(source, tmp_path / "out.bpk")
    assert not result.is_success
    assert [error.name for error in result.errors] == ["shared.weight"]
