"""Comparison of a model's results with the NumPy reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from .checking.expected import Expected, OutputCheck, Verification, compare_values, reference_values
from .filling import fill_inputs
from .running.model import CompiledGraph

__all__ = ["OutputCheck", "Verification", "compare_values", "reference_values", "verify"]

# The byte that fills outputs before the second call; floats made of it are NaN.
_LEFT_THERE = 0xFF


def verify(model: CompiledGraph, *inputs: Any, seed: int = 0, **named: Any) -> Verification:
    """Call a model twice, and compare its outputs with the reference in NumPy.

    The second call writes over other numbers, which must not change the results. A model with a
    queue is called only once.

    Parameters
    ----------
    model : CompiledGraph
    *inputs, **named : arrays
        The arguments of the call; without any, `fill_inputs` makes them.
    seed : int
        Seed for `fill_inputs`, and for the random perturbations that estimate rounding errors.

    Returns
    -------
    Verification
        It is true if all outputs are right, and prints the errors.

    Raises
    ------
    OneDNNError, TypeError
        As in a call.
    """
    builder = model.builder
    if inputs or named:
        arrays = [np.asarray(a) for a in model.ordered(inputs, named)]
    else:
        arrays = fill_inputs(builder, seed)
    given: list[Any] = list(arrays)
    made = model(*given)
    outputs = made if isinstance(made, tuple) else (made,)
    names = {value.id: name for name, value in builder.outputs.items()}
    expected = Expected(builder, arrays, seed)
    actual = {v.id: a for v, a in zip(builder.outputs.values(), outputs, strict=True)}
    found = expected.compare(actual, names)
    if not found.ok or model.queue is not None:
        return found
    for array in outputs:
        array.reshape(-1).view(np.uint8)[...] = _LEFT_THERE
    model(*given, out=outputs)
    return expected.compare(actual, names)
