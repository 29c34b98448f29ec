"""A pickle without an archive around it: configurations and plain values; of a checkpoint only the smaller half.

Not here: the layouts that hold tensor data.
"""

from __future__ import annotations

import functools
from typing import NoReturn

from importer.containers.base import PickleContainer
from importer.errors import Location, MissingFileError
from importer.limits import Limits
from importer.storages import SourceFile
from importer.unpickling import PersistentId, unpickle

__all__ = ["looks_like_pickle", "open_pickle"]

# PROTO of protocols 2 to 5; what protocols 0 and 1 begin a list, dict, tuple or object with.
_FIRST_OPCODES = frozenset(b"\x80(]}c")


def looks_like_pickle(head: bytes) -> bool:
    """Whether a file that begins with `head` can be a pickle."""
    return head[:1] != b"" and head[0] in _FIRST_OPCODES


def open_pickle(file: SourceFile, limits: Limits) -> PickleContainer:
    """Open a bare pickle.

    Raises:
        MissingFileError: it refers to tensor data, which is not in the file.
        SourceError: as for `unpickle`.
    """
    # One byte more than allowed is enough for the unpickler to see that there is too much.
    data = file.read(0, min(file.size, limits.max_pickle_bytes + 1))
    where = Location(path=file.path)
    tree = unpickle(data, where=where, limits=limits, budget=file.budget)
    resolve = functools.partial(_refuse, file.path)
    if tree.persistent_ids:
        resolve(tree.persistent_ids[0])
    notes = (f"{file.size - tree.end} bytes after the pickle are ignored",) if tree.end < file.size else ()
    return PickleContainer(kind="pickle", paths=(file.path,), tree=tree, resolve=resolve, notes=notes)


def _refuse(path: str, _: PersistentId) -> NoReturn:
    raise MissingFileError(
        "this is the data.pkl of a checkpoint, without the tensor data that belongs to it",
        where=Location(path=path),
        how="Pass the whole archive (.pt, .pth, .bin) it was taken out of.",
    )
