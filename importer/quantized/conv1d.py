"""Which linear layers keep their weights as `[in, out]`: GPT-2's kind, `Conv1D` of transformers.

A quantiser puts its own layer, `[out, in]`, in the place of one. Not here: anything else about architectures.
"""

from __future__ import annotations

from importer.quantized.model import Source

__all__ = ["CONV1D_LAYERS", "CONV1D_MODELS", "is_conv1d"]

CONV1D_MODELS = frozenset({"gpt2", "openai-gpt", "imagegpt", "decision_transformer", "gpt-sw3"})
CONV1D_LAYERS = frozenset({"c_attn", "c_proj", "c_fc", "q_attn"})


def is_conv1d(source: Source, module: str) -> bool:
    """Whether the model of full precision has `[in, out]` at that module."""
    if source.config is None or source.config.get("model_type") not in CONV1D_MODELS:
        return False
    return module.rpartition(".")[2] in CONV1D_LAYERS
