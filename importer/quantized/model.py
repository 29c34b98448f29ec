"""What the formats read and give: a source of stored tensors with its settings, and the weights made of them.

Not here: opening files, and the formats themselves (one module each).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from importer.arrays import Array
from importer.arrays.decoding import Decoder, decoded
from importer.dtypes import DType, dtype_of_torch
from importer.errors import Location, TensorError, UnsupportedError, shown
from importer.quantized.parts import location_of

__all__ = ["QUANTIZED_TENSOR", "Aside", "Composite", "Format", "Source", "Unpacked", "Weight"]

_DAMAGED = (
    "The file is damaged or was made by a version that is not known; get it again, or save the model in full precision."
)
_FULL = "Load the model with the library it was saved by, call its dequantize(), and save that in full precision."

_Value = TypeVar("_Value")


QUANTIZED_TENSOR = "torch.quantized"
"""What `Composite.class_name` is for torch's own quantised tensors; parts are `integers`, `scale` and `zero_point`."""


def as_it_is(array: Array) -> Array:
    """Return the array itself: the way from a decoder to a weight where there is none to go."""
    return array


@dataclass(frozen=True, slots=True, eq=False)
class Composite:
    """A tensor that is an object with parts: one of torch's quantised ones, or of a class of another library.

    Attributes:
        class_name: qualified name of its class.
        shape: what the outside sees.
        dtype: what the outside sees; None where it is not said.
        parts: stored tensors and other composites by attribute.
        values: everything else by attribute.
    """

    class_name: str
    shape: tuple[int, ...]
    dtype: DType | None
    parts: Mapping[str, Array | Composite]
    values: Mapping[str, object] = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """Bytes of all parts."""
        return sum(part.nbytes for part in self.parts.values())


@dataclass(frozen=True, slots=True, eq=False)
class Weight:
    """A tensor given back.

    Attributes:
        name: in the model of full precision.
        array: real values.
        parts: names of the stored tensors it is made of.
        integers: what `integers` gives instead, by the end of the name, where the decoder does not tell.
        decoder: what works the values out, if there is one.
        shape: in which its values are in C order.
        moved: from there to the array.
    """

    name: str
    array: Array
    parts: tuple[str, ...]
    integers: Mapping[str, Array] = field(default_factory=dict)
    decoder: Decoder | None = None
    shape: tuple[int, ...] = ()
    moved: Callable[[Array], Array] = as_it_is


Aside = Mapping[str, str]
"""Stored tensors that belong to no parameter of the model, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A checkpoint as its formats see it.

    Attributes:
        arrays: stored tensors by name.
        composites: tensors that are objects with parts.
        values: plain values by dotted name.
        metadata: texts that the files say of themselves.
        config: config.json, or None.
        settings: `quantization_config` of it, or of a file beside it; empty where there is none.
        sides: other JSON files beside the weights, by name.
        dtype: type of the model's other floats.
        where: the source, for errors.
    """

    arrays: Mapping[str, Array]
    composites: Mapping[str, Composite] = field(default_factory=dict)
    values: Mapping[str, object] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, object] | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    sides: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    dtype: DType
    where: Location

    @property
    def method(self) -> str:
        """Name of the method, as the settings have it; empty where they have none."""
        method = self.settings.get("quant_method")
        return method.lower() if isinstance(method, str) else ""

    def ending(self, end: str) -> Iterator[str]:
        """Yield what stands before `end` in the names that end so."""
        return (name[: -len(end)] for name in self.arrays if name.endswith(end))

    def need(self, name: str, owner: str) -> Array:
        """Return a stored tensor that `owner` cannot do without.

        Raises:
            TensorError: it is not there.
        """
        found = self.arrays.get(name)
        if found is None:
            raise TensorError(
                f"{shown(owner)} is quantised, but {shown(name)} is not there", where=self.where, how=_DAMAGED
            )
        return found

    def setting(self, key: str, kind: type[_Value]) -> _Value | None:
        """Return a setting of that kind; None for none, or one of another kind."""
        return setting_of(self.settings, key, kind)

    def misfit(self, owner: str, what: str) -> TensorError:
        """Return the error for parts that do not belong together."""
        return TensorError(f"{shown(owner)} is quantised, but {what}", where=self.where, how=_DAMAGED)

    def refused(self, what: str) -> UnsupportedError:
        """Return the error for a layout that is not read."""
        return UnsupportedError(what, where=self.where, how=_FULL)


def setting_of(settings: Mapping[str, object], key: str, kind: type[_Value]) -> _Value | None:
    """Return a setting of that kind; None for none, or one of another kind."""
    value = settings.get(key)
    return value if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)) else None


def torch_dtype(value: object) -> DType | None:
    """Return the float type that `bfloat16`, `torch.bfloat16` or the like names."""
    found = dtype_of_torch(value) if isinstance(value, str) else None
    return found if found is not None and found.is_float and found.itemsize > 1 else None


@dataclass(slots=True)
class Unpacked:
    """What a format found, growing while it looks.

    Attributes:
        label: the format in a few words, with what is the same for all tensors of it.
        weights: tensors given back, by name.
        aside: stored tensors that are no weights, with the reason.
        notes: remarks for the report.
    """

    label: str
    weights: dict[str, Weight] = field(default_factory=dict)
    aside: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(
        self,
        source: Source,
        name: str,
        decoder: Decoder,
        parts: Mapping[str, Array],
        *,
        shape: tuple[int, ...] | None = None,
        dtype: DType | None = None,
        moved: Callable[[Array], Array] = as_it_is,
    ) -> None:
        """Take down a weight: a decoder, read in C order as `shape`, then moved."""
        from importer.quantized.checking import fault_of  # only where there is something to hold together

        where = next((location_of(part) for part in parts.values()), source.where)
        fault = fault_of(decoder)
        if fault is not None:
            raise source.misfit(name, fault)
        shape = decoder.shape if shape is None else shape
        if math.prod(shape) != math.prod(decoder.shape):
            raise source.misfit(name, f"{decoder.shape[0]}×{decoder.shape[1]} values are not {list(shape)}")
        array = moved(decoded(decoder, dtype or source.dtype, shape, where))
        self.weights[name] = Weight(name, array, tuple(parts), decoder=decoder, shape=shape, moved=moved)


@dataclass(frozen=True, slots=True)
class Format:
    """A way to store weights.

    Attributes:
        name: as the report has it.
        methods: values of `quant_method` that mean it.
        is_here: whether stored names or classes show it, whatever the settings say.
        unpack: finds every weight stored so.
    """

    name: str
    methods: tuple[str, ...]
    is_here: Callable[[Source], bool]
    unpack: Callable[[Source], Unpacked]
