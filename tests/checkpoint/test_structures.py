"""Contents of containers and objects, plain or as calls."""

from __future__ import annotations

import pytest

from importer.checkpoint.structures import attributes, elements, is_mapping, is_sequence, items, key_text
from importer.unpickling import Global
from tests.builders.pickles import call, ordered


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": 1}, [("a", 1)]),
        (ordered({"a": 1}), [("a", 1)]),
        (call("collections.OrderedDict", entries={"c": 3}), [("c", 3)]),
        (call("collections.defaultdict", Global("builtins", "list"), entries={"a": 1}), [("a", 1)]),
        (call("mine.Dict", {"ignored": 0}, entries={"a": 1}), [("a", 1)]),
        ([1], []),
        (None, []),
    ],
    ids=lambda item: repr(item)[:40],
)
def test_items_of_mappings(value: object, expected: list[tuple[object, object]]) -> None:
    assert list(items(value)) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2], [1, 2]),
        ((1,), [1]),
        ({1}, [1]),
        (call("__builtin__.set", [1, 2]), [1, 2]),
        (call("collections.deque", (), 5, elements=[1]), [1]),
        (call("builtins.set"), []),
        (call("mine.List", [0], elements=[1]), [1]),
        ({"a": 1}, []),
        (None, []),
    ],
    ids=lambda item: repr(item)[:40],
)
def test_elements_of_sequences(value: object, expected: list[object]) -> None:
    assert list(elements(value)) == expected


@pytest.mark.parametrize(
    ("value", "mapping", "sequence"),
    [
        ({}, True, False),
        (ordered(), True, False),
        ([], False, True),
        (call("torch.Size", (1, 2)), False, True),
        (call("mine.Thing"), False, False),
        (call(call("mine.Thing")), False, False),
        (1, False, False),
    ],
    ids=lambda item: repr(item)[:40],
)
def test_containers_are_told_apart(value: object, mapping: bool, sequence: bool) -> None:
    assert (is_mapping(value), is_sequence(value)) == (mapping, sequence)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({"a": 1}, {"a": 1}),
        (({"a": 1}, {"b": 2}), {"a": 1, "b": 2}),
        ((None, {"b": 2}), {"b": 2}),
        (ordered({"a": 1}), {"a": 1}),
        (ordered(), {}),
        ((1, 2, 3), {}),
        (call("mine.State"), {}),
        (None, {}),
    ],
    ids=lambda item: repr(item)[:40],
)
def test_attributes_come_from_the_state(state: object, expected: dict[str, object]) -> None:
    assert attributes(call("mine.Thing", state=state)) == expected


@pytest.mark.parametrize(
    ("key", "text"), [("a", "a"), (3, "3"), (b"\xe9", "é"), (Global("m", "F"), "m.F"), (None, "None"), (1.5, "1.5")]
)
def test_keys_as_they_stand_in_names(key: object, text: str) -> None:
    assert key_text(key) == text
