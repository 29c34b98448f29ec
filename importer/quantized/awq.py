"""AWQ, layout `gemm`: everything packed along the outputs, eight 4-bit codes of a word in the order 0 2 4 6 1 3 5 7.

`X.qweight` is I32 `[in, out / 8]`, `X.qzeros` I32 `[in / group, out / 8]`, `X.scales` `[in / group, out]`.
`weight[o, i] = scales * (q - z)`. Other layouts (gemv, gemv_fast, marlin, exllama) are for kernels.

Source: casper-hansen/AutoAWQ awq/utils/packing_utils.py, awq/modules/linear/gemm.py.
"""

from __future__ import annotations

from importer.arrays import Array, transpose
from importer.dtypes import I32, U32
from importer.errors import shown
from importer.quantized.codes import AWQ_ORDER, Levels, Stored
from importer.quantized.model import Format, Source, Unpacked
from importer.quantized.parts import as_bytes
from importer.quantized.scales import Blocks, Factor, Scaled

__all__ = ["AWQ"]

_PER_WORD = 8
_BITS = 4


def _unpack(source: Source) -> Unpacked:
    version = (source.setting("version", str) or source.setting("packing_format", str) or "gemm").lower()
    if version.removeprefix("auto_round:").removeprefix("auto_") not in ("gemm", "awq"):
        raise source.refused(f"AWQ weights in the layout {shown(version)} are for kernels of one kind")
    bits = source.setting("bits", int) or source.setting("w_bit", int) or _BITS
    if bits != _BITS:
        raise source.refused(f"AWQ weights of {bits} bits")
    found = Unpacked("AWQ, 4 bits")
    for name in source.ending(".qweight"):
        qweight = source.arrays[f"{name}.qweight"]
        qzeros, scales = (source.need(f"{name}.{part}", f"{name}.weight") for part in ("qzeros", "scales"))
        _check(source, name, qweight, qzeros, scales)
        inputs, outputs = qweight.shape[0], scales.shape[1]
        blocks = Blocks(inputs // scales.shape[0], 1)
        decoder = Scaled(
            _codes(source, name, qweight, outputs),
            Factor(Stored(scales), blocks),
            Factor(_codes(source, name, qzeros, outputs), blocks),
        )
        parts = {f"{name}.qweight": qweight, f"{name}.qzeros": qzeros, f"{name}.scales": scales}
        found.add(source, f"{name}.weight", decoder, parts, moved=transpose)
    return found


def _check(source: Source, name: str, qweight: Array, qzeros: Array, scales: Array) -> None:
    shapes = (
        f"qweight {list(qweight.shape)}, qzeros {list(qzeros.shape)} and scales {list(scales.shape)} do not go together"
    )
    if any(len(part.shape) != 2 for part in (qweight, qzeros, scales)) or qweight.dtype not in (I32, U32):  # noqa: PLR2004
        raise source.misfit(name, shapes)
    groups, outputs = scales.shape
    inputs = qweight.shape[0]
    stated = source.setting("group_size", int) or source.setting("q_group_size", int)
    if (
        outputs % _PER_WORD
        or qweight.shape[1] * _PER_WORD != outputs
        or qzeros.shape != (groups, qweight.shape[1])
        or not groups
        or inputs % groups
        or (stated is not None and stated > 0 and inputs // groups != min(stated, inputs))
    ):
        raise source.misfit(name, shapes)


def _codes(source: Source, name: str, packed: Array, outputs: int) -> Levels:
    stored = as_bytes(packed)
    if stored is None:
        raise source.misfit(name, "its words do not lie in order")
    return Levels(stored, outputs, range(1 << _BITS), _BITS, order=AWQ_ORDER)


def _is_here(source: Source) -> bool:
    for name in source.ending(".qweight"):
        scales = source.arrays.get(f"{name}.scales")
        return scales is not None and source.arrays[f"{name}.qweight"].shape[-1] * _PER_WORD == scales.shape[-1]
    return False


AWQ = Format("AWQ", ("awq",), _is_here, _unpack)
