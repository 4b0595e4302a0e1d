"""Ops that move elements and change their type."""

from __future__ import annotations

import numpy as np

from ..ops.call import Call
from .registry import Array, reference


@reference("Concat")
def _concat(call: Call, *parts: Array) -> Array:
    return np.concatenate(parts, axis=call.attr("axis"))


@reference("StaticReshape")
def _reshape(call: Call, x: Array) -> Array:
    shape = list(call.attr("shape"))
    if call.attr("special_zero"):
        shape = [x.shape[i] if d == 0 else d for i, d in enumerate(shape)]
    return x.reshape(shape)


@reference("StaticTranspose")
def _transpose(call: Call, x: Array) -> Array:
    return x.transpose(call.attr("order"))


@reference("Reorder", "TypeCast")
def _same(call: Call, x: Array) -> Array:
    return x
