"""The ZIP layouts of torch: storages by persistent id, byte order, roots, and archives that are something else."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from importer.containers import StorageRecord, open_container
from importer.dtypes import F32, I64
from importer.errors import (
    CorruptContainerError,
    MalformedPickleError,
    MissingFileError,
    TensorError,
    UnknownContainerError,
    UnsupportedError,
)
from importer.storages import FileRange
from importer.unpickling import Global, PersistentId
from tests.builders.states import (
    COUNTS,
    MODEL,
    PERSISTENT,
    WEIGHT,
    Stored,
    View,
    glob,
    group,
    number,
    pickled,
    table,
    text,
)
from tests.builders.zips import DEFLATED, Entry, build_zip, torch_entries, torch_zip
from tests.containers.conftest import Save, content, pickle_container, records


def with_object(body: bytes) -> bytes:
    """Return a checkpoint that holds `body` and one storage of 8 bytes."""
    return build_zip([Entry("a/data.pkl", pickled(body)), Entry("a/data/0", bytes(8)), Entry("a/version", b"3")])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(torch_zip(), id="torch.save since 1.6"),
        pytest.param(torch_zip(folder="tensors/"), id="torch 1.4"),
        pytest.param(torch_zip(method=DEFLATED), id="zipped again by hand"),
        pytest.param(build_zip(torch_entries(root="")), id="no root folder"),
        pytest.param(build_zip(torch_entries(root="x/y/z/")), id="deep root folder"),
    ],
)
def test_storages_are_found_by_persistent_id(save: Save, data: bytes) -> None:
    found = records(save(data))
    assert {key: content(record.storage) for key, record in found.items()} == {"0": WEIGHT.data, "1": COUNTS.data}
    assert [(record.dtype, record.numel, record.offset) for record in found.values()] == [(F32, 6, 0), (I64, 3, 0)]


def test_stored_records_are_read_in_place(save: Save) -> None:
    path = save(torch_zip())
    storage = records(path)["0"].storage
    assert isinstance(storage, FileRange)
    assert path.read_bytes()[storage.offset :].startswith(WEIGHT.data)


def test_one_storage_is_one_record_however_often_it_is_named(save: Save) -> None:
    container = pickle_container(open_container(save(torch_zip())))
    first, second, _ = map(container.resolve, container.tree.persistent_ids)
    assert first is second


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        pytest.param(b"little", False, id="little"),
        pytest.param(b"big", True, id="big"),
        pytest.param(None, False, id="absent"),
    ],
)
def test_the_byte_order_is_read(save: Save, order: bytes | None, expected: bool) -> None:
    entries = torch_entries() + ([] if order is None else [Entry("archive/byteorder", order)])
    assert pickle_container(open_container(save(build_zip(entries)))).big_endian is expected


def test_an_unknown_byte_order_is_refused(save: Save) -> None:
    with pytest.raises(CorruptContainerError, match="instead of 'little' or 'big'"):
        open_container(save(build_zip([*torch_entries(), Entry("archive/byteorder", b"middle")])))


def test_the_least_deep_pickle_is_the_checkpoint(save: Save) -> None:
    entries = [Entry("archive/extra/deep/data.pkl", b"other"), *torch_entries()]
    assert records(save(build_zip(entries))).keys() == {"0", "1"}


def test_two_checkpoints_in_one_archive_are_refused(save: Save) -> None:
    with pytest.raises(CorruptContainerError, match="more than one checkpoint: 'a/' and 'archive/'"):
        open_container(save(build_zip([*torch_entries(), Entry("a/data.pkl", b"N.")])))


def test_bytes_before_the_archive_are_noted(save: Save) -> None:
    container = pickle_container(open_container(save(build_zip(torch_entries(), before=b"\x00\x01\x02header"))))
    assert container.notes == ("9 bytes before the archive are ignored",)


def test_a_missing_record_is_named(save: Save) -> None:
    entries = [entry for entry in torch_entries() if not entry.name.endswith("data/1")]
    with pytest.raises(MissingFileError, match="'archive/data/1' does not exist"):
        records(save(build_zip(entries)))


def test_a_record_shorter_than_declared_is_refused(save: Save) -> None:
    entries = [
        Entry(entry.name, entry.data[:-1]) if entry.name.endswith("data/1") else entry for entry in torch_entries()
    ]
    with pytest.raises(TensorError, match="storage '1' is declared with 24 bytes but has 23"):
        records(save(build_zip(entries)))


def test_an_untyped_storage_counts_bytes(save: Save) -> None:
    stored = Stored("0", "UntypedStorage", 1, bytes(10))
    record = records(save(torch_zip({"x": View(stored, (2,), (1,))})))["0"]
    assert (record.dtype, record.numel) == (None, 10)


def resolved(path: Path) -> object:
    container = pickle_container(open_container(path))
    return container.resolve(container.tree.persistent_ids[0])


def test_a_key_may_be_a_number(save: Save) -> None:
    body = group(text("storage"), glob("torch", "FloatStorage"), number(0), text("cpu"), number(2)) + PERSISTENT
    record = resolved(save(with_object(body)))
    assert isinstance(record, StorageRecord)
    assert record.key == "0"


def test_a_class_saved_with_its_source_is_that_class(save: Save) -> None:
    body = group(text("module"), glob("m", "Net"), text("m.py"), text("class Net: ...")) + PERSISTENT
    assert resolved(save(with_object(body))) == Global("m", "Net")


FLOAT = glob("torch", "FloatStorage")


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([text("tensor"), FLOAT, text("0"), text("cpu"), number(2)], id="another word"),
        pytest.param([text("storage"), text("float"), text("0"), text("cpu"), number(2)], id="no class"),
        pytest.param([text("storage"), FLOAT, b"N", text("cpu"), number(2)], id="no key"),
        pytest.param([text("storage"), FLOAT, text("0"), text("cpu"), number(-1)], id="negative size"),
        pytest.param([text("storage"), FLOAT, text("0"), text("cpu"), text("2")], id="size as text"),
        pytest.param([text("storage"), FLOAT, text("0"), text("cpu"), number(2), number(1)], id="view as number"),
        pytest.param([text("storage"), FLOAT, text("0")], id="too few parts"),
    ],
)
def test_a_persistent_id_torch_never_writes_is_refused(save: Save, parts: list[bytes]) -> None:
    with pytest.raises(MalformedPickleError, match=r"none that torch writes|does not fit into its storage"):
        resolved(save(with_object(group(*parts) + PERSISTENT)))


@pytest.mark.parametrize(
    "storage_class",
    [pytest.param(glob("torch", "DreamStorage"), id="name"), pytest.param(glob("os", "FloatStorage"), id="module")],
)
def test_an_unknown_storage_class_is_refused(save: Save, storage_class: bytes) -> None:
    body = group(text("storage"), storage_class, text("0"), text("cpu"), number(2)) + PERSISTENT
    with pytest.raises(UnsupportedError, match="Storage' are not known"):
        resolved(save(with_object(body)))


def test_a_persistent_id_that_is_no_tuple_is_refused(save: Save) -> None:
    container = pickle_container(open_container(save(torch_zip(MODEL))))
    with pytest.raises(MalformedPickleError):
        container.resolve(PersistentId("0"))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        pytest.param([Entry("w.npy"), Entry("b.npy")], "numpy archive", id="npz"),
        pytest.param([Entry("config.json"), Entry("model.weights.h5")], "Keras", id="keras"),
        pytest.param([Entry("readme.txt")], "without a data.pkl.*'readme.txt'", id="other"),
        pytest.param([Entry(str(n)) for n in range(9)], "'3' and 5 more", id="many"),
        pytest.param([], "holds nothing", id="empty"),
        pytest.param([Entry("a/model.json")], "without a data.pkl", id="model.json alone"),
    ],
)
def test_other_archives_are_named(save: Save, entries: list[Entry], message: str) -> None:
    with pytest.raises(UnknownContainerError, match=message):
        open_container(save(build_zip(entries)))


def package(*names: str) -> bytes:
    """Return a package of torch.package with the model under the names given."""
    data, *stored = [entry.data for entry in torch_entries() if entry.name.endswith(("data.pkl", "data/0", "data/1"))]
    storages = [Entry(f"p/.data/{key}.storage", content) for key, content in enumerate(stored)]
    return build_zip([*storages, *(Entry(f"p/{name}", data) for name in names), Entry("p/.data/extern_modules", b"")])


def test_the_object_of_a_package_is_read(save: Save) -> None:
    path = save(package("model/model.pkl"))
    record = records(path)["0"]
    assert isinstance(record.storage, FileRange)
    assert path.read_bytes()[record.storage.offset :].startswith(WEIGHT.data)


@pytest.mark.parametrize("name", ["tts_models/model", "model/weights.bin"])
def test_the_object_of_a_package_may_have_any_name(save: Save, name: str) -> None:
    assert "0" in records(save(package(name)))


def test_the_other_objects_of_a_package_are_noted(save: Save) -> None:
    data = package("model/model.pkl")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = [Entry(info.filename, archive.read(info)) for info in archive.infolist()]
    more = [Entry("p/config.pkl", pickled(table({}))), Entry("p/notes.txt", b"hello"), Entry("p/code.py", b"")]
    container = open_container(save(build_zip([*entries, *more]))).container
    assert any("'config.pkl'" in note for note in container.notes)


@pytest.mark.parametrize("names", [(), ("a/model.pkl", "b/model.pkl")], ids=["none", "two"])
def test_a_package_without_one_object_is_refused(save: Save, names: tuple[str, ...]) -> None:
    with pytest.raises(UnsupportedError, match=f"with {len(names)} objects"):
        open_container(save(package(*names)))
