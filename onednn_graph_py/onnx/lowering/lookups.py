"""Lookups by numbers of a call: Gather and GatherElements as host steps."""

from collections.abc import Callable
from functools import partial
from typing import Any

from ...model.building.value import Value
from ..host_steps import as_places, elements, taken, taken_shape
from .table import Call, NotLowered, lowers


def looked_up(call: Call) -> Value:
    """Take slices of input 0 at the places that input 1 has, which a call determines."""
    return _step(call, taken, taken_shape)


def _step(call: Call, take: Callable[..., Any], shape: Callable[..., Any]) -> Value:
    rank = len(call.dims(0))
    if not rank:
        raise NotLowered("the tensor has no dims")
    if call.dtype(0) in ("s4", "u4"):
        raise NotLowered("4-bit integers are packed")
    axis = call.attribute("axis", 0) % rank
    made: Value = call.b.call(
        partial(take, call.node.name or call.node.op_type, axis),
        call.value(0),
        call.value(1),
        outputs=partial(shape, call.dtype(0), axis),
    )
    return made


@lowers("GatherElements")
def _gather_elements(call: Call) -> Value:
    return _step(call, elements, as_places)
