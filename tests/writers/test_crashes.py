"""A process that dies at any step leaves the old output, the new one, or none, and the next run makes it right.

A child process writes; at the n-th call that changes names or syncs, it ends as if the power had failed, for every n. Then
this process looks, and runs the same command again.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from importer.errors import OutputExistsError
from importer.system import SYSTEM
from tests.writers.processes import DONE, KILLED, ONE_EACH, TWO_EACH, Output, child, ended, outputs

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes to kill here")

STEPS = (
    *("open_new", "open_unnamed", "sync", "link", "link_unnamed", "rename", "rename_new", "unlink"),
    *("make_folder", "remove_folder", "set_mode"),
)
"""Every call that changes something on the disk but the bytes of a file that has no name yet."""

LACKING = {"all there is": (), "no unnamed files": ("open_unnamed",), "no hard links": ("open_unnamed", "link")}
"""Kinds of file system."""

FILE, OTHER_FILE, SET, OTHER_SET, SMALLER_SET = (
    *(Output(1), Output(2)),
    *(Output(3, ONE_EACH), Output(4, ONE_EACH), Output(5, TWO_EACH)),
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
        if killed_at(steps, lambda: new.write(folder, overwrite=old is not None), monkeypatch) == DONE:  # noqa: B023
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
    left = itertools.count(step, -1)

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def last(*arguments: object) -> object:
            if next(left) == 0:
                os._exit(KILLED)
            return call(*arguments)

        return last

    def mortal() -> None:
        for name in STEPS:
            monkeypatch.setattr(SYSTEM, name, counted(getattr(SYSTEM, name)))
        run()

    code = ended(child(mortal))
    assert code in {DONE, KILLED}
    return code
