"""From a path to an opened container: the layout is told from the contents, never from the extension.

Not here: the layouts themselves, and everything after (`importer.checkpoint`).
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path

from importer.containers.bare_pickle import looks_like_pickle, open_pickle
from importer.containers.base import Container, Opened, PickleContainer, TableContainer
from importer.containers.burnpack_file import MAGIC as BURNPACK_MAGIC
from importer.containers.burnpack_file import open_burnpack
from importer.containers.distributed import is_distributed, read_distributed
from importer.containers.files import is_folder, open_source, read_json_object
from importer.containers.folder import find_config, find_weights
from importer.containers.foreign import foreign
from importer.containers.legacy_stream import is_legacy, open_legacy
from importer.containers.safetensors_file import is_safetensors, open_safetensors
from importer.containers.sharded_set import is_index, open_sharded, open_slices
from importer.containers.tar_archive import is_tar, open_tar
from importer.containers.torch_zip import open_zip
from importer.containers.zip_archive import has_directory
from importer.errors import MalformedPickleError, SourceError, TruncatedError, UnsupportedError, UsageError
from importer.limits import DEFAULT_LIMITS, Limits
from importer.storages import SourceFile

__all__ = ["open_container"]

_HEAD_BYTES = 1024
_ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
_PICKLE_PROTO = b"\x80"
_SHARD_NAME = re.compile(r".*-\d+-of-(\d+)\.\w+")


def open_container(path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> Opened:
    """Open a file or folder, and look for a configuration beside the weights. No tensor byte is read.

    Raises:
        UsageError: no path, or a folder in which more than one file could be meant.
        UnknownContainerError: no checkpoint; the message says what it is.
        SourceError: damaged, incomplete, contradictory, or over a limit.
    """
    if not os.fspath(path):
        raise UsageError("the path of the source is empty", how="Pass a file or a folder.")
    path = Path(path)
    in_folder = is_folder(path)
    folder = path if in_folder else path.parent
    container = _open_folder(path, limits) if in_folder else _open_path(path, limits)
    notes = _shard_note(path)
    config_path = find_config(folder)
    if config_path is None or config_path == path:
        return Opened(container, notes=notes)
    try:
        config = read_json_object(config_path, limits)
    except SourceError as error:
        return Opened(container, notes=(*notes, f"the configuration beside the weights was not read: {error}"))
    return Opened(container, config, str(config_path), notes)


def _shard_note(path: Path) -> tuple[str, ...]:
    """Return a remark if the name is that of one shard of several: the rest is easily forgotten."""
    name = _SHARD_NAME.fullmatch(path.name)
    if name is None or int(name[1]) <= 1:
        return ()
    return (f"this file is one of {int(name[1])} shards; pass the folder or the .index.json for all of them",)


def _open_folder(folder: Path, limits: Limits) -> Container:
    paths = find_weights(folder)
    if len(paths) > 1:
        return open_slices(paths, functools.partial(_open_file, limits=limits))
    return _open_path(paths[0], limits)


def _open_path(path: Path, limits: Limits) -> Container:
    """Open a file that may be the index of a set."""
    document = _read_index(path, limits)
    if document is not None:
        return open_sharded(path, document, functools.partial(_open_file, limits=limits))
    container = _open_file(path, limits)
    if isinstance(container, PickleContainer) and is_distributed(container.tree):
        return read_distributed(path, container.tree, limits)
    return container


def _read_index(path: Path, limits: Limits) -> Mapping[str, object] | None:
    """Return the document if the file is the index of a sharded set."""
    file = open_source(path)
    head = file.read(0, min(file.size, _HEAD_BYTES))
    # One safetensors file in 256 begins with a brace: the low byte of its header's length.
    if is_safetensors(head) or head.lstrip()[:1] != b"{" or file.size > limits.max_text_record_bytes:
        return None
    document = read_json_object(path, limits)
    return document if is_index(document) else None


def _open_file(path: Path, limits: Limits) -> PickleContainer | TableContainer:
    """Open a single file."""
    file = open_source(path)
    head = file.read(0, min(file.size, _HEAD_BYTES))
    if head.startswith(_ZIP_MAGICS):
        return open_zip(file, limits)
    if head.startswith(BURNPACK_MAGIC):
        return open_burnpack(file, limits)
    if is_tar(head):
        return open_tar(file, limits)
    if is_legacy(head):
        return open_legacy(file, limits)
    if is_safetensors(head):
        return open_safetensors(file, limits)
    if looks_like_pickle(head):
        return _open_pickle(file, head, limits)
    if has_directory(file):
        # Something was put before the archive, which begins somewhere inside.
        return open_zip(file, limits)
    raise foreign(file.path, head)


def _open_pickle(file: SourceFile, head: bytes, limits: Limits) -> PickleContainer:
    try:
        return open_pickle(file, limits)
    except (MalformedPickleError, TruncatedError, UnsupportedError) as error:
        if head.startswith(_PICKLE_PROTO):
            raise
        # The letters old pickles begin with begin ordinary text as well.
        raise foreign(file.path, head) from error
