"""Every layer kind a recipe can name, in one table. Not here: what they do (`plain`, `recurrent`, `attention`)."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from importer.adapters.attention import ATTENTION_LAYERS
from importer.adapters.model import LayerKind
from importer.adapters.plain import PLAIN_LAYERS
from importer.adapters.recurrent import RECURRENT_LAYERS
from importer.errors import UsageError, shown

__all__ = ["LAYERS", "layer_kind"]

LAYERS: Mapping[str, LayerKind] = {**PLAIN_LAYERS, **RECURRENT_LAYERS, **ATTENTION_LAYERS}
"""Layer kinds by the name recipes write."""


def layer_kind(name: str) -> LayerKind:
    """Return the kind called `name`.

    Raises:
        UsageError: there is none; the nearest names are given.
    """
    kind = LAYERS.get(name)
    if kind is None:
        near = get_close_matches(name, LAYERS, n=3, cutoff=0.5)
        how = f"Did you mean {' or '.join(near)}?" if near else f"Known are {', '.join(LAYERS)}."
        raise UsageError(f"there is no layer {shown(name)}", how=how)
    return kind
