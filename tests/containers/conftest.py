"""What the tests of this folder share: files made of bytes, and whole storages read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from importer.containers import Opened, PickleContainer, StorageRecord, TableContainer, open_container
from importer.storages import Storage

Save = Callable[..., Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Write bytes to a file and return its path."""

    def write(data: bytes, name: str = "model.pt") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    return write


def content(storage: Storage) -> bytes:
    """Return all bytes of a storage."""
    buffer = bytearray(storage.nbytes)
    storage.read_into(0, memoryview(buffer))
    return bytes(buffer)


def pickle_container(opened: Opened) -> PickleContainer:
    assert isinstance(opened.container, PickleContainer)
    return opened.container


def table_container(opened: Opened) -> TableContainer:
    assert isinstance(opened.container, TableContainer)
    return opened.container


def records(path: Path) -> dict[str, StorageRecord]:
    """Return the storages a file's persistent ids name, by key."""
    container = pickle_container(open_container(path))
    found = [container.resolve(pid) for pid in container.tree.persistent_ids]
    return {record.key: record for record in found if isinstance(record, StorageRecord)}
