"""Formulas compute what numpy computes in F32, and hold nothing but arithmetic."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from importer.arrays import elementwise, parse_formula, to_numpy
from importer.dtypes import BF16, F32, F64
from importer.errors import TensorError
from tests.builders.programs import Values, stored

POINTS = np.array([0.25, 0.5, 1, 1.75, 3], "<f4")


def rounded(function: Callable[..., Values]) -> Callable[[Values], Values]:
    """Return a function of numpy's as F32 has it when it is rounded once, which numpy's own for F32 does not promise."""
    return lambda x: function(x.astype("f8")).astype("f4")


exp, log, tanh, sin, cos = map(rounded, (np.exp, np.log, np.tanh, np.sin, np.cos))


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("1 + x", lambda x: 1 + x),
        ("-exp(x)", lambda x: -exp(x)),
        ("x * 64 ** -0.5", lambda x: x * np.float32(0.125)),
        (" log(x) / 2 - +sqrt(x) ", lambda x: log(x) / 2 - np.sqrt(x)),
        ("abs(x - 1) * tanh(x)", lambda x: np.abs(x - 1) * tanh(x)),
        ("sin(x) * sin(x) + cos(x) ** 2", lambda x: sin(x) * sin(x) + cos(x) ** 2),
        ("7", np.full_like),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_formula_equals_numpys(formula: str, expected: Callable[..., Values]) -> None:
    wanted = expected(POINTS, 7) if expected is np.full_like else expected(POINTS)
    np.testing.assert_array_equal(to_numpy(elementwise(stored(POINTS, F32), formula)), wanted.astype("f4"))


def test_halves_are_computed_in_f32_and_rounded_once() -> None:
    values = POINTS.astype(BF16.numpy())
    got = to_numpy(elementwise(stored(values, BF16), "exp(x) * exp(x)"))
    wide = exp(values.astype("f4"))
    np.testing.assert_array_equal(got, (wide * wide).astype(BF16.numpy()))


def test_doubles_are_computed_as_doubles() -> None:
    values = np.array([1e-12], "<f8")
    assert to_numpy(elementwise(stored(values, F64), "1 + x"))[0] == 1 + 1e-12


@pytest.mark.parametrize(
    "formula",
    [
        *("", "x +", "y", "x.real", "x[0]", "__import__('os')", "exp(x, x)", "exp(x=x)", "x if x else x", "True", "'x'"),
        *("1j", "lambda: x", "x // 2", "x % 2", "~x", "max(x)", "x" + "+x" * 600, "-" * 900 + "x", "x\0"),
    ],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_anything_else_is_refused(formula: str) -> None:
    with pytest.raises(TensorError):
        parse_formula(formula)
