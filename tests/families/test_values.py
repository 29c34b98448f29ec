"""What recipes do to values beyond splitting and permuting: norms, offsets, weight norm, ties, and what stays apart.

Shapes cannot show it: every layout here has a wrong twin of the same shape.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from importer.checkpoint import open_checkpoint
from importer.conversion import convert
from tests.families.outputs import converted, floats, sources
from tests.families.synthetic import Floats, Row, load, values, write_values


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
        ("clip", "text_model.encoder.layers.0.layer_norm1", "text_model.encoder.layers.0", 1),
        ("clip_openai", "visual.transformer.resblocks.0.ln_1", "vision_model.encoder.layers.0", 1),
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


@pytest.mark.parametrize("name", ["helium", "ernie4_5"])
def test_rows_that_lie_in_adjacent_pairs_already_are_not_moved(name: str, tmp_path: Path) -> None:
    """A Llama conversion fits name for name and computes something else."""
    family = load(name).untied
    given, out = sources(family), converted(family, tmp_path)
    for letter in "qk":
        path = f"model.layers.1.self_attn.{letter}_proj.weight"
        np.testing.assert_array_equal(out[f"layers.1.attention.w{letter}.weight"], given[path].T)
        assert not np.array_equal(
            converted(family, tmp_path / letter, "llama")[f"layers.1.attention.w{letter}.weight"], given[path].T
        )


def test_gemma_1_has_the_offset_of_its_successors(tmp_path: Path) -> None:
    family = load("gemma").untied
    given, out = sources(family), converted(family, tmp_path)
    for theirs, ours in (("model.norm", "norm"), ("model.layers.0.post_attention_layernorm", "layers.0.ffn_norm")):
        np.testing.assert_array_equal(out[f"{ours}.gamma"], np.float32(1) + given[f"{theirs}.weight"])


def test_every_layer_of_umt5_keeps_its_own_relative_bias(tmp_path: Path) -> None:
    family = load("umt5").untied
    given, out = sources(family), converted(family, tmp_path)
    for i in (0, 1):
        theirs = f"encoder.block.{i}.layer.0.SelfAttention.relative_attention_bias.weight"
        np.testing.assert_array_equal(
            out[f"encoder.layers.{i}.self_attn.relative_attention_bias.weight"], given[theirs]
        )


def test_scores_that_gpt2_does_not_scale_are_scaled_in_its_queries(tmp_path: Path) -> None:
    """burn::nn divides by sqrt(head width): the queries are multiplied by it."""
    family = load("gpt2").untied
    plain = converted(family, tmp_path / "plain")
    unscaled = converted(family.configured(scale_attn_weights=False), tmp_path / "unscaled")
    width = np.float32((32 // 4) ** 0.5)
    changed = {name for name in plain if not np.array_equal(plain[name], unscaled[name])}
    assert changed == {f"layers.{i}.mha.query.{leaf}" for i in (0, 1) for leaf in ("weight", "bias")}
    for name in changed:
        np.testing.assert_allclose(unscaled[name], plain[name] * width, rtol=1e-6)
