"""Every mutant of every sample is read or refused with an error of ours, within bounds of memory and time.

    pytest tests/fuzz --fuzz-count 200000 --fuzz-seed 7 --timeout 0

A failure names the seed and the number, and writes the files. `--fuzz-first NUMBER --fuzz-count 1` tries that one again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import series
from tests.fuzz.mutations import mutant
from tests.shared import REPOSITORY

CHUNKS = 4


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_mutant_is_read_or_refused_within_bounds(
    chunk: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    option = request.config.getoption
    seed, count = int(option("--fuzz-seed", 1)), int(option("--fuzz-count", 3000))
    first = int(option("--fuzz-first", 0)) + count * chunk // CHUNKS
    result = series.run(seed, first, count * (chunk + 1) // CHUNKS - count * chunk // CHUNKS)
    described = [
        f"--fuzz-seed {seed} --fuzz-first {finding.number} ({finding.save(tmp_path)}): {finding.what}"
        for finding in result.findings
    ]
    assert not described, "\n".join(described)


def test_a_seed_and_a_number_give_the_same_mutant_again() -> None:
    assert [mutant(5, number) for number in range(50)] == [mutant(5, number) for number in range(50)]
    assert mutant(5, 0) != mutant(6, 0)


def tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, misbehaviour: str) -> series.Series:
    """Run one mutant in a child whose reader misbehaves."""
    program = f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from tests.fuzz import child
child.CPU_SECONDS = 0.2
def attempt(sample, folder):
    {misbehaviour}
child.attempt = attempt
child.main(*map(int, sys.argv[-3:]))
"""
    script = tmp_path / "child.py"
    script.write_text(program, encoding="utf-8")
    monkeypatch.setattr(series, "CHILD", (str(script),))
    return series.run(1, 0, 2)


@pytest.mark.parametrize(
    ("misbehaviour", "told"),
    [
        pytest.param("while True: pass", "too long", id="time"),
        pytest.param("bytearray(1 << 30)", "MemoryError", id="memory"),
        pytest.param("[][0]", "IndexError", id="another-exception"),
        pytest.param("import os; os.abort()", "SIGABRT", id="a-crash"),
    ],
)
def test_the_oracle_sees(misbehaviour: str, told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    findings = tried(monkeypatch, tmp_path, misbehaviour).findings
    assert [finding.number for finding in findings] == [0, 1]
    assert all(told in finding.what for finding in findings)


def test_a_finding_is_written_as_the_files_that_were_tried(tmp_path: Path) -> None:
    path = series.Finding(5, 3, "what").save(tmp_path)
    sample = mutant(5, 3)
    assert {file.name: file.read_bytes() for file in (tmp_path / "5-3").iterdir()} == sample.files
    assert path.name in {sample.main, "5-3"}
