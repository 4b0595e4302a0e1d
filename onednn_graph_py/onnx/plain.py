"""The part of a model's graph that is oneDNN's ops alone, as files of graphs need: `plain`."""

from collections.abc import Mapping, Sequence

from ..base.errors import InvalidGraphError
from ..model.building.builder import GraphBuilder
from ..model.building.foreign import ForeignNode
from ..model.building.value import Node, Value
from ..model.rewriting.rebuild import Copy, Edit, Writer, rebuild


def _transposed(copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    return (copy.add("StaticTranspose", inputs, {"order": list(node.attrs["order"])}),)


def _reshaped(copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    shape = list(node.outputs[0].shape or ())
    return (copy.add("StaticReshape", inputs, {"shape": shape, "special_zero": False}),)


_WRITERS: Mapping[str, Writer] = {"Transpose": _transposed, "Squeeze": _reshaped}
"""oneDNN's ops for views; there are none for the others."""


def plain(builder: GraphBuilder) -> GraphBuilder:
    """Return a graph without host steps and views.

    What they make is an input of the graph, and what they read is an output. Views that oneDNN has
    an op for become that op.
    """
    nodes: Sequence[Node] = builder.nodes
    kept = [i for i, n in enumerate(nodes) if not isinstance(n, ForeignNode) or n.kind in _WRITERS]
    if all(isinstance(nodes[i], ForeignNode) for i in kept):
        raise InvalidGraphError(
            "oneDNN computes no part of the graph, so there is nothing to write"
        )
    writers = {i: _WRITERS[nodes[i].kind] for i in kept if isinstance(nodes[i], ForeignNode)}
    return rebuild(builder, Edit(nodes=writers), only=frozenset(kept)).builder
