"""Patterns do what the same steps spelled out in numpy do, and say clearly why they cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.arrays import parse_axis_pattern, rearrange, to_numpy
from importer.errors import TensorError
from tests.builders.programs import Values, counted

Numpy = Callable[[Values], Values]


@pytest.mark.parametrize(
    ("pattern", "sizes", "shape", "expected"),
    [
        ("a b -> b a", {}, (3, 4), lambda x: x.T),
        (
            "(h two r) ... -> (h r two) ...",
            {"h": 2, "two": 2},
            (12, 5),
            lambda x: x.reshape(2, 2, 3, 5).swapaxes(1, 2).reshape(12, 5),
        ),
        ("(h two r) ... -> (h r two) ...", {"h": 2, "two": 2}, (12,), lambda x: x.reshape(2, 2, 3).swapaxes(1, 2).reshape(12)),
        ("e o i -> e i o", {}, (2, 3, 4), lambda x: x.swapaxes(1, 2)),
        ("(h three e) ... -> (three h e) ...", {"h": 2, "three": 3}, (24, 2), lambda x: x.reshape(2, 3, 4, 2).swapaxes(0, 1).reshape(24, 2)),
        ("(kv g e) d -> g kv e d", {"kv": 2, "e": 3}, (30, 2), lambda x: x.reshape(2, 5, 3, 2).swapaxes(0, 1)),
        ("r kv e d -> (kv r e) d", {}, (2, 3, 4, 5), lambda x: x.swapaxes(0, 1).reshape(24, 5)),
        ("e ... (f two) -> two e ... f", {"two": 2}, (2, 3, 8), lambda x: np.moveaxis(x.reshape(2, 3, 4, 2), 3, 0)),
        ("e ... (f two) -> two e ... f", {"two": 2}, (2, 8), lambda x: np.moveaxis(x.reshape(2, 4, 2), 2, 0)),
        ("(two d) ... -> two d ...", {"two": 2}, (6,), lambda x: x.reshape(2, 3)),
        ("o i 1 1 -> o i", {}, (3, 4, 1, 1), lambda x: x[:, :, 0, 0]),
        ("o i -> o i () 1", {}, (3, 4), lambda x: x[:, :, None, None]),
        ("-> 1", {}, (), lambda x: x.reshape(1)),
        ("... -> (...)", {}, (2, 3, 4), lambda x: x.reshape(24)),
        ("a ... -> (... a)", {}, (2, 3, 4), lambda x: np.moveaxis(x, 0, 2).reshape(24)),
        ("... c -> c ...", {}, (2, 3, 4), lambda x: np.moveaxis(x, 2, 0)),
    ],
    ids=str,
)  # fmt: skip
def test_a_pattern_equals_the_same_steps_in_numpy(
    pattern: str, sizes: Mapping[str, int], shape: tuple[int, ...], expected: Numpy
) -> None:
    array, values = counted(shape)
    wanted = expected(values)
    got = rearrange(array, pattern, sizes)
    assert got.shape == wanted.shape
    np.testing.assert_array_equal(to_numpy(got), wanted)


@given(st.permutations("abcd"), st.lists(st.integers(1, 4), min_size=4, max_size=4))
def test_a_pattern_and_its_reverse_give_the_tensor_back(order: list[str], shape: list[int]) -> None:
    array, values = counted(tuple(shape))
    sizes = dict(zip("abcd", shape, strict=True))
    there = rearrange(array, f"a b c d -> ({' '.join(order[:2])}) ({' '.join(order[2:])})")
    back = rearrange(there, f"({' '.join(order[:2])}) ({' '.join(order[2:])}) -> a b c d", sizes)
    np.testing.assert_array_equal(to_numpy(back), values)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a b", "'->' is missing"),
        ("a -> b -> a", "'->' cannot stand there"),
        ("(a b -> a b", "'->' cannot stand there"),
        ("a -> (a", "a ')' is missing"),
        ("a) -> a", "')' cannot stand there"),
        ("((a)) -> a", "'(' cannot stand there"),
        ("a a -> a", "'a' stands twice"),
        ("a b -> a", "'b' stands on one side only"),
        ("a -> a b", "'b' stands on one side only"),
        ("... a -> a", "'...' stands on one side only"),
        ("(a ...) -> a ...", "cannot be part of a group"),
        ("a+b -> a", "'+' has no meaning"),
        ("a 2 -> a", "'2' has no meaning"),
        ("a 10 -> a", "'1' has no meaning"),
    ],
    ids=lambda text: text,
)
def test_a_faulty_pattern_is_refused_with_its_reason(pattern: str, reason: str) -> None:
    with pytest.raises(TensorError) as caught:
        parse_axis_pattern(pattern)
    assert reason in caught.value.what


@pytest.mark.parametrize(
    ("pattern", "sizes", "shape", "reason"),
    [
        ("(h r) -> h r", {"h": 5}, (12,), "an axis of size 12 cannot be made of (h r) with h=5"),
        ("(h r) -> h r", {}, (12,), "the sizes of h and r cannot be told apart"),
        ("(h r) -> h r", {"h": 3, "r": 5}, (12,), "with h=3, r=5"),
        ("h r -> r h", {"h": 3}, (2, 4), "an axis of size 2"),
        ("a b -> b a", {}, (2, 3, 4), "it has 2 axes, the tensor's shape is [2, 3, 4]"),
        ("a b ... -> b a ...", {}, (2,), "it has 2 axes"),
        ("(a b) -> b a", {"a": 0}, (0,), "cannot be made of (a b) with a=0"),
        ("a 1 -> a", {}, (2, 3), "an axis of size 3 cannot be made of () with 1"),
    ],
    ids=str,
)
def test_a_shape_that_does_not_fit_is_refused_with_its_reason(
    pattern: str, sizes: Mapping[str, int], shape: tuple[int, ...], reason: str
) -> None:
    with pytest.raises(TensorError) as caught:
        rearrange(counted(shape)[0], pattern, sizes)
    assert reason in caught.value.what
