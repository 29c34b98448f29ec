"""Changes to pickles, instruction by instruction, so that what follows stays in step and the mutant is carried out.

The instructions come from the reader's own table, which `tests/unpickling/test_opcodes.py` holds against CPython's.
"""

from __future__ import annotations

import struct
from functools import cache
from random import Random

from importer.unpickling import OPCODES, disassemble
from tests.builders.states import glob, number, text
from tests.fuzz.corpus import samples

__all__ = ["mutated_pickles"]

_BARE = [
    bytes([code])
    for code, opcode in OPCODES.items()
    if opcode.name.endswith(("MARK", "POP", "TUPLE", "LIST", "DICT", "SET", "ITEM", "ITEMS", "APPEND", "APPENDS"))
    or opcode.name in {"DUP", "NONE", "REDUCE", "BUILD", "OBJ", "NEWOBJ", "NEWOBJ_EX", "BINPERSID", "STACK_GLOBAL"}
    or opcode.name in {"MEMOIZE", "TUPLE1", "TUPLE2", "TUPLE3", "NEWTRUE", "STOP", "NEXT_BUFFER", "READONLY_BUFFER"}
]
_NUMBERS = (-1, 0, 1, 2, 3, 64, 255, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 46, (1 << 63) - 1, -(1 << 63), 1 << 90)
_GLOBALS = [
    *(("torch._utils", name) for name in (
        "_rebuild_tensor_v2", "_rebuild_tensor", "_rebuild_tensor_v3", "_rebuild_parameter", "_rebuild_sparse_tensor",
        "_rebuild_sparse_csr_tensor", "_rebuild_qtensor", "_rebuild_meta_tensor_no_storage",
        "_rebuild_device_tensor_from_numpy", "_rebuild_nested_tensor", "_rebuild_wrapper_subclass",
    )),
    *(("torch", name) for name in (
        "FloatStorage", "HalfStorage", "LongStorage", "BoolStorage", "ComplexFloatStorage", "QInt8Storage", "Size",
        "float32", "bfloat16", "complex64", "quint4x2", "bits8", "per_tensor_affine", "per_channel_affine", "Tensor",
    )),
    ("torch._tensor", "_rebuild_from_type_v2"),
    ("torch.storage", "UntypedStorage"),
    ("torch.serialization", "_get_layout"),
    ("torch.nn.modules.linear", "Linear"),
    ("torch.nn.parameter", "Parameter"),
    ("collections", "OrderedDict"),
    ("collections", "defaultdict"),
    ("builtins", "set"),
    ("builtins", "getattr"),
    ("builtins", "dict"),
    ("copyreg", "_reconstructor"),
    ("copyreg", "__newobj__"),
    ("_codecs", "encode"),
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy.core.numeric", "_frombuffer"),
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("torch.distributed.checkpoint.metadata", "Metadata"),
]  # fmt: skip
_TEXTS = (
    "",
    "0",
    "cpu",
    "storage",
    "a.b",
    "\x1b[2J",
    "\ud800",
    "é",
    "latin1",
    "f4",
    ">f8",
    "O8",
    "V16",
    "_modules",
    "x" * 5000,
)
_LONGEST_RUN = 20_000


def mutated_pickles(random: Random, data: bytes) -> bytes:
    """Change the instructions of the pickles that `data` begins with; bytes behind them stay."""
    parts, rest = _parsed(data)
    if not parts:
        return random.randbytes(8) + data
    for _ in range(random.choice((1, 1, 2, 3, 8))):
        _change(random, parts)
    return b"".join(parts) + rest


def _change(random: Random, parts: list[bytes]) -> None:
    """Change one place in a list of instructions."""
    at = random.randrange(len(parts) + 1)
    end = min(len(parts), at + random.choice((1, 1, 2, 5, 20)))
    match random.randrange(9):
        case 0:
            del parts[at:end]
        case 1:
            parts[at:at] = parts[at:end]
        case 2:
            run = parts[at:end] or [b"("]
            parts[at:at] = run * random.choice((2, 64, _LONGEST_RUN // len(run)))
        case 3:
            other = random.choice(_instructions())
            start = random.randrange(len(other))
            parts[at:end] = other[start : start + random.choice((1, 4, 16, 64))]
        case 4:
            parts[at:at] = [random.choice(_BARE)]
        case 5:
            other_at = random.randrange(len(parts) + 1)
            parts[at:end], parts[other_at:other_at] = [], parts[at:end]
        case 6:
            _replace_kind(random, parts, b"c\x93i", glob(*random.choice(_GLOBALS)))
        case 7:
            _replace_kind(random, parts, b"KMJ\x8aI", number(random.choice(_NUMBERS)))
        case _:
            chosen = text(random.choice(_TEXTS).encode("utf-8", "surrogatepass").decode("latin-1"))
            _replace_kind(random, parts, b"XU\x8cVST", chosen)


def _replace_kind(random: Random, parts: list[bytes], codes: bytes, replacement: bytes) -> None:
    """Put a value in the place of another of its kind."""
    places = [index for index, part in enumerate(parts) if part and part[0] in codes]
    if places:
        parts[random.choice(places)] = replacement


def _parsed(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the instructions of the pickles at the start of `data`, and the rest."""
    parts: list[bytes] = []
    done = 0
    try:
        while done < len(data):
            offsets = [instruction.offset for instruction in disassemble(data, done)]
            end = offsets[-1] + 1
            parts += [data[a:b] for a, b in zip(offsets, [*offsets[1:], end], strict=True)]
            done = end
    except (EOFError, KeyError, struct.error):
        pass
    return parts, data[done:]


@cache
def _instructions() -> list[list[bytes]]:
    """Return the instructions of every pickle in the corpus, to splice from."""
    files = (data for sample in samples() for data in sample.files.values())
    parsed = (_parsed(data[start:])[0] for data in files for start in _starts(data))
    return [parts for parts in parsed if len(parts) > 1]


def _starts(data: bytes) -> list[int]:
    """Return where pickles may begin that are stored as they are: at a mark of their protocol."""
    return [0, *(at for protocol in (2, 4, 5) if (at := data.find(bytes([0x80, protocol]))) > 0)]
