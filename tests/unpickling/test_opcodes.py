"""The opcode table, the readers of arguments, and the disassembler."""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from importer.unpickling import OPCODES, disassemble
from importer.unpickling.actions import ACTIONS
from tests.builders.pickles import dump, tensor

IN_THE_LOOP = {
    *("MARK", "STOP", "BINPUT", "LONG_BINPUT", "BINGET", "BININT1", "BININT2", "BINUNICODE"),
    *("TUPLE", "TUPLE1", "EMPTY_TUPLE", "BINPERSID", "NEWFALSE"),
}


def test_the_table_has_the_68_opcodes_of_protocols_0_to_5() -> None:
    assert len(OPCODES) == 68
    assert len({opcode.name for opcode in OPCODES.values()}) == 68


def test_every_opcode_is_carried_out_in_the_loop_or_by_an_action() -> None:
    assert {opcode.name for opcode in OPCODES.values()} == ACTIONS.keys() | IN_THE_LOOP


@pytest.mark.parametrize(
    ("instruction", "name", "argument"),
    [
        (b"K\x07", "BININT1", 7),
        (b"M\x01\x02", "BININT2", 0x0201),
        (b"J\xff\xff\xff\xff", "BININT", -1),
        (b"G\x3f\xf0\0\0\0\0\0\0", "BINFLOAT", 1.0),
        (b"\x8a\x02\xff\x00", "LONG1", b"\xff\x00"),
        (b"X\x02\0\0\0ab", "BINUNICODE", b"ab"),
        (b"\x8d\x01\0\0\0\0\0\0\0a", "BINUNICODE8", b"a"),
        (b"T\x01\0\0\0a", "BINSTRING", b"a"),
        (b"I12\n", "INT", b"12"),
        (b"ccollections\nOrderedDict\n", "GLOBAL", (b"collections", b"OrderedDict")),
        (b"\x95\x01\0\0\0\0\0\0\0", "FRAME", 1),
        (b"N", "NONE", None),
    ],
)
def test_an_argument_is_read(instruction: bytes, name: str, argument: object) -> None:
    first, last = disassemble(instruction + b".")
    assert (first.offset, first.opcode.name, first.argument) == (0, name, argument)
    assert (last.offset, last.opcode.name) == (len(instruction), "STOP")


def test_a_line_longer_than_the_first_step_is_read_whole() -> None:
    line = b"9" * 1000
    first, _ = disassemble(b"I" + line + b"\n.")
    assert first.argument == line


@pytest.mark.parametrize("data", [b"", b"N", b"K", b"X\x05\0\0\0ab.", b"T\xff\xff\xff\xffa.", b"I12"], ids=repr)
def test_bytes_that_end_too_early_are_an_end_of_file(data: bytes) -> None:
    with pytest.raises(EOFError):
        list(disassemble(data))


def test_a_byte_that_is_no_opcode_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        list(disassemble(b"\xff."))


def test_bytes_a_view_and_a_mapped_file_are_listed_alike(tmp_path: Path) -> None:
    data = dump({"weight": tensor()})
    path = tmp_path / "pickle"
    path.write_bytes(data)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        listed = list(disassemble(mapped))
    assert listed == list(disassemble(data)) == list(disassemble(memoryview(data)))


def test_listing_begins_where_it_is_told() -> None:
    assert [item.offset for item in disassemble(b"....N.", 4)] == [4, 5]
