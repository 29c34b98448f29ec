"""Forms of single sections: pairs of `rename`, `alias`, `stored_as`, `config`, `settings`, `dtype`.

Not here: the forms of `accepts` (`accept_schema`), of `tensors` (`importer.recipes.reading.step_schema`) and of `target` and `types` (`template_schema`).
"""

from __future__ import annotations

from dataclasses import dataclass

from importer.dtypes import DTYPES, DType, Kind
from importer.errors import did_you_mean, shown
from importer.recipes.faults import TextError
from importer.recipes.language.expressions import Expression
from importer.recipes.language.patterns import parse_pattern
from importer.recipes.language.replacements import check_replacement
from importer.recipes.reading.schema import (
    EXPRESSION,
    PATTERN,
    REPLACEMENT,
    TEXT,
    Field,
    FieldType,
    ListOf,
    MapOf,
    Parsed,
    ReadContext,
    RecordType,
    Ruled,
    Schema,
    TextType,
)
from importer.recipes.reading.yaml_nodes import ListNode, MappingNode, Node, Scalar
from importer.recipes.recipe import (
    Alias,
    ConfigName,
    DTypePlan,
    DTypeRule,
    NamePattern,
    Rename,
    Setting,
    StoredAs,
)

__all__ = [
    "ALIAS_FORM",
    "CONFIG_FORM",
    "DTYPE_FIELDS",
    "DTYPE_FORM",
    "NAME_FORM",
    "RENAME_FORM",
    "RENUMBER_FORM",
    "SETTINGS_FORM",
    "STORED_AS_FORM",
    "VERSION_FORM",
]

_PAIR = 2
_FORMAT_VERSION = 1


class _Version(FieldType[int]):
    """The version of the language."""

    def read(self, node: Node, reading: ReadContext) -> int | None:
        """Return the version."""
        if isinstance(node, Scalar) and node.value == _FORMAT_VERSION and not isinstance(node.value, bool):
            return _FORMAT_VERSION
        self.misfit(node, reading, "Write recipe: 1, or update importer if the recipe is newer.")
        return None

    def schema(self) -> Schema:
        """Return the constant."""
        return {"const": _FORMAT_VERSION}

    def words(self) -> str:
        """Return the constant."""
        return "the version 1"


def _parse_name(text: str) -> str:
    if text and all(char.isascii() and (char.isalnum() or char in "-_") for char in text):
        return text
    raise TextError(f"{shown(text)} is no name for a recipe", how="Use letters, digits, - and _.")


class _RenameShape(FieldType[Rename]):
    """`[pattern, replacement]`."""

    def read(self, node: Node, reading: ReadContext) -> Rename | None:
        """Return the rule, its captures checked."""
        if not isinstance(node, ListNode) or len(node.items) != _PAIR:
            self.misfit(node, reading, "Write ['pattern', 'replacement'], both in single quotes.")
            return None
        pattern = PATTERN.read(node.items[0], reading)
        replacement = REPLACEMENT.read(node.items[1], reading)
        if pattern is None or replacement is None:
            return None
        try:
            check_replacement(replacement, (pattern,))
        except TextError as error:
            second = node.items[1]
            if isinstance(second, Scalar):
                reading.text_fault(second, error)
            return None
        return Rename(pattern, replacement, reading.rule("rename", node, pattern.text))

    def schema(self) -> Schema:
        """Return a pair."""
        pair = [PATTERN.schema(), REPLACEMENT.schema()]
        return {"type": "array", "prefixItems": pair, "minItems": _PAIR, "maxItems": _PAIR}

    def words(self) -> str:
        """Show the form."""
        return "a pair ['pattern', 'replacement']"


class _RenumberShape(FieldType["tuple[NamePattern, ...]"]):
    """`true`, or patterns for prefixes."""

    _patterns = ListOf(Ruled("renumber", PATTERN, NamePattern), or_one=True)

    def read(self, node: Node, reading: ReadContext) -> tuple[NamePattern, ...] | None:
        """Return the patterns; `true` is one that matches every prefix."""
        if isinstance(node, Scalar) and node.value is True:
            return (NamePattern(parse_pattern(".*"), reading.rule("renumber", node, "true")),)
        return self._patterns.read(node, reading)

    def schema(self) -> Schema:
        """Return either form."""
        return {"anyOf": [{"const": True}, self._patterns.schema()]}

    def words(self) -> str:
        """Name both forms."""
        return "true, or patterns for prefixes such as '^fc\\.'"


_ALIAS_FROM = Field("from", TEXT, "The target name to take it from.", required=True)
_ALIAS_WHEN = Field("when", EXPRESSION, "Only where this expression is true.")
_ALIAS_RECORD = RecordType("an alias", (_ALIAS_FROM, _ALIAS_WHEN))


class _Source(FieldType["tuple[str, Expression | None]"]):
    """`other name`, or `{from: other name, when: condition}`."""

    def read(self, node: Node, reading: ReadContext) -> tuple[str, Expression | None] | None:
        """Return the other name and the condition."""
        if not isinstance(node, MappingNode):
            other = TEXT.read(node, reading)
            return None if other is None else (other, None)
        fields = _ALIAS_RECORD.open(node, reading)
        other = None if fields is None else fields.get(_ALIAS_FROM)
        return None if fields is None or other is None else (other, fields.get(_ALIAS_WHEN))

    def schema(self) -> Schema:
        """Return either form."""
        return {"anyOf": [TEXT.schema(), _ALIAS_RECORD.schema()]}

    def words(self) -> str:
        """Name both forms."""
        return "another one, or a mapping with from, when"


class _AliasShape(FieldType["tuple[Alias, ...]"]):
    """`name: other name`."""

    def read(self, node: Node, reading: ReadContext) -> tuple[Alias, ...] | None:
        """Return the aliases in file order."""
        pairs = MapOf(_Source(), "names").read(node, reading) or ()
        return tuple(Alias(key.text, other, reading.rule("alias", key, key.text), when) for key, (other, when) in pairs)

    def schema(self) -> Schema:
        """Return a mapping of either form."""
        return MapOf(_Source()).schema()

    def words(self) -> str:
        """Show the form."""
        return "a mapping from a target name to another one, or to {from: name, when: condition}"


_LAYOUTS = TextType("a layout", ("Conv1D",))


class _StoredAsShape(FieldType["tuple[StoredAs, ...]"]):
    """`Conv1D: pattern`."""

    def read(self, node: Node, reading: ReadContext) -> tuple[StoredAs, ...] | None:
        """Return one rule for each pattern."""
        pairs = MapOf(ListOf(PATTERN, or_one=True)).read(node, reading) or ()
        return tuple(
            StoredAs(key.text, pattern, reading.rule("stored_as", key, pattern.text))
            for key, patterns in pairs
            if _LAYOUTS.read(key, reading) is not None
            for pattern in patterns
        )

    def schema(self) -> Schema:
        """Return a mapping with the known layouts."""
        patterns = ListOf(PATTERN, or_one=True).schema()
        return {
            "type": "object",
            "properties": dict.fromkeys(_LAYOUTS.choices, patterns),
            "additionalProperties": False,
        }

    def words(self) -> str:
        """Show the form."""
        return "a mapping such as Conv1D: 'pattern'"


class _ConfigShape(FieldType["tuple[ConfigName, ...]"]):
    """`short: expression`."""

    def read(self, node: Node, reading: ReadContext) -> tuple[ConfigName, ...] | None:
        """Return the names in file order."""
        names = []
        for key, expression in MapOf(EXPRESSION).read(node, reading) or ():
            if key.text.isidentifier():
                names.append(ConfigName(key.text, expression, reading.rule("config", key, key.text)))
            else:
                reading.fault(key, f"{shown(key.text)} is no name", "Use letters, digits and _.")
        return tuple(names)

    def schema(self) -> Schema:
        """Return a mapping of expressions."""
        return {**MapOf(EXPRESSION).schema(), "propertyNames": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"}}

    def words(self) -> str:
        """Show the form."""
        return "a mapping from short names to expressions"


class _SettingsShape(FieldType["tuple[Setting, ...]"]):
    """`what the module must be told: expression`."""

    def read(self, node: Node, reading: ReadContext) -> tuple[Setting, ...] | None:
        """Return the settings in file order."""
        pairs = MapOf(EXPRESSION).read(node, reading) or ()
        return tuple(Setting(key.text, value, reading.rule("settings", key, key.text)) for key, value in pairs)

    def schema(self) -> Schema:
        """Return a mapping of expressions."""
        return MapOf(EXPRESSION).schema()

    def words(self) -> str:
        """Show the form."""
        return "a mapping from what a module must be told to expressions"


@dataclass(frozen=True, slots=True)
class _OneOfKeys:
    """An element type, or `keep` (None): told apart from a faulty one."""

    dtype: DType | None


def _spellings(*kinds: Kind) -> dict[str, _OneOfKeys]:
    known = {"keep": _OneOfKeys(None)}
    for dtype in DTYPES.values():
        if dtype.kind in kinds:
            names = (dtype.name, dtype.name.lower(), *dtype.torch_names)
            known.update(dict.fromkeys(names, _OneOfKeys(dtype)))
    return known


def _dtype_shape(name: str, *kinds: Kind) -> Parsed[_OneOfKeys]:
    known = _spellings(*kinds)

    def parse(text: str) -> _OneOfKeys:
        if text in known:
            return known[text]
        how = did_you_mean(text, known, "Write keep, float32, float16, bfloat16…")
        raise TextError(f"{shown(text)} is no {name.partition(' ')[2]}", how=how)

    return Parsed(name, parse)


_FLOAT = _dtype_shape("a floating-point type", Kind.FLOAT)
_INTEGER = _dtype_shape("an integer type", Kind.INTEGER)


class _DTypeRuleShape(FieldType[DTypeRule]):
    """`[path pattern, dtype]`."""

    def read(self, node: Node, reading: ReadContext) -> DTypeRule | None:
        """Return the rule."""
        if not isinstance(node, ListNode) or len(node.items) != _PAIR:
            self.misfit(node, reading, "Write ['path pattern', dtype].")
            return None
        pattern, chosen = PATTERN.read(node.items[0], reading), _FLOAT.read(node.items[1], reading)
        if pattern is None or chosen is None:
            return None
        return DTypeRule(pattern, chosen.dtype, reading.rule("dtype", node, pattern.text))

    def schema(self) -> Schema:
        """Return a pair."""
        pair = [PATTERN.schema(), _FLOAT.schema()]
        return {"type": "array", "prefixItems": pair, "minItems": _PAIR, "maxItems": _PAIR}

    def words(self) -> str:
        """Show the form."""
        return "a pair ['path pattern', dtype]"


_DTYPE_DEFAULT = Field("default", _FLOAT, "The type of every float that no rule names; `keep` where not given.")
_DTYPE_RULES = Field(
    "rules",
    ListOf(_DTypeRuleShape(), plural="pairs ['path pattern', dtype]"),
    "Pairs of a pattern for target names and a type; the first match counts.",
)
_DTYPE_INTS = Field("ints", _INTEGER, "The type of every integer; `keep` where not given.")
_DTYPE_RECORD = RecordType("dtype", (_DTYPE_DEFAULT, _DTYPE_RULES, _DTYPE_INTS))


class _DTypePlanShape(FieldType[DTypePlan]):
    """`keep`, one type, or a mapping."""

    def read(self, node: Node, reading: ReadContext) -> DTypePlan | None:
        """Return the plan."""
        if not isinstance(node, MappingNode):
            one = _FLOAT.read(node, reading)
            text = node.text if isinstance(node, Scalar) else ""
            return None if one is None else DTypePlan(one.dtype, rule=reading.rule("dtype", node, text))
        fields = _DTYPE_RECORD.open(node, reading)
        if fields is None:
            return None
        default, ints = fields.get(_DTYPE_DEFAULT), fields.get(_DTYPE_INTS)
        text = str(default.dtype) if default is not None and default.dtype is not None else "keep"
        return DTypePlan(
            default.dtype if default is not None else None,
            fields.get(_DTYPE_RULES) or (),
            ints.dtype if ints is not None else None,
            reading.rule("dtype", node, text),
        )

    def schema(self) -> Schema:
        """Return either form."""
        return {"anyOf": [_FLOAT.schema(), _DTYPE_RECORD.schema()]}

    def words(self) -> str:
        """Name both forms."""
        return "keep, one type, or a mapping with default, rules, ints"


VERSION_FORM: FieldType[int] = _Version()
NAME_FORM = Parsed("a name", _parse_name)
CONFIG_FORM: FieldType[tuple[ConfigName, ...]] = _ConfigShape()
RENAME_FORM: FieldType[Rename] = _RenameShape()
RENUMBER_FORM: FieldType[tuple[NamePattern, ...]] = _RenumberShape()
SETTINGS_FORM: FieldType[tuple[Setting, ...]] = _SettingsShape()
ALIAS_FORM: FieldType[tuple[Alias, ...]] = _AliasShape()
STORED_AS_FORM: FieldType[tuple[StoredAs, ...]] = _StoredAsShape()
DTYPE_FORM: FieldType[DTypePlan] = _DTypePlanShape()
DTYPE_FIELDS = _DTYPE_RECORD.fields
