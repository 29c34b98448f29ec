"""Pickle bytes to inert values, by our own machine over our own opcode table; constructs and imports nothing.

`unpickle` reads one pickle; `disassemble` lists its instructions without carrying them out.
"""

from importer.unpickling.machine import collection_paused, unpickle
from importer.unpickling.opcodes import OPCODES, Buffer, Instruction, Opcode, disassemble
from importer.unpickling.values import Call, Callee, Global, Key, PersistentId, Unpickled, plain

__all__ = [
    "OPCODES",
    "Buffer",
    "Call",
    "Callee",
    "Global",
    "Instruction",
    "Key",
    "Opcode",
    "PersistentId",
    "Unpickled",
    "collection_paused",
    "disassemble",
    "plain",
    "unpickle",
]
