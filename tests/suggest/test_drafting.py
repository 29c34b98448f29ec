"""A draft is right, or says where it may not be: set against every built-in recipe, bit by bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from importer.checkpoint import open_checkpoint
from importer.errors import UsageError
from importer.suggest import draft_recipe
from tests.families.recorded import RECIPES
from tests.families.synthetic import load, write_values
from tests.shared import FAMILIES
from tests.suggest.drafted import checkpoint_of, compare, disguised, skeleton_of, target_shapes

BURN_RECIPES = {"llama_meta": "llama-meta", "resnet18": "resnet"}
BURN_FILES = sorted(
    path
    for target in FAMILIES.glob("*/burn_target.json")
    for path in target.parent.iterdir()
    if path.suffix in {".bin", ".pth", ".safetensors"}
)
_LARGEST = 8_000_000
SMALL_FAMILIES = [name for name in RECIPES if sum(row.nbytes for row in load(name).untied.rows) < _LARGEST]


@pytest.mark.parametrize("file", BURN_FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_draft_for_a_public_burn_module_is_whole(file: Path) -> None:
    family = file.parent.name
    compared = compare(
        open_checkpoint(file), BURN_RECIPES.get(family, family), target_shapes(file.parent / "burn_target.json")
    )
    assert compared.draft.undecided == ()
    assert (compared.drafted.missing, compared.drafted.errors, compared.drafted.unused) == ((), (), ())
    assert compared.drafted.unmatched_rules == ()


@pytest.mark.parametrize("file", BURN_FILES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_draft_for_a_public_burn_module_is_right_but_for_rotary_rows(file: Path) -> None:
    family = file.parent.name
    compared = compare(
        open_checkpoint(file), BURN_RECIPES.get(family, family), target_shapes(file.parent / "burn_target.json")
    )
    rotated = {name for name in compared.differing if name.endswith(("wq.weight", "wk.weight"))}
    assert compared.differing == rotated
    assert not rotated or family == "llama"
    assert compared.unannounced == set()


@pytest.mark.parametrize("family", SMALL_FAMILIES)
def test_no_draft_is_wrong_without_a_mark(family: str, tmp_path: Path) -> None:
    """The targets are those of the built-in recipes; parameters that must be computed or stacked are left undecided."""
    checkpoint = open_checkpoint(write_values(load(family).untied, tmp_path))
    assert compare(checkpoint, RECIPES[family]).unannounced == set()


@pytest.mark.parametrize("family", SMALL_FAMILIES)
def test_no_draft_is_wrong_without_a_mark_where_names_say_nothing(family: str, tmp_path: Path) -> None:
    """The target's words are meaningless, and the file's tensors stand in another order."""
    checkpoint = open_checkpoint(write_values(load(family).untied, tmp_path))
    turned = replace(checkpoint, tensors=dict(reversed(list(checkpoint.tensors.items()))))
    assert compare(turned, RECIPES[family], disguise=disguised).unannounced == set()


DETERMINED = ("convnext", "mobilenet_v2", "densenet121", "squeezenet1_1", "torch_rnn", "falcon_7b", "encodec")


@pytest.mark.parametrize("family", DETERMINED)
def test_a_draft_is_exact_where_names_and_shapes_determine_it(family: str, tmp_path: Path) -> None:
    compared = compare(open_checkpoint(write_values(load(family).untied, tmp_path)), RECIPES[family])
    assert (compared.differing, compared.draft.undecided) == (frozenset(), ())


def test_every_mark_is_a_comment_in_the_text() -> None:
    draft = compare(open_checkpoint(FAMILIES / "llama"), "llama").draft
    checks = [line for line in draft.text.splitlines() if "# check:" in line]
    assert draft.marks
    assert all(any(mark.text in line for line in checks) for mark in draft.marks)


def test_queries_and_keys_are_marked_wherever_a_rotary_embedding_is_possible() -> None:
    marks = compare(open_checkpoint(FAMILIES / "llama"), "llama").draft.marks
    (rotary,) = [mark for mark in marks if "rotary" in mark.text]
    assert set(rotary.names) == {f"layers.{n}.attention.w{p}.weight" for n in (0, 1) for p in "qk"}


def test_position_embeddings_rule_a_rotary_embedding_out() -> None:
    marks = compare(open_checkpoint(FAMILIES / "minilm"), "minilm").draft.marks
    assert not [mark for mark in marks if "rotary" in mark.text]


def test_gemmas_norms_are_marked_with_and_without_a_config(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_values(load("gemma2").untied, tmp_path))
    marks = compare(checkpoint, "gemma2").draft.marks
    (offset,) = [mark for mark in marks if "w - 1" in mark.text]
    assert "norm.gamma" in offset.names
    shapes = {"norm.weight": (8,), "fc.weight": (4, 8), "fc.bias": (4,)}
    bare = draft_recipe(checkpoint_of(shapes), skeleton_of({"norm.gamma": (8,), "fc.weight": (8, 4), "fc.bias": (4,)}))
    assert [mark.names for mark in bare.marks if "w - 1" in mark.text] == [("norm.gamma",)]


def test_a_square_matrix_without_bias_is_marked() -> None:
    draft = draft_recipe(checkpoint_of({"a.weight": (8, 8)}), skeleton_of({"a.weight": (8, 8)}))
    assert [mark.text for mark in draft.marks] == ["square, Linear by its name: transposed?"]


def test_siblings_told_apart_by_order_are_marked() -> None:
    names = [f"{name}.{leaf}" for name in ("left", "right") for leaf in ("weight", "bias")]
    shapes = dict(zip(names, [(4, 8), (4,)] * 2, strict=True))
    target = {"one.weight": (8, 4), "one.bias": (4,), "two.weight": (8, 4), "two.bias": (4,)}
    draft = draft_recipe(checkpoint_of(shapes), skeleton_of(target))
    assert {name for mark in draft.marks for name in mark.names} == set(target)
    assert "['^left\\.', 'one.']" in draft.text


def test_a_parameter_without_a_source_is_named() -> None:
    draft = draft_recipe(
        checkpoint_of({"fc.weight": (4, 8)}),
        skeleton_of({"fc.weight": (8, 4), "head.weight": (4, 3), "head.bias": (3,)}),
    )
    assert draft.undecided == ("head.weight [4, 3]: no tensor fits", "head.bias [3]: no tensor fits")
    assert "# undecided: no tensor fits weight [4, 3]" in draft.text


def test_a_tensor_without_a_place_is_dropped_under_a_mark() -> None:
    draft = draft_recipe(checkpoint_of({"fc.weight": (4, 8), "extra.table": (7,)}), skeleton_of({"fc.weight": (8, 4)}))
    assert "- '^extra\\.table$'" in draft.text
    assert any("extra" in mark.text for mark in draft.marks)


def test_floats_are_cast_to_the_one_type_of_the_target() -> None:
    assert compare(open_checkpoint(FAMILIES / "llama"), "llama").draft.text.endswith("dtype: float32\n")


def test_a_target_without_tensors_is_refused() -> None:
    with pytest.raises(UsageError, match="holds no tensors"):
        draft_recipe(checkpoint_of({"fc.weight": (4, 8)}), skeleton_of({}))


def test_a_list_of_blocks_that_two_lists_of_the_target_could_be_is_marked() -> None:
    source = {f"h.{n}.fc.{leaf}": s for n in range(2) for leaf, s in (("weight", (8, 4)), ("bias", (8,)))}
    target = {
        f"{side}.{n}.fc.{leaf}": shape
        for side in ("left", "right")
        for n in range(2)
        for leaf, shape in (("weight", (4, 8)), ("bias", (8,)))
    }
    draft = draft_recipe(checkpoint_of(source), skeleton_of(target))
    assert any("another list would fit as well" in mark.text for mark in draft.marks)
    assert len(draft.undecided) == 4


def test_a_checkpoint_below_a_root_or_a_wrapper_is_drafted_for_its_weights() -> None:
    target = {"fc.weight": (8, 4), "fc.bias": (4,)}
    for prefix, root in (("module.", ""), ("state_dict.", "state_dict")):
        shapes = {f"{prefix}body.weight": (4, 8), f"{prefix}body.bias": (4,)}
        draft = draft_recipe(replace(checkpoint_of(shapes), root=root), skeleton_of(target))
        assert draft.undecided == ()
        assert "['^body\\.', 'fc.']" in draft.text
