"""Rules that say which dtype a parameter is written in, by the Burn layer that owns it. Rules chain.

Not here: the casting (`importer.arrays.cast`), and per-path dtypes, which are a recipe's `dtype` section.
Semantics: Burn's FloatCastAdapter and HalfPrecisionAdapter (burn-spec 5.3, 5.4).
"""

from __future__ import annotations

from collections.abc import Callable

from importer.dtypes import F16, F32, DType
from importer.errors import UsageError

__all__ = ["HALF_PRECISION_LAYERS", "CastRule", "cast_floats", "chained", "half_precision"]

CastRule = Callable[[str, DType], DType]
"""(Burn layer that owns the parameter or "", its dtype) → the dtype to write."""

HALF_PRECISION_LAYERS = frozenset(
    {
        *("Linear", "Embedding", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d"),
        *("ConvTranspose3d", "DeformConv2d", "LayerNorm", "GroupNorm", "InstanceNorm", "RmsNorm", "PRelu"),
    }
)
"""Burn's default list. BatchNorm is left out on purpose: its running variance loses too much in half precision."""


def cast_floats(target: DType) -> CastRule:
    """Return the rule that writes every float as `target` and leaves integers and booleans alone.

    Raises:
        UsageError: `target` is no float.
    """
    if not target.is_float:
        raise UsageError(f"floats cannot be cast to {target}", how="Choose F32, F16, BF16 or F64.")
    return lambda _, dtype: target if dtype.is_float else dtype


def half_precision(*, back: bool = False) -> CastRule:
    """Return the rule that writes F32 as F16 in `HALF_PRECISION_LAYERS` only; with `back`, F16 as F32."""
    source, target = (F16, F32) if back else (F32, F16)
    return lambda layer, dtype: target if dtype is source and layer in HALF_PRECISION_LAYERS else dtype


def chained(*rules: CastRule) -> CastRule:
    """Return the rule that applies each of `rules` to what the one before gave."""

    def chain(layer: str, dtype: DType) -> DType:
        for rule in rules:
            dtype = rule(layer, dtype)
        return dtype

    return chain
