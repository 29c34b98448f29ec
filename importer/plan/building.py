"""From an opened checkpoint and a recipe to a plan: the order of the stages, and where each verdict comes from.

    select the root ─► recipe ─► types and adapters ─► casts ─► check against the target ─► order and ids

Not here: the stages themselves - names (`importer.recipes`), layouts (`importer.adapters`, `plan.adapting`), element types
(`plan.casting`), declarations (`plan.expected`). No byte of any tensor is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from importer.checkpoint import Checkpoint, Tensor
from importer.errors import UsageError
from importer.options import DEFAULT_OPTIONS, AdapterChoice, Options, ParamIdChoice
from importer.plan.adapting import adapt
from importer.plan.casting import cast_steps
from importer.plan.ids import stable_ids
from importer.plan.packed import packed_faults, set_aside, unpacked_note, with_stored_sources, withheld_names
from importer.plan.planned import Missing, Plan, PlannedTensor, Problem, Skipped
from importer.plan.target_check import Expected, expected_of_skeleton, expected_of_template, target_check
from importer.recipes import Entry, Pattern, Recipe, Remapped, RuleRef, apply_recipe, parse_pattern
from importer.recipes.faults import TextError

__all__ = ["build_plan", "weights_below"]

_TIED_NOTES = 5


def weights_below(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Return the tensors and numpy arrays below the checkpoint's root, by their names relative to it.

    What quantised weights are stored in is not among them: it would pass for weights.
    """
    everything = {**checkpoint.tensors, **checkpoint.arrays}
    if checkpoint.quantization is not None:
        withheld = withheld_names(checkpoint.quantization)
        everything = {name: tensor for name, tensor in everything.items() if name not in withheld}
    if not checkpoint.root:
        return everything
    prefix = f"{checkpoint.root}."
    return {name[len(prefix) :]: tensor for name, tensor in everything.items() if name.startswith(prefix)}


def build_plan(
    checkpoint: Checkpoint,
    recipe: Recipe | None = None,
    options: Options = DEFAULT_OPTIONS,
    skeleton: Checkpoint | None = None,
) -> Plan:
    """Decide the whole conversion.

    Args:
        checkpoint: the opened source, its root settled.
        recipe: the recipe to apply, or None to keep names as they are.
        options: of these, `adapter` (`auto` aims at Burn), `dtype`, `param_ids` and `only` count.
        skeleton: a file saved from the fresh Burn model; the output then holds what it names and nothing else.

    Raises:
        DecisionNeededError: a type is needed and not known; carries the `types:` lines to add.
        RecipeError: the recipe does not fit the config.
        UsageError: the rules or `only` leave nothing.
    """
    only = tuple(map(_only, options.only))
    adapter = AdapterChoice.BURN if options.adapter is AdapterChoice.AUTO else options.adapter
    weights = weights_below(checkpoint)
    remapped = _remap(checkpoint, weights, recipe)
    adapted = adapt(checkpoint, remapped, adapter)
    cast = cast_steps(adapted.steps, options.dtype, remapped.dtype, unscaled_fp8=options.unscaled_fp8)
    steps: tuple[PlannedTensor, ...] = cast.steps
    unreadable = _unreadable(checkpoint, recipe)
    errors = [*remapped.faults, *unreadable.errors, *packed_faults(checkpoint), *adapted.errors, *cast.errors]
    steps, collisions = _without_collisions(steps)
    errors += collisions
    steps, filtered = _filtered(steps, only)
    if filtered and not steps:
        raise UsageError("no output name matches the pattern of `only`", how="A dry run without it lists the names.")
    unused = list(adapted.unused)
    expected = _expected(remapped, recipe, adapter, skeleton)
    missing: tuple[Missing, ...] = ()
    if expected is not None:
        expected = _filtered_expected(expected, only)
        checked = target_check(steps, expected, frozenset(error.name for error in errors))
        steps, missing = checked.steps, checked.missing
        unused += checked.unused
        errors += checked.errors
    if not (steps or missing or unused or errors):
        raise UsageError("the recipe leaves out every tensor", how="Check its `keep` and `drop` patterns.")
    return Plan(
        tensors=with_stored_sources(
            checkpoint, _with_ids(checkpoint, steps, expected, stable=options.param_ids is ParamIdChoice.STABLE)
        ),
        skipped=(
            *_outside(checkpoint),
            *_skipped(checkpoint, remapped),
            *unreadable.skipped,
            *set_aside(checkpoint),
            *adapted.skipped,
            *filtered,
        ),
        missing=missing,
        unused=tuple(unused),
        errors=tuple(errors),
        notes=(*unpacked_note(checkpoint), *remapped.warnings, *adapted.notes, *_tied(checkpoint, steps)),
        unmatched_rules=tuple(str(rule) for rule in remapped.unmatched_rules if str(rule) not in unreadable.rules),
        settings=remapped.settings,
        target=None if expected is None else expected.origin,
    )


def _remap(checkpoint: Checkpoint, weights: Mapping[str, Tensor], recipe: Recipe | None) -> Remapped:
    """Apply the recipe, or keep every name, and give sources the full names they have in the file."""
    if recipe is None:
        remapped = Remapped(entries=tuple(Entry(name, t.array, (name,)) for name, t in weights.items()))
    else:
        remapped = apply_recipe(recipe, weights, checkpoint.config)
    if not checkpoint.root:
        return remapped
    return replace(
        remapped,
        entries=tuple(replace(entry, sources=_from_top(checkpoint, entry.sources)) for entry in remapped.entries),
        faults=tuple(replace(fault, sources=_from_top(checkpoint, fault.sources)) for fault in remapped.faults),
    )


def _from_top(checkpoint: Checkpoint, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{checkpoint.root}.{name}" for name in names)


def _left_out_by(recipe: Recipe, name: str) -> RuleRef | None:
    """Return the rule of `drop` or `keep` that leaves a source name out."""
    dropped = next((drop.rule for drop in recipe.drop if drop.pattern.search(name)), None)
    if dropped is None and recipe.keep and not any(keep.pattern.search(name) for keep in recipe.keep):
        return recipe.keep[0].rule
    return dropped


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """What becomes of entries below the root that are no dense tensors: dropped by a rule of the recipe, or at fault."""

    skipped: tuple[Skipped, ...]
    errors: tuple[Problem, ...]

    @property
    def rules(self) -> frozenset[str]:
        """Return the rules that dropped something."""
        return frozenset(entry.rule for entry in self.skipped)


def _unreadable(checkpoint: Checkpoint, recipe: Recipe | None) -> _Unreadable:
    prefix = f"{checkpoint.root}." if checkpoint.root else ""
    skipped, errors = [], []
    for entry in checkpoint.unsupported:
        if not entry.name.startswith(prefix):
            continue
        rule = None if recipe is None else _left_out_by(recipe, entry.name[len(prefix) :])
        if rule is not None:
            skipped.append(Skipped(entry.name, str(rule)))
        else:
            how = "Drop it in the recipe, or save the checkpoint with dense values."
            errors.append(Problem(entry.name, f"{entry.kind} tensor: {entry.reason}", how, (entry.name,)))
    return _Unreadable(tuple(skipped), tuple(errors))


def _without_collisions(steps: Sequence[PlannedTensor]) -> tuple[tuple[PlannedTensor, ...], list[Problem]]:
    """Keep steps with unique names; two modules that give one name are an error, whichever came first."""
    by_name: dict[str, PlannedTensor] = {}
    faults: dict[str, Problem] = {}
    for step in steps:
        other = by_name.setdefault(step.name, step)
        if other is not step:
            message = f"made twice: from {', '.join(other.sources)} and from {', '.join(step.sources)}"
            how = "Rename or drop one of them in the recipe."
            faults[step.name] = Problem(step.name, message, how, (*other.sources, *step.sources))
    return tuple(step for step in by_name.values() if step.name not in faults), list(faults.values())


def _filtered(
    steps: Sequence[PlannedTensor], only: Sequence[Pattern]
) -> tuple[tuple[PlannedTensor, ...], list[Skipped]]:
    """Keep the steps that one of the patterns matches; no pattern keeps all."""
    if not only:
        return tuple(steps), []
    kept = tuple(step for step in steps if any(one.search(step.name) for one in only))
    said = " ".join(f"--only '{one.text}'" for one in only)
    names = {step.name for step in kept}
    dropped = [Skipped(source, f"option {said}") for step in steps if step.name not in names for source in step.sources]
    return kept, dropped


def _only(text: str) -> Pattern:
    try:
        return parse_pattern(text)
    except TextError as error:
        raise UsageError(f"the pattern of `only` is wrong: {error.what}", how=error.how) from error


def _expected(
    remapped: Remapped, recipe: Recipe | None, adapter: AdapterChoice, skeleton: Checkpoint | None
) -> Expected | None:
    """Return what the output must hold: the skeleton if there is one, else the template if the adapter aims at it."""
    if skeleton is not None:
        return expected_of_skeleton(skeleton)
    if remapped.template is not None and recipe is not None and adapter is AdapterChoice.BURN:
        return expected_of_template(remapped.template, recipe.name)
    return None


def _filtered_expected(expected: Expected, only: Sequence[Pattern]) -> Expected:
    if not only:
        return expected
    wanted = {
        name: parameter for name, parameter in expected.parameters.items() if any(one.search(name) for one in only)
    }
    return replace(expected, parameters=wanted)


def _outside(checkpoint: Checkpoint) -> Iterator[Skipped]:
    """Yield what lies outside the root: optimizer state, copies of the weights, everything else."""
    if checkpoint.root:
        prefix = f"{checkpoint.root}."
        for name in (*checkpoint.tensors, *checkpoint.arrays, *(entry.name for entry in checkpoint.unsupported)):
            if not name.startswith(prefix):
                yield Skipped(name, f"outside the root '{checkpoint.root}'")


def _skipped(checkpoint: Checkpoint, remapped: Remapped) -> Iterator[Skipped]:
    prefix = f"{checkpoint.root}." if checkpoint.root else ""
    for entry in remapped.skipped:
        yield replace(entry, name=f"{prefix}{entry.name}")


def _tied(checkpoint: Checkpoint, steps: Iterable[PlannedTensor]) -> Iterator[str]:
    """Say which tensors of the output are one and the same in the source; both formats hold each of them in full."""
    made_from: dict[object, list[str]] = {}
    for step in steps:
        tensor = checkpoint.tensors.get(step.sources[0]) if len(step.sources) == 1 else None
        if tensor is not None and prod(tensor.shape) == prod(step.array.shape):
            made_from.setdefault(tensor.identity or tensor.name, []).append(step.name)
    tied = [names for names in made_from.values() if len(names) > 1]
    for names in tied[:_TIED_NOTES]:
        yield f"one tensor in the source, written {len(names)} times: {', '.join(names)}"
    if len(tied) > _TIED_NOTES:
        yield f"{len(tied) - _TIED_NOTES} more groups of tied tensors are written in full"


def _with_ids(
    checkpoint: Checkpoint, steps: Sequence[PlannedTensor], expected: Expected | None, *, stable: bool
) -> tuple[PlannedTensor, ...]:
    """Give parameters the ids of the skeleton, else those they have in the source, else stable ones if asked for."""
    ids = stable_ids(step.name for step in steps) if stable else {}
    for step in steps:
        if len(step.sources) == 1 and step.sources[0] in checkpoint.param_ids:
            ids[step.name] = checkpoint.param_ids[step.sources[0]]
        declared = expected.parameters.get(step.name) if expected is not None else None
        if declared is not None and declared.param_id is not None:
            ids[step.name] = declared.param_id
    return tuple(replace(step, param_id=ids[step.name]) if step.name in ids else step for step in steps)
