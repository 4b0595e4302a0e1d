"""The rules that oneDNN checks for an op, beyond counts, types and single attributes.

Each rule takes a `Call` and raises `InvalidGraphOpError` if the op breaks it. Unknown shapes and
types pass.
"""

from functools import partial

from .call import Call
from .terms import MAX_NDIMS, UNKNOWN, shape_text


def pads(call: Call) -> None:
    """Paddings must not be negative."""
    for name in ("pads_begin", "pads_end"):
        values = call.attr(name) or ()
        if any(v < 0 for v in values):
            call.refuse(f"attribute {name} must have no negative entry, got {list(values)}")


def pool_dilations(call: Call) -> None:
    """There must be as many dilations as dims of the window."""
    dilations, kernel = call.attr("dilations"), call.attr("kernel")
    if dilations is None or kernel is None or dilations == (1,) * MAX_NDIMS:
        return
    if len(dilations) != len(kernel):
        call.refuse(
            f"attribute dilations must have as many entries as kernel, {len(kernel)}, got "
            f"{list(dilations)}"
        )


def sizes_or_scales(call: Call) -> None:
    """Exactly one of sizes and scales must be set, and gives the size of the output."""
    names = [name for name in ("sizes", "scales") if call.attr(name)]
    if len(names) != 1:
        call.refuse(
            "exactly one of the attributes sizes and scales must be set, got "
            + (" and ".join(names) or "neither")
        )


def axes_once(call: Call) -> None:
    """Axes must be the attribute, never an input, as oneDNN gives the attribute a default."""
    if len(call.inputs) > 1:
        call.refuse(
            "axes must be given as the attribute axes, oneDNN takes no input for them, got 2 inputs"
        )


# -- data types


def norm_types(call: Call) -> None:
    """Only bf16 data may have bf16 parameters or statistics."""
    data = call.input(0).dtype
    others = (*call.inputs[1:], *call.outputs[1:])
    if data not in (None, "bf16") and any(o.dtype == "bf16" for o in others):
        call.refuse(f"bf16 parameters and statistics need bf16 data, got {data} data")


def output_types(call: Call) -> None:
    """The output must have the type of input 0, or f32."""
    source, result = call.input(0).dtype, call.output(0).dtype
    if None not in (source, result) and result not in (source, "f32"):
        call.refuse(f"output 0 must be {source} as input 0 is, or f32, got {result}")


def softmax_types(call: Call) -> None:
    """The output must have the input's type, or f32; of f32 inputs it may have any type."""
    if call.input(0).dtype != "f32":
        output_types(call)


def type_cast_types(call: Call) -> None:
    """The types must differ, and one of them must be f32."""
    src, dst = call.input(0).dtype, call.output(0).dtype
    if None in (src, dst):
        return
    if src == dst:
        call.refuse(f"input and output must differ in data type, got {src} for both")
    if "f32" not in (src, dst):
        call.refuse(f"it casts from or to f32, got {src} to {dst}")


# -- ports that attributes promise


def _three_outputs(attribute: str, names: str, call: Call) -> None:
    if call.attr(attribute) and len(call.outputs) != 3:
        call.refuse(
            f"with {attribute} it has 3 outputs ({names}), got {len(call.outputs)}; set "
            f"{attribute} to False for one"
        )


norm_statistics = partial(_three_outputs, "keep_stats", "dst, mean, variance")
norm_gradients = partial(_three_outputs, "use_affine", "diff_src, diff_gamma, diff_beta")


# -- quantization


def channel_axis(shape: tuple[int, ...], axis: int, count: int) -> int | None:
    """Return the axis along which scales of channels go; None if they fit none, or two.

    Weights of a depthwise ConvTranspose have one channel a group along `axis`. oneDNN's own graphs
    give a scale for each group; groups are along the axis of the input's channels, beside `axis`.
    """
    if shape[axis] == count:
        return axis
    last = len(shape) - 1
    beside = [i for at, i in ((1, 0), (last - 1, last)) if at == axis]
    fitting = [i for i in beside if shape[axis] == 1 and shape[i] and shape[i] % count == 0]
    return fitting[0] if len(fitting) == 1 else None


def static_quantization(call: Call) -> None:
    """There must be one scale for the tensor or each channel, as many zero points, none for f8."""
    scales, zps = call.attr("scales") or (), call.attr("zps")
    if call.attr("qtype") == "per_tensor" and len(scales) != 1:
        call.refuse(f"attribute scales must have 1 entry for per_tensor, got {len(scales)}")
    if call.attr("qtype") == "per_channel" and (rank := call.input(0).rank) is not None:
        axis = call.axis("axis", rank)
        shape = call.input(0).shape or ()
        if min(shape) >= 0 and channel_axis(shape, axis, len(scales)) is None:
            call.refuse(
                f"attribute scales must have one entry for each of the {shape[axis]} channels "
                f"(axis {axis} of {shape_text(shape)}), got {len(scales)}"
            )
    if zps is None:
        return
    if (call.input(0).dtype or "").startswith("f8"):
        call.refuse(f"{call.input(0).dtype} has no zero points, got zps {list(zps)}")
    if len(zps) != len(scales):
        call.refuse(
            f"attribute zps must have as many entries as scales, {len(scales)}, got {len(zps)}"
        )


def dynamic_quantization(call: Call) -> None:
    """Scales and zero points must fit each other and qtype."""
    scales, zps = call.input(1), call.input(2)
    qtype = call.attr("qtype")
    if qtype == "per_group" and not call.attr("group_shape"):
        call.refuse("qtype per_group needs the attribute group_shape")
    if scales.dim(0) == UNKNOWN:
        return
    if len(call.inputs) == 2:
        if qtype == "per_tensor" and scales.dim(0) != 1:
            call.refuse(
                f"input 1 (scales) must have 1 element for per_tensor, got "
                f"{shape_text(scales.shape)}"
            )
        return
    if zps.dim(0) == UNKNOWN:
        return
    if qtype == "per_group" and (len(scales.shape or ()) < 2 or scales.shape != zps.shape):
        call.refuse(
            "for per_group, scales and zps must have one shape of at least 2 dims, got "
            f"{shape_text(scales.shape)} and {shape_text(zps.shape)}"
        )
    if qtype == "per_channel" and zps.dim(0) not in (1, scales.dim(0)):
        call.refuse(
            f"input 2 (zps) must have 1 element or as many as scales, {scales.dim(0)}, got "
            f"{shape_text(zps.shape)}"
        )
    if qtype == "per_tensor" and zps.dim(0) != 1:
        call.refuse(
            f"input 2 (zps) must have 1 element for per_tensor, got {shape_text(zps.shape)}"
        )
