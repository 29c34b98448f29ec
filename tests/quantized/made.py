"""Quantised checkpoints made for a test: safetensors by hand, with the settings beside them."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import ml_dtypes
import numpy as np

CODES = {
    "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int8": "I8", "uint8": "U8", "int16": "I16", "int32": "I32", "int64": "I64",
    "float8_e4m3fn": "F8_E4M3", "float8_e8m0fnu": "F8_E8M0",
}  # fmt: skip
FP8 = ml_dtypes.float8_e4m3fn


def blob(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str] | None = None) -> bytes:
    header: dict[str, object] = {} if metadata is None else {"__metadata__": dict(metadata)}
    data = b""
    for name, values in tensors.items():
        raw = values.tobytes()
        header[name] = {
            "dtype": CODES[values.dtype.name],
            "shape": list(values.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def save(
    folder: Path,
    tensors: Mapping[str, np.ndarray],
    quantization: Mapping[str, object] | None = None,
    *,
    config: Mapping[str, object] | None = None,
    shards: int = 1,
    metadata: Mapping[str, Mapping[str, str]] | None = None,
) -> Path:
    """Write a folder as transformers does, in one file or several with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {"torch_dtype": "float16", **(config or {})}
    if quantization is not None:
        document["quantization_config"] = dict(quantization)
    (folder / "config.json").write_text(json.dumps(document), encoding="utf-8")
    if shards == 1:
        (folder / "model.safetensors").write_bytes(blob(tensors))
        return folder
    names = list(tensors)
    weight_map: dict[str, str] = {}
    for number in range(shards):
        own = names[number::shards]
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        (folder / file).write_bytes(blob({name: tensors[name] for name in own}, (metadata or {}).get(file)))
        weight_map |= dict.fromkeys(own, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}), encoding="utf-8")
    return folder


def pack_words(codes: np.ndarray, bits: int, axis: int) -> np.ndarray:
    """Pack codes along an axis into 32-bit words, lowest bits first."""
    along = codes if axis == 0 else codes.T
    words = -(-along.shape[0] * bits // 32)
    columns = []
    for column in along.T.tolist():
        number = sum(code << (bits * index) for index, code in enumerate(column))
        columns.append(np.frombuffer(number.to_bytes(words * 4, "little"), np.int32))
    packed = np.stack(columns, 1)
    return np.ascontiguousarray(packed if axis == 0 else packed.T)


def gptq(
    prefix: str, outputs: int, inputs: int, *, bits: int = 4, group: int = 16, version: int = 1, seed: int = 0
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the parts of a layer, asymmetric and with scattered groups, and its weight."""
    random = np.random.default_rng(seed)
    groups = inputs // group
    codes = random.integers(0, 1 << bits, (inputs, outputs))
    zeros = random.integers(1 if version == 1 else 0, 1 << bits, (groups, outputs))
    scales = (random.random((groups, outputs)) / 100).astype(np.float16)
    index = random.permutation(np.arange(inputs) // group)
    weight = (scales[index].astype(np.float32) * (codes - zeros[index])).T.astype(np.float16)
    parts = {
        f"{prefix}.qweight": pack_words(codes, bits, 0),
        f"{prefix}.qzeros": pack_words(zeros - (version == 1), bits, 1),
        f"{prefix}.scales": scales,
        f"{prefix}.g_idx": index.astype(np.int32),
    }
    return parts, weight
