"""optimum-quanto: int8 or 8-bit floats with a scale for each row, or codes of 2 or 4 bits with scale and shift for each group.

8 bits: `M.weight._data` `[out, in]`, `M.weight._scale` `[out, 1]`; `weight = q * scale`. Below: `M.weight._data._data` U8, the
**lowest** bits holding the first part of the rows, a row for each group of inputs; `weight = q * scale - shift`. No file says the
shape: where there is more than one group in a row, it follows from what the layers before and after say.

Source: huggingface/optimum-quanto tensor/packed.py, tensor/weights, nn/qmodule.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from importer.arrays import Array
from importer.dtypes import U8
from importer.errors import shown
from importer.quantized.codes import RowParts, Stored
from importer.quantized.features import inputs_of
from importer.quantized.model import Format, Source, Unpacked
from importer.quantized.parts import matrix
from importer.quantized.scales import Blocks, Factor, Scaled

__all__ = ["QUANTO"]

_BITS = {"qint4": 4, "qint2": 2}
_BYTE_BITS = 8
_FILES = ("quanto_qmap.json",)
_ACTIVATIONS = (".input_scale", ".output_scale")


def _unpack(source: Source) -> Unpacked:
    packed = list(source.ending(".weight._data._data"))
    whole = list(source.ending(".weight._data"))
    found = Unpacked(f"quanto{', int8 or 8-bit floats' if whole else ''}{', 2 or 4 bits' if packed else ''}")
    for module in whole:
        _add_whole(source, found, module)
    for module in packed:
        _add_packed(source, found, module)
    for name in source.arrays:
        if name.endswith(_ACTIVATIONS) and source.arrays[name].size == 1:
            found.aside[name] = "scale of the activations: not a weight"
    return found


def _add_whole(source: Source, found: Unpacked, module: str) -> None:
    name = f"{module}.weight"
    data, scale = source.arrays[f"{name}._data"], source.need(f"{name}._scale", name)
    rows = data.shape[0] if data.shape else 1
    columns = data.size // max(rows, 1)
    if scale.size not in (1, rows) or data.dtype.itemsize != 1:
        raise source.misfit(name, f"{data.dtype} {list(data.shape)} does not go with {list(scale.shape)} scales")
    factor = Factor(Stored(matrix(scale, scale.size, 1)), Blocks(rows if scale.size == 1 else 1, max(columns, 1)))
    parts = {f"{name}._data": data, f"{name}._scale": scale}
    found.add(source, name, Scaled(Stored(matrix(data, rows, columns)), factor), parts, shape=data.shape)


def _add_packed(source: Source, found: Unpacked, module: str) -> None:
    name = f"{module}.weight"
    ends = ("._data._data", "._scale", "._shift")
    parts = {name + end: source.need(name + end, name) for end in ends}
    data, scale, shift = parts.values()
    bits = _bits(source, module)
    per = _BYTE_BITS // bits
    rows = scale.size
    if data.dtype is not U8 or len(data.shape) != 2 or shift.size != rows or -(-rows // per) != data.shape[0]:  # noqa: PLR2004 - a matrix
        raise source.misfit(name, f"{list(data.shape)} bytes of {bits} bits do not go with {list(scale.shape)} scales")
    columns = data.shape[1]
    codes = RowParts(data, (rows, columns), bits, per, high_first=False)
    factors = [Factor(Stored(matrix(factor, rows, 1)), Blocks(1, columns)) for factor in (scale, shift)]
    decoder = Scaled(codes, factors[0], shifts=factors[1])
    found.add(source, name, decoder, parts, shape=_shape(source, module, rows, columns))


def _bits(source: Source, module: str) -> int:
    for settings in _maps(source):
        described = settings.get(module)
        weights = described.get("weights") if isinstance(described, dict) else None
        if weights in _BITS:
            return _BITS[str(weights)]
    stated = source.settings.get("weights")
    found = {"int4": 4, "int2": 2, "qint4": 4, "qint2": 2}.get(stated) if isinstance(stated, str) else None
    if found is None:
        rows = source.arrays[f"{module}.weight._scale"].size
        data = source.arrays[f"{module}.weight._data._data"]
        fitting = [bits for bits in (2, 4) if data.shape and -(-rows // (_BYTE_BITS // bits)) == data.shape[0]]
        if len(fitting) != 1:
            raise source.misfit(module, "nothing says how many bits a code has")
        found = fitting[0]
    return found


def _maps(source: Source) -> Iterator[Mapping[str, object]]:
    return (source.sides[name] for name in _FILES if name in source.sides)


def _shape(source: Source, module: str, rows: int, columns: int) -> tuple[int, int]:
    """Return outputs and inputs, whose product is known, and that inputs are whole groups.

    Raises:
        UnsupportedError: nothing says how many there are of either.
    """
    count = rows * columns
    bias: Array | None = source.arrays.get(f"{module}.bias")
    if bias is not None and len(bias.shape) == 1 and bias.size and count % (bias.size * columns) == 0:
        return bias.size, count // bias.size
    inputs = inputs_of(source, module)
    if inputs is not None and inputs % columns == 0 and count % inputs == 0 and _group(inputs) == columns:
        return count // inputs, inputs
    raise source.refused(
        f"nothing says the shape of {shown(module)}.weight: {count} values of quanto in groups of {columns}, which the file stores "
        "without its shape"
    )


def _group(inputs: int) -> int:
    """Return the size of the groups that quanto makes for so many inputs."""
    group = 128
    if inputs > group:
        while inputs % group and group > 32:  # noqa: PLR2004 - quanto's own smallest
            group -= 32
        if inputs % group == 0:
            return group
    return inputs


def _is_here(source: Source) -> bool:
    return any(True for _ in source.ending(".weight._scale")) and any("._data" in name for name in source.arrays)


QUANTO = Format("quanto", ("quanto",), _is_here, _unpack)
