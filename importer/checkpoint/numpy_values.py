"""numpy arrays and scalars in a pickle, read from the calls numpy writes for them, without numpy.

Not here: tensors (`tensors`), and arrays that are files of their own.

Format facts: `array_reduce`, `array_setstate`, `gentype_reduce` and `arraydescr_reduce` of numpy's multiarray sources,
and `numpy.core.numeric._frombuffer` (pickle protocol 5); `numpy.core` became `numpy._core` in numpy 2.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from importer.arrays import Array, strided
from importer.checkpoint.found import NotDense
from importer.checkpoint.structures import pickled_bytes
from importer.checkpoint.vocabulary import NUMPY_MODULES
from importer.dtypes import DType, Kind, dtype_of_numpy
from importer.errors import Location, TensorError, shown
from importer.limits import DEFAULT_LIMITS
from importer.storages import MemoryStorage
from importer.unpickling import Call, Global

__all__ = ["is_numpy", "read_array", "read_scalar"]

_LARGEST = (1 << 63) - 1
_LARGEST_SCALAR = 64  # bytes; the longest number has 16, which as text may take two each
_FLOATS = {"F16": "e", "F32": "f", "F64": "d", "C64": "ff", "C128": "dd"}
_HOW = "The file is damaged: get it again from where it came."


@dataclass(frozen=True, slots=True)
class _Element:
    """A numpy dtype: the element type and its byte order."""

    dtype: DType
    big_endian: bool


def is_numpy(node: Global) -> bool:
    """Whether a global rebuilds a numpy array or scalar."""
    return node.module.startswith(NUMPY_MODULES) and node.name in {"_reconstruct", "scalar", "_frombuffer"}


def read_scalar(call: Call) -> bool | int | float | complex | None:
    """Return the number of a numpy scalar, or None for anything that is no plain number."""
    match call:
        case Call(callable=Global(name="scalar"), args=(dtype, data)):
            element = _element(dtype)
            short = isinstance(data, bytes | str | Call) and _length(data) <= _LARGEST_SCALAR
            raw = pickled_bytes(data) if short else None
        case _:
            return None
    if element is None or raw is None or len(raw) != element.dtype.itemsize:
        return None
    if element.dtype.kind is Kind.BOOL:
        return raw != b"\0"
    if element.dtype.kind is Kind.INTEGER:
        return int.from_bytes(raw, "big" if element.big_endian else "little", signed=element.dtype.name[0] == "I")
    layout = _FLOATS.get(element.dtype.name)
    if layout is None:
        return None
    numbers = struct.unpack((">" if element.big_endian else "<") + layout, raw)
    return complex(*numbers) if element.dtype.kind is Kind.COMPLEX else float(numbers[0])


def _length(data: bytes | str | Call) -> int:
    text = data.args[0] if isinstance(data, Call) and data.args else data
    return len(text) if isinstance(text, str | bytes | bytearray) else 0


def read_array(
    call: Call, where: Location, bytes_of: Callable[[object], bytes | None] = pickled_bytes
) -> Array | NotDense:
    """Return the array of a numpy call; one of objects, texts, dates or records is described only.

    Args:
        call: as numpy pickles it.
        where: the container, for errors.
        bytes_of: gives the bytes that a node of the pickle stands for.

    Raises:
        TensorError: the bytes are fewer than the shape needs, or the arguments are none numpy writes.
    """
    match call:
        case Call(callable=Global(name="_reconstruct"), state=(_, tuple() as shape, dtype, fortran, data)):
            return _array(bytes_of(data), dtype, shape, where, fortran=fortran is True or fortran == 1)
        case Call(callable=Global(name="_frombuffer"), args=(data, dtype, tuple() as shape, order)):
            return _array(bytes_of(data), dtype, shape, where, fortran=order == "F")
        case Call(callable=Global(name="scalar"), args=(dtype, data, *_)):
            return _array(bytes_of(data), dtype, (), where, fortran=False)
        case _:
            raise TensorError("the numpy array has arguments that numpy does not write", where=where, how=_HOW)


def _array(
    raw: bytes | None, dtype: object, shape: tuple[object, ...], where: Location, *, fortran: bool
) -> Array | NotDense:
    element = _element(dtype)
    if element is None or raw is None:
        return NotDense("numpy", "a numpy array of objects, texts, dates or records")
    sizes = [size for size in shape if type(size) is int and 0 <= size <= _LARGEST]
    if len(sizes) != len(shape) or len(sizes) > DEFAULT_LIMITS.max_dimensions:
        raise TensorError(f"the numpy array has the shape {shown(shape)}", where=where, how=_HOW)
    strides = []
    step = 1
    for size in sizes if fortran else reversed(sizes):
        strides.append(step)
        step *= size
    if not fortran:
        strides.reverse()
    return strided(MemoryStorage(raw, where), element.dtype, sizes, strides, big_endian=element.big_endian)


def _element(dtype: object) -> _Element | None:
    """Return the element type of a pickled `numpy.dtype`, or None for one that is no number."""
    match dtype:
        case Call(callable=Global(module="numpy", name="dtype"), args=(str() as code, *_), state=state):
            order = state[1] if isinstance(state, tuple) and len(state) > 1 else "|"
            found = dtype_of_numpy(f"<{code}") or dtype_of_numpy(f"|{code}")
        case Call(callable=Global(module="numpy", name="dtype"), args=(Global() as scalar_type, *_)):
            order, found = "<", dtype_of_numpy(scalar_type.name)  # ml_dtypes: bfloat16, float8_e4m3fn
        case _:
            return None
    return _Element(found, big_endian=order in {">", b">"}) if found else None
