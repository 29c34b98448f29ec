"""Small arrays with telling values, and what a layer made of them, as numpy."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from importer.adapters import Adapted
from importer.arrays import Array, contiguous, to_numpy
from importer.dtypes import dtype_of_numpy
from importer.errors import Location
from importer.storages import MemoryStorage

Values = npt.NDArray[Any]


def lazy(values: Values) -> Array:
    """Return `values` as the lazy array a reader would give."""
    dtype = dtype_of_numpy(values.dtype.str)
    assert dtype is not None
    storage = MemoryStorage(np.ascontiguousarray(values).tobytes(), Location(path="sample"))
    return contiguous(storage, dtype, values.shape)


def numbered(*shape: int, start: int = 0) -> Values:
    """Return float32 values that are all different."""
    return np.arange(start, start + prod(shape), dtype=np.float32).reshape(shape)


def state(**values: Values) -> dict[str, Array]:
    """Return lazy arrays by leaf; `__` stands for a dot."""
    return {name.replace("__", "."): lazy(value) for name, value in values.items()}


def pieces(adapted: Adapted) -> dict[str, Values]:
    """Return every piece's values, refusing faults."""
    assert adapted.faults == ()
    return {piece.name: to_numpy(piece.array) for piece in adapted.params}


def returned(adapted: Adapted) -> dict[str, Array]:
    """Return the pieces as parameters for the way back."""
    return {piece.name: piece.array for piece in adapted.params}


def assert_same(left: Mapping[str, Values], right: Mapping[str, Values]) -> None:
    """Compare names and bits."""
    assert left.keys() == right.keys()
    for name, values in left.items():
        assert values.dtype == right[name].dtype, name
        np.testing.assert_array_equal(values, right[name], err_msg=name)
