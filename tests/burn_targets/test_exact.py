"""Recipes whose Burn module is public give exactly its parameters: names, order, shapes, and every bit of the values.

`burn_target.json` lists the parameters read off the Rust structs; expected values are made here with numpy alone.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from importer.adapters import LAYERS, Shapes
from importer.arrays import full, to_numpy
from importer.checkpoint import Checkpoint, Tensor, open_checkpoint
from importer.dtypes import F32
from importer.plan import Plan, build_plan
from importer.recipes import load_recipe

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
RECIPES = {
    "albert": "albert",
    "llama": "llama",
    "llama_meta": "llama-meta",
    "minilm": "minilm",
    "mobilenet_v2": "mobilenet_v2",
    "resnet18": "resnet",
    "roberta": "roberta",
}
FILES = sorted(
    path
    for family in RECIPES
    for path in (FIXTURES / "families" / family).iterdir()
    if path.suffix in {".bin", ".pth", ".safetensors"}
)
LLAMA_HEADS = {"attention.wq.weight": 4, "attention.wk.weight": 2}


def plan_of(checkpoint: Checkpoint, recipe: str) -> Plan:
    return build_plan(checkpoint, load_recipe(recipe))


def expected_values(name: str, source: np.ndarray[Any, Any], *, is_linear: bool, rotary: bool) -> np.ndarray[Any, Any]:
    """Return a source tensor as Burn holds it."""
    heads = next((count for end, count in LLAMA_HEADS.items() if name.endswith(end)), None)
    if heads is not None and rotary:
        halves = source.reshape(heads, 2, -1, source.shape[1])
        source = np.stack([halves[:, 0], halves[:, 1]], axis=2).reshape(source.shape)
    return source.T if is_linear and source.ndim == 2 else source


@pytest.mark.parametrize("file", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_family_becomes_exactly_its_burn_module(file: Path) -> None:
    family = file.parent.name
    target = json.loads((file.parent / "burn_target.json").read_text())
    checkpoint = open_checkpoint(file)
    plan = plan_of(checkpoint, RECIPES[family])
    assert (plan.missing, plan.unused, plan.errors) == ((), (), ())
    assert [(step.name, list(step.array.shape)) for step in plan.tensors] == [(e["name"], e["shape"]) for e in target]
    for step, entry in zip(plan.tensors, target, strict=True):
        source = checkpoint[step.sources[0]].numpy()
        is_linear = entry["module_class"] == "Linear"
        expected = expected_values(step.name, source, is_linear=is_linear, rotary=family == "llama")
        assert to_numpy(step.array).tobytes() == np.ascontiguousarray(expected).tobytes(), step.name


def resnet_names(counts: tuple[int, ...], *, bottleneck: bool) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of torchvision's ResNet."""
    expansion = 4 if bottleneck else 1
    shapes: dict[str, tuple[int, ...]] = {}

    def conv_and_norm(conv: str, norm: str, out: int, inputs: int, kernel: int) -> None:
        shapes[f"{conv}.weight"] = (out, inputs, kernel, kernel)
        shapes.update({f"{norm}.{leaf}": (out,) for leaf in ("weight", "bias", "running_mean", "running_var")})
        shapes[f"{norm}.num_batches_tracked"] = ()

    conv_and_norm("conv1", "bn1", 64, 3, 7)
    inputs = 64
    for stage, count in enumerate(counts):
        width = 64 << stage
        kernels = (1, 3, 1) if bottleneck else (3, 3)
        for block in range(count):
            path = f"layer{stage + 1}.{block}"
            outs = (*[width] * (len(kernels) - 1), width * expansion)
            for number, (kernel, out) in enumerate(zip(kernels, outs, strict=True), 1):
                ins = inputs if number == 1 else width
                conv_and_norm(f"{path}.conv{number}", f"{path}.bn{number}", out, ins, kernel)
            if block == 0 and inputs != width * expansion:
                conv_and_norm(f"{path}.downsample.0", f"{path}.downsample.1", width * expansion, inputs, 1)
            inputs = width * expansion
    return {**shapes, "fc.weight": (1000, inputs), "fc.bias": (1000,)}


def checkpoint_of(shapes: dict[str, tuple[int, ...]], config: dict[str, object] | None) -> Checkpoint:
    """Return a checkpoint of zeros without a file."""
    tensors = {name: Tensor(name, full(0, F32, shape)) for name, shape in shapes.items()}
    return Checkpoint(paths=("model.pth",), container="zip", tensors=tensors, config=config)


@pytest.mark.parametrize(
    ("counts", "bottleneck"),
    [((2, 2, 2, 2), False), ((3, 4, 6, 3), False), ((3, 4, 6, 3), True), ((3, 4, 23, 3), True), ((3, 8, 36, 3), True)],
    ids=["resnet18", "resnet34", "resnet50", "resnet101", "resnet152"],
)
def test_every_resnet_fits_without_any_config(counts: tuple[int, ...], bottleneck: bool) -> None:
    plan = plan_of(checkpoint_of(resnet_names(counts, bottleneck=bottleneck), None), "resnet")
    assert (plan.missing, plan.unused, plan.errors) == ((), (), ())
    variants = {step.name.split(".")[3] for step in plan.tensors if step.name.startswith("layer")}
    assert variants == {"Bottleneck" if bottleneck else "Basic"}


def test_resnet50_becomes_exactly_its_burn_module() -> None:
    folder = FIXTURES / "keys" / "resnet50"
    shapes = {entry["name"]: tuple(entry["shape"]) for entry in json.loads((folder / "keys.json").read_text())}
    plan = plan_of(checkpoint_of(shapes, json.loads((folder / "config.json").read_text())), "resnet")
    target = json.loads((folder / "burn_target.json").read_text())
    assert [(step.name, list(step.array.shape)) for step in plan.tensors] == [(e["name"], e["shape"]) for e in target]


@pytest.mark.parametrize(
    ("recipe", "family"), [("minilm", "minilm"), ("roberta", "roberta"), ("albert", "albert"), ("gpt2", "gpt2")]
)
def test_sizes_are_read_off_the_tensors_where_there_is_no_config(recipe: str, family: str, tmp_path: Path) -> None:
    bare = tmp_path / "model.safetensors"
    bare.write_bytes((FIXTURES / "families" / family / "model.safetensors").read_bytes())
    with_config = plan_of(open_checkpoint(FIXTURES / "families" / family / "model.safetensors"), recipe)
    without = plan_of(open_checkpoint(bare), recipe)
    assert (without.missing, without.unused, without.errors) == ((), (), ())
    assert [step.name for step in without.tensors] == [step.name for step in with_config.tensors]


def test_gpt2_matrices_keep_their_order_and_the_head_is_the_embedding_transposed() -> None:
    folder = FIXTURES / "families" / "gpt2"
    checkpoint = open_checkpoint(folder / "model.safetensors")
    made = {step.name: to_numpy(step.array) for step in plan_of(checkpoint, "gpt2").tensors}
    attention = checkpoint["transformer.h.0.attn.c_attn.weight"].numpy()
    for name, columns in zip(("query", "key", "value"), np.split(attention, 3, axis=1), strict=True):
        np.testing.assert_array_equal(made[f"layers.0.mha.{name}.weight"], columns)
    np.testing.assert_array_equal(made["lm_head.weight"], checkpoint["transformer.wte.weight"].numpy().T)


@pytest.mark.parametrize("file", ["model.safetensors", "pytorch_model.bin"])
def test_gpt2_norms_go_where_burn_uses_them(file: str) -> None:
    checkpoint = open_checkpoint(FIXTURES / "families" / "gpt2" / file)
    plan = plan_of(checkpoint, "gpt2")
    sources = {step.name: step.sources[0].removeprefix("transformer.") for step in plan.tensors}
    assert sources["layers.1.norm_2.gamma"] == "h.1.ln_1.weight"
    assert sources["layers.1.norm_1.beta"] == "h.1.ln_2.bias"


def test_torch_layers_under_their_usual_names_need_no_types() -> None:
    plan = plan_of(open_checkpoint(FIXTURES / "families" / "torch_rnn" / "pytorch_model.bin"), "torch")
    names = {step.name for step in plan.tensors}
    assert (plan.errors, plan.unused) == ((), ())
    assert "lstm.1.reverse.cell_gate.hidden_transform.bias" in names
    assert "gru.new_gate.input_transform.weight" in names
    assert len(names) == 79


def test_torch_transformers_under_their_usual_names_need_no_types() -> None:
    plan = plan_of(open_checkpoint(FIXTURES / "families" / "torch_transformer" / "model.safetensors"), "torch")
    assert (plan.errors, plan.unused) == ((), ())
    encoder = [f"encoder.layers.{n}.{leaf}" for n in range(2) for leaf, _ in burn_params("TransformerEncoderLayer")]
    decoder = [f"decoder.layers.0.{leaf}" for leaf, _ in burn_params("TransformerDecoderLayer")]
    cross = [f"cross.{leaf}" for leaf, _ in burn_params("CrossAttention")]
    others = ["encoder_norm.gamma", "encoder_norm.beta", "mlp.4.alpha"]
    others += [f"mlp.{n}.{leaf}" for n in (0, 3) for leaf in ("weight", "bias")]
    assert {step.name for step in plan.tensors} == {*encoder, *decoder, *cross, *others}


def burn_params(kind: str) -> Shapes:
    """Return the parameters of a layer, whatever its sizes."""
    return LAYERS[kind].burn_params({})


def test_torch_transformers_without_a_config_are_asked_for_their_norm_order() -> None:
    checkpoint = replace(
        open_checkpoint(FIXTURES / "families" / "torch_transformer" / "model.safetensors"), config=None
    )
    plan = plan_of(checkpoint, "torch")
    asked = {error.name for error in plan.errors}
    assert asked == {name for name in checkpoint if ".layers." in name and ".norm" in name}
