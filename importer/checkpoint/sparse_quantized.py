"""Sparse and quantized tensors: described, or on request as dense elements.

Not here: the arithmetic (`importer.arrays`), and tensors whose elements lie as they are (`tensors`).

Format facts: `_rebuild_sparse_tensor`, `_rebuild_qtensor` of torch/_utils.py and `Tensor._reduce_ex_internal` of
torch/_tensor.py, which writes their arguments.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Protocol

from importer.arrays import Array, Compressed, dequantize, from_bytes, full, scatter, scatter_compressed
from importer.budgets import Budget
from importer.checkpoint.found import Dense, NotDense, Packed
from importer.dtypes import F32, F64, I8, I32, I64, U8, DType
from importer.errors import Location, TensorError, shown
from importer.options import Options, SparseChoice
from importer.quantized import QUANTIZED_TENSOR, Composite
from importer.unpickling import Call, Global

__all__ = ["rebuild_quantized", "rebuild_sparse"]

_INTEGERS: dict[str, DType] = {"QI8": I8, "QU8": U8, "QI32": I32}
"""Quantized types whose elements are whole integers; those of 2 and 4 bits share bytes."""


class PartReader(Protocol):
    """What reads the parts such a tensor is made of."""

    budget: Budget

    options: Options
    where: Location

    def part(self, value: object) -> Array:
        """Return a dense tensor that is a part of this one."""
        ...

    def view(self, args: tuple[object, ...], *, dtype: DType | None = None) -> Dense | NotDense:
        """Return the view of a storage that the first four arguments describe."""
        ...

    def storage_dtype(self, storage: object) -> DType | None:
        """Return the element type a storage is declared with."""
        ...

    def integers(self, value: object) -> tuple[int, ...]:
        """Return a size."""
        ...

    def fault(self, what: str) -> TensorError:
        """Return the error for arguments that describe no tensor."""
        ...


# Sparse


def rebuild_sparse(reader: PartReader, args: tuple[object, ...]) -> Dense | NotDense:
    """Read a sparse tensor: a layout, and a tuple of indices, values and size.

    Raises:
        TensorError: the parts do not belong together.
        LimitError: it is to be made dense and larger than `max_dense_bytes`.
    """
    match args:
        case (Call(args=(str() as layout,)), tuple() as parts) | (str() as layout, tuple() as parts):
            pass  # torch.serialization._get_layout("torch.sparse_csr")
        case (Global(name=layout), tuple() as parts):
            pass
        case _:
            layout, parts = "sparse", ()
    layout = layout.removeprefix("torch.")
    count = 2 if layout == "sparse_coo" else 3
    if reader.options.sparse is SparseChoice.DENSE and layout in _LAYOUTS and len(parts) > count:
        return _scattered(reader, layout, parts[:count], reader.integers(parts[count]))
    size = parts[count] if len(parts) > count else "unknown"
    if isinstance(size, Call) and size.args:
        size = size.args[0]
    return NotDense(layout, f"shape {shown(size)}, given by indices and values instead of dense elements")


_SPARSE_BYTE = 20
_LAYOUTS = ("sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def _scattered(reader: PartReader, layout: str, parts: tuple[object, ...], shape: tuple[int, ...]) -> Dense:
    arrays = [reader.part(part) for part in parts]
    nbytes = math.prod(shape) * arrays[-1].dtype.itemsize
    limits = reader.options.limits
    if min(shape, default=0) < 0 or nbytes > limits.max_dense_bytes:
        what = f"made dense, a sparse tensor of shape {shown(shape)} is too large"
        how = "Leave sparse tensors as they are, or raise `{limit}`."
        raise limits.passed("max_dense_bytes", nbytes, what, reader.where, how)
    # Its elements are kept in memory with their places; a file can repeat one without end.
    reader.budget.spend(_SPARSE_BYTE * sum(array.nbytes for array in arrays), reader.where)
    if layout == "sparse_coo":
        indices, values = arrays
        return Dense(scatter(indices, values, shape, reader.where), None)
    bounds, others, values = arrays
    compressed = Compressed(bounds, others, values, by_column=layout.endswith("c"), blocked="bs" in layout)
    return Dense(scatter_compressed(compressed, shape, reader.where), None)


# Quantized


@dataclass(frozen=True, slots=True)
class _Scheme:
    """How integers stand for numbers: scales and zero points, one for all or one for each index of an axis."""

    name: str
    scales: Array
    zero_points: Array
    axis: int | None


def rebuild_quantized(reader: PartReader, args: tuple[object, ...]) -> Dense | NotDense | Packed:
    """Read a quantized tensor: a view of integers, and the scheme that gives them their values.

    Raises:
        TensorError: the scheme does not fit the integers.
    """
    match args:
        case (storage, _, size, _, tuple() as parameters, *_):
            described = f"shape {shown(size)}, integers with scales ({shown(parameters[0] if parameters else None)})"
        case _:
            return NotDense("quantized", "integers with scales")
    stored = reader.storage_dtype(storage)
    integers = None if stored is None else _INTEGERS.get(stored.name)
    if integers is None:
        return NotDense("quantized", described)
    values = reader.view(args, dtype=integers)
    assert isinstance(values, Dense)  # the storage was found above, and integers are read wherever it is
    scheme = _scheme(reader, parameters)
    dequantize(values.array, scheme.scales, scheme.zero_points, scheme.axis, F32)  # for its checks
    parts = {"integers": values.array, "scale": scheme.scales, "zero_point": scheme.zero_points}
    composite = Composite(QUANTIZED_TENSOR, values.array.shape, F32, parts, {"axis": scheme.axis, "what": scheme.name})
    return Packed(composite, NotDense("quantized", described))


def _scheme(reader: PartReader, parameters: tuple[object, ...]) -> _Scheme:
    match parameters:
        case (Global(name=name), float() as scale, int() as zero_point) if -(1 << 63) <= zero_point < 1 << 63:
            return _Scheme(name, full(scale, F64, ()), full(zero_point, I64, ()), None)
        case (Global(name=name), scales, zero_points, int() as axis):
            return _Scheme(name, _factors(reader, scales), _factors(reader, zero_points), axis)
        case _:
            raise reader.fault("its scales are none that torch writes")


def _factors(reader: PartReader, value: object) -> Array:
    """Return scales or zero points: a tensor, or before torch 1.5 a list of numbers."""
    if not isinstance(value, list):
        return reader.part(value)
    numbers = [float(item) for item in value if isinstance(item, float) or (type(item) is int and abs(item) < 1 << 63)]
    if len(numbers) != len(value):
        raise reader.fault("its scales are no numbers")
    return from_bytes(struct.pack(f"<{len(numbers)}d", *numbers), F64, (len(numbers),), reader.where)
