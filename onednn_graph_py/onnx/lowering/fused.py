"""Ops of com.microsoft that onnxruntime's optimizers make of several of ONNX's."""

import math
from functools import partial

from ...blocks.attention import sdpa
from ...blocks.embedding import embedding
from ...blocks.normalization import rms_norm
from ...frontends.recipes import clamp, gelu, weights_or
from ...model.building.host_functions import HostFunction, host_step
from ...model.building.sizes import Extent
from ...model.building.value import Value
from ..host_steps import hidden
from .attention import by_head, joined_heads, rotary
from .products import conv, gemm
from .table import Call, NotLowered, lowers

DOMAIN = "com.microsoft"


def _biased(call: Call, x: Value, i: int) -> Value:
    """Add an input, if it is there."""
    return x + call.floats(i)[0] if call.has(i) else x


@lowers("BiasGelu", "FastGelu", domain=DOMAIN)
def _gelu(call: Call) -> Value:
    approximate = "tanh" if call.node.op_type == "FastGelu" else "none"
    return gelu(call, _biased(call, call.floats(0)[0], 1), approximate=approximate)


@lowers("QuickGelu", domain=DOMAIN)
def _quick_gelu(call: Call) -> Value:
    [x] = call.floats(0)
    return x * call.b.sigmoid(call.times(x, float(call.attribute("alpha", 1.702))))


@lowers("FusedMatMul", domain=DOMAIN)
def _matmul(call: Call) -> Value:
    x, y = call.floats(0, 1)
    if min(x.ndim, y.ndim) < 2 or call.attribute("transBatchA", 0) or call.attribute("transBatchB"):
        raise NotLowered("it transposes batches, or vectors")
    across, along = (bool(call.attribute(name, 0)) for name in ("transA", "transB"))
    made = call.b.matmul(x, y, transpose_a=across, transpose_b=along)
    return call.times(made, float(call.attribute("alpha", 1.0)))


def _activated(call: Call, x: Value, numbers: list[float]) -> Value:
    name = call.attribute("activation", "Relu")
    name = name.decode() if isinstance(name, bytes) else name
    alpha = numbers[0] if numbers else None
    if name == "Clip":
        return clamp(call, x, alpha, numbers[1] if len(numbers) > 1 else None)
    if name == "LeakyRelu":
        return call.b.leaky_relu(x, alpha=0.01 if alpha is None else alpha)
    if name == "HardSigmoid":
        alpha, beta = (*numbers, 0.2, 0.5)[:2] if len(numbers) == 2 else (0.2, 0.5)
        return call.b.hard_sigmoid(x, alpha=alpha, beta=beta)
    if name not in ("Relu", "Sigmoid", "Tanh"):
        raise NotLowered(f"its activation is {name}")
    made: Value = getattr(call.b, name.lower())(x)
    return made


@lowers("FusedConv", domain=DOMAIN)
def _conv(call: Call) -> Value:
    made = _biased(call, conv(call), 3)
    return _activated(call, made, [float(n) for n in call.attribute("activation_params", ())])


@lowers("FusedGemm", domain=DOMAIN)
def _gemm(call: Call) -> Value:
    given = [call.attribute(f"activation_{n}") for n in ("alpha", "beta")]
    return _activated(call, gemm(call), [float(n) for n in given if n is not None])


@lowers("RotaryEmbedding", domain=DOMAIN)
def _rotary(call: Call) -> Value:
    if call.attribute("is_packed_batching", 0) or call.attribute("scale", 1.0) != 1.0:
        raise NotLowered("it has a scale, or batches without padding")
    places = call.value(1)
    if places.ndim == 1:  # the place of the first token
        places = host_step("add", (_counted(call, -2), places), {})[None]
    return rotary(call, [embedding(places, call.value(i)) for i in (2, 3)])


def _counted(call: Call, axis: int) -> Value:
    """Count the tokens along a dim of input 0."""
    read, made = (call.dtype(0),), (((call.dims(0)[axis],), "s64"),)
    step = HostFunction("arange", (Extent(0, axis),), {}, read, made)
    counted: Value = call.b.call(step, call.value(0), outputs=step.outputs)
    return counted


@lowers("EmbedLayerNormalization", domain=DOMAIN)
def _embedded(call: Call) -> list[Value | None]:
    """Normalize the sum of what the tables have for tokens, places and segments."""
    if call.is_read(1):
        raise NotLowered("the lengths of its mask are read")
    words, places = call.floats(2, 3)
    order = call.value(8) if call.has(8) else _counted(call, -1)
    total = embedding(call.value(0), words) + embedding(order, places)
    if call.has(1):
        total = total + embedding(call.value(1), call.floats(4)[0])
    return [_normalized(call, total, 5, 6), None, total]


def _normalized(call: Call, total: Value, gamma: int, beta: int) -> Value:
    given = call.value(beta) if call.has(beta) else None
    shift = weights_or(call, given, 0, (total.shape or ())[-1])
    scale = call.cast(call.value(gamma), "f32")
    epsilon = float(call.attribute("epsilon", 1e-12))
    made: Value = call.b.layer_norm(total, scale, shift, keep_stats=False, epsilon=epsilon)
    return made


def _skip(call: Call, rms: bool) -> list[Value | None]:
    """Normalize a sum, which other ops may read too."""
    x, other, gamma = call.floats(0, 1, 2)
    if call.is_read(1) or call.is_read(2):
        raise NotLowered("its statistics are read")
    total = _biased(call, x + other, 3 if rms else 4)
    if not rms:
        return [_normalized(call, total, 2, 3), None, None, total]
    epsilon = float(call.attribute("epsilon", 1e-12))
    return [rms_norm(total, gamma, epsilon=epsilon), None, None, total]


lowers("SkipLayerNormalization", domain=DOMAIN)(partial(_skip, rms=False))
lowers("SkipSimplifiedLayerNormalization", domain=DOMAIN)(partial(_skip, rms=True))


def _mask(call: Call, i: int, keys: int) -> Value | None:
    """Return what is added to the scores by a mask of (batch, keys) in whole numbers."""
    if not call.has(i):
        return None
    dims = call.dims(i)
    if len(dims) != 2 or dims[1] != keys or -1 in dims:
        raise NotLowered("only a mask with a number for each key is lowered, of known sizes")
    hide = partial(hidden, float(call.attribute("mask_filter_value", -10000.0)))
    made: Value = call.b.call(hide, call.value(i), outputs=[((dims[0], 1, 1, dims[1]), "f32")])
    return made


def _attended(call: Call, heads: list[Value], mask: Value | None) -> Value:
    width = (heads[0].shape or ())[3]
    scale = float(call.attribute("scale", 0.0)) or 1 / math.sqrt(width)
    causal = bool(call.attribute("unidirectional", 0))
    return joined_heads(call, sdpa(*heads, mask=mask, causal=causal, scale=scale))


def _refuse(call: Call, *inputs: int) -> None:
    more = ("do_rotary", "qkv_hidden_sizes", "past_present_share_buffer")
    if any(call.has(i) for i in inputs) or any(call.attribute(n) for n in more):
        raise NotLowered("a past, rotations and values of another size are not lowered")
    if any(call.is_read(i) for i in range(1, len(call.node.outputs))):
        raise NotLowered("more than its result is read")


@lowers("Attention", domain=DOMAIN)
def _attention(call: Call) -> Value:
    _refuse(call, 4, 5, 6)
    x, weights = call.floats(0, 1)
    count, (_, tokens, _) = call.attribute("num_heads"), x.shape or ()
    width = (weights.shape or ())[1] // 3
    parts = _biased(call, call.b.matmul(x, weights), 2)
    split = [parts[..., i * width : (i + 1) * width] for i in range(3)]
    return _attended(call, [by_head(call, v, count) for v in split], _mask(call, 3, tokens))


@lowers("MultiHeadAttention", domain=DOMAIN)
def _multi_head_attention(call: Call) -> Value:
    _refuse(call, 6, 7, 8, 9)
    if not call.has(1) or not call.has(2) or any(len(call.dims(i)) != 3 for i in range(3)):
        raise NotLowered("keys or values are packed, or have their heads apart")
    inputs, count = call.floats(0, 1, 2), call.attribute("num_heads")
    if call.has(3):
        [bias] = call.floats(3)
        width = (inputs[0].shape or ())[2]
        inputs = [v + bias[i * width : (i + 1) * width] for i, v in enumerate(inputs)]
    mask = _mask(call, 4, (inputs[1].shape or ())[1])
    if call.has(5):
        [added] = call.floats(5)
        mask = added if mask is None else mask + added
    return _attended(call, [by_head(call, v, count) for v in inputs], mask)
