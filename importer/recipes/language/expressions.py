"""Small expressions over config.json (`num_key_value_heads or h`, `c[s - 1] if s else stem`), parsed and evaluated.

Python's grammar gives the tree; a walker over an allow-list of nodes gives the value. Nothing is compiled or run by
Python, and length, depth, magnitude and list size are bounded, because a recipe may come from anywhere and so may the
config it reads. Not here: which names exist (a `Scope` says), and where an expression stands in a recipe.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from importer.errors import shown
from importer.recipes.faults import TextError
from importer.recipes.language.patterns import parse_pattern

__all__ = [
    "Expression",
    "Scope",
    "UnknownNameError",
    "Value",
    "check_tree",
    "evaluate",
    "names_in",
    "parse_expression",
    "parse_tree",
    "whole_number",
]

Value: TypeAlias = "int | float | str | bool | Sequence[Value] | Mapping[str, Value] | None"
"""What an expression can give: JSON's values, with any sequence for a list."""

_MAX_TEXT = 1_000
"""Characters of one expression. Real ones have 10 to 60."""
_MAX_DEPTH = 40
"""Nesting of one expression."""
_MAX_MAGNITUDE = 1 << 63
"""Bound on numbers: tensor sizes are 64-bit."""
_MAX_EXPONENT = 64
_MAX_DIGITS = 18
"""Digits `int` reads from a text."""
_MAX_LIST = 1_000_000
"""Elements of a `range`."""

SCOPE_FUNCTIONS = ("count", "shape", "is_class")
"""Functions that look at the source's tensors, or at the class that config.json names; the scope answers them."""

_ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_ORDER: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_PURE_FUNCTIONS = ("coalesce", "int", "len", "max", "min", "range")
_PLAIN_NODES = (
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.List,
    ast.Tuple,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
)
_HOW = "Use numbers, names, lists, indexing, arithmetic, comparisons, and/or/not, `a if b else c`, len, range, min, max, int, coalesce."


class Scope(Protocol):
    """Gives names their values."""

    def lookup(self, name: str) -> Value:
        """Return the value of a name.

        Raises:
            UnknownNameError: there is no such name.
        """

    def ask(self, function: str, text: str) -> Value:
        """Answer `count('pattern')`, `shape('pattern')` or `is_class('pattern')`."""


class UnknownNameError(TextError):
    """A name or field that does not exist; as an operand of `or` it counts as absent."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that is known to be well formed.

    Attributes:
        text: as written.
        tree: the checked tree.
        names: every name it mentions; an expression without loop names has one value for the whole recipe.
    """

    text: str
    tree: ast.expr = field(compare=False, repr=False)
    names: frozenset[str] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text


def parse_expression(text: str) -> Expression:
    """Return the expression in `text`.

    Raises:
        TextError: it is no expression, or uses something outside the language.
    """
    tree = parse_tree(text)
    check_tree(tree)
    return Expression(text, tree, names_in(tree))


def parse_tree(text: str) -> ast.expr:
    """Return the unchecked tree of `text`, bounded in length."""
    if len(text) > _MAX_TEXT:
        raise TextError(f"an expression of {len(text)} characters is too long", how=f"Keep it below {_MAX_TEXT}.")
    try:
        # Texts in quotes are patterns: a backslash stands for itself, as in Python's raw strings.
        return _not_too_deep(ast.parse(text.strip().replace("\\", "\\\\"), mode="eval").body)
    except SyntaxError as error:
        position = (error.offset or 1) - 1
        raise TextError(f"{shown(text)} is no expression ({error.msg})", how=_HOW, position=position) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise TextError(f"{shown(text)} is no expression", how=_HOW) from error


def _not_too_deep(tree: ast.expr) -> ast.expr:
    """Return the tree; whatever goes through it afterwards, Python's own printing included, recurses.

    Raises:
        TextError: it is nested more than `_MAX_DEPTH` deep.
    """
    level: list[ast.AST] = [tree]
    for _ in range(2 * _MAX_DEPTH):  # an operation and its operator are two nodes
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return tree
    raise TextError("the expression is nested too deeply", how=f"Keep it below {_MAX_DEPTH} levels.")


def check_tree(node: ast.expr, depth: int = 0) -> None:
    """Refuse every node outside the language.

    Raises:
        TextError: with the position of the node.
    """
    if depth > _MAX_DEPTH:
        raise TextError("the expression is nested too deeply", how=f"Keep it below {_MAX_DEPTH} levels.")
    complaint = _complaint(node)
    if complaint:
        raise TextError(complaint, how=_HOW, position=node.col_offset)
    if isinstance(node, ast.Call) and _is_question(node):
        _check_pattern(node.args[0])
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr) and not (isinstance(node, ast.Call) and child is node.func):
            check_tree(child, depth + 1)


def _check_pattern(argument: ast.expr) -> None:
    try:
        parse_pattern(argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else "")
    except TextError as error:
        position = argument.col_offset + 1 + (error.position or 0)
        raise TextError(error.what, how=error.how, position=position) from error


def names_in(tree: ast.expr) -> frozenset[str]:
    """Return every name a tree takes from its scope."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return frozenset(names - set(_PURE_FUNCTIONS))


def _complaint(node: ast.expr) -> str:
    """Return what is wrong with this node itself, or nothing."""
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str()):
            return ""
        case ast.Call():
            return "" if _is_known_call(node) else f"{shown(ast.unparse(node))} is no call of this language"
        case ast.BinOp(op=op):
            return "" if type(op) in _ARITHMETIC else f"the operator in {shown(ast.unparse(node))} is not allowed"
        case ast.UnaryOp(op=ast.Invert()) | ast.Subscript(slice=ast.Slice()):
            return f"{shown(ast.unparse(node))} is not allowed in an expression"
        case _ if isinstance(node, _PLAIN_NODES):
            return ""
        case _:
            return f"{shown(ast.unparse(node))} is not allowed in an expression"


def _is_known_call(node: ast.Call) -> bool:
    is_pure = isinstance(node.func, ast.Name) and node.func.id in _PURE_FUNCTIONS and not node.keywords
    return is_pure or _is_question(node)


def _is_question(node: ast.Call) -> bool:
    """Whether a call asks the scope about the source's tensors, with a text in quotes as its one argument."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str())], keywords=[]):
            return name in SCOPE_FUNCTIONS
        case _:
            return False


def evaluate(expression: Expression, scope: Scope) -> Value:
    """Return the value of an expression.

    Raises:
        UnknownNameError: a name or field does not exist.
        TextError: the values do not fit the operation, or a bound is passed.
    """
    return _value(expression.tree, scope)


def whole_number(value: Value, text: str) -> int:
    """Return `value` as a size.

    Raises:
        TextError: it is no whole number of at least 0.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TextError(
            f"{shown(text)} is {shown(repr(value))}, a whole number of at least 0 is needed",
            how="Use // for division, and check the config fields it is made of.",
        )
    return value


def _value(node: ast.expr, scope: Scope) -> Value:
    match node:
        case ast.Constant(value=value):
            return _bounded(value) if isinstance(value, (int, float)) else str(value) if value is not None else None
        case ast.Name(id=name):
            return scope.lookup(name)
        case ast.Attribute(value=inner, attr=name):
            return _field(_value(inner, scope), name, ast.unparse(inner))
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return tuple(_value(element, scope) for element in elements)
        case ast.Subscript(value=inner, slice=index):
            return _item(_value(inner, scope), _value(index, scope), ast.unparse(node))
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return _value(body if _value(test, scope) else orelse, scope)
        case ast.BoolOp(op=op, values=operands):
            return _either(operands, scope) if isinstance(op, ast.Or) else _all(operands, scope)
        case _:
            return _computed(node, scope)


def _computed(node: ast.expr, scope: Scope) -> Value:
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, scope)
        case ast.UnaryOp(op=op, operand=operand):
            number = _number(_value(operand, scope), operand)
            return -number if isinstance(op, ast.USub) else number
        case ast.BinOp(left=left, op=op, right=right):
            return _arithmetic(op, _number(_value(left, scope), left), _number(_value(right, scope), right), node)
        case ast.Compare():
            return _comparison(node, scope)
        case ast.Call(func=ast.Name(id="coalesce"), args=[_, *_] as operands):
            return _first_given(operands, scope)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _call(name, tuple(_value(argument, scope) for argument in arguments), node, scope)
        case _:
            raise AssertionError(f"check_tree let {ast.dump(node)} pass")


def _either(operands: Sequence[ast.expr], scope: Scope) -> Value:
    """`a or b`: the first that is present and true; a field that does not exist counts as absent, except the last."""
    for operand in operands[:-1]:
        try:
            value = _value(operand, scope)
        except UnknownNameError:
            continue
        if value:
            return value
    return _value(operands[-1], scope)


def _first_given(operands: Sequence[ast.expr], scope: Scope) -> Value:
    """`coalesce(a, b)`: the first that is present and not null, so that a field that says False is heard."""
    for operand in operands[:-1]:
        try:
            value = _value(operand, scope)
        except UnknownNameError:
            continue
        if value is not None:
            return value
    return _value(operands[-1], scope)


def _all(operands: Sequence[ast.expr], scope: Scope) -> Value:
    value: Value = True
    for operand in operands:
        value = _value(operand, scope)
        if not value:
            return value
    return value


def _field(value: Value, name: str, text: str) -> Value:
    if isinstance(value, Mapping) and name in value:
        return value[name]
    what = f"{shown(text)} has no field {shown(name)}" if isinstance(value, Mapping) else f"{shown(text)} has no fields"
    raise UnknownNameError(what, how="Check the names in config.json; `a or b` gives a value for a missing one.")


def _item(value: Value, index: Value, text: str) -> Value:
    if isinstance(value, Mapping) and isinstance(index, str):
        return _field(value, index, text)
    if isinstance(value, Sequence) and isinstance(index, int) and -len(value) <= index < len(value):
        return value[index]
    how = "Check the config field: it may be null, shorter, or no list."
    raise TextError(f"{shown(text)} does not exist (the index is {shown(repr(index))})", how=how)


def _number(value: Value, node: ast.expr) -> float:
    if isinstance(value, (int, float)):
        return value
    what = f"{shown(ast.unparse(node))} is {shown(repr(value))}, a number is needed"
    raise TextError(what, how="Give a value for a null field with `field or default`.")


def _arithmetic(op: ast.operator, left: float, right: float, node: ast.expr) -> float:
    if isinstance(op, ast.Pow) and abs(right) > _MAX_EXPONENT:
        raise TextError(
            f"the exponent in {shown(ast.unparse(node))} is too large", how=f"Keep it within {_MAX_EXPONENT}."
        )
    try:
        result = _ARITHMETIC[type(op)](left, right)
    except (ZeroDivisionError, OverflowError) as error:
        raise TextError(f"{shown(ast.unparse(node))} cannot be computed ({error})", how="Check the config.") from error
    return _bounded(result)


def _bounded(number: float) -> float:
    if isinstance(number, complex) or not -_MAX_MAGNITUDE <= number <= _MAX_MAGNITUDE:
        raise TextError(
            "a number leaves the range of 64 bits", how="Check the config; sizes of tensors are far smaller."
        )
    return number


def _comparison(node: ast.Compare, scope: Scope) -> bool:
    left = _value(node.left, scope)
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = _value(right_node, scope)
        if not _compare(op, left, right, node):
            return False
        left = right
    return True


def _compare(op: ast.cmpop, left: Value, right: Value, node: ast.expr) -> bool:
    match op:
        case ast.Eq() | ast.Is():
            return left == right
        case ast.NotEq() | ast.IsNot():
            return left != right
        case ast.In():
            return _contains(right, left, node)
        case ast.NotIn():
            return not _contains(right, left, node)
        case _:
            return _ORDER[type(op)](_number(left, node), _number(right, node))


def _contains(collection: Value, element: Value, node: ast.expr) -> bool:
    if isinstance(collection, str) and isinstance(element, str):
        return element in collection
    if isinstance(collection, (Sequence, Mapping)) and not isinstance(collection, str):
        return element in collection
    raise TextError(f"{shown(ast.unparse(node))} needs a list", how="Check the config field on the right of `in`.")


def _call(name: str, arguments: tuple[Value, ...], node: ast.expr, scope: Scope) -> Value:
    if name in SCOPE_FUNCTIONS:
        return scope.ask(name, str(arguments[0]))
    match name, arguments:
        case "len", (value,) if isinstance(value, (Sequence, Mapping)):
            return len(value)
        case "int", (value,) if isinstance(value, (int, float)):
            return int(value)
        case "int", (str() as text,) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS:
            return int(text)
        case "range", (_,) | (_, _) | (_, _, _):
            return _range(arguments, node)
        case (("min" | "max"), values) if values:
            found = values[0] if len(values) == 1 and isinstance(values[0], Sequence) else values
            numbers = [_number(value, node) for value in found]
            if numbers:
                return min(numbers) if name == "min" else max(numbers)
    raise TextError(f"{shown(ast.unparse(node))} does not fit its arguments", how=_HOW)


def _range(bounds: tuple[Value, ...], node: ast.expr) -> Value:
    numbers = [bound for bound in bounds if isinstance(bound, int)]
    if len(numbers) != len(bounds) or 0 in numbers[2:]:
        raise TextError(f"{shown(ast.unparse(node))} needs whole numbers", how="Check the config fields in it.")
    found = range(*numbers)
    if len(found) > _MAX_LIST:
        raise TextError(f"{shown(ast.unparse(node))} is too long", how=f"A range has at most {_MAX_LIST} elements.")
    return found
