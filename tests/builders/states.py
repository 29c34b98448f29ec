"""State dicts as torch pickles them, put together opcode by opcode: storages as persistent ids of every form.

`Stored` is a storage with its bytes, `View` a tensor that looks into one; `pickled_state` gives the pickle of an ordered
dict of views. The layouts around it are built by the neighbours of this module.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

MARK, STOP, PERSISTENT, REDUCE = b"(", b".", b"Q", b"R"


def text(value: str) -> bytes:
    """BINUNICODE."""
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def number(value: int) -> bytes:
    """BININT where it fits, else LONG1."""
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def boolean(value: bool) -> bytes:
    return b"\x88" if value else b"\x89"


def glob(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def group(*items: bytes) -> bytes:
    """Return a tuple."""
    return MARK + b"".join(items) + b"t"


def listed(*items: bytes) -> bytes:
    return b"](" + b"".join(items) + b"e"


def table(entries: Mapping[str, bytes]) -> bytes:
    """Return a plain dict."""
    return b"}(" + b"".join(text(key) + value for key, value in entries.items()) + b"u"


def call(function: bytes, *arguments: bytes) -> bytes:
    return function + group(*arguments) + REDUCE


def built(cls: bytes, state: bytes) -> bytes:
    """Return an object as `object.__reduce_ex__(2)` pickles it: made without arguments, then given its state."""
    return cls + b")\x81" + state + b"b"


def pickled(body: bytes) -> bytes:
    """Return a whole pickle of protocol 2."""
    return b"\x80\x02" + body + STOP


@dataclass(frozen=True)
class Stored:
    """A storage: its key, its class below torch, and its bytes."""

    key: str
    storage_class: str
    itemsize: int
    data: bytes

    @property
    def numel(self) -> int:
        return len(self.data) // self.itemsize


@dataclass(frozen=True)
class View:
    """A tensor: a strided view of a storage; offset and strides in elements."""

    stored: Stored
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0


PidForm = Callable[[Stored], bytes]
"""How a storage is spelled as a persistent id, before BINPERSID."""


def zip_pid(stored: Stored) -> bytes:
    """Five parts, as ZIP layouts have them."""
    storage_class = glob("torch", stored.storage_class)
    return group(text("storage"), storage_class, text(stored.key), text("cpu"), number(stored.numel))


def legacy_pid(stored: Stored, view: bytes = b"N") -> bytes:
    """Six parts, as the legacy stream has them; `view` is None or (key, offset, elements)."""
    storage_class = glob("torch", stored.storage_class)
    return group(text("storage"), storage_class, text(stored.key), text("cpu"), number(stored.numel), view)


def numbers(values: Sequence[int]) -> bytes:
    return group(*map(number, values))


def tensor(view: View, pid: PidForm = zip_pid) -> bytes:
    """Return a call of `_rebuild_tensor_v2`."""
    hooks = call(glob("collections", "OrderedDict"))
    return call(
        glob("torch._utils", "_rebuild_tensor_v2"),
        pid(view.stored) + PERSISTENT,
        number(view.offset),
        numbers(view.shape),
        numbers(view.strides),
        boolean(False),
        hooks,
    )


def state_dict(views: Mapping[str, View], pid: PidForm = zip_pid) -> bytes:
    """Return an ordered dict of tensors, not yet a whole pickle."""
    entries = b"".join(text(name) + tensor(view, pid) for name, view in views.items())
    return call(glob("collections", "OrderedDict")) + MARK + entries + b"u"


WEIGHT = Stored("0", "FloatStorage", 4, struct.pack("<6f", *range(6)))
COUNTS = Stored("1", "LongStorage", 8, struct.pack("<3q", -1, 2, 1 << 40))
MODEL: dict[str, View] = {
    "fc.weight": View(WEIGHT, (2, 3), (3, 1)),
    "fc.transposed": View(WEIGHT, (3, 2), (1, 3)),
    "counts": View(COUNTS, (2,), (1,), 1),
}
"""A model of three tensors over two storages."""


def storages(views: Mapping[str, View]) -> list[Stored]:
    """Return the storages of a model, each once, in order."""
    return list({view.stored.key: view.stored for view in views.values()}.values())


def swapped(stored: Stored) -> bytes:
    """Return the bytes of a storage with every element in the other byte order."""
    step = stored.itemsize
    return b"".join(stored.data[at : at + step][::-1] for at in range(0, len(stored.data), step))
