"""Whatever stands in a recipe file, the outcome is a recipe or an error of ours."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from importer.errors import ImporterError
from importer.recipes import apply_recipe, parse_recipe
from tests.builders.named import of_names

TEXTS = [path.read_text(encoding="utf-8") for path in sorted((Path(__file__).resolve().parent / "data").glob("*.yaml"))]
PIECES = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        ["'", "[", "{", "}", "]", ":", "- ", "\n", "\t", "&a ", "*a", "!t ", "null", "$1", "{i}", "(?=", "**", "0"]
    ),
)
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), PIECES), min_size=1, max_size=4)


def attempt(text: str) -> None:
    try:
        apply_recipe(parse_recipe(text), of_names("model.layers.0.x.weight", "h.0.attn.bias"), {"hidden_size": 4})
    except ImporterError:
        return


@settings(max_examples=150)
@given(st.sampled_from(TEXTS), EDITS)
def test_a_recipe_with_random_edits_is_read_or_refused(text: str, edits: list[tuple[float, int, str]]) -> None:
    for place, deleted, inserted in edits:
        position = int(place * len(text))
        text = text[:position] + inserted + text[position + deleted :]
    attempt(text)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    attempt(text)


@given(st.text(alphabet="recipe: 1\nname x[]{}'-,", max_size=120))
def test_nearly_yaml_is_read_or_refused(text: str) -> None:
    attempt(f"recipe: 1\nname: x\nrename:{text}")
