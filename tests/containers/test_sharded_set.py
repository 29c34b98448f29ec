"""Sharded sets by index, and tensor-parallel slices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from importer.containers import PickleContainer, SetContainer, TableContainer, open_container
from importer.errors import CorruptContainerError, MissingFileError
from tests.builders.tables import safetensors, safetensors_entry
from tests.builders.zips import torch_zip

SHARDS = {
    "model-00001-of-00002.safetensors": safetensors({"a": safetensors_entry("U8", [1], 0, 1)}, b"\x01"),
    "model-00002-of-00002.safetensors": safetensors({"b": safetensors_entry("U8", [1], 0, 1)}, b"\x02"),
}
INDEX = {
    "metadata": {"total_size": 2, "format": "pt"},
    "weight_map": {"b": "model-00002-of-00002.safetensors", "a": "model-00001-of-00002.safetensors"},
}


def write_set(folder: Path, index: object, shards: dict[str, bytes]) -> Path:
    for name, data in shards.items():
        (folder / name).write_bytes(data)
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps(index))
    return path


def opened_set(path: Path) -> SetContainer:
    container = open_container(path).container
    assert isinstance(container, SetContainer)
    return container


def test_shards_come_in_the_order_of_their_names_with_what_the_index_expects(tmp_path: Path) -> None:
    container = opened_set(write_set(tmp_path, INDEX, SHARDS))
    assert container.kind == "sharded"
    assert [Path(shard.path).name for shard in container.shards] == list(SHARDS)
    assert [shard.expected for shard in container.shards] == [frozenset({"a"}), frozenset({"b"})]
    assert [
        list(shard.container.arrays) for shard in container.shards if isinstance(shard.container, TableContainer)
    ] == [
        ["a"],
        ["b"],
    ]


def test_the_texts_of_the_metadata_are_kept(tmp_path: Path) -> None:
    assert opened_set(write_set(tmp_path, INDEX, SHARDS)).metadata == {"format": "pt"}


def test_all_files_of_the_set_are_listed_index_first(tmp_path: Path) -> None:
    path = write_set(tmp_path, INDEX, SHARDS)
    assert opened_set(path).paths == (str(path), *(str(tmp_path / name) for name in SHARDS))


def test_pickled_shards_are_opened_by_content(tmp_path: Path) -> None:
    index = {"weight_map": {"fc.weight": "pytorch_model-00001-of-00001.bin"}}
    container = opened_set(write_set(tmp_path, index, {"pytorch_model-00001-of-00001.bin": torch_zip()}))
    assert isinstance(container.shards[0].container, PickleContainer)
    assert container.metadata == {}


def test_missing_shards_are_listed(tmp_path: Path) -> None:
    path = write_set(tmp_path, INDEX, dict(list(SHARDS.items())[:1]))
    with pytest.raises(MissingFileError, match=r"1 of 2 shards are missing: 'model-00002-of-00002\.safetensors'"):
        open_container(path)


def test_many_missing_shards_are_counted(tmp_path: Path) -> None:
    path = write_set(tmp_path, {"weight_map": {str(n): f"{n}.bin" for n in range(9)}}, {})
    with pytest.raises(MissingFileError, match=r"9 of 9 shards.*'4\.bin' and 4 more"):
        open_container(path)


@pytest.mark.parametrize(
    "weight_map",
    [
        pytest.param({}, id="empty"),
        pytest.param([], id="list"),
        pytest.param({"a": 1}, id="number"),
        pytest.param({"a": "../model.safetensors"}, id="outside"),
        pytest.param({"a": "/etc/passwd"}, id="absolute"),
    ],
)
def test_a_wrong_weight_map_is_refused(tmp_path: Path, weight_map: object) -> None:
    with pytest.raises(CorruptContainerError):
        open_container(write_set(tmp_path, {"weight_map": weight_map}, SHARDS))


def test_slices_have_the_name_of_their_file_before_every_name(tmp_path: Path) -> None:
    for number in (1, 0):
        (tmp_path / f"consolidated.{number:02}.pth").write_bytes(torch_zip())
    container = opened_set(tmp_path)
    assert container.kind == "slices"
    assert [(shard.prefix, shard.expected) for shard in container.shards] == [
        ("consolidated.00.", None),
        ("consolidated.01.", None),
    ]
    assert container.notes == ("2 tensor-parallel slices; a recipe has to concatenate them",)
