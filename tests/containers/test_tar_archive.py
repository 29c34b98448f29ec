"""The tar layout of 2016: tensors by number, views of storages, and every way its tables can be wrong."""

from __future__ import annotations

import io
import tarfile

import pytest

from importer.arrays import Array, to_numpy
from importer.containers import open_container
from importer.errors import (
    CorruptContainerError,
    ImporterError,
    LimitError,
    MalformedPickleError,
    TensorError,
    TruncatedError,
    UnknownContainerError,
    UnsupportedError,
)
from importer.limits import Limits
from importer.unpickling import Global, PersistentId
from tests.builders.states import COUNTS, MODEL, WEIGHT, Stored, View, number, pickled, text
from tests.builders.streams import build_tar, tar_header, tar_members
from tests.containers.conftest import Save, pickle_container


def test_persistent_ids_name_tensors(save: Save) -> None:
    container = pickle_container(open_container(save(build_tar(tar_members()))))
    assert container.kind == "tar"
    arrays = [container.resolve(pid) for pid in container.tree.persistent_ids]
    values = [to_numpy(array).tolist() for array in arrays if isinstance(array, Array)]
    assert values == [[[0, 1, 2], [3, 4, 5]], [[0, 3], [1, 4], [2, 5]], [2, 1 << 40]]


def test_a_view_of_a_view_begins_where_both_say(save: Save) -> None:
    window = Stored("9", "FloatStorage", 4, WEIGHT.data)
    views = {"whole": MODEL["fc.weight"], "part": View(window, (2,), (1,), 1)}
    members = tar_members({"whole": MODEL["fc.weight"]}, [(8, 0, 1, 5), (9, 8, 2, 3)])
    members |= {name: tar_members(views)[name] for name in ("./tensors", "./pickle")}
    container = pickle_container(open_container(save(build_tar(members))))
    part = container.resolve(container.tree.persistent_ids[1])
    assert isinstance(part, Array)
    assert to_numpy(part).tolist() == [4, 5]


def test_a_tar_of_the_standard_library_is_read(save: Save) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name, data in tar_members().items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    assert pickle_container(open_container(save(buffer.getvalue()))).kind == "tar"


def test_a_class_saved_with_its_source_is_that_class(save: Save) -> None:
    container = pickle_container(open_container(save(build_tar(tar_members()))))
    assert container.resolve(PersistentId((Global("m", "Net"), "m.py", "class Net: ..."))) == Global("m", "Net")


@pytest.mark.parametrize("value", ["999", 999, None, ()])
def test_a_persistent_id_that_names_no_tensor_is_refused(save: Save, value: object) -> None:
    container = pickle_container(open_container(save(build_tar(tar_members()))))
    with pytest.raises(MalformedPickleError, match="names no tensor"):
        container.resolve(PersistentId(value))


def test_another_tar_archive_is_named(save: Save) -> None:
    with pytest.raises(UnknownContainerError, match=r"none that torch wrote; it holds 'weights\.ckpt'"):
        open_container(save(build_tar({"weights.ckpt": b"x", **{f"./{n}": b"" for n in ("pickle",)}})))


def without_last(name: str, count: int) -> dict[str, bytes]:
    members = tar_members()
    return {**members, name: members[name][:-count]}


def with_member(name: str, data: bytes) -> dict[str, bytes]:
    return {**tar_members(), name: data}


UNKNOWN_CLASS = {"x": View(Stored("0", "DreamStorage", 4, WEIGHT.data), (1,), (1,))}
TOO_LARGE = {"x": View(WEIGHT, (7,), (1,))}
DEEP = {"x": View(COUNTS, (1,) * 65, (1,) * 65)}


@pytest.mark.parametrize(
    ("members", "error", "message"),
    [
        pytest.param(without_last("./tensors", 1), TruncatedError, "bytes are needed", id="tensors cut"),
        pytest.param(without_last("./storages", 1), TruncatedError, "cut off", id="storages cut"),
        pytest.param(with_member("./storages", pickled(text("two"))), CorruptContainerError, "no number", id="count"),
        pytest.param(with_member("./storages", pickled(number(-1))), CorruptContainerError, "no number", id="negative"),
        pytest.param(
            with_member("./storages", pickled(number(1)) + pickled(b"N")),
            CorruptContainerError,
            "describes no storage",
            id="storage",
        ),
        pytest.param(
            with_member("./tensors", pickled(number(1)) + pickled(b"N")),
            CorruptContainerError,
            "describes no tensor",
            id="tensor",
        ),
        pytest.param(tar_members(windows=[(8, 7, 0, 1)]), CorruptContainerError, "no view", id="view of nothing"),
        pytest.param(tar_members(windows=[(8, 0, 4, 3)]), CorruptContainerError, "no view", id="view too long"),
        pytest.param(
            with_member("./storages", pickled(number(0)) + pickled(b"N")), CorruptContainerError, "no view", id="views"
        ),
        pytest.param(tar_members(UNKNOWN_CLASS), UnsupportedError, "DreamStorage", id="class"),
        pytest.param(tar_members(TOO_LARGE), TensorError, "needs 28 bytes", id="extent"),
        pytest.param(tar_members(DEEP), CorruptContainerError, "rank 65", id="rank"),
    ],
)
def test_wrong_tables_are_refused(
    save: Save, members: dict[str, bytes], error: type[ImporterError], message: str
) -> None:
    with pytest.raises(error, match=message):
        open_container(save(build_tar(members)))


def big_endian_count() -> bytes:
    members = tar_members({"x": MODEL["counts"]})
    little, big = (3).to_bytes(8, "little"), (3).to_bytes(8, "big")
    return build_tar({**members, "./storages": members["./storages"].replace(little, big)})


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        pytest.param(big_endian_count(), UnsupportedError, "big-endian", id="count of a big-endian machine"),
        pytest.param(
            build_tar({"./pickle": b"", "pickle": b""}), CorruptContainerError, "'pickle' is there twice", id="twice"
        ),
        pytest.param(
            tar_header("pickle", 9).replace(b"00000000011", b"0000000001x"), CorruptContainerError, "header", id="size"
        ),
        pytest.param(
            tar_header("pickle", 9).replace(b"pickle", b"picked"), CorruptContainerError, "checksum", id="checksum"
        ),
        pytest.param(tar_header("pickle", 9), TruncatedError, "after the end of the file", id="cut off"),
    ],
)
def test_a_damaged_archive_is_refused(save: Save, data: bytes, error: type[ImporterError], message: str) -> None:
    with pytest.raises(error, match=message):
        open_container(save(data))


def test_a_size_above_8_gib_is_read_as_binary(save: Save) -> None:
    header = bytearray(tar_header("pickle", 0))
    header[124:136] = b"\x80" + (1 << 40).to_bytes(11, "big")
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    with pytest.raises(TruncatedError, match="after the end of the file"):
        open_container(save(bytes(header)))


def test_too_many_members_are_refused(save: Save) -> None:
    with pytest.raises(LimitError, match="max_archive_entries"):
        open_container(save(build_tar(tar_members())), Limits(max_archive_entries=3))
