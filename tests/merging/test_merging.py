"""Adapters worked into a base made for the test: sums, norms, names and everything that is refused."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from importer.arrays import to_numpy
from importer.checkpoint import Checkpoint, open_checkpoint
from importer.errors import ImporterError, UnsupportedError, UsageError
from importer.merging import AdapterKind, adapter_kind
from importer.merging.applying import merge_adapter

RANDOM = np.random.default_rng(3)
CODES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
LORA: dict[str, object] = {"peft_type": "LORA", "r": 2, "lora_alpha": 6}
PEFT = "base_model.model."


def some(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def save(path: Path, tensors: Mapping[str, np.ndarray]) -> Checkpoint:
    """Write a safetensors file by hand, and open it."""
    header: dict[str, object] = {}
    data = b""
    for name, values in tensors.items():
        blob = values.tobytes()
        code = CODES[values.dtype.name]
        header[name] = {"dtype": code, "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(blob)]}
        data += blob
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return open_checkpoint(path)


def merged(
    tmp_path: Path,
    base: Mapping[str, np.ndarray],
    adapter: Mapping[str, np.ndarray],
    settings: Mapping[str, object] | None = LORA,
    weight: float = 1.0,
    config: Mapping[str, object] | None = None,
) -> dict[str, np.ndarray]:
    (tmp_path / "base").mkdir(exist_ok=True)
    if config is not None:
        (tmp_path / "base" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    opened = save(tmp_path / "base" / "model.safetensors", base)
    made = merge_adapter(opened, save(tmp_path / "adapter.safetensors", adapter), settings, weight)
    return {name: to_numpy(tensor.array) for name, tensor in made.tensors.items()}


def linear(outputs: int = 5, inputs: int = 7, rank: int = 2) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return some(outputs, inputs), some(rank, inputs), some(outputs, rank)


def close(got: np.ndarray, want: np.ndarray) -> bool:
    return got.shape == want.shape and bool(np.allclose(got, want, rtol=3e-6, atol=3e-7))


@pytest.mark.parametrize("weight", [1.0, 0.5, -2.0])
def test_a_product_is_added_with_its_factor_and_weight(tmp_path: Path, weight: float) -> None:
    w, a, b = linear()
    adapter = {f"{PEFT}m.q.lora_A.weight": a, f"{PEFT}m.q.lora_B.weight": b}
    got = merged(tmp_path, {"m.q.weight": w, "m.q.bias": some(5)}, adapter, weight=weight)
    assert close(got["m.q.weight"], w + weight * 3 * b.astype(np.float64) @ a)


def test_the_square_root_and_patterns_win(tmp_path: Path) -> None:
    settings = {**LORA, "use_rslora": True, "rank_pattern": {"q": 3}, "alpha_pattern": {r"layers\.\d+\.q": 9}}
    w, a, b = linear(rank=3)
    adapter = {f"{PEFT}layers.0.q.lora_A.default.weight": a, f"{PEFT}layers.0.q.lora_B.default.weight": b}
    got = merged(tmp_path, {"layers.0.q.weight": w}, adapter, settings)
    assert close(got["layers.0.q.weight"], w + 9 / math.sqrt(3) * b.astype(np.float64) @ a)


def test_a_square_weight_is_transposed_where_the_layer_keeps_it_so(tmp_path: Path) -> None:
    w, a, b = linear(6, 6)
    for module, config, is_swapped in (
        ("h.0.attn.c_proj", {"model_type": "gpt2"}, True),
        ("h.0.attn.c_proj", {"model_type": "llama"}, False),
        ("h.0.attn.other", {"model_type": "gpt2"}, False),
    ):
        adapter = {f"{PEFT}{module}.lora_A.weight": a, f"{PEFT}{module}.lora_B.weight": b}
        got = merged(
            tmp_path, {f"{module}.weight": w}, adapter, {**LORA, "fan_in_fan_out": not is_swapped}, config=config
        )
        product = b.astype(np.float64) @ a
        assert close(got[f"{module}.weight"], w + 3 * (product.T if is_swapped else product))


def test_rows_get_their_norm_and_may_get_a_part_of_it(tmp_path: Path) -> None:
    w, a, b = linear()
    magnitude = np.abs(some(5))
    adapter = {f"{PEFT}q.lora_A.weight": a, f"{PEFT}q.lora_B.weight": b, f"{PEFT}q.lora_magnitude_vector": magnitude}
    total = w + 3 * b.astype(np.float64) @ a
    whole = total * (magnitude / np.linalg.norm(total, axis=1))[:, None]
    assert close(merged(tmp_path, {"q.weight": w}, adapter)["q.weight"], whole)
    assert close(merged(tmp_path, {"q.weight": w}, adapter, weight=0.25)["q.weight"], w + 0.25 * (whole - w))


def test_embeddings_convolutions_biases_and_whole_tensors(tmp_path: Path) -> None:
    table, conv = some(11, 4), some(5, 3, 2, 2)
    a, b, down, up = some(2, 11), some(4, 2), some(2, 3, 2, 2), some(5, 2, 1, 1)
    w, la, lb = linear()
    base = {
        "e.weight": table,
        "c.weight": conv,
        "q.weight": w,
        "q.bias": some(5),
        "head.weight": some(2, 5),
        "s.weight": some(2, 5),
    }
    adapter = {
        f"{PEFT}e.lora_embedding_A": a, f"{PEFT}e.lora_embedding_B": b, f"{PEFT}e.base_layer.weight": table,
        f"{PEFT}c.lora_A.weight": down, f"{PEFT}c.lora_B.weight": up,
        f"{PEFT}q.lora_A.weight": la, f"{PEFT}q.lora_B.weight": lb, f"{PEFT}q.lora_B.bias": some(5),
        f"{PEFT}q.base_layer.bias": some(5), f"{PEFT}head.weight": some(2, 5), f"{PEFT}s.modules_to_save.default.weight": some(2, 5),
        f"{PEFT}score.weight": some(3, 5),
    }  # fmt: skip
    got = merged(tmp_path, base, adapter)
    assert close(got["e.weight"], table + 3 * (b.astype(np.float64) @ a).T)
    assert close(
        got["c.weight"], conv + 3 * (up[:, :, 0, 0].astype(np.float64) @ down.reshape(2, -1)).reshape(conv.shape)
    )
    assert close(got["q.bias"], adapter[f"{PEFT}q.base_layer.bias"] + 3 * adapter[f"{PEFT}q.lora_B.bias"])
    assert np.array_equal(got["head.weight"], adapter[f"{PEFT}head.weight"])
    assert np.array_equal(got["s.weight"], adapter[f"{PEFT}s.modules_to_save.default.weight"])
    assert np.array_equal(got["score.weight"], adapter[f"{PEFT}score.weight"])


def test_a_longer_table_takes_the_place_of_the_base_s(tmp_path: Path) -> None:
    table, a, b = some(13, 4), some(2, 13), some(4, 2)
    adapter = {f"{PEFT}e.lora_embedding_A": a, f"{PEFT}e.lora_embedding_B": b, f"{PEFT}e.base_layer.weight": table}
    assert close(
        merged(tmp_path, {"e.weight": table[:11]}, adapter)["e.weight"], table + 3 * (b.astype(np.float64) @ a).T
    )


def test_a_tied_head_changes_with_its_table(tmp_path: Path) -> None:
    table, a, b = some(11, 4), some(2, 11), some(4, 2)
    adapter = {f"{PEFT}model.embed_tokens.lora_embedding_A": a, f"{PEFT}model.embed_tokens.lora_embedding_B": b}
    base = {"model.embed_tokens.weight": table, "lm_head.weight": table}
    got = merged(tmp_path, base, adapter, config={"tie_word_embeddings": True})
    assert np.array_equal(got["lm_head.weight"], got["model.embed_tokens.weight"])
    assert not np.array_equal(got["lm_head.weight"], table)
    got = merged(tmp_path, base, adapter, config={"tie_word_embeddings": False})
    assert np.array_equal(got["lm_head.weight"], table)


def test_the_sum_is_rounded_once_to_the_type_of_the_base(tmp_path: Path) -> None:
    w, a, b = linear()
    adapter = {f"{PEFT}q.lora_A.weight": a, f"{PEFT}q.lora_B.weight": b}
    half = w.astype(np.float16)
    got = merged(tmp_path, {"q.weight": half}, adapter)["q.weight"]
    assert got.dtype == np.float16
    assert np.abs(got.astype(np.float64) - (half + 3 * b.astype(np.float64) @ a)).max() <= np.spacing(np.float16(8))


def test_two_adapters_are_worked_in_one_after_the_other(tmp_path: Path) -> None:
    w, a, b = linear()
    base = save(tmp_path / "model.safetensors", {"q.weight": w})
    for number in range(2):
        adapter = save(tmp_path / f"{number}.safetensors", {f"{PEFT}q.lora_A.weight": a, f"{PEFT}q.lora_B.weight": b})
        base = merge_adapter(base, adapter, LORA, 1.0)
    assert close(to_numpy(base["q.weight"].array), w + 6 * b.astype(np.float64) @ a)
    assert base.merged["q.weight"] == (
        "q.weight", f"{PEFT}q.lora_A.weight@0.safetensors", f"{PEFT}q.lora_B.weight@0.safetensors",
        f"{PEFT}q.lora_A.weight@1.safetensors", f"{PEFT}q.lora_B.weight@1.safetensors",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("base", "module"),
    [
        ("unet/down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q.weight", "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q"),
        ("down_blocks.0.attentions.0.proj_in.weight", "lora_unet_down_blocks_0_attentions_0_proj_in"),
        ("unet/down_blocks.1.attentions.0.proj_in.weight", "lora_unet_input_blocks_4_1_proj_in"),
        ("unet/up_blocks.0.attentions.2.proj_in.weight", "lora_unet_output_blocks_2_1_proj_in"),
        ("unet/mid_block.attentions.0.proj_in.weight", "lora_unet_middle_block_1_proj_in"),
        ("unet/down_blocks.1.resnets.0.conv1.weight", "lora_unet_input_blocks_4_0_in_layers_2"),
        ("model.diffusion_model.input_blocks.4.1.proj_in.weight", "lora_unet_input_blocks_4_1_proj_in"),
        ("text_encoder/text_model.encoder.layers.0.mlp.fc1.weight", "lora_te_text_model_encoder_layers_0_mlp_fc1"),
        ("text_encoder/encoder.layers.0.mlp.fc1.weight", "lora_te1_text_model_encoder_layers_0_mlp_fc1"),
        ("text_encoder_2/text_model.encoder.layers.0.mlp.fc1.weight", "lora_te2_text_model_encoder_layers_0_mlp_fc1"),
    ],
)  # fmt: skip
def test_the_names_of_kohya_find_their_module(tmp_path: Path, base: str, module: str) -> None:
    w, a, b = linear()
    adapter = {
        f"{module}.lora_down.weight": a,
        f"{module}.lora_up.weight": b,
        f"{module}.alpha": np.array(1, np.float32),
    }
    got = merged(tmp_path, {base: w, "other.bias": some(2)}, adapter, None)
    assert close(got[base], w + 0.5 * b.astype(np.float64) @ a)
    del adapter[f"{module}.alpha"]
    assert close(merged(tmp_path, {base: w}, adapter, None)[base], w + b.astype(np.float64) @ a)


def test_what_is_for_a_part_that_is_not_there_is_said(tmp_path: Path) -> None:
    w, a, b = linear()
    modules = ("lora_unet_mid_block_proj_in", "lora_te_text_model_encoder_layers_0_mlp_fc1")
    adapter = {
        f"{module}.{leaf}.weight": part for module in modules for leaf, part in (("lora_down", a), ("lora_up", b))
    }
    opened = save(tmp_path / "base.safetensors", {"mid_block.proj_in.weight": w})
    made = merge_adapter(opened, save(tmp_path / "lora.safetensors", adapter), None, 1.0)
    assert any("another part of the pipeline" in note for note in made.notes)


@pytest.mark.parametrize("down", [".lora.down.weight", "_lora.down.weight", ".lora_A.weight"])
def test_the_spellings_of_diffusers_are_one(tmp_path: Path, down: str) -> None:
    w, a, b = linear()
    up = down.replace("down", "up").replace("lora_A", "lora_B")
    middle = ".processor.to_q" if down.startswith("_") else ".to_q"
    adapter = {f"unet.block.attn1{middle}{down}": a, f"unet.block.attn1{middle}{up}": b}
    assert close(
        merged(tmp_path, {"block.attn1.to_q.weight": w}, adapter, None)["block.attn1.to_q.weight"],
        w + b.astype(np.float64) @ a,
    )


GOOD = {f"{PEFT}q.lora_A.weight": some(2, 7), f"{PEFT}q.lora_B.weight": some(5, 2)}


@pytest.mark.parametrize(
    ("adapter", "settings", "error", "what"),
    [
        pytest.param(GOOD, None, UsageError, "adapter_config.json", id="no-settings"),
        pytest.param(GOOD, {**LORA, "peft_type": "LOHA"}, UnsupportedError, "'LOHA'", id="other-method"),
        pytest.param(GOOD, {**LORA, "use_qalora": True}, UnsupportedError, "use_qalora", id="other-variant"),
        pytest.param(GOOD, {**LORA, "lora_alpha": None}, UnsupportedError, "alpha", id="no-alpha"),
        pytest.param(GOOD, {**LORA, "rank_pattern": {"q": 4}}, UnsupportedError, "rank 2", id="other-rank"),
        pytest.param({f"{PEFT}q.lora_A.weight": some(2, 7)}, LORA, UnsupportedError, "both", id="half-of-it"),
        pytest.param({f"{PEFT}k.lora_A.weight": some(2, 7), f"{PEFT}k.lora_B.weight": some(5, 2)}, LORA, UsageError, "not in the base", id="other-names"),
        pytest.param({f"{PEFT}q.lora_A.weight": some(2, 8), f"{PEFT}q.lora_B.weight": some(5, 2)}, LORA, UsageError, "5×8", id="other-shape"),
        pytest.param({"q.weight": some(5, 7)}, None, UsageError, "no adapter", id="no-adapter"),
        pytest.param({"lora_unet_q.hada_w1_a": some(2, 2)}, None, UnsupportedError, "LoHa", id="loha"),
        pytest.param({"lora_unet_q.lokr_w1": some(2, 2)}, None, UnsupportedError, "LoKr", id="lokr"),
        pytest.param({"lora_unet_q.lora_down.weight": some(2, 2), "lora_unet_q.dora_scale": some(2)}, None, UnsupportedError, "DoRA", id="dora-of-kohya"),
    ],
)  # fmt: skip
def test_what_cannot_be_merged_is_refused_by_name(
    tmp_path: Path,
    adapter: Mapping[str, np.ndarray],
    settings: Mapping[str, object] | None,
    error: type[ImporterError],
    what: str,
) -> None:
    with pytest.raises(error, match=what):
        merged(tmp_path, {"q.weight": some(5, 7)}, adapter, settings)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("base_model.model.q.lora_A.weight",), AdapterKind.PEFT),
        (("unet.a.to_q.lora_A.weight", "unet.a.to_q.lora_B.weight"), AdapterKind.DIFFUSERS),
        (("lora_unet_a.lora_down.weight",), AdapterKind.KOHYA),
        (("model.q.weight", "model.q.bias"), None),
        ((), None),
    ],
)
def test_an_adapter_is_told_by_its_names(names: tuple[str, ...], kind: AdapterKind | None) -> None:
    assert adapter_kind(names) is kind
