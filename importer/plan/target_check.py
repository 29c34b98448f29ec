"""What the target declares: the names, shapes and dtypes the output must have, from a skeleton file or a template.

Not here: the tensors that are to fill it (`importer.plan.building`), and reading either (`checkpoint`, `recipes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from importer.checkpoint import Checkpoint
from importer.dtypes import DType
from importer.plan.planned import Missing, PlannedTensor, Problem, Unused
from importer.recipes import Template

__all__ = ["Checked", "Expected", "Parameter", "expected_of_skeleton", "expected_of_template", "target_check"]

_SUGGESTION_FLOOR = 0.6
_SUGGESTED_AT_MOST = 200


@dataclass(frozen=True, slots=True)
class Parameter:
    """One declared parameter; dtype and id only a skeleton knows, the layer kind only a template."""

    shape: tuple[int, ...]
    dtype: DType | None = None
    param_id: int | None = None
    layer: str | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """The whole declaration, in write order, and where it comes from."""

    origin: str
    parameters: Mapping[str, Parameter]


@dataclass(frozen=True, slots=True)
class Checked:
    """Steps sorted out against a declaration."""

    steps: tuple[PlannedTensor, ...]
    missing: tuple[Missing, ...]
    unused: tuple[Unused, ...]
    errors: tuple[Problem, ...]


def expected_of_skeleton(skeleton: Checkpoint) -> Expected:
    """Return what a file saved from the freshly initialised Burn model declares."""
    parameters = {
        name: Parameter(shape=tensor.shape, dtype=tensor.dtype, param_id=skeleton.param_ids.get(name))
        for name, tensor in skeleton.tensors.items()
    }
    return Expected(origin=skeleton.paths[0], parameters=parameters)


def expected_of_template(template: Template, recipe_name: str) -> Expected:
    """Return what the template of a recipe declares."""
    parameters = {
        f"{path}.{leaf}" if path and leaf else path or leaf: Parameter(shape=shape, layer=layer.kind)
        for path, layer in template.layers.items()
        for leaf, shape in layer.params.items()
    }
    return Expected(origin=f"template of {recipe_name}", parameters=parameters)


def target_check(steps: Sequence[PlannedTensor], expected: Expected, failed: frozenset[str]) -> Checked:
    """Sort steps out: those that fit in the declared order, those nobody asked for, those that do not fit.

    Args:
        steps: candidates, names unique.
        expected: the declaration.
        failed: names that are at fault already and so are not missing as well.
    """
    by_name = {step.name: step for step in steps}
    unused = [
        Unused(step.name, step.sources, step.array.dtype, step.array.shape, f"not in {expected.origin}")
        for step in steps
        if step.name not in expected.parameters
    ]
    fitting: list[PlannedTensor] = []
    missing: list[Missing] = []
    errors: list[Problem] = []
    for name, parameter in expected.parameters.items():
        step = by_name.get(name)
        if step is None:
            if name not in failed:
                missing.append(Missing(name, parameter.shape, parameter.layer))
        elif (fault := _misfit(step, parameter, expected.origin)) is not None:
            errors.append(fault)
        else:
            fitting.append(step)
    return Checked(tuple(fitting), tuple(_with_suggestions(missing, unused)), tuple(unused), tuple(errors))


def _misfit(step: PlannedTensor, parameter: Parameter, origin: str) -> Problem | None:
    """Return what keeps the step from filling the parameter, or None."""
    shape, dtype = step.array.shape, step.array.dtype
    if shape != parameter.shape:
        how = "Check the recipe's rules for this name, and that config.json belongs to this checkpoint."
        if sorted(shape) == sorted(parameter.shape):
            how = "The sizes agree in another order: check the module's type, `stored_as` or a `rearrange` step."
        message = f"shape mismatch, expected {list(parameter.shape)} ({origin}), found {list(shape)}"
        return Problem(step.name, message, how, step.sources)
    if parameter.dtype is not None and dtype is not parameter.dtype:
        message = f"dtype mismatch, expected {parameter.dtype} ({origin}), found {dtype}"
        how = "Burn keeps the file's dtype on load: cast with --dtype, or save the target in the dtype you want."
        return Problem(step.name, message, how, step.sources)
    return None


def _with_suggestions(missing: list[Missing], unused: list[Unused]) -> list[Missing]:
    """Add a "did you mean" to each missing name: the nearest unused one, equal shapes (also transposed) first.

    Long lists get none: when hundreds of names are missing, the recipe is wrong rather than one spelling.
    """
    if not unused or len(missing) > _SUGGESTED_AT_MOST or len(unused) > _SUGGESTED_AT_MOST:
        return missing
    return [Missing(entry.name, entry.shape, entry.layer, _nearest(entry, unused)) for entry in missing]


def _nearest(entry: Missing, unused: list[Unused]) -> str | None:
    from difflib import SequenceMatcher

    alike = [other for other in unused if sorted(other.shape) == sorted(entry.shape)]
    matcher = SequenceMatcher(b=entry.name, autojunk=False)
    best, best_ratio = None, _SUGGESTION_FLOOR
    for other in alike or unused:
        matcher.set_seq1(other.name)
        ratio = matcher.ratio()
        if ratio > best_ratio:
            best, best_ratio = other.name, ratio
    return best
