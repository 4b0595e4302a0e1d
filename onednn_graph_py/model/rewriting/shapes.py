"""Rules for shapes for which oneDNN has no fast kernel, but computes element by element.

In 3.7 and 3.13 that takes 40 to 500 ns for each element, a hundred times as long as otherwise.
"""

import math
from collections.abc import Sequence

from ...ops.lookup import with_attribute, with_trait
from ...ops.row import FLOATS
from ..building.foreign import ForeignNode
from ..building.value import Node, Value
from .products import is_behind, is_behind_a_product
from .rule import Dims, Ops, Rule

_BROADCAST = with_attribute("auto_broadcast") - {"Select"}
_SYMMETRIC = {"Add", "Multiply", "Maximum", "Minimum", "SquaredDifference"}
# Ops behind which oneDNN fuses a binary op, with its operand as it is.
_BEFORE = with_trait("product") | with_attribute("kernel") | {"Dropout"}
_SHORT = 8  # numbers up to which one is written again and again, rather than broadcast


def filled(ops: Ops, number: Value, x: Value) -> Value:
    """Return what broadcasts to a value in that value's shape, which may be unknown.

    Where the value is NaN the result may be NaN.
    """
    x = ops.cast(x, number.dtype)
    return ops.op("Maximum", ops.op("Minimum", x, number), number)


def _repeated(ops: Ops, value: Value, result: Dims) -> set[int]:
    """Return the dims along which a value is repeated to get a shape."""
    given = ops.shapes[value.id]
    own = (1,) * (len(result) - len(given)) + given
    return {d for d, (n, wanted) in enumerate(zip(own, result, strict=True)) if n == 1 != wanted}


def _widened(ops: Ops, value: Value, result: Dims, dims: set[int]) -> Value:
    """Repeat a value along some dims of a shape; along none if one is unknown."""
    given = ops.shapes[value.id]
    own = (1,) * (len(result) - len(given)) + given
    if not dims or any(result[d] == -1 for d in dims):
        return value
    return ops.expanded(value, tuple(result[d] if d in dims else n for d, n in enumerate(own)))


def _without_kernel(side: set[int], result: Dims) -> set[int]:
    """Return along which dims an operand has to be repeated, so that oneDNN has a kernel for it.

    There are kernels for tensors of two dims, for a number for each channel, of the batch or not,
    and where the dims behind the batch that are repeated come before all that are not.

    - `side`: the dims along which it is repeated
    """
    rank = len(result)
    whole = [d for d in range(1, rank) if d not in side and result[d] != 1]
    last = max(whole, default=0)
    if math.prod(result[last + 1 :]) < _SHORT and -1 not in result[last + 1 :]:
        return {d for d in side if d > min(whole, default=0)}
    if rank < 3:
        return set()
    if not whole:
        return {1} & side if 0 not in side else set()
    return set() if whole == [1] else {d for d in side if d > whole[0]}


def _without_slow_broadcasts(ops: Ops, node: Node) -> bool:
    """Let only the second operand be repeated, in a way for which there are kernels."""
    result = ops.shapes[node.outputs[0].id]
    operands = list(node.inputs)
    sides = [_repeated(ops, v, result) for v in operands]
    if not any(sides) or any(v.dtype not in FLOATS for v in operands):
        return False
    if all(sides):
        known = [i for i in (0, 1) if all(result[d] != -1 for d in sides[i])]
        if not known:
            return False
        operands[known[0]] = _widened(ops, operands[known[0]], result, sides[known[0]])
        sides[known[0]] = set()
    narrow = 1 if sides[1] else 0
    full = operands[1 - narrow]
    fusible = narrow or node.kind in ("Add", "Multiply")  # which oneDNN swaps itself
    if not ops.nodes and fusible and is_behind(ops, full, _BEFORE):
        return False
    dims = _without_kernel(sides[narrow], result)
    moves = node.outputs[0].dtype in FLOATS and (narrow or node.kind in _SYMMETRIC)
    has_all_dims = len(ops.shapes[full.id]) == len(result)
    if moves and has_all_dims and any(result[d] == -1 for d in dims):
        # Unknown dims can't be repeated. Before all others, they need not be.
        order = [*sorted(sides[narrow]), *(d for d in range(len(result)) if d not in sides[narrow])]
        bare = len(result) - len(ops.shapes[operands[narrow].id])
        index = [0 if d in sides[narrow] else slice(None) for d in range(bare, len(result))]
        moved = ops.op("StaticTranspose", full, order=order)
        made = ops.again(node, moved, ops.view(operands[narrow], tuple(index)))
        ops.op("StaticTranspose", made, order=[order.index(i) for i in range(len(order))])
        return True
    part = _widened(ops, operands[narrow], result, dims)
    if narrow or node.kind in _SYMMETRIC:
        if not ops.nodes and fusible:
            return False
        ops.same((full, part))
    elif node.kind == "Subtract":
        ops.op("Add", ops.op("Multiply", full, ops.scalar(-1, full)), part)
    else:
        ops.same((filled(ops, part, full), full))
    return True


def _over_last_dims(ops: Ops, node: Node) -> bool:
    """Move the dims that are reduced behind the others, and write norms as sums."""
    x, *more = node.inputs
    rank = len(ops.shapes[x.id])
    axes = sorted(int(a) % rank for a in node.attr("axes") or ())
    norm = node.kind.startswith("ReduceL") and x.dtype == "f32"
    order = [*(i for i in range(rank) if i not in axes), *axes]
    moved = order != [*range(rank)]
    reduces = math.prod(ops.shapes[x.id][a] for a in axes) != 1
    if more or not reduces or not (norm or moved):
        return False
    if rank == 5 and is_behind_a_product(ops, x):  # sums of shared heads, in gradients of attention
        return False
    if norm:
        x = ops.op("Square" if node.kind == "ReduceL2" else "Abs", x)
    if moved:
        x = ops.op("StaticTranspose", x, order=order)
    kept, last = bool(node.attr("keep_dims")), tuple(range(rank - len(axes), rank))
    kind = "ReduceSum" if norm else node.kind
    made = ops.op(kind, x, axes=last if moved else axes, keep_dims=kept)
    if node.kind == "ReduceL2" and norm:
        made = ops.op("Sqrt", made)
    if moved and kept:
        result = ops.shapes[node.outputs[0].id]
        if -1 in result:
            ops.op("StaticTranspose", made, order=[order.index(i) for i in range(rank)])
        else:
            ops.reshape(made, result)  # only dims of one move
    return True


def joined(ops: Ops, parts: Sequence[Value], axis: int, result: Value) -> None:
    """Join values along a dim: of five dims oneDNN copies them 4 times as fast as of four."""
    made = ops.value((1, *ops.shapes[result.id]), result.dtype)
    ops.add("Concat", [ops.view(v, None) for v in parts], (made,), {"axis": axis + 1})
    ops.view(made, 0, result)


def _with_five_dims(ops: Ops, node: Node) -> bool:
    """Join four dims with one more, unless all are in layouts that oneDNN chose."""
    (result,), makers = node.outputs, [ops.maker(v) for v in node.inputs]
    chosen = all(m is not None and not isinstance(m, ForeignNode) for m in makers)
    if chosen or len(ops.shapes[result.id]) != 4:
        return False
    joined(ops, node.inputs, int(node.attr("axis")) % 4, result)
    return True


SHAPES = (
    Rule("without slow broadcasts", _BROADCAST, _without_slow_broadcasts),
    Rule("over the last dims", with_trait("reduces"), _over_last_dims),
    Rule("with five dims", ("Concat",), _with_five_dims),
)
"""They come after those that look for patterns, which ops have as users write them."""
