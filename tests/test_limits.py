"""Bounds can be changed by name, and only by a name there is."""

from __future__ import annotations

from dataclasses import fields

import pytest

from importer.errors import UsageError
from importer.limits import DEFAULT_LIMITS, Limits, adjusted


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
def test_every_bound_can_be_changed(name: str) -> None:
    assert getattr(adjusted({name: 7.0}), name) == 7


def test_without_changes_the_bounds_are_the_default_ones() -> None:
    assert adjusted({}) == DEFAULT_LIMITS


def test_a_bound_counts_in_whole_numbers_but_a_time_does_not() -> None:
    limits = adjusted({"max_tensors": 7.5, "regex_timeout_seconds": 0.5})
    assert (limits.max_tensors, limits.regex_timeout_seconds) == (7, 0.5)
    assert isinstance(limits.max_tensors, int)


def test_an_unknown_name_is_a_usage_error_with_the_nearest_one() -> None:
    with pytest.raises(UsageError, match="Did you mean max_dense_bytes"):
        adjusted({"max_dens_bytes": 1})
