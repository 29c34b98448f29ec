"""What the tests of this folder share: containers made of a tree and of storages in memory, and walks through them."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from importer.checkpoint.walking import Branch, WalkedTree, walk
from importer.containers import PickleContainer, Resolved, ScriptClass, StorageRecord
from importer.containers.storage_ids import parse_storage_id
from importer.errors import Location, MissingFileError
from importer.limits import DEFAULT_LIMITS, Limits
from importer.storages import MemoryStorage
from importer.unpickling import Global, PersistentId, unpickle
from tests.builders.pickles import dump

WHERE = Location(path="model.pt")
SIX_FLOATS = struct.pack("<6f", *range(6))
STORAGES: Mapping[str, bytes] = {"0": SIX_FLOATS, "1": SIX_FLOATS}


def resolve(pid: PersistentId) -> Resolved:
    """Return a storage of `STORAGES`, as a container would."""
    identity = parse_storage_id(pid, WHERE)
    if isinstance(identity, Global):
        return identity
    if identity.key not in STORAGES:
        raise MissingFileError(f"record {identity.key} does not exist", where=WHERE, how="Copy the file again.")
    storage = MemoryStorage(STORAGES[identity.key], WHERE)
    return StorageRecord(storage, identity.dtype, identity.numel, identity.key)


def container(
    value: object, *, big_endian: bool = False, script: Mapping[str, ScriptClass] | None = None
) -> PickleContainer:
    """Return a container whose tree is `value` after writing and reading."""
    tree = unpickle(dump(value), where=WHERE)
    return PickleContainer(
        kind="zip", paths=("model.pt",), tree=tree, resolve=resolve, big_endian=big_endian, script=script
    )


def walked(value: object, *, limits: Limits = DEFAULT_LIMITS, name: str = "") -> WalkedTree:
    """Return what a walk through `value` finds."""
    findings = WalkedTree()
    walk(container(value), limits, findings, name)
    return findings


def branches(value: object) -> Branch:
    """Return the shape a walk through `value` finds."""
    return walk(container(value), DEFAULT_LIMITS, WalkedTree())
