"""Fixtures of the array tests."""

from __future__ import annotations

import pytest

from importer.arrays import loops, tiles


@pytest.fixture
def small_strips(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every path of large tensors reachable with a few elements."""
    monkeypatch.setattr(loops, "READ_OVER_BYTES", 4)
    monkeypatch.setattr(loops, "_RUN_BYTES", 16)
    monkeypatch.setattr(loops, "_LONG_READ_BYTES", 64)
    monkeypatch.setattr(tiles, "BLOCK_BYTES", 96)
    monkeypatch.setattr(tiles, "_STRIP_ROWS", 2)
    monkeypatch.setattr(tiles, "_STRIP_COLUMNS", 3)
    monkeypatch.setattr(tiles, "_STRIP_ELEMENTS", 4)
    monkeypatch.setattr(tiles, "_SMALL_ELEMENTS", 4)
    monkeypatch.setattr(tiles, "_KERNEL_ELEMENTS", 5)
