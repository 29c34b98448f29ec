"""What one-to-one comparison leaves: fused matrices, parameters put together from several places, tied ones, buffers.

Everything found here is marked. Not here: the comparison itself (`importer.suggest.aligning`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from importer.suggest.findings import Drop, Findings, Move, Split, Tie
from importer.suggest.names import hint, likeness
from importer.suggest.skeleton import Shape, TargetUnit
from importer.suggest.sources import SourceUnit

__all__ = ["settle_leftovers"]

_FUSED = (("query", "key", "value"), ("gate", "up"))
_TORCH_LEAF = {"gamma": "weight", "alpha": "weight", "beta": "bias"}
_MATRIX = 2
_BUFFERS = {
    r"num_batches_tracked$": "counts training batches; Burn has no such parameter",
    r"rotary_emb\.inv_freq$|rope\.freqs$": "rotary frequencies; Burn computes them",
    r"position_ids$": "0, 1, 2…",
    r"attn\.(masked_)?bias$|attn_mask$|masked_bias$": "a causal mask",
    r"relative_position_index$": "indices computed from the window size",
}
"""Buffers that hold no weights, by the exact end of their name (recipes.md B.6)."""


def settle_leftovers(findings: Findings, sources: Sequence[SourceUnit], targets: Sequence[TargetUnit]) -> None:
    """Add splits, single tensors, ties and drops to `findings`, and name what stays open."""
    left_sources, left_targets = list(sources), list(targets)
    for split in _splits(left_sources, left_targets):
        findings.splits.append(split)
        left_sources = [unit for unit in left_sources if unit.path != split.source]
        for path in split.targets:
            unit = next(unit for unit in left_targets if unit.path == path)
            findings.layers[path] = next(reading for reading in unit.readings if reading.kind == "Linear")
            left_targets.remove(unit)
    tensors = {name: array.shape for unit in left_sources for name, array in zip(unit.names(), unit.leaves.values())}  # noqa: B905 - one mapping twice
    for unit in left_targets:
        findings.layers.setdefault(unit.path, unit.readings[0])
        _fill(findings, unit, tensors)
    findings.drops += _drops(tensors)


def _splits(sources: Sequence[SourceUnit], targets: Sequence[TargetUnit]) -> Iterator[Split]:
    """Yield the fused matrices that siblings of the target add up to."""
    siblings: dict[str, dict[str, TargetUnit]] = {}
    for unit in targets:
        if "Linear" in unit.kinds and (part := hint(unit.path)) is not None:
            siblings.setdefault(unit.path.rpartition(".")[0], {})[part] = unit
    used: set[str] = set()
    for parent, parts in siblings.items():
        for scheme in _FUSED:
            if not set(scheme) <= set(parts):
                continue
            units = [parts[part] for part in scheme]
            fitting = [
                (likeness(source.path, parent), split)
                for source in sources
                if source.path not in used and _numbers(source.path) == _numbers(parent)
                if (split := _split(source, units, scheme)) is not None
            ]
            if fitting:
                best = max(fitting, key=lambda entry: entry[0])[1]
                used.add(best.source)
                yield best


def _split(source: SourceUnit, units: Sequence[TargetUnit], scheme: Sequence[str]) -> Split | None:
    """Return how a module divides into `units`, or None if its shapes do not add up."""
    weights = [unit.params["weight"] for unit in units]
    widths, sizes = {weight[0] for weight in weights}, tuple(weight[1] for weight in weights)
    shapes = {leaf: array.shape for leaf, array in source.leaves.items()}
    biased = [unit for unit in units if "bias" in unit.params]
    if len(widths) != 1 or len(biased) not in (0, len(units)):
        return None
    bias = {"bias": (sum(sizes),)} if biased else {}
    (width,) = widths
    if shapes not in ({"weight": (sum(sizes), width), **bias}, {"weight": (width, sum(sizes)), **bias}):
        return None
    is_in_out = shapes["weight"] == (width, sum(sizes))
    doubt = f"taken as [{' | '.join(scheme)}], one after the other; some models interleave them"
    return Split(source.path, tuple(unit.path for unit in units), sizes, is_in_out, doubt)


def _numbers(path: str) -> list[str]:
    return [segment for segment in path.split(".") if segment.isdecimal()]


def _fill(findings: Findings, unit: TargetUnit, tensors: dict[str, Shape]) -> None:
    """Find each parameter of a unit by itself: a lone tensor, or one that another module holds already."""
    reading = findings.layers[unit.path]
    for leaf, shape in unit.params.items():
        name = f"{unit.path}.{leaf}" if leaf else unit.path
        torch_name = f"{unit.path}.{_TORCH_LEAF.get(leaf, leaf)}" if leaf else unit.path
        wanted = shape[::-1] if reading.kind == "Linear" and leaf == "weight" else shape
        found = _lone_tensor(torch_name, wanted, tensors)
        if found is not None:
            del tensors[found]
            findings.moves.append(Move(found, torch_name, is_tensor=True))
            findings.doubt(unit.path, f"{leaf or unit.path} is {found}, the only tensor left of its shape")
        elif (tie := _tie(findings, torch_name, wanted)) is not None:
            findings.ties.append(tie)
        else:
            findings.undecided[name] = shape
            findings.doubt(unit.path, f"undecided: no tensor fits {leaf or unit.path} {list(shape)}")


def _lone_tensor(name: str, shape: Shape, tensors: Mapping[str, Shape]) -> str | None:
    """Return the one tensor that is left of this shape, its last word agreeing where both have one."""
    leaf = name.rpartition(".")[2]
    fitting = [
        other
        for other, found in tensors.items()
        if found == shape and (leaf not in {"weight", "bias"} or other.endswith(leaf))
    ]
    return fitting[0] if len(fitting) == 1 else None


def _tie(findings: Findings, name: str, shape: Shape) -> Tie | None:
    """Return the embedding a head's matrix may be tied to."""
    if len(shape) != _MATRIX or not name.endswith(".weight"):
        return None
    embeddings = [
        unit.path
        for unit in findings.units
        if unit.params.get("weight") == shape and findings.layers.get(unit.path, unit.readings[0]).kind == "Embedding"
    ]
    if not embeddings:
        return None
    best = max(embeddings, key=lambda path: (hint(path) == "token", likeness(path, name)))
    return Tie(name, f"{best}.weight", f"not in the file: taken as tied to {best}")


def _drops(tensors: Mapping[str, Shape]) -> Iterator[Drop]:
    """Yield what to drop: buffers by the end of their name, the rest name by name and marked."""
    rest = dict(tensors)
    for ending, reason in _BUFFERS.items():
        found = tuple(name for name in rest if re.search(rf"(^|\.)({ending})", name))
        for name in found:
            del rest[name]
        if found:
            yield Drop(found, reason, is_sure=True)
    modules: dict[str, list[str]] = {}
    for name in rest:
        modules.setdefault(name.rpartition(".")[0], []).append(name)
    for path, names in modules.items():
        yield Drop(tuple(names), f"nothing in the target fits {path or names[0]}", is_sure=False)
