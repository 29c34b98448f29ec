"""CBOR in both directions: what cbor2 writes, the rows of RFC 8949's own table, the bytes of Burn's encoder, and what is refused."""

from __future__ import annotations

import contextlib
import math
import struct

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.cbor import Encodable, decode_cbor, encode_cbor
from importer.errors import CorruptContainerError, Location

WHERE = Location(path="model.bpk", offset=10)

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 64), (1 << 64) - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


@given(PLAIN)
def test_values_the_library_encodes_come_back(value: object) -> None:
    assert decode_cbor(cbor2.dumps(value), WHERE) == value


@given(PLAIN)
def test_values_the_library_encodes_in_canonical_form_come_back(value: object) -> None:
    assert decode_cbor(cbor2.dumps(value, canonical=True), WHERE) == value


@pytest.mark.parametrize(
    ("encoded", "value"),
    [
        ("1bffffffffffffffff", 18446744073709551615),
        ("3bffffffffffffffff", -18446744073709551616),
        ("f90001", 5.960464477539063e-8),
        ("fa47c35000", 100000.0),
        ("fbc010666666666666", -4.1),
        ("f97c00", math.inf),
        ("c074323031332d30332d32315432303a30343a30305a", "2013-03-21T20:04:00Z"),
        ("5f42010243030405ff", b"\x01\x02\x03\x04\x05"),
        ("7f657374726561646d696e67ff", "streaming"),
        ("9f018202039f0405ffff", [1, [2, 3], [4, 5]]),
        ("bf6346756ef563416d7421ff", {"Fun": True, "Amt": -2}),
        ("80", []),
        ("a0", {}),
    ],
)
def test_the_examples_of_the_rfc_are_read(encoded: str, value: object) -> None:
    assert decode_cbor(bytes.fromhex(encoded), WHERE) == value


def test_not_a_number_is_read() -> None:
    value = decode_cbor(bytes.fromhex("f97e00"), WHERE)
    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        pytest.param("", "ends too early", id="nothing"),
        pytest.param("19ff", "ends too early", id="number cut"),
        pytest.param("636162", "ends too early", id="text cut"),
        pytest.param("8201", "ends too early", id="array cut"),
        pytest.param("9f01", "ends too early", id="array without end"),
        pytest.param("fb4141", "ends too early", id="float cut"),
        pytest.param("1c", "subtype 0x1c", id="reserved"),
        pytest.param("1f", "indefinite length not allowed", id="number of indefinite length"),
        pytest.param("62c328", "text string", id="no UTF-8"),
        pytest.param("a10102", "must be a text", id="number as key"),
        pytest.param("a2616101616102", "Duplicate map key: 'a'", id="key twice"),
        pytest.param("f0", "is not a plain value", id="unknown simple value"),
        pytest.param("ff", "break code", id="end mark alone"),
        pytest.param("7f4101ff", "non-text string", id="bytes in a text"),
        pytest.param("81" * 200 + "00", r"depth \(128\)", id="nesting"),
        pytest.param("c1" * 200 + "00", r"depth \(128\)", id="tags"),
        pytest.param("f7", "undefined' is not a plain", id="undefined"),
        pytest.param("a1410001", "is not a text", id="bytes as key"),
        pytest.param("d8230082", "left over", id="a pattern that is not compiled"),
        pytest.param("9bffffffffffffffff", "ends too early", id="array of 2**64 items"),
        pytest.param("0000", "1 bytes are left over", id="left over"),
    ],
)
def test_damaged_bytes_are_refused(encoded: str, message: str) -> None:
    with pytest.raises(CorruptContainerError, match=message):
        decode_cbor(bytes.fromhex(encoded), WHERE)


def test_the_error_says_where_in_the_file() -> None:
    with pytest.raises(CorruptContainerError) as caught:
        decode_cbor(bytes.fromhex("8201f0"), WHERE)
    assert caught.value.where is not None
    assert caught.value.where.offset == 13


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_the_error(data: bytes) -> None:
    with contextlib.suppress(CorruptContainerError):
        decode_cbor(data, WHERE)


encodable: st.SearchStrategy[Encodable] = st.recursive(
    st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=300),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text("abcé", max_size=3), inner, max_size=30),
    max_leaves=50,
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"UInt": 42}, "a16455496e74182a"),
        ({"Int": -3}, "a163496e7422"),
        ({"Bool": True}, "a164426f6f6cf5"),
        ({"Bool": False}, "a164426f6f6cf4"),
        ({"Float": 0.5}, "a165466c6f6174f93800"),
        ({"Float": 0.10000000149011612}, "a165466c6f6174fa3dcccccd"),
        ({"Float": 1e10}, "a165466c6f6174fa501502f9"),
        ({"Float": 0.001}, "a165466c6f6174fb3f50624dd2f1a9fc"),
        ({"Float": math.nan}, "a165466c6f6174f97e00"),
        ([256, 268], "8219010019010c"),
        ((0, 48), "82001830"),
        ([], "80"),
        (14101554053607715927, "1bc3b2c8b2d241f457"),
        ("Flex32", "66466c65783332"),
        ({"bb": 1, "a": 2}, "a262626201616102"),
    ],
    ids=str,
)
def test_values_become_the_bytes_that_ciborium_writes(value: Encodable, expected: str) -> None:
    assert encode_cbor(value).hex() == expected


@given(encodable)
def test_what_is_encoded_comes_back(value: Encodable) -> None:
    def same(left: object, right: object) -> bool:
        return repr(left).replace("nan", "NaN") == repr(right).replace("nan", "NaN")

    assert same(decode_cbor(encode_cbor(value), WHERE), value)


@given(st.floats(allow_nan=False))
def test_floats_take_the_narrowest_exact_width(value: float) -> None:
    lead, *data = encode_cbor(value)
    form = {0xF9: ">e", 0xFA: ">f", 0xFB: ">d"}[lead]
    assert struct.unpack(form, bytes(data))[0] == value
    for narrower in [">e", ">f", ">d"][: [">e", ">f", ">d"].index(form)]:
        with contextlib.suppress(OverflowError):
            assert struct.unpack(narrower, struct.pack(narrower, value))[0] != value
