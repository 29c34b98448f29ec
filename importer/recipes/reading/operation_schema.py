"""How each operation of `tensors` is written: its own key's value, and which further keys it has.

Not here: a step as a whole (`importer.recipes.reading.step_schema`), and carrying operations out (`steps`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from importer.arrays import parse_axis_pattern as parse_rearrangement
from importer.errors import TensorError, shown
from importer.recipes.faults import TextError
from importer.recipes.language.expressions import Expression
from importer.recipes.language.map_formulas import check_formula
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
from importer.recipes.reading.schema import (
    EXPRESSION,
    WHOLE_NUMBER,
    Field,
    Fields,
    FieldType,
    ListOf,
    MapOf,
    Parsed,
    ReadContext,
    RecordType,
    Schema,
)
from importer.recipes.reading.yaml_nodes import ListNode, Node, Scalar

__all__ = ["DIM", "OPERATIONS", "SIZES", "Naming", "OperationSchema"]

T = TypeVar("T")
Naming: TypeAlias = Literal["optional", "one", "parts"]
"""Whether `into` may be left out (the name stays), holds one name, or a list with one name for each part."""

DIM = Field("dim", WHOLE_NUMBER, "The axis; 0 where not given.")
SIZES = Field("sizes", MapOf(EXPRESSION), "Sizes of names in the pattern, as expressions over the config.")


@dataclass(frozen=True, slots=True)
class OperationSchema:
    """How an operation is written.

    Attributes:
        kind: its key.
        shape: of the key's value.
        build: reads a step's keys and makes the operation; None after noting a fault.
        about: for the reference.
        inputs: how many patterns `match` has; None for two or more.
        naming: what `into` holds.
        extras: further keys it may have, besides `match`, `into` and `when`.
    """

    kind: str
    shape: FieldType[object]
    build: Callable[[Fields], Operation | None]
    about: str
    inputs: int | None
    naming: Naming
    extras: tuple[Field[object], ...]


def _form(
    shape: FieldType[T],
    make: Callable[[T, Fields], Operation],
    kind: str,
    about: str,
    *,
    inputs: int | None = 1,
    naming: Naming = "one",
    extras: tuple[Field[object], ...] = (),
) -> OperationSchema:
    """Return the form of an operation that `make` makes from its own value and the step's other keys."""

    def build(fields: Fields) -> Operation | None:
        value = shape.read(fields.nodes[kind], fields.reading)
        return None if value is None else make(value, fields)

    return OperationSchema(kind, shape, build, about, inputs, naming, extras)


class _Parts(FieldType["tuple[Expression | None, tuple[Expression, ...]]"]):
    """A number of equal parts, or a list of sizes."""

    def read(self, node: Node, reading: ReadContext) -> tuple[Expression | None, tuple[Expression, ...]] | None:
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


class _True(FieldType[bool]):
    """The word true, for an operation that needs nothing else."""

    def read(self, node: Node, reading: ReadContext) -> bool | None:
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
_SLICE = RecordType("slice", (_SLICE_DIM, _SLICE_FROM, _SLICE_TO))
_SPECTRAL_DIM = Field("dim", WHOLE_NUMBER, "The axis of the outputs: 0, or 1 for transposed convolutions.")


class _Options(FieldType[Fields]):
    """A small mapping that belongs to an operation."""

    def __init__(self, record: RecordType) -> None:
        self.record = record

    def read(self, node: Node, reading: ReadContext) -> Fields | None:
        """Return the mapping, its keys checked."""
        return self.record.open(node, reading)

    def schema(self) -> Schema:
        """Return the mapping's schema."""
        return self.record.schema()

    def words(self) -> str:
        """List the keys."""
        names = ", ".join(one.name for one in self.record.fields)
        return f"a mapping with {names}" if names else "an empty mapping {}"


def _dim(fields: Fields) -> int:
    return fields.get(DIM) or 0


def _rearrange(pattern: str, fields: Fields) -> Rearrange:
    return Rearrange(pattern, {key.text: size for key, size in fields.get(SIZES) or ()})


def _split(parts: tuple[Expression | None, tuple[Expression, ...]], fields: Fields) -> Split:
    return Split(_dim(fields), *parts)


def _slice(options: Fields, _fields: Fields) -> Slice:
    return Slice(options.get(_SLICE_DIM) or 0, options.get(_SLICE_FROM), options.get(_SLICE_TO))


OPERATIONS: tuple[OperationSchema, ...] = (
    _form(
        Parsed("a pattern such as 'a b -> b a'", _parse_pattern_text),
        _rearrange,
        "rearrange",
        "Take axes apart, reorder and join them: `'(h two r) ... -> (h r two) ...'`. One unknown size per group is "
        "inferred; `1` and `()` drop or add axes of size 1; `...` stands for the remaining axes.",
        naming="optional",
        extras=(SIZES,),
    ),
    _form(
        _Parts(),
        _split,
        "split",
        "Cut into equal parts, or parts of the sizes listed. `into` names each part; `null` there drops it.",
        naming="parts",
        extras=(DIM,),
    ),
    _form(
        WHOLE_NUMBER,
        lambda dim, _fields: Concat(dim),
        "concat",
        "Join tensors along this axis, in the order of the patterns under `match`, whose captures must agree.",
        inputs=None,
    ),
    _form(
        Parsed("a capture such as $2", _parse_capture),
        lambda order, fields: Stack(_dim(fields), order),
        "stack",
        "Put the tensors that differ in this capture on top of each other along a new axis; the numbers must be 0, 1, 2…",
        extras=(DIM,),
    ),
    _form(
        _True(),
        lambda _true, fields: Unstack(_dim(fields)),
        "unstack",
        "Take a tensor apart along `dim`, which disappears; `{i}` in `into` is the position.",
        extras=(DIM,),
    ),
    _form(_Options(_SLICE), _slice, "slice", "Keep a range of indices of one axis.", naming="optional"),
    _form(
        _Options(RecordType("weight_norm", ())),
        lambda _options, _fields: WeightNorm(),
        "weight_norm",
        "Fuse `g` and `v` (two patterns under `match`) to `v * g / ||v||`, the norm taken over the axes where g has size 1.",
        inputs=2,
    ),
    _form(
        _Options(RecordType("spectral_norm", (_SPECTRAL_DIM,))),
        lambda options, _fields: SpectralNorm(options.get(_SPECTRAL_DIM) or 0),
        "spectral_norm",
        "Fuse weight, `u` and `v` (three patterns under `match`) to `weight / (u . W v)`.",
        inputs=3,
    ),
    _form(
        Parsed("a formula in x", check_formula),
        lambda formula, _fields: Map(formula),
        "map",
        "Compute a formula in `x` of every element: `1 + x`, `-exp(x)`.",
        naming="optional",
    ),
)
"""Every operation of `tensors`."""
