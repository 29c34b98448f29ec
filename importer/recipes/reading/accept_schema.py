"""The section `accepts`: ways to recognise a checkpoint, and the conditions under which a recipe's target can express it.

Not here: deciding by them (`importer.recipes.choosing`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from importer.recipes.language.expressions import Value, parse_expression
from importer.recipes.language.patterns import parse_pattern
from importer.recipes.reading.schema import (
    PATTERN,
    TEXT,
    Field,
    Fields,
    FieldType,
    ListOf,
    MapOf,
    OneOf,
    Parsed,
    ReadContext,
    RecordType,
    Ruled,
    Schema,
)
from importer.recipes.reading.yaml_nodes import Node, Scalar
from importer.recipes.recipe import Accept, Condition, Unlike

__all__ = ["ACCEPT_FIELDS", "ACCEPT_FORM"]


_IDENTIFIER: FieldType[Accept] = Ruled("accepts", TEXT, lambda text, rule: Accept(rule, identifier=text))


def _parse_value(text: str) -> Value:
    words: dict[str, Value] = {"True": True, "False": False}
    return words[text] if text in words else int(text) if text.isascii() and text.isdigit() else text


class _Reasons(FieldType["tuple[tuple[Scalar, str], ...]"]):
    """`key: reason`, where the key has a syntax of its own."""

    def __init__(self, key: Parsed[object], name: str) -> None:
        self._key = key
        self._name = name
        self._pairs = MapOf(TEXT)

    def read(self, node: Node, reading: ReadContext) -> tuple[tuple[Scalar, str], ...] | None:
        """Return key nodes whose text is well formed, with the reasons."""
        pairs = self._pairs.read(node, reading)
        return pairs and tuple((key, reason) for key, reason in pairs if self._key.read(key, reading) is not None)

    def schema(self) -> Schema:
        """Return a mapping of texts."""
        return {**self._pairs.schema(), "minProperties": 1}

    def words(self) -> str:
        """Name keys and values."""
        return f"a mapping from {self._name} to reasons"


_VALUES = ListOf(Parsed("a value", _parse_value, bare=(int, bool)), or_one=True)
_CONFIG = Field(
    "config", MapOf(_VALUES, "config fields"), "Fields of config.json with the value, or list of values, each may have."
)
_HAS = Field("has", ListOf(TEXT, or_one=True), "Fields that config.json must have.")
_CLASSES = Field(
    "classes",
    ListOf(PATTERN, or_one=True),
    "Patterns of which one must match the whole of a class that config.json names (`architectures`, `_class_name`, `arch` or "
    "timm's `architecture`).",
)
_NAMES = Field(
    "names",
    ListOf(PATTERN, or_one=True),
    "Patterns of which each must match a tensor name. Alone they count only where config.json is absent or names no class.",
)
_WITHOUT = Field("without", ListOf(PATTERN, or_one=True), "Patterns that must match no tensor name.")
_MODEL_TYPE = Field(
    "model_type",
    ListOf(TEXT, or_one=True),
    "Beside `names`: what `model_type` of config.json may be where it is given and no class is named.",
)
_UNLESS = Field(
    "unless",
    _Reasons(Parsed("an expression", parse_expression), "expressions over the config"),
    "Settings the target cannot express: where one of the expressions is true the recipe is not chosen, and the reason "
    "is printed. One over a field that config.json does not have is not judged.",
)
_REQUIRES = Field(
    "requires",
    _Reasons(Parsed("an expression", parse_expression), "expressions over the config"),
    "The same the other way round: each expression must be true.",
)
_UNLIKE = Field(
    "unlike",
    _Reasons(PATTERN, "patterns for whole class names"),
    "Classes that have this recipe's tensor names and compute something else; the reason is printed where one is met.",
)
_ACCEPT = RecordType(
    "an entry of accepts",
    (_CONFIG, _HAS, _CLASSES, _NAMES, _WITHOUT, _MODEL_TYPE, _UNLESS, _REQUIRES, _UNLIKE),
)
_CLAIMS = (_CONFIG, _HAS, _CLASSES, _NAMES)
_LIMITS = (_UNLESS, _REQUIRES, _UNLIKE)


class _Mapping(FieldType[Accept]):
    """A mapping of conditions that must all hold."""

    def read(self, node: Node, reading: ReadContext) -> Accept | None:
        """Return the conditions."""
        fields = _ACCEPT.open(node, reading)
        if fields is None:
            return None
        if not fields.nodes:
            reading.fault(node, "an entry of accepts has no condition", "It would accept every checkpoint: add one.")
            return None
        claims = any(key in fields for key in _CLAIMS)
        if not claims and not any(key in fields for key in _LIMITS):
            how = "Add names, classes, config or has: without one of them it would accept every checkpoint."
            reading.fault(node, "an entry of accepts only excludes", how)
            return None
        return replace(
            Accept(reading.rule("accepts", node, ", ".join(fields.nodes))),
            config={key.text: values for key, values in fields.get(_CONFIG) or ()},
            has=fields.get(_HAS) or (),
            classes=fields.get(_CLASSES) or (),
            names=fields.get(_NAMES) or (),
            without=fields.get(_WITHOUT) or (),
            model_types=fields.get(_MODEL_TYPE) or (),
            conditions=tuple(_conditions(fields, reading)),
            unlike=tuple(
                Unlike(parse_pattern(key.text), reason, reading.rule("accepts", key, key.text))
                for key, reason in fields.get(_UNLIKE) or ()
            ),
        )

    def schema(self) -> Schema:
        """Return the mapping's schema."""
        return {**_ACCEPT.schema(), "minProperties": 1}

    def words(self) -> str:
        """List the keys."""
        return f"a mapping with {', '.join(one.name for one in _ACCEPT.fields)}"


def _conditions(fields: Fields, reading: ReadContext) -> Iterator[Condition]:
    for field, wanted in ((_UNLESS, False), (_REQUIRES, True)):
        for key, reason in fields.get(field) or ():
            yield Condition(parse_expression(key.text), wanted, reason, reading.rule("accepts", key, key.text))


ACCEPT_FORM: FieldType[Accept] = OneOf(scalar=_IDENTIFIER, mapping=_Mapping())
ACCEPT_FIELDS = _ACCEPT.fields
