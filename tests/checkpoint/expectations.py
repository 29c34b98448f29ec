"""The recorded contents of real files, and what a checkpoint of ours says of the same."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from importer.arrays import blocks
from importer.checkpoint import Tensor
from importer.dtypes import dtype_of_torch

_REPOSITORY = Path(__file__).parents[2]
_PLACES = (_REPOSITORY / "fixtures", _REPOSITORY.parent / "shared")


@dataclass(frozen=True)
class Described:
    """A tensor as torch saw it, or as we do: digest of the little-endian C-order bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    digest: str


def recorded(entries: Iterable[Mapping[str, Any]]) -> list[Described]:
    """Return recorded tensors; types are spelled as torch or as safetensors does."""
    found = []
    for entry in entries:
        dtype = dtype_of_torch(entry["dtype"])
        name = dtype.name if dtype else entry["dtype"]
        found.append(Described(entry["name"], name, tuple(entry["shape"]), entry["sha256"]))
    return found


def described(tensors: Mapping[str, Tensor], root: str = "") -> list[Described]:
    """Return the tensors below a root, read and digested."""
    prefix = f"{root}." if root else ""
    return [
        Described(name.removeprefix(prefix), tensor.dtype.name, tensor.shape, _digest(tensor))
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    ]


def expectations(pattern: str) -> Iterator[tuple[str, Path, dict[str, Any]]]:
    """Yield name, path and contents of recorded expectations; those of the project first, further ones if at hand."""
    seen: set[str] = set()
    for place in _PLACES:
        for path in sorted(place.glob(pattern)):
            name = path.relative_to(place).as_posix()
            if name not in seen:
                seen.add(name)
                yield name, path, json.loads(path.read_text("utf-8"))


def _digest(tensor: Tensor) -> str:
    digest = sha256()
    for block in blocks(tensor.array):
        digest.update(block)
    return digest.hexdigest()
