"""Rules for ops that oneDNN fuses only if they are written in another way, before it sees them."""

import numpy as np

from ...base.linked import linked_version
from ...ops.lookup import with_trait
from ..building.value import Node, Value, row_major
from .products import is_behind_a_product
from .rule import Ops, Rule, number_of

# Products of more factors than these round too often.
_MOST_FACTORS = 8


def has_few_factors(exponent: float) -> bool:
    """Return whether a power is a product of a few factors and a square root, or its inverse."""
    factors, half = divmod(abs(exponent), 1)
    return half in (0, 0.5) and 0 < factors + half <= _MOST_FACTORS


def _as_products(ops: Ops, node: Node) -> bool:
    """Write powers of whole and half exponents as products, with a square root and a quotient."""
    exponent = float(node.attrs["beta"])
    if not has_few_factors(exponent):
        return False
    factors, half = divmod(abs(exponent), 1)
    (x,) = node.inputs
    made = ops.op("Sqrt", x) if half else None
    power, left = x, int(factors)
    while left:
        if left % 2:
            made = power if made is None else ops.op("Multiply", made, power)
        left //= 2
        power = ops.op("Square", power) if left else power
    assert made is not None
    if exponent < 0:
        ops.op("Divide", ops.scalar(1, x), made)
    elif made is x:
        ops.op("Reorder", x)
    return True


def selects_by_any_shape() -> bool:
    """Return whether oneDNN's Select takes a condition of another shape than input 1.

    Before 3.8 it multiplies by it instead, which makes NaN of infinity.
    """
    return linked_version() >= (3, 8)


def _with_one_shape(ops: Ops, node: Node) -> bool:
    """Give a Select's condition and input 1 the shape of the result.

    Scores of attention stay, unless what is put in their place is infinite, or the condition
    strided.
    """
    shape = ops.shapes[node.outputs[0].id]
    shapes = [ops.shapes[v.id] for v in node.inputs]
    if selects_by_any_shape() or shapes[0] == shapes[1] or any(-1 in s for s in shapes):
        return False
    plain = node.inputs[0].strides in (None, row_major(shapes[0]))
    if plain and all(_is_finite(v) or is_behind_a_product(ops, v) for v in node.inputs[1:]):
        return False
    wide = [ops.expanded(v, shape) for v in node.inputs[:2]]
    ops.same((*wide, node.inputs[2]))
    return True


def _is_finite(value: Value) -> bool:
    return value.data is not None and bool(np.isfinite(np.float64(value.data)).all())


def _with_one_scale(ops: Ops, node: Node) -> bool:
    """Write equal scales and zero points of channels as the tensor's, which oneDNN fuses best."""
    lists = {name: node.attrs[name] for name in ("scales", "zps") if node.attrs.get(name)}
    if node.attr("qtype") != "per_channel" or any(len(set(v)) != 1 for v in lists.values()):
        return False
    ops.same(qtype="per_tensor", **{name: values[:1] for name, values in lists.items()})
    return True


def _with_its_dims_kept(ops: Ops, node: Node) -> bool:
    """Let a reduction keep dims that are added behind it, as x.sum(axis=1)[:, None] does."""
    index = node.attrs["index"]
    if any(item not in (None, (None, None, 1)) for item in index):
        return False
    (value,) = node.inputs
    between: list[Node] = []
    while ops.is_read_once(value):
        step = ops.maker(value, *with_trait("epilogue"), *with_trait("reduces"))
        if step is None:
            return False
        if step.kind in with_trait("reduces"):
            break
        operands = [v for v in step.inputs if number_of(v) is None]
        if len(operands) != 1:
            return False
        between.insert(0, step)
        (value,) = operands
    else:
        return False
    rank = len(ops.shapes[step.inputs[0].id])
    axes = sorted(int(a) % rank for a in step.attr("axes") or ())
    added = [i for i, item in enumerate(index) if item is None]
    if step.attr("keep_dims") or axes != added or len(index) != rank:
        return False
    made = ops.op(step.kind, *step.inputs, axes=axes, keep_dims=True)
    for one in between:
        made = ops.again(one, *(made if number_of(v) is None else v for v in one.inputs))
    return True


AS_PRODUCTS: Rule = Rule("as products", ("Pow",), _as_products)

EARLY = (
    Rule("with one scale", {"Dequantize", "Quantize"}, _with_one_scale),
    AS_PRODUCTS,
    Rule("with operands of one shape", ("Select",), _with_one_shape),
    Rule("with its dims kept", ("Slice",), _with_its_dims_kept),
)
