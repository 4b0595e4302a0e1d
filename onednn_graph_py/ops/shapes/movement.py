"""Shapes of ops that move or reduce elements."""

from ..call import Call
from ..terms import UNKNOWN, Shape, shape_text

_MOST = 1 << 60


def reduce(call: Call) -> list[Shape]:
    """Return the dims that are not reduced; with keep_dims also the others, as 1."""
    src, axes = call.input(0), call.attr("axes")
    if src.shape is None or axes is None:
        return [None]
    rank = len(src.shape)
    reduced = {a % rank for a in axes if -rank <= a < rank} if rank else set()
    if len(reduced) != len(axes):
        call.refuse_shape(
            f"attribute axes is {list(axes)}, which must be different axes of input 0, of rank "
            f"{rank}"
        )
    left = [d for i, d in enumerate(src.shape) if i not in reduced]
    if call.kind in ("ReduceMax", "ReduceMin") and 0 in src.shape and 0 not in left:
        call.refuse_shape(
            f"input 0 {shape_text(src.shape)} has no elements along axes {list(axes)}, of which "
            "one would be the result"
        )
    if call.attr("keep_dims"):
        return [tuple(1 if i in reduced else d for i, d in enumerate(src.shape))]
    return [tuple(left)]


def reshape(call: Call) -> list[Shape]:
    """Return the attribute shape, with -1 and special zeros replaced by dims."""
    src, listed = call.input(0), call.attr("shape")
    if listed is None:
        return [None]

    def bad(why: str) -> None:
        call.refuse_shape(f"attribute shape {list(listed)} {why}")

    if min(listed, default=0) < UNKNOWN:
        bad("has an entry below -1")
    made = list(listed)
    copied = {i for i, d in enumerate(made) if d == 0 and call.attr("special_zero")}
    for i in copied:
        if src.shape is None:
            made[i] = UNKNOWN
            continue
        if i >= len(src.shape):
            bad(f"copies a dim that input 0, {shape_text(src.shape)}, does not have")
        made[i] = src.shape[i]
    rests = [i for i, d in enumerate(listed) if d == -1]
    if len(rests) > 1:
        bad("has more than one -1")
    known = 1
    for i, d in enumerate(made):
        if i in rests:
            continue
        if d < 0:  # a copied dim is unknown, so the -1 stays unknown too
            return [tuple(made)]
        known *= d
        if known > _MOST:
            bad("has more elements than memory can hold")
    count = src.count()
    if count < 0:
        return [tuple(made)]
    if rests:
        if known == 0 or count % known:
            bad(f"does not divide input 0, {shape_text(src.shape)}")
        made[rests[0]] = count // known
    elif known != count:
        bad(f"has {known} elements, input 0, {shape_text(src.shape)}, has {count}")
    return [tuple(made)]


def transpose(call: Call) -> list[Shape]:
    """Return the dims in the order of the attribute."""
    src, order = call.input(0), call.attr("order")
    if order is None:
        return [None]
    if src.shape is None:
        return [(UNKNOWN,) * len(order)]
    rank = len(src.shape)
    if sorted(a % rank if -rank <= a < rank else -1 for a in order) != list(range(rank)):
        call.refuse_shape(
            f"attribute order is {list(order)}, which must name each axis of input 0, of rank "
            f"{rank}, once"
        )
    return [tuple(src.shape[a] for a in order)]


def concat(call: Call) -> list[Shape]:
    """Return the dims that all inputs share; along the axis the sum of their dims."""
    known = next((o for o in call.inputs if o.shape is not None), None)
    if known is None or known.shape is None or call.attr("axis") is None:
        return [None]
    rank = len(known.shape)
    axis = call.axis("axis", rank)
    made = [UNKNOWN] * rank
    made[axis] = 0
    for operand in call.inputs:
        operand.need_rank(rank, rank)
        for i in range(rank):
            d = operand.dim(i)
            if i == axis:
                made[i] = UNKNOWN if made[i] < 0 or d < 0 else made[i] + d
            else:
                operand.need_dim(i, made[i], "that of the inputs before it")
                made[i] = max(made[i], d)
    return [tuple(made)]
