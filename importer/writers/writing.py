"""Writing an output: one file, or shards and then their index.

Not here: layout (`sharding`), bytes (`streaming`), names and safety of files (`publishing`).
"""

from __future__ import annotations

from collections.abc import Sequence

from importer.writers.model import Destination, FileLayout, Layout, OutputTensor, Written
from importer.writers.publishing import check_space, check_target, new_file
from importer.writers.sharding import plan_layout
from importer.writers.streaming import stream

__all__ = ["write"]


def write(tensors: Sequence[OutputTensor], destination: Destination) -> Written:
    """Write the tensors, or nothing.

    Raises:
        UnrepresentableError: the format has no place for a dtype, name, number or size.
        OutputExistsError: the output exists and may not be replaced.
        DiskSpaceError: it would not fit.
        WriteError: it cannot be written.
        SourceError: a source cannot be read.
    """
    layout = plan_layout(tensors, destination)
    for path, _ in layout.files:
        check_target(path, overwrite=destination.overwrite)
    check_space(destination.path, layout.nbytes)
    for path, file in layout.files:
        _write_file(path, file, destination)
    paths = [path for path, _ in layout.files]
    if layout.index is not None:
        _write_index(layout.index, destination)
        paths.append(layout.index[0])
    return Written(tuple(paths), layout.nbytes)


def _write_file(path: str, file: FileLayout, destination: Destination) -> None:
    with new_file(path, overwrite=destination.overwrite) as descriptor:
        stream(file, descriptor, destination.workers)


def _write_index(index: tuple[str, bytes], destination: Destination) -> None:
    path, text = index
    with new_file(path, overwrite=destination.overwrite) as descriptor:
        stream(FileLayout(text, (), len(text)), descriptor, 1)
