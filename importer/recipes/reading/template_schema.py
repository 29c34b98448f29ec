"""The sections `target` and `types`: layers as calls (`Linear(d, 4 * d, bias=False)`), and the tree of paths they stand in.

Not here: settling the numbers (`importer.recipes.applying.settling`), and what a layer is (`importer.adapters`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from importer.adapters import LAYERS, ArgType, LayerKind
from importer.errors import did_you_mean, shown
from importer.recipes.faults import TextError
from importer.recipes.language.expressions import Expression, check_tree, names_in, parse_expression, parse_tree
from importer.recipes.reading.schema import EXPRESSION, PATTERN, Field, Fields, FieldType, MapOf, ReadContext, Schema
from importer.recipes.reading.yaml_nodes import ListNode, MappingNode, Node, Scalar
from importer.recipes.recipe import ConfigName, LayerCall, RuleRef, TemplateNode, TypeRule

__all__ = ["LAYER", "RESERVED_KEYS", "TARGET", "TYPE_RULE", "parse_layer"]

_FOR = Field("for", MapOf(EXPRESSION), "Names with the list or range each runs over; the first is the outermost loop.")
_LET = Field("let", MapOf(EXPRESSION), "Names for values, computed in every turn of the loops.")
_WHEN = Field("when", EXPRESSION, "What stands below is left out where this expression is false.")
_PAIR = 2


class _LayerShape(FieldType[LayerCall]):
    """A layer with its arguments; in `types` the arguments may be left out."""

    def __init__(self, section: str, *, partial: bool) -> None:
        self.section = section
        self.partial = partial

    def read(self, node: Node, reading: ReadContext) -> LayerCall | None:
        """Return the call."""
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            self.misfit(node, reading)
            return None
        try:
            return parse_layer(node.text, reading.rule(self.section, node, node.text), partial=self.partial)
        except TextError as error:
            reading.text_fault(node, error)
            return None

    def schema(self) -> Schema:
        """Return a text that begins with a known layer."""
        ending = r"\s*(\(.*\))?$" if self.partial else r"\s*\(.*\)$"
        return {"type": "string", "pattern": f"^({'|'.join(LAYERS)}){ending}"}

    def words(self) -> str:
        """Give an example."""
        return "a layer such as Linear" if self.partial else "a layer such as Linear(d, 4 * d)"


def parse_layer(text: str, rule: RuleRef, *, partial: bool) -> LayerCall:
    """Return the layer call in `text`.

    Args:
        text: as written.
        rule: where it stands.
        partial: whether arguments may be left out.

    Raises:
        TextError: no call, an unknown layer, or arguments that do not fit its signature.
    """
    tree = parse_tree(text)
    if isinstance(tree, ast.Name) and partial:
        tree = ast.Call(tree, [], [], col_offset=tree.col_offset)
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        raise TextError(f"{shown(text)} is no layer", how="Write it like Linear(d, 4 * d, bias=False).")
    kind = LAYERS.get(tree.func.id)
    if kind is None:
        how = did_you_mean(tree.func.id, LAYERS, f"There are: {', '.join(LAYERS)}.", cutoff=0.4)
        raise TextError(f"there is no layer {shown(tree.func.id)}", how=how, position=tree.func.col_offset)
    keywords = {keyword.arg: keyword.value for keyword in tree.keywords if keyword.arg is not None}
    for argument in (*tree.args, *keywords.values()):
        check_tree(argument)
    _check_arguments(kind, len(tree.args), [keyword.arg or "**" for keyword in tree.keywords], partial=partial)
    return LayerCall(
        kind.name,
        tuple(map(_expression, tree.args)),
        {name: _expression(value) for name, value in keywords.items()},
        rule,
    )


def _expression(tree: ast.expr) -> Expression:
    return Expression(ast.unparse(tree), tree, names_in(tree))


def _check_arguments(kind: LayerKind, count: int, keywords: list[str], *, partial: bool) -> None:
    """Refuse calls that no values could make right."""
    how = f"Write {kind.describe()}."
    if kind.signature and kind.signature[0].type is ArgType.SIZES:
        if keywords:
            raise TextError(f"{kind.name} has no argument {shown(keywords[0])}", how=how)
        return
    names = [argument.name for argument in kind.signature]
    if count > len(names):
        raise TextError(f"{kind.name} takes at most {len(names)} arguments, {count} are given", how=how)
    for keyword in keywords:
        if keyword not in names:
            raise TextError(f"{kind.name} has no argument {shown(keyword)}", how=how)
        if keyword in names[:count] or keywords.count(keyword) > 1:
            raise TextError(f"{kind.name} is given {keyword!r} twice", how=how)
    given = {*names[:count], *keywords}
    missing = [argument.name for argument in kind.signature if argument.required and argument.name not in given]
    if missing and not partial:
        raise TextError(f"{kind.name} lacks {' and '.join(missing)}", how=how)


LAYER = _LayerShape("target", partial=False)
_IS = Field("is", LAYER, "The layer at this path, where it has a `when` of its own.")
RESERVED_KEYS: tuple[Field[object], ...] = (_FOR, _LET, _WHEN, _IS)
"""Keys of a mapping under `target` that are no paths."""
_RESERVED = {one.name for one in RESERVED_KEYS}


class _TypeRuleShape(FieldType[TypeRule]):
    """`[path pattern, Layer]`."""

    _layer = _LayerShape("types", partial=True)

    def read(self, node: Node, reading: ReadContext) -> TypeRule | None:
        """Return the rule."""
        if not isinstance(node, ListNode) or len(node.items) != _PAIR:
            self.misfit(node, reading, "Write ['path pattern', Layer].")
            return None
        pattern, layer = PATTERN.read(node.items[0], reading), self._layer.read(node.items[1], reading)
        if pattern is None or layer is None:
            return None
        return TypeRule(pattern, layer, reading.rule("types", node, pattern.text))

    def schema(self) -> Schema:
        """Return a pair."""
        pair = [PATTERN.schema(), self._layer.schema()]
        return {"type": "array", "prefixItems": pair, "minItems": _PAIR, "maxItems": _PAIR}

    def words(self) -> str:
        """Show the form."""
        return "a pair ['path pattern', Layer]"


TYPE_RULE: FieldType[TypeRule] = _TypeRuleShape()


class _TargetShape(FieldType[TemplateNode]):
    """The whole template."""

    def read(self, node: Node, reading: ReadContext) -> TemplateNode | None:
        """Return the root, whose key is empty."""
        if not isinstance(node, MappingNode):
            self.misfit(node, reading)
            return None
        return _mapping("", (), node, reading.rule("target", node, ""), reading)

    def schema(self) -> Schema:
        """Return a reference to the definition of a template mapping."""
        return {"$ref": "#/$defs/module"}

    def definition(self) -> Schema:
        """Return the schema of a mapping of paths."""
        module: Schema = {"$ref": "#/$defs/module"}
        alternatives: list[Schema] = [LAYER.schema(), module, {"type": "null"}]
        return {
            "type": "object",
            "properties": {one.name: {**one.shape.schema(), "description": one.about} for one in RESERVED_KEYS},
            "additionalProperties": {"anyOf": [*alternatives, {"type": "array", "items": module}]},
        }

    def words(self) -> str:
        """Say what the keys are."""
        return "a mapping from module paths to layers"


TARGET = _TargetShape()


def _children(key: Scalar, node: Node, reading: ReadContext) -> list[TemplateNode]:
    """Return what one key stands for: a layer, a mapping, a list of mappings, or a removal."""
    rule = reading.rule("target", key, key.text)
    is_removal = isinstance(node, Scalar) and node.value is None
    parts = () if is_removal else _key_parts(key, reading)
    if parts is None:
        return []
    if is_removal:
        return [TemplateNode(key=key.text, rule=rule, removes=True)]
    if isinstance(node, MappingNode):
        return [_mapping(key.text, parts, node, rule, reading)]
    if isinstance(node, ListNode):
        for item in node.items:
            if not isinstance(item, MappingNode):
                reading.fault(item, "a list under 'target' holds mappings", "Give each one a `when`.")
        return [
            _mapping(key.text, parts, item, reading.rule("target", item, key.text), reading)
            for item in node.items
            if isinstance(item, MappingNode)
        ]
    layer = LAYER.read(node, reading)
    return [] if layer is None else [TemplateNode(key=key.text, parts=parts, rule=rule, layer=layer)]


def _mapping(
    key: str, parts: tuple[str | Expression, ...], node: MappingNode, rule: RuleRef, reading: ReadContext
) -> TemplateNode:
    """Return a mapping of paths with its loops, names and condition."""
    fields = Fields(node, reading, {name.text: value for name, value in node.pairs if name.text in _RESERVED})
    paths = ((name, value) for name, value in node.pairs if name.text not in _RESERVED)
    return TemplateNode(
        key=key,
        parts=parts,
        rule=rule,
        loops=_bound_names("for", fields.get(_FOR), reading),
        bindings=_bound_names("let", fields.get(_LET), reading),
        when=fields.get(_WHEN),
        layer=fields.get(_IS),
        children=tuple(child for name, value in paths for child in _children(name, value, reading)),
    )


def _bound_names(
    section: str, pairs: tuple[tuple[Scalar, Expression], ...] | None, reading: ReadContext
) -> tuple[ConfigName, ...]:
    names = []
    for key, expression in pairs or ():
        if key.text.isidentifier():
            names.append(ConfigName(key.text, expression, reading.rule(section, key, key.text)))
        else:
            reading.fault(key, f"{shown(key.text)} is no name", "Use letters, digits and _.")
    return tuple(names)


def _key_parts(key: Scalar, reading: ReadContext) -> tuple[str | Expression, ...] | None:
    """Return a path taken apart at its `{…}`, or None after noting a fault."""
    try:
        parts = tuple(_split_key(key.text))
    except TextError as error:
        reading.text_fault(key, error)
        return None
    segments = key.text.split(".")
    if "" in segments:
        reading.fault(key, f"the path {shown(key.text)} has an empty segment", "Join segments with single dots.")
        return None
    return parts


def _split_key(text: str) -> Iterator[str | Expression]:
    position = 0
    while position < len(text):
        begin = text.find("{", position)
        literal = text[position:] if begin < 0 else text[position:begin]
        if "}" in literal:
            raise TextError("a } without its {", how="Remove it.", position=position + literal.index("}"))
        if literal:
            yield literal
        if begin < 0:
            return
        end = text.find("}", begin)
        if end < 0:
            raise TextError("a { without its }", how="Write {n} or {expression}.", position=begin)
        yield parse_expression(text[begin + 1 : end])
        position = end + 1
