"""Calls to the system that fail, come short or do nothing: the n-th of each kind, for every n.

Whatever happens, a conversion ends with the right output or with an error of ours; the target is old, new or absent, and the
next run makes it right. One fault at a time, through the module that makes all calls.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import importer
from importer.errors import ImporterError, OutputExistsError
from importer.system import SYSTEM
from tests.shared import FIXTURES

SOURCE = FIXTURES / "cases/rezipped-deflated/pytorch_model.bin"
CALLS = {
    "read_at": ("EIO", "short", "zero"),
    "write_at": ("ENOSPC", "short", "zero"),
    "set_length": ("ENOSPC",),
    "reserve": ("ENOSPC",),
    "sync": ("EIO",),
    "sync_folder": ("EIO",),
    "open_new": ("EACCES",),
    "open_unnamed": ("ENOSPC",),
    "open_lock": ("EROFS",),
    "open_temporary": ("ENOSPC",),
    "open_to_read": ("EMFILE",),
    "link": ("EIO", "ENOSPC"),
    "link_unnamed": ("ENOENT", "ENOSPC"),
    "rename": ("EPERM",),
    "rename_new": ("EIO",),
    "unlink": ("EPERM",),
    "make_folder": ("ENOSPC",),
    "remove_folder": ("EIO",),
    "names_in": ("EIO",),
    "contents": ("EIO",),
    "cut": ("EIO",),
    "lstat": ("EIO",),
    "stat": ("EIO",),
    "fstat": ("EIO",),
    "set_mode": ("EPERM",),
    "lock": ("EIO",),
    "free_bytes": ("EIO",),
}
CASES = {
    "new file": (None, False),
    "file over file": (None, True),
    "new set": (900, False),
    "set over set": (900, True),
}
"""Shard size, and whether an output of another type is there before."""


def convert(folder: Path, shard_size: int | None, *, dtype: str = "keep", overwrite: bool = False) -> None:
    out = folder / "m.safetensors"
    importer.convert(SOURCE, out, recipe="none", shard_size=shard_size, dtype=dtype, overwrite=overwrite, workers=1)


def contents(folder: Path) -> list[dict[str, tuple[str, bytes]]]:
    places = [folder / "m.safetensors", folder / "m.safetensors.index.json"]
    opened = [importer.open(place) for place in places if place.exists()]
    return [{name: (str(one[name].dtype), one[name].numpy().tobytes()) for name in one} for one in opened]


class Fault:
    """One call that goes wrong, and whether it was made."""

    def __init__(self, call: Callable[..., object], number: int, effect: str) -> None:
        self.call = call
        self.left = number
        self.effect = effect
        self.happened = False

    def __call__(self, *arguments: object) -> object:
        self.left -= 1
        if self.left != -1:
            return self.call(*arguments)
        self.happened = True
        if self.effect == "zero":
            return 0
        if self.effect == "short":
            descriptor, data, offset = arguments
            assert isinstance(data, memoryview)
            return self.call(descriptor, data[: max(1, len(data) // 2)], offset)
        number = getattr(errno, self.effect)
        raise OSError(number, os.strerror(number))


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, tuple[str, bytes]]]]:
    """What the output holds that is there before, and the new one."""
    made = {}
    for name, dtype in (("old", "f16"), ("new", "keep")):
        folder = tmp_path_factory.mktemp(name)
        convert(folder, None, dtype=dtype)
        made[name] = contents(folder)
    return made


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("call", "effect"), [(call, effect) for call in CALLS for effect in CALLS[call]])
def test_one_fault_anywhere_costs_at_most_this_run(
    call: str, effect: str, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    expected: dict[str, list[dict[str, tuple[str, bytes]]]],
) -> None:  # fmt: skip
    size, before = CASES[case]
    monkeypatch.setattr(SYSTEM, "sync", lambda _: None)
    for number in range(500):
        folder = tmp_path / str(number)
        folder.mkdir()
        if before:
            convert(folder, size, dtype="f16")
        fault = Fault(getattr(SYSTEM, call), number, effect)
        with monkeypatch.context() as patch:
            patch.setattr(SYSTEM, call, fault)
            error = error_of(lambda: convert(folder, size, overwrite=before))  # noqa: B023 - called at once
        there = contents(folder)
        if error is None:
            assert there == expected["new"], number
        else:
            assert fault.happened, error
            assert there or not before, number
            assert all(one in (*expected["new"], *expected["old"]) for one in there), number
            again = error_of(lambda: convert(folder, size, overwrite=before))  # noqa: B023 - called at once
            # Where the error came after the output had its name, it is there, and says so.
            assert again is None or (isinstance(again, OutputExistsError) and there and not before), number
            assert contents(folder) == expected["new"], number
        if not fault.happened:
            return
    pytest.fail("the calls come to no end")


def error_of(run: Callable[[], None]) -> ImporterError | None:
    try:
        run()
    except ImporterError as error:
        return error
    return None
