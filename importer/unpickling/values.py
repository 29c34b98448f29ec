"""What a pickle turns into here: plain Python values and three inert nodes that stand for what would be run.

Not here: how they come about (`importer.unpickling.machine`), and what any of them means (`importer.checkpoint`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["Call", "Callee", "Global", "Key", "PersistentId", "Unpickled", "plain"]


@dataclass(frozen=True, slots=True)
class Global:
    """A class or function the pickle names. Never imported; module and name are as written, Python 2's included."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Call:
    """An object a plain unpickler would make by a call. Compared and hashed by identity, as the object would be.

    Not frozen: a pickle makes the object first and fills it afterwards, so that it can contain itself. Nothing changes it
    once the pickle is read.

    Attributes:
        callable: what would be called: a `Global`, the result of a `Call`, or a `PersistentId` (torch's old stream keeps
            module classes, with their source, as persistent ids).
        args: positional arguments.
        kwargs: keyword arguments of `NEWOBJ_EX`, else None.
        state: what `BUILD` would hand to `__setstate__`, or None.
        elements: what would be appended, or None.
        entries: what would be set by key, or None.
    """

    __slots__ = ("args", "callable", "elements", "entries", "kwargs", "state")

    def __init__(self, callable_: Callee, args: tuple[object, ...], kwargs: dict[object, object] | None = None) -> None:
        self.callable = callable_
        self.args = args
        self.kwargs = kwargs
        self.state: object = None
        self.elements: list[object] | None = None
        self.entries: dict[object, object] | None = None

    def __repr__(self) -> str:
        return f"<Call of {self.callable if isinstance(self.callable, Global) else type(self.callable).__name__}>"


@dataclass(slots=True, eq=False, repr=False)
class PersistentId:
    """Something that lies outside the pickle; for torch a storage, `("storage", class, key, location, elements)`."""

    value: object

    def __repr__(self) -> str:
        # Not the value: it can be nested deeper than Python's own repr can follow.
        return f"<PersistentId of a {type(self.value).__name__}>"


_SALT = os.urandom(16).hex()


class Key:
    """A key of a dictionary, or element of a set, whose hash a file could choose: a number, or what numbers are in.

    Equal where Python's own keys are. The hash is that of a text, with a salt: Python hashes numbers without one, so that a
    file could have thousands of them meet in one place, and each look-up pass them all.

    Attributes:
        value: the key as pickled.
    """

    __slots__ = ("_hash", "value")

    def __init__(self, value: object) -> None:
        self.value = value
        self._hash = hash(_SALT + _spelled(value))

    def __eq__(self, other: object) -> bool:
        return type(other) is Key and (self.value is other.value or self.value == other.value)

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return str(self.value)


def plain(key: object) -> object:
    """Return a key, or an element of a set, as pickled."""
    return key.value if type(key) is Key else key


def _spelled(value: object) -> str:
    """Return a text that is the same for equal keys (1, 1.0 and True are equal)."""
    if isinstance(value, int | float):
        whole = int(value) if isinstance(value, int) or value.is_integer() else None
        return value.hex() if whole is None and isinstance(value, float) else f"{whole:x}"
    if isinstance(value, tuple):
        return f"({','.join(map(_spelled, value))})"
    if isinstance(value, frozenset):
        return f"{{{','.join(sorted(_spelled(plain(part)) for part in value))}}}"
    if isinstance(value, str):
        return repr(value)
    return f"{type(value).__name__} {value!r}" if isinstance(value, bytes | type(None) | Global) else str(id(value))


Callee: TypeAlias = Global | Call | PersistentId
"""What a pickle can call."""


@dataclass(frozen=True, slots=True)
class Unpickled:
    """One pickle, read.

    Attributes:
        value: the object; shared parts are shared, cycles are cycles.
        end: offset of the first byte after `STOP`.
        globals: every class and function named, each once, in order of appearance - also where nothing keeps it.
        called: what would be called, each once, in the order of the first call.
        persistent_ids: every reference to the outside, in order, repetitions included.
        instantiated: classes of which empty objects would be made without a call of them (`NEWOBJ`), each once.
        handed: the calls that get a class, function, list or other call as their first argument, which they may call.
        nested: bytes that a plain unpickler would unpickle in turn.
    """

    value: object
    end: int
    globals: tuple[Global, ...]
    called: tuple[Callee, ...]
    persistent_ids: tuple[PersistentId, ...]
    instantiated: tuple[Callee, ...] = ()
    handed: tuple[Call, ...] = ()
    nested: tuple[object, ...] = ()
