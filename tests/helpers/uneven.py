"""Whether each entry of a graph's lists, such as strides, matters: `uneven`."""

from collections.abc import Iterator
from typing import Any

import numpy as np

import onednn_graph_py as og
from onednn_graph_py.model.building.foreign import ForeignNode
from onednn_graph_py.model.checking.expected import reference_values
from onednn_graph_py.reference import call_of, evaluate, round_to

_LISTS = frozenset(
    [
        "scales",
        "zps",
        "pads_begin",
        "pads_end",
        "strides",
        "dilations",
        "kernel",
        "axes",
        "output_padding",
    ]
)


def uneven(builder: og.GraphBuilder, inputs: list[np.ndarray]) -> bool:
    """Return whether each entry of the ops' lists matters: another one changes what an op makes."""
    known = reference_values(builder, inputs)
    for node in builder.nodes:
        if isinstance(node, ForeignNode):
            continue
        given = [known[v.id] for v in node.inputs]
        wanted = [(None, v.dtype) for v in node.outputs]
        for name, entries in node.attrs.items():
            for other in _others(name, entries):
                try:
                    call = call_of(node.kind, given, {**node.attrs, name: other}, wanted)
                    made = evaluate(call, given)
                except og.OneDNNError:  # it no longer fits the shapes
                    continue
                now = [round_to(m, v.dtype) for m, v in zip(made, node.outputs, strict=True)]
                before = [known[v.id] for v in node.outputs]
                if all(map(np.array_equal, now, before)):
                    return False
    return True


def _others(name: str, entries: Any) -> Iterator[tuple[Any, ...]]:
    """Change each entry of a list of numbers."""
    for i, entry in enumerate(entries if name in _LISTS else ()):
        other = () if name == "axes" else (entry * 2 if name == "scales" else entry + 1,)
        yield (*entries[:i], *other, *entries[i + 1 :])
