"""Every known way to attack a reader of checkpoints, one row each, spelled out byte by byte.

`docs/security.md` says which defence each meets. Rows named after an advisory show its idea, not its exploit; what would be
run is the creation of a marker file, and at worst that is what a reader without these defences does. Not here: what the
reader has to do with them (`test_attacks`).
"""

from __future__ import annotations

import json
import struct

from importer.errors import (
    CorruptContainerError,
    DangerousPickleError,
    ImporterError,
    LimitError,
    MalformedPickleError,
    MissingFileError,
    RecipeError,
    TensorError,
    TruncatedError,
    UnknownContainerError,
    UnsupportedError,
)
from tests.builders.states import (
    MODEL,
    PERSISTENT,
    Stored,
    View,
    boolean,
    call,
    glob,
    group,
    number,
    pickled,
    state_dict,
    table,
    tensor,
    text,
    zip_pid,
)
from tests.builders.streams import build_tar, legacy_stream, tar_members
from tests.builders.tables import burnpack, burnpack_entry, cbor_head, safetensors, safetensors_entry
from tests.builders.zips import DEFLATED, Entry, build_zip, torch_entries, torch_zip
from tests.security.attack import MARKER, RUN, SYSTEM, Attack, blob, in_pickle, zipped
from tests.security.out_of_proportion import OUT_OF_PROPORTION
from tests.security.second_readings import SECOND_READINGS

__all__ = ["ATTACKS", "MARKER", "Attack"]

_CODE = (
    in_pickle("GLOBAL and REDUCE", SYSTEM + group(RUN) + b"R"),
    in_pickle("STACK_GLOBAL and REDUCE", text("os") + text("system") + b"\x93" + group(RUN) + b"R"),
    in_pickle("STACK_GLOBAL with names out of the memo", text("system") + b"q\x01" + text("os") + b"h\x01\x93" + group(RUN) + b"R"),
    in_pickle("INST", b"(" + RUN + b"ios\nsystem\n"),
    in_pickle("OBJ", b"(" + SYSTEM + RUN + b"o"),
    in_pickle("NEWOBJ", glob("subprocess", "Popen") + group(RUN) + b"\x81", says="subprocess.Popen"),
    in_pickle("NEWOBJ_EX", glob("subprocess", "Popen") + b")" + table({"args": RUN}) + b"\x92", says="subprocess.Popen"),
    in_pickle("BUILD calls __setstate__", glob("code", "InteractiveInterpreter") + b")\x81" + table({"a": RUN}) + b"b", says="code."),
    in_pickle("copyreg.__newobj__", call(glob("copyreg", "__newobj__"), SYSTEM, RUN) + group(RUN) + b"R", says="result of another call"),
    in_pickle("a call of a call", call(glob("functools", "partial"), SYSTEM, RUN) + b")R"),
    in_pickle("getattr walks to a function", call(glob("builtins", "getattr"), glob("torch", "hub"), text("os.system")) + group(RUN) + b"R"),
    in_pickle("GLOBAL with a dotted name", glob("torch", "hub.os.system") + group(RUN) + b"R", says="hub.os.system"),
    in_pickle("eval in Python 2's spelling", glob("__builtin__", "eval") + group(RUN) + b"R", says="__builtin__.eval"),
    in_pickle("the call is thrown away", SYSTEM + group(RUN) + b"R0" + state_dict(MODEL)),
    in_pickle("the call is a dictionary key", b"}" + SYSTEM + group(RUN) + b"RNs"),
    in_pickle("the call is within a persistent id", group(text("storage"), SYSTEM + group(RUN) + b"R", text("0"), text("cpu"), number(1)) + b"Q"),
    in_pickle("hooks of a parameter", call(glob("torch._utils", "_rebuild_parameter"), tensor(MODEL["counts"]), boolean(False), SYSTEM + group(RUN) + b"R")),
    in_pickle("CVE-2026-56304: a log file is created", call(glob("logging", "FileHandler"), text(MARKER)), says="logging.FileHandler"),
    in_pickle("CVE-2025-10157: a submodule of asyncio", glob("asyncio.unix_events", "_UnixSubprocessTransport._start") + group(RUN) + b"R", says="asyncio"),
    in_pickle("runpy", call(glob("runpy", "run_path"), text("/tmp/x.py")), says="runpy"),
    in_pickle("CVE-2025-1716: pip.main", call(glob("pip", "main"), text("install")), None, "pip.main"),
    in_pickle("CVE-2022-45907: torch evaluates a type line", call(glob("torch.jit.annotations", "parse_type_line"), RUN), None, "parse_type_line"),
    in_pickle("a pickle in bytes that torch would load", call(glob("torch.storage", "_load_from_bytes"), blob(pickled(SYSTEM + group(RUN) + b"R"))), DangerousPickleError, "os.system"),
    in_pickle("a damaged pickle in bytes that torch would load", call(glob("torch.storage", "_load_from_bytes"), blob(b"\x80\x02" + SYSTEM + group(RUN) + b"R\xff\xff")), MalformedPickleError, "no such opcode"),
    in_pickle("an archive in bytes that torch would load", call(glob("torch.storage", "_load_from_bytes"), blob(torch_zip())), MalformedPickleError, ""),
    in_pickle("torch.load within", call(glob("torch.serialization", "load"), text("other.pt")), None, "torch.serialization.load"),
    Attack("CVE-2025-32434: code in the tar layout", {"model.pt": build_tar({**tar_members(), "./pickle": pickled(SYSTEM + group(RUN) + b"R")})}, DangerousPickleError, "os.system"),
    Attack("code in the legacy stream", {"model.pt": legacy_stream({}, body=SYSTEM + group(RUN) + b"R")}, DangerousPickleError, "os.system"),
    Attack("code before the damage (nullifAI)", zipped(b"\x80\x02" + SYSTEM + group(RUN) + b"R\xff\xff"), MalformedPickleError, "no such opcode"),
    Attack("CVE-2025-1889: another extension", {"weights.txt": zipped(pickled(SYSTEM + group(RUN) + b"R"))["model.pt"]}, DangerousPickleError, "os.system", "weights.txt"),
    Attack("a bare pickle", {"model.pt": pickled(SYSTEM + group(RUN) + b"R")}, DangerousPickleError, "os.system"),
    Attack("a second pickle behind the first", {"model.pt": pickled(table({"a": number(1)})) + pickled(SYSTEM + group(RUN) + b"R")}, None, "after the pickle"),
    Attack("code in the constants of TorchScript", {"model.pt": build_zip([Entry("m/data.pkl", pickled(table({}))), Entry("m/constants.pkl", pickled(SYSTEM + group(RUN) + b"R")), Entry("m/version", b"3")])}, None, ""),
    in_pickle("EXT1 names a function of the registry", b"\x82\x01" + group(RUN) + b"R", UnsupportedError, "extension code 1"),
    in_pickle("NEXT_BUFFER", b"\x97", UnsupportedError, "buffer outside"),
)  # fmt: skip


def _doubled(times: int, make: bytes = b"h\x00h\x00\x86") -> bytes:
    """Return a value made of itself twice, again and again, through the memo."""
    return b"]q\x00" + (make + b"q\x00") * times


_STRIDE_0 = View(Stored("0", "FloatStorage", 4, bytes(4)), (1 << 23, 1 << 23), (0, 0))
_COLLIDING = b"}(" + b"".join(group(number(i * ((1 << 61) - 1))) + b"N" for i in range(25_000)) + b"u"
_PLAIN_STORAGE = MODEL["counts"].stored
_ODD_PID = group(text("storage"), glob("torch", "FloatStorage"), text("../../etc/passwd"), text("cpu"), number(1))

_SIZE = (
    in_pickle("memo doubling: tuples", _doubled(60), LimitError, "max_cost_per_byte"),
    in_pickle("memo doubling: lists", _doubled(60, b"](h\x00h\x00e"), LimitError, "max_cost_per_byte"),
    in_pickle("memo doubling: a tuple as key", b"}" + _doubled(60) + b"Ns", MalformedPickleError, "cannot be a key"),
    in_pickle("memo doubling: a size in a message", call(glob("torch._utils", "_rebuild_meta_tensor_no_storage"), glob("torch", "float32"), _doubled(60)), None, "meta"),
    in_pickle("30,000 tuples deep", b")" + b"\x85" * 30_000, LimitError, "max_nesting"),
    in_pickle("30,000 marks", b"(" * 30_000 + b"t" * 30_000, LimitError, "max_nesting"),
    in_pickle("30,000 frozensets deep, as a key", b"}" + b"(\x91" + b"" .join([b"q\x01(h\x01\x91"] * 30_000) + b"Ns", MalformedPickleError, "cannot be a key"),
    in_pickle("30,000 deep as the size of a tensor", call(glob("torch._utils", "_rebuild_meta_tensor_no_storage"), glob("torch", "float32"), b")" + b"\x85" * 30_000), None, "meta"),
    in_pickle("a list that contains itself", b"]q\x01h\x01a", None, ""),
    in_pickle("an object that is its own state", glob("m", "C") + b")\x81q\x01h\x01b", None, "m.C"),
    in_pickle("a length of 2**63 - 1", b"\x8e" + struct.pack("<Q", (1 << 63) - 1), TruncatedError, "cut off"),
    in_pickle("a length of 2**64 - 1", b"\x96" + struct.pack("<Q", (1 << 64) - 1), TruncatedError, "cut off"),
    in_pickle("a negative length", b"\x8b" + struct.pack("<i", -1), TruncatedError, "cut off"),
    in_pickle("CVE-2020-10735: a number of 100,000 digits", b"L" + b"9" * 100_000 + b"L\n", LimitError, "max_integer_bytes"),
    in_pickle("a memo index of 2**32 - 1", b"Nr\xff\xff\xff\xff", None, ""),
    in_pickle("CVE-2012-1150: keys that collide", _COLLIDING, None, "and 24980 more"),
    in_pickle("CVE-2012-1150: integers beyond 64 bits, which collide", b"}" + number((1 << 61) - 1 << 3) + b"Ns", None, "18446744073709551608"),
    Attack("a tensor of 2**46 elements over one", {"model.pt": torch_zip({"w": _STRIDE_0})}, LimitError, "max_tensor_bytes"),
    Attack("a thousand tensors of 2**23 elements over one", {"model.pt": torch_zip({f"w{n}": View(_STRIDE_0.stored, (1 << 23,), (0,)) for n in range(1000)})}, LimitError, "max_expansion"),
    Attack("a name of 100,000 characters", {"model.pt": torch_zip({"n" * 100_000: MODEL["counts"]})}, LimitError, "max_name_length"),
    in_pickle("CVE-2026-24747: entries set on a tensor", tensor(MODEL["counts"]) + text("a") + b"Ns", MalformedPickleError, "cannot be filled"),
    in_pickle("entries set on a storage", zip_pid(_PLAIN_STORAGE) + PERSISTENT + text("a") + b"Ns", MalformedPickleError, "cannot be filled"),
    in_pickle("elements appended to a number", b"K\x01Na", MalformedPickleError, "cannot be filled"),
    Attack("a view outside of its storage", {"model.pt": torch_zip({"w": View(_PLAIN_STORAGE, (1 << 35,), (1,))})}, TensorError, "its storage has 24"),
    Attack("a negative stride", {"model.pt": torch_zip({"w": View(_PLAIN_STORAGE, (2,), (-1,))})}, TensorError, "describes no tensor"),
    Attack("a negative offset", {"model.pt": torch_zip({"w": View(_PLAIN_STORAGE, (2,), (1,), -1)})}, TensorError, "-1"),
    in_pickle("a storage key that is a path", b"}" + text("w") + call(glob("torch._utils", "_rebuild_tensor"), _ODD_PID + b"Q", number(0), group(number(1)), group(number(1))) + b"s", MissingFileError, "etc/passwd"),
    in_pickle("a persistent id that is no storage", b"}" + text("w") + text("file:///etc/passwd") + b"Qs", MalformedPickleError, "persistent id"),
)  # fmt: skip


def _with_shard(name: str) -> dict[str, bytes]:
    return {"model.safetensors.index.json": json.dumps({"weight_map": {"w": name}}).encode()}


_OVERLAPPING = [
    Entry("a/data.pkl", pickled(b"}")),
    Entry("a/data/0", b"x" * 64),
    Entry("a/data/1", b"y" * 64, header_at=40),
]
_ONE = safetensors_entry("F32", [1], 0, 4)
_PLAIN_PICKLE = pickled(state_dict(MODEL))

_ARCHIVES = (
    Attack("a deflate bomb", {"model.pt": build_zip([torch_entries()[0], Entry("archive/data/0", bytes(1 << 20), DEFLATED, size=1 << 30), *torch_entries()[2:]])}, LimitError, "max_inflation"),
    Attack("an entry that inflates beyond its size", {"model.pt": build_zip([Entry("a/data.pkl", bytes(1 << 20), DEFLATED, size=100), Entry("a/version", b"3")])}, CorruptContainerError, "inflates to more"),
    Attack("CVE-2019-9674: overlapping entries", {"model.pt": build_zip(_OVERLAPPING)}, CorruptContainerError, "overlaps"),
    Attack("an entry twice", {"model.pt": build_zip([*torch_entries(), Entry("archive/data.pkl", pickled(SYSTEM + group(RUN) + b"R"))])}, CorruptContainerError, "twice"),
    Attack("CVE-2025-1944: another name in the local header", {"model.pt": build_zip([Entry("archive/data.pkl", _PLAIN_PICKLE, local_name="archive/evil.pkl"), *torch_entries()[1:]])}, CorruptContainerError, "evil.pkl"),
    Attack("CVE-2025-1945: the encrypted flag", {"model.pt": build_zip([Entry("archive/data.pkl", _PLAIN_PICKLE, flags=1), *torch_entries()[1:]])}, CorruptContainerError, "encrypted"),
    Attack("the encrypted flag in the local header only", {"model.pt": build_zip([Entry("archive/data.pkl", _PLAIN_PICKLE, local_flags=1), *torch_entries()[1:]])}, CorruptContainerError, "flags"),
    Attack("CVE-2025-10156: a wrong checksum", {"model.pt": build_zip([Entry("archive/data.pkl", pickled(SYSTEM + group(RUN) + b"R"), crc=1)])}, CorruptContainerError, "checksum"),
    Attack("four billion entries", {"model.pt": build_zip(torch_entries(), wide_end=True).replace(struct.pack("<2Q", 4, 4), struct.pack("<2Q", 1 << 32, 1 << 32))}, LimitError, ""),
    Attack("an archive in the comment of another", {"model.pt": build_zip([Entry("a.txt", b"")], comment=torch_zip())}, CorruptContainerError, "two archives"),
    Attack("CVE-2007-4559: a tar member outside", {"model.pt": build_tar({**tar_members(), "../evil": b"x"})}, None, "transposed"),
    Attack("safetensors: a key twice", {"model.pt": safetensors(f'{{"a":{json.dumps(_ONE)},"a":{json.dumps(_ONE)}}}'.encode(), bytes(4))}, CorruptContainerError, "twice"),
    Attack("safetensors: two tensors over the same bytes", {"model.pt": safetensors({"a": _ONE, "b": _ONE}, bytes(4))}, CorruptContainerError, ""),
    Attack("safetensors: a header of 2**63 bytes", {"model.pt": safetensors({"a": _ONE}, bytes(4), length=1 << 63)}, UnknownContainerError, ""),
    Attack("safetensors: 100,000 brackets", {"model.pt": safetensors(b'{"a":' + b"[" * 100_000, bytes(4))}, CorruptContainerError, "damaged"),
    Attack("safetensors: a shape that overflows", {"model.pt": safetensors({"a": safetensors_entry("F32", [1 << 62, 4], 0, 0)})}, CorruptContainerError, ""),
    Attack("burnpack: nesting in CBOR", {"model.pt": burnpack(b"\x81" * 30_000)}, CorruptContainerError, "depth"),
    Attack("burnpack: a text of 2**64 - 1 bytes", {"model.pt": burnpack(cbor_head(3, (1 << 64) - 1))}, CorruptContainerError, "early"),
    Attack("burnpack: two tensors over the same bytes", {"model.pt": burnpack({"tensors": {"a": burnpack_entry("F32", [1], 0, 4), "b": burnpack_entry("F32", [1], 0, 4)}}, bytes(4))}, CorruptContainerError, "overlap"),
    Attack("a shard in the folder above", _with_shard("../model.safetensors"), CorruptContainerError, "leaves the folder", "model.safetensors.index.json"),
    Attack("a shard by absolute path", _with_shard("/etc/passwd"), CorruptContainerError, "leaves the folder", "model.safetensors.index.json"),
    Attack("a shard by drive letter", _with_shard("C:/x"), CorruptContainerError, "leaves the folder", "model.safetensors.index.json"),
    Attack("a shard that is the index", _with_shard("model.safetensors.index.json"), UnknownContainerError, "", "model.safetensors.index.json"),
    Attack("a web page", {"model.pt": b"<html><script>"}, UnknownContainerError, "HTML"),
    Attack("terminal escapes in names", zipped(pickled(b"}(" + text("\x1b]0;owned\x07\x1b[2J") + text("\x9b31m\u202e") + b"u")), None, r"\x1b"),
)  # fmt: skip


def _recipe(name: str, body: str, expected: type[ImporterError], says: str) -> Attack:
    return Attack(name, {"r.yaml": body.encode()}, expected, says, "r.yaml", is_recipe=True)


_HEAD = "recipe: 1\nname: r\nabout: test\n"
_LAUGHS = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12))
_GROWING = "".join(f"  - ['(.*)', '{'$1' * 40}']\n" for _ in range(9))

_RECIPES = (
    _recipe("CVE-2017-18342: an object tag", f"recipe: 1\nabout: !!python/object/apply:os.system ['touch {MARKER}']\n", RecipeError, "tag"),
    _recipe("CVE-2003-1564: a billion laughs", f"{_HEAD}a0: &a0 [lol]\n{_LAUGHS}", RecipeError, "alias"),
    _recipe("brackets 30,000 deep", "about: " + "[" * 30_000, RecipeError, ""),
    _recipe("an expression that calls", f"{_HEAD}config:\n  x: \"__import__('os').system('touch {MARKER}')\"\n", RecipeError, ""),
    _recipe("a number that is endless", f"{_HEAD}target:\n  a: Linear(9 ** 9 ** 9 ** 9, 1)\n", RecipeError, ""),
    _recipe("a repetition that is endless", f"{_HEAD}target:\n  'a.{{[1] * 999999999999}}': Linear(1, 1)\n", RecipeError, ""),
    _recipe("a parent outside of the recipes", _HEAD + "extends: ../../../etc/passwd\n", RecipeError, "no name of a recipe"),
    _recipe("a parent that never ends", _HEAD + "extends: /dev/zero\n", RecipeError, "no name of a recipe"),
    _recipe("a parent that is itself", _HEAD + "extends: ./r.yaml\n", RecipeError, "circle"),
    _recipe("a pattern that takes for ever", f"{_HEAD}rename:\n  - ['^(a|aa)+$', 'x']\n", LimitError, "regex_timeout_seconds"),
    _recipe("a replacement that grows without end", f"{_HEAD}rename:\n{_GROWING}", LimitError, "max_name_length"),
)  # fmt: skip

ATTACKS: tuple[Attack, ...] = (*_CODE, *_SIZE, *OUT_OF_PROPORTION, *_ARCHIVES, *SECOND_READINGS, *_RECIPES)
"""All of them."""
