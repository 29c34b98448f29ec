"""Weight-normed and spectral-normed kernels whose layer need not be known: every layer of that rank keeps them as they lie.

A kernel of rank 3 and more is a convolution's or a transposed one's; Burn holds both as torch does. What its factors
give is the same for both, too: weight norm's axes are those where `g` has size 1, spectral norm's is told by the length
of `u`, unless two axes have that length. Not here: matrices, which a Linear transposes and an Embedding does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

from importer.adapters.layer_kind import LayerKind
from importer.adapters.plain import Leaf, PlainLayer

__all__ = ["normed_kernel"]

_KERNEL = 3
"""The least rank of a kernel."""
_AXES = (0, 1)
"""Dimensions that may count outputs: of a convolution, of a transposed one."""
_WEIGHT_NORMS = ({"weight_g", "weight_v"}, {f"parametrizations.weight.original{n}" for n in _AXES})
_SPECTRAL_NORMS = (
    ("weight_orig", "weight_u", "weight_v"),
    ("parametrizations.weight.original", "parametrizations.weight.0._u", "parametrizations.weight.0._v"),
)
_WHOLE = re.compile(r"_v$|original1$")

Shapes = Mapping[str, tuple[int, ...]]


def normed_kernel(leaves: Shapes) -> LayerKind | None:
    """Return what takes these parameters of one module across, or None where they are no normed kernel of one meaning."""
    axis = _axis({leaf: shape for leaf, shape in leaves.items() if leaf != "bias"})
    if axis is None:
        return None
    weight = Leaf(burn="weight", torch=("weight",), rank=None, shape=lambda _: ())
    bias = Leaf(burn="bias", torch=("bias",), rank=1, shape=lambda _: ())
    return PlainLayer(name="kernel", leaves=(weight, bias), struct="", out_axis=axis)


def _axis(factors: Shapes) -> int | None:
    """Return the dimension that spectral norm keeps (any for weight norm), None for what is neither or could be both."""
    if factors.keys() in _WEIGHT_NORMS:
        whole = next(shape for leaf, shape in factors.items() if _WHOLE.search(leaf))
        return 0 if len(whole) >= _KERNEL else None
    for weight, u, v in _SPECTRAL_NORMS:
        if factors.keys() == {weight, u, v} and len(factors[weight]) >= _KERNEL:
            shape = factors[weight]
            fitting = [
                axis
                for axis in _AXES
                if factors[u] == (shape[axis],) and factors[v] == (prod(shape) // max(shape[axis], 1),)
            ]
            return fitting[0] if len(fitting) == 1 else None
    return None
