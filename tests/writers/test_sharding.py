"""Shards are filled, named and indexed the way Hugging Face does it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from importer.errors import UnrepresentableError
from importer.writers import Destination, Layout, OutputFormat, OutputTensor, plan_layout, write
from tests.builders.outputs import counting


def planned(sizes: list[int], limit: int | None, name: str = "model.safetensors") -> Layout:
    """Plan F32 vectors `a`, `b`, `c`… of the given byte sizes."""
    tensors = [counting(chr(97 + index), (size // 4,)) for index, size in enumerate(sizes)]
    form = OutputFormat.BURNPACK if name.endswith(".bpk") else OutputFormat.SAFETENSORS
    return plan_layout(tensors, Destination(path=f"folder/{name}", format=form, shard_size=limit))


def contents(layout: Layout) -> list[str]:
    return ["".join(sorted(placed.tensor.name for placed in file.placed)) for _, file in layout.files]


@pytest.mark.parametrize(
    ("sizes", "limit", "expected"),
    [
        ([8, 8, 8], None, ["abc"]),
        ([8, 8, 8], 24, ["abc"]),
        ([8, 8, 8], 16, ["ab", "c"]),
        ([8, 8, 8], 15, ["a", "b", "c"]),
        ([8, 40, 8], 16, ["a", "b", "c"]),
        ([40], 16, ["a"]),
        ([0, 0], 16, ["ab"]),
        ([], 16, [""]),
    ],
    ids=str,
)
def test_shards_are_filled_in_order_up_to_the_limit(sizes: list[int], limit: int | None, expected: list[str]) -> None:
    assert contents(planned(sizes, limit)) == expected


@pytest.mark.parametrize(
    ("name", "first", "index"),
    [
        ("model.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"),
        ("llama.v2.bpk", "llama.v2-00001-of-00002.bpk", "llama.v2.bpk.index.json"),
    ],
    ids=["safetensors", "burnpack"],
)
def test_names_are_hugging_faces(name: str, first: str, index: str) -> None:
    layout = planned([8, 8], 8, name)
    assert layout.files[0][0] == f"folder/{first}"
    assert layout.index is not None
    assert layout.index[0] == f"folder/{index}"


def test_the_index_is_hugging_faces() -> None:
    layout = planned([8, 8, 4], 16)
    assert layout.index is not None
    assert layout.index[1].decode() == (
        "{\n"
        '  "metadata": {\n'
        '    "total_size": 20\n'
        "  },\n"
        '  "weight_map": {\n'
        '    "a": "model-00001-of-00002.safetensors",\n'
        '    "b": "model-00001-of-00002.safetensors",\n'
        '    "c": "model-00002-of-00002.safetensors"\n'
        "  }\n"
        "}\n"
    )


def test_one_shard_is_a_plain_file_without_index() -> None:
    layout = planned([8], 16)
    assert layout.index is None
    assert [path for path, _ in layout.files] == ["folder/model.safetensors"]


def test_a_name_in_two_shards_is_refused() -> None:
    tensors: list[OutputTensor] = [counting("a", (2,)), counting("a", (2,))]
    with pytest.raises(UnrepresentableError, match="two tensors"):
        plan_layout(tensors, Destination(path="x", format=OutputFormat.BURNPACK, shard_size=8))


def test_the_planned_size_is_what_is_written(tmp_path: Path) -> None:
    tensors = [counting("a", (2,)), counting("b", (3,))]
    destination = Destination(path=str(tmp_path / "m.bpk"), format=OutputFormat.BURNPACK, shard_size=8)
    written = write(tensors, destination)
    assert written.nbytes == plan_layout(tensors, destination).nbytes
    assert written.nbytes == sum(Path(path).stat().st_size for path in written.paths)
    assert {Path(path) for path in written.paths} == set(tmp_path.iterdir())
    assert json.loads(Path(written.paths[-1]).read_text(encoding="utf-8"))["metadata"] == {"total_size": 20}
