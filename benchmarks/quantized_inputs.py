"""Quantised checkpoints to measure with: safetensors folders of noise, with the settings beside them.

Not here: unquantised ones (`inputs`), and what is done with them (`cases`).
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path

__all__ = ["fp8", "nf4"]

_BLOCK = 128
_LEVEL_BLOCK = 64
_LARGE = 100 << 20
_NOISE = 4 << 20
_ONE = struct.pack("<f", 1.0)

Parts = Mapping[str, tuple[str, tuple[int, ...], bytes | None]]
"""Type, shape and bytes by name; None for noise."""


def fp8(folder: Path, nbytes: int) -> Path:
    """Write matrices of 8-bit floats with a scale for each block of 128 × 128, and return the folder."""
    side = 4096 if nbytes >= _LARGE else max(8, math.isqrt(nbytes // 4))
    blocks = -(-side // _BLOCK)
    parts: dict[str, tuple[str, tuple[int, ...], bytes | None]] = {}
    for index in range(max(1, nbytes // side**2)):
        parts[f"layers.{index}.weight"] = ("F8_E4M3", (side, side), None)
        parts[f"layers.{index}.weight_scale_inv"] = ("F32", (blocks, blocks), _ONE * blocks**2)
    return _save(folder, parts, {"quant_method": "fp8", "weight_block_size": [_BLOCK, _BLOCK]})


def nf4(folder: Path, nbytes: int) -> Path:
    """Write matrices of 4-bit levels with the largest value of every 64, and return the folder."""
    side = 4096 if nbytes >= _LARGE else max(8, math.isqrt(nbytes // 2) // 8 * 8)
    state = json.dumps(
        {"quant_type": "nf4", "blocksize": _LEVEL_BLOCK, "dtype": "bfloat16", "shape": [side, side]}
    ).encode()
    blocks = -(-(side**2) // _LEVEL_BLOCK)
    levels = struct.pack("<16f", *(index / 15 for index in range(16)))
    parts: dict[str, tuple[str, tuple[int, ...], bytes | None]] = {}
    for index in range(max(1, nbytes // (side**2 // 2))):
        name = f"layers.{index}.weight"
        parts[name] = ("U8", (side**2 // 2, 1), None)
        parts[f"{name}.absmax"] = ("F32", (blocks,), _ONE * blocks)
        parts[f"{name}.quant_map"] = ("F32", (16,), levels)
        parts[f"{name}.quant_state.bitsandbytes__nf4"] = ("U8", (len(state),), state)
    return _save(folder, parts, {"quant_method": "bitsandbytes", "load_in_4bit": True})


def _save(folder: Path, parts: Parts, settings: Mapping[str, object]) -> Path:
    header: dict[str, object] = {}
    end = 0
    sizes = {}
    for name, (dtype, shape, data) in parts.items():
        sizes[name] = math.prod(shape) if data is None else len(data)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [end, end + sizes[name]]}
        end += sizes[name]
    text = json.dumps(header).encode()
    noise = memoryview(bytes(byte & 0x77 for byte in os.urandom(min(_NOISE, end))))  # no byte of it is NaN
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, (_, _, data) in parts.items():
            if data is not None:
                file.write(data)
                continue
            left = sizes[name]
            while left:
                left -= file.write(noise[: min(left, len(noise))])
    config = {"torch_dtype": "bfloat16", "quantization_config": settings}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder
