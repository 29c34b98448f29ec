"""What one-to-one comparison leaves: fused matrices, parameters put together from several places, tied ones, buffers.

Everything found here is marked. Not here: the comparison itself (`importer.suggest.aligning`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from importer.suggest.comparison import Comparison, Drop, Move, SplitMove, Tie
from importer.suggest.likeness import hint, likeness
from importer.suggest.source_modules import SourceModule
from importer.suggest.target_modules import Shape, TargetModule

__all__ = ["settle_leftovers", "take_fused"]

_FUSED = (("query", "key", "value"), ("gate", "up"))
_LIKE_FUSED = re.compile(r"qkv|kqv|c_attn$|query_key_value|gate_up|(^|\.)(w12|Wi)$", re.IGNORECASE)
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


def take_fused(
    comparison: Comparison, sources: Sequence[SourceModule], targets: Sequence[TargetModule]
) -> tuple[tuple[SourceModule, ...], tuple[TargetModule, ...]]:
    """Add the splits of matrices whose names say that they are fused, and return what else there is on both sides."""
    fused = [source for source in sources if _LIKE_FUSED.search(source.path)]
    return _take_splits(comparison, fused, sources, targets)


def settle_leftovers(
    comparison: Comparison,
    sources: Sequence[SourceModule],
    targets: Sequence[TargetModule],
    twins: Mapping[str, Sequence[str]],
) -> None:
    """Add splits, single tensors, ties and drops to `comparison`, and name what stays open.

    Args:
        comparison: what was found so far.
        sources: what is left of the checkpoint.
        targets: what is left of the target.
        twins: name → the other names of the same stored tensor.
    """
    sources, targets = _take_splits(comparison, sources, sources, targets)
    tensors = {
        name: unit.leaves[leaf].shape for unit in sources for name, leaf in zip(unit.names(), unit.leaves, strict=True)
    }
    for unit in targets:
        comparison.layers.setdefault(unit.path, unit.candidates[0])
        _fill(comparison, unit, tensors)
    comparison.drops += _drops(tensors, twins)


def _take_splits(
    comparison: Comparison,
    fused: Sequence[SourceModule],
    sources: Sequence[SourceModule],
    targets: Sequence[TargetModule],
) -> tuple[tuple[SourceModule, ...], tuple[TargetModule, ...]]:
    splits = tuple(_splits(fused, targets))
    comparison.splits += splits
    parts = {path for split in splits for path in split.targets}
    for unit in targets:
        if unit.path in parts:
            comparison.layers[unit.path] = next(
                candidate for candidate in unit.candidates if candidate.kind == "Linear"
            )
    used = {split.source for split in splits}
    return (
        tuple(unit for unit in sources if unit.path not in used),
        tuple(unit for unit in targets if unit.path not in parts),
    )


def _splits(sources: Sequence[SourceModule], targets: Sequence[TargetModule]) -> Iterator[SplitMove]:
    """Yield the fused matrices that siblings of the target add up to."""
    used: set[str] = set()
    for parent, names, units in _siblings(targets):
        fitting = [
            (likeness(source.path, parent), split)
            for source in sources
            if source.path not in used and _numbers(source.path) == _numbers(parent)
            if (split := _split(source, units, names)) is not None
        ]
        if fitting:
            best = max(fitting, key=lambda entry: entry[0])[1]
            used.add(best.source)
            yield best


def _siblings(targets: Sequence[TargetModule]) -> Iterator[tuple[str, tuple[str, ...], list[TargetModule]]]:
    """Yield groups of Linears under one parent that a file may hold fused: known roles, or any two of one shape."""
    families: dict[str, list[TargetModule]] = {}
    for unit in targets:
        if "Linear" in unit.kinds:
            families.setdefault(unit.path.rpartition(".")[0], []).append(unit)
    for parent, units in families.items():
        parts = {hint(unit.path): unit for unit in units}
        schemes = [scheme for scheme in _FUSED if set(scheme) <= set(parts)]
        yield from ((parent, scheme, [parts[part] for part in scheme]) for scheme in schemes)
        for one, other in pairwise(units):
            if not schemes and one.params == other.params:
                yield parent, tuple(unit.path.rpartition(".")[2] for unit in (one, other)), [one, other]


def _split(source: SourceModule, units: Sequence[TargetModule], scheme: Sequence[str]) -> SplitMove | None:
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
    return SplitMove(source.path, tuple(unit.path for unit in units), sizes, is_in_out, doubt)


def _numbers(path: str) -> list[str]:
    return [segment for segment in path.split(".") if segment.isdecimal()]


def _fill(comparison: Comparison, unit: TargetModule, tensors: dict[str, Shape]) -> None:
    """Find each parameter of a unit by itself: a lone tensor, or one that another module holds already."""
    candidate = comparison.layers[unit.path]
    for leaf, shape in unit.params.items():
        name = f"{unit.path}.{leaf}" if leaf else unit.path
        torch_name = f"{unit.path}.{_TORCH_LEAF.get(leaf, leaf)}" if leaf else unit.path
        wanted = shape[::-1] if candidate.kind == "Linear" and leaf == "weight" else shape
        found = _lone_tensor(torch_name, wanted, tensors)
        if found is not None:
            del tensors[found]
            comparison.moves.append(Move(found, torch_name, is_tensor=True))
            comparison.doubt(unit.path, f"{leaf or unit.path} is {found}, the only tensor left of its shape")
        elif (tie := _tie(comparison, torch_name, wanted)) is not None:
            comparison.ties.append(tie)
        else:
            comparison.undecided[name] = shape
            zeros = (
                "; Mha(d, key_bias=False) at its parent writes zeros"
                if (hint(unit.path), leaf) == ("key", "bias")
                else ""
            )
            comparison.doubt(unit.path, f"undecided: no tensor fits {leaf or unit.path} {list(shape)}{zeros}")


def _lone_tensor(name: str, shape: Shape, tensors: Mapping[str, Shape]) -> str | None:
    """Return the one tensor that is left of this shape, its last word agreeing where both have one."""
    leaf = name.rpartition(".")[2]
    fitting = [
        other
        for other, found in tensors.items()
        if found == shape and (leaf not in {"weight", "bias"} or other.endswith(leaf))
    ]
    return fitting[0] if len(fitting) == 1 else None


def _tie(comparison: Comparison, name: str, shape: Shape) -> Tie | None:
    """Return the token embedding that a matrix outside of all layers may be tied to."""
    if len(shape) != _MATRIX or not name.endswith(".weight") or _numbers(name):
        return None
    filled = {move.target for move in comparison.moves}
    embeddings = [
        unit.path
        for unit in comparison.units
        if unit.path in filled
        and unit.params.get("weight") == shape
        and comparison.layers[unit.path].kind == "Embedding"
    ]
    tokens = [path for path in embeddings if hint(path) == "token"] or embeddings
    if len(tokens) == 1 or (tokens and hint(tokens[0]) == "token"):
        best = max(tokens, key=lambda path: likeness(path, name))
        return Tie(name, f"{best}.weight", f"not in the file: taken as tied to {best}")
    return None


def _drops(tensors: Mapping[str, Shape], twins: Mapping[str, Sequence[str]]) -> Iterator[Drop]:
    """Yield what to drop: second names, buffers by the end of their name, and the rest, which is marked."""
    used = {name: [twin for twin in twins.get(name, ()) if twin not in tensors] for name in tensors}
    yield from (Drop((name,), f"the same tensor as {found[0]}", is_sure=True) for name, found in used.items() if found)
    rest = {name: shape for name, shape in tensors.items() if not used[name]}
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
