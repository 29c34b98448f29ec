"""How a format is told, what is refused, and that codes never pass for weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from importer.arrays import cast, to_numpy
from importer.checkpoint import open_checkpoint
from importer.cli import main
from importer.conversion import convert
from importer.dtypes import F32
from importer.errors import SourceError, TensorError, UnsupportedError
from tests.quantized.made import FP8, blob, gptq, pack_words, save

GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 16, "sym": False, "desc_act": True}
CODES = np.ones((4, 8), np.int32)


def values(path: Path) -> dict[str, np.ndarray]:
    return {
        name: to_numpy(tensor.array) for name, tensor in open_checkpoint(path, quantized="dequantize").tensors.items()
    }


@pytest.mark.parametrize(
    "method",
    [
        "aqlm",
        "eetq",
        "higgs",
        "spqr",
        "vptq",
        "quip",
        "bitnet",
        "fp_quant",
        "modelopt",
        "quark",
        "sinq",
        "marlin",
        "auto-round",
    ],
)
def test_a_method_that_is_not_known_is_refused_by_its_name(method: str, tmp_path: Path) -> None:
    codes = {"aqlm": CODES.astype(np.int16), "spqr": CODES[0]}.get(method, CODES)
    folder = save(tmp_path, {"m.codes": codes, "m.norm": np.ones(3, np.float16)}, {"quant_method": method})
    with pytest.raises(UnsupportedError, match=f"'{method}'"):
        convert(folder, tmp_path / "out.safetensors", recipe="none")
    assert main(["inspect", str(folder)]) == 0
    with pytest.raises(UnsupportedError):
        convert(folder, tmp_path / "out.safetensors", recipe="none", quantized="report")
    assert not (tmp_path / "out.safetensors").exists()


def test_settings_that_no_tensor_bears_out_change_nothing(tmp_path: Path) -> None:
    folder = save(tmp_path, {"m.weight": np.ones((2, 2), np.float16)}, {"quant_method": "aqlm"})
    assert list(values(folder)) == ["m.weight"]


@pytest.mark.parametrize(
    ("settings", "tensors", "what"),
    [
        pytest.param({"quant_method": "awq", "version": "gemv"}, {"m.qweight": CODES}, "'gemv'", id="awq-gemv"),
        pytest.param({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}, {"m.qweight": CODES}, "'marlin'", id="gptq-marlin"),
        pytest.param({"quant_method": "compressed-tensors", "format": "marlin-24"}, {"m.weight_packed": CODES}, "'marlin-24'", id="marlin-24"),
        pytest.param({"quant_method": "compressed-tensors", "format": "dense", "sparsity_config": {"format": "sparse-24-bitmask"}}, {"m.weight_packed": CODES}, "'sparse-24-bitmask'", id="sparse"),
        pytest.param({"quant_method": "compressed-tensors", "format": "pack-quantized", "transform_config": {"config_groups": {"R1": {}}}}, {"m.weight_packed": CODES}, "rotated", id="rotated"),
    ],
)  # fmt: skip
def test_layouts_for_kernels_are_refused_by_their_name(
    settings: Mapping[str, object], tensors: Mapping[str, np.ndarray], what: str, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError, match=what):
        values(save(tmp_path, tensors, settings))


@pytest.mark.parametrize("end", ["qzeros", "scales"])
def test_a_part_that_is_missing_is_named(end: str, tmp_path: Path) -> None:
    parts, _ = gptq("m.fc", 16, 32)
    del parts[f"m.fc.{end}"]
    with pytest.raises(TensorError, match=rf"'m.fc.{end}' is not there"):
        values(save(tmp_path, parts, GPTQ))


@pytest.mark.parametrize("shards", [1, 3])
def test_parts_may_lie_in_several_files(shards: int, tmp_path: Path) -> None:
    parts, weight = gptq("m.fc", 16, 32)
    got = values(save(tmp_path, {**parts, "m.norm.weight": np.ones(4, np.float16)}, GPTQ, shards=shards))
    assert np.array_equal(got["m.fc.weight"], weight)
    assert set(got) == {"m.fc.weight", "m.norm.weight"}


def test_settings_may_lie_in_a_file_beside_the_weights(tmp_path: Path) -> None:
    parts, weight = gptq("m.fc", 16, 32, bits=3, version=2)
    folder = save(tmp_path, parts)
    settings = {"bits": 3, "group_size": 16, "sym": False, "checkpoint_format": "gptq_v2"}
    (folder / "quantize_config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert np.array_equal(values(folder)["m.fc.weight"], weight)


def test_without_settings_the_version_is_asked_for(tmp_path: Path) -> None:
    parts, _ = gptq("m.fc", 16, 32)
    with pytest.raises(UnsupportedError, match="version 1 or 2") as caught:
        values(save(tmp_path, parts))
    assert "quantize_config.json" in caught.value.how


@pytest.mark.parametrize(("stored", "version"), [(7, 1), (8, 2)])
def test_zeros_in_the_middle_tell_the_version(stored: int, version: int, tmp_path: Path) -> None:
    parts, _ = gptq("m.fc", 16, 32)
    parts["m.fc.qzeros"] = pack_words(np.full((2, 16), stored), 4, 1)
    want = values(save(tmp_path / "a", parts, {**GPTQ, "checkpoint_format": "gptq_v2" if version == 2 else "gptq"}))
    assert np.array_equal(values(save(tmp_path / "b", parts))["m.fc.weight"], want["m.fc.weight"])
    other = {**GPTQ, "sym": True, "checkpoint_format": "gptq" if version == 2 else "gptq_v2"}
    folder = save(tmp_path / "c", parts, other)
    assert np.array_equal(values(folder)["m.fc.weight"], want["m.fc.weight"])
    assert any("zeros" in note for note in open_checkpoint(folder, quantized="dequantize").notes)


def test_biases_of_zeros_go_and_others_stay(tmp_path: Path) -> None:
    parts: dict[str, np.ndarray] = {}
    for layer in range(2):
        for name in ("q", "o"):
            parts |= gptq(f"layers.{layer}.{name}", 16, 32)[0]
            parts[f"layers.{layer}.{name}.bias"] = np.full(16, layer if name == "q" else 0, np.float16)
    got = set(values(save(tmp_path, parts, GPTQ)))
    assert {name for name in got if name.endswith("bias")} == {"layers.0.q.bias", "layers.1.q.bias"}


@pytest.mark.parametrize(
    "tensors",
    [
        pytest.param({"m.weight": np.ones((4, 4), np.int8), "m.weight_scale": np.ones(4, np.float16)}, id="int8"),
        pytest.param({"m.weight": np.ones((4, 4), FP8), "m.weight_scale_2": np.ones(4, np.float16)}, id="fp8"),
        pytest.param({"m.qweight": CODES, "m.scales": np.ones((1, 7), np.float16)}, id="words"),
    ],
)
def test_codes_that_nothing_explains_are_not_written(tensors: Mapping[str, np.ndarray], tmp_path: Path) -> None:
    source = tmp_path / "model.safetensors"
    source.write_bytes(blob(tensors))
    for choice in ("dequantize", "report", "integers"):
        with pytest.raises(SourceError, match=r"nothing says how|cannot be read|does not go with"):
            convert(source, tmp_path / "out.safetensors", recipe="none", quantized=choice)
    assert not (tmp_path / "out.safetensors").exists()


def test_fp8_without_a_scale_is_cast_only_if_it_is_said_to_be_the_weight(tmp_path: Path) -> None:
    source, out = tmp_path / "model.safetensors", tmp_path / "out.safetensors"
    source.write_bytes(blob({"m.weight": np.full((2, 2), 1.5, FP8)}))
    assert convert(source, out, recipe="none").is_success
    assert open_checkpoint(out)["m.weight"].dtype.name == "F8_E4M3"
    refused = convert(source, tmp_path / "other.safetensors", recipe="none", dtype="f32")
    assert not refused.is_success
    assert "without a scale" in refused.errors[0].message
    assert "--unscaled-fp8" in refused.errors[0].how
    assert convert(source, tmp_path / "other.safetensors", recipe="none", dtype="f32", unscaled_fp8=True).is_success
    assert to_numpy(open_checkpoint(tmp_path / "other.safetensors")["m.weight"].array).tolist() == [[1.5, 1.5]] * 2


def test_fp8_of_a_scheme_needs_its_scale(tmp_path: Path) -> None:
    settings = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    with pytest.raises(TensorError, match=r"'m.weight_scale_inv' is not there"):
        values(save(tmp_path, {"m.weight": np.ones((2, 2), FP8)}, settings))


def test_fp8_in_a_stack_has_blocks_of_its_own_for_every_expert(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    codes = random.standard_normal((3, 5, 7)).astype(FP8)
    scales = random.random((3, 2, 2)).astype(np.float32)
    settings = {"quant_method": "fp8", "weight_block_size": [4, 4]}
    folder = save(tmp_path, {"m.experts.gate_up_proj": codes, "m.experts.gate_up_proj_scale_inv": scales}, settings)
    expanded = np.repeat(np.repeat(scales, 4, 1), 4, 2)[:, :5, :7]
    assert np.array_equal(
        values(folder)["m.experts.gate_up_proj"], (codes.astype(np.float32) * expanded).astype(np.float16)
    )


def test_scales_may_be_powers_of_two(tmp_path: Path) -> None:
    exponents = np.array([[120, 130]], np.uint8)
    settings = {"quant_method": "fp8", "weight_block_size": [2, 2]}
    for stored in (exponents, exponents.view(ml_dtypes.float8_e8m0fnu)):
        folder = save(tmp_path, {"m.weight": np.ones((2, 4), FP8), "m.weight_scale_inv": stored}, settings)
        assert values(folder)["m.weight"].astype(np.float32).tolist() == [[2**-7, 2**-7, 8, 8]] * 2


def test_a_recipe_works_on_the_weights_and_casts_round_once(tmp_path: Path) -> None:
    parts, weight = gptq("m.fc", 16, 32)
    folder = save(tmp_path / "model", parts, GPTQ)
    result = convert(folder, tmp_path / "out.safetensors", recipe="none", dtype="f32")
    assert result.is_success
    got = to_numpy(open_checkpoint(tmp_path / "out.safetensors")["m.fc.weight"].array)
    assert got.dtype == np.float32
    assert np.array_equal(got.astype(np.float16), weight)
    assert {source for one in result.applied for source in one.sources} == set(parts)
    assert any(note.startswith("quantised: GPTQ, 4 bits") for note in result.notes)


def test_a_way_begins_at_the_stored_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts, _ = gptq("m.fc", 16, 32)
    folder = save(tmp_path, parts, GPTQ)
    assert main(["explain", str(folder), "m.fc.weight", "--recipe", "none"]) == 0
    assert "m.fc.qzeros  I32 [2, 2]" in capsys.readouterr().out


def test_metadata_of_every_shard_counts(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    tensors: dict[str, np.ndarray] = {}
    metadata: dict[str, dict[str, str]] = {}
    want: dict[str, np.ndarray] = {}
    for number in range(2):
        codes, scale = random.integers(-9, 9, (4, 6)).astype(np.int8), random.random((4, 3)).astype(np.float32)
        tensors |= {f"m.{number}._weight_qdata": codes}
        want[f"m.{number}.weight"] = (codes * np.repeat(scale, 2, 1)).astype(np.float16)
        described = {
            "_type": "Int8Tensor",
            "_data": {"block_size": [1, 2], "dtype": {"_data": "float16"}},
            "_tensor_data_names": ["qdata", "scale"],
        }
        metadata[f"model-{number + 1:05}-of-00002.safetensors"] = {f"m.{number}.weight": json.dumps(described)}
        tensors[f"later.{number}"] = scale
    order = ["m.0._weight_qdata", "m.1._weight_qdata", "later.0", "later.1"]
    named = {
        name.replace("later.", "m.") + ("._weight_scale" if name.startswith("later") else ""): tensors[name]
        for name in order
    }
    got = values(save(tmp_path, named, {"quant_method": "torchao"}, shards=2, metadata=metadata))
    assert set(got) == set(want)
    assert all(np.array_equal(got[name], want[name]) for name in want)


def test_a_class_of_torchao_for_kernels_is_refused_by_its_name(tmp_path: Path) -> None:
    metadata = {
        "model-00001-of-00002.safetensors": {"m.weight": json.dumps({"_type": "Int4TilePackedTo4dTensor", "_data": {}})}
    }
    tensors = {"m._weight_qdata": CODES, "m._weight_scale_and_zero": np.ones(3, np.float32)}
    with pytest.raises(UnsupportedError, match="Int4TilePackedTo4dTensor"):
        values(save(tmp_path, tensors, {"quant_method": "torchao"}, shards=2, metadata=metadata))


def test_an_adapter_is_worked_into_real_values_before_they_are_rounded(tmp_path: Path) -> None:
    parts, _ = gptq("m.fc", 16, 32)
    folder = save(tmp_path / "base", parts, GPTQ, config={"torch_dtype": "bfloat16"})
    random = np.random.default_rng(1)
    a, b = random.standard_normal((2, 32)).astype(np.float32), random.standard_normal((16, 2)).astype(np.float32)
    (tmp_path / "lora").mkdir()
    prefix = "base_model.model.m.fc.lora_"
    (tmp_path / "lora" / "adapter_model.safetensors").write_bytes(
        blob({f"{prefix}A.weight": a, f"{prefix}B.weight": b})
    )
    settings = json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4})
    (tmp_path / "lora" / "adapter_config.json").write_text(settings, encoding="utf-8")
    out = tmp_path / "out.safetensors"
    assert convert(folder, out, recipe="none", merge=tmp_path / "lora", dtype="f32").is_success
    real = to_numpy(cast(open_checkpoint(folder, quantized="dequantize")["m.fc.weight"].array, F32)).astype(np.float32)
    got = to_numpy(open_checkpoint(out)["m.fc.weight"].array)
    assert np.allclose(got, real + 2 * b @ a, rtol=1e-6, atol=1e-6)


def test_a_conv1d_of_gpt2_gets_its_own_layout_back(tmp_path: Path) -> None:
    for module, model, is_swapped in (
        ("h.0.attn.c_attn", "gpt2", True),
        ("h.0.attn.c_attn", "llama", False),
        ("h.0.q", "gpt2", False),
    ):
        parts, weight = gptq(module, 16, 32)
        got = values(save(tmp_path / f"{model}{module}", parts, GPTQ, config={"model_type": model}))[f"{module}.weight"]
        assert np.array_equal(got, weight.T if is_swapped else weight)


def test_a_shape_that_no_file_says_is_taken_from_bias_or_config_or_asked_for(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    data = random.integers(0, 256, (32, 128)).astype(np.uint8)  # 64 groups of 128: 32 outputs of 256 inputs
    parts: dict[str, np.ndarray] = {
        "m.fc.weight._data._data": data,
        "m.fc.weight._scale": np.ones((64, 1), np.float16),
        "m.fc.weight._shift": np.zeros((64, 1), np.float16),
    }
    with pytest.raises(UnsupportedError, match=r"shape of 'm.fc'.weight"):
        values(save(tmp_path / "a", parts))
    assert values(save(tmp_path / "b", {**parts, "m.fc.bias": np.ones(32, np.float16)}))["m.fc.weight"].shape == (
        32,
        256,
    )
    named = {name.replace("m.fc", "m.q_proj"): array for name, array in parts.items()}
    got = values(save(tmp_path / "c", named, config={"hidden_size": 256}))["m.q_proj.weight"]
    assert np.array_equal(got, np.concatenate([data & 15, data >> 4]).reshape(32, 256).astype(np.float16))


@pytest.mark.parametrize("choice", ["report", "dequantize"])
def test_damaged_settings_are_told_not_guessed(choice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "m.fc.weight"
    parts: dict[str, np.ndarray] = {
        name: np.ones((8, 1), np.uint8),
        f"{name}.absmax": np.ones(1, np.float32),
        f"{name}.quant_map": np.ones(16, np.float32),
        f"{name}.quant_state.bitsandbytes__nf4": np.frombuffer(b'{"shape": [4', np.uint8),
    }
    folder = save(tmp_path, parts, {"quant_method": "bitsandbytes"})
    assert main(["inspect", str(folder), "--quantized", choice]) == (0 if choice == "report" else 3)
    printed = capsys.readouterr()
    assert "is no JSON" in printed.out + printed.err


@pytest.mark.parametrize(
    ("part", "array"),
    [
        pytest.param("qzeros", np.ones((2, 2), np.float16), id="zeros-as-floats"),
        pytest.param("qzeros", np.ones((1, 2), np.int32), id="too-few-groups"),
        pytest.param("scales", np.ones((2, 15), np.float16), id="too-few-outputs"),
        pytest.param("scales", np.ones((0, 16), np.float16), id="no-groups"),
        pytest.param("g_idx", np.ones(20, np.int32), id="too-few-inputs"),
        pytest.param("g_idx", np.ones(32, np.float16), id="groups-as-floats"),
        pytest.param("qweight", np.ones((4, 16, 1), np.int32), id="rank"),
    ],
)
def test_parts_that_do_not_go_together_are_an_error_that_names_the_weight(
    part: str, array: np.ndarray, tmp_path: Path
) -> None:
    parts, _ = gptq("m.fc", 16, 32)
    with pytest.raises(TensorError, match=r"'m\.fc(\.weight)?' is quantised, but"):
        values(save(tmp_path, {**parts, f"m.fc.{part}": array}, GPTQ))
