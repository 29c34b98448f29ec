"""A process that dies at any step leaves the old output, the new one, or none, and the next run makes it right.

A child process writes; at the n-th call that changes names or syncs, it ends as if the power had failed, for every n. Then
this process looks, and runs the same command again.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import importer
from importer.arrays import to_numpy
from importer.errors import OutputExistsError
from importer.system import SYSTEM
from importer.writers import Destination, Format, OutputTensor, write
from tests.builders.outputs import patterned

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes to kill here")

STEPS = (
    *("open_new", "open_unnamed", "sync", "link", "link_unnamed", "rename", "rename_new", "unlink"),
    *("make_folder", "remove_folder", "set_mode"),
)
"""Every call that changes something on the disk but the bytes of a file that has no name yet."""

LACKING = {"all there is": (), "no unnamed files": ("open_unnamed",), "no hard links": ("open_unnamed", "link")}
"""Kinds of file system."""

_ALIVE, _DEAD, _FAILED = 0, 77, 78


@dataclass(frozen=True)
class Output:
    """One output: what it is made of, and whether it is a set of shards."""

    value: int
    shard_size: int | None = None

    @property
    def tensors(self) -> list[OutputTensor]:
        return [patterned(f"{'x' * self.value}{index}", "U8", (40,)) for index in range(3)]

    def write(self, folder: Path, *, overwrite: bool) -> None:
        destination = Destination(
            path=str(folder / "m.safetensors"), format=Format.SAFETENSORS, shard_size=self.shard_size,
            overwrite=overwrite, workers=1, fingerprint=str(self.value),
        )  # fmt: skip
        write(self.tensors, destination)

    @property
    def contents(self) -> dict[str, bytes]:
        return {tensor.name: to_numpy(tensor.array).tobytes() for tensor in self.tensors}

    @property
    def names(self) -> list[str]:
        if self.shard_size is None:
            return ["m.safetensors"]
        count = 3 if self.shard_size == _ONE_EACH else 2
        shards = [f"m-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
        return [*shards, "m.safetensors.index.json"]


_ONE_EACH, _TWO_EACH = 50, 90
FILE, OTHER_FILE, SET, OTHER_SET, SMALLER_SET = (
    *(Output(1), Output(2)),
    *(Output(3, _ONE_EACH), Output(4, _ONE_EACH), Output(5, _TWO_EACH)),
)
CASES = {
    "new file": (None, FILE),
    "file over file": (FILE, OTHER_FILE),
    "new set": (None, SET),
    "set over set": (SET, OTHER_SET),
    "set over set of more": (SET, SMALLER_SET),
    "set over file": (FILE, SET),
    "file over set": (SET, FILE),
}


@pytest.mark.parametrize(
    ("case", "system"),
    [(case, system) for case in CASES for system in LACKING if "file" in case or system != "no unnamed files"],
)
def test_a_process_killed_at_any_step_leaves_old_new_or_nothing_and_the_next_run_makes_it_right(
    case: str, system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = CASES[case]
    lacking = LACKING[system]
    for call in lacking:
        monkeypatch.setattr(SYSTEM, call, refused)
    monkeypatch.setattr(SYSTEM, "sync", lambda _: None)  # what a dead process wrote stays, synced or not
    steps = 0
    for steps in range(1000):
        folder = tmp_path / str(steps)
        folder.mkdir()
        if old is not None:
            old.write(folder, overwrite=False)
        if killed_at(steps, lambda: new.write(folder, overwrite=old is not None), monkeypatch) == _ALIVE:  # noqa: B023
            break
        found = outputs(folder)
        assert all(output in (new.contents, old and old.contents) for output in found), steps
        assert found or old is None, steps
        if old is None and found:
            # It was killed when all was done: the next run says that, or that the output is there, and tidies up.
            with contextlib.suppress(OutputExistsError):
                new.write(folder, overwrite=False)
        else:
            new.write(folder, overwrite=old is not None)
        assert outputs(folder) == [new.contents], steps
        if not lacking or old is None:
            assert sorted(path.name for path in folder.iterdir()) == new.names, steps
    assert steps > 4
    assert outputs(folder) == [new.contents]


def refused(*_: object) -> int:
    raise OSError(errno.EOPNOTSUPP, "Operation not supported")


def killed_at(step: int, run: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run in a child that ends instead of making its call number `step`; return how it ended."""
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in {_ALIVE, _DEAD}
        return code
    left = itertools.count(step, -1)

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def last(*arguments: object) -> object:
            if next(left) == 0:
                os._exit(_DEAD)
            return call(*arguments)

        return last

    try:
        for name in STEPS:
            monkeypatch.setattr(SYSTEM, name, counted(getattr(SYSTEM, name)))
        run()
        os._exit(_ALIVE)
    except BaseException:  # noqa: BLE001 - nothing of the child may run on in the test
        traceback.print_exc()
        os._exit(_FAILED)


def outputs(folder: Path) -> list[dict[str, bytes]]:
    """Return the contents of what is at the target: a file, a set, or both while one replaces the other."""
    places = [folder / "m.safetensors", folder / "m.safetensors.index.json"]
    opened = [importer.open(place) for place in places if place.exists()]
    return [{name: checkpoint[name].numpy().tobytes() for name in checkpoint} for checkpoint in opened]
