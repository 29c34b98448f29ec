"""GPTQ: codes packed along the inputs, one scale and zero for each group of them and each output.

`X.qweight` is I32 `[in * bits / 32, out]`, `X.qzeros` I32 `[groups, out * bits / 32]`, `X.scales` `[groups, out]`, `X.g_idx`
I32 `[in]`, the group of each input (without it groups follow one another). `weight[o, i] = scales[g, o] * (q[i, o] - z[g, o])`.
Version 1 stores `z - 1`, version 2 stores `z`; symmetric files tell by their zeros, which are 2 ** (bits - 1), which of the
two they are, more surely than by what they say.

Sources: AutoGPTQ 0.7.1 qlinear_cuda.py; ModelCloud/GPTQModel nn_modules/qlinear, utils/model.py; vllm-project/vllm#38966.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from importer.arrays import Array, narrow, read_into, transpose
from importer.dtypes import I32, U32
from importer.errors import shown
from importer.quantized.codes import Bits, Stored, bits_along_rows
from importer.quantized.conv1d import is_conv1d
from importer.quantized.model import Format, Source, Unpacked, as_it_is, setting_of
from importer.quantized.scales import Blocks, Factor, Index, Scaled

__all__ = ["GPTQ"]

_WORD_BITS = 32
_KNOWN_BITS = (2, 3, 4, 5, 6, 7, 8)
_CHECKED_WORDS = 1024
_FORMATS = {"": 1, "gptq": 1, "gptq_v2": 2}
_ASK_HOW = "Put the quantize_config.json or config.json of the model beside the file."


@dataclass(frozen=True, slots=True)
class _Layer:
    """One module's parts, and how they are to be read."""

    name: str
    qweight: Array
    qzeros: Array
    scales: Array
    g_idx: Array | None
    bits: int
    inputs: int
    group: int


def _unpack(source: Source) -> Unpacked:
    version = _stated_version(source)
    layers = [_layer(source, name) for name in source.ending(".qweight")]
    found = Unpacked(_label(layers))
    corrected: list[str] = []
    for layer in layers:
        own = _version(source, layer, version)
        if version is not None and own != version:
            corrected.append(layer.name)
        _add(source, found, layer, own)
    if corrected:
        found.notes.append(
            f"{len(corrected)} of {len(layers)} layers say GPTQ version {version}, but their zeros, which are all alike, are those of "
            f"version {3 - (version or 1)}; they were read so ({shown(corrected[0])} …)"
        )
    found.aside.update(_zero_biases(source, layers))
    return found


def _label(layers: list[_Layer]) -> str:
    bits = sorted({layer.bits for layer in layers})
    groups = sorted({layer.group for layer in layers})
    return f"GPTQ, {'/'.join(map(str, bits))} bits, groups of {'/'.join(map(str, groups))}"


def _stated_version(source: Source) -> int | None:
    """Return the version that the settings state; those without a word of it are of the first.

    Raises:
        UnsupportedError: another layout.
    """
    if not source.settings:
        return None
    stated = source.setting("checkpoint_format", str) or source.setting("packing_format", str) or ""
    stated = stated.removeprefix("auto_round:").removeprefix("auto_")
    if stated not in _FORMATS:
        raise source.refused(f"GPTQ weights in the layout {shown(stated)} are for kernels of one kind of GPU")
    return _FORMATS[stated]


def _layer(source: Source, name: str) -> _Layer:
    qweight = source.arrays[f"{name}.qweight"]
    qzeros, scales = (source.need(f"{name}.{part}", f"{name}.weight") for part in ("qzeros", "scales"))
    g_idx = source.arrays.get(f"{name}.g_idx")
    shapes = [len(part.shape) for part in (qweight, qzeros, scales)]
    if shapes != [2, 2, 2] or qweight.dtype not in (I32, U32) or qweight.shape[1] != scales.shape[1]:
        raise source.misfit(name, f"qweight {list(qweight.shape)} does not go with scales {list(scales.shape)}")
    groups, outputs = scales.shape
    if not groups or not outputs:
        raise source.misfit(name, f"scales are {list(scales.shape)}")
    bits = _bits(source, name, qweight, qzeros, outputs, g_idx)
    inputs = g_idx.size if g_idx is not None else qweight.shape[0] * _WORD_BITS // bits
    stated = _group_size(source, name)
    group = stated if stated is not None and stated > 0 else -(-inputs // groups)
    if -(-inputs * bits // _WORD_BITS) != qweight.shape[0] or (g_idx is None and -(-inputs // group) != groups):
        raise source.misfit(
            name, f"{bits} bits and groups of {group} do not go with qweight {list(qweight.shape)} and {groups} groups"
        )
    if qzeros.shape != (groups, -(-outputs * bits // _WORD_BITS)):
        raise source.misfit(name, f"qzeros {list(qzeros.shape)} do not go with {groups} groups of {outputs} outputs")
    return _Layer(name, qweight, qzeros, scales, g_idx, bits, inputs, group)


def _bits(source: Source, name: str, qweight: Array, qzeros: Array, outputs: int, g_idx: Array | None) -> int:
    """Return the number of bits that the settings state for a layer, or that the shapes leave."""
    stated = (
        setting_of(_dynamic(source, name), "bits", int) or source.setting("bits", int) or source.setting("w_bit", int)
    )
    if stated is not None:
        if stated not in _KNOWN_BITS:
            raise source.refused(f"GPTQ weights of {stated} bits")
        return stated
    fitting = [
        bits
        for bits in _KNOWN_BITS
        if qzeros.shape[1] == -(-outputs * bits // _WORD_BITS)
        and (g_idx is None or qweight.shape[0] == -(-g_idx.size * bits // _WORD_BITS))
    ]
    if len(fitting) != 1:
        raise source.misfit(name, "neither settings nor shapes say how many bits a code has")
    return fitting[0]


def _group_size(source: Source, name: str) -> int | None:
    return setting_of(_dynamic(source, name), "group_size", int) or source.setting("group_size", int)


def _dynamic(source: Source, name: str) -> dict[str, object]:
    """Return the settings that GPTQModel's `dynamic` has for a layer: patterns, `+:` or `-:` before them, to settings."""
    table = source.settings.get("dynamic")
    if not isinstance(table, dict):
        return {}
    for pattern, settings in table.items():
        text = pattern.removeprefix("+:")
        if isinstance(settings, dict) and not text.startswith("-:") and _matches(text, name):
            return settings
    return {}


def _matches(pattern: str, name: str) -> bool:
    import regex

    try:
        return regex.match(pattern, name, timeout=1.0) is not None
    except (regex.error, TimeoutError):
        return False


def _version(source: Source, layer: _Layer, stated: int | None) -> int:
    """Return the version by which a layer's zeros are to be read.

    Raises:
        UnsupportedError: nothing tells.
    """
    middle = 1 << (layer.bits - 1)
    if source.setting("sym", bool) or stated is None:
        if _zeros_are(layer, middle):
            return 2
        if _zeros_are(layer, middle - 1):
            return 1
    if stated is None:
        refused = source.refused(
            f"nothing says whether the zeros of {shown(layer.name)} are those of GPTQ version 1 or 2"
        )
        refused.how = _ASK_HOW
        raise refused
    return stated


def _zeros_are(layer: _Layer, value: int) -> bool:
    """Whether the zeros of a layer's first and last groups are all that value."""
    groups, words = layer.qzeros.shape
    count = min(words, _CHECKED_WORDS)
    codes = min(layer.scales.shape[1], count * _WORD_BITS // layer.bits)
    period = sum(value << (layer.bits * index) for index in range(_WORD_BITS)).to_bytes(
        _WORD_BITS * layer.bits // 8, "little"
    )
    expected = int.from_bytes((period * -(-4 * count // len(period)))[: 4 * count], "little")
    mask = (1 << (codes * layer.bits)) - 1  # the last word is padded
    for row in {0, groups - 1}:
        data = bytearray(4 * count)
        read_into(narrow(narrow(layer.qzeros, 0, row, row + 1), 1, 0, count), memoryview(data))
        if (int.from_bytes(data, "little") ^ expected) & mask:
            return False
    return True


def _add(source: Source, found: Unpacked, layer: _Layer, version: int) -> None:
    name = layer.name
    outputs = layer.scales.shape[1]
    index = None if layer.g_idx is None else Index(layer.g_idx, 0, layer.group)
    blocks = Blocks(layer.group, 1)
    zeros = bits_along_rows(layer.qzeros, outputs, layer.bits, plus=2 - version)
    decoder = Scaled(
        Bits(layer.qweight, (layer.inputs, outputs), layer.bits, 0),
        Factor(Stored(layer.scales), blocks, index),
        Factor(zeros, blocks, index),
    )
    parts = {f"{name}.qweight": layer.qweight, f"{name}.qzeros": layer.qzeros, f"{name}.scales": layer.scales}
    if layer.g_idx is not None:
        parts[f"{name}.g_idx"] = layer.g_idx
    found.add(source, f"{name}.weight", decoder, parts, moved=as_it_is if is_conv1d(source, name) else transpose)


def _zero_biases(source: Source, layers: list[_Layer]) -> Iterator[tuple[str, str]]:
    """Yield biases that old versions wrote for every layer: zeros in all layers of a kind (names alike but for numbers)."""
    kinds: dict[str, list[str]] = {}
    for layer in layers:
        if f"{layer.name}.bias" in source.arrays:
            kinds.setdefault(re.sub(r"\d+", "{i}", layer.name), []).append(f"{layer.name}.bias")
    for names in kinds.values():
        if all(_is_zero(source.arrays[name]) for name in names):
            for name in names:
                yield name, "zeros in every such layer: old versions of AutoGPTQ wrote biases the model does not have"


def _is_zero(array: Array) -> bool:
    data = bytearray(array.nbytes)
    read_into(array, memoryview(data))
    return not any(data)


def _is_here(source: Source) -> bool:
    for name in source.ending(".qweight"):
        scales = source.arrays.get(f"{name}.scales")
        qweight = source.arrays[f"{name}.qweight"]
        return scales is not None and qweight.shape[-1:] == scales.shape[-1:]
    return False


GPTQ = Format("GPTQ", ("gptq",), _is_here, _unpack)
