"""MXFP4 of gpt-oss: two 4-bit floats in a byte, and a power of two for every 32 of them.

`X_blocks` is U8 `[experts, out, in / 32, 16]`, the low nibble first, `X_scales` U8 `[experts, out, in / 32]`. The parameter
`X` of transformers is `[experts, in, out]`. The first release spells them `X.blocks` and `X.scales`, and keeps
`[experts, out, in]`.

Sources: openai/gpt-oss gpt_oss/torch/weights.py; transformers integrations/mxfp4.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from importer.arrays import transpose
from importer.dtypes import U8
from importer.quantized.codes import E2M1, Exponents, Levels
from importer.quantized.model import Format, Source, Unpacked, as_it_is
from importer.quantized.parts import as_bytes, matrix
from importer.quantized.scales import Blocks, Factor, Scaled

__all__ = ["MXFP4"]

_BLOCK_BYTES = 16
_BLOCK = 32
_SPELLINGS = (("_blocks", "_scales", True), (".blocks", ".scales", False))


def _owners(source: Source) -> Iterator[tuple[str, str, str, bool]]:
    """Yield name, blocks, scales, and whether the last two axes are exchanged."""
    for blocks, scales, is_swapped in _SPELLINGS:
        for name in source.ending(blocks):
            stored = source.arrays[name + blocks]
            if stored.dtype is U8 and stored.shape[-1:] == (_BLOCK_BYTES,) and len(stored.shape) > 2:  # noqa: PLR2004 - rows, blocks, bytes
                yield name, name + blocks, name + scales, is_swapped


def _unpack(source: Source) -> Unpacked:
    found = Unpacked("MXFP4")
    for name, blocks_name, scales_name, is_swapped in _owners(source):
        blocks, scales = source.arrays[blocks_name], source.need(scales_name, name)
        *lead, count, _ = blocks.shape
        if scales.shape != (*lead, count) or scales.dtype.itemsize != 1:
            raise source.misfit(name, f"blocks {list(blocks.shape)} do not go with scales {list(scales.shape)}")
        rows, columns = math.prod(lead), count * _BLOCK
        stored = as_bytes(matrix(blocks, rows, count * _BLOCK_BYTES))
        if stored is None:
            raise source.misfit(name, "its bytes do not lie in order")
        codes = Levels(stored, columns, E2M1, 4)
        decoder = Scaled(codes, Factor(Exponents(matrix(scales, rows, count)), Blocks(1, _BLOCK)))
        parts = {blocks_name: blocks, scales_name: scales}
        moved = transpose if is_swapped and len(lead) > 1 else as_it_is
        found.add(source, name, decoder, parts, shape=(*lead, columns), moved=moved)
    return found


MXFP4 = Format("MXFP4", ("mxfp4",), lambda source: any(True for _ in _owners(source)), _unpack)
