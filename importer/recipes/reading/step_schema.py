"""The section `tensors`: one mapping per step, with the operation as one of its keys.

Not here: the operations' own forms (`importer.recipes.reading.operation_schema`), and carrying the steps out (`steps`).
"""

from __future__ import annotations

from importer.recipes.faults import TextError
from importer.recipes.language.patterns import Pattern
from importer.recipes.language.replacements import Replacement, check_replacement
from importer.recipes.operations import Operation, Split
from importer.recipes.reading.operation_schema import DIM, OPERATIONS, SIZES, OperationSchema
from importer.recipes.reading.schema import (
    EXPRESSION,
    PATTERN,
    REPLACEMENT,
    Field,
    Fields,
    FieldType,
    ListOf,
    ReadContext,
    RecordType,
    Schema,
)
from importer.recipes.reading.yaml_nodes import ListNode, Node, Scalar
from importer.recipes.recipe import Step

__all__ = ["STEP", "STEP_FIELDS"]

_LEAST_JOINED = 2


class _Into(FieldType["tuple[Replacement | None, ...]"]):
    """One name, or a list with one name for each part."""

    def read(self, node: Node, reading: ReadContext) -> tuple[Replacement | None, ...] | None:
        """Return the names; None in the tuple drops that part."""
        if not isinstance(node, ListNode):
            one = REPLACEMENT.read(node, reading)
            return None if one is None else (one,)
        names: list[Replacement | None] = []
        for item in node.items:
            if isinstance(item, Scalar) and item.value is None:
                names.append(None)
                continue
            name = REPLACEMENT.read(item, reading)
            if name is None:
                return None
            names.append(name)
        return tuple(names)

    def schema(self) -> Schema:
        """Return text, or a list of texts and nulls."""
        return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": ["string", "null"]}}]}

    def words(self) -> str:
        """Name both forms."""
        return "a name, or a list of names (null drops a part)"


_MATCH = Field(
    "match", ListOf(PATTERN, or_one=True), "The names it works on: one pattern, or one for each input.", required=True
)
_INTO = Field("into", _Into(), "The names of the results, with `$1` for captures.")
_WHEN = Field("when", EXPRESSION, "The step is left out where this expression over the config is false.")
_OPERATION_FIELDS = tuple(Field(form.kind, form.shape, form.about) for form in OPERATIONS)

STEP_FIELDS: tuple[Field[object], ...] = (_MATCH, *_OPERATION_FIELDS, _INTO, DIM, SIZES, _WHEN)
"""Every key of a step."""

_STEP_RECORD = RecordType("a step", STEP_FIELDS)
_BY_KIND = {form.kind: form for form in OPERATIONS}


class _StepShape(FieldType[Step]):
    """One entry of `tensors`."""

    def read(self, node: Node, reading: ReadContext) -> Step | None:
        """Return the step, if its keys go together."""
        fields = _STEP_RECORD.open(node, reading)
        if fields is None:
            return None
        kinds = [kind for kind in _BY_KIND if kind in fields.nodes]
        match, into = fields.get(_MATCH), fields.get(_INTO)
        if len(kinds) != 1:
            what = f"a step has {' and '.join(kinds)}" if kinds else "a step has no operation"
            reading.fault(node, what, f"Write exactly one of: {', '.join(_BY_KIND)}.")
            return None
        if match is None or (into is None and _INTO in fields):
            return None
        form, names = _BY_KIND[kinds[0]], into or ()
        before = len(reading.faults.found)
        _check_keys(form, match, fields)
        _check_names(form, match, names, fields)
        operation = form.build(fields) if len(reading.faults.found) == before else None
        if operation is None or not _has_a_name_for_each_part(operation, names, fields):
            return None
        rule = reading.rule("tensors", node, f"{form.kind} {match[0]}")
        return Step(operation, match, names, fields.get(_WHEN), rule)

    def schema(self) -> Schema:
        """Return the schema of a step: one operation, and `match`."""
        return {**_STEP_RECORD.schema(), "oneOf": [{"required": [kind]} for kind in _BY_KIND]}

    def words(self) -> str:
        """Name it."""
        return "a step"


def _check_keys(form: OperationSchema, match: tuple[Pattern, ...], fields: Fields) -> None:
    """Note keys the operation does not have, and a wrong number of patterns."""
    for extra in (DIM, SIZES):
        if extra in fields and extra not in form.extras:
            fields.reading.fault(fields.nodes[extra.name], f"{form.kind} has no {extra.name!r}", "Remove it.")
    node = fields.nodes["match"]
    if len(match) != form.inputs if form.inputs is not None else len(match) < _LEAST_JOINED:
        count = form.inputs if form.inputs is not None else f"at least {_LEAST_JOINED}"
        what = f"{form.kind} needs {count} patterns under 'match', there are {len(match)}"
        fields.reading.fault(node, what, "Give one pattern for each input.")
    if len({len(pattern.groups) for pattern in match}) > 1:
        what = "the patterns under 'match' have different numbers of captures"
        fields.reading.fault(node, what, "Their captures tell which tensors belong together.")


def _check_names(
    form: OperationSchema, match: tuple[Pattern, ...], into: tuple[Replacement | None, ...], fields: Fields
) -> None:
    """Note missing names, too many, and captures that the patterns lack."""
    node = fields.nodes.get("into", fields.node)
    if form.naming != "optional" and not into:
        fields.reading.fault(node, f"{form.kind} needs 'into'", "Name the results with captures: '$1.weight'.")
    if form.naming != "parts" and (len(into) > 1 or None in into):
        fields.reading.fault(node, f"{form.kind} gives one tensor", "Write one name under 'into'.")
    extra = ("i",) if form.kind == "unstack" else ()
    try:
        for name in filter(None, into):
            check_replacement(name, match, extra)
    except TextError as error:
        fields.reading.fault(node, error.what, error.how)


def _has_a_name_for_each_part(operation: Operation, into: tuple[Replacement | None, ...], fields: Fields) -> bool:
    """Note a split whose number of parts is plain to see and differs from the number of names."""
    if not isinstance(operation, Split):
        return True
    literal = str(operation.count)
    count = len(operation.sizes) or (int(literal) if literal.isascii() and literal.isdigit() else len(into))
    if count != len(into):
        what = f"split gives {count} parts, 'into' names {len(into)}"
        fields.reading.fault(fields.nodes["into"], what, "Name every part; null drops one.")
    return count == len(into)


STEP: FieldType[Step] = _StepShape()
