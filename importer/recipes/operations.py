"""The operations of `tensors` with what each needs; numbers that depend on the config are still expressions.

Not here: reading them (`importer.recipes.reading.step_schema`), and carrying them out (`steps`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from importer.recipes.language.expressions import Expression

__all__ = [
    "Concat",
    "Map",
    "Operation",
    "Rearrange",
    "Slice",
    "SpectralNorm",
    "Split",
    "Stack",
    "Unstack",
    "WeightNorm",
]


@dataclass(frozen=True, slots=True)
class Rearrange:
    """Axes taken apart, reordered and joined by an einops-like pattern; `sizes` of its names, one per group may lack."""

    kind: ClassVar[str] = "rearrange"
    pattern: str
    sizes: Mapping[str, Expression]


@dataclass(frozen=True, slots=True)
class Split:
    """Cut along `dim`: into `count` equal parts, or, where that is None, into parts of these sizes."""

    kind: ClassVar[str] = "split"
    dim: int
    count: Expression | None
    sizes: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Concat:
    """Tensors joined along `dim`, in the order of the step's patterns."""

    kind: ClassVar[str] = "concat"
    dim: int


@dataclass(frozen=True, slots=True)
class Stack:
    """Tensors put on top of each other along a new axis `dim`, ordered by the number in capture `order`."""

    kind: ClassVar[str] = "stack"
    dim: int
    order: int


@dataclass(frozen=True, slots=True)
class Unstack:
    """A tensor taken apart along `dim`, which disappears."""

    kind: ClassVar[str] = "unstack"
    dim: int


@dataclass(frozen=True, slots=True)
class Slice:
    """A range of indices of one axis; None stands for the beginning or the end."""

    kind: ClassVar[str] = "slice"
    dim: int
    start: Expression | None
    stop: Expression | None


@dataclass(frozen=True, slots=True)
class WeightNorm:
    """`g` and `v` fused to `v * g / ||v||`."""

    kind: ClassVar[str] = "weight_norm"


@dataclass(frozen=True, slots=True)
class SpectralNorm:
    """Weight, `u` and `v` fused; `dim` is the axis of the outputs."""

    kind: ClassVar[str] = "spectral_norm"
    dim: int


@dataclass(frozen=True, slots=True)
class Map:
    """A formula in `x` of every element, with names of the config still in it."""

    kind: ClassVar[str] = "map"
    formula: str


Operation: TypeAlias = Rearrange | Split | Concat | Stack | Unstack | Slice | WeightNorm | SpectralNorm | Map
