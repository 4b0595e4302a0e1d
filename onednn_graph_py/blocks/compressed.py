"""Weights of 8 and 4 bits with scales for groups, as the s8 matrices that oneDNN multiplies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.dtypes import data_type_of
from ..base.errors import InvalidArgumentsError, InvalidShapeError
from ..machine.cpu import largest_int8_weight
from ..model.building.constant_arrays import aligned, lies_apart
from ..model.building.value import Value
from ..ops.terms import shape_text
from .arguments import FLOATS, INTEGERS, array_of, need_dtype

Array = npt.NDArray[Any]

_PORTION = 256  # the number of inputs whose weights are floats at one time


@dataclass(frozen=True)
class Matrix:
    """Some rows of weights in s8, with a scale for each column."""

    rows: slice
    integers: npt.NDArray[np.int8]  # (rows, outputs)
    scales: npt.NDArray[np.float32]  # (outputs,), positive


@dataclass(frozen=True)
class Compressed:
    """Weights as integers: (integers - points) * scales, both of groups along the inputs."""

    integers: Array  # (inputs, outputs)
    # scales, points: (groups, outputs) of f32. Points need not be whole.
    scales: npt.NDArray[np.float32]
    points: npt.NDArray[np.float32]
    groups: npt.NDArray[np.int64]  # (inputs,), the group of each input

    @classmethod
    def of(
        cls, block: str, weights: Any, scales: Any, zero_points: Any, transpose_b: bool
    ) -> Compressed:
        """Return arrays as weights, checked; those without scales are floats, which it rounds.

        - raises `TypeError`: an argument is a value, or no array
        - raises `InvalidDataTypeError`: weights are neither integers of 8 and 4 bits with scales
          nor floats without
        - raises `InvalidShapeError`: groups don't divide the weights
        - raises `InvalidArgumentsError`: a number is not finite, or there are zero points without
          scales
        """
        matrix = _array(block, "weights", weights)
        if matrix.ndim != 2 or not matrix.size:
            raise InvalidShapeError(
                f"{block}: weights must have 2 dims and elements, got {shape_text(matrix.shape)}"
            )
        dtype = data_type_of(matrix.dtype).name
        allowed = INTEGERS if scales is not None else FLOATS
        has = "with scales" if scales is not None else "without scales"
        need_dtype(block, f"weights {has}", dtype, allowed)
        rows = matrix.T if transpose_b else matrix
        if scales is None:
            if zero_points is not None:
                raise InvalidArgumentsError(f"{block}: zero_points need scales")
            _need_finite(block, "weights", rows)
            columns = by_column(len(rows), lambda part: rows[part].astype(np.float32))
            integers, factors = columns.integers, columns.scales[None]
            points = np.zeros_like(factors)
        else:
            integers = rows
            factors = _of_groups(block, "scales", scales, matrix.shape, transpose_b)
            points = np.zeros_like(factors)
        if zero_points is not None:
            given = _of_groups(block, "zero_points", zero_points, matrix.shape, transpose_b)
            if given.shape != factors.shape and np.size(zero_points) > 1:
                raise InvalidShapeError(
                    f"{block}: zero_points must be of the shape of scales, "
                    f"{shape_text(factors.shape)}, got {shape_text(given.shape)}"
                )
            points = np.broadcast_to(given, factors.shape)
        groups = np.arange(len(rows)) // (len(rows) // len(factors))
        return cls(integers, factors, points, groups)

    def floats(self, rows: slice = slice(None)) -> npt.NDArray[np.float32]:
        """Return the numbers that the weights of some inputs stand for."""
        return self._shifted(rows) * self.scales[self.groups[rows]]

    def _shifted(self, rows: slice) -> npt.NDArray[np.float32]:
        return self.integers[rows].astype(np.float32) - self.points[self.groups[rows]]

    def by_column(self) -> Matrix:
        """Return the weights with one scale for each column.

        They are rounded to 8 bits, or 7 where sums of larger products saturate, unless there is one
        group of integers that fit as they are.
        """
        matrix = None
        if len(self.scales) == 1 and not (self.points % 1).any():
            matrix = self._as_they_are()
        return by_column(len(self.integers), self.floats) if matrix is None else matrix

    def _as_they_are(self) -> Matrix | None:
        """Return the integers of one group minus its zero points; None if they take more bits."""
        low, high = _range()
        integers = self.integers
        same = integers.dtype == np.int8 and lies_apart(integers) and not self.points.any()
        same = same and bool((self.scales > 0).all())
        if not same:
            integers = aligned(integers.shape, np.int8)
        for rows in _portions(len(integers)):
            whole = self.integers[rows] if same else self._shifted(rows) * np.sign(self.scales)
            if whole.min() < low or whole.max() > high:
                return None
            if not same:
                integers[rows] = whole
        if not same:
            integers.flags.writeable = False
        return Matrix(slice(0, len(integers)), integers, _positive(self.scales[0]))

    def exact(self) -> list[Matrix]:
        """Return matrices whose products add up to that by the weights, which nothing rounds.

        There is one for each group of inputs that follow each other, and one more where integers
        minus a zero point take more bits than products can have, or the zero point is not whole.
        """
        low, high = _range()
        whole = np.rint(self.points)
        matrices: list[Matrix] = []
        for i, scales in enumerate(self.scales):
            inside = np.flatnonzero(self.groups == i)
            rows = slice(int(inside[0]), int(inside[-1]) + 1)
            rest = (self.integers[rows].astype(np.float32) - whole[i]) * np.sign(scales)
            while not matrices or matrices[-1].rows != rows or rest.any():
                portion = np.clip(rest, low, high)
                matrices.append(Matrix(rows, portion.astype(np.int8), _positive(scales)))
                rest = rest - portion
            fraction = (whole[i] - self.points[i]) * scales
            if fraction.any():
                ones = np.repeat(np.sign(fraction).astype(np.int8)[None], len(rest), 0)
                matrices.append(Matrix(rows, ones, _positive(fraction)))
        return matrices


def by_column(inputs: int, floats: Callable[[slice], npt.NDArray[np.float32]]) -> Matrix:
    """Return weights rounded to 8 bits, or 7 where sums of larger products saturate.

    - `floats`: returns the rows of a slice: all of them at once take several times the memory
    """
    most = np.max([np.abs(floats(rows)).max(0) for rows in _portions(inputs)], 0)
    scales = _positive(most / np.float32(largest_int8_weight()))
    integers = aligned((inputs, len(scales)), np.int8)
    for rows in _portions(inputs):
        integers[rows] = np.rint(floats(rows) / scales)
    integers.flags.writeable = False
    return Matrix(slice(0, inputs), integers, scales)


def _portions(inputs: int) -> list[slice]:
    return [slice(i, min(i + _PORTION, inputs)) for i in range(0, inputs, _PORTION)]


def _positive(scales: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the magnitudes of scales, 1 in the place of 0."""
    magnitudes = np.abs(scales).astype(np.float32)
    return np.where(magnitudes > 0, magnitudes, np.float32(1))


def _range() -> tuple[int, int]:
    """Return the least and the largest weight whose products oneDNN adds without saturation."""
    most = largest_int8_weight()
    return (-128, most) if most == 127 else (-most, most)


def _array(block: str, argument: str, given: Any) -> Array:
    if isinstance(given, Value):
        raise TypeError(f"{block}: {argument} must be an array, got {given!r}")
    array: Array = array_of(block, argument, given, "an array")
    return array


def _need_finite(block: str, argument: str, numbers: Array) -> None:
    if not np.isfinite(numbers.astype(np.float32)).all():
        raise InvalidArgumentsError(f"{block}: {argument} must be finite")


def _of_groups(
    block: str, argument: str, given: Any, shape: tuple[int, ...], transpose_b: bool
) -> npt.NDArray[np.float32]:
    """Return numbers for groups as (groups, outputs)."""
    numbers = _array(block, argument, given).astype(np.float32)
    _need_finite(block, argument, numbers)
    inputs, outputs = shape[::-1] if transpose_b else shape
    if numbers.size == 1 or numbers.shape == (outputs,):
        return np.broadcast_to(numbers.reshape(-1), (1, outputs))
    groups = numbers.T if transpose_b else numbers
    if groups.ndim != 2 or groups.shape[1] != outputs or inputs % max(len(groups), 1):
        wanted = "(outputs, groups)" if transpose_b else "(groups, outputs)"
        raise InvalidShapeError(
            f"{block}: {argument} must be 1, (outputs,) or {wanted} with groups that divide "
            f"{inputs} inputs, got {shape_text(numbers.shape)} for weights {shape_text(shape)}"
        )
    return groups
