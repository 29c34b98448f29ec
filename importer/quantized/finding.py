"""Which format a checkpoint is quantised in, and every weight of it given back; refusals of what is not known.

The settings name the method; without settings, names, types and shapes tell, or nothing is guessed. Not here: the formats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import chain

from importer.arrays import Array
from importer.dtypes import F32, DType, Kind
from importer.errors import UnsupportedError, shown
from importer.quantized.awq import AWQ
from importer.quantized.bitsandbytes import BITSANDBYTES
from importer.quantized.block_fp8 import BLOCK_FP8, FBGEMM_FP8, is_fp8
from importer.quantized.compressed_tensors import COMPRESSED_TENSORS
from importer.quantized.gptq import GPTQ
from importer.quantized.hqq import HQQ
from importer.quantized.model import Format, Source, Unpacked, torch_dtype
from importer.quantized.mxfp4 import MXFP4
from importer.quantized.quanto import QUANTO
from importer.quantized.screening import may_have_codes
from importer.quantized.torch_ao import TORCH_AO
from importer.quantized.torchao import TORCHAO

__all__ = ["FORMATS", "SIDE_FILES", "find", "float_dtype", "settings_of"]

FORMATS: tuple[Format, ...] = (
    BITSANDBYTES, COMPRESSED_TENSORS, TORCHAO, HQQ, MXFP4, QUANTO, AWQ, GPTQ, BLOCK_FP8, FBGEMM_FP8, TORCH_AO,
)  # fmt: skip
"""Every format that is read; the order matters only where no settings name one."""

SIDE_FILES = ("quantize_config.json", "quant_config.json", "quanto_qmap.json", "hf_quant_config.json")
"""Settings that may lie beside the weights."""

_SCALE_ENDS = (
    "_scale_inv", "_scale", "_scale_2", "_scales", ".SCB", ".absmax", ".scale_weight", ".scales", ".qzeros", "_qzeros", ".scale",
    "._scale", ".row_stats", ".weight_scale_2",
)  # fmt: skip
_SHOWN = 3


def find(source: Source) -> Unpacked | None:
    """Return every quantised weight of a checkpoint, or None if it has none.

    Raises:
        UnsupportedError: the method is not known, or its layout is one for kernels.
        TensorError: parts of a weight are missing, or do not belong together.
    """
    found = _find(source)
    _refuse_leftovers(source, found)
    return found if found is not None and (found.weights or found.aside) else None


def _find(source: Source) -> Unpacked | None:
    method = source.method
    if method:
        stated = next((known for known in FORMATS if method in known.methods), None)
        stated = stated or _of_rounding(source)
        if stated is None and (source.composites or may_have_codes(source.arrays.values())):
            raise source.refused(f"the weights are quantised by {shown(method)}, which is not read here")
        if stated is not None and (found := stated.unpack(source)).weights:
            return found
    here = next((known for known in FORMATS if known.is_here(source)), None)
    if here is None:
        return None
    return here.unpack(source)


def _of_rounding(source: Source) -> Format | None:
    """Return the format that AutoRound, which has none of its own, says its weights are packed in."""
    layout = source.setting("packing_format", str) or ""
    if source.method not in ("auto-round", "auto_round", "intel/auto-round"):
        return None
    if "gptq" in layout:
        return GPTQ
    return AWQ if "awq" in layout else None


def _refuse_leftovers(source: Source, found: Unpacked | None) -> None:
    """Refuse codes with a scale beside them that no format has claimed: nobody would see that they are no weights.

    Raises:
        UnsupportedError: there are some.
    """
    claimed = set() if found is None else {part for weight in found.weights.values() for part in weight.parts}
    aside: Mapping[str, str] = {} if found is None else found.aside
    left = [
        name
        for name, array in source.arrays.items()
        if name not in claimed
        and name not in aside
        and (is_fp8(array) or (array.dtype.kind is Kind.INTEGER and len(array.shape) > 1 and name.endswith("weight")))
        and any(name + end in source.arrays or _sibling(name, end) in source.arrays for end in _SCALE_ENDS)
    ]
    if left:
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        raise UnsupportedError(
            f"{', '.join(map(shown, left[:_SHOWN]))}{more} have scales beside them, but nothing says how they are quantised",
            where=source.where,
            how="Put the config.json of the model, with its quantization_config, beside the weights.",
        )


def _sibling(name: str, end: str) -> str:
    """Return the name of a scale that stands beside a weight in its module."""
    return f"{name.rpartition('.')[0]}{end}" if end.startswith(".") else ""


def settings_of(config: Mapping[str, object] | None, sides: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """Return the settings of quantisation: of config.json, else of a file beside it."""
    for owner in (config, _inner(config)):
        for key in ("quantization_config", "compression_config"):
            stated = None if owner is None else owner.get(key)
            if isinstance(stated, dict):
                nested = stated.get("quantization_config")
                return {**nested, **stated} if isinstance(nested, dict) else stated
    if "quantize_config.json" in sides:
        return {"quant_method": "gptq", **sides["quantize_config.json"]}
    if "quant_config.json" in sides:
        return {"quant_method": "awq", **sides["quant_config.json"]}
    modelopt = sides.get("hf_quant_config.json", {}).get("quantization")
    return {"quant_method": "modelopt", **modelopt} if isinstance(modelopt, dict) else {}


def _inner(config: Mapping[str, object] | None) -> Mapping[str, object] | None:
    inner = None if config is None else config.get("text_config")
    return inner if isinstance(inner, dict) else None


def float_dtype(config: Mapping[str, object] | None, arrays: Mapping[str, Array]) -> DType:
    """Return the type of a model's floats: what config.json says, else that of most of its other tensors."""
    for owner in (config, _inner(config)):
        for key in ("torch_dtype", "dtype"):
            stated = torch_dtype(owner.get(key)) if owner is not None else None
            if stated is not None:
                return stated
    ends = tuple(chain(_SCALE_ENDS, (".zero", ".quant_map", "_map", "_absmax", "_shift", ".scale")))
    count = Counter(
        array.dtype
        for name, array in arrays.items()
        if array.dtype.is_float and array.dtype.itemsize > 1 and not name.endswith(ends)
    )
    return count.most_common(1)[0][0] if count else F32
