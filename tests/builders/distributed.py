"""Distributed checkpoints: the `.metadata` pickle of `torch.distributed.checkpoint`, and items of `torch.save`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.builders.states import (
    PERSISTENT,
    REDUCE,
    Stored,
    View,
    built,
    call,
    glob,
    group,
    listed,
    number,
    numbers,
    pickled,
    table,
    tensor,
    text,
)
from tests.builders.zips import Entry, build_zip

MODULE = "torch.distributed.checkpoint.metadata"


@dataclass(frozen=True)
class Chunk:
    """A part of a tensor: where it begins in the tensor, and the tensor that is stored for it."""

    offsets: tuple[int, ...]
    view: View


@dataclass
class Writer:
    """Collects entries; `files` and `metadata` are what lies in the folder. Fields are changed to make it wrong."""

    files: dict[str, bytes] = field(default_factory=dict)
    entries: dict[str, bytes] = field(default_factory=dict)
    items: dict[bytes, bytes] = field(default_factory=dict)

    def tensor(
        self, name: str, dtype: str, size: Sequence[int], chunks: Sequence[Chunk], file: str = "__0_0.distcp"
    ) -> None:
        """Add a tensor with its chunks."""
        parts = [
            built(
                glob(MODULE, "ChunkStorageMetadata"),
                table({"offsets": shape(chunk.offsets), "sizes": shape(chunk.view.shape)}),
            )
            for chunk in chunks
        ]
        layout = call(glob("torch.serialization", "_get_layout"), text("torch.strided"))
        memory = call(glob(MODULE, "_MEM_FORMAT_ENCODING"), number(0))
        state = group(glob("torch", dtype), layout, b"\x89", memory, b"\x89")
        properties = built(glob(MODULE, "TensorProperties"), state)
        fields = {"properties": properties, "size": shape(size), "chunks": listed(*parts)}
        self.entries[name] = built(glob(MODULE, "TensorStorageMetadata"), table(fields))
        for chunk in chunks:
            self.item(name, shape(chunk.offsets), item_of(chunk.view), file)

    def object(self, name: str, body: bytes, file: str = "__0_0.distcp", storage: bytes = b"") -> None:
        """Add an entry that is no tensor."""
        self.entries[name] = built(glob(MODULE, "BytesStorageMetadata"), b"}")
        self.item(name, b"N", archive(body, storage), file)

    def item(self, name: str, offset: bytes, data: bytes, file: str) -> None:
        """Append an item to a file, and say where it lies."""
        start = len(self.files.get(file, b""))
        self.files[file] = self.files.get(file, b"") + data
        index = built(glob(MODULE, "MetadataIndex"), table({"fqn": text(name), "offset": offset, "index": number(0)}))
        self.items[index] = storage_info(file, start, len(data))

    def metadata(self) -> bytes:
        """Return the `.metadata` pickle."""
        stored = b"}(" + b"".join(index + info for index, info in self.items.items()) + b"u"
        fields = {"state_dict_metadata": table(self.entries), "planner_data": b"N", "storage_data": stored}
        return pickled(built(glob(MODULE, "Metadata"), table(fields)))


def storage_info(file: str, offset: int, length: int, more: Mapping[str, bytes] | None = None) -> bytes:
    fields = {"relative_path": text(file), "offset": number(offset), "length": number(length), **(more or {})}
    return built(glob("torch.distributed.checkpoint.filesystem", "_StorageInfo"), table(fields))


def shape(size: Sequence[int]) -> bytes:
    """Return a `torch.Size`."""
    return glob("torch", "Size") + group(numbers(size)) + REDUCE


def archive(body: bytes, storage: bytes = b"", key: str = "0") -> bytes:
    """Return what `torch.save` writes for an object with at most one storage."""
    return build_zip([Entry("archive/data.pkl", pickled(body)), Entry(f"archive/data/{key}", storage)])


def item_of(view: View) -> bytes:
    return archive(tensor(view), view.stored.data, view.stored.key)


def storage_reference(stored: Stored) -> bytes:
    """Return a persistent id, as an object with a tensor inside has it."""
    parts = (text("storage"), glob("torch", stored.storage_class), text(stored.key), text("cpu"), number(stored.numel))
    return group(*parts) + PERSISTENT
