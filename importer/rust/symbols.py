"""Sizes of a template as Rust expressions over the config struct: `h * hd` → `config.num_attention_heads * config.head_dim`.

Only what reads the same in both languages is translated: names of whole numbers and flags, their products, sums and
whole quotients. Everything else stays the number it is. Not here: values (`importer.recipes.applying`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from importer.recipes.language.expressions import Expression
from importer.recipes.recipe import ConfigName, LayerCall, Recipe, RuleRef, TemplateNode

__all__ = ["Symbols", "names_used", "read_symbols"]

_OPERATORS: Mapping[type[ast.operator], tuple[str, int]] = {
    ast.Add: ("+", 1),
    ast.Sub: ("-", 1),
    ast.Mult: ("*", 2),
    ast.FloorDiv: ("/", 2),
}
_RESERVED = frozenset({"config", "device", "type", "match", "move", "ref", "self", "use", "where", "in", "fn", "loop"})


@dataclass(frozen=True, slots=True)
class Symbols:
    """What a recipe's template says in names.

    Attributes:
        fields: the recipe's short name → field of the config struct.
        calls: rule of a layer → argument expressions, without those that a loop or `let` decides.
        lengths: wildcard path of a list → short name of its length.
    """

    fields: Mapping[str, str]
    calls: Mapping[RuleRef, Mapping[int | str, Expression]]
    lengths: Mapping[tuple[str, ...], str]

    def rust(self, expression: Expression) -> str | None:
        """Return the expression in Rust, or None where it has no counterpart."""
        made = _rust(expression.tree, self.fields)
        return None if made is None else made[0]


def read_symbols(recipe: Recipe) -> Symbols:
    """Return the names in a recipe's template."""
    calls: dict[RuleRef, Mapping[int | str, Expression]] = {}
    lengths: dict[tuple[str, ...], str] = {}
    if recipe.target is not None:
        _walk(recipe.target, (), frozenset(), {}, calls, lengths)
    return Symbols(_fields(recipe.config), calls, lengths)


def names_used(recipe: Recipe) -> dict[str, str]:
    """Return the short names that a recipe's template needs, each with what to call it on the command line.

    A name that reads its own field of config.json is called by that field.
    """
    fields = _fields(recipe.config)
    used = _names(recipe.target) if recipe.target is not None else frozenset()
    own = {short for short in used & set(recipe.config) if fields[short] not in recipe.config[short].expression.names}
    return {short: short if short in own else fields[short] for short in recipe.config if short in used} | {
        name: name for name in sorted(used - set(recipe.config) - _bound(recipe.target))
    }


def _names(node: TemplateNode) -> frozenset[str]:
    """Return every name in the expressions of a template, but for parts under a condition, which may need none."""
    if node.when is not None:
        return frozenset()
    found: set[str] = set()
    for expression in (
        *(part for part in node.parts if isinstance(part, Expression)),
        *(one.expression for one in (*node.loops, *node.bindings)),
    ):
        found |= expression.names
    if node.layer is not None:
        for expression in (*node.layer.arguments, *node.layer.keywords.values()):
            found |= expression.names
    return frozenset(found).union(*(_names(child) for child in node.children))


def _bound(node: TemplateNode | None) -> frozenset[str]:
    if node is None:
        return frozenset()
    own = frozenset(one.name for one in (*node.loops, *node.bindings)) | {"index"}
    return own.union(*(_bound(child) for child in node.children))


def _fields(config: Mapping[str, ConfigName]) -> dict[str, str]:
    """Return a Rust field for each short name: the config.json field it starts with, where that is its own."""
    fields: dict[str, str] = {}
    for short, bound in config.items():
        first = next((node.id for node in _leading(bound.expression.tree)), short)
        name = first if first not in fields.values() and (first == short or first not in config) else short
        fields[short] = name if name not in _RESERVED and name.isidentifier() else f"{short}_"
    return fields


def _leading(tree: ast.expr) -> Iterator[ast.Name]:
    """Yield the name an expression is, or begins with before `or`."""
    first = tree.values[0] if isinstance(tree, ast.BoolOp) else tree
    if isinstance(first, ast.Name):
        yield first


def _walk(
    node: TemplateNode,
    path: tuple[str, ...],
    bound: frozenset[str],
    ranges: Mapping[str, str],
    calls: dict[RuleRef, Mapping[int | str, Expression]],
    lengths: dict[tuple[str, ...], str],
) -> None:
    names = {one.name for one in (*node.loops, *node.bindings)}
    bound = bound | names
    ranges = {**ranges, **{loop.name: size for loop in node.loops if (size := _range(loop.expression, bound))}}
    for segment in _segments(node.parts):
        if isinstance(segment, Expression):
            name = segment.text.strip()
            size = ranges.get(name) if name in bound else name
            if size and size.isidentifier():
                lengths.setdefault(path, size)
            path = (*path, "*")
        else:
            path = (*path, segment)
    if node.layer is not None:
        calls[node.layer.rule] = dict(_free(node.layer, bound))
    for child in node.children:
        _walk(child, path, bound, ranges, calls, lengths)


def _range(expression: Expression, bound: frozenset[str]) -> str | None:
    """Return `n` of `range(n)`, where n is a short name."""
    match expression.tree:
        case ast.Call(func=ast.Name(id="range"), args=[ast.Name(id=name)]) if name not in bound:
            return name
    return None


def _segments(parts: tuple[str | Expression, ...]) -> Iterator[str | Expression]:
    """Yield the segments of a key; one that is an expression alone as that, one that is partly so as `*`-like text."""
    segments: list[list[str | Expression]] = [[]]
    for part in parts:
        if isinstance(part, Expression):
            segments[-1].append(part)
            continue
        first, *rest = part.split(".")
        segments[-1].append(first)
        segments += [[text] for text in rest]
    for segment in segments:
        words = [word for word in segment if word != ""]
        if len(words) == 1:
            yield words[0]
        elif words:
            yield "*"


def _free(call: LayerCall, bound: frozenset[str]) -> Iterator[tuple[int | str, Expression]]:
    pairs: list[tuple[int | str, Expression]] = [*enumerate(call.arguments), *call.keywords.items()]
    for key, expression in pairs:
        if expression.names and not expression.names & bound:
            yield key, expression


def _rust(tree: ast.expr, fields: Mapping[str, str]) -> tuple[str, int] | None:
    """Return an expression in Rust and how tightly it binds (3: never needs parentheses)."""
    match tree:
        case ast.Name(id=name) if name in fields:
            return f"config.{fields[name]}", 3
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int(value)) if value >= 0:
            return str(value), 3
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            a, b = _rust(left, fields), _rust(right, fields)
            if a is None or b is None:
                return None
            sign, binds = _OPERATORS[type(op)]
            first = f"({a[0]})" if a[1] < binds else a[0]
            second = f"({b[0]})" if b[1] <= binds and (b[1] < binds or sign in "-/") else b[0]
            return f"{first} {sign} {second}", binds
    return None
