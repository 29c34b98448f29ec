"""bitsandbytes: int8 with a largest value for each row, and 4-bit levels (nf4, fp4) with one for each run of elements.

**int8**: `X.weight` I8 `[out, in]`, `X.SCB` F32 `[out]`; `weight = q * SCB / 127`. **4 bits**: `X.weight` holds two codes in a
byte, the high nibble first, through the whole tensor regardless of rows; `.quant_map` is the sixteen levels, `.absmax` one
number for each `blocksize` elements, `.quant_state.bitsandbytes__nf4` JSON with blocksize, dtype and shape. **Double**:
`.absmax` is U8 as well, `absmax = nested_quant_map[a] * nested_absmax[b // nested_blocksize] + nested_offset`. The packed bytes
may pose as another type (bnb_4bit_quant_storage).

Sources: bitsandbytes functional.py (QuantState), backends/default/ops.py, nn/modules.py; transformers
integrations/bitsandbytes.py.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

from importer.arrays import Array, transpose
from importer.arrays.decoding import Decoder
from importer.dtypes import I8, U8, DType
from importer.errors import shown
from importer.quantized.codes import Levels, Stored
from importer.quantized.conv1d import is_conv1d
from importer.quantized.model import Format, Source, Unpacked, as_it_is, setting_of, torch_dtype
from importer.quantized.parts import as_bytes, flat, integers_of, matrix, text_of
from importer.quantized.scales import Adjusted, Blocks, Factor, Regrouped, Scaled

__all__ = ["BITSANDBYTES"]

_STATE = ".quant_state.bitsandbytes__"


@dataclass(frozen=True, slots=True)
class _State:
    """What the JSON beside a 4-bit tensor says."""

    kind: str
    blocksize: int
    dtype: DType
    shape: tuple[int, ...]
    nested_blocksize: int | None
    nested_offset: float


def _unpack(source: Source) -> Unpacked:
    states = [name for name in source.arrays if _STATE in name]
    rows = list(source.ending(".SCB"))
    kinds = sorted({name.partition(_STATE)[2] for name in states} | ({"int8"} if rows else set()))
    found = Unpacked(f"bitsandbytes {', '.join(kinds)}")
    for name in rows:
        _add_rows(source, found, name)
    for state_name in states:
        _add_levels(source, found, state_name.partition(_STATE)[0], state_name)
    return found


def _add_rows(source: Source, found: Unpacked, module: str) -> None:
    """Take down an int8 weight."""
    name = f"{module}.weight"
    codes, largest = source.need(name, name), source.arrays[f"{module}.SCB"]
    if codes.dtype is not I8 or len(codes.shape) != 2 or largest.size != codes.shape[0]:  # noqa: PLR2004 - a matrix
        raise source.misfit(name, f"{codes.dtype} {list(codes.shape)} does not go with SCB {list(largest.shape)}")
    layout = f"{module}.weight_format"
    if layout in source.arrays:
        if any(integers_of(source.arrays[layout])):
            raise source.refused(f"{shown(name)} is int8 in a layout for one kind of GPU (weight_format is not 0)")
        found.aside[layout] = "says that rows lie as they are"
    scales = Factor(Stored(matrix(largest, largest.size, 1)), Blocks(1, max(codes.shape[1], 1)))
    decoder = Scaled(Stored(matrix(codes, *codes.shape)), scales, last=1 / 127)
    parts = {name: codes, f"{module}.SCB": largest}
    found.add(source, name, decoder, parts, moved=transpose if is_conv1d(source, module) else as_it_is)


def _add_levels(source: Source, found: Unpacked, name: str, state_name: str) -> None:
    """Take down a 4-bit weight."""
    state = _state(source, name, state_name)
    ends = ["", ".absmax", ".quant_map"]
    if state.nested_blocksize is not None:
        ends += [".nested_absmax", ".nested_quant_map"]
    parts = {name + end: source.need(name + end, name) for end in ends}
    parts[state_name] = source.arrays[state_name]
    count = math.prod(state.shape)
    stored = as_bytes(parts[name])
    blocks = -(-count // state.blocksize)
    if stored is None or stored.size != -(-count // 2) or parts[f"{name}.absmax"].size != blocks:
        raise source.misfit(
            name, f"{parts[name].dtype} {list(parts[name].shape)} does not hold {list(state.shape)} in {blocks} blocks"
        )
    columns = (
        state.shape[-1] if state.shape and state.shape[-1] and state.shape[-1] % state.blocksize == 0 else max(count, 1)
    )
    rows = count // columns if count else 1
    codes = Levels(matrix(stored, rows, stored.size // rows), columns, parts[f"{name}.quant_map"], 4, high_first=True)
    largest = _largest(source, name, state, parts, blocks)
    grid = Regrouped(largest, (rows, blocks // rows)) if rows > 1 else largest
    decoder = Scaled(codes, Factor(grid, Blocks(1, state.blocksize)))
    module = name.rpartition(".")[0]
    moved = transpose if is_conv1d(source, module) else as_it_is
    found.add(source, name, decoder, parts, shape=state.shape, dtype=state.dtype, moved=moved)


def _largest(source: Source, name: str, state: _State, parts: dict[str, Array], blocks: int) -> Decoder:
    """Return the largest absolute value of each block, as one row."""
    absmax = parts[f"{name}.absmax"]
    if state.nested_blocksize is None:
        return Stored(flat(absmax))
    nested = parts[f"{name}.nested_absmax"]
    if absmax.dtype is not U8 or nested.size != -(-blocks // state.nested_blocksize):
        raise source.misfit(name, f"nested_absmax {list(nested.shape)} does not go with absmax {list(absmax.shape)}")
    codes = Levels(flat(absmax), blocks, parts[f"{name}.nested_quant_map"], 8)
    return Adjusted(
        Scaled(codes, Factor(Stored(flat(nested)), Blocks(1, state.nested_blocksize))), plus=state.nested_offset
    )


def _state(source: Source, name: str, state_name: str) -> _State:
    try:
        document = json.loads(text_of(source.arrays[state_name]))
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise source.misfit(name, f"{shown(state_name)} is no JSON")
    kind, shape = document.get("quant_type"), document.get("shape")
    blocksize = setting_of(document, "blocksize", int)
    nested = setting_of(document, "nested_blocksize", int)
    dtype = torch_dtype(document.get("dtype"))
    if (
        kind not in ("nf4", "fp4")
        or not isinstance(shape, list)
        or not all(type(size) is int and 0 < size < 1 << 40 for size in shape)
        or blocksize is None
        or blocksize < 1
        or (nested is not None and nested < 1)
        or dtype is None
    ):
        raise source.misfit(name, f"its state is none that is known: {shown(document)}")
    offset = document.get("nested_offset", 0.0)
    return _State(
        kind, blocksize, dtype, tuple(shape), nested, float(offset) if isinstance(offset, int | float) else 0.0
    )


def _is_here(source: Source) -> bool:
    return any(_STATE in name or name.endswith(".SCB") for name in source.arrays)


BITSANDBYTES = Format("bitsandbytes", ("bitsandbytes", "bitsandbytes_4bit", "bitsandbytes_8bit"), _is_here, _unpack)
