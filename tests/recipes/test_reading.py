"""Faults of a recipe file: every one is found, each with its line and column, all at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from importer.errors import LimitError, RecipeError
from importer.limits import DEFAULT_LIMITS
from importer.recipes import check_recipe, parse_recipe
from importer.recipes.reading.document import read_recipe

TEN_FAULTS = r"""recipe: 2
name: my model
rnames: []
drop: ['(?=x)']
rename:
  - ['^a\.', '$1.']
  - ['only one']
tensors:
  - {match: '^b$', splt: 3, into: ['x']}
target:
  fc: Liner(3, 4)
  out: Linear(3)
dtype: flaot32
"""

# What the file says at that place, in the order of the file: line, column, and a word of the message.
EXPECTED = [
    (1, 9, "version 1"),
    (2, 7, "no name for a recipe"),
    (3, 1, "has no key 'rnames'"),
    (4, 9, "look-ahead"),
    (6, 15, "$1 does not exist"),
    (7, 5, "a list stands where a pair"),
    (9, 5, "no operation"),
    (9, 20, "has no key 'splt'"),
    (11, 7, "no layer 'Liner'"),
    (12, 8, "lacks out"),
    (13, 8, "'flaot32' is no"),
]


def faults_of(text: str) -> list[tuple[int | None, int | None, str]]:
    return [
        (fault.where.line, fault.where.column, fault.what)
        for fault in read_recipe(text, "r.yaml").faults.sorted()
        if fault.where is not None
    ]


def body(section: str) -> str:
    return f"recipe: 1\nname: x\ntypes: []\n{section}"


def test_a_recipe_with_ten_faults_reports_all_of_them_with_line_and_column() -> None:
    found = faults_of(TEN_FAULTS)
    assert [(line, column) for line, column, _ in found] == [(line, column) for line, column, _ in EXPECTED]
    for (_, _, what), (_, _, word) in zip(found, EXPECTED, strict=True):
        assert word in what


def test_all_faults_arrive_in_one_error() -> None:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(TEN_FAULTS, "my.yaml")
    assert len(caught.value.faults) == len(EXPECTED)
    for line, column, _ in EXPECTED:
        assert f"my.yaml:{line}:{column}: " in str(caught.value)


@pytest.mark.parametrize(
    ("section", "line", "column", "what", "how"),
    [
        pytest.param("renames: []", 4, 1, "no key 'renames'", "Did you mean rename?", id="misspelt section"),
        pytest.param("rename: x", 4, 9, "the text 'x' stands where a list", "", id="text for a list"),
        pytest.param("rename: {a: b}", 4, 9, "a mapping stands where", "", id="mapping for a list"),
        pytest.param("rename:", 4, 8, "nothing (null) stands where", "", id="empty section"),
        pytest.param("drop: [[a]]", 4, 8, "a list stands where a pattern", "single quotes", id="list for a pattern"),
        pytest.param("drop: [null]", 4, 8, "nothing (null)", "", id="null for a pattern"),
        pytest.param("drop: ['a(b']", 4, 10, "( without its )", "", id="position in a quoted pattern"),
        pytest.param("drop: [a(b]", 4, 9, "( without its )", "", id="position in a plain pattern"),
        pytest.param("drop:\n  - >-\n    a(b", 5, 5, "( without its )", "", id="a block has the place of its start"),
        pytest.param("rename: [['a', '\\1']]", 4, 17, r"'\1' is no capture", "Write $1", id="python's capture"),
        pytest.param("rename: [['{i}', '{j}']]", 4, 18, "captures no number 'j'", "{j}", id="unknown number"),
        pytest.param("config: {1a: d}", 4, 10, "'1a' is no name", "", id="config name"),
        pytest.param("config: {a: d; e}", 4, 14, "is no expression", "", id="config expression"),
        pytest.param("config: {a: [1]}", 4, 13, "a list stands where an expression", "quotes", id="config list"),
        pytest.param("strip: 3", 4, 8, "the number 3 stands", "", id="number for a prefix"),
        pytest.param("alias: {a: [b]}", 4, 12, "a list stands where text", "", id="alias list"),
        pytest.param("stored_as: {conv1d: a}", 4, 13, "'conv1d' is not known here", "Conv1D", id="layout"),
        pytest.param("renumber: false", 4, 11, "the truth value false", "", id="renumber false"),
        pytest.param("variants: drop", 4, 11, "'drop' is not known", "keep or skip", id="variants"),
        pytest.param("accepts: [{}]", 4, 11, "no condition", "", id="accepts everything"),
        pytest.param("accepts: [{names: [a], nmes: [a]}]", 4, 24, "no key 'nmes'", "names", id="accepts key"),
        pytest.param("config: {a: \"count('a(')\"}", 4, 22, "( without its )", "", id="pattern in an expression"),
        pytest.param("accepts: [{config: 3}]", 4, 20, "the number 3 stands", "", id="accepts config"),
        pytest.param("accepts: [[a]]", 4, 11, "a list stands where text", "", id="accepts list"),
        pytest.param("dtype: [a]", 4, 8, "a list stands where", "", id="dtype list"),
        pytest.param("accepts: [3]", 4, 11, "the number 3 stands", "", id="accepts number"),
        pytest.param("rename: [[a, '$1', c]]", 4, 10, "a list stands where a pair", "", id="rename of three"),
        pytest.param("rename: [[a, [b]]]", 4, 14, "a list stands where a replacement", "", id="list for a replacement"),
        pytest.param("dtype: {defalt: f32}", 4, 9, "no key 'defalt'", "default", id="dtype key"),
        pytest.param("tensors: [{match: [a, b], concat: x, into: c}]", 4, 35, "a whole number", "", id="axis"),
        pytest.param("extends: [a]", 4, 10, "a list stands where text", "", id="extends list"),
        pytest.param("types: [['a', Foo]]", 4, 1, "the key 'types' stands twice", "", id="duplicate section"),
        pytest.param("dtype: {rules: [[a, f64x]]}", 4, 21, "'f64x' is no", "", id="dtype rule"),
        pytest.param("dtype: {ints: float32}", 4, 15, "'float32' is no integer", "", id="dtype of ints"),
        pytest.param("dtype: {default: int8}", 4, 18, "'int8' is no floating", "", id="dtype of floats"),
        pytest.param("dtype: {rules: [[a]]}", 4, 17, "a list stands where a pair", "", id="dtype pair"),
    ],
)
def test_each_fault_has_a_place_and_a_way_out(section: str, line: int, column: int, what: str, how: str) -> None:
    faults = read_recipe(body(section), "r.yaml").faults.sorted()
    assert faults
    fault = faults[0]
    assert fault.where is not None
    assert (fault.where.line, fault.where.column) == (line, column)
    assert what in fault.what
    assert how in fault.how


@pytest.mark.parametrize(
    ("step", "what"),
    [
        ("{rearrange: 'a -> a'}", "lacks the key 'match'"),
        ("{match: a}", "no operation"),
        ("{match: a, split: 2, map: x, into: [a, b]}", "has split and map"),
        ("{match: a, rearrange: 'a b -> b c'}", ""),
        ("{match: a, rearrange: 'a -> a', dim: 1}", "rearrange has no 'dim'"),
        ("{match: a, map: x, sizes: {h: 2}}", "map has no 'sizes'"),
        ("{match: a, map: 'x +'}", "is no"),
        ("{match: a, split: 2}", "split needs 'into'"),
        ("{match: a, split: 2, into: [b]}", "split gives 2 parts, 'into' names 1"),
        ("{match: a, split: [1, 2], into: [b, c, d]}", "split gives 2 parts, 'into' names 3"),
        ("{match: a, split: [1, 'x +'], into: [b, c]}", "is no expression"),
        ("{match: a, concat: 0, into: b}", "at least 2 patterns"),
        ("{match: [a, b], concat: 0}", "concat needs 'into'"),
        ("{match: [a, b], concat: 0, into: [x, y]}", "concat gives one tensor"),
        ("{match: ['(a)', b], concat: 0, into: x}", "different numbers of captures"),
        ("{match: [a, b, c], weight_norm: {}, into: x}", "weight_norm needs 2 patterns"),
        ("{match: [a, b], spectral_norm: {}, into: x}", "spectral_norm needs 3 patterns"),
        ("{match: '(a)', stack: 1, into: x}", "stands where a capture"),
        ("{match: a, unstack: yes, into: 'x.{i}'}", "stands where true"),
        ("{match: a, unstack: true, into: 'x.{j}'}", "captures no number 'j'"),
        ("{match: a, slice: {form: 2}}", "no key 'form'"),
        ("{match: a, slice: 2}", "stands where slice"),
        ("{match: a, map: x, into: '$1'}", "$1 does not exist"),
        ("{match: a, map: x, when: 'a b'}", "is no expression"),
        ("{match: a, map: x, into: [null]}", "map gives one tensor"),
        ("text", "stands where a step"),
    ],
)
def test_a_step_whose_keys_do_not_go_together_is_refused(step: str, what: str) -> None:
    faults = read_recipe(body(f"tensors:\n  - {step}"), "r.yaml").faults.sorted()
    assert faults
    assert what in faults[0].what


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("{a: Linear}", "is no layer"),
        ("{a: 'Linear(1, 2, 3, 4, 5, 6)'}", "takes at most"),
        ("{a: 'Linear(1, 2, bais=False)'}", "no argument 'bais'"),
        ("{a: 'Linear(1, 2, bias=True, bias=False)'}", "given 'bias' twice"),
        ("{a: 'Param(d=1)'}", "no argument 'd'"),
        ("{a: 'Linear(1, [x for x in y])'}", "not allowed"),
        ("{'a.{': 'Linear(1, 2)'}", "{ without its }"),
        ("{'a}': 'Linear(1, 2)'}", "} without its {"),
        ("{'a..b': 'Linear(1, 2)'}", "empty segment"),
        ("{a: [b]}", "a list under 'target' holds mappings"),
        ("{a: {for: {1x: range(2)}}}", "'1x' is no name"),
        ("{a: {when: 'a b', b: 'Linear(1, 2)'}}", "is no expression"),
        ("{a: null}", "removes nothing"),
        ("{a: {b: null}}", "removes nothing"),
        ("3", "the number 3 stands where"),
    ],
)
def test_a_template_that_cannot_be_is_refused(target: str, what: str) -> None:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(f"recipe: 1\nname: x\ntarget: {target}", "r.yaml")
    assert what in caught.value.faults[0].what


@pytest.mark.parametrize("rule", ["a", "[a]", "[a, [Linear]]", "[a, 'Linear(']", "['(', Linear]"])
def test_a_type_that_cannot_be_is_refused(rule: str) -> None:
    assert read_recipe(f"recipe: 1\nname: x\ntypes: [{rule}]\n", "r.yaml").faults.found


def test_an_empty_file_is_told_as_such() -> None:
    assert faults_of("") == [(1, 1, "the file is empty")]


def test_a_recipe_without_rules_is_told_as_such() -> None:
    assert [what for _, _, what in faults_of("recipe: 1\nname: x\n")] == ["a recipe without rules"]


def test_a_list_is_no_recipe() -> None:
    assert "a list stands where a recipe" in faults_of("- a")[0][2]


def test_a_file_that_is_too_long_is_refused() -> None:
    with pytest.raises(LimitError) as caught:
        read_recipe("#" * 100, "r.yaml", replace(DEFAULT_LIMITS, max_recipe_bytes=50))
    assert caught.value.limit == "max_recipe_bytes"


def test_rules_know_their_lines() -> None:
    recipe = parse_recipe("recipe: 1\nname: x\nrename:\n  - ['^a$', 'b']\n  - ['^b\\.', 'c.']\n", "dir/my.yaml")
    assert [str(rename.rule) for rename in recipe.rename] == ["my.yaml:4 rename '^a$'", r"my.yaml:5 rename '^b\.'"]


def test_a_single_value_stands_for_a_list_of_one() -> None:
    recipe = parse_recipe("recipe: 1\nname: x\ntypes: []\ndrop: '^a$'\nkeep: b\nunwrap: model\nstrip: m.\n")
    assert [rule.pattern.text for rule in (*recipe.drop, *recipe.keep)] == ["^a$", "b"]
    assert [prefix.text for prefix in (*recipe.unwrap, *(recipe.strip or ()))] == ["model", "m."]


def test_checking_a_file_returns_its_faults_instead_of_raising(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(TEN_FAULTS, encoding="utf-8")
    assert len(check_recipe(path)) == len(EXPECTED)


def test_types_beside_a_target_are_refused() -> None:
    text = "recipe: 1\nname: x\ntarget: {a: 'Linear(1, 2)'}\ntypes: [['^b$', Linear]]\n"
    assert faults_of(text) == [(4, 8, "`types` has no effect beside `target`")]
