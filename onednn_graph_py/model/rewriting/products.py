"""Rules that take into a product what stands before or behind it: zeros, rows, own Dequantizes."""

from collections.abc import Set
from dataclasses import replace

import numpy as np

from ...ops.lookup import with_trait
from ..building.value import Node, Value, new_id
from .rule import Dims, Ops, Rule

_SUMS = ("Add", "BiasAdd")


def is_behind_a_product(ops: Ops, value: Value) -> bool:
    """Return whether a product makes a value, with what oneDNN can fuse behind it."""
    return is_behind(ops, value, with_trait("product"))


def is_behind(ops: Ops, value: Value, kinds: Set[str]) -> bool:
    """Return whether an op of some kinds makes a value, with what oneDNN can fuse behind it."""
    node = ops.maker(value)
    if node is None or not ops.is_read_once(value):
        return False
    if node.kind in kinds:
        return True
    fuses = node.kind in with_trait("epilogue") | with_trait("channelwise")
    return fuses and any(is_behind(ops, v, kinds) for v in node.inputs)


def _is_weight(ops: Ops, value: Value) -> bool:
    """Return whether a value is a constant, perhaps converted or with its elements moved."""
    while value.data is None:
        node = ops.maker(value)
        if node is None or node.kind not in with_trait("converts") | with_trait("keeps"):
            return False
        value = node.inputs[0]
    return True


def _channels(product: Node) -> int:
    """Return the dim of a product's result to which its bias belongs."""
    first = product.kind != "MatMul" and product.attr("data_format") == "NCX"
    return 1 if first else len(product.outputs[0].shape or ()) - 1


def _row(ops: Ops, value: Value, dims: Dims, axis: int) -> Value | None:
    """Return a value that is added to all but one of the dims as a row of that dim."""
    shape, size = value.shape or (), dims[axis]
    if len(shape) > len(dims):
        return None
    wide = (1,) * (len(dims) - len(shape)) + shape
    if size != -1 and value.data is not None and value.data.size == 1:
        return ops.constant(np.repeat(value.data, size), value.dtype)
    if size == -1 or wide != tuple(size if i == axis else 1 for i in range(len(dims))):
        return None
    if shape == (size,):
        return value
    return None if value.data is None else ops.constant(value.data.reshape(-1), value.dtype)


def _with_bias(ops: Ops, node: Node) -> bool:
    """Let a product by weights add the row that is added behind it.

    oneDNN then fuses more behind it. In 16 bits the sum is rounded once.
    """
    (result,) = node.outputs
    pairs = ops.operands(result, "Add") if node.kind == "Add" else iter([node.inputs])
    for total, added in pairs:
        reshape = ops.maker(total, "StaticReshape")
        source = total if reshape is None else reshape.inputs[0]
        product = ops.maker(source, "MatMul", "Convolution", "ConvTranspose")
        if product is None or len(product.inputs) > 2 or total.shape != result.shape:
            continue
        if len(source.shape or ()) < 2:
            continue
        if not ops.is_read_once(total) or not ops.is_read_once(source):
            continue
        if {v.dtype for v in (result, source, product.inputs[0])} != {added.dtype}:
            continue
        if not _is_weight(ops, product.inputs[1]):
            continue
        dims, axis = source.shape or (), _channels(product)
        row = _bias(ops, node, added, total.shape or (), axis, dims, reshape is not None)
        if row is None:
            continue
        if product.kind == "ConvTranspose":  # it has no kernel with a bias
            if node.kind == "BiasAdd":
                return False
            form = {"data_format": product.attr("data_format")}
            ops.add("BiasAdd", (source, row), node.outputs, form)
            return True
        outputs = node.outputs if reshape is None else (ops.like(source),)
        ops.add(product.kind, (*product.inputs, row), outputs, product.attrs)
        if reshape is not None:
            ops.add("StaticReshape", outputs, node.outputs, reshape.attrs)
        return True
    return False


def _bias(
    ops: Ops, node: Node, added: Value, dims: Dims, axis: int, before: Dims, reshaped: bool
) -> Value | None:
    """Return what an op adds as a row of a product's channels."""
    if node.kind == "BiasAdd":
        own = 1 if node.attr("data_format") == "NCX" else len(dims) - 1
        return added if own == axis and not reshaped and added.shape == (dims[axis],) else None
    if reshaped and (axis != len(before) - 1 or dims[-1] != before[-1]):
        return None
    return _row(ops, added, dims, len(dims) - 1 if reshaped else axis)


def _with_padding(ops: Ops, node: Node) -> bool:
    """Let a convolution pad with the zeros that are joined to its input."""
    if node.attr("auto_pad") != "None":
        return False
    source, rank = node.inputs[0], len(node.inputs[0].shape or ())
    begins, ends = [*node.attrs["pads_begin"]], [*node.attrs["pads_end"]]
    first = 1 if node.attr("data_format") == "NXC" else 2
    while (joined := ops.maker(source, "Concat")) is not None and ops.is_read_once(source):
        place = int(joined.attrs["axis"]) % rank - first
        inside = [i for i, v in enumerate(joined.inputs) if v.data is None or np.any(v.data)]
        if len(inside) != 1 or not 0 <= place < len(begins):
            break
        at = first + place
        sizes = [(v.shape or ())[at] for v in joined.inputs]
        begins[place] += sum(sizes[: inside[0]])
        ends[place] += sum(sizes[inside[0] + 1 :])
        source = joined.inputs[inside[0]]
    if source is node.inputs[0]:
        return False
    ops.same((source, *node.inputs[1:]), pads_begin=begins, pads_end=ends)
    return True


def _with_its_own_dequantize(ops: Ops, node: Node) -> bool:
    """Give an op that reads a dequantized tensor its own Dequantize.

    oneDNN computes an op in integers only if no other op reads the result of its Dequantize.
    """
    inputs = {v.id: v for v in node.inputs}
    for value in [*inputs.values()]:
        original = ops.maker(value, "Dequantize")
        readers = ops.readers(value)
        others = [i for i in readers if i is not None]
        if original is None or len(readers) < 2 or (None not in readers and min(others) == node.id):
            continue
        inputs[value.id] = copy = ops.like(value)
        parts = original.parts or (original,)
        ops.nodes.append(replace(original, id=new_id(), outputs=(copy,), parts=parts))
    if not ops.nodes:
        return False
    own = tuple(inputs[v.id] for v in node.inputs)
    ops.nodes.append(replace(node, inputs=own, parts=node.parts or (node,)))
    return True


PRODUCTS = (
    Rule("with its own Dequantize", with_trait() - {"End"}, _with_its_own_dequantize),
    Rule("with a bias", _SUMS, _with_bias),
    Rule("with paddings", ("Convolution",), _with_padding),
)
"""The rules; a Dequantize of one's own comes first, as the first that fits writes an op."""
