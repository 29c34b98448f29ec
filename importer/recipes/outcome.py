"""What applying a recipe gives: entries with their trails, what was left out, what went wrong, and the settled target.

Not here: the recipe itself (`importer.recipes.recipe`), and how the outcome comes about (`engine`, `template`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from importer.arrays import Array
from importer.problems import Problem, Skipped
from importer.recipes.language.expressions import Value
from importer.recipes.recipe import DTypePlan, Recipe, RuleRef, TypeRule

if TYPE_CHECKING:
    from importer.adapters import Args

__all__ = [
    "Choice",
    "Entry",
    "NamedArray",
    "Near",
    "Problem",
    "Remapped",
    "SettledSetting",
    "Skipped",
    "Template",
    "TemplateLayer",
    "TrailStep",
]


@dataclass(frozen=True, slots=True)
class TrailStep:
    """One rule that touched one tensor: its name before and after, equal where only the values' layout changed."""

    rule: RuleRef
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.before} -> {self.after}  ({self.rule})"


class NamedArray(Protocol):
    """What the engine needs of a source tensor; `importer.checkpoint.Tensor` is one."""

    @property
    def array(self) -> Array:
        """The lazy values."""

    @property
    def identity(self) -> object:
        """Equal for two names of one stored tensor, else None or unique."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor after the recipe: target name (torch-side leaf), lazy values, and how it came to be.

    Attributes:
        name: target name; the leaf is still PyTorch's (`weight`, not `gamma`) and matrices are `[out, in]`.
        array: lazy values.
        sources: checkpoint names it is made of, in order, as they stand in the file.
        trail: every rule that touched it, in order.
    """

    name: str
    array: Array
    sources: tuple[str, ...]
    trail: tuple[TrailStep, ...] = ()


@dataclass(frozen=True, slots=True)
class TemplateLayer:
    """A layer of the target with its numbers settled.

    Attributes:
        kind: a name of `importer.adapters.LAYERS`.
        args: every argument by its name in the layer's signature, defaults filled in.
        params: Burn-side leaf name -> shape as Burn holds it, in Burn's order. A bare `Param` has the leaf "".
        rule: where it stands.
    """

    kind: str
    args: Args
    params: Mapping[str, tuple[int, ...]]
    rule: RuleRef


@dataclass(frozen=True, slots=True)
class Template:
    """The whole target: module path -> layer, in the order the recipe declares."""

    layers: Mapping[str, TemplateLayer]

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return every expected parameter's full Burn name and shape, in declaration order."""
        return {
            f"{path}.{leaf}" if path and leaf else path or leaf: shape
            for path, layer in self.layers.items()
            for leaf, shape in layer.params.items()
        }


@dataclass(frozen=True, slots=True)
class SettledSetting:
    """Something the Rust module must be told: a name in words, its value by this config, and the rule that says so."""

    name: str
    value: Value
    rule: RuleRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Remapped:
    """Everything that applying a recipe says, before adapters and casts.

    Attributes:
        entries: the tensors that came through, in source order.
        skipped: source tensors that a rule left out, or that lie outside the root.
        faults: what went wrong with single tensors.
        idle_rules: the recipe's own rules that matched nothing; empty for built-in recipes, which hold the spellings of many files.
        warnings: what is probably not meant, in words.
        template: the target with its numbers settled, if the recipe has one.
        types: as in the recipe, for conversions without a template.
        dtype: as in the recipe.
        settings: what the module must be told besides the weights.
    """

    entries: tuple[Entry, ...]
    skipped: tuple[Skipped, ...] = ()
    faults: tuple[Problem, ...] = ()
    unmatched_rules: tuple[RuleRef, ...] = ()
    warnings: tuple[str, ...] = ()
    template: Template | None = None
    types: tuple[TypeRule, ...] = ()
    dtype: DTypePlan = field(default_factory=DTypePlan)
    settings: tuple[SettledSetting, ...] = ()


@dataclass(frozen=True, slots=True)
class Near:
    """A recipe that was not chosen: its name, why it comes near, and what speaks against it."""

    recipe: str
    why: str
    against: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """Which built-in recipe fits a checkpoint.

    Attributes:
        recipe: the one, or None when none or several fit.
        why: one line saying why this one, or why none.
        nearest: those that fit equally well or come nearest, best first.
    """

    recipe: Recipe | None
    why: str
    nearest: tuple[Near, ...] = ()
