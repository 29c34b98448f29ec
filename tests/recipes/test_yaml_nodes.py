"""YAML as a tree with places: what is left out of YAML, and the values of plain scalars."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from importer.recipes.faults import Faults
from importer.recipes.reading.yaml_nodes import ListNode, MappingNode, Scalar, parse_yaml

DATA = Path(__file__).resolve().parent / "data"


def faults_of(text: str) -> list[tuple[int | None, int | None, str]]:
    faults = Faults("r.yaml")
    parse_yaml(text, faults)
    return [(f.where.line, f.where.column, f.what) for f in faults.found if f.where is not None]


def scalar(text: str) -> str | int | bool | None:
    root = parse_yaml(text, Faults("r.yaml"))
    assert isinstance(root, Scalar)
    return root.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("word", "word"),
        ("12", 12),
        ("-3", -3),
        ("'12'", "12"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("1.5", "1.5"),
        ("0x10", "0x10"),
        ("2024-01-01", "2024-01-01"),
        ("1_000", "1_000"),
    ],
)
def test_a_plain_scalar_is_text_unless_it_is_plainly_something_else(text: str, value: object) -> None:
    assert scalar(text) == value


@pytest.mark.parametrize(
    ("text", "line", "column", "what"),
    [
        pytest.param("a: &x 1\nb: 2", 1, 4, "anchor &x", id="anchor"),
        pytest.param("a: &x 1\nb: *x", 2, 4, "alias *x", id="alias"),
        pytest.param("a: !!python/object:os.system 1", 1, 4, "tag", id="tag"),
        pytest.param("a: !local 1", 1, 4, "tag", id="local tag"),
        pytest.param("a: 1\nb: 2\na: 3", 3, 1, "'a' stands twice (first in line 1)", id="duplicate key"),
        pytest.param("? [a]\n: 1", 1, 3, "a key must be text", id="list as a key"),
        pytest.param("a: 1\n---\nb: 2", 2, 1, "second document", id="second document"),
        pytest.param("a: ]", 1, 4, "no valid YAML", id="closed list"),
        pytest.param('a: "\\."', 1, 5, "no valid YAML", id="a pattern in double quotes"),
        pytest.param("a:\n\t- 1", 2, 1, "no valid YAML", id="tab"),
        pytest.param("a: \x01", 1, 1, "no valid YAML", id="control character"),
    ],
)
def test_what_a_recipe_does_not_need_is_refused_with_its_place(text: str, line: int, column: int, what: str) -> None:
    found = faults_of(text)
    assert (line, column) in [(at, col) for at, col, _ in found]
    assert any(what in message for _, _, message in found)


def test_reading_goes_on_behind_a_fault() -> None:
    assert len(faults_of("a: &x 1\nb: !t 2\nb: 3\nc: *x")) == 4


def test_deep_nesting_is_refused() -> None:
    assert any("too deeply" in what for _, _, what in faults_of("[" * 100 + "]" * 100))


def test_both_of_pyyamls_parsers_give_the_same_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(DATA.glob("*.yaml"))]
    fast = [parse_yaml(text, Faults("r.yaml")) for text in texts]
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert [parse_yaml(text, Faults("r.yaml")) for text in texts] == fast


def test_nodes_know_their_places() -> None:
    root = parse_yaml("a:\n  - 'x'\n  - {b: c}\n", Faults("r.yaml"))
    assert isinstance(root, MappingNode)
    listed = root.pairs[0][1]
    assert isinstance(listed, ListNode)
    assert [(item.line, item.column) for item in listed.items] == [(2, 5), (3, 5)]
    quoted = listed.items[0]
    assert isinstance(quoted, Scalar)
    assert quoted.quoted
    assert quoted.indent == 1
