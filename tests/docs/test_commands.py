"""Every command in README.md and docs/ works as printed, and prints what the page says it prints.

A page's ```sh blocks run one after the other in one folder that looks like a checkout: fixtures/ and rules/ are there,
`importer` and `.venv/bin/importer` are this package. Making environments and running the test suite from inside itself
are the two things that are not repeated here; continuous integration runs exactly those lines of the README.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.shared import REPOSITORY

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PRINTS = re.compile(r"<!-- prints -->\s*$")
SECONDS = re.compile(r"\d+\.\d\d s\b")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and whether it shows what the block before prints."""

    language: str
    text: str
    is_output: bool


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[2], PRINTS.search(text[: m.start()]) is not None) for m in FENCE.finditer(text)]


RUNNABLE = [page for page in PAGES if any(block.language == "sh" for block in blocks_of(page))]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like a checkout with the tool installed."""
    for name in ("fixtures", "rules", "docs"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    script(tmp_path / "scripts/venv.sh", "exit 0")
    script(tmp_path / ".venv/bin/pytest", "exit 0")
    for place in (".venv/bin/importer", "bin/importer"):
        script(tmp_path / place, f'exec "{sys.executable}" -m importer "$@"')
    return tmp_path


def script(path: Path, line: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def run(command: str, folder: Path) -> str:
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(REPOSITORY), "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", command],
        cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_every_command_of_the_page_works(page: Path, checkout: Path) -> None:
    printed = ""
    for block in blocks_of(page):
        if block.language == "sh":
            printed = run(block.text, checkout)
        elif block.is_output:
            assert SECONDS.sub("N s", printed) == SECONDS.sub("N s", block.text)


def test_continuous_integration_runs_the_readmes_test_command() -> None:
    commands = [block.text.strip() for block in blocks_of(PAGES[0]) if block.language == "sh"]
    (command,) = [command for command in commands if command.endswith("pytest")]
    assert command in (REPOSITORY / ".ci/run").read_text().splitlines()
