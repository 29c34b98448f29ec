"""Formulas of recipes (`1 + x`, `-exp(x)`): parsed by walking Python's syntax tree, never evaluated by Python.

Not here: expressions over config.json (`importer.recipes`), which are put in as numbers before a formula comes here.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from importer.arrays import transcendental
from importer.errors import TensorError, shown

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Formula", "parse_formula"]

_MAX_CHARACTERS = 1_000
_MAX_DEPTH = 50
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: lambda base, exponent: _in_double(transcendental.power, base, exponent),
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.UAdd: operator.pos}
_FUNCTIONS = ("abs", "exp", "log", "sqrt", "tanh", "sin", "cos")
_HOW = f"Use x, numbers, + - * / **, parentheses and {', '.join(_FUNCTIONS)}."


@dataclass(frozen=True, slots=True)
class Formula:
    """A checked formula in one variable, `x`."""

    text: str
    _tree: ast.expr

    def value(self, x: np.ndarray) -> np.ndarray:
        """Return the formula's value for every element of `x`, in the type of `x`."""
        import numpy as np

        return np.broadcast_to(np.asarray(_value(self._tree, x), dtype=x.dtype), x.shape)


def parse_formula(text: str) -> Formula:
    """Check a formula.

    Raises:
        TensorError: it is no formula, or holds anything but `x`, numbers, arithmetic and the known functions.
    """
    try:
        if len(text) > _MAX_CHARACTERS:
            raise TensorError(f"the formula is longer than {_MAX_CHARACTERS} characters", how=_HOW)
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise TensorError(f"{shown(text)} is no formula", how=_HOW) from error
    _check(tree, text)
    return Formula(text, tree)


def _check(node: ast.expr, text: str, depth: int = 0) -> None:
    if depth > _MAX_DEPTH:
        raise TensorError(f"the formula {shown(text)} is nested more than {_MAX_DEPTH} deep", how=_HOW)
    match node:
        case ast.Name(id="x"):
            return
        case ast.Constant(value=float() | int() as number) if not isinstance(number, bool):
            return
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            _check(left, text, depth + 1)
            _check(right, text, depth + 1)
        case ast.UnaryOp(op=sign, operand=operand) if type(sign) in _UNARY:
            _check(operand, text, depth + 1)
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            _check(argument, text, depth + 1)
        case _:
            raise TensorError(f"{shown(ast.unparse(node))} cannot be used in the formula {shown(text)}", how=_HOW)


def _value(node: ast.expr, x: np.ndarray) -> Any:
    """Return the value of a node that `_check` has let pass."""
    import numpy as np

    match node:
        case ast.Constant(value=number):
            # In x's own type, so that arithmetic stays in F32 whatever numpy's rules of promotion are.
            return np.asarray(number, dtype=x.dtype)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, x), _value(right, x))
        case ast.UnaryOp(op=sign, operand=operand):
            return _UNARY[type(sign)](_value(operand, x))
        case ast.Call(func=ast.Name(id="abs" | "sqrt" as name), args=[argument]):
            return getattr(np, name)(_value(argument, x))  # rounded right everywhere, as IEEE 754 demands
        case ast.Call(func=ast.Name(id=name), args=[argument]):
            return _in_double(getattr(transcendental, name), _value(argument, x))
        case _:
            return x


def _in_double(function: Callable[..., np.ndarray], *operands: np.ndarray) -> np.ndarray:
    """Return a function's values in the operands' type, computed in F64: the same bytes wherever this runs."""
    import numpy as np

    return function(*(operand.astype(np.float64) for operand in operands)).astype(operands[0].dtype)
