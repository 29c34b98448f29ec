"""What goes into a writer and what comes out: tensors in write order, a destination, the layout, what was written.

Not here: the formats (`burnpack_writer`, `safetensors_writer`), files and their publication (`publishing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from importer.arrays import Array

__all__ = ["Destination", "FileLayout", "Layout", "OutputFormat", "OutputTensor", "Placed", "Scalar", "Written"]

Scalar = bool | int | float
"""A number kept beside the tensors of a burnpack file."""


class OutputFormat(str, Enum):
    """A file format that can be written."""

    BURNPACK = "burnpack"
    SAFETENSORS = "safetensors"


@dataclass(frozen=True, slots=True)
class OutputTensor:
    """A tensor of the output.

    Attributes:
        name: full dotted name.
        array: lazy expression; dtype and shape are final.
        param_id: burnpack parameter id, or None; safetensors has no place for it.
    """

    name: str
    array: Array
    param_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where the output goes, and how.

    Attributes:
        path: output file; shards and their index are named after it.
        format: file format.
        shard_size: most bytes of tensors in one file, or None for a single file.
        overwrite: whether existing output is replaced.
        workers: threads, or None for as many as are worth it.
        metadata: texts kept in the file (`__metadata__` of safetensors).
        scalars: numbers kept in a burnpack file.
        fingerprint: text that is equal for two runs only if source, recipe and options are; with it an interrupted
            sharded conversion is taken up again instead of begun anew.
    """

    path: str
    format: OutputFormat
    shard_size: int | None = None
    overwrite: bool = False
    workers: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    scalars: Mapping[str, Scalar] = field(default_factory=dict)
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """A tensor and the file offset of its first byte."""

    tensor: OutputTensor
    offset: int


@dataclass(frozen=True, slots=True)
class FileLayout:
    """One file, down to the byte, before it is written.

    Attributes:
        header: everything before the tensor data.
        placed: tensors by ascending offset.
        nbytes: length of the file; bytes that no tensor covers are zero.
    """

    header: bytes
    placed: tuple[Placed, ...]
    nbytes: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The whole output: one file, or shards and an index.

    Attributes:
        files: path and layout of each file, in order.
        index: path and contents of the index, which is published last; None for a single file.
    """

    files: tuple[tuple[str, FileLayout], ...]
    index: tuple[str, bytes] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all files together."""
        return sum(file.nbytes for _, file in self.files) + (len(self.index[1]) if self.index else 0)


@dataclass(frozen=True, slots=True)
class Written:
    """What a writer did.

    Attributes:
        paths: files that now exist, in order; of a sharded output the index last.
        nbytes: bytes of all of them.
        kept: how many of the files were there from an interrupted run.
    """

    paths: tuple[str, ...]
    nbytes: int
    kept: int = 0
