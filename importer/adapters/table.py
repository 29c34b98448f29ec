"""Every layer kind a recipe can name, in one table. Not here: what they do (`plain`, `recurrent`, `attention`)."""

from __future__ import annotations

from collections.abc import Mapping

from importer.adapters.attention import ATTENTION_LAYERS
from importer.adapters.layer_kind import LayerKind
from importer.adapters.plain import PLAIN_LAYERS
from importer.adapters.recurrent import RECURRENT_LAYERS

__all__ = ["LAYERS"]

LAYERS: Mapping[str, LayerKind] = {**PLAIN_LAYERS, **RECURRENT_LAYERS, **ATTENTION_LAYERS}
"""Layer kinds by the name recipes write."""
