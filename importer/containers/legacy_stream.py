"""The stream `torch.save` wrote from 0.1.10 to 1.5, and writes still on request.

Five pickles (magic number, protocol version, system information, the object, the keys of its storages), then for each key
the number of elements as 64 bits and the elements. The element type stands in the persistent ids only. Not here: the
framing of pickles (`pickle_stream`), the tar layout before it (`tar_archive`).

Format facts: `_legacy_save` and `_legacy_load` of torch/serialization.py. Elements are little-endian whatever
`sys_info["little_endian"]` says (see `PickleStream.storage`), and torch does not look at that entry either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from importer.containers.base import PickleContainer, Resolved, StorageRecord
from importer.containers.pickle_stream import PickleStream
from importer.containers.storage_ids import StorageId, check_agreement, item_bytes, parse_storage_id
from importer.errors import CorruptContainerError, Location, MissingFileError, UnsupportedError, shown
from importer.limits import Limits
from importer.storages import FileRange, SourceFile
from importer.unpickling import Global, PersistentId

__all__ = ["is_legacy", "open_legacy"]

_MAGIC = 0x1950A86A20F9469CFC6C
_PROTOCOL = 1001
_MAGIC_SPELLINGS = (_MAGIC.to_bytes(10, "little"), str(_MAGIC).encode())
_HEAD_BYTES = 64
_BYTE_ORDER = "little_endian"


def is_legacy(head: bytes) -> bool:
    """Whether a file that begins with `head` is a legacy stream, in any pickle protocol."""
    return any(spelling in head[:_HEAD_BYTES] for spelling in _MAGIC_SPELLINGS)


def open_legacy(file: SourceFile, limits: Limits) -> PickleContainer:
    """Open a legacy stream; of the storages only the element counts are read.

    Raises:
        UnsupportedError: another protocol version than 1001.
        TruncatedError: the file ends before its last storage does.
        SourceError: damaged or over a limit.
    """
    stream = PickleStream(file, limits, 0, file.size)
    magic = stream.pickle("magic number").value
    if magic != _MAGIC:
        raise CorruptContainerError(
            "the magic number of the legacy layout is damaged",
            where=Location(path=file.path, offset=0),
            how="Download or copy the file again.",
        )
    version = stream.pickle("protocol version").value
    if version != _PROTOCOL:
        raise UnsupportedError(
            f"the legacy layout has version {shown(version)}, only {_PROTOCOL} is known",
            where=Location(path=file.path),
            how="Save it again with a current torch.",
        )
    system = stream.pickle("system information").value
    system = system if isinstance(system, dict) else {}
    tree = stream.pickle("object")
    where = Location(path=file.path, record="object")
    storages = _place(stream, _identities(tree.persistent_ids, where), where)
    notes = [f"{stream.remaining} bytes after the last storage are ignored"] if stream.remaining else []
    if not isinstance(system.get(_BYTE_ORDER), bool):
        notes.append(
            "the file does not say its byte order; its elements were read as little-endian, as torch writes them"
        )
    told = _facts(version, system, {key: storage.nbytes for key, storage in storages.items()})
    return PickleContainer(
        kind="legacy",
        paths=(file.path,),
        tree=tree,
        resolve=_Storages(storages, where).resolve,
        notes=tuple(notes),
        facts=lambda: told,
    )


def _facts(version: object, system: Mapping[object, object], sizes: Mapping[str, int]) -> Mapping[str, object]:
    """Return what the stream says of itself: its protocol version, system information, and the sizes of its storages."""
    little = system.get(_BYTE_ORDER)
    types = system.get("type_sizes")
    return {
        "version": str(version),
        "byte_order": ("little" if little else "big") if isinstance(little, bool) else None,
        "type_sizes": {str(name): size for name, size in types.items() if isinstance(size, int)}
        if isinstance(types, dict)
        else {},
        "storages": dict(sizes),
    }


class _Storages:
    """The storages by key."""

    __slots__ = ("_by_key", "_where")

    def __init__(self, by_key: Mapping[str, FileRange], where: Location) -> None:
        self._by_key = by_key
        self._where = where

    def resolve(self, pid: PersistentId) -> Resolved:
        """Return the storage, or the window into one, that a persistent id names."""
        identity = parse_storage_id(pid, self._where)
        if isinstance(identity, Global):
            return identity
        storage = self._by_key.get(identity.key)
        if storage is None:
            raise MissingFileError(
                f"storage {shown(identity.key)} is not in the file",
                where=self._where,
                how="The file is incomplete: download or copy it again.",
            )
        view = identity.view
        if view is None:
            return StorageRecord(storage, identity.dtype, identity.numel, identity.key)
        return StorageRecord(storage, identity.dtype, view.numel, identity.key, view.offset)


def _identities(pids: Iterable[PersistentId], where: Location) -> dict[str, StorageId]:
    """Return the storages the object names, by key.

    Raises:
        CorruptContainerError: two ids with one key declare two sizes.
    """
    pids = tuple(pids)
    check_agreement(pids, where)
    found: dict[str, StorageId] = {}
    windows: dict[str, tuple[str, int, int]] = {}
    for pid in pids:
        identity = parse_storage_id(pid, where)
        if isinstance(identity, Global):
            continue
        if identity.view is not None:
            window = (identity.key, identity.view.offset, identity.view.numel)
            if windows.setdefault(identity.view.key, window) != window:
                raise _contested(identity.view.key, "names two views of storages", where)
        found.setdefault(identity.key, identity)
    both = [key for key, window in windows.items() if key in found and window[:2] != (key, 0)]
    if both:
        raise _contested(both[0], "names a storage and a view of one", where)
    return found


def _contested(key: str, what: str, where: Location) -> CorruptContainerError:
    return CorruptContainerError(
        f"the key {shown(key)} {what}; for torch the first one counts",
        where=where,
        how="The file is damaged or was made to mislead; get it anew from where it came.",
    )


def _place(stream: PickleStream, identities: Mapping[str, StorageId], where: Location) -> dict[str, FileRange]:
    """Read the list of keys and pass over the storages."""
    keys = stream.pickle("storage keys").value
    if not isinstance(keys, list) or not all(isinstance(key, (str, int)) for key in keys):
        raise CorruptContainerError(
            "the list of storage keys is damaged", where=where, how="Download or copy the file again."
        )
    placed: dict[str, FileRange] = {}
    for key in map(str, keys):
        identity = identities.get(key)
        if identity is None or key in placed:
            raise CorruptContainerError(
                f"storage {shown(key)} is listed, but {'twice' if identity else 'nothing in the object uses it'}",
                where=where,
                how="The file is damaged or was made to mislead; get it anew from where it came.",
            )
        placed[key] = stream.storage(f"storage {key}", item_bytes(identity.dtype), identity.numel)
    return placed
