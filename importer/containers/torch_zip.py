"""The ZIP layouts of torch: `torch.save` since 1.6, its experiment in 1.4, and TorchScript archives.

    <root>/data.pkl          the object
    <root>/data/<key>        one record per storage           <root>/tensors/<key> in torch 1.4
    <root>/byteorder         "little" or "big"; absent before torch 2.1
    <root>/constants.pkl     in TorchScript archives only; their code is read by `torchscript`
    <root>/model.json        instead of data.pkl in TorchScript archives before torch 1.3, read by `torchscript_json`
    <root>/archive_format    in exported programs, read by `exported_program`
    <root>/.data/<key>.storage  in packages of `torch.package`, whose objects are pickles of any name beside their code

Not here: the archive itself (`zip_archive`), and what the tree means (`importer.checkpoint`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from importer.containers.base import PickleContainer, Resolved, StorageRecord, TableContainer
from importer.containers.exported_program import read_exported
from importer.containers.storage_ids import check_agreement, check_length, parse_storage_id
from importer.containers.torchscript import read_script_classes
from importer.containers.torchscript_json import read_json_archive
from importer.containers.zip_archive import ZipArchive
from importer.errors import (
    CorruptContainerError,
    Location,
    MissingFileError,
    UnknownContainerError,
    UnsupportedError,
    shown,
)
from importer.limits import Limits
from importer.storages import FileRange, SourceFile
from importer.unpickling import Global, PersistentId, unpickle

__all__ = ["TorchArchive", "find_root", "open_zip"]

_SHOWN_NAMES = 4
_NO_OBJECTS = (".py", ".txt", ".json", ".yaml", ".yml", "/version", "/byteorder")
_PICKLE_PROTO = b"\x80"
_FACTS = {
    "version": "version",
    "format_version": ".format_version",
    "byte_order": "byteorder",
    "alignment": ".storage_alignment",
    "serialization_id": ".data/serialization_id",
    "python_version": ".data/python_version",
}
"""What an archive of torch says of itself, and the record it stands in; `version` is that of the archive, 3 since 1.6."""
_LONGEST_FACT = 256
_STORAGE = b"storage"
_STORAGE_RECORDS = (("data/", ""), ("tensors/", ""), (".data/", ".storage"))


def open_zip(file: SourceFile, limits: Limits) -> PickleContainer | TableContainer:
    """Open a ZIP archive that torch wrote.

    Raises:
        UnknownContainerError: a ZIP archive of another kind.
        SourceError: damaged, contradictory or over a limit.
    """
    archive = ZipArchive(file, limits)
    root = find_root(archive, "data.pkl")
    if root is not None:
        return TorchArchive(archive, root).open(limits)
    root = find_root(archive, "archive_format")
    if root is not None and archive.read(f"{root}archive_format", "max_text_record_bytes").strip() == b"pt2":
        return read_exported(archive, root, big_endian=_is_big_endian(archive, root))
    if (inner := archive.find("serialized_state_dict.pt")) is not None:
        return _open_inner(archive, inner, limits)
    root = find_root(archive, ".data/extern_modules")
    if root is not None:
        name, others = _package_object(archive, root)
        package = TorchArchive(archive, root, name).open(limits)
        notes = (f"other objects of the package were not read: {', '.join(map(shown, others[:_SHOWN_NAMES]))}",)
        return replace(package, notes=(*package.notes, *notes)) if others else package
    root = find_root(archive, "model.json")
    if root is not None and archive.find(f"{root}version") is not None:
        return read_json_archive(archive, root, limits)
    raise _foreign_archive(archive)


class TorchArchive:
    """The records of one checkpoint in an archive, and the way from persistent ids to them."""

    __slots__ = ("_archive", "_object", "_records", "_root", "_where")

    def __init__(self, archive: ZipArchive, root: str, name: str = "data.pkl") -> None:
        """Look at `archive` below `root`, which is empty or ends in a slash, for the object of that name."""
        self._archive = archive
        self._root = root
        self._object = archive.find(f"{root}{name}") or f"{root}{name}"
        self._where = Location(path=archive.file.path, record=self._object)
        self._records: dict[str, StorageRecord] = {}

    def open(self, limits: Limits) -> PickleContainer:
        """Unpickle the object and say which layout this is."""
        names = self._archive.entries
        data = self._archive.read(self._object, "max_pickle_bytes")
        tree = unpickle(data, where=self._where, limits=limits, budget=self._archive.file.budget)
        check_agreement(tree.persistent_ids, self._where)
        scripted = self._archive.find(f"{self._root}constants.pkl") is not None
        notes: list[str] = []
        if self._archive.archive_start:
            notes.append(f"{self._archive.archive_start} bytes before the archive are ignored")
        if scripted and not tree.persistent_ids and any(name.startswith(f"{self._root}constants/") for name in names):
            notes.append("the model was frozen: its weights are constants of the code and have no names")
        return PickleContainer(
            kind="torchscript" if scripted else "zip",
            paths=(self._archive.file.path,),
            tree=tree,
            resolve=self.resolve,
            big_endian=_is_big_endian(self._archive, self._root),
            script=read_script_classes(self._archive, self._root, tree.globals) if scripted else None,
            notes=tuple(notes),
            facts=self.facts,
        )

    def resolve(self, pid: PersistentId) -> Resolved:
        """Return the storage a persistent id names.

        Raises:
            MissingFileError: the archive has no record for it.
            TensorError: the record is shorter than the id declares.
            MalformedPickleError, UnsupportedError: as for `parse_storage_id`.
        """
        identity = parse_storage_id(pid, self._where)
        if isinstance(identity, Global):
            return identity
        key = identity.key
        record = self._records.get(key)
        # A storage of bytes may be named as an untyped one as well.
        if record is None or record.dtype is not identity.dtype:
            storage = self._archive.storage(self._record_name(key))
            check_length(storage, identity)
            record = self._records[key] = StorageRecord(storage, identity.dtype, identity.numel, key)
        return record

    def facts(self) -> Mapping[str, object]:
        """Return what the archive says of itself: its small records of text, and the sizes of its storages in bytes.

        Raises:
            SourceError: a record cannot be read.
        """
        told: dict[str, object] = {fact: self._said(record) for fact, record in _FACTS.items()}
        told["alignment"] = (
            int(aligned) if (aligned := str(told["alignment"] or "")).isascii() and aligned.isdigit() else None
        )
        told["storages"] = self._storage_sizes()
        told["bytes_before"] = self._archive.archive_start
        return told

    def _said(self, record: str) -> str | None:
        name = self._archive.find(f"{self._root}{record}")
        if name is None or self._archive.entries[name].size > _LONGEST_FACT:
            return None
        return self._archive.read(name, "max_text_record_bytes").decode("utf-8", "replace").strip()

    def _storage_sizes(self) -> dict[str, int]:
        places = [(f"{self._root}{folder}", extension) for folder, extension in _STORAGE_RECORDS]
        return {
            name[len(folder) : len(name) - len(extension)]: entry.size
            for name, entry in self._archive.entries.items()
            for folder, extension in places
            if name.startswith(folder) and name.endswith(extension) and (extension or not name.endswith(_NO_OBJECTS))
        }

    def _record_name(self, key: str) -> str:
        for folder, extension in _STORAGE_RECORDS:
            name = self._archive.find(f"{self._root}{folder}{key}{extension}")
            if name is not None:
                return name
        raise MissingFileError(
            f"record {shown(f'{self._root}data/{key}')} does not exist in the archive",
            where=self._where,
            how="The file is incomplete: download or copy it again.",
        )


def _is_big_endian(archive: ZipArchive, root: str) -> bool:
    name = archive.find(f"{root}byteorder")
    if name is None:
        return False
    order = archive.read(name, "max_text_record_bytes").strip()
    if order not in {b"little", b"big"}:
        raise CorruptContainerError(
            f"record {shown(name)} holds {shown(order)} instead of 'little' or 'big'",
            where=Location(path=archive.file.path, record=name),
            how="Download or copy the file again.",
        )
    return order == b"big"


def _package_object(archive: ZipArchive, root: str) -> tuple[str, tuple[str, ...]]:
    """Return the name, below `root`, of the object with the weights in a package, and those of its other objects.

    Packages name their resources as they like, so an object is told by its first bytes; of several, one that refers to
    storages holds the weights.

    Raises:
        UnsupportedError: there is none, or more than one that could be meant.
    """
    names = [name.removeprefix(root) for name in archive.entries if name.startswith(root)]
    resources = [name for name in names if not name.startswith((".data/", "data/")) and not name.endswith(_NO_OBJECTS)]
    objects = {name: data for name in resources if (data := _pickle_in(archive, root + name)) is not None}
    meant = [name for name, data in objects.items() if _STORAGE in data] if len(objects) > 1 else list(objects)
    if len(meant) == 1:
        return meant[0], tuple(name for name in objects if name != meant[0])
    listed = ", ".join(shown(name) for name in list(objects)[:_SHOWN_NAMES]) or "none"
    raise UnsupportedError(
        f"a package of torch.package with {len(meant)} objects that hold weights, where one is needed: {listed}",
        where=Location(path=archive.file.path),
        how="Load the object with torch.package.PackageImporter and save its state_dict().",
    )


def _pickle_in(archive: ZipArchive, name: str) -> bytes | None:
    """Return the contents of a record that begins like a pickle, None for any other."""
    if not archive.entries[name].size:
        return None
    head = archive.storage(name)
    first = bytearray(1)
    head.read_into(0, memoryview(first))
    return archive.read(name, "max_pickle_bytes") if first == _PICKLE_PROTO else None


def _open_inner(archive: ZipArchive, name: str, limits: Limits) -> PickleContainer:
    """Open a checkpoint that is a record of another archive, in place."""
    storage = archive.storage(name)
    if isinstance(storage, FileRange):
        inner = ZipArchive(archive.file, limits, start=storage.offset, end=storage.offset + storage.nbytes)
        root = find_root(inner, "data.pkl")
        if root is not None:
            return TorchArchive(inner, root).open(limits)
    raise UnknownContainerError(
        f"record {shown(name)} is no checkpoint that can be read in place",
        where=Location(path=archive.file.path, record=name),
        how="Unpack the archive and pass that file.",
    )


def find_root(archive: ZipArchive, record: str) -> str | None:
    """Return the folder (empty or ending in a slash) in which `record` lies least deep, None if there is none.

    Raises:
        CorruptContainerError: two folders at the same depth have one, or it is not the folder of the first entry, in which
            alone torch looks.
    """
    names = {name: name.lower() for name in archive.entries if name[-len(record) :].lower() == record}
    roots = [name[: -len(record)] for name, lower in names.items() if lower == record or lower.endswith(f"/{record}")]
    if len(roots) < 2:  # noqa: PLR2004 - a choice
        return roots[0] if roots else None
    roots.sort(key=lambda root: (root.count("/"), root))
    if roots[0] == archive.first_folder and roots[1].count("/") > 1:
        return roots[0]
    raise CorruptContainerError(
        f"the archive holds more than one checkpoint: {shown(roots[0])} and {shown(roots[1])}",
        where=Location(path=archive.file.path),
        how="Unpack it and zip each folder by itself.",
    )


def _foreign_archive(archive: ZipArchive) -> UnknownContainerError:
    names = list(archive.entries)
    what = "a ZIP archive without a data.pkl, so no torch checkpoint"
    how = "If the checkpoint is one of the files in it, unpack the archive and pass that file."
    if names and all(name.endswith(".npy") for name in names):
        what, how = "a numpy archive (.npz)", "Save the arrays as .safetensors."
    elif any(name.endswith((".weights.h5", "keras_metadata.pb")) for name in names):
        what, how = "a Keras model", "Save the weights as .safetensors."
    listed = ", ".join(shown(name) for name in names[:_SHOWN_NAMES]) or "nothing"
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return UnknownContainerError(
        f"this is {what}; it holds {listed}{more}", where=Location(path=archive.file.path), how=how
    )
