"""From tensors to files: which tensors go into which shard, what the files are called, and the index beside them.

Names and index are Hugging Face's (`model-00001-of-00003.safetensors`, `model.safetensors.index.json`); `.bpk` shards
follow the same pattern. Not here: the layout of one file (`formats`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from importer.writers.formats import FORMATS
from importer.writers.output import Destination, FileLayout, Layout, OutputTensor
from importer.writers.output_names import check_names

__all__ = ["index_path", "plan_layout", "renamed_index"]


def plan_layout(tensors: Sequence[OutputTensor], destination: Destination) -> Layout:
    """Return where every byte of the output will be; nothing is read or written.

    Raises:
        UnrepresentableError: the format has no place for a dtype, name, number or size.
    """
    layout = FORMATS[destination.format].layout
    path = Path(destination.path)
    shards = list(_shards(tensors, destination.shard_size))
    if len(shards) == 1:
        return Layout(((destination.path, layout(shards[0], destination)),))
    check_names(tensor.name for tensor in tensors)
    files: list[tuple[str, FileLayout]] = []
    weight_map: dict[str, str] = {}
    for number, shard in enumerate(shards, start=1):
        name = f"{path.stem}-{number:05d}-of-{len(shards):05d}{path.suffix}"
        files.append((str(path.with_name(name)), layout(shard, destination)))
        weight_map |= {tensor.name: name for tensor in shard}
    total = sum(tensor.array.nbytes for tensor in tensors)
    text = _index_text({"metadata": {"total_size": total}, "weight_map": weight_map})
    return Layout(tuple(files), (index_path(destination.path), text))


def index_path(path: str) -> str:
    """Return the path of the index that goes with shards of `path`."""
    return f"{path}.index.json"


def renamed_index(text: bytes, names: Mapping[str, str]) -> bytes:
    """Return an index whose shards have other names; `output_names` has one for each of them."""
    index = json.loads(text)
    index["weight_map"] = {tensor: names[name] for tensor, name in index["weight_map"].items()}
    return _index_text(index)


def _index_text(index: Mapping[str, object]) -> bytes:
    return (json.dumps(index, indent=2, sort_keys=True) + "\n").encode()


def _shards(tensors: Sequence[OutputTensor], limit: int | None) -> Iterator[list[OutputTensor]]:
    """Yield consecutive groups of at most `limit` bytes; a tensor larger than that has a file to itself."""
    shard: list[OutputTensor] = []
    filled = 0
    for tensor in tensors:
        if limit is not None and shard and filled + tensor.array.nbytes > limit:
            yield shard
            shard, filled = [], 0
        shard.append(tensor)
        filled += tensor.array.nbytes
    yield shard
