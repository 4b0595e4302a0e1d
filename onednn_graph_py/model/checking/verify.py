"""Comparison of a model's results with the NumPy reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...base.arguments import need_whole
from ..building.constant_arrays import unpacked
from ..running.model import CompiledGraph
from .expected import Expected, OutputCheck, Verification, reference_values
from .filling import fill_inputs
from .telling import telling

__all__ = ["OutputCheck", "Verification", "reference_values", "verify"]

# The byte that fills outputs before the second call; floats made of it are NaN.
_LEFT_THERE = 0xFF


def verify(model: CompiledGraph, *inputs: Any, seed: int = 0, **named: Any) -> Verification:
    """Call a model twice, and compare its outputs with the reference in NumPy.

    Inputs that are not given are drawn until each scale, zero point and other entry of a channel
    changes a result, so there may be several draws. The second call writes over other numbers,
    which must not change the results. A model with a queue is called only once.

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
        As in a call, or the seed is negative.
    """
    builder, seed = model.builder, need_whole("verify: seed", seed, 0)
    if inputs or named:
        given = [np.asarray(a) for a in model.ordered(inputs, named)]
        return _verified(model, given, seed)
    draws = telling(builder, lambda i: fill_inputs(builder, seed + i))
    verifications = [_verified(model, next(draws), seed)]
    while verifications[-1].ok and (arrays := next(draws, None)) is not None:
        verifications.append(_verified(model, arrays, seed))
    return verifications[0] if verifications[-1].ok else verifications[-1]


def _verified(model: CompiledGraph, given: Sequence[Any], seed: int) -> Verification:
    """Verify a model with these inputs."""
    builder = model.builder
    result = model(*given)
    outputs = result if isinstance(result, tuple) else (result,)
    names = {value.id: name for name, value in builder.outputs.items()}
    arrays = [
        unpacked(a, v.shape, v.dtype, v.strides) if a.dtype == np.uint8 else a
        for a, v in zip(given, builder.inputs, strict=True)
    ]
    expected = Expected(builder, arrays, seed)
    actual = {v.id: a for v, a in zip(builder.outputs.values(), outputs, strict=True)}
    verification = expected.compare(actual, names)
    if not verification.ok or model.queue is not None:
        return verification
    first = [array.tobytes() for array in outputs]
    for array in outputs:
        array.reshape(-1).view(np.uint8)[...] = _LEFT_THERE
    model(*given, out=outputs)
    same = [array.tobytes() for array in outputs] == first
    return verification if same else expected.compare(actual, names)
