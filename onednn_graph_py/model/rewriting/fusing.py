"""Rules that write several ops as the one op that they are, before oneDNN sees them.

oneDNN has a kernel for the one op, and patterns that fuse it; in parts it finds neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..building.builder import GraphBuilder, readers_of
from ..building.value import Node, Value
from .rule import Ops, Rule

__all__ = ["FUSING", "fused"]


def _number(value: Value) -> float | None:
    """Return the one element of a constant."""
    return None if value.data is None or value.data.size != 1 else float(value.data.item())


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
            or (inverse.kind == "Divide" and _number(inverse.inputs[0]) == 1)
        ):
            pairs.append((numerator, inverse.inputs[-1]))
    for numerator, root in pairs:
        sqrt = ops.maker(root, "Sqrt")
        if sqrt is not None:
            yield numerator, sqrt.inputs[0]


def _normalized(ops: Ops, centered: Value, shifted: Value) -> tuple[Value, float] | None:
    """Return what is normalized over the last dim to mean 0 and variance 1, and epsilon.

    Parameters
    ----------
    ops : Ops
    centered : Value
        What may be a value minus its mean.
    shifted : Value
        What may be its variance plus epsilon.
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
        squares, epsilon = _reduced(ops, variance, "ReduceMean"), _number(shift)
        if squares is None or epsilon is None or not epsilon > 0 or squares[1] != last:
            continue
        root = _square_root(ops, squares[0])
        if root is not None and ops.equal(root, centered):
            return x, epsilon
    return None


def _scaled(ops: Ops, value: Value) -> Iterator[tuple[Value, Value, tuple[Value, ...]]]:
    """Yield what may be a normalization: what is centered, its variance, gamma and beta.

    Without a summand behind it it has no gamma and beta: LayerNorm has both or none.
    """
    for centered, shifted in _quotients(ops, value):
        yield centered, shifted, ()
    for scaled, beta in ops.operands(value, "Add"):
        if not ops.is_read_once(scaled):
            continue
        for normal, gamma in ops.operands(scaled, "Multiply"):
            if ops.is_read_once(normal):
                for centered, shifted in _quotients(ops, normal):
                    yield centered, shifted, (gamma, beta)
        for product, shifted in _quotients(ops, scaled):
            for centered, gamma in ops.operands(product, "Multiply"):
                yield centered, shifted, (gamma, beta)


def _as_layer_norm(ops: Ops, node: Node) -> bool:
    """Write a normalization in parts as LayerNorm, with the factor and the summand behind it.

    In 16 bits the whole rounds less often than its parts.
    """
    for centered, shifted, parameters in _scaled(ops, node.outputs[0]):
        found = _normalized(ops, centered, shifted)
        if found is None:
            continue
        x, epsilon = found
        row = x.shape[-1:] if x.shape else ()
        if row != (-1,) and all((p.shape, p.dtype) == (row, x.dtype) for p in parameters):
            attrs = {"keep_stats": False, "use_affine": bool(parameters), "epsilon": epsilon}
            ops.add("LayerNorm", (x, *parameters), node.outputs, attrs)
            return True
    return False


def _largest(ops: Ops, value: Value) -> tuple[Value, int] | None:
    """Return what a maximum is of, and its axis; NumPy's is twice that of the halves."""
    for most, two in ops.operands(value, "Multiply"):
        reduced = _reduced(ops, most, "ReduceMax") if _number(two) == 2 else None
        if reduced is not None:
            return next(
                ((x, reduced[1]) for x, half in ops.operands(reduced[0], "Multiply")
                 if _number(half) == 0.5),
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
    ops.add("SoftMax", (x,), node.outputs, {"axis": summed[1]})
    return True


def _parts(node: Node, inputs: Sequence[Value], makers: Mapping[int, Node]) -> tuple[Node, ...]:
    """Return the ops that make a node's result of these inputs, the node last."""
    parts, read = {node.id: node}, {v.id for v in inputs}
    for part in (open_ := [node]):
        before = [makers[v.id] for v in part.inputs if v.id in makers and v.id not in read]
        open_ += [n for n in before if n.id not in parts]
        parts |= {n.id: n for n in before}
    return tuple(sorted(parts.values(), key=lambda n: n.id))


FUSING = (
    Rule("as a SoftMax", {"Divide"}, _as_softmax),
    Rule("as a LayerNorm", {"Divide", "Multiply", "Add"}, _as_layer_norm),
)


def fused(builder: GraphBuilder, nodes: Sequence[Node]) -> list[Node]:
    """Write groups of nodes as one op each.

    The ops whose results nobody reads then are still there. An op has the id of the last that it
    stands for.
    """
    readers = readers_of(builder, nodes)
    makers = {v.id: n for n in nodes for v in n.outputs}
    written = []
    for node in nodes:
        for rule in FUSING:
            if node.kind not in rule.kinds:
                continue
            ops = Ops(builder, node, {}, makers, readers)
            if rule.write(ops, node):
                (one,) = ops.nodes
                node = replace(one, id=node.id, parts=_parts(node, one.inputs, makers))
                break
        written.append(node)
    return written
