"""Formulas of `map` (`x * hd ** -0.5`): whatever does not depend on `x` is settled from the config and put in as a number.

Not here: what a formula may hold besides (`importer.arrays.parse_expression`), and computing it.
"""

from __future__ import annotations

import ast

from importer.arrays import parse_formula
from importer.errors import TensorError, shown
from importer.recipes.faults import TextError
from importer.recipes.language.expressions import Expression, Scope, Value, check_tree, evaluate, parse_tree

__all__ = ["check_formula", "settle_formula"]


class _AnyScope:
    """Every name is 1: enough to see whether a formula is well formed."""

    def lookup(self, name: str) -> Value:  # noqa: ARG002 - any name will do
        return 1

    def ask(self, function: str, text: str) -> Value:
        raise TextError(f"{function}({shown(text)}) is not available here", how="Give it a name under config.")


def check_formula(text: str) -> str:
    """Return the formula itself.

    Raises:
        TextError: it is no formula, whatever the config says.
    """
    settle_formula(text, _AnyScope())
    return text


def settle_formula(text: str, scope: Scope) -> str:
    """Return the formula in `x` alone.

    Raises:
        TextError: it is no formula, or a name in it has no number.
    """
    settled = ast.unparse(_settled(parse_tree(text), scope))
    try:
        parse_formula(settled)
    except TensorError as error:
        raise TextError(error.what, how=error.how) from error
    return settled


def _settled(node: ast.expr, scope: Scope) -> ast.expr:
    names = frozenset(child.id for child in ast.walk(node) if isinstance(child, ast.Name))
    if names and "x" not in names and _is_plain(node):
        return _number(evaluate(Expression(ast.unparse(node), node, names), scope), node)
    match node:
        case ast.BinOp(left=left, op=op, right=right):
            return ast.BinOp(_settled(left, scope), op, _settled(right, scope))
        case ast.UnaryOp(op=sign, operand=operand):
            return ast.UnaryOp(sign, _settled(operand, scope))
        case ast.Call(func=func, args=arguments, keywords=[]):
            return ast.Call(func, [_settled(argument, scope) for argument in arguments], [])
        case _:
            return node


def _is_plain(node: ast.expr) -> bool:
    """Whether a part is in the language of config expressions (`exp(d)` is not: its argument is)."""
    try:
        check_tree(node)
    except TextError:
        return False
    return True


def _number(value: Value, node: ast.expr) -> ast.expr:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TextError(
            f"{shown(ast.unparse(node))} is {shown(repr(value))}, a number is needed", how="Check the config field."
        )
    # A negative constant needs a node of its own, so that unparsing puts parentheses where they belong.
    positive = ast.Constant(abs(value))
    return ast.UnaryOp(ast.USub(), positive) if value < 0 else positive
