"""compressed-tensors (llm-compressor, vLLM): several layouts, told by `format` and by the groups of the settings.

    pack-quantized         weight_packed I32 [out, ceil(in * bits / 32)], weight_scale [out, groups], weight_shape; asymmetric:
                           weight_zero_point packed along the outputs; weight_g_idx [in], the group of each input
    int-quantized          weight I8, weight_scale [out, groups]                                      q * scale
    float-quantized        weight F8_E4M3, weight_scale [out, groups], [1] or a grid of blocks        q * scale
    nvfp4-pack-quantized   weight_packed U8, weight_scale F8_E4M3 [out, in / 16], weight_global_scale E2M1 * (scale / global)
    mxfp4-pack-quantized   weight_packed U8, weight_scale U8 [out, in / 32]                           E2M1 * 2^(scale - 127)

Which tensors are quantised is told by their names. `groups` of the settings say bits and block sizes of modules by `targets`.

Source: compressed_tensors compressors/*, quantization/lifecycle/forward_helpers.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from importer.arrays import Array
from importer.arrays.decoding import Decoder
from importer.dtypes import I32, U8, U32, Kind
from importer.errors import shown
from importer.quantized.block_fp8 import is_fp8, scaled_blocks
from importer.quantized.codes import E2M1, Bits, Exponents, Levels, Stored, bits_along_rows
from importer.quantized.model import Format, Source, Unpacked, Weight, setting_of
from importer.quantized.parts import as_bytes, integers_of, matrix
from importer.quantized.scales import Adjusted, Blocks, Factor, Index, Scaled

__all__ = ["COMPRESSED_TENSORS"]

_WORD_BITS = 32
_KNOWN_BITS = range(1, 9)
_PLAIN_FORMATS = frozenset(
    {
        "", "dense", "pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "nvfp4-pack-quantized",
        "mxfp4-pack-quantized", "mixed-precision", "mxfp8-quantized",
    }
)  # fmt: skip
_ACTIVATIONS = {
    ".input_scale": "scale of the activations: not a weight",
    ".input_global_scale": "scale of the activations: not a weight",
    ".input_zero_point": "zero point of the activations: not a weight",
    ".output_scale": "scale of the activations: not a weight",
    ".output_zero_point": "zero point of the activations: not a weight",
    ".k_scale": "scale of the key cache",
    ".v_scale": "scale of the value cache",
    ".q_scale": "scale of the queries: not a weight",
    ".k_zero_point": "zero point of the key cache",
    ".v_zero_point": "zero point of the value cache",
}
_DENSE_SINCE = (0, 13)


@dataclass(frozen=True, slots=True)
class _Group:
    """What the settings say of some modules.

    Attributes:
        targets: module names, patterns after `re:`, or classes of layers.
        bits: of a code.
        size: inputs of a group, if it says so.
        block: rows and columns of a block, if it says so.
        is_symmetric: whether zero points are in the middle.
        kind: `int` or `float`.
        format: layout, if the group has one of its own.
    """

    targets: tuple[str, ...] = ()
    bits: int | None = None
    size: int | None = None
    block: tuple[int, int] | None = None
    is_symmetric: bool = True
    kind: str = "int"
    format: str = ""


@dataclass(slots=True)
class _Reader:
    source: Source
    found: Unpacked
    groups: tuple[_Group, ...] = field(default_factory=tuple)


def _unpack(source: Source) -> Unpacked:
    groups = tuple(_groups(source))
    stated = source.setting("format", str) or ""
    for layout in {stated, *(group.format for group in groups)}:
        if layout not in _PLAIN_FORMATS:
            raise source.refused(f"weights of compressed-tensors in the layout {shown(layout)}")
    _refuse_others(source)
    bits = "/".join(map(str, sorted({group.bits for group in groups if group.bits is not None})))
    found = Unpacked(" ".join(filter(None, ["compressed-tensors", stated, f"{bits} bits" if bits else ""])))
    reader = _Reader(source, found, groups)
    for module in source.ending(".weight_packed"):
        _add_packed(reader, module)
    for module in source.ending(".weight_scale"):
        if f"{module}.weight" in source.arrays:
            _add_whole(reader, module)
        elif f"{module}.weight_packed" not in source.arrays:
            raise source.misfit(f"{module}.weight", "its codes are not there")
    for name in source.arrays:
        for end, reason in _ACTIVATIONS.items():
            if name.endswith(end):
                found.aside[name] = reason
    return found


def _refuse_others(source: Source) -> None:
    """Refuse what changes weights besides their scales."""
    sparsity = source.settings.get("sparsity_config")
    layout = sparsity.get("format") if isinstance(sparsity, dict) else None
    if layout not in (None, "dense"):
        raise source.refused(f"sparse weights of compressed-tensors in the layout {shown(layout)}")
    transforms = source.settings.get("transform_config")
    if isinstance(transforms, dict) and transforms.get("config_groups"):
        raise source.refused("weights of compressed-tensors that are rotated (transform_config)")


def _groups(source: Source) -> Iterator[_Group]:
    table = source.settings.get("config_groups")
    for described in table.values() if isinstance(table, dict) else ():
        weights = described.get("weights") if isinstance(described, dict) else None
        if not isinstance(weights, dict):
            continue
        targets = described.get("targets")
        yield _Group(
            targets=tuple(item for item in targets if isinstance(item, str)) if isinstance(targets, list) else (),
            bits=setting_of(weights, "num_bits", int),
            size=setting_of(weights, "group_size", int),
            block=_block(weights.get("block_structure")),
            is_symmetric=weights.get("symmetric") is not False,
            kind=setting_of(weights, "type", str) or "int",
            format=setting_of(described, "format", str) or "",
        )


def _block(value: object) -> tuple[int, int] | None:
    match value:
        case [int() as rows, int() as columns] if rows > 0 and columns > 0:
            return rows, columns
        case str() as text if (sizes := re.fullmatch(r"(\d{1,6})x(\d{1,6})", text)) is not None:
            rows, columns = int(sizes[1]), int(sizes[2])
            return (rows, columns) if rows and columns else None
        case _:
            return None


def _group_of(reader: _Reader, module: str) -> _Group:
    """Return what the settings say of a module: by its name first, then by the class of the layer."""
    by_class = [group for group in reader.groups if any(_is_class(target) for target in group.targets)]
    for group in reader.groups:
        if any(_matches(target, module) for target in group.targets if not _is_class(target)):
            return group
    if len(by_class) > 1:
        raise reader.source.misfit(module, "more than one group of the settings may be meant")
    return by_class[0] if by_class else reader.groups[0] if len(reader.groups) == 1 else _Group()


def _is_class(target: str) -> bool:
    return not target.startswith("re:") and "." not in target and target[:1].isupper()


def _matches(target: str, module: str) -> bool:
    if not target.startswith("re:"):
        return module == target or module.endswith(f".{target}")
    import regex

    try:
        return regex.match(target.removeprefix("re:"), module, timeout=1.0) is not None
    except (regex.error, TimeoutError):
        return False


def _add_packed(reader: _Reader, module: str) -> None:
    source = reader.source
    packed = source.arrays[f"{module}.weight_packed"]
    scale = source.need(f"{module}.weight_scale", f"{module}.weight")
    if len(packed.shape) != 2:  # noqa: PLR2004 - a matrix
        raise source.misfit(module, f"weight_packed is {list(packed.shape)}")
    if packed.dtype is U8:
        _add_fp4(reader, module, packed, scale)
    elif packed.dtype in (I32, U32):
        _add_words(reader, module, packed, scale)
    else:
        raise source.misfit(module, f"weight_packed is {packed.dtype}")


def _add_fp4(reader: _Reader, module: str, packed: Array, scale: Array) -> None:
    """Take down 4-bit floats: NVFP4, with a scale for the whole weight besides, or MXFP4."""
    source = reader.source
    rows, columns = packed.shape[0], packed.shape[1] * 2
    stored = as_bytes(packed)
    whole = source.arrays.get(f"{module}.weight_global_scale")
    parts = {f"{module}.weight_packed": packed, f"{module}.weight_scale": scale}
    if (
        stored is None
        or scale.shape[:1] != (rows,)
        or len(scale.shape) != len(packed.shape)
        or not scale.shape[1]
        or columns % scale.shape[1]
    ):
        raise source.misfit(module, f"weight_packed {list(packed.shape)} does not go with scales {list(scale.shape)}")
    grid: Decoder
    if scale.dtype is U8 or scale.dtype.name == "F8_E8M0":
        grid = Exponents(matrix(scale, *scale.shape))
    elif whole is not None and whole.size == 1:
        parts[f"{module}.weight_global_scale"] = whole
        grid = Adjusted(Stored(matrix(scale, *scale.shape)), divisor=whole)
    else:
        raise source.misfit(module, "its scale for the whole weight, weight_global_scale, is not there")
    decoder = Scaled(Levels(stored, columns, E2M1, 4), Factor(grid, Blocks(1, columns // scale.shape[1])))
    reader.found.add(source, f"{module}.weight", decoder, parts)


def _add_words(reader: _Reader, module: str, packed: Array, scale: Array) -> None:
    """Take down integers packed into words."""
    source = reader.source
    group = _group_of(reader, module)
    shape = source.need(f"{module}.weight_shape", f"{module}.weight")
    rows, columns = _two(source, module, integers_of(shape))
    bits = group.bits
    if bits not in _KNOWN_BITS:
        stated = "nothing says how many bits a code has" if bits is None else f"the settings say it has {bits} bits"
        raise source.misfit(module, stated)
    assert bits is not None
    dense = _is_dense(source, module, packed.shape[1], columns, bits)
    if packed.shape[0] != rows or scale.size % max(rows, 1) or not scale.size:
        raise source.misfit(
            module,
            f"weight_packed {list(packed.shape)} does not go with {rows}×{columns} and scales {list(scale.shape)}",
        )
    groups = 1 if scale.size == 1 else scale.size // rows
    per_row = 1 if scale.size == 1 and rows != 1 else rows
    size = group.size if group.size is not None and group.size > 0 and groups > 1 else -(-columns // groups)
    if not size or -(-columns // size) != groups:
        raise source.misfit(module, f"groups of {size} in {columns} inputs do not go with scales {list(scale.shape)}")
    parts = {f"{module}.weight_packed": packed, f"{module}.weight_scale": scale, f"{module}.weight_shape": shape}
    g_idx = source.arrays.get(f"{module}.weight_g_idx")
    index = None
    if g_idx is not None:
        parts[f"{module}.weight_g_idx"] = g_idx
        if g_idx.size != columns or g_idx.dtype.kind is not Kind.INTEGER:
            raise source.misfit(module, f"weight_g_idx {list(g_idx.shape)} does not go with {columns} inputs")
        index = Index(g_idx, 1, size) if groups > 1 else None
    blocks = Blocks(1 if per_row == rows else max(rows, 1), size)
    middle = 1 << (bits - 1)
    zeros = _zeros(reader, module, group, (rows, groups), bits, dense=dense)
    scales = Factor(Stored(matrix(scale, per_row, groups)), blocks, index)
    codes = bits_along_rows(packed, columns, bits, dense=dense, minus=0 if zeros is not None and zeros[1] else middle)
    if zeros is not None:
        parts[f"{module}.weight_zero_point"] = source.arrays[f"{module}.weight_zero_point"]
    zero_factor = None if zeros is None else Factor(zeros[0], Blocks(1, size), index)
    reader.found.add(source, f"{module}.weight", Scaled(codes, scales, zero_factor), parts)


def _two(source: Source, module: str, sizes: tuple[int, ...]) -> tuple[int, int]:
    if len(sizes) != 2 or min(sizes) < 0:  # noqa: PLR2004 - outputs and inputs
        raise source.misfit(module, f"weight_shape is {list(sizes)}")
    return sizes[0], sizes[1]


def _zeros(
    reader: _Reader, module: str, group: _Group, grid: tuple[int, int], bits: int, *, dense: bool
) -> tuple[Decoder, bool] | None:
    """Return the zero points, and whether they are as large as codes are (else less the middle); None if it has none."""
    source = reader.source
    stored = source.arrays.get(f"{module}.weight_zero_point")
    if stored is None:
        if not group.is_symmetric:
            raise source.misfit(module, "its zero points, weight_zero_point, are not there")
        return None
    rows, groups = grid
    if stored.dtype in (I32, U32) and len(stored.shape) == 2 and stored.shape[0] != rows:  # noqa: PLR2004 - packed along the outputs
        own = _is_dense(source, module, stored.shape[0], rows, bits, prefer=dense)
        return Bits(matrix(stored, *stored.shape), grid, bits, 0, dense=own), True
    if stored.size != rows * groups or stored.dtype.kind is not Kind.INTEGER:
        raise source.misfit(
            module, f"weight_zero_point {stored.dtype} {list(stored.shape)} does not go with {rows}×{groups} groups"
        )
    packed = (
        stored.dtype in (I32, U32) and _words(rows, bits, dense=dense) == rows
    )  # a code to a word: one row, or wide codes
    if packed:
        return Bits(matrix(stored, rows, groups), grid, bits, 0, dense=dense), True
    return Stored(matrix(stored, rows, groups)), False


def _words(count: int, bits: int, *, dense: bool) -> int:
    return -(-count * bits // _WORD_BITS) if dense else -(-count // (_WORD_BITS // bits))


def _is_dense(source: Source, module: str, words: int, count: int, bits: int, *, prefer: bool | None = None) -> bool:
    """Whether codes go on over the end of a word; where both come to as many words, the version of the library tells.

    Raises:
        TensorError: they come to another number.
        UnsupportedError: nothing tells.
    """
    fitting = [dense for dense in (True, False) if _words(count, bits, dense=dense) == words]
    if not fitting:
        raise source.misfit(module, f"{count} codes of {bits} bits are not {words} words")
    if len(fitting) == 1 or _WORD_BITS % bits == 0 or words <= 1:
        return fitting[0]
    if prefer is not None:
        return prefer
    version = source.setting("version", str)
    numbers = re.findall(r"\d+", version)[:2] if version is not None else []
    if len(numbers) == 2:  # noqa: PLR2004 - 0.13
        return (int(numbers[0]), int(numbers[1])) >= _DENSE_SINCE
    raise source.refused(f"nothing says whether the {bits}-bit codes of {shown(module)} go over the ends of words")


def _add_whole(reader: _Reader, module: str) -> None:
    """Take down weights of a whole byte each."""
    source, name = reader.source, f"{module}.weight"
    codes, scale = source.arrays[name], source.arrays[f"{module}.weight_scale"]
    if codes.dtype.itemsize != 1 or codes.dtype.kind not in (Kind.INTEGER, Kind.FLOAT):
        raise source.misfit(name, f"it is {codes.dtype} with a scale")
    group = _group_of(reader, module)
    parts = {name: codes, f"{module}.weight_scale": scale}
    zero_point = source.arrays.get(f"{module}.weight_zero_point")
    if zero_point is not None:
        parts[f"{module}.weight_zero_point"] = zero_point
    if is_fp8(codes) and (group.block is not None or len(codes.shape) > 2):  # noqa: PLR2004 - stacked
        array = scaled_blocks(source, name, codes, scale, group.block)
        reader.found.weights[name] = Weight(name, array, tuple(parts))
        return
    rows = math.prod(codes.shape[:-1])
    columns = codes.shape[-1] if codes.shape else 1
    scales = _by_rows(source, name, scale, (rows, columns), group)
    zeros = None if zero_point is None else _by_rows(source, name, zero_point, (rows, columns), group)
    decoder = Scaled(Stored(matrix(codes, rows, columns)), scales, zeros)
    reader.found.add(source, name, decoder, parts, shape=codes.shape)


def _by_rows(source: Source, name: str, factor: Array, whole: tuple[int, int], group: _Group) -> Factor:
    """Return factors that hold for the whole weight, for rows, or for groups in them."""
    rows, columns = whole
    if factor.size == 1:
        return Factor(_grid(factor, 1, 1), Blocks(max(rows, 1), max(columns, 1)))
    groups = factor.size // max(rows, 1)
    size = group.size if group.size is not None and group.size > 0 and groups > 1 else -(-columns // max(groups, 1))
    if not groups or not size or factor.size != rows * groups or -(-columns // size) != groups:
        raise source.misfit(name, f"{list(factor.shape)} scales do not go with {rows}×{columns}")
    return Factor(_grid(factor, rows, groups), Blocks(1, size))


def _grid(factor: Array, rows: int, columns: int) -> Decoder:
    made = matrix(factor, rows, columns)
    return Exponents(made) if factor.dtype is U8 or factor.dtype.name == "F8_E8M0" else Stored(made)


def _is_here(source: Source) -> bool:
    return any(True for _ in source.ending(".weight_packed"))


COMPRESSED_TENSORS = Format("compressed-tensors", ("compressed-tensors", "compressed_tensors"), _is_here, _unpack)
