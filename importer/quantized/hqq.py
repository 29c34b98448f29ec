"""HQQ: codes of 1 to 8 bits packed along rows, the highest bits holding the first rows; scale and zero for each group.

`M.W_q` with `M.scale` and `M.zero`; beside them, as plain values of a pickle or as small tensors, nbits, group_size, axis and
shape. Codes are unpacked, cut to the number of rows, and are `[-1, group]` (axis 1) or `[group, -1]` (axis 0);
`weight = ((q - zero) * scale).reshape(shape)`. Zeros and scales may be quantised themselves (`zero_q` with `meta_zero`).

Sources: mobiusml/hqq core/quantize.py, core/bitpack.py; huggingface/transformers#33141.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from importer.arrays import Array
from importer.arrays.decoding import Decoder
from importer.dtypes import DType
from importer.errors import TensorError, shown
from importer.quantized.codes import RowParts, Stored
from importer.quantized.model import Format, Source, Unpacked, setting_of, torch_dtype
from importer.quantized.parts import integers_of, matrix, text_of
from importer.quantized.scales import Blocks, Factor, Regrouped, Scaled

__all__ = ["HQQ"]

_PACKINGS = {
    "8bit_u8": (8, 1),
    "4bit_u8": (4, 2),
    "3bit_32": (3, 10),
    "2bit_u8": (2, 4),
    "1bit_u8": (1, 8),
    "4bit_32": (4, 8),
}
_BY_BITS = {8: "8bit_u8", 4: "4bit_u8", 3: "3bit_32", 2: "2bit_u8", 1: "1bit_u8"}
_SETTINGS = (
    "nbits", "group_size", "axis", "shape", "packing", "unpack_view_dtype", "view_as_float", "quant_scale", "quant_zero",
    "compute_dtype", "offload_meta", "encoded_state_dict", "stores_quant_config", "channel_wise", "optimize", "round_zero",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Meta:
    """What stands beside codes."""

    bits: int
    parts: int
    axis: int
    group: int | None
    shape: tuple[int, ...]


def _unpack(source: Source) -> Unpacked:
    metas = {name: _meta(source, name) for name in source.ending(".W_q")}
    bits = sorted({meta.bits for meta in metas.values()})
    found = Unpacked(f"HQQ, {'/'.join(map(str, bits))} bits")
    for name, meta in metas.items():
        prefix = _prefix(source, name)
        parts = {f"{name}.W_q": source.arrays[f"{name}.W_q"]}
        decoder = _decoder(source, name, prefix, parts[f"{name}.W_q"], meta, parts)
        for setting in _setting_names(source, prefix):
            parts[setting] = source.arrays[setting]
        found.add(source, f"{name}.weight", decoder, parts, shape=meta.shape, dtype=_dtype(source, prefix))
    return found


def _prefix(source: Source, name: str) -> str:
    """Return where the settings of a module stand: beside its codes, or in `meta`."""
    nested = f"{name}.meta."
    is_nested = any(f"{nested}{key}" in source.values or f"{nested}{key}" in source.arrays for key in ("nbits", "axis"))
    return nested if is_nested else f"{name}."


def _setting_names(source: Source, prefix: str) -> Iterator[str]:
    return (prefix + setting for setting in _SETTINGS if prefix + setting in source.arrays)


def _decoder(source: Source, name: str, prefix: str, codes: Array, meta: _Meta, parts: dict[str, Array]) -> Scaled:
    """Return the values of codes whose scale and zero, under `prefix`, may be quantised themselves."""
    count = math.prod(meta.shape)
    if meta.group is None or count % meta.group:
        rows, columns = (math.prod(meta.shape[:-1]), meta.shape[-1]) if meta.shape else (1, 1)
    else:
        rows, columns = (count // meta.group, meta.group) if meta.axis == 1 else (meta.group, count // meta.group)
    if len(codes.shape) != 2 or codes.shape[1] != columns or codes.shape[0] != -(-rows // meta.parts):  # noqa: PLR2004 - a matrix
        raise source.misfit(
            name,
            f"W_q {list(codes.shape)} does not hold {list(meta.shape)} with {meta.bits} bits in groups of {meta.group}",
        )
    packed: Decoder = RowParts(codes, (rows, columns), meta.bits, meta.parts, high_first=True)
    if meta.parts == 1:
        packed = Stored(codes)
    grid = (rows, 1) if meta.axis == 1 else (1, columns)
    scale, scale_size = _factor(source, name, prefix, "scale", grid, parts)
    zero, zero_size = _factor(source, name, prefix, "zero", grid, parts)
    return Scaled(packed, Factor(scale, scale_size((rows, columns))), Factor(zero, zero_size((rows, columns))))


class _Size:
    """The blocks that a grid of factors is for."""

    def __init__(self, grid: tuple[int, int]) -> None:
        self._grid = grid

    def __call__(self, whole: tuple[int, int]) -> Blocks:
        height, width = (size if count == 1 else 1 for size, count in zip(whole, self._grid, strict=True))
        return Blocks(max(height, 1), max(width, 1))


def _factor(
    source: Source, name: str, prefix: str, leaf: str, grid: tuple[int, int], parts: dict[str, Array]
) -> tuple[Decoder, _Size]:
    """Return scales or zeros, one for each of a grid or one for all."""
    quantised = f"{prefix}{leaf}_q"
    if quantised in source.arrays:
        inner = f"{prefix}meta_{leaf}."
        parts[quantised] = source.arrays[quantised]
        meta = _meta_at(source, name, inner)
        if math.prod(meta.shape) != grid[0] * grid[1]:
            raise source.misfit(name, f"{shown(quantised)} holds {list(meta.shape)}, not {list(grid)}")
        decoder = _decoder(source, name, inner, parts[quantised], meta, parts)
        for setting in _setting_names(source, inner):
            parts[setting] = source.arrays[setting]
        return decoder if decoder.shape == grid else Regrouped(decoder, grid), _Size(grid)
    stored = parts[f"{prefix}{leaf}"] = source.need(f"{prefix}{leaf}", name)
    if stored.size == 1:
        return Stored(matrix(stored, 1, 1)), _Size((1, 1))
    if stored.size != grid[0] * grid[1]:
        raise source.misfit(name, f"{leaf} {list(stored.shape)} does not go with a grid of {list(grid)}")
    return Stored(matrix(stored, *grid)), _Size(grid)


def _meta(source: Source, name: str) -> _Meta:
    return _meta_at(source, name, _prefix(source, name))


def _meta_at(source: Source, name: str, prefix: str) -> _Meta:
    """Return the settings under `prefix`.

    Raises:
        TensorError: one is missing, or none that is known.
    """
    bits = _integer(source, prefix, "nbits") or setting_of(_stated(source), "nbits", int)
    packing = _text(source, prefix, "packing") or (_BY_BITS.get(bits) if bits is not None else None)
    axis = _integer(source, prefix, "axis")
    axis = setting_of(_stated(source), "axis", int) if axis is None else axis
    group = _integer(source, prefix, "group_size")
    shape = _shape(source, prefix)
    is_known = packing in _PACKINGS and bits in (None, _PACKINGS[packing][0])
    if packing is None or not is_known or axis not in (0, 1) or not shape or min(shape) < 1:
        raise source.misfit(
            name, f"bits {bits}, packing {shown(packing)}, axis {axis} and shape {list(shape)} are none that are known"
        )
    if _flag(source, prefix, "view_as_float"):
        raise source.refused(f"{shown(name)} is HQQ whose bytes pose as floats (view_as_float)")
    width, parts = _PACKINGS[packing]
    return _Meta(bits or width, parts, axis, group if group is not None and group > 0 else None, shape)


def _stated(source: Source) -> dict[str, object]:
    config = source.settings.get("quant_config")
    stated = config.get("weight_quant_params") if isinstance(config, dict) else None
    return stated if isinstance(stated, dict) else {}


def _integer(source: Source, prefix: str, key: str) -> int | None:
    value = source.values.get(prefix + key)
    if type(value) is int:
        return value
    stored = source.arrays.get(prefix + key)
    return integers_of(stored)[0] if stored is not None and stored.size == 1 else None


def _flag(source: Source, prefix: str, key: str) -> bool:
    return source.values.get(prefix + key) is True or bool(_integer(source, prefix, key))


def _text(source: Source, prefix: str, key: str) -> str | None:
    value = source.values.get(prefix + key)
    if isinstance(value, str):
        return value
    stored = source.arrays.get(prefix + key)
    try:
        return text_of(stored) if stored is not None else None
    except TensorError:
        return None


def _shape(source: Source, prefix: str) -> tuple[int, ...]:
    stored = source.arrays.get(f"{prefix}shape")
    if stored is not None:
        return integers_of(stored)
    sizes: list[int] = []
    while type(size := source.values.get(f"{prefix}shape.{len(sizes)}")) is int:
        sizes.append(size)
    return tuple(sizes)


def _dtype(source: Source, prefix: str) -> DType | None:
    return torch_dtype(_text(source, prefix, "compute_dtype"))


def _is_here(source: Source) -> bool:
    return any(True for _ in source.ending(".W_q"))


HQQ = Format("HQQ", ("hqq",), _is_here, _unpack)
