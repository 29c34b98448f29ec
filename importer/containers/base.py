"""What an opened file is to the rest of the package: a value tree with storages, a table of arrays, or a set of these.

    PickleContainer    zip, legacy stream, tar, bare pickle, TorchScript: one unpickled tree, and a resolver that turns
                       the persistent ids in it into storages
    TableContainer     safetensors, burnpack, distributed checkpoints: names and arrays, ready
    SetContainer       sharded sets and tensor-parallel slices: several of the above, in order

`Opened` adds what lies beside the weights (config.json). Not here: which layout a file has (`detecting`), and what trees and
names mean (`importer.checkpoint`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from importer.arrays import Array
from importer.dtypes import DType
from importer.errors import SourceError
from importer.storages import Storage
from importer.unpickling import Global, PersistentId, Unpickled

__all__ = [
    "Container",
    "Facts",
    "Opaque",
    "Opened",
    "PickleContainer",
    "Resolved",
    "Resolver",
    "ScriptClass",
    "SetContainer",
    "Shard",
    "StorageRecord",
    "TableContainer",
]


@dataclass(slots=True, eq=False)
class StorageRecord:
    """A storage a persistent id names, found in the file and at least as long as the id declares.

    Not frozen, only never changed: a checkpoint has 100,000.

    Attributes:
        storage: the bytes; for a view of another storage (legacy stream, tar) those of the storage it looks into.
        dtype: element type of a typed storage class; None for an untyped one, whose unit is the byte.
        numel: elements (bytes if untyped) the id declares.
        key: equal for persistent ids that mean the same storage; views have the key of the storage they look into.
        offset: elements between the start of `storage` and the first element meant; 0 except for views. To be added
            to the offset of a tensor.
    """

    storage: Storage
    dtype: DType | None
    numel: int
    key: str
    offset: int = 0


Resolved = StorageRecord | Array | Global
"""What a persistent id can mean: a storage; in tar files a whole tensor; in legacy files a class saved with its source."""

Resolver = Callable[[PersistentId], Resolved]
"""Looks a persistent id up. Raises a SourceError (MissingFileError, TensorError, MalformedPickleError, UnsupportedError)
that names the record; the caller adds the name of the tensor."""


Facts = Callable[[], Mapping[str, object]]
"""Gives what a container says of itself, in types that JSON has: versions, byte order, alignment, sizes of its storages."""


@dataclass(frozen=True, slots=True)
class ScriptClass:
    """What a TorchScript archive's code says about one class of module.

    Attributes:
        name: as the pickle names it (`__torch__.torch.nn.modules.linear.Linear`).
        parameters: attribute names that are parameters.
        buffers: attribute names that are persistent buffers, or None where the archive predates that record (before
            torch 1.6): then every tensor attribute that is no parameter counts as a buffer.
        attributes: attribute name to annotation, in order of declaration.
    """

    name: str
    parameters: frozenset[str]
    buffers: frozenset[str] | None
    attributes: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Opaque:
    """An entry of a table that is understood but has no dense array (a quantized tensor of burnpack, for instance)."""

    name: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PickleContainer:
    """A file whose names and tensors hang in one unpickled tree.

    Attributes:
        kind: zip, legacy, tar, pickle or torchscript.
        paths: the file.
        tree: the unpickled object.
        resolve: what a persistent id in the tree means.
        big_endian: whether elements in the storages are big-endian.
        script: TorchScript only: the classes of the archive by name as in the pickle's `Global`s (`module.name`).
        notes: remarks for the report.
        facts: what the container says of itself, gathered when asked for: see `Facts`.
    """

    kind: str
    paths: tuple[str, ...]
    tree: Unpickled
    resolve: Resolver
    big_endian: bool = False
    script: Mapping[str, ScriptClass] | None = None
    notes: tuple[str, ...] = ()
    facts: Facts = dict


@dataclass(frozen=True, slots=True, kw_only=True)
class TableContainer:
    """Files that say themselves which array has which name.

    Attributes:
        kind: safetensors, burnpack, distributed, exported, or torchscript for archives before torch 1.3.
        paths: the files, the one given first.
        arrays: in file order.
        opaque: entries without a dense array.
        objects: trees of entries that are no tensors (distributed checkpoints), by name.
        metadata: `__metadata__` of safetensors, metadata of burnpack.
        scalars: scalars of burnpack.
        param_ids: ids of burnpack by array name.
        notes: remarks for the report.
        facts: what the container says of itself.
    """

    kind: str
    paths: tuple[str, ...]
    arrays: Mapping[str, Array]
    opaque: tuple[Opaque, ...] = ()
    objects: Mapping[str, Unpickled] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    scalars: Mapping[str, bool | int | float] = field(default_factory=dict)
    param_ids: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    facts: Facts = dict


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of a set.

    Attributes:
        path: the file.
        container: what is in it.
        expected: names the index says are in it; None where there is no index. Others in the file are to be reported
            as unused (`name@file`), an expected one that is not there is an error.
        prefix: put before every name of the file; tensor-parallel slices have equal names in every file.
    """

    path: str
    container: PickleContainer | TableContainer
    expected: frozenset[str] | None = None
    prefix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetContainer:
    """Several files that are one checkpoint.

    Attributes:
        kind: sharded or slices.
        paths: the index if there is one, then the shards.
        shards: in the order of their names.
        metadata: what all shards have in common, and `metadata` of the index, texts only.
        notes: remarks for the report.
    """

    kind: str
    paths: tuple[str, ...]
    shards: tuple[Shard, ...]
    metadata: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def facts(self) -> Facts:
        """Return what the files say of themselves, by file."""
        return lambda: {shard.path: dict(shard.container.facts()) for shard in self.shards}

    @property
    def scalars(self) -> Mapping[str, bool | int | float]:
        """Return the scalars of all shards."""
        return {name: value for table in self._tables() for name, value in table.scalars.items()}

    @property
    def param_ids(self) -> Mapping[str, int]:
        """Return the parameter ids of all shards."""
        return {name: number for table in self._tables() for name, number in table.param_ids.items()}

    def _tables(self) -> Iterator[TableContainer]:
        return (shard.container for shard in self.shards if isinstance(shard.container, TableContainer))


Container = PickleContainer | TableContainer | SetContainer
"""Everything `open_container` can give."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A container and the configuration found beside it.

    Attributes:
        container: the weights.
        config: contents of `config.json`, or else `params.json`, in the folder of the weights; None without one.
        config_path: the file they came from.
        config_fault: why a configuration that is there could not be read.
        notes: remarks for the report.
    """

    container: Container
    config: Mapping[str, object] | None = None
    config_path: str | None = None
    config_fault: SourceError | None = None
    notes: tuple[str, ...] = ()
