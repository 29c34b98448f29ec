"""The safetensors layout: read as the reference library reads it, refused where it refuses."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from importer.arrays import to_numpy
from importer.containers import Opaque, open_container
from importer.dtypes import F32, I64
from importer.errors import CorruptContainerError, LimitError, SourceError, TruncatedError, UnsupportedError
from importer.limits import Limits
from tests.builders.tables import safetensors as build
from tests.builders.tables import safetensors_entry as entry
from tests.containers.conftest import Save, table_container

HEADER = {
    "__metadata__": {"format": "pt"},
    "weight": entry("F32", [2, 3], 0, 24),
    "steps": entry("I64", [], 24, 32),
    "empty": entry("F32", [0, 4], 32, 32),
}
DATA = struct.pack("<6fq", *range(6), -7)


def test_tensors_come_in_header_order_with_their_values(save: Save) -> None:
    container = table_container(open_container(save(build(HEADER, DATA))))
    assert [(name, array.dtype, array.shape) for name, array in container.arrays.items()] == [
        ("weight", F32, (2, 3)),
        ("steps", I64, ()),
        ("empty", F32, (0, 4)),
    ]
    assert to_numpy(container.arrays["weight"]).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert to_numpy(container.arrays["steps"]).tolist() == -7


def test_the_metadata_is_kept(save: Save) -> None:
    container = table_container(open_container(save(build(HEADER, DATA))))
    assert (container.kind, container.metadata) == ("safetensors", {"format": "pt"})


def test_elements_smaller_than_a_byte_are_told_apart(save: Save) -> None:
    header = {"packed": entry("F4", [4], 0, 2), "plain": entry("U8", [1], 2, 3)}
    container = table_container(open_container(save(build(header, bytes(3)))))
    assert list(container.arrays) == ["plain"]
    assert container.opaque == (Opaque("packed", "packed", "elements of type F4 are smaller than a byte"),)


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"),
        st.tuples(
            st.sampled_from([np.float32, np.float16, np.int64, np.uint8, np.bool_]),
            st.lists(st.integers(0, 4), max_size=3),
        ),
        max_size=5,
    )
)
def test_files_of_the_library_are_read(
    tmp_path_factory: pytest.TempPathFactory, kinds: dict[str, tuple[type[np.generic], list[int]]]
) -> None:
    arrays = {
        name: np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
        for name, (dtype, shape) in kinds.items()
    }
    path = tmp_path_factory.mktemp("st") / "model.safetensors"
    safetensors.numpy.save_file(arrays, path)
    found = table_container(open_container(path)).arrays
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(to_numpy(found[name]), array)


ONE = {"w": entry("F32", [2], 0, 8)}
REFUSED = [
    pytest.param(build(ONE, bytes(7)), TruncatedError, "should have", id="data cut"),
    pytest.param(build(ONE, bytes(9)), CorruptContainerError, "1 bytes after the last", id="data left over"),
    pytest.param(build({}, bytes(1)), CorruptContainerError, "1 bytes after the last", id="no tensors but data"),
    pytest.param(build(ONE, bytes(8), length=1000), TruncatedError, "the header has 1000", id="header cut"),
    pytest.param(build({"w": entry("F32", [2], 4, 12)}, bytes(12)), CorruptContainerError, "begins at 4", id="gap"),
    pytest.param(
        build(ONE | {"v": entry("F32", [2], 4, 12)}, bytes(12)), CorruptContainerError, "ends at 8", id="overlap"
    ),
    pytest.param(build({"w": entry("F32", [3], 0, 8)}, bytes(8)), CorruptContainerError, "do not make", id="size"),
    pytest.param(build({"w": entry("F4", [3], 0, 2)}, bytes(2)), CorruptContainerError, "do not make", id="half byte"),
    pytest.param(build({"w": entry("F32", [2], 8, 0)}, bytes(8)), CorruptContainerError, "do not make", id="backwards"),
    pytest.param(build({"w": entry("F32", [-2], 0, 8)}, bytes(8)), CorruptContainerError, "damaged", id="negative"),
    pytest.param(build({"w": {"dtype": "F32"}}), CorruptContainerError, "damaged", id="missing fields"),
    pytest.param(build({"w": [1]}), CorruptContainerError, "damaged", id="no object"),
    pytest.param(build({"w": entry("Q9", [2], 0, 8)}, bytes(8)), UnsupportedError, "'Q9' is not known", id="dtype"),
    pytest.param(
        build({"__metadata__": {"a": 1}}), CorruptContainerError, "entry 'a' of __metadata__", id="metadata value"
    ),
    pytest.param(build({"__metadata__": []}), CorruptContainerError, "map of texts", id="metadata"),
    pytest.param(build(b'{"a": 1'), CorruptContainerError, "JSON text is damaged", id="no JSON"),
    pytest.param(build(b'{"a\xff": 1}'), CorruptContainerError, "JSON text is damaged", id="no UTF-8"),
]


@pytest.mark.parametrize(("data", "error", "message"), REFUSED)
def test_a_wrong_file_is_refused(save: Save, data: bytes, error: type[SourceError], message: str) -> None:
    with pytest.raises(error, match=message):
        open_container(save(data))


@pytest.mark.parametrize("data", [pytest.param(row.values[0], id=row.id) for row in REFUSED])
def test_the_library_refuses_the_same_files(save: Save, data: bytes) -> None:
    with pytest.raises(safetensors.SafetensorError):
        safetensors.numpy.load_file(save(data))


def test_a_name_that_stands_twice_is_refused_though_the_library_takes_the_last(save: Save) -> None:
    one = b'"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    with pytest.raises(CorruptContainerError, match="'w' stands twice"):
        open_container(save(build(b"{" + one + b"," + one + b"}")))


def test_fields_added_to_an_entry_later_are_passed_over(save: Save) -> None:
    container = table_container(open_container(save(build({"w": ONE["w"] | {"hint": 1}}, bytes(8)))))
    assert list(container.arrays) == ["w"]


def test_a_header_beyond_the_limit_is_refused(save: Save) -> None:
    data: Any = build(ONE, bytes(8))
    with pytest.raises(LimitError, match="max_header_bytes"):
        open_container(save(data), Limits(max_header_bytes=20))
