"""Opening files and reading small JSON documents, with errors that say what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from importer.containers.files import is_folder, open_source, parse_json_object, path_inside, read_json_object
from importer.errors import CorruptContainerError, LimitError, Location, MissingFileError, SourceError
from importer.limits import DEFAULT_LIMITS, Limits
from importer.storages import SourceFile
from tests.containers.conftest import Save

WHERE = Location(path="index.json")


def test_a_file_is_opened(save: Save) -> None:
    assert open_source(save(b"abc")).read(1, 2) == b"bc"


def test_a_file_that_does_not_exist_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="no such file"):
        open_source(tmp_path / "absent.pt")


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="no regular file"):
        open_source(tmp_path / "pipe")


def test_a_folder_is_told_from_a_file(save: Save, tmp_path: Path) -> None:
    assert is_folder(tmp_path)
    assert not is_folder(save(b""))


def test_a_place_one_may_not_look_at_is_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def denied(_: Path) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "is_dir", denied)
    assert not is_folder(tmp_path)


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        pytest.param(errno.EMFILE, "ulimit -n", id="too many files"),
        pytest.param(errno.EACCES, "permissions", id="denied"),
    ],
)
def test_an_error_of_the_system_comes_with_advice(
    save: Save, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    def refuse(*_: object) -> SourceFile:
        raise OSError(number, "no")

    path = save(b"abc")
    monkeypatch.setattr("importer.containers.files.SourceFile", refuse)
    with pytest.raises(SourceError, match=f"cannot be opened.*{advice}"):
        open_source(path)


def test_a_json_document_is_read(save: Save) -> None:
    assert read_json_object(save(b'{"a": [1]}'), DEFAULT_LIMITS) == {"a": [1]}


@pytest.mark.parametrize(
    "data",
    [
        b'\xef\xbb\xbf{"a": "\xc3\xa9"}',
        '{"a": "é"}'.encode("utf-16"),
        '{"a": "é"}'.encode("utf-16-le"),
        '{"a": "é"}'.encode("utf-16-be"),
        b"\xfe\xff" + '{"a": "é"}'.encode("utf-16-be"),
    ],
    ids=["utf-8 with mark", "utf-16 with mark", "utf-16 le", "utf-16 be", "utf-16 be with mark"],
)
def test_what_editors_put_before_the_text_does_no_harm(data: bytes) -> None:
    assert parse_json_object(data, WHERE) == {"a": "é"}


def test_a_document_beyond_the_limit_is_refused_unread(save: Save) -> None:
    with pytest.raises(LimitError, match="max_text_record_bytes: allowed 5, found 10"):
        read_json_object(save(b'{"a": [1]}'), Limits(max_text_record_bytes=5))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"{", "damaged", id="cut"),
        pytest.param(b"\xff\x00\xff", "no JSON but of an unknown kind", id="binary"),
        pytest.param(b'{"\xff": 1}', "damaged", id="no UTF-8"),
        pytest.param(b'{\n "a": 1,\n}', r"index.json:3:1.*a comma before the closing bracket", id="trailing comma"),
        pytest.param(b'{"a": [1, 2,]}', "a comma before the closing bracket", id="trailing comma in a list"),
        pytest.param(b'{"a": 1 // one\n}', "a comment", id="comment"),
        pytest.param(b"{'a': 1}", "single quotes", id="single quotes"),
        pytest.param(b'{"a": ', "ends too early", id="cut in a value"),
        pytest.param(b"", "no JSON but an empty file", id="empty"),
        pytest.param(b"<!DOCTYPE html><html>", "no JSON but an HTML page", id="html"),
        pytest.param(b'<?xml version="1.0"?><Error/>', "no JSON but an XML document", id="xml"),
        pytest.param(b"Entry not found", "no JSON but text", id="text"),
        pytest.param(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "Git LFS", id="lfs"),
        pytest.param(b"[" * 100_000, "damaged", id="deep"),
        pytest.param(b"[1]", "no object", id="list"),
        pytest.param(b'{"a": 1, "b": 2, "a": 3}', "'a' stands twice", id="key twice"),
        pytest.param(b'{"x": {"b": 2, "b": 3}}', "'b' stands twice", id="inner key twice"),
    ],
)
def test_a_damaged_document_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(CorruptContainerError, match=message):
        parse_json_object(data, WHERE)


@pytest.mark.parametrize("name", ["model.bin", "sub/model.bin", "model..bin", "./model.bin"])
def test_a_name_inside_the_folder_is_a_path(name: str) -> None:
    assert path_inside(Path("/models"), name, WHERE) == Path("/models") / name


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../model.bin", "a/../../b", "..", "c:\\model.bin", "a\\b", "c:model", "a\0b"]
)
def test_a_name_that_leaves_the_folder_is_refused(name: str) -> None:
    with pytest.raises(CorruptContainerError, match=r"leaves the folder|no file can be called"):
        path_inside(Path("/models"), name, WHERE)
