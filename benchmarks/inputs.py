"""Checkpoints to measure with, written as `torch.save` writes them, of any size, without torch and in little memory.

Not here: what is done with them (`cases`).
"""

from __future__ import annotations

import json
import math
import os
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path

from benchmarks.pickling import Tree, pickled
from tests.builders.states import Stored, View

__all__ = ["llama", "matrices", "optimizer", "shards", "single", "tiny"]

_ITEMSIZES = {"BFloat16Storage": 2, "FloatStorage": 4}
_ALIGNMENT = 64
_LOCAL_HEADER_BYTES = 30
_ZIP64_BYTES = 20
_LARGE = 100 << 20

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Blob(Stored):
    """A storage whose bytes are made up when they are written."""

    length: int = 0

    @property
    def numel(self) -> int:
        """Number of elements."""
        return self.length


def matrices(folder: Path, nbytes: int, storage_class: str) -> Path:
    """Write a state dict of square matrices, and return its path."""
    return _save(folder / "model.pt", _matrix_shapes(nbytes, storage_class, "layers"), storage_class)


def single(folder: Path, nbytes: int) -> Path:
    """Write a state dict of one matrix, 4096 columns wide (as an embedding of that width), and return its path."""
    return _save(folder / "model.pt", {"layers.0.weight": (max(1, nbytes // 2 // 4096), 4096)}, "BFloat16Storage")


def tiny(folder: Path, count: int) -> Path:
    """Write a state dict of many 8x8 matrices, and return its path."""
    return _save(folder / "model.pt", {f"layers.{index}.weight": (8, 8) for index in range(count)}, "FloatStorage")


def optimizer(folder: Path, count: int) -> Path:
    """Write a training checkpoint, one tensor in a hundred a weight and the others the optimizer's; return its path."""
    shapes = {f"layers.{index}.weight": (64, 64) for index in range(count)}
    views = _views(shapes, "FloatStorage")
    wanted = max(1, count // 100)
    weights = dict(list(views.items())[:wanted])
    moments = dict(list(views.items())[wanted:])
    tree: Tree = {"model": weights, "optimizer": {"state": moments}}
    return _write_zip(folder / "model.pt", views, tree)


def llama(folder: Path, nbytes: int) -> Path:
    """Write a Llama in Hugging Face's layout and its config, and return the folder."""
    width = 2048 if nbytes >= 5 * _LARGE else 512 if nbytes >= _LARGE else 64
    groups, inner, vocabulary = max(1, width // 256), 4 * width, 16 * width
    layer: Shapes = {
        **{f"self_attn.{part}_proj": (width, width) for part in "qo"},
        **{f"self_attn.{part}_proj": (64 * groups, width) for part in "kv"},
        **{f"mlp.{part}_proj": (inner, width) for part in ("gate", "up")},
        "mlp.down_proj": (width, inner),
        "input_layernorm": (width,),
        "post_attention_layernorm": (width,),
    }
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (vocabulary, width),
        "model.norm.weight": (width,),
        "lm_head.weight": (vocabulary, width),
    }
    layers = max(1, nbytes // 2 // sum(map(math.prod, layer.values())))
    for index in range(layers):
        shapes |= {f"model.layers.{index}.{name}.weight": shape for name, shape in layer.items()}
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": width // 64,
        "num_key_value_heads": groups,
        "vocab_size": vocabulary,
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    _save(folder / "pytorch_model.bin", shapes, "BFloat16Storage")
    return folder


def shards(folder: Path, nbytes: int, count: int = 4) -> Path:
    """Write a model of several files with their index, and return the folder."""
    weight_map: dict[str, str] = {}
    for number in range(1, count + 1):
        name = f"pytorch_model-{number:05d}-of-{count:05d}.bin"
        shapes = _matrix_shapes(nbytes // count, "BFloat16Storage", f"part{number}")
        _save(folder / name, shapes, "BFloat16Storage")
        weight_map |= dict.fromkeys(shapes, name)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index), encoding="utf-8")
    return folder


def _matrix_shapes(nbytes: int, storage_class: str, prefix: str) -> Shapes:
    """Return shapes that fill `nbytes`: 4096x4096, or four smaller matrices where that is too large."""
    elements = nbytes // _ITEMSIZES[storage_class]
    side = 4096 if nbytes >= _LARGE else max(8, math.isqrt(elements // 4))
    return {f"{prefix}.{index}.weight": (side, side) for index in range(max(1, elements // side**2))}


def _views(shapes: Shapes, storage_class: str) -> dict[str, View]:
    def view(key: int, name: str) -> tuple[str, View]:
        shape = shapes[name]
        strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
        blob = Blob(str(key), storage_class, _ITEMSIZES[storage_class], b"", length=math.prod(shape))
        return name, View(blob, shape, strides)

    return dict(starmap(view, enumerate(shapes)))


def _save(path: Path, shapes: Shapes, storage_class: str) -> Path:
    views = _views(shapes, storage_class)
    return _write_zip(path, views, views)


def _write_zip(path: Path, views: Mapping[str, View], tree: Tree) -> Path:
    """Write the archive of `torch.save`: stored entries, storages at multiples of 64 bytes, noise for values."""
    noise = memoryview(os.urandom(4 << 20))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", pickled(tree))
        archive.writestr("archive/byteorder", b"little")
        for view in views.values():
            _write_noise(archive, view.stored, noise)
        archive.writestr("archive/version", b"3\n")
    return path


def _write_noise(archive: zipfile.ZipFile, stored: Stored, noise: memoryview) -> None:
    left = stored.numel * stored.itemsize
    large = left > zipfile.ZIP64_LIMIT // 2
    with archive.open(_aligned(archive, f"archive/data/{stored.key}", zip64=large), "w", force_zip64=large) as record:
        while left:
            left -= record.write(noise[: min(left, len(noise))])


def _aligned(archive: zipfile.ZipFile, name: str, *, zip64: bool) -> zipfile.ZipInfo:
    """Return an entry whose contents begin at a multiple of 64 bytes, by the padding field torch uses."""
    entry = zipfile.ZipInfo(name)
    assert archive.fp is not None
    start = archive.fp.tell() + _LOCAL_HEADER_BYTES + len(name) + (_ZIP64_BYTES if zip64 else 0) + 4
    padding = -start % _ALIGNMENT
    entry.extra = struct.pack("<HH", 0x4246, padding) + b"Z" * padding
    return entry
