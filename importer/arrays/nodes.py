"""The three kinds of lazy array, as data: a strided view of a storage, arithmetic over arrays, and chunks of chunks.

Every expression is kept in one normal form - chunks of arithmetic of views - so that whatever was done to a tensor,
evaluation meets flat loops only. Not here: building and moving them (`constructors`, `views`, `arithmetic`), and reading
(`evaluation`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from importer.dtypes import DType
from importer.errors import Location
from importer.storages import MemoryStorage, Storage

if TYPE_CHECKING:
    import numpy as np

__all__ = ["PLAIN", "Array", "Chunk", "Chunked", "Computed", "Encoding", "Kernel", "View", "empty", "single"]

_NOTHING = MemoryStorage(b"", Location(path="<nothing>"))


@dataclass(slots=True, eq=False)
class Array:
    """A tensor that has a type and a shape, and bytes only when somebody asks.

    Immutable by convention, not by `frozen`: a checkpoint may hold 100,000 of them and a frozen dataclass costs three
    times as much to build.

    Attributes:
        dtype: element type of the values.
        shape: sizes, outermost first; `()` for a single number.
    """

    dtype: DType
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the dense tensor."""
        return math.prod(self.shape) * self.dtype.itemsize


class Encoding(NamedTuple):
    """How stored elements differ from the values they stand for.

    Attributes:
        big_endian: stored most significant byte first.
        conjugate: torch's lazy conjugate bit; the imaginary part is to be negated.
        negative: torch's lazy negative bit; the value is to be negated.
    """

    big_endian: bool = False
    conjugate: bool = False
    negative: bool = False


PLAIN = Encoding()
"""Stored as it is meant."""


@dataclass(slots=True, eq=False)
class View(Array):
    """Elements of a storage, found by strides.

    `sizes` and `strides` are *factors* of the axes: either one per axis, or only those larger than one, several of which
    may make up one axis (outermost first). A transposed matrix that was flattened is one axis with two factors, so
    reshaping and rearranging need no copy.

    Attributes:
        storage: where the bytes are.
        sizes: factors of the axes.
        strides: step of each factor, in elements.
        offset: first element, in elements from the start of the storage.
        encoding: how the stored elements are to be read.
    """

    storage: Storage
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    encoding: Encoding = PLAIN


class Kernel(Protocol):
    """Arithmetic on corresponding elements: any number of operands in, one result out."""

    def __call__(self, operands: list[np.ndarray], out: np.ndarray) -> None:
        """Fill `out` from `operands`, all of one dimension and equal length, in their own numpy types."""
        ...


@dataclass(slots=True, eq=False)
class Computed(Array):
    """A kernel over operands of the same shape, none of which is a chunked array.

    Attributes:
        kernel: what is computed.
        operands: views, or computed arrays again.
    """

    kernel: Kernel
    operands: tuple[View | Computed, ...]


class Chunk(NamedTuple):
    """A part of a chunked array and the index of its first element on every axis."""

    starts: tuple[int, ...]
    array: View | Computed


@dataclass(slots=True, eq=False)
class Chunked(Array):
    """Pieces that cover the shape exactly once."""

    chunks: tuple[Chunk, ...]


def empty(dtype: DType, shape: tuple[int, ...]) -> View:
    """Return an array without elements."""
    return View(dtype, shape, _NOTHING, shape, (0,) * len(shape), 0)


def single(array: Array) -> View | Computed:
    """Return `array`, which the caller knows to be no chunked array."""
    if isinstance(array, (View, Computed)):
        return array
    raise AssertionError(f"{type(array).__name__} inside a chunk")
