"""What is added behind convolutions becomes their bias, which oneDNN adds as it sums up."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from .edits import Edits, integer, is_op, only_reader

__all__ = ["taken_in"]


def taken_in(edits: Edits) -> None:
    """Make biases of weights that are added to whole channels of convolutions without one."""
    edits.each(_take_in)


def _take_in(edits: Edits, node: ir.Node) -> None:
    if not is_op(node, "Add"):
        return
    for i in (0, 1):
        given, added = edits.of(node, i), edits.weight(edits.of(node, 1 - i))
        product = given.producer() if given is not None else None
        if added is None or product is None or given is None:
            continue
        if not is_op(product, "Conv", "ConvTranspose") or edits.of(product, 2) is not None:
            continue
        if only_reader(given) is not node:
            continue
        weight = edits.of(product, 1)
        if weight is None or weight.shape is None or added.ndim > len(weight.shape):
            continue
        groups = integer(product, "group", 1)
        dims = weight.shape
        channels = dims[0] if product.op_type == "Conv" else dims[1]
        if not isinstance(channels, int):
            continue
        channels *= 1 if product.op_type == "Conv" else groups
        whole = added.reshape([1] * (len(dims) - added.ndim) + [*added.shape])
        if whole.shape[1] not in (1, channels) or whole.size != whole.shape[1]:
            continue
        bias = np.ascontiguousarray(np.broadcast_to(whole.reshape(-1), (channels,)))
        inputs = [*product.inputs[:2], edits.constant(bias, f"{product.name}.bias")]
        made = edits.before(
            node, product.op_type, inputs, dict(product.attributes), product.version
        )
        edits.replace(node, made)
        edits.graph.remove(product, safe=True)
        return
