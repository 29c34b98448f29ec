"""The Rust file for a checkpoint, a saved fresh module, or a recipe with its numbers given.

Not here: how layers become text (`rust_text`), and where the file goes (`importer.cli`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from importer.checkpoint import Tensor
from importer.conversion import PlannedConversion, open_target, plan_conversion
from importer.dtypes import DType, Kind
from importer.errors import RecipeError, UsageError, printable, shown
from importer.limits import DEFAULT_LIMITS, Limits
from importer.options import DEFAULT_OPTIONS, Options
from importer.plan import PlannedTensor, weights_below
from importer.recipes import Recipe, Remapped, SettledSetting, apply_recipe, load_recipe, named_values
from importer.recipes.language.expressions import Expression, parse_expression
from importer.rust.declaring import ModuleFacts, check_expressible, declare_template, declare_units
from importer.rust.naming import camel
from importer.rust.rust_text import rust_text
from importer.rust.rust_types import RustTarget
from importer.rust.symbols import names_used
from importer.suggest import TargetModule, read_target_modules

__all__ = ["rust_of_checkpoint", "rust_of_recipe", "rust_of_target"]

BURN_VERSION = "0.22"
"""The release of Burn whose configs the file calls."""


def rust_of_checkpoint(source: str | os.PathLike[str], options: Options = DEFAULT_OPTIONS, *, name: str = "") -> str:
    """Return a Rust file for what `importer convert` makes of a checkpoint; reads no tensor bytes.

    Args:
        source: checkpoint file or folder.
        options: as for `convert`.
        name: name of the root struct; "" for one after the recipe or the file.

    Raises:
        SourceError, RecipeError, DecisionNeededError: as `convert`.
        UnsupportedError: the names cannot be a Rust module.
    """
    planned = plan_conversion(source, options)
    recipe, file = planned.recipe, Path(os.fspath(source))
    struct = camel(name) or camel(recipe.name if recipe is not None and recipe.path else file.stem)
    about = _about(recipe, f"`importer convert {printable(file.name)}`", planned.plan.settings)
    facts = ModuleFacts(struct, planned.checkpoint.config, _elements(planned.plan.tensors), tuple(about))
    tensors = weights_below(planned.checkpoint)
    target = None if recipe is None else _from_recipe(recipe, tensors, facts, options.limits)
    return _text(target or _from_plan(planned, facts))


def rust_of_recipe(
    recipe: str, settings: Mapping[str, object], *, name: str = "", limits: Limits = DEFAULT_LIMITS
) -> str:
    """Return a Rust file for a recipe's target, its numbers given as config.json would give them.

    Args:
        recipe: a built-in recipe's name, or a file.
        settings: fields of config.json, or the recipe's own short names, with their values.
        name: name of the root struct; "" for one after the recipe.
        limits: bounds on patterns.

    Raises:
        RecipeError: the recipe has faults, or needs a number that is not given.
        UsageError: the recipe declares no target.
    """
    loaded = load_recipe(recipe)
    # A size that the recipe reads off a checkpoint can be given under the recipe's own name for it.
    given = {short: _constant(settings[short]) for short in loaded.config if short in settings}
    config = {
        short: replace(one, expression=given[short]) if short in given else one for short, one in loaded.config.items()
    }
    loaded = replace(loaded, config=config)
    told = _applied(loaded, settings, limits).settings
    about = tuple(_about(loaded, f"the recipe `{loaded.name}`", told))
    facts = ModuleFacts(camel(name or loaded.name), settings, {}, about)
    target = _from_recipe(loaded, {}, facts, limits)
    if target is None:
        raise UsageError(
            f"the recipe {shown(loaded.name)} declares no target",
            how="Give a checkpoint, or a file saved from your module with --target.",
        )
    return _text(target)


def _constant(value: object) -> Expression:
    return parse_expression(repr(value))


def _applied(recipe: Recipe, settings: Mapping[str, object], limits: Limits) -> Remapped:
    """Apply a recipe to no tensors at all.

    Raises:
        UsageError: numbers are missing; all of them are named.
    """
    try:
        return apply_recipe(recipe, {}, settings, limits=limits)
    except RecipeError as error:
        known = named_values(recipe, {}, settings, limits=limits)
        wanted = [field for short, field in names_used(recipe).items() if short not in known]
        if not wanted:
            raise
        raise UsageError(
            f"the recipe {shown(recipe.name)} needs {len(wanted)} more number{'s'[: len(wanted) != 1]}",
            how="Add " + " ".join(f"--set {field}=…" for field in wanted) + ".",
        ) from error


def rust_of_target(path: str | os.PathLike[str], *, name: str = "", limits: Limits = DEFAULT_LIMITS) -> str:
    """Return a Rust file for the module that a `.bpk` or `.safetensors` was saved from.

    Raises:
        SourceError, UsageError: as for `convert --target`.
        UnsupportedError: the names cannot be a Rust module.
    """
    skeleton = open_target(path, limits)
    shapes = {one: tensor.shape for one, tensor in skeleton.tensors.items()}
    elements = dict(_whole_numbers((one, tensor.dtype) for one, tensor in skeleton.tensors.items()))
    file = Path(os.fspath(path))
    facts = ModuleFacts(camel(name or file.stem), None, elements, tuple(_about(None, printable(file.name), ())))
    return _text(declare_units(read_target_modules(shapes), {}, facts))


def _from_recipe(
    recipe: Recipe, tensors: Mapping[str, Tensor], facts: ModuleFacts, limits: Limits
) -> RustTarget | None:
    remapped = apply_recipe(recipe, tensors, facts.config, limits=limits)
    if remapped.template is None:
        return None
    values = named_values(recipe, tensors, facts.config, limits=limits)
    return declare_template(recipe, remapped.template, values, facts)


def _from_plan(planned: PlannedConversion, facts: ModuleFacts) -> RustTarget:
    """Return the target that the output's names, shapes and layers declare."""
    steps = planned.plan.tensors
    units = read_target_modules({step.name: step.array.shape for step in steps})
    return declare_units(units, dict(_kinds(units, steps)), facts)


def _kinds(units: Iterable[TargetModule], steps: Iterable[PlannedTensor]) -> Iterator[tuple[str, str]]:
    """Yield the layer kind of every module whose plan knows it."""
    layers = {step.name: step.layer for step in steps}
    for unit in units:
        known = {layers[name] for name in unit.names()} & unit.kinds
        if len(known) == 1:
            yield unit.path, str(next(iter(known)))


def _elements(steps: Iterable[PlannedTensor]) -> dict[str, str]:
    return dict(_whole_numbers((step.name, step.array.dtype) for step in steps))


def _whole_numbers(types: Iterable[tuple[str, DType]]) -> Iterator[tuple[str, str]]:
    for name, dtype in types:
        if dtype.kind is Kind.INTEGER:
            yield name, "int"
        elif dtype.kind is Kind.BOOL:
            yield name, "bool"


def _about(recipe: Recipe | None, origin: str, settings: Iterable[SettledSetting]) -> Iterator[str]:
    """Yield the file's opening comment."""
    yield f"Module for {origin}, for Burn {BURN_VERSION}."
    if recipe is not None and recipe.about:
        yield ""
        yield printable(recipe.about)
    yield ""
    yield "Names and nesting are those of the converted file. The forward pass is yours to write: weights do not tell it."
    told = [f"- {printable(one.name)}: {printable(str(one.value))}" for one in settings]
    if told:
        yield ""
        yield "Settings that only the forward pass can honour:"
        yield from told


def _text(target: RustTarget) -> str:
    check_expressible(target)
    return rust_text(target)
