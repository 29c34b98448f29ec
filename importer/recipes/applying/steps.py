"""Carrying out the steps of `tensors`: shapes settle at once, no byte is read.

Not here: the operations themselves (`importer.arrays`), and the order of the pipeline (`importer.recipes.applying.engine`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from importer.arrays import (
    Array,
    concat,
    elementwise,
    narrow,
    rearrange,
    reshape,
    spectral_norm,
    split,
    stack,
    weight_norm,
)
from importer.errors import RecipeError, TensorError, shown
from importer.recipes.applying.scopes import ConfigScope, evaluate_at
from importer.recipes.applying.working import ChangeLog, WorkingTensor, merged
from importer.recipes.faults import TextError, as_written
from importer.recipes.language.expressions import Expression, whole_number
from importer.recipes.language.map_formulas import settle_formula
from importer.recipes.operations import (
    Concat,
    Map,
    Operation,
    Rearrange,
    Slice,
    SpectralNorm,
    Split,
    Stack,
    Unstack,
    WeightNorm,
)
from importer.recipes.recipe import Step

if TYPE_CHECKING:
    import regex

__all__ = ["StepRunner"]

_Work: TypeAlias = "Callable[[Step, WorkingTensor, regex.Match[str]], list[WorkingTensor]]"
"""What a step does with one tensor whose name matches: the tensors in its place."""
_MAX_PARTS = 100_000
"""Parts of one `unstack`."""
_MAX_DIGITS = 9
"""Digits of a position in a stack."""


class StepRunner:
    """Carries out steps, one after the other, on the whole list of tensors."""

    def __init__(self, scope: ConfigScope, record: ChangeLog, timeout: float) -> None:
        self._scope = scope
        self._record = record
        self._timeout = timeout

    def run(self, step: Step, items: Sequence[WorkingTensor]) -> list[WorkingTensor]:
        """Return the tensors after a step.

        Raises:
            RecipeError: an expression of the step cannot be computed.
        """
        if step.when is not None and not evaluate_at(step.when, self._scope, step.rule):
            self._record.used.add(step.rule)
            return list(items)
        match step.operation:
            case Rearrange() | Slice() | Map() as operation:
                return self._each(step, items, self._changer(step, operation))
            case Split() as operation:
                return self._each(step, items, self._splitter(step, operation))
            case Unstack(dim=dim):
                return self._each(step, items, partial(_unstacked, dim))
            case Stack() as operation:
                return self._stacked(step, operation, items)
            case Concat() | WeightNorm() | SpectralNorm():
                return self._joined(step, items)

    # --- one tensor in ---

    def _each(self, step: Step, items: Sequence[WorkingTensor], work: _Work) -> list[WorkingTensor]:
        """Replace every tensor whose name matches by what `work` makes of it."""
        result: list[WorkingTensor] = []
        pattern = step.match[0]
        for item in items:
            match = pattern.search(item.name, self._timeout)
            if match is None:
                result.append(item)
                continue
            self._record.used.add(step.rule)
            try:
                result += work(step, item, match)
            except (TensorError, TextError) as error:
                self._fault(step, item.name, error)
                result.append(item)
        return result

    def _changer(self, step: Step, operation: Rearrange | Slice | Map) -> _Work:
        """Return the work of an operation that gives one tensor, its expressions settled."""
        change = self._change(step, operation)

        def work(step: Step, item: WorkingTensor, match: regex.Match[str]) -> list[WorkingTensor]:
            into = step.into[0] if step.into else None
            item.touch(step.rule, None if into is None else into.expand(match), change(item.array))
            return [item]

        return work

    def _change(self, step: Step, operation: Rearrange | Slice | Map) -> Callable[[Array], Array]:
        match operation:
            case Rearrange(pattern=pattern):
                sizes = {name: self._number(step, size) for name, size in operation.sizes.items()}
                return lambda array: rearrange(array, pattern, sizes)
            case Map(formula=text):
                try:
                    formula = settle_formula(text, self._scope)
                except TextError as error:
                    raise error.at(step.rule.location) from error
                return lambda array: elementwise(array, formula)
            case Slice(dim=dim):
                start = 0 if operation.start is None else self._number(step, operation.start)
                stop = None if operation.stop is None else self._number(step, operation.stop)
                return lambda array: narrow(array, dim, start, _size(array, dim) if stop is None else stop)

    def _splitter(self, step: Step, operation: Split) -> _Work:
        listed = tuple(self._number(step, size) for size in operation.sizes)
        count = 0 if operation.count is None else self._number(step, operation.count)

        def work(step: Step, item: WorkingTensor, match: regex.Match[str]) -> list[WorkingTensor]:
            sizes = listed or _equal_parts(_size(item.array, operation.dim), count)
            if len(sizes) != len(step.into):
                raise TextError(f"{len(sizes)} parts, but {len(step.into)} names under 'into'", how="Name every part.")
            parts = split(item.array, operation.dim, sizes)
            kept = [
                item.part(step.rule, name.expand(match), part)
                for name, part in zip(step.into, parts, strict=True)
                if name is not None
            ]
            if not kept:
                self._record.skip(item, step.rule, "every part is dropped")
            return kept

        return work

    # --- several tensors in ---

    def _stacked(self, step: Step, operation: Stack, items: Sequence[WorkingTensor]) -> list[WorkingTensor]:
        groups: dict[tuple[str | None, ...], dict[int, tuple[WorkingTensor, regex.Match[str]]]] = {}
        for item in items:
            match = step.match[0].search(item.name, self._timeout)
            if match is None:
                continue
            self._record.used.add(step.rule)
            number, key = _order(match, operation.order)
            if number is None:
                what = f"${operation.order} of {shown(item.name)} is no number"
                self._record.fault(item.name, what, "stack orders by a capture such as (\\d+).", step.rule)
                continue
            groups.setdefault(key, {})[number] = (item, match)
        ready = [group for group in groups.values() if self._is_gapless(step, group)]
        return self._replaced(step, items, [[group[number] for number in sorted(group)] for group in ready])

    def _is_gapless(self, step: Step, group: dict[int, tuple[WorkingTensor, regex.Match[str]]]) -> bool:
        missing = next((number for number in range(len(group)) if number not in group), None)
        if missing is None:
            return True
        name = next(iter(group.values()))[0].name
        what = f"number {missing} is missing among the {len(group)} tensors to stack with {shown(name)}"
        self._record.fault(name, what, "The numbers must be 0, 1, 2… without gaps; is a shard missing?", step.rule)
        return False

    def _joined(self, step: Step, items: Sequence[WorkingTensor]) -> list[WorkingTensor]:
        groups: dict[tuple[str | None, ...], dict[int, tuple[WorkingTensor, regex.Match[str]]]] = {}
        for item in items:
            for position, pattern in enumerate(step.match):
                match = pattern.search(item.name, self._timeout)
                if match is not None:
                    groups.setdefault(match.groups(), {})[position] = (item, match)
                    break
        # A group without its first member is none: another operation's `weight_v` has no `weight_g`.
        groups = {key: group for key, group in groups.items() if 0 in group}
        if groups:
            self._record.used.add(step.rule)
        ready = [group for group in groups.values() if self._is_complete(step, group)]
        return self._replaced(step, items, [[group[position] for position in sorted(group)] for group in ready])

    def _is_complete(self, step: Step, group: dict[int, tuple[WorkingTensor, regex.Match[str]]]) -> bool:
        missing = next((position for position in range(len(step.match)) if position not in group), None)
        if missing is None:
            return True
        name = group[0][0].name
        what = f"{shown(name)} has no partner that matches {as_written(step.match[missing].text)}"
        self._record.fault(
            name, what, f"{step.operation.kind} needs {len(step.match)} tensors with equal captures.", step.rule
        )
        return False

    def _replaced(
        self, step: Step, items: Sequence[WorkingTensor], groups: Iterable[list[tuple[WorkingTensor, regex.Match[str]]]]
    ) -> list[WorkingTensor]:
        """Put what each group gives in the place of its first member."""
        made: dict[int, WorkingTensor] = {}
        gone: set[int] = set()
        into = step.into[0]
        assert into is not None, "the reader wants one name"
        position = {id(item): number for number, item in enumerate(items)}
        for group in groups:
            members = [item for item, _ in group]
            try:
                array = _combined(step.operation, [item.array for item in members])
                result = merged(step.rule, members, into.expand(group[0][1]), array)
            except (TensorError, TextError) as error:
                self._fault(step, members[0].name, error)
                continue
            gone |= {id(item) for item in members}
            made[position[id(members[0])]] = result
        return [made.get(i, item) for i, item in enumerate(items) if i in made or id(item) not in gone]

    # --- expressions and faults ---

    def _number(self, step: Step, expression: Expression) -> int:
        value = evaluate_at(expression, self._scope, step.rule)
        try:
            return whole_number(value, expression.text)
        except TextError as error:
            raise error.at(step.rule.location) from error

    def _fault(self, step: Step, name: str, error: TensorError | TextError | RecipeError) -> None:
        self._record.fault(name, f"{step.operation.kind} of {shown(name)}: {error.what}", error.how, step.rule)


def _unstacked(dim: int, step: Step, item: WorkingTensor, match: regex.Match[str]) -> list[WorkingTensor]:
    size = _size(item.array, dim)
    if size > _MAX_PARTS:
        raise TextError(f"{size} parts are too many", how=f"Unstack an axis of at most {_MAX_PARTS}.")
    into, shape = step.into[0], item.array.shape
    assert into is not None, "the reader wants one name"
    rest = (*shape[:dim], *shape[dim + 1 :])
    return [
        item.part(step.rule, into.expand(match, {"i": i}), reshape(narrow(item.array, dim, i, i + 1), rest))
        for i in range(size)
    ]


def _combined(operation: Operation, arrays: Sequence[Array]) -> Array:
    match operation:
        case WeightNorm():
            return weight_norm(arrays[0], arrays[1])
        case SpectralNorm(dim=dim):
            return spectral_norm(arrays[0], arrays[1], arrays[2], dim)
        case Stack(dim=dim):
            return stack(arrays, dim)
        case Concat(dim=dim):
            return concat(arrays, dim)
        case _:
            raise AssertionError(f"{operation.kind} takes one tensor")


def _order(match: regex.Match[str], order: int) -> tuple[int | None, tuple[str | None, ...]]:
    """Return the number a tensor is stacked at, and the captures it shares with its neighbours."""
    groups = match.groups()
    text = groups[order - 1] if order <= len(groups) else None
    key = (*groups[: order - 1], *groups[order:])
    return (
        int(text) if text is not None and text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else None
    ), key


def _size(array: Array, dim: int) -> int:
    if dim >= len(array.shape):
        raise TextError(f"there is no axis {dim} in {list(array.shape)}", how="Axes count from 0.")
    return array.shape[dim]


def _equal_parts(size: int, count: int) -> tuple[int, ...]:
    if count == 0 or size % count:
        raise TextError(f"{size} does not divide into {count} equal parts", how="List the sizes of the parts.")
    return (size // count,) * count
