"""Writing an output: one file, or shards and then their index.

Not here: layout (`sharding`), bytes (`streaming`), names and safety of files (`publishing`, `staging`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from importer.writers.output import Destination, FileLayout, Layout, OutputTensor, Written
from importer.writers.publishing import check_space, check_target, new_file, sync_folder, writing_errors
from importer.writers.sharding import plan_layout
from importer.writers.staging import Staging
from importer.writers.streaming import stream

__all__ = ["write"]


def write(tensors: Sequence[OutputTensor], destination: Destination, layout: Layout | None = None) -> Written:
    """Write the tensors, or nothing; `layout` is `plan_layout` of the same arguments where the caller has it already.

    Raises:
        UnrepresentableError: the format has no place for a dtype, name, number or size.
        OutputExistsError: the output exists and may not be replaced.
        DiskSpaceError: it would not fit.
        WriteError: it cannot be written.
        SourceError: a source cannot be read.
    """
    layout = layout or plan_layout(tensors, destination)
    if layout.index is not None:
        return _write_shards(layout, destination)
    ((name, file),) = layout.files
    path = Path(name)
    check_target(path, overwrite=destination.overwrite)
    check_space(path, file.nbytes)
    _write_file(path, file, destination)
    return Written((name,), file.nbytes)


def _write_shards(layout: Layout, destination: Destination) -> Written:
    """Write every shard that an interrupted run has not left behind, then publish all of them, then the index."""
    assert layout.index is not None
    index_name, index = layout.index
    index_path = Path(index_name)
    check_target(index_path, overwrite=destination.overwrite)
    with writing_errors(index_path):
        staging = Staging.open(layout, destination)
    try:
        kept = [name for name, file in layout.files if staging.keeps(Path(name), file)]
        missing = [(Path(name), file) for name, file in layout.files if name not in kept]
        for path, _ in missing:
            check_target(path, overwrite=destination.overwrite)
        check_space(index_path, sum(file.nbytes for _, file in missing) + len(index))
        for path, file in missing:
            scratch = staging.folder / path.name
            _write_file(scratch, file, destination, overwrite=True)
            with writing_errors(scratch):
                staging.record(path.name)
        stale = list(_stale_shards(index_path, layout))
        if destination.overwrite:
            # From here to the end there is no index, and so nothing that could be taken for a complete set.
            index_path.unlink(missing_ok=True)
        for name, _ in layout.files:
            with writing_errors(Path(name)):
                staging.publish(Path(name), overwrite=destination.overwrite)
        sync_folder(index_path.parent)
        _write_file(index_path, FileLayout(index, (), len(index)), destination)
    except BaseException:
        staging.discard_if_useless()
        raise
    for path in stale:
        path.unlink(missing_ok=True)
    staging.discard()
    return Written((*(name for name, _ in layout.files), index_name), layout.nbytes, kept=len(kept))


def _write_file(path: Path, file: FileLayout, destination: Destination, *, overwrite: bool | None = None) -> None:
    with new_file(path, overwrite=destination.overwrite if overwrite is None else overwrite) as descriptor:
        stream(file, descriptor, destination.workers)


def _stale_shards(index_path: Path, layout: Layout) -> Iterator[Path]:
    """Yield shards of the output that is replaced which the new one does not replace by name."""
    try:
        named = set(json.loads(index_path.read_bytes())["weight_map"].values())
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return
    stem = index_path.name.removesuffix(".index.json").rpartition(".")[0]
    ours = {Path(name).name for name, _ in layout.files}
    for name in named:
        if isinstance(name, str) and Path(name).name == name and name.startswith(f"{stem}-") and name not in ours:
            yield index_path.with_name(name)
