"""Reading what weights are packed in: boxes of stored tensors as numpy arrays, and the few bytes that say a shape.

Not here: what the elements stand for (`codes`, `scales`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from importer.arrays import Array, narrow, permute, read_into, reshape
from importer.arrays.decoding import Floats, Span
from importer.arrays.nodes import PLAIN, View
from importer.arrays.strides import row_major
from importer.dtypes import U8, Kind
from importer.errors import Location, TensorError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["as_bytes", "flat", "integers_of", "location_of", "matrix", "read_box", "text_of", "widened"]

_GAPS = 4
"""Columns that are not wanted are read with the others if that is at most so many times what is wanted."""

_MAX_TEXT_BYTES = 1 << 16
_MAX_INTEGERS = 64
_CODES = {"I64": "q", "I32": "i", "I16": "h", "I8": "b", "U8": "B", "U32": "I", "U64": "Q", "U16": "H", "BOOL": "?"}
_HOW = "The file is damaged or was made to mislead; get it again from where it came."


def location_of(array: Array) -> Location:
    """Return the file that a tensor lies in, for errors."""
    return array.storage.where if isinstance(array, View) else Location(path="<computed>")


def matrix(array: Array, rows: int, columns: int) -> Array:
    """Return the elements of a tensor, in C order, as a matrix.

    Raises:
        TensorError: there are more or fewer.
    """
    made = reshape(array, (rows, columns))
    if isinstance(made, View) and made.size and _is_dense(made):
        return View(
            made.dtype, (rows, columns), made.storage, (rows, columns), (columns, 1), made.offset, made.encoding
        )
    return made


def flat(array: Array) -> Array:
    """Return the elements of a tensor, in C order, as a matrix of one row."""
    return matrix(array, 1, array.size)


def transposed(array: Array) -> Array:
    """Return a matrix with its axes exchanged."""
    return permute(array, (1, 0))


def _is_dense(view: View) -> bool:
    return all(
        size == 1 or stride == dense
        for size, stride, dense in zip(view.sizes, view.strides, row_major(view.sizes), strict=True)
    )


def as_bytes(array: Array) -> Array | None:
    """Return a dense tensor as the bytes it is stored in, `[..., n * itemsize]`; None where they do not lie so."""
    if not isinstance(array, View) or array.encoding is not PLAIN or array.dtype.kind is Kind.BOOL:
        return None
    if array.dtype.itemsize == 1:
        return View(U8, array.shape, array.storage, array.sizes, array.strides, array.offset)
    if not array.shape or not _is_dense(array):
        return None
    size = array.dtype.itemsize
    shape = (*array.shape[:-1], array.shape[-1] * size)
    return View(U8, shape, array.storage, shape, row_major(shape), array.offset * size)


def read_box(array: Array, rows: Span, columns: Span) -> np.ndarray[Any, Any]:
    """Return a box of a matrix, in the type it is stored in; new memory."""
    import numpy as np

    height, width = rows[1] - rows[0], columns[1] - columns[0]
    if isinstance(array, View) and _has_rows(array):
        return _strided_box(array, rows[0], columns[0], height, width)
    part = narrow(narrow(array, 0, *rows), 1, *columns)
    out = np.empty((height, width), array.dtype.numpy())
    if out.size:
        read_into(part, out.reshape(-1).view(np.uint8).data)
    return out


def _has_rows(view: View) -> bool:
    """Whether the rows of a matrix are runs of stored elements, which are the values themselves."""
    return view.encoding is PLAIN and view.sizes == view.shape and view.strides[-1:] == (1,)


def _strided_box(view: View, top: int, left: int, height: int, width: int) -> np.ndarray[Any, Any]:
    """Read rows that lie one after the other: at once if the gaps between them are short, else one by one."""
    import numpy as np

    itemsize, pitch = view.dtype.itemsize, view.strides[0]
    start = (view.offset + top * pitch + left) * itemsize
    read = view.storage.read_into
    dtype = view.dtype.numpy()
    if height == 1 or pitch == width:
        out = np.empty((height, width), dtype)
        read(start, out.reshape(-1).view(np.uint8).data)
    elif pitch <= _GAPS * width:
        held = np.empty(height * pitch, dtype)
        read(start, held.view(np.uint8).data[: ((height - 1) * pitch + width) * itemsize])
        out = held.reshape(height, pitch)[:, :width]
    else:
        out = np.empty((height, width), dtype)
        for index, row in enumerate(out):
            read(start + index * pitch * itemsize, row.view(np.uint8).data)
    return out


def widened(values: np.ndarray[Any, Any]) -> Floats:
    """Return numbers as F32; the array itself if they are."""
    import numpy as np

    if values.dtype.name == "bfloat16":
        wide = np.empty(values.shape, np.uint32)
        np.left_shift(values.view(np.uint16), 16, out=wide, dtype=np.uint32)
        return wide.view(np.float32)
    return values.astype(np.float32, copy=False)


def integers_of(array: Array) -> tuple[int, ...]:
    """Return the integers of a small tensor that says a size, a number of bits or the like.

    Raises:
        TensorError: it holds no integers, or far too many.
    """
    code = _CODES.get(array.dtype.name)
    if code is None or array.size > _MAX_INTEGERS:
        raise TensorError(
            f"{array.dtype} {list(array.shape)} is no list of a few integers", where=location_of(array), how=_HOW
        )
    return struct.unpack(f"<{array.size}{code}", _bytes_of(array))


def text_of(array: Array) -> str:
    """Return the text that a tensor of bytes holds.

    Raises:
        TensorError: it holds no text, or far too much.
    """
    if array.dtype.itemsize != 1 or array.size > _MAX_TEXT_BYTES:
        raise TensorError(f"{array.dtype} {list(array.shape)} is no text", where=location_of(array), how=_HOW)
    try:
        return _bytes_of(array).decode("utf-8")
    except UnicodeDecodeError as error:
        raise TensorError("its bytes are no text", where=location_of(array), how=_HOW) from error


def _bytes_of(array: Array) -> bytes:
    data = bytearray(array.nbytes)
    if data:
        read_into(array, memoryview(data))
    return bytes(data)


def fits(shape: Sequence[int], expected: Sequence[int]) -> bool:
    """Whether two shapes are equal but for leading ones."""
    return math.prod(shape) == math.prod(expected) and tuple(shape)[-1:] == tuple(expected)[-1:]
