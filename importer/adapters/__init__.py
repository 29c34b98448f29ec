"""Module types both ways: torch's parameter names and layouts to Burn's, and back.

`LAYERS` holds every kind; a kind's `to_burn` and `to_torch` take one module's parameters across. Not here: which
parameters belong to which module (`importer.plan.grouping`), and casts (`importer.plan.casting`).
"""

from importer.adapters.classes import RefusedLayer, TypedLayer, layer_of_class
from importer.adapters.layer_kind import (
    Adapted,
    AdaptedParam,
    Args,
    ArgType,
    Argument,
    ArgValue,
    Dropped,
    LayerKind,
    Problem,
    Shapes,
)
from importer.adapters.normed_kernels import normed_kernel
from importer.adapters.suggestions import module_of, suggest_types
from importer.adapters.table import LAYERS

__all__ = [
    "LAYERS",
    "Adapted",
    "AdaptedParam",
    "ArgType",
    "ArgValue",
    "Args",
    "Argument",
    "Dropped",
    "LayerKind",
    "Problem",
    "RefusedLayer",
    "Shapes",
    "TypedLayer",
    "layer_of_class",
    "module_of",
    "normed_kernel",
    "suggest_types",
]
