"""Real checkpoint files of the families: pickled and safetensors files alike, each through the recipe that is found for it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from importer.checkpoint import open_checkpoint
from importer.conversion import convert
from tests.families.recorded import RECIPES
from tests.shared import FAMILIES

FILES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "tiny.pt", "consolidated.00.pth")
CHECKPOINTS = [
    path
    for name in RECIPES
    for file in FILES
    if not name.startswith("torch_") and (path := FAMILIES / name / file).exists()
]
PAIRS = [path.parent for path in CHECKPOINTS if path.name == "pytorch_model.bin" and path.with_name(FILES[0]).exists()]


@pytest.mark.parametrize("path", CHECKPOINTS, ids=lambda path: f"{path.parent.name}-{path.suffix[1:]}")
def test_a_real_checkpoint_converts_without_rest(path: Path, tmp_path: Path) -> None:
    result = convert(path, tmp_path / "out.bpk")
    assert [str(item) for item in (*result.missing, *result.unused, *result.errors)] == []
    assert result.recipe is not None
    assert result.recipe.startswith(RECIPES[path.parent.name])


@pytest.mark.parametrize("folder", PAIRS, ids=lambda folder: folder.name)
def test_the_pickled_file_gives_what_the_safetensors_file_gives(folder: Path, tmp_path: Path) -> None:
    """The pickled ones follow the spelling of older published files."""
    outputs = []
    for file in ("model.safetensors", "pytorch_model.bin"):
        convert(folder / file, tmp_path / f"{file}.bpk")
        outputs.append(open_checkpoint(tmp_path / f"{file}.bpk").tensors)
    assert list(outputs[0]) == [name for name in outputs[1] if not name.startswith("seq_relationship.")]
    assert (len(outputs[1]) > len(outputs[0])) == (folder.name == "bert"), (
        "the head of pre-training, in the pickled one only"
    )
    for name, tensor in outputs[0].items():
        np.testing.assert_array_equal(tensor.numpy(), outputs[1][name].numpy(), err_msg=name)
