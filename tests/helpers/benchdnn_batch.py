"""Find the inputs whose first dim is the batch, by benchdnn's rules."""

from __future__ import annotations

from onednn_graph_py.ops.lookup import with_attribute, with_trait
from onednn_graph_py.serialization.document import GraphDocument, OpRecord

_BINARY = with_trait("epilogue", "binary") | {"BiasAdd"}
# Ops with shapes in attributes that a change of the batch does not adapt.
_FIXED = with_attribute("dst_shape") | with_attribute("weights_shape")


def takes_batch(document: GraphDocument) -> frozenset[int]:
    """Return the ids of the inputs whose dim 0 can be set to any size, the same for all."""
    readers: dict[int, list[OpRecord]] = {}
    for op in document.graph:
        for id in {t.id for t in op.inputs}:
            readers.setdefault(id, []).append(op)
    known: dict[int, bool] = {}

    def passes(id: int) -> bool:
        """Return whether all ops behind a tensor take its first dim as the batch."""
        stack = [id]
        seen: set[int] = set()
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            for op in readers.get(at, ()):
                if not _is_batch(op, at):
                    return False
                stack += [t.id for t in op.outputs[:1]]
        return True

    for id in document.inputs():
        known[id] = passes(id)
    return frozenset(id for id, takes in known.items() if takes)


def _is_batch(op: OpRecord, id: int) -> bool:
    """Return whether an op takes the first dim of this input as the batch."""
    ids = [t.id for t in op.inputs]
    shapes = [t.shape for t in op.inputs]
    if op.kind in _FIXED or not shapes[ids.index(id)]:
        return False
    if op.kind.endswith("Backward"):
        if id in ids[:2]:
            return True
        own, first = shapes[ids.index(id)], shapes[0]
        return op.kind == "LayerNormBackward" and id in ids[2:4] and own[:1] == first[:1]
    if op.kind in _BINARY:
        if len(shapes[0]) == len(shapes[1]) and shapes[1][0] != 1:
            return True
        return id == (ids[0] if len(shapes[0]) >= len(shapes[1]) else ids[1])
    if op.kind == "PReLU" and id == ids[1]:
        return len(shapes[0]) == len(shapes[1])
    return op.kind == "Concat" or id == ids[0]
