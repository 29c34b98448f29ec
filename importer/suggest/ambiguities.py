"""From pairs to findings: which layer each module is, and what about it has to be checked.

Shapes and names cannot show how values are meant: square matrices, rotary order, norm order, norms stored as `w - 1`.
Wherever one of these may be at work there is a doubt. Not here: the pairs (`importer.suggest.aligning`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from importer.suggest.assigning import Pair
from importer.suggest.comparison import Comparison, Mark, Move
from importer.suggest.fitting import is_open
from importer.suggest.likeness import has_rotary_role
from importer.suggest.source_modules import SourceModule
from importer.suggest.target_modules import LIKE_EMBEDDING, LayerCandidate, TargetModule

__all__ = ["Judge"]

_MATRIX = 2
_NUMBERED_NORM = re.compile(r"(^|\.)norm_?\d+$")
_NORMS = frozenset({"LayerNorm", "RmsNorm"})
_ABSOLUTE_POSITIONS = re.compile(r"(^|[._])(wpe|pos(ition)?(al)?_?emb|embed_pos|relative_(attention|position)_bias)")
_ROTARY_FIELDS = frozenset(
    {"rope_theta", "rope_scaling", "rope_parameters", "rotary_dim", "rotary_pct", "partial_rotary_factor"}
)
_ROTARY = "rotary order of rows?"
_GEMMA_NAMES = re.compile(r"\.pre_feedforward_layernorm\.")
_OFFSET = "stored as w - 1, as Gemma does?"


class Judge:
    """Adds pairs to findings, each with its layer and its doubts."""

    def __init__(
        self, comparison: Comparison, sources: Sequence[SourceModule], config: Mapping[str, object] | None
    ) -> None:
        self._comparison = comparison
        self._storage = _storage_of(sources)
        self._positions = _tops(source.path for source in sources if _ABSOLUTE_POSITIONS.search(source.path))
        self._attentions = _tops(source.path for source in sources if has_rotary_role(source.path))
        self._fields = dict(_fields(config or {}))
        self._has_config = config is not None
        self._is_gemma = "gemma" in str(self._fields.get("model_type", "")) or any(
            _GEMMA_NAMES.search(f".{source.path}.") for source in sources
        )

    def settle(self, pair: Pair) -> None:
        """Add the moves and layers of a pair, and its doubts."""
        for source, target in zip(pair.source.units, pair.target.units, strict=True):
            self._comparison.moves.append(Move(source.path, target.path, is_tensor="" in source.leaves))
            candidates = tuple(candidate for candidate in target.candidates if candidate.kind in pair.kinds)
            candidate, doubts = self._layer(source, target, candidates)
            self._comparison.layers[target.path] = candidate
            for doubt in (*doubts, *self._origin(pair, source, target, candidate)):
                self._comparison.doubt(target.path, doubt)

    def settle_whole(self) -> None:
        """Add the doubts about parts of fused matrices, and about the file as a whole."""
        for split in self._comparison.splits:
            for path in split.targets:
                if has_rotary_role(path) and self._may_rotate(split.source):
                    self._comparison.doubt(path, _ROTARY)
        norms = [
            name
            for unit in self._comparison.units
            for name in unit.names()
            if self._comparison.layers.get(unit.path, unit.candidates[0]).kind == "RmsNorm"
        ]
        if norms and not self._has_config and not self._is_gemma:
            self._comparison.remarks.append(Mark(f"without a config.json: are RmsNorm weights {_OFFSET}", tuple(norms)))

    def _layer(
        self, source: SourceModule, target: TargetModule, candidates: tuple[LayerCandidate, ...]
    ) -> tuple[LayerCandidate, list[str]]:
        """Return the layer, and a doubt where a square matrix could be transposed or not."""
        if not is_open(candidates):
            shape = next(iter(source.leaves.values())).shape
            is_bare_square = candidates[0].kind == "Param" and len(shape) == _MATRIX and len(set(shape)) == 1
            return candidates[0], ["square, copied as it is: transposed?"] if is_bare_square else []
        by_kind = {candidate.kind: candidate for candidate in candidates}
        if "Conv1D" in by_kind:
            kind = self._storage or "Linear"
            doubts = [] if self._storage == "Linear" else [f"square, taken as a {kind} of the file: transposed?"]
            return by_kind[kind], doubts
        is_embedding = any(LIKE_EMBEDDING.search(path.rpartition(".")[2]) for path in (source.path, target.path))
        kind = "Embedding" if is_embedding else "Linear"
        return by_kind[kind], [f"square, {kind} by its name: {'not ' if is_embedding else ''}transposed?"]

    def _origin(
        self, pair: Pair, source: SourceModule, target: TargetModule, candidate: LayerCandidate
    ) -> Iterator[str]:
        """Yield what is doubtful about where a module comes from and how its values are meant."""
        if pair.doubt:
            yield f"from {source.path}? {pair.doubt}"
        elif candidate.kind in _NORMS and _NUMBERED_NORM.search(target.path):
            yield f"from {source.path}? norm_first renumbers norms"
        if (has_rotary_role(source.path) or has_rotary_role(target.path)) and self._may_rotate(source.path):
            yield _ROTARY
        if candidate.kind == "RmsNorm" and self._is_gemma:
            yield _OFFSET

    def _may_rotate(self, path: str) -> bool:
        """Whether queries and keys here may be rotated: the config says so, or nothing says how positions come in."""
        if any(self._fields.get(field) for field in _ROTARY_FIELDS):
            return True
        top = path.partition(".")[0]
        # Position embeddings of another tower, which has attention of its own, say nothing about this one.
        return not any(position == top or position not in self._attentions for position in self._positions)


def _tops(paths: Iterable[str]) -> frozenset[str]:
    return frozenset(path.partition(".")[0] for path in paths)


def _fields(config: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield every field of a config and of the configs nested in it; outer ones last, so that they win."""
    for value in config.values():
        if isinstance(value, Mapping):
            yield from _fields(value)
    yield from config.items()


def _storage_of(sources: Iterable[SourceModule]) -> str:
    """Return the layer whose storage the file has, to judge by oblong matrices with a bias; "" for both or none."""
    kinds = set()
    for source in sources:
        weight, bias = source.leaves.get("weight"), source.leaves.get("bias")
        if weight is not None and bias is not None and len(weight.shape) == _MATRIX and len(set(weight.shape)) > 1:
            kinds.add("Linear" if bias.shape == weight.shape[:1] else "Conv1D")
    return kinds.pop() if len(kinds) == 1 else ""
