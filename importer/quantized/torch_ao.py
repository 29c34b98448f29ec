"""torch.ao: quantised tensors of torch itself, and the names its quantised layers give them.

A linear layer keeps `M._packed_params._packed_params`, a pair of quantised weight and bias; a convolution `M.weight` and
`M.bias`. `weight = (q - zero_point) * scale`, one for all or one for each index of an axis. `M.scale` and `M.zero_point` are
those of the activations.

Source: torch.ao.nn.quantized; `_rebuild_qtensor` of torch/_utils.py.
"""

from __future__ import annotations

from importer.arrays import Array, dequantize
from importer.dtypes import F32, Kind
from importer.errors import shown
from importer.quantized.model import QUANTIZED_TENSOR, Format, Source, Unpacked, Weight

__all__ = ["TORCH_AO"]

_PAIR = "._packed_params._packed_params"
_ACTIVATIONS = "quantisation of the activations"


def _unpack(source: Source) -> Unpacked:
    found = Unpacked("torch.ao")
    for stored, composite in source.composites.items():
        if composite.class_name != QUANTIZED_TENSOR:
            continue
        integers, scale, zero_point = (composite.parts.get(part) for part in ("integers", "scale", "zero_point"))
        if not (isinstance(integers, Array) and isinstance(scale, Array) and isinstance(zero_point, Array)):
            raise source.refused(f"{shown(stored)} is a quantised tensor of {shown(composite.values.get('what'))}")
        axis = composite.values.get("axis")
        real = dequantize(integers, scale, zero_point, axis if isinstance(axis, int) else None, F32)
        name = _renamed(stored)
        beside = {"int_repr": integers, "scale": scale, "zero_point": zero_point}
        found.weights[name] = Weight(name, real, (stored,), beside)
    for stored, array in source.arrays.items():
        name = _renamed(stored)
        if name != stored:
            found.weights[name] = Weight(name, array, (stored,))
        elif stored.endswith(".zero_point") and _is_activation(source, stored):
            found.aside[stored] = _ACTIVATIONS
            found.aside[f"{stored.removesuffix('zero_point')}scale"] = _ACTIVATIONS
    return found


def _renamed(stored: str) -> str:
    """Return the name of the float layer's parameter for a part of a pair."""
    for number, leaf in ((0, "weight"), (1, "bias")):
        if stored.endswith(f"{_PAIR}.{number}"):
            return f"{stored.removesuffix(f'{_PAIR}.{number}')}.{leaf}"
    return stored


def _is_activation(source: Source, zero_point: str) -> bool:
    """Whether a zero point and the scale beside it are single numbers."""
    scale = source.arrays.get(f"{zero_point.removesuffix('zero_point')}scale")
    found = source.arrays[zero_point]
    return scale is not None and scale.size == found.size == 1 and found.dtype.kind is Kind.INTEGER


def _is_here(source: Source) -> bool:
    return any(composite.class_name == QUANTIZED_TENSOR for composite in source.composites.values())


TORCH_AO = Format("torch.ao", (), _is_here, _unpack)
