"""Typed access to the fields of JSON descriptions, with one wording for everything that does not hold together.

The descriptions in old TorchScript archives and in exported programs are serialised structures: fields that are absent are
empty or zero, and 64-bit numbers may be text. Not here: what the fields mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from importer.errors import CorruptContainerError, Location, shown
from importer.limits import DEFAULT_LIMITS

__all__ = ["JsonFields", "Message"]

Message = Mapping[str, object]
"""An object of the description."""

_LARGEST = 1 << 63
_DIGITS_64 = len(str(-(1 << 63)))


class JsonFields:
    """Reads fields of the description at `where`; every method raises CorruptContainerError for a value of another kind."""

    __slots__ = ("where",)

    def __init__(self, where: Location) -> None:
        self.where = where

    def message(self, parent: Message, key: str) -> Message:
        """Return an object; an absent one is empty."""
        value = parent.get(key, {})
        if not isinstance(value, dict):
            raise self.corrupt(f"{shown(key)} is no object")
        return value

    def messages(self, parent: Message, key: str) -> Sequence[Message]:
        """Return a list of objects; an absent one is empty."""
        value = parent.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.corrupt(f"{shown(key)} is no list of objects")
        return value

    def text(self, parent: Message, key: str) -> str:
        """Return a text; an absent one is empty."""
        value = parent.get(key, "")
        if not isinstance(value, str):
            raise self.corrupt(f"{shown(key)} is no text")
        return value

    def sizes(self, parent: Message, key: str) -> tuple[int, ...]:
        """Return sizes or strides in the form of exported programs: a list of objects with `as_int`."""
        entries = self.messages(parent, key)
        if len(entries) > DEFAULT_LIMITS.max_dimensions:
            raise self.corrupt(f"{shown(key)} has {len(entries)} numbers, one for each dimension of a tensor")
        return tuple(self.number(entry, "as_int") for entry in entries)

    def number(self, parent: Message, key: str) -> int:
        """Return a whole number, also where it is spelled as text; an absent one is 0."""
        return self._number(parent.get(key, 0), key)

    def numbers(self, parent: Message, key: str) -> tuple[int, ...]:
        """Return a list of whole numbers; an absent one is empty."""
        value = parent.get(key, [])
        if not isinstance(value, list):
            raise self.corrupt(f"{shown(key)} is no list of numbers")
        if len(value) > DEFAULT_LIMITS.max_dimensions:
            raise self.corrupt(f"{shown(key)} has {len(value)} numbers, one for each dimension of a tensor")
        return tuple(self._number(item, key) for item in value)

    def corrupt(self, what: str) -> CorruptContainerError:
        """Return the error for a description that does not hold together."""
        return CorruptContainerError(
            f"the description of the model is damaged: {what}", where=self.where, how="Download or copy the file again."
        )

    def _number(self, value: object, key: str) -> int:
        if (
            isinstance(value, str)
            and value.isascii()
            and value.removeprefix("-").isdecimal()
            and len(value) <= _DIGITS_64
        ):
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and -_LARGEST <= value < _LARGEST:
            return value
        raise self.corrupt(f"{shown(key)} is no number")
