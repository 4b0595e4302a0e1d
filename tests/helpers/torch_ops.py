"""What torch's own ops make of an op, in float64: a row a kind, gradients by torch's autograd."""

import math

import numpy as np
import torch
from torch.nn import functional as F

from onednn_graph_py.ops import OPS
from onednn_graph_py.ops.call import Call
from onednn_graph_py.reference.rounding import float_info
from onednn_graph_py.reference.run import evaluate as ours


def number(call: Call, name: str, default: float | None = None) -> float | None:
    """An attribute as oneDNN stores it, in f32."""
    value = call.attr(name)
    return default if value is None else float(np.float32(value))


# -- layouts


def first(call, x):
    return x.movedim(-1, 1) if call.channels_last else x


def restored(call, y):
    return y.movedim(1, -1) if call.channels_last else y


def by_channel(call, parameter, rank):
    """A parameter of one dim along the channels; others broadcast as they are."""
    if parameter.ndim != 1 or rank < 2:
        return parameter
    shape = [1] * rank
    shape[-1 if call.channels_last else 1] = -1
    return parameter.reshape(shape)


def padding(call, sizes, kernel, transposed=False):
    """Elements before and after each spatial dim; `sizes` are of the source of the windows."""
    dilations = call.attr("dilations") or (1,) * len(kernel)
    extents = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    auto, strides = call.attr("auto_pad"), call.attr("strides")
    if auto == "VALID":
        return [(0, 0)] * len(kernel)
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        return list(zip(call.attr("pads_begin"), call.attr("pads_end"), strict=True))
    made = []
    for n, e, s in zip(sizes, extents, strides, strict=True):
        total = max(e - s if transposed else (math.ceil(n / s) - 1) * s + e - n, 0)
        half = total // 2
        made.append((half, total - half) if auto == "SAME_UPPER" else (total - half, half))
    return made


def padded(x, pads, value=0.0):
    return F.pad(x, [n for pair in reversed(pads) for n in pair], value=value)


# -- products and windows


def weights_of(call, w):
    return w.movedim((-1, -2), (0, 1)) if call.attr("weights_format").startswith("X") else w


def convolution(call, x, w, bias=None):
    x, w = first(call, x), weights_of(call, w)
    x = padded(x, padding(call, x.shape[2:], w.shape[2:]))
    conv = (F.conv1d, F.conv2d, F.conv3d)[x.ndim - 3]
    y = conv(x, w, None, call.attr("strides"), 0, call.attr("dilations"), call.attr("groups"))
    return biased(call, restored(call, y), bias)


def conv_transpose(call, x, w, bias=None, made=None):
    x, w = first(call, x), weights_of(call, w)
    made = made or call.outputs[0].shape
    spatial = made[1:-1] if call.channels_last else made[2:]
    pads = padding(call, x.shape[2:], w.shape[2:], transposed=True)
    conv = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[x.ndim - 3]
    y = conv(x, w, None, call.attr("strides"), 0, 0, call.attr("groups"), call.attr("dilations"))
    y = padded(
        y, [(-b, n + b - full) for (b, _), n, full in zip(pads, spatial, y.shape[2:], strict=True)]
    )
    return biased(call, restored(call, y), bias)


def biased(call, y, bias):
    return y if bias is None else y + by_channel(call, bias, y.ndim)


def gradient_of(forward, at, like=None):
    """A backward op by autograd: of the `at`-th operand, whose shape `like` finds."""

    def backward(call, one, other, *more):
        if like is None:  # (src, diff_dst)
            x = one.clone().requires_grad_()
            y = forward(call, x, *((other.shape,) if forward in SHAPED else ()))
            return torch.autograd.grad(y, x, other)[0]
        x = torch.zeros(like(call), dtype=torch.float64, requires_grad=True)
        # Data: (diff_dst, weights). Weights: (src, diff_dst).
        operands, gradient = ([x, other], one) if at == 0 else ([one, x], other)
        more = {"made": gradient.shape} if forward in SHAPED else {}
        return torch.autograd.grad(forward(call, *operands, **more), x, gradient)[0]

    return backward


def output_shape(call):
    return call.outputs[0].shape


def pooled(call, x, made):
    """The padding of the source, and of windows that overhang its end."""
    kernel = call.attr("kernel")
    dilations = call.attr("dilations") or (1,) * len(kernel)
    pads = padding(call, x.shape[2:], kernel)
    wanted = made[1:-1] if call.channels_last else made[2:]
    more = [
        (0, (out - 1) * s + d * (k - 1) + 1 - n - b - e)
        for (b, e), n, k, d, s, out in zip(
            pads, x.shape[2:], kernel, dilations, call.attr("strides"), wanted, strict=True
        )
    ]
    return pads, more


def max_pool(call, x, made=None):
    x = first(call, x)
    pads, more = pooled(call, x, made or call.outputs[0].shape)
    x = padded(padded(x, pads, -math.inf), more, -math.inf)
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[x.ndim - 3]
    y = pool(x, call.attr("kernel"), call.attr("strides"), 0, call.attr("dilations") or 1)
    return restored(call, y.clamp(min=float(float_info(call.outputs[0].dtype).min)))


def avg_pool(call, x, made=None):
    x = first(call, x)
    pads, more = pooled(call, x, made or call.outputs[0].shape)
    pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[x.ndim - 3]
    one = padded(padded(torch.ones_like(x), pads, 0.0 if call.attr("exclude_pad") else 1.0), more)
    sums, counts = (
        pool(t, call.attr("kernel"), call.attr("strides"))
        for t in (padded(padded(x, pads), more), one)
    )
    return restored(call, sums / counts)


def avg_pool_backward(call, gradient):
    x = torch.zeros(output_shape(call), dtype=torch.float64, requires_grad=True)
    return torch.autograd.grad(avg_pool(call, x, gradient.shape), x, gradient)[0]


def interpolate(call, x, made=None):
    x = first(call, x)
    made = made or call.outputs[0].shape
    sizes = made[1:-1] if call.channels_last else made[2:]
    corners = call.attr("coordinate_transformation_mode") == "align_corners"
    if call.attr("mode") == "nearest":
        return restored(call, F.interpolate(x, sizes, mode="nearest-exact"))
    mode = ("linear", "bilinear", "trilinear")[len(sizes) - 1]
    return restored(call, F.interpolate(x, sizes, mode=mode, align_corners=corners))


def matmul(call, a, b, bias=None):
    a = a.mT if call.attr("transpose_a") and a.ndim > 1 else a
    b = b.mT if call.attr("transpose_b") and b.ndim > 1 else b
    return a @ b if bias is None else a @ b + bias


# -- normalization


def batch_norm(call, x, gamma, beta, mean, variance):
    y = F.batch_norm(first(call, x), mean, variance, gamma, beta, eps=number(call, "epsilon"))
    return restored(call, y)


def batch_norm_training(call, x, mean, variance, gamma=None, beta=None):
    x, m = first(call, x), number(call, "momentum", 0.5)
    axes = [a for a in range(x.ndim) if a != 1]
    new = x.mean(axes), x.var(axes, correction=0)
    y = F.batch_norm(x, *new, gamma, beta, eps=number(call, "epsilon"))
    return (
        restored(call, y),
        *(m * old + (1 - m) * n for old, n in zip((mean, variance), new, strict=True)),
        *new,
    )


def batch_norm_backward(call, x, gradient, mean, variance, gamma=None):
    x, gradient = first(call, x), first(call, gradient)
    epsilon = number(call, "epsilon")
    scale = (variance + epsilon).rsqrt()
    if not x.numel():  # torch divides by the number of elements, and the process ends
        return restored(call, gradient), *torch.zeros(2, x.shape[1], dtype=x.dtype)
    dx, dg, db = torch.ops.aten.native_batch_norm_backward(
        *(t.contiguous() for t in (gradient, x)), gamma, None, None,
        *(t.contiguous() for t in (mean, scale)), True, epsilon, [True, True, True],
    )  # fmt: skip
    if dg is None or not dg.numel():
        axes = [a for a in range(x.ndim) if a != 1]
        shape = [1, -1] + [1] * (x.ndim - 2)
        dg = (gradient * (x - mean.reshape(shape)) * scale.reshape(shape)).sum(axes)
        db = gradient.sum(axes)
    return restored(call, dx), dg, db


def layer_norm(call, x, gamma=None, beta=None):
    axis = call.axis("begin_norm_axis", x.ndim)
    shape, axes = x.shape[axis:], tuple(range(axis, x.ndim))
    parameters = [None if p is None else p.reshape(shape) for p in (gamma, beta)]
    y = F.layer_norm(x, shape, *parameters, number(call, "epsilon"))
    return y, x.mean(axes), x.var(axes, correction=0)


def layer_norm_backward(call, x, gradient, mean, variance, gamma=None, beta=None):
    axis = call.axis("begin_norm_axis", x.ndim)
    kept = (*x.shape[:axis], *(1,) * (x.ndim - axis))
    scale = (variance + number(call, "epsilon")).rsqrt().reshape(kept)
    return torch.ops.aten.native_layer_norm_backward(
        *(t.contiguous() for t in (gradient, x)), x.shape[axis:],
        *(t.contiguous() for t in (mean.reshape(kept), scale)),  # it ignores their strides
        gamma, beta, [True, gamma is not None, beta is not None],
    )  # fmt: skip


def rms_norm(call, x, gamma=None):
    axis = call.axis("begin_norm_axis", x.ndim)
    return F.rms_norm(x, x.shape[axis:], gamma, number(call, "epsilon"))


def group_norm(call, x, gamma=None, beta=None):
    x, groups = first(call, x).contiguous(), call.attr("groups")
    y = torch.native_group_norm(
        x,
        gamma,
        beta,
        x.shape[0],
        x.shape[1],
        math.prod(x.shape[2:]),
        groups,
        number(call, "epsilon"),
    )[0]
    parts = x.reshape(x.shape[0], groups, -1)
    return restored(call, y), parts.mean(-1), parts.var(-1, correction=0)


def softmax(call, x):
    axis = call.axis("axis", x.ndim)
    y, statistics = x.softmax(axis), x.logsumexp(axis, keepdim=True)
    if call.attr("mode") == "inf_as_zero":
        empty = (x == -math.inf).all(axis, keepdim=True)
        return torch.where(empty, 0.0, y), torch.where(empty, 0.0, statistics)
    return y, statistics


def softmax_backward(function):
    return lambda call, g, y: function(g, y, call.axis("axis", y.ndim), y.dtype)


# -- the others


def softplus(x, beta):
    return torch.logaddexp(beta * x, torch.zeros(())) / beta


def prelu(call, x, slope):
    if x.shape != slope.shape or slope.ndim == 1:
        slope = by_channel(call, slope, x.ndim)
    return torch.where(x > 0, x, slope * x)


def prelu_backward(call, x, slope, gradient):
    x, slope = x.clone().requires_grad_(), slope.clone().requires_grad_()
    return torch.autograd.grad(prelu(call, x, slope), (x, slope), gradient)


def bias_backward(call, gradient):
    channels = gradient.ndim - 1 if call.channels_last else 1
    return gradient.sum([a for a in range(gradient.ndim) if a != channels])


def gen_index(call, x):
    axis = call.axis("axis", x.ndim)
    shape = [1] * x.ndim
    shape[axis] = -1
    return torch.arange(x.shape[axis]).reshape(shape).expand(x.shape)


def reduction(function):
    def reduced(call, x, axes=None):
        axes = sorted(a % x.ndim for a in call.attr("axes"))
        for axis in reversed(axes):
            x = function(x, axis, bool(call.attr("keep_dims")))
        return x

    return reduced


def quantization(call, rank, scales, zps):
    """Scales and zero points in shapes that broadcast."""
    zps = torch.zeros(1) if zps is None else zps
    if call.attr("qtype") == "per_tensor":
        return scales.reshape(()), zps.reshape(())
    if call.attr("qtype") == "per_group":
        for axis, size in enumerate(call.attr("group_shape")):
            scales, zps = (
                v if v.numel() == 1 else v.repeat_interleave(size, axis) for v in (scales, zps)
            )
        return scales, zps
    shape = [1] * rank
    shape[call.axis("axis", rank)] = -1
    return scales.reshape(shape), zps.reshape(shape)


def parameters_of(call, x, scales, zps):
    if scales is None:
        scales = torch.tensor(
            [float(np.float32(s)) for s in call.attr("scales")], dtype=torch.float64
        )
        zps = call.attr("zps")
        zps = None if zps is None else torch.tensor(zps, dtype=torch.float64)
    return quantization(call, x.ndim, scales, zps)


def quantize(call, x, scales=None, zps=None):
    scales, zps = parameters_of(call, x, scales, zps)
    if call.outputs[0].dtype not in ("s8", "u8"):
        return x / scales  # an 8-bit float
    low, high = {"s8": (-128, 127), "u8": (0, 255)}[call.outputs[0].dtype]
    return (x / scales + zps).round().clamp(low, high).long()


def dequantize(call, x, scales=None, zps=None):
    scales, zps = parameters_of(call, x, scales, zps)
    return (x - zps) * scales


FORWARD = {
    "Abs": lambda c, x: x.abs(),
    "Clamp": lambda c, x: x.clamp(number(c, "min"), number(c, "max")),
    "Elu": lambda c, x: F.elu(x, number(c, "alpha")),
    "Exp": lambda c, x: x.exp(),
    "GELU": lambda c, x: F.gelu(
        x, approximate="tanh" if c.attr("mode") == "gelu_tanh" else "none"
    ),
    "HardSigmoid": lambda c, x: (number(c, "alpha") * x + number(c, "beta")).clamp(0, 1),
    "HardSwish": lambda c, x: F.hardswish(x),
    "LeakyReLU": lambda c, x: F.leaky_relu(x, number(c, "alpha")),
    "Log": lambda c, x: x.log(),
    "Mish": lambda c, x: x * torch.tanh(torch.logaddexp(x, torch.zeros(()))),
    "Pow": lambda c, x: x ** number(c, "beta"),
    "Reciprocal": lambda c, x: 1 / x,
    "ReLU": lambda c, x: F.relu(x),
    "Round": lambda c, x: x.round(),
    "Sigmoid": lambda c, x: x.sigmoid(),
    "SoftPlus": lambda c, x: softplus(x, number(c, "beta", 1.0)),
    "Sqrt": lambda c, x: x.sqrt(),
    "Square": lambda c, x: x.square(),
    "Tanh": lambda c, x: x.tanh(),
}  # fmt: skip
clamped_gradient = torch.ops.aten.hardtanh_backward  # none at the bounds
# Gradients by what the op made, where that is given.
BY_RESULT = {
    "Clamp": lambda c, y, g: clamped_gradient(g, y, number(c, "min"), number(c, "max")),
    "Elu": lambda c, y, g: torch.ops.aten.elu_backward(g, number(c, "alpha"), 1, 1, True, y),
    "ReLU": lambda c, y, g: torch.where(y > 0, g, 0.0),
    "Sigmoid": lambda c, y, g: torch.ops.aten.sigmoid_backward(g, y),
    "Sqrt": lambda c, y, g: g / (2 * y),
    "Tanh": lambda c, y, g: torch.ops.aten.tanh_backward(g, y),
}


def elementwise_backward(kind):
    def backward(call, x, gradient):
        if call.schema.attribute("use_dst") and call.attr("use_dst"):
            return BY_RESULT[kind](call, x, gradient)
        return gradient_of(FORWARD[kind], 0)(call, x, gradient)

    return backward


SHAPED = (conv_transpose, max_pool, interpolate)  # functions that need the result's shape
TABLE = {
    **FORWARD,
    **{f"{k}Backward": elementwise_backward(k) for k in FORWARD if f"{k}Backward" in OPS},
    "ClampBackward": lambda c, x, g: BY_RESULT["Clamp"](c, x, g),
    "HardSigmoidBackward": lambda c, x, g: number(c, "alpha")
    * clamped_gradient(g, number(c, "alpha") * x + number(c, "beta"), 0, 1),
    "Add": lambda c, a, b: a + b,
    "Divide": lambda c, a, b: a / b,
    "GreaterEqual": lambda c, a, b: a >= b,
    "Maximum": lambda c, a, b: torch.maximum(a, b),
    "Minimum": lambda c, a, b: torch.minimum(a, b),
    "Multiply": lambda c, a, b: a * b,
    "SquaredDifference": lambda c, a, b: (a - b).square(),
    "Subtract": lambda c, a, b: a - b,
    "Select": lambda c, condition, a, b: torch.where(condition, a, b),
    "BiasAdd": lambda c, x, b: x + by_channel(c, b, x.ndim),
    "BiasAddBackward": bias_backward,
    "PReLU": prelu,
    "PReLUBackward": prelu_backward,
    "GenIndex": gen_index,
    "MatMul": matmul,
    "Convolution": convolution,
    "ConvTranspose": conv_transpose,
    "ConvolutionBackwardData": gradient_of(convolution, 0, output_shape),
    "ConvTransposeBackwardData": gradient_of(conv_transpose, 0, output_shape),
    "ConvolutionBackwardWeights": gradient_of(convolution, 1, output_shape),
    "ConvTransposeBackwardWeights": gradient_of(conv_transpose, 1, output_shape),
    "AvgPool": avg_pool,
    "AvgPoolBackward": avg_pool_backward,
    "MaxPool": max_pool,
    "MaxPoolBackward": gradient_of(max_pool, 0),
    "Interpolate": interpolate,
    "InterpolateBackward": gradient_of(interpolate, 0),
    "BatchNormInference": batch_norm,
    "BatchNormForwardTraining": batch_norm_training,
    "BatchNormTrainingBackward": batch_norm_backward,
    "LayerNorm": layer_norm,
    "LayerNormBackward": layer_norm_backward,
    "RMSNorm": rms_norm,
    "GroupNorm": group_norm,
    "SoftMax": softmax,
    "LogSoftmax": lambda c, x: x.log_softmax(c.axis("axis", x.ndim)),
    "SoftMaxBackward": softmax_backward(torch._softmax_backward_data),
    "LogSoftmaxBackward": softmax_backward(torch._log_softmax_backward_data),
    "ReduceL1": reduction(lambda x, a, k: x.abs().sum(a, k)),
    "ReduceL2": lambda c, x: reduction(lambda x, a, k: x.sum(a, k))(c, x.square()).sqrt(),
    "ReduceMax": reduction(lambda x, a, k: x.amax(a, k)),
    "ReduceMean": reduction(lambda x, a, k: x.mean(a, k)),
    "ReduceMin": reduction(lambda x, a, k: x.amin(a, k)),
    "ReduceProd": reduction(lambda x, a, k: x.prod(a, k)),
    "ReduceSum": reduction(lambda x, a, k: x.sum(a, k)),
    "Concat": lambda c, *parts: torch.cat(parts, c.axis("axis", parts[0].ndim)),
    "Reorder": lambda c, x: x,
    "TypeCast": lambda c, x: x,
    "StaticReshape": lambda c, x: x.reshape(c.outputs[0].shape),
    "StaticTranspose": lambda c, x: x.permute(c.attr("order")),
    "Quantize": quantize,
    "Dequantize": dequantize,
    "DynamicQuantize": quantize,
    "DynamicDequantize": dequantize,
}  # fmt: skip


def tensor(array):
    made = np.asarray(array)
    return torch.from_numpy(made.copy() if made.dtype == bool else made.astype(np.float64))


def evaluate(call: Call, inputs) -> list[np.ndarray]:
    """An op's results by torch, as `onednn_graph_py.reference.run.evaluate` returns its own."""
    if call.kind not in TABLE:
        return ours(call, inputs)
    with torch.no_grad() if "Backward" not in call.kind else torch.enable_grad():
        made = TABLE[call.kind](call, *map(tensor, inputs))
    made = list(made) if isinstance(made, (tuple, list)) else [made]
    results = [m.detach().numpy() for m in made[: len(call.outputs)]]
    for operand, result in zip(call.outputs, results, strict=True):
        assert result.shape == tuple(operand.shape), (call.kind, result.shape, operand.shape)
    return results
