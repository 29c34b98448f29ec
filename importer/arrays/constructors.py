"""Arrays from bytes: views of a storage, constants, numbers that sit in a pickle.

Not here: what may be done with them (`views`, `arithmetic`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

from importer.arrays.nodes import PLAIN, Encoding, View
from importer.arrays.strides import row_major
from importer.dtypes import DType, Kind
from importer.errors import Location, TensorError, UnsupportedError
from importer.limits import DEFAULT_LIMITS
from importer.storages import MemoryStorage, Storage

__all__ = ["contiguous", "from_bytes", "full", "strided"]

_MAX_DIMENSIONS = DEFAULT_LIMITS.max_dimensions
_CHECK_HOW = "The file is damaged or was made to mislead; get it anew from where it came."
_STRUCT_CODES = {"F64": "<d", "F32": "<f", "F16": "<e", "I64": "<q", "I32": "<i", "I16": "<h", "I8": "<b"} | {
    "U64": "<Q", "U32": "<I", "U16": "<H", "U8": "<B", "BOOL": "<?"
}  # fmt: skip


def strided(  # noqa: PLR0913 - torch's own description of a tensor
    storage: Storage,
    dtype: DType,
    shape: Sequence[int],
    strides: Sequence[int],
    offset: int = 0,
    *,
    big_endian: bool = False,
    conjugate: bool = False,
    negative: bool = False,
) -> View:
    """Return a view of a storage; `strides` and `offset` count elements.

    Raises:
        TensorError: the view reaches outside of the storage, or a size, stride or offset is negative.
    """
    # Sizes come from files: with too many of them the products alone would take hours.
    if offset < 0 or not len(shape) == len(strides) <= _MAX_DIMENSIONS:
        raise _no_tensor(storage, shape, strides, offset)
    end = offset
    count = 1
    for axis, size in enumerate(shape):
        stride = strides[axis]
        if size < 0 or stride < 0:
            raise _no_tensor(storage, shape, strides, offset)
        count *= size
        end += (size - 1) * stride
    if count and (end + 1) * dtype.itemsize > storage.nbytes:
        raise TensorError(
            f"shape {list(shape)} with strides {list(strides)} at element {offset} needs {(end + 1) * dtype.itemsize}"
            f" bytes of {dtype}, its storage has {storage.nbytes}",
            where=storage.where,
            how=_CHECK_HOW,
        )
    encoding = Encoding(big_endian, conjugate, negative) if big_endian or conjugate or negative else PLAIN
    shape = tuple(shape)
    return View(dtype, shape, storage, shape, tuple(strides), offset, encoding)


def _no_tensor(storage: Storage, shape: Sequence[int], strides: Sequence[int], offset: int) -> TensorError:
    return TensorError(
        f"shape {list(shape)} with strides {list(strides)} at element {offset} describes no tensor",
        where=storage.where,
        how=_CHECK_HOW,
    )


def contiguous(
    storage: Storage, dtype: DType, shape: Sequence[int], offset: int = 0, *, big_endian: bool = False
) -> View:
    """Return a dense C-order view of a storage, `offset` elements from its start.

    Raises:
        TensorError: the view reaches outside of the storage.
    """
    return strided(storage, dtype, shape, row_major(shape), offset, big_endian=big_endian)


def from_bytes(data: bytes, dtype: DType, shape: Sequence[int], where: Location) -> View:
    """Return an array over little-endian C-order bytes in memory.

    Raises:
        TensorError: there are too few or too many bytes.
    """
    if math.prod(shape) * dtype.itemsize != len(data):
        raise TensorError(
            f"{len(data)} bytes do not make a tensor of shape {list(shape)} and type {dtype}",
            where=where,
            how=_CHECK_HOW,
        )
    return contiguous(MemoryStorage(data, where), dtype, shape)


def full(value: float, dtype: DType, shape: Sequence[int]) -> View:
    """Return a constant: one stored element, repeated.

    Raises:
        UnsupportedError: `dtype` is no plain number.
    """
    element = MemoryStorage(_element(value, dtype), Location(path="<constant>"))
    return strided(element, dtype, shape, (0,) * len(shape))


def _element(value: float, dtype: DType) -> bytes:
    """Return the bytes of one number."""
    if (code := _STRUCT_CODES.get(dtype.name)) is not None:
        return struct.pack(code, value if dtype.is_float else int(value))
    if dtype.kind is Kind.FLOAT:
        import numpy as np

        return bytes(np.float32(value).astype(dtype.numpy()).tobytes())
    raise UnsupportedError(
        f"a constant of type {dtype} cannot be made", how="Use a floating-point, integer or boolean type."
    )
