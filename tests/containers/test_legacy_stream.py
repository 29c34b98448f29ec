"""The legacy stream: storages behind the pickles, views of storages, and every way the stream can be wrong."""

from __future__ import annotations

import pytest

from importer.containers import StorageRecord, open_container
from importer.containers.legacy_stream import is_legacy
from importer.errors import (
    CorruptContainerError,
    ImporterError,
    MalformedPickleError,
    MissingFileError,
    TruncatedError,
    UnsupportedError,
)
from importer.unpickling import Global
from tests.builders.states import (
    COUNTS,
    MODEL,
    PERSISTENT,
    WEIGHT,
    Stored,
    View,
    glob,
    group,
    legacy_pid,
    listed,
    number,
    state_dict,
    tensor,
    text,
)
from tests.builders.streams import legacy_stream
from tests.containers.conftest import Save, content, pickle_container, records

WINDOW = group(text("window"), number(2), number(3))


def test_storages_lie_behind_the_pickles(save: Save) -> None:
    found = records(save(legacy_stream()))
    assert {key: content(record.storage) for key, record in found.items()} == {"0": WEIGHT.data, "1": COUNTS.data}


def test_the_kind_is_legacy_and_nothing_is_noted(save: Save) -> None:
    container = pickle_container(open_container(save(legacy_stream())))
    assert (container.kind, container.notes, container.big_endian) == ("legacy", (), False)


def test_a_view_of_a_storage_begins_inside_it(save: Save) -> None:
    body = tensor(View(WEIGHT, (3,), (1,)), lambda stored: legacy_pid(stored, WINDOW))
    record = records(save(legacy_stream({"x": MODEL["fc.weight"]}, body=body)))["0"]
    assert (record.offset, record.numel, content(record.storage)) == (2, 3, WEIGHT.data)


def test_an_object_longer_than_the_first_windows_is_read(save: Save) -> None:
    views = {f"layers.{index}.weight": View(WEIGHT, (2, 3), (3, 1)) for index in range(2000)}
    container = pickle_container(open_container(save(legacy_stream(views))))
    assert len(container.tree.persistent_ids) == 2000


def test_a_class_saved_with_its_source_is_that_class(save: Save) -> None:
    module = group(text("module"), glob("m", "Net"), text("m.py"), text("class Net: ...")) + PERSISTENT
    body = listed(module, state_dict({"x": MODEL["counts"]}, legacy_pid))
    container = pickle_container(open_container(save(legacy_stream({"x": MODEL["counts"]}, body=body))))
    assert container.resolve(container.tree.persistent_ids[0]) == Global("m", "Net")
    assert isinstance(container.resolve(container.tree.persistent_ids[1]), StorageRecord)


def test_bytes_after_the_last_storage_are_noted(save: Save) -> None:
    container = pickle_container(open_container(save(legacy_stream() + b"more")))
    assert container.notes == ("4 bytes after the last storage are ignored",)


def test_a_storage_that_is_not_listed_is_missing(save: Save) -> None:
    with pytest.raises(MissingFileError, match="storage '1' is not in the file"):
        records(save(legacy_stream(keys=["0"])))


OTHER_SIZE = Stored("0", "FloatStorage", 4, WEIGHT.data[:-4])


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        pytest.param(legacy_stream()[:-1], TruncatedError, "24 bytes are needed here, 23 are left", id="last byte"),
        pytest.param(legacy_stream()[:-30], TruncatedError, "8 bytes are needed here, 2 are left", id="in a count"),
        pytest.param(legacy_stream()[:200], TruncatedError, "cut off", id="in the object"),
        pytest.param(legacy_stream(version=1002), UnsupportedError, "version '1002'", id="version"),
        pytest.param(legacy_stream(keys=["0", "0", "1"]), CorruptContainerError, "but twice", id="key twice"),
        pytest.param(legacy_stream(keys=["0", "7"]), CorruptContainerError, "nothing in the object", id="unknown key"),
        pytest.param(
            legacy_stream(body=state_dict({**MODEL, "x": View(OTHER_SIZE, (1,), (1,))}, legacy_pid)),
            CorruptContainerError,
            "declared twice",
            id="two sizes",
        ),
        pytest.param(
            legacy_stream({"x": View(OTHER_SIZE, (1,), (1,))}, body=state_dict({"x": MODEL["fc.weight"]}, legacy_pid)),
            CorruptContainerError,
            "has 5 elements, 6 are declared",
            id="another count",
        ),
        pytest.param(legacy_stream(count_format=">q"), UnsupportedError, "big-endian", id="big-endian count"),
        pytest.param(
            legacy_stream(
                body=tensor(MODEL["fc.weight"], lambda s: legacy_pid(s, group(text("v"), number(5), number(2))))
            ),
            MalformedPickleError,
            "does not fit into its storage of 6 elements",
            id="view outside of its storage",
        ),
    ],
)
def test_a_wrong_stream_is_refused(save: Save, data: bytes, error: type[ImporterError], message: str) -> None:
    with pytest.raises(error, match=message):
        open_container(save(data))


def test_a_list_of_keys_that_is_no_list_is_refused(save: Save) -> None:
    data = legacy_stream(body=b"N", keys=[]).replace(b"\x80\x02](e.", b"\x80\x02N.")
    with pytest.raises(CorruptContainerError, match="list of storage keys"):
        open_container(save(data))


def test_the_magic_number_has_to_be_a_pickle_by_itself(save: Save) -> None:
    with pytest.raises(CorruptContainerError, match="magic number"):
        open_container(save(b"\x80\x02" + number(7) + b"." + legacy_stream()))


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", id="protocol 2"),
        pytest.param(b"\x80\x04\x95\x0e\0\0\0\0\0\0\0\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.", id="protocol 4"),
        pytest.param(b"L119547037146038801333356L\n.", id="protocol 0"),
    ],
)
def test_the_magic_number_is_recognised_in_every_protocol(head: bytes) -> None:
    assert is_legacy(head)
