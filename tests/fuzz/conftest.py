"""Options of the fuzzer: how many mutants, and of which series. Given with `pytest tests/fuzz …`."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fuzz", "mutation fuzzing (tests/fuzz)")
    group.addoption("--fuzz-count", type=int, default=3000, help="how many mutants to try (default: %(default)s)")
    group.addoption("--fuzz-seed", type=int, default=1, help="which series of mutants (default: %(default)s)")
    group.addoption("--fuzz-first", type=int, default=0, help="number of the first mutant (default: %(default)s)")
