"""Rules that write several ops as the one op that they are, before oneDNN sees them.

oneDNN has a kernel for the one op, and patterns that fuse it; in parts it finds neither.
"""

import math
from collections.abc import Iterator, Mapping

from ..building.value import Node, Value
from .rule import Ops, Rule, number_of


def _reduced(ops: Ops, value: Value, kind: str) -> tuple[Value, int] | None:
    """Return what a value reduces along one axis, which is kept, and that axis."""
    node = ops.maker(value, kind)
    if node is None or len(node.inputs) > 1 or not node.attr("keep_dims"):
        return None
    shape, axes = node.inputs[0].shape, list(node.attr("axes") or ())
    return None if shape is None or len(axes) != 1 else (node.inputs[0], axes[0] % len(shape))


def _square_root(ops: Ops, value: Value) -> Value | None:
    """Return the value of which one is the square."""
    node = ops.maker(value, "Square", "Multiply", "Pow")
    if node is None or (node.kind == "Pow" and node.attrs["beta"] != 2):
        return None
    return node.inputs[0] if ops.equal(node.inputs[0], node.inputs[-1]) else None


def _quotients(ops: Ops, value: Value) -> Iterator[tuple[Value, Value]]:
    """Yield a numerator, and the value by whose square root it is divided."""
    divide = ops.maker(value, "Divide")
    pairs = [] if divide is None else [divide.inputs]
    for numerator, factor in ops.operands(value, "Multiply"):
        inverse = ops.maker(factor, "Reciprocal", "Pow", "Divide")
        if inverse is None:
            continue
        if inverse.kind == "Pow" and inverse.attrs["beta"] == -0.5:
            yield numerator, inverse.inputs[0]
        if (
            inverse.kind == "Reciprocal"
            or (inverse.kind == "Pow" and inverse.attrs["beta"] == -1)
            or (inverse.kind == "Divide" and number_of(inverse.inputs[0]) == 1)
        ):
            pairs.append((numerator, inverse.inputs[-1]))
    for numerator, root in pairs:
        sqrt = ops.maker(root, "Sqrt")
        if sqrt is not None:
            yield numerator, sqrt.inputs[0]


def _normalized(ops: Ops, centered: Value, shifted: Value) -> tuple[Value, float] | None:
    """Return what is normalized over the last dim, and epsilon.

    `centered` may be a value minus its mean, and `shifted` its variance plus epsilon.
    """
    difference = ops.maker(centered, "Subtract")
    if difference is None:
        return None
    x, mean = difference.inputs
    last = len(x.shape or ()) - 1
    whole = _reduced(ops, mean, "ReduceMean")
    if whole is None or not ops.equal(whole[0], x) or whole[1] != last:
        return None
    for variance, shift in ops.operands(shifted, "Add"):
        squares, epsilon = _reduced(ops, variance, "ReduceMean"), number_of(shift)
        if squares is None or epsilon is None or not epsilon > 0 or squares[1] != last:
            continue
        root = _square_root(ops, squares[0])
        if root is not None and ops.equal(root, centered):
            return x, epsilon
    return None


def _without_parameters(ops: Ops, value: Value) -> tuple[Value, float] | None:
    """Return what a value normalizes to mean 0 and variance 1, and epsilon."""
    whole = ops.maker(value, "LayerNorm")
    if whole is not None:
        last = int(whole.attr("begin_norm_axis")) % len(value.shape or (0,)) + 1
        if whole.attr("use_affine") or len(whole.outputs) > 1 or last != len(value.shape or ()):
            return None
        return whole.inputs[0], float(whole.attr("epsilon"))
    for centered, shifted in _quotients(ops, value):
        found = _normalized(ops, centered, shifted)
        if found is not None:
            return found
    return None


def _normalizations(
    ops: Ops, value: Value
) -> Iterator[tuple[tuple[Value, float] | None, tuple[Value, ...]]]:
    """Yield what may be normalized in a value, with epsilon, and gamma and beta.

    Without a summand behind it it has no gamma and beta: LayerNorm has both or none.
    """
    yield _without_parameters(ops, value), ()
    for scaled, beta in ops.operands(value, "Add"):
        if not ops.is_read_once(scaled):
            continue
        for normal, gamma in ops.operands(scaled, "Multiply"):
            if ops.is_read_once(normal):
                yield _without_parameters(ops, normal), (gamma, beta)
        for product, shifted in _quotients(ops, scaled):
            for centered, gamma in ops.operands(product, "Multiply"):
                yield _normalized(ops, centered, shifted), (gamma, beta)


def _as_layer_norm(ops: Ops, node: Node) -> bool:
    """Write a normalization in parts as LayerNorm, with the factor and the summand behind it.

    In 16 bits the whole rounds less often than its parts.
    """
    for found, parameters in _normalizations(ops, node.outputs[0]):
        if found is None:
            continue
        x, epsilon = found
        row = x.shape[-1:] if x.shape else ()
        fits = x.shape == node.outputs[0].shape and row != (-1,)
        if fits and all((p.shape, p.dtype) == (row, x.dtype) for p in parameters):
            attrs = {"keep_stats": False, "use_affine": bool(parameters), "epsilon": epsilon}
            ops.add("LayerNorm", (x, *parameters), node.outputs, attrs)
            return True
    return False


def _largest(ops: Ops, value: Value) -> tuple[Value, int] | None:
    """Return what a maximum is of, and its axis; NumPy's is twice that of the halves."""
    for most, two in ops.operands(value, "Multiply"):
        reduced = _reduced(ops, most, "ReduceMax") if number_of(two) == 2 else None
        if reduced is not None:
            return next(
                ((x, reduced[1]) for x, half in ops.operands(reduced[0], "Multiply")
                 if number_of(half) == 0.5),
                None,
            )  # fmt: skip
    return _reduced(ops, value, "ReduceMax")


def _as_softmax(ops: Ops, node: Node) -> bool:
    """Write exponentials of what lies below the maximum, divided by their sum, as SoftMax."""
    powers, total = node.inputs
    exp, summed = ops.maker(powers, "Exp"), _reduced(ops, total, "ReduceSum")
    below = None if exp is None else ops.maker(exp.inputs[0], "Subtract")
    if below is None or summed is None or not ops.equal(summed[0], powers):
        return False
    x, most = below.inputs
    largest = _largest(ops, most)
    if largest is None or not ops.equal(largest[0], x) or largest[1] != summed[1]:
        return False
    if x.shape != powers.shape:  # a constant of more dims adds some
        return False
    ops.add("SoftMax", (x,), node.outputs, {"axis": summed[1]})
    return True


def _as_rms_norm(ops: Ops, node: Node) -> bool:
    """Write what is divided by the root of its mean square as RMSNorm, with its factor.

    16-bit floats may be converted back before the factor: it is rounded once then.
    """
    (result,) = node.outputs
    for found, gamma in _root_mean_squares(ops, result):
        if found is None or len(found[0].shape or ()) < 2 or found[0].dtype != "f32":
            continue
        x, epsilon = found
        row = (result.shape or ())[-1:]
        if x.shape != result.shape or (gamma is not None and gamma.shape != row):
            continue
        scale = [] if gamma is None else [ops.cast(gamma, "f32")]
        wide = result if result.dtype == "f32" else ops.like(x)
        attrs = {"begin_norm_axis": -1, "epsilon": epsilon}
        ops.add("RMSNorm", (x, *scale), (wide,), attrs)
        if wide is not result:
            ops.add("TypeCast", (wide,), (result,), {})
        return True
    return False


def _root_mean_squares(
    ops: Ops, value: Value
) -> Iterator[tuple[tuple[Value, float] | None, Value | None]]:
    """Yield what may be divided by the root of its mean square, with epsilon, and a factor."""
    for x, shifted in _quotients(ops, value):
        yield _above_mean_square(ops, x, shifted), None
        for numerator, gamma in ops.operands(x, "Multiply"):
            yield _above_mean_square(ops, numerator, shifted), gamma
    for normal, gamma in ops.operands(value, "Multiply"):
        narrow = ops.maker(normal, "TypeCast")
        source = normal if narrow is None else narrow.inputs[0]
        whole = ops.maker(source, "RMSNorm")
        if whole is None or len(whole.inputs) > 1:
            continue
        last = int(whole.attr("begin_norm_axis")) in (-1, len(value.shape or ()) - 1)
        if last and ops.is_read_once(normal) and ops.is_read_once(source):
            yield (whole.inputs[0], float(whole.attr("epsilon"))), gamma


def _above_mean_square(ops: Ops, x: Value, shifted: Value) -> tuple[Value, float] | None:
    """Return a value, and what is added to the mean of its squares over the last dim.

    A value without its mean is left to LayerNorm, whose summand comes later.
    """
    centered = ops.maker(x, "Subtract")
    if centered is not None and _reduced(ops, centered.inputs[1], "ReduceMean") is not None:
        return None
    for mean, shift in ops.operands(shifted, "Add"):
        squares, epsilon = _reduced(ops, mean, "ReduceMean"), number_of(shift)
        if squares is None or epsilon is None or not epsilon > 0:
            continue
        if squares[1] == len(x.shape or ()) - 1 and _square_root(ops, squares[0]) is x:
            return x, epsilon
    return None


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


FUSING = (
    Rule("as a SoftMax", {"Divide"}, _as_softmax),
    Rule("as a LayerNorm", {"Divide", "Multiply", "Add"}, _as_layer_norm),
    Rule("as an RMSNorm", {"Divide", "Multiply"}, _as_rms_norm, since=(3, 11)),
    Rule("as a GELU", {"Multiply", "Divide"}, as_gelu, since=(3, 9)),
)
