"""Files that torch, or another reader, would read in another way than a reader of ours that is less careful.

Where torch's reading is taken, the row says what is read; the rest is refused. Not here: the pieces (`attack`).
"""

from __future__ import annotations

import struct

from importer.errors import CorruptContainerError, ImporterError, TensorError
from tests.builders.states import (
    MODEL,
    PERSISTENT,
    Stored,
    View,
    boolean,
    call,
    glob,
    group,
    legacy_pid,
    listed,
    number,
    numbers,
    pickled,
    state_dict,
    table,
    tensor,
    text,
    zip_pid,
)
from tests.builders.streams import build_tar, legacy_stream, tar_header, tar_members
from tests.builders.tables import safetensors, safetensors_entry
from tests.builders.zips import Entry, build_zip, torch_entries, torch_zip
from tests.security.attack import Attack

__all__ = ["SECOND_READINGS"]

_FLOATS = Stored("0", "FloatStorage", 4, struct.pack("<4f", 1, 2, 3, 4))
_SAME_AS_INTEGERS = Stored("0", "IntStorage", 4, _FLOATS.data)
_VIEW = View(_FLOATS, (2,), (1,))
_ORDERED = glob("collections", "OrderedDict")


def _archive(*pickles: bytes, name: str = "archive/data/0") -> dict[str, bytes]:
    entries = [Entry("archive/data.pkl", pickles[0]), Entry(name, _FLOATS.data), Entry("archive/version", b"3\n")]
    return {"model.pt": build_zip([*entries, *(Entry("archive/DATA.PKL", pickle) for pickle in pickles[1:])])}


def _beside_floats(name: str, body: bytes, expected: type[ImporterError] | None, says: str) -> Attack:
    return Attack(name, _archive(pickled(body)), expected, says)


def _with_flags(flags: bytes) -> bytes:
    parts = (zip_pid(_FLOATS) + PERSISTENT, number(0), numbers((2,)), numbers((1,)), boolean(False), call(_ORDERED))
    return call(glob("torch._utils", "_rebuild_tensor_v2"), *parts, flags)


def _window(key: str, offset: int) -> bytes:
    pid = legacy_pid(_FLOATS, group(text(key), number(offset), number(2))) + PERSISTENT
    rest = (number(0), numbers((2,)), numbers((1,)), boolean(False), call(_ORDERED))
    return call(glob("torch._utils", "_rebuild_tensor_v2"), pid, *rest)


def _legacy(**tensors: bytes) -> dict[str, bytes]:
    return {"model.pt": legacy_stream({"w": _VIEW}, body=table(tensors))}


def _pax(keyword: str, value: str) -> bytes:
    line = f" {keyword}={value}\n"
    return f"{len(line) + 2}{line}".encode()


def _tar(kind: bytes, data: bytes) -> dict[str, bytes]:
    """Return a tar checkpoint with an odd member before the first one."""
    odd = tar_header("././@Odd", len(data), kind) + data + bytes(-len(data) % 512)
    return {"model.pt": odd + build_tar(tar_members())}


def _polyglot() -> bytes:
    """Return a tar checkpoint whose first header begins a safetensors file."""
    rest = build_tar(tar_members())
    head = safetensors({"real": safetensors_entry("U8", [len(rest)], 0, len(rest))})[8:].ljust(504)
    block = bytearray(struct.pack("<Q", 504) + head)
    block[148:156] = b" " * 8
    block[257:262] = b"ustar"
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block) + rest


_TWO = torch_zip() + torch_zip({"other": View(_FLOATS, (4,), (1,))})
_PAIRS = listed(group(text("w"), tensor(_VIEW)), group(text("w"), tensor(View(_FLOATS, (4,), (1,)))))

SECOND_READINGS = (
    Attack("two archives, one after the other", {"model.pt": _TWO}, CorruptContainerError, "two archives"),
    Attack("a pickle's name in other letters", _archive(pickled(state_dict({"w": _VIEW})), pickled(table({}))), CorruptContainerError, "upper and lower case"),
    Attack("a record's name in other letters alone", _archive(pickled(state_dict({"w": _VIEW})), name="archive/DATA/0"), None, "w"),
    Attack("BYTEORDER", {"model.pt": build_zip([*torch_entries(), Entry("archive/ByteOrder", b"neither")])}, CorruptContainerError, "little"),
    Attack("two checkpoints in folders of two depths", {"model.pt": build_zip([*torch_entries(root="a/b/"), *torch_entries()])}, CorruptContainerError, "more than one checkpoint"),
    _beside_floats("one storage as two types", table({"a": tensor(_VIEW), "b": tensor(View(_SAME_AS_INTEGERS, (2,), (1,)))}), CorruptContainerError, "declared twice"),
    _beside_floats("one storage as two types, one of them thrown away", zip_pid(_SAME_AS_INTEGERS) + PERSISTENT + b"0" + table({"a": tensor(_VIEW)}), CorruptContainerError, "declared twice"),
    Attack("a storage record longer than declared", _archive(pickled(table({"w": tensor(View(Stored("0", "FloatStorage", 4, bytes(8)), (4,), (1,)))}))), TensorError, "declared with 8"),
    _beside_floats("BUILD on a tensor", table({"a": tensor(_VIEW) + group(zip_pid(_FLOATS) + PERSISTENT, number(2), numbers((2,)), numbers((1,))) + b"b"}), TensorError, "state after it was made"),
    _beside_floats("BUILD on a parameter", table({"a": call(glob("torch._utils", "_rebuild_parameter"), tensor(_VIEW), boolean(True), call(_ORDERED)) + group(tensor(_VIEW), boolean(True), b"N", b"N", b"N") + b"b"}), TensorError, "state, after it was made"),
    _beside_floats("the negative bit, said to be unset", table({"a": _with_flags(table({"neg": boolean(False)}))}), TensorError, "lazy bits"),
    _beside_floats("the negative bit, set after the tensor was made", b"}q\x01" + text("w") + _with_flags(b"}q\x02") + b"sh\x02" + text("neg") + boolean(True) + b"s0", None, "w"),
    Attack("one view key for two views", _legacy(a=_window("view", 0), b=_window("view", 2)), CorruptContainerError, "two views"),
    Attack("a view with the key of a storage", _legacy(a=tensor(_VIEW, legacy_pid), b=_window("0", 2)), CorruptContainerError, "a view of one"),
    _beside_floats("a mapping of pairs with one key twice", call(_ORDERED, _PAIRS), None, "F32 4"),
    _beside_floats("a mapping of a list that grows afterwards", b"}" + text("m") + _ORDERED + b"]q\x01" + group(text("w"), tensor(_VIEW)) + b"a\x85R" + b"sh\x01" + group(text("late"), tensor(_VIEW)) + b"a0", None, "1 tensor"),
    Attack("tar: a GNU long name", _tar(b"L", b"./storages\0"), CorruptContainerError, "readers of tar"),
    Attack("tar: a symbolic link", _tar(b"2", b""), CorruptContainerError, "readers of tar"),
    Attack("tar: a folder with data", _tar(b"5", b"x" * 512), CorruptContainerError, "readers of tar"),
    Attack("tar: a pax header with a size", _tar(b"x", _pax("size", "1024")), CorruptContainerError, "'size'"),
    Attack("tar: a pax header with a path", _tar(b"x", _pax("path", "storages")), CorruptContainerError, "'path'"),
    Attack("tar: a pax header with fractions of seconds", _tar(b"x", _pax("mtime", "1.25")), None, "transposed"),
    Attack("a tar archive that is a safetensors file", {"model.pt": _polyglot()}, CorruptContainerError, "at once"),
    Attack("a pickle that ends as an archive", {"model.pt": pickled(table({"a": number(1)})) + torch_zip()}, CorruptContainerError, "at once"),
    Attack("a legacy stream that ends as an archive", {"model.pt": legacy_stream(MODEL) + torch_zip()}, CorruptContainerError, "at once"),
)  # fmt: skip
"""All of them."""
