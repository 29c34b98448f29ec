"""What names mean in a recipe's expressions: the recipe's own short names, the fields of config.json, loop variables.

Not here: the expressions themselves (`importer.recipes.language.expressions`).
"""

from __future__ import annotations

from collections.abc import Mapping

from importer.errors import did_you_mean, shown
from importer.recipes.faults import TextError, as_written
from importer.recipes.language.expressions import Expression, UnknownNameError, Value, evaluate
from importer.recipes.language.patterns import parse_pattern
from importer.recipes.outcome import NamedArray
from importer.recipes.recipe import ConfigName, RuleRef

__all__ = ["ConfigScope", "LoopScope", "class_names", "evaluate_at"]


_CLASS_FIELDS = ("architectures", "_class_name", "arch", "architecture")
"""Where a config names a class: transformers, diffusers, torchvision's records, timm."""


def class_names(config: Mapping[str, object] | None) -> list[tuple[str, str]]:
    """Return the classes a config names, each with the field that does."""
    found: list[tuple[str, str]] = []
    for key in _CLASS_FIELDS:
        value = (config or {}).get(key)
        values = value if isinstance(value, (list, tuple)) else (value,)
        found += [(key, name) for name in values if isinstance(name, str) and name]
    return found


class ConfigScope:
    """The recipe's short names over the fields of config.json, and questions about the source's tensors.

    A short name is computed when it is first needed, so a name nobody uses may speak of a field that is not there. Inside
    its own expression a name means the field (`layers: layers or [2, 2, 2, 2]`).
    """

    def __init__(
        self,
        names: Mapping[str, ConfigName],
        config: Mapping[str, object] | None,
        tensors: Mapping[str, NamedArray],
        timeout: float,
    ) -> None:
        self._names = names
        self._config = config
        self._tensors = tensors
        self._timeout = timeout
        self._values: dict[str, Value] = {}
        self._expressions: dict[str, Value] = {}
        self._answers: dict[tuple[str, str], Value] = {}
        self._open: list[str] = []

    @property
    def tensor_count(self) -> int:
        """How many tensors the source has."""
        return len(self._tensors)

    def lookup(self, name: str) -> Value:
        """Return the value of a short name, or of a field."""
        if name in self._values:
            return self._values[name]
        if name in self._names and (not self._open or self._open[-1] != name):
            self._values[name] = self._computed(self._names[name])
            return self._values[name]
        return self._field(name)

    def value(self, expression: Expression) -> Value:
        """Return the value of an expression without loop variables, computed once."""
        if expression.text not in self._expressions:
            self._expressions[expression.text] = evaluate(expression, self)
        return self._expressions[expression.text]

    def ask(self, function: str, text: str) -> Value:
        """Answer `count('pattern')`, the number of source tensors whose name matches, or `shape('pattern')` of the first.

        A shape nobody has is an unknown name, so that `hidden_size or shape('…')[1]` reads on. `is_class('pattern')`:
        whether config.json names a class in which the pattern is found.
        """
        if function == "is_class":
            pattern = parse_pattern(text)
            return any(pattern.search(name, self._timeout) is not None for _, name in class_names(self._config))
        if (function, text) not in self._answers:
            pattern = parse_pattern(text)
            found = [name for name in self._tensors if pattern.search(name, self._timeout)]
            if function == "count":
                self._answers[function, text] = len(found)
            elif found:
                self._answers[function, text] = self._tensors[found[0]].array.shape
            else:
                raise UnknownNameError(
                    f"no tensor of the source matches {as_written(text)}",
                    how="Check the pattern; it sees source names.",
                )
        return self._answers[function, text]

    def _computed(self, bound: ConfigName) -> Value:
        if bound.name in self._open:
            circle = " -> ".join([*self._open[self._open.index(bound.name) :], bound.name])
            raise TextError(f"the names under config go in a circle: {circle}", how="Break the circle.")
        self._open.append(bound.name)
        try:
            return evaluate(bound.expression, self)
        except TextError as error:
            error.where = error.where or bound.rule.location
            raise
        finally:
            self._open.pop()

    def _field(self, name: str) -> Value:
        if self._config is None:
            raise UnknownNameError(
                f"the recipe needs the field {shown(name)}, and there is no config.json that could be read",
                how="Put the model's config.json (or params.json) beside the checkpoint.",
            )
        if name in self._config:
            return _as_value(self._config[name])
        known = [*self._names, *map(str, self._config)]
        how = did_you_mean(name, known, "Check that config.json belongs to this model.", most=3)
        raise UnknownNameError(f"config.json has no field {shown(name)}", how=how)


class LoopScope:
    """Names bound by one turn of a template's loops, over the scope around them.

    Attributes:
        bound: every name bound here or further out, up to the config.
    """

    def __init__(
        self,
        outer: ConfigScope | LoopScope,
        values: Mapping[str, Value],
        bindings: Mapping[str, ConfigName] | None = None,
    ) -> None:
        self._outer = outer
        self._values = dict(values)
        self._bindings = bindings or {}
        around = outer.bound if isinstance(outer, LoopScope) else frozenset()
        self.bound: frozenset[str] = around | self._values.keys() | self._bindings.keys()
        self._open: set[str] = set()

    def lookup(self, name: str) -> Value:
        """Return the value of a name bound here, or what it means further out."""
        if name in self._values:
            return self._values[name]
        if name in self._bindings and name not in self._open:
            self._open.add(name)
            try:
                self._values[name] = self.value(self._bindings[name].expression)
            except TextError as error:
                error.where = error.where or self._bindings[name].rule.location
                raise
            finally:
                self._open.discard(name)
            return self._values[name]
        return self._outer.lookup(name)

    def value(self, expression: Expression) -> Value:
        """Return the value of an expression; what has no loop variable is computed once for the whole recipe."""
        if expression.names.isdisjoint(self.bound):
            return self._outer.value(expression)
        return evaluate(expression, self)

    def ask(self, function: str, text: str) -> Value:
        """Pass the question on."""
        return self._outer.ask(function, text)


def evaluate_at(expression: Expression, scope: ConfigScope | LoopScope, rule: RuleRef) -> Value:
    """Return the value of an expression that stands at `rule`.

    Raises:
        RecipeError: it cannot be computed; with the place.
    """
    try:
        return scope.value(expression)
    except TextError as error:
        raise error.at(rule.location) from error


def _as_value(found: object) -> Value:
    """Return a JSON value as it is; anything else (YAML dates, for instance) as text."""
    if found is None or isinstance(found, (str, int, float)):
        return found
    if isinstance(found, Mapping):
        return {str(key): _as_value(inner) for key, inner in found.items()}
    if isinstance(found, (list, tuple)):
        return tuple(_as_value(inner) for inner in found)
    return str(found)
