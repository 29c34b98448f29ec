"""`open_checkpoint`: from a path to a `Checkpoint`. Joins container, walk, roots and the list of foreign globals.

Not here: file layouts (`importer.containers`), and the reading of trees (`importer.checkpoint.walking`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from importer.budgets import TENSOR, Budget
from importer.checkpoint.contents import Checkpoint, ForeignGlobal, Tensor, Unsupported
from importer.checkpoint.globals_audit import foreign_globals, nested_trees, refuse_hostile
from importer.checkpoint.partial_weights import refuse_partial
from importer.checkpoint.quantization import unpack_quantized
from importer.checkpoint.roots import candidate_roots, root_of_names
from importer.checkpoint.walking import WalkedTree, walk
from importer.containers import PickleContainer, Resolved, SetContainer, Shard, TableContainer, open_container
from importer.errors import Location, MissingFileError, UsageError, shown
from importer.limits import HOSTILE_HOW, Limits
from importer.options import DEFAULT_OPTIONS, OptionGroup, Options, QuantizedChoice, changed, described
from importer.unpickling import PersistentId, collection_paused

__all__ = ["open_checkpoint"]

_SHOWN_NAMES = 5


@dataclass(slots=True)
class _Contents:
    """What one container, or several together, have in them."""

    findings: WalkedTree = field(default_factory=WalkedTree)
    roots: tuple[str, ...] = ()
    foreign: dict[str, ForeignGlobal] = field(default_factory=dict)
    unlisted: list[str] = field(default_factory=list)


def open_checkpoint(path: str | os.PathLike[str], options: Options | None = None, /, **changes: object) -> Checkpoint:
    """Open a checkpoint: everything in it is described, no tensor byte is read and nothing is run.

    Args:
        path: a file, an index of shards, or a folder.
        options: of these, the ones about reading count.
        **changes: single options by name, `open_checkpoint(path, sparse="dense")`:
            {options}


    Raises:
        UsageError: nothing lies below `root`, a folder in which more than one file could be meant, or an unknown choice.
        SourceError: the source is no checkpoint, damaged, hostile, or passes a limit.
    """
    with collection_paused():
        return _open(path, changed(options or DEFAULT_OPTIONS, changes, OptionGroup.READING))


open_checkpoint.__doc__ = (open_checkpoint.__doc__ or "").replace("{options}", described(OptionGroup.READING))


def _open(path: str | os.PathLike[str], options: Options) -> Checkpoint:
    """Open a checkpoint; the unpickled tree is gone before the collector runs again and would go through it."""
    limits = options.limits
    budget = Budget(limits, checksums=options.checksums)
    opened = open_container(path, limits, budget)
    container = opened.container
    if isinstance(container, PickleContainer):
        contents = _from_pickle(container, options, budget)
    elif isinstance(container, TableContainer):
        contents = _from_table(container, options, budget)
    else:
        contents = _from_set(container, options, budget)
    findings = contents.findings
    findings.raise_damage()
    quantization = unpack_quantized(opened, findings, options.quantized or QuantizedChoice.REPORT, limits)
    root = _checked_root(options.root, contents, container.paths[0])
    refuse_partial(findings.tensors, root, Location(path=container.paths[0]))
    _bound_expansion((*findings.tensors.values(), *findings.arrays.values()), container.paths, limits)
    return Checkpoint(
        paths=container.paths,
        container=container.kind,
        tensors=findings.tensors,
        arrays=findings.arrays,
        unsupported=tuple(findings.unsupported),
        values=findings.values,
        modules=findings.modules,
        root=root,
        root_candidates=contents.roots,
        foreign_globals=tuple(contents.foreign.values()),
        config=opened.config,
        config_path=opened.config_path,
        config_fault=opened.config_fault,
        metadata={} if isinstance(container, PickleContainer) else container.metadata,
        scalars={} if isinstance(container, PickleContainer) else container.scalars,
        param_ids={} if isinstance(container, PickleContainer) else container.param_ids,
        unlisted=tuple(contents.unlisted),
        quantization=quantization,
        notes=(*container.notes, *opened.notes, *findings.notes),
        facts=container.facts,
    )


def _from_pickle(container: PickleContainer, options: Options, budget: Budget, name: str = "") -> _Contents:
    """Read a tree; `name` is put before all names in it."""
    contents = _Contents()
    where = Location(path=container.paths[0])
    for tree in chain((container.tree,), nested_trees(container.tree, where, budget)):
        refuse_hostile(tree, where)
        contents.foreign |= {item.name: item for item in foreign_globals(tree)}
    top = walk(container, options.limits, contents.findings, name, options=options, budget=budget)
    contents.roots = candidate_roots(top)
    return contents


def _from_table(container: TableContainer, options: Options, budget: Budget, prefix: str = "") -> _Contents:
    """Take over names and arrays; objects beside them are trees of plain values."""
    contents = _Contents()
    findings = contents.findings
    where = Location(path=container.paths[0])
    for name, array in container.arrays.items():
        _pay_for_name(prefix + name, budget, where)
        findings.tensors[prefix + name] = Tensor(prefix + name, array)
    for opaque in container.opaque:
        _pay_for_name(prefix + opaque.name, budget, where)
        findings.unsupported.append(Unsupported(prefix + opaque.name, opaque.kind, opaque.reason))
    for name, tree in container.objects.items():
        item = PickleContainer(kind=container.kind, paths=container.paths, tree=tree, resolve=_no_storages)
        inner = _from_pickle(item, options, budget, prefix + name)
        _merge(contents, inner)
    contents.roots = root_of_names(findings.tensors, container.objects) if container.kind == "distributed" else ()
    return contents


def _pay_for_name(name: str, budget: Budget, where: Location) -> None:
    """Hold the name of a table's entry against its bounds: it and all prefixes of it, which are module paths, will be kept.

    Raises:
        LimitError: it is too long.
    """
    budget.limits.require("max_name_length", len(name), f"the name {shown(name)} is too long", where, HOSTILE_HOW)
    budget.spend(TENSOR + len(name) * (2 + name.count(".")), where)


def _from_set(container: SetContainer, options: Options, budget: Budget) -> _Contents:
    """Read all files of a set, and hold what is in them against what its index lists.

    Raises:
        MissingFileError: a tensor the index lists is not in its file.
    """
    contents = _Contents()
    missing: list[str] = []
    for shard in container.shards:
        if isinstance(shard.container, PickleContainer):
            inner = _from_pickle(shard.container, options, budget, shard.prefix.rstrip("."))
        else:
            inner = _from_table(shard.container, options, budget, shard.prefix)
        if shard.expected is not None:
            missing += [f"{name}@{Path(shard.path).name}" for name in sorted(_absent(shard, inner))]
            _remove_unlisted(shard, inner)
        _merge(contents, inner)
    if missing:
        listed = ", ".join(map(shown, missing[:_SHOWN_NAMES]))
        raise MissingFileError(
            f"{len(missing)} tensors that the index lists are not in their files: {listed}",
            where=Location(path=container.paths[0]),
            how="The index and the files do not belong together, or a file is damaged: download them again.",
        )
    return contents


def _absent(shard: Shard, contents: _Contents) -> set[str]:
    """Return the names the index lists that nothing in the shard has, be it readable or not."""
    findings = contents.findings
    opaque = {entry.name for entry in findings.unsupported}
    damaged = {name for name, _ in findings.damaged}
    return set(shard.expected or ()) - findings.tensors.keys() - findings.arrays.keys() - opaque - damaged


def _remove_unlisted(shard: Shard, contents: _Contents) -> None:
    """Take out the tensors the index does not list for this shard; leftovers of another run, as a rule."""
    expected = shard.expected or frozenset()
    for found in (contents.findings.tensors, contents.findings.arrays):
        for name in [name for name in found if name not in expected]:
            del found[name]
            contents.unlisted.append(f"{name}@{Path(shard.path).name}")


def _merge(into: _Contents, other: _Contents) -> None:
    """Add what another container holds; a name that is taken already gets a number."""
    for name, tensor in other.findings.tensors.items():
        free = into.findings.unique(name)
        into.findings.tensors[free] = tensor if free == name else replace(tensor, name=free)
    for name, array in other.findings.arrays.items():
        free = into.findings.unique(name)
        into.findings.arrays[free] = array if free == name else replace(array, name=free)
    into.findings.unsupported += other.findings.unsupported
    into.findings.composites |= other.findings.composites
    into.findings.values |= other.findings.values
    into.findings.modules |= other.findings.modules
    into.findings.damaged += other.findings.damaged
    into.findings.notes += other.findings.notes
    into.foreign |= other.foreign
    into.unlisted += other.unlisted


def _no_storages(pid: PersistentId) -> Resolved:
    raise AssertionError(f"objects with tensors inside come as opaque entries, not as trees: {pid}")


def _bound_expansion(tensors: Sequence[Tensor], paths: tuple[str, ...], limits: Limits) -> None:
    """Hold the size of all tensors together against the size of the files.

    Raises:
        LimitError: repeated views make far more of the files than is in them.
    """
    arrays = [tensor.array for tensor in tensors]
    total = sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays)
    if total <= limits.free_expansion:
        return
    size = sum(Path(path).stat().st_size for path in paths)
    if total > limits.max_expansion * size:
        what = f"{size} bytes of file claim to be {total} bytes of tensors"
        raise limits.passed("max_expansion", total // max(size, 1), what, Location(path=paths[0]), HOSTILE_HOW)


def _checked_root(root: str | None, contents: _Contents, path: str) -> str:
    """Return the root asked for, or the one found.

    Raises:
        UsageError: nothing lies below the one asked for.
    """
    if root is None:
        return contents.roots[0] if contents.roots else ""
    root = root.strip(".")
    findings = contents.findings
    if not root or any(name.startswith(f"{root}.") for names in (findings.tensors, findings.arrays) for name in names):
        return root
    candidates = (
        ", ".join(shown(candidate) if candidate else "the top" for candidate in contents.roots) or "none but the top"
    )
    raise UsageError(
        f"no tensor lies below {shown(root)}",
        where=Location(path=path),
        how=f"Places with tensors: {candidates}.",
    )
