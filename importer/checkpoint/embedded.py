"""Storages pickled within a pickle, as plain `pickle.dump(state_dict)` leaves them: a legacy stream in bytes for each.

Not here: legacy streams that are files (`importer.containers.legacy_stream`).

Format facts: `TypedStorage.__reduce__` of torch/storage.py, which gives `_load_from_bytes(bytes)`, the bytes being what
`torch.save(storage)` wrote in the old layout.
"""

from __future__ import annotations

from importer.budgets import Budget
from importer.checkpoint.structures import pickled_bytes
from importer.containers.base import StorageRecord
from importer.containers.storage_ids import StorageId, check_length, item_bytes, parse_storage_id
from importer.errors import Location, TensorError
from importer.storages import MemoryStorage
from importer.unpickling import Call, Global, PersistentId, unpickle

__all__ = ["embedded_storage", "is_embedded"]

_PICKLES_BEFORE = 3  # magic number, protocol version, system information
_COUNT_BYTES = 8


def is_embedded(call: Call) -> bool:
    """Whether a call stands for a storage with its bytes."""
    return call.callable == Global("torch.storage", "_load_from_bytes")


def embedded_storage(call: Call, key: str, where: Location, budget: Budget) -> StorageRecord:
    """Return the storage that `torch.storage._load_from_bytes(data)` would give, under a key of the caller's.

    The key in the bytes was an address, which another storage may have had before.

    Raises:
        TensorError: the bytes are no storage in the old layout, or fewer than it declares.
        SourceError: as for `unpickle` and `parse_storage_id`.
    """
    data = pickled_bytes(call.args[0]) if call.args else None
    limits = budget.limits
    if data is None:
        raise _damaged("its storage is pickled without bytes", where)
    position = 0
    for _ in range(_PICKLES_BEFORE):
        position = unpickle(data, where=where, limits=limits, budget=budget, start=position).end
    tree = unpickle(data, where=where, limits=limits, budget=budget, start=position)
    keys = unpickle(data, where=where, limits=limits, budget=budget, start=tree.end)
    identity = parse_storage_id(tree.value, where) if isinstance(tree.value, PersistentId) else None
    if not isinstance(identity, StorageId) or keys.value != [identity.key]:
        raise _damaged("what is pickled in place of its storage is none", where)
    begin = keys.end + _COUNT_BYTES
    end = begin + identity.numel * item_bytes(identity.dtype)
    storage = MemoryStorage(memoryview(data)[begin:end], where)
    check_length(storage, identity)
    view = identity.view
    if view is None:
        return StorageRecord(storage, identity.dtype, identity.numel, key)
    return StorageRecord(storage, identity.dtype, view.numel, key, view.offset)


def _damaged(what: str, where: Location) -> TensorError:
    return TensorError(what, where=where, how="The file is damaged: get it again from where it came.")
