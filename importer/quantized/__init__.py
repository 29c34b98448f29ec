"""Quantised weights: recognised by settings, names or classes, and given back as real values under their real names.

One module for each format says which stored tensors make one weight, and how. Not here: reading files
(`importer.containers`, `importer.checkpoint`), and what becomes of the weights (recipes, adapters).
"""

from __future__ import annotations

from importer.quantized.model import QUANTIZED_TENSOR, Composite, Source, Unpacked, Weight
from importer.quantized.screening import may_have_codes

__all__ = ["QUANTIZED_TENSOR", "Composite", "Source", "Unpacked", "Weight", "may_have_codes"]
