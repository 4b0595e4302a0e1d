"""Shapes of quantization: the data's, with checks that scales and zero points fit it."""

from ..call import Call, Operand
from ..terms import Shape, shape_text


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
