"""Folders of public families convert to exactly the parameters their public Burn modules have, values bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import importer
from tests.shared import FAMILIES

WEIGHTS = ("model.safetensors", "pytorch_model.bin", "consolidated.00.pth")


INPUTS = [
    pytest.param(target.parent.name, name, id=f"{target.parent.name}-{name}")
    for target in sorted(FAMILIES.glob("*/burn_target.json"))
    for name in WEIGHTS
    if (target.parent / name).exists()
]


def folder_with(family: str, weights: str, place: Path) -> Path:
    """Return a folder that holds the config and one of the family's weight files."""
    for name in ("config.json", weights):
        (place / name).symlink_to(FAMILIES / family / name)
    return place


def words(tensor: importer.Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
    """Return the elements as unsigned integers, so that comparisons see bits."""
    values = tensor.numpy()
    return values.view(f"u{values.dtype.itemsize}")


@pytest.mark.parametrize(("family", "weights"), INPUTS)
def test_names_and_shapes_are_those_of_the_burn_module(family: str, weights: str, tmp_path: Path) -> None:
    out = tmp_path / "out.bpk"
    result = importer.convert(folder_with(family, weights, tmp_path), out)
    assert result.exit_code == 0, result.to_text()
    assert not result.unused
    expected = {e["name"]: tuple(e["shape"]) for e in json.loads((FAMILIES / family / "burn_target.json").read_text())}
    assert {name: tensor.shape for name, tensor in importer.open(out).tensors.items()} == expected


@pytest.mark.parametrize(("family", "weights"), INPUTS)
def test_every_value_is_a_source_value_in_the_new_layout(family: str, weights: str, tmp_path: Path) -> None:
    """Plain and transposed parameters are bit-equal; permuted rows (rotary) are the same rows in another order."""
    result = importer.convert(folder_with(family, weights, tmp_path), tmp_path / "out.bpk", dtype="keep")
    source, output = importer.open(tmp_path / weights), importer.open(tmp_path / "out.bpk")
    for applied in result.applied:
        (name,) = applied.sources
        before, after = words(source[name]), words(output[applied.name])
        if "rearrange" in " ".join(applied.rules):
            before, after = np.sort(before, axis=0), np.sort(after.T, axis=0)
        elif applied.layer == "Linear" and after.ndim == 2:
            after = after.T
        np.testing.assert_array_equal(before, after, err_msg=applied.name)


def test_rotary_rows_move_from_halves_to_adjacent_pairs(tmp_path: Path) -> None:
    """An independent formula for the one permutation that shapes cannot show."""
    importer.convert(FAMILIES / "llama", tmp_path / "out.bpk")
    heads, kv, hidden = 4, 2, 32
    before = importer.open(FAMILIES / "llama" / "model.safetensors")
    after = importer.open(tmp_path / "out.bpk")
    for source, target, count in (("q_proj", "wq", heads), ("k_proj", "wk", kv)):
        rows = words(before[f"model.layers.0.self_attn.{source}.weight"])
        half = len(rows) // count // 2
        order = [head * 2 * half + part * half + i for head in range(count) for i in range(half) for part in (0, 1)]
        np.testing.assert_array_equal(words(after[f"layers.0.attention.{target}.weight"]).T, rows[order])
        assert rows.shape[1] == hidden


@pytest.mark.parametrize("extension", ["bpk", "safetensors"])
def test_the_same_conversion_twice_gives_the_same_bytes(extension: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"a.{extension}", tmp_path / f"b.{extension}"
    importer.convert(FAMILIES / "resnet18", first, workers=1, param_ids="stable")
    importer.convert(FAMILIES / "resnet18", second, workers=4, param_ids="stable")
    assert first.read_bytes() == second.read_bytes()
