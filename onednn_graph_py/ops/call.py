"""Uses of ops: `Call`, an op with its tensors and the attributes that are set.

Shape functions and rules read a `Call`. Every check skips unknown facts: a dim of -1, a
shape of None, a dtype of None.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ..base.errors import InvalidGraphOpError, InvalidShapeError
from .row import Row
from .terms import MAX_NDIMS, UNKNOWN, AttributeValue, Shape, shape_text


@dataclass(frozen=True)
class Operand:
    """One input or output of a call, with its shape and data type, if known."""

    call: str  # the call's label, for messages
    name: str  # its name in messages, such as `input 0 (src)`
    shape: Shape = None
    dtype: str | None = None

    @property
    def rank(self) -> int | None:
        """The number of dims; None if unknown."""
        return None if self.shape is None else len(self.shape)

    def dim(self, axis: int) -> int:
        """Return a dim, counted from the end if `axis` is negative; -1 if unknown or absent."""
        if self.shape is None or not -len(self.shape) <= axis < len(self.shape):
            return UNKNOWN
        return self.shape[axis]

    def count(self) -> int:
        """Return the number of elements; -1 if unknown."""
        if self.shape is None or any(d < 0 for d in self.shape):
            return UNKNOWN
        return math.prod(self.shape)

    def refuse(self, expected: str) -> NoReturn:
        """Raise `InvalidShapeError`: the operand is not as `expected` says."""
        raise InvalidShapeError(
            f"{self.call}: {self.name} must have {expected}, got {shape_text(self.shape)}"
        )

    def need_rank(self, low: int, high: int = MAX_NDIMS) -> None:
        """Check that the rank is from `low` to `high`."""
        if self.rank is not None and not low <= self.rank <= high:
            self.refuse(f"rank {low}" if low == high else f"rank {low} to {high}")

    def need_dim(self, axis: int, expected: int, why: str) -> None:
        """Check one dim."""
        d = self.dim(axis)
        if d >= 0 and expected >= 0 and d != expected:
            at = axis + len(self.shape or ()) if axis < 0 else axis
            self.refuse(f"dim {at} equal to {expected} ({why})")

    def need_count(self, expected: int, why: str) -> None:
        """Check the number of elements."""
        n = self.count()
        if n >= 0 and expected >= 0 and n != expected:
            self.refuse(f"{expected} elements ({why})")

    def need_shape(self, expected: Shape, why: str) -> None:
        """Check all dims."""
        if self.shape is None or expected is None:
            return
        fits = len(self.shape) == len(expected) and all(
            a < 0 or b < 0 or a == b for a, b in zip(self.shape, expected, strict=True)
        )
        if not fits:
            self.refuse(f"the shape {shape_text(expected)} ({why})")

    def need_broadcastable(self, target: Shape, why: str) -> None:
        """Check that it broadcasts to `target` by NumPy's rules."""
        if self.shape is None or target is None:
            return
        fits = len(self.shape) <= len(target) and all(
            a < 0 or b < 0 or a in (b, 1)
            for a, b in zip(reversed(self.shape), reversed(target), strict=False)
        )
        if not fits:
            self.refuse(f"a shape that broadcasts to {shape_text(target)} ({why})")


@dataclass(frozen=True)
class Call:
    """An op with its inputs, outputs and attributes."""

    schema: Row  # the op's row for the oneDNN in question
    label: str  # the op's name in messages: `op 3 'conv0' (Convolution)`
    inputs: Sequence[Operand]
    outputs: Sequence[Operand]
    # the attributes that are set, in the library's spelling; lists are tuples
    attrs: Mapping[str, AttributeValue]

    @property
    def kind(self) -> str:
        """The op kind."""
        return self.schema.kind

    def input(self, i: int) -> Operand:
        """Return the i-th input; an unknown operand if there are fewer."""
        if i < len(self.inputs):
            return self.inputs[i]
        return Operand(self.label, f"input {i}")

    def output(self, i: int) -> Operand:
        """Return the i-th output; an unknown operand if there are fewer."""
        if i < len(self.outputs):
            return self.outputs[i]
        return Operand(self.label, f"output {i}")

    def has(self, port: str) -> bool:
        """Return whether an optional input of this name is given."""
        return port in [p.name for p in self.schema.inputs[: len(self.inputs)]]

    def attr(self, name: str) -> Any:
        """Return an attribute's value: the one that is set, or the default, or None."""
        return self.schema.value_of(name, self.attrs)

    def axis(self, name: str, rank: int) -> int:
        """Return the axis that an attribute names, counted from the front."""
        axis: int = self.attr(name)
        if not -rank <= axis < rank:
            self.refuse_shape(f"attribute {name} is {axis}, input 0 has rank {rank}")
        return axis % rank

    @property
    def channels_last(self) -> bool:
        """Whether data_format is NXC."""
        return bool(self.attr("data_format") == "NXC")

    def refuse(self, why: str) -> NoReturn:
        """Raise `InvalidGraphOpError`: the op breaks its schema."""
        raise InvalidGraphOpError(f"{self.label}: {why}")

    def refuse_shape(self, why: str) -> NoReturn:
        """Raise `InvalidShapeError`: shapes don't fit together."""
        raise InvalidShapeError(f"{self.label}: {why}")
