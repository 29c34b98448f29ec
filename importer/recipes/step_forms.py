"""The section `tensors`: one mapping per step, with the operation as one of its keys.

Not here: carrying the steps out (`importer.recipes.steps`).
"""

from __future__ import annotations

from dataclasses import dataclass

from importer.arrays import parse_pattern as parse_rearrangement
from importer.errors import TensorError, shown
from importer.recipes.expressions import Expression
from importer.recipes.faults import TextError
from importer.recipes.formulas import check_formula
from importer.recipes.model import Step, StepKind
from importer.recipes.nodes import ListNode, Node, Scalar
from importer.recipes.patterns import Pattern
from importer.recipes.replacements import Replacement, check_replacement
from importer.recipes.shapes import (
    EXPRESSION,
    PATTERN,
    REPLACEMENT,
    WHOLE_NUMBER,
    Field,
    Fields,
    ListOf,
    MapOf,
    Parsed,
    Reading,
    Record,
    Schema,
    Shape,
)

__all__ = ["OPERATIONS", "STEP", "STEP_FIELDS", "Operation"]


@dataclass(frozen=True, slots=True)
class Operation:
    """What an operation takes besides its own key.

    Attributes:
        kind: the key.
        shape: of the key's value.
        about: for the reference.
        least: patterns under `match`, at least.
        most: patterns under `match`, at most; 0 for any number.
        into: `no`: may be left out, the name stays; `one`: one name is needed; `parts`: a list, one name per part.
        extras: further keys it may have.
    """

    kind: StepKind
    shape: Shape[object]
    about: str
    least: int = 1
    most: int = 1
    into: str = "no"
    extras: frozenset[str] = frozenset()


class _Into(Shape["tuple[Replacement | None, ...]"]):
    """One name, or a list with one name for each part."""

    def read(self, node: Node, reading: Reading) -> tuple[Replacement | None, ...] | None:
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


class _Parts(Shape["tuple[Expression | None, tuple[Expression, ...]]"]):
    """A number of equal parts, or a list of sizes."""

    def read(self, node: Node, reading: Reading) -> tuple[Expression | None, tuple[Expression, ...]] | None:
        """Return the number or the sizes."""
        if isinstance(node, ListNode):
            sizes = ListOf(EXPRESSION).read(node, reading) or ()
            return None if len(sizes) != len(node.items) else (None, sizes)
        number = EXPRESSION.read(node, reading)
        return None if number is None else (number, ())

    def schema(self) -> Schema:
        """Return either form."""
        return {"anyOf": [EXPRESSION.schema(), {"type": "array", "items": EXPRESSION.schema()}]}

    def words(self) -> str:
        """Name both forms."""
        return "a number of equal parts, or a list of sizes"


def _parse_capture(text: str) -> int:
    digit = text.removeprefix("$")
    if text.startswith("$") and digit in tuple("123456789"):
        return int(digit)
    raise TextError(f"{shown(text)} is no capture", how="Write the capture that numbers the tensors: $2.")


def _parse_pattern_text(text: str) -> str:
    try:
        parse_rearrangement(text)
    except TensorError as error:
        raise TextError(error.what, how=error.how) from error
    return text


class _True(Shape[bool]):
    """The word true, for an operation that needs nothing else."""

    def read(self, node: Node, reading: Reading) -> bool | None:
        """Return True."""
        if isinstance(node, Scalar) and node.value is True:
            return True
        self.misfit(node, reading)
        return None

    def schema(self) -> Schema:
        """Return the constant."""
        return {"const": True}

    def words(self) -> str:
        """Return the word."""
        return "true"


_SLICE_DIM = Field("dim", WHOLE_NUMBER, "The axis; 0 where not given.")
_SLICE_FROM = Field("from", EXPRESSION, "The first index kept; the beginning where not given.")
_SLICE_TO = Field("to", EXPRESSION, "The index behind the last one kept; the end where not given.")
_SLICE = Record("slice", (_SLICE_DIM, _SLICE_FROM, _SLICE_TO))
_SPECTRAL_DIM = Field("dim", WHOLE_NUMBER, "The axis of the outputs: 0, or 1 for transposed convolutions.")
_SPECTRAL = Record("spectral_norm", (_SPECTRAL_DIM,))
_NOTHING = Record("weight_norm", ())


class _Options(Shape[Fields]):
    """A small mapping that belongs to an operation."""

    def __init__(self, record: Record) -> None:
        self.record = record

    def read(self, node: Node, reading: Reading) -> Fields | None:
        """Return the mapping, its keys checked."""
        return self.record.open(node, reading)

    def schema(self) -> Schema:
        """Return the mapping's schema."""
        return self.record.schema()

    def words(self) -> str:
        """List the keys."""
        names = ", ".join(one.name for one in self.record.fields)
        return f"a mapping with {names}" if names else "an empty mapping {}"


_REARRANGE = Parsed("a pattern such as 'a b -> b a'", _parse_pattern_text)
_PARTS = _Parts()
_CAPTURE = Parsed("a capture such as $2", _parse_capture)
_TRUE = _True()
_FORMULA = Parsed("a formula in x", check_formula)

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "rearrange",
        _REARRANGE,
        "Take axes apart, reorder and join them: `'(h two r) ... -> (h r two) ...'`. One unknown size per group is "
        "inferred; `1` and `()` drop or add axes of size 1; `...` stands for the remaining axes.",
        extras=frozenset(("into", "sizes")),
    ),
    Operation(
        "split",
        _PARTS,
        "Cut into equal parts, or parts of the sizes listed. `into` names each part; `null` there drops it.",
        into="parts",
        extras=frozenset(("into", "dim")),
    ),
    Operation(
        "concat",
        WHOLE_NUMBER,
        "Join tensors along this axis, in the order of the patterns under `match`, whose captures must agree.",
        least=2,
        most=0,
        into="one",
        extras=frozenset(("into",)),
    ),
    Operation(
        "stack",
        _CAPTURE,
        "Put the tensors that differ in this capture on top of each other along a new axis; the numbers must be 0, 1, 2…",
        into="one",
        extras=frozenset(("into", "dim")),
    ),
    Operation(
        "unstack",
        _TRUE,
        "Take a tensor apart along `dim`, which disappears; `{i}` in `into` is the position.",
        into="one",
        extras=frozenset(("into", "dim")),
    ),
    Operation("slice", _Options(_SLICE), "Keep a range of indices of one axis.", extras=frozenset(("into",))),
    Operation(
        "weight_norm",
        _Options(_NOTHING),
        "Fuse `g` and `v` (two patterns under `match`) to `v * g / ||v||`, the norm taken over the axes where g has size 1.",
        least=2,
        most=2,
        into="one",
        extras=frozenset(("into",)),
    ),
    Operation(
        "spectral_norm",
        _Options(_SPECTRAL),
        "Fuse weight, `u` and `v` (three patterns under `match`) to `weight / (u . W v)`.",
        least=3,
        most=3,
        into="one",
        extras=frozenset(("into",)),
    ),
    Operation(
        "map", _FORMULA, "Compute a formula in `x` of every element: `1 + x`, `-exp(x)`.", extras=frozenset(("into",))
    ),
)
"""Every operation of `tensors`."""

_MATCH = Field(
    "match", ListOf(PATTERN, or_one=True), "The names it works on: one pattern, or one for each input.", required=True
)
_INTO = Field("into", _Into(), "The names of the results, with `$1` for captures.")
_DIM = Field("dim", WHOLE_NUMBER, "The axis; 0 where not given.")
_SIZES = Field("sizes", MapOf(EXPRESSION), "Sizes of names in the pattern, as expressions over the config.")
_WHEN = Field("when", EXPRESSION, "The step is left out where this expression over the config is false.")
_OPERATION_FIELDS = tuple(Field(operation.kind, operation.shape, operation.about) for operation in OPERATIONS)

STEP_FIELDS: tuple[Field[object], ...] = (_MATCH, *_OPERATION_FIELDS, _INTO, _DIM, _SIZES, _WHEN)
"""Every key of a step."""

_STEP_RECORD = Record("a step", STEP_FIELDS)
_BY_KIND = {operation.kind: operation for operation in OPERATIONS}


class _StepShape(Shape[Step]):
    """One entry of `tensors`."""

    def read(self, node: Node, reading: Reading) -> Step | None:
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
        operation = _BY_KIND[kinds[0]]
        if not _goes_together(operation, match, into or (), fields):
            return None
        return _built(operation, match, into or (), fields)

    def schema(self) -> Schema:
        """Return the schema of a step: one operation, and `match`."""
        return {**_STEP_RECORD.schema(), "oneOf": [{"required": [kind]} for kind in _BY_KIND]}

    def words(self) -> str:
        """Name it."""
        return "a step"


def _goes_together(
    operation: Operation, match: tuple[Pattern, ...], into: tuple[Replacement | None, ...], fields: Fields
) -> bool:
    """Note every way in which the keys of a step contradict each other; return whether there is none."""
    before = len(fields.reading.faults.found)
    for extra in (_INTO, _DIM, _SIZES):
        if extra in fields and extra.name not in operation.extras:
            fields.reading.fault(fields.nodes[extra.name], f"{operation.kind} has no {extra.name!r}", "Remove it.")
    if len(match) < operation.least or (operation.most and len(match) > operation.most):
        count = operation.least if operation.least == operation.most else f"at least {operation.least}"
        what = f"{operation.kind} needs {count} patterns under 'match', there are {len(match)}"
        fields.reading.fault(fields.nodes["match"], what, "Give one pattern for each input.")
    if len({len(pattern.groups) for pattern in match}) > 1:
        what = "the patterns under 'match' have different numbers of captures"
        fields.reading.fault(fields.nodes["match"], what, "Their captures tell which tensors belong together.")
    _check_into(operation, match, into, fields)
    return len(fields.reading.faults.found) == before


def _check_into(
    operation: Operation, match: tuple[Pattern, ...], into: tuple[Replacement | None, ...], fields: Fields
) -> None:
    node = fields.nodes.get("into", fields.node)
    if operation.into != "no" and not into:
        fields.reading.fault(node, f"{operation.kind} needs 'into'", "Name the results with captures: '$1.weight'.")
    if operation.into != "parts" and (len(into) > 1 or None in into):
        fields.reading.fault(node, f"{operation.kind} gives one tensor", "Write one name under 'into'.")
    extra = ("i",) if operation.kind == "unstack" else ()
    try:
        for name in filter(None, into):
            check_replacement(name, match, extra)
    except TextError as error:
        fields.reading.fault(node, error.what, error.how)


def _built(
    operation: Operation, match: tuple[Pattern, ...], into: tuple[Replacement | None, ...], fields: Fields
) -> Step | None:
    """Read the operation's own value and make the step."""
    value = operation.shape.read(fields.nodes[operation.kind], fields.reading)
    if value is None:
        return None
    number, sections = value if operation.kind == "split" and isinstance(value, tuple) else (None, ())
    count = len(sections) or _literal(number)
    if operation.kind == "split" and count not in {0, len(into)}:
        what = f"split gives {count} parts, 'into' names {len(into)}"
        fields.reading.fault(fields.nodes["into"], what, "Name every part; null drops one.")
        return None
    options = value if isinstance(value, Fields) else None
    return Step(
        kind=operation.kind,
        match=match,
        rule=fields.reading.rule("tensors", fields.node, f"{operation.kind} {match[0]}"),
        into=into,
        pattern=str(value) if operation.kind == "rearrange" else "",
        formula=str(value) if operation.kind == "map" else "",
        sizes={key.text: size for key, size in fields.get(_SIZES) or ()},
        parts=number,
        sections=sections,
        order=value if operation.kind == "stack" and isinstance(value, int) else 0,
        dim=value if operation.kind == "concat" and isinstance(value, int) else _dim(fields, options),
        start=options.get(_SLICE_FROM) if options is not None else None,
        stop=options.get(_SLICE_TO) if options is not None else None,
        when=fields.get(_WHEN),
    )


def _dim(fields: Fields, options: Fields | None) -> int:
    inner = options.get(_SLICE_DIM) if options is not None else None
    return inner or fields.get(_DIM) or 0


def _literal(expression: Expression | None) -> int:
    """Return the number of parts where it is written as a plain number, else 0."""
    text = str(expression)
    return int(text) if text.isascii() and text.isdigit() else 0


STEP: Shape[Step] = _StepShape()
