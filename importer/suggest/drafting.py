"""Drafting a whole recipe from a checkpoint and a skeleton, and trying it before it is shown.

What a draft rests on is told apart: names and shapes that leave no choice, and everything else, which is marked. The
draft is planned against the skeleton; what then lacks a source is named as undecided. Not here: the comparison
(`aligning`, `assigning`, `leftovers`) and the text (`recipe_text`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from importer.checkpoint import Checkpoint
from importer.dtypes import Kind
from importer.errors import UsageError
from importer.plan import PlanOptions, build_plan, weights_below
from importer.recipes import Entry, apply_recipe, parse_recipe
from importer.suggest.aligning import align
from importer.suggest.assigning import Pair
from importer.suggest.findings import Findings, Mark, Move
from importer.suggest.fitting import is_open
from importer.suggest.leftovers import settle_leftovers
from importer.suggest.names import has_rotary_role
from importer.suggest.recipe_text import recipe_text
from importer.suggest.skeleton import LIKE_EMBEDDING, Reading, TargetUnit, read_units, with_attention
from importer.suggest.sources import SourceUnit, gather

__all__ = ["Draft", "draft_recipe"]

_NUMBERED_NORM = re.compile(r"(^|\.)norm_?\d+$")
_NORMS = frozenset({"LayerNorm", "RmsNorm"})
_ABSOLUTE_POSITIONS = re.compile(r"wpe|pos(ition)?(al)?_?emb|position_embeddings", re.IGNORECASE)
_ROTARY_FIELDS = ("rope_theta", "rope_scaling", "rope_parameters", "rotary_dim", "rotary_pct", "partial_rotary_factor")
_ROTARY_DOUBT = "rotary order of rows?"
_NO_RULES = "recipe: 1\nname: names\nrename: []\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A drafted recipe.

    Attributes:
        text: YAML; what is not sure carries a comment that begins with `check:`.
        marks: the same, with the parameters each is about.
        undecided: parameters of the target without a source, and what the plan refuses, in words.
    """

    text: str
    marks: tuple[Mark, ...]
    undecided: tuple[str, ...]


def draft_recipe(checkpoint: Checkpoint, skeleton: Checkpoint) -> Draft:
    """Return a recipe that turns `checkpoint` into what `skeleton` names, as far as both sides determine it.

    Raises:
        UsageError: the skeleton holds no tensors.
    """
    if not skeleton.tensors:
        raise UsageError("the target holds no tensors", how="Save it from the freshly initialised Burn model.")
    entries = apply_recipe(parse_recipe(_NO_RULES), weights_below(checkpoint), None).entries
    sources = gather({entry.name: entry.array for entry in entries})
    units = read_units({name: tensor.shape for name, tensor in skeleton.tensors.items()})
    if any("in_proj_weight" in source.leaves for source in sources):
        units = with_attention(units)
    alignment = align(sources, units)
    findings = Findings(units)
    judge = _Judge(findings, sources, is_rotary=_may_be_rotary(checkpoint, entries))
    for pair in alignment.pairs:
        judge.settle(pair)
    settle_leftovers(findings, alignment.left_sources, alignment.left_targets)
    text = recipe_text(
        findings,
        name=_recipe_name(checkpoint),
        about=f"{Path(checkpoint.paths[0]).name} for {Path(skeleton.paths[0]).name}",
        names=[entry.name for entry in entries],
        dtype=_dtype(checkpoint, skeleton),
    )
    return Draft(text=text, marks=findings.marks(), undecided=_tried(text, checkpoint, skeleton))


def _tried(text: str, checkpoint: Checkpoint, skeleton: Checkpoint) -> tuple[str, ...]:
    """Plan the draft against the skeleton and return what stands in the way."""
    plan = build_plan(checkpoint, PlanOptions(recipe=parse_recipe(text), skeleton=skeleton))
    missing = (f"{entry.name} {list(entry.shape)}: no tensor fits" for entry in plan.missing)
    return (*missing, *(f"{fault.name}: {fault.message}" for fault in plan.errors))


class _Judge:
    """Turns pairs into findings: which layer it is, and what has to be checked."""

    def __init__(self, findings: Findings, sources: Sequence[SourceUnit], *, is_rotary: bool) -> None:
        self._findings = findings
        self._storage = _storage_of(sources)
        self._is_rotary = is_rotary

    def settle(self, pair: Pair) -> None:
        """Add the moves and layers of a pair, and its doubts."""
        for source, target in zip(pair.source.units, pair.target.units, strict=True):
            self._findings.moves.append(Move(source.path, target.path, is_tensor="" in source.leaves))
            readings = tuple(reading for reading in target.readings if reading.kind in pair.kinds)
            reading, doubts = self._layer(source, target, readings)
            self._findings.layers[target.path] = reading
            if pair.doubt:
                doubts.append(f"from {source.path}? {pair.doubt}")
            elif reading.kind in _NORMS and _NUMBERED_NORM.search(target.path):
                doubts.append(f"from {source.path}? norm_first renumbers norms")
            if self._is_rotary and has_rotary_role(target.path):
                doubts.append(_ROTARY_DOUBT)
            for doubt in doubts:
                self._findings.doubt(target.path, doubt)

    def _layer(
        self, source: SourceUnit, target: TargetUnit, readings: tuple[Reading, ...]
    ) -> tuple[Reading, list[str]]:
        """Return the layer, and a doubt where a square matrix could be transposed or not."""
        if not is_open(readings):
            return readings[0], _bare_square(source, readings[0])
        by_kind = {reading.kind: reading for reading in readings}
        if "Conv1D" in by_kind:
            kind = self._storage or "Linear"
            doubt = [] if self._storage == "Linear" else [f"square, taken as a {kind} of the file: transposed?"]
            return by_kind[kind], doubt
        is_embedding = any(LIKE_EMBEDDING.search(path.rpartition(".")[2]) for path in (source.path, target.path))
        kind = "Embedding" if is_embedding else "Linear"
        return by_kind[kind], [f"square, {kind} by its name: {'not ' if is_embedding else ''}transposed?"]


def _bare_square(source: SourceUnit, reading: Reading) -> list[str]:
    """Return a doubt for a bare square matrix: nothing tells which way it is used."""
    shape = next(iter(source.leaves.values())).shape
    if reading.kind == "Param" and len(shape) == 2 and shape[0] == shape[1]:  # noqa: PLR2004 - a matrix
        return ["square parameter, copied as it is: transposed or not?"]
    return []


def _storage_of(sources: Iterable[SourceUnit]) -> str:
    """Return how the file stores matrices, to judge by those that have a bias and are not square; "" for mixed or none."""
    kinds = set()
    for source in sources:
        weight, bias = source.leaves.get("weight"), source.leaves.get("bias")
        if weight is not None and bias is not None and len(weight.shape) == 2 and len(set(weight.shape)) > 1:  # noqa: PLR2004 - a matrix
            kinds.add("Linear" if bias.shape == weight.shape[:1] else "Conv1D")
    return kinds.pop() if len(kinds) == 1 else ""


def _may_be_rotary(checkpoint: Checkpoint, entries: Sequence[Entry]) -> bool:
    """Whether queries and keys may be rotated: the config says so, or nothing says how positions come in."""
    config = checkpoint.config or {}
    if any(config.get(field) for field in _ROTARY_FIELDS):
        return True
    return not any(_ABSOLUTE_POSITIONS.search(entry.name) for entry in entries)


def _dtype(checkpoint: Checkpoint, skeleton: Checkpoint) -> str:
    """Return `keep`, or the element type of the target's floats where the file has others."""
    wanted = {tensor.dtype for tensor in skeleton.tensors.values() if tensor.dtype.kind is Kind.FLOAT}
    found = {tensor.dtype for tensor in weights_below(checkpoint).values() if tensor.dtype.kind is Kind.FLOAT}
    return "keep" if found <= wanted or len(wanted) != 1 else wanted.pop().torch_names[0]


def _recipe_name(checkpoint: Checkpoint) -> str:
    stem = Path(checkpoint.paths[0]).name.partition(".")[0]
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-") or "draft"
