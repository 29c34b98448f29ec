"""Distributed checkpoints: chunks put together, objects beside them, and every way the metadata can be wrong."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from importer.arrays import to_numpy
from importer.containers import Opaque, TableContainer, open_container
from importer.errors import (
    CorruptContainerError,
    ImporterError,
    MissingFileError,
    TensorError,
    UnsupportedError,
)
from tests.builders.distributed import (
    MODULE,
    Chunk,
    Writer,
    archive,
    shape,
    storage_info,
    storage_reference,
)
from tests.builders.states import Stored, View, built, glob, group, listed, number, table, text


def floats(*values: float) -> Stored:
    return Stored("0", "FloatStorage", 4, struct.pack(f"<{len(values)}f", *values))


def sample() -> Writer:
    """Return a checkpoint with a tensor cut along its columns over two files, a transposed one, and an object."""
    writer = Writer()
    left = Chunk((0, 0), View(floats(0, 1, 3, 4), (2, 2), (2, 1)))
    writer.tensor("model.w", "float32", (2, 3), [left, Chunk((0, 2), View(floats(2, 5), (2, 1), (1, 1)))])
    writer.tensor(
        "model.t", "float32", (2, 2), [Chunk((0, 0), View(floats(0, 1, 2, 3), (2, 2), (1, 2)))], "__1_0.distcp"
    )
    writer.object("step", number(7))
    return writer


def write(folder: Path, writer: Writer) -> Path:
    for name, data in writer.files.items():
        (folder / name).write_bytes(data)
    path = folder / ".metadata"
    path.write_bytes(writer.metadata())
    return path


def opened(folder: Path, writer: Writer) -> TableContainer:
    write(folder, writer)
    container = open_container(folder).container
    assert isinstance(container, TableContainer)
    return container


def test_chunks_are_put_together(tmp_path: Path) -> None:
    container = opened(tmp_path, sample())
    assert container.kind == "distributed"
    assert {name: to_numpy(array).tolist() for name, array in container.arrays.items()} == {
        "model.w": [[0, 1, 2], [3, 4, 5]],
        "model.t": [[0, 2], [1, 3]],
    }


def test_entries_that_are_no_tensors_come_as_trees(tmp_path: Path) -> None:
    assert {name: tree.value for name, tree in opened(tmp_path, sample()).objects.items()} == {"step": 7}


def test_an_object_with_tensors_inside_is_told_apart(tmp_path: Path) -> None:
    writer = sample()
    writer.object("cache", listed(storage_reference(floats(1))), storage=bytes(4))
    container = opened(tmp_path, writer)
    assert container.opaque == (Opaque("cache", "object", "an object with tensors inside it, stored as one item"),)


def test_all_files_are_listed_metadata_first(tmp_path: Path) -> None:
    names = [Path(path).name for path in opened(tmp_path, sample()).paths]
    assert names == [".metadata", "__0_0.distcp", "__1_0.distcp"]


def test_the_metadata_file_may_be_passed_itself(tmp_path: Path) -> None:
    assert open_container(write(tmp_path, sample())).container.kind == "distributed"


INDEX = built(glob(MODULE, "MetadataIndex"), table({"fqn": text("step"), "offset": b"N"}))


def lost_file(writer: Writer) -> None:
    del writer.files["__1_0.distcp"]


def lost_item(writer: Writer) -> None:
    writer.items.popitem()


def lost_chunk(writer: Writer) -> None:
    writer.tensor("x", "float32", (2, 2), [Chunk((0, 0), View(floats(1, 2), (1, 2), (2, 1)))])


def short_file(writer: Writer) -> None:
    writer.files["__0_0.distcp"] = writer.files["__0_0.distcp"][:-1]


def outside(writer: Writer) -> None:
    writer.items = {index: storage_info("../x", 0, 1) for index in writer.items}


def compressed(writer: Writer) -> None:
    more = {"transform_descriptors": listed(text("zstd"))}
    writer.items[INDEX] = storage_info("__0_0.distcp", 0, 1, more)


def negative(writer: Writer) -> None:
    writer.items[INDEX] = storage_info("__0_0.distcp", -1, 1)


def another_class(writer: Writer) -> None:
    writer.items[text("step")] = storage_info("__0_0.distcp", 0, 1)


def stateless_index(writer: Writer) -> None:
    writer.items[glob(MODULE, "MetadataIndex") + b")\x81"] = storage_info("__0_0.distcp", 0, 1)


def index_with_a_tuple(writer: Writer) -> None:
    writer.items[built(glob(MODULE, "MetadataIndex"), group(text("step")))] = storage_info("__0_0.distcp", 0, 1)


def unknown_type(writer: Writer) -> None:
    writer.tensor("x", "float99", (1,), [Chunk((0,), View(floats(1), (1,), (1,)))])


def other_type(writer: Writer) -> None:
    writer.tensor("x", "int64", (1,), [Chunk((0,), View(floats(1), (1,), (1,)))])


def no_tensor(writer: Writer) -> None:
    writer.tensor("x", "float32", (1,), [])
    chunk = table({"offsets": shape((0,)), "sizes": shape((1,))})
    fields = {
        "properties": built(glob(MODULE, "TensorProperties"), b"(" + glob("torch", "float32") + b"t"),
        "size": shape((1,)),
        "chunks": listed(built(glob(MODULE, "ChunkStorageMetadata"), chunk)),
    }
    writer.entries["x"] = built(glob(MODULE, "TensorStorageMetadata"), table(fields))
    writer.item("x", shape((0,)), archive(number(3)), "__0_0.distcp")


def untyped(writer: Writer) -> None:
    stored = Stored("0", "UntypedStorage", 1, bytes(4))
    writer.tensor("x", "float32", (1,), [Chunk((0,), View(stored, (1,), (1,)))])


def no_properties(writer: Writer) -> None:
    fields = {"properties": b"N", "size": shape((1,)), "chunks": b"]"}
    writer.entries["x"] = built(glob(MODULE, "TensorStorageMetadata"), table(fields))


def size_as_list(writer: Writer) -> None:
    writer.tensor("x", "float32", (), [])
    writer.entries["x"] = writer.entries["x"].replace(shape(()), listed(number(1)))


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        pytest.param(lost_file, MissingFileError, "'__1_0.distcp' is not in the folder", id="file lost"),
        pytest.param(lost_item, CorruptContainerError, "no item for 'step' at 'None'", id="item lost"),
        pytest.param(lost_chunk, TensorError, "do not cover", id="chunk lost"),
        pytest.param(short_file, CorruptContainerError, "beyond the end of '__0_0.distcp'", id="file cut"),
        pytest.param(outside, CorruptContainerError, "leaves the folder", id="path outside"),
        pytest.param(compressed, UnsupportedError, "transformed by", id="compressed"),
        pytest.param(negative, CorruptContainerError, "storage table is damaged", id="negative offset"),
        pytest.param(another_class, CorruptContainerError, "'step' is no MetadataIndex", id="another class"),
        pytest.param(stateless_index, CorruptContainerError, "storage table is damaged", id="index without state"),
        pytest.param(index_with_a_tuple, CorruptContainerError, "is no MetadataIndex", id="index with a tuple"),
        pytest.param(unknown_type, CorruptContainerError, "'torch.float99' of 'x' is not known", id="unknown type"),
        pytest.param(other_type, CorruptContainerError, r"no tensor I64 '\(1,\)'", id="other type"),
        pytest.param(no_tensor, CorruptContainerError, "no tensor F32", id="item without tensor"),
        pytest.param(untyped, CorruptContainerError, "no tensor F32", id="untyped storage"),
        pytest.param(no_properties, CorruptContainerError, "entry of 'x' is damaged", id="no properties"),
        pytest.param(size_as_list, CorruptContainerError, "is no size", id="size as list"),
    ],
)
def test_a_damaged_checkpoint_is_refused(
    tmp_path: Path, damage: Callable[[Writer], None], error: type[ImporterError], message: str
) -> None:
    writer = sample()
    damage(writer)
    write(tmp_path, writer)
    with pytest.raises(error, match=message):
        open_container(tmp_path)


def test_an_item_that_torch_save_did_not_write_is_refused(tmp_path: Path) -> None:
    writer = Writer()
    writer.object("step", number(7))
    writer.files["__0_0.distcp"] = writer.files["__0_0.distcp"].replace(b"data.pkl", b"file.pkl")
    write(tmp_path, writer)
    with pytest.raises(CorruptContainerError, match="nothing that torch"):
        open_container(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        pytest.param(text("state_dict_metadata"), text("other"), "'state_dict_metadata' is no table", id="no entries"),
        pytest.param(text("model.w") + b"c", number(5) + b"c", "name '5' is no text", id="name"),
    ],
)
def test_metadata_with_another_structure_is_refused(tmp_path: Path, old: bytes, new: bytes, message: str) -> None:
    path = write(tmp_path, sample())
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(CorruptContainerError, match=message):
        open_container(path)
