"""Fixtures of the array tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from importer.arrays.tuning import Tuning, use

SMALL = Tuning(
    read_over=4, cached=96, run=16, long_read=64, kernel_elements=5,
    strip_rows=2, strip_columns=3, strip_elements=4, small_elements=4,
)  # fmt: skip


@pytest.fixture
def small_strips() -> Iterator[None]:
    """Make every path of large tensors reachable with a few elements."""
    before = use(SMALL)
    yield
    use(before)
