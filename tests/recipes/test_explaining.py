"""The story of one tensor."""

from __future__ import annotations

from importer.recipes import apply_recipe, explain, parse_recipe
from tests.builders.named import of_shapes

RECIPE = r"""recipe: 1
name: x
drop: ['\.mask$']
rename:
  - ['^m\.', '']
  - ['^qkv\.', 'att.']
tensors:
  - {match: '^att\.w$', split: 2, into: [att.q, att.k]}
"""
OUTCOME = apply_recipe(parse_recipe(RECIPE, "x.yaml"), of_shapes({"m.qkv.w": (4, 2), "m.mask": (1,), "o": (1,)}), None)


def test_a_source_name_leads_to_every_name_it_becomes() -> None:
    assert explain(OUTCOME, "m.qkv.w") == (
        "m.qkv.w",
        r"  -> qkv.w  x.yaml:5 rename '^m\.'",
        r"  -> att.w  x.yaml:6 rename '^qkv\.'",
        r"  -> att.q  x.yaml:8 tensors 'split ^att\.w$'",
        "m.qkv.w",
        r"  -> qkv.w  x.yaml:5 rename '^m\.'",
        r"  -> att.w  x.yaml:6 rename '^qkv\.'",
        r"  -> att.k  x.yaml:8 tensors 'split ^att\.w$'",
    )


def test_a_target_name_leads_back_to_its_source() -> None:
    assert explain(OUTCOME, "att.k")[0] == "m.qkv.w"


def test_a_dropped_name_says_which_rule_did_it() -> None:
    assert explain(OUTCOME, "m.mask") == ("m.mask", r"  -> left out: dropped  x.yaml:3 drop '\.mask$'")


def test_an_untouched_name_says_so() -> None:
    assert explain(OUTCOME, "o") == ("o", "  -> o")


def test_an_unknown_name_has_no_story() -> None:
    assert explain(OUTCOME, "nobody") == ()
