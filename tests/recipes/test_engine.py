"""The pipeline: its order, the trail on every tensor, what is left out, and the warnings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from importer.arrays import to_numpy
from importer.errors import LimitError, RecipeError
from importer.limits import DEFAULT_LIMITS
from importer.recipes import Remapped, apply_recipe, parse_recipe, unwrap_root
from tests.builders.named import Named, counting, of_names, of_shapes


def run(sections: str, *names: str) -> Remapped:
    return apply_recipe(
        parse_recipe(f"recipe: 1\nname: x\ntypes: []\n{sections}", "x.yaml"), of_names(*names), {"d": 2}
    )


def names_after(sections: str, *names: str) -> list[str]:
    return [entry.name for entry in run(sections, *names).entries]


@pytest.mark.parametrize(
    ("rules", "before", "after"),
    [
        pytest.param(["^model\\.", ""], "model.x", "x", id="prefix"),
        pytest.param(["\\.", "_"], "a.b.c", "a_b_c", id="every match is replaced"),
        pytest.param(["x*", "-"], "axb", "-a-b-", id="empty matches as in Rust"),
        pytest.param(["^h\\.{i}\\.", "h.{i + 1}."], "h.9.w", "h.10.w", id="arithmetic"),
        pytest.param(["^(a)\\.(b)$", "$2.$1"], "a.b", "b.a", id="captures"),
        pytest.param(["a", "a"], "a.b", "a.b", id="the same again"),
        pytest.param(["nothing", "x"], "a.b", "a.b", id="no match"),
    ],
)
def test_a_rename_replaces(rules: list[str], before: str, after: str) -> None:
    assert names_after(f"rename: [['{rules[0]}', '{rules[1]}']]", before) == [after]


def test_renames_work_on_the_result_of_the_one_before() -> None:
    assert names_after("rename: [['^a$', 'b'], ['^b$', 'c'], ['^a$', 'd']]", "a") == ["c"]


def test_the_trail_names_every_rule_with_the_name_before_and_after() -> None:
    outcome = run("rename:\n  - ['^a\\.', 'b.']\n  - ['w$', 'weight']", "a.w")
    assert [str(step) for step in outcome.entries[0].trail] == [
        r"a.w -> b.w  (x.yaml:5 rename '^a\.')",
        "b.w -> b.weight  (x.yaml:6 rename 'w$')",
    ]
    assert outcome.entries[0].sources == ("a.w",)


def test_drop_speaks_source_names_and_says_which_rule() -> None:
    outcome = run("rename: [['^a', 'b']]\ndrop: ['^a\\.mask$', '^b']", "a.mask", "a.w")
    assert [(s.name, str(s.rule), s.reason) for s in outcome.skipped] == [
        ("a.mask", r"x.yaml:5 drop '^a\.mask$'", "dropped")
    ]
    assert [entry.name for entry in outcome.entries] == ["b.w"]


def test_keep_leaves_out_everything_else() -> None:
    outcome = run("keep: ['^a\\.', '^b\\.']", "a.w", "b.w", "c.w")
    assert [entry.name for entry in outcome.entries] == ["a.w", "b.w"]
    assert [(skipped.name, skipped.reason) for skipped in outcome.skipped] == [("c.w", "not kept")]


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "_orig_mod.module.", "module._orig_mod."])
def test_wrapper_prefixes_go_when_every_name_has_them(prefix: str) -> None:
    outcome = run("", f"{prefix}a", f"{prefix}b")
    assert [entry.name for entry in outcome.entries] == ["a", "b"]
    assert str(outcome.entries[0].trail[0].rule).startswith("default strip")


def test_wrapper_prefixes_stay_when_one_name_lacks_them() -> None:
    assert names_after("", "module.a", "b") == ["module.a", "b"]


def test_strip_names_the_prefixes_itself() -> None:
    outcome = run("strip: ['net.']", "net.net.a", "net.net.b")
    assert [entry.name for entry in outcome.entries] == ["a", "b"]
    assert str(outcome.entries[0].trail[0].rule) == "x.yaml:4 strip 'net.'"


def test_an_empty_strip_keeps_the_wrappers() -> None:
    assert names_after("strip: []", "module.a") == ["module.a"]


def test_a_name_that_is_nothing_but_the_prefix_stays() -> None:
    assert names_after("", "module.") == ["module."]


def test_unwrap_means_the_first_key_that_exists() -> None:
    recipe = parse_recipe("recipe: 1\nname: x\ntypes: []\nunwrap: [ema, model]\n")
    assert unwrap_root(recipe, ["model.w", "ema.w"]) == "ema"
    assert unwrap_root(recipe, ["modelx.w"]) is None


def test_an_alias_fills_in_what_the_source_lacks() -> None:
    outcome = run("alias: {head.w: emb.w}", "emb.w")
    assert [(entry.name, entry.sources) for entry in outcome.entries] == [("emb.w", ("emb.w",)), ("head.w", ("emb.w",))]
    assert outcome.entries[0].array is outcome.entries[1].array


def test_an_alias_leaves_alone_what_the_source_has() -> None:
    outcome = run("alias: {head.w: emb.w}", "emb.w", "head.w")
    assert outcome.entries[1].sources == ("head.w",)
    assert outcome.unmatched_rules == ()


ALIAS = "recipe: 1\nname: x\nalias: {head.w: emb.w, qkv.w: emb.w}\n"


def test_an_alias_is_left_out_where_the_target_has_no_place_for_it() -> None:
    recipe = parse_recipe(f"{ALIAS}target: {{emb.w: Param(2)}}\n")
    assert [entry.name for entry in apply_recipe(recipe, of_names("emb.w"), None).entries] == ["emb.w"]


def test_an_alias_is_taken_where_a_step_needs_it() -> None:
    step = "tensors: [{match: '^qkv', split: 2, into: [q, k]}]"
    recipe = parse_recipe(f"{ALIAS}{step}\ntarget: {{emb.w: Param(2), q: Param(1), k: Param(1)}}\n")
    assert [entry.name for entry in apply_recipe(recipe, of_names("emb.w"), None).entries] == ["emb.w", "q", "k"]


def test_stored_as_turns_matrices_and_nothing_else() -> None:
    recipe = parse_recipe("recipe: 1\nname: x\ntypes: []\nstored_as: {Conv1D: '^a$'}\n")
    tensors = {name: Named(counting((2, 3))) for name in ("a.weight", "b.weight", "a.scale")}
    tensors["a.bias"] = Named(counting((3,)))
    arrays = {entry.name: entry.array for entry in apply_recipe(recipe, tensors, None).entries}
    np.testing.assert_array_equal(to_numpy(arrays["a.weight"]), np.arange(6, dtype=np.float32).reshape(2, 3).T)
    assert [arrays[name].shape for name in ("b.weight", "a.scale", "a.bias")] == [(2, 3), (2, 3), (3,)]


def test_stored_as_comes_after_renames_and_before_steps() -> None:
    sections = (
        "rename: [['^z', 'a']]\nstored_as: {Conv1D: '^a$'}\ntensors: [{match: '^a', split: 3, into: [q, k, v]}]\n"
    )
    recipe = parse_recipe(f"recipe: 1\nname: x\n{sections}")
    outcome = apply_recipe(recipe, of_shapes({"z.weight": (2, 6)}), None)
    assert [entry.array.shape for entry in outcome.entries] == [(2, 2)] * 3


def test_rules_that_match_nothing_are_told() -> None:
    sections = "drop: ['^d']\nrename: [['^r', '']]\nalias: {a: b}\nkeep: ['^w', '^k']\nrenumber: ['^n\\.']\nstored_as: {Conv1D: s}"
    outcome = run(sections, "w")
    assert [str(rule) for rule in outcome.unmatched_rules] == [
        "x.yaml:7 keep '^k'",
        "x.yaml:4 drop '^d'",
        r"x.yaml:8 renumber '^n\.'",
        "x.yaml:5 rename '^r'",
        "x.yaml:6 alias 'a'",
        "x.yaml:9 stored_as 's'",
    ]


def test_rules_of_built_in_recipes_may_be_idle() -> None:
    recipe = replace(parse_recipe("recipe: 1\nname: x\nrename: [['^r', '']]\n"), is_builtin=True)
    assert apply_recipe(recipe, of_names("w"), None).unmatched_rules == ()


def test_a_rename_that_matches_twice_in_one_name_is_warned_of_once() -> None:
    outcome = run("rename: [['a\\.', 'b.']]", "a.a.w", "a.a.x")
    assert outcome.warnings == (r"x.yaml:4 rename 'a\.': matches 2 times in 'a.a.w'; anchor it if that is not meant",)


def test_a_bare_dot_that_matched_something_else_is_warned_of() -> None:
    outcome = run("rename: [['^a.w', 'b']]", "a.w", "axw2")
    assert outcome.warnings == (r"x.yaml:4 rename '^a.w': an unescaped . matched 'x' in 'axw2'; write \. for a dot",)


@pytest.mark.parametrize("replacement", ["", "a.", "a..b", ".a"])
def test_a_name_with_an_empty_segment_is_a_fault(replacement: str) -> None:
    fault = run(f"rename: [['^w$', '{replacement}']]", "w").faults[0]
    assert "empty segment" in fault.message
    assert fault.message.startswith("x.yaml:4 rename")


def test_a_fault_shows_its_rule_and_a_way_out() -> None:
    fault = run("rename: [['^w$', '']]", "w").faults[0]
    assert str(fault) == (
        "x.yaml:4 rename '^w$': 'w' becomes '', which has an empty segment. Check the dots in the replacement."
    )


def test_impossible_arithmetic_is_a_fault_of_that_tensor() -> None:
    outcome = run("rename: [['^u\\.{i}', 'u.{3 - i}']]", "u.5", "u.1")
    assert [fault.name for fault in outcome.faults] == ["u.5"]
    assert [entry.name for entry in outcome.entries] == ["u.5", "u.2"]


def test_names_cannot_grow_without_bound() -> None:
    rules = ", ".join(["['^(.*)$', '$1$1']"] * 20)
    with pytest.raises(LimitError) as caught:
        run(f"rename: [{rules}]", "abc")
    assert caught.value.limit == "max_name_length"


def test_a_runaway_pattern_ends_the_conversion() -> None:
    recipe = parse_recipe("recipe: 1\nname: x\nrename: [['^(a|aa)+$', '']]\n")
    limits = replace(DEFAULT_LIMITS, regex_timeout_seconds=0.05)
    with pytest.raises(LimitError):
        apply_recipe(recipe, of_names("a" * 60 + "b"), None, limits=limits)


def test_types_get_their_arguments_from_the_config() -> None:
    recipe = parse_recipe("recipe: 1\nname: x\ntypes: [['^a$', 'Linear(d, 3)'], ['^b$', Linear]]\n")
    rules = apply_recipe(recipe, {}, {"d": 2}).types
    assert (rules[0].args["in"], rules[0].args["out"]) == (2, 3)
    assert "in" not in rules[1].args


def test_types_that_do_not_fit_the_config_are_a_fault() -> None:
    recipe = parse_recipe("recipe: 1\nname: x\ntypes: [['^a$', 'Linear(dd, 3)']]\n")
    with pytest.raises(RecipeError, match="no field 'dd'"):
        apply_recipe(recipe, {}, {"d": 2})


def test_both_spellings_of_weight_norm_meet() -> None:
    sections = r"""rename:
  - ['\.parametrizations\.weight\.original0$', '.weight_g']
  - ['\.parametrizations\.weight\.original1$', '.weight_v']
tensors:
  - match: ['^(.*)\.weight_g$', '^(.*)\.weight_v$']
    weight_norm: {}
    into: '$1.weight'
"""
    recipe = parse_recipe(f"recipe: 1\nname: x\n{sections}")
    new = {"c.parametrizations.weight.original0": (2, 1), "c.parametrizations.weight.original1": (2, 3)}
    for shapes in ({"c.weight_g": (2, 1), "c.weight_v": (2, 3)}, new):
        entries = apply_recipe(recipe, of_shapes(shapes), None).entries
        assert [(entry.name, entry.array.shape) for entry in entries] == [("c.weight", (2, 3))]


def test_lstm_gates_go_where_burn_has_them() -> None:
    sections = r"""rename:
  - ['_l(\d+)_reverse$', '_r$1']
  - ['^lstm\.(weight|bias)_(ih|hh)_l(\d+)$', 'lstm.$3.forward.$2.$1']
  - ['^lstm\.(weight|bias)_(ih|hh)_r(\d+)$', 'lstm.$3.reverse.$2.$1']
  - ['\.ih\.(weight|bias)$', '.input_transform.$1']
  - ['\.hh\.(weight|bias)$', '.hidden_transform.$1']
tensors:
  - match: '^(lstm\..*)\.(input|hidden)_transform\.(weight|bias)$'
    split: 4
    into: ['$1.input_gate.$2_transform.$3', '$1.forget_gate.$2_transform.$3',
           '$1.cell_gate.$2_transform.$3', '$1.output_gate.$2_transform.$3']
"""
    recipe = parse_recipe(f"recipe: 1\nname: x\n{sections}")
    outcome = apply_recipe(recipe, of_shapes({"lstm.weight_ih_l0": (8, 3), "lstm.bias_hh_l1_reverse": (8,)}), None)
    assert [(entry.name, entry.array.shape) for entry in outcome.entries] == [
        *(
            (f"lstm.0.forward.{gate}_gate.input_transform.weight", (2, 3))
            for gate in ("input", "forget", "cell", "output")
        ),
        *(
            (f"lstm.1.reverse.{gate}_gate.hidden_transform.bias", (2,))
            for gate in ("input", "forget", "cell", "output")
        ),
    ]


def test_a_strip_that_does_not_fit_every_name_is_told() -> None:
    outcome = run("strip: [a., b.]", "a.x", "c.x")
    assert [str(rule) for rule in outcome.unmatched_rules] == ["x.yaml:4 strip 'a.'", "x.yaml:4 strip 'b.'"]


def test_of_several_strips_one_that_fits_is_enough() -> None:
    assert run("strip: [a., b.]", "a.x", "a.y").unmatched_rules == ()
