"""Whole conversions of recorded families with made-up values: what went in and what came out, by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from importer.checkpoint import Tensor, open_checkpoint
from importer.conversion import convert
from tests.families.synthetic import Family, Floats, values, write_values

__all__ = ["converted", "floats", "sources"]


def converted(family: Family, folder: Path, recipe: str = "auto") -> dict[str, Floats]:
    """Return the output's tensors by name, after a conversion that left nothing over."""
    result = convert(write_values(family, folder), folder / "out.bpk", recipe=recipe)
    assert result.is_success, result.to_text()
    return {name: floats(tensor) for name, tensor in open_checkpoint(folder / "out.bpk").tensors.items()}


def floats(tensor: Tensor) -> Floats:
    return tensor.numpy().astype(np.float32, copy=False)


def sources(family: Family) -> dict[str, Floats]:
    return {row.name: values(row.tied_to or row.name, row.shape) for row in family.rows}
