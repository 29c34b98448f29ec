"""A burnpack file that is written again as it is: every byte, so also what this package has no words for.

Burn tells apart more than we do: three stores of booleans, signed and unsigned numbers, quantised tensors. Not here: whether
anything is to change (`importer.conversion`).
"""

from __future__ import annotations

from importer.arrays import contiguous
from importer.dtypes import U8
from importer.storages import FileRange, SourceFile
from importer.writers.output import Destination, FileLayout, Layout, OutputTensor, Placed

__all__ = ["verbatim_layout"]

_HEADER_BYTES = 10


def verbatim_layout(path: str, destination: Destination) -> tuple[tuple[OutputTensor, ...], Layout]:
    """Return the bytes of a burnpack file as one run, and the layout that puts them where they were.

    Raises:
        SourceError: the file cannot be read.
    """
    file = SourceFile(path)
    header = file.read(0, _HEADER_BYTES)
    nbytes = file.size - len(header)
    rest = OutputTensor("bytes", contiguous(FileRange(file, len(header), nbytes, "bytes"), U8, (nbytes,)))
    placed = (Placed(rest, len(header)),) if nbytes else ()
    layout = FileLayout(bytes(header), placed, file.size)
    return (rest,), Layout(((destination.path, layout),))
