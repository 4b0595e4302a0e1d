"""The ends of patterns: a chain of ops of the categories Unary and Binary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from onednn_graph_py.base.errors import InvalidArgumentsError
from onednn_graph_py.model.building.value import Value
from onednn_graph_py.ops.lookup import with_trait

__all__ = ["BINARY", "UNARY", "chain", "drawn", "epilogue"]

BINARY = tuple(sorted(with_trait("epilogue", "binary")))
"""The ops of the category Binary."""

# Pow is only in 3.7's documents, HardSigmoid and Mish only in later ones.
UNARY: Mapping[str, Mapping[str, Any]] = {
    "Abs": {},
    "Clamp": {"min": -0.5, "max": 0.75},
    "Elu": {"alpha": 1.0},
    "Exp": {},
    "GELU": {},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "HardSwish": {},
    "LeakyReLU": {"alpha": 0.1},
    "Log": {},
    "Mish": {},
    "Pow": {"beta": 3.0},
    "ReLU": {},
    "Round": {},
    "Sigmoid": {},
    "SoftPlus": {},
    "Sqrt": {},
    "Square": {},
    "Tanh": {},
}
"""The ops of the category Unary, each with the attributes that the gallery gives it."""

_OPERANDS = ("channel", "scalar", "full", "residual")


def drawn(seed: int, shape: Sequence[int], scale: float = 1.0) -> npt.NDArray[np.float32]:
    """Return normal noise, the same for the same seed."""
    made = scale * np.random.default_rng(seed).standard_normal(tuple(shape))
    return np.asarray(made, np.float32)


def chain(length: int) -> tuple[str, ...]:
    """Return an epilogue of a length whose values neither grow nor vanish."""
    ops = ("Multiply", "Add", "ReLU", "Maximum", "Subtract", "Tanh")
    return tuple(ops[i % len(ops)] for i in range(length))


def epilogue(value: Value, ops: Sequence[str], *, axis: int = -1) -> Value:
    """Apply ops of the categories Unary and Binary, one to the other's result.

    Parameters
    ----------
    value : Value
        A value of known shape.
    ops : sequence of str
        Kinds. A Binary kind may name its second operand after a colon: ``channel`` (the default),
        a constant for each index along `axis`; ``scalar``, a constant of one element; ``full``, a
        constant of the value's shape; ``residual``, a new input of that shape.
    axis : int
        The axis of the channels.

    Returns
    -------
    Value
        The result; `value` itself if `ops` is empty.

    Raises
    ------
    InvalidArgumentsError
        An op is in neither category, or its operand's name is unknown.
    """
    for name in ops:
        kind, _, operand = name.partition(":")
        if kind in UNARY and not operand:
            value = value.builder.op(kind, value, **UNARY[kind])
        elif kind in BINARY and (not operand or operand in _OPERANDS):
            value = value.builder.op(kind, value, _operand(value, kind, operand, axis))
        else:
            raise InvalidArgumentsError(
                f"epilogue: an op must be of the category Unary ({', '.join(UNARY)}) or Binary "
                f"({', '.join(BINARY)}), the latter with one of {', '.join(_OPERANDS)} after a "
                f"colon, got {name!r}"
            )
    return value


def _operand(value: Value, kind: str, operand: str, axis: int) -> Value:
    b, full = value.builder, value.shape
    assert full is not None
    if operand == "residual":
        return b.input(full, value.dtype)
    if operand == "full":
        shape = full
    elif operand == "scalar":
        shape = (1,)
    else:
        shape = tuple(d if i == axis % len(full) else 1 for i, d in enumerate(full))
    random = np.random.default_rng(len(b.nodes))
    # Factors near 1, so that a long chain keeps its values in range.
    factor = kind in ("Multiply", "Divide")
    made = random.uniform(0.75, 1.25, shape) if factor else random.normal(0.0, 0.5, shape)
    return b.constant(made, value.dtype)
