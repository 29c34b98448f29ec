"""What reading one source may cost: one account, in proportion to its files, that every path draws on.

Single bounds (`limits`) keep single things small. What they cannot see is a small thing that is there a thousand times: a
name, an attribute, an array that the file holds once and uses again and again. So whatever is made, kept or gone through
once more is paid for here, in bytes of memory or in steps of about that much time; and a source that asks for far more than its
size is refused, whichever way it took. Not here: the sizes of tensors (`importer.checkpoint.opening` holds them
against the files), which cost nothing until they are read.
"""

from __future__ import annotations

from importer.errors import LimitError, Location
from importer.limits import DEFAULT_LIMITS, HOSTILE_HOW, Limits

__all__ = ["CONTAINER", "INFLATED_HOW", "JSON_BYTE", "OPCODE", "SET", "STEP", "TENSOR", "VALUE", "Budget"]

STEP = 96
"""One value looked at, or one entry passed over: about a microsecond."""
OPCODE = 64
"""One instruction of a pickle: what the commonest ones make, list, tuple or call, takes about that."""
SET = 160
"""What an empty set takes more than that."""
CONTAINER = 400
"""A container that is entered: its place in the tree, beside its path."""
TENSOR = 600
"""A tensor taken down, beside its name."""
VALUE = 250
"""A plain value or a remark taken down, beside its name."""
JSON_BYTE = 16
"""What a byte of JSON comes to as Python's objects; lists within lists take more, entries of a header less."""

INFLATED_HOW = "Weights do not compress like that. If you trust the file, unpack and zip it without compression."


class Budget:
    """The account of one source, shared by all files that are opened for it.

    Attributes:
        limits: the bounds on single things; `free_cost` and `max_cost_per_byte` say how much this account holds.
        left: what may still be spent. Loops take from it themselves and call `exhausted` once it is below 0.
        checksums: whether every record that is read has its checksum compared, which costs a pass over its bytes.
    """

    __slots__ = ("_compressed", "_inflated", "_nbytes", "checksums", "left", "limits")

    def __init__(self, limits: Limits = DEFAULT_LIMITS, nbytes: int = 0, *, checksums: bool = True) -> None:
        """Open an account for `nbytes` of files."""
        self.limits = limits
        self.checksums = checksums
        self.left = limits.free_cost
        self._nbytes = 0
        self._inflated = self._compressed = 0
        self.add(nbytes)

    def add(self, nbytes: int) -> None:
        """Pay in for a file of `nbytes` that is opened too."""
        self._nbytes += nbytes
        self.left += nbytes * self.limits.max_cost_per_byte

    def spend(self, cost: int, where: Location | None = None) -> None:
        """Take `cost` out.

        Raises:
            LimitError: there is not so much left.
        """
        self.left -= cost
        if self.left < 0:
            raise self.exhausted(where)

    def exhausted(self, where: Location | None = None) -> LimitError:
        """Return the error for an account that is overdrawn."""
        limits = self.limits
        spent = limits.free_cost + self._nbytes * limits.max_cost_per_byte - self.left
        what = (
            f"what its {self._nbytes} bytes stand for would take far more than they do: parts are used again and again, or "
            "inflate"
        )
        return limits.passed("max_cost_per_byte", spent // max(1, self._nbytes), what, where, HOSTILE_HOW)

    def inflate(self, nbytes: int, compressed: int, where: Location) -> None:
        """Pay for a deflated record that is unpacked into a temporary file.

        Raises:
            LimitError: all of them together inflate too much.
        """
        self._inflated += nbytes
        self._compressed += compressed
        allowed = self.limits.max_inflation
        if self._inflated > max(self.limits.free_inflation, self._compressed * allowed):
            factor = self._inflated // max(self._compressed, 1)
            what = "the deflated records inflate too much"
            raise self.limits.passed("max_inflation", factor, what, where, INFLATED_HOW)
