"""Settling a template: loops run, conditions decide, expressions become numbers, layers give their parameters' shapes.

Not here: reading the section (`importer.recipes.reading.template_schema`), and what a layer's parameters are (`importer.adapters`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from importer.errors import LimitError, RecipeError, UsageError, shown
from importer.limits import DEFAULT_LIMITS, Limits
from importer.recipes.applying.scopes import ConfigScope, LoopScope, evaluate_at
from importer.recipes.applying.variants import with_variants
from importer.recipes.faults import TextError, combined
from importer.recipes.language.expressions import Expression, Value
from importer.recipes.outcome import Template, TemplateLayer
from importer.recipes.recipe import ConfigName, LayerCall, Recipe, RuleRef, TemplateNode, TypeRule

if TYPE_CHECKING:
    from importer.adapters import Args, ArgValue

__all__ = ["in_tree_order", "settle_template", "settle_types"]

_PARAMETERS_OF_A_LAYER = 4
_INDEX = "index"
"""Name of the position in a `{n}` loop."""


def settle_template(recipe: Recipe, scope: ConfigScope, limits: Limits = DEFAULT_LIMITS) -> Template | None:
    """Return the recipe's target with its numbers settled, or None if it has none.

    Raises:
        RecipeError: every fault at once: unknown config fields, arguments that do not fit a layer, paths given twice.
        LimitError: it has far more layers than the source has tensors for.
    """
    if recipe.target is None:
        return None
    builder = _TemplateBuilder(recipe, limits, scope.tensor_count)
    builder.add(recipe.target, "", scope)
    if builder.faults:
        how = (
            f"They show with this checkpoint only: check that {recipe.name} is the recipe for it (`importer recipes`)."
        )
        raise combined(recipe.file, tuple(builder.faults.values()), how)
    return Template({path: builder.layers[path] for path in in_tree_order(builder.layers)})


def settle_types(recipe: Recipe, scope: ConfigScope) -> tuple[TypeRule, ...]:
    """Return the recipe's `types` with the arguments of their layers settled.

    Raises:
        RecipeError: an argument cannot be computed or does not fit the layer.
    """
    return tuple(replace(rule, args=_arguments(rule.layer, scope, partial=True)) for rule in recipe.types)


@dataclass(frozen=True, slots=True)
class _Call:
    """A layer with settled arguments: what decides its parameters."""

    kind: str
    positional: tuple[ArgValue, ...]
    named: tuple[tuple[str, ArgValue], ...]


def in_tree_order(names: Iterable[str]) -> list[str]:
    """Return dotted names as a module visits them: what lies below one path together, at the place of its first.

    Burn writes a module's data field by field, so a recipe that adds `attention.q_norm` to its parent's layers cannot
    have it after the norms that follow the attention.
    """
    places: dict[str, tuple[int, ...]] = {}
    children: dict[str, dict[str, int]] = {}
    for name in names:
        place: list[int] = []
        above = ""
        for segment in name.split("."):
            siblings = children.setdefault(above, {})
            place.append(siblings.setdefault(segment, len(siblings)))
            above = f"{above}.{segment}"
        places[name] = tuple(place)
    return sorted(places, key=places.__getitem__)


class _TemplateBuilder:
    """Walks the template and collects layers, and faults by place, so that a loop tells each one once."""

    def __init__(self, recipe: Recipe, limits: Limits, tensors: int) -> None:
        self._limits = limits
        self._tensors = tensors
        self._most_turns = limits.free_layers + limits.max_layers_per_tensor * tensors
        self.layers: dict[str, TemplateLayer] = {}
        self.faults: dict[tuple[str, str], RecipeError] = {}
        self._variants = recipe.variants
        self._turned = 0
        self._settled: dict[_Call, tuple[Args, Mapping[str, tuple[int, ...]]]] = {}

    def add(self, node: TemplateNode, prefix: str, scope: ConfigScope | LoopScope) -> None:
        """Add everything a node stands for, below `prefix`."""
        try:
            for path, inner in self._turns(node, prefix, scope):
                if node.when is not None and not evaluate_at(node.when, inner, node.rule):
                    continue
                if node.layer is not None:
                    self._add_layer(path, node.layer, inner)
                for child in node.children:
                    self.add(child, path, inner)
        except RecipeError as fault:
            self._note(fault)

    def _turns(
        self, node: TemplateNode, prefix: str, scope: ConfigScope | LoopScope
    ) -> Iterator[tuple[str, ConfigScope | LoopScope]]:
        """Yield the path and the names of every turn of a node's loops."""
        bindings = {bound.name: bound for bound in node.bindings}
        for values in self._loop_values(node.loops, scope, {}):
            inner = LoopScope(scope, values, bindings) if values or bindings else scope
            for path, index in self._paths(node.parts, inner, node.rule):
                self._count()
                joined = f"{prefix}.{path}" if prefix and path else prefix or path
                yield joined, inner if index is None else LoopScope(scope, {**values, _INDEX: index}, bindings)

    def _paths(
        self, parts: Sequence[str | Expression], scope: ConfigScope | LoopScope, rule: RuleRef
    ) -> Iterator[tuple[str, int | None]]:
        """Yield a key's paths, each with the position in the innermost `{n}` loop, if the key has one."""
        paths: list[tuple[str, int | None]] = [("", None)]
        for part in parts:
            if isinstance(part, str):
                paths = [(path + part, index) for path, index in paths]
                continue
            value = _path_value(part, scope, rule)
            if isinstance(value, int) and _counts(part, scope):
                if value * len(paths) > self._most_turns:
                    raise self._endless(value * len(paths))
                paths = [(f"{path}{number}", number) for path, _ in paths for number in range(value)]
            else:
                paths = [(f"{path}{value}", index) for path, index in paths]
        yield from paths

    def _loop_values(
        self, loops: Sequence[ConfigName], scope: ConfigScope | LoopScope, values: Mapping[str, Value]
    ) -> Iterator[Mapping[str, Value]]:
        """Yield the values of the `for` names, the first name outermost; later ranges may use earlier names."""
        if not loops:
            yield values
            return
        loop = loops[0]
        inner = LoopScope(scope, values) if values else scope
        sequence = evaluate_at(loop.expression, inner, loop.rule)
        if isinstance(sequence, str) or not isinstance(sequence, Sequence):
            what = f"`for` needs a list or a range for {loop.name!r}, it is {shown(repr(sequence))}"
            raise RecipeError(what, how=f"Write {loop.name}: range({loop.expression}).", where=loop.rule.location)
        for value in sequence:
            self._count()
            yield from self._loop_values(loops[1:], scope, {**values, loop.name: value})

    def _count(self, times: int = 1) -> None:
        """Count turns of a loop, layers of a stack, or parameters.

        Raises:
            LimitError: there were too many; numbers come from a config nobody has checked.
        """
        self._turned += times
        if self._turned > self._most_turns:
            raise self._endless(self._turned)

    def _endless(self, turns: int) -> LimitError:
        return self._limits.passed(
            "max_layers_per_tensor",
            turns // max(1, self._tensors),
            f"the target has {turns} layers and more, the source {self._tensors} tensors",
            how="Check the numbers in config.json; if they are right, raise `{limit}`.",
        )

    def _add_layer(self, path: str, call: LayerCall, scope: ConfigScope | LoopScope) -> None:
        name = with_variants(path, self._variants)
        earlier = self.layers.get(name)
        if earlier is not None:
            what = f"the path {shown(name)} is given twice, first in {earlier.rule.file}:{earlier.rule.line}"
            self._note(RecipeError(what, how="Remove one, or give each a `when`.", where=call.rule.location))
            return
        try:
            args, params = self._parameters(call, scope)
        except RecipeError as fault:
            self._note(fault)
            return
        self._count(len(params))
        self.layers[name] = TemplateLayer(call.kind, args, params, call.rule)

    def _parameters(
        self, call: LayerCall, scope: ConfigScope | LoopScope
    ) -> tuple[Args, Mapping[str, tuple[int, ...]]]:
        """Return a layer's arguments and shapes; layers alike in a loop share them."""
        from importer.adapters import LAYERS

        settled = _call(call, scope)
        if settled not in self._settled:
            args = _bound(settled, call.rule, partial=False)
            # A layer may be a stack of as many as its argument says; each has several parameters.
            self._count(math.prod(_counts_in(call.kind, args)))
            try:
                params = dict(LAYERS[call.kind].burn_params(args))
            except UsageError as error:
                raise RecipeError(error.what, how=error.how, where=call.rule.location) from error
            self._settled[settled] = (args, params)
        return self._settled[settled]

    def _note(self, fault: RecipeError) -> None:
        self.faults.setdefault((str(fault.where), fault.what), fault)


def _path_value(part: Expression, scope: ConfigScope | LoopScope, rule: RuleRef) -> int | str:
    """Return what stands for `{…}` in a path: a number, or a text such as a word from a list in `for`."""
    value = evaluate_at(part, scope, rule)
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if isinstance(value, (int, str)) and (is_number or (isinstance(value, str) and value)):
        return value
    what = f"{{{part}}} is {shown(repr(value))}, a whole number of at least 0 or a text is needed"
    raise RecipeError(what, how="Check the config fields it is made of.", where=rule.location)


def _counts(part: Expression, scope: ConfigScope | LoopScope) -> bool:
    """Whether `{n}` is a loop: a bare name that no `for` or `let` binds."""
    bound = scope.bound if isinstance(scope, LoopScope) else frozenset[str]()
    return part.names == {part.text.strip()} and part.text.strip() not in bound


def _arguments(call: LayerCall, scope: ConfigScope, *, partial: bool) -> Args:
    return _bound(_call(call, scope), call.rule, partial=partial)


def _call(call: LayerCall, scope: ConfigScope | LoopScope) -> _Call:
    try:
        return _Call(
            call.kind,
            tuple(_argument(scope.value(argument), argument) for argument in call.arguments),
            tuple((name, _argument(scope.value(value), value)) for name, value in call.keywords.items()),
        )
    except TextError as error:
        raise error.at(call.rule.location) from error


def _argument(value: Value, expression: Expression) -> ArgValue:
    """Return a value a layer can take."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Sequence):
        numbers = tuple(item for item in value if isinstance(item, int))
        if len(numbers) == len(value):
            return numbers
    what = f"{shown(str(expression))} is {shown(repr(value))}, which no layer takes"
    raise TextError(what, how="Use // for division; give sizes as whole numbers.")


def _counts_in(kind: str, args: Args) -> Iterator[int]:
    """Yield the arguments that say how many layers there are in a stack."""
    from importer.adapters import LAYERS, ArgType

    for argument in LAYERS[kind].signature:
        value = args.get(argument.name)
        if argument.type is ArgType.COUNT and isinstance(value, int):
            yield _PARAMETERS_OF_A_LAYER * value


def _bound(call: _Call, rule: RuleRef, *, partial: bool) -> Args:
    from importer.adapters import LAYERS

    try:
        return LAYERS[call.kind].bind(call.positional, dict(call.named), partial=partial)
    except UsageError as error:
        raise RecipeError(error.what, how=error.how, where=rule.location) from error
