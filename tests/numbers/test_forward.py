"""Small real models, converted by the command's own path, compute what PyTorch computed: one forward pass per family."""

from __future__ import annotations

from pathlib import Path

import pytest

from importer.errors import DecisionNeededError
from tests.numbers.forward import convnets, decoders, encoders, sequences, vision
from tests.numbers.forward.plain import PLAIN
from tests.numbers.forward.recorded import Forward, check, converted, folders

FAMILIES: dict[str, Forward] = {
    "albert": encoders.albert,
    "bart": sequences.bart,
    "bert": encoders.bert,
    "bloom": decoders.bloom,
    "clip": vision.clip,
    "convnext": convnets.convnext,
    "deberta-v2": encoders.deberta,
    "dinov2": vision.dinov2,
    "distilbert": encoders.bert,
    "efficientnet-timm": convnets.efficientnet_timm,
    "falcon": decoders.falcon,
    "gemma2": decoders.llama_like,
    "gemma3": decoders.llama_like,
    "gpt-neox": decoders.gpt_neox,
    "gpt2": decoders.gpt2,
    "llama": decoders.llama_like,
    "mamba": decoders.mamba,
    "minilm": encoders.bert,
    "mistral": decoders.llama_like,
    "mixtral": decoders.llama_like,
    "mobilenet_v2": convnets.mobilenet_v2,
    "modernbert": encoders.modernbert,
    "mpnet": encoders.mpnet,
    "olmo2": decoders.llama_like,
    "opt": decoders.opt,
    "phi3": decoders.llama_like,
    "qwen2": decoders.llama_like,
    "qwen3": decoders.llama_like,
    "qwen3-moe": decoders.llama_like,
    "resnet": convnets.resnet,
    "roberta": encoders.bert,
    "segformer": vision.segformer,
    "siglip-vision": vision.siglip_vision,
    "swin": vision.swin,
    "t5": sequences.t5,
    "vit": vision.vit,
    "vit-timm": vision.vit_timm,
    "wav2vec2": sequences.wav2vec2,
    "whisper": sequences.whisper,
}
FOLDERS = list(folders())


def _forward(folder: Path) -> Forward:
    return (PLAIN if folder.parent.name == "torch-nn" else FAMILIES)[folder.name]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_converted_model_computes_what_pytorch_computed(folder: Path, tmp_path: Path) -> None:
    recipe = "auto"
    if (
        folder.name == "weight-norm-linear"
    ):  # a matrix in factors could be an Embedding's: the refusal has the recipe to save
        with pytest.raises(DecisionNeededError) as refused:
            converted(folder, tmp_path)
        (tmp_path / "mine.yaml").write_text("\n".join(refused.value.lines))
        recipe = str(tmp_path / "mine.yaml")
    run = converted(folder, tmp_path, recipe)
    left_out = "pooler_output" if folder.name == "minilm" else ""
    check(folder, _forward(folder)(run), run.inputs, left_out)


def test_the_pooler_that_minilm_leaves_out_comes_with_bert(tmp_path: Path) -> None:
    for folder in (one for one in FOLDERS if one.name == "minilm"):
        run = converted(folder, tmp_path, recipe="bert")
        check(folder, encoders.bert(run), run.inputs)
