"""Layout changes: the entries of a recipe become output tensors, module by module, each with the type that decided.

Not here: what a layer kind does (`importer.adapters`), and where types come from (`importer.plan.grouping`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from importer.checkpoint import Checkpoint
from importer.errors import DecisionNeededError, Location
from importer.options import AdapterChoice
from importer.plan.planned import PlannedTensor, Problem, Skipped, Unused
from importer.recipes import Entry, Remapped, TrailStep, in_tree_order

if TYPE_CHECKING:
    from importer.adapters import Adapted, AdaptedParam
    from importer.plan.grouping import Grouping, ModuleGroup

__all__ = ["AdaptedSteps", "adapt"]

_SHOWN_PATHS = 5


@dataclass(slots=True)
class AdaptedSteps:
    """What came out of all modules; filled while they are taken across one by one."""

    steps: list[PlannedTensor] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    unused: list[Unused] = field(default_factory=list)
    errors: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def adapt(checkpoint: Checkpoint, remapped: Remapped, choice: AdapterChoice) -> AdaptedSteps:
    """Take every module across, in source order.

    Raises:
        DecisionNeededError: tensors whose layout depends on a type that nothing tells.
    """
    outcome = AdaptedSteps()
    if choice is AdapterChoice.NONE:
        outcome.steps += [
            PlannedTensor(name=e.name, array=e.array, sources=e.sources, trail=e.trail) for e in remapped.entries
        ]
        return outcome
    grouping = _grouping(checkpoint, remapped, choice)
    if remapped.template is not None and choice is AdapterChoice.BURN:
        # The template declares every module of the target: what lies in none of them is not asked for. On the way back
        # to torch it only tells types, and what lies outside it must not get lost.
        outcome.unused += [_unused(entry) for entry in grouping.rest]
    else:
        _require_decided(checkpoint, grouping.undecided(to_torch=choice is AdapterChoice.TORCH), remapped.entries)
        outcome.steps += [
            PlannedTensor(name=e.name, array=e.array, sources=e.sources, trail=e.trail) for e in grouping.rest
        ]
    position = {source: number for number, entry in enumerate(remapped.entries) for source in entry.sources}
    places = [position[step.sources[0]] if step.sources else len(position) for step in outcome.steps]
    for group in grouping.groups:
        params = {leaf: entry.array for leaf, entry in group.entries.items()}
        across = group.kind.to_burn if choice is AdapterChoice.BURN else group.kind.to_torch
        _collect(group, across(params, group.args), outcome)
        # One module's parameters stay together, in the order that its kind gives them: Burn's field order.
        taken = (source for entry in group.entries.values() for source in entry.sources)
        first = min((position[source] for source in taken), default=len(position))
        places += [first] * (len(outcome.steps) - len(places))
    order = sorted(range(len(places)), key=places.__getitem__)
    outcome.steps = [outcome.steps[number] for number in order]
    if choice is AdapterChoice.BURN:
        # Without a template too: two lists whose elements alternate in the source are two fields of a module.
        tree = {name: number for number, name in enumerate(in_tree_order(step.name for step in outcome.steps))}
        outcome.steps.sort(key=lambda step: tree[step.name])
    return outcome


def _grouping(checkpoint: Checkpoint, remapped: Remapped, choice: AdapterChoice) -> Grouping:
    """Return the entries by module, typed by what speaks most explicitly: template, `types`, then saved classes.

    What is left may be kernels in factors, which need no type on their way to Burn.

    The table of layers is loaded here: a conversion that leaves layouts alone does without.
    """
    from importer.plan.grouping import (
        Grouping,
        group_by_classes,
        group_by_template,
        group_by_types,
        group_normed_kernels,
    )

    if remapped.template is not None:
        return group_by_template(remapped.entries, remapped.template)
    by_types = group_by_types(remapped.entries, remapped.types)
    by_classes = group_by_classes(by_types.rest, checkpoint.modules)
    groups = (*by_types.groups, *by_classes.groups)
    if choice is not AdapterChoice.BURN:
        return Grouping(groups, by_classes.rest)
    kernels = group_normed_kernels(by_classes.rest)
    return Grouping((*groups, *kernels.groups), kernels.rest)


def _unused(entry: Entry) -> Unused:
    return Unused(entry.name, entry.sources, entry.array.dtype, entry.array.shape, "the template has no such module")


def _require_decided(checkpoint: Checkpoint, undecided: Sequence[Entry], entries: Sequence[Entry]) -> None:
    """Stop if a type is needed and not known, with the lines to add."""
    if not undecided:
        return
    from importer.adapters import module_of, suggest_types

    paths = list(dict.fromkeys(module_of(entry.name) for entry in undecided))
    listed = ", ".join(paths[:_SHOWN_PATHS]) + (
        f" and {len(paths) - _SHOWN_PATHS} more" if len(paths) > _SHOWN_PATHS else ""
    )
    noun = "path" if len(paths) == 1 else "paths"
    shapes = {entry.name: entry.array.shape for entry in undecided}
    lines = suggest_types(shapes, {entry.name: entry.array.shape for entry in entries})
    raise DecisionNeededError(
        f"the module type of {len(paths)} {noun} is not known, and the layout depends on it: {listed}",
        where=Location(path=checkpoint.paths[0]),
        how="Check these suggestions (made from names and shapes, so they may be wrong), add them to your recipe, or to a new one "
        "that begins with `recipe: 1` and `name: mine`, and pass it with --recipe FILE; or copy layouts as they are with --recipe none.",
        lines=("types:", *lines),
    )


def _collect(group: ModuleGroup, adapted: Adapted, outcome: AdaptedSteps) -> None:
    """Turn what one module gave into steps, skips, errors and notes."""
    outcome.steps += [_step(group, piece) for piece in adapted.params]
    outcome.notes += [f"{_joined(group.path, piece.name)}: {piece.note}" for piece in adapted.params if piece.note]
    for dropped in adapted.dropped:
        rule = f"{group.rule}: {dropped.reason}"
        outcome.skipped += [Skipped(source, rule) for source in group.entries[dropped.leaf].sources]
    for fault in adapted.faults:
        entry = group.entries.get(fault.name)
        name = entry.name if entry is not None else group.path
        outcome.errors.append(
            Problem(name, f"{group.rule}: {fault.message}", fault.how, entry.sources if entry else ())
        )


def _step(group: ModuleGroup, piece: AdaptedParam) -> PlannedTensor:
    """Return the output tensor for one parameter, with the histories of everything it was made from."""
    entries = [group.entries[leaf] for leaf in piece.sources]
    name = _joined(group.path, piece.name)
    trail = list(entries[0].trail) if len(entries) == 1 else _joined_trails(entries)
    if len(entries) != 1 or entries[0].name != name or entries[0].array is not piece.array:
        trail.append(TrailStep(group.rule, entries[0].name if entries else "", name))
    sources = tuple(dict.fromkeys(source for entry in entries for source in entry.sources))
    return PlannedTensor(name=name, array=piece.array, sources=sources, trail=tuple(trail), layer=piece.layer or None)


def _joined_trails(entries: Iterable[Entry]) -> list[TrailStep]:
    """Return the steps of all trails; parts of one source tensor share some."""
    return list(dict.fromkeys(step for entry in entries for step in entry.trail))


def _joined(path: str, leaf: str) -> str:
    return f"{path}.{leaf}" if path and leaf else path or leaf
