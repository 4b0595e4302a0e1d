"""Shapes of ops that move, reduce or quantize elements."""

from ..call import Call, Operand
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
    dims = list(listed)
    copied = {i for i, d in enumerate(dims) if d == 0 and call.attr("special_zero")}
    for i in copied:
        if src.shape is None:
            dims[i] = UNKNOWN
            continue
        if i >= len(src.shape):
            bad(f"copies a dim that input 0, {shape_text(src.shape)}, does not have")
        dims[i] = src.shape[i]
    rests = [i for i, d in enumerate(listed) if d == -1]
    if len(rests) > 1:
        bad("has more than one -1")
    known = 1
    for i, d in enumerate(dims):
        if i in rests:
            continue
        if d < 0:  # a copied dim is unknown, so the -1 stays unknown too
            return [tuple(dims)]
        known *= d
        if known > _MOST:
            bad("has more elements than memory can hold")
    count = src.count()
    if count < 0:
        return [tuple(dims)]
    if rests:
        if known == 0 or count % known:
            bad(f"does not divide input 0, {shape_text(src.shape)}")
        dims[rests[0]] = count // known
    elif known != count:
        bad(f"has {known} elements, input 0, {shape_text(src.shape)}, has {count}")
    return [tuple(dims)]


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
    dims = [UNKNOWN] * rank
    dims[axis] = 0
    for operand in call.inputs:
        operand.need_rank(rank, rank)
        for i in range(rank):
            d = operand.dim(i)
            if i == axis:
                dims[i] = UNKNOWN if dims[i] < 0 or d < 0 else dims[i] + d
            else:
                operand.need_dim(i, dims[i], "that of the inputs before it")
                dims[i] = max(dims[i], d)
    return [tuple(dims)]


def _channels(call: Call, src: Operand) -> int:
    """Return the required number of scales; -1 if unknown."""
    if call.attr("qtype") != "per_channel" or src.rank is None:
        return 1
    return src.dim(call.axis("axis", src.rank))


def quantize(call: Call) -> list[Shape]:
    """Return the shape of input 0, for ops whose scales and zero points are attributes."""
    src = call.input(0)
    if src.rank is None:
        return [None]
    channels = _channels(call, src)
    for name in ("scales", "zps"):
        listed = call.attr(name)
        if listed is None or channels < 0:
            continue
        # Weights of a grouped ConvTranspose have a dim for the channels of one group.
        grouped = call.attr("qtype") == "per_channel" and channels > 0 and len(listed) > 0
        if len(listed) != channels and not (grouped and len(listed) % channels == 0):
            call.refuse_shape(
                f"attribute {name} must have {channels} entries ({call.attr('qtype')}), it has "
                f"{len(listed)}"
            )
    return [src.shape]


def _check_groups(call: Call, src: Operand, parameters: Operand, may_be_one: bool) -> None:
    group = call.attr("group_shape")
    if not group or src.shape is None or parameters.rank is None:
        return
    if len(group) != len(src.shape):
        call.refuse_shape(
            f"attribute group_shape {list(group)} must have one entry for each dim of input 0, "
            f"{shape_text(src.shape)}"
        )
    if any(g < 1 for g in group):
        call.refuse(f"attribute group_shape must have no entry below 1, got {list(group)}")
    if may_be_one and parameters.count() == 1:
        return
    parameters.need_rank(len(src.shape), len(src.shape))
    for i, (d, g) in enumerate(zip(src.shape, group, strict=True)):
        if d < 0:
            continue
        if d % g:
            call.refuse_shape(
                f"attribute group_shape {list(group)} does not divide input 0, "
                f"{shape_text(src.shape)}"
            )
        parameters.need_dim(i, d // g, "input 0's dim over its group")


def dynamic_quantize(call: Call) -> list[Shape]:
    """Return the shape of input 0, for ops whose scales and zero points are inputs.

    One zero point may serve all channels or groups.
    """
    src = call.input(0)
    if src.rank is None:
        return [None]
    qtype = call.attr("qtype")
    for i, parameters in enumerate(call.inputs[1:3], start=1):
        may_be_one = i == 2
        if qtype == "per_group":
            _check_groups(call, src, parameters, may_be_one)
        elif not may_be_one or parameters.count() != 1:
            parameters.need_rank(0, 1)
            why = "channels" if qtype == "per_channel" else "per tensor"
            parameters.need_count(_channels(call, src), why)
    return [src.shape]
