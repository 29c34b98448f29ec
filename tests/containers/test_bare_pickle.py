"""Pickles without an archive."""

from __future__ import annotations

import pytest

from importer.containers import open_container
from importer.errors import LimitError, MalformedPickleError, MissingFileError
from importer.limits import Limits
from importer.unpickling import PersistentId
from tests.builders.states import MODEL, number, pickled, state_dict, table
from tests.containers.conftest import Save, pickle_container


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(pickled(table({"epoch": number(3)})), id="protocol 2"),
        pytest.param(b"(dp0\nVepoch\np1\nI3\ns.", id="protocol 0"),
        pytest.param(b"}X\x05\x00\x00\x00epochK\x03s.", id="protocol 1"),
    ],
)
def test_plain_values_are_read(save: Save, data: bytes) -> None:
    container = pickle_container(open_container(save(data)))
    assert (container.kind, container.tree.value, container.notes) == ("pickle", {"epoch": 3}, ())


def test_the_inner_pickle_of_an_archive_asks_for_the_whole(save: Save) -> None:
    with pytest.raises(MissingFileError, match=r"data\.pkl of a checkpoint.*Pass the whole archive"):
        open_container(save(pickled(state_dict(MODEL)), "data.pkl"))


def test_a_bare_pickle_resolves_nothing(save: Save) -> None:
    container = pickle_container(open_container(save(b"\x80\x02N.")))
    with pytest.raises(MissingFileError):
        container.resolve(PersistentId("0"))


def test_bytes_after_the_pickle_are_noted(save: Save) -> None:
    container = pickle_container(open_container(save(b"\x80\x02N.xyz")))
    assert container.notes == ("3 bytes after the pickle are ignored",)


def test_a_damaged_pickle_is_refused_as_a_pickle(save: Save) -> None:
    with pytest.raises(MalformedPickleError):
        open_container(save(b"\x80\x02\xff."))


def test_a_pickle_longer_than_its_limit_is_refused(save: Save) -> None:
    with pytest.raises(LimitError, match="max_pickle_bytes"):
        open_container(save(pickled(b"]" * 100)), Limits(max_pickle_bytes=50))
