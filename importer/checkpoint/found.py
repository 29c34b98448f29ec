"""What one value of a source turns out to be: a dense array, or something tensor-like that is none.

Not here: names; those belong to `importer.checkpoint.contents`.
"""

from __future__ import annotations

from dataclasses import dataclass

from importer.arrays import Array
from importer.quantized import Composite

__all__ = ["Dense", "NotDense", "Packed"]


@dataclass(slots=True)
class Dense:
    """A dense tensor.

    Attributes:
        array: the elements.
        identity: equal for two tensors that are the same view of the same storage; None where nothing tells.
    """

    array: Array
    identity: object


@dataclass(frozen=True, slots=True)
class NotDense:
    """Something tensor-like without dense elements: the kind and the reason, as in `Unsupported`."""

    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Packed:
    """A tensor made of others: its parts, and what is said of it where they are not put together."""

    composite: Composite
    instead: NotDense
