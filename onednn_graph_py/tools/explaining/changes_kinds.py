"""Changes that replace an op by others that compute the same, for which oneDNN has kernels."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ...model.building.value import Node, Value, is_whole
from ...model.rewriting.rebuild import Copy, Writer
from ...ops.lookup import with_attribute, with_trait
from ...ops.terms import shape_text
from .changes import Around, Candidate, called

__all__ = ["other_kinds"]

_OVER_LAST_DIMS = with_trait("normalizes") & with_attribute("begin_norm_axis")


def _one_of(
    kinds: tuple[str, ...], copy: Copy, node: Node, inputs: tuple[Value, ...]
) -> tuple[Value, ...]:
    """Write a chain of ops with one input each."""
    value = inputs[0]
    for i, kind in enumerate(kinds):
        name = node.name if i == len(kinds) - 1 else ""
        value = copy.instead(kind, [value], name=name or None)
    return (value,)


def _one_over(power: float, copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    below = inputs[0]
    if power == -0.5:
        below = copy.instead("Sqrt", [below])
    elif power == -2:
        below = copy.instead("Square", [below])
    one = copy.constant(np.ones((1,) * max(1, len(below.shape or ()))), below.dtype)
    return (copy.instead("Divide", [one, below], name=node.name or None),)


def _cube(copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    square = copy.instead("Square", inputs)
    return (copy.instead("Multiply", [square, inputs[0]], name=node.name or None),)


def _times_one(copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    (value,) = copy.same(node, inputs)
    one = copy.constant(np.ones((1,) * max(1, len(value.shape or ()))), value.dtype)
    return (copy.add("Multiply", [value, one]),)


def _pow(node: Node) -> Iterator[tuple[str, Writer]]:
    beta = node.attrs.get("beta")
    if beta == 2:
        yield "Square", partial(_one_of, ("Square",))
    elif beta == 0.5:
        yield "Sqrt", partial(_one_of, ("Sqrt",))
    elif beta == 3:
        yield "Square and Multiply", _cube
    elif beta == 4:
        yield "Square and Square", partial(_one_of, ("Square",) * 2)
    elif beta in (-1, -0.5, -2):
        before = {-0.5: "Sqrt and ", -2: "Square and "}.get(beta, "")
        yield f"{before}Divide of 1 by it", partial(_one_over, beta)


def _summed(copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    rank = len(inputs[0].shape or ())
    last = node.attr("data_format") == "NXC"
    channels = rank - 1 if last else 1
    axes = tuple(i for i in range(rank) if i != channels)
    attrs = {"axes": axes, "keep_dims": False}
    return (copy.instead("ReduceSum", inputs, attrs, name=node.name or None),)


def _minus(copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    """Write a difference as the second operand times -1, plus the first."""
    minus_one = copy.constant(-np.ones((1,) * max(1, len(inputs[1].shape or ()))), inputs[1].dtype)
    negative = copy.instead("Multiply", [inputs[1], minus_one])
    return (copy.instead("Add", [negative, inputs[0]], name=node.name or None),)


def _squared(copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    difference = copy.instead("Subtract", inputs)
    return (copy.instead("Square", [difference], name=node.name or None),)


def _added_bias(copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    data, bias = inputs
    rank = len(data.shape or ())
    last = node.attr("data_format") == "NXC"
    shape = (1,) * (rank - 1) + (-1,) if last else (1, -1) + (1,) * (rank - 2)
    bias = _as_shape(copy, bias, shape)
    return (copy.instead("Add", [data, bias], name=node.name or None),)


def _as_shape(copy: Copy, value: Value, shape: tuple[int, ...]) -> Value:
    """Give a constant another shape, or reshape any other value with a StaticReshape."""
    if value.data is not None and value.dtype not in ("s4", "u4"):
        return copy.constant(np.asarray(value.data).reshape(shape), value.dtype)
    made: Value = copy.add("StaticReshape", [value], {"shape": shape, "special_zero": False})
    return made


def _as_bias(copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    """Write a reduction over dims of 1 as a reshape."""
    shape = node.outputs[0].shape
    attrs = {"shape": shape, "special_zero": False}
    return (copy.instead("StaticReshape", inputs[:1], attrs, name=node.name or None),)


def _flattened(first: int, copy: Copy, node: Node, inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    """Write a normalization over several dims as one over a single dim."""
    shape = node.inputs[0].shape or ()
    flat = (*shape[:first], math.prod(shape[first:]))
    data = copy.add("StaticReshape", inputs[:1], {"shape": flat, "special_zero": False})
    parameters = [_as_shape(copy, v, (flat[-1],)) for v in inputs[1:]]
    attrs = {k: v for k, v in node.attrs.items() if k != "begin_norm_axis"}
    made = copy.instead(node.kind, [data, *parameters], attrs, name=node.name or None)
    results = made if isinstance(made, tuple) else (made,)
    back = {"shape": shape, "special_zero": False}
    return (copy.add("StaticReshape", results[:1], back), *results[1:])


def _transposed(
    flags: dict[int, str], copy: Copy, node: Node, inputs: tuple[Value, ...]
) -> tuple[Value, ...]:
    """Write a product that transposes its operands by its attributes."""
    attrs = dict(node.attrs)
    given = list(inputs)
    for i, flag in flags.items():
        maker = node.inputs[i].producer
        assert maker is not None
        given[i] = copy.values[maker.inputs[0].id]
        attrs[flag] = not node.attr(flag)
    return copy.same(node, given, attrs)


def _swaps_last_two(node: Node | None) -> bool:
    if node is None or node.kind != "StaticTranspose":
        return False
    rank = len(node.inputs[0].shape or ())
    order = [o % rank for o in node.attrs["order"]] if rank else []
    return rank > 1 and order == [*range(rank - 2), rank - 1, rank - 2]


def _of(node: Node) -> Iterator[tuple[str, Writer]]:
    """Yield other ways to write an op: a description and a writer for each."""
    shape = node.inputs[0].shape if node.inputs else None
    known = shape is not None and is_whole(shape)
    if node.kind == "Pow":
        yield from _pow(node)
    elif node.kind == "Reciprocal":
        yield "Divide of 1 by it", partial(_one_over, -1.0)
    elif node.kind == "BiasAddBackward":
        yield "ReduceSum over all dims but the channels", _summed
    elif node.kind == "Subtract":
        yield "Add of the second operand times -1 and the first", _minus
    elif node.kind == "SquaredDifference":
        yield "Subtract and Square", _squared
    elif node.kind == "BiasAdd":
        yield "Add of the bias in the data's rank", _added_bias
    elif node.kind in with_trait("reduces") and known and _reduces_ones(node):
        yield "StaticReshape, as all reduced dims are 1", _as_bias
    elif node.kind in _OVER_LAST_DIMS and known and shape is not None:
        first = int(node.attr("begin_norm_axis")) % len(shape)
        if first < len(shape) - 1:
            flat = shape_text((*shape[:first], math.prod(shape[first:])))
            yield f"{node.kind} of the same data as {flat}", partial(_flattened, first)
    elif node.kind == "MatMul":
        flags = {
            i: flag
            for i, flag in enumerate(("transpose_a", "transpose_b"))
            if _swaps_last_two(node.inputs[i].producer)
        }
        if flags:
            names = " and ".join(flags.values())
            yield f"MatMul with {names} instead of StaticTranspose", partial(_transposed, flags)


def _reduces_ones(node: Node) -> bool:
    shape: Any = node.inputs[0].shape
    axes = node.attrs.get("axes") or ()
    absolute = node.kind.startswith("ReduceL")  # a norm of one element is its absolute value
    return not absolute and bool(axes) and all(shape[a] == 1 for a in axes)


def other_kinds(around: Around) -> Iterator[Candidate]:
    """Yield candidates that write an op with others that compute the same."""
    for node in around.concerned:
        for what, writer in _of(node):
            yield Candidate(f"write {called(node)} as {what}", around.written(node, writer))
    node = around.node
    if node.kind == "Reciprocal":
        yield Candidate(
            f"multiply the result of {called(node)} by 1", around.written(node, _times_one)
        )
