"""GELU by the hyperbolic tangent, in parts: `as_gelu`."""

import math
from collections.abc import Mapping

from ..building.value import Node, Value
from .rule import Ops, number_of

_CUBIC = 0.044715
_INNER = math.sqrt(2 / math.pi)

# Programs write the constants with a few digits.
_ROUNDED = 1e-3

# The factors of the longest product.
_MOST = 12

_PRODUCTS = ("Multiply", "Divide", "Square", "Pow")


def as_gelu(ops: Ops, node: Node) -> bool:
    """Write x * (1 + tanh(r * (x + c * x ** 3))) / 2 as the one op, in whatever order it is."""
    (result,) = node.outputs
    for shifted in _before(ops, result, 4, "Multiply", "Divide"):
        tanh = next((v for v, one in ops.operands(shifted, "Add") if number_of(one) == 1), None)
        inner = None if tanh is None else ops.maker(tanh, "Tanh")
        if inner is None:
            continue
        for x in _before(ops, inner.inputs[0], 9, "Add", *_PRODUCTS):
            outer = {x.id: 1, shifted.id: 1}
            if (
                (x.shape, x.dtype) == (result.shape, result.dtype)
                and _is_product(ops, result, 0.5, outer)
                and _is_inner(ops, inner.inputs[0], x)
            ):
                ops.add("GELU", (x,), node.outputs, {"mode": "gelu_tanh"})
                return True
    return False


def _before(ops: Ops, value: Value, most: int, *kinds: str) -> list[Value]:
    """Return a value and those of which ops of some kinds make it, the nearest first."""
    found = {value.id: value}
    open_ = [value]
    for one in open_:
        node = ops.maker(one, *kinds)
        if node is None or len(found) > most:
            continue
        fresh = [v for v in node.inputs if v.id not in found and v.data is None]
        found |= {v.id: v for v in fresh}
        open_ += fresh
    return open_


def _is_inner(ops: Ops, value: Value, x: Value) -> bool:
    """Return whether a value is r * (x + c * x ** 3), or r * x * (1 + c * x ** 2)."""
    for total in _before(ops, value, 4, "Multiply", "Divide"):
        for power, rest in ops.operands(total, "Add"):
            if rest is x and _is_product(ops, power, _CUBIC, {x.id: 3}):
                return _is_product(ops, value, _INNER, {total.id: 1})
            if number_of(rest) == 1 and _is_product(ops, power, _CUBIC, {x.id: 2}):
                return _is_product(ops, value, _INNER, {total.id: 1, x.id: 1})
    return False


def _is_product(ops: Ops, value: Value, number: float, exponents: Mapping[int, int]) -> bool:
    """Return whether a value is about a number times powers of values, given by their ids."""
    found, constant = dict[int, int](), 1.0
    open_ = [(value, 1)]
    for one, count in open_:
        node = None if one.id in exponents else ops.maker(one, *_PRODUCTS)
        factor = number_of(one)
        if factor is not None:
            constant *= factor**count
        elif node is None:
            found[one.id] = found.get(one.id, 0) + count
        elif node.kind == "Divide":
            divisor = number_of(node.inputs[1])
            if not divisor:
                return False
            constant /= divisor**count
            open_.append((node.inputs[0], count))
        elif node.kind == "Multiply":
            open_ += [(v, count) for v in node.inputs]
        else:
            exponent = float(node.attrs["beta"]) if node.kind == "Pow" else 2.0
            if exponent not in (2, 3):
                return False
            open_.append((node.inputs[0], count * int(exponent)))
        if len(open_) > _MOST:
            return False
    return found == exponents and math.isclose(constant, number, rel_tol=_ROUNDED)
