"""Arrays whose elements are worked out of packed ones while they are read: a storage of real values that is in no file.

A decoder gives boxes of a matrix in F32. As a storage, its values can be moved, cut and joined like stored ones; they are
rounded once, to the type the view has in the end. Not here: the decoders (`importer.quantized`, `importer.merging`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from importer.arrays.nodes import Array, View
from importer.arrays.strides import row_major
from importer.arrays.tuning import current
from importer.dtypes import F32, DType
from importer.errors import Location

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Decoded", "Decoder", "Floats", "Span", "decoded", "retyped"]

if TYPE_CHECKING:
    Floats: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
else:
    Floats = object

Span: TypeAlias = tuple[int, int]
"""First index and the one after the last."""


class Decoder(Protocol):
    """A matrix of real values that can be worked out box by box, by several threads at once.

    Attributes:
        shape: rows and columns.
        grain: rows that are packed together; boxes begin and end at multiples of it where that can be.
    """

    @property
    def shape(self) -> Span:
        """Rows and columns."""
        ...

    @property
    def grain(self) -> int:
        """Rows that are packed together."""
        ...

    def read(self, rows: Span, columns: Span) -> Floats:
        """Return a box of the values, in F32; the caller may change it.

        Raises:
            SourceError: the source cannot be read, or holds codes that mean nothing.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """The values of a decoder as a storage, in C order and in one type.

    Attributes:
        decoder: where values come from.
        dtype: what they are rounded to.
        where: the file that holds the packed ones, for errors.
    """

    decoder: Decoder
    dtype: DType
    where: Location

    @property
    def nbytes(self) -> int:
        """Length in bytes."""
        return math.prod(self.decoder.shape) * self.dtype.itemsize

    @property
    def block_bytes(self) -> int:
        """Bytes that are best read at a time, from a multiple of them on: rows that are packed together, as a whole."""
        unit = self.decoder.grain * self.decoder.shape[1] * self.dtype.itemsize
        return unit * max(1, current().cached // max(unit, 1))

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill `buffer` with the bytes from `offset` on."""
        import numpy as np

        itemsize = self.dtype.itemsize
        first, last = offset // itemsize, -(-(offset + len(buffer)) // itemsize)
        if first * itemsize == offset and (last - first) * itemsize == len(buffer):
            self._fill(first, np.frombuffer(buffer, self.dtype.numpy()))
        else:
            whole = np.empty(last - first, self.dtype.numpy())
            self._fill(first, whole)
            inside = offset - first * itemsize
            buffer[:] = whole.view(np.uint8).data[inside : inside + len(buffer)]

    def read_runs(self, offset: int, step: int, out: np.ndarray) -> bool:
        """Fill the rows of `out`, raw elements, each `step` elements after the one before; False if they are no box."""
        columns = self.decoder.shape[1]
        row, column = divmod(offset, columns)
        if step != columns or column + out.shape[1] > columns:
            return False
        self._box(row, column, out.view(self.dtype.numpy()))
        return True

    def _fill(self, first: int, out: np.ndarray) -> None:
        """Fill a run of elements: the rest of a row, whole rows, and the beginning of another."""
        columns = self.decoder.shape[1]
        for start, stop in _row_parts(first, first + len(out), columns):
            row, column = divmod(start, columns)
            width = min(columns, stop - start)
            self._box(row, column, out[start - first : stop - first].reshape(-1, width))

    def _box(self, row: int, column: int, out: np.ndarray) -> None:
        """Fill a box in parts that stay in the cache."""
        from importer.arrays.kernels import Cast

        height, width = out.shape
        grain = self.decoder.grain
        tall = min(height, max(grain, current().decoded_elements // max(width, 1) // grain * grain))
        wide = max(1, current().decoded_elements // tall) if tall * width > current().decoded_elements else width
        for top, bottom in _cuts(row, row + height, tall):
            for left, right in _cuts(column, column + width, wide):
                values = self.decoder.read((top, bottom), (left, right))
                place = out[top - row : bottom - row, left - column : right - column]
                if self.dtype is F32:
                    place[...] = values
                elif place.flags.c_contiguous:
                    Cast()([values.reshape(-1)], place.reshape(-1))
                else:
                    rounded = place.copy()
                    Cast()([values.reshape(-1)], rounded.reshape(-1))
                    place[...] = rounded


def decoded(decoder: Decoder, dtype: DType, shape: Sequence[int], where: Location) -> View:
    """Return the values of a decoder, read in C order, as an array of `shape`."""
    shape = tuple(shape)
    assert math.prod(shape) == math.prod(decoder.shape)
    return View(dtype, shape, Decoded(decoder, dtype, where), shape, row_major(shape), 0)


def retyped(array: Array, dtype: DType) -> View | None:
    """Return an array of decoded values rounded to another type instead of its own; None for any other array."""
    if not isinstance(array, View) or not isinstance(array.storage, Decoded) or array.encoding != (False,) * 3:
        return None
    storage = replace(array.storage, dtype=dtype)
    return View(dtype, array.shape, storage, array.sizes, array.strides, array.offset)


def _row_parts(start: int, stop: int, columns: int) -> Iterator[Span]:
    """Cut a run of elements into at most three: within a row, whole rows, within a row."""
    rest = -start % columns
    head = min(stop, start + rest)
    if head > start:
        yield start, head
    tail = max(head, stop - stop % columns)
    if tail > head:
        yield head, tail
    if stop > tail:
        yield tail, stop


def _cuts(start: int, stop: int, size: int) -> Iterator[Span]:
    """Cut a range at multiples of `size`."""
    while start < stop:
        end = min(stop, start - start % size + size)
        yield start, end
        start = end
