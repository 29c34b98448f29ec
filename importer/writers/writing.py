"""Writing an output: one file, or shards and then their index.

Not here: layout (`sharding`), bytes (`streaming`), how files get to their place (`publishing`, `shard_sets`, `staging`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from importer.arrays import source_files
from importer.errors import ImporterError, Location, WriteError
from importer.system import SYSTEM
from importer.writers.output import Destination, FileLayout, Layout, OutputTensor, Written
from importer.writers.publishing import can_link, new_file, remove_litter
from importer.writers.shard_sets import announce, check_set, old_files, publish_set, tidy_up
from importer.writers.sharding import index_path, plan_layout
from importer.writers.staging import Identity, Run, WorkFolder, digest_of, identity_of
from importer.writers.streaming import stream
from importer.writers.targets import check_free, check_space, check_target, exists, is_through, mode_of, writing_errors

__all__ = ["write"]


def write(tensors: Sequence[OutputTensor], destination: Destination, layout: Layout | None = None) -> Written:
    """Write the tensors, or nothing; `layout` is `plan_layout` of the same arguments where the caller has it already.

    An interruption (KeyboardInterrupt) passes through with what is left to say of the target as its argument.

    Raises:
        UnrepresentableError: the format has no place for a dtype, name, number or size.
        OutputExistsError: the output exists and may not be replaced.
        DiskSpaceError: it would not fit.
        WriteError: it cannot be written, or another run is writing it.
        SourceError: a source cannot be read, or was changed while it was.
    """
    layout = layout or plan_layout(tensors, destination)

    def check_sources() -> None:
        for file in source_files(tensor.array for tensor in tensors):
            file.check_unchanged()

    if layout.index is not None:
        return _write_set(layout, destination, check_sources)
    ((name, file),) = layout.files
    _write_single(Path(name), file, destination, check_sources)
    return Written((name,), file.nbytes)


def _write_single(path: Path, file: FileLayout, destination: Destination, check_sources: Callable[[], None]) -> None:
    """Write one file; where it replaces a set of shards, these go when it is in place."""
    overwrite = destination.overwrite
    index = Path(index_path(str(path)))
    remove_litter(path, index)
    check_target(path, overwrite=overwrite)
    if is_through(path):
        with new_file(path, overwrite=overwrite) as descriptor:
            stream(file, descriptor, destination.workers)
            check_sources()
        return
    with _work_folder(path, is_needed=overwrite and exists(index)) as (work, _):
        check_free(index, overwrite=overwrite)
        check_space(path, file.nbytes)
        run = None if work is None else work.new_run(None)

        def before(descriptor: int) -> None:
            check_sources()
            check_free(index, overwrite=overwrite)
            if run is not None:
                announce(run, path.name, SYSTEM.fstat(descriptor), _states(old_files(path)))
            elif exists(index):
                raise WriteError(
                    "another run has put a set of shards in place meanwhile",
                    where=Location(path=str(index)),
                    how="Run again to replace it.",
                )

        try:
            with new_file(path, overwrite=overwrite, mode=mode_of(index), before=before) as descriptor:
                stream(file, descriptor, destination.workers)
        finally:
            if run is not None:
                tidy_up(run, path)
                run.discard()


def _write_set(layout: Layout, destination: Destination, check_sources: Callable[[], None]) -> Written:
    """Write every shard that an interrupted run has not left behind, then publish all of them, then the index."""
    assert layout.index is not None
    index = Path(layout.index[0])
    output = Path(destination.path)
    paths = (*(name for name, _ in layout.files), layout.index[0])
    remove_litter(output, index)
    check_target(index, overwrite=True)
    digest = digest_of(layout, destination)
    with _work_folder(output, is_needed=True, digest=digest) as (work, taken_up):
        assert work is not None
        if taken_up is not None and _is_done(taken_up, layout):
            taken_up.discard()
            return Written(paths, layout.nbytes, kept=len(layout.files))
        run = taken_up or work.new_run(digest)
        try:
            for path in map(Path, paths):
                check_target(path, overwrite=destination.overwrite)
            check_set(output, layout, overwrite=destination.overwrite)
            kept = {name for name, file in layout.files if run.keeps(Path(name).name, file.header)}
            missing = [(Path(name), file) for name, file in layout.files if name not in kept]
            check_space(index, sum(file.nbytes for _, file in missing) + len(layout.index[1]))
            with writing_errors(index):
                links = can_link(run.journal, index, overwrite=destination.overwrite)
                others = sorted(old_files(output), key=lambda path: path in {index, output})
            for path, file in missing:
                _write_shard(run, path, file, mode_of(path, *others), destination.workers)
            check_sources()
            publish_set(run, output, layout, overwrite=destination.overwrite, links=links, alone=work.is_locked)
        except BaseException as error:
            _settle(run, output, layout, error)
            raise
        tidy_up(run, output)
        run.discard()
    return Written(paths, layout.nbytes, kept=len(kept))


def _write_shard(run: Run, path: Path, file: FileLayout, mode: int | None, workers: int | None) -> None:
    """Write a shard into the folder of its run, sync it, and record it."""
    staged = run.folder / path.name
    with writing_errors(staged):
        with contextlib.suppress(FileNotFoundError):
            SYSTEM.unlink(staged)
        descriptor = SYSTEM.open_new(staged)
        try:
            if mode is not None:
                SYSTEM.set_mode(descriptor, mode)
            stream(file, descriptor, workers)
            SYSTEM.sync(descriptor)
        finally:
            SYSTEM.close(descriptor)
    run.record(path.name)


def _settle(run: Run, output: Path, layout: Layout, error: BaseException) -> None:
    """Leave a target that is old, new or absent, keep what a later run can go on from, and say so."""
    assert layout.index is not None
    index = Path(layout.index[0])
    with contextlib.suppress(WriteError):
        tidy_up(run, output)
    done = run.head_in_place(output.parent) is not None
    if run.digest is not None and run.complete and not done:
        run.remove_incomplete()
        left = f"{len(run.complete)} of {len(layout.files)} shards are complete and wait in {run.folder.parent}; the same command goes on from there"
    else:
        run.discard()
        left = f"{index} is as it was" if exists(index) else f"nothing was left at {output}"
    if isinstance(error, KeyboardInterrupt):
        error.args = (f"{index} and its shards are complete" if done else left,)
    elif isinstance(error, ImporterError) and run.complete and run.digest is not None and not done:
        error.how = f"{error.how} {left[0].upper()}{left[1:]}.".strip()


def _is_done(run: Run, layout: Layout) -> bool:
    """Whether an interrupted run of the same conversion had come to its end: its files are in place, as they were put there."""
    assert layout.index is not None
    index = Path(layout.index[0])
    with writing_errors(index):
        if run.head_in_place(index.parent) is None or SYSTEM.contents(index) != layout.index[1]:
            return False
    return all(run.shard_at(Path(name)) == Path(name).name for name, _ in layout.files)


@contextmanager
def _work_folder(
    output: Path, *, is_needed: bool, digest: str | None = None
) -> Iterator[tuple[WorkFolder | None, Run | None]]:
    """Take the work folder if it is needed or there is one, tidy up after runs that died there, and give it up at the end.

    Yields the folder and, if there is one, the run of the same digest that can be gone on with.
    """
    work = WorkFolder.taken(output) if is_needed else WorkFolder.left_behind(output)
    if work is None:
        yield None, None
        return
    try:
        taken_up = None
        for run in work.runs():
            tidy_up(run, output)
            if digest is not None and run.digest == digest and taken_up is None:
                taken_up = run
            else:
                run.discard()
        yield work, taken_up
    finally:
        work.close()


def _states(paths: Iterable[Path]) -> dict[str, Identity]:
    return {path.name: known for path in paths if (known := identity_of(path)) is not None}
