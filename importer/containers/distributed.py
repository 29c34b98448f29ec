"""Checkpoints of `torch.distributed.checkpoint`: a `.metadata` pickle and `__<rank>_<n>.distcp` files, read as one.

The metadata lists every tensor with its chunks, and for every chunk the file, offset and length of an item; an item is what
`torch.save` writes for one tensor. Sharded tensors are put together lazily. Entries that are no tensors are items too, and
come out as trees. Not here: what the trees mean (`importer.checkpoint`).

Format facts: metadata.py and filesystem.py of torch/distributed/checkpoint, and checkpoints of torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from importer.arrays import Array, assemble, strided
from importer.budgets import STEP, Budget
from importer.containers.base import Opaque, PickleContainer, StorageRecord, TableContainer
from importer.containers.files import is_file, open_source, path_inside
from importer.containers.torch_zip import TorchArchive, find_root
from importer.containers.zip_archive import ZipArchive
from importer.dtypes import DType, dtype_of_torch
from importer.errors import CorruptContainerError, Location, MissingFileError, UnsupportedError, shown
from importer.storages import SourceFile
from importer.unpickling import Call, Global, PersistentId, Unpickled

__all__ = ["is_distributed", "read_distributed"]

_METADATA = "torch.distributed.checkpoint.metadata.Metadata"
_LARGEST = (1 << 63) - 1
_HOW = "Copy the whole folder again."


class _Item(NamedTuple):
    """Where one chunk or object lies."""

    path: str
    offset: int
    length: int


_Index = tuple[str, str | None]
"""Name, and the offsets of a chunk: as text, since a file can choose numbers so that their hashes are all the same."""


def is_distributed(tree: Unpickled) -> bool:
    """Whether an unpickled object is the metadata of a distributed checkpoint."""
    return isinstance(tree.value, Call) and str(tree.value.callable) == _METADATA


def read_distributed(path: Path, tree: Unpickled, budget: Budget) -> TableContainer:
    """Open a checkpoint from its unpickled metadata; of the items their directories are read.

    Raises:
        MissingFileError: a file the metadata names is not in the folder.
        CorruptContainerError: the metadata or an item is damaged, or they contradict each other.
        UnsupportedError: the items are compressed or encrypted.
        TensorError: the chunks of a tensor do not cover it exactly once.
    """
    return _DistributedReader(path, budget).read(tree)


class _DistributedReader:
    """One checkpoint while it is opened; files are opened once each."""

    __slots__ = ("_budget", "_files", "_folder", "_items", "_opened", "_where")

    def __init__(self, path: Path, budget: Budget) -> None:
        self._folder = path.parent
        self._where = Location(path=str(path))
        self._budget = budget
        self._opened: dict[_Item, PickleContainer] = {}
        self._files: dict[str, SourceFile] = {}
        self._items: Mapping[_Index, _Item] = {}

    def read(self, tree: Unpickled) -> TableContainer:
        """Return all entries, in the order of the metadata."""
        state = self._state(tree.value, "Metadata")
        self._items = dict(self._storage_items(self._mapping(state, "storage_data")))
        arrays: dict[str, Array] = {}
        objects: dict[str, Unpickled] = {}
        opaque: list[Opaque] = []
        for name, entry in self._mapping(state, "state_dict_metadata").items():
            if not isinstance(name, str):
                raise self._corrupt(f"the name {shown(name)} is no text")
            if self._kind(entry) == "TensorStorageMetadata":
                arrays[name] = self._tensor(name, self._state(entry, "TensorStorageMetadata"))
                continue
            stored = self._open_item((name, None)).tree
            if stored.persistent_ids:
                opaque.append(Opaque(name, "object", "an object with tensors inside it, stored as one item"))
            else:
                objects[name] = stored
        paths = (self._where.path, *(file.path for file in self._files.values()))
        return TableContainer(kind="distributed", paths=paths, arrays=arrays, objects=objects, opaque=tuple(opaque))

    def _storage_items(self, table: Mapping[object, object]) -> Iterator[tuple[_Index, _Item]]:
        for key, value in table.items():
            index = self._state(key, "MetadataIndex")
            info = self._state(value, "_StorageInfo")
            if info.get("transform_descriptors"):
                raise UnsupportedError(
                    f"the items are transformed by {shown(info['transform_descriptors'])}",
                    where=self._where,
                    how="Save the checkpoint without extensions.",
                )
            offset = index.get("offset")
            match index.get("fqn"), info.get("relative_path"), info.get("offset"), info.get("length"):
                case str() as name, str() as path, int() as start, int() as length if start >= 0 and length >= 0:
                    place = None if offset is None else _place(self._size(offset))
                    yield (name, place), _Item(path, start, length)
                case _:
                    raise self._corrupt("an entry of the storage table is damaged")

    def _tensor(self, name: str, state: Mapping[object, object]) -> Array:
        match self._state_or_tuple(state.get("properties")), state.get("chunks"):
            case [Global() as type_name, *_], list() as chunks:
                dtype = self._dtype(name, type_name)
            case _:
                raise self._corrupt(f"the entry of {shown(name)} is damaged")
        placed = []
        for chunk in chunks:
            fields = self._state(chunk, "ChunkStorageMetadata")
            offsets, sizes = self._size(fields.get("offsets")), self._size(fields.get("sizes"))
            placed.append((offsets, self._chunk(name, offsets, sizes, dtype)))
        return assemble(dtype, self._size(state.get("size")), placed)

    def _chunk(self, name: str, offsets: tuple[int, ...], sizes: tuple[int, ...], dtype: DType) -> Array:
        item = self._open_item((name, _place(offsets)))
        array = _item_tensor(item)
        if array is None or array.dtype is not dtype or array.shape != sizes:
            raise self._corrupt(f"the item of {shown(name)} at {shown(offsets)} is no tensor {dtype} {shown(sizes)}")
        return array

    def _open_item(self, index: _Index) -> PickleContainer:
        item = self._items.get(index)
        if item is None:
            raise self._corrupt(f"there is no item for {shown(index[0])} at {shown(index[1])}")
        self._budget.spend(STEP, self._where)
        if item not in self._opened:
            self._opened[item] = self._read_item(index, item)
        return self._opened[item]

    def _read_item(self, index: _Index, item: _Item) -> PickleContainer:
        file = self._files.get(item.path)
        if file is None:
            path = path_inside(self._folder, item.path, self._where)
            if not is_file(path):
                raise MissingFileError(f"the file {shown(item.path)} is not in the folder", where=self._where, how=_HOW)
            file = self._files[item.path] = open_source(path, self._budget)
        if item.offset + item.length > file.size:
            raise self._corrupt(f"the item of {shown(index[0])} reaches beyond the end of {shown(item.path)}")
        archive = ZipArchive(file, self._budget.limits, start=item.offset, end=item.offset + item.length)
        root = find_root(archive, "data.pkl")
        if root is None:
            raise self._corrupt(f"the item of {shown(index[0])} is nothing that torch.save writes")
        return TorchArchive(archive, root).open(self._budget.limits)

    def _dtype(self, name: str, type_name: Global) -> DType:
        dtype = dtype_of_torch(type_name.name)
        if dtype is None:
            raise self._corrupt(f"the type {shown(type_name)} of {shown(name)} is not known")
        return dtype

    def _kind(self, value: object) -> str:
        """Return the class of a node, without its module: that has moved between releases."""
        callable_ = value.callable if isinstance(value, Call) else None
        return callable_.name if isinstance(callable_, Global) else ""

    def _state(self, value: object, kind: str) -> Mapping[object, object]:
        """Return the attributes of a node of the class `kind`."""
        if isinstance(value, Call) and self._kind(value) == kind:
            if isinstance(value.state, dict):
                return value.state
            if value.state is None:
                return {}
        raise self._corrupt(f"{shown(value)} is no {kind}")

    def _state_or_tuple(self, value: object) -> Sequence[object]:
        """Return the state of tensor properties, whose class pickles a tuple."""
        state = value.state if isinstance(value, Call) and self._kind(value) == "TensorProperties" else None
        return state if isinstance(state, tuple) else ()

    def _mapping(self, state: Mapping[object, object], key: str) -> Mapping[object, object]:
        value = state.get(key)
        if not isinstance(value, dict):
            raise self._corrupt(f"{shown(key)} is no table")
        return value

    def _size(self, value: object) -> tuple[int, ...]:
        """Return the numbers of a `torch.Size`."""
        args = value.args if isinstance(value, Call) and self._kind(value) == "Size" else ()
        match args:
            case [tuple() as numbers] if len(numbers) <= self._budget.limits.max_dimensions and all(
                map(_is_size, numbers)
            ):
                return numbers
            case _:
                raise self._corrupt(f"{shown(value)} is no size")

    def _corrupt(self, what: str) -> CorruptContainerError:
        return CorruptContainerError(f"the checkpoint is damaged: {what}", where=self._where, how=_HOW)


def _place(offsets: tuple[int, ...]) -> str:
    return ",".join(map(str, offsets))


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value <= _LARGEST


def _item_tensor(item: PickleContainer) -> Array | None:
    """Return the tensor an item holds, None if it holds something else. Items are plain tensors on the CPU."""
    match item.tree.value:
        case Call(
            callable=Global(module="torch._utils", name="_rebuild_tensor_v2"),
            args=(PersistentId() as pid, int() as offset, tuple() as shape, tuple() as strides, *rest),
        ) if all(map(_is_size, (offset, *shape, *strides))) and not any(rest[2:]):
            record = item.resolve(pid)
        case _:
            return None
    if not isinstance(record, StorageRecord) or record.dtype is None:
        return None
    return strided(record.storage, record.dtype, shape, strides, offset, big_endian=item.big_endian)
