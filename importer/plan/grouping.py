"""Which module every tensor belongs to, and of what layer kind.

Types come from the template, from the recipe's `types`, or from the classes a whole-model file names. They are never
guessed: what needs a type and has none is returned as undecided. Not here: what a layer kind does with its tensors
(`importer.adapters`), and the rest of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from importer.adapters import LAYERS, Args, LayerKind, TypedLayer, layer_of_class, module_of, normed_kernel
from importer.checkpoint import Module
from importer.recipes import Entry, RuleRef, Template, TypeRule

__all__ = ["Grouping", "ModuleGroup", "group_by_classes", "group_by_template", "group_by_types", "group_normed_kernels"]

_MATRIX = 2
_STACKED_LEAVES = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "in_proj_weight", "in_proj_bias", "running_")
_PROJECTIONS = frozenset({"q_proj_weight", "k_proj_weight", "v_proj_weight"})
_LEAVES_OF_BURN = frozenset({"gamma", "beta", "alpha"})
_FACTORS = {"weight_g": "weight_v", "weight_v": "weight_g", "weight_orig": "weight_u"}
"""Leaves that are factors of a normed weight if the other leaf lies beside them."""


@dataclass(frozen=True, slots=True)
class ModuleGroup:
    """The tensors of one module.

    Attributes:
        path: dotted path of the module in the output.
        kind: what it is.
        args: what is known of its arguments.
        rule: the template line, `types` entry or class that says so.
        entries: its tensors by their names inside it.
    """

    path: str
    kind: LayerKind
    args: Args
    rule: RuleRef
    entries: Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class Grouping:
    """Entries sorted out: those of typed modules, and the rest."""

    groups: tuple[ModuleGroup, ...]
    rest: tuple[Entry, ...]

    def undecided(self, *, to_torch: bool = False) -> tuple[Entry, ...]:
        """Those of the rest that some layer kinds would transpose, rename or split, and others would not.

        Matrices called `weight` (Linear or Embedding), vectors called `weight` with their `bias` (a norm or PReLU),
        the stacked or buffered leaves of recurrent layers, attention and batch norms, and the factors of normed weights.
        Kernels of rank 3 and more, and bare parameters, lie in Burn as they do in torch. On the way back, `to_torch`, what
        Burn calls gamma, beta and alpha gets another name.
        """
        ranks = {entry.name: len(entry.array.shape) for entry in self.rest}
        renamed = _LEAVES_OF_BURN if to_torch else frozenset[str]()
        return tuple(
            entry for entry in self.rest if _needs_type(entry.name, ranks) or entry.name.rpartition(".")[2] in renamed
        )


def _needs_type(name: str, ranks: Mapping[str, int]) -> bool:
    path, dot, leaf = name.rpartition(".")
    weight = f"{path}{dot}weight"
    if leaf in {"weight", "bias"} and weight in ranks:
        return 0 < ranks[weight] <= _MATRIX
    if f"{path}{dot}{_FACTORS.get(leaf)}" in ranks:
        return True
    return leaf.startswith(_STACKED_LEAVES) or leaf in _PROJECTIONS or ".parametrizations." in f".{name}"


@dataclass(frozen=True, slots=True)
class _Claims:
    """Names by module: module path → leaf → name, and the names below no known module."""

    modules: dict[str, dict[str, str]]
    unclaimed: tuple[str, ...]


def _claim(names: Iterable[str], paths: Container[str], pick: Callable[[str, Sequence[str]], str | None]) -> _Claims:
    """Give every name to one of the module paths it lies below, or is itself (a bare parameter).

    Args:
        names: of all tensors.
        paths: of the modules.
        pick: chooses one of the paths that a name lies below, the innermost given first; None for none of them.
    """
    modules: dict[str, dict[str, str]] = {}
    unclaimed = []
    for name in names:
        candidates = [path for path in _outwards(name) if path in paths]
        path = pick(name, candidates) if candidates else None
        if path is not None:
            modules.setdefault(path, {})[_below(path, name)] = name
        else:
            unclaimed.append(name)
    return _Claims(modules, tuple(unclaimed))


def _below(path: str, name: str) -> str:
    """Return a name as it is inside a module it lies below."""
    return name[len(path) :].removeprefix(".")


def _outwards(name: str) -> Iterator[str]:
    """Yield the name itself and every module path above it, the top ("") last."""
    yield name
    while name:
        name = name.rpartition(".")[0]
        yield name


def group_by_template(entries: Sequence[Entry], template: Template) -> Grouping:
    """Group by the innermost module that the target template declares."""
    by_name = {entry.name: entry for entry in entries}
    claims = _claim(by_name, template.layers, lambda _, paths: paths[0])
    groups = []
    for path, leaves in claims.modules.items():
        layer = template.layers[path]
        members = {leaf: by_name[name] for leaf, name in leaves.items()}
        groups.append(ModuleGroup(path, LAYERS[layer.kind], layer.args, layer.rule, members))
    return Grouping(tuple(groups), tuple(by_name[name] for name in claims.unclaimed))


def group_by_types(entries: Sequence[Entry], rules: Sequence[TypeRule]) -> Grouping:
    """Group by the first entry of `types` that matches, on the outermost module path it matches.

    The order of the entries decides, so one for whole layers stands before one for the Linears in them, and a pattern
    without `$` means the module it names, not everything below. A module owns what its kind can hold: modules beside
    its own parameters - as in the root of many a model - are left to other entries. Only a bare `Param` is named by its
    parameter.
    """
    by_name = {entry.name: entry for entry in entries}
    owners = _owners(by_name, rules)
    members: dict[_Owner, dict[str, Entry]] = {}
    rest = []
    for name, entry in by_name.items():
        owner = owners[name]
        if owner is None:
            rest.append(entry)
        else:
            members.setdefault(owner, {})[_below(owner.path, name)] = entry
    groups = tuple(_typed(owner.path, rules[owner.number], leaves) for owner, leaves in members.items())
    return Grouping(groups, tuple(rest))


class _Owner(NamedTuple):
    """A module path and the number of the `types` entry that matches it."""

    number: int
    path: str


@dataclass(frozen=True, slots=True)
class _Reach:
    """What is known of a path: who owns it, and which entries have matched it or a path above."""

    owner: _Owner | None = None
    matched: frozenset[int] = frozenset()


def _owners(names: Collection[str], rules: Sequence[TypeRule]) -> dict[str, _Owner | None]:
    """Return the owner of every name; each path is looked at once."""
    of_parameters = [(number, rule) for number, rule in enumerate(rules) if rule.layer.kind == "Param"]
    of_modules = [(number, rule) for number, rule in enumerate(rules) if rule.layer.kind != "Param"]
    reached: dict[str, _Reach] = {}
    for name in names:
        new = list(takewhile(lambda path: path not in reached, _outwards(name)))
        above = reached[new[-1].rpartition(".")[0]] if new and new[-1] else _Reach()
        for path in reversed(new):
            is_parameter = path in names
            owner = above.owner
            if owner is not None:
                inside = _below(owner.path, path if is_parameter else f"{path}.")
                owner = owner if LAYERS[rules[owner.number].layer.kind].may_own(inside) else None
            number = _first_match(path, of_parameters if is_parameter else of_modules, above.matched)
            if number is not None and (owner is None or number < owner.number):
                owner = _Owner(number, path)
            above = _Reach(owner, above.matched if number is None else above.matched | {number})
            reached[path] = above
    return {name: reached[name].owner for name in names}


def _first_match(path: str, rules: Iterable[tuple[int, TypeRule]], spent: Container[int]) -> int | None:
    """Return the first entry that means this path: one that matched a path above means that one."""
    matching = (number for number, rule in rules if rule.pattern.search(path) is not None)
    return next((number for number in matching if number not in spent), None)


def _typed(path: str, rule: TypeRule, members: Mapping[str, Entry]) -> ModuleGroup:
    return ModuleGroup(path, LAYERS[rule.layer.kind], rule.args, rule.rule, members)


def _without_unproven(
    typed: Mapping[str, TypedLayer], modules: Mapping[str, Module], sources: Mapping[str, Entry]
) -> dict[str, TypedLayer]:
    """Leave out Linears told by their attributes alone, unless a weight of their class shows which way it lies.

    A weight of `[out_features, in_features]` shows it, if the two differ; one that is not of this shape shows the contrary.
    """
    proofs: dict[str, set[bool]] = {}
    for path, layer in typed.items():
        weight = sources.get(f"{path}.weight" if path else "weight")
        if _is_likeness(layer) and weight is not None:
            attributes = modules[path].attributes
            as_linear = (attributes["out_features"], attributes["in_features"])
            if weight.array.shape != as_linear or as_linear[0] != as_linear[1]:
                proofs.setdefault(modules[path].class_name, set()).add(weight.array.shape == as_linear)
    return {
        path: layer
        for path, layer in typed.items()
        if not _is_likeness(layer) or proofs.get(modules[path].class_name) == {True}
    }


def _is_likeness(layer: TypedLayer) -> bool:
    return layer.by_attributes and layer.kind.name == "Linear"


def group_by_classes(entries: Sequence[Entry], modules: Mapping[str, Module]) -> Grouping:
    """Group by the classes of a whole saved model; the outermost module of a known class owns what its kind can hold.

    Only tensors that the recipe left whole, with the names they have inside their module, can be told by class.
    """
    sources = {entry.sources[0]: entry for entry in entries if len(entry.sources) == 1}
    typed = {
        path: layer
        for path, module in modules.items()
        if (layer := layer_of_class(module.class_name, module.attributes)) is not None
    }
    typed = _without_unproven(typed, modules, sources)

    def outermost(name: str, paths: Sequence[str]) -> str | None:
        return next((path for path in reversed(paths) if typed[path].kind.may_own(_below(path, name))), None)

    claims = _claim(sources, typed, outermost)
    members: dict[tuple[str, str], dict[str, Entry]] = {}
    for path, leaves in claims.modules.items():
        for leaf, source in leaves.items():
            name = sources[source].name
            if f".{name}".endswith(f".{leaf}"):
                where = name[: len(name) - len(leaf)].removesuffix(".")
                members.setdefault((path, where), {})[leaf] = sources[source]
    groups = []
    for (path, where), leaves_here in members.items():
        rule = RuleRef(file="saved", line=0, column=0, section="class", text=modules[path].class_name)
        groups.append(ModuleGroup(where, typed[path].kind, typed[path].args, rule, leaves_here))
    grouped = {entry.name for group in groups for entry in group.entries.values()}
    return Grouping(tuple(groups), tuple(entry for entry in entries if entry.name not in grouped))


def group_normed_kernels(entries: Sequence[Entry]) -> Grouping:
    """Group the factors of normed kernels, which mean the same in every layer that could hold them."""
    members: dict[str, dict[str, Entry]] = {}
    for entry in entries:
        path = module_of(entry.name)
        members.setdefault(path, {})[_below(path, entry.name)] = entry
    rule = RuleRef(file="", line=0, column=0, section="layout", text="a normed kernel")
    groups = []
    for path, leaves in members.items():
        kind = normed_kernel({leaf: entry.array.shape for leaf, entry in leaves.items()})
        if kind is not None:
            groups.append(ModuleGroup(path, kind, {}, rule, leaves))
    grouped = {entry.name for group in groups for entry in group.entries.values()}
    return Grouping(tuple(groups), tuple(entry for entry in entries if entry.name not in grouped))
