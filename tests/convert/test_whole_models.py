"""Whole models saved by real releases of torch convert without a recipe: their classes say what each module is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import importer
from importer.errors import DecisionNeededError
from tests.shared import FIXTURES

REFUSED = {
    "layers_full_model": ["batch_only"],  # a batch norm without statistics: Burn's cannot do without
    "pruned_full_model": ["0.weight_orig", "0.weight_mask"],  # put together by a hook that Burn has not
}
MODELS = sorted(FIXTURES.glob("vintage/*/*full_model.pt"))


def model_id(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", [path for path in MODELS if path.stem not in REFUSED], ids=model_id)
def test_every_tensor_of_a_whole_model_is_converted_or_skipped_with_a_reason(path: Path, tmp_path: Path) -> None:
    result = importer.convert(path, tmp_path / "model.bpk")
    assert result.is_success
    assert [str(item) for item in (*result.missing, *result.unused, *result.errors)] == []
    used = {source for item in result.applied for source in item.sources}
    assert used | {item.name for item in result.skipped} == set(importer.open(path).tensors)


@pytest.mark.parametrize("path", [path for path in MODELS if path.stem in REFUSED], ids=model_id)
def test_what_burn_cannot_hold_is_refused_by_name(path: Path, tmp_path: Path) -> None:
    result = importer.convert(path, tmp_path / "model.bpk")
    assert [item.name for item in result.errors] == REFUSED[path.stem]
    assert not (tmp_path / "model.bpk").exists()


@pytest.mark.parametrize("release", ["1.0.0", "2.14.1"])
def test_a_subclass_of_the_user_is_laid_out_as_its_base_class(release: str, tmp_path: Path) -> None:
    source = FIXTURES / f"vintage/torch-{release}/full_model.pt"
    importer.convert(source, tmp_path / "model.bpk")
    given, made = importer.open(source), importer.open(tmp_path / "model.bpk")
    assert given["block.own.weight"].module_type == "__main__.OwnLinear"
    np.testing.assert_array_equal(made["block.own.weight"].numpy(), given["block.own.weight"].numpy().T)
    np.testing.assert_array_equal(made["bn.gamma"].numpy(), given["bn.weight"].numpy())


def test_the_class_of_a_whole_model_decides_against_names_that_are_another_familys(tmp_path: Path) -> None:
    """FalconMamba has Mamba's names and shapes, and normalises what Mamba does not."""
    source = FIXTURES / "classes/falcon_mamba_full_model.pt"
    with pytest.raises(DecisionNeededError):
        importer.convert(source, tmp_path / "model.bpk")
    asked = importer.convert(source, tmp_path / "model.bpk", recipe="mamba", dry_run=True)
    assert asked.is_success, "the names alone would have passed"
    assert any("FalconMambaForCausalLM" in note for note in asked.notes)
