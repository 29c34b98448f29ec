"""A few bytes that ask for much memory or time: each takes another way past bounds on single things.

The process that meets them has limits of memory and processor time. Not here: the pieces (`attack`).
"""

from __future__ import annotations

import json
import struct

from importer.errors import CorruptContainerError, LimitError, TensorError
from tests.builders.states import (
    MODEL,
    PERSISTENT,
    Stored,
    View,
    call,
    glob,
    group,
    number,
    numbers,
    pickled,
    table,
    tensor,
    text,
    zip_pid,
)
from tests.builders.tables import burnpack, burnpack_entry, safetensors, safetensors_entry
from tests.builders.zips import DEFLATED, Entry, build_zip, torch_entries
from tests.security.attack import Attack, blob, in_pickle

__all__ = ["OUT_OF_PROPORTION"]

_LONG = text("n" * 4_000)
_USES = 30_000
_ARRAY = (
    call(glob("numpy.core.multiarray", "_reconstruct"), glob("numpy", "ndarray"), group(number(0)), blob(b"b"))
    + group(number(1), group(number(1 << 20)), call(glob("numpy", "dtype"), text("u1")), b"\x89")[:-1]
    + call(glob("_codecs", "encode"), text("x" * (1 << 20)), text("latin1")) + b"tb"
)  # fmt: skip
_MODULE = (
    glob("m", "Net")
    + b")\x81"
    + table({"_parameters": b"}", "_modules": b"}", **{f"a{n}": number(n) for n in range(3_000)}})
    + b"b"
)
_OBJECT = call(glob("m", "F"), *map(number, range(3_000)))


def _deflated(body: bytes) -> dict[str, bytes]:
    return {
        "model.pt": build_zip([Entry("archive/data.pkl", pickled(body), DEFLATED), Entry("archive/version", b"3\n")])
    }


def _used(value: bytes, times: int = _USES, *, key: bytes = b"") -> bytes:
    """Return a list that holds one value many times, each time below `key` if there is one."""
    use = b"}h\x02h\x01s" if key else b"h\x01"
    return value + b"q\x01" + (key + b"q\x020" if key else b"") + b"0](" + use * times + b"e"


def _index(names: dict[str, str]) -> dict[str, bytes]:
    return {"model.safetensors.index.json": json.dumps({"weight_map": names}).encode()}


_WIDE = View(Stored("0", "FloatStorage", 4, bytes(4)), (1 << 21,), (0,))
_INFLATED = [Entry(f"archive/data/{n}", bytes(1 << 23), DEFLATED) for n in range(24)]
_BYTES = {f"w{n}": View(Stored(str(n), "ByteStorage", 1, bytes(1 << 23)), (1,), (1,)) for n in range(24)}

OUT_OF_PROPORTION = (
    Attack("millions of empty sets", _deflated(b"](" + b"\x8f" * (8 << 20) + b"e"), LimitError, "max_cost_per_byte"),
    Attack("millions of marks", _deflated(b"(" * (8 << 20)), LimitError, "max_cost_per_byte"),
    Attack("millions of tuples within one another", _deflated(b")" + b"\x85" * (8 << 20)), LimitError, "max_cost_per_byte"),
    in_pickle("a container below a long key, many times", _used(b"]Na", key=_LONG), LimitError, "max_cost_per_byte"),
    in_pickle("a key of a million characters, many times", _used(b"]", key=text("n" * (1 << 20))), LimitError, "max_name_length"),
    in_pickle("a value below an endless key, many times", _used(b"N", key=text("n" * (1 << 20))), None, "0 tensors"),
    in_pickle("a tuple of one long text as key", text("x" * (1 << 20)) + b"q\x010}(" + b"h\x01" * 60 + b"tNs", LimitError, "max_name_length"),
    in_pickle("an array spelled as text, many times", _used(_ARRAY), LimitError, "max_expansion"),
    in_pickle("a module with thousands of attributes, many times", _used(_MODULE), None, "m.Net"),
    in_pickle("an object with thousands of arguments, many times", _used(_OBJECT), LimitError, "max_cost_per_byte"),
    Attack("one tensor of 8 MB under thousands of names", {"model.pt": build_zip([Entry("archive/data.pkl", pickled(_used(tensor(_WIDE)))), Entry("archive/data/0", bytes(4)), Entry("archive/version", b"3")])}, LimitError, "max_expansion"),
    Attack("storages that inflate, a little each", {"model.pt": build_zip([Entry("archive/data.pkl", pickled(table({name: tensor(view) for name, view in _BYTES.items()}))), *_INFLATED, Entry("archive/version", b"3\n")])}, LimitError, "max_inflation"),
    Attack("safetensors: a shape of 100,000 numbers", {"model.pt": safetensors({"a": safetensors_entry("F32", [9] * 100_000, 0, 4)}, bytes(4))}, CorruptContainerError, "damaged"),
    Attack("safetensors: a size of 4,299 digits", {"model.pt": safetensors(json.dumps({"a": safetensors_entry("F32", [7], 0, 4)}).replace("7", "7" * 4_299).encode(), bytes(4))}, CorruptContainerError, "4299 digits"),
    Attack("safetensors: a name of 100,000 parts", {"model.pt": safetensors({"a." * 100_000: safetensors_entry("F32", [1], 0, 4)}, bytes(4))}, LimitError, "max_name_length"),
    Attack("burnpack: a shape of 100,000 numbers", {"model.pt": burnpack({"tensors": {"a": burnpack_entry("F32", [9] * 100_000, 0, 4)}}, bytes(4))}, CorruptContainerError, "damaged"),
    Attack("a size of thousands of digits", {"model.pt": build_zip([Entry("archive/data.pkl", pickled(table({"w": call(glob("torch._utils", "_rebuild_tensor_v2"), zip_pid(MODEL["counts"].stored) + PERSISTENT, number(0), group(b"\x8b" + struct.pack("<i", 1_000) + b"\x7f" * 1_000), numbers((1,)))}))), Entry("archive/data/1", MODEL["counts"].stored.data), Entry("archive/version", b"3")])}, TensorError, "bits"),
    Attack("config.json nested 20,000 deep", {"model.pt": build_zip(torch_entries()), "config.json": b'{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}"}, None, "was not read"),
    Attack("a shard with a name of 5,000 characters", _index({"w": "x" * 5_000}), CorruptContainerError, "no file can be called", "model.safetensors.index.json"),
    Attack("a shard with half of a character in its name", _index({"w": "\ud800.safetensors"}), CorruptContainerError, "no file can be called", "model.safetensors.index.json"),
)  # fmt: skip
"""All of them."""
