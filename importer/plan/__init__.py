"""Every output tensor with its expression and history, and every name that does not reach the output: no I/O."""

from importer.plan.adapting import AdapterChoice
from importer.plan.building import PlanOptions, build_plan, weights_below
from importer.plan.casting import DTypeChoice
from importer.plan.planned import Missing, Plan, PlannedTensor, Problem, Skipped, Unused

__all__ = [
    "AdapterChoice",
    "DTypeChoice",
    "Missing",
    "Plan",
    "PlanOptions",
    "PlannedTensor",
    "Problem",
    "Skipped",
    "Unused",
    "build_plan",
    "weights_below",
]
