"""Small real models, converted by the command's own path, compute what PyTorch computed: one forward pass per family."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from importer.errors import DecisionNeededError
from tests.numbers.forward import convnets, decoders, encoders, sequences, vision
from tests.numbers.forward.plain import PLAIN
from tests.numbers.forward.recorded import Forward, check, converted, folders

BY_MODEL_TYPE: dict[str, Forward] = {
    **dict.fromkeys(("bert", "data2vec-text", "distilbert", "ernie", "roberta", "xlm-roberta"), encoders.bert),
    **dict.fromkeys(
        (
            *(
                "cwm",
                "ernie4_5",
                "gemma",
                "gemma2",
                "gemma3_text",
                "granite",
                "helium",
                "llama",
                "ministral",
                "ministral3",
            ),
            *("mistral", "mixtral", "olmo2", "olmo3", "phi3", "qwen2", "qwen3", "qwen3_moe", "smollm3"),
        ),
        decoders.llama_like,
    ),
    **dict.fromkeys(("clip", "clip_text_model", "clip_vision_model"), vision.clip),
    **dict.fromkeys(("deit", "vit", "vit_msn"), vision.vit),
    **dict.fromkeys(("hubert", "unispeech", "unispeech-sat", "wav2vec2"), sequences.wav2vec2),
    **dict.fromkeys(("mt5", "t5", "umt5"), sequences.t5),
    "albert": encoders.albert,
    **dict.fromkeys(("bart", "mvp", "plbart"), sequences.bart),
    "bloom": decoders.bloom,
    "convnext": convnets.convnext,
    "deberta-v2": encoders.deberta,
    "dinov2": vision.dinov2,
    "falcon": decoders.falcon,
    "gpt2": decoders.gpt2,
    "gpt_neox": decoders.gpt_neox,
    "mamba": decoders.mamba,
    "modernbert": encoders.modernbert,
    "mpnet": encoders.mpnet,
    "opt": decoders.opt,
    "segformer": vision.segformer,
    "siglip_text_model": vision.siglip_text,
    "siglip_vision_model": vision.siglip_vision,
    "swin": vision.swin,
    "whisper": sequences.whisper,
}
WITHOUT_CONFIG: dict[str, Forward] = {
    "efficientnet-timm": convnets.efficientnet_timm,
    "mobilenet_v2": convnets.mobilenet_v2,
    "resnet": convnets.resnet,
    "vit-timm": vision.vit_timm,
    **PLAIN,
}
FOLDERS = list(folders())


def _forward(folder: Path) -> Forward:
    config = folder / "config.json"
    return (
        BY_MODEL_TYPE[json.loads(config.read_text())["model_type"]] if config.exists() else WITHOUT_CONFIG[folder.name]
    )


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
