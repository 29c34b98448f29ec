"""A printed template, loaded as a recipe, declares exactly the skeleton's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.recipes import apply_recipe, parse_recipe
from importer.suggest import read_target_modules, template_text
from importer.suggest.target_modules import Shape
from tests.shared import FIXTURES
from tests.suggest.drafted import target_shapes

TARGETS = sorted(FIXTURES.glob("*/*/burn_target.json"))


def printed(shapes: Mapping[str, Shape]) -> str:
    return template_text(read_target_modules(shapes))


def declared(text: str) -> dict[str, Shape]:
    template = apply_recipe(parse_recipe(f"recipe: 1\nname: printed\n{text}"), {}, None).template
    assert template is not None
    return template.shapes()


@pytest.mark.parametrize("path", TARGETS, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}")
def test_a_template_declares_the_parameters_of_a_public_burn_module_in_order(path: Path) -> None:
    shapes = target_shapes(path)
    assert list(declared(printed(shapes)).items()) == list(shapes.items())


SEGMENTS = st.sampled_from(["fc", "norm", "layers", "0", "1", "2", "no", "on", "is", "for", "Basic", "a1"])
LEAVES: list[dict[str, Shape]] = [
    {"weight": (3, 2), "bias": (2,)},
    {"weight": (3, 2)},
    {"gamma": (2,)},
    {"weight": (2, 3, 1, 1)},
    {"table": (2, 2)},
]


@st.composite
def skeletons(draw: st.DrawFn) -> dict[str, Shape]:
    paths = draw(
        st.lists(st.lists(SEGMENTS, min_size=1, max_size=4).map(".".join), min_size=1, max_size=12, unique=True)
    )
    shapes: dict[str, Shape] = {}
    for path in paths:
        start = path if not path[0].isdecimal() else f"model.{path}"
        leaves = draw(st.sampled_from(LEAVES))
        shapes.update({f"{start}.{leaf}": shape for leaf, shape in leaves.items()})
    return shapes


@given(skeletons())
def test_a_template_of_any_module_tree_declares_its_parameters(shapes: dict[str, Shape]) -> None:
    assert declared(printed(shapes)) == shapes


def test_equal_neighbours_of_a_list_are_one_loop() -> None:
    shapes = {f"layers.{n}.fc.weight": (3, 2) for n in range(12)}
    assert "'layers.{i}':\n    for: {i: range(12)}\n    fc: Linear(3, 2, bias=False)" in printed(shapes)


def test_lists_in_lists_count_with_different_names() -> None:
    shapes = {f"stages.{n}.blocks.{m}.norm.gamma": (4,) for n in range(2) for m in range(3)}
    text = printed(shapes)
    assert "'stages.{i}.blocks.{j}'" in text or ("'stages.{i}'" in text and "'blocks.{j}'" in text)


def test_elements_that_differ_stand_by_themselves() -> None:
    text = printed({"fc.0.weight": (3, 2), "fc.1.weight": (2, 2), "fc.2.weight": (2, 2)})
    assert "fc.0: Linear(3, 2, bias=False)" in text
    assert "for: {i: 'range(1, 3)'}\n    is: Linear(2, 2, bias=False)" in text


MARKED = [
    pytest.param({"a.weight": (3, 2)}, "# check: Linear or Embedding?", id="matrix"),
    pytest.param({"a.gamma": (3,), "a.beta": (3,)}, "# or GroupNorm, InstanceNorm", id="norm"),
    pytest.param({"a.weight": (4, 1, 3, 3), "a.bias": (4,)}, "# groups:", id="groups"),
    pytest.param({"a.weight": (4, 4, 3, 3), "a.bias": (4,)}, "# or ConvTranspose2d", id="transposed"),
    pytest.param({"a.weight": (4, 2), "a.bias": (4,)}, "# check: LinearLayout::Col", id="column layout"),
]


@pytest.mark.parametrize(("shapes", "comment"), MARKED)
def test_what_a_skeleton_cannot_tell_is_said_beside_the_line(shapes: dict[str, Shape], comment: str) -> None:
    assert comment in printed(shapes)


def test_what_a_skeleton_settles_has_no_comment() -> None:
    assert "#" not in printed({"a.weight": (3, 2), "a.bias": (2,), "b.weight": (5, 3, 3, 3), "b.bias": (5,)})
