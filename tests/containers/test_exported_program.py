"""Exported programs: weights by name from the archive of a graph."""

from __future__ import annotations

import json
from typing import Any

import pytest

from importer.arrays import to_numpy
from importer.containers import Opaque, open_container
from importer.errors import (
    CorruptContainerError,
    ImporterError,
    MissingFileError,
    TensorError,
    UnknownContainerError,
    UnsupportedError,
)
from tests.builders.states import COUNTS, WEIGHT, swapped
from tests.builders.zips import DEFLATED, Entry, build_zip, torch_zip
from tests.containers.conftest import Save, content, records, table_container


def payload(record: str, dtype: int, sizes: list[int], strides: list[int], offset: int = 0) -> dict[str, Any]:
    meta = {
        "dtype": dtype,
        "sizes": [{"as_int": size} for size in sizes],
        "strides": [{"as_int": stride} for stride in strides],
        "storage_offset": {"as_int": offset},
    }
    return {"path_name": record, "is_param": True, "use_pickle": False, "tensor_meta": meta}


WEIGHTS = {
    "fc.weight": payload("weight_0", 7, [3, 2], [1, 3]),
    "tied": payload("weight_0", 7, [6], [1]),
    "counts": payload("weight_1", 5, [2], [1], 1),
    "wrapped": {"path_name": "weight_2", "is_param": True, "use_pickle": True, "tensor_meta": None},
}


def exported(weights: object = None, *more: Entry, name: str = "model") -> bytes:
    """Return an exported program with two records of weights."""
    config = json.dumps({"config": WEIGHTS if weights is None else weights}).encode()
    return build_zip(
        [
            Entry("ex/archive_format", b"pt2"),
            Entry("ex/models/model.json", b"{}"),
            Entry("ex/data/weights/weight_0", WEIGHT.data),
            Entry("ex/data/weights/weight_1", COUNTS.data),
            Entry(f"ex/data/weights/{name}_weights_config.json", config),
            *more,
        ]
    )


def test_weights_come_by_name(save: Save) -> None:
    container = table_container(open_container(save(exported())))
    assert container.kind == "exported"
    assert {name: to_numpy(array).tolist() for name, array in container.arrays.items()} == {
        "fc.weight": [[0, 3], [1, 4], [2, 5]],
        "tied": [0, 1, 2, 3, 4, 5],
        "counts": [2, 1 << 40],
    }


def test_tensor_subclasses_are_told_apart(save: Save) -> None:
    container = table_container(open_container(save(exported())))
    assert container.opaque == (Opaque("wrapped", "wrapper", "a tensor subclass, stored as a pickle of its own"),)


def test_names_begin_with_the_model_where_there_are_several(save: Save) -> None:
    other = json.dumps({"config": {"bias": payload("weight_0", 7, [1], [1])}}).encode()
    data = exported({}, Entry("ex/data/weights/other_weights_config.json", other))
    assert list(table_container(open_container(save(data))).arrays) == ["other.bias"]


def test_the_byte_order_is_respected(save: Save) -> None:
    data = exported(
        {"x": payload("weight_2", 7, [6], [1])},
        Entry("ex/byteorder", b"big"),
        Entry("ex/data/weights/weight_2", swapped(WEIGHT)),
    )
    assert to_numpy(table_container(open_container(save(data))).arrays["x"]).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("weights", "error"),
    [
        pytest.param([], CorruptContainerError, id="no table"),
        pytest.param({"x": 1}, CorruptContainerError, id="no entry"),
        pytest.param({"x": payload("weight_9", 7, [1], [1])}, MissingFileError, id="record"),
        pytest.param({"x": payload("weight_0", 99, [1], [1])}, UnsupportedError, id="type"),
        pytest.param({"x": payload("weight_0", 7, [7], [1])}, TensorError, id="extent"),
        pytest.param({"x": payload("weight_0", 7, [1], [])}, TensorError, id="rank"),
    ],
)
def test_a_damaged_description_is_refused(save: Save, weights: object, error: type[ImporterError]) -> None:
    with pytest.raises(error):
        open_container(save(exported(weights)))


def test_the_checkpoint_inside_an_archive_before_2_8_is_read_in_place(save: Save) -> None:
    data = build_zip([Entry("version", b"5.1"), Entry("serialized_state_dict.pt", torch_zip())])
    assert {key: content(record.storage) for key, record in records(save(data)).items()} == {
        "0": WEIGHT.data,
        "1": COUNTS.data,
    }


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(Entry("serialized_state_dict.pt", torch_zip(), DEFLATED), id="deflated"),
        pytest.param(Entry("serialized_state_dict.pt", build_zip([Entry("x")])), id="another archive"),
    ],
)
def test_an_inner_file_that_is_no_checkpoint_is_refused(save: Save, entry: Entry) -> None:
    with pytest.raises(UnknownContainerError, match="no checkpoint that can be read in place"):
        open_container(save(build_zip([entry])))


def test_another_archive_format_is_no_exported_program(save: Save) -> None:
    with pytest.raises(UnknownContainerError, match="ZIP archive without"):
        open_container(save(build_zip([Entry("ex/archive_format", b"pt3")])))
