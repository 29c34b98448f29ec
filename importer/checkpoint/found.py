"""What one value of a source turns out to be: a dense array, or something tensor-like that is none.

Not here: names; those belong to `importer.checkpoint.contents`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from importer.arrays import Array

__all__ = ["Dense", "NotDense"]


@dataclass(slots=True)
class Dense:
    """A dense tensor.

    Attributes:
        array: the elements.
        identity: equal for two tensors that are the same view of the same storage; None where nothing tells.
        beside: tensors that belong to it, by what is added to its name: the scales of a quantized one.
    """

    array: Array
    identity: object
    beside: Mapping[str, Array] | None = None


@dataclass(frozen=True, slots=True)
class NotDense:
    """Something tensor-like without dense elements: the kind and the reason, as in `Unsupported`."""

    kind: str
    reason: str
