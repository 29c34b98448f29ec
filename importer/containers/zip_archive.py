"""ZIP archives: the central directory, and records as byte ranges, with one reading or none.

Different ZIP readers see different contents in a crafted file: duplicate names, local headers that contradict the
directory, overlapping entries, skipped checksums. This reader refuses each of these, so that what it lists is what every
other reader loads. Contents are held against their checksums when they are read, unless that is switched off. Nothing is ever extracted to a path. Not here: which records a checkpoint has (`torch_zip`).

Format facts: PKWARE APPNOTE 6.3 sections 4.3 and 4.5.3. Offsets count from the start of the archive, which need not be
the start of the file; torch writes a checksum of 0 where it was told not to compute one.
"""

from __future__ import annotations

import struct
import threading
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from importer.budgets import INFLATED_HOW
from importer.errors import CorruptContainerError, Location, TruncatedError, UnsupportedError, shown
from importer.limits import Limits
from importer.storages import FileRange, InflatedRange, SourceFile, Storage

__all__ = ["ZipArchive", "ZipEntry", "ends_as_archive", "has_directory"]

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
# Versions, times and attributes, which nothing here depends on, are skipped.
_CENTRAL = struct.Struct("<4s4x2H4x3L3H8xL")
_LOCAL = struct.Struct("<4s5H3L2H")
_EXTRA = struct.Struct("<2H")

# A header with its name and padding, as torch writes it; longer ones take a second read.
_USUAL_HEADER_BYTES = 256

_END_SIGNATURE = b"PK\x05\x06"
_LOCAL_SIGNATURE = b"PK\x03\x04"
_CENTRAL_SIGNATURE = b"PK\x01\x02"
_MAX_COMMENT = 0xFFFF
_UNKNOWN_16, _UNKNOWN_32 = 0xFFFF, 0xFFFFFFFF
_ZIP64_EXTRA = 1

_STORED, _DEFLATED = 0, 8
# Bit 0 encrypted, bit 6 strong encryption, bit 13 local header masked.
_ENCRYPTED = 0x2041
# Bit 3: sizes and checksum follow the data, and the local header may hold zeros instead.
_DESCRIPTOR_FOLLOWS = 0x8

_INFLATED_BYTE = 4
"""What a byte of a small record that inflates costs: text of pickles takes up to four bytes a character."""

_HOW = "Download or copy the file again."


_CHECKED_BYTES = 1 << 20
_CHECKING = tuple(threading.Lock() for _ in range(64))
"""Locks of entries, by their place: 100,000 entries need not have one each."""


@dataclass(slots=True, eq=False)
class ZipEntry:
    """One entry of the directory. Not frozen, only never changed once read: archives of torch have 100,000.

    Attributes:
        file: the file it lies in.
        name: as in the directory; bytes that are no UTF-8 as surrogates.
        method: 0 stored, 8 deflated.
        crc: CRC-32 of the contents, 0 also when it was not computed.
        compressed: bytes in the file.
        size: bytes of the contents.
        header: offset of the local header in the file.
        end: offset in the file up to which the entry may reach: the next header, or the directory.
        begin: where the data begins, once its checksum has been compared; -1 before.
    """

    file: SourceFile
    name: str
    method: int
    crc: int
    compressed: int
    size: int
    header: int
    end: int
    begin: int = -1

    @property
    def where(self) -> Location:
        """Its header, for errors."""
        return Location(path=self.file.path, record=self.name, offset=self.header)

    def locate(self) -> int:
        """Return where the data begins, after comparing the entry's own header with the directory.

        Raises:
            CorruptContainerError: they contradict each other, or the data reaches into the next entry.
            SourceError: the header cannot be read.
        """
        block = self.file.read(self.header, max(_LOCAL.size, min(_USUAL_HEADER_BYTES, self.end - self.header)))
        signature, _, flags, method, _, _, crc, compressed, size, name_length, extra_length = _LOCAL.unpack_from(block)
        if signature != _LOCAL_SIGNATURE:
            raise self.corrupt("there is no header where the directory says")
        begin = self.header + _LOCAL.size
        variable = block[_LOCAL.size : _LOCAL.size + name_length + extra_length]
        if len(variable) < name_length + extra_length:
            variable = self.file.read(begin, name_length + extra_length)
        if _text(variable[:name_length]) != self.name:
            raise self.corrupt(f"its own header calls it {shown(_text(variable[:name_length]))}")
        if (flags & _ENCRYPTED, method) != (0, self.method):
            raise self.corrupt("flags and method of its own header are not those of the directory")
        size, compressed = _zip64(variable[name_length:], [size, compressed])
        found, told = (crc, compressed, size), (self.crc, self.compressed, self.size)
        if found != told and not (flags & _DESCRIPTOR_FOLLOWS and set(found) == {0}):
            raise self.corrupt("sizes or checksum in its own header are not those of the directory")
        data: int = begin + name_length + extra_length
        if data + self.compressed > self.end:
            raise self.corrupt("it overlaps the next entry")
        return data

    def locate_checked(self) -> int:
        """Return where the data begins, after comparing the contents of a stored entry with its checksum, once.

        A checksum of 0 means that none was computed. The bytes are read here and again by whoever wants them: by then they
        lie in the system's cache.

        Raises:
            CorruptContainerError: as `locate`, or the contents are not those that were written.
        """
        with _CHECKING[self.header % len(_CHECKING)]:  # the others who want this entry wait for the one who checks it
            if self.begin < 0:
                begin = self.locate()
                if self.crc:
                    self._check_contents(begin)
                self.begin = begin
        return self.begin

    def _check_contents(self, begin: int) -> None:
        block = memoryview(bytearray(min(_CHECKED_BYTES, self.size)))
        found = done = 0
        while done < self.size:
            part = block[: min(len(block), self.size - done)]
            self.file.read_into(begin + done, part)
            found = zlib.crc32(part, found)
            done += len(part)
        if found != self.crc:
            raise self.changed(found)

    def changed(self, found: int) -> CorruptContainerError:
        """Return the error for contents whose checksum is `found` and not what the directory says."""
        return CorruptContainerError(
            f"record {shown(self.name)} is damaged: its checksum is {found:#010x}, the directory says {self.crc:#010x}",
            where=self.where,
            how="Download or copy the file again. If a program changed it and left the checksum alone, read it with "
            "--no-checksums (checksums=False).",
        )

    def corrupt(self, what: str) -> CorruptContainerError:
        """Return the error for a damaged entry."""
        return CorruptContainerError(f"record {shown(self.name)} is damaged: {what}", where=self.where, how=_HOW)

    def contested(self, what: str) -> CorruptContainerError:
        """Return the error for an entry that readers disagree about."""
        return CorruptContainerError(
            f"record {shown(self.name)} {what}",
            where=self.where,
            how="Do not trust this file; get it from its source.",
        )


class _Directory(NamedTuple):
    """Where the central directory lies: offsets in the file, and how far the archive start is from the file start."""

    start: int
    size: int
    entries: int
    archive_start: int


class ZipArchive:
    """The directory of an archive; records are read by name.

    Attributes:
        file: the open file.
        entries: by name, in directory order, folder entries left out.
        first_folder: with its slash, the folder of the first entry, in which torch looks for everything.
        archive_start: bytes before the archive.
    """

    __slots__ = ("_by_lower_case", "_limits", "_paid", "archive_start", "entries", "file", "first_folder")

    def __init__(self, file: SourceFile, limits: Limits, *, start: int = 0, end: int | None = None) -> None:
        """Read and check the directory; `start` and `end` bound an archive that is part of a larger file.

        Raises:
            TruncatedError: there is no directory, as when a download was cut off.
            CorruptContainerError: the directory is damaged, or has duplicates, overlaps or encrypted entries.
            LimitError: more entries than `max_archive_entries`, or a directory of more than `max_header_bytes`.
        """
        self.file = file
        self._limits = limits
        bounds = (start, file.size if end is None else end)
        directory = _find_directory(file, *bounds)
        self._check_limit("max_archive_entries", directory.entries, directory)
        self._check_limit("max_header_bytes", directory.size, directory)
        self.archive_start = directory.archive_start
        entries = _read_directory(file, directory)
        _settle_ends(entries, directory)
        self.first_folder = next(iter(entries), "").partition("/")[0] + "/"
        for name in [name for name in entries if name.endswith("/")]:
            del entries[name]
        self.entries: Mapping[str, ZipEntry] = entries
        self._by_lower_case = _without_case(entries)
        self._paid: set[str] = set()

    def find(self, name: str) -> str | None:
        """Return the entry of that name as the directory spells it: torch looks names up without regard to case."""
        return name if name in self.entries else self._by_lower_case.get(name.lower())

    def read(self, name: str, limit: str) -> bytes:
        """Return the whole contents of a small record; `limit` names the field of `Limits` that bounds it.

        Raises:
            LimitError: larger than that limit, or inflating too much.
            CorruptContainerError: header, length or checksum contradict the directory.
            UnsupportedError: compressed by another method than deflate.
        """
        entry = self.entries[name]
        self._limits.require(limit, entry.size, f"record {shown(name)} is too large", entry.where)
        storage = self._storage(entry)
        if isinstance(storage, InflatedRange):
            self.file.budget.spend(_INFLATED_BYTE * entry.size, entry.where)
            return b"".join(storage.blocks())
        data = self.file.read(entry.locate(), entry.size)
        if entry.crc and self.file.budget.checksums and (found := zlib.crc32(data, 0)) != entry.crc:
            raise entry.changed(found)
        return data

    def storage(self, name: str) -> Storage:
        """Return a record as bytes to be read on demand; its local header is checked at the first read.

        Raises:
            LimitError: it inflates too much, or all that were asked for do.
            UnsupportedError: compressed by another method than deflate.
        """
        entry = self.entries[name]
        storage = self._storage(entry)
        if isinstance(storage, InflatedRange) and name not in self._paid:
            self._paid.add(name)
            self.file.budget.inflate(entry.size, entry.compressed, entry.where)
        return storage

    def _storage(self, entry: ZipEntry) -> FileRange | InflatedRange:
        name = entry.name
        if entry.method == _STORED:
            checked = self.file.budget.checksums
            return FileRange(self.file, entry.locate_checked if checked else entry.locate, entry.size, name)
        if entry.method != _DEFLATED:
            raise UnsupportedError(
                f"record {shown(name)} is compressed by method {entry.method}; only deflate is read",
                where=entry.where,
                how="Unpack the archive and zip it again without compression.",
            )
        self._check_inflation(entry)
        compressed = FileRange(self.file, entry.locate, entry.compressed, name)
        return InflatedRange(compressed, entry.size, entry.crc if self.file.budget.checksums else 0, name)

    def _check_limit(self, limit: str, actual: int, directory: _Directory) -> None:
        where = Location(path=self.file.path, offset=directory.start)
        self._limits.require(limit, actual, "the directory of the archive is too large", where)

    def _check_inflation(self, entry: ZipEntry) -> None:
        if entry.size > self._limits.free_inflation and entry.size > entry.compressed * self._limits.max_inflation:
            factor = entry.size // max(entry.compressed, 1)
            what = f"record {shown(entry.name)} inflates too much"
            raise self._limits.passed("max_inflation", factor, what, entry.where, INFLATED_HOW)


def has_directory(file: SourceFile) -> bool:
    """Whether a file ends like a ZIP archive, or has the end of one within its last bytes."""
    return _find_end(file, 0, file.size) is not None


def ends_as_archive(file: SourceFile) -> bool:
    """Whether a file ends with exactly the end record of a ZIP archive, so that its readers take it for one."""
    found = _find_end(file, 0, file.size)
    if found is None:
        return False
    position, record = found
    *_, comment = _END.unpack(record)
    return position + _END.size + int(comment) == file.size


def _without_case(entries: Mapping[str, ZipEntry]) -> dict[str, str]:
    """Return the names by their lower case.

    Raises:
        CorruptContainerError: two differ in nothing else: torch takes either for the other.
    """
    names = {name.lower(): name for name in entries}
    if len(names) < len(entries):
        entry = next(entry for name, entry in entries.items() if names[name.lower()] != name)
        raise entry.contested("has a twin whose name differs in upper and lower case only")
    return names


def _find_directory(file: SourceFile, start: int, end: int) -> _Directory:
    """Locate the central directory from the end of the archive, through the zip64 records where there are any."""
    found = _find_end(file, start, end)
    if found is None:
        raise TruncatedError(
            "the ZIP archive has no directory at its end",
            where=Location(path=file.path, offset=end),
            how="The download or copy was cut off: get the file again.",
        )
    position, record = found
    _, disk, first_disk, _, count, size, offset, _ = _END.unpack(record)
    if disk not in {0, _UNKNOWN_16} or first_disk not in {0, _UNKNOWN_16}:
        raise UnsupportedError(
            "the archive is split over several files",
            where=Location(path=file.path, offset=position),
            how="Join the parts first (zip -s 0 parts.zip --out whole.zip).",
        )
    position, count, size, offset = _read_end64(file, start, position, (count, size, offset))
    directory_start = position - size
    archive_start = directory_start - offset
    if directory_start < start or archive_start < start:
        raise _corrupt_directory(file, position, "its own end record points outside of the file")
    if archive_start > start:
        _check_only_archive(file, start, offset)
    return _Directory(directory_start, size, count, archive_start)


def _check_only_archive(file: SourceFile, start: int, offset: int) -> None:
    """Refuse bytes before an archive that are one too: readers that count from the file's start see that one.

    Raises:
        CorruptContainerError: they are.
    """
    begins = file.read(start, len(_LOCAL_SIGNATURE)) == _LOCAL_SIGNATURE
    at = start + offset
    if begins or (
        at + len(_CENTRAL_SIGNATURE) <= file.size and file.read(at, len(_CENTRAL_SIGNATURE)) == _CENTRAL_SIGNATURE
    ):
        raise CorruptContainerError(
            "the file holds two archives, one after the other, and readers differ in which one they take",
            where=Location(path=file.path, offset=start),
            how="Data files of a distributed checkpoint (.distcp) are so: for one of these pass its folder, with '.metadata' "
            "in it. Do not trust any other; get it from its source.",
        )


def _find_end(file: SourceFile, start: int, end: int) -> tuple[int, bytes] | None:
    """Return offset and bytes of the end record: the last one, as every reader takes it, whatever follows it."""
    # Archives without a comment, as torch writes them, need not have their last 64 KiB read.
    for tail_length in (_END.size, _END.size + _MAX_COMMENT):
        tail_start = max(start, end - tail_length)
        tail = file.read(tail_start, end - tail_start)
        found = tail.rfind(_END_SIGNATURE)
        if 0 <= found <= len(tail) - _END.size:
            return tail_start + found, tail[found : found + _END.size]
    return None


def _read_end64(file: SourceFile, start: int, position: int, plain: tuple[int, int, int]) -> tuple[int, int, int, int]:
    """Return position, entry count, directory size and offset from the zip64 end record, or `plain` without one."""
    locator = position - _END64_LOCATOR.size
    if locator < start:
        return position, *plain
    signature, _, offset, _ = _END64_LOCATOR.unpack(file.read(locator, _END64_LOCATOR.size))
    if signature != b"PK\x06\x07":
        return position, *plain
    for record in (start + offset, locator - _END64.size):
        if start <= record <= locator - _END64.size:
            fields = _END64.unpack(file.read(record, _END64.size))
            if fields[0] == b"PK\x06\x06":
                _check_agreement(file, record, plain, fields[7:])
                return record, *fields[7:]
    raise _corrupt_directory(file, locator, "the zip64 end record is missing")


def _check_agreement(file: SourceFile, record: int, plain: tuple[int, ...], wide: tuple[int, ...]) -> None:
    """Refuse two end records that describe two directories: which one counts would depend on the reader."""
    for short, long, unknown in zip(plain, wide, (_UNKNOWN_16, _UNKNOWN_32, _UNKNOWN_32), strict=True):
        if short not in {long, unknown}:
            raise _corrupt_directory(file, record, "its two end records contradict each other")


def _read_directory(file: SourceFile, directory: _Directory) -> dict[str, ZipEntry]:
    """Parse and check the directory in one pass.

    The end of an entry is the least one it can have: its own header may have more extra fields than are counted here.
    """
    # Every entry takes 46 bytes at least, so a count that does not fit is found before anything is built from it.
    if directory.entries * _CENTRAL.size > directory.size:
        raise _corrupt_directory(file, directory.start, f"{directory.entries} entries do not fit into it")
    data = file.read(directory.start, directory.size)
    last = len(data) - _CENTRAL.size
    entries: dict[str, ZipEntry] = {}
    at = 0
    for _ in range(directory.entries):
        if at > last:
            raise _corrupt_directory(file, directory.start + at, "it ends within an entry")
        signature, flags, method, crc, compressed, size, name_length, extra_length, comment_length, header = (
            _CENTRAL.unpack_from(data, at)
        )
        name_at = at + _CENTRAL.size
        extra_at = name_at + name_length
        at = extra_at + extra_length + comment_length
        if signature != _CENTRAL_SIGNATURE or at > len(data):
            raise _corrupt_directory(file, directory.start + name_at - _CENTRAL.size, "an entry is damaged")
        name = _text(data[name_at:extra_at])
        if _UNKNOWN_32 in (size, compressed, header):
            size, compressed, header = _zip64(data[extra_at : extra_at + extra_length], [size, compressed, header])
        header += directory.archive_start
        end = header + _LOCAL.size + name_length + compressed
        entry = ZipEntry(file, name, method, crc, compressed, size, header, end)
        if name in entries:
            raise entry.contested("is in the archive twice")
        if flags & _ENCRYPTED:
            raise entry.contested("is encrypted")
        if size != compressed and method == _STORED:
            raise entry.contested("is stored, but its two sizes differ")
        entries[name] = entry
    if at != len(data):
        # Readers that go by the size would see more entries than those that go by the count.
        raise _corrupt_directory(file, directory.start + at, f"it has more than {directory.entries} entries")
    return entries


def _settle_ends(entries: Mapping[str, ZipEntry], directory: _Directory) -> None:
    """Check the entries against each other and give each the offset it may reach up to.

    Raises:
        CorruptContainerError: two overlap.
    """
    end = directory.start
    for entry in sorted(entries.values(), key=attrgetter("header"), reverse=True):
        if entry.end > end:
            raise entry.contested("overlaps another entry")
        entry.end = end
        end = entry.header


def _zip64(extra: bytes, values: list[int]) -> list[int]:
    """Replace the unknown ones of `values` by the zip64 extra field, in its order; leave them if there is none."""
    at = 0
    while at + _EXTRA.size <= len(extra):
        kind, length = _EXTRA.unpack_from(extra, at)
        at += _EXTRA.size
        if kind == _ZIP64_EXTRA:
            unknown = [index for index, value in enumerate(values) if value == _UNKNOWN_32]
            field = extra[at : at + min(length, 8 * len(unknown))]
            known = list(values)
            for index, (value,) in zip(unknown, struct.iter_unpack("<Q", field[: len(field) // 8 * 8]), strict=False):
                known[index] = value
            return known
        at += length
    return values


def _corrupt_directory(file: SourceFile, offset: int, what: str) -> CorruptContainerError:
    return CorruptContainerError(
        f"the directory of the ZIP archive is damaged: {what}", where=Location(path=file.path, offset=offset), how=_HOW
    )


def _text(name: bytes) -> str:
    # One reading whatever the flags say: names of records are ASCII, and others only have to stay distinct.
    return name.decode("utf-8", "surrogateescape")
