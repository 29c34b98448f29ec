"""The opcode table of pickle protocols 0 to 5, the readers of their arguments, and a disassembler over both.

The machine takes the arguments of all but the commonest opcodes through this table; nothing else says how long an
instruction is. Not here: what an opcode does (`importer.unpickling.actions`, `importer.unpickling.machine`).

Source: PEP 307 (protocol 2), PEP 3154 (4), PEP 574 (5), and the comments of CPython's pickle documentation.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from mmap import mmap
from typing import TypeAlias

__all__ = ["OPCODES", "Buffer", "Instruction", "Opcode", "disassemble"]

Buffer: TypeAlias = bytes | bytearray | memoryview | mmap
"""What a pickle may be read from; a memory-mapped file is not copied."""

Argument: TypeAlias = int | float | bytes | tuple[bytes, bytes] | None
Reader: TypeAlias = Callable[[Buffer, int], tuple[Argument, int]]

_LINE_BYTES = 128


@dataclass(frozen=True, slots=True)
class Opcode:
    """An opcode: its byte, its name, and how its argument is read (argument and offset behind it)."""

    code: int
    name: str
    read: Reader


@dataclass(frozen=True, slots=True)
class Instruction:
    """One opcode where it stands, with its argument undecoded: numbers as numbers, text and longs as bytes."""

    offset: int
    opcode: Opcode
    argument: Argument


def _nothing(_data: Buffer, position: int) -> tuple[None, int]:
    """Read no argument."""
    return None, position


def _taken(data: Buffer, position: int, length: int) -> tuple[bytes, int]:
    """Read `length` bytes; lengths come from the file, so they are checked before anything is made that large.

    Raises:
        EOFError: fewer bytes are left, or the length is negative.
    """
    end = position + length
    if not position <= end <= len(data):
        raise EOFError
    return bytes(data[position:end]), end


def _number(form: str) -> Reader:
    """Return a reader of one fixed-size number."""
    layout = struct.Struct(form)

    def read(data: Buffer, position: int) -> tuple[Argument, int]:
        if position + layout.size > len(data):
            raise EOFError
        return layout.unpack_from(data, position)[0], position + layout.size

    return read


def _counted(form: str) -> Reader:
    """Return a reader of bytes with their length in front."""
    read_length = _number(form)

    def read(data: Buffer, position: int) -> tuple[Argument, int]:
        length, position = read_length(data, position)
        assert isinstance(length, int)
        return _taken(data, position, length)

    return read


def _line(data: Buffer, position: int) -> tuple[bytes, int]:
    """Read up to a newline, which is left out; in steps that double, since a memoryview cannot be searched.

    Raises:
        EOFError: there is no newline.
    """
    length = _LINE_BYTES
    while True:
        piece = bytes(data[position : position + length])
        end = piece.find(b"\n")
        if end >= 0:
            return piece[:end], position + end + 1
        if len(piece) < length:
            raise EOFError
        length *= 2


def _two_lines(data: Buffer, position: int) -> tuple[tuple[bytes, bytes], int]:
    """Read two lines: the module and name of a global."""
    first, position = _line(data, position)
    second, position = _line(data, position)
    return (first, second), position


_U1, _U2, _U4, _U8, _I4, _F8 = (_number(form) for form in ("<B", "<H", "<I", "<Q", "<i", ">d"))
_C1, _C4, _C8, _CI4 = (_counted(form) for form in ("<B", "<I", "<Q", "<i"))

_TABLE: tuple[tuple[bytes, str, Reader], ...] = (
    # Protocol 0: everything is text.
    (b"(", "MARK", _nothing),
    (b".", "STOP", _nothing),
    (b"0", "POP", _nothing),
    (b"1", "POP_MARK", _nothing),
    (b"2", "DUP", _nothing),
    (b"F", "FLOAT", _line),
    (b"I", "INT", _line),
    (b"L", "LONG", _line),
    (b"N", "NONE", _nothing),
    (b"P", "PERSID", _line),
    (b"R", "REDUCE", _nothing),
    (b"S", "STRING", _line),
    (b"V", "UNICODE", _line),
    (b"a", "APPEND", _nothing),
    (b"b", "BUILD", _nothing),
    (b"c", "GLOBAL", _two_lines),
    (b"d", "DICT", _nothing),
    (b"g", "GET", _line),
    (b"i", "INST", _two_lines),
    (b"l", "LIST", _nothing),
    (b"p", "PUT", _line),
    (b"s", "SETITEM", _nothing),
    (b"t", "TUPLE", _nothing),
    # Protocol 1: binary forms, batches.
    (b")", "EMPTY_TUPLE", _nothing),
    (b"G", "BINFLOAT", _F8),
    (b"J", "BININT", _I4),
    (b"K", "BININT1", _U1),
    (b"M", "BININT2", _U2),
    (b"Q", "BINPERSID", _nothing),
    (b"T", "BINSTRING", _CI4),
    (b"U", "SHORT_BINSTRING", _C1),
    (b"X", "BINUNICODE", _C4),
    (b"]", "EMPTY_LIST", _nothing),
    (b"e", "APPENDS", _nothing),
    (b"h", "BINGET", _U1),
    (b"j", "LONG_BINGET", _U4),
    (b"o", "OBJ", _nothing),
    (b"q", "BINPUT", _U1),
    (b"r", "LONG_BINPUT", _U4),
    (b"u", "SETITEMS", _nothing),
    (b"}", "EMPTY_DICT", _nothing),
    # Protocol 2: what torch.save writes.
    (b"\x80", "PROTO", _U1),
    (b"\x81", "NEWOBJ", _nothing),
    (b"\x82", "EXT1", _U1),
    (b"\x83", "EXT2", _U2),
    (b"\x84", "EXT4", _I4),
    (b"\x85", "TUPLE1", _nothing),
    (b"\x86", "TUPLE2", _nothing),
    (b"\x87", "TUPLE3", _nothing),
    (b"\x88", "NEWTRUE", _nothing),
    (b"\x89", "NEWFALSE", _nothing),
    (b"\x8a", "LONG1", _C1),
    (b"\x8b", "LONG4", _CI4),
    # Protocol 3: bytes.
    (b"B", "BINBYTES", _C4),
    (b"C", "SHORT_BINBYTES", _C1),
    # Protocol 4: frames, short and very long forms, sets.
    (b"\x8c", "SHORT_BINUNICODE", _C1),
    (b"\x8d", "BINUNICODE8", _C8),
    (b"\x8e", "BINBYTES8", _C8),
    (b"\x8f", "EMPTY_SET", _nothing),
    (b"\x90", "ADDITEMS", _nothing),
    (b"\x91", "FROZENSET", _nothing),
    (b"\x92", "NEWOBJ_EX", _nothing),
    (b"\x93", "STACK_GLOBAL", _nothing),
    (b"\x94", "MEMOIZE", _nothing),
    (b"\x95", "FRAME", _U8),
    # Protocol 5: buffers.
    (b"\x96", "BYTEARRAY8", _C8),
    (b"\x97", "NEXT_BUFFER", _nothing),
    (b"\x98", "READONLY_BUFFER", _nothing),
)

OPCODES: dict[int, Opcode] = {code[0]: Opcode(code[0], name, read) for code, name, read in _TABLE}
"""Every opcode by its byte."""


def disassemble(data: Buffer, start: int = 0) -> Iterator[Instruction]:
    """Yield the instructions of the pickle at `start`, up to and with `STOP`; nothing is carried out.

    Raises:
        EOFError: the bytes end before `STOP`.
        KeyError: a byte is no opcode.
    """
    position = start
    while True:
        if position >= len(data):
            raise EOFError
        opcode = OPCODES[data[position]]
        argument, end = opcode.read(data, position + 1)
        yield Instruction(position, opcode, argument)
        if opcode.name == "STOP":
            return
        position = end
