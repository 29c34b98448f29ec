"""The layout is told from the contents; files that are no checkpoint are named; a configuration is looked for."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from importer.containers import PickleContainer, TableContainer, open_container
from importer.errors import MissingFileError, SourceError, TruncatedError, UnknownContainerError, UsageError
from importer.limits import Limits
from tests.builders.states import pickled, table, text
from tests.builders.streams import build_tar, legacy_stream, tar_members
from tests.builders.tables import burnpack, safetensors
from tests.builders.zips import torch_zip
from tests.containers.conftest import Save

LAYOUTS = [
    pytest.param(torch_zip(), "zip", id="zip"),
    pytest.param(b"\x7fELF" + torch_zip(), "zip", id="zip behind something else"),
    pytest.param(legacy_stream(), "legacy", id="legacy"),
    pytest.param(build_tar(tar_members()), "tar", id="tar"),
    pytest.param(pickled(table({"lr": text("x")})), "pickle", id="pickle"),
    pytest.param(safetensors({}), "safetensors", id="safetensors"),
    pytest.param(burnpack({"tensors": {}}), "burnpack", id="burnpack"),
]


@pytest.mark.parametrize("name", ["model.pt", "model.safetensors", "model.bpk", "model"])
@pytest.mark.parametrize(("data", "kind"), LAYOUTS)
def test_the_layout_is_told_by_content_whatever_the_name(save: Save, data: bytes, kind: str, name: str) -> None:
    container = open_container(save(data, name)).container
    assert isinstance(container, PickleContainer | TableContainer)
    assert container.kind == kind


def npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    return buffer.getvalue()


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d7a" * 16 + b"\nsize 437985387\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "an empty file", id="empty"),
        pytest.param(bytes(5000), "a file of zeros", id="zeros"),
        pytest.param(b"<!DOCTYPE html>\n<html>...", "an HTML page.*'resolve' instead of 'blob'", id="html"),
        pytest.param(b"\xef\xbb\xbf\n <HTML>", "an HTML page", id="html with byte order mark"),
        pytest.param(b'<?xml version="1.0"?><Error>', "an XML document", id="xml"),
        pytest.param(LFS, "Git LFS pointer; the 437,985,387 bytes of the real file are missing", id="lfs"),
        pytest.param(gzip.compress(b"x"), "a gzip archive", id="gzip"),
        pytest.param(b"\xfd7zXZ\0...", "an xz archive", id="xz"),
        pytest.param(b"\x28\xb5\x2f\xfd...", "a zstd archive", id="zstd"),
        pytest.param(b"7z\xbc\xaf\x27\x1c...", "a 7z archive", id="7z"),
        pytest.param(b"Rar!\x1a\x07\x01\0", "a RAR archive", id="rar"),
        pytest.param(b"GGUF\x03\0\0\0", "a GGUF model", id="gguf"),
        pytest.param(b"\x1c\0\0\0TFL3", "a TensorFlow Lite model", id="tflite"),
        pytest.param(b"\x89HDF\r\n\x1a\n", "an HDF5 file", id="keras"),
        pytest.param(npy(), "a single numpy array", id="npy"),
        pytest.param(b"\x08\x07\x12\x07pytorch\x1a\x051.9:", "ONNX", id="onnx"),
        pytest.param(b'{"architectures": []}', "JSON text", id="json"),
        pytest.param(b'{"abcd":{"a": 1}}', "JSON text", id="json that looks like a header"),
        pytest.param(b"[1, 2]", "JSON text", id="json list"),
        pytest.param(b"config = 3\n", "text", id="text that begins like a pickle"),
        pytest.param("Übung\n".encode(), "text", id="text"),
        pytest.param(("x" * 1023 + "é").encode(), "text", id="text cut within a character"),
        pytest.param(b"\x7fELF\x02\x01\x01\0\0\xff", "shared library", id="elf"),
        pytest.param(b"\x7fELG\x02\x01\x01\0\0\xff", "of an unknown kind .first bytes 7f 45 4c 47", id="binary"),
        pytest.param(b"\x01\x02\x03", "of an unknown kind", id="control characters"),
    ],
)
def test_a_file_that_is_no_checkpoint_is_named(save: Save, data: bytes, message: str) -> None:
    with pytest.raises(UnknownContainerError, match=message) as caught:
        open_container(save(data, "pytorch_model.bin"))
    assert caught.value.exit_code == 3
    assert "\n" not in str(caught.value)


def test_a_numpy_archive_is_named(save: Save) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, a=np.zeros(3))
    with pytest.raises(UnknownContainerError, match="a numpy archive"):
        open_container(save(buffer.getvalue()))


def test_a_truncated_archive_says_that_the_download_was_cut_off(save: Save) -> None:
    with pytest.raises(TruncatedError, match="download or copy was cut off"):
        open_container(save(torch_zip()[:-100]))


def test_a_path_that_does_not_exist_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        open_container(tmp_path / "absent")


def test_json_larger_than_any_index_is_not_parsed(save: Save) -> None:
    with pytest.raises(UnknownContainerError, match="JSON text"):
        open_container(save(b'{"weight_map": {}}'), Limits(max_text_record_bytes=5))


@pytest.mark.parametrize("name", ["config.json", "params.json"])
def test_the_configuration_beside_a_file_is_read(save: Save, tmp_path: Path, name: str) -> None:
    save(b'{"model_type": "llama"}', name)
    opened = open_container(save(torch_zip()))
    assert (opened.config, opened.config_path) == ({"model_type": "llama"}, str(tmp_path / name))


def test_the_configuration_in_a_folder_is_read(save: Save, tmp_path: Path) -> None:
    save(b'{"model_type": "llama"}', "config.json")
    save(torch_zip(), "pytorch_model.bin")
    assert open_container(tmp_path).config == {"model_type": "llama"}


def test_without_a_configuration_there_is_none(save: Save) -> None:
    opened = open_container(save(torch_zip()))
    assert (opened.config, opened.config_path, opened.notes) == (None, None, ())


def test_a_damaged_configuration_is_noted_and_does_not_stop_the_opening(save: Save) -> None:
    save(b"{", "config.json")
    opened = open_container(save(torch_zip()))
    assert opened.config is None
    assert len(opened.notes) == 1
    assert "was not read" in opened.notes[0]


@pytest.mark.parametrize(
    ("name", "notes"),
    [
        (
            "model-00001-of-00003.safetensors",
            ("this file is one of 3 shards; pass the folder or the .index.json for all of them",),
        ),
        ("model-00001-of-00001.safetensors", ()),
        ("model.safetensors", ()),
    ],
)
def test_a_single_shard_is_noted(save: Save, name: str, notes: tuple[str, ...]) -> None:
    assert open_container(save(safetensors({}), name)).notes == notes


def test_an_index_named_like_a_configuration_is_still_an_index(save: Save) -> None:
    save(safetensors({}), "model.safetensors")
    path = save(json.dumps({"weight_map": {"a": "model.safetensors"}}).encode(), "config.json")
    opened = open_container(path)
    assert opened.container.kind == "sharded"
    assert opened.config is None


def test_opening_reads_no_tensor_bytes(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02N.")
        archive.writestr("a/data/0", bytes(1 << 20))
    path = save(buffer.getvalue())
    total = 0

    def counted(self: object, offset: int, buffer: memoryview) -> int:
        nonlocal total
        total += len(buffer)
        return original(self, offset, buffer)  # type: ignore[arg-type]

    from importer.temporary import Descriptor

    original = Descriptor.read_into
    monkeypatch.setattr(Descriptor, "read_into", counted)
    open_container(path)
    assert total < 10_000


@pytest.mark.parametrize("data", [row.values[0] for row in LAYOUTS], ids=[row.id for row in LAYOUTS])
def test_every_cut_of_a_file_is_opened_or_refused_with_an_error_of_ours(save: Save, data: object) -> None:
    assert isinstance(data, bytes)
    for length in range(0, len(data), 7):
        path = save(data[:length])
        with contextlib.suppress(SourceError):
            open_container(path)


def test_an_empty_path_is_not_taken_for_the_current_folder() -> None:
    with pytest.raises(UsageError, match="path of the source is empty"):
        open_container("")
