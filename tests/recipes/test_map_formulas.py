"""Formulas of `map`: what does not depend on x is put in as a number."""

from __future__ import annotations

import pytest

from importer.recipes.faults import TextError
from importer.recipes.language.expressions import Value
from importer.recipes.language.map_formulas import check_formula, settle_formula


class Names:
    def lookup(self, name: str) -> Value:
        values: dict[str, Value] = {"hd": 4, "low": -3, "word": "a"}
        return values[name]

    def ask(self, function: str, text: str) -> Value:
        raise AssertionError((function, text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + x", "1 + x"),
        ("-exp(x)", "-exp(x)"),
        ("x * hd ** -0.5", "x * 0.5"),
        ("x * low", "x * -3"),
        ("x ** 2 + low ** 2", "x ** 2 + 9"),
        ("exp(hd) * x", "exp(4) * x"),
        ("x / (hd // 3)", "x / 1"),
    ],
)
def test_names_of_the_config_become_numbers(text: str, expected: str) -> None:
    assert settle_formula(text, Names()) == expected


def test_a_negative_base_keeps_its_parentheses() -> None:
    assert settle_formula("low ** x", Names()) == "(-3) ** x"


@pytest.mark.parametrize("text", ["x +", "open(x)", "x.real", "x if x else 1", "[x]"])
def test_what_is_no_formula_is_refused_without_a_config(text: str) -> None:
    with pytest.raises(TextError):
        check_formula(text)


def test_a_name_without_a_number_is_refused() -> None:
    with pytest.raises(TextError, match="a number is needed"):
        settle_formula("x * word", Names())
