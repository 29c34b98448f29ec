"""Shapes of values in a recipe: each reads a YAML node into a typed value, and describes itself for the JSON Schema.

A shape that does not fit notes a fault with its place and gives None; reading goes on with the neighbours. Not here: which
sections there are (`importer.recipes.reading.sections`), and the special forms of single sections.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from importer.errors import did_you_mean, shown
from importer.recipes.faults import Faults, TextError, as_written
from importer.recipes.language.expressions import Expression, parse_expression
from importer.recipes.language.patterns import Pattern, parse_pattern
from importer.recipes.language.replacements import Replacement, parse_replacement
from importer.recipes.reading.yaml_nodes import ListNode, MappingNode, Node, Scalar
from importer.recipes.recipe import RuleRef

__all__ = [
    "EXPRESSION",
    "PATTERN",
    "REPLACEMENT",
    "TEXT",
    "WHOLE_NUMBER",
    "Field",
    "FieldType",
    "Fields",
    "ListOf",
    "MapOf",
    "OneOf",
    "Parsed",
    "ReadContext",
    "RecordType",
    "Ruled",
    "Schema",
    "TextType",
    "kind_of",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)
Schema = dict[str, object]


@dataclass(frozen=True, slots=True)
class ReadContext:
    """The file being read: its names, and where its faults go."""

    path: str
    file: str
    faults: Faults

    def fault(self, node: Node, what: str, how: str) -> None:
        """Note a fault at a node."""
        self.faults.add(what, how=how, line=node.line, column=node.column)

    def text_fault(self, node: Scalar, error: TextError) -> None:
        """Note a fault inside a scalar's text, at the character it means where that can be told."""
        column = node.column
        if error.position is not None and node.indent is not None:
            column += node.indent + error.position
        self.faults.add(error.what, how=error.how, line=node.line, column=column)

    def rule(self, section: str, node: Node, text: str) -> RuleRef:
        """Return the name of the rule at a node."""
        return RuleRef(self.file, node.line, node.column, section, text)


class FieldType(ABC, Generic[T_co]):
    """A kind of value."""

    @abstractmethod
    def read(self, node: Node, reading: ReadContext) -> T_co | None:
        """Return the value, or None after noting why it does not fit."""

    @abstractmethod
    def schema(self) -> Schema:
        """Return the JSON Schema of the value."""

    @abstractmethod
    def words(self) -> str:
        """Return what is expected, for messages and the reference: `a list of patterns`."""

    def misfit(self, node: Node, reading: ReadContext, how: str = "") -> None:
        """Note that another kind of value stands here."""
        reading.fault(node, f"{kind_of(node)} stands where {self.words()} is needed", how or f"Write {self.words()}.")


def kind_of(node: Node) -> str:
    """Return what kind of node it is, in words."""
    if isinstance(node, ListNode):
        return "a list"
    if isinstance(node, MappingNode):
        return "a mapping"
    value = node.value
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return f"the truth value {node.text}"
    return f"the number {node.text}" if isinstance(value, int) else f"the text {as_written(node.text)}"


@dataclass(frozen=True, slots=True)
class TextType(FieldType[str]):
    """A text; `choices` are the only ones allowed, if there are any."""

    name: str = "text"
    choices: tuple[str, ...] = ()

    def read(self, node: Node, reading: ReadContext) -> str | None:
        """Return the text."""
        if not isinstance(node, Scalar) or not isinstance(node.value, str) or not node.text:
            self.misfit(node, reading)
            return None
        if self.choices and node.text not in self.choices:
            how = did_you_mean(node.text, self.choices, f"It must be {self.words()}.")
            reading.fault(node, f"{as_written(node.text)} is not known here", how)
            return None
        return node.text

    def schema(self) -> Schema:
        """Return a string schema."""
        return {"type": "string", "enum": list(self.choices)} if self.choices else {"type": "string", "minLength": 1}

    def words(self) -> str:
        """Return the name or the choices."""
        return " or ".join(self.choices) if self.choices else self.name


@dataclass(frozen=True, slots=True)
class _WholeNumber(FieldType[int]):
    """A whole number; negative ones only where `least` allows."""

    least: int = 0

    def read(self, node: Node, reading: ReadContext) -> int | None:
        """Return the number."""
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, bool) or not isinstance(value, int) or value < self.least:
            self.misfit(node, reading)
            return None
        return value

    def schema(self) -> Schema:
        """Return an integer schema."""
        return {"type": "integer", "minimum": self.least}

    def words(self) -> str:
        """Name the bound."""
        return f"a whole number from {self.least} on"


@dataclass(frozen=True, slots=True)
class Parsed(FieldType[T_co]):
    """A text with a syntax of its own.

    Attributes:
        name: of the syntax.
        parse: gives the value, or raises TextError.
        bare: what may stand there without quotes besides text: plain numbers, truth values.
    """

    name: str
    parse: Callable[[str], T_co]
    bare: tuple[type[int], ...] = ()

    def read(self, node: Node, reading: ReadContext) -> T_co | None:
        """Return the parsed text."""
        if not isinstance(node, Scalar) or type(node.value) not in {str, *self.bare}:
            how = "" if isinstance(node, Scalar) else f"Write {self.name} in single quotes."
            self.misfit(node, reading, how)
            return None
        text = str(node.value) if isinstance(node.value, bool) else node.text
        try:
            return self.parse(text)
        except TextError as error:
            reading.text_fault(node, error)
            return None

    def schema(self) -> Schema:
        """Return a schema that allows text, and what may stand bare."""
        kinds = ["string", *({int: "integer", bool: "boolean"}[kind] for kind in self.bare)]
        return {"type": kinds if self.bare else "string", "description": self.name}

    def words(self) -> str:
        """Name the syntax."""
        return self.name


@dataclass(frozen=True, slots=True)
class ListOf(FieldType[tuple[T_co, ...]]):
    """A list; with `or_one`, a single value stands for a list of one."""

    inner: FieldType[T_co]
    or_one: bool = False
    plural: str = ""

    def read(self, node: Node, reading: ReadContext) -> tuple[T_co, ...] | None:
        """Return the values that fit."""
        if not isinstance(node, ListNode):
            if not self.or_one:
                self.misfit(node, reading)
                return None
            one = self.inner.read(node, reading)
            return None if one is None else (one,)
        values = (self.inner.read(item, reading) for item in node.items)
        return tuple(value for value in values if value is not None)

    def schema(self) -> Schema:
        """Return an array schema, or either."""
        many: Schema = {"type": "array", "items": self.inner.schema()}
        return {"anyOf": [self.inner.schema(), many]} if self.or_one else many

    def words(self) -> str:
        """Name the elements."""
        many = f"a list of {self.plural or _plural(self.inner.words())}"
        return f"{self.inner.words()}, or {many}" if self.or_one else many


def _plural(words: str) -> str:
    return f"{words.removeprefix('a ').removeprefix('an ')}s"


@dataclass(frozen=True, slots=True)
class MapOf(FieldType[tuple[tuple[Scalar, T_co], ...]]):
    """A mapping with free keys; gives the key nodes and values that fit."""

    inner: FieldType[T_co]
    keys: str = "names"

    def read(self, node: Node, reading: ReadContext) -> tuple[tuple[Scalar, T_co], ...] | None:
        """Return the pairs that fit."""
        if not isinstance(node, MappingNode):
            self.misfit(node, reading)
            return None
        pairs = ((key, self.inner.read(value, reading)) for key, value in node.pairs)
        return tuple((key, value) for key, value in pairs if value is not None)

    def schema(self) -> Schema:
        """Return an object schema."""
        return {"type": "object", "additionalProperties": self.inner.schema()}

    def words(self) -> str:
        """Name keys and values."""
        return f"a mapping from {self.keys} to {self.inner.words()}"


@dataclass(frozen=True, slots=True)
class Ruled(FieldType[R_co], Generic[T, R_co]):
    """A value together with the name of the rule it is; `make` joins the two."""

    section: str
    inner: FieldType[T]
    make: Callable[[T, RuleRef], R_co]

    def read(self, node: Node, reading: ReadContext) -> R_co | None:
        """Return the rule."""
        value = self.inner.read(node, reading)
        return None if value is None else self.make(value, reading.rule(self.section, node, str(value)))

    def schema(self) -> Schema:
        """Return the inner schema."""
        return self.inner.schema()

    def words(self) -> str:
        """Return the inner words."""
        return self.inner.words()


@dataclass(frozen=True, slots=True)
class OneOf(FieldType[T_co]):
    """A mapping takes one shape, everything else another."""

    scalar: FieldType[T_co]
    mapping: FieldType[T_co]

    def read(self, node: Node, reading: ReadContext) -> T_co | None:
        """Return what the shape for this kind of node gives."""
        shape = self.mapping if isinstance(node, MappingNode) else self.scalar
        return shape.read(node, reading)

    def schema(self) -> Schema:
        """Return a choice."""
        return {"anyOf": [self.scalar.schema(), self.mapping.schema()]}

    def words(self) -> str:
        """Join the words of the two."""
        return f"{self.scalar.words()}, or {self.mapping.words()}"


@dataclass(frozen=True, slots=True)
class Field(Generic[T_co]):
    """A key of a mapping with fixed keys.

    Attributes:
        name: the key.
        shape: of its value.
        about: one or two sentences for the reference and the schema.
        required: whether it must be there.
    """

    name: str
    shape: FieldType[T_co]
    about: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping with fixed keys while it is read; each field is read when it is asked for."""

    node: MappingNode
    reading: ReadContext
    nodes: dict[str, Node] = field(default_factory=dict)

    def get(self, key: Field[T]) -> T | None:
        """Return the value of a field, or None if it is absent or faulty."""
        node = self.nodes.get(key.name)
        return None if node is None else key.shape.read(node, self.reading)

    def __contains__(self, key: Field[T]) -> bool:
        return key.name in self.nodes


@dataclass(frozen=True, slots=True)
class RecordType:
    """A mapping with fixed keys."""

    name: str
    fields: tuple[Field[object], ...]

    def open(self, node: Node, reading: ReadContext) -> Fields | None:
        """Check the keys; values are read through the result."""
        if not isinstance(node, MappingNode):
            reading.fault(node, f"{kind_of(node)} stands where {self.name} is needed", "Write a mapping.")
            return None
        known = {one.name: one for one in self.fields}
        for key, _ in node.pairs:
            if key.text not in known:
                how = did_you_mean(key.text, known, f"There are: {', '.join(known)}.")
                reading.fault(key, f"{self.name} has no key {shown(key.text)}", how)
        nodes = {key.text: value for key, value in node.pairs if key.text in known}
        for one in self.fields:
            if one.required and one.name not in nodes:
                reading.fault(node, f"{self.name} lacks the key {one.name!r}", f"Add {one.name}: {one.shape.words()}.")
        return Fields(node, reading, nodes)

    def schema(self) -> Schema:
        """Return an object schema that allows no other keys."""
        return {
            "type": "object",
            "properties": {one.name: {**one.shape.schema(), "description": one.about} for one in self.fields},
            "required": [one.name for one in self.fields if one.required],
            "additionalProperties": False,
        }


TEXT = TextType()
WHOLE_NUMBER = _WholeNumber()
PATTERN: Parsed[Pattern] = Parsed("a pattern", parse_pattern, bare=(int,))
REPLACEMENT: Parsed[Replacement] = Parsed("a replacement", parse_replacement, bare=(int,))
EXPRESSION: Parsed[Expression] = Parsed("an expression", parse_expression, bare=(int, bool))
