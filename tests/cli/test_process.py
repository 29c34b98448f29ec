"""A command that is told to end leaves nothing behind, and the process it ran in is as before."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from importer.cli import main
from importer.cli.process import Terminated, one_command
from tests.builders.tables import safetensors, safetensors_entry
from tests.shared import REPOSITORY

SLOW = """
import os, sys, time
from importer.cli import main

write = os.pwrite

def slowly(*arguments):
    print("writing", flush=True)
    time.sleep(0.05)
    return write(*arguments)

os.pwrite = slowly
raise SystemExit(main(["convert", *sys.argv[1:], "--recipe", "none"]))
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.safetensors"
    size = 50 << 20
    path.write_bytes(safetensors({"w": safetensors_entry("U8", [size], 0, size)}, bytes(size)))
    return path


@pytest.mark.parametrize("workers", ["1", "3"])
@pytest.mark.parametrize("sharded", [(), ("--shard-size", "20MB")], ids=["one file", "shards"])
@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends processes without telling them")
def test_a_process_told_to_end_while_it_writes_leaves_nothing(
    source: Path, workers: str, sharded: tuple[str, ...]
) -> None:
    output = str(source.with_name("out.bpk"))
    command = [sys.executable, "-c", SLOW, str(source), output, "--workers", workers, *sharded]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.terminate()
        _, told = process.communicate()
    assert process.returncode == 143
    assert told == f"importer: terminated; nothing was left at {output}\n"
    assert list(source.parent.iterdir()) == [source]


def test_a_signal_is_an_exception_inside_a_command_only() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Terminated), one_command():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_collector_rests_during_a_command_only() -> None:
    with one_command():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_command_may_run_in_any_thread(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(main(["inspect", str(source)])))
    thread.start()
    thread.join()
    assert codes == [0]
    assert "w" in capsys.readouterr().out
