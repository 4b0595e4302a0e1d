"""Shapes of matrix products."""

from ..call import Call, Operand
from ..terms import Shape
from .elementwise import broadcast


def _batch(of: Operand) -> Operand:
    shape = of.shape or ()
    return Operand(of.call, f"{of.name}'s batch", shape[: max(len(shape) - 2, 0)])


def matmul(call: Call) -> list[Shape]:
    """Infer (batch, M, N) from (batch, M, K) and (batch, K, N); 1-D inputs are vectors."""
    a, b = call.input(0), call.input(1)
    a.need_rank(1)
    b.need_rank(1)
    if a.rank is None or b.rank is None:
        return [None]
    transpose_a = call.attr("transpose_a") and a.rank > 1
    transpose_b = call.attr("transpose_b") and b.rank > 1
    inner = a.dim(0) if a.rank == 1 else a.dim(-2 if transpose_a else -1)
    b.need_dim(0 if b.rank == 1 else -1 if transpose_b else -2, inner, "input 0's columns")
    made = list(broadcast(_batch(a), _batch(b)) or ())
    if a.rank > 1:
        made.append(a.dim(-1 if transpose_a else -2))
    if b.rank > 1:
        made.append(b.dim(-2 if transpose_b else -1))
    if len(call.inputs) > 2:
        call.input(2).need_broadcastable(tuple(made), "the product")
        if not made:
            call.input(2).need_count(1, "the product is one number")
    return [tuple(made)]
