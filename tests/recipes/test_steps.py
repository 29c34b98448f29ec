"""The operations of `tensors`, by their values: numpy is the oracle."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest

from importer.arrays import to_numpy
from importer.errors import RecipeError
from importer.recipes import Remapped, apply_recipe, parse_recipe
from tests.builders.named import Named, counting, of_shapes

CONFIG = {"h": 2, "hd": 2, "kv": 1, "new": True, "old": False}


def run(steps: str, tensors: Mapping[str, tuple[int, ...]]) -> Remapped:
    """Apply steps to tensors that count on from one to the next, so that every number is there once."""
    start, named = 0, {}
    for name, shape in tensors.items():
        named[name] = Named(counting(shape, start=start))
        start += int(np.prod(shape))
    lines = "".join(f"  - {step}\n" for step in steps.strip().splitlines())
    recipe = parse_recipe(f"recipe: 1\nname: x\nconfig: {{half: hd // 2}}\ntensors:\n{lines}", "x.yaml")
    return apply_recipe(recipe, named, CONFIG)


def values(outcome: Remapped) -> dict[str, np.ndarray]:
    assert outcome.faults == ()
    return {entry.name: to_numpy(entry.array) for entry in outcome.entries}


def numbers(shape: tuple[int, ...], start: int = 0) -> np.ndarray:
    return np.arange(start, start + int(np.prod(shape)), dtype=np.float32).reshape(shape)


def test_rearrange_permutes_rotary_rows() -> None:
    step = "{match: '^q$', rearrange: '(h two r) ... -> (h r two) ...', sizes: {h: h, two: 2}}"
    expected = numbers((8, 3)).reshape(2, 2, 2, 3).swapaxes(1, 2).reshape(8, 3)
    np.testing.assert_array_equal(values(run(step, {"q": (8, 3)}))["q"], expected)


def test_rearrange_can_rename() -> None:
    found = values(run("{match: '^(.*)\\.w$', rearrange: 'a b -> b a', into: '$1.t'}", {"x.w": (2, 3)}))
    np.testing.assert_array_equal(found["x.t"], numbers((2, 3)).T)


def test_split_into_equal_parts() -> None:
    found = values(run("{match: '^(.*)\\.qkv$', split: 3, into: ['$1.q', '$1.k', '$1.v']}", {"a.qkv": (6, 2)}))
    assert list(found) == ["a.q", "a.k", "a.v"]
    for part, name in zip(np.split(numbers((6, 2)), 3), found, strict=True):
        np.testing.assert_array_equal(found[name], part)


def test_split_into_sizes_from_the_config_along_an_axis() -> None:
    found = values(run("{match: w, split: [h * hd, kv, half], dim: 1, into: [q, k, v]}", {"w": (2, 6)}))
    assert [found[name].shape for name in ("q", "k", "v")] == [(2, 4), (2, 1), (2, 1)]
    np.testing.assert_array_equal(np.concatenate(list(found.values()), axis=1), numbers((2, 6)))


def test_a_null_part_is_dropped() -> None:
    assert list(values(run("{match: w, split: 2, into: [null, b]}", {"w": (4, 2)}))) == ["b"]


def test_a_tensor_whose_every_part_is_dropped_is_skipped() -> None:
    outcome = run("{match: w, split: 2, into: [null, null]}", {"w": (4, 2)})
    assert [(skipped.name, str(skipped.rule)) for skipped in outcome.skipped] == [("w", "x.yaml:5 tensors 'split w'")]


def test_concat_joins_in_the_order_of_the_patterns() -> None:
    step = "{match: ['^(.*)\\.b$', '^(.*)\\.a$'], concat: 0, into: '$1.ba'}"
    found = values(run(step, {"x.a": (1, 2), "y.a": (1, 2), "x.b": (2, 2), "y.b": (1, 2)}))
    np.testing.assert_array_equal(found["x.ba"], np.concatenate([numbers((2, 2), 4), numbers((1, 2), 0)]))
    np.testing.assert_array_equal(found["y.ba"], np.concatenate([numbers((1, 2), 8), numbers((1, 2), 2)]))


def test_stack_orders_by_number_not_by_text() -> None:
    shapes = {f"e.{number}.w": (2,) for number in range(11)}
    found = values(run("{match: '^e\\.(\\d+)\\.w$', stack: $1, into: e.w}", dict(sorted(shapes.items()))))
    order = sorted(range(11), key=str)
    expected = np.stack([numbers((2,), 2 * order.index(number)) for number in range(11)])
    np.testing.assert_array_equal(found["e.w"], expected)


def test_stack_keeps_groups_apart_and_takes_another_axis() -> None:
    step = "{match: '^(.*)\\.e\\.(\\d+)\\.(w\\d)$', stack: $2, dim: 1, into: '$1.$3'}"
    shapes = {f"l{layer}.e.{e}.w{k}": (3,) for layer in range(2) for e in range(2) for k in (1, 2)}
    found = values(run(step, shapes))
    assert {name: value.shape for name, value in found.items()} == dict.fromkeys(
        ["l0.w1", "l0.w2", "l1.w1", "l1.w2"], (3, 2)
    )


def test_unstack_numbers_the_parts() -> None:
    found = values(run("{match: '^(.*)\\.w$', unstack: true, dim: 1, into: '$1.{i}.w'}", {"x.w": (2, 3)}))
    assert list(found) == ["x.0.w", "x.1.w", "x.2.w"]
    np.testing.assert_array_equal(np.stack(list(found.values()), axis=1), numbers((2, 3)))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("{from: 2}", np.s_[2:]),
        ("{to: h}", np.s_[:2]),
        ("{from: 1, to: 3}", np.s_[1:3]),
        ("{dim: 1, from: 1}", np.s_[:, 1:]),
    ],
)
def test_slice_keeps_a_range(options: str, expected: tuple[slice, ...]) -> None:
    found = values(run(f"{{match: w, slice: {options}}}", {"w": (4, 3)}))
    np.testing.assert_array_equal(found["w"], numbers((4, 3))[expected])


def test_map_computes_with_numbers_of_the_config() -> None:
    found = values(run("{match: w, map: '1 + x * hd ** -1'}", {"w": (2, 3)}))
    np.testing.assert_allclose(found["w"], 1 + numbers((2, 3)) / 2)


def test_weight_norm_fuses_both_parts() -> None:
    step = "{match: ['^(.*)\\.weight_g$', '^(.*)\\.weight_v$'], weight_norm: {}, into: '$1.weight'}"
    found = values(run(step, {"c.weight_v": (2, 3), "c.weight_g": (2, 1)}))
    v, g = numbers((2, 3)), numbers((2, 1), 6)
    np.testing.assert_allclose(found["c.weight"], v * g / np.linalg.norm(v, axis=1, keepdims=True), rtol=1e-6)


def test_spectral_norm_fuses_three_parts() -> None:
    step = "{match: [w_orig, w_u, w_v], spectral_norm: {dim: 1}, into: w}"
    found = values(run(step, {"w_orig": (2, 3), "w_u": (3,), "w_v": (2,)}))
    w, u, v = numbers((2, 3)), numbers((3,), 6), numbers((2,), 9)
    np.testing.assert_allclose(found["w"], w / (u @ (w.T @ v)), rtol=1e-5)


def test_a_lone_second_part_belongs_to_another_operation() -> None:
    step = "{match: ['^(.*)\\.weight_g$', '^(.*)\\.weight_v$'], weight_norm: {}, into: '$1.weight'}"
    assert list(values(run(step, {"c.weight_v": (2, 3)}))) == ["c.weight_v"]


def test_steps_see_what_the_steps_before_made() -> None:
    steps = "{match: '^qkv$', rearrange: '(h three d) -> (three h d)', sizes: {h: h, three: 3}}\n{match: '^qkv$', split: 3, into: [q, k, v]}"
    expected = numbers((12,)).reshape(2, 3, 2)
    found = values(run(steps, {"qkv": (12,)}))
    for position, name in enumerate("qkv"):
        np.testing.assert_array_equal(found[name], expected[:, position].reshape(-1))


@pytest.mark.parametrize(("condition", "names"), [("new", ["a", "b"]), ("old", ["w"]), ("h > 1", ["a", "b"])])
def test_a_step_may_depend_on_the_config(condition: str, names: list[str]) -> None:
    outcome = run(f"{{match: w, split: 2, into: [a, b], when: {condition}}}", {"w": (2,)})
    assert [entry.name for entry in outcome.entries] == names
    assert outcome.unmatched_rules == ()


def test_results_take_the_place_of_their_first_source() -> None:
    step = "{match: ['^a$', '^c$'], concat: 0, into: ac}"
    assert list(values(run(step, {"x": (1,), "a": (1,), "b": (1,), "c": (1,)}))) == ["x", "ac", "b"]


def test_the_trail_of_a_merged_tensor_names_every_source() -> None:
    entry = run("{match: '^e\\.(\\d+)$', stack: $1, into: e}", {f"e.{n}": (1,) for n in range(5)}).entries[0]
    assert entry.sources == ("e.0", "e.1", "e.2", "e.3", "e.4")
    assert str(entry.trail[-1]) == r"e.0 + e.1 + e.2 + 2 more -> e  (x.yaml:5 tensors 'stack ^e\.(\d+)$')"


@pytest.mark.parametrize(
    ("step", "tensors", "what"),
    [
        pytest.param("{match: w, split: 3, into: [a, b, c]}", {"w": (4,)}, "does not divide into 3", id="odd size"),
        pytest.param("{match: w, split: [1, 2], into: [a, b]}", {"w": (4,)}, "split of 'w'", id="wrong sizes"),
        pytest.param(
            "{match: w, split: h + 1, into: [a, b]}", {"w": (6,)}, "3 parts, but 2 names", id="computed parts"
        ),
        pytest.param("{match: w, split: 2, dim: 3, into: [a, b]}", {"w": (4,)}, "no axis 3", id="no such axis"),
        pytest.param(
            "{match: w, rearrange: '(a b) -> b a', sizes: {a: 3}}", {"w": (4,)}, "rearrange of 'w'", id="no fit"
        ),
        pytest.param("{match: w, slice: {from: 3, to: 9}}", {"w": (4,)}, "slice of 'w'", id="past the end"),
        pytest.param("{match: [a, b], concat: 0, into: c}", {"a": (2, 3), "b": (2, 4)}, "concat of 'a'", id="unequal"),
        pytest.param(
            "{match: [a, b], concat: 0, into: c}", {"a": (2,)}, "has no partner that matches 'b'", id="partner"
        ),
        pytest.param(
            "{match: 'e(\\d+)', stack: $1, into: e}", {"e0": (1,), "e2": (1,)}, "number 1 is missing", id="gap"
        ),
        pytest.param("{match: 'e(\\w+)', stack: $1, into: e}", {"ex": (1,)}, "$1 of 'ex' is no number", id="no number"),
        pytest.param("{match: 'e(\\d+)', stack: $1, into: e}", {"e0": (1,), "e1": (2,)}, "stack of 'e0'", id="stack"),
        pytest.param(
            "{match: [g, v], weight_norm: {}, into: w}", {"g": (5, 1), "v": (2, 3)}, "weight norm", id="g and v"
        ),
    ],
)
def test_what_does_not_fit_is_a_fault_with_its_rule(step: str, tensors: dict[str, tuple[int, ...]], what: str) -> None:
    outcome = run(step, tensors)
    assert [what in fault.message for fault in outcome.faults] == [True]
    assert re.match(r"\S+:5 ", outcome.faults[0].message)
    assert sorted(entry.name for entry in outcome.entries) == sorted(tensors)


@pytest.mark.parametrize(
    ("step", "what"),
    [
        ("{match: w, map: 'x * missing'}", "no field 'missing'"),
        ("{match: w, split: [h / 2, 1], into: [a, b]}", "a whole number"),
        ("{match: w, slice: {from: h - 9}}", "a whole number"),
        ("{match: w, rearrange: '(a b) -> b a', sizes: {a: missing}}", "no field 'missing'"),
        ("{match: w, map: x, when: missing}", "no field 'missing'"),
    ],
)
def test_an_expression_that_cannot_be_computed_ends_the_conversion(step: str, what: str) -> None:
    with pytest.raises(RecipeError) as caught:
        run(step, {"w": (2, 3)})
    assert what in caught.value.what
    assert caught.value.where is not None
    assert caught.value.where.line == 5


def test_an_axis_too_long_to_unstack_is_a_fault() -> None:
    recipe = parse_recipe("recipe: 1\nname: x\ntensors: [{match: w, unstack: true, into: 'w.{i}'}]\n")
    assert "too many" in apply_recipe(recipe, of_shapes({"w": (200_000,)}), None).faults[0].message
