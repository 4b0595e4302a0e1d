"""Describe groups of ops without their ids, so that equal groups are recognized.

The layers of a model are mostly equal. oneDNN's decisions and kernels depend on nothing that
differs between them.
"""

from collections.abc import Callable, Collection, Hashable, Sequence

from ... import _core
from ...base.errors import InvalidArgumentsError
from ..building.value import Node, Value


def values_of(nodes: Sequence[Node]) -> tuple[Value, ...]:
    """Return the values of a group, each once, in an order that equal groups share."""
    return tuple({v.id: v for n in nodes for v in (*n.inputs, *n.outputs)}.values())


def form_of(
    nodes: Sequence[Node], leaving: Collection[int], constant: Callable[[Value], Hashable]
) -> Hashable:
    """Describe a group by all that oneDNN sees of it, except for shapes, ids and names.

    - `leaving`: the ids of values that the group makes and reads, and that are read elsewhere too
    - `constant`: tells a constant from variables, and from constants that oneDNN may treat in
      another way
    """
    values = values_of(nodes)
    number = {v.id: i for i, v in enumerate(values)}
    ops = tuple(
        (n.signature, tuple(number[v.id] for v in n.inputs), tuple(number[v.id] for v in n.outputs))
        for n in nodes
    )
    return ops, tuple((v.dtype, v.strides, constant(v), v.id in leaving) for v in values)


def layout_of(lt: _core.logical_tensor) -> tuple[int, ...] | int:
    """Return a logical tensor's strides, or the id of an opaque layout."""
    try:
        return tuple(lt.get_strides())
    except InvalidArgumentsError:  # it is opaque
        return lt.get_layout_id()


def renamed(lt: _core.logical_tensor, id: int) -> _core.logical_tensor:
    """Return an equal logical tensor with another id."""
    if lt.get_id() == id:
        return lt
    layout = layout_of(lt)
    facts = (id, lt.get_data_type(), lt.get_dims())
    return _core.logical_tensor(*facts, layout, lt.get_property_type())
