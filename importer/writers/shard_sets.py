"""Putting complete shards in place as a set, replacing what was there in one step, and tidying up after runs that died.

The index decides what the output is, and it gets its name last. Where names are free, shards get the usual ones, then the
index its own. Where they are taken, by the set that is replaced, the new shards first stand beside the old ones under names
nobody has; the index that names them replaces the old index in one step; then they get the usual names as well, a second
index says so, and those names and the files of the old output go. At every moment the index in place names whole
shards of one conversion. Every step is announced in the run's journal, so `tidy_up` can undo or finish what a run has begun
that was killed at any of them. Not here: the work folder and its journal (`staging`), and writing shards (`writing`).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from importer.errors import Location, WriteError
from importer.system import SYSTEM
from importer.writers.output import FileLayout, Layout
from importer.writers.publishing import alone_in, give_name, scratch_name, sync_folder
from importer.writers.sharding import index_path, renamed_index
from importer.writers.staging import Identity, Run, identity_from, identity_of
from importer.writers.targets import check_free, exists, mode_of, writing_errors

__all__ = ["announce", "check_set", "old_files", "publish_set", "tidy_up"]

_INDEX = "index.json"
_MAX_NAME_BYTES = 255


def check_set(output: Path, layout: Layout, *, overwrite: bool) -> None:
    """Check that no part of the output exists, or that it may be replaced.

    Raises:
        OutputExistsError: the index, a shard or a single file of that name is there, and `overwrite` is false.
    """
    for path in (output, Path(index_path(str(output))), *(Path(name) for name, _ in layout.files)):
        check_free(path, overwrite=overwrite)


def publish_set(run: Run, output: Path, layout: Layout, *, overwrite: bool, links: bool, alone: bool) -> None:
    """Put the shards of a run in place, and then the index.

    `links`: the file system has hard links. `alone`: no other run can be at work on this output; where there are no locks to
    make sure of that, shards that replace a set keep names nobody else gives.

    Raises:
        OutputExistsError: a part of the output exists, and `overwrite` is false.
        WriteError: a shard is gone, or the system refuses.
    """
    assert layout.index is not None
    index, text = Path(layout.index[0]), layout.index[1]
    folder = output.parent
    usual = {Path(name).name: Path(name).name for name, _ in layout.files}
    with alone_in(folder), writing_errors(index):
        check_set(output, layout, overwrite=overwrite)
        is_free = not any(exists(folder / name) for name in usual)
        names = usual if is_free else _free_names(usual, output)
        old = {path.name: known for path in old_files(output) if (known := identity_of(path)) is not None}
        _place(run, folder, names, links=links)
        _put_index(run, index, renamed_index(text, names), old, overwrite=overwrite, links=links)
        if not is_free and links and alone:
            _place_over(run, folder, usual)
            _put_index(run, index, text, old, overwrite=True, links=links)


def old_files(output: Path) -> Iterator[Path]:
    """Yield what belongs to the output that is there: the single file, the index, and the shards it names.

    Only files beside the index that are called after it: an index may name anything, and is no reason to remove it.
    """
    index = Path(index_path(str(output)))
    if exists(output):
        yield output
    if not exists(index):
        return
    yield index
    for name in _named_by(index):
        if name.startswith(f"{output.stem}-") and Path(name).name == name:
            yield output.with_name(name)


def tidy_up(run: Run, output: Path) -> None:
    """Undo what a run has put in place if its output is not complete; else finish removing what that has replaced.

    Raises:
        WriteError: the system refuses.
    """
    folder = output.parent
    index = Path(index_path(str(output)))
    with alone_in(folder), writing_errors(output):
        head = run.head_in_place(folder)
        kept = {head} if head == output.name else {index.name, *_named_by(index)}
        trusted = {name for name, known in run.complete.items() if identity_of(run.folder / name) == known}
        for name in sorted(run.names - kept):
            _take_back(run, folder / name)
        # An index goes before its shards: nothing may be named that is not there.
        old = sorted(run.old_files(folder), key=lambda path: path != index) if head else []
        for path in (path for path in old if path.name not in kept):
            with contextlib.suppress(FileNotFoundError):
                SYSTEM.unlink(path)
        for name in sorted(trusted):
            run.record_again(name)


def _place(run: Run, folder: Path, names: Mapping[str, str], *, links: bool) -> None:
    """Give every shard its new name, which is free."""
    run.append({"names": sorted(names.values())})
    for shard, name in names.items():
        run.check(shard)
        give_name(run.folder / shard, folder / name, overwrite=False, links=links)
        run.record_again(shard)
    for shard, name in names.items():
        if not run.is_ours(folder / name):
            raise run.lost(shard)
    SYSTEM.sync_folder(folder)


def _place_over(run: Run, folder: Path, names: Mapping[str, str]) -> None:
    """Give every shard a name that a file of the old set has, in its stead: no index names that one any more."""
    run.append({"names": sorted(names.values())})
    for shard, name in names.items():
        run.check(shard)
        scratch = scratch_name(run.folder / shard)
        SYSTEM.link(run.folder / shard, scratch)
        SYSTEM.rename(scratch, folder / name)
        run.record_again(shard)
    SYSTEM.sync_folder(folder)


def _put_index(
    run: Run, index: Path, text: bytes, old: Mapping[str, Identity], *, overwrite: bool, links: bool
) -> None:
    """Write the index, announce it and what goes when it is there, and give it its name.

    Raises:
        FileExistsError: there is one, and `overwrite` is false.
    """
    staged = run.folder / _INDEX
    with contextlib.suppress(FileNotFoundError):
        SYSTEM.unlink(staged)
    write_small(
        staged, FileLayout(text, (), len(text)), mode_of(index, *(index.with_name(name) for name in sorted(old)))
    )
    announce(run, index.name, SYSTEM.lstat(staged), old)
    give_name(staged, index, overwrite=overwrite, links=links)
    sync_folder(index)


def announce(run: Run, name: str, status: os.stat_result, old: Mapping[str, Identity]) -> None:
    """Note which file makes the output complete, and what is to go when it has its name."""
    run.append({"head": name, "identity": identity_from(status), "old": old})


def write_small(path: Path, file: FileLayout, mode: int | None) -> None:
    """Write and sync a new file that consists of a header only."""
    descriptor = SYSTEM.open_new(path)
    try:
        if mode is not None:
            SYSTEM.set_mode(descriptor, mode)
        data, done = memoryview(file.header), 0
        while done < len(data):
            count = SYSTEM.write_at(descriptor, data[done:], done)
            if count == 0:
                raise WriteError(
                    "the system takes no more bytes", where=Location(path=str(path)), how="Choose another place."
                )
            done += count
        SYSTEM.sync(descriptor)
    finally:
        SYSTEM.close(descriptor)


def _take_back(run: Run, path: Path) -> None:
    """Take a name away from a shard; the shard itself goes back where it was made if that is the only one it has."""
    shard = run.shard_at(path)
    if shard is None:
        return
    if exists(run.folder / shard):
        SYSTEM.unlink(path)
    else:
        SYSTEM.rename(path, run.folder / shard)


def _free_names(usual: Mapping[str, str], output: Path) -> dict[str, str]:
    """Return names that nobody else has, for as long as the usual ones are taken."""
    token = os.urandom(4).hex()
    named = {name: f"{Path(name).stem}.{token}{output.suffix}" for name in usual}
    if max(len(os.fsencode(name)) for name in named.values()) > _MAX_NAME_BYTES:
        return {name: f"{token}-{number:05d}{output.suffix}" for number, name in enumerate(usual, start=1)}
    return named


def _named_by(index: Path) -> set[str]:
    """Return the files an index names; none if there is no index, or what is there is none.

    Raises:
        OSError: it cannot be read: that is no reason to think that it names nothing.
    """
    try:
        named = json.loads(SYSTEM.contents(index))["weight_map"].values()
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return set()
    return {name for name in named if isinstance(name, str)}
