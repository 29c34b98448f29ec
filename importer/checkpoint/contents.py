"""What an opened checkpoint is: frozen descriptions of tensors, modules and everything else in the source.

Not here: how they are found (`importer.checkpoint.opening` and its neighbours), and what names mean (recipes, adapters).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from importer.arrays import Array
from importer.dtypes import DType
from importer.errors import SourceError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Checkpoint", "ForeignGlobal", "Module", "Quantization", "Tensor", "Unsupported"]


@dataclass(slots=True, eq=False)
class Tensor:
    """One dense tensor of the source, described but not read.

    Immutable by convention, not by `frozen`: a checkpoint may hold 100,000 and a frozen dataclass costs three times as
    much to build.

    Attributes:
        name: dotted path from the top of the file.
        array: lazy expression with dtype, shape and the way to the bytes.
        module_type: qualified class of the module that owns it (`torch.nn.modules.linear.Linear`), if the file says.
        identity: equal for two tensors that are the same view of the same storage (tied weights), else unique.
    """

    name: str
    array: Array
    module_type: str | None = None
    identity: object = None

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape as the source's framework sees it."""
        return self.array.shape

    @property
    def nbytes(self) -> int:
        """Bytes of the dense tensor."""
        return self.array.nbytes

    def numpy(self) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        """Read the values, in C order and native-endian where numpy has the type (bf16 as `ml_dtypes.bfloat16`)."""
        from importer.arrays import to_numpy

        return to_numpy(self.array)


@dataclass(frozen=True, slots=True)
class Module:
    """A module of a whole saved model: where it stands, its class, and its plain attributes (`norm_first`, `eps`…)."""

    path: str
    class_name: str
    attributes: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Unsupported:
    """Something tensor-like that is no dense tensor.

    Attributes:
        name: dotted path from the top of the file.
        kind: meta, quantized, sparse_coo, sparse_csr, nested, wrapper, storage, numpy, empty or unknown.
        reason: what it is instead, in a clause.
    """

    name: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class ForeignGlobal:
    """A class or function the file names that is not part of the tensor format. Never imported, never called.

    Attributes:
        name: `module.qualname` as written in the file.
        called: whether a plain unpickler would have called it.
    """

    name: str
    called: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """How the weights of a source are quantised, and what became of them.

    Attributes:
        label: the format in a few words.
        choice: `report`, `integers` or `dequantize`; with `report` the stored tensors are in the checkpoint, else what is
            made of them.
        weights: names in the model of full precision, each with the names of the stored tensors it is made of.
        stored: the stored tensors by name.
        aside: stored tensors that are no weights, with the reason; with `report` they are in the checkpoint as well.
        stored_bytes: size of what weights are stored in.
        expanded_bytes: size of their real values.
        fault: why the weights cannot be read, where they are only reported; None if they can.
    """

    label: str
    choice: str
    weights: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    stored: Mapping[str, Tensor] = field(default_factory=dict)
    aside: Mapping[str, str] = field(default_factory=dict)
    stored_bytes: int = 0
    expanded_bytes: int = 0
    fault: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """An opened source. Mapping-like over its tensors, by full dotted path; `checkpoint[name].numpy()` reads one.

    Attributes:
        paths: every file that belongs to it, the one given first.
        container: zip, legacy, tar, pickle, torchscript, safetensors, burnpack, sharded, distributed…
        tensors: ordered by name as in the file.
        arrays: numpy arrays of the file that are no tensors.
        unsupported: tensor-like entries that cannot be read as dense tensors.
        values: plain values worth seeing (epoch, config…), by dotted path.
        modules: modules of a whole saved model by dotted path; empty for a state dict.
        root: dotted path below which the model's weights lie; "" when at the top.
        root_candidates: every place that looks like a state dict, best first.
        foreign_globals: classes and functions named in the file.
        config: contents of config.json or params.json found beside it, or None.
        config_path: where that was found.
        config_fault: why a configuration that lies there could not be read; None where it could, or there is none.
        metadata: `__metadata__` of safetensors, metadata of burnpack.
        scalars: scalars of burnpack.
        param_ids: burnpack parameter ids by tensor name.
        unlisted: tensors in the files that the index does not list, as `name@file`; they are not in `tensors`.
        quantization: how its weights are quantised; None if they are not.
        merged: names of the tensors that were changed after reading, each with all that it is made of now.
        notes: remarks for the report.
        facts: gives what the container says of itself: versions, byte order, alignment, sizes of storages.
    """

    paths: tuple[str, ...]
    container: str
    tensors: Mapping[str, Tensor]
    arrays: Mapping[str, Tensor] = field(default_factory=dict)
    unsupported: tuple[Unsupported, ...] = ()
    values: Mapping[str, object] = field(default_factory=dict)
    modules: Mapping[str, Module] = field(default_factory=dict)
    root: str = ""
    root_candidates: tuple[str, ...] = ()
    foreign_globals: tuple[ForeignGlobal, ...] = ()
    config: Mapping[str, object] | None = None
    config_path: str | None = None
    config_fault: SourceError | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    scalars: Mapping[str, bool | int | float] = field(default_factory=dict)
    param_ids: Mapping[str, int] = field(default_factory=dict)
    unlisted: tuple[str, ...] = ()
    quantization: Quantization | None = None
    merged: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    facts: Callable[[], Mapping[str, object]] = dict

    def __getitem__(self, name: str) -> Tensor:
        """Return the tensor called `name`."""
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over tensor names in file order."""
        return iter(self.tensors)

    def __len__(self) -> int:
        """Count the tensors."""
        return len(self.tensors)

    def __contains__(self, name: object) -> bool:
        """Whether there is a tensor of that name."""
        return name in self.tensors

    @property
    def aliases(self) -> tuple[tuple[str, ...], ...]:
        """Groups of names that are one and the same tensor in the file."""
        groups: dict[object, list[str]] = {}
        for name, tensor in self.tensors.items():
            if tensor.identity is not None:
                groups.setdefault(tensor.identity, []).append(name)
        return tuple(tuple(names) for names in groups.values() if len(names) > 1)
