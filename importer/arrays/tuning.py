"""How large the pieces are in which arrays are read, computed and written: one value, measured (docs/performance.md).

Nothing here changes a byte of the result. Not here: what the sizes are used for (`loops`, `tiles`, `arithmetic`).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Tuning", "current", "use"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Sizes in bytes, or in elements where the name says so."""

    read_over: int = 4096
    """A gap up to this long is read over: that costs less than another system call."""

    cached: int = 1 << 20
    """Output that is worked on at a time: it stays in the processor's second-level cache until it is written."""

    call: int = 32 << 10
    """So many bytes are copied from the page cache in the time that a read takes besides."""

    run: int = 128
    """Shortest run of reads worth a loop of its own."""

    long_read: int = 16 << 10
    """Reads from this length on are as fast as they get."""

    kernel_elements: int = 1 << 16
    """Per call of a kernel, so that its intermediate results stay in the processor's cache."""

    decoded_elements: int = 1 << 16
    """Elements of quantised weights decoded at a time: with their intermediate results they stay in the second-level cache."""

    strip_rows: int = 128
    strip_columns: int = 4096
    strip_elements: int = 1 << 16
    small_elements: int = 1 << 15
    """Strips of a transposition are long both ways, so that numpy's inner loops are, and fit the second-level cache; boxes
    below `small_elements` do so anyway. Shorter calls of numpy would have two workers wait for each other: between calls
    they need the interpreter's lock."""

    box_elements: int = 1 << 20
    """What norms are summed over at a time, in F64."""


_used = Tuning()


def current() -> Tuning:
    """Return the sizes in use."""
    return _used


def use(tuning: Tuning) -> Tuning:
    """Use other sizes from now on; return those used before. Tests reach every path with a few elements by it."""
    global _used
    before, _used = _used, tuning
    return before
