"""Sparse tensors made dense: zeros, and among them the elements that fall into what is read.

Shapes settle at once; whether the indices lie inside of the shape is known only when they are read. The elements are kept
in memory, sorted by place; the dense bytes never are. Not here: how a file spells sparse tensors.

Format facts: `torch.sparse_coo_tensor` (elements given twice add up) and `torch.sparse_compressed_tensor`; dimensions are
batch, sparse and dense ones, in this order.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from importer.arrays.constructors import contiguous
from importer.arrays.evaluation import to_numpy
from importer.arrays.nodes import Array
from importer.dtypes import Kind
from importer.errors import Location, TensorError, shown

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Compressed", "scatter", "scatter_compressed"]

_HOW = "The file is damaged or was made to mislead; get it again from where it came."


@dataclass(frozen=True, slots=True)
class Compressed:
    """A sparse tensor with one of its two sparse dimensions compressed (CSR, CSC, BSR, BSC).

    Attributes:
        bounds: `[batch..., rows + 1]`, where the elements of each row begin and end (columns, if these are compressed).
        others: `[batch..., n]`, the column of each element (the row, if columns are compressed).
        values: `[batch..., n, (block rows, block columns,) dense...]`.
        by_column: whether columns are compressed.
        blocked: whether elements are blocks.
    """

    bounds: Array
    others: Array
    values: Array
    by_column: bool
    blocked: bool


def scatter(indices: Array, values: Array, shape: Sequence[int], where: Location) -> Array:
    """Return a COO tensor as dense: `indices` is `[sparse dimensions, n]`, `values` is `[n, dense...]`.

    Raises:
        TensorError: the shapes do not belong together. When read: an index outside of the shape.
    """
    rank = indices.shape[0] if len(indices.shape) == 2 else 0  # noqa: PLR2004 - a matrix
    if not 0 < rank <= len(shape) or values.shape != (indices.shape[1], *shape[rank:]):
        raise _misfit(where, indices=indices, values=values, shape=shape)
    _check_types(where, values, indices)
    return _dense(values, shape, where, partial(_place_coordinates, indices, tuple(shape), where))


def scatter_compressed(parts: Compressed, shape: Sequence[int], where: Location) -> Array:
    """Return a tensor of one of the compressed layouts as dense.

    Raises:
        TensorError: the shapes do not belong together. When read: an index outside of the shape.
    """
    bounds, others, values = parts.bounds, parts.others, parts.values
    batch = bounds.shape[:-1]
    block = values.shape[len(batch) + 1 :][:2] if parts.blocked else (1, 1)
    dense = values.shape[len(batch) + (3 if parts.blocked else 1) :]
    sparse = tuple(shape[len(batch) : len(shape) - len(dense)])
    fits = len(sparse) == len(block) == 2 and all(block) and not (sparse[0] % block[0] or sparse[1] % block[1])  # noqa: PLR2004 - rows, columns
    compressed = 1 if parts.by_column else 0
    if (
        not fits
        or bounds.shape != (*batch, sparse[compressed] // block[compressed] + 1)
        or others.shape != values.shape[: len(batch) + 1]
        or (*others.shape[:-1], *dense) != (*shape[: len(batch)], *shape[len(shape) - len(dense) :])
    ):
        raise _misfit(where, indices=bounds, others=others, values=values, shape=shape)
    _check_types(where, values, bounds, others)
    return _dense(values, shape, where, partial(_place_compressed, parts, (block[0], block[1]), tuple(shape), where))


def _dense(values: Array, shape: Sequence[int], where: Location, place: Callable[[], np.ndarray]) -> Array:
    """Return the array that is zeros and, at the flat indices `place` gives for them, the values."""
    return contiguous(_Scattered(values, math.prod(shape), where, place), values.dtype, shape)


@dataclass(slots=True, eq=False)
class _Scattered:
    """The dense bytes of a sparse tensor, put together where they are read.

    Attributes:
        values: the elements, as stored.
        size: number of dense elements.
        where: for errors.
        place: computes the flat index of every number in `values`, in their order.
    """

    values: Array
    size: int
    where: Location
    place: Callable[[], np.ndarray]
    _sorted: tuple[np.ndarray, np.ndarray] | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def nbytes(self) -> int:
        """Length in bytes."""
        return self.size * self.values.dtype.itemsize

    @property
    def operands(self) -> tuple[Array, ...]:
        """The elements, as for `DeferredStorage`."""
        return (self.values,)

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill the buffer; elements given twice add up in the order they are stored in.

        Raises:
            TensorError: an index is outside of the shape, or bounds do not cover the elements.
        """
        import numpy as np

        with self._lock:
            indices, values = self._sorted = self._sorted or self._read()
        itemsize = values.dtype.itemsize
        first, last = offset // itemsize, -(-(offset + len(buffer)) // itemsize)
        begin, end = np.searchsorted(indices, (first, last))
        made = np.zeros(last - first, values.dtype)
        with np.errstate(all="ignore"):
            np.add.at(made, indices[begin:end] - first, values[begin:end])
        skipped = offset - first * itemsize
        buffer[:] = made.view(np.uint8).data[skipped : skipped + len(buffer)]

    def _read(self) -> tuple[np.ndarray, np.ndarray]:
        import numpy as np

        indices = self.place()
        order = np.argsort(indices, kind="stable")
        return indices[order], to_numpy(self.values).reshape(-1)[order]


def _place_coordinates(indices: Array, shape: Sequence[int], where: Location) -> np.ndarray:
    """Return the flat index of every number of a COO tensor."""
    import numpy as np

    places = to_numpy(indices).astype(np.int64)
    rank = len(places)
    _check_range(places, shape[:rank], where)
    flat = np.zeros(places.shape[1], np.int64)
    for place, size in zip(places, shape[:rank], strict=True):
        flat = flat * size + place
    dense = math.prod(shape[rank:])
    return (flat[:, None] * dense + np.arange(dense)).reshape(-1)


def _place_compressed(parts: Compressed, block: tuple[int, int], shape: Sequence[int], where: Location) -> np.ndarray:
    """Return the flat index of every number of a compressed tensor."""
    import numpy as np

    bounds, others = (to_numpy(indices).astype(np.int64) for indices in (parts.bounds, parts.others))
    batch = bounds.shape[:-1]
    rows, columns, *dense = shape[len(batch) :]
    inner = math.prod(dense)
    # Within a block: its rows, its columns, then what is dense.
    within = [
        np.arange(size).reshape(1, *(-1 if axis == at else 1 for at in range(3)))
        for axis, size in enumerate((*block, inner))
    ]
    found = [np.zeros((0, *block, inner), np.int64)]
    for number, place in enumerate(np.ndindex(*batch)):
        counts = _counts(bounds[place], others.shape[-1], where)
        pair = [np.repeat(np.arange(counts.size), counts), others[place]]
        if parts.by_column:
            pair.reverse()
        _check_range(pair, (rows // block[0], columns // block[1]), where)
        row, column = (one.reshape(-1, 1, 1, 1) * size for one, size in zip(pair, block, strict=True))
        found.append(((number * rows + row + within[0]) * columns + column + within[1]) * inner + within[2])
    return np.concatenate(found).reshape(-1)


def _counts(bounds: np.ndarray, elements: int, where: Location) -> np.ndarray:
    """Return how many elements each row has.

    Only comparisons until the bounds are known to lie in order within 0 and `elements`: differences of 64-bit numbers wrap,
    and `np.repeat` writes past its result if counts that wrap add up to the right sum.
    """
    import numpy as np

    if bounds.size:
        first, last = int(bounds[0]), int(bounds[-1])
        if first != 0 or last != elements or not bool((bounds[1:] >= bounds[:-1]).all()):
            raise TensorError("the bounds of its rows or columns do not cover its elements", where=where, how=_HOW)
    return np.diff(bounds)


def _check_range(places: Sequence[np.ndarray] | np.ndarray, sizes: Sequence[int], where: Location) -> None:
    """Refuse indices outside of the shape; numpy would count negative ones from the end."""
    for place, size in zip(places, sizes, strict=True):
        if place.size and (place.min() < 0 or place.max() >= size):
            raise TensorError(f"an index of its elements is outside of the size {size}", where=where, how=_HOW)


def _check_types(where: Location, values: Array, *indices: Array) -> None:
    if values.dtype.kind is Kind.BITS or any(index.dtype.kind is not Kind.INTEGER for index in indices):
        listed = ", ".join(str(index.dtype) for index in indices)
        raise TensorError(f"elements of type {values.dtype} at indices of type {listed}", where=where, how=_HOW)


def _misfit(where: Location, *, shape: Sequence[int], **parts: Array) -> TensorError:
    listed = ", ".join(f"{name} {list(part.shape)}" for name, part in parts.items())
    return TensorError(f"{listed} do not make a sparse tensor of shape {shown(list(shape))}", where=where, how=_HOW)
