"""Output tensors over a few bytes in memory, for tests of writers."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from importer.arrays import from_bytes
from importer.dtypes import DTYPES, F32
from importer.errors import Location
from importer.writers import OutputTensor

WHERE = Location(path="test")


def patterned(name: str, dtype: str, shape: Sequence[int], param_id: int | None = None) -> OutputTensor:
    """Return a tensor whose bytes count upwards (booleans: 0 and 1 in turn)."""
    kind = DTYPES[dtype]
    length = kind.itemsize
    for size in shape:
        length *= size
    modulus = 2 if dtype == "BOOL" else 251
    data = bytes((len(name) + index) % modulus for index in range(length))
    return OutputTensor(name, from_bytes(data, kind, shape, WHERE), param_id)


def counting(name: str, shape: Sequence[int], param_id: int | None = None) -> OutputTensor:
    """Return 0, 1, 2 and so on as F32."""
    count = 1
    for size in shape:
        count *= size
    return OutputTensor(name, from_bytes(struct.pack(f"<{count}f", *range(count)), F32, shape, WHERE), param_id)
