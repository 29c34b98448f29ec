"""Whether a module of the checkpoint can become a module of the target: the target's layers are tried on it.

The adapters themselves do the trying, so that what fits here converts later. Not here: names (`importer.suggest.likeness`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from importer.adapters import LAYERS
from importer.arrays import Array, full
from importer.dtypes import F32
from importer.suggest.source_modules import SourceModule
from importer.suggest.target_modules import LayerCandidate, Shape, TargetModule

__all__ = ["Fitter", "is_open"]

_ShapeKey = tuple[tuple[str, Shape], ...]


def is_open(candidates: tuple[LayerCandidate, ...]) -> bool:
    """Whether the readings that fit would give different values: transposed by one, not by another."""
    kinds = {candidate.kind for candidate in candidates}
    return "Linear" in kinds and bool(kinds & {"Embedding", "Conv1D"})


@dataclass(frozen=True, slots=True)
class _Key:
    """What a fit depends on: the shapes on both sides and the layers to try."""

    source: _ShapeKey
    target: _ShapeKey
    kinds: tuple[str, ...]


class Fitter:
    """Tries layers on modules; modules of equal shapes share the answer."""

    def __init__(self) -> None:
        self._known: dict[_Key, tuple[LayerCandidate, ...]] = {}

    def candidates(self, source: SourceModule, target: TargetModule) -> tuple[LayerCandidate, ...]:
        """Return the readings of `target` under which `source` gives exactly its parameters."""
        key = _Key(_shapes(source.leaves), tuple(target.params.items()), tuple(r.kind for r in target.candidates))
        if key not in self._known:
            self._known[key] = tuple(r for r in target.candidates if _gives(source, target, r))
        return self._known[key]


def _shapes(leaves: Mapping[str, Array]) -> _ShapeKey:
    return tuple((leaf, array.shape) for leaf, array in leaves.items())


def _gives(source: SourceModule, target: TargetModule, candidate: LayerCandidate) -> bool:
    arrays = {leaf: full(0, F32, array.shape) for leaf, array in source.leaves.items()}
    outcome = LAYERS[candidate.kind].to_burn(arrays, candidate.args)
    return not outcome.faults and {piece.name: piece.array.shape for piece in outcome.params} == dict(target.params)
