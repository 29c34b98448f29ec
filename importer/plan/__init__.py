"""Every output tensor with its expression and history, and every name that does not reach the output: no I/O."""

from importer.plan.building import build_plan, weights_below
from importer.plan.planned import Missing, Plan, PlannedTensor, Problem, Skipped, Unused

__all__ = [
    "Missing",
    "Plan",
    "PlannedTensor",
    "Problem",
    "Skipped",
    "Unused",
    "build_plan",
    "weights_below",
]
