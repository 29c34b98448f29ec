"""Two tensors on one name: a fault that names both, unless they are one and the same."""

from __future__ import annotations

from importer.recipes import Remapped, apply_recipe, parse_recipe
from tests.builders.named import Named, counting, of_values

RECIPE = "recipe: 1\nname: x\nrename:\n  - ['^a\\.', 'c.']\n  - ['^b\\.', 'c.']\n"


def collide(a: Named, b: Named) -> Remapped:
    return apply_recipe(parse_recipe(RECIPE, "x.yaml"), {"a.w": a, "b.w": b}, None)


def test_a_collision_names_both_sources_and_both_rules() -> None:
    fault = collide(Named(counting((2,))), Named(counting((2,), start=5))).faults[0]
    assert fault.name == "c.w"
    for part in ("'a.w'", "'b.w'", r"x.yaml:4 rename '^a\.'", r"x.yaml:5 rename '^b\.'"):
        assert part in fault.message


def test_one_stored_tensor_under_two_names_is_used_once_and_said_so() -> None:
    outcome = collide(Named(counting((2,)), "storage"), Named(counting((2,), start=5), "storage"))
    assert outcome.faults == ()
    assert [entry.sources for entry in outcome.entries] == [("a.w",)]
    assert [(skipped.name, skipped.reason) for skipped in outcome.skipped] == [
        ("b.w", "the same tensor as a.w, which becomes c.w")
    ]


def test_equal_bytes_are_the_same_tensor() -> None:
    outcome = collide(Named(counting((300, 1000))), Named(counting((300, 1000))))
    assert outcome.faults == ()
    assert len(outcome.entries) == 1


def test_a_difference_behind_the_first_block_is_seen() -> None:
    long, other = list(range(400_000)), list(range(400_000))
    other[-1] = 7
    assert collide(Named(of_values(long)), Named(of_values(other))).faults


def test_other_shapes_are_other_tensors() -> None:
    assert collide(Named(counting((2, 3)), "s"), Named(counting((3, 2)), "s")).faults


def test_a_step_that_gives_an_existing_name_collides_too() -> None:
    recipe = parse_recipe("recipe: 1\nname: x\ntensors: [{match: '^a$', map: '2 * x', into: b}]\n")
    assert apply_recipe(recipe, {"a": Named(counting((2,), start=1)), "b": Named(counting((2,), start=9))}, None).faults
