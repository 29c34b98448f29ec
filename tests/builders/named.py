"""Source tensors as the recipe engine sees them: lazy arrays by name, made from shapes or from values."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from importer.arrays import Array, from_bytes, full
from importer.dtypes import F32
from importer.errors import Location


@dataclass(frozen=True)
class Named:
    """A source tensor: lazy values, and what tells one stored tensor under two names."""

    array: Array
    identity: object = None


def of_shapes(shapes: Mapping[str, Sequence[int]]) -> dict[str, Named]:
    """Tensors of zeros; enough wherever only names and shapes count."""
    return {name: Named(full(0.0, F32, tuple(shape)), name) for name, shape in shapes.items()}


def of_names(*names: str) -> dict[str, Named]:
    """Tensors of two numbers that differ from name to name."""
    return {name: Named(counting((2,), start=position * 10)) for position, name in enumerate(names)}


def counting(shape: Sequence[int], start: float = 0) -> Array:
    """An array of start, start + 1, start + 2… in C order."""
    return of_values([start + offset for offset in range(math.prod(shape))], shape)


def of_values(values: Sequence[float], shape: Sequence[int] | None = None) -> Array:
    """An array of these values in C order; a vector where no shape is given."""
    shape = (len(values),) if shape is None else shape
    return from_bytes(struct.pack(f"<{len(values)}f", *values), F32, tuple(shape), Location(path="test"))
