"""A pickle writer for tests: plain values and the inert nodes the reader gives, as protocol 2 with sets of protocol 4.

It writes what it is told, whatever a real pickler would refuse. `tensor` and its neighbours give the nodes torch writes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from importer.unpickling import Call, Callee, Global, PersistentId

ORDERED_DICT = Global("collections", "OrderedDict")


def dump(value: object) -> bytes:
    """Return a whole pickle of a value."""
    return b"\x80\x02" + encode(value) + b"."


def encode(value: object) -> bytes:
    """Return the opcodes that leave a value on the stack."""
    return _ENCODERS[type(value)](value)


def call(
    callee: Callee | str,
    *args: object,
    state: object = None,
    entries: Mapping[Any, object] | None = None,
    elements: Iterable[object] | None = None,
    kwargs: Mapping[Any, object] | None = None,
) -> Call:
    """Return a call; a callee given as text is split at its last dot."""
    node = Call(glob(callee) if isinstance(callee, str) else callee, args, None if kwargs is None else dict(kwargs))
    node.state = state
    node.entries = None if entries is None else dict(entries)
    node.elements = None if elements is None else list(elements)
    return node


def glob(name: str) -> Global:
    """Return a global from its dotted name."""
    module, _, attribute = name.rpartition(".")
    return Global(module, attribute)


def ordered(entries: Mapping[Any, object] | None = None, state: object = None) -> Call:
    """Return an ordered dict."""
    return call(ORDERED_DICT, entries=entries, state=state)


def storage(key: str = "0", numel: int = 6, kind: str = "FloatStorage") -> PersistentId:
    """Return the persistent id of a storage."""
    return PersistentId(("storage", Global("torch", kind), key, "cpu", numel))


def tensor(
    shape: tuple[int, ...] = (2, 3),
    *,
    stride: tuple[int, ...] | None = None,
    offset: int = 0,
    of: PersistentId | Call | None = None,
    flags: object = None,
) -> Call:
    """Return a tensor as torch has written it since 0.4, C-contiguous unless told otherwise."""
    if stride is None:
        stride = tuple(_row_major(shape))
    args = (storage() if of is None else of, offset, shape, stride, False, ordered())
    return call("torch._utils._rebuild_tensor_v2", *args, *(() if flags is None else (flags,)))


def parameter(data: Call) -> Call:
    """Return a parameter around a tensor."""
    return call("torch._utils._rebuild_parameter", data, True, ordered())


def module(
    class_name: str = "torch.nn.modules.linear.Linear",
    *,
    parameters: Mapping[str, object] | None = None,
    buffers: Mapping[str, object] | None = None,
    children: Mapping[str, object] | None = None,
    **attributes: object,
) -> Call:
    """Return a module as `torch.save(model)` pickles it."""
    parts = {"_parameters": parameters or {}, "_buffers": buffers or {}, "_modules": children or {}}
    return call(class_name, state={"training": True, **parts, **attributes})


def _integer(value: int) -> bytes:
    if 0 <= value < 1 << 8:
        return b"K" + bytes([value])
    if 0 <= value < 1 << 16:
        return b"M" + struct.pack("<H", value)
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8b" + _counted(raw)


def _counted(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _all(values: Iterable[object]) -> bytes:
    return b"".join(map(encode, values))


def _pairs(values: Mapping[Any, object]) -> bytes:
    return b"".join(encode(key) + encode(value) for key, value in values.items())


def _call(node: Call) -> bytes:
    made = encode(node.callable) + encode(node.args)
    made += b"R" if node.kwargs is None else encode(node.kwargs) + b"\x92"
    if node.elements is not None:
        made += b"(" + _all(node.elements) + b"e"
    if node.entries is not None:
        made += b"(" + _pairs(node.entries) + b"u"
    return made if node.state is None else made + encode(node.state) + b"b"


def _row_major(shape: tuple[int, ...]) -> list[int]:
    strides = [1]
    for size in reversed(shape[1:]):
        strides.insert(0, strides[0] * size)
    return strides[: len(shape)]


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda _: b"N",
    bool: lambda value: b"\x88" if value else b"\x89",
    int: _integer,
    float: lambda value: b"G" + struct.pack(">d", value),
    str: lambda value: b"X" + _counted(value.encode()),
    bytes: lambda value: b"B" + _counted(value),
    bytearray: lambda value: b"\x96" + struct.pack("<Q", len(value)) + bytes(value),
    tuple: lambda value: b"(" + _all(value) + b"t",
    list: lambda value: b"](" + _all(value) + b"e",
    dict: lambda value: b"}(" + _pairs(value) + b"u",
    set: lambda value: b"\x8f(" + _all(value) + b"\x90",
    frozenset: lambda value: b"(" + _all(value) + b"\x91",
    Global: lambda value: f"c{value.module}\n{value.name}\n".encode(),
    PersistentId: lambda value: encode(value.value) + b"Q",
    Call: _call,
}
