"""What a comparison of both sides found: what moves where, is split or taken twice, what is dropped, what is left open.

Not here: how it is found (`aligning`, `fused_and_tied`), and how it is written down (`recipe_text`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from importer.adapters.plain import PLAIN_LAYERS
from importer.suggest.target_modules import LayerCandidate, Shape, TargetModule

__all__ = ["Comparison", "Drop", "Mark", "Move", "SplitMove", "Tie"]

_TORCH_LEAVES = {
    f".{leaf.burn}": f".{leaf.torch[0]}" for kind in PLAIN_LAYERS.values() for leaf in kind.leaves if leaf.burn
}
"""By the name in Burn; the same in every kind of layer."""
_NUMBER = re.compile(r"(?<=\.)\d+(?![^.?])")


@dataclass(frozen=True, slots=True)
class Mark:
    """Something a person has to check.

    Attributes:
        text: what, as the comment in the draft says it.
        names: full names of the target's parameters it is about.
    """

    text: str
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A module (or, where `is_tensor`, a single tensor) of the checkpoint that becomes one of the target."""

    source: str
    target: str
    is_tensor: bool


@dataclass(frozen=True, slots=True)
class SplitMove:
    """A fused matrix, and its bias if it has one, that becomes several layers.

    Attributes:
        source: module path in the checkpoint.
        targets: module paths in the target, in the order of the parts.
        sizes: outputs of each part.
        is_in_out: whether the matrix is stored `[in, out]`.
        doubt: what to check.
    """

    source: str
    targets: tuple[str, ...]
    sizes: tuple[int, ...]
    is_in_out: bool
    doubt: str


@dataclass(frozen=True, slots=True)
class Tie:
    """A parameter of the target that is taken from another one, torch's leaf names; only where the source lacks it."""

    name: str
    other: str
    doubt: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Tensors of the checkpoint that the target has no place for."""

    names: tuple[str, ...]
    reason: str
    is_sure: bool


@dataclass(slots=True)
class Comparison:
    """Everything a draft is written from; filled stage by stage.

    Attributes:
        units: the target's modules.
        layers: module path → the layer it is taken for.
        doubts: module path → what to check about where it comes from and what it is.
        moves, splits, ties, drops: see their classes.
        remarks: what to check about the file as a whole.
        undecided: parameters of the target that nothing was found for, with their shapes.
    """

    units: tuple[TargetModule, ...]
    layers: dict[str, LayerCandidate] = field(default_factory=dict)
    doubts: dict[str, list[str]] = field(default_factory=dict)
    moves: list[Move] = field(default_factory=list)
    splits: list[SplitMove] = field(default_factory=list)
    ties: list[Tie] = field(default_factory=list)
    drops: list[Drop] = field(default_factory=list)
    remarks: list[Mark] = field(default_factory=list)
    undecided: dict[str, Shape] = field(default_factory=dict)

    def join(self, units: Iterable[TargetModule]) -> None:
        """Let each of `units` stand for the modules below its path."""
        by_path = {unit.path: unit for unit in units}
        kept: dict[str, TargetModule] = {}
        for unit in self.units:
            parent = unit.path.rpartition(".")[0]
            kept.setdefault(parent if parent in by_path else unit.path, by_path.get(parent, unit))
        self.units = tuple(kept.values())

    def doubt(self, path: str, text: str) -> None:
        """Note something to check about a module of the target; in one wording for all repetitions of a layer."""
        self.doubts.setdefault(path, []).append(_NUMBER.sub("N", text))

    def origins(self) -> dict[str, tuple[str, ...]]:
        """Return the paths in the checkpoint that each parameter of the target is meant to come from."""
        origins: dict[str, list[str]] = {}
        for move in self.moves:
            origins.setdefault(move.target, []).append(move.source)
        for split in self.splits:
            for target in split.targets:
                origins.setdefault(target, []).append(split.source)
        for tie in self.ties:
            other = tie.other.rpartition(".")[0]
            origins.setdefault(tie.name, []).extend(origins.get(tie.other, origins.get(other, ())))
        return {
            name: tuple(
                source for path in (unit.path, *_torch_names(name, unit.path)) for source in origins.get(path, ())
            )
            for unit in self.units
            for name in unit.names()
        }

    def marks(self) -> tuple[Mark, ...]:
        """Return everything to check, each text once with all the parameters it is about."""
        below = {unit.path: unit.names() for unit in self.units}
        names: dict[str, dict[str, None]] = {}
        for text, paths in self._doubts():
            found = names.setdefault(text, {})
            for path in paths:
                found.update(dict.fromkeys(below.get(path, (path,))))
        return (*(Mark(text, tuple(found)) for text, found in names.items()), *self.remarks)

    def _doubts(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        for path, doubts in self.doubts.items():
            for doubt in doubts:
                yield doubt, (path,)
        for split in self.splits:
            yield split.doubt, split.targets
        for tie in self.ties:
            yield tie.doubt, (tie.name,)
        for drop in self.drops:
            if not drop.is_sure:
                yield drop.reason, ()


def _torch_names(name: str, path: str) -> tuple[str, ...]:
    """Return what a parameter may be called in PyTorch, where rules name it by itself."""
    leaf = name[len(path) :]
    return tuple(dict.fromkeys((name, f"{path}{_TORCH_LEAVES.get(leaf, leaf)}"))) if leaf else ()
