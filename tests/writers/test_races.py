"""Processes that write one target at once: whoever is told that it is done has its output there whole, or was replaced."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from importer.errors import WriteError
from importer.system import SYSTEM
from importer.writers.staging import WorkFolder
from tests.writers.processes import DONE, ONE_EACH, REFUSED, TWO_EACH, Output, child, ended, outputs

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes here")

KINDS = {
    "files": (None,),
    "sets": (ONE_EACH,),
    "sets of two sizes": (ONE_EACH, TWO_EACH),
    "all": (None, ONE_EACH, TWO_EACH),
}
CALLS = ("open_new", "open_unnamed", "link", "link_unnamed", "rename", "unlink", "make_folder", "lock", "lstat")


def stumbling(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls take a little longer now and then, so that others get in between."""
    chance = random.Random(seed)

    def slow(call: Callable[..., object]) -> Callable[..., object]:
        def later(*arguments: object) -> object:
            if chance.random() < 0.3:
                time.sleep(chance.random() / 500)
            return call(*arguments)

        return later

    for name in CALLS:
        monkeypatch.setattr(SYSTEM, name, slow(getattr(SYSTEM, name)))


@pytest.mark.parametrize("overwrite", [False, True], ids=["new", "overwriting"])
@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("kind", KINDS)
def test_the_target_is_the_output_of_one_that_was_told_it_is_done(
    kind: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, overwrite: bool
) -> None:
    monkeypatch.setattr(SYSTEM, "sync", lambda _: None)
    sizes = KINDS[kind]
    for turn in range(8 // count):
        folder = tmp_path / str(turn)
        folder.mkdir()
        started, start = os.pipe()
        running: dict[Output, int] = {}
        for number in range(1, count + 1):
            output = Output(number, sizes[number % len(sizes)])

            def run(output: Output = output) -> None:
                stumbling(100 * turn + output.value, monkeypatch)  # noqa: B023 - runs before the next turn
                os.close(start)  # noqa: B023
                os.read(started, 1)  # noqa: B023
                output.write(folder, overwrite=overwrite)  # noqa: B023

            running[output] = child(run)
        os.close(start)
        codes = {output: ended(number) for output, number in running.items()}
        os.close(started)
        done = [output for output, code in codes.items() if code == DONE]
        assert set(codes.values()) <= {DONE, REFUSED}
        assert len(done) == 1 if not overwrite else done
        (there,) = outputs(folder)
        (winner,) = (output for output in done if output.contents == there)
        assert sorted(path.name for path in folder.iterdir()) == winner.names


@pytest.mark.parametrize("turn", range(4))
def test_even_without_locks_no_set_is_mixed(turn: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SYSTEM, "sync", lambda _: None)
    monkeypatch.setattr(SYSTEM, "lock", lambda _: None)
    Output(9, ONE_EACH).write(tmp_path, overwrite=False)

    def write(output: Output) -> None:
        stumbling(10 * turn + output.value, monkeypatch)
        output.write(tmp_path, overwrite=True)

    running = {output: child(lambda: write(output)) for output in map(set_of, range(1, 5))}  # noqa: B023 - runs at once
    done = [output for output, number in running.items() if ended(number) == DONE]
    (there,) = outputs(tmp_path)
    assert there in [output.contents for output in done]


def set_of(value: int) -> Output:
    return Output(value, ONE_EACH)


def test_a_second_run_is_refused_before_it_writes_anything(tmp_path: Path) -> None:
    output = tmp_path / "m.safetensors"
    work = WorkFolder.taken(output)
    before = sorted(tmp_path.rglob("*"))
    for other in (Output(1, ONE_EACH), Output(1, None)):
        with pytest.raises(WriteError, match="another run is writing this output"):
            other.write(tmp_path, overwrite=True)
    assert sorted(tmp_path.rglob("*")) == before
    work.close()
    assert not list(tmp_path.iterdir())
    Output(1, ONE_EACH).write(tmp_path, overwrite=False)
