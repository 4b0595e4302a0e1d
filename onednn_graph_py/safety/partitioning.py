"""Ops that oneDNN's search for fusions must not see together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from .nodes import NodeLike

__all__ = ["partitioned_apart"]

_Node = TypeVar("_Node", bound=NodeLike)


def partitioned_apart(nodes: Sequence[_Node]) -> list[_Node]:
    """Ops that must be in a graph of their own, because the mirror refuses to partition them.

    A Dequantize before a Convolution whose weights no op makes may crash oneDNN's search for
    fusions (`onednn_graph_py.safety.check_partitioning`).
    """
    made = {v.id: n for n in nodes for v in n.outputs}
    apart: list[_Node] = []
    for node in nodes:
        if node.kind != "Convolution" or node.inputs[1].id in made:
            continue
        maker = made.get(node.inputs[0].id)
        if maker is not None and maker.kind == "Dequantize" and maker not in apart:
            apart.append(maker)
    return apart
