"""exp, log, tanh, sin, cos and powers whose bytes are the same on every processor and with every numpy.

numpy computes these functions with whatever vector instructions it finds, and its results differ in the last bit from one
machine or release to the next. Here they are made of `+ - * /`, rounding to whole numbers and bit patterns, which IEEE 754
fixes, one numpy call each, so that nothing is fused. All of it is done in F64: rounded to F32 or below, a result is the
correctly rounded one but for one in some hundred million; F64 results are good to three units in the last
place. Not here: formulas (`formulas`).

Sources of the methods: W. J. Cody and W. Waite, Software Manual for the Elementary Functions (1980), for the reductions;
T. J. Dekker, A floating-point technique for extending the available precision (1971), for exact products.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

__all__ = ["cos", "exp", "log", "power", "sin", "tanh"]

_BIAS = 1023
_MANTISSA_BITS = 52
_MANTISSA = (1 << _MANTISSA_BITS) - 1
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # 32 bits: its product with an exponent is exact
_LN2_LOW = 1.90821492927058770002e-10
_SQRT2 = 1.4142135623730951
_LARGEST_EXPONENT = 1100.0  # of two; further out everything is 0 or infinite
_SMALLEST_NORMAL = 2.2250738585072014e-308
_LARGEST_PRODUCT = 1e6
_SMALL = 0.35  # below it exp(x) - 1 would lose digits

_EXP_TERMS = tuple(1 / math.factorial(n) for n in range(2, 15))
_ATANH_TERMS = tuple(1 / (2 * n + 1) for n in range(1, 12))
_SIN_TERMS = tuple((-1) ** n / math.factorial(2 * n + 1) for n in range(1, 10))
_COS_TERMS = tuple((-1) ** n / math.factorial(2 * n) for n in range(1, 10))

# pi / 2 in parts of 33, 33 and 53 bits: products of the first two with numbers of up to 20 bits are exact.
_TWO_OVER_PI = 0.6366197723675814
_HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
_NEAR = float(1 << 19)
_PI_BITS = 1200


def exp(x: Floats) -> Floats:
    """Return e to the power of every element."""
    import numpy as np

    reduced, whole = _reduced(x)
    result = _scaled(1.0 + _exp_less_one(reduced), whole)
    return np.where(np.isnan(x), x, result)


def log(x: Floats) -> Floats:
    """Return the natural logarithm; of 0 minus infinity, of what is less NaN."""
    import numpy as np

    high, low = _log_parts(x)
    return _with_edges_of_log(x, np.asarray(high + low))


def tanh(x: Floats) -> Floats:
    """Return the hyperbolic tangent."""
    import numpy as np

    size = np.abs(x)
    doubled = np.minimum(2.0 * size, 50.0)  # from 22 on the result is 1
    grown = np.where(doubled < _SMALL, _exp_less_one(np.minimum(doubled, _SMALL)), exp(doubled) - 1.0)
    result = np.copysign(grown / (grown + 2.0), x)
    return np.where(np.isnan(x), x, result)


def sin(x: Floats) -> Floats:
    """Return the sine of angles in radians, of any size."""
    return _turned(x, 0)


def cos(x: Floats) -> Floats:
    """Return the cosine of angles in radians, of any size."""
    return _turned(x, 1)


def power(base: Floats, exponent: Floats) -> Floats:
    """Return `base ** exponent`, with the special cases of C's `pow`."""
    import numpy as np

    base, exponent = np.broadcast_arrays(base, exponent)
    whole = np.rint(exponent) == exponent
    odd = whole & (np.abs(exponent) < float(1 << 53)) & (np.abs(np.fmod(exponent, 2.0)) == 1.0)
    size = np.abs(base)
    result = _positive_power(size, exponent)
    result = np.where((base < 0) & ~whole & np.isfinite(base), np.nan, result)
    result = np.where(odd & (np.signbit(base)), -result, result)
    result = np.where(np.isnan(base) | np.isnan(exponent), np.nan, result)
    return np.where((base == 1.0) | (exponent == 0.0), 1.0, result)


def _positive_power(size: Floats, exponent: Floats) -> Floats:
    """Return `size ** exponent` for bases of at least 0."""
    import numpy as np

    result = _exp_of_product(size, np.clip(exponent, -_LARGEST_FACTOR, _LARGEST_FACTOR))
    # One operation each, so rounded right.
    for number, exact in ((0.5, np.sqrt), (1.0, np.positive), (2.0, np.square), (-1.0, _reciprocal)):
        if (exponent == number).any():
            result = np.where(exponent == number, exact(size), result)
    result = np.where(np.isinf(exponent), _endless_power(size, exponent), result)
    result = np.where(size == 0.0, np.where(exponent > 0, 0.0, np.inf), result)
    return np.where(np.isinf(size), np.where(exponent > 0, np.inf, 0.0), result)


_LARGEST_FACTOR = 1e25
"""The logarithm of a number that is not 1 has 1e-16 at least: with larger exponents all results are 0 or infinite."""


def _reciprocal(size: Floats) -> Floats:
    return 1.0 / size


def _endless_power(size: Floats, exponent: Floats) -> Floats:
    import numpy as np

    grows = (size > 1.0) == (exponent > 0)
    return np.where(size == 1.0, 1.0, np.where(grows, np.inf, 0.0))


def _exp_of_product(size: Floats, exponent: Floats) -> Floats:
    """Return exp(exponent * log(size)), the product with twice the digits: its size decides how many are right."""
    import numpy as np

    high, low = _log_parts(np.where((size > 0) & np.isfinite(size), size, 1.0))
    exponent = np.where(np.isnan(exponent), 0.0, exponent)
    total = high + low
    rest = (high - total) + low
    product = exponent * total
    bounded = np.abs(product) < _LARGEST_PRODUCT  # beyond it the result is 0 or infinite, and the parts would overflow
    error = np.where(bounded, _product_error(exponent, total, product) + exponent * rest, 0.0)
    reduced, whole = _reduced(product)
    return _scaled(1.0 + _exp_less_one(reduced + error), whole)


def _product_error(a: Floats, b: Floats, product: Floats) -> Floats:
    """Return what `product`, the rounded `a * b`, lacks (Dekker)."""
    split = float((1 << 27) + 1)
    a_high = a * split - (a * split - a)
    b_high = b * split - (b * split - b)
    a_low, b_low = a - a_high, b - b_high
    return ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _reduced(x: Floats) -> tuple[Floats, Floats]:
    """Return `r` and whole `n` with `x = r + n ln 2`, `r` within half of it."""
    import numpy as np

    # Far out the result is 0 or infinite whatever the digits are; NaN is put back by the callers.
    bounded = np.clip(np.where(np.isnan(x), 0.0, x), -_LARGEST_EXPONENT, _LARGEST_EXPONENT)
    whole = np.rint(bounded * _LOG2_E)
    return (bounded - whole * _LN2_HIGH) - whole * _LN2_LOW, whole


def _exp_less_one(r: Floats) -> Floats:
    return r + r * r * _polynomial(r, _EXP_TERMS)


def _polynomial(x: Floats, terms: tuple[float, ...]) -> Floats:
    """Return `terms[0] + terms[1] x + …` (Horner)."""
    import numpy as np

    result = np.full_like(x, terms[-1])
    for term in reversed(terms[:-1]):
        result = result * x + term
    return result


def _scaled(x: Floats, whole: Floats) -> Floats:
    """Return `x * 2 ** whole`, rounded once also where the result is subnormal."""
    import numpy as np

    first = np.clip(whole, -900.0, 900.0)
    return np.asarray((x * _power_of_two(first)) * _power_of_two(whole - first))


def _power_of_two(whole: Floats) -> Floats:
    import numpy as np

    return ((whole.astype(np.int64) + _BIAS) << _MANTISSA_BITS).view(np.float64)


def _log_parts(x: Floats) -> tuple[Floats, Floats]:
    """Return two numbers whose sum is log(x) with more digits than one holds, for finite `x` above 0."""
    import numpy as np

    tiny = x < _SMALLEST_NORMAL
    normal = np.where(tiny, x * float(1 << 54), x)
    bits = np.ascontiguousarray(normal).view(np.int64)
    exponent = ((bits >> _MANTISSA_BITS) & 0x7FF) - _BIAS
    mantissa = ((bits & _MANTISSA) | (_BIAS << _MANTISSA_BITS)).view(np.float64)
    above = mantissa > _SQRT2
    mantissa = np.where(above, mantissa * 0.5, mantissa)
    whole = exponent.astype(np.float64) + above - np.where(tiny, 54.0, 0.0)
    f = mantissa - 1.0
    s = f / (2.0 + f)
    square = s * s
    # log(1 + f) = f - s (f - R) with s = f / (2 + f); so f itself, which is exact, carries most of it.
    rest = s * (f - 2.0 * square * _polynomial(square, _ATANH_TERMS))
    base = whole * _LN2_HIGH
    high = base + f
    lost = (base - high) + f
    return high, (lost + whole * _LN2_LOW) - rest


def _with_edges_of_log(x: Floats, result: Floats) -> Floats:
    import numpy as np

    result = np.where(np.isposinf(x) | np.isnan(x), x, result)
    result = np.where(x == 0.0, -np.inf, result)
    return np.where(x < 0.0, np.nan, result)


def _turned(x: Floats, quarters: int) -> Floats:
    """Return the sine of `x` and so many quarter turns."""
    import numpy as np

    near = np.where(np.abs(x) < _NEAR, x, 0.0)
    turns = np.rint(near * _TWO_OVER_PI)
    angle = ((near - turns * _HALF_PI[0]) - turns * _HALF_PI[1]) - turns * _HALF_PI[2]
    quadrant = turns.astype(np.int64)
    far = np.flatnonzero((np.abs(x) >= _NEAR) & np.isfinite(x))
    if far.size:
        angle, quadrant = np.ascontiguousarray(angle), np.ascontiguousarray(quadrant)
        for place in far.tolist():
            quadrant.flat[place], angle.flat[place] = _far_turn(float(x.flat[place]))
    quadrant = (quadrant + quarters) & 3
    square = angle * angle
    sine = angle + angle * square * _polynomial(square, _SIN_TERMS)
    cosine = 1.0 + square * _polynomial(square, _COS_TERMS)
    result = np.where(quadrant & 1, cosine, sine)
    result = np.where(quadrant & 2, -result, result)
    return np.where(np.isfinite(x), result, np.nan)


def _far_turn(x: float) -> tuple[int, float]:
    """Return quarter turns and the angle left over, of a large angle, by whole numbers of any size."""
    numerator, denominator = x.as_integer_ratio()
    half_pi = _half_pi()
    scaled = (abs(numerator) << _PI_BITS) // denominator
    turns, rest = divmod(scaled, half_pi)
    if 2 * rest > half_pi:
        turns, rest = turns + 1, rest - half_pi
    angle = rest / (1 << _PI_BITS)
    return (turns & 3, angle) if x > 0 else (-turns & 3, -angle)


@cache
def _half_pi() -> int:
    """Return pi / 2 times 2 ** 1200 (Machin)."""
    guard = 64
    one = 1 << (_PI_BITS + guard)

    def inverse_tangent(n: int) -> int:
        term = one // n
        total, sign, divisor = term, -1, 3
        while term:
            term //= n * n
            total += sign * (term // divisor)
            sign, divisor = -sign, divisor + 2
        return total

    return (2 * (4 * inverse_tangent(5) - inverse_tangent(239))) >> guard
