"""Adapters in the words of kohya's sd-scripts, as they are shared for Stable Diffusion and its kin.

`lora_unet_` or `lora_te_` and the module with every dot an underscore, then `.lora_down.weight`, `.lora_up.weight` and `.alpha`;
`merged = base + alpha / rank * up @ down`, and without alpha the factor is 1. LoHa, LoKr and OFT are other methods.

Sources: kohya-ss/sd-scripts networks/lora.py, networks/merge_lora.py; diffusers loaders/lora_conversion_utils.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from importer.arrays import Array
from importer.errors import Location, UnsupportedError, shown
from importer.merging.changes import Adapter, Change, Piece
from importer.quantized.codes import small_table

__all__ = ["read_kohya"]

_SUFFIX = re.compile(r"(?P<module>[^.]+)\.(?P<kind>lora_down\.weight|lora_up\.weight|alpha)")
_OTHERS = {
    "hada_": "LoHa",
    "lokr_": "LoKr",
    "oft_": "OFT",
    "lora_mid": "LoCon with a middle factor",
    "dora_scale": "DoRA of kohya",
    "diff": "whole differences",
}
_HOW = "Merge it with the tool it was trained with (sd-scripts, LyCORIS) and convert the result."


def read_kohya(arrays: Mapping[str, Array], where: Location) -> Adapter:
    """Read an adapter.

    Raises:
        UnsupportedError: it is of another method, or a factor is missing.
    """
    pieces: dict[str, dict[str, Piece]] = {}
    for name, array in arrays.items():
        found = _SUFFIX.fullmatch(name)
        if found is None:
            method = next(
                (label for part, label in _OTHERS.items() if part in name.partition(".")[2]), "an unknown method"
            )
            raise UnsupportedError(f"{shown(name)} belongs to {method}; only LoRA is merged", where=where, how=_HOW)
        pieces.setdefault(found["module"], {})[found["kind"]] = Piece(name, array)
    read = Adapter(f"kohya LoRA, {len(pieces)} modules", has_dots=False)
    for module, own in pieces.items():
        down, up, alpha = (own.get(kind) for kind in ("lora_down.weight", "lora_up.weight", "alpha"))
        if down is None or up is None or not down.array.size or not down.array.shape:
            raise UnsupportedError(
                f"{shown(module)} lacks a factor of its change", where=where, how="Get the file again."
            )
        rank = down.array.shape[0]
        if alpha is not None and (alpha.array.size != 1 or not alpha.array.dtype.is_float):
            raise UnsupportedError(
                f"{shown(alpha.name)} is {alpha.array.dtype} {list(alpha.array.shape)}, no factor",
                where=where,
                how="Get the file again.",
            )
        factor = 1.0 if alpha is None else float(small_table(alpha.array, 1)[0]) / rank
        read.changes.append(Change(module=module, down=down, up=up, factor=factor, bias=None))
        if alpha is not None:
            read.aside[alpha.name] = "factor of a change"
    return read
