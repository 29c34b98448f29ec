"""What a refusal suggests can be followed as it is printed: saved as a recipe, it converts every tensor once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

import importer
from importer.errors import DecisionNeededError
from tests.shared import FIXTURES

SAVED = sorted(FIXTURES.glob("whole_models/*.pt"))
Shapes = dict[str, tuple[int, ...]]

LAYERS: dict[str, Shapes] = {
    "linear": {"weight": (3, 4), "bias": (3,)},
    "square": {"weight": (4, 4), "bias": (4,)},
    "table": {"weight": (9, 4)},
    "norm": {"weight": (4,), "bias": (4,)},
    "rms": {"weight": (4,)},
    "slope": {"weight": (1,)},
    "conv": {"weight": (3, 4, 2), "bias": (3,)},
    "batch": {"weight": (4,), "bias": (4,), "running_mean": (4,), "running_var": (4,), "num_batches_tracked": ()},
    "lstm": {"weight_ih_l0": (8, 3), "weight_hh_l0": (8, 2), "bias_ih_l0": (8,), "bias_hh_l0": (8,)},
    "attention": {"in_proj_weight": (12, 4), "in_proj_bias": (12,), "out_proj.weight": (4, 4), "out_proj.bias": (4,)},
    "normed": {"parametrizations.weight.original0": (3, 1), "parametrizations.weight.original1": (3, 4), "bias": (3,)},
    "hooked": {"weight_g": (3, 1), "weight_v": (3, 4), "bias": (3,)},
    "odd": {"weight": (3, 4), "scale": (5,)},
    "odd_attention": {"in_proj_weight": (10, 4)},
    "half_lstm": {"weight_ih_l0": (7, 3), "weight_hh_l0": (7, 2)},
    "bare": {"scale": (5,)},
}
SEGMENTS = st.sampled_from(["0", "1", "2", "10", "fc", "emb", "it's", "a b", "x-y", "é", "(c)", "<Basic>"])
PATHS = st.lists(SEGMENTS, max_size=3).map(".".join)
MODELS = st.dictionaries(PATHS, st.sampled_from(sorted(LAYERS)), min_size=1, max_size=8)


def state_dict(model: dict[str, str]) -> Shapes:
    return {
        f"{path}.{leaf}" if path else leaf: shape
        for path, layer in model.items()
        for leaf, shape in LAYERS[layer].items()
    }


def followed(source: Path, folder: Path) -> importer.ApplyResult:
    """Convert; where that is refused, with the printed lines as the recipe."""
    try:
        return importer.convert(source, folder / "out.bpk", overwrite=True)
    except DecisionNeededError as refused:
        lines = list(refused.lines)
        assert len(lines) == len(set(lines))
        head = [] if "recipe: 1" in lines else ["recipe: 1", "name: mine"]
        (folder / "mine.yaml").write_text("\n".join([*head, *lines]), encoding="utf-8")
    return importer.convert(source, folder / "out.bpk", recipe=str(folder / "mine.yaml"), overwrite=True)


def assert_complete(result: importer.ApplyResult, source: Path) -> None:
    assert [str(item) for item in (*result.missing, *result.unused, *result.errors)] == []
    used = [name for item in result.applied for name in dict.fromkeys(item.sources)]
    assert {*used, *(item.name for item in result.skipped)} == set(importer.open(source).tensors)


@pytest.mark.parametrize("source", SAVED, ids=lambda path: path.name)
def test_a_whole_model_converts_with_what_is_suggested(source: Path, tmp_path: Path) -> None:
    assert_complete(followed(source, tmp_path), source)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(model=MODELS)
def test_any_state_dict_converts_with_what_is_suggested(model: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / "model.safetensors"
    save_file({name: np.zeros(shape, np.float32) for name, shape in state_dict(model).items()}, source)
    assert_complete(followed(source, tmp_path), source)


def test_the_roots_own_matrix_is_laid_out_beside_layers_that_their_classes_tell(tmp_path: Path) -> None:
    source = FIXTURES / "whole_models" / "root_matrix.pt"
    followed(source, tmp_path)
    theirs, ours = importer.open(source).tensors, importer.open(tmp_path / "out.bpk").tensors
    np.testing.assert_array_equal(ours["weight"].numpy(), theirs["weight"].numpy().T)
    np.testing.assert_array_equal(ours["fc.weight"].numpy(), theirs["fc.weight"].numpy().T)
    np.testing.assert_array_equal(ours["norm.gamma"].numpy(), theirs["norm.weight"].numpy())


def test_unlike_modules_of_one_list_get_a_line_each_with_their_numbers(tmp_path: Path) -> None:
    with pytest.raises(DecisionNeededError) as refused:
        importer.convert(FIXTURES / "whole_models" / "unlike.pt", tmp_path / "out.bpk")
    assert [line.partition(",")[0] for line in refused.value.lines[1:]] == [
        r"  - ['^layers\.(0|2|3)$'",
        r"  - ['^layers\.1$'",
    ]
