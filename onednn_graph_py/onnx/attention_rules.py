"""Attention that exporters write in parts, with the transpositions and factors around it."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from .edits import is_op
from .matching import Rule, is_float, number_of


def swap_rules(pattern: Any) -> list[Rule]:
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
            plain = math.prod(shape[:2])
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
        return [None] if number_of(part) == -1 else None
    node = part.producer()
    if is_op(node, "Slice"):
        assert node is not None
        shape = node.inputs[0].producer() if node.inputs[0] is not None else None
        limits = [number_of(v) for v in node.inputs[1:3]]
        if not is_op(shape, "Shape") or shape.inputs[0] is not x or None in limits:  # type: ignore[union-attr]
            return None
        start = shape.attributes.get("start")  # type: ignore[union-attr]
        if len(node.inputs) > 3 and number_of(node.inputs[3]) not in (None, 0):
            return None
        if (start is not None and start.as_int()) or "end" in shape.attributes:  # type: ignore[union-attr]
            return None
        taken = slice(*(max(min(int(n or 0), 1 << 62), -(1 << 62)) for n in limits))
        return [*range(4)][taken]
    return None


def attention_rules(pattern: Any) -> list[Rule]:
    """Find attention whose rows without a key are 0, which exporters write with IsNaN."""

    def of(masked: bool) -> Rule:
        def whole(op: Any, q: Any, k: Any, v: Any, zero: Any, mask: Any = None) -> Any:
            scores = op.MatMul(q, k)
            if mask is not None:
                scores = pattern.OrValue(
                    [op.Add(scores, mask), op.Add(mask, scores)], tag_var="order"
                )
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
                and number_of(zero) == 0
                and is_float(q)
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
            number, other = number_of(node.inputs[i]), node.inputs[1 - i]
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
