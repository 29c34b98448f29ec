"""Storages pickled within a pickle: the bytes `torch.save(storage)` wrote, as an argument."""

from __future__ import annotations

import numpy as np
import pytest

from importer.arrays import to_numpy
from importer.budgets import Budget
from importer.checkpoint.embedded import embedded_storage, is_embedded
from importer.checkpoint.found import Dense
from importer.checkpoint.tensors import TensorReader
from importer.errors import MalformedPickleError, TensorError, TruncatedError
from importer.unpickling import PersistentId
from tests.builders.pickles import call, dump, glob, storage, tensor
from tests.checkpoint.conftest import SIX_FLOATS, WHERE, resolve, walked

HEAD = dump(0x1950A86A20F9469CFC6C) + dump(1001) + dump({"little_endian": True})
COUNT = (6).to_bytes(8, "little")
STREAM = HEAD + dump(storage("940", 6)) + dump(["940"]) + COUNT + SIX_FLOATS
LOAD = "torch.storage._load_from_bytes"


def test_tensors_over_an_embedded_storage_have_its_values() -> None:
    embedded = call(LOAD, STREAM)
    findings = walked({"a": tensor(of=embedded), "b": tensor((3, 2), stride=(1, 3), of=embedded)})
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(to_numpy(findings.tensors["a"].array), values)
    np.testing.assert_array_equal(to_numpy(findings.tensors["b"].array), values.T)


def test_tensors_over_the_same_embedded_storage_are_tied_and_equal_bytes_are_not() -> None:
    one, other = call(LOAD, STREAM), call(LOAD, STREAM)
    pair = (tensor(of=one), tensor(of=one), tensor(of=other))
    reader = TensorReader(resolve, WHERE)
    first, second, apart = (reader.read(node) for node in pair)
    assert isinstance(first, Dense)
    assert isinstance(second, Dense)
    assert isinstance(apart, Dense)
    assert first.identity == second.identity != apart.identity


def test_bytes_as_protocol_2_writes_them_are_read() -> None:
    embedded = call(LOAD, call("_codecs.encode", STREAM.decode("latin-1"), "latin1"))
    assert walked({"a": tensor(of=embedded)}).tensors["a"].shape == (2, 3)


def test_only_torchs_own_function_makes_one() -> None:
    assert is_embedded(call(LOAD, STREAM))
    assert not is_embedded(call("m.load", STREAM))


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ((), TensorError),
        ((1,), TensorError),
        ((b"",), TruncatedError),
        ((b"<html>",), MalformedPickleError),
        ((HEAD + dump("no storage") + dump([]),), TensorError),
        ((HEAD + dump(PersistentId(("module", glob("m.F")))) + dump([]),), TensorError),
        ((HEAD + dump(storage("940", 6)) + dump(["941"]),), TensorError),
        ((STREAM[:-1],), TensorError),
    ],
    ids=["nothing", "a number", "empty", "a page", "no storage", "a class", "another key", "cut off"],
)
def test_bytes_that_are_no_whole_storage_are_an_error(args: tuple[object, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        embedded_storage(call(LOAD, *args), "key", WHERE, Budget())
