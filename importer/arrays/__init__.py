"""Lazy array expressions: shapes and types settle at once, bytes come block by block when somebody asks.

Building reads nothing and imports no numpy. Movement (permute, reshape, narrow, concat) composes into strided views of
storages; arithmetic is a kernel evaluated per block. Not here: where the output goes (`importer.writers`).
"""

from __future__ import annotations

from importer.arrays.arithmetic import cast, dequantize, elementwise, spectral_norm, weight_norm
from importer.arrays.constructors import contiguous, from_bytes, full, strided
from importer.arrays.evaluation import (
    BLOCK_BYTES,
    Task,
    blocks,
    load_kernels,
    read_into,
    tasks,
    to_numpy,
    write_to,
)
from importer.arrays.formulas import parse_formula
from importer.arrays.kernels import OverflowCount
from importer.arrays.nodes import Array
from importer.arrays.provenance import source_files
from importer.arrays.rearranging import parse_axis_pattern, rearrange
from importer.arrays.sparse import Compressed, scatter, scatter_compressed
from importer.arrays.views import assemble, concat, narrow, permute, reshape, split, stack, transpose
from importer.arrays.workspaces import Sink, Workspace

__all__ = [
    "BLOCK_BYTES",
    "Array",
    "Compressed",
    "OverflowCount",
    "Sink",
    "Task",
    "Workspace",
    "assemble",
    "blocks",
    "cast",
    "concat",
    "contiguous",
    "dequantize",
    "elementwise",
    "from_bytes",
    "full",
    "load_kernels",
    "narrow",
    "parse_axis_pattern",
    "parse_formula",
    "permute",
    "read_into",
    "rearrange",
    "reshape",
    "scatter",
    "scatter_compressed",
    "source_files",
    "spectral_norm",
    "split",
    "stack",
    "strided",
    "tasks",
    "to_numpy",
    "transpose",
    "weight_norm",
    "write_to",
]
