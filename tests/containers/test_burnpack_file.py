"""The burnpack layout: the worked vectors of the format, and what is refused."""

from __future__ import annotations

import struct

import pytest

from importer.arrays import to_numpy
from importer.containers import Opaque, open_container
from importer.dtypes import BOOL, F32, I64, U8, U32
from importer.errors import CorruptContainerError, ImporterError, LimitError, TruncatedError, UnsupportedError
from importer.limits import Limits
from tests.builders.tables import Value, burnpack, cbor
from tests.builders.tables import burnpack_entry as entry
from tests.containers.conftest import Save, table_container

# Metadata as Burn's own encoder (ciborium) writes it.
THREE_TENSORS = bytes.fromhex(
    "a16774656e736f7273a36766632e62696173a46564747970656346333265736861706581036c646174615f6f6666736574738219010019010c"
    "68706172616d5f69641bccc4cda150df6f736966632e776569676874a4656474797065634633326573686170658204036c646174615f6f6666"
    "7365747382001830"
    "68706172616d5f69641bc3b2c8b2d241f4576b686561642e776569676874a4656474797065634633326573686170658203026c646174615f6f"
    "6666736574738219020019021868706172616d5f69641b2cb8ce706944a210"
)
MIXED = bytes.fromhex(
    "a36774656e736f7273a365656d707479a3656474797065634633326573686170658200046c646174615f6f6666736574738219020019020064"
    "666c6167a3656474797065a164426f6f6c664e617469766565736861706581026c646174615f6f6666736574738200026673"
    "63616c6172a365647479706563493634657368617065806c646174615f6f66667365747382190100190108686d65746164617461a266666f72"
    "6d6174686275726e7061636b6870726f6475636572646275726e677363616c617273a2626c72a165466c6f6174f938006473746570a1645549"
    "6e7419012c"
)


def floats(count: int) -> bytes:
    return struct.pack(f"<{count}f", *range(count))


def test_tensors_come_in_the_order_of_their_data_with_their_ids(save: Save) -> None:
    data = floats(12) + bytes(208) + floats(3) + bytes(244) + floats(6)
    container = table_container(open_container(save(burnpack(THREE_TENSORS, data))))
    assert {name: to_numpy(array).tolist() for name, array in container.arrays.items()} == {
        "fc.weight": [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]],
        "fc.bias": [0, 1, 2],
        "head.weight": [[0, 1], [2, 3], [4, 5]],
    }
    assert list(container.arrays) == ["fc.weight", "fc.bias", "head.weight"]
    assert container.param_ids == {
        "fc.bias": 14755144371902836595,
        "fc.weight": 14101554053607715927,
        "head.weight": 3222552515581354512,
    }


def test_booleans_scalars_metadata_and_empty_tensors_are_read(save: Save) -> None:
    data = b"\x01\x00" + bytes(254) + struct.pack("<q", -5) + bytes(248)
    container = table_container(open_container(save(burnpack(MIXED, data))))
    assert [(name, array.dtype, to_numpy(array).tolist()) for name, array in container.arrays.items()] == [
        ("flag", BOOL, [True, False]),
        ("scalar", I64, -5),
        ("empty", F32, []),
    ]
    assert container.metadata == {"format": "burnpack", "producer": "burn"}
    assert container.scalars == {"lr": 0.5, "step": 300}
    assert container.notes == ()


@pytest.mark.parametrize("data", [burnpack({"tensors": {}}), burnpack({"tensors": {}})[:20]], ids=["padded", "bare"])
def test_a_file_without_tensors_may_end_behind_its_metadata(save: Save, data: bytes) -> None:
    assert table_container(open_container(save(data))).arrays == {}


@pytest.mark.parametrize(
    ("spelling", "dtype", "itemsize"),
    [("Flex32", F32, 4), ("Bool", BOOL, 1), ({"Bool": "U8"}, U8, 1), ({"Bool": "U32"}, U32, 4)],
    ids=str,
)
def test_unusual_element_types_are_read(save: Save, spelling: str, dtype: object, itemsize: int) -> None:
    data = burnpack({"tensors": {"x": entry(spelling, [2], 0, 2 * itemsize)}}, bytes(2 * itemsize))
    assert table_container(open_container(save(data))).arrays["x"].dtype is dtype


def test_quantized_tensors_are_told_apart(save: Save) -> None:
    quantized = entry({"QFloat": {"value": "Q8S"}}, [4], 0, 8)
    container = table_container(open_container(save(burnpack({"tensors": {"q": quantized}}, bytes(8)))))
    assert container.arrays == {}
    assert container.opaque == (Opaque("q", "quantized", "quantized tensors of Burn are not unpacked"),)


def test_every_kind_of_scalar_is_read(save: Save) -> None:
    scalars: Value = {"a": {"Int": -3}, "b": {"UInt": 42}, "c": {"Float": 0.1}, "d": {"Bool": True}}
    container = table_container(open_container(save(burnpack({"tensors": {}, "scalars": scalars}))))
    assert container.scalars == {"a": -3, "b": 42, "c": 0.1, "d": True}


def test_tensors_packed_without_alignment_are_read_as_burn_0_19_wrote_them(save: Save) -> None:
    metadata = cbor({"tensors": {"a": entry("U8", [3], 0, 3), "b": entry("U8", [2], 3, 5)}})
    data = struct.pack("<4sHL", b"NRUB", 1, len(metadata)) + metadata + b"\x01\x02\x03\x04\x05"
    container = table_container(open_container(save(data)))
    assert to_numpy(container.arrays["b"]).tolist() == [4, 5]
    assert container.notes == ("the tensors are packed without alignment, as Burn 0.19 did",)


@pytest.mark.parametrize(
    ("data", "note"),
    [
        pytest.param(
            burnpack({"tensors": {"a": entry("U8", [3], 4, 7)}}, bytes(7)),
            "1 tensors do not begin at a multiple of 256 bytes",
            id="alignment",
        ),
        pytest.param(
            burnpack({"tensors": {"a": entry("U8", [3], 0, 3)}}, bytes(5)),
            "2 bytes after the last tensor are ignored",
            id="bytes left over",
        ),
    ],
)
def test_oddities_burn_does_not_mind_are_noted(save: Save, data: bytes, note: str) -> None:
    assert table_container(open_container(save(data))).notes == (note,)


def with_tensors(**entries: object) -> bytes:
    return burnpack({"tensors": entries}, bytes(64))  # type: ignore[dict-item]


TWICE = cbor({"tensors": {"a": entry("U8", [1], 0, 1), "b": entry("U8", [1], 0, 1)}}).replace(
    b"\x61b\xa3", b"\x61a\xa3"
)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        pytest.param(b"NRUB\x01", TruncatedError, "within its header", id="header cut"),
        pytest.param(burnpack({}, version=2), UnsupportedError, "version 2", id="version"),
        pytest.param(burnpack({}, length=104_857_601), LimitError, "max_metadata_bytes", id="metadata too large"),
        pytest.param(burnpack({}, length=5000), TruncatedError, "metadata has 5000 bytes", id="metadata cut"),
        pytest.param(burnpack(b"\xa1"), CorruptContainerError, "ends too early", id="CBOR cut"),
        pytest.param(burnpack([1]), CorruptContainerError, "no map", id="no map"),
        pytest.param(burnpack({}), CorruptContainerError, "'tensors' is no map", id="no tensors"),
        pytest.param(burnpack({"tensors": {}, "metadata": None}), CorruptContainerError, "'metadata'", id="null"),
        pytest.param(burnpack({"tensors": {}, "metadata": {"a": 1}}), CorruptContainerError, "of texts", id="number"),
        pytest.param(burnpack(TWICE, bytes(2)), CorruptContainerError, "Duplicate map key: 'a'", id="name twice"),
        pytest.param(with_tensors(a=[1]), CorruptContainerError, "entry of 'a'", id="entry"),
        pytest.param(
            with_tensors(a={"dtype": "U8", "shape": [1]}), CorruptContainerError, "entry of 'a'", id="offsets"
        ),
        pytest.param(
            with_tensors(a=entry("U8", [-1], 0, 1)), CorruptContainerError, "entry of 'a'", id="negative size"
        ),
        pytest.param(with_tensors(a=entry("U8", [2], 4, 2)), CorruptContainerError, "has -2 bytes", id="backwards"),
        pytest.param(with_tensors(a=entry("F32", [2], 0, 4)), CorruptContainerError, r"make F32 '\[2\]'", id="size"),
        pytest.param(with_tensors(a=entry("U8", [1], 0, 1, -1)), CorruptContainerError, "parameter id", id="id"),
        pytest.param(with_tensors(a=entry("F8", [1], 0, 1)), UnsupportedError, "'F8' is not known", id="dtype"),
        pytest.param(with_tensors(a=entry({"Bool": "U9"}, [1], 0, 1)), UnsupportedError, "not known", id="bool"),
        pytest.param(
            with_tensors(a=entry("U8", [4], 0, 4), b=entry("U8", [4], 2, 6)),
            CorruptContainerError,
            "'b' overlaps",
            id="overlap",
        ),
        pytest.param(
            burnpack({"tensors": {"a": entry("U8", [9], 0, 9)}}, bytes(8)), TruncatedError, "should have", id="cut"
        ),
        pytest.param(
            burnpack({"tensors": {}, "scalars": {"a": {"Float": 1}}}), CorruptContainerError, "scalar 'a'", id="float"
        ),
        pytest.param(
            burnpack({"tensors": {}, "scalars": {"a": {"Int": True}}}), CorruptContainerError, "scalar 'a'", id="int"
        ),
    ],
)
def test_a_wrong_file_is_refused(save: Save, data: bytes, error: type[ImporterError], message: str) -> None:
    with pytest.raises(error, match=message):
        open_container(save(data))


def test_more_tensors_than_the_limit_are_refused(save: Save) -> None:
    with pytest.raises(LimitError, match="max_tensors: allowed 1, found 2"):
        open_container(save(with_tensors(a=entry("U8", [1], 0, 1), b=entry("U8", [1], 1, 2))), Limits(max_tensors=1))
