"""Convert ops of a graph that is being built into a `Group`, and describe them without their ids.

The layers of a model are mostly equal. oneDNN's decisions and kernels depend on nothing that
differs between them.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ... import _core
from ...base.errors import InvalidArgumentsError
from ...base.linked import linked_version
from ...ops.terms import Version, label_of
from ...safety.calls import Op, Tensor, schema_of
from ...safety.group import Group
from ..building.value import Node, Value


def _tensor(
    value: Value, shape: tuple[int, ...] | None, layout: _core.logical_tensor | None
) -> Tensor:
    if layout is None:
        dims: Any = -1 if shape is None else [_core.UNKNOWN_DIM if d < 0 else d for d in shape]
        plain = value.strides is None or shape is None or min(shape, default=0) < 0
        kind: Any = "strided" if plain else value.strides
        layout = _core.logical_tensor(value.id, value.dtype, dims, kind)
    name = layout.get_layout_type().name
    known = name == "strided" and shape and min(shape) >= 0
    strides = tuple(layout.get_strides()) if known else None
    return Tensor(value.id, value.dtype, shape, name, strides, layout, value.data)


def group_of(
    nodes: Iterable[Node],
    shapes: Mapping[int, tuple[int, ...]] | None = None,
    *,
    layouts: Mapping[int, _core.logical_tensor] | None = None,
    fpmath: str = "strict",
    apply_to_int: bool = False,
    leaving: Collection[int] = (),
    version: Version | None = None,
) -> Group:
    """Make a `Group` of nodes, in the order of their dependencies, for one partition.

    - `shapes`: by a value's id; other values have the declared ones
    - `layouts`: the logical tensors of results that are already compiled, by id
    - `leaving`: the ids of values that these nodes make and read, and that are read elsewhere too
    """
    version = version or linked_version()
    tensors: dict[int, Tensor] = {}

    def read(values: Sequence[Value]) -> tuple[Tensor, ...]:
        for value in values:
            if value.id not in tensors:
                shape = (shapes or {}).get(value.id, value.shape)
                tensors[value.id] = _tensor(value, shape, (layouts or {}).get(value.id))
        return tuple(tensors[value.id] for value in values)

    ops = [
        Op(
            node.id,
            node.kind,
            label_of(node.kind, node.name),
            read(node.inputs),
            read(node.outputs),
            {
                n: tuple(v) if isinstance(v, (list, np.ndarray)) else v
                for n, v in node.attrs.items()
            },
            schema_of(node.kind, version),
        )
        for node in nodes
    ]
    known_shapes = {t.id: t.shape for t in tensors.values()}
    return Group(ops, known_shapes, {}, fpmath, apply_to_int, leaving)


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


Facts = tuple[Any, ...]
"""All of a logical tensor but its id: data type, dims, layout and property."""


def facts_of(lt: _core.logical_tensor) -> Facts:
    """Return all of a logical tensor but its id."""
    return lt.get_data_type().name, lt.get_dims(), layout_of(lt), lt.get_property_type().name
