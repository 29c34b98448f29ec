"""Module types both ways: torch's parameter names and layouts to Burn's, and back.

`LAYERS` holds every kind; `claim` sorts names below modules; a kind's `to_burn` and `to_torch` do the work.
"""

from importer.adapters.casts import CastRule, cast_floats, chained, half_precision
from importer.adapters.claims import Claims, claim
from importer.adapters.classes import TypedLayer, layer_of_class, refusal_of_class
from importer.adapters.model import (
    Adapted,
    Args,
    ArgType,
    Argument,
    ArgValue,
    Dropped,
    Fault,
    LayerKind,
    Piece,
    Shapes,
)
from importer.adapters.suggestions import suggest_types
from importer.adapters.table import LAYERS, layer_kind

__all__ = [
    "LAYERS",
    "Adapted",
    "ArgType",
    "ArgValue",
    "Args",
    "Argument",
    "CastRule",
    "Claims",
    "Dropped",
    "Fault",
    "LayerKind",
    "Piece",
    "Shapes",
    "TypedLayer",
    "cast_floats",
    "chained",
    "claim",
    "half_precision",
    "layer_kind",
    "layer_of_class",
    "refusal_of_class",
    "suggest_types",
]
