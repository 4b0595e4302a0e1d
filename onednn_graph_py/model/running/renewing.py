"""Let a model compute with other numbers in its constants, without another plan."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ...ops.lookup import with_trait
from ..building.foreign import ViewNode
from ..building.value import Value
from ..planning import Plan
from .model import CompiledGraph

__all__ = ["follows"]

Array = npt.NDArray[np.generic]

_PARAMETERS = with_trait("product") | with_trait("normalizes") | with_trait("channelwise")
"""Kinds whose operands' elements no decision reads."""

_CASTS = with_trait("converts", "keeps")


def follows(model: CompiledGraph, written: Sequence[tuple[Value, Array]]) -> bool:
    """Let a model read the elements that constants have now, and return whether it can.

    It can if no decision was made by elements, and nobody has copies of them but oneDNN's cache,
    which the caller empties, and conversions, which are made again.

    - `written`: constants with their elements: in the same memory, or to be copied there
    """
    if model._counters.evictions:
        return False  # somebody may still run a set of shapes that was dropped
    stale = {v.id for v, _ in written}
    read: set[int] = set()
    scores = [n.inputs[0].shape or (-1,) for n in model.builder.nodes if n.kind == "SoftMax"]
    for node in model.builder.nodes:
        own = [v for v in node.inputs if v.id in stale]
        read.update(v.id for v in own)
        if isinstance(node, ViewNode) or node.kind in with_trait("moves") | _CASTS:
            stale.update(v.id for v in node.outputs if own)
        elif node.kind in with_trait("binary"):
            if any(_may_mask(v.shape or (), s) for v in own for s in scores):
                return False
        elif node.kind == "Select" or (own and node.kind not in _PARAMETERS):
            return False  # Select is split where what it chooses from may be infinite
    for value, elements in written:
        # The number of a single element, and those of integers, may have become attributes.
        if value.id not in read or elements.size == 1 or elements.dtype.kind in "biu":
            return False
        if value.data is None:
            return False
    memory = [v.data for v in model.builder.constants if v.data is not None]
    kept = set(map(id, memory))
    pairs = [(v.data, e) for v, e in written if v.data is not None]
    copies = [(own, e) for own, e in pairs if own.ctypes.data != e.ctypes.data]
    for shapes in model.sizes:
        plan = model.specialization(shapes).plan
        casts, others = _computed(plan, stale, {v.id for v in model.builder.constants})
        for id_, slot in plan.slots.items():
            array = plan.constants[slot.at] if slot.where == "constant" else None
            if array is None or id(array) in kept:
                continue
            if any(0 <= array.ctypes.data - a.ctypes.data < a.nbytes for a in memory):
                continue
            if id_ in casts:
                copies.append((array, casts[id_]))
            # A rule's constant may have the elements of another one.
            elif id_ in stale or (id_ not in others and array.size > 1):
                return False
    with np.errstate(all="ignore"):
        for array, elements in copies:
            writable = array.view()
            writable.flags.writeable = True
            writable[...] = elements
    return True


def _may_mask(shape: Sequence[int], scores: Sequence[int]) -> bool:
    return len(shape) > 1 and (shape[-1] == scores[-1] or -1 in (shape[-1], scores[-1]))


def _computed(plan: Plan, stale: set[int], own: set[int]) -> tuple[dict[int, Array], set[int]]:
    """Return what is converted of stale constants, by the result's id, and all that is computed.

    What is computed of stale ones is added to them, and of constants that a rule wrote, which may
    have elements of stale ones.

    - `own`: the constants that the builder has
    """
    casts: dict[int, Array] = {}
    made: set[int] = set()
    for nodes in (step.nodes for step in plan.steps if step.folded):
        for node in nodes:
            results = {v.id for v in node.outputs}
            made |= results
            known = own | made
            if not any(
                v.id in stale or (v.id not in known and v.data is not None and v.data.size > 1)
                for v in node.inputs
            ):
                continue
            stale |= results
            source = node.inputs[0]
            elements = source.data if source.id in own else None
            if node.kind in _CASTS and len(nodes) == 1 and elements is not None:
                casts[results.pop()] = elements
    return casts, made
