"""The links between a document's ops: the maker of each tensor, and an order of execution."""

from graphlib import CycleError

from ..base.errors import GraphFormatError
from ..model.building.order import named_ring, run_order
from .document import GraphDocument, Place, TensorRecord


def check_links(document: GraphDocument) -> None:
    """Check that ids are unique, data types agree, and ops form no cycle."""
    first: dict[int, int] = {}
    for i, op in enumerate(document.graph):
        if first.setdefault(op.id, i) != i:
            raise GraphFormatError(f"graph[{i}].id: graph[{first[op.id]}] has the id {op.id} too")
    maker: dict[int, Place] = {}
    typed: dict[int, tuple[Place, str]] = {}
    for place, tensor in document.records():
        if place.ports == "outputs" and maker.setdefault(tensor.id, place) != place:
            raise GraphFormatError(
                f"{place}.id: tensor {tensor.id} is made by {maker[tensor.id]} already"
            )
        if tensor.dtype == "undef":
            continue
        where, dtype = typed.setdefault(tensor.id, (place, tensor.dtype))
        if dtype != tensor.dtype:
            raise GraphFormatError(
                f"{place}.dtype: tensor {tensor.id} is {tensor.dtype} here and {dtype} in {where}"
            )
    in_order(document)


def in_order(document: GraphDocument) -> list[int]:
    """Return indices into ``graph`` such that each op comes after those whose results it reads.

    Apart from that, ops keep the order of the file.
    """
    maker = {t.id: i for i, op in enumerate(document.graph) for t in op.outputs}
    before = [
        dict.fromkeys(maker[t.id] for t in op.inputs if t.id in maker) for op in document.graph
    ]
    try:
        return run_order(before)
    except CycleError as e:
        ring = named_ring(e, "graph[{}]".format)
        raise GraphFormatError(
            f"{ring[0]}: ops form a cycle; each reads the next one's result: " + " -> ".join(ring)
        ) from None


def check_agreement(document: GraphDocument) -> None:
    """Check that all places give a tensor the same shape, and a graph's input the same strides.

    For other tensors oneDNN uses the strides that their maker gives, so readers may give others.
    """
    made = document.produced()
    seen: dict[int, tuple[Place, TensorRecord]] = {}
    for place, tensor in document.records():
        where, other = seen.setdefault(tensor.id, (place, tensor))
        if tensor == other:
            continue
        if not _same(tensor.dims, other.dims):
            raise GraphFormatError(
                f"{place}.shape: tensor {tensor.id} is {list(tensor.shape)} here and "
                f"{list(other.shape)} in {where}"
            )
        if tensor.id not in made and not _same(tensor.strides, other.strides):
            raise GraphFormatError(
                f"{place}.stride: tensor {tensor.id} has {list(tensor.stride)} here and "
                f"{list(other.stride)} in {where}"
            )


def _same(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> bool:
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(
        a < 0 or b < 0 or a == b for a, b in zip(one, other, strict=True)
    )
