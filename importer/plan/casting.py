"""Element types of the output: one cast for all floats, half precision as Burn has it, or what the recipe says.

Not here: the conversion of values (`importer.arrays`). Integers and booleans are touched only by a recipe's `ints`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from importer.arrays import OverflowCount, cast
from importer.dtypes import BF16, F16, F32, F64, DType, Kind
from importer.options import DTypeChoice
from importer.plan.planned import PlannedTensor, Problem
from importer.recipes import DTypePlan, RuleRef, TrailStep

__all__ = ["cast_floats", "cast_steps"]

_FP8_HOW = (
    "Convert the checkpoint its scales are in, keep the type with --dtype keep, or, if these numbers are the weights themselves, "
    "say --unscaled-fp8."
)
_FLOATS = {DTypeChoice.F32: F32, DTypeChoice.F16: F16, DTypeChoice.BF16: BF16, DTypeChoice.F64: F64}


def cast_floats(dtype: DType, choice: DTypeChoice, layer: str | None) -> DType:
    """Return the type a tensor is written in.

    Args:
        dtype: its own type; integers and booleans keep it.
        choice: what the caller asked for.
        layer: Burn module type that owns it; `half` casts F32 only, and only in kinds that say so (`LayerKind.halves`).
    """
    if choice is DTypeChoice.HALF:
        from importer.adapters import LAYERS  # a conversion that leaves layouts alone does without

        kind = LAYERS.get(layer or "")
        return F16 if dtype is F32 and kind is not None and kind.halves else dtype
    return _FLOATS.get(choice, dtype) if dtype.is_float else dtype


class CastSteps(NamedTuple):
    """Steps with their final element types, and those that have none."""

    steps: tuple[PlannedTensor, ...]
    errors: tuple[Problem, ...] = ()


def cast_steps(
    steps: Sequence[PlannedTensor], choice: DTypeChoice | None, plan: DTypePlan, *, unscaled_fp8: bool = False
) -> CastSteps:
    """Return the steps with their final element types; an option given by the caller wins over the recipe.

    8-bit floats are codes, as a rule, that mean something with a scale only. What came with one has been given back as real
    values already; the rest is cast only where `unscaled_fp8` says that these are the weights themselves.
    """
    if choice in {None, DTypeChoice.KEEP} and plan == DTypePlan():
        return CastSteps(tuple(steps))
    made, errors = [], []
    for step in steps:
        cast_one = _cast_step(step, choice, plan)
        if cast_one is not step and _is_fp8(step.array.dtype) and not unscaled_fp8:
            errors.append(Problem(step.name, f"{step.array.dtype} without a scale is not cast", _FP8_HOW, step.sources))
        else:
            made.append(cast_one)
    return CastSteps(tuple(made), tuple(errors))


def _is_fp8(dtype: DType) -> bool:
    return dtype.is_float and dtype.itemsize == 1


def _cast_step(step: PlannedTensor, choice: DTypeChoice | None, plan: DTypePlan) -> PlannedTensor:
    if choice is None:
        dtype, rule = _wanted_by_recipe(step, plan)
    else:
        dtype = cast_floats(step.array.dtype, choice, step.layer)
        rule = RuleRef(file="option", line=0, column=0, section="--dtype", text=choice.value)
    if dtype is None or dtype is step.array.dtype:
        return step
    trail = TrailStep(rule, step.name, step.name)
    overflow = OverflowCount() if dtype is not F32 or step.array.dtype.itemsize > F32.itemsize else None
    return replace(step, array=cast(step.array, dtype, overflow), trail=(*step.trail, trail), overflow=overflow)


def _wanted_by_recipe(step: PlannedTensor, plan: DTypePlan) -> tuple[DType | None, RuleRef]:
    """Return the type the recipe wants, None for the step's own, and the rule that says so."""
    rule = plan.rule or RuleRef(file="", line=0, column=0, section="dtype", text="keep")
    if step.array.dtype.kind is Kind.INTEGER:
        return plan.ints, rule
    if not step.array.dtype.is_float:
        return None, rule
    for entry in plan.rules:
        if entry.pattern.search(step.name):
            return entry.dtype, entry.rule
    return plan.default, rule
