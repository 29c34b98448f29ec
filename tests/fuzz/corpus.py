"""What the fuzzer starts from: every small checkpoint of the repository, one of each layout, and the built-in recipes.

A sample is a set of files, since shards, slices and distributed checkpoints are several. Not here: how they are changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tests.builders.states import COUNTS, MODEL, WEIGHT
from tests.builders.streams import build_tar, legacy_stream, tar_members
from tests.builders.tables import Value, burnpack, burnpack_entry, safetensors, safetensors_entry
from tests.builders.zips import DEFLATED, torch_zip
from tests.shared import FIXTURES, REPOSITORY

__all__ = ["Sample", "groups", "samples"]

_LARGEST = 64 << 10
"""Bytes of one sample. Larger ones are mostly tensor data, where a change tells nothing."""

_CHECKPOINTS = (".pt", ".pth", ".bin", ".ckpt", ".pkl", ".safetensors", ".bpk")
_FOLDERS = ("cases", "vintage", "families", "numbers", "beyond")


@dataclass(frozen=True)
class Sample:
    """Files by name, and which of them is opened; `is_recipe` for a recipe, else a checkpoint.

    `task` is what is done beside opening it: `convert` it with the recipe its config asks for, or `suggest` one for `t.safetensors`.
    """

    name: str
    files: Mapping[str, bytes]
    main: str
    is_recipe: bool = False
    task: str = "open"

    def with_file(self, name: str, data: bytes) -> Sample:
        return replace(self, files={**self.files, name: data})


@cache
def samples() -> tuple[Sample, ...]:
    """Return all samples, in an order that does not depend on the machine."""
    return (*_built(), *_recorded(), *_sets(), *_recipes())


@cache
def groups() -> tuple[tuple[Sample, ...], ...]:
    """Return the samples by their origin: some are there by the dozen, and each kind shall have its share."""
    found: dict[str, list[Sample]] = {}
    for sample in samples():
        found.setdefault(sample.name.partition("/")[0], []).append(sample)
    return tuple(map(tuple, found.values()))


def _built() -> Iterator[Sample]:
    data = WEIGHT.data + bytes(256 - len(WEIGHT.data)) + COUNTS.data
    entry = burnpack_entry("F32", [2, 3], 0, 24, 7)
    metadata: Value = {"tensors": {"a": entry, "b": burnpack_entry("I64", [3], 256, 280)}, "metadata": {"k": "v"}}
    header = {"a": safetensors_entry("F32", [2, 3], 0, 24), "__metadata__": {"format": "pt"}}
    built = {
        "zip.pt": torch_zip(),
        "deflated.pt": torch_zip(method=DEFLATED),
        "legacy.pth": legacy_stream(),
        "net.tar": build_tar(tar_members()),
        "model.safetensors": safetensors(header, WEIGHT.data),
        "model.bpk": burnpack(metadata, data),
    }
    return (Sample(f"built/{name}", {name: content}, name) for name, content in built.items())


def _recorded() -> Iterator[Sample]:
    for folder in _FOLDERS:
        for path in sorted((FIXTURES / folder).rglob("*")):
            if path.suffix in _CHECKPOINTS and path.stat().st_size <= _LARGEST:
                yield Sample(path.relative_to(FIXTURES).as_posix(), {path.name: path.read_bytes()}, path.name)


def _sets() -> Iterator[Sample]:
    """Yield a sharded set, a folder with a configuration, and every recorded distributed checkpoint."""
    shard = safetensors({"a": safetensors_entry("F32", [2, 3], 0, 24)}, WEIGHT.data)
    index = {"metadata": {"total_size": 24}, "weight_map": {"a": "model-1.safetensors", "fc.weight": "model-2.bin"}}
    index_name = "model.safetensors.index.json"
    parts = {index_name: json.dumps(index).encode(), "model-1.safetensors": shard, "model-2.bin": torch_zip()}
    yield Sample("built/sharded", parts, index_name)
    slices = {"consolidated.00.pth": torch_zip(), "consolidated.01.pth": legacy_stream(), "params.json": b'{"dim": 4}'}
    yield Sample("built/slices", slices, ".")
    yield Sample("built/folder", {"pytorch_model.bin": torch_zip(MODEL), "config.json": b'{"model_type": "x"}'}, ".")
    for metadata in sorted(FIXTURES.rglob(".metadata")):
        files = {path.name: path.read_bytes() for path in sorted(metadata.parent.iterdir())}
        if sum(map(len, files.values())) <= _LARGEST:
            yield Sample(metadata.parent.relative_to(FIXTURES).as_posix(), files, ".")


def _recipes() -> Iterator[Sample]:
    paths: Iterable[Path] = sorted((REPOSITORY / "rules").glob("*.yaml"))
    return (Sample(f"rules/{path.name}", {path.name: path.read_bytes()}, path.name, is_recipe=True) for path in paths)
