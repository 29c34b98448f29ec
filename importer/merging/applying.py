"""An adapter worked into an opened base: every change finds its tensor, or the conversion stops.

Not here: reading adapters (`peft`, `kohya`), names (`matching`), sums (`low_rank`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from importer.arrays import Array, cast, full, transpose
from importer.arrays.decoding import Decoder, decoded
from importer.checkpoint import Checkpoint, Tensor
from importer.dtypes import F32, F64
from importer.errors import Location, UsageError, shown
from importer.merging.changes import Adapter, Change
from importer.merging.kohya import read_kohya
from importer.merging.low_rank import Blended, LowRank, Normed, stored_matrix
from importer.merging.matching import BaseNames
from importer.merging.peft import read_diffusers, read_peft
from importer.merging.recognising import AdapterKind, adapter_kind
from importer.quantized.conv1d import CONV1D_LAYERS, CONV1D_MODELS
from importer.quantized.parts import location_of

__all__ = ["merge_adapter"]

_SHOWN = 3
_HEADS = ("lm_head.weight", "embed_out.weight")
_TABLES = ("embed_tokens.weight", "wte.weight", "embed_in.weight", "word_embeddings.weight", ".shared.weight")


def merge_adapter(
    base: Checkpoint, adapter: Checkpoint, config: Mapping[str, object] | None, weight: float
) -> Checkpoint:
    """Return the base with an adapter worked into its tensors; no byte is read but factors.

    Args:
        base: the model, weights already given back if they were quantised.
        adapter: the opened adapter.
        config: adapter_config.json beside it, if there is one.
        weight: what every change is multiplied with.

    Raises:
        UsageError: it is no adapter, or its changes do not belong to this base.
        UnsupportedError: it is of a method that is not merged.
    """
    where = Location(path=adapter.paths[0])
    arrays = {name: tensor.array for name, tensor in adapter.tensors.items()}
    read = _read(arrays, adapter, config, where)
    names = BaseNames(base.tensors)
    merger = _Merger(base, read, names, weight, where)
    tensors = dict(base.tensors)
    sources = dict(base.merged)
    file = Path(adapter.paths[0]).name
    for target, piece in read.replaced.items():
        own = merger.replaced_name(target)
        if own is not None:
            tensors[own] = Tensor(own, merger.replacement(tensors.get(own), piece.array))
            sources[own] = (*sources.get(own, (own,) if own in base.tensors else ()), f"{piece.name}@{file}")
    for change in _known(read, names, merger):
        for name, array, parts in merger.changed(change, tensors):
            tensors[name] = Tensor(name, array, base.tensors[name].module_type)
            sources[name] = (*sources.get(name, (name,)), *(f"{part}@{file}" for part in parts))
    tied = list(_retie(base, tensors, sources))
    if tied:
        merger.notes.append(f"changed with the tensor they are tied to: {', '.join(map(shown, tied))}")
    note = f"merged {shown(adapter.paths[0])}: {read.label}, {len(read.changes)} modules, {len(read.replaced)} tensors whole, weight {weight:g}"
    return replace(
        base,
        tensors=tensors,
        merged=sources,
        paths=(*base.paths, *adapter.paths),
        notes=(*base.notes, note, *merger.notes),
    )


def _read(
    arrays: Mapping[str, Array], adapter: Checkpoint, config: Mapping[str, object] | None, where: Location
) -> Adapter:
    kind = adapter_kind(arrays)
    if config is not None and kind in (None, AdapterKind.DIFFUSERS):
        kind = AdapterKind.PEFT
    if kind is AdapterKind.PEFT:
        return read_peft(arrays, config, where)
    if kind is AdapterKind.KOHYA:
        return read_kohya(arrays, where)
    if kind is AdapterKind.DIFFUSERS:
        return read_diffusers(arrays, _metadata(adapter), where)
    raise UsageError(
        "this is no adapter: none of its tensors is a factor of a low-rank change",
        where=where,
        how="Pass the folder with adapter_config.json, or the .safetensors file of a LoRA.",
    )


def _metadata(adapter: Checkpoint) -> Mapping[str, object]:
    import json

    try:
        document = json.loads(adapter.metadata.get("lora_adapter_metadata", "{}"))
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _known(read: Adapter, names: BaseNames, merger: _Merger) -> Iterator[Change]:
    """Yield the changes whose tensors the base has.

    Raises:
        UsageError: some belong to none, and not only because a whole part of a pipeline is not there.
    """
    absent = [change for change in read.changes if merger.target(change) is None]
    elsewhere = [change for change in absent if not read.has_dots and not names.has_component(change.module)]
    lost = [change.module for change in absent if change not in elsewhere]
    if lost or len(elsewhere) == len(read.changes):
        listed = ", ".join(map(shown, (lost or [change.module for change in elsewhere])[:_SHOWN]))
        raise UsageError(
            f"{len(lost) or len(elsewhere)} of {len(read.changes)} modules of the adapter are not in the base: {listed}",
            where=merger.where,
            how="The adapter was made for another model; pass the base it was trained on.",
        )
    if elsewhere:
        merger.notes.append(
            f"{len(elsewhere)} modules of the adapter are for another part of the pipeline, which is not here ({shown(elsewhere[0].module)} …)"
        )
    yield from (change for change in read.changes if change not in absent)


def _retie(base: Checkpoint, tensors: dict[str, Tensor], sources: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """Change tensors that are one and the same as a changed one in the base, a tied head for one; yield their names."""
    for group in (*base.aliases, *_tied_heads(base)):
        changed = [name for name in group if tensors[name] is not base.tensors[name]]
        for name in group if len(changed) == 1 else ():
            if name not in changed:
                tensors[name] = replace(tensors[changed[0]], name=name)
                sources[name] = sources[changed[0]]
                yield name


def _tied_heads(base: Checkpoint) -> Iterator[tuple[str, str]]:
    """Yield tables and heads that the configuration says are one tensor, where the file holds it twice."""
    if (base.config or {}).get("tie_word_embeddings") is not True:
        return
    heads = [name for name in base.tensors if name.endswith(_HEADS)]
    tables = [name for name in base.tensors if name.endswith(_TABLES)]
    if len(heads) == len(tables) == 1 and base.tensors[heads[0]].shape == base.tensors[tables[0]].shape:
        yield tables[0], heads[0]


@dataclass(slots=True)
class _Merger:
    """One merge: where names and settings are looked up, and remarks for the report."""

    base: Checkpoint
    read: Adapter
    names: BaseNames
    weight: float
    where: Location
    notes: list[str] = field(default_factory=list)

    def target(self, change: Change) -> str | None:
        """Return the weight that a change is for."""
        if self.read.has_dots:
            return self.names.of_name(f"{change.module}.weight")
        return self.names.of_kohya(change.module)

    def changed(self, change: Change, tensors: Mapping[str, Tensor]) -> Iterator[tuple[str, Array, tuple[str, ...]]]:
        """Yield the changed weight, and the changed bias if there is one, with what of the adapter went into each."""
        name = self.target(change)
        assert name is not None
        copy = self.read.replaced.get(f"{change.module}.weight")
        array = tensors[name].array
        if copy is not None and copy.array.shape != array.shape:
            array = copy.array  # the table was made longer before training
        parts = [piece.name for piece in change.parts if piece is not change.bias]
        if copy is not None:
            parts.append(copy.name)
        yield name, self.sum(name, change, array), tuple(parts)
        if change.bias is not None:
            bias = self.names.of_name(f"{name.removesuffix('weight')}bias")
            if bias is None:
                raise self.misfit(change.module, "changes a bias that the base does not have")
            yield bias, self._bias(tensors[bias].array, change), (change.bias.name,)

    def sum(self, name: str, change: Change, base: Array) -> Array:
        """Return a changed weight."""
        if not base.dtype.is_float or base.dtype.itemsize == 1 or len(base.shape) < 2:  # noqa: PLR2004 - a matrix
            raise self.misfit(change.module, f"changes {shown(name)}, which is {base.dtype} {list(base.shape)}")
        down, up = change.down.array, change.up.array
        are_factors = min(len(down.shape), len(up.shape)) > 1 and down.size and up.size and base.size
        if not are_factors or down.shape[0] != up.shape[1] or math.prod(up.shape[2:]) != 1:
            raise self.misfit(
                change.module, f"has factors {list(down.shape)} and {list(up.shape)} that do not go together"
            )
        rank, inputs, outputs = down.shape[0], down.size // down.shape[0], up.shape[0]
        rows, columns = base.shape[0], base.size // base.shape[0]
        is_swapped = change.is_embedding or self._is_swapped(name, (rows, columns), (outputs, inputs))
        if (rows, columns) != ((inputs, outputs) if is_swapped else (outputs, inputs)):
            raise self.misfit(
                change.module, f"has a change {outputs}×{inputs} for {shown(name)}, which is {list(base.shape)}"
            )
        left, right = stored_matrix(up, outputs, rank), stored_matrix(down, rank, inputs)
        if is_swapped:
            left, right = (
                stored_matrix(transpose(right.array), inputs, rank),
                stored_matrix(transpose(left.array), rank, outputs),
            )
        wide = stored_matrix(base if base.dtype is F64 else cast(base, F32), rows, columns)
        if not math.isfinite(change.factor):
            raise self.misfit(change.module, f"has a change with the factor {change.factor}")
        factor = change.factor if change.magnitude is not None else change.factor * self.weight
        total: Decoder = LowRank(wide, left, right, factor)
        if change.magnitude is not None:
            total = self._normed(change, total, is_swapped=is_swapped)
            if self.weight != 1:
                total = Blended(wide, total, self.weight)
        return decoded(total, base.dtype, base.shape, location_of(base))

    def _normed(self, change: Change, total: Decoder, *, is_swapped: bool) -> Normed:
        """Return rows scaled to their norms, one for each output of the layer."""
        assert change.magnitude is not None
        array = change.magnitude.array
        axis = 1 if is_swapped and not change.is_embedding else 0
        if change.is_embedding and array.size == total.shape[1] != total.shape[0]:
            axis = 1
        if array.size != total.shape[axis]:
            raise self.misfit(change.module, f"has {array.size} norms for {total.shape[axis]} outputs")
        return Normed(total, array, axis)

    def _is_swapped(self, name: str, stored: tuple[int, int], wanted: tuple[int, int]) -> bool:
        """Whether a weight is `[in, out]`: its shape tells, or for a square one the class of the layer."""
        if stored[0] != stored[1] or stored != wanted:
            return stored != wanted and stored == wanted[::-1]
        model = (self.base.config or {}).get("model_type")
        if isinstance(model, str):
            known = model in CONV1D_MODELS
            return known and name.split(".")[-2] in CONV1D_LAYERS
        return self.read.fan_in_fan_out

    def _bias(self, base: Array, change: Change) -> Array:
        assert change.bias is not None
        one = change.bias.array
        if one.size != base.size:
            raise self.misfit(change.module, f"has {one.size} biases for {base.size}")
        wide = stored_matrix(cast(base, F32), 1, base.size)
        ones = stored_matrix(one, 1, one.size)
        unit = stored_matrix(full(1.0, F32, (1, 1)), 1, 1)
        total = LowRank(wide, unit, ones, change.factor * self.weight)
        return decoded(total, base.dtype, base.shape, location_of(base))

    def replaced_name(self, target: str) -> str | None:
        """Return the tensor that a whole one takes the place of; None for the copy of a table that a change goes with.

        A name that the base has not is that of a head it was saved without.
        """
        module, _, leaf = target.rpartition(".")
        if leaf == "weight" and any(change.module == module for change in self.read.changes):
            return None
        return self.names.of_name(target) or target

    def replacement(self, base: Tensor | None, array: Array) -> Array:
        """Return a whole tensor in the type of what it replaces; taken in part where the weight is not one."""
        if base is None or not (base.dtype.is_float and array.dtype.is_float):
            return array
        if self.weight == 1 or base.shape != array.shape:
            return array if array.dtype is base.dtype else cast(array, base.dtype)
        rows, columns = (array.shape[0], array.size // max(array.shape[0], 1)) if array.shape else (1, 1)
        old, new = (stored_matrix(cast(one, F32), rows, columns) for one in (base.array, array))
        return decoded(Blended(old, new, self.weight), base.dtype, array.shape, location_of(array))

    def misfit(self, module: str, what: str) -> UsageError:
        """Return the error for a change that does not go with the base."""
        return UsageError(
            f"{shown(module)} {what}",
            where=self.where,
            how="The adapter was made for another model; pass the base it was trained on.",
        )
