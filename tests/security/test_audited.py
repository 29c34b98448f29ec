"""What Python's own audit events say: reading imports nothing, runs nothing, and writes only where it was told to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.shared import REPOSITORY


def test_no_file_makes_the_reader_import_run_or_write_anything(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.security.audited", str(tmp_path)],
        capture_output=True, text=True, check=True, env=environment, cwd=REPOSITORY,
    )  # fmt: skip
    assert [json.loads(line) for line in done.stdout.splitlines()] == []


def events_of(program: str, tmp_path: Path) -> set[str]:
    """The events noted while a program runs as if it were the reader."""
    script = f"""
import sys
from pathlib import Path
from tests.fuzz.corpus import Sample
from tests.security.audited import Watch
watch = Watch(Path({str(tmp_path)!r}))
sys.addaudithook(watch.hook)
with watch.over(Sample("s", {{}}, "")):
    {program}
print(*{{event for _, event, _ in watch.events}})
"""
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    return set(done.stdout.split())


def test_the_watch_sees_what_it_is_for(tmp_path: Path) -> None:
    assert "os.system" in events_of("__import__('os').system('true')", tmp_path)
    assert "import" in events_of("import calendar", tmp_path)
    assert "exec" in events_of("exec('1')", tmp_path)
    assert "pickle.find_class" in events_of("__import__('pickle').loads(b'cos\\nsystem\\n.')", tmp_path)
    assert "open" in events_of("open('/dev/null', 'w')", tmp_path)


def test_the_watch_lets_reading_and_writing_below_its_folder_pass(tmp_path: Path) -> None:
    assert events_of("open('/dev/null').read()", tmp_path) == set()
    assert events_of(f"open({str(tmp_path / 'out')!r}, 'w')", tmp_path) == set()
