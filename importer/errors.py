"""The whole error tree: every failure a user can cause, as what / where / how to mend.

Nothing of the package is imported here, so every other module can raise from it. Not here: the *collected*
entries of a report (`importer.report`), which describe single tensors and do not stop the run by themselves.

    ImporterError                     code, what, where, how, exit_code
    ├── UsageError            2       a call or option that makes no sense
    ├── RecipeError           2       one or more faults in recipes, all of them, each with file:line:column
    ├── DecisionNeededError   2       the tool would have to guess; carries the lines to add
    ├── SourceError           3       the input was refused
    │   ├── UnknownContainerError     not a checkpoint at all (says what it looks like)
    │   ├── CorruptContainerError     damaged or contradictory archive, index or header
    │   ├── TruncatedError            the file ends before its own tables say it should
    │   ├── MissingFileError          a file or shard that should be there is not
    │   ├── MalformedPickleError      a byte stream that is no well-formed pickle
    │   ├── DangerousPickleError      a pickle that would run code under a plain unpickler
    │   ├── TensorError               one tensor's description does not fit its storage
    │   ├── UnsupportedError          understood, but not representable here
    │   └── LimitError                a bound on untrusted input; carries limit, allowed, actual
    └── WriteError            4       the output could not be written
        ├── OutputExistsError         the target exists and --overwrite was not given
        ├── DiskSpaceError            the output would not fit
        └── UnrepresentableError      the output format has no place for a dtype, name or size
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from reprlib import Repr
from typing import ClassVar

__all__ = [
    "CorruptContainerError",
    "DangerousPickleError",
    "DecisionNeededError",
    "DiskSpaceError",
    "ImporterError",
    "LimitError",
    "Location",
    "MalformedPickleError",
    "MissingFileError",
    "OutputExistsError",
    "RecipeError",
    "SourceError",
    "TensorError",
    "TruncatedError",
    "UnknownContainerError",
    "UnrepresentableError",
    "UnsupportedError",
    "UsageError",
    "WriteError",
    "did_you_mean",
    "printable",
    "shown",
]

_SHOWN_CHARACTERS = 80
_SHOWN_BITS = 128
_LONGEST_MESSAGE = 2_000
"""Characters of one clause of an error. Names in it are shortened by `shown`; this holds what lists many, or a shape."""
_MOST_LINES = 200
_CONTAINERS = (tuple, list, dict, set, frozenset)


class _BoundedRepr(Repr):
    """A `repr` that spells no endless number out, which Python would refuse beyond 4,300 digits."""

    def repr_int(self, x: int, level: int) -> str:  # noqa: ARG002 - as `reprlib` calls it
        return _number(x)


def _bounded_repr() -> Repr:
    """Return a `repr` that goes two levels deep: a file can nest a value 10,000 deep, or be all but endless by sharing."""
    bounded = _BoundedRepr()
    bounded.maxlevel = 2
    bounded.maxtuple = bounded.maxlist = bounded.maxdict = bounded.maxset = bounded.maxfrozenset = 8
    return bounded


_BOUNDED = _bounded_repr()


def shown(value: object) -> str:
    """Return a text or any other value quoted, escaped and shortened, safe to print on a terminal.

    Values come from untrusted files: control characters and escape sequences must not reach the terminal raw, and a
    container is not written out further than its first levels.
    """
    plain = value if isinstance(value, str) else _plain(value)
    if len(plain) > _SHOWN_CHARACTERS:
        half = _SHOWN_CHARACTERS // 2
        plain = f"{plain[:half]}…{plain[-half:]}"
    return ascii(plain) if not plain.isprintable() else repr(plain)


def _plain(value: object) -> str:
    if isinstance(value, int):
        return _number(value)
    return _BOUNDED.repr(value) if isinstance(value, _CONTAINERS) else str(value)


def _number(value: float) -> str:
    """Return a number; a very long one by its length."""
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"a number of {value.bit_length()} bits"
    return str(value)


def _bounded(text: str, longest: int) -> str:
    """Return a text without its middle, if it is longer than anybody reads."""
    half = longest // 2
    return text if len(text) <= longest else f"{text[:half]} … {text[-half:]}"


def printable(text: str) -> str:
    """Return `text` with control, format and surrogate characters escaped, unquoted and in full length."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def did_you_mean(word: str, known: Iterable[str], otherwise: str, *, most: int = 1, cutoff: float = 0.6) -> str:
    """Return a hint naming the nearest known words, at most `most`, or `otherwise` if none is near."""
    from difflib import get_close_matches  # a run without a mistake does not load it

    near = get_close_matches(word, list(known), n=most, cutoff=cutoff)
    return f"Did you mean {' or '.join(near)}?" if near else otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a fault lies: a file, and as far as known a record in it, a byte offset, or a line and column."""

    path: str
    record: str | None = None
    offset: int | None = None
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        text = self.path
        if self.record is not None:
            text += f"!{self.record}"
        if self.line is not None:
            text += f":{self.line}"
            if self.column is not None:
                text += f":{self.column}"
        if self.offset is not None:
            text += f" @ {self.offset:#x}"
        return printable(text)


class ImporterError(Exception):
    """Root of every error this package raises on purpose.

    Attributes:
        code: stable short name of the kind of failure, for scripts.
        exit_code: what the command line ends with.
        what: one clause saying what is wrong.
        where: file, record, offset or line, when known.
        how: one action that mends it.
    """

    code: ClassVar[str] = "importer"
    exit_code: ClassVar[int] = 70

    def __init__(self, what: str, *, how: str, where: Location | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.how = how

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where is not None else ""
        what, how = printable(_bounded(self.what, _LONGEST_MESSAGE)), printable(_bounded(self.how, _LONGEST_MESSAGE))
        return f"{place}{what}. {how}" if how else f"{place}{what}."


class UsageError(ImporterError):
    """A call or option that makes no sense as given."""

    code = "usage"
    exit_code = 2


class RecipeError(ImporterError):
    """Recipes with faults; `faults` holds every one of them, in file order."""

    code = "recipe"
    exit_code = 2

    def __init__(
        self, what: str, *, how: str, where: Location | None = None, faults: tuple[RecipeError, ...] = ()
    ) -> None:
        super().__init__(what, how=how, where=where)
        self.faults = faults or (self,)

    def __str__(self) -> str:
        if self.faults == (self,):
            return ImporterError.__str__(self)
        lines = [ImporterError.__str__(fault) for fault in self.faults[:_MOST_LINES]]
        if len(self.faults) > _MOST_LINES:
            lines.append(f"and {len(self.faults) - _MOST_LINES} more")
        return "\n".join([f"{printable(self.what)}:", *(f"  {line}" for line in lines), printable(self.how)])


class DecisionNeededError(ImporterError):
    """The conversion would have to guess something that could be wrong unseen; `lines` are the ones to add."""

    code = "decision-needed"
    exit_code = 2

    def __init__(self, what: str, *, how: str, where: Location | None = None, lines: tuple[str, ...] = ()) -> None:
        super().__init__(what, how=how, where=where)
        self.lines = lines

    def __str__(self) -> str:
        lines = [printable(_bounded(line, _LONGEST_MESSAGE)) for line in self.lines[:_MOST_LINES]]
        return "\n".join([ImporterError.__str__(self), *lines])


class SourceError(ImporterError):
    """The input was refused."""

    code = "source"
    exit_code = 3


class UnknownContainerError(SourceError):
    """The input is no checkpoint; the message says what it looks like."""

    code = "unknown-container"


class CorruptContainerError(SourceError):
    """An archive, index or header is damaged or contradicts itself."""

    code = "corrupt-container"


class TruncatedError(SourceError):
    """The file ends before its own tables say it should."""

    code = "truncated"


class MissingFileError(SourceError):
    """A file, shard or record that is referred to does not exist."""

    code = "missing-file"


class MalformedPickleError(SourceError):
    """A byte stream that is no well-formed pickle, or applies opcodes to the wrong kind of value."""

    code = "malformed-pickle"


class DangerousPickleError(SourceError):
    """A pickle whose calls would run code under a plain unpickler."""

    code = "dangerous-pickle"


class TensorError(SourceError):
    """A tensor whose dtype, shape, strides or extent do not fit the storage it names."""

    code = "tensor"


class UnsupportedError(SourceError):
    """Something understood that has no representation here."""

    code = "unsupported"


class LimitError(SourceError):
    """A bound on untrusted input was passed. Carries the limit's name, the allowed and the actual value."""

    code = "limit"

    def __init__(
        self, what: str, *, limit: str, allowed: float, actual: float, how: str, where: Location | None = None
    ) -> None:
        super().__init__(f"{what} ({limit}: allowed {_number(allowed)}, found {_number(actual)})", how=how, where=where)
        self.limit = limit
        self.allowed = allowed
        self.actual = actual


class WriteError(ImporterError):
    """The output could not be written."""

    code = "write"
    exit_code = 4


class OutputExistsError(WriteError):
    """The target exists already, or appeared while the output was being written."""

    code = "output-exists"


class DiskSpaceError(WriteError):
    """The file system has less free space than the plan needs."""

    code = "disk-space"


class UnrepresentableError(WriteError):
    """The output format has no place for a dtype, a name, a count or a size."""

    code = "unrepresentable"
