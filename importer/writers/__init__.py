"""Output files: burnpack and safetensors, one file or shards; laid out to the byte, streamed, published in one step.

Not here: which tensors there are and what their values are (`importer.plan`, `importer.arrays`).
"""

from __future__ import annotations

from importer.writers.formats import FORMATS, WritableFormat, format_of_path
from importer.writers.output import Destination, FileLayout, Layout, OutputFormat, OutputTensor, Placed, Scalar, Written
from importer.writers.publishing import new_file
from importer.writers.sharding import index_path, plan_layout
from importer.writers.streaming import MAX_WORKERS
from importer.writers.targets import check_target, is_through, writing_errors
from importer.writers.verbatim import verbatim_layout
from importer.writers.writing import write

__all__ = [
    "FORMATS",
    "MAX_WORKERS",
    "Destination",
    "FileLayout",
    "Layout",
    "OutputFormat",
    "OutputTensor",
    "Placed",
    "Scalar",
    "WritableFormat",
    "Written",
    "check_target",
    "format_of_path",
    "index_path",
    "is_through",
    "new_file",
    "plan_layout",
    "verbatim_layout",
    "write",
    "writing_errors",
]
