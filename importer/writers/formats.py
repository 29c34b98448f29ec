"""The file formats that can be written, one entry each: name, extension, and the function that lays a file out.

A new format is a module with its layout and an entry here; `convert`, `--target` and the sharding follow. Not here: the layouts
themselves (`burnpack_writer`, `safetensors_writer`), bytes (`streaming`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from importer.errors import UsageError, shown
from importer.writers.burnpack_writer import burnpack_layout
from importer.writers.output import Destination, FileLayout, OutputFormat, OutputTensor
from importer.writers.safetensors_writer import safetensors_layout

__all__ = ["FORMATS", "WritableFormat", "format_of_path"]


@dataclass(frozen=True, slots=True)
class WritableFormat:
    """One format.

    Attributes:
        extension: of its files, by which it is chosen.
        layout: places tensors in a file, without reading or writing; raises `UnrepresentableError`.
    """

    extension: str
    layout: Callable[[Sequence[OutputTensor], Destination], FileLayout]


FORMATS = {
    OutputFormat.BURNPACK: WritableFormat(
        ".bpk", lambda tensors, to: burnpack_layout(tensors, to.metadata, to.scalars)
    ),
    OutputFormat.SAFETENSORS: WritableFormat(
        ".safetensors", lambda tensors, to: safetensors_layout(tensors, to.metadata)
    ),
}
"""By the name that `Checkpoint.container` has for such a file."""


def format_of_path(path: str) -> OutputFormat:
    """Return the format that the extension of an output names.

    Raises:
        UsageError: it names none.
    """
    extension = PurePath(path).suffix.lower()
    for name, form in FORMATS.items():
        if extension == form.extension:
            return name
    raise UsageError(
        f"the output {shown(path)} has no extension that names a format",
        how=f"End it in {' or '.join(f'{form.extension} for {name.value}' for name, form in FORMATS.items())}.",
    )
