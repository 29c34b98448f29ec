"""Files of other programs are named as what they are, with what to do."""

from __future__ import annotations

import json
import zlib

import pytest

from importer.containers import open_container
from importer.containers.signatures import SIGNATURES
from importer.containers.unrecognized import describe
from importer.errors import UnknownContainerError
from tests.containers.conftest import Save


def joblib_dump(protocol: int) -> bytes:
    """Return what `joblib.dump({"w": array})` writes: bytes of the array between the opcodes of a pickle."""
    wrapper = b"cjoblib.numpy_pickle\nNumpyArrayWrapper\n)\x81}X\x05\x00\x00\x00orderX\x01\x00\x00\x00Csb"
    return bytes((0x80, protocol)) + b"}X\x01\x00\x00\x00w" + wrapper + bytes(range(0xE0, 0x100)) + b"s."


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(joblib_dump(3), "joblib", id="joblib"),
        pytest.param(joblib_dump(2), "joblib", id="joblib, protocol 2"),
        pytest.param(zlib.compress(b"\x80\x03]" + b"K\x01" * 50, 3), "zlib stream.*joblib", id="joblib, compress=3"),
        pytest.param(zlib.compress(b"\x80\x03]" + b"K\x01" * 50, 9), "zlib stream", id="joblib, compress=9"),
        pytest.param(b"lmgg\x01\0\0\0", "ggml", id="ggml"),
        pytest.param(b"tjgg\x03\0\0\0", "ggml", id="ggjt"),
        pytest.param(b"\x03\0\0\0\x01\0\0\0\x02\0\0\0\x02\0\0\0\x06\0\0\0params", "Lua Torch", id="t7, a table"),
        pytest.param(b"4\n1\n3\nV 1\n17\ntorch.FloatTensor\n", "Lua Torch", id="t7, as text"),
        pytest.param(b"\x1c\0\0\0PTMF\0\0\0\0", "PyTorch Mobile", id="ptl"),
        pytest.param(b"\x30\0\0\0ET12eh00", "ExecuTorch", id="pte"),
        pytest.param(b"\x81\xa6params\x82\xa5Dense\x81\xa6kernel\xc7", "Flax", id="flax"),
        pytest.param(b"\xde\x00\x12\xa6albert\x82", "Flax", id="flax, many keys"),
        pytest.param(b"\x82\xa8metadata\x85\xa5float\xa3f32", "older Burn", id="mpk"),
        pytest.param(json.dumps({"metadata": {"float": "f32"}, "item": {}}).encode(), "older Burn", id="burn json"),
        pytest.param(b"\x89PNG\r\n\x1a\n\0", "a picture", id="png"),
        pytest.param(b"\xff\xd8\xff\xe0\0\x10JFIF", "a picture", id="jpeg"),
        pytest.param(b"RIFF\x24\0\0\0WEBPVP8 ", "a picture", id="webp"),
        pytest.param(b"RIFF\x24\0\0\0WAVEfmt ", "sound", id="wav"),
        pytest.param(b"SQLite format 3\0\x10\0", "SQLite", id="sqlite"),
        pytest.param(b"PAR1\x15\x04", "Parquet", id="parquet"),
        pytest.param(b"x^2 is a square\n", "text", id="text that looks compressed"),
    ],
)
def test_a_file_of_another_program_is_named(save: Save, data: bytes, says: str) -> None:
    with pytest.raises(UnknownContainerError, match=says) as caught:
        open_container(save(data, "model.bin"))
    assert caught.value.how


def test_no_signature_hides_another() -> None:
    for number, later in enumerate(SIGNATURES):
        head = bytes(later.offset) + later.magic
        padded = bytearray(b"\x01" * 64)
        padded[later.offset : len(head)] = later.magic
        first = next(one for one in SIGNATURES if bytes(padded).startswith(one.magic, one.offset))
        assert SIGNATURES.index(first) == number
        assert describe(bytes(padded)) == (later.what, later.how)
