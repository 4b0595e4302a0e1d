"""Groups of nodes that become the one op that they stand for.

Exporters for older opsets, and those that decompose, write GELU, normalizations and attention in
parts. oneDNN has ops for the whole, or fuses the parts only as its own definitions order them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import onnx_ir as ir

from .edits import is_op

__all__ = ["rewrite"]

VERSIONS = {
    "Gelu": 20,
    "LayerNormalization": 17,
    "RMSNormalization": 23,
    "Attention": 23,
    "Transpose": 13,
}
"""The opsets of what is made; the rest of a model keeps its own."""

FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)

CUBIC = 0.044715
INNER = math.sqrt(2 / math.pi)


def rewrite(model: ir.Model) -> None:
    """Rewrite a model in place."""
    from onnxscript.rewriter import pattern

    there = {n.op_type for n in model.graph if n.domain == ""}
    rules = [
        pattern.RewriteRule(*rule)
        for needed, made in ROOMS
        if needed in there
        for rule in made(pattern)
    ]
    if not rules:
        return
    before = set(model.graph)
    pattern.RewriteRuleSet(rules, commute=True).apply_to_model(model)
    for node in model.graph:
        if node not in before and node.domain == "" and node.version is None:
            node.version = VERSIONS.get(node.op_type)


Rule = tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]
"""What is looked for, what is put there instead, and a condition."""


def _number(value: ir.Value | None) -> float | None:
    """Return the number of a constant with one element."""
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    array = value.const_value.numpy()
    return float(array.reshape(-1)[0]) if array.size == 1 else None


def _is(value: ir.Value | None, number: float, tolerance: float = 1e-3) -> bool:
    """Return whether a constant is a number, as an exporter may have rounded it."""
    found = _number(value)
    return found is not None and math.isclose(found, number, rel_tol=tolerance)


def _is_float(x: ir.Value) -> bool:
    return x.dtype is None or x.dtype in FLOATS


# -- GELU


def _halves(op: Any, x: Any, factor: Any) -> list[Callable[[], Any]]:
    """Return the ways to write ``0.5 * x * factor``."""
    return [
        lambda half: op.Mul(op.Mul(x, factor), half),
        lambda half: op.Mul(op.Mul(x, half), factor),
        lambda half: op.Mul(x, op.Mul(factor, half)),
        lambda half: op.Div(op.Mul(x, factor), half),
    ]


def _gelu_rules(pattern: Any) -> list[Rule]:
    """Find GELU by the error function."""

    def of(form: int) -> Rule:
        def find(op: Any, x: Any, root: Any, one: Any, half: Any) -> Any:
            inner = pattern.OrValue([op.Div(x, root), op.Mul(x, root)], tag_var="how")
            return _halves(op, x, op.Add(op.Erf(inner), one))[form](half)

        def check(context: Any, x: Any, root: Any, one: Any, half: Any, how: Any, **_: Any) -> bool:
            by = math.sqrt(2) if how == 0 else math.sqrt(0.5)
            return (
                _is_float(x)
                and _is(root, by)
                and _is(one, 1)
                and _is(half, 2 if form == 3 else 0.5)
            )

        def put(op: Any, x: Any, **_: Any) -> Any:
            return op.Gelu(x, approximate="none")

        return find, put, check

    return [of(i) for i in range(4)]


def _tanh_gelu_rules(pattern: Any) -> list[Rule]:
    """Find GELU by the hyperbolic tangent."""

    def of(form: int, factored: bool) -> Rule:
        def find(op: Any, x: Any, three: Any, cubic: Any, inner: Any, one: Any, half: Any) -> Any:
            if factored:  # x * (1 + c * x * x)
                square = pattern.OrValue(
                    [op.Mul(op.Mul(x, cubic), x), op.Mul(op.Mul(x, x), cubic)], tag_var="order"
                )
                total = op.Mul(x, op.Add(square, three))
            else:
                cube = pattern.OrValue([op.Pow(x, three), op.Mul(op.Mul(x, x), x)], tag_var="power")
                total = op.Add(x, op.Mul(cube, cubic))
            return _halves(op, x, op.Add(op.Tanh(op.Mul(total, inner)), one))[form](half)

        def check(
            context: Any, x: Any, cubic: Any, inner: Any, one: Any, half: Any, **bound: Any
        ) -> bool:
            three = bound.get("three")
            return (
                _is_float(x)
                and (three is None or _is(three, 1 if factored else 3))
                and _is(cubic, CUBIC)
                and _is(inner, INNER)
                and _is(one, 1)
                and _is(half, 0.5)
            )

        def put(op: Any, x: Any, **_: Any) -> Any:
            return op.Gelu(x, approximate="tanh")

        return find, put, check

    return [of(i, f) for i in range(3) for f in (False, True)]


# -- normalizations


def _mean_of_last(value: ir.Value) -> bool:
    """Return whether a ReduceMean is over the last axis, and keeps it."""
    node = value.producer()
    if node is None:
        return False
    given = node.attributes.get("axes")
    axes: Sequence[int] | None = None if given is None else given.as_ints()
    if axes is None and len(node.inputs) > 1 and node.inputs[1] is not None:
        array = node.inputs[1].const_value
        axes = None if array is None else [int(a) for a in array.numpy().reshape(-1)]
    keep = node.attributes.get("keepdims")
    if axes is None or len(axes) != 1 or (keep is not None and not keep.as_int()):
        return False
    x = node.inputs[0]
    rank = None if x is None or x.shape is None else len(x.shape)
    return axes[0] == -1 or (rank is not None and axes[0] == rank - 1)


def _is_row(value: ir.Value | None) -> bool:
    """Return whether a value is a weight of one dim with more than one element."""
    if value is None or value.const_value is None or value.is_graph_input():
        return False
    return len(value.const_value.shape) == 1 and value.const_value.size > 1


def _same_type(*values: ir.Value) -> bool:
    return len({v.dtype for v in values if v.dtype is not None}) <= 1


def _layer_norm_rules(pattern: Any) -> list[Rule]:
    def of(with_bias: bool) -> Rule:
        def scaled(op: Any, x: Any, two: Any, eps: Any, scale: Any) -> Any:
            apart = op.Sub(x, op.ReduceMean(x, _allow_other_inputs=True, _outputs=["mean"]))
            squares = pattern.OrValue([op.Pow(apart, two), op.Mul(apart, apart)], tag_var="power")
            variance = op.ReduceMean(squares, _allow_other_inputs=True, _outputs=["variance"])
            deviation = op.Sqrt(op.Add(variance, eps))
            normal = pattern.OrValue(
                [op.Div(apart, deviation), op.Mul(apart, op.Reciprocal(deviation))],
                tag_var="quotient",
            )
            return op.Mul(normal, scale)

        if with_bias:

            def find(op: Any, x: Any, two: Any, eps: Any, scale: Any, bias: Any) -> Any:
                return op.Add(scaled(op, x, two, eps, scale), bias)

        else:

            def find(op: Any, x: Any, two: Any, eps: Any, scale: Any) -> Any:  # type: ignore[misc]
                return scaled(op, x, two, eps, scale)

        def check(
            context: Any, x: Any, eps: Any, scale: Any, mean: Any, variance: Any, **bound: Any
        ) -> bool:
            two, bias = bound.get("two"), bound.get("bias")
            return (
                _is_float(x)
                and _number(eps) is not None
                and (two is None or _is(two, 2))
                and _mean_of_last(mean)
                and _mean_of_last(variance)
                and _is_row(scale)
                and (bias is None or _is_row(bias))
                and _same_type(x, scale, *([] if bias is None else [bias]))
            )

        def put(op: Any, x: Any, eps: Any, scale: Any, **bound: Any) -> Any:
            given = [x, scale, *([bound["bias"]] if with_bias else [])]
            return op.LayerNormalization(*given, axis=-1, epsilon=_number(eps))

        return find, put, check

    return [of(True), of(False)]


def _rms_norm_rules(pattern: Any) -> list[Rule]:
    def of(narrow: bool) -> Rule:
        def find(op: Any, x: Any, two: Any, eps: Any, scale: Any) -> Any:
            wide = op.Cast(x, to=int(ir.DataType.FLOAT)) if narrow else x
            squares = pattern.OrValue([op.Pow(wide, two), op.Mul(wide, wide)], tag_var="power")
            mean = op.ReduceMean(squares, _allow_other_inputs=True, _outputs=["mean"])
            root = op.Sqrt(op.Add(mean, eps))
            normal = pattern.OrValue(
                [
                    op.Mul(wide, op.Reciprocal(root)),
                    op.Div(wide, root),
                    op.Mul(wide, op.Div(1.0, root)),
                ],
                tag_var="quotient",
            )
            return op.Mul(op.Cast(normal, _outputs=["back"]) if narrow else normal, scale)

        def check(context: Any, x: Any, eps: Any, scale: Any, mean: Any, **bound: Any) -> bool:
            two, back = bound.get("two"), bound.get("back")
            if back is not None:
                to = back.producer().attributes["to"].as_int()
                if x.dtype not in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16) or to != x.dtype:
                    return False
            return (
                _is_float(x)
                and _number(eps) is not None
                and (two is None or _is(two, 2))
                and _mean_of_last(mean)
                and _is_row(scale)
                and _same_type(x, scale)
            )

        def put(op: Any, x: Any, eps: Any, scale: Any, **_: Any) -> Any:
            return op.RMSNormalization(x, scale, axis=-1, epsilon=_number(eps), stash_type=1)

        return find, put, check

    return [of(False), of(True)]


# -- attention


def _swap_rules(pattern: Any) -> list[Rule]:
    """Find the transposition of the last two dims that is written for any number of dims."""

    def find(op: Any, x: Any, first: Any, second: Any) -> Any:
        flat = op.Reshape(x, first)
        return op.Reshape(op.Transpose(flat, perm=[0, 2, 1]), second)

    def check(context: Any, x: Any, first: Any, second: Any, **_: Any) -> bool:
        if x.shape is None or len(x.shape) != 4:
            return False
        return _dims(first, x) == [None, 2, 3] and _dims(second, x) == [0, 1, 3, 2]

    def put(op: Any, x: Any, **_: Any) -> Any:
        return op.Transpose(x, perm=[0, 1, 3, 2])

    return [(find, put, check)]


def _dims(target: ir.Value, x: ir.Value) -> list[int | None] | None:
    """Return which dims of a tensor a shape is made of, None for -1; None if it is another."""
    shape = x.shape
    assert shape is not None
    node = target.producer()
    if target.const_value is not None:
        sizes = [int(d) for d in target.const_value.numpy().reshape(-1)]
        if any(not isinstance(d, int) for d in shape):
            return None
        if len(sizes) == 3:
            plain = math.prod(shape[:2])  # type: ignore[type-var]
            fits = sizes[0] in (-1, plain) and sizes[1:] == [*shape[2:]]
            return [None, 2, 3] if fits else None
        return [0, 1, 3, 2] if sizes == [shape[0], shape[1], shape[3], shape[2]] else None
    if node is None or not is_op(node, "Concat"):
        return None
    made: list[int | None] = []
    for part in node.inputs:
        found = _part(part, x)
        if found is None:
            return None
        made += found
    return made


def _part(part: ir.Value | None, x: ir.Value) -> list[int | None] | None:
    """Return the dims of a tensor of rank 4 that a slice of its shape holds."""
    if part is None:
        return None
    if part.const_value is not None:
        return [None] if _number(part) == -1 else None
    node = part.producer()
    if is_op(node, "Slice"):
        assert node is not None
        shape = node.inputs[0].producer() if node.inputs[0] is not None else None
        limits = [_number(v) for v in node.inputs[1:3]]
        if not is_op(shape, "Shape") or shape.inputs[0] is not x or None in limits:  # type: ignore[union-attr]
            return None
        start = shape.attributes.get("start")  # type: ignore[union-attr]
        if len(node.inputs) > 3 and _number(node.inputs[3]) not in (None, 0):
            return None
        if (start is not None and start.as_int()) or "end" in shape.attributes:  # type: ignore[union-attr]
            return None
        taken = slice(*(max(min(int(n or 0), 1 << 62), -(1 << 62)) for n in limits))
        return [*range(4)][taken]
    return None


def _attention_rules(pattern: Any) -> list[Rule]:
    """Find attention whose rows without a key are 0, which exporters write with IsNaN."""

    def of(masked: bool) -> Rule:
        def whole(op: Any, q: Any, k: Any, v: Any, zero: Any, mask: Any = None) -> Any:
            scores = op.MatMul(q, k)
            if mask is not None:
                scores = op.Add(scores, mask)
            weights = op.Softmax(scores, axis=-1)
            return op.MatMul(op.Where(op.IsNaN(weights), zero, weights), v)

        if masked:

            def find(op: Any, q: Any, k: Any, v: Any, zero: Any, mask: Any) -> Any:
                return whole(op, q, k, v, zero, mask)

        else:

            def find(op: Any, q: Any, k: Any, v: Any, zero: Any) -> Any:  # type: ignore[misc]
                return whole(op, q, k, v, zero)

        def check(context: Any, q: Any, k: Any, v: Any, zero: Any, **_: Any) -> bool:
            ranks = [None if x.shape is None else len(x.shape) for x in (q, k, v)]
            key, _factor = _unscaled(k)
            return (
                ranks == [4, 4, 4]
                and _number(zero) == 0
                and _is_float(q)
                and _swapped(key) is not None
            )

        def put(op: Any, q: Any, k: Any, v: Any, **bound: Any) -> Any:
            query, first = _unscaled(q)
            key, second = _unscaled(k)
            swapped = _swapped(key)
            given = [query, swapped, v, *([bound["mask"]] if masked else [])]
            return op.Attention(*given, scale=first * second)

        return find, put, check

    return [of(True), of(False)]


def _unscaled(x: ir.Value) -> tuple[ir.Value, float]:
    """Return what is multiplied by a constant, and that."""
    node = x.producer()
    if is_op(node, "Mul") and node is not None:
        for i in (0, 1):
            number, other = _number(node.inputs[i]), node.inputs[1 - i]
            if number is not None and other is not None:
                return other, number
    return x, 1.0


def _swapped(x: ir.Value) -> ir.Value | None:
    """Return what is transposed in its last two dims."""
    node = x.producer()
    if not is_op(node, "Transpose") or node is None:
        return None
    order = node.attributes.get("perm")
    if order is None or [*order.as_ints()] != [0, 1, 3, 2]:
        return None
    return node.inputs[0]


ROOMS: list[tuple[str, Callable[[Any], list[Rule]]]] = [
    ("Erf", _gelu_rules),
    ("Tanh", _tanh_gelu_rules),
    ("Sqrt", _layer_norm_rules),
    ("Sqrt", _rms_norm_rules),
    ("IsNaN", _swap_rules),
    ("IsNaN", _attention_rules),
]
"""The rules, and an op without which none of them finds anything."""
