"""Templates: loops, conditions and names become paths; layers become shapes; faults are told once and all together."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

import pytest

from importer.errors import LimitError, RecipeError
from importer.recipes import Template, apply_recipe, parse_recipe
from tests.builders.named import of_shapes

CONFIG: Mapping[str, object] = {
    "d": 4,
    "n": 2,
    "widths": [8, 16],
    "text": {"d": 6},
    "dense": 1,
    "kind": "small",
    "zero": 0,
}


def template(target: str, config: Mapping[str, object] | None = CONFIG, extra: str = "") -> Template:
    recipe = parse_recipe(f"recipe: 1\nname: t\n{extra}target:\n  " + target.replace("\n", "\n  "), "t.yaml")
    found = apply_recipe(recipe, of_shapes({"a.0.w": (5, 3), "a.1.w": (5, 3)}), config).template
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param("fc: Linear(d, 2 * d)", {"fc.weight": (4, 8), "fc.bias": (8,)}, id="layer"),
        pytest.param("fc: Linear(text.d, 3, bias=False)", {"fc.weight": (6, 3)}, id="nested field"),
        pytest.param("norm: LayerNorm(d)", {"norm.gamma": (4,), "norm.beta": (4,)}, id="norm"),
        pytest.param("cls: Param(1, 1, d)", {"cls": (1, 1, 4)}, id="bare parameter"),
        pytest.param("norm.weight: Param(d)", {"norm.weight": (4,)}, id="own norm struct"),
        pytest.param("conv: Conv2d(3, d, [3, 1], bias=False)", {"conv.weight": (4, 3, 3, 1)}, id="kernel by list"),
        pytest.param("l.{n}:\n  p: Param(d)", {"l.0.p": (4,), "l.1.p": (4,)}, id="counting loop"),
        pytest.param("l.{n}.p: Param(d)", {"l.0.p": (4,), "l.1.p": (4,)}, id="loop in a leaf"),
        pytest.param("l.{zero}.p: Param(d)", {}, id="no turns"),
        pytest.param(
            "l.{n}.e.{n}.p: Param(d)",
            {f"l.{i}.e.{j}.p": (4,) for i in range(2) for j in range(2)},
            id="two loops in a key",
        ),
        pytest.param("l.{n}:\n  p: Param(index + 1)", {"l.0.p": (1,), "l.1.p": (2,)}, id="position in a loop"),
        pytest.param(
            "l.{n}:\n  a: {when: index < dense, p: Param(1)}\n  b: {when: index >= dense, p: Param(2)}",
            {"l.0.a.p": (1,), "l.1.b.p": (2,)},
            id="condition on the position",
        ),
        pytest.param(
            "l.{n}:\n  m:\n    - {when: index < dense, p: Param(1)}\n    - {when: index >= dense, p: Param(2)}",
            {"l.0.m.p": (1,), "l.1.m.p": (2,)},
            id="list with conditions",
        ),
        pytest.param("a: {when: d > 4, is: Param(d)}\nb: {when: d == 4, is: Param(d)}", {"b": (4,)}, id="layer with when"),
        pytest.param(
            "'s{i + 1}':\n  for: {i: range(2)}\n  let: {w: 'widths[i]'}\n  p: Param(w)",
            {"s1.p": (8,), "s2.p": (16,)},
            id="for and let",
        ),
        pytest.param(
            "x.{i}.{j}:\n  for: {i: range(2), j: range(i + 1)}\n  p: Param(i, j)",
            {"x.0.0.p": (0, 0), "x.1.0.p": (1, 0), "x.1.1.p": (1, 1)},
            id="an inner range uses an outer name",
        ),
        pytest.param("'{s}.p':\n  for: {s: \"['a', 'b']\"}\n  q: Param(1)", {"a.p.q": (1,), "b.p.q": (1,)}, id="words"),
        pytest.param("l:\n  let: {a: d, b: a + 1}\n  p: Param(b)", {"l.p": (5,)}, id="names use earlier names"),
        pytest.param("{kind}.p: Param(1)", {"small.p": (1,)}, id="a word from the config"),
    ],
)  # fmt: skip
def test_a_template_gives_names_and_shapes_in_order(target: str, expected: dict[str, tuple[int, ...]]) -> None:
    target = target.replace("{kind}.p: Param(1)", "'{kind}.p': Param(1)")
    found = template(target).shapes()
    assert found == expected
    assert list(found) == list(expected)


def test_variants_are_kept_or_skipped() -> None:
    target = "blocks.{n}.<Basic>:\n  p: Param(1)"
    assert list(template(target).shapes()) == ["blocks.0.Basic.p", "blocks.1.Basic.p"]
    assert list(template(target, extra="variants: skip\n").shapes()) == ["blocks.0.p", "blocks.1.p"]


def test_the_source_can_be_asked_for_counts_and_shapes() -> None:
    extra = "config:\n  n: layers or count('^a[.]\\d+[.]w$')\n  d: shape('[.]w$')[0]\n"
    assert template("l.{n}.p: Param(d)", None, extra).shapes() == {"l.0.p": (5,), "l.1.p": (5,)}


def test_a_shape_nobody_has_is_a_missing_field() -> None:
    extra = "config:\n  d: shape('nobody')[0] or 7\n  e: shape('nobody')[0]\n"
    assert template("p: Param(d)", None, extra).shapes() == {"p": (7,)}
    with pytest.raises(RecipeError, match="no tensor of the source matches 'nobody'"):
        template("p: Param(e)", None, extra)


def test_questions_can_be_asked_in_loops_and_again() -> None:
    target = "l.{n}.p: Param(count('[.]w$') + index)\nq: Param(count('[.]w$'))"
    assert template(target).shapes() == {"l.0.p": (2,), "l.1.p": (3,), "q": (2,)}


def test_values_that_json_does_not_have_are_text() -> None:
    assert template("'{day}.p': Param(1)", {"day": date(2026, 1, 2)}).shapes() == {"2026-01-02.p": (1,)}


def test_a_short_name_means_the_field_inside_its_own_expression() -> None:
    assert template("p: Param(d)", CONFIG, "config: {d: d or 3}\n").shapes() == {"p": (4,)}


def test_names_nobody_uses_may_speak_of_missing_fields() -> None:
    assert template("p: Param(d)", CONFIG, "config: {other: missing_field}\n").shapes() == {"p": (4,)}


def test_layers_know_their_arguments_and_lines() -> None:
    layer = template("a: Param(1)\nfc: Linear(d, 3)").layers["fc"]
    assert layer.kind == "Linear"
    assert layer.args["bias"] is True
    assert str(layer.rule) == "t.yaml:5 target 'Linear(d, 3)'"


@pytest.mark.parametrize(
    ("target", "extra", "line", "what"),
    [
        pytest.param("p: Param(dd)", "", 4, "config.json has no field 'dd'", id="unknown field"),
        pytest.param("p: Param(w)", "config: {w: hidden}\n", 3, "config.json has no field 'hidden'", id="in a short name"),
        pytest.param("p: Param(text.dd)", "", 4, "'text' has no field 'dd'", id="unknown nested field"),
        pytest.param("p: Param(d / 3)", "", 4, "which no layer takes", id="no whole number"),
        pytest.param("p: Param(d - 9)", "", 4, "must be", id="negative size"),
        pytest.param("l.{d - 9}.p: Param(1)", "", 4, "a whole number", id="negative index"),
        pytest.param("l.{widths}.p: Param(1)", "", 4, "a whole number", id="list as an index"),
        pytest.param("l:\n  for: {i: d}\n  p: Param(1)", "", 5, "needs a list or a range", id="for over a number"),
        pytest.param("l:\n  let: {i: missing}\n  p: Param(i)", "", 5, "no field 'missing'", id="let with a fault"),
        pytest.param("p: {when: missing, is: Param(1)}", "", 4, "no field 'missing'", id="when with a fault"),
        pytest.param("a: Param(1)\n'{s}': {for: {s: \"['a']\"}, is: Param(2)}", "", 5, "is given twice", id="path given twice"),
        pytest.param("p: Param(a)", "config: {a: b, b: a}\n", 3, "go in a circle: a -> b -> a", id="circle of names"),
        pytest.param("p: Param(kind[0])", "", 4, "", id="text as a size"),
        pytest.param("c: Conv1d(3, 4, 1, groups=2)", "", 4, "", id="a layer that cannot be"),
    ],
)  # fmt: skip
def test_a_template_that_does_not_fit_the_config_is_a_fault_at_its_line(
    target: str, extra: str, line: int, what: str
) -> None:
    with pytest.raises(RecipeError) as caught:
        template(target, CONFIG, extra)
    fault = caught.value.faults[0]
    assert what in fault.what
    assert fault.where is not None
    assert fault.where.line == line


def test_near_names_are_given_for_an_unknown_field() -> None:
    with pytest.raises(RecipeError) as caught:
        template("p: Param(wdths)")
    assert "widths" in caught.value.how


def test_without_a_config_the_missing_file_is_named() -> None:
    with pytest.raises(RecipeError, match="there is no config"):
        template("p: Param(d)", None)


def test_faults_in_a_loop_are_told_once_and_all_places_together() -> None:
    with pytest.raises(RecipeError) as caught:
        template("l.{n}:\n  p: Param(x1)\n  q: Param(x2)\nr: Param(x3)")
    assert [fault.where.line for fault in caught.value.faults if fault.where is not None] == [5, 6, 7]


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("l.{n}.p: Param(1)", id="one count"),
        pytest.param("l.{m}: TransformerEncoder(8, 8, 9_000)", id="many layers in one"),
        pytest.param("l.{m}: Lstm(8, 8, layers=9_000)", id="many recurrent layers in one"),
        pytest.param("l:\n  for: {i: range(4000), j: range(4000)}\n  p: Param(1)", id="many turns"),
        pytest.param(
            "l:\n  for: {i: range(4000), j: range(4000), k: range(0)}\n  p: Param(1)", id="turns without layers"
        ),
    ],
)
def test_a_template_far_larger_than_the_source_is_refused(target: str) -> None:
    with pytest.raises(LimitError, match="max_layers_per_tensor"):
        template(target, {"n": 10**9, "m": 60})
