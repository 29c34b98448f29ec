"""Files written by real releases of torch give exactly the tensors that release saw in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from importer.checkpoint import open_checkpoint
from tests.checkpoint.expectations import described, expectations, recorded

FILES = [(path.with_suffix(".pt"), expected) for _, path, expected in expectations("vintage/*/*.json")]


@pytest.mark.parametrize(
    ("path", "expected"), FILES, ids=lambda item: f"{item.parent.name}/{item.stem}" if isinstance(item, Path) else ""
)
def test_a_file_gives_the_tensors_its_release_saw(path: Path, expected: dict[str, Any]) -> None:
    checkpoint = open_checkpoint(path)
    assert described(checkpoint.tensors, checkpoint.root) == recorded(expected["tensors"])
    assert [entry.name for entry in checkpoint.unsupported] == expected.get("unsupported", [])


@pytest.mark.parametrize(
    "path",
    [path for path, _ in FILES if path.stem.endswith("full_model")],
    ids=lambda path: f"{path.parent.name}/{path.stem}",
)
def test_every_tensor_of_a_whole_model_has_the_class_of_its_module(path: Path) -> None:
    checkpoint = open_checkpoint(path)
    for name, tensor in checkpoint.tensors.items():
        assert tensor.module_type is not None
        assert checkpoint.modules[name.rpartition(".")[0]].class_name == tensor.module_type


def test_there_are_files_of_the_oldest_and_of_recent_releases() -> None:
    assert {path.parent.name for path, _ in FILES} >= {"torch-1.0.0", "torch-1.4.0", "torch-1.6.0", "torch-2.14.1"}
