"""Several opened sources as one: an encoder and a head, a base and its parts, the components of a pipeline.

Names are those below each source's root, with a prefix before them where one is given. Not here: opening, and what names mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from importer.checkpoint.contents import Checkpoint, Module, Quantization, Tensor
from importer.errors import Location, UsageError, shown

__all__ = ["component_folders", "join_checkpoints"]

_SHOWN = 3
_SEPARATORS = (".", "/")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".ckpt")


def join_checkpoints(checkpoints: Sequence[Checkpoint], prefixes: Sequence[str]) -> Checkpoint:
    """Return all tensors below the roots of several checkpoints, each with its prefix.

    Args:
        checkpoints: at least one.
        prefixes: one for each; a dot is put behind one that does not end with a separator, empty ones add nothing.

    Raises:
        UsageError: two sources have a tensor of one name.
    """
    whole = [_prefixed(one, _with_separator(prefix)) for one, prefix in zip(checkpoints, prefixes, strict=True)]
    _refuse_collisions(whole)
    first = whole[0]
    if len(whole) == 1:
        return first
    return replace(
        first,
        paths=tuple(path for one in whole for path in one.paths),
        container=first.container if len({one.container for one in whole}) == 1 else "joined",
        tensors={name: tensor for one in whole for name, tensor in one.tensors.items()},
        arrays={name: tensor for one in whole for name, tensor in one.arrays.items()},
        unsupported=tuple(entry for one in whole for entry in one.unsupported),
        values={name: value for one in whole for name, value in one.values.items()},
        modules={path: module for one in whole for path, module in one.modules.items()},
        root="",
        root_candidates=(),
        foreign_globals=tuple({item.name: item for one in whole for item in one.foreign_globals}.values()),
        config=next((one.config for one in whole if one.config is not None), None),
        config_path=next((one.config_path for one in whole if one.config_path is not None), None),
        metadata=_common(one.metadata for one in whole),
        scalars={name: value for one in whole for name, value in one.scalars.items()},
        param_ids={name: number for one in whole for name, number in one.param_ids.items()},
        unlisted=tuple(name for one in whole for name in one.unlisted),
        quantization=_joined_quantization([one.quantization for one in whole if one.quantization is not None]),
        notes=(*(note for one in whole for note in one.notes), *_outside(checkpoints)),
    )


def component_folders(folder: Path) -> tuple[Path, ...]:
    """Return the sub-folders of a pipeline's folder that hold weights; empty if it holds weights itself."""
    if not folder.is_dir() or any(path.suffix in _WEIGHTS for path in folder.iterdir() if path.is_file()):
        return ()
    return tuple(
        path
        for path in sorted(folder.iterdir())
        if path.is_dir() and any(inner.suffix in _WEIGHTS for inner in path.iterdir() if inner.is_file())
    )


def _with_separator(prefix: str) -> str:
    return prefix if not prefix or prefix.endswith(_SEPARATORS) else f"{prefix}."


def _prefixed(one: Checkpoint, prefix: str) -> Checkpoint:
    """Return what lies below a checkpoint's root, under other names."""
    root = f"{one.root}." if one.root else ""
    if not root and not prefix:
        return one

    def renamed(name: str) -> str:
        return prefix + name[len(root) :]

    def kept(table: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {
            renamed(name): replace(tensor, name=renamed(name))
            for name, tensor in table.items()
            if name.startswith(root)
        }

    return replace(
        one,
        tensors=kept(one.tensors),
        arrays=kept(one.arrays),
        unsupported=tuple(replace(e, name=renamed(e.name)) for e in one.unsupported if e.name.startswith(root)),
        modules={
            renamed(path): _moved(module, renamed(path))
            for path, module in one.modules.items()
            if path.startswith(root)
        },
        param_ids={renamed(name): number for name, number in one.param_ids.items() if name.startswith(root)},
        quantization=None if one.quantization is None else _renamed_quantization(one.quantization, root, prefix),
        root="",
        root_candidates=(),
    )


def _moved(module: Module, path: str) -> Module:
    return replace(module, path=path)


def _renamed_quantization(found: Quantization, root: str, prefix: str) -> Quantization:
    def renamed(name: str) -> str:
        return prefix + name[len(root) :]

    weights = {
        renamed(name): tuple(map(renamed, parts)) for name, parts in found.weights.items() if name.startswith(root)
    }
    aside = {renamed(name): reason for name, reason in found.aside.items() if name.startswith(root)}
    stored = {
        renamed(name): replace(tensor, name=renamed(name))
        for name, tensor in found.stored.items()
        if name.startswith(root)
    }
    return replace(found, weights=weights, aside=aside, stored=stored)


def _joined_quantization(found: Sequence[Quantization]) -> Quantization | None:
    if not found:
        return None
    return replace(
        found[0],
        label=" and ".join(dict.fromkeys(one.label for one in found)),
        weights={name: parts for one in found for name, parts in one.weights.items()},
        stored={name: tensor for one in found for name, tensor in one.stored.items()},
        aside={name: reason for one in found for name, reason in one.aside.items()},
        stored_bytes=sum(one.stored_bytes for one in found),
        expanded_bytes=sum(one.expanded_bytes for one in found),
        fault=next((one.fault for one in found if one.fault is not None), None),
    )


def _common(tables: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return what all sources say alike of themselves."""
    first, *others = tables
    return {key: text for key, text in first.items() if all(other.get(key) == text for other in others)}


def _outside(checkpoints: Sequence[Checkpoint]) -> Iterator[str]:
    """Say what of a source lies outside of its root, and is therefore not in the joined one."""
    for one in checkpoints:
        left = [name for name in one.tensors if one.root and not name.startswith(f"{one.root}.")]
        if left:
            yield f"{len(left)} tensors of {shown(one.paths[0])} lie outside of its root {shown(one.root)} and are left out"


def _refuse_collisions(whole: Sequence[Checkpoint]) -> None:
    owners: dict[str, str] = {}
    for one in whole:
        twice = [name for name in (*one.tensors, *one.arrays) if name in owners]
        if twice:
            more = f" and {len(twice) - _SHOWN} more" if len(twice) > _SHOWN else ""
            raise UsageError(
                f"{shown(one.paths[0])} and {shown(owners[twice[0]])} both have {', '.join(map(shown, twice[:_SHOWN]))}{more}",
                where=Location(path=one.paths[0]),
                how="Give them different prefixes: --prefix NAME, once for each source in their order.",
            )
        owners.update(dict.fromkeys((*one.tensors, *one.arrays), one.paths[0]))
