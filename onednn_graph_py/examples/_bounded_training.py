"""Further operations on bounded values, which training needs; the rules are those of `_bounded`."""

from __future__ import annotations

import numpy as np

from ._bounded import EXP_ROUNDINGS, ROUNDOFF, Bounded, growth

# oneDNN's logarithm has an absolute error, also where the result is near zero: on [1, 8192] it was
# off by up to 4.3e-6 with AVX2 and AVX-512 and by 7.6e-6 with SSE4.1.
_LOG_ERROR = 2.0**-16


def difference(a: Bounded, b: Bounded) -> Bounded:
    """Subtract, without storing the result."""
    return Bounded(a.value - b.value, a.error + b.error)


def product(a: Bounded, b: Bounded) -> Bounded:
    """Multiply element by element, without storing the result."""
    error = a.error * (np.abs(b.value) + b.error) + np.abs(a.value) * b.error
    return Bounded(a.value * b.value, error)


def total(a: Bounded, axis: int) -> Bounded:
    """Sum along an axis, which stays with one element; the result is not stored yet."""
    magnitude = (np.abs(a.value) + a.error).sum(axis=axis, keepdims=True)
    error = a.error.sum(axis=axis, keepdims=True) + growth(a.value.shape[axis]) * magnitude
    return Bounded(a.value.sum(axis=axis, keepdims=True), error)


def exponential(a: Bounded) -> Bounded:
    """Exponentials of values that are not positive, not stored yet; of minus infinity exactly 0."""
    value = np.exp(a.value)
    # Reducing the argument of exp costs u times its magnitude.
    exponent_error = np.where(value > 0, a.error - ROUNDOFF * a.value, 0)
    return Bounded(value, value * np.expm1(exponent_error + EXP_ROUNDINGS * ROUNDOFF))


def log_sum_exp(a: Bounded) -> Bounded:
    """Logarithm of the sum of exponentials along the last axis, which stays; not stored yet.

    Adding e to the values multiplies the sum by the mean of exp(e), weighted with the softmax;
    subtracting e shrinks the sum by no larger factor.
    """
    largest = a.value.max(axis=-1, keepdims=True)
    below = a.value - largest
    weights = np.exp(below)
    rest = np.log(weights.sum(axis=-1, keepdims=True))
    softmax = weights / weights.sum(axis=-1, keepdims=True)
    exponent_error = np.where(weights > 0, a.error - 2 * ROUNDOFF * below, 0)
    grown = (softmax * np.expm1(exponent_error + EXP_ROUNDINGS * ROUNDOFF)).sum(
        axis=-1, keepdims=True
    )
    error = np.log1p(grown + growth(a.value.shape[-1]) * (1 + grown))
    return Bounded(largest + rest, error + _LOG_ERROR)
