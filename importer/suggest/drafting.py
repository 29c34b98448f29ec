"""Drafting a whole recipe from a checkpoint and a skeleton, and trying it before it is shown.

What a draft rests on is told apart: names and shapes that leave no choice, and everything else, which is marked. The
draft is planned against the skeleton; what then lacks a source is named as undecided. Not here: the comparison
(`aligning`, `assigning`, `fused_and_tied`), the doubts (`ambiguities`) and the text (`recipe_text`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from importer.checkpoint import Checkpoint, Tensor
from importer.dtypes import Kind
from importer.errors import RecipeError, UsageError
from importer.plan import PlannedTensor, build_plan, weights_below
from importer.recipes import Entry, apply_recipe, parse_recipe
from importer.suggest.aligning import align
from importer.suggest.ambiguities import Judge
from importer.suggest.comparison import Comparison, Mark
from importer.suggest.fused_and_tied import settle_leftovers, take_fused
from importer.suggest.recipe_text import recipe_text
from importer.suggest.source_modules import gather
from importer.suggest.target_modules import read_target_modules, with_attention

__all__ = ["Draft", "draft_recipe"]

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
    """Return a recipe that turns `checkpoint` into what `target_modules` names, as far as both sides determine it.

    Raises:
        UsageError: the skeleton holds no tensors.
    """
    if not skeleton.tensors:
        raise UsageError("the target holds no tensors", how="Save it from the freshly initialised Burn model.")
    weights = weights_below(checkpoint)
    # The engine itself says under which names rules will see the tensors (it cuts `module.` off).
    entries = apply_recipe(parse_recipe(_NO_RULES), weights, None).entries
    comparison = _compared(entries, skeleton, checkpoint.config, _twins(entries, weights))
    text = recipe_text(
        comparison,
        name=_recipe_name(checkpoint),
        about=f"{Path(checkpoint.paths[0]).name} for {Path(skeleton.paths[0]).name}",
        names=[entry.name for entry in entries],
        dtype=_dtype(checkpoint, skeleton),
    )
    return Draft(
        text=text,
        marks=comparison.marks(),
        undecided=_tried(text, _Meant(comparison, checkpoint, entries), checkpoint, skeleton),
    )


def _compared(
    entries: Sequence[Entry],
    skeleton: Checkpoint,
    config: Mapping[str, object] | None,
    twins: Mapping[str, Sequence[str]],
) -> Comparison:
    """Lay both sides side by side, the plainest correspondence first."""
    sources = gather({entry.name: entry.array for entry in entries})
    units = read_target_modules({name: tensor.shape for name, tensor in skeleton.tensors.items()})
    comparison = Comparison(units)
    judge = Judge(comparison, sources, config)
    plain = align(*take_fused(comparison, sources, units))
    # What torch holds as one fused attention is compared with what is left once plain projections are placed.
    fused = align(plain.left_sources, with_attention(plain.left_targets))
    known = {unit.path for unit in units}
    comparison.join(unit for unit in fused.paired_targets() if unit.path not in known)
    for pair in (*plain.pairs, *fused.pairs):
        judge.settle(pair)
    # An attention that stayed without partner is single projections again.
    left = read_target_modules({name: shape for unit in fused.left_targets for name, shape in unit.shapes()})
    settle_leftovers(comparison, fused.left_sources, left, twins)
    judge.settle_whole()
    return comparison


class _Meant:
    """Where each parameter of the target is meant to come from."""

    def __init__(self, comparison: Comparison, checkpoint: Checkpoint, entries: Sequence[Entry]) -> None:
        root = f"{checkpoint.root}." if checkpoint.root else ""
        self._origins = comparison.origins()
        self._names = {f"{root}{entry.sources[0]}": entry.name for entry in entries}

    def is_kept(self, step: PlannedTensor) -> bool:
        """Whether a planned tensor is made from what was found for it."""
        names = (self._names[source] for source in step.sources)
        return all(
            any(f"{name}.".startswith(f"{path}.") for path in self._origins.get(step.name, ())) for name in names
        )

    def words(self, step: PlannedTensor) -> str:
        """Say what else it is made from."""
        return f"{step.name}: made from {', '.join(step.sources)}, meant was {' or '.join(self._origins.get(step.name, ())) or 'nothing'}"


def _tried(text: str, meant: _Meant, checkpoint: Checkpoint, skeleton: Checkpoint) -> tuple[str, ...]:
    """Plan the draft against the skeleton and return what stands in the way, also where rules do not do what was found."""
    try:
        plan = build_plan(checkpoint, parse_recipe(text), skeleton=skeleton)
    except RecipeError as error:
        return tuple(f"the draft cannot be used as it is: {fault}" for fault in error.faults)
    return (
        *(f"{entry.name} {list(entry.shape)}: no tensor fits" for entry in plan.missing),
        *(f"{fault.name}: {fault.message}" for fault in plan.errors),
        *(meant.words(step) for step in plan.tensors if not meant.is_kept(step)),
    )


def _twins(entries: Sequence[Entry], weights: Mapping[str, Tensor]) -> dict[str, list[str]]:
    """Return the other names of every tensor that is stored once under several."""
    groups: dict[object, list[str]] = {}
    for entry in entries:
        identity = weights[entry.sources[0]].identity
        if identity is not None:
            groups.setdefault(identity, []).append(entry.name)
    return {name: [other for other in names if other != name] for names in groups.values() for name in names}


def _dtype(checkpoint: Checkpoint, skeleton: Checkpoint) -> str:
    """Return `keep`, or the element type of the target's floats where the file has others."""
    wanted = {tensor.dtype for tensor in skeleton.tensors.values() if tensor.dtype.kind is Kind.FLOAT}
    found = {tensor.dtype for tensor in weights_below(checkpoint).values() if tensor.dtype.kind is Kind.FLOAT}
    return "keep" if found <= wanted or len(wanted) != 1 else wanted.pop().torch_names[0]


def _recipe_name(checkpoint: Checkpoint) -> str:
    stem = Path(checkpoint.paths[0]).name.partition(".")[0]
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem).strip("-") or "draft"
