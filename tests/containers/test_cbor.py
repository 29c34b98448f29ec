"""The CBOR decoder, against the cbor2 library and the rows of RFC 8949's own table."""

from __future__ import annotations

import contextlib
import math

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.containers.cbor import decode_cbor
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
        ("f7", None),
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
        pytest.param("1c", "reserved value 28", id="reserved"),
        pytest.param("1f", "reserved value 31", id="number of indefinite length"),
        pytest.param("62c328", "utf-8", id="no UTF-8"),
        pytest.param("a10102", "no text", id="number as key"),
        pytest.param("a2616101616102", "'a' stands twice", id="key twice"),
        pytest.param("f0", "simple value 16", id="unknown simple value"),
        pytest.param("ff", "simple value 31", id="end mark alone"),
        pytest.param("7f4101ff", "put together", id="bytes in a text"),
        pytest.param("81" * 200 + "00", "more than 128 deep", id="nesting"),
        pytest.param("c1" * 200 + "00", "more than 128 deep", id="tags"),
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
