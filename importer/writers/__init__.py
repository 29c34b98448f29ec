"""Output files: burnpack and safetensors, one file or shards; laid out to the byte, streamed, published in one step.

Not here: which tensors there are and what their values are (`importer.plan`, `importer.arrays`).
"""

from __future__ import annotations

from importer.writers.output import Destination, FileLayout, Format, Layout, OutputTensor, Placed, Scalar, Written
from importer.writers.publishing import check_target, new_file
from importer.writers.sharding import plan_layout
from importer.writers.writing import write

__all__ = [
    "Destination",
    "FileLayout",
    "Format",
    "Layout",
    "OutputTensor",
    "Placed",
    "Scalar",
    "Written",
    "check_target",
    "new_file",
    "plan_layout",
    "write",
]
