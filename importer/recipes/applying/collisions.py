"""Two tensors on one name: a fault that names both and the rules that led there - unless they are one and the same tensor.

Files often hold a tied tensor under both names; then one is used and the report says so. Only here does a recipe read
values, and only of two tensors of one shape that would otherwise be an error. Not here: collisions after adapters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from importer.arrays import Array, blocks
from importer.errors import printable, shown
from importer.recipes.applying.working import ChangeLog, WorkingTensor

__all__ = ["without_collisions"]

_BLOCK_BYTES = 1 << 20


def without_collisions(items: Sequence[WorkingTensor], record: ChangeLog) -> list[WorkingTensor]:
    """Return the items with each name once; what is left out is skipped as a duplicate, or noted as a fault."""
    first: dict[str, WorkingTensor] = {}
    for item in items:
        earlier = first.setdefault(item.name, item)
        if earlier is item:
            continue
        rule = item.trail[-1].rule if item.trail else None
        if _same(earlier, item):
            others = ", ".join(map(printable, earlier.sources))
            reason = f"the same tensor as {others}, which becomes {printable(item.name)}"
            record.skip(item, rule, reason)
            continue
        what = f"two tensors become {shown(item.name)}: {_origin(earlier)}, and {_origin(item)}"
        record.fault(item.name, what, "Drop or rename one of them.", rule, item.sources)
    return list(first.values())


def _origin(item: WorkingTensor) -> str:
    rules = ", then ".join(str(step.rule) for step in item.trail)
    return f"{', '.join(map(shown, item.sources))} ({rules or 'unchanged'})"


def _same(a: WorkingTensor, b: WorkingTensor) -> bool:
    """Whether two items hold the same values: by storage where both are unchanged views, else by their bytes."""
    if a.identity is not None and a.identity == b.identity and a.array.shape == b.array.shape:
        return True
    return (a.array.dtype, a.array.shape) == (b.array.dtype, b.array.shape) and _same_bytes(a.array, b.array)


def _same_bytes(a: Array, b: Array) -> bool:
    # Blocks of two arrays need not be cut alike: compare what both have so far.
    left, right = _Bytes(blocks(a, block_bytes=_BLOCK_BYTES)), _Bytes(blocks(b, block_bytes=_BLOCK_BYTES))
    while left.fill() and right.fill():
        size = min(len(left.rest), len(right.rest))
        if left.take(size) != right.take(size):
            return False
    return not left.fill() and not right.fill()


class _Bytes:
    """A stream of blocks to take bytes from."""

    def __init__(self, source: Iterator[memoryview]) -> None:
        self._source = source
        self.rest = b""

    def fill(self) -> bool:
        """Make sure bytes are at hand; return whether there are any left."""
        while not self.rest:
            block = next(self._source, None)
            if block is None:
                return False
            self.rest = bytes(block)
        return True

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken
