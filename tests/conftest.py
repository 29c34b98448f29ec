"""Fixtures of tests in several folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from importer.arrays.tuning import Tuning, current, use


@pytest.fixture
def tuned() -> Iterator[Callable[[Tuning], Tuning]]:
    """Give a function that has other sizes used until the test ends."""
    before = current()
    yield use
    use(before)
