"""A flipped byte in a record of an archive does not convert: its checksum is compared when it is read."""

from __future__ import annotations

import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

import importer
from importer.cli import main
from importer.containers.zip_archive import ZipArchive
from importer.dtypes import F32
from importer.errors import CorruptContainerError
from importer.storages import SourceFile
from tests.builders.states import WEIGHT
from tests.builders.zips import DEFLATED, Entry, build_zip, torch_entries, torch_zip
from tests.containers.conftest import Save


def flipped(*, crc: int | None = None) -> bytes:
    """Return a checkpoint with one bit of the weight other than when its checksum was computed."""
    entries = [
        replace(entry, data=_flip(entry.data), crc=zlib.crc32(entry.data) if crc is None else crc)
        if entry.name.endswith("data/0")
        else entry
        for entry in torch_entries()
    ]
    return build_zip(entries)


def _flip(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def test_a_flipped_byte_is_found_when_the_tensor_is_read_and_not_before(save: Save) -> None:
    checkpoint = importer.open(save(flipped()))
    damaged, *_ = (name for name, tensor in checkpoint.tensors.items() if tensor.dtype is F32)
    sound, *_ = (name for name, tensor in checkpoint.tensors.items() if tensor.dtype is not F32)
    with pytest.raises(
        CorruptContainerError, match=r"data/0' is damaged: its checksum is 0x\w+, the directory says"
    ) as caught:
        checkpoint[damaged].numpy()
    assert "--no-checksums" in caught.value.how
    assert checkpoint[sound].numpy().size


def test_a_flipped_byte_stops_a_conversion_and_leaves_nothing(save: Save, tmp_path: Path) -> None:
    source = save(flipped())
    output = tmp_path / "out.safetensors"
    assert main(["convert", str(source), str(output), "--recipe", "none"]) == 3
    assert not output.exists()
    assert main(["convert", str(source), str(output), "--recipe", "none", "--no-checksums"]) == 0
    assert output.exists()


def test_the_comparison_can_be_switched_off(save: Save) -> None:
    checkpoint = importer.open(save(flipped()), checksums=False)
    (first, *_) = checkpoint.tensors
    assert checkpoint[first].numpy().tobytes()[-1] == WEIGHT.data[-1] ^ 1


def test_a_checksum_of_zero_means_none(save: Save) -> None:
    checkpoint = importer.open(save(flipped(crc=0)))
    assert all(tensor.numpy().size for tensor in checkpoint.tensors.values())


@pytest.mark.parametrize("method", [0, DEFLATED], ids=["stored", "deflated"])
def test_sound_records_are_read(save: Save, method: int) -> None:
    checkpoint = importer.open(save(torch_zip(method=method)))
    first, *_ = checkpoint.tensors.values()
    assert first.numpy().tobytes() == WEIGHT.data


def test_a_deflated_record_can_be_read_without_its_checksum(save: Save) -> None:
    entries = [
        replace(entry, crc=5) if entry.name.endswith("data/0") else entry for entry in torch_entries(method=DEFLATED)
    ]
    path = save(build_zip(entries))
    (first, *_) = importer.open(path).tensors
    with pytest.raises(CorruptContainerError, match="checksum"):
        importer.open(path)[first].numpy()
    assert importer.open(path, checksums=False)[first].numpy().size


def test_several_readers_of_one_record_compare_it_once(save: Save, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(256)) * (1 << 14)
    file = SourceFile(save(build_zip([Entry("a/data/0", data), Entry("a/version", b"3")])))
    seen = 0

    def counted(block: bytes | bytearray | memoryview, before: int = 0) -> int:
        nonlocal seen
        seen += len(block)
        return compute(block, before)

    compute = zlib.crc32
    monkeypatch.setattr(zlib, "crc32", counted)
    storage = ZipArchive(file, file.budget.limits).storage("a/data/0")

    def read(at: int) -> bytes:
        buffer = bytearray(16)
        storage.read_into(at, memoryview(buffer))
        return bytes(buffer)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(read, range(0, 256, 16))) == [data[at : at + 16] for at in range(0, 256, 16)]
    assert seen == len(data)
