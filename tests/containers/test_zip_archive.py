"""ZIP directories: what is read, and one row for every way in which an archive can be wrong."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from importer.containers.zip_archive import ZipArchive, has_directory
from importer.errors import CorruptContainerError, LimitError, SourceError, TruncatedError, UnsupportedError
from importer.limits import DEFAULT_LIMITS, Limits
from importer.storages import InflatedRange, SourceFile
from tests.builders.zips import DEFLATED, Entry, build_zip
from tests.containers.conftest import Save, content

ENTRIES = [Entry("a/data.pkl", b"pickle"), Entry("a/data/0", bytes(range(100)))]


def archive(path: Path, limits: Limits = DEFAULT_LIMITS) -> ZipArchive:
    return ZipArchive(SourceFile(path), limits)


def read(path: Path, name: str, limits: Limits = DEFAULT_LIMITS) -> bytes:
    return archive(path, limits).read(name, "max_pickle_bytes")


def replaced(**fields: object) -> list[Entry]:
    """Return the sample with fields of its first entry changed."""
    return [dataclasses.replace(ENTRIES[0], **fields), ENTRIES[1]]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(build_zip(ENTRIES), id="plain"),
        pytest.param(build_zip([dataclasses.replace(e, method=DEFLATED) for e in ENTRIES]), id="deflated"),
        pytest.param(build_zip([dataclasses.replace(e, wide=True) for e in ENTRIES], wide_end=True), id="zip64"),
        pytest.param(build_zip([dataclasses.replace(e, descriptor=True) for e in ENTRIES]), id="descriptors"),
        pytest.param(build_zip([dataclasses.replace(e, extra=b"FB\x04\x00ZZZZ") for e in ENTRIES]), id="padding"),
        pytest.param(build_zip([dataclasses.replace(e, crc=0) for e in ENTRIES]), id="checksums not computed"),
        pytest.param(build_zip(ENTRIES, before=b"#!/bin/sh\n" * 9), id="bytes before the archive"),
        pytest.param(build_zip(ENTRIES, before=b"#!/bin/sh\n" * 9, wide_end=True), id="bytes before zip64"),
        pytest.param(build_zip(ENTRIES, comment=b"made by hand"), id="comment"),
        pytest.param(build_zip(ENTRIES) + b"trailing", id="bytes after the archive"),
        pytest.param(build_zip([Entry("a/"), *ENTRIES]), id="folder entries"),
    ],
)
def test_both_records_are_read(save: Save, data: bytes) -> None:
    path = save(data)
    assert list(archive(path).entries) == ["a/data.pkl", "a/data/0"]
    assert read(path, "a/data.pkl") == b"pickle"
    assert content(archive(path).storage("a/data/0")) == bytes(range(100))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        pytest.param([*ENTRIES, ENTRIES[0]], "twice", id="duplicate"),
        pytest.param(replaced(flags=1), "encrypted", id="encrypted"),
        pytest.param(replaced(flags=0x2000), "encrypted", id="masked header"),
        pytest.param(replaced(size=7), "two sizes differ", id="stored with two sizes"),
        pytest.param([*ENTRIES, Entry("b", header_at=0)], "overlaps", id="overlap"),
        pytest.param(replaced(header_at=10**6), "overlaps", id="header behind the directory"),
    ],
)
def test_entries_that_readers_disagree_about_are_refused(save: Save, entries: Sequence[Entry], message: str) -> None:
    with pytest.raises(CorruptContainerError, match=message):
        archive(save(build_zip(entries)))


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        pytest.param(replaced(local_name="a/data.txt"), "calls it 'a/data.txt'", id="name"),
        pytest.param(replaced(local_flags=1), "flags and method", id="flags"),
        pytest.param(replaced(local_crc=5), "sizes or checksum", id="checksum"),
        pytest.param(replaced(crc=0x1234), "the directory says 0x00001234", id="contents"),
        pytest.param(replaced(header_at=1, extra=bytes(8)), "no header", id="header offset"),
        pytest.param(replaced(method=DEFLATED, crc=0x1234), "checksum", id="deflated contents"),
        pytest.param(replaced(method=DEFLATED, size=3), "more than the declared 3", id="deflated, longer"),
        pytest.param(replaced(method=DEFLATED, size=300), "inflates to 6 bytes", id="deflated, shorter"),
        pytest.param(
            [Entry("a/data.pkl", b"pickle", extra=bytes(8)), Entry("b", b"x", header_at=36 + 10)],
            "overlaps the next",
            id="extra field that reaches into the next entry",
        ),
    ],
)
def test_a_record_that_contradicts_the_directory_is_refused(save: Save, entries: Sequence[Entry], message: str) -> None:
    path = save(build_zip(entries))
    with pytest.raises(CorruptContainerError, match=message):
        read(path, "a/data.pkl")


def test_the_header_of_a_data_record_is_checked_when_its_bytes_are_read(save: Save) -> None:
    path = save(build_zip([ENTRIES[0], dataclasses.replace(ENTRIES[1], local_name="a/data/1")]))
    storage = archive(path).storage("a/data/0")
    with pytest.raises(CorruptContainerError, match="calls it 'a/data/1'"):
        content(storage)


def test_damaged_deflate_data_is_refused(save: Save) -> None:
    entry = Entry("a", b"pickle" * 50, DEFLATED)
    data = build_zip([entry])
    with pytest.raises(CorruptContainerError, match="damaged"):
        read(save(data[:31] + b"\xff\xff\xff\xff" + data[35:]), "a")


def test_a_method_other_than_deflate_is_refused_when_the_record_is_used(save: Save) -> None:
    path = save(build_zip([Entry("a", b"x", method=12)]))
    with pytest.raises(UnsupportedError, match="method 12"):
        archive(path).storage("a")


def test_a_record_larger_than_its_limit_is_refused_before_it_is_read(save: Save) -> None:
    path = save(build_zip(ENTRIES))
    with pytest.raises(LimitError, match="max_pickle_bytes: allowed 5, found 6"):
        read(path, "a/data.pkl", Limits(max_pickle_bytes=5))


def test_a_record_that_inflates_too_much_is_refused(save: Save) -> None:
    path = save(build_zip([Entry("a", bytes(100_000), DEFLATED)]))
    with pytest.raises(LimitError, match="max_inflation: allowed 200"):
        archive(path, Limits(free_inflation=1000)).storage("a")


def test_a_large_record_that_inflates_by_little_is_allowed(save: Save) -> None:
    path = save(build_zip([Entry("a", bytes(range(256)) * 10, DEFLATED)]))
    assert isinstance(archive(path, Limits(free_inflation=1000)).storage("a"), InflatedRange)


def test_too_many_entries_are_refused(save: Save) -> None:
    with pytest.raises(LimitError, match="max_archive_entries: allowed 1, found 2"):
        archive(save(build_zip(ENTRIES)), Limits(max_archive_entries=1))


def test_a_directory_that_is_too_large_is_refused(save: Save) -> None:
    with pytest.raises(LimitError, match="max_header_bytes: allowed 50, found 110"):
        archive(save(build_zip(ENTRIES)), Limits(max_header_bytes=50))


def test_an_archive_that_was_cut_off_has_no_directory(save: Save) -> None:
    with pytest.raises(TruncatedError, match="no directory"):
        archive(save(build_zip(ENTRIES)[:-30]))


def test_an_archive_in_several_files_is_refused(save: Save) -> None:
    with pytest.raises(UnsupportedError, match="split over several files"):
        archive(save(build_zip(ENTRIES, disk=1)))


def _patched(data: bytes, at: int, value: bytes) -> bytes:
    at %= len(data)
    return data[:at] + value + data[at + len(value) :]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(_patched(build_zip(ENTRIES), -10, b"\xff\xff"), "outside of the file", id="size of the directory"),
        pytest.param(_patched(build_zip(ENTRIES), -12, b"\x09\x00"), "do not fit", id="count"),
        pytest.param(_patched(build_zip(ENTRIES), -12, b"\x01\x00"), "more than 1 entries", id="count too small"),
        pytest.param(
            _patched(build_zip([Entry("a" * 99)]), -12, b"\x02\x00"), "ends within an entry", id="one too many"
        ),
        pytest.param(_patched(build_zip(ENTRIES), -22 - 54 - 56, b"PK\x09\x09"), "an entry is damaged", id="signature"),
        pytest.param(
            _patched(build_zip(ENTRIES, wide_end=True), -42 - 56, b"PK\x09\x09"), "zip64 end record", id="zip64"
        ),
        pytest.param(_patched(build_zip(ENTRIES, wide_end=True), -12, b"\x01\x00"), "contradict", id="two end records"),
    ],
)
def test_a_damaged_directory_is_refused(save: Save, data: bytes, message: str) -> None:
    with pytest.raises(CorruptContainerError, match=message):
        archive(save(data))


def test_a_zip64_record_is_found_before_its_locator_wherever_that_points(save: Save) -> None:
    data = _patched(build_zip(ENTRIES, wide_end=True), -34, b"\xff" * 8)
    assert read(save(data), "a/data.pkl") == b"pickle"


def test_an_archive_inside_a_larger_file_is_read_within_its_bounds(save: Save) -> None:
    data = build_zip(ENTRIES)
    file = SourceFile(save(b"before" + data + build_zip([Entry("other")])))
    inner = ZipArchive(file, DEFAULT_LIMITS, start=6, end=6 + len(data))
    assert inner.read("a/data.pkl", "max_pickle_bytes") == b"pickle"
    assert inner.archive_start == 6


def test_the_end_of_an_archive_is_recognised(save: Save) -> None:
    assert has_directory(SourceFile(save(build_zip([]))))
    assert not has_directory(SourceFile(save(b"something else entirely, longer than an end record")))


def test_a_name_that_is_no_utf8_stays_distinct(save: Save) -> None:
    data = build_zip([Entry("aX", b"1"), Entry("aY", b"2")])
    names = list(archive(save(data.replace(b"aX", b"a\xff").replace(b"aY", b"a\xfe"))).entries)
    assert len(set(names)) == 2


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(st.text("abc/é", min_size=1, max_size=6).filter(lambda n: n[-1] != "/"), st.binary(max_size=50)),
    st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
    st.binary(max_size=20),
)
def test_archives_of_the_standard_library_are_read(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], method: int, before: bytes
) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as writer:
        for name, data in files.items():
            writer.writestr(name, data)
    path = tmp_path_factory.mktemp("zip") / "x.zip"
    path.write_bytes(before + buffer.getvalue())
    found = archive(path)
    assert {name: found.read(name, "max_pickle_bytes") for name in found.entries} == files


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 400), st.integers(0, 255))
def test_an_archive_with_one_byte_changed_is_read_as_it_was_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, value: int
) -> None:
    data = _patched(build_zip(ENTRIES), at, bytes([value]))
    path = tmp_path_factory.mktemp("zip") / "x.zip"
    path.write_bytes(data)
    try:
        found = archive(path)
        contents = [found.read(name, "max_pickle_bytes") for name in found.entries]
    except SourceError:
        return
    assert contents == [entry.data for entry in ENTRIES]
