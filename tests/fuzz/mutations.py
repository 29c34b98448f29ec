"""Changes to samples: blind ones to bytes, and ones that know a layout and keep what guards it (lengths, checksums) right.

A mutant that only breaks the outermost layer is refused there and tests nothing below it. So archives are taken apart, one
record is changed, and they are put together again; headers are changed as trees; pickles instruction by instruction.
Everything is drawn from one `random.Random`, so that a seed and a number give the same mutant anywhere.
"""

from __future__ import annotations

import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable
from random import Random

from importer.cbor import decode_cbor
from importer.errors import Location
from tests.builders.streams import build_tar
from tests.builders.tables import burnpack, safetensors
from tests.builders.zips import DEFLATED, STORED, Entry, build_zip
from tests.fuzz.corpus import Sample, groups, samples
from tests.fuzz.crafted import crafted
from tests.fuzz.pickle_mutations import mutated_pickles
from tests.fuzz.text_mutations import mutated_lines, mutated_tree

__all__ = ["mutant"]

_EDGES = (
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFF_FFFF,
    0x8000_0000,
    0xFFFF_FFFF,
    (1 << 63) - 1,
    (1 << 64) - 1,
)
_LONGEST_RUN = 4096
_LARGEST = 2 << 20
"""Bytes of one mutated file: repetitions of repetitions are left out."""

_CRAFTED_SHARE = 0.4
"""Part of the samples that are made up from scratch, and mostly left as they are."""

_BLIND_SHARE = 0.2
"""Part of the changes that are to bytes, whatever the layout."""


def mutant(seed: int, number: int) -> Sample:
    """Return mutant `number` of a series."""
    random = Random(f"{seed}/{number}")
    made_up = random.random() < _CRAFTED_SHARE
    sample = crafted(random) if made_up else random.choice(random.choice(groups()))
    for _ in range(random.choice((0, 0, 0, 0, 1) if made_up else (1, 1, 1, 2, 4))):
        name = random.choice(sorted(sample.files))
        changed = _mutated(random, sample.files[name])
        if len(changed) <= _LARGEST:
            sample = sample.with_file(name, changed)
    return sample


def _mutated(random: Random, data: bytes) -> bytes:
    if random.random() < _BLIND_SHARE:
        return _bytes(random, data)
    return _structured(random, data)


def _structured(random: Random, data: bytes) -> bytes:
    """Change a file within its layout; blindly where the layout is broken already or is none of those known here."""
    try:
        return _layout(data)(random, data)
    except Exception:  # noqa: BLE001 - zipfile, tarfile and json fail in many ways on what was broken before
        return _bytes(random, data)


def _layout(data: bytes) -> Callable[[Random, bytes], bytes]:
    if b"PK\x05\x06" in data[-66_000:]:
        return _archive
    if data[:4] == b"NRUB":
        return _burnpack
    if data[257:262] == b"ustar":
        return _tar
    if data[8:9] == b"{":
        return _safetensors
    if data[:1] in {b"{", b"["}:
        return _json
    if data[:1] == b"\x80":
        return mutated_pickles
    return mutated_lines


def _bytes(random: Random, data: bytes) -> bytes:
    """Flip, overwrite, cut out, splice in from another place or sample, or repeat."""
    at = random.randrange(len(data) + 1)
    end = min(len(data), at + random.choice((1, 1, 4, 8, 64, 1024)))
    match random.randrange(7):
        case 0 if at < len(data):
            return data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :]
        case 1:
            width = random.choice((1, 2, 4, 8))
            edge = random.choice(_EDGES) & (1 << 8 * width) - 1
            order = random.choice(("little", "big"))
            return data[:at] + edge.to_bytes(width, "little" if order == "little" else "big") + data[at + width :]
        case 2:
            return data[:at] + data[end:]
        case 3:
            return data[:at]
        case 4:
            other = random.choice(sorted(random.choice(samples()).files.items()))[1] or b"\0"
            start = random.randrange(len(other))
            return data[:at] + other[start : start + random.choice((4, 64, 1024))] + data[end:]
        case 5:
            return data[:at] + data[at:end] * random.choice((2, 3, _LONGEST_RUN // max(end - at, 1) + 1)) + data[end:]
        case _:
            return data[:at] + random.randbytes(end - at) + data[end:]


def _archive(random: Random, data: bytes) -> bytes:
    """Change one record, or the list of records, and write the archive anew with right checksums."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        methods = {info.filename: info.compress_type for info in archive.infolist()}
        records = {name: archive.read(name) for name in methods}
    names = list(records)
    name = random.choice([*names, *(name for name in names if name.endswith(".pkl")), names[0]])
    match random.randrange(10):
        case 0:
            del records[name]
        case 1:
            records[random.choice(names)] = records[name]
        case 2:
            renamed = random.choice((name + "x", name.upper(), name.rpartition("/")[2], "archive/" + name, "version"))
            records = {renamed if key == name else key: record for key, record in records.items()}
        case 3:
            methods[name] = STORED if methods[name] == DEFLATED else DEFLATED
        case _ if name.endswith(".pkl"):
            records[name] = mutated_pickles(random, records[name])
        case _:
            records[name] = _mutated(random, records[name])
    return build_zip([Entry(key, record, methods.get(key, STORED)) for key, record in records.items()])


def _tar(random: Random, data: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = {info.name: file.read() for info in archive if (file := archive.extractfile(info)) is not None}
    name = random.choice(list(members))
    members[name] = mutated_pickles(random, members[name])
    return build_tar(members)


def _safetensors(random: Random, data: bytes) -> bytes:
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    return safetensors(mutated_tree(random, header), data[8 + length :])


def _burnpack(random: Random, data: bytes) -> bytes:
    (length,) = struct.unpack("<L", data[6:10])
    tree = decode_cbor(data[10 : 10 + length], Location(path="sample"))
    metadata = mutated_tree(random, tree)
    return burnpack(metadata, data[-(-(10 + length) // 256) * 256 :])


def _json(random: Random, data: bytes) -> bytes:
    return json.dumps(mutated_tree(random, json.loads(data))).encode()
