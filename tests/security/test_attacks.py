"""Every attack is refused for its reason, or read as the inert data it then is; nothing is run, within memory and time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from importer import errors
from tests.security.attacks import ATTACKS, MARKER, Attack
from tests.shared import REPOSITORY


class Outcome(NamedTuple):
    """What became of an attack: the name of the error, or None where the file was read, and what was printed."""

    error: str | None
    text: str


class Meeting(NamedTuple):
    """One run of the child over all attacks."""

    outcomes: dict[str, Outcome]
    exit_code: int
    folder: Path
    messages: str


@pytest.fixture(scope="module")
def meeting(tmp_path_factory: pytest.TempPathFactory) -> Meeting:
    folder = tmp_path_factory.mktemp("attacks")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.security.child", str(folder)],
        capture_output=True, text=True, check=False, env=environment, cwd=REPOSITORY,
    )  # fmt: skip
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    outcomes = {line[0]: Outcome(line[1], line[2]) for line in lines if len(line) > 1}
    return Meeting(outcomes, done.returncode, folder, done.stderr)


def test_all_attacks_end_within_the_bounds_of_memory_and_time(meeting: Meeting) -> None:
    assert meeting.exit_code == 0, meeting.messages
    assert len(meeting.outcomes) == len(ATTACKS)


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.name for attack in ATTACKS])
def test_an_attack_meets_its_defence(attack: Attack, meeting: Meeting) -> None:
    outcome = meeting.outcomes[attack.name]
    if attack.expected is None:
        assert outcome.error is None, outcome.text
    else:
        assert outcome.error is not None
        assert issubclass(getattr(errors, outcome.error), attack.expected), outcome
    assert attack.says in outcome.text


@pytest.mark.parametrize("attack", ATTACKS, ids=[attack.name for attack in ATTACKS])
def test_nothing_is_printed_that_a_terminal_would_obey(attack: Attack, meeting: Meeting) -> None:
    assert all(line.isprintable() for line in meeting.outcomes[attack.name].text.split("\n"))


def test_nothing_in_a_file_was_run(meeting: Meeting) -> None:
    assert not list(meeting.folder.rglob(MARKER))


def test_the_marker_would_show_an_attack_that_works(tmp_path: Path) -> None:
    (command,) = {f"touch {MARKER}" for attack in ATTACKS for data in attack.files.values() if MARKER.encode() in data}
    subprocess.run(["sh", "-c", command], cwd=tmp_path, check=True)
    assert list(tmp_path.rglob(MARKER))
