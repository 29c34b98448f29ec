"""The encoder gives the bytes of Burn's encoder, and cbor2 reads them back."""

from __future__ import annotations

import math

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from importer.writers.cbor_encoding import Encodable, encode

values: st.SearchStrategy[Encodable] = st.recursive(
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
    ],
    ids=str,
)
def test_values_become_the_bytes_that_ciborium_writes(value: Encodable, expected: str) -> None:
    assert encode(value).hex() == expected


@given(values)
def test_cbor2_reads_back_what_is_encoded(value: Encodable) -> None:
    def same(left: object, right: object) -> bool:
        return repr(left).replace("nan", "NaN") == repr(right).replace("nan", "NaN")

    assert same(cbor2.loads(encode(value)), value)


@given(st.floats(allow_nan=False))
def test_floats_take_the_narrowest_exact_width(value: float) -> None:
    data = encode(value)
    assert len(data) in {3, 5, 9}
    assert data == cbor2.dumps(value, canonical=True)


def test_numbers_beyond_64_bits_are_refused() -> None:
    with pytest.raises(OverflowError):
        encode(1 << 64)
