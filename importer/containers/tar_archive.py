"""The tar layout of torch before 0.1.10: members `storages`, `tensors`, `pickle` and `sys_info`.

    storages   pickle(number), per storage pickle((key, location, class)), i64 count, elements;
               then pickle(list of views (key, key of the storage looked into, offset, count))
    tensors    pickle(number), per tensor pickle((key, storage key, class)), i32 rank, 4 bytes unused,
               rank i64 sizes, rank i64 strides, i64 storage offset
    pickle     the object; its persistent ids name tensors by key

Members are read in place, never extracted. Not here: other tar files, which are no checkpoints by themselves.

Format facts: `legacy_load` within `_legacy_load` of torch/serialization.py; POSIX.1-1988 for the headers.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from importer.arrays import Array, strided
from importer.containers.base import PickleContainer, Resolved
from importer.containers.pickle_stream import PickleStream
from importer.containers.storage_ids import item_bytes, storage_dtype
from importer.dtypes import U8, DType
from importer.errors import (
    CorruptContainerError,
    Location,
    MalformedPickleError,
    TruncatedError,
    UnknownContainerError,
    shown,
)
from importer.limits import Limits
from importer.storages import FileRange, SourceFile
from importer.unpickling import Global, PersistentId

__all__ = ["is_tar", "open_tar"]

_BLOCK = 512
_MAGIC, _MAGIC_AT = b"ustar", 257
_PREFIX = slice(345, 500)
_REGULAR, _FOLDER, _PAX = (b"0", b"\0"), b"5", b"x"
_BINARY = 0x80
_LARGEST_PAX = 1 << 16
_PAX_LENGTH = re.compile(rb"([1-9]\d{0,5}) ")
_HARMLESS_PAX = frozenset({b"atime", b"comment", b"ctime", b"gid", b"gname", b"mtime", b"uid", b"uname"})
_TENSOR_HEAD = struct.Struct("<i4x")
_HOW = "The file is damaged: download or copy it again."


class _TarMember(NamedTuple):
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Window:
    """A storage, or the part of one a view means."""

    storage: FileRange
    dtype: DType
    numel: int


def is_tar(head: bytes, *, checked: bool = False) -> bool:
    """Whether a file that begins with `head` is a tar archive; `checked`: the checksum of its header fits, too."""
    return head[_MAGIC_AT : _MAGIC_AT + len(_MAGIC)] == _MAGIC and (not checked or _checksum_fits(head[:_BLOCK]))


def open_tar(file: SourceFile, limits: Limits) -> PickleContainer:
    """Open a tar checkpoint. Keys are compared as text: ids are text in the object and numbers in the tables.

    Raises:
        UnknownContainerError: a tar archive of another kind.
        SourceError: damaged or over a limit.
    """
    members = dict(_members(file, limits))
    missing = {"storages", "tensors", "pickle"} - members.keys()
    if missing:
        listed = ", ".join(shown(name) for name in list(members)[:4]) or "nothing"
        raise UnknownContainerError(
            f"this is a tar archive, but none that torch wrote; it holds {listed}",
            where=Location(path=file.path),
            how="If the checkpoint is one of the files in it, unpack the archive and pass that file.",
        )
    windows = _read_storages(PickleStream(file, limits, *members["storages"]), file.path)
    tensors = _read_tensors(PickleStream(file, limits, *members["tensors"]), windows, file.path, limits)
    tree = PickleStream(file, limits, *members["pickle"]).pickle("pickle")
    where = Location(path=file.path, record="pickle")
    return PickleContainer(kind="tar", paths=(file.path,), tree=tree, resolve=_Tensors(tensors, where).resolve)


class _Tensors:
    """The tensors by key."""

    __slots__ = ("_by_key", "_where")

    def __init__(self, by_key: Mapping[str, Array], where: Location) -> None:
        self._by_key = by_key
        self._where = where

    def resolve(self, pid: PersistentId) -> Resolved:
        """Return the tensor a persistent id names; `(class, file, source)` is a class saved with its source."""
        match pid.value:
            case (Global() as module, *_):
                return module
            case int() | str() as key if str(key) in self._by_key:
                return self._by_key[str(key)]
            case _:
                raise MalformedPickleError(
                    f"the persistent id {shown(pid.value)} names no tensor of the file", where=self._where, how=_HOW
                )


def _members(file: SourceFile, limits: Limits) -> Iterator[tuple[str, _TarMember]]:
    """Yield name and extent of the regular files in the archive."""
    at = 0
    seen: set[str] = set()
    for _ in range(limits.max_archive_entries):
        header = file.read(at, _BLOCK) if at + _BLOCK <= file.size else bytes(_BLOCK)
        if not any(header):
            return
        where = Location(path=file.path, offset=at)
        name = header[:100].split(b"\0")[0].decode("utf-8", "surrogateescape").removeprefix("./")
        start = at + _BLOCK
        end = start + _member_size(header, where)
        if end > file.size:
            raise TruncatedError(
                f"member {shown(name)} goes on after the end of the file",
                where=Location(path=file.path, record=name, offset=at),
                how="The file is cut off: download or copy it again.",
            )
        if name in seen:
            raise CorruptContainerError(
                f"member {shown(name)} is there twice", where=Location(path=file.path), how=_HOW
            )
        kind = header[156:157]
        is_folder = kind == _FOLDER or name.endswith("/")
        if kind == _PAX and end - start <= _LARGEST_PAX:
            _check_pax(file.read(start, end - start), where)
        elif any(header[_PREFIX]) or kind not in {*_REGULAR, _FOLDER} or (is_folder and end > start):
            raise _contested(f"member {shown(name)} is no plain file, or its name goes on elsewhere", where)
        elif not is_folder:
            seen.add(name)
            yield name, _TarMember(start, end)
        at = end + -end % _BLOCK
    actual = limits.max_archive_entries + 1
    raise limits.passed("max_archive_entries", actual, "the archive has too many members", Location(path=file.path))


def _member_size(header: bytes, where: Location) -> int:
    """Return the size in a header after checking the header's checksum."""
    field = header[124:136]
    # Sizes above 8 GiB are binary, marked by the highest bit.
    size = int.from_bytes(field[1:], "big") if field[0] == _BINARY else _octal(field)
    if size is None:
        raise CorruptContainerError("a header of the tar archive is damaged", where=where, how=_HOW)
    if not _checksum_fits(header):
        raise CorruptContainerError("the checksum of a tar header is wrong", where=where, how=_HOW)
    return size


def _octal(field: bytes) -> int | None:
    digits = field.strip(b"\0 ")
    return int(digits or b"0", 8) if not digits.strip(b"01234567") else None


def _checksum_fits(header: bytes) -> bool:
    return _octal(header[148:156]) == sum(header[:148]) + 8 * ord(" ") + sum(header[156:])


def _check_pax(data: bytes, where: Location) -> None:
    """Check that an extended header says nothing of names and sizes: torch on Python 3 writes one for fractions of seconds.

    Raises:
        CorruptContainerError: it does, or is damaged.
    """
    at = 0
    while data[at : at + 1] not in {b"", b"\0"}:
        length = _PAX_LENGTH.match(data, at)
        end = at + int(length[1]) if length else 0
        if length is None or not length.end() < end <= len(data) or data[end - 1 : end] != b"\n":
            raise CorruptContainerError("an extended header of the tar archive is damaged", where=where, how=_HOW)
        keyword, _, _ = data[length.end() : end].partition(b"=")
        if keyword not in _HARMLESS_PAX:
            raise _contested(
                f"an extended header gives the next member another {shown(keyword.decode('latin-1'))}", where
            )
        at = end


def _contested(what: str, where: Location) -> CorruptContainerError:
    return CorruptContainerError(
        f"{what}; readers of tar archives differ in what they make of that",
        where=where,
        how="Do not trust this file; get it from its source.",
    )


def _read_storages(stream: PickleStream, path: str) -> dict[str, _Window]:
    where = Location(path=path, record="storages")
    windows: dict[str, _Window] = {}
    for _ in range(_count(stream, where)):
        match stream.pickle("storages").value:
            case (int() | str() as key, _, Global() as storage_class) if str(key) not in windows:
                dtype = storage_dtype(storage_class, where) or U8
            case other:
                raise CorruptContainerError(f"{shown(other)} describes no storage", where=where, how=_HOW)
        storage = stream.storage(f"storages/{key}", item_bytes(dtype), None)
        windows[str(key)] = _Window(storage, dtype, storage.nbytes // dtype.itemsize)
    views = stream.pickle("storages").value
    for view in views if isinstance(views, list) else [views]:
        _add_view(windows, view, where)
    return windows


def _add_view(windows: dict[str, _Window], view: object, where: Location) -> None:
    match view:
        case (int() | str() as key, int() | str() as root_key, int() as offset, int() as numel) if (
            str(root_key) in windows and 0 <= offset <= offset + numel <= windows[str(root_key)].numel
        ):
            root = windows[str(root_key)]
            if str(key) in windows:
                raise CorruptContainerError(f"storage {shown(key)} is there twice", where=where, how=_HOW)
            size = root.dtype.itemsize
            inside = FileRange(
                root.storage.file, root.storage.offset + offset * size, numel * size, root.storage.record
            )
            windows[str(key)] = _Window(inside, root.dtype, numel)
        case _:
            raise CorruptContainerError(f"{shown(view)} describes no view of a storage", where=where, how=_HOW)


def _read_tensors(stream: PickleStream, windows: Mapping[str, _Window], path: str, limits: Limits) -> dict[str, Array]:
    where = Location(path=path, record="tensors")
    tensors: dict[str, Array] = {}
    for _ in range(_count(stream, where)):
        match stream.pickle("tensors").value:
            case (int() | str() as key, int() | str() as storage_key, Global()) if str(storage_key) in windows:
                window = windows[str(storage_key)]
            case other:
                raise CorruptContainerError(f"{shown(other)} describes no tensor", where=where, how=_HOW)
        (rank,) = _TENSOR_HEAD.unpack(stream.read(_TENSOR_HEAD.size))
        if not 0 <= rank <= limits.max_dimensions:
            raise CorruptContainerError(f"a tensor of rank {rank}", where=where, how=_HOW)
        numbers = struct.unpack(f"<{2 * rank + 1}q", stream.read(16 * rank + 8))
        sizes, strides, offset = numbers[:rank], numbers[rank:-1], numbers[-1]
        if str(key) in tensors:
            raise CorruptContainerError(f"tensor {shown(key)} is there twice", where=where, how=_HOW)
        tensors[str(key)] = strided(window.storage, window.dtype, sizes, strides, offset)
    return tensors


def _count(stream: PickleStream, where: Location) -> int:
    count = stream.pickle(str(where.record)).value
    # Each entry takes a byte at least; without this a number alone could keep the loop busy.
    if not isinstance(count, int) or not 0 <= count <= stream.remaining:
        raise CorruptContainerError(f"{shown(count)} is no number of entries", where=where, how=_HOW)
    return count
