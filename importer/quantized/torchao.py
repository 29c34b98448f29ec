"""torchao: one integer or 8-bit float for each value, with a scale and perhaps a zero for each block.

In safetensors a weight `M.weight` is taken apart into `M._weight_qdata`, `M._weight_scale` and `M._weight_zero_point`;
what they are is JSON under the weight's name in the metadata. In pickles it is an object of a class of torchao, older ones
with another object, `tensor_impl`, inside. `weight = (q - zero_point) * scale`. Classes whose data is arranged for kernels are
refused by name.

Sources: torchao prototype/safetensors, quantization/quantize_/workflows, dtypes/affine_quantized_tensor.py; pytorch/ao#630.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from importer.arrays import Array
from importer.dtypes import DType, Kind
from importer.errors import shown
from importer.quantized.codes import Stored
from importer.quantized.model import Composite, Format, Source, Unpacked, torch_dtype
from importer.quantized.parts import matrix
from importer.quantized.scales import Blocks, Factor, Scaled

__all__ = ["TORCHAO"]

_PLAIN = frozenset(
    {
        "Int8Tensor",
        "Float8Tensor",
        "IntxUnpackedToInt8Tensor",
        "AffineQuantizedTensor",
        "LinearActivationQuantizedTensor",
    }
)
_WRAPPERS = {"LinearActivationQuantizedTensor", "WeightTensorWithLinearActivationQuantizationMetadata"}
_PLAIN_IMPLS = frozenset({"PlainAQTTensorImpl", "PlainAQTLayout"})
_FLOAT_ZEROS = 2  # ZeroPointDomain.FLOAT
_CHANGES = ("act_pre_scale",)


@dataclass(frozen=True, slots=True)
class _Parts:
    """A weight in parts."""

    name: str
    class_name: str
    data: Array
    scale: Array
    zero_point: Array | None
    block: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: DType
    stored: Mapping[str, Array]


def _unpack(source: Source) -> Unpacked:
    weights = [*_from_metadata(source), *_from_objects(source)]
    kinds = sorted({weight.class_name for weight in weights})
    found = Unpacked(f"torchao {', '.join(kinds)}")
    for weight in weights:
        _add(source, found, weight)
    return found


def _add(source: Source, found: Unpacked, weight: _Parts) -> None:
    shape, name = weight.shape, weight.name
    block = weight.block or _block_of(source, weight)
    if len(block) != len(shape) or weight.data.shape != shape or not _is_code(weight.data.dtype):
        raise source.misfit(
            name, f"{weight.data.dtype} {list(weight.data.shape)} in blocks of {list(block)} is not {list(shape)}"
        )
    block = tuple(size if part in (-1, 0) else min(part, size) for part, size in zip(block, shape, strict=True))
    if any(part < 1 for part in block) or any(part != 1 for part in block[:-2]):
        raise source.refused(f"{shown(name)} is quantised in blocks of {list(block)}")
    rows, columns = math.prod(shape[:-1]), shape[-1] if shape else 1
    height = block[-2] if len(block) > 1 else 1
    if len(shape) > 2 and height > 1 and shape[-2] % height:  # noqa: PLR2004 - blocks that end within a stack
        raise source.refused(f"{shown(name)} is quantised in blocks of {list(block)}")
    grid = (-(-rows // height), -(-columns // block[-1]))
    factors = [weight.scale] if weight.zero_point is None else [weight.scale, weight.zero_point]
    if any(factor.size != grid[0] * grid[1] for factor in factors):
        raise source.misfit(
            name, f"{list(weight.scale.shape)} scales do not go with blocks of {list(block)} in {list(shape)}"
        )
    scale, *zeros = (Factor(Stored(matrix(factor, *grid)), Blocks(height, block[-1])) for factor in factors)
    decoder = Scaled(Stored(matrix(weight.data, rows, columns)), scale, zeros[0] if zeros else None)
    found.add(source, name, decoder, weight.stored, shape=shape, dtype=weight.dtype)


def _is_code(dtype: DType) -> bool:
    return dtype.itemsize == 1 and dtype.kind in (Kind.INTEGER, Kind.FLOAT)


def _block_of(source: Source, weight: _Parts) -> tuple[int, ...]:
    """Return the blocks that scales of the same rank as the weight are for."""
    scale, shape = weight.scale.shape, weight.shape
    if weight.scale.size == 1:
        return shape
    if len(scale) != len(shape) or any(not part or size % part for size, part in zip(shape, scale, strict=True)):
        raise source.misfit(weight.name, f"nothing says for which block each of its {list(scale)} scales holds")
    return tuple(size // part for size, part in zip(shape, scale, strict=True))


# Safetensors


def _from_metadata(source: Source) -> Iterator[_Parts]:
    for name, text in source.metadata.items():
        described = _described(text)
        kind = described.get("_type")
        module, _, leaf = name.rpartition(".")
        prefix = f"{module}._{leaf}_" if module else f"_{leaf}_"
        if (
            not isinstance(kind, str)
            or kind == "Tensor"
            or not any(known.startswith(prefix) for known in source.arrays)
        ):
            continue
        if kind not in _PLAIN:
            raise source.refused(f"{shown(name)} is a {kind} of torchao, which is arranged for kernels of one kind")
        data = described.get("_data")
        attributes: dict[str, object] = data if isinstance(data, dict) else {}
        names = described.get("_tensor_data_names")
        if isinstance(names, list) and any(change in names for change in _CHANGES):
            raise source.refused(f"{shown(name)} is a {kind} of torchao whose inputs are scaled before it")
        stored = {
            f"{prefix}{part}": source.need(f"{prefix}{part}", name)
            for part in ("qdata", "scale", "zero_point")
            if part != "zero_point" or f"{prefix}{part}" in source.arrays
        }
        qdata = stored[f"{prefix}qdata"]
        yield _Parts(
            name,
            kind,
            qdata,
            stored[f"{prefix}scale"],
            stored.get(f"{prefix}zero_point"),
            _sizes(attributes.get("block_size")),
            qdata.shape,
            _stated(attributes.get("dtype")) or source.dtype,
            stored,
        )


def _described(text: str) -> dict[str, object]:
    if not text.startswith("{"):
        return {}
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _stated(value: object) -> DType | None:
    return torch_dtype(value.get("_data")) if isinstance(value, dict) else None


def _sizes(value: object) -> tuple[int, ...]:
    if isinstance(value, Sequence) and not isinstance(value, str) and all(type(size) is int for size in value):
        return tuple(value)
    return ()


# Pickles


def _from_objects(source: Source) -> Iterator[_Parts]:
    for name, composite in source.composites.items():
        if composite.class_name.startswith("torchao."):
            yield _from_object(source, name, composite)


def _from_object(source: Source, name: str, composite: Composite) -> _Parts:
    kind = _short(composite)
    while kind in _WRAPPERS:
        inner = composite.parts.get("original_weight_tensor")
        if not isinstance(inner, Composite):
            raise source.misfit(name, f"a {kind} of torchao without a weight")
        composite, kind = inner, _short(inner)
    holder = composite.parts.get("tensor_impl", composite.parts.get("layout_tensor"))
    if isinstance(holder, Composite):
        if _short(holder) not in _PLAIN_IMPLS:
            raise source.refused(
                f"{shown(name)} is a {kind} of torchao whose data is a {_short(holder)}, arranged for kernels"
            )
    else:
        holder = composite
    if kind not in _PLAIN:
        raise source.refused(f"{shown(name)} is a {kind} of torchao, which is arranged for kernels of one kind")
    if any(isinstance(composite.parts.get(change), Array) for change in _CHANGES):
        raise source.refused(f"{shown(name)} is a {kind} of torchao whose inputs are scaled before it")
    if composite.values.get("zero_point_domain") in (_FLOAT_ZEROS, "FLOAT"):
        raise source.refused(f"{shown(name)} is a {kind} of torchao with zero points that are real numbers")
    data = holder.parts.get("qdata", holder.parts.get("int_data", holder.parts.get("float8_data")))
    scale, zero_point = holder.parts.get("scale"), holder.parts.get("zero_point")
    if not isinstance(data, Array) or not isinstance(scale, Array):
        raise source.refused(f"{shown(name)} is a {kind} of torchao without integers and scales")
    dtype = composite.dtype if composite.dtype is not None and composite.dtype.is_float else source.dtype
    zeros = zero_point if isinstance(zero_point, Array) and zero_point.size else None
    block = _sizes(composite.values.get("block_size"))
    return _Parts(name, kind, data, scale, zeros, block, composite.shape, dtype, {name: data})


def _short(composite: Composite) -> str:
    return composite.class_name.rpartition(".")[2]


def _is_here(source: Source) -> bool:
    if any(composite.class_name.startswith("torchao.") for composite in source.composites.values()):
        return True
    return any(name.endswith("_weight_qdata") for name in source.arrays)


TORCHAO = Format("torchao", ("torchao",), _is_here, _unpack)
