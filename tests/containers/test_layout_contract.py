"""One model, every layout: whatever a file looks like, the same names give the same values."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from importer.checkpoint import open_checkpoint
from tests.builders.distributed import Chunk, Writer
from tests.builders.states import COUNTS, MODEL, WEIGHT, swapped
from tests.builders.streams import build_tar, legacy_stream, tar_members
from tests.builders.tables import burnpack, burnpack_entry, safetensors, safetensors_entry
from tests.builders.zips import DEFLATED, Entry, build_zip, torch_entries, torch_zip

TRANSPOSED = b"".join(WEIGHT.data[4 * index : 4 * index + 4] for index in (0, 3, 1, 4, 2, 5))
DENSE = {
    "fc.weight": ("F32", (2, 3), WEIGHT.data),
    "fc.transposed": ("F32", (3, 2), TRANSPOSED),
    "counts": ("I64", (2,), COUNTS.data[8:]),
}


def single(data: bytes) -> Callable[[Path], Path]:
    """Return a writer of one file."""

    def write(folder: Path) -> Path:
        path = folder / "model.bin"
        path.write_bytes(data)
        return path

    return write


def big_endian() -> bytes:
    """Return the ZIP layout as a big-endian machine writes it since torch 2.1."""
    stored = {item.key: dataclasses.replace(item, data=swapped(item)) for item in (WEIGHT, COUNTS)}
    views = {name: dataclasses.replace(view, stored=stored[view.stored.key]) for name, view in MODEL.items()}
    return build_zip([*torch_entries(views), Entry("archive/byteorder", b"big")])


def safetensors_file() -> bytes:
    header, data = {}, b""
    for name, (dtype, shape, raw) in DENSE.items():
        header[name] = safetensors_entry(dtype, shape, len(data), len(data) + len(raw))
        data += raw
    return safetensors(header, data)


def burnpack_file() -> bytes:
    entries, data = {}, b""
    for name, (dtype, shape, raw) in DENSE.items():
        data += bytes(-len(data) % 256)
        entries[name] = burnpack_entry(dtype, shape, len(data), len(data) + len(raw))
        data += raw
    return burnpack({"tensors": dict(sorted(entries.items()))}, data)


def shards(folder: Path) -> Path:
    """Write one pickled file per tensor and an index."""
    weight_map = {}
    for number, (name, view) in enumerate(MODEL.items(), 1):
        file_name = f"pytorch_model-{number:05}-of-00003.bin"
        (folder / file_name).write_bytes(torch_zip({name: view}))
        weight_map[name] = file_name
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder


def distributed(folder: Path) -> Path:
    """Write each tensor as one chunk."""
    writer = Writer()
    for name, view in MODEL.items():
        dtype = {"FloatStorage": "float32", "LongStorage": "int64"}[view.stored.storage_class]
        writer.tensor(name, dtype, view.shape, [Chunk((0,) * len(view.shape), view)])
    for name, data in {**writer.files, ".metadata": writer.metadata()}.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(single(torch_zip()), id="zip"),
        pytest.param(single(torch_zip(method=DEFLATED)), id="zip, deflated"),
        pytest.param(single(torch_zip(folder="tensors/")), id="zip of torch 1.4"),
        pytest.param(single(big_endian()), id="zip, big-endian"),
        pytest.param(single(legacy_stream()), id="legacy"),
        pytest.param(single(build_tar(tar_members())), id="tar"),
        pytest.param(single(safetensors_file()), id="safetensors"),
        pytest.param(single(burnpack_file()), id="burnpack"),
        pytest.param(shards, id="shards"),
        pytest.param(distributed, id="distributed"),
    ],
)
def test_the_same_model_gives_the_same_tensors(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    checkpoint = open_checkpoint(write(tmp_path))
    found = {
        name: (str(tensor.dtype), tensor.shape, tensor.numpy().tobytes()) for name, tensor in checkpoint.tensors.items()
    }
    assert found == DENSE
