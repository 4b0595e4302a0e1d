"""Results that torch computes once of weights, since oneDNN has no ops for them."""

from collections.abc import Mapping

import torch
from torch import fx

from .capture import OpOverload
from .division import is_tensor, op_name, reason

KEPT = ("dequantize_per_tensor", "dequantize_per_channel")
"""Ops that stay, since oneDNN fuses them with what reads them."""

SMALL = 1 << 16
"""Results of so many elements, such as those of biases, take no memory worth a thought."""


def folded(graph: fx.Graph, weights: Mapping[fx.Node, torch.Tensor]) -> dict[fx.Node, torch.Tensor]:
    """Return all tensors of a graph that are known: unchanging inputs, and what follows from them.

    What oneDNN can compute of a weight is left to the model, which computes it once too; it fuses
    some of it with what reads it.
    """
    known = dict(weights)
    with torch.no_grad():
        for node in graph.nodes:
            if node.op != "call_function" or not isinstance(node.target, OpOverload):
                continue
            if not isinstance(node.meta.get("val"), torch.Tensor) or _is_open(node):
                continue
            inputs = node.all_input_nodes
            if not all(n in known for n in inputs):
                continue
            if op_name(node) in KEPT:
                continue
            large = node.meta["val"].numel() > SMALL and any(n in weights for n in inputs)
            if large and reason(node, known) is None:
                continue
            arguments = fx.map_arg((node.args, dict(node.kwargs)), known.__getitem__)
            known[node] = node.target(*arguments[0], **arguments[1])
    return known


def _is_open(node: fx.Node) -> bool:
    """Return whether a call gives other results at other times, or for other sizes.

    AOTAutograd's graphs have no calls that change what they read.
    """
    target = node.target
    assert isinstance(target, OpOverload)
    return (
        torch.Tag.nondeterministic_seeded in target.tags
        or any(not isinstance(d, int) for d in node.meta["val"].shape)
        or not all(is_tensor(n) for n in node.all_input_nodes)
    )
