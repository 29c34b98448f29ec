"""How many inputs a layer has, where its own tensors do not say: from config.json, by the names transformers uses.

Not here: anything that is not needed to undo a packing without a shape (quanto).
"""

from __future__ import annotations

from collections.abc import Mapping

from importer.quantized.model import Source, setting_of

__all__ = ["inputs_of"]

_HIDDEN = frozenset(
    {
        "q_proj", "k_proj", "v_proj", "qkv_proj", "query", "key", "value", "query_key_value", "gate_proj", "up_proj", "gate_up_proj",
        "fc1", "w1", "w3", "wi", "wi_0", "wi_1", "q", "k", "v", "dense_h_to_4h", "lm_head", "intermediate.dense", "gate", "c_fc",
        "c_attn", "in_proj", "embed_out",
    }
)  # fmt: skip
_ATTENTION = frozenset({"o_proj", "out_proj", "wo_attn", "attention.output.dense", "attention.dense", "o"})
_INNER = frozenset({"down_proj", "fc2", "w2", "dense_4h_to_h"})
_HIDDEN_KEYS = ("hidden_size", "d_model", "n_embd", "dim")
_INNER_KEYS = ("intermediate_size", "ffn_dim", "encoder_ffn_dim", "d_ff", "n_inner", "hidden_dim")
_HEAD_KEYS = ("num_attention_heads", "n_head", "num_heads", "encoder_attention_heads")


def inputs_of(source: Source, module: str) -> int | None:
    """Return the number of inputs of a linear layer, or None if nothing tells."""
    config = _text_config(source)
    parts = module.split(".")
    leaves = {parts[-1], ".".join(parts[-2:]), ".".join(parts[-3:])}
    hidden = _first(config, _HIDDEN_KEYS)
    if leaves & _ATTENTION:
        heads, size = _first(config, _HEAD_KEYS), setting_of(config, "head_dim", int)
        return heads * size if heads is not None and size is not None else hidden
    if leaves & _INNER:
        if "experts" in parts:
            own = setting_of(config, "moe_intermediate_size", int)
            return own if own is not None else _first(config, _INNER_KEYS)
        inner = _first(config, _INNER_KEYS)
        return 4 * hidden if inner is None and hidden is not None else inner
    return hidden if leaves & _HIDDEN else None


def _text_config(source: Source) -> Mapping[str, object]:
    config = source.config or {}
    inner = config.get("text_config")
    return inner if isinstance(inner, dict) else config


def _first(config: Mapping[str, object], keys: tuple[str, ...]) -> int | None:
    return next((value for key in keys if (value := setting_of(config, key, int)) is not None and value > 0), None)
