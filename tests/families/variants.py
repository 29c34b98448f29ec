"""How published files of a family differ from the recorded ones: prefixes, old spellings, buffers, bare encoders.

Each variant is a recorded family changed in one way that published files show; the recipe must take it all the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.families.synthetic import Family, Row, load

__all__ = ["VARIANTS", "Variant"]


@dataclass(frozen=True, slots=True)
class Variant:
    """A recorded family with one difference of published files.

    Attributes:
        family: the recorded one.
        difference: what is different, in words.
        recipe: the recipe that must be found and must fit.
        change: makes the difference.
    """

    family: str
    difference: str
    recipe: str
    change: Callable[[Family], Family]

    def load(self) -> Family:
        return self.change(load(self.family))

    def __str__(self) -> str:
        return f"{self.family}: {self.difference}"


def _buffers(pattern: str, *buffers: tuple[str, tuple[int, ...], str]) -> Callable[[Family], Family]:
    """Add buffers beside every tensor whose name matches: `$` in a buffer's name is what the pattern matched."""

    def change(family: Family) -> Family:
        found = dict.fromkeys(match[0] for row in family.rows if (match := re.search(pattern, row.name)))
        rows = (Row(name.replace("$", at), shape, dtype) for at in found for name, shape, dtype in buffers)
        return family.with_rows(*rows)

    return change


def _bare(prefix: str, *heads: str, architecture: str) -> Callable[[Family], Family]:
    """Drop the heads and the prefix, as the bare model is saved."""
    return lambda family: family.without(*heads).unprefixed(prefix).configured(architectures=[architecture])


def _respelled(*pairs: tuple[str, str]) -> Callable[[Family], Family]:
    return lambda family: family.renamed(*pairs)


def _weight_norm(family: Family) -> Family:
    return family.renamed(
        (".parametrizations.weight.original0", ".weight_g"), (".parametrizations.weight.original1", ".weight_v")
    )


def _old_bert(family: Family) -> Family:
    """google-bert/bert-base-uncased as first published: gamma and beta, position_ids, the next-sentence head."""
    respelled = family.renamed(("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta"))
    return respelled.without("cls.predictions.decoder.bias").with_rows(
        Row("bert.embeddings.position_ids", (1, 32), "int64"),
        Row("bert.pooler.dense.weight", (32, 32), "float32"),
        Row("bert.pooler.dense.bias", (32,), "float32"),
        Row("cls.seq_relationship.weight", (2, 32), "float32"),
        Row("cls.seq_relationship.bias", (2,), "float32"),
    )


def _deberta_v3(family: Family) -> Family:
    """microsoft/deberta-v3-base as published: the new head, the discriminator, position_ids."""
    renamed = family.without("cls.predictions.decoder.").renamed(
        ("cls.predictions.transform.", "lm_predictions.lm_head."), ("cls.predictions.", "lm_predictions.lm_head.")
    )
    return renamed.with_rows(
        Row("deberta.embeddings.position_ids", (1, 34), "int64"),
        Row("mask_predictions.dense.weight", (32, 32), "float32"),
        Row("mask_predictions.dense.bias", (32,), "float32"),
        Row("mask_predictions.LayerNorm.weight", (32,), "float32"),
        Row("mask_predictions.LayerNorm.bias", (32,), "float32"),
        Row("mask_predictions.classifier.weight", (1, 32), "float32"),
        Row("mask_predictions.classifier.bias", (1,), "float32"),
    )


def _one_tower(prefix: str, config: str, architecture: str) -> Callable[[Family], Family]:
    """Keep one tower; its config is then the whole config."""

    def change(family: Family) -> Family:
        flat = family.config[config]
        assert isinstance(flat, dict)
        rows = tuple(row for row in family.rows if row.name.startswith(prefix))
        return replace(family, rows=rows, config={**flat, "architectures": [architecture]})

    return change


def _untied(family: Family) -> Family:
    return replace(family, rows=tuple(replace(row, tied_to="") for row in family.rows))


def _config(*kept: str, **fields: object) -> Callable[[Family], Family]:
    """Keep these fields of the config only, beside new ones: published configs are older, and say less."""
    return lambda family: replace(family, config={name: family.config[name] for name in kept} | fields)


def _lone_text_config(family: Family) -> Family:
    """google/gemma-3-4b-it: the text part says what differs from the library's defaults, and nothing else."""
    text = family.config["text_config"]
    assert isinstance(text, dict)
    kept = {name: text[name] for name in ("hidden_size", "intermediate_size", "model_type", "num_hidden_layers")}
    return replace(family, config={"architectures": ["Gemma3ForConditionalGeneration"], "text_config": kept})


def _narrow_phi4(family: Family) -> Family:
    return family.configured(rope_parameters={"partial_rotary_factor": 0.75, "rope_type": "default"})


_INV_FREQ = _buffers(r"model\.layers\.\d+\.self_attn\.(?=o_proj)", ("$rotary_emb.inv_freq", (4,), "float32"))

VARIANTS = (
    Variant("llama", "rotary buffers of older files", "llama", _INV_FREQ),
    Variant("mistral", "rotary buffers of older files", "mistral", _INV_FREQ),
    Variant("mistral", "the bare model", "mistral", _bare("model.", architecture="MistralModel")),
    Variant("mixtral", "rotary buffers of older files", "mixtral", _INV_FREQ),
    Variant("qwen2", "the bare model", "qwen2", _bare("model.", "lm_head.", architecture="Qwen2Model")),
    Variant("qwen2", "a head of its own, as the large sizes have", "qwen2", _untied),
    Variant(
        "qwen3", "the bare model, an embedding model", "qwen3", _bare("model.", "lm_head.", architecture="Qwen3Model")
    ),
    Variant("gemma2", "the bare model", "gemma2", _bare("model.", "lm_head.", architecture="Gemma2Model")),
    Variant(
        "gemma3_vision",
        "the prefixes of transformers 4.52 and later",
        "gemma3",
        _respelled(
            ("language_model.model.", "model.language_model."),
            ("vision_tower.", "model.vision_tower.vision_model."),
            ("multi_modal_projector.", "model.multi_modal_projector."),
        ),
    ),
    Variant("gemma3_vision", "the sparse config of the 4B model", "gemma3", _lone_text_config),
    Variant(
        "falcon_7b",
        "the first published config",
        "falcon",
        _config(
            *("hidden_size", "vocab_size", "multi_query", "parallel_attn", "bias", "alibi"),
            architectures=["RWForCausalLM"],
            n_layer=2,
            n_head=4,
        ),
    ),
    Variant(
        "falcon",
        "the first published config of the 40B model",
        "falcon",
        _config(
            *("hidden_size", "vocab_size", "parallel_attn", "bias", "alibi"),
            architectures=["RWForCausalLM"],
            n_layer=2,
            n_head=4,
            n_head_kv=2,
        ),
    ),
    Variant(
        "mamba",
        "the original repository's config",
        "mamba",
        _config(d_model=32, n_layer=2, vocab_size=60, ssm_cfg={}, rms_norm=True, pad_vocab_size_multiple=8),
    ),
    Variant(
        "t5_small",
        "the first published config",
        "t5",
        _config(
            *("d_ff", "d_kv", "d_model", "num_heads", "num_layers", "relative_attention_num_buckets", "vocab_size"),
            architectures=["T5WithLMHeadModel"],
        ),
    ),
    Variant(
        "unet_sd",
        "the config of Stable Diffusion 1",
        "sd-unet",
        _config(
            *("_class_name", "attention_head_dim", "block_out_channels", "cross_attention_dim", "down_block_types"),
            *("in_channels", "layers_per_block", "norm_num_groups", "out_channels", "up_block_types"),
        ),
    ),
    Variant(
        "autoencoder_kl",
        "the config of Stable Diffusion 1",
        "sd-vae",
        _config(
            *("_class_name", "block_out_channels", "down_block_types", "in_channels", "latent_channels"),
            *("layers_per_block", "norm_num_groups", "out_channels", "up_block_types"),
        ),
    ),
    Variant("phi3", "partial rotary embedding, as Phi-4-mini has", "phi3", _narrow_phi4),
    Variant(
        "gpt_neox",
        "causal masks and rotary buffers",
        "gpt-neox",
        _buffers(
            r"gpt_neox\.layers\.\d+\.attention\.(?=dense)",
            ("$bias", (1, 1, 64, 64), "float32"),
            ("$masked_bias", (), "float32"),
            ("$rotary_emb.inv_freq", (4,), "float32"),
        ),
    ),
    Variant("gpt_neox", "the bare model", "gpt-neox", _bare("gpt_neox.", "embed_out.", architecture="GPTNeoXModel")),
    Variant("opt", "the bare model", "opt", _bare("model.", "lm_head.", architecture="OPTModel")),
    Variant(
        "bloom",
        "without prefix, as first published",
        "bloom",
        _bare("transformer.", "lm_head.", architecture="BloomModel"),
    ),
    Variant("falcon", "the bare model", "falcon", _bare("transformer.", "lm_head.", architecture="FalconModel")),
    Variant(
        "mamba",
        "the original repository's spelling",
        "mamba",
        _respelled(("backbone.embeddings.", "backbone.embedding.")),
    ),
    Variant("bert", "as first published", "bert", _old_bert),
    Variant(
        "bert",
        "with a wrapper's prefix",
        "bert",
        lambda family: family.renamed(("bert.", "module.bert."), ("cls.", "module.cls.")),
    ),
    Variant(
        "xlm_roberta_cls",
        "the bare model",
        "xlm-roberta",
        _bare("roberta.", "classifier.", architecture="XLMRobertaModel"),
    ),
    Variant(
        "distilbert", "the bare model", "distilbert", _bare("distilbert.", "vocab_", architecture="DistilBertModel")
    ),
    Variant(
        "mpnet",
        "the bare model, all-mpnet-base-v2",
        "mpnet",
        lambda family: _bare("mpnet.", "lm_head.", architecture="MPNetModel")(family).with_rows(
            Row("embeddings.position_ids", (1, 34), "int64"),
            Row("pooler.dense.weight", (32, 32), "float32"),
            Row("pooler.dense.bias", (32,), "float32"),
        ),
    ),
    Variant(
        "modernbert",
        "the bare model",
        "modernbert",
        _bare("model.", "head.", "decoder.", architecture="ModernBertModel"),
    ),
    Variant("deberta_v2", "version 3 as published", "deberta-v2", _deberta_v3),
    Variant(
        "t5",
        "the unused relative bias of the cross attention",
        "t5",
        lambda family: family.with_rows(
            Row("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", (8, 4), "float32")
        ),
    ),
    Variant(
        "bart",
        "the bare model, bart-base",
        "bart",
        _bare("model.", "lm_head.", "final_logits_bias", architecture="BartModel"),
    ),
    Variant(
        "bart",
        "the version buffers of fairseq's time",
        "bart",
        lambda family: family.with_rows(
            Row("model.encoder.version", (1,), "float32"), Row("model.decoder.version", (1,), "float32")
        ),
    ),
    Variant("whisper", "the bare model", "whisper", _bare("model.", "proj_out.", architecture="WhisperModel")),
    Variant("wav2vec2", "weight_g and weight_v", "wav2vec2", _weight_norm),
    Variant("wav2vec2", "the bare model", "wav2vec2", _bare("wav2vec2.", "lm_head.", architecture="Wav2Vec2Model")),
    Variant("hubert", "weight_g and weight_v", "hubert", _weight_norm),
    Variant("encodec", "weight_g and weight_v", "encodec", _weight_norm),
    Variant(
        "clip",
        "position_ids of older files",
        "clip",
        _buffers(r"^(text|vision)_model\.embeddings\.(?=position_embedding)", ("$position_ids", (1, 16), "int64")),
    ),
    Variant("clip", "the text tower alone", "clip", _one_tower("text_model.", "text_config", "CLIPTextModel")),
    Variant("clip", "the vision tower alone", "clip", _one_tower("vision_model.", "vision_config", "CLIPVisionModel")),
    Variant(
        "siglip", "the vision tower alone", "siglip", _one_tower("vision_model.", "vision_config", "SiglipVisionModel")
    ),
    Variant("convnext", "the bare model", "convnext", _bare("convnext.", "classifier.", architecture="ConvNextModel")),
    Variant(
        "swin",
        "index buffers of older files",
        "swin",
        _buffers(
            r"^swin\.encoder\.layers\.\d+\.blocks\.\d+\.attention\.self\.(?=query)",
            ("$relative_position_index", (49, 49), "int64"),
        ),
    ),
    Variant("swin", "the bare model", "swin", _bare("swin.", "classifier.", architecture="SwinModel")),
    Variant(
        "densenet121",
        "the spelling of published files",
        "densenet",
        lambda family: replace(
            family,
            rows=tuple(
                replace(row, name=re.sub(r"(denselayer\d+\.(?:norm|conv))([12])", r"\1.\2", row.name))
                for row in family.rows
            ),
        ),
    ),
    Variant(
        "autoencoder_kl",
        "the attention of older files",
        "sd-vae",
        _respelled((".to_q.", ".query."), (".to_k.", ".key."), (".to_v.", ".value."), (".to_out.0.", ".proj_attn.")),
    ),
)
"""Differences of published files, each with the recipe that must take it."""
