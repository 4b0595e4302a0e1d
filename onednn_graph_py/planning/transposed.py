"""Decide which transposed tensors lie in memory in the order of their dims.

Where the layout is oneDNN's choice it transposes by strides, without a copy. Most ops then take
their reference kernels, up to 200 times slower, or are as fast as after a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..building.builder import Readers
from ..building.value import Node
from ..ops.lookup import with_attribute, with_trait

__all__ = ["row_major_transposes"]

# Ops with fast kernels for all strides.
_BY_STRIDES = with_trait("product") | with_trait("moves") | {"Concat"}
# Ops that are faster with the channels last in memory, whatever their data_format says.
_CHANNELS_LAST = with_attribute("data_format") - {"Interpolate"}


def row_major_transposes(nodes: Sequence[Node], readers: Readers) -> set[int]:
    """Return the ids of transposed values that some reader needs in row-major order.

    Parameters
    ----------
    nodes : sequence of Node
        The nodes of a graph.
    readers : mapping of int to set of int or None
        The readers of each value, as `readers_of` returns them.
    """
    by_id = {n.id: n for n in nodes}
    return {
        n.outputs[0].id
        for n in nodes
        if n.kind == "StaticTranspose"
        and any(
            i is None or not _reads_strides(by_id[i], n.attrs["order"])
            for i in readers.get(n.outputs[0].id, ())
        )
    }


def _reads_strides(reader: Node, order: Sequence[int]) -> bool:
    if reader.kind in _BY_STRIDES:
        return True
    from_channels_last = tuple(order) == (0, len(order) - 1, *range(1, len(order) - 1))
    return (
        from_channels_last and reader.kind in _CHANNELS_LAST and reader.attr("data_format") == "NCX"
    )
