"""State dicts as `torch.save` pickles them: everything goes into the memo in turn, and what comes again is fetched from it.

Not here: storages and the archive around the pickle (`inputs`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.builders.states import Stored, View, glob, number, text

__all__ = ["Tree", "pickled"]

Tree = Mapping[str, "View | Tree"]
"""A state dict, or plain dictionaries of these."""

_SHORT_TUPLES = {0: b")", 1: b"\x85", 2: b"\x86", 3: b"\x87"}
_ONE_BYTE, _TWO_BYTES = 1 << 8, 1 << 16


@dataclass
class _Stream:
    """Opcodes so far, and where in the memo the values are that may come again."""

    parts: list[bytes] = field(default_factory=lambda: [b"\x80\x02"])
    known: dict[bytes, int] = field(default_factory=dict)
    count: int = 0

    def put(self, opcodes: bytes) -> None:
        """Add a value and store it in the memo."""
        index = b"q" + bytes([self.count]) if self.count < _ONE_BYTE else b"r" + struct.pack("<I", self.count)
        self.parts.append(opcodes + index)
        self.count += 1

    def put_once(self, opcodes: bytes) -> None:
        """Add a value, or fetch it from the memo if it has come before."""
        index = self.known.get(opcodes)
        if index is None:
            self.known[opcodes] = self.count
            self.put(opcodes)
        else:
            self.parts.append(b"h" + bytes([index]) if index < _ONE_BYTE else b"j" + struct.pack("<I", index))

    def put_tuple(self, numbers: Sequence[int]) -> None:
        """Add a tuple of whole numbers."""
        body = b"".join(map(_number, numbers))
        short = _SHORT_TUPLES.get(len(numbers))
        self.put(b"(" + body + b"t" if short is None else body + short)


def _number(value: int) -> bytes:
    if value < _ONE_BYTE:
        return b"K" + bytes([value])
    return b"M" + struct.pack("<H", value) if value < _TWO_BYTES else number(value)


def pickled(tree: Tree) -> bytes:
    """Return the pickle of a state dict, or of dictionaries that hold some."""
    stream = _Stream()
    _put_dictionary(stream, tree)
    return b"".join([*stream.parts, b"."])


def _put_dictionary(stream: _Stream, tree: Tree) -> None:
    if all(isinstance(value, View) for value in tree.values()):
        stream.put_once(glob("collections", "OrderedDict"))
        stream.put(b")R")
    else:
        stream.put(b"}")
    stream.parts.append(b"(")
    for name, value in tree.items():
        stream.put(text(name))
        if isinstance(value, View):
            _put_tensor(stream, value)
        else:
            _put_dictionary(stream, value)
    stream.parts.append(b"u")


def _put_tensor(stream: _Stream, view: View) -> None:
    stream.put_once(glob("torch._utils", "_rebuild_tensor_v2"))
    stream.parts.append(b"(")
    _put_storage(stream, view.stored)
    stream.parts.append(_number(view.offset))
    stream.put_tuple(view.shape)
    stream.put_tuple(view.strides)
    stream.parts.append(b"\x89")
    stream.put_once(glob("collections", "OrderedDict"))
    stream.put(b")R")
    stream.put(b"t")
    stream.put(b"R")


def _put_storage(stream: _Stream, stored: Stored) -> None:
    stream.parts.append(b"(")
    stream.put_once(text("storage"))
    stream.put_once(glob("torch", stored.storage_class))
    stream.put(text(stored.key))
    stream.put_once(text("cpu"))
    stream.put(_number(stored.numel) + b"t")
    stream.parts.append(b"Q")
