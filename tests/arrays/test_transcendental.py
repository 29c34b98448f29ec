"""exp, log, tanh, sin, cos and powers against `decimal`, which is exact, and against bytes fixed once for all machines."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
import pytest
from numpy.typing import NDArray

from importer.arrays import transcendental

Floats = NDArray[np.float64]
DIGITS = 60
LARGEST_ERROR = 3.0  # units in the last place

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")  # formulas are computed with these off
EDGES = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0, 5e-324, 1e308, 4.5])


def grid(low: float, high: float, count: int = 400) -> Floats:
    """Return numbers that are the same wherever this runs: no library's sine or logarithm is in them."""
    steps = np.arange(count, dtype=np.float64) / (count - 1)
    return low + (high - low) * steps


def exact_sine(x: Decimal) -> Decimal:
    term = total = x
    n = 1
    while abs(term) > Decimal(10) ** -DIGITS:
        term *= -x * x / ((n + 1) * (n + 2))
        n += 2
        total += term
    return total


def exact_tanh(x: Decimal) -> Decimal:
    doubled = (2 * x).exp()
    return (doubled - 1) / (doubled + 1)


def units_off(got: float, want: Decimal) -> float:
    return float(abs(Decimal(got) - want) / Decimal(math.ulp(float(want))))


@pytest.mark.parametrize(
    ("name", "exact", "numbers"),
    [
        pytest.param("exp", Decimal.exp, grid(-745, 709), id="exp"),
        pytest.param("exp", Decimal.exp, grid(-1e-3, 1e-3), id="exp-near-0"),
        pytest.param("log", Decimal.ln, grid(1e-3, 50), id="log"),
        pytest.param("log", Decimal.ln, grid(0.9, 1.1), id="log-near-1"),
        pytest.param("log", Decimal.ln, np.array([5e-324, 1e-310, 2.3e-308, 1e300]), id="log-far"),
        pytest.param("tanh", exact_tanh, grid(-20, 20), id="tanh"),
        pytest.param("tanh", exact_tanh, grid(1e-9, 0.3), id="tanh-near-0"),
        pytest.param("sin", exact_sine, grid(-40, 40), id="sin"),
    ],
)
def test_results_are_those_of_exact_arithmetic_to_the_last_digits(
    name: str, exact: Callable[[Decimal], Decimal], numbers: Floats
) -> None:
    results = getattr(transcendental, name)(numbers)
    with localcontext() as context:
        context.prec = DIGITS + 20
        off = max(units_off(got, exact(Decimal(x))) for x, got in zip(numbers.tolist(), results.tolist(), strict=True))
    assert off <= LARGEST_ERROR


def test_powers_are_those_of_exact_arithmetic_to_the_last_digits() -> None:
    base, exponent = (part.reshape(-1) for part in np.meshgrid(grid(0.01, 30, 40), grid(-9, 9, 41)))
    results = transcendental.power(base, exponent)
    with localcontext() as context:
        context.prec = DIGITS + 20
        pairs = zip(base.tolist(), exponent.tolist(), results.tolist(), strict=True)
        assert max(units_off(got, Decimal(x) ** Decimal(y)) for x, y, got in pairs) <= LARGEST_ERROR


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sin", "cos"])
def test_the_edges_are_those_of_numpy(name: str) -> None:
    with np.errstate(all="ignore"):
        assert np.allclose(
            getattr(transcendental, name)(EDGES), getattr(np, name)(EDGES), rtol=1e-15, atol=0, equal_nan=True
        )


def test_the_edges_of_powers_are_those_of_numpy_with_their_signs() -> None:
    base, exponent = np.meshgrid(EDGES, EDGES)
    with np.errstate(all="ignore"):
        got, want = transcendental.power(base, exponent), np.power(base, exponent)
    assert np.allclose(got, want, rtol=1e-15, atol=0, equal_nan=True)
    there = ~np.isnan(want)
    assert np.array_equal(np.signbit(got[there]), np.signbit(want[there]))


def test_angles_of_any_size_are_reduced_exactly() -> None:
    # Known values: sin(1e22) and sin(2**1023), as W. Kahan and the fdlibm papers give them.
    assert transcendental.sin(np.array([1e22]))[0] == pytest.approx(-0.8522008497671888, rel=1e-15)
    assert transcendental.sin(np.array([2.0**1023]))[0] == pytest.approx(math.sin(2.0**1023), rel=1e-15)


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("exp", "71108b497667128d"),
        ("log", "70e3a6500385eaa3"),
        ("tanh", "62f239baf1b033f8"),
        ("sin", "28e32353fc698dd9"),
        ("cos", "7738e4a364b51496"),
        ("power", "165341bcd670ea8a"),
    ],
)
def test_the_bytes_are_the_same_on_every_machine(name: str, digest: str) -> None:
    numbers = grid(-700, 700, 20_001)
    if name == "power":
        results = transcendental.power(np.abs(numbers) + 0.125, grid(-3, 3, 20_001))
    else:
        results = getattr(transcendental, name)(np.abs(numbers) + 0.125 if name == "log" else numbers)
    assert hashlib.sha256(results.astype("<f8").tobytes()).hexdigest()[:16] == digest
