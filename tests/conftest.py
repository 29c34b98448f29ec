"""Fixtures of tests in several folders, and how hypothesis picks its examples."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from importer.arrays.tuning import Tuning, current, use

# Continuous integration tries the same examples at every run, so that a red run is a change's own doing; at the desk every
# run tries new ones.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture
def tuned() -> Iterator[Callable[[Tuning], Tuning]]:
    """Give a function that has other sizes used until the test ends."""
    before = current()
    yield use
    use(before)
