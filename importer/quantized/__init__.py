"""Quantised weights: recognised by settings, names or classes, and given back as real values under their real names.

One module for each format says which stored tensors make one weight, and how. Not here: reading files
(`importer.containers`, `importer.checkpoint`), and what becomes of the weights (recipes, adapters).
"""

from __future__ import annotations

from importer.quantized.finding import SIDE_FILES, find, float_dtype, settings_of
from importer.quantized.integers import integer_parts
from importer.quantized.model import Composite, Source, Unpacked, Weight
from importer.quantized.torch_ao import QUANTIZED_TENSOR

__all__ = [
    "QUANTIZED_TENSOR",
    "SIDE_FILES",
    "Composite",
    "Source",
    "Unpacked",
    "Weight",
    "find",
    "float_dtype",
    "integer_parts",
    "settings_of",
]
