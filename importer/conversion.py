"""The one place that joins the stages: open, choose the recipe, plan, write, report.

Not here: anything a stage decides. `convert` is the public Python entry; the command line only passes its options on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from importer._version import __version__
from importer.checkpoint import Checkpoint, open_checkpoint
from importer.errors import DecisionNeededError, ImporterError, Location, UnsupportedError, UsageError, shown
from importer.limits import DEFAULT_LIMITS, Limits
from importer.merging import adapter_alone, open_sources
from importer.options import (
    DEFAULT_OPTIONS,
    AdapterChoice,
    DTypeChoice,
    OptionGroup,
    Options,
    QuantizedChoice,
    changed,
    described,
)
from importer.plan import Plan, build_plan, weights_below
from importer.recipes import Choice, Near, Recipe, choose_recipe, load_recipe, objections, unwrap_root
from importer.report import ApplyResult, applied_from
from importer.writers import (
    Destination,
    OutputFormat,
    OutputTensor,
    format_of_path,
    plan_layout,
    verbatim_layout,
    write,
)

__all__ = ["PlannedConversion", "convert", "open_target", "plan_conversion"]

PathLike = str | os.PathLike[str]
Sources = PathLike | Sequence[PathLike]

_SHOWN_ROOTS = 8
_CHANGING = ("target", "merge", "prefix", "only", "root", "param_ids", "shard_size")
"""Options that change something in a copy, besides recipe, adapter and dtype."""
_BY_CLASSES = Recipe(name="no recipe", path="", file="", is_builtin=True)
"""For whole saved models: no rule but the prefixes of wrappers (DataParallel, torch.compile) that all names share."""


def convert(source: Sources, output: PathLike, options: Options | None = None, /, **changes: object) -> ApplyResult:
    """Convert a checkpoint for Burn and say what happened to every tensor.

    Args:
        source: checkpoint file, index file or folder; or a list of several, whose tensors are joined.
        output: file to write; `.bpk` or `.safetensors` decides the format.
        options: what is not to happen as by default.
        **changes: single options by name, `convert(source, output, recipe="llama", dtype="f16")`:
            {options}


    Returns:
        The report. `is_success` is false, and nothing was written, where missing, unused or errors forbid it.

    Raises:
        SourceError: the source was refused.
        RecipeError: the recipe has faults or does not fit the config.
        DecisionNeededError: no recipe was found, or a module type is needed and not known.
        UsageError: options that make no sense.
        WriteError: the output could not be written; nothing partial is left.
    """
    started = time.monotonic()
    options = changed(options or DEFAULT_OPTIONS, changes)
    output = _completed(output)
    form = format_of_path(os.fspath(output))
    planned = plan_conversion(source, options)
    destination = Destination(
        path=os.fspath(output),
        format=form,
        shard_size=options.shard_size,
        overwrite=options.overwrite,
        workers=options.workers,
        metadata=_metadata(planned),
        scalars=planned.checkpoint.scalars,
        fingerprint=_fingerprint(planned) if options.shard_size else None,
    )
    result = _unwritten(_described_sources(source), planned, destination)
    as_it_is = _changes_nothing(planned, form)
    if as_it_is and planned.checkpoint.unsupported:
        copied = tuple(f"{shown(one.name)} is copied as it is: {one.reason}" for one in planned.checkpoint.unsupported)
        result = replace(result, errors=(), notes=(*result.notes, *copied))
    if not result.is_success:
        return replace(result, seconds=time.monotonic() - started)
    tensors: Sequence[OutputTensor]
    if as_it_is:
        tensors, layout = verbatim_layout(planned.checkpoint.paths[0], destination)
    else:
        tensors = [OutputTensor(step.name, step.array, step.param_id) for step in planned.plan.tensors]
        layout = plan_layout(tensors, destination)
    result = replace(result, output_bytes=layout.nbytes)
    if options.dry_run:
        return replace(result, seconds=time.monotonic() - started)
    written = write(tensors, destination, layout)
    kept = (f"{written.kept} complete files were kept from an interrupted run",) if written.kept else ()
    return replace(
        result,
        written=True,
        files=written.paths,
        output_bytes=written.nbytes,
        notes=(*result.notes, *kept),
        overflows={
            step.name: step.overflow.count for step in planned.plan.tensors if step.overflow and step.overflow.count
        },
        seconds=time.monotonic() - started,
    )


convert.__doc__ = (convert.__doc__ or "").replace("{options}", described(*OptionGroup))


@dataclass(frozen=True, slots=True)
class PlannedConversion:
    """A conversion before its output is laid out.

    Attributes:
        checkpoint: the opened source, its root settled.
        recipe: the recipe; None for a conversion as it is.
        why: how it was found.
        options: what the plan was made with, the adapter settled.
        plan: the plan.
    """

    checkpoint: Checkpoint
    recipe: Recipe | None
    why: str
    options: Options
    plan: Plan

    @property
    def described(self) -> str | None:
        """What the report says: name and reason, or None for a conversion as it is."""
        return None if self.recipe is None else f"{self.recipe.name} ({self.why})"


def plan_conversion(source: Sources, options: Options = DEFAULT_OPTIONS) -> PlannedConversion:
    """Open, choose the recipe and plan, as `convert` does with the same options; nothing is written.

    Raises:
        ImporterError: as `convert`, but for the output.
    """
    options = replace(options, quantized=options.quantized or QuantizedChoice.DEQUANTIZE)
    checkpoint = open_sources([source] if isinstance(source, str | os.PathLike) else source, options)
    _check_not_empty(checkpoint)
    _check_no_adapter(checkpoint, options)
    chosen = _choose(options.recipe, checkpoint)
    recipe = chosen.recipe
    if options.root is None and recipe is not None:
        checkpoint = _entered(checkpoint, recipe)
    options = replace(options, adapter=_adapter(options.adapter, recipe, checkpoint))
    skeleton = None if options.target is None else open_target(options.target, options.limits)
    plan = build_plan(checkpoint, recipe, options, skeleton)
    others = _other_roots(checkpoint) if options.root is None else ()
    plan = replace(plan, notes=(*chosen.notes, *others, *plan.notes))
    return PlannedConversion(checkpoint, recipe, chosen.why, options, plan)


class _ChosenRecipe(NamedTuple):
    """The recipe of a conversion, why it is this one, and what speaks against it; none: names and layouts stay."""

    recipe: Recipe | None
    why: str = ""
    notes: tuple[str, ...] = ()


def _other_roots(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Return a remark on the places besides the root that could have been meant: an EMA beside the model, a second network."""
    inside = f"{checkpoint.root}." if checkpoint.root else None
    others = [
        root
        for root in checkpoint.root_candidates
        if root != checkpoint.root and not (inside and root.startswith(inside))
    ]
    if not others or checkpoint.modules:
        return ()
    taken = f"taken from {shown(checkpoint.root)}" if checkpoint.root else "looked for in the whole file"
    listed = ", ".join(shown(root) if root else "the top" for root in others[:_SHOWN_ROOTS])
    more = f" and {len(others) - _SHOWN_ROOTS} more" if len(others) > _SHOWN_ROOTS else ""
    return (f"the weights were {taken}; other places with tensors: {listed}{more} (--root KEY takes another)",)


def _unwritten(source: str, planned: PlannedConversion, destination: Destination) -> ApplyResult:
    """Return the report of a plan before anything is written."""
    checkpoint, plan = planned.checkpoint, planned.plan
    return ApplyResult(
        source=source,
        container=checkpoint.container,
        root=checkpoint.root,
        recipe=planned.described,
        output=destination.path,
        format=destination.format.value,
        written=False,
        applied=tuple(map(applied_from, plan.tensors)),
        notes=(*checkpoint.notes, *plan.notes),
        skipped=plan.skipped,
        missing=plan.missing,
        unused=plan.unused,
        errors=plan.errors,
        unmatched_rules=plan.unmatched_rules,
        settings=plan.settings,
        target=plan.target,
        dry_run=planned.options.dry_run,
        allow_missing=planned.options.allow_missing,
        strict=planned.options.strict,
    )


def _changes_nothing(planned: PlannedConversion, form: OutputFormat) -> bool:
    """Whether a burnpack file is copied as a whole: it keeps what only Burn tells apart, and its own metadata."""
    checkpoint, plan, asked = planned.checkpoint, planned.plan, planned.options
    unread = {one.name for one in checkpoint.unsupported}
    return (
        form is OutputFormat.BURNPACK
        and checkpoint.container == form.value
        and len(checkpoint.paths) == 1
        and not checkpoint.notes
        and planned.recipe is None
        and asked.adapter is AdapterChoice.NONE
        and asked.dtype in (None, DTypeChoice.KEEP)
        and all(getattr(asked, name) == getattr(DEFAULT_OPTIONS, name) for name in _CHANGING)
        and {one.name for one in plan.errors} <= unread
        and {step.name for step in plan.tensors} == set(checkpoint.tensors)
    )


def _check_not_empty(checkpoint: Checkpoint) -> None:
    """Check that there is something to convert, or to report.

    Raises:
        UnsupportedError: a model without weights would be written, and nobody would know why.
    """
    if checkpoint.tensors or checkpoint.arrays or checkpoint.unsupported:
        return
    raise UnsupportedError(
        "; ".join(["the source holds no tensor", *checkpoint.notes]),
        where=Location(path=checkpoint.paths[0]),
        how="Save the model's state_dict() and pass that.",
    )


def _check_no_adapter(checkpoint: Checkpoint, options: Options) -> None:
    """Check that the source is a model; a recipe of the user's own may say what becomes of an adapter.

    Raises:
        DecisionNeededError: it is an adapter without its base.
    """
    if options.recipe in ("auto", "none") and not options.merge:
        alone = adapter_alone(checkpoint, options.limits)
        if alone is not None:
            raise alone


def _described_sources(source: Sources) -> str:
    return os.fspath(source) if isinstance(source, str | os.PathLike) else " + ".join(os.fspath(one) for one in source)


def _choose(recipe: str, checkpoint: Checkpoint) -> _ChosenRecipe:
    """Return the recipe to apply.

    Raises:
        DecisionNeededError: `auto` found none, or more than one.
        SourceError: the configuration beside the weights is damaged, so that nothing would decide but the names.
    """
    if recipe == "none":
        return _ChosenRecipe(None)
    if checkpoint.config_fault is not None:
        raise checkpoint.config_fault
    weights = weights_below(checkpoint)
    if recipe != "auto":
        loaded = load_recipe(recipe)
        against = objections(loaded, _told(checkpoint), weights)
        notes = tuple(f"taken by --recipe all the same: {one}" for one in against)
        return _ChosenRecipe(
            loaded, "as asked for, against what config.json says" if against else "as asked for", notes
        )
    if checkpoint.container == OutputFormat.BURNPACK.value or _has_layout_of_burn(checkpoint):
        return _ChosenRecipe(None)
    choice = choose_recipe(_told(checkpoint), weights)
    if choice.recipe is not None:
        return _ChosenRecipe(choice.recipe, choice.why)
    if checkpoint.modules:
        return _ChosenRecipe(_BY_CLASSES, "the file names the class of every module")
    if checkpoint.config is not None:
        raise _no_recipe(checkpoint, choice)
    try:
        build_plan(checkpoint, _BY_CLASSES, Options(adapter=AdapterChoice.BURN))
    except DecisionNeededError as needed:
        raise _no_recipe(checkpoint, choice, needed.lines) from None
    if choice.nearest:
        raise _no_recipe(checkpoint, choice, ())
    return _ChosenRecipe(_BY_CLASSES, "no layout depends on what its module is")


def _told(checkpoint: Checkpoint) -> Mapping[str, object] | None:
    """Return the config; where there is none, the class of a whole saved model of transformers stands for it."""
    module = checkpoint.modules.get(checkpoint.root)
    if checkpoint.config is not None or module is None or not module.class_name.startswith("transformers.models."):
        return checkpoint.config
    return {"architectures": [module.class_name.rpartition(".")[2]]}


def _has_layout_of_burn(checkpoint: Checkpoint) -> bool:
    """Whether the modules of a source lie as Burn's do: it says so, or it is burnpack and says nothing else."""
    default = "burn" if checkpoint.container == OutputFormat.BURNPACK.value else None
    return checkpoint.metadata.get("importer.layout", default) == "burn"


def _entered(checkpoint: Checkpoint, recipe: Recipe) -> Checkpoint:
    """Return the checkpoint with the root that the recipe's `unwrap` names, if it names one that is there."""
    root = unwrap_root(recipe, checkpoint.tensors)
    return checkpoint if root is None else replace(checkpoint, root=root)


def _no_recipe(checkpoint: Checkpoint, choice: Choice, types: Sequence[str] | None = None) -> DecisionNeededError:
    """Return the error that says which recipes come near, and the recipe that would do where only types are wanted.

    `types` are the lines of that recipe's section, none where no layout depends on a type; None where it would not do.
    """
    nearest = [line for near in choice.nearest for line in _described(checkpoint, near)]
    named = choice.nearest[0].recipe if choice.nearest else "NAME"
    if types is not None:
        doubt = ", whose types are made from names and shapes and may be wrong," if types else ", which needs no types,"
        return DecisionNeededError(
            choice.why,
            where=Location(path=checkpoint.paths[0]),
            how=f"Name a recipe with --recipe {named}, copy names and layouts as they are with --recipe none, let `importer suggest` "
            f"draft a recipe for a Burn model of your own, or save this one{doubt} and pass it with --recipe FILE:",
            lines=(
                *(f"#{line.removeprefix(' ')}" for line in nearest),
                "recipe: 1",
                "name: mine",
                *(types or ("types: []",)),
            ),
        )
    return DecisionNeededError(
        choice.why,
        where=Location(path=checkpoint.paths[0]),
        how=f"Name a recipe with --recipe {named} (the decision is then yours, and the report records it) or --recipe FILE "
        "(`importer suggest` drafts one for a Burn model of your own), or copy names and layouts as they are with --recipe none."
        + (" The nearest:" if nearest else ""),
        lines=tuple(nearest),
    )


def _described(checkpoint: Checkpoint, near: Near) -> Iterator[str]:
    """Yield what is known of a recipe that comes near: why, what is known to differ, and what it would leave or lack."""
    yield f"  {near.recipe}: {near.why}"
    yield from (f"    differs: {one}" for one in near.against)
    try:
        plan = build_plan(checkpoint, load_recipe(near.recipe))
    except ImporterError:
        return
    counts = (
        ("missing", [one.name for one in plan.missing]),
        ("unused", [one.name for one in plan.unused]),
        ("in error", [one.name for one in plan.errors]),
    )
    told = [f"{len(names)} {state} (such as {shown(names[0])})" for state, names in counts if names]
    if plan.tensors or told:
        left = ", ".join(told) or "no tensor missing or unused, which does not say that it computes the same"
        yield f"    with it: {len(plan.tensors)} applied, {left}"


def _adapter(adapter: AdapterChoice, recipe: Recipe | None, checkpoint: Checkpoint) -> AdapterChoice:
    """Return the layout change; `auto` aims at Burn unless layouts are to stay, or are Burn's already.

    To transpose a file of ours a second time would be seen nowhere but in square matrices that are wrong.
    """
    if adapter is AdapterChoice.AUTO:
        stays = recipe is None or _has_layout_of_burn(checkpoint)
        return AdapterChoice.NONE if stays else AdapterChoice.BURN
    return adapter


def _completed(output: PathLike) -> PathLike:
    """Return the output with `.bpk` behind a name that has no extension, as Burn's own writer does."""
    path = Path(output)
    return output if path.suffix or not path.name else path.with_name(f"{path.name}.bpk")


def open_target(target: PathLike, limits: Limits = DEFAULT_LIMITS) -> Checkpoint:
    """Open a file saved from the fresh Burn model.

    Raises:
        SourceError: the file was refused.
        UsageError: it is neither burnpack nor safetensors.
    """
    skeleton = open_checkpoint(target, limits=limits)
    if skeleton.container not in {form.value for form in OutputFormat}:
        raise UsageError(
            f"the target is a {skeleton.container} file",
            where=Location(path=os.fspath(target)),
            how="Give a .bpk or .safetensors that your Burn program saved from the fresh model.",
        )
    return skeleton


def _metadata(planned: PlannedConversion) -> dict[str, str]:
    """Return what the output says of itself: how it was made, and in which layout its modules are.

    A loader that adapts layouts once more would transpose square matrices unseen; `importer.layout` tells it not to.
    The metadata of a source that has some is kept below ours, without the keys of the tool that wrote it.
    """
    recipe = planned.recipe
    kept = {
        key: text for key, text in planned.checkpoint.metadata.items() if key not in {"format", "producer", "version"}
    }
    layout = {AdapterChoice.BURN: "burn", AdapterChoice.TORCH: "torch"}.get(
        planned.options.adapter, kept.get("importer.layout", "source")
    )
    made = {"format": "pt" if layout == "torch" else "burn", "producer": "importer", "version": __version__}
    named = {"importer.recipe": recipe.name} if recipe is not None and recipe.path else {}
    return {**kept, **made, "importer.layout": layout, **named}


def _fingerprint(planned: PlannedConversion) -> str:
    """Return a text that two runs share only if every byte they write is the same, so that one may go on for the other.

    Names, shapes, dtypes and places are in the output's own headers; what they do not tell is which values: the source
    files as the file system knows them, the configuration, and the rules and options that compute.
    """
    checkpoint = planned.checkpoint
    files = [(os.path.realpath(path), Path(path).stat()) for path in checkpoint.paths]
    states = [(path, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns) for path, state in files]
    config = sorted((checkpoint.config or {}).items(), key=repr)
    computing = replace(planned.options, workers=None, overwrite=False, allow_missing=False, strict=False)
    return repr((__version__, states, checkpoint.root, config, planned.recipe, computing))
