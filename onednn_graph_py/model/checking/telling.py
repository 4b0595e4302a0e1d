"""Whether a graph's results show each scale, zero point and other entry of a channel.

A kernel that reads the first scale for all channels is right wherever rounding or saturation hides
the others. So inputs are drawn again until each entry, put in place of the first, changes a result.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ops.lookup import row
from ..building.builder import GraphBuilder
from ..building.foreign import ForeignNode
from ..building.infer import infer_shapes
from ..building.value import Node
from .expected import compute, reference_values

Array = npt.NDArray[Any]
Values = dict[int, Array]
Hidden = set[tuple[int, str, int]]

_DRAWS = 16
# The operations and elements that are computed at most for one draw: some tenths of a second.
_WORK = 1 << 26
# A smaller change may be taken for rounding.
_VISIBLE = 1e-3


def _changes(nodes: Sequence[Node], known: Values) -> Iterator[tuple[Node, str, Array, Values]]:
    """Yield nodes that read the first entry of a list for all, the list, and values to start from.

    A list is an attribute of quantization, or an input of one dim that no node makes.
    """
    results = {v.id for n in nodes for v in n.outputs}
    for node in nodes:
        if isinstance(node, ForeignNode):
            continue
        for name in ("scales", "zps"):
            entries = np.asarray(node.attrs.get(name, ()))
            if len(np.unique(entries)) > 1:
                first = (entries[0].item(),) * entries.size
                yield replace(node, attrs={**node.attrs, name: first}), name, entries, {}
        for i, value in enumerate(node.inputs[1:], start=1):
            entries = known[value.id]
            if value.id not in results and entries.ndim == 1 and (entries != entries[:1]).any():
                first_everywhere = np.broadcast_to(entries[:1], entries.shape)
                yield node, str(i), entries, {value.id: first_everywhere}


def _shown(before: Array, after: Array, count: int) -> Array:
    """Return for each of so many entries whether an output shows it."""
    one, other = before.astype(np.float64), after.astype(np.float64)
    with np.errstate(invalid="ignore"):
        seen = np.abs(one - other) > _VISIBLE * np.abs(one[np.isfinite(one)]).max(initial=0.0)
    shown = np.zeros(count, bool)
    axes = [i for i, d in enumerate(seen.shape) if d == count]
    for axis in axes:
        shown |= seen.any(axis=tuple(i for i in range(seen.ndim) if i != axis))
    return shown if axes else np.broadcast_to(seen.any(), count)


def _work(builder: GraphBuilder, arrays: Sequence[Array]) -> dict[int, int]:
    """Return the operations of each node, and the elements that it makes."""
    dims = {v.id: a.shape for v, a in zip(builder.inputs, arrays, strict=True)}
    shapes = infer_shapes(builder, dims)
    counts = {}
    for node in builder.nodes:
        read, made = ([shapes[v.id] for v in values] for values in (node.inputs, node.outputs))
        counts[node.id] = sum(map(math.prod, made))
        if not isinstance(node, ForeignNode):
            counts[node.id] += row(node.kind).flop(read, made, node.attrs)
    return counts


def _hidden(builder: GraphBuilder, arrays: Sequence[Array]) -> Hidden:
    """Return the entries that no result shows: an op's id, the list, and the entry's number."""
    work = _work(builder, arrays)
    left = _WORK - sum(work.values())
    hidden: Hidden = set()
    if left < 0:
        return hidden
    known = reference_values(builder, arrays)
    for changed, name, entries, start in _changes(builder.nodes, known):
        values = {**known, **start}
        behind = {v.id for v in changed.outputs}
        nodes = [changed]
        for node in builder.nodes:
            if node.id != changed.id and any(v.id in behind for v in node.inputs):
                nodes.append(node)
                behind |= {v.id for v in node.outputs}
        left -= sum(work[n.id] for n in nodes)
        if left < 0:
            break
        compute(nodes, values)
        shown = np.zeros(entries.size, bool)
        for value in builder.outputs.values():
            shown |= _shown(known[value.id], values[value.id], entries.size)
        missing = np.flatnonzero(~shown & (entries != entries[0]))
        hidden |= {(changed.id, name, int(i)) for i in missing}
    return hidden


def telling(
    builder: GraphBuilder, draw: Callable[[int], Sequence[Array]]
) -> Iterator[Sequence[Array]]:
    """Yield drawn inputs until their results together show each entry, or too many were drawn."""
    arrays = draw(0)
    yield arrays  # whoever needs no more pays for no more
    hidden = _hidden(builder, arrays)
    for i in range(1, _DRAWS):
        if not hidden:
            return
        arrays = draw(i)
        shown = hidden - _hidden(builder, arrays)
        if shown:
            yield arrays
            hidden -= shown
