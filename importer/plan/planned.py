"""What a plan is: every output tensor with its expression and history, and every name that does not reach the output.

Not here: how a plan is made (`importer.plan.building`), and how it is shown (`importer.report`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from importer.arrays import Array, OverflowCount
from importer.dtypes import DType
from importer.problems import Problem, Skipped
from importer.recipes import SettledSetting, TrailStep

__all__ = ["Missing", "Plan", "PlannedTensor", "Problem", "Skipped", "Unused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTensor:
    """One output tensor.

    Attributes:
        name: its name in the output.
        array: lazy expression; dtype and shape are final.
        sources: names of the source tensors it is made from, full paths in the checkpoint.
        trail: every rule, type and option that changed name, layout or dtype, in order.
        layer: Burn layer kind it belongs to, if known.
        param_id: burnpack parameter id, if any.
        overflow: once it is written, how many of its values became infinite; None where its type was not narrowed.
    """

    name: str
    array: Array
    sources: tuple[str, ...]
    trail: tuple[TrailStep, ...] = ()
    layer: str | None = None
    param_id: int | None = None
    overflow: OverflowCount | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Missing:
    """A tensor the target declares and the source does not give.

    Attributes:
        name: the target's name.
        shape: the target's shape.
        layer: Burn layer kind it belongs to, if known.
        suggestion: an unused tensor that may be meant, equal in shape where there is one.
    """

    name: str
    shape: tuple[int, ...]
    layer: str | None = None
    suggestion: str | None = None


@dataclass(frozen=True, slots=True)
class Unused:
    """A tensor nobody asked for.

    Attributes:
        name: name after the rules.
        sources: where it came from.
        dtype: element type.
        shape: shape.
        reason: why nobody wants it.
    """

    name: str
    sources: tuple[str, ...]
    dtype: DType
    shape: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A conversion, decided before any byte is read or written.

    Attributes:
        tensors: in write order.
        skipped: source tensors dropped by a rule or an option.
        missing: declared by the target, not given by the source.
        unused: given by the source, not asked for.
        errors: entries that cannot be converted.
        notes: remarks: how the root, the recipe and types were found, synthesised values, tied tensors written twice.
        idle_rules: rules of the recipe that matched nothing.
        settings: what the Rust module must be told besides the weights, by this config.
        target: what declared the expected names ("template of llama.yaml", "model.bpk"), or None if nothing did.
    """

    tensors: tuple[PlannedTensor, ...]
    skipped: tuple[Skipped, ...] = ()
    missing: tuple[Missing, ...] = ()
    unused: tuple[Unused, ...] = ()
    errors: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    unmatched_rules: tuple[str, ...] = ()
    settings: tuple[SettledSetting, ...] = ()
    target: str | None = None
