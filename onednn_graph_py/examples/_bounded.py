"""Expected results, with a bound of the error that a correct kernel may make.

The tolerance of every comparison comes from here and none is chosen by hand. The reference computes
in float64, and each of its values carries a bound of the error of a kernel that computes in f32 and
stores the data types of the graph:

- Storing x in a type of unit roundoff u (2**-24 for f32, 2**-8 for bf16) costs u*|x|, and at most
  the type's smallest normal number where results that small are flushed to zero. A narrower type
  is reached through f32, which costs the roundoff of both.
- A sum of K products in f32, in any order, with or without fused multiply-add, is off by at most
  g(K) * (|a1*b1| + ... + |aK*bK|), where g(K) = K*u / (1 - K*u) (Higham, "Accuracy and Stability
  of Numerical Algorithms", section 3.1). That is the part that grows with the accumulation length.
- Errors that operands bring along go through each operation: |a| + e(a) stands wherever the
  magnitude of a matters, and softmax turns an error d of its input into a factor exp(d).
- Where an integer is stored, a value that is nearer to a tie than its error may be rounded to
  either side, and all others have one right result.

The bounds are those of the worst case: no correct kernel exceeds them, whatever its order of
summation, and rounding errors usually cancel down to a small part of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

Array = npt.NDArray[np.float64]
# Scales of quantization: a single one, one for each entry of the last axis, or for each element.
Scale = float | np.float32 | npt.NDArray[np.floating[Any]]

# NumPy's knows no bf16; ml_dtypes knows both, but has no type annotations.
_finfo: Callable[[npt.DTypeLike], Any] = ml_dtypes.finfo

# The number of roundings in exp beyond that of its result; its polynomials err by a few of them.
EXP_ROUNDINGS = 8


def _roundoff(dtype: npt.DTypeLike) -> float:
    return float(_finfo(dtype).eps) / 2


ROUNDOFF = _roundoff(np.float32)


def growth(terms: int) -> float:
    """Bound the relative error of a sum of so many products."""
    return terms * ROUNDOFF / (1 - terms * ROUNDOFF)


@dataclass(frozen=True)
class Bounded:
    """Values as they should be, with a bound of the error of each.

    Parameters
    ----------
    value : numpy.ndarray of float64
    error : numpy.ndarray of float64
        The bounds, in the same shape, not negative.
    """

    value: Array
    error: Array

    @staticmethod
    def exact(values: npt.ArrayLike) -> Bounded:
        """Take values that oneDNN is given, which have no error."""
        value = np.asarray(values).astype(np.float64)
        return Bounded(value, np.broadcast_to(np.float64(0), value.shape))

    def moved(self, move: Callable[[Array], Array]) -> Bounded:
        """Apply a function that only moves elements, such as a transposition."""
        return Bounded(move(self.value), move(self.error))

    def stored(self, dtype: npt.DTypeLike = np.float32) -> Bounded:
        """Compute in f32, then store as `dtype`."""
        roundoff = _roundoff(dtype)
        if roundoff != ROUNDOFF:
            roundoff += ROUNDOFF * (1 + roundoff)
        flushed = float(_finfo(dtype).smallest_normal)
        magnitude = np.abs(self.value) + self.error
        return Bounded(self.value, self.error + roundoff * magnitude + flushed)

    def __add__(self, other: Bounded) -> Bounded:
        """Add, without storing the sum."""
        return Bounded(self.value + other.value, self.error + other.error)

    def __mul__(self, other: Bounded) -> Bounded:
        """Multiply element by element, without storing the product."""
        error = np.abs(self.value) * other.error + self.error * (np.abs(other.value) + other.error)
        return Bounded(self.value * other.value, error)

    def scaled(self, factor: Scale) -> Bounded:
        """Multiply by a scale without error, without storing the product."""
        return Bounded(self.value * factor, self.error * np.abs(factor))

    def relu(self) -> Bounded:
        """Replace negative values by zero, which does not enlarge any error."""
        return Bounded(np.maximum(self.value, 0), self.error)

    def matmul(self, other: Bounded, bias: Bounded | None = None) -> Bounded:
        """Multiply matrices and add a bias, accumulating in f32; the sum is not stored yet."""
        terms = self.value.shape[-1]
        value = self.value @ other.value
        a, b = np.abs(self.value), np.abs(other.value)
        magnitude = a @ b
        # (a + e(a)) (b + e(b)) - a b, without the cancellation, and without products with zeros.
        carried: Array | float = 0.0
        if self.error.any():
            carried = self.error @ (b + other.error)
        if other.error.any():
            carried = carried + a @ other.error
        magnitude = magnitude + carried
        if bias is not None:
            terms += 1
            value = value + bias.value
            magnitude = magnitude + np.abs(bias.value) + bias.error
            carried = carried + bias.error
        return Bounded(value, carried + growth(terms) * magnitude)

    def convolved(self, weights: Bounded, stride: int) -> Bounded:
        """Convolve channels-last images with (height, width, input, output) weights."""
        height, width, channels, outputs = weights.value.shape

        def patches(images: Array) -> Array:
            windows = sliding_window_view(images, (height, width), axis=(1, 2))
            windows = windows[:, ::stride, ::stride].transpose(0, 1, 2, 4, 5, 3)
            return windows.reshape(*windows.shape[:3], height * width * channels)

        matrix = weights.moved(lambda w: w.reshape(height * width * channels, outputs))
        return self.moved(patches).matmul(matrix)

    def sigmoid(self) -> Bounded:
        """Compute 1 / (1 + exp(-x)); the result is not stored yet."""

        def of(x: Array) -> Array:
            # exp of a number that is not positive can't overflow.
            small = np.exp(-np.abs(x))
            return np.asarray(np.where(x < 0, small, 1.0) / (1 + small))

        value = of(self.value)
        carried = np.maximum(
            of(self.value + self.error) - value, value - of(self.value - self.error)
        )
        # The argument of exp is reduced, exp, the sum and the quotient are rounded. A relative
        # error of exp counts value * (1 - value) times, which is the derivative.
        reduced = (np.abs(self.value) + self.error) * of(self.error - self.value)
        return Bounded(value, carried + value * (reduced + EXP_ROUNDINGS + 2) * ROUNDOFF)

    def softmax(self) -> Bounded:
        """Normalise the exponentials of the last axis; the result is not stored yet."""
        below_maximum = self.value - self.value.max(axis=-1, keepdims=True)
        weights = np.exp(below_maximum)
        value = weights / weights.sum(axis=-1, keepdims=True)
        # Rounding x - max(x), and the reduction of exp's argument, each cost u*|x - max(x)|. An
        # element masked with minus infinity has a weight of zero whatever its error.
        counts = weights > 0
        exponent_error = np.where(counts, self.error - 2 * ROUNDOFF * below_maximum, 0)
        numerator = np.expm1(exponent_error + EXP_ROUNDINGS * ROUNDOFF)
        denominator = (value * numerator).sum(axis=-1, keepdims=True)
        denominator = denominator + growth(self.value.shape[-1])
        return Bounded(value, value * ((1 + numerator) / (1 - denominator) - 1))

    def quantized(self, scale: Scale, zero_point: int, dtype: npt.DTypeLike) -> Bounded:
        """Store as integers; errors are then whole steps, and zero except near a tie."""
        steps = self.value / scale + zero_point
        # A kernel rounds the reciprocal of the scale, the product and the sum.
        error = self.error / scale + 3 * ROUNDOFF * (np.abs(self.value / scale) + np.abs(steps))
        limits = np.iinfo(np.dtype(dtype))

        def clipped(numbers: Array) -> Array:
            return np.clip(numbers, limits.min, limits.max)

        value = clipped(np.rint(steps))
        lowest, highest = np.ceil(steps - error - 0.5), np.floor(steps + error + 0.5)
        return Bounded(value, np.maximum(value - clipped(lowest), clipped(highest) - value))

    def dequantized(self, scale: Scale, zero_point: int | npt.NDArray[np.integer[Any]]) -> Bounded:
        """Turn integers into the f32 numbers that they stand for."""
        return Bounded(self.value - zero_point, self.error).scaled(scale).stored()


@dataclass(frozen=True)
class Comparison:
    """The differences between an array and the expected values.

    Parameters
    ----------
    elements : int
        Number of compared elements.
    differing : int
        Number of elements that are not exactly the expected value.
    wrong : int
        Number of elements that are off by more than their tolerance, or not a number.
    largest : float
        Largest magnitude expected.
    max_error : float
        Largest difference.
    tolerance : float
        The tolerance of the element with the largest difference.
    max_share : float
        The largest error as a fraction of its tolerance.
    """

    elements: int
    differing: int
    wrong: int
    largest: float
    max_error: float
    tolerance: float
    max_share: float

    @staticmethod
    def of(got: npt.NDArray[np.generic], expected: Bounded) -> Comparison:
        """Compare all elements."""
        if got.shape != expected.value.shape:
            raise ValueError(f"expected shape {expected.value.shape}, got {got.shape}")
        error = np.abs(got.astype(np.float64) - expected.value)
        # NaN counts as an infinite error.
        error = np.where(np.isnan(error), np.inf, error)
        where = np.unravel_index(np.argmax(error), error.shape)
        share = np.divide(
            error,
            expected.error,
            out=np.where(error > 0, np.inf, 0.0),
            where=expected.error > 0,
        )
        return Comparison(
            elements=error.size,
            differing=int(np.count_nonzero(error)),
            wrong=int(np.count_nonzero(error > expected.error)),
            largest=float(np.abs(expected.value).max()),
            max_error=float(error[where]),
            tolerance=float(expected.error[where]),
            max_share=float(share.max()),
        )

    @staticmethod
    def together(parts: Iterable[Comparison]) -> Comparison:
        """Join the comparisons of an array's parts."""
        parts = list(parts)
        worst = max(parts, key=lambda part: part.max_error)
        return Comparison(
            elements=sum(part.elements for part in parts),
            differing=sum(part.differing for part in parts),
            wrong=sum(part.wrong for part in parts),
            largest=max(part.largest for part in parts),
            max_error=worst.max_error,
            tolerance=worst.tolerance,
            max_share=max(part.max_share for part in parts),
        )
