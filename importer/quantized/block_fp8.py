"""8-bit floats with one scale for each block of a weight (DeepSeek, Qwen), each row, or the whole of it.

`X` is F8_E4M3 `[out, in]`, or `[experts, out, in]`; `X_scale_inv` is a grid of F32, BF16 or powers of two, one for each
block of `weight_block_size`; the last block of a row or column is cut off. `weight = X * scale`, whatever the name says.

Sources: deepseek-ai/DeepSeek-V3 README_WEIGHTS.md and inference/kernel.py; transformers integrations/finegrained_fp8.py,
integrations/fbgemm_fp8.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from importer.arrays import Array, narrow, reshape, stack
from importer.arrays.decoding import decoded
from importer.dtypes import U8
from importer.quantized.codes import Exponents, Stored
from importer.quantized.model import Format, Source, Unpacked, Weight
from importer.quantized.parts import location_of, matrix
from importer.quantized.scales import Blocks, Factor, Scaled

__all__ = ["BLOCK_FP8", "FBGEMM_FP8", "is_fp8", "scale_grid", "scaled_blocks"]

_SCALE_NAMES = ("_scale_inv", "_scale")
_MODULE_SCALES = ("scale", "scale_weight")
_ACTIVATIONS = (
    ".input_scale",
    ".activation_scale",
    ".input_scale_ub",
    ".k_scale",
    ".v_scale",
    ".scale_input",
    "scaled_fp8",
)
_STACKED = 3


def is_fp8(array: Array) -> bool:
    """Whether elements are 8-bit floats that stand for something else without a scale."""
    return array.dtype.is_float and array.dtype.itemsize == 1 and array.dtype.name != "F8_E8M0"


def scale_grid(scale: Array, rows: int, columns: int) -> Stored | Exponents:
    """Return scales as a matrix, U8 and F8_E8M0 ones being exponents."""
    made = matrix(scale, rows, columns)
    return Exponents(made) if scale.dtype is U8 or scale.dtype.name == "F8_E8M0" else Stored(made)


def scaled_blocks(source: Source, name: str, codes: Array, scale: Array, block: tuple[int, int] | None) -> Array:
    """Return `codes * scale`, a matrix or a stack of them, with one scale for the whole, each row, or each block.

    Raises:
        TensorError: the scales are not as many as the blocks, or nothing says how large those are.
    """
    if len(codes.shape) == _STACKED:
        return _stacked(source, name, codes, scale, block)
    rows, columns = codes.shape if len(codes.shape) == 2 else (1, codes.size)  # noqa: PLR2004 - a matrix
    if scale.size == 1:
        grid, blocks = (1, 1), Blocks(max(rows, 1), max(columns, 1))
    elif scale.size == rows and scale.shape in {(rows,), (rows, 1)}:
        grid, blocks = (rows, 1), Blocks(1, max(columns, 1))
    elif block is None:
        raise source.misfit(name, f"nothing says for which block each of its {list(scale.shape)} scales holds")
    else:
        grid, blocks = (-(-rows // block[0]), -(-columns // block[1])), Blocks(*block)
    if scale.size != grid[0] * grid[1] or (len(scale.shape) > 1 and scale.shape != grid):
        raise source.misfit(
            name, f"{list(scale.shape)} scales do not go with blocks of {list(block or ())} in {list(codes.shape)}"
        )
    decoder = Scaled(Stored(matrix(codes, rows, columns)), Factor(scale_grid(scale, *grid), blocks))
    return decoded(decoder, source.dtype, codes.shape, location_of(codes))


def _stacked(source: Source, name: str, codes: Array, scale: Array, block: tuple[int, int] | None) -> Array:
    """Return a stack, each of whose matrices begins with a block of its own."""
    count, rows, columns = codes.shape
    if scale.shape[:1] != (count,) and scale.size != 1:
        raise source.misfit(name, f"{list(scale.shape)} scales do not go with {count} matrices")
    parts = []
    for index in range(count):
        one = reshape(narrow(codes, 0, index, index + 1), (rows, columns))
        own = scale if scale.size == 1 else narrow(scale, 0, index, index + 1)
        parts.append(scaled_blocks(source, name, one, own if scale.size == 1 else reshape(own, scale.shape[1:]), block))
    return stack(parts)


def _owners(source: Source) -> Iterator[tuple[str, str]]:
    """Yield every 8-bit float tensor with the name of its scale."""
    for name, array in source.arrays.items():
        if not is_fp8(array):
            continue
        named = [f"{name}{end}" for end in _SCALE_NAMES]
        if name.endswith(".weight"):
            named += [f"{name.removesuffix('weight')}{leaf}" for leaf in _MODULE_SCALES]
        yield name, next((scale for scale in named if scale in source.arrays), named[0])


def _is_stored_plainly(source: Source, name: str) -> bool:
    """Whether the settings leave a tensor out of the scheme; it is for casts to refuse it then."""
    skipped = source.settings.get("modules_to_not_convert")
    module = name.rpartition(".")[0]
    return isinstance(skipped, list) and any(isinstance(one, str) and module.endswith(one) for one in skipped)


def _block(source: Source) -> tuple[int, int] | None:
    match source.settings.get("weight_block_size"):
        case [int() as rows, int() as columns] if rows > 0 and columns > 0:
            return rows, columns
        case _:
            return None


def _unpack(source: Source) -> Unpacked:
    block = _block(source)
    found = Unpacked(f"fp8, blocks of {block[0]}×{block[1]}" if block else "fp8")
    for name, scale_name in _owners(source):
        if scale_name not in source.arrays and _is_stored_plainly(source, name):
            continue
        codes, scale = source.arrays[name], source.need(scale_name, name)
        array = scaled_blocks(source, name, codes, scale, block)
        found.weights[name] = Weight(name, array, (name, scale_name))
    for name in source.arrays:
        if name.endswith(_ACTIVATIONS):
            found.aside[name] = "scale of the activations or the cache: not a weight"
    return found


def _is_here(source: Source) -> bool:
    return any(scale in source.arrays for _, scale in _owners(source))


BLOCK_FP8 = Format("fp8", ("fp8",), _is_here, _unpack)
FBGEMM_FP8 = Format("fbgemm fp8", ("fbgemm_fp8",), lambda _: False, _unpack)
