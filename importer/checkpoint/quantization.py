"""Quantised weights of a source, put in the place of what they are stored in: real values, integers, or only counted.

Not here: the formats (`importer.quantized`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from importer.arrays import Array
from importer.checkpoint.contents import Quantization, Tensor
from importer.checkpoint.walking import WalkedTree
from importer.containers import Opened, SetContainer, TableContainer, read_json_object
from importer.errors import Location, SourceError
from importer.limits import Limits
from importer.options import QuantizedChoice
from importer.quantized import Source, may_have_codes

if TYPE_CHECKING:
    from importer.quantized import Unpacked

__all__ = ["unpack_quantized"]


def unpack_quantized(
    opened: Opened, findings: WalkedTree, choice: QuantizedChoice, limits: Limits
) -> Quantization | None:
    """Find the quantised weights of a source, and put them into `findings` as asked for; None if there are none.

    Raises:
        UnsupportedError: the method is not known; not where weights are only reported.
        TensorError: the parts of a weight do not belong together; neither.
    """
    if not findings.composites and not may_have_codes(tensor.array for tensor in findings.tensors.values()):
        return None
    from importer.quantized.finding import find

    source = _source(opened, findings, limits)
    try:
        found = find(source)
    except SourceError as error:
        if choice is not QuantizedChoice.REPORT:
            raise
        return Quantization(label=source.method or "unknown", choice=choice.value, fault=str(error))
    if found is None:
        return None
    findings.notes += found.notes
    size = _stored_bytes(found, findings)
    parts = {part for weight in found.weights.values() for part in weight.parts}
    stored = {name: tensor for name, tensor in findings.tensors.items() if name in parts}
    if choice is not QuantizedChoice.REPORT:
        _replace(found, findings, choice)
    return Quantization(
        label=found.label,
        choice=choice.value,
        weights={weight.name: weight.parts for weight in found.weights.values()},
        aside=dict(found.aside),
        stored=stored,
        stored_bytes=size,
        expanded_bytes=sum(weight.array.nbytes for weight in found.weights.values()),
    )


def _source(opened: Opened, findings: WalkedTree, limits: Limits) -> Source:
    from importer.quantized.finding import float_dtype, settings_of

    path = opened.container.paths[0]
    sides = dict(_sides(Path(path), findings, limits))
    arrays = {name: tensor.array for name, tensor in findings.tensors.items()}
    return Source(
        arrays=arrays,
        composites=findings.composites,
        values=findings.values,
        metadata=_metadata(opened),
        config=opened.config,
        settings=settings_of(opened.config, sides),
        sides=sides,
        dtype=float_dtype(opened.config, arrays),
        where=Location(path=path),
    )


def _sides(path: Path, findings: WalkedTree, limits: Limits) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the settings that lie beside the weights."""
    from importer.quantized.finding import SIDE_FILES

    folder = path if path.is_dir() else path.parent
    for name in SIDE_FILES:
        if (folder / name).is_file():
            try:
                yield name, read_json_object(folder / name, limits)
            except SourceError as error:
                findings.notes.append(f"the settings beside the weights were not read: {error}")


def _metadata(opened: Opened) -> Mapping[str, str]:
    """Return what the files say of themselves; shards speak of their own tensors only."""
    container = opened.container
    if isinstance(container, TableContainer):
        return container.metadata
    if not isinstance(container, SetContainer):
        return {}
    tables = (shard.container for shard in container.shards if isinstance(shard.container, TableContainer))
    return {key: text for table in tables for key, text in table.metadata.items()}


def _stored_bytes(found: Unpacked, findings: WalkedTree) -> int:
    arrays = [
        findings.tensors[part].array
        for weight in found.weights.values()
        for part in weight.parts
        if part in findings.tensors
    ]
    within = [
        findings.composites[part]
        for weight in found.weights.values()
        for part in weight.parts
        if part in findings.composites
    ]
    return sum(array.nbytes for array in arrays) + sum(composite.nbytes for composite in within)


def _replace(found: Unpacked, findings: WalkedTree, choice: QuantizedChoice) -> None:
    """Put weights, or their integers, into the place of the first tensor they are made of, and the rest out."""
    from importer.quantized.integers import integer_parts

    stored = {name: tensor.array for name, tensor in findings.tensors.items()}
    owners = {part: weight for weight in found.weights.values() for part in weight.parts}
    made: dict[str, Tensor] = {}
    done: set[str] = set()

    def put(part: str) -> None:
        weight = owners[part]
        if weight.name in done:
            return
        done.add(weight.name)
        arrays: Mapping[str, Array] = {weight.name: weight.array}
        if choice is QuantizedChoice.INTEGERS:
            arrays = integer_parts(weight, stored)
        for name, array in arrays.items():
            made[name] = Tensor(name, array)

    for name, tensor in findings.tensors.items():
        if name in owners:
            put(name)
        elif name not in found.aside:
            made[name] = tensor
    for name in findings.composites:
        if name in owners:
            put(name)
    findings.tensors.clear()
    findings.tensors.update(made)
    findings.unsupported[:] = [entry for entry in findings.unsupported if entry.name not in owners]
