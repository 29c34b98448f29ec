"""Sets of files that are one checkpoint: shards with an index, and the slices of tensor-parallel training.

Not here: finding the set in a folder (`folder`), and merging the names of its parts (`importer.checkpoint`).

Format facts: `*.index.json` of transformers and diffusers has `weight_map` (name to file) and `metadata`; Meta's
`consolidated.<nn>.pth` hold the same names each, with tensors cut along one axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from importer.containers.base import PickleContainer, SetContainer, Shard, TableContainer
from importer.containers.files import is_file, path_inside
from importer.errors import CorruptContainerError, Location, MissingFileError, shown

__all__ = ["Opener", "is_index", "missing_shards", "open_sharded", "open_slices", "open_unlisted"]

Opener = Callable[[Path], PickleContainer | TableContainer]
"""Opens one file of a set."""

_SHOWN_NAMES = 5


def is_index(document: Mapping[str, object]) -> bool:
    """Whether a JSON document is the index of a sharded set."""
    return "weight_map" in document


def open_sharded(path: Path, document: Mapping[str, object], opener: Opener) -> SetContainer:
    """Open all shards an index names.

    Raises:
        CorruptContainerError: the index is damaged or names files outside of its folder.
        MissingFileError: shards are missing; lists them.
        SourceError: whatever is wrong with a shard.
    """
    where = Location(path=str(path))
    expected: dict[str, set[str]] = {}
    for name, file_name in _weight_map(document, where).items():
        expected.setdefault(file_name, set()).add(name)
    fault = missing_shards(path, document)
    if fault is not None:
        raise fault
    paths = {file_name: path_inside(path.parent, file_name, where) for file_name in sorted(expected)}
    shards = tuple(
        Shard(str(shard_path), opener(shard_path), frozenset(expected[file_name]))
        for file_name, shard_path in paths.items()
    )
    return SetContainer(
        kind="sharded",
        paths=(str(path), *(shard.path for shard in shards)),
        shards=shards,
        metadata={**_common_metadata(shards), **_texts(document.get("metadata"))},
    )


def missing_shards(path: Path, document: Mapping[str, object]) -> MissingFileError | None:
    """Return the error for an index that names files which are not in its folder, None if all are.

    Raises:
        CorruptContainerError: the index is damaged or names files outside of its folder.
    """
    where = Location(path=str(path))
    names = sorted(set(_weight_map(document, where).values()))
    missing = [name for name in names if not is_file(path_inside(path.parent, name, where))]
    if not missing:
        return None
    listed = ", ".join(shown(name) for name in missing[:_SHOWN_NAMES])
    more = f" and {len(missing) - _SHOWN_NAMES} more" if len(missing) > _SHOWN_NAMES else ""
    return MissingFileError(
        f"{len(missing)} of {len(names)} shards are missing: {listed}{more}",
        where=where,
        how="Download the missing files into the same folder.",
    )


def open_unlisted(paths: Sequence[Path], opener: Opener) -> SetContainer:
    """Open numbered shards that are all there, without an index; every tensor in them belongs to the set.

    Raises:
        SourceError: whatever is wrong with a shard.
    """
    shards = tuple(Shard(str(path), opener(path)) for path in paths)
    return SetContainer(
        kind="sharded",
        paths=tuple(map(str, paths)),
        shards=shards,
        metadata=_common_metadata(shards),
        notes=(f"{len(paths)} numbered shards without an index: all of their tensors were taken",),
    )


def open_slices(paths: Sequence[Path], opener: Opener) -> SetContainer:
    """Open the slices of a tensor-parallel model; the name of its file goes before every name in a slice.

    Raises:
        SourceError: whatever is wrong with a slice.
    """
    shards = tuple(Shard(str(path), opener(path), None, f"{path.stem}.") for path in paths)
    return SetContainer(
        kind="slices",
        paths=tuple(map(str, paths)),
        shards=shards,
        notes=(f"{len(paths)} tensor-parallel slices; a recipe has to concatenate them",),
    )


def _common_metadata(shards: Sequence[Shard]) -> dict[str, str]:
    """Return what all shards say of themselves, such as the layout their modules are in."""
    first, *others = ({} if isinstance(one.container, PickleContainer) else one.container.metadata for one in shards)
    return {key: text for key, text in first.items() if all(other.get(key) == text for other in others)}


def _weight_map(document: Mapping[str, object], where: Location) -> dict[str, str]:
    table = document["weight_map"]
    files = _texts(table)
    if not files or not isinstance(table, dict) or len(files) != len(table):
        raise CorruptContainerError(
            "'weight_map' is no table from names to files", where=where, how="Download the index again."
        )
    return files


def _texts(value: object) -> dict[str, str]:
    """Return the entries of a JSON object that are texts."""
    return {key: text for key, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else {}
