"""A family's checkpoint saved out of training wrappers converts to the same bytes as the plain one."""

from __future__ import annotations

from pathlib import Path

import pytest

from importer.checkpoint import open_checkpoint
from importer.conversion import convert
from importer.writers import Destination, OutputFormat, OutputTensor, plan_layout, write
from tests.shared import REPOSITORY

BERT = REPOSITORY / "fixtures" / "families" / "minilm"


def renamed(folder: Path, wrap: str) -> Path:
    """Write the weights under wrapped names, without a configuration beside them, and return the file."""
    plain = open_checkpoint(BERT)
    outputs = []
    for name, tensor in plain.tensors.items():
        inner = name.replace(".attention.", "._fsdp_wrapped_module.attention.") if "fsdp" in wrap else name
        outputs.append(OutputTensor(wrap + inner, tensor.array, None))
    path = folder / "wrapped.safetensors"
    destination = Destination(path=str(path), format=OutputFormat.SAFETENSORS)
    write(outputs, destination, plan_layout(outputs, destination))
    return path


@pytest.mark.parametrize("wrap", ["module.module.", "_orig_mod.module.", "_fsdp_wrapped_module."])
def test_wrapped_names_are_read_as_those_of_the_model(tmp_path: Path, wrap: str) -> None:
    result = convert(renamed(tmp_path, wrap), tmp_path / "wrapped.bpk", strict=True)
    assert result.is_success, result.to_text()
    convert(BERT, tmp_path / "plain.bpk", strict=True)
    wrapped, plain = open_checkpoint(tmp_path / "wrapped.bpk"), open_checkpoint(tmp_path / "plain.bpk")
    assert list(wrapped.tensors) == list(plain.tensors)
    assert all((wrapped[name].numpy() == plain[name].numpy()).all() for name in plain.tensors)
