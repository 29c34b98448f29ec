"""Whether tensors are those of an adapter, by their names.

Not here: reading them (`peft`, `kohya`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

__all__ = ["AdapterKind", "adapter_kind"]


class AdapterKind(str, Enum):
    """Who wrote an adapter, and how its modules are named."""

    PEFT = "PEFT"
    KOHYA = "kohya"
    DIFFUSERS = "diffusers"


_PEFT = "base_model.model."
_KOHYA = re.compile(
    r"lora_(?:unet|te\d*|transformer|prior\w*)_.+\.(?:lora_(?:down|up|mid)\.weight|alpha|dora_scale|hada_\w+|lokr_\w+|oft_\w+)"
)
_LOW_RANK = re.compile(
    r".+\.(?:lora_(?:A|B|down|up|embedding_A|embedding_B|magnitude_vector)(?:\.[\w-]+)*|lora\.(?:down|up)\.weight"
    r"|(?:to_\w+_lora|lora_linear_layer)\.(?:down|up)\.weight|hada_w\w+|lokr_w\w+|ia3_l|vera_lambda_\w+|oft_\w+|boft_\w+)"
)


def adapter_kind(names: Iterable[str]) -> AdapterKind | None:
    """Return the kind of adapter that tensors of these names are; None if they are not, or hold a base as well."""
    every = list(names)
    if any(_KOHYA.fullmatch(name) for name in every):
        return AdapterKind.KOHYA
    low_rank = [name for name in every if _LOW_RANK.fullmatch(name)]
    if every and all(name.startswith(_PEFT) for name in every):
        return AdapterKind.PEFT
    if not low_rank or 2 * len(low_rank) < len(every):
        return None
    return AdapterKind.PEFT if any(name.startswith(_PEFT) for name in every) else AdapterKind.DIFFUSERS
