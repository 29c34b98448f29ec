"""Layers made of further layers: their torch spelling is taken apart or renamed, then each child goes its own way.

Not here: which torch names mean what (`recurrent`, `attention`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from importer.adapters.layer_kind import Adapted, AdaptedParam, Args, LayerKind, Problem, Shapes, problems_of
from importer.adapters.reparametrized import Part, fused
from importer.arrays import Array, concat, full
from importer.errors import TensorError, shown

__all__ = ["Child", "CompositeLayer", "RenamedParams"]


@dataclass(frozen=True, slots=True)
class Child:
    """A module inside another.

    Attributes:
        path: dotted, below the parent.
        kind: its layer kind.
        args: its arguments.
        zero_bias: whether Burn always has a bias here that the file lacks: zeros are written.
    """

    path: str
    kind: LayerKind
    args: Args
    zero_bias: bool = False


@dataclass(slots=True)
class RenamedParams:
    """Parameters under the names of the other side, orientation unchanged; filled while respelling."""

    parts: dict[str, Part] = field(default_factory=dict)
    faults: list[Problem] = field(default_factory=list)

    def put(self, name: str, part: Part) -> None:
        """Add a parameter; two for one name are a fault."""
        other = self.parts.setdefault(name, part)
        if other is not part:
            what = f"{shown(part.sources[0])} and {shown(other.sources[0])} both become {shown(name)}"
            self.refuse(part.sources, what, "Drop one of them in the recipe.")

    def join(self, name: str, names: Sequence[str], parts: Mapping[str, Part]) -> None:
        """Add the concatenation, along dimension 0, of the parts called `names`; some missing are a fault."""
        found = [parts[other] for other in names if other in parts]
        sources = tuple(source for part in found for source in part.sources)
        missing = next((other for other in names if other not in parts), None)
        if missing is not None:
            self.refuse(sources, f"{shown(name)} needs {shown(missing)}, which is missing", "Check the file.")
            return
        try:
            self.put(name, Part(concat([part.array for part in found], 0), sources))
        except TensorError as error:
            self.refuse(sources, f"{shown(name)} cannot be joined: {error.what}", "Check the file.")

    def refuse(self, sources: tuple[str, ...], what: str, how: str) -> None:
        """Note that a parameter made from these leaves cannot be taken across."""
        self.faults += problems_of(sources, what, how)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeLayer(LayerKind):
    """A layer whose parameters all belong to child layers in Burn."""

    @abstractmethod
    def children(self, args: Args) -> tuple[Child, ...]:
        """Return the children in Burn's field order; sizes that `args` lacks are 0."""

    def rename_to_burn(self, parts: Mapping[str, Part], args: Args) -> RenamedParams:
        """Give torch-side leaves the names they have below Burn's children; split what is fused. Here: as they are."""
        del args
        return RenamedParams(dict(parts))

    def rename_to_torch(self, parts: Mapping[str, Part], args: Args) -> RenamedParams:
        """The reverse of `rename_to_burn`: from torch-oriented leaves of the children to torch's own names."""
        del args
        return RenamedParams(dict(parts))

    def structure(self, names: Mapping[str, object], args: Args) -> Args:
        """Complete `args` with what the parameters' names tell about the number of children."""
        del names
        return args

    def burn_params(self, args: Args) -> Shapes:
        """Return every child's parameters below its path."""
        return tuple(
            (f"{child.path}.{leaf}", shape)
            for child in self.children(args)
            for leaf, shape in child.kind.burn_params(child.args)
        )

    def to_burn(self, params: Mapping[str, Array], args: Args) -> Adapted:
        """Fuse norms, respell, then adapt each child."""
        parts, faults = fused(params, 0)
        args = self.structure(parts, args)
        respelled = self.rename_to_burn(parts, args)
        children = self.children(args)
        groups, strays = _grouped(respelled.parts, children)
        pieces: list[AdaptedParam] = []
        faults += respelled.faults + self._strays(respelled.parts, strays)
        for child in children:
            group = groups[child.path]
            if child.zero_bias:
                group.update(_zero_bias(group))
            outcome = child.kind.to_burn({leaf: part.array for leaf, part in group.items()}, child.args)
            pieces += [_below(child.path, piece, group) for piece in outcome.params]
            faults += _lifted(child.path, outcome.faults, group)
        return Adapted(tuple(pieces), (), tuple(faults))

    def to_torch(self, params: Mapping[str, Array], args: Args) -> Adapted:
        """Adapt each child back, then respell and join."""
        args = self.structure(params, args)
        children = self.children(args)
        parts = {name: Part(array, (name,)) for name, array in params.items()}
        groups, strays = _grouped(parts, children)
        faults = self._strays(parts, strays)
        returned: dict[str, Part] = {}
        layers: dict[tuple[str, ...], str] = {}
        for child in children:
            group = groups[child.path]
            outcome = child.kind.to_torch({leaf: part.array for leaf, part in group.items()}, child.args)
            faults += _lifted(child.path, outcome.faults, group)
            for piece in (_below(child.path, piece, group) for piece in outcome.params):
                returned[piece.name] = Part(piece.array, piece.sources, piece.note)
                layers[piece.sources[:1]] = piece.layer
        respelled = self.rename_to_torch(returned, args)
        pieces = [
            AdaptedParam(name, part.array, layers[part.sources[:1]], part.sources, part.note)
            for name, part in respelled.parts.items()
        ]
        return Adapted(tuple(pieces), (), tuple(faults + respelled.faults))

    def _strays(self, parts: Mapping[str, Part], names: Sequence[str]) -> list[Problem]:
        how = "Drop it, rename it, or correct the layer's arguments."
        return [
            fault
            for name in names
            for fault in problems_of(parts[name].sources, f"{shown(name)} has no place in {self.describe()}", how)
        ]


def _grouped(parts: Mapping[str, Part], children: tuple[Child, ...]) -> tuple[dict[str, dict[str, Part]], list[str]]:
    """Sort parameters by the child they belong to; the rest are strays."""
    groups: dict[str, dict[str, Part]] = {child.path: {} for child in children}
    strays: list[str] = []
    for name, part in parts.items():
        path = name
        while path not in groups and "." in path:
            path = path.rpartition(".")[0]
        if path in groups and path != name:
            groups[path][name[len(path) + 1 :]] = part
        else:
            strays.append(name)
    return groups, strays


def _below(path: str, piece: AdaptedParam, group: Mapping[str, Part]) -> AdaptedParam:
    """Return a child's piece as its parent's: full name, the file's leaves as sources, and notes joined."""
    behind = [group[leaf] for leaf in piece.sources]
    sources = tuple(source for part in behind for source in part.sources)
    notes = dict.fromkeys(note for note in (*(part.note for part in behind), piece.note) if note)
    return AdaptedParam(f"{path}.{piece.name}", piece.array, piece.layer, sources, "; ".join(notes))


def _lifted(path: str, faults: Sequence[Problem], group: Mapping[str, Part]) -> list[Problem]:
    """Return a child's faults as its parent's, naming the file's leaves."""
    return [
        lifted
        for fault in faults
        for lifted in problems_of(group[fault.name].sources, f"{path}: {fault.message}", fault.how)
    ]


def _zero_bias(group: Mapping[str, Part]) -> dict[str, Part]:
    """Return the zero bias of a child that has a weight but no bias; torch's weights count outputs first."""
    weight = group.get("weight")
    if weight is None or "bias" in group:
        return {}
    zeros = full(0, weight.array.dtype, weight.array.shape[:1])
    return {"bias": Part(zeros, (), "no bias in the file (bias=False): zeros synthesised")}
