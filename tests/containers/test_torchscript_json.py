"""TorchScript archives before torch 1.3, described by a protocol buffer in JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from importer.arrays import to_numpy
from importer.containers import open_container
from importer.errors import (
    CorruptContainerError,
    ImporterError,
    LimitError,
    MissingFileError,
    TensorError,
    UnsupportedError,
)
from importer.limits import Limits
from importer.unpickling import Call, Global
from tests.builders.pickles import dump
from tests.builders.states import COUNTS, WEIGHT
from tests.builders.zips import Entry, build_zip
from tests.containers.conftest import Save, table_container


def tensor_def(kind: str, key: str, dims: list[str], strides: list[str], offset: str = "0") -> dict[str, Any]:
    return {"dims": dims, "offset": offset, "strides": strides, "dataType": kind, "data": {"key": key}, "device": "cpu"}


def model() -> dict[str, Any]:
    """Return a description with a child, a buffer before a parameter, and fields left out where they are zero."""
    child = {"name": "fc", "parameters": [{"name": "weight", "tensorId": "1"}]}
    return {
        "protoVersion": "2",
        "mainModule": {
            "name": "Net",
            "submodules": [child, {"name": "empty"}],
            "parameters": [{"isBuffer": True, "name": "counts"}, {"isBuffer": False, "tensorId": "2", "name": "first"}],
            "attributes": [{"type": "Tensor", "name": "counts", "id": "-1"}],
        },
        "tensors": [
            tensor_def("INT64", "tensors/1", ["2"], ["1"], "1"),
            tensor_def("FLOAT", "tensors/0", ["3", "2"], ["1", "3"]),
            tensor_def("FLOAT", "tensors/0", [], []),
        ],
    }


def archive(description: object, attributes: object = None) -> bytes:
    entries = [
        Entry("m/version", b"1\n"),
        Entry("m/tensors/0", WEIGHT.data),
        Entry("m/tensors/1", COUNTS.data),
        Entry("m/model.json", json.dumps(description).encode()),
    ]
    return build_zip(entries if attributes is None else [*entries, Entry("m/attributes.pkl", dump(attributes))])


def tensor_by_number(number: int) -> Call:
    return Call(Global("torch.jit._pickle", "build_tensor_from_id"), (number,))


def test_names_come_as_state_dict_gives_them(save: Save) -> None:
    container = table_container(open_container(save(archive(model()))))
    assert container.kind == "torchscript"
    assert list(container.arrays) == ["first", "counts", "fc.weight"]
    values = {name: to_numpy(array).tolist() for name, array in container.arrays.items()}
    assert values == {"first": 0.0, "counts": [2, 1 << 40], "fc.weight": [[0, 3], [1, 4], [2, 5]]}


def with_attributes(*attributes: dict[str, str]) -> dict[str, Any]:
    """Return the description as torch 1.1 writes it: buffers are attributes."""
    return changed("mainModule", "attributes", value=list(attributes))


def test_attributes_that_are_tensors_are_buffers_since_torch_1_1(save: Save) -> None:
    description = with_attributes(
        {"type": "Tensor", "name": "mask", "id": "1"},
        {"type": "List[int]", "name": "sizes", "id": "0"},
        {"type": "Tensor", "name": "packed", "id": "-1"},
        {"type": "Tensor", "name": "counts", "id": "1"},  # named among the buffers already
    )
    data = archive(description, ([1, 2], tensor_by_number(0)))
    container = table_container(open_container(save(data)))
    assert list(container.arrays) == ["first", "counts", "mask", "fc.weight"]
    assert to_numpy(container.arrays["mask"]).tolist() == [2, 1 << 40]


@pytest.mark.parametrize("values", [None, (), [], 5, (5,), (tensor_by_number(9),), (Call(Global("a", "b"), (0,)),)])
def test_an_attribute_that_should_be_a_tensor_and_is_none_is_refused(save: Save, values: object) -> None:
    description = with_attributes({"type": "Tensor", "name": "mask", "id": "0"})
    with pytest.raises(CorruptContainerError, match="mask"):
        open_container(save(archive(description, values)))


def changed(*path: Any, value: object) -> dict[str, Any]:
    """Return the description with one field replaced."""
    description = model()
    target: Any = description
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return description


@pytest.mark.parametrize(
    ("description", "error"),
    [
        pytest.param(changed("mainModule", value=3), CorruptContainerError, id="module"),
        pytest.param(changed("tensors", value={}), CorruptContainerError, id="tensors"),
        pytest.param(changed("tensors", 0, value=1), CorruptContainerError, id="tensor"),
        pytest.param(changed("tensors", 0, "dims", value="2"), CorruptContainerError, id="dims"),
        pytest.param(changed("tensors", 0, "dims", value=["two"]), CorruptContainerError, id="dim"),
        pytest.param(changed("tensors", 0, "offset", value=True), CorruptContainerError, id="offset"),
        pytest.param(changed("tensors", 0, "data", "key", value=1), CorruptContainerError, id="key"),
        pytest.param(changed("tensors", 0, "data", "key", value="tensors/9"), MissingFileError, id="record"),
        pytest.param(changed("tensors", 0, "dims", value=["-2"]), TensorError, id="negative"),
        pytest.param(changed("tensors", 0, "dims", value=[9]), TensorError, id="too large"),
        pytest.param(changed("tensors", 0, "dataType", value="STRING"), UnsupportedError, id="type"),
        pytest.param(changed("tensors", 0, "isQuantized", value=True), UnsupportedError, id="quantized"),
        pytest.param(changed("mainModule", "parameters", 0, "tensorId", value="9"), CorruptContainerError, id="number"),
        pytest.param(changed("mainModule", "parameters", 0, "name", value="first"), CorruptContainerError, id="twice"),
    ],
)
def test_a_damaged_description_is_refused(save: Save, description: object, error: type[ImporterError]) -> None:
    with pytest.raises(error):
        open_container(save(archive(description)))


def test_modules_nested_too_deeply_are_refused(save: Save) -> None:
    module: dict[str, Any] = {"name": "leaf"}
    for _ in range(5):
        module = {"name": "m", "submodules": [module]}
    with pytest.raises(LimitError, match="max_nesting"):
        open_container(save(archive({"mainModule": module})), Limits(max_nesting=4))
