"""How values from files appear in messages: quoted, escaped, shortened, whatever they are."""

from __future__ import annotations

import pytest

from importer.errors import DecisionNeededError, ImporterError, RecipeError, TensorError, shown
from importer.unpickling import Global, PersistentId


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = (value,)
    return value


def doubled(times: int) -> object:
    value: object = ("x",)
    for _ in range(times):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("fc.weight", "'fc.weight'", id="text"),
        pytest.param("\x1b[2J", r"'\x1b[2J'", id="escape-sequence"),
        pytest.param("\u202egnp.exe", r"'\u202egnp.exe'", id="right-to-left-override"),
        pytest.param((2, 3), "'(2, 3)'", id="shape"),
        pytest.param(Global("torch", "float32"), "'torch.float32'", id="global"),
        pytest.param(PersistentId(nested(50_000)), "'<PersistentId of a tuple>'", id="persistent-id"),
        pytest.param(nested(50_000), "'(((...),),)'", id="nested-too-deep-for-repr"),
        pytest.param(1 << 20_000, "'a number of 20001 bits'", id="more-digits-than-python-prints"),
        pytest.param([1 << 20_000, 7], "'[a number of 20001 bits, 7]'", id="more-digits-in-a-list"),
    ],
)
def test_a_value_is_shown(value: object, text: str) -> None:
    assert shown(value) == text


def test_a_value_that_is_endless_by_sharing_is_shown_in_part() -> None:
    assert len(shown(doubled(60))) < 100


def test_a_long_name_is_shown_by_its_ends() -> None:
    assert shown("a" * 5_000 + "b" * 5_000) == f"'{'a' * 40}…{'b' * 40}'"


UNSAFE = "a\x1b[2J\ufeffb"
FAULTS = (RecipeError(UNSAFE, how=UNSAFE), RecipeError("other", how="mend"))


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(TensorError(UNSAFE, how=UNSAFE), id="plain"),
        pytest.param(RecipeError(UNSAFE, how=UNSAFE, faults=FAULTS), id="several-faults"),
        pytest.param(DecisionNeededError(UNSAFE, how=UNSAFE, lines=(UNSAFE,)), id="lines-to-add"),
    ],
)
def test_a_message_holds_nothing_that_a_terminal_would_obey(error: ImporterError) -> None:
    assert all(line.isprintable() for line in str(error).split("\n"))
    assert r"\x1b[2J\ufeff" in str(error)


def test_a_message_is_never_longer_than_anybody_reads() -> None:
    endless = "x" * 1_000_000
    assert len(str(TensorError(endless, how=endless))) < 5_000
    assert len(str(DecisionNeededError("what", how="how", lines=(endless,) * 1_000))) < 500_000
    faults = tuple(RecipeError(f"fault {n}", how="mend it") for n in range(10_000))
    text = str(RecipeError("faults", how="mend them", faults=faults))
    assert len(text) < 20_000
    assert "and 9800 more" in text
