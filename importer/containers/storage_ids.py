"""What torch writes as a persistent id: which storage, of which type, with how many elements, and views of others.

Not here: where the bytes of a storage lie, which every layout knows for itself.

Format facts: `persistent_id` of torch/serialization.py in its releases. A storage is
`("storage", class, key, location, elements)`, in the legacy stream with a sixth part that is None or
`(view key, offset, elements)`; a class saved with its source is `("module", class, file, source)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from importer.dtypes import U8, DType, dtype_of_storage_class
from importer.errors import CorruptContainerError, Location, MalformedPickleError, TensorError, UnsupportedError, shown
from importer.storages import Storage
from importer.unpickling import Global, PersistentId

__all__ = ["StorageId", "check_agreement", "check_length", "item_bytes", "parse_storage_id", "storage_dtype"]

_UNTYPED = frozenset({"UntypedStorage", "_UntypedStorage"})
_PARTS = 5
_HOW = "The file is damaged or was made to mislead; get it anew from where it came."


@dataclass(frozen=True, slots=True)
class StorageView:
    """A storage that is a window into another one.

    Attributes:
        key: names it; for torch, another use of the name is this window again.
        offset: elements before its first one.
        numel: its elements.
    """

    key: str
    offset: int
    numel: int


@dataclass(slots=True, eq=False)
class StorageId:
    """A persistent id that names a storage. Not frozen, only never changed: a checkpoint has 100,000.

    Attributes:
        dtype: element type, None for an untyped storage.
        key: name of the storage; numbers of Python 2 as text.
        numel: declared elements (bytes of an untyped storage).
        view: the window meant, None for the whole storage.
    """

    dtype: DType | None
    key: str
    numel: int
    view: StorageView | None


def parse_storage_id(pid: PersistentId, where: Location) -> StorageId | Global:
    """Return what a persistent id of torch means; a class saved with its source is that class.

    Raises:
        MalformedPickleError: no form that torch writes.
        UnsupportedError: a storage class without a type here.
    """
    match pid.value:
        case ("storage", storage_class, key, _, numel) if (
            type(storage_class) is Global and type(key) is str and type(numel) is int and numel >= 0
        ):  # what torch has written since 1.6; the next case takes it too, at four times the cost
            return StorageId(storage_dtype(storage_class, where), key, numel, None)
        case ("storage", Global() as storage_class, str() | int() as key, _, int() as numel, *rest) if numel >= 0:
            return StorageId(storage_dtype(storage_class, where), str(key), numel, _parse_view(rest, numel, where))
        case ("module", Global() as module, *_):
            return module
        case _:
            raise _malformed(f"the persistent id {shown(pid.value)} is none that torch writes", where)


def check_agreement(pids: Iterable[PersistentId], where: Location) -> None:
    """Check that all ids of one storage say the same of it: for torch the first one counts, which may be one nobody uses.

    Ids that are none are left to whoever resolves them.

    Raises:
        CorruptContainerError: two ids declare two types or sizes.
    """
    first: dict[str, tuple[object, ...]] = {}
    for pid in pids:
        value = pid.value
        if not (isinstance(value, tuple) and len(value) >= _PARTS and value[0] == "storage"):
            continue
        key = value[2]
        if isinstance(key, str | int):
            known = first.setdefault(str(key), value)
            if known is not value and _said(known) != _said(value):
                raise CorruptContainerError(
                    f"storage {shown(str(key))} is declared twice, with different types or sizes", where=where, how=_HOW
                )


def _said(value: tuple[object, ...]) -> tuple[object, ...]:
    """Return what an id says of a storage: how the key is written, the type, and the elements; untyped ones count bytes."""
    _, storage_class, key, _, numel, *_ = value
    dtype = dtype_of_storage_class(storage_class.name) if isinstance(storage_class, Global) else None
    return type(key), dtype or U8, numel


def storage_dtype(storage_class: Global, where: Location) -> DType | None:
    """Return the element type of a storage class, None if it is untyped.

    Raises:
        UnsupportedError: no storage class that is known.
    """
    name, module = storage_class.name, storage_class.module
    dtype = dtype_of_storage_class(name)
    is_known = dtype is not None or name in _UNTYPED
    if not is_known or not (module == "torch" or module.startswith("torch.")):
        raise UnsupportedError(
            f"storages of class {shown(storage_class)} are not known",
            where=where,
            how="If a torch release writes this class, report it; otherwise do not trust the file.",
        )
    return dtype


def item_bytes(dtype: DType | None) -> int:
    """Return the unit of a storage: bytes per element, 1 for an untyped one."""
    return 1 if dtype is None else dtype.itemsize


def check_length(storage: Storage, identity: StorageId) -> None:
    """Check that a storage holds what its id declares.

    Raises:
        TensorError: it is shorter.
    """
    dtype = identity.dtype
    needed = identity.numel if dtype is None else identity.numel * dtype.itemsize
    if storage.nbytes < needed:
        raise TensorError(
            f"storage {shown(identity.key)} is declared with {needed} bytes but has {storage.nbytes}",
            where=storage.where,
            how="The file is damaged: download or copy it again.",
        )


def _parse_view(rest: list[object], numel: int, where: Location) -> StorageView | None:
    match rest:
        case [] | [None]:
            return None
        case [(str() | int() as key, int() as offset, int() as view_numel)] if (
            0 <= offset <= offset + view_numel <= numel
        ):
            return StorageView(str(key), offset, view_numel)
        case _:
            raise _malformed(f"the view {shown(rest)} does not fit into its storage of {numel} elements", where)


def _malformed(what: str, where: Location) -> MalformedPickleError:
    return MalformedPickleError(what, where=where, how=_HOW)
