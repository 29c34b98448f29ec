"""Samples made up from scratch, one kind for each way in that mutating good files seldom finds: what a review found by hand.

Bounds of sparse tensors, parts used again and again, views and types of storages, members of tar archives, names and shapes
in indices and distributed checkpoints, numbers and nesting in config.json, formulas, names that `suggest` and `template` put
into YAML. Everything is drawn from the `random.Random` that is handed in. Not here: changes to samples (`mutations`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from random import Random
from typing import Any

from tests.builders.distributed import item_of, shape, storage_info
from tests.builders.states import (
    PERSISTENT,
    Stored,
    View,
    boolean,
    built,
    call,
    glob,
    group,
    legacy_pid,
    listed,
    number,
    numbers,
    pickled,
    table,
    tensor,
    text,
    zip_pid,
)
from tests.builders.streams import build_tar, legacy_stream, tar_header, tar_members
from tests.builders.tables import burnpack, burnpack_entry, safetensors, safetensors_entry
from tests.builders.zips import DEFLATED, STORED, Entry, build_zip
from tests.fuzz.corpus import Sample

__all__ = ["crafted"]

_NUMBERS = (
    *(
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
        -1,
        -2,
        16,
        255,
        256,
        1000,
        65_535,
        65_536,
        (1 << 31) - 1,
        1 << 31,
        1 << 32,
        (1 << 53) + 1,
    ),
    *((1 << 61) - 1, 1 << 62, (1 << 63) - 1, -(1 << 63), (1 << 63), 1 << 64, 1 << 300, 1 << 2000, -(1 << 70)),
)
_LITTLE = (0, 1, 2, 3, 4, 5, 6)
_NAMES = (
    *(
        "w",
        "a.b",
        "",
        ".",
        "..",
        "a..b",
        "0",
        "1.2.3",
        "a.\x1b]0;x\x07",
        "b\nextends: x",
        "\u202eb",
        "# x",
        "a: b",
        "'q'",
        '"q"',
    ),
    *(
        "{i}",
        "$1",
        "a" * 300,
        "a." * 60 + "w",
        "x" * 5_000,
        "\ud800",
        "\x00",
        "é中",
        "../up",
        "/abs",
        "C:",
        "yes",
        "weight",
        "<b>`|",
    ),
    *("layers.0.weight", "layers.1.weight", "layers.10.bias", "norm.gamma", "fc.weight", "fc.bias"),
)
_FLOATS = Stored("0", "FloatStorage", 4, struct.pack("<8f", *range(8)))
_LONGS = Stored("1", "LongStorage", 8, bytes(64))


def crafted(random: Random) -> Sample:
    """Return a sample of a kind drawn by chance."""
    return random.choice(_KINDS)(random)


def _integer(random: Random) -> int:
    return random.choice(_NUMBERS if random.random() < 0.4 else _LITTLE)


def _long(value: int) -> bytes:
    """BININT, LONG1 or LONG4, whatever holds the value."""
    if -(1 << 31) <= value < 1 << 31:
        return number(value)
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw if len(raw) < 256 else b"\x8b" + struct.pack("<i", len(raw)) + raw


def _longs(random: Random, most: int = 4) -> bytes:
    return group(*(_long(_integer(random)) for _ in range(random.randrange(most + 1))))


def _zip(random: Random, body: bytes, *stored: Stored) -> dict[str, bytes]:
    method = random.choice((STORED, DEFLATED))
    records = [Entry(f"m/data/{one.key}", one.data, method) for one in stored]
    order = [Entry("m/byteorder", random.choice((b"little", b"big", b"x")))] if random.random() < 0.2 else []
    return {
        "model.pt": build_zip([Entry("m/data.pkl", pickled(body), method), *records, Entry("m/version", b"3"), *order])
    }


def _sparse(random: Random) -> Sample:
    """Sparse tensors with odd bounds, places and sizes."""

    def part(kind: str, values: list[int], dims: tuple[int, ...]) -> bytes:
        wrapped = [((value + (1 << 63)) % (1 << 64)) - (1 << 63) for value in values]
        stored = Stored(kind, "LongStorage", 8, struct.pack(f"<{len(wrapped)}q", *wrapped))
        parts.append(stored)
        strides = tuple(random.choice((0, 1, 1, 1)) for _ in dims)
        return tensor(View(stored, dims, strides if len(dims) == 1 else (dims[-1], 1)))

    parts: list[Stored] = [_FLOATS]
    rows, count = random.randrange(5), random.randrange(5)
    values = tensor(View(_FLOATS, (count,), (random.choice((0, 1)),)))
    size = group(*(number(random.randrange(6)) for _ in range(random.choice((1, 2, 2, 2, 3)))))
    if random.random() < 0.4:
        rank = random.randrange(1, 4)
        indices = part("i", [_integer(random) for _ in range(rank * count)], (rank, count))
        body, layout = group(indices, values, size, boolean(True)), "torch.sparse_coo"
    else:
        bounds = part("b", [0, *(_integer(random) for _ in range(rows))], (rows + 1,))
        others = part("o", [_integer(random) for _ in range(count)], (count,))
        layout = random.choice(("torch.sparse_csr", "torch.sparse_csc", "torch.sparse_bsr", "torch.sparse_bsc"))
        body = group(bounds, others, values, size)
    rebuilt = call(
        glob("torch._utils", "_rebuild_sparse_tensor"),
        call(glob("torch.serialization", "_get_layout"), text(layout)),
        body,
    )
    return Sample("crafted/sparse", _zip(random, table({"w": rebuilt}), *parts), "model.pt")


def _shared(random: Random) -> Sample:
    """Values that are there many times, below keys of all kinds, often deflated."""
    made = random.choice((
        b"]", b"}", b"\x8f", b")", b"N", text("x" * random.choice((1, 3000))), tensor(View(_FLOATS, (2,), (1,))), _long(_integer(random)),
        call(glob("m", "F"), *map(number, range(random.choice((1, 500))))), built(glob("m", "N"), table({"_parameters": b"}", "_modules": b"}"})),
        call(glob("_codecs", "encode"), text("y" * 1000), text("latin1")), call(glob("collections", "OrderedDict"), b"]"),
        call(glob("builtins", "list"), b"](K\x01K\x02e"), call(glob("torch.jit._pickle", "restore_type_tag"), b"]", text("T")),
    ))  # fmt: skip
    key = random.choice(
        (
            text("k"),
            text("n" * 2000),
            _long(_integer(random)),
            b"G\x40\x08\0\0\0\0\0\0",
            _longs(random),
            b"C\x02kk",
            glob("m", "K"),
        )
    )
    step = random.choice(
        (
            b"h\x01\x86",
            b"](h\x01h\x01e",
            b"}h\x02h\x01s",
            b"h\x01\x85",
            b"h\x01",
            b"\x8f",
            b"(",
            b"\x85",
            b"2",
            b"]h\x01a",
        )
    )
    times = random.choice((1, 10, 60, 1000, 20_000))
    body = (
        made
        + b"q\x01"
        + key
        + b"q\x020"
        + (step + random.choice((b"q\x01", b""))) * times
        + random.choice((b"", b"t", b"l", b"e"))
    )
    return Sample("crafted/shared", _zip(random, body, _FLOATS), "model.pt")


def _storages(random: Random) -> Sample:
    """Storages under several types, views under several keys, states and bits given to tensors."""

    def view() -> bytes:
        if random.random() < 0.5:
            return b"N"
        return group(
            text(random.choice(("v", "0", "u"))), number(random.choice(_LITTLE)), number(random.choice(_LITTLE))
        )

    legacy = random.random() < 0.5
    tensors = {}
    for name in "abcd"[: random.randrange(1, 5)]:
        kind = random.choice(
            ("FloatStorage", "FloatStorage", "IntStorage", "UntypedStorage", "ByteStorage", "HalfStorage")
        )
        stored = Stored("0", kind, 4, _FLOATS.data)
        pid = legacy_pid(stored, view()) if legacy else zip_pid(stored)
        flags = random.choice(
            (b"", b"", b"N", b"}", table({"neg": boolean(random.random() < 0.5)}), table({"x": b"N"}))
        )
        rest = (
            _long(_integer(random)),
            _longs(random, 2),
            _longs(random, 2),
            boolean(False),
            call(glob("collections", "OrderedDict")),
        )
        made = call(glob("torch._utils", "_rebuild_tensor_v2"), pid + PERSISTENT, *rest, *((flags,) if flags else ()))
        state = random.choice(
            (
                b"",
                b"",
                b"}b",
                group(pid + PERSISTENT, number(0), numbers((1,)), numbers((1,))) + b"b",
                b"Nb",
                text("k") + b"Ns",
            )
        )
        tensors[name] = made + state
    if legacy:
        return Sample(
            "crafted/legacy", {"m.pth": legacy_stream({"a": View(_FLOATS, (1,), (1,))}, body=table(tensors))}, "m.pth"
        )
    return Sample("crafted/storages", _zip(random, table(tensors), _FLOATS), "model.pt")


def _tar(random: Random) -> Sample:
    """Odd members among those of a tar checkpoint."""

    def odd() -> bytes:
        kind = random.choice((b"L", b"K", b"x", b"g", b"0", b"\0", b"1", b"2", b"5", b"7", b"S", b"D"))
        name = random.choice(("storages", "./pickle", "a/", "././@LongLink", "x" * 99, "tensors/"))
        line = random.choice(("size=5", "path=pickle", "mtime=1.5", "GNU.sparse.size=1", "=", "comment=x"))
        data = random.choice((b"pickle\0", f"{len(line) + 4} {line}\n".encode(), b"9999999999 a=b\n", b"", bytes(700)))
        return tar_header(name, len(data), kind) + data + bytes(-len(data) % 512)

    whole = build_tar(tar_members())
    at = random.choice((0, len(whole) - 1024))
    return Sample(
        "crafted/tar", {"m.tar": whole[:at] + odd() + (odd() if random.random() < 0.3 else b"") + whole[at:]}, "m.tar"
    )


def _tables(random: Random) -> Sample:
    """Headers of safetensors and burnpack, and indices, with names and numbers of all kinds."""
    names = [random.choice(_NAMES) for _ in range(random.randrange(1, 5))]
    entries = {
        name: ("F32", [abs(_integer(random)) for _ in range(random.choice((0, 1, 2, 65)))], 4 * n, 4 * n + 4)
        for n, name in enumerate(names)
    }
    match random.randrange(3):
        case 0:
            header = {name: safetensors_entry(*entry) for name, entry in entries.items()}
            return Sample(
                "crafted/safetensors", {"m.safetensors": safetensors(header, bytes(4 * len(names)))}, "m.safetensors"
            )
        case 1:
            described = {
                name.encode("utf-8", "replace").decode(): burnpack_entry(
                    "F32", [size % (1 << 64) for size in sizes], a, b
                )
                for name, (_, sizes, a, b) in entries.items()
            }
            return Sample(
                "crafted/burnpack", {"m.bpk": burnpack({"tensors": described}, bytes(4 * len(names)))}, "m.bpk"
            )
        case _:
            index = json.dumps({"weight_map": {name: random.choice(_NAMES) for name in names}}).encode()
            return Sample("crafted/index", {"m.safetensors.index.json": index}, "m.safetensors.index.json")


def _distributed(random: Random) -> Sample:
    """Metadata with sizes and offsets that are no numbers, files that cannot be, one item under many names."""
    module = "torch.distributed.checkpoint.metadata"
    item = item_of(View(_FLOATS, (2,), (1,)))

    def sizes() -> bytes:
        return random.choice(
            (
                shape([2]),
                shape([0]),
                glob("torch", "Size") + group(_longs(random)) + b"R",
                glob("torch", "Size") + group(group(b"N")) + b"R",
                b"N",
                numbers((2,)),
            )
        )

    properties = built(
        glob(module, "TensorProperties"), group(glob("torch", "float32"), b"N", boolean(False), b"N", boolean(False))
    )
    chunk = built(glob(module, "ChunkStorageMetadata"), table({"offsets": sizes(), "sizes": sizes()}))
    entry = built(
        glob(module, "TensorStorageMetadata"),
        table({"properties": properties, "size": sizes(), "chunks": listed(chunk)}),
    )
    names = [random.choice(_NAMES[:6]) for _ in range(3)]
    plain = built(glob(module, "BytesStorageMetadata"), b"}")
    indexed = b"}("
    for name in names:
        index = built(
            glob(module, "MetadataIndex"),
            table({"fqn": text(name), "offset": random.choice((b"N", sizes())), "index": b"N"}),
        )
        file = random.choice(("__0_0.distcp", "__0_0.distcp", *[one for one in _NAMES if one.isprintable()]))
        indexed += index + storage_info(file, random.choice((0, 0, 1)), random.choice((len(item), len(item), 5)))
    state = {
        "state_dict_metadata": table({name: random.choice((entry, entry, plain)) for name in names}),
        "planner_data": b"N",
        "storage_data": indexed + b"u",
    }
    metadata = pickled(built(glob(module, "Metadata"), table(state)))
    return Sample("crafted/distributed", {".metadata": metadata, "__0_0.distcp": item}, ".")


def _json(random: Random, depth: int = 3) -> Any:
    if depth == 0 or random.random() < 0.5:
        return random.choice((*_NUMBERS, None, True, 0.5, 1e308, "", "llama", "LlamaForCausalLM", "x" * 2000, [[]] * 3))
    if random.random() < 0.5:
        return [_json(random, depth - 1) for _ in range(random.randrange(4))]
    return {
        random.choice(("a", "text_config", "hidden_size")): _json(random, depth - 1) for _ in range(random.randrange(4))
    }


_FIELDS = (
    *(
        "architectures",
        "model_type",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "vocab_size",
    ),
    *(
        "intermediate_size",
        "head_dim",
        "tie_word_embeddings",
        "_class_name",
        "torch_dtype",
        "text_config",
        "layer_types",
    ),
)


def _config(random: Random) -> Sample:
    """A config.json of odd values beside weights with the names of a family."""
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2, "num_hidden_layers": 1}
    config.update({random.choice(_FIELDS): _json(random) for _ in range(random.randrange(1, 6))})
    written = json.dumps(config)
    if random.random() < 0.2:
        written = written.replace(
            "2", random.choice(("[" * 300 + "]" * 300, "9" * 4_299, "9" * 5_000, "1e999", "NaN", "-0")), 1
        )
    names = [
        "model.embed_tokens.weight",
        "model.layers.0.self_attn.q_proj.weight",
        "model.norm.weight",
        *random.sample(_NAMES, 2),
    ]
    header = {name: safetensors_entry("F32", [1, 1], 4 * n, 4 * n + 4) for n, name in enumerate(names)}
    files = {
        "config.json": written.encode("utf-8", "replace"),
        "model.safetensors": safetensors(header, bytes(4 * len(names))),
    }
    return Sample("crafted/config", files, ".", task="convert")


_TERMS = (
    "x",
    "1",
    "2.5",
    "n",
    "1e999",
    "0",
    "-1",
    "hidden_size",
    "9" * 30,
    "9" * 5_000,
    "'t'",
    "[1, 2]",
    "None",
    "x.y",
    "1j",
)


def _formula(random: Random, depth: int) -> str:
    if depth <= 0:
        return random.choice(_TERMS)
    inner = _formula(random, depth - 1)
    match random.randrange(6):
        case 0:
            return random.choice("+-~") * random.choice((1, 2, 60, 900)) + inner
        case 1:
            return f"{inner} {random.choice(('+', '-', '*', '/', '**', '//', '%', '<<', '@', 'if', 'and'))} {_formula(random, depth - 1)}"
        case 2:
            return f"{random.choice(('exp', 'log', 'tanh', 'sqrt', 'abs', 'sin', 'len', 'range', 'int', 'min', 'eval', 'count'))}({inner})"
        case 3:
            return "(" * (deep := random.choice((1, 3, 90, 300))) + inner + ")" * deep
        case 4:
            return f"{inner}[{_formula(random, depth - 1)}]"
        case _:
            return f"{inner} if {_formula(random, 0)} else {_formula(random, 0)}"


def _recipe(random: Random) -> Sample:
    """Recipes whose formulas, counts and templates come to nothing good."""
    formula = _formula(random, random.randrange(4)).replace('"', "'")
    body = random.choice((
        f'tensors:\n  - match: norm\n    map: "{formula}"\n',
        f'config:\n  n: "{formula}"\nrename:\n  - [a, "b{{n}}"]\n',
        f'config:\n  n: "{formula}"\ntarget:\n  "l.{{n}}": Linear(1, n)\n',
        f'target:\n  l:\n    for: {{i: "{formula}"}}\n    p: Param(1)\n',
        f"target:\n  l: Linear({formula})\n",
        f'rename:\n  - ["^(.*)$", "$1{{{formula}}}"]\n',
    ))  # fmt: skip
    return Sample("crafted/recipe", {"r.yaml": f"recipe: 1\nname: r\n{body}".encode()}, "r.yaml", is_recipe=True)


def _names(random: Random) -> Sample:
    """Two files of odd names, for `suggest` and `template`."""

    def tensors(count: int) -> bytes:
        chosen = dict.fromkeys(
            random.choice(_NAMES) + random.choice(("", "", ".weight", ".0.w", ".bias")) for _ in range(count)
        )
        names = [name for name in chosen if len(name) < 4_000 and name.isprintable() | ("\ud800" not in name)]
        header = {
            name: safetensors_entry("F32", random.choice(([1], [1, 1])), 4 * n, 4 * n + 4)
            for n, name in enumerate(names)
        }
        return safetensors(header, bytes(4 * len(names)))

    count = random.randrange(1, 8)
    return Sample(
        "crafted/names",
        {"m.safetensors": tensors(count), "t.safetensors": tensors(count)},
        "m.safetensors",
        task="suggest",
    )


_KINDS: tuple[Callable[[Random], Sample], ...] = (
    _sparse, _sparse, _shared, _shared, _storages, _storages, _tar, _tables, _tables, _distributed, _config, _recipe, _recipe, _names,
)  # fmt: skip
