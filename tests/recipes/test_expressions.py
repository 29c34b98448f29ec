"""Expressions: what they may hold, what they give, and the bounds on both."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.recipes.faults import TextError
from importer.recipes.language.expressions import UnknownNameError, Value, evaluate, parse_expression, whole_number


class Names:
    """A scope of plain values."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.values = values

    def lookup(self, name: str) -> Value:
        if name in self.values:
            return self.values[name]
        raise UnknownNameError(f"no {name}", how="")

    def ask(self, function: str, text: str) -> Value:
        return f"{function} {text}"


CONFIG = Names(
    {"d": 12, "h": 4, "kv": None, "c": [64, 128], "text": {"d": 7, "none": None}, "act": "silu", "new": True}
)


def value_of(text: str) -> Value:
    return evaluate(parse_expression(text), CONFIG)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4 * d", 48),
        ("d // h", 3),
        ("d % 5", 2),
        ("h ** -0.5", 0.5),
        ("-d + 1", -11),
        ("kv or h", 4),
        ("missing or h", 4),
        ("missing or kv or 1", 1),
        ("text.d", 7),
        ("text.missing or d", 12),
        ("text['d']", 7),
        ("kv.field or 2", 2),
        ("c[1]", 128),
        ("c[-1]", 128),
        ("c[0] if new else c[1]", 64),
        ("[1, d][1]", 12),
        ("len(c)", 2),
        ("len(text)", 2),
        ("min(d, h)", 4),
        ("max(c)", 128),
        ("int(2.9)", 2),
        ("int('3')", 3),
        ("len(range(3))", 3),
        ("act == 'silu'", True),
        ("act in ['gelu', 'silu']", True),
        ("'si' in act", True),
        ("3 not in c", True),
        ("kv is None", True),
        ("1 < h <= 4 != 5", True),
        ("not new", False),
        ("new and d", 12),
        ("kv and d", None),
        (r"count('\.q_proj\.')", r"count \.q_proj\."),
    ],
)
def test_an_expression_gives_its_value(text: str, expected: Value) -> None:
    assert value_of(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')",
        "d.__class__()",
        "(lambda: 1)()",
        "[x for x in c]",
        "c[0:1]",
        "d | 1",
        "~d",
        "f'{d}'",
        "b'x'",
        "1j",
        "{1: 2}",
        "d := 1",
        "open('x')",
        "len(c, key=1)",
        "count(d)",
        "(1).real()",
        "...",
        "",
        "1 +",
        "*c",
        "a b",
        "\x00",
        "await d",
        "count('(')",
    ],
)
def test_anything_outside_the_language_is_refused(text: str) -> None:
    with pytest.raises(TextError):
        parse_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "9 ** 60",
        "2 ** 1000",
        "9223372036854775807 * 2",
        "0 ** -1",
        "(-8) ** 0.5",
        "d // 0",
        "d % 0",
        "len(range(10 ** 9))",
        "range(1, 2, 0)",
        "range('a')",
        "c[2]",
        "kv[0]",
        "kv + 1",
        "act * 2",
        "act < 2",
        "3 in d",
        "max()",
        "max([])",
        "len(d)",
        "int(act)",
        "missing",
        "text.missing",
        "d.x",
    ],
)
def test_what_cannot_be_computed_is_a_fault(text: str) -> None:
    with pytest.raises(TextError):
        value_of(text)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(TextError):
        parse_expression("[" * 60 + "]" * 60)


def test_a_chain_of_signs_is_refused() -> None:
    with pytest.raises(TextError):
        parse_expression("-" * 300 + "1")


def test_an_expression_tells_which_names_it_takes_from_its_scope() -> None:
    assert parse_expression("max(d, len(c)) + text.d").names == {"d", "c", "text"}


def test_a_long_expression_is_refused() -> None:
    with pytest.raises(TextError, match="too long"):
        parse_expression("1 + " * 1_000 + "1")


@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.sampled_from(["+", "-", "*", "//", "%", "<", ">="]))
def test_arithmetic_is_pythons(a: int, b: int, symbol: str) -> None:
    operators: dict[str, Callable[[int, int], object]] = {
        "+": operator.add,
        "-": operator.sub,
        "*": operator.mul,
        "//": operator.floordiv,
        "%": operator.mod,
        "<": operator.lt,
        ">=": operator.ge,
    }
    if symbol in {"//", "%"} and b == 0:
        return
    assert evaluate(parse_expression(f"a {symbol} b"), Names({"a": a, "b": b})) == operators[symbol](a, b)


@given(st.text(max_size=40))
def test_any_text_gives_an_expression_or_a_fault(text: str) -> None:
    try:
        evaluate(parse_expression(text), CONFIG)
    except TextError:
        return


@pytest.mark.parametrize("value", [True, -1, 2.0, "3", None, [1]])
def test_a_size_must_be_a_whole_number(value: Value) -> None:
    with pytest.raises(TextError):
        whole_number(value, "x")
