"""Groups of nodes that become the one op that they stand for.

Exporters for older opsets, and those that decompose, write GELU, normalizations and attention in
parts. oneDNN has ops for the whole, or fuses the parts only as its own definitions order them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import onnx_ir as ir

from .attention_rules import attention_rules, swap_rules
from .edits import is_op
from .matching import Rule, is_close, is_float

VERSIONS = {
    "Gelu": 20,
    "Attention": 23,
    "Transpose": 13,
}
"""The opsets of what is made; the rest of a model keeps its own."""


def rewrite(model: ir.Model) -> None:
    """Rewrite a model in place."""
    from onnxscript.rewriter import pattern

    there = {n.op_type for n in model.graph if n.domain == ""}
    rules = [
        pattern.RewriteRule(find, put, _safely(check))
        for needed, made in RULES
        if needed in there
        for find, put, check in made(pattern)
    ]
    if not rules:
        return
    _constants_right(model)
    before = set(model.graph)
    pattern.RewriteRuleSet(rules).apply_to_model(model)
    for node in model.graph:
        if node not in before and node.domain == "" and node.version is None:
            node.version = VERSIONS.get(node.op_type)


def _safely(check: Callable[..., bool]) -> Callable[..., bool]:
    """Return a condition that does not hold for f64, nor for attributes of other types.

    The type of a value between nodes may be unknown, but those of constants are known.
    """

    def asked(*arguments: Any, **bound: Any) -> bool:
        if any(isinstance(v, ir.Value) and v.dtype is ir.DataType.DOUBLE for v in bound.values()):
            return False
        try:
            return check(*arguments, **bound)
        except Exception:  # what runs the nodes tells what is wrong with them
            return False

    return asked


def _constants_right(model: ir.Model) -> None:
    """Write weights as the second operand, so that rules need not look for both orders."""
    for node in model.graph:
        if is_op(node, "Add", "Mul") and len(node.inputs) == 2:
            left, right = node.inputs
            if left is None or right is None or not left.is_initializer():
                continue
            if not right.is_initializer():
                node.replace_input_with(0, right)
                node.replace_input_with(1, left)


# -- GELU


HALVED = 6  # the ways to write `0.5 * x * factor`


def _halved(op: Any, form: int, x: Any, factor: Any, either: Any, half: Any) -> Any:
    """Return one of the ways, with constants on the right."""
    if form == 0:
        return op.Mul(either(x, factor), half)
    if form == 1:
        return op.Div(either(x, factor), half)
    left, right = (op.Mul(x, half), factor) if form < 4 else (op.Mul(factor, half), x)
    return op.Mul(left, right) if form % 2 else op.Mul(right, left)


def _is_half(value: ir.Value, form: int) -> bool:
    return is_close(value, 2 if form == 1 else 0.5)


def _either(pattern: Any, op: Any, tag: str) -> Callable[[Any, Any], Any]:
    """Return what makes a product in either order."""
    return lambda x, y: pattern.OrValue([op.Mul(x, y), op.Mul(y, x)], tag_var=tag)


def _gelu_rules(pattern: Any) -> list[Rule]:
    """Find GELU by the error function."""

    def of(form: int) -> Rule:
        def find(op: Any, x: Any, root: Any, one: Any, half: Any) -> Any:
            inner = pattern.OrValue([op.Div(x, root), op.Mul(x, root)], tag_var="how")
            factor = op.Add(op.Erf(inner), one)
            return _halved(op, form, x, factor, _either(pattern, op, "order"), half)

        def check(context: Any, x: Any, root: Any, one: Any, half: Any, how: Any, **_: Any) -> bool:
            by = math.sqrt(2) if how == 0 else math.sqrt(0.5)
            return is_float(x) and is_close(root, by) and is_close(one, 1) and _is_half(half, form)

        def put(op: Any, x: Any, **_: Any) -> Any:
            return op.Gelu(x, approximate="none")

        return find, put, check

    return [of(i) for i in range(HALVED)]


RULES: list[tuple[str, Callable[[Any], list[Rule]]]] = [
    ("Erf", _gelu_rules),
    ("IsNaN", swap_rules),
    ("IsNaN", attention_rules),
]
"""The rules, and an op without which none of them finds anything."""
