"""Decide which tensors must lie in memory in the order of their dims, for those that read them.

Mostly for speed. Where the layout is oneDNN's choice it transposes by strides, without a copy. Most
ops then take their reference kernels, up to 200 times slower, or are as fast as after a copy. They
do so too for other views that have gaps.
"""

from collections.abc import Sequence

from ...ops.lookup import with_attribute, with_trait
from ..building.builder import Readers
from ..building.foreign import ForeignNode
from ..building.value import Node

# Ops with fast kernels for all strides.
_BY_STRIDES = with_trait("product") | with_trait("moves") | {"Concat"}
_SHIFTS = with_attribute("zps")
_REDUCTIONS = with_trait("reduces")
# Ops that are faster with the channels last in memory, whatever their data_format says.
_CHANNELS_LAST = with_attribute("data_format") - {"Interpolate"}


def row_major_results(nodes: Sequence[Node], readers: Readers) -> set[int]:
    """Return the ids of values that must be row-major.

    Transposed values where some reader needs that; reshaped ones that are reduced, since a tensor
    with its channels last stays so in oneDNN's choice; concatenated views, whose layout oneDNN
    would choose by the views' strides. And what a Quantize or Dequantize reads that only shifts by
    a zero point, with a scale of 1: by itself it forgets to, if the tensor is in oneDNN's own
    layout (8 channels; seen with 3.7.2 on AVX-512 and AVX2, 3.13.1 on AVX2). And what a SoftMax
    along channels reads, which in other layouts has a reference kernel, 100 to 800 times slower.
    """
    by_id = {n.id: n for n in nodes}
    views = {v.id for n in nodes if isinstance(n, ForeignNode) for v in n.outputs}

    def read_by(node: Node) -> list[Node | None]:
        """Return the readers of a node's result; None for the caller."""
        return [None if i is None else by_id[i] for i in readers.get(node.outputs[0].id, ())]

    found = set()
    for node in nodes:
        shifts = node.kind in _SHIFTS and any(node.attr("zps") or ())
        if shifts and set(node.attrs["scales"]) == {1}:
            found.add(node.inputs[0].id)
        if "softmax" in node.kind.lower():
            rank = len(node.inputs[0].shape or ())
            if node.attr("axis") not in (-1, rank - 1):
                found.add(node.inputs[0].id)
        if node.kind == "Concat":
            wanted = not views.isdisjoint(v.id for v in node.inputs)
        elif node.kind == "StaticReshape":
            wanted = any(r is not None and r.kind in _REDUCTIONS for r in read_by(node))
        elif node.kind == "StaticTranspose":
            order = node.attrs["order"]
            wanted = any(r is None or not _reads_strides(r, order) for r in read_by(node))
        else:
            continue
        if wanted:
            found.add(node.outputs[0].id)
    # oneDNN adds a dim to them, which must not lie within (`batch_within_weights`).
    weights = {
        n.inputs[1].id
        for n in nodes
        if n.kind == "MatMul" and [len(v.shape or ()) for v in (n.inputs[1], *n.outputs)] == [3, 4]
    }
    weights -= {
        n.outputs[0].id for n in nodes if n.kind == "StaticTranspose" and n.attrs["order"][0] == 0
    }
    return weights | found


def read_without_gaps(nodes: Sequence[Node], readers: Readers) -> set[int]:
    """Return the ids of values that some op needs in row-major order; outputs are copied anyway."""
    by_id = {n.id: n for n in nodes}
    return {
        i
        for i, ids in readers.items()
        if any(r is not None and not _strided(by_id[r]) for r in ids)
    }


def _strided(reader: Node) -> bool:
    return reader.kind in _BY_STRIDES or isinstance(reader, ForeignNode)


def _reads_strides(reader: Node, order: Sequence[int]) -> bool:
    if _strided(reader):
        return True
    from_channels_last = tuple(order) == (0, len(order) - 1, *range(1, len(order) - 1))
    return (
        from_channels_last and reader.kind in _CHANNELS_LAST and reader.attr("data_format") == "NCX"
    )
