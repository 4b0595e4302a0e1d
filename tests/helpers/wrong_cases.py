"""A graph for each row of known wrong results, one beside it that is right, and where it holds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from graphs import LINKED

import onednn_graph_py as og
from onednn_graph_py.machine import Conditions
from onednn_graph_py.model.building.builder import leaving_of, readers_of
from onednn_graph_py.model.planning.group import group_of
from onednn_graph_py.safety.group import Group

PER_TENSOR = {"qtype": "per_tensor", "zps": [0]}
UNIT = {"scales": [1.0], **PER_TENSOR}
ROW_CONVOLUTION = {"strides": (1,), "pads_begin": (0,), "pads_end": (0,), "dilations": (1,)}
HALF = {"kernel": (2, 2), "strides": (2, 2), "pads_begin": (0, 0), "pads_end": (0, 0)}
_IN_ROWS = {"pads_begin": (0, 1), "pads_end": (0, 2)}
PLAIN = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1)}

OLD = Conditions((3, 7), "OpenMP", "avx2", 2)
NEW = Conditions((3, 13), "SYCL", "avx2", 2)
OPENMP = NEW._replace(runtime="OpenMP")
AVX512 = OPENMP._replace(isa="avx512_core")
VNNI = OPENMP._replace(isa="avx512_core_vnni")
BF16 = OPENMP._replace(isa="avx512_core_bf16")
F16 = OPENMP._replace(isa="avx512_core_fp16")
AMX = OPENMP._replace(isa="avx10_1_512_amx")
IN_3_8 = NEW._replace(version=(3, 8))
EVERYWHERE = (OLD, NEW, OPENMP, AVX512, VNNI, BF16, F16, AMX)

Build = Callable[[og.GraphBuilder], None]


def written(write: Callable[..., None]) -> Callable[..., Build]:
    """Take a function's arguments now and its builder, which is the first one, later."""

    def of(*args: Any, **kwargs: Any) -> Build:
        return lambda b: write(b, *args, **kwargs)

    return of


def before(conditions: Conditions) -> Conditions:
    """The same with the version before."""
    return conditions._replace(version=(3, 7))


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def integers(*shape, low=-8, high=8):
    return np.random.default_rng(3).integers(low, high, shape).astype(np.int8)


# -- attention


@written
def attention(b, mask, dtype="f32", shape=(2, 4, 32, 64)):
    q, k, v = (b.input(shape, dtype) for _ in range(3))
    scores = q.matmul(k, transpose_b=True) + b.input(mask, dtype)
    b.output(scores.softmax(axis=-1) @ v)


@written
def attention_with_statistics(b, mask, shape=(2, 4, 32, 64)):
    """As training needs it."""
    q, k, v = (b.input(shape, "bf16") for _ in range(3))
    scores = b.matmul(q, k, transpose_b=True, dtype="f32") + b.input(mask)
    made = [(scores.shape, "bf16"), ((*scores.shape[:-1], 1), "f32")]
    chances, statistics = b.op("SoftMax", scores, outputs=made, axis=-1)
    b.output(chances @ v, statistics)


@written
def attention_of_chosen(
    b, condition, other=(1,), *, first=True, shape=(2, 4, 16, 32), queries=16, strides=(None, None)
):
    """Scores, behind their scale, or something else."""
    q = b.input((*shape[:-2], queries, shape[-1]))
    k, v = (b.input(shape) for _ in range(2))
    scores = q.matmul(k, transpose_b=True) / 8.0
    c = b.input(condition, "boolean", strides=strides[0])
    o = b.input(other, strides=strides[1])
    chosen = b.select(c, scores, o) if first else b.select(c, o, scores)
    b.output(chosen.softmax(axis=-1) @ v)


@written
def unscaled_attention(b, condition, strides):
    q, k, v = (b.input((1, 4, 16, 32)) for _ in range(3))
    seen = b.input(condition, "boolean", strides=strides)
    scores = b.select(seen, np.float32([-8.0]), q.matmul(k, transpose_b=True))
    b.output(scores.softmax(axis=-1) @ v)


@written
def grouped_attention(b, size, strides):
    """By reshapes: three queries a key."""
    q, v = b.input((1, 18, 2, size)), b.input((1, 6, 16, size))
    k = b.input((1, 6, 16, size), strides=strides)
    q = q.static_reshape(shape=[1, 6, 3, 2, size], special_zero=False)
    k, v = (t.static_reshape(shape=[1, 6, 1, 16, size], special_zero=False) for t in (k, v))
    y = (q.matmul(k, transpose_b=True) / 2.0).softmax(axis=-1) @ v
    b.output(y.static_reshape(shape=[1, 18, 2, size], special_zero=False))


@written
def dropped(b, outputs, *, product=False):
    x = b.input((4, 8))
    y = x @ b.input((8, 6)) if product else x.relu()
    numbers = [b.constant([7], "s64"), b.constant([9], "s64"), b.constant([0.5], "f32")]
    made = b.op("Dropout", y, *numbers, outputs=[(None, None)] * outputs)
    b.output(*(made if outputs > 1 else (made,)))


def layer_norm_and_sum(b):
    x, z = b.input((6, 16)), b.input((6, 16))
    gamma, beta = noise(16, seed=1), noise(16, seed=2)
    b.output(x.layer_norm(gamma, beta, keep_stats=False) + z)


@written
def attention_gradients(b, *outputs, shape=(2, 4, 16, 32)):
    """Those of q, k, v, the scores, and what is scaled, as far as they are wanted."""
    q, k, v, result, gradient = (b.input(shape) for _ in range(5))
    factor = b.constant(np.float32([0.2]))
    scores = q.matmul(k, transpose_b=True) * factor
    chances = (scores - b.input((*shape[:-1], 1))).exp()
    of_chances = gradient.matmul(v, transpose_b=True)
    rows = (result * gradient).reduce_sum(axes=[-1], keep_dims=True)
    of_scores = chances * (of_chances - rows)
    scaled = of_scores * factor
    made = {
        "scores": lambda: of_scores,
        "scaled": lambda: scaled,
        "q": lambda: scaled @ k,
        "k": lambda: scaled.matmul(q, transpose_a=True),
        "v": lambda: chances.matmul(gradient, transpose_a=True),
    }
    b.output(**{name: made[name]() for name in outputs})


@written
def attention_of_strided(b, batch):
    # Three of 32 beside each other, in every second batch; the head's as models pass it.
    stacked = (384, 192, 96, 1)
    q, k, v = (b.input((batch, 1, 2, 32), strides=stacked) for _ in range(3))
    b.output((q.matmul(k, transpose_b=True) / 8.0).softmax(axis=-1) @ v)


@written
def softmax_before_operand(b, operand, strides=(3, 18, 1), other=None):
    b.output(b.input((6, 7, 3), strides=strides).softmax(axis=-1) + b.input(operand, strides=other))


@written
def attention_of_stacked(b, arrays):
    """Keys and values, or more, in one array by its second dim."""
    stacked = (arrays * 2 * 4 * 8, 32, 8, 1)
    q, k, v = b.input((2, 2, 4, 8)), *(b.input((2, 2, 4, 8), strides=stacked) for _ in range(2))
    b.output((q.matmul(k, transpose_b=True) / 8.0).softmax(axis=-1) @ v)


@written
def attention_of_values(b, size, tokens=16):
    q, k, v = (b.input((2, 4, tokens, n)) for n in (32, 32, size))
    b.output((q.matmul(k, transpose_b=True) / 8.0).softmax(axis=-1) @ v)


@written
def attention_along(b, axis, heads=4):
    """With a SoftMax over any dim."""
    q, k, v = (b.input((2, heads, n, 32)) for n in (12, 20, 20))
    b.output((q.matmul(k, transpose_b=True) / 8.0).softmax(axis=axis) @ v)


@written
def attention_of_turned(b, queries=False, keys=True, values=False, heads=4):
    """With transposed operands."""
    q, k, v = (b.input((2, heads, 16, 16)) for _ in range(3))
    scores = q.matmul(k, transpose_a=queries, transpose_b=keys) / 4.0
    b.output(scores.softmax(axis=-1).matmul(v, transpose_b=values))


@written
def attention_of_five_dims(b, query, key, mask=None, strides=None, queries=None):
    """Batches and heads; the strides of the values, and of the queries."""
    q, k = b.input((*query, 7, 16), strides=queries), b.input((*key, 9, 16))
    scores = q.matmul(k, transpose_b=True) / 4.0
    if mask is not None:
        scores = scores + b.input(mask)
    b.output(scores.softmax(axis=-1) @ b.input((*key, 9, 16), strides=strides))


@written
def selecting_of_computed(b, infinite):
    x, seen = b.input((2, 5, 5)), b.input((1, 5, 5), "boolean")
    scores = x @ x
    if infinite:
        scores = scores + np.where(np.eye(5), 0, -np.inf).astype(np.float32)
    b.output(b.select(seen, np.float32([1.0]), scores))


@written
def int8_attention(b, dtype, made=None):
    zero = 128 if dtype == "u8" else 0
    made = made or dtype
    per_tensor = {"scales": [2.0**-5], "zps": [zero], "qtype": "per_tensor"}
    q, k, v = (b.input((2, 8, 16, 16), dtype).dequantize(**per_tensor) for _ in range(3))
    mask = b.input((2, 1, 16, 16))
    weights = (q.matmul(k, transpose_b=True) / 4.0 + mask).softmax(axis=-1)
    steps = {"scales": [2.0**-8], **PER_TENSOR}
    weights = weights.quantize(dtype=dtype, **steps).dequantize(**steps)
    y = (weights @ v).static_transpose(order=(0, 2, 1, 3))
    y = y.static_reshape(shape=(2, 16, 128), special_zero=False)
    zps = [64 if made == "u8" else 0]
    b.output(y.quantize(dtype=made, scales=[2.0**-5], zps=zps, qtype="per_tensor"))


@written
def softmax(b, shape, axis, mode="inf_as_zero", **options):
    b.output(b.softmax(b.input(shape, **options), axis=axis, mode=mode))


@written
def softmax_and(b, shape, axis, operand):
    b.output(b.input(shape).softmax(axis=axis) + b.input(operand))


def softmax_of_infinities(b):
    x = np.ones((2, 8, 16), np.float32)
    x[1, :, 3] = -np.inf
    b.output(b.softmax(b.constant(x), axis=1, mode="inf_as_zero"))


@written
def selecting(b, condition, first, second):
    """Shapes, or constants."""
    operands = (b.input(x) if isinstance(x, tuple) else np.float32(x) for x in (first, second))
    known = isinstance(condition, np.ndarray)
    b.output(b.select(condition if known else b.input(condition, "boolean"), *operands))


# -- products


@written
def product(b, source, weights, *operands, dtype="f32", transpose_a=False, transpose_b=False):
    x, w = b.input(source, dtype), b.input(weights, dtype)
    y = b.matmul(x, w, transpose_a=transpose_a, transpose_b=transpose_b)
    for shape in operands:
        y = y + b.input(shape, dtype)
    b.output(y)


@written
def product_and_strided(b, batch, operand, strides):
    y = b.input((*batch, 7, 16)) @ b.input((*batch, 16, 5))
    b.output(y + b.input(operand, strides=strides))


@written
def int8_product(
    b, source, weights, *operands, limit=None, dtype="s8", zero=0, cast="f32", **attributes
):
    """Weights are an input, or constants below a limit; `zero` is their zero point."""
    x = b.input(source, dtype)
    w = (
        b.input(weights, "s8")
        if limit is None
        else b.constant(integers(*weights, low=-limit, high=limit + 1))
    )
    given = [x.dequantize(**UNIT), w.dequantize(**{**UNIT, "zps": [zero]})]
    if cast != "f32":
        given = [v.type_cast(dtype=cast) for v in given]
    y = b.matmul(*given, **attributes)
    for shape in operands:
        y = y + b.input(shape, cast)
    b.output(y)


@written
def residual(b, source, target):
    x, r = b.input((8, 64), "u8"), b.input((8, 32), source)
    weights = b.constant(integers(64, 32)).dequantize(scales=[2.0**-6], **PER_TENSOR)
    y = x.dequantize(scales=[0.25], **PER_TENSOR) @ weights
    y = y + r.dequantize(scales=[0.5], **PER_TENSOR)
    b.output(y.quantize(dtype=target, scales=[0.5], **PER_TENSOR))


@written
def quantized_product(b, qtype):
    w = b.constant(integers(16, 20))
    y = b.input((19, 16), "u8").dequantize(scales=[0.5], **PER_TENSOR)
    y = y @ w.dequantize(scales=[0.25], **PER_TENSOR)
    if qtype == "per_tensor":
        b.output(y.quantize(dtype="s8", scales=[2.0], **PER_TENSOR))
        return
    scales = [2.0 ** (i % 4) for i in range(20)]
    b.output(y.quantize(dtype="s8", scales=scales, zps=[0] * 20, qtype=qtype, axis=1))


def quantized_convolution(b):
    y = b.input((1, 16, 6, 6), "u8").dequantize(scales=[0.25], **PER_TENSOR)
    w = b.constant(integers(3, 3, 16, 8)).dequantize(scales=[2.0**-6], **PER_TENSOR)
    y = y.convolution(w, data_format="NCX", **PLAIN)
    scales = [2.0 ** (i % 4) for i in range(8)]
    b.output(y.quantize(dtype="s8", scales=scales, zps=[0] * 8, qtype="per_channel", axis=1))


def by_channel(*zps, scale=2.0**-4, axis=1):
    """As many channels as zero points, each with its own scale."""
    scales = [scale * (1 + i) for i in range(len(zps))]
    return {"scales": scales, "zps": zps, "qtype": "per_channel", "axis": axis}


def _residual(*zps, axis=1):
    return {**by_channel(*zps, axis=axis), "scales": [16.0] * len(zps)}


@written
def int8_sum(b, w=UNIT, r=None, y=None, source=UNIT, shape=(6, 3), convolution=False):
    """A product or convolution, with a residual and a quantized result; each quantized so."""
    x = b.input((1, *shape) if convolution else shape, "u8").dequantize(**source)
    if convolution:
        made = x.convolution(b.constant(integers(1, 3, 3)).dequantize(**w), **ROW_CONVOLUTION)
    else:
        made = x @ b.constant(integers(shape[-1], 3)).dequantize(**w)
    if r is not None:
        made = made + b.input(made.shape, "s8").dequantize(**r)
    b.output(made if y is None else made.quantize(dtype="u8", **y))


@written
def narrow_sum(b, residual, result, shape=(3, 6, 4), scaled=None):
    """A product of integers in bf16, with a residual as large, and a quantized result."""

    def given(shape, dtype, parameters=UNIT):
        return b.input(shape, dtype).dequantize(**parameters).type_cast(dtype="bf16")

    scaled = scaled or {"scales": [128.0], **PER_TENSOR}
    y = given((3, 6, 5), "s8") @ given((3, 5, 4), "s8") + given(shape, residual, scaled)
    b.output(y.type_cast(dtype="f32").quantize(dtype=result, scales=[256.0], **PER_TENSOR))


@written
def product_of_scaled(b, source, weights):
    x = b.input(source, "s8").dequantize(**by_channel(*[0] * 7, axis=len(source) - 1))
    b.output(x @ b.input(weights, "s8").dequantize(**UNIT))


@written
def depthwise_scales(b, axis, *, fused=False):
    w = b.input((4, 1, 2, 3), "s8")
    w = w.dequantize(scales=[0.5, 1.0, 0.25, 2.0], qtype="per_channel", axis=axis)
    if fused:
        x = b.input((1, 5, 6, 4), "u8").dequantize(**UNIT)
        window = {**PLAIN, "weights_format": "IOX", "groups": 4}
        w = x.conv_transpose(w, **window)
    b.output(w)


@written
def int8_average(b, zero, pad, *, exclude_pad=False):
    parameters = {"scales": [1.0], "zps": [zero], "qtype": "per_tensor"}
    window = {"kernel": (2,), "strides": (1,), "pads_begin": (pad,), "pads_end": (0,)}
    y = b.input((1, 5, 3), "u8").dequantize(**parameters)
    y = y.avg_pool(exclude_pad=exclude_pad, **window)
    b.output(y.quantize(dtype="u8", **parameters))


@written
def gated_mlp(b, dtype):
    """Without `apply_to_int`, which would let oneDNN compute in integers."""

    def weights():
        w, scales = b.input((64, 64), dtype), b.input((2, 64))
        kind = {"qtype": "per_group", "axis": 0, "group_shape": (32, 1)}
        return w.dynamic_dequantize(scales, **kind)

    x = b.input((16, 64))
    gate = x @ weights()
    b.output((gate * gate.sigmoid() * (x @ weights())) @ weights())


@written
def product_of_strided(b, shape, strides):
    batch, heads, rows, _ = shape
    b.output(b.input((batch, heads, 3, rows)) @ b.input(shape, strides=strides))


@written
def reshaped_mask(b, strides):
    """Attention whose queries share heads by reshapes, as does its mask."""
    shapes = (2, 2, 2, 3, 8), (2, 2, 1, 5, 8), (2, 2, 1, 5, 8), (1, 2, 2, 1, 5)
    given = (2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 8), (1, 4, 1, 5)
    inputs = [b.input(s, strides=strides if s is given[-1] else None) for s in given]
    q, k, v, mask = (
        x.static_reshape(shape=s, special_zero=False) for x, s in zip(inputs, shapes, strict=True)
    )
    y = (q.matmul(k, transpose_b=True) * 0.5 + mask).softmax(axis=-1) @ v
    b.output(y.static_reshape(shape=given[0], special_zero=False))


@written
def product_and_cast_operand(b, source, weights, operand):
    """A product of integers in bf16, and an operand of integers."""
    x, w, z = (
        b.input(shape, "s8").dequantize(scales=[scale], **PER_TENSOR).type_cast(dtype="bf16")
        for shape, scale in ((source, 2.0**-5), (weights, 2.0**-7), (operand, 2.0**-6))
    )
    b.output((x @ w + z).type_cast(dtype="f32").quantize(dtype="s8", scales=[0.0625], **PER_TENSOR))


@written
def product_of_batches(b, shape, strides, batch=(2,)):
    b.output(b.input((*batch, *shape[:-2], 3, shape[-2])) @ b.input(shape, strides=strides))


@written
def product_over(b, size):
    b.output((b.input((4, size)) @ b.input((size, 8))).relu())


@written
def strided_scales(b, strides):
    scales = b.input((1, 2, 2), strides=strides)
    kind = {"qtype": "per_group", "axis": 2, "group_shape": (1, 1, 2)}
    b.output(b.input((1, 2, 4), "s8").dynamic_dequantize(scales, **kind))


@written
def with_zero_point(b, dtype):
    x, scale, zero = b.input((2, 3), "u8"), b.input((1,)), b.input((1,), dtype)
    b.output(x.dynamic_dequantize(scale, zero, qtype="per_tensor"))


# -- convolution and pooling


@written
def pool(b, source, operand, *, data_format="NXC", **window):
    y = b.input(source).max_pool(data_format=data_format, **(window or HALF))
    b.output(y + b.input(operand))


ROW_POOL = {"kernel": (2,), "strides": (1,), "pads_begin": (0,), "pads_end": (0,)}


@written
def int8_pool(b, *kinds):
    y = b.input((1, 4, 4, 8), "s8").dequantize(scales=[0.5], **PER_TENSOR).max_pool(**HALF)
    for kind in kinds:
        y = getattr(y, kind)()
    b.output(y.quantize(dtype="s8", scales=[0.5], **PER_TENSOR))


@written
def int8_pool_with(b, operand, op="max_pool", data_format="NXC", quantized=True):
    extra = {"exclude_pad": True} if op == "avg_pool" else {}
    y = b.input((2, 4, 6, 8), "s8").dequantize(scales=[0.5], **PER_TENSOR)
    y = getattr(y, op)(data_format=data_format, **HALF, **extra) + b.input(operand)
    b.output(y.quantize(dtype="s8", scales=[0.5], **PER_TENSOR) if quantized else y)


@written
def convolution(b, source, weights, dtype="bf16", *, op="convolution", operand=None, **attributes):
    spatial = len(source) - 2
    plain = {"strides": 1, "pads_begin": 0, "pads_end": 0, "dilations": 1}
    lists = {name: attributes.pop(name, (each,) * spatial) for name, each in plain.items()}
    y = getattr(b, op)(b.input(source, dtype), b.input(weights, dtype), **lists, **attributes)
    b.output(y if operand is None else y + b.input(operand, dtype))


@written
def channels_behind(b, op, kind, behind, of):
    """A convolution of format `of`, and an op on channels of format `behind` after it."""
    x, w = b.input((2, 3, 3, 3)), b.input((3, 3, 3, 3))
    y = getattr(b, op)(x, w, **{**PLAIN, "data_format": of})
    channels = [b.input((3,)) for _ in range(1 if kind == "bias_add" else 4)]
    more = {} if kind == "bias_add" else {"epsilon": 1e-3}
    b.output(getattr(b, kind)(y, *channels, data_format=behind, **more))


@written
def int8_convolution(
    b, source, weights, *, dtype="s8", zero=0, shift=0, op="convolution", **attributes
):
    """`zero` is the zero point of the source, `shift` that of the weights."""
    lists = {name: attributes.pop(name, each) for name, each in PLAIN.items()}
    x = b.input(source, dtype).dequantize(scales=[0.25], zps=[zero], qtype="per_tensor")
    w = b.constant(integers(*weights))
    w = w.dequantize(scales=[2.0**-6], zps=[shift], qtype="per_tensor")
    b.output(getattr(x, op)(w, **lists, **attributes))


@written
def biased_product(b, source, weights):
    y = b.input(source) @ b.input(weights)
    b.output(y.bias_add(b.input((y.shape[1],)), data_format="NCX"))


@written
def transposed_with_residual(b, zero):
    x = b.input((1, 3, 3, 16), "u8").dequantize(scales=[0.25], **PER_TENSOR)
    w = b.constant(integers(3, 3, 16, 16, low=-127, high=128))
    w = w.dequantize(scales=[2.0**-9], **PER_TENSOR)
    r = b.input((1, 5, 5, 16), "s8").dequantize(scales=[0.5], zps=[zero], qtype="per_tensor")
    y = x.conv_transpose(w, **{**PLAIN, "strides": (2, 2)}) + r
    b.output(y.quantize(dtype="s8", scales=[0.5], **PER_TENSOR))


@written
def transposed_before_residual(b, dtype="s8", strides=(2, 1), act="relu"):
    x = b.input((2, 3, 5, 4), dtype).dequantize(scales=[2.0**-7], **PER_TENSOR)
    w = b.constant(integers(3, 2, 6, 4)).dequantize(scales=[2.0**-4], **PER_TENSOR)
    y = x.conv_transpose(w, **{**PLAIN, "strides": strides})
    y = getattr(y, act)() if act else y
    b.output(y + b.input(y.shape))


def transposed_with_bias(b):
    y = b.conv_transpose(
        b.input((2, 4, 5, 4), "bf16"), b.input((3, 1, 3, 4), "bf16"), b.input((3,), "bf16"),
        strides=(2, 2), pads_begin=(2, 0), pads_end=(0, 0), dilations=(1, 1),
    )  # fmt: skip
    b.output(y)


@written
def weights_gradient(b, size):
    b.output(
        b.conv_transpose_backward_weights(
            b.input((1, 1, size)), b.input((1, 1, 2 * size)), auto_pad="SAME_UPPER",
            weights_shape=(1, 1, 3), strides=(2,), pads_begin=(0,), pads_end=(0,),
            dilations=(1,), data_format="NCX", weights_format="IOX",
        )
    )  # fmt: skip


@written
def data_gradient(b, dilation, *, kernel=2, first=True):
    """Sizes with which it compiles, dilated or not."""
    weights = (kernel, 3, 2) if first else (2, 3, kernel)
    b.output(
        b.conv_transpose_backward_data(
            b.input((1, 7, 3)), b.input(weights), strides=(2,), pads_begin=(0,), pads_end=(0,),
            dilations=(dilation,), weights_format="XOI" if first else "IOX",
        )
    )  # fmt: skip


@written
def padded_data_gradient(b, size, auto_pad="SAME_UPPER", kernel=3):
    b.output(
        b.conv_transpose_backward_data(
            b.input((1, size, 3)), b.input((kernel, 3, 2)), strides=(2,), pads_begin=(0,),
            pads_end=(0,), dilations=(1,), auto_pad=auto_pad,
        )
    )  # fmt: skip


# -- the others


@written
def layer_norm_and(b, operand, dtype="f32"):
    x, z = b.input((6, 16), dtype), b.input(operand)
    y = x.layer_norm(noise(16, seed=1), noise(16, seed=2), keep_stats=False)
    b.output((y if dtype == "f32" else y.type_cast(dtype="f32")) + z)


@written
def quantized_norm_and(b, operand, op="softmax", **attributes):
    y = getattr(b.input((3, 4, 5, 6)), op)(**(attributes or {"axis": -1})) + b.input(operand)
    b.output(y.quantize(dtype="s8", scales=[0.05], **PER_TENSOR))


@written
def group_norm_quantized(b, axis=None, data_format="NCX"):
    how = {"groups": 2, "keep_stats": False, "use_affine": False, "data_format": data_format}
    y = b.input((3, 4, 5, 6)).group_norm(**how)
    scales = [0.02 * 2**i for i in range((3, 4, 5, 6)[axis])] if axis else [0.05]
    qtype = {"qtype": "per_channel", "axis": axis, "zps": [0] * len(scales)}
    b.output(y.quantize(dtype="s8", scales=scales, **(qtype if axis else PER_TENSOR)))


@written
def int8_pool_and(b, zps):
    """Pooling of u8, plus a residual with zero points of its channels."""
    of_channels = {"qtype": "per_channel", "axis": 0, "scales": [0.5] * len(zps), "zps": zps}
    x = b.input((2, 3, 4, 4), "u8").dequantize(scales=[0.25], **PER_TENSOR)
    y = x.max_pool(data_format="NCX", **HALF)
    y = y + b.input((3, 1, 1), "u8").dequantize(**of_channels)
    b.output(y.quantize(dtype="u8", scales=[0.5], **PER_TENSOR))


@written
def sums(b, shape, *operands):
    y = b.input(shape)
    for operand in operands:
        y = y + b.input(operand)
    b.output(y)


@written
def sums_of_strided(b, shape, strides, *operands):
    y = b.input(shape, strides=strides) + b.input(shape, strides=strides)
    for operand in operands:
        y = y + b.input(operand)
    b.output(y)


@written
def sums_of_convolution(b, *operands, again=False):
    """Behind a convolution whose channels oneDNN puts last, and maybe its own result again."""
    made = y = b.convolution(
        b.input((3, 4, 7)),
        b.input((8, 4, 3)),
        weights_format="OIX",
        data_format="NCX",
        **ROW_CONVOLUTION,
    )
    for operand in operands:
        y = y + b.input(operand)
    b.output(y * made if again else y)


@written
def one_op(b, kind, *shapes, layouts=(), outputs=1, dtype="f32", made="f32", **attrs):
    """An op; `layouts` has the strides of some inputs, by their numbers."""
    given = dict(layouts)
    inputs = [b.input(s, dtype, strides=given.get(i)) for i, s in enumerate(shapes)]
    results = b.op(kind, *inputs, outputs=[(None, made)] * outputs, **attrs)
    b.output(*(results if outputs > 1 else (results,)))


@written
def _slopes_after_product(b, kind, slope):
    """An op on a tensor of two dims, and a product that oneDNN writes with the same two.

    oneDNN's partitions come in reverse, so that the product is compiled first.
    """
    diff = [(15, 2)] if kind == "PReLUBackward" else []
    build = one_op(kind, (15, 2), slope, *diff, outputs=1 + len(diff), data_format="NXC")
    build(b)
    b.output(b.input((3, 5, 4)).matmul(b.input((4, 2))) + b.input((3, 5, 2)))


@written
def layer_norm_of_constants(b, *shape):
    y = b.constant(noise(1, 1, 1, 4)).layer_norm(b.input((4,)), b.input((4,)), keep_stats=False)
    b.output(b.input(shape) + y)


@written
def weights_of_padding(b, pad, dtype="bf16", auto_pad="None"):
    size = (3, 6, 3 - pad), (3, 3, 1)
    b.output(
        b.convolution_backward_weights(
            *(b.input(s, dtype) for s in size), strides=(2,), pads_begin=(0,), pads_end=(pad,),
            dilations=(1,), weights_shape=(3, 6, 3), data_format="NCX", weights_format="OIX",
            auto_pad=auto_pad,
        )
    )  # fmt: skip


@written
def read_again(b, scalars, *, whole=False):
    """Behind a transposed convolution, its result or another tensor of its shape."""
    attrs = {"strides": (2,), "dilations": (1,), "pads_begin": (2,), "pads_end": (2,)}
    y = made = b.conv_transpose(
        b.input((3, 16, 2)), b.input((2, 2, 3)), groups=2, weights_format="IOX", **attrs
    )
    for _ in range(scalars):
        y = b.maximum(y, b.constant(np.float32([0.25])))
    y = b.minimum(y, b.input((4,)))
    b.output(b.maximum(y, b.input(made.shape) if whole else made))


@written
def int8_one_row(b, strides):
    """By integer weights of one row, of several batches."""
    x, w = b.input((2, 3, 4, 1), "s8"), b.input((2, 3, 1, 8), "s8", strides=strides)
    b.output(x.dequantize(**UNIT) @ w.dequantize(**UNIT))


@written
def weights_of_depth(b, depth, pads=(1, 1), dtype="bf16"):
    """Of a kernel of 3 planes."""
    attrs = {"strides": (1,) * 3, "dilations": (1,) * 3, "data_format": "NXC"}
    x, y = (2, depth, 4, 6, 4), (2, depth + sum(pads) - 2, 4, 6, 5)
    b.output(
        b.convolution_backward_weights(
            b.input(x, dtype), b.input(y, dtype), pads_begin=(pads[0], 1, 1),
            pads_end=(pads[1], 1, 1), weights_shape=(5, 4, 3, 3, 3), weights_format="OIX",
            **attrs,
        )
    )  # fmt: skip


@written
def operand_of(b, base, operand, strides):
    """A product, sum or normalization, and a strided operand behind it."""

    def x():
        return b.input((2, 3, 5, 4))

    made = {
        "product": lambda: b.input((2, 3, 5, 6)) @ b.input((2, 3, 6, 4)),
        "sum": lambda: x() + x(),
        "norm": lambda: x().layer_norm(keep_stats=False, use_affine=False),
        "softmax": lambda: x().softmax(axis=-1),
    }[base]()
    b.output(made * b.input(operand, strides=strides))


# -- all of them


@dataclass(frozen=True)
class Row:
    """What is tried of a row.

    Parameters
    ----------
    met, right : tuple of callable
        Graphs that meet it, and graphs beside them that don't.
    where, elsewhere : tuple of Conditions
        Some under which it holds, and some under which it does not.
    alone : tuple of callable
        Those graphs of `met` that are wrong also in a partition of each op's own.
    hidden : str
        A sentence that says why a call may show nothing.
    """

    met: tuple[Build, ...]
    right: tuple[Build, ...]
    where: tuple[Conditions, ...] = EVERYWHERE
    elsewhere: tuple[Conditions, ...] = ()
    alone: tuple[Build, ...] = ()
    hidden: str = ""


ONLY_OLD = {"where": (OLD, before(AMX)), "elsewhere": (NEW, OPENMP, AMX)}
BY_HEADS = {"where": (OPENMP, AVX512, AMX), "elsewhere": (OLD, NEW, before(AMX))}
IN_HEADS = {"where": (OLD, OPENMP, AVX512, before(AMX), AMX), "elsewhere": (NEW,)}
ONLY_NEW = {"where": (NEW, OPENMP, AMX), "elsewhere": (OLD, before(AMX))}
FROM_AVX2 = {
    **ONLY_NEW,
    "elsewhere": (*ONLY_NEW["elsewhere"], NEW._replace(isa="avx"), OPENMP._replace(isa="avx")),
}
AMX_NEW = {"where": (AMX,), "elsewhere": (before(AMX), F16, BF16, NEW)}
AMX_ALL = {"where": (AMX, before(AMX)), "elsewhere": (F16, BF16, NEW, OLD)}
F16_NEW = {"where": (F16, AMX), "elsewhere": (before(F16), BF16, VNNI, NEW)}

_heads = (2, 4, 16, 32), (2, 4, 32, 16)
_few = (
    product((1, 1, 75, 21), (61, 75), dtype="bf16", transpose_a=True, transpose_b=True),
    product((1, 2, 16, 16), (61, 16), dtype="bf16", transpose_a=True, transpose_b=True),
)
_column = (3, 9, 3, 20), (3, 2, 20, 4)
_tall = {"strides": (1, 2), "pads_end": (2, 0)}
_gap = {"op": "conv_transpose", "data_format": "NCX", "weights_format": "IOX", "strides": (3,)}
_depthwise = (1, 8, 6, 6), (8, 1, 3, 3)
_dilated = {
    "groups": 8, "data_format": "NCX", "weights_format": "OIX", "operand": (1, 8, 1, 1),
    "dilations": (2, 2), "pads_begin": (2, 2), "pads_end": (2, 2),
}  # fmt: skip
_one_row = {"strides": (3,), "pads_begin": (2,)}
_deep = {"strides": (1,) * 3, "dilations": (1,) * 3, "pads_begin": (1,) * 3, "pads_end": (1,) * 3}
_half_deep = {**_deep, "pads_begin": (1, 0, 0), "pads_end": (0, 0, 0)}
_planes = (
    convolution((2, 1, 4, 5, 1), (3, 3, 3, 1, 17), **_deep),
    convolution((1, 1, 8, 8, 4), (2, 1, 3, 1, 8), **_half_deep, groups=4),
)
_planes_in_amx = (
    convolution((2, 1, 4, 5, 3), (3, 3, 3, 3, 17), **_deep),
    convolution((1, 1, 8, 8, 9), (2, 1, 3, 9, 8), **_half_deep),
)

_middle = {"scales": [4.0], "zps": [128], "qtype": "per_tensor"}
_steps = {**_middle, "scales": [32.0]}
_one_channel = depthwise_scales(1)
_unreached = {"dtype": "u8", "op": "conv_transpose", "pads_begin": (0, 0), "pads_end": (0, 0)}
_beyond = {**_unreached, "output_padding": (1, 0)}
_empty = product_over(0)
_both_transposed = one_op("MatMul", (5, 2, 8, 6), (3, 8), transpose_a=True, transpose_b=True)
_by_reference = (
    _slopes_after_product("PReLUBackward", (1,)),
    _slopes_after_product("PReLU", (15, 1)),
    # Wrong by itself: a slope a channel and row, shared by the columns.
    one_op("PReLUBackward", (2, 3, 4, 5), (1, 3, 4, 1), (2, 3, 4, 5), outputs=2, data_format="NCX"),
)
_of_nothing = (
    one_op("PReLUBackward", (0, 9, 2), (2,), (0, 9, 2), outputs=2, data_format="NXC"),
    one_op(
        "LayerNormBackward", *((0, 2, 7),) * 2, *((0, 2),) * 2, (7,), (7,), outputs=3, epsilon=1e-3
    ),
)
# Before 3.9 SoftMax has no statistics.
_trained = (attention_with_statistics((1, 1, 32, 32)),)[: 1 * (LINKED >= (3, 9))]
# Before 3.8 SoftMax has no mode.
_outer = (
    softmax_of_infinities,
    softmax((2, 16, 32), 1),
    softmax((40, 33), 0),
    softmax((4, 8, 16), -1, strides=(128, 1, 8)),
)[: 4 * (LINKED >= (3, 8))]
_inner = (softmax((2, 16, 32), -1), softmax((2, 16, 1), 1), softmax((2, 16, 32), 1, "none"))[
    : 3 * (LINKED >= (3, 8))
]
# Before 3.12 there is no Dropout.
_dropped = (dropped(2), dropped(2, product=True))[: 2 * (LINKED >= (3, 12))]
_whole = (dropped(1),)[: 1 * (LINKED >= (3, 12))]
_infinite = (
    selecting((2, 4, 8), [0.0], np.full((2, 4, 8), -np.inf)),
    selecting((4, 8), (2, 4, 8), [-np.inf]),
    selecting_of_computed(True),
)
_shared = product((2, 2, 7, 1), (7, 5), dtype="bf16", transpose_a=True)
_shared_f16 = product((2, 2, 7, 1), (7, 5), dtype="f16", transpose_a=True)
_narrow = convolution(*_column, **_tall)
_backward = convolution(*_column, op="conv_transpose_backward_data", **_tall)
_gradients = (
    weights_gradient(5), padded_data_gradient(5), padded_data_gradient(5, "SAME_LOWER", kernel=2)
)  # fmt: skip
_strided = strided_scales((8, 4, 1))
_four_bits = with_zero_point("u4")
_layer = {"op": "layer_norm", "keep_stats": False, "use_affine": False}
_groups = {"op": "group_norm", "groups": 2, "keep_stats": False, "use_affine": False}
_last = (160, 1, 20, 4)  # channels last, of (2, 4, 8, 5)
_dilated_gradients = data_gradient(2), data_gradient(2, first=False)
_one_row_apart = (product_of_strided((2, 3, 1, 8), (30, 10, 10, 1)),)
_within = (
    product_of_batches((7, 5, 9), (9, 63, 1)),
    product_of_batches((7, 5, 9), (5, 1, 35), (1,)),
)
_rows = (
    convolution((1, 9, 4), (3, 4, 2), "bf16", **_one_row),
    convolution((1, 8, 4), (2, 4, 16), "f16", **_one_row),
)

_gapped = attention_of_five_dims((1, 2, 4), (1, 2, 1), strides=(1152, 576, 144, 16, 1))
_apart = {1: (2,)}
_parameters = (
    one_op("BatchNormInference", (2, 3, 4), *((4,),) * 4, layouts=_apart, epsilon=1e-3),
    one_op("LayerNorm", (3, 4), (4,), (4,), layouts=_apart, keep_stats=False),
    one_op("GroupNorm", (2, 3, 4), (4,), (4,), layouts={2: (3,)}, groups=2, keep_stats=False),
    one_op("DynamicQuantize", (3, 4), (4,), layouts=_apart, made="s8", qtype="per_channel", axis=1),
    one_op(
        "LayerNormBackward", (3, 4), (3, 4), (3,), (3,), (4,), (4,), layouts={4: (2,)}, outputs=3
    ),
)
_channels = {"per_channel_broadcast": True, "data_format": "NXC"}
_slopes = (
    one_op("PReLU", (1, 2, 2, 2), (2,), layouts={0: (8, 1, 4, 2)}, **_channels),
    one_op(
        "PReLU",
        (3, 4, 5, 2),
        (4,),
        layouts={0: (40, 5, 1, 20)},
        **_channels | {"data_format": "NCX"},
    ),
)
_turned = {1: (5, 15, 1)}
_plain_norm = {"use_affine": False}
_layer_gradient = "LayerNormBackward", (7, 6), (7, 6), (7,), (7,)
_of_layouts = (
    one_op(*_layer_gradient, layouts={1: (1, 7)}, **_plain_norm),
    one_op(*_layer_gradient, layouts={0: (9, 1), 1: (9, 1)}, **_plain_norm),
    one_op("SoftMaxBackward", (3, 4, 5), (3, 4, 5), layouts=_turned, axis=2),
    one_op("LogSoftmaxBackward", (3, 4, 5), (3, 4, 5), layouts=_turned, axis=-1),
)
_pixels = {"kernel": (2,), "strides": (2,), "pads_begin": (0,), "pads_end": (0,), "dilations": (1,)}
_gapped_pool = (
    one_op("MaxPoolBackward", (2, 6, 3), (2, 3, 3), layouts={0: (24, 4, 1)}, **_pixels),
)
_batch_gradient = "BatchNormTrainingBackward", (2, 3, 5, 4), (2, 3, 5, 4), *((4,),) * 3
_one_output = (one_op(*_batch_gradient, epsilon=1e-3), one_op(*_batch_gradient[:-1], epsilon=1e-3))
_alternate = np.array([True, False, False, True])
_choices = (
    selecting(_alternate.reshape(1, 4, 1), (2, 4, 1), (1, 4, 1)),
    selecting(_alternate.reshape(1, 4, 1), (1,), (2, 4, 1)),
    selecting(_alternate.reshape(4, 1, 1), (2, 4, 1, 1), (1,)),
)
_to_column = (
    convolution((1, 3, 5, 1), (1, 5, 1, 1), "f32", strides=(1, 3)),
    convolution((1, 2, 5, 2), (1, 5, 1, 16), "bf16", strides=(1, 2), groups=2),
)
_unseen = weights_of_padding(2), weights_of_padding(2, auto_pad="SAME_UPPER")
_deeper = (weights_of_depth(2),)
_reused = (
    selecting(np.array([True, False, False]), (2, 3), np.ones((2, 3))),
    selecting(_alternate, (7, 1, 1), np.ones((7, 1, 4))),
)

ROWS = {
    "mask_of_dropout": Row(
        _dropped, _whole, where=(NEW, OPENMP, AVX512, AMX), elsewhere=(OLD,),
        hidden="The mask of a call before may be in the memory.",
    ),
    "softmax_inf_as_zero": Row(
        _outer, _inner, **ONLY_NEW, alone=_outer,
        hidden="It shows only where a whole row is -inf.",
    ),
    "select_of_infinity": Row(
        _infinite,
        (
            selecting((2, 4, 8), np.zeros((2, 4, 8)), [-np.inf]),
            selecting((2, 4, 8), (1,), np.ones((2, 4, 8))),
            selecting_of_computed(False),
        ),
        **ONLY_OLD,
        alone=_infinite,
    ),
    "int8_products_without_vnni": Row(
        (
            int8_product((8, 64), (64, 32), limit=127, dtype="u8"),
            int8_product((8, 64), (64, 32), limit=127),
            int8_product((2, 8, 64), (2, 64, 32)),
            int8_convolution((1, 6, 6, 16), (3, 3, 16, 8)),
            int8_convolution((1, 6, 6, 16), (3, 3, 8, 16), op="conv_transpose"),
        ),
        (
            int8_product((8, 64), (64, 32), limit=64, dtype="u8"),
            int8_product((8, 64), (64, 32), limit=64),
            int8_convolution((1, 6, 6, 16), (3, 3, 16, 8), dtype="u8"),
            int8_convolution((1, 6, 6, 16), (3, 3, 8, 16), dtype="u8", op="conv_transpose"),
        ),
        where=(OLD, NEW, OPENMP, AVX512, NEW._replace(isa="sse41")),
        elsewhere=(VNNI, BF16, F16, AMX, NEW._replace(isa="avx2_vnni")),
    ),
    "attention_mask_of_other_rank": Row(
        (attention((4, 32, 32)),), (attention((1, 4, 32, 32)),),
        where=(OLD, before(AMX), OPENMP, AMX), elsewhere=(NEW,),
    ),
    "gradient_of_attention_scores": Row(
        (attention_gradients("q", "k", "v", "scores"),),
        (
            attention_gradients("q", "k", "v"),
            attention_gradients("q", "k", "v", "scaled"),
        ),
        **ONLY_NEW,
    ),
    "attention_select_of_other_rank": Row(
        (
            attention_of_chosen((4, 16, 16)),
            attention_of_chosen((2, 4, 16, 16), (4, 1, 1)),
            attention_of_chosen((16, 16), first=False),
            attention_of_chosen((2, 4, 16, 16), (1, 16), first=False),
        ),
        (
            attention_of_chosen((1, 4, 16, 16)),
            attention_of_chosen((16, 16)),
            attention_of_chosen((2, 4, 16, 16), (16, 16)),
            attention_of_chosen((1, 1, 16, 16), (1, 1, 1, 16), first=False),
            attention_of_chosen((4, 16, 16), shape=(1, 4, 16, 32)),  # four heads, two threads
        ),
        where=(OPENMP, AVX512, VNNI, BF16, F16, AMX),
        elsewhere=(OLD, NEW, before(AMX)),
    ),
    "attention_select_of_strided": Row(
        (
            attention_of_chosen((1, 1, 16, 16), strides=((256, 256, 1, 16), None)),
            attention_of_chosen((2, 4, 16, 16), strides=((1280, 320, 20, 1), None)),
            attention_of_chosen((2, 1, 1, 16), queries=1, strides=((64, 64, 64, 3), None)),
        ),
        (
            attention_of_chosen((2, 4, 16, 16), strides=((1280, 320, 16, 1), None)),
            attention_of_chosen((1, 1, 16, 16), first=False, strides=((256, 256, 1, 16), None)),
        ),
        **BY_HEADS,
    ),
    "four_bit_weights": Row(
        (gated_mlp("u4"),), (gated_mlp("s8"),), **ONLY_OLD
    ),
    "operand_after_softmax_of_strided": Row(
        (softmax_before_operand((6, 7, 3)), softmax_before_operand((7, 1))),
        (
            softmax_before_operand((3,)),
            softmax_before_operand((6, 7, 3), other=(3, 18, 1)),
            softmax_before_operand((6, 7, 3), None),
        ),
        where=(OLD, NEW, OPENMP, AVX512, before(AMX), AMX),
        elsewhere=(),
        hidden="Into the row-major outputs of these programs oneDNN is right.",
    ),
    "attention_on_strided_inputs": Row(
        (attention_of_strided(2), attention_of_stacked(2)),
        (attention_of_strided(3), attention_of_stacked(3)),
        where=(before(AVX512), before(AMX)),
        elsewhere=(OLD, AVX512, AMX),
    ),
    "attention_along_other_dims": Row(
        (attention_along(-2), attention_along(1)),
        (attention_along(3), attention_along(-2, heads=2)),  # four heads, two threads
        **IN_HEADS,
    ),
    "attention_of_transposed_queries": Row(
        (attention_of_turned(queries=True), attention_of_turned(queries=True, keys=False)),
        (attention_of_turned(keys=False), attention_of_turned(queries=True, heads=2)),
        **ONLY_OLD,
    ),
    "attention_of_transposed_values": Row(
        (attention_of_turned(values=True),),
        (attention_of_turned(), attention_of_turned(values=True, heads=2)),
        **IN_HEADS,
    ),
    "attention_of_wider_values": Row(
        (attention_of_values(48),), (attention_of_values(32),), **ONLY_OLD
    ),
    "attention_of_narrower_values": Row(
        (attention_of_values(5, 1), attention_of_values(16)), (attention_of_values(32, 1),),
        **ONLY_OLD,
    ),
    "attention_of_several_key_heads": Row(
        (
            attention_of_five_dims((1, 3, 2), (1, 3, 2)),
            attention_of_five_dims((1, 6, 1), (1, 6, 2)),
            attention_of_five_dims((1, 1, 8), (1, 6, 1)),
        ),
        (
            attention_of_five_dims((1, 3, 2), (1, 3, 1)),
            attention_of_five_dims((2, 1, 2), (2, 1, 2)),  # four heads, two threads
        ),
        **BY_HEADS,
    ),
    "attention_mask_of_fewer_dims": Row(
        (
            attention_of_five_dims((3, 5, 2), (3, 5, 1), (5, 1, 7, 9)),
            attention_of_five_dims((3, 5, 2), (3, 5, 1), (2, 7, 9)),
        ),
        (
            attention_of_five_dims((3, 5, 2), (3, 5, 1), (1, 5, 1, 7, 9)),
            attention_of_five_dims((3, 5, 2), (3, 5, 1), (7, 9)),
        ),
        **BY_HEADS,
    ),
    "gaps_between_shared_weights": Row(
        (_gapped,),
        (
            attention_of_five_dims((1, 2, 4), (1, 2, 1)),
            attention_of_five_dims((1, 2, 4), (1, 2, 4), strides=(4608, 2304, 576, 64, 1)),
        ),
        where=(before(AVX512), before(AMX)),
        elsewhere=(OLD, NEW, AVX512, AMX),
        alone=(_gapped,),
    ),
    "scattered_batches_of_attention": Row(
        (
            attention_of_five_dims(
                (1, 3, 2), (1, 3, 1), (1, 3, 2, 7, 9), queries=(672, 112, 336, 16, 1)
            ),
        ),
        (
            attention_of_five_dims((1, 3, 2), (1, 3, 1), queries=(672, 224, 112, 16, 1)),
            attention_of_five_dims((1, 3, 2), (1, 3, 1), queries=(768, 256, 128, 16, 1)),
        ),
        where=(OLD, before(AVX512), before(AMX)),
        elsewhere=(OLD._replace(isa="avx"), NEW, AVX512, AMX),
    ),
    "attention_condition_of_strided": Row(
        (unscaled_attention((1, 1, 16, 16), (256, 256, 1, 16)),),
        (unscaled_attention((1, 1, 16, 16), (256, 256, 16, 1)),),
        **ONLY_OLD,
    ),
    "strided_keys_of_grouped_queries": Row(
        (grouped_attention(1, (102, 17, 1, 1)), grouped_attention(8, (816, 136, 8, 1))),
        (
            grouped_attention(1, (96, 16, 1, 1)),
            grouped_attention(8, (768, 8, 48, 1)),  # the heads of a token after each other
        ),
        hidden="It shows after attention or a product of these dims with other strides.",
    ),
    "strided_operand_of_product": Row(
        (product_and_strided((2, 3), (2, 1, 7, 5), (35, 35, 1, 7)),),
        (
            product_and_strided((2, 3), (2, 1, 7, 5), (35, 35, 5, 1)),
            product_and_strided((2, 3), (2, 3, 7, 5), (105, 35, 1, 7)),
            product_and_strided((3,), (1, 7, 5), (35, 1, 7)),
        ),
        where=EVERYWHERE,
    ),
    "attention_in_other_integers": Row(
        (int8_attention("u8"),), (int8_attention("s8"),), **ONLY_OLD
    ),
    "attention_of_other_result": Row(
        (int8_attention("s8", "u8"),), (int8_attention("s8"),), **BY_HEADS
    ),
    "sum_behind_layer_norm": Row(
        (
            layer_norm_and((6, 16)),
            layer_norm_and((6, 16), "bf16"),
            layer_norm_of_constants(1, 1, 4),
        ),
        (layer_norm_and((16,)),),
        **ONLY_OLD,
    ),
    "wide_operand_behind_pooling": Row(
        (pool((2, 8, 8, 16), (2, 4, 4, 16)),),
        (pool((2, 8, 8, 16), (1, 1, 1, 16)),),
        hidden="The mirror refuses it too, as `binary_after_pooling`.",
    ),
    "channel_operand_behind_pooling": Row(
        (
            pool((2, 4, 4, 3), (3,)),
            pool((1, 7, 1), (1, 6, 1), **ROW_POOL),
            pool((1, 8, 2, 1), (4, 1, 1)),
        ),
        (
            pool((2, 4, 4, 3), (2, 1, 1, 1)),
            pool((2, 3, 4, 4), (1, 3, 1, 1), data_format="NCX"),
            pool((1, 7, 1), (1, 1, 1), **ROW_POOL),
            pool((1, 8, 4, 1), (4, 1, 1)),
        ),
    ),
    "relu_behind_int8_pooling": Row((int8_pool("relu"),), (int8_pool(),)),
    "operand_behind_int8_pooling": Row(
        (
            int8_pool_with((2, 1, 1, 1)),
            int8_pool_with((3, 1), "avg_pool"),
            int8_pool_with((1, 1, 1, 4), "avg_pool", "NCX"),
        ),
        (
            int8_pool_with((1, 4, 1, 1), "max_pool", "NCX"),
            int8_pool_with((1, 1, 1, 1), "avg_pool"),
            int8_pool_with((2, 1, 1, 1), quantized=False),
        ),
    ),
    "operand_behind_quantized_norm": Row(
        (
            quantized_norm_and((1, 4, 5, 6)),
            quantized_norm_and((4, 1, 6)),
            quantized_norm_and((3, 1, 5, 1), **_layer),
            quantized_norm_and((3, 1, 1, 1), data_format="NCX", **_groups),
        ),
        (
            quantized_norm_and((3, 4, 5, 6)),
            quantized_norm_and((4, 1, 1)),
            quantized_norm_and((1, 1, 1, 6), **_layer),
            quantized_norm_and((1, 4, 1, 1), data_format="NCX", **_groups),
            quantized_norm_and((1, 1, 1, 6), data_format="NXC", **_groups),
        ),
        **ONLY_NEW,
    ),
    "scales_after_group_norm": Row(
        (group_norm_quantized(2), group_norm_quantized(2, "NXC")),
        (group_norm_quantized(), group_norm_quantized(1), group_norm_quantized(3, "NXC")),
        **ONLY_NEW,
    ),
    "residual_of_other_sign": Row(
        (residual("u8", "s8"), residual("s8", "u8")), (residual("s8", "s8"),)
    ),
    "channel_scales_of_convolution": Row(
        (quantized_convolution,), (quantized_product("per_tensor"),), **ONLY_OLD
    ),
    "channel_scales_of_product": Row(
        (quantized_product("per_channel"),), (quantized_product("per_tensor"),), **ONLY_NEW
    ),
    "one_s8_channel_a_group": Row(
        (int8_convolution((1, 6, 6, 4), (3, 3, 1, 128), groups=4),),
        (
            int8_convolution((1, 6, 6, 4), (3, 3, 1, 64), groups=4),
            int8_convolution((1, 6, 6, 4), (3, 3, 1, 128), groups=4, dtype="u8"),
        ),
        where=(AVX512, before(AVX512)),
        elsewhere=(NEW, OLD, VNNI, AMX),
    ),
    "product_over_nothing": Row(
        (_empty,), (product_over(4),), **ONLY_OLD, alone=(_empty,),
        hidden="It does not show where memory that nobody wrote is 0, which is then right.",
    ),
    "both_transposed_and_shared": Row(
        (_both_transposed,),
        (
            one_op("MatMul", (5, 2, 6, 8), (3, 8), transpose_a=False, transpose_b=True),
            one_op("MatMul", (5, 2, 8, 6), (8, 3), transpose_a=True, transpose_b=False),
            one_op("MatMul", (5, 2, 8, 6), (5, 2, 3, 8), transpose_a=True, transpose_b=True),
        ),
        alone=(_both_transposed,),
        hidden="It shows only in what is compiled afterwards.",
    ),
    "results_of_nothing": Row(
        _of_nothing,
        (one_op("PReLUBackward", (3, 9, 2), (2,), (3, 9, 2), outputs=2, data_format="NXC"),),
        alone=_of_nothing,
        hidden="It does not show where memory that nobody wrote is 0, which is then right.",
    ),
    "slope_by_reference": Row(
        _by_reference,
        tuple(
            _slopes_after_product(kind, slope)
            for kind in ("PReLU", "PReLUBackward")
            for slope in ((2,), (15, 2))
        ),
        alone=_by_reference,
    ),
    "auto_pad_of_transposed_gradients": Row(
        _gradients, (weights_gradient(4), padded_data_gradient(6)), alone=_gradients
    ),
    "s8_transposed_convolution": Row(
        (
            int8_convolution((1, 6, 6, 16), (3, 3, 8, 16), op="conv_transpose", strides=(2, 2)),
            int8_convolution(
                (1, 6, 6, 16), (3, 3, 8, 16), dtype="u8", zero=3, op="conv_transpose",
                strides=(2, 2),
            ),
        ),
        (int8_convolution((1, 6, 6, 16), (3, 3, 8, 16), dtype="u8", op="conv_transpose"),),
        where=(NEW, VNNI, BF16, F16, AMX),
        elsewhere=(OPENMP, OLD, before(VNNI)),
        hidden="Over SYCL 9 of 180 calls were wrong.",
    ),
    "shifted_residual_of_transposed_convolution": Row(
        (transposed_with_residual(7),),
        (transposed_with_residual(0),),
        where=(before(VNNI), before(BF16)),
        elsewhere=(VNNI, before(F16), before(AMX), OLD),
        hidden="By oneDNN's sources it does not show on a CPU with AVX-VNNI, such as Zen 5.",
    ),
    "late_residual_of_transposed_convolution": Row(
        (
            transposed_before_residual(),
            transposed_before_residual(act="sigmoid"),
            transposed_before_residual(strides=(2, 3)),
        ),
        (
            transposed_before_residual("u8"),
            transposed_before_residual(strides=(1, 1)),
            transposed_before_residual(act=None),
        ),
        where=(before(VNNI), before(BF16)),
        elsewhere=(VNNI, before(AVX512), OLD),
    ),
    "residual_of_other_integers": Row(
        (narrow_sum("s8", "u8"), narrow_sum("u8", "s8")),
        (narrow_sum("s8", "s8"), narrow_sum("u8", "u8"), narrow_sum("s8", "u8", (1, 1, 4))),
        where=(VNNI, BF16, before(BF16), F16, AMX),
        elsewhere=(AVX512, OLD, NEW),
    ),
    "one_s8_channel_in_padded_rows": Row(
        (
            int8_convolution((2, 5, 9, 1), (3, 4, 1, 16), **_IN_ROWS),
            int8_convolution((2, 5, 9, 3), (2, 3, 1, 48), groups=3, zero=3, **_IN_ROWS),
        ),
        (
            int8_convolution((2, 5, 9, 1), (3, 4, 1, 16)),
            int8_convolution((2, 5, 9, 1), (3, 4, 1, 16), dtype="u8", **_IN_ROWS),
            int8_convolution((2, 5, 9, 1), (1, 4, 1, 16), **_IN_ROWS),
            int8_convolution((2, 5, 9, 2), (3, 4, 2, 16), **_IN_ROWS),
        ),
        where=(before(VNNI), before(BF16)),
        elsewhere=(VNNI, before(AVX512), OLD),
    ),
    "bias_of_columns": Row(
        (biased_product((7, 3, 5, 2), (7, 3, 2, 3)), biased_product((4, 5, 2), (2, 5))),
        (biased_product((7, 3, 5, 2), (7, 3, 2, 4)), biased_product((5, 2), (2, 5))),
    ),
    "zero_point_of_weights": Row(
        (int8_convolution((1, 6, 7, 8), (3, 3, 1, 8), dtype="u8", shift=3, groups=8),),
        (
            int8_convolution((1, 6, 7, 8), (3, 3, 1, 8), dtype="u8", groups=8),
            int8_convolution((1, 6, 7, 8), (3, 3, 1, 8), dtype="u8", zero=3, groups=8),
        ),
        where=(before(VNNI), before(BF16)),
        elsewhere=(VNNI, before(AVX512), OLD),
    ),
    "zero_points_of_channels": Row(
        (
            int8_sum(by_channel(1, 2, 3)),
            int8_sum(by_channel(1, 2, 3), y=_middle),
            int8_sum(r=_residual(3, 60, 90), y=_steps),
            int8_sum(r=_residual(3, 60, 90, axis=2), y=_steps, convolution=True),
            int8_pool_and([3, 60, 90]),
        ),
        (
            int8_sum(by_channel(2, 2, 2)),
            int8_sum(by_channel(0, 0, 0), y=_middle),
            int8_sum(r=_residual(60, 60, 60), y=_steps),
            int8_sum(r=_residual(60, 60, 60, axis=2), y=_steps, convolution=True),
            int8_pool_and([60, 60, 60]),
        ),
    ),
    "scales_of_channels_of_residual": Row(
        (
            int8_sum(r=by_channel(0, 0, 0, scale=16.0), y=_steps),
            int8_sum(r=by_channel(0, 0, 0, scale=16.0, axis=2), y=_steps, convolution=True),
            narrow_sum("s8", "s8", scaled=by_channel(0, 0, 0, 0, scale=64.0, axis=2)),
        ),
        (
            int8_sum(r=_steps, y=_steps),
            int8_sum(r=_steps, y=_steps, convolution=True),
            narrow_sum("s8", "s8"),
        ),
    ),
    "scales_of_one_channel": Row(
        (_one_channel,),
        (depthwise_scales(0), depthwise_scales(1, fused=True)),
        alone=(_one_channel,),
    ),
    "scales_of_input_channels": Row(
        (int8_sum(w=by_channel(0, 0, 0, axis=1), convolution=True),),
        (int8_sum(w=by_channel(0, 0, 0, axis=2), convolution=True),),
    ),
    "scales_of_flattened_source": Row(
        (
            int8_sum(source=by_channel(0, 0, axis=0), shape=(2, 5, 4)),
            int8_sum(source=by_channel(0, 0, 0, 0, axis=0), shape=(4,)),
            int8_sum(source=_residual(0, 0, axis=0), shape=(2, 5, 4)),
            int8_sum(source=by_channel(0, axis=0), shape=(1, 5, 4)),
        ),
        (
            int8_sum(source=by_channel(*[0] * 5), shape=(2, 5, 4)),
            int8_sum(source=by_channel(0, 0, axis=0), shape=(2, 4)),
            int8_sum(source=_residual(0, 0, 0, 0, axis=0), shape=(4,)),
            int8_sum(shape=(2, 5, 4)),
        ),
        **ONLY_NEW,
    ),
    "scales_of_fewer_dims": Row(
        (product_of_scaled((5, 3, 7), (2, 5, 7, 4)),),
        (product_of_scaled((2, 5, 3, 7), (2, 5, 7, 4)),),
        **ONLY_NEW,
    ),
    "unreached_elements_of_transposed_convolution": Row(
        (
            int8_convolution((1, 3, 3, 4), (1, 1, 1, 4), zero=128, strides=(3, 1), **_unreached),
            int8_convolution((1, 3, 3, 4), (3, 3, 1, 4), strides=(2, 1), **_beyond),
            int8_convolution(
                (1, 4, 3, 5), (2, 3, 1, 5), strides=(2, 1), auto_pad="SAME_LOWER", **_beyond
            ),
        ),
        (
            int8_convolution((1, 3, 3, 4), (3, 1, 1, 4), zero=128, strides=(3, 1), **_unreached),
            int8_convolution(
                (1, 3, 3, 4), (3, 3, 1, 4), strides=(2, 1), **{**_beyond, "pads_end": (1, 0)}
            ),
            int8_convolution(
                (1, 4, 3, 5), (2, 3, 1, 5), strides=(2, 1), auto_pad="SAME_LOWER", **_unreached
            ),
        ),
        where=(OLD, OPENMP, before(AVX512)),
        elsewhere=(AVX512, VNNI),
        hidden="What was in the memory before may be 0.",
    ),
    "int8_average_over_padding": Row(
        (int8_average(100, 1),),
        (int8_average(100, 0), int8_average(0, 1), int8_average(100, 1, exclude_pad=True)),
    ),
    "strided_scales_of_groups": Row(
        (_strided,), (strided_scales((4, 2, 1)),), alone=(_strided,)
    ),
    "zero_point_of_four_bits": Row(
        (_four_bits,), (with_zero_point("u8"),), alone=(_four_bits,), **ONLY_NEW
    ),
    "operand_of_shared_weights": Row(
        (
            product((4, 8, 16), (16, 12), (4, 1, 1)),
            product((4, 8, 16), (16, 12), (1, 8, 1)),
            product((2, 3, 4, 8), (8, 16), (1, 3, 1, 16)),
            product((2, 3, 4, 8), (8, 16), (1, 1, 4, 16)),
            product((1, 3, 4, 8), (8, 16), (3, 1, 1)),
            product_and_cast_operand((4, 7, 5), (5, 3), (7, 1)),
        ),
        (
            product_and_cast_operand((4, 7, 5), (5, 3), (1,)),
            product((4, 8, 16), (16, 12), (4, 8, 1)),
            product((4, 8, 16), (16, 12), (1, 8, 12)),
            product((4, 8, 16), (16, 12), (12,)),
            product((4, 16, 8), (16, 12), (4, 1, 1), transpose_a=True),
            product((2, 3, 4, 8), (1, 1, 8, 16), (1, 3, 1, 16)),
            product((2, 2, 3, 4, 8), (8, 16), (1, 1, 3, 1, 16)),
        ),
    ),
    "strided_parameters": Row(
        _parameters,
        (
            one_op("LayerNorm", (3, 4), (4,), (4,), layouts={0: (1, 3)}, keep_stats=False),
            one_op("LayerNorm", (3, 4), (4,), (4,), layouts={1: (1,)}, keep_stats=False),
        ),
        alone=_parameters,
    ),
    "slopes_of_permuted": Row(
        _slopes,
        (
            one_op("PReLU", (1, 2, 2, 2), (2,), layouts={0: (8, 4, 1, 2)}, **_channels),
            one_op("PReLU", (2, 2, 2), (2,), layouts={0: (4, 1, 2)}, **_channels),
            one_op("PReLU", (1, 2, 2, 2), (1, 2, 2, 2), layouts={0: (8, 1, 4, 2)}, **_channels),
        ),
        alone=_slopes,
    ),
    "norm_gradient_of_other_layout": Row(
        _of_layouts,
        (
            one_op(*_layer_gradient, layouts={0: (1, 7)}, **_plain_norm),
            one_op("SoftMaxBackward", (3, 4, 5), (3, 4, 5), layouts={0: (5, 15, 1)}, axis=2),
            one_op("SoftMaxBackward", (3, 4, 5), (3, 4, 5), layouts=_turned, axis=1),
        ),
        alone=_of_layouts,
    ),
    "gapped_source_of_pooling": Row(
        _gapped_pool,
        (one_op("MaxPoolBackward", (2, 6, 3), (2, 3, 3), layouts={0: (1, 6, 2)}, **_pixels),),
        **ONLY_OLD,
        alone=_gapped_pool,
        hidden="What was in the memory before may be right.",
    ),
    "batch_norm_gradient_of_one_output": Row(
        _one_output, (one_op(*_batch_gradient, outputs=3, epsilon=1e-3),), alone=_one_output
    ),
    "channel_operand_of_select": Row(
        _choices,
        (
            selecting((2, 4, 1), (2, 4, 1), (1, 4, 1)),
            selecting((1, 4, 1), (2, 4, 1), (2, 1, 1)),
            selecting((1, 4), (2, 4), (1, 4)),
        ),
        **ONLY_OLD,
        alone=_choices,
    ),
    "select_of_constants": Row(
        _reused,
        (
            selecting((3,), (2, 3), np.ones((2, 3))),
            selecting(np.array([[True, False, False]] * 2), (2, 3), np.ones((2, 3))),
            selecting(_alternate, (7, 4), np.ones((1,))),
        ),
        **ONLY_OLD,
        alone=_reused,
        hidden="It shows from the second call on.",
    ),
    "strided_operand": Row(
        # One per channel and row, (1, 3, 5, 1), is right with AVX and SSE4.1.
        (operand_of("product", (2, 1, 5, 4), (20, 1, 1, 5)),),
        (
            operand_of("product", (2, 1, 5, 4), (20, 20, 4, 1)),
            operand_of("product", (2, 3, 5, 4), (60, 1, 12, 3)),
            operand_of("softmax", (2, 1, 5, 4), (20, 1, 1, 5)),
        ),
    ),
    "operand_behind_vector": Row(
        (
            product((3, 4), (4,), (3,)),
            product((2, 3, 4), (4,), (2, 1)),
            product((4,), (2, 4, 3), (2, 1)),
        ),
        (
            product((3, 4), (4,), (1,)),
            product((4,), (2, 4, 3), (3,)),
            product((3, 4), (4, 1), (3, 1)),
        ),
        **ONLY_OLD,
    ),
    "one_channel_to_one_column": Row(
        _to_column,
        (
            convolution((1, 3, 5, 1), (1, 5, 1, 1), "f32"),
            convolution((1, 3, 5, 2), (1, 5, 2, 1), "f32", strides=(1, 3)),
            convolution((1, 3, 8, 1), (1, 5, 1, 1), "f32", strides=(1, 3)),
        ),
        where=(AVX512, before(AVX512), BF16, AMX), elsewhere=(OLD, NEW), alone=_to_column,
    ),
    "transposed_convolution_read_again": Row(
        (read_again(1),), (read_again(0), read_again(1, whole=True)), **ONLY_NEW
    ),
    "weights_deeper_than_source": Row(
        _deeper,
        (weights_of_depth(3), weights_of_depth(2, (1, 0)), weights_of_depth(2, dtype="f32")),
        where=(AVX512, before(AVX512), BF16, AMX), elsewhere=(OLD, NEW), alone=_deeper,
    ),
    "weights_that_see_padding": Row(
        _unseen, (weights_of_padding(0), weights_of_padding(2, "f32")),
        where=(AVX512, before(AVX512), BF16, AMX), elsewhere=(OLD, NEW), alone=_unseen,
        hidden="It shows where the memory was not 0 before.",
    ),
    "operand_of_one_column": Row(
        (
            product((4, 16, 4), (4, 16, 1), (1, 4, 1), transpose_a=True),
            product((4, 16, 4), (16, 1), (4, 1, 1), transpose_a=True),
            product((4, 16, 5), (16,), (4, 1), transpose_a=True),
            product((4, 16, 5), (16,), (5,), transpose_a=True),
        ),
        (
            product((4, 16, 4), (4, 16, 1), (4, 4, 1), transpose_a=True),
            product((4, 1, 4), (4, 1, 1), (1, 4, 1), transpose_a=True),
            product((4, 4, 16), (4, 16, 1), (1, 4, 1)),
        ),
        **FROM_AVX2,
    ),
    "second_channel_operand": Row(
        (
            sums((5, 17, 1, 1), (5, 17, 1, 1), (1, 17, 1, 1)),
            sums((5, 17, 1), (1, 1, 1), (17, 1)),
            softmax_and((3, 5, 1), 1, (1, 5, 1)),
        ),
        (
            softmax_and((3, 5, 2), 1, (1, 5, 1)),
            softmax_and((3, 5, 1), 2, (1, 5, 1)),
            sums((5, 17), (5, 17), (1, 17)),
            sums((5, 17, 1, 1), (5, 17, 1, 1), (5, 1, 1, 1)),
            sums((5, 17, 2, 1), (5, 17, 2, 1), (1, 17, 1, 1)),
        ),
    ),
    "last_dim_operand_of_strided": Row(
        (
            sums_of_strided((2, 4, 8, 5), _last, (1, 1, 1, 5)),
            sums_of_strided((2, 4, 8, 5), (160, 40, 1, 8), (5,)),
            sums_of_strided((2, 4, 5), (20, 1, 4), (1, 1, 1), (1, 1, 5)),
            sums_of_strided((1, 2, 1, 7), (14, 1, 14, 2), (1, 2, 1, 1), (1, 1, 1, 1), (1, 1, 1, 7)),
            sums_of_convolution((5,), (1,), (5,)),
            sums_of_convolution((3, 1, 1), (1,), (5,)),
            sums_of_convolution((1,), (5,), again=True),
        ),
        (
            sums_of_convolution((5,), (5,), (5,)),
            sums_of_convolution((5,), (1,), (8, 1)),
            sums_of_convolution((1,), (5,)),
            sums_of_strided((2, 4, 8, 5), (160, 40, 5, 1), (1, 1, 1, 5)),
            sums_of_strided((2, 4, 8, 5), (320, 80, 10, 1), (1, 1, 1, 5)),
            sums_of_strided((2, 1, 8, 5), (40, 1, 5, 1), (1, 1, 1, 5)),
            sums_of_strided((2, 4, 8, 5), _last, (1, 1, 8, 5)),
            sums_of_strided((2, 4, 8, 5), _last, (1, 1, 8, 1)),
            sums_of_strided((2, 4, 8, 5), _last, (1, 4, 1, 1)),
        ),
        **ONLY_NEW,
    ),
    "broadcast_operand_of_binary": Row(
        (
            sums((2, 3, 4, 5), (2, 3, 4, 5), (5,)),
            sums((2, 3, 4, 5), (1,), (1, 1, 1, 5)),
            sums((2, 1, 7), (2, 1, 7), (1,)),
            sums((3, 2, 1), (1, 2, 1), (1, 2, 1)),
        ),
        (
            sums((2, 3, 4, 5), (2, 3, 4, 5), (2, 3, 4, 5)),
            sums((7, 5), (7, 5), (5,)),
            sums((2, 3, 4, 5), (5,)),
        ),
        where=(IN_3_8,),
        elsewhere=(OLD, NEW, OPENMP, IN_3_8._replace(version=(3, 9))),
    ),
    "channel_operand_of_strided": Row(
        (
            sums_of_strided((2, 4, 8, 5), (160, 5, 20, 1), (1, 4, 1, 1)),
            sums_of_strided((2, 4, 8, 5), (1, 80, 10, 2), (1, 4, 1, 1)),
            sums_of_strided((2, 4, 5), (1, 10, 2), (4, 1)),
            sums_of_strided((8, 5), (1, 8), (1, 5)),
        ),
        (
            sums_of_strided((2, 4, 8, 5), _last, (1, 4, 1, 1)),
            sums_of_strided((2, 4, 8, 5), (160, 40, 1, 8), (1, 4, 1, 1)),
            sums_of_strided((2, 4, 8, 5), (4, 1, 40, 8), (1, 4, 1, 1)),
            sums_of_strided((2, 4, 8, 5), (160, 5, 20, 1), (2, 1, 1, 1)),
            sums_of_strided((8, 5), (1, 8), (8, 1)),
        ),
    ),
    "dilated_transposed_gradients": Row(
        _dilated_gradients,
        (data_gradient(1), data_gradient(2, kernel=1)),
        alone=_dilated_gradients,
    ),
    "strided_weights_of_one_row": Row(
        (*_one_row_apart, int8_one_row((30, 10, 10, 1))),
        (product_of_strided((2, 3, 1, 8), (24, 8, 8, 1)), int8_one_row((24, 8, 8, 1))),
        alone=_one_row_apart,
        where=(OPENMP, AVX512, VNNI, BF16, F16, AMX),
        elsewhere=(OLD, NEW, OPENMP._replace(isa="sse41")),
    ),
    "batch_within_weights": Row(
        _within,
        (
            product_of_batches((7, 5, 9), (45, 1, 5)),
            product_of_batches((7, 5, 9), (1, 63, 7)),
            product_of_batches((7, 5, 9), (9, 63, 1), ()),
            product_of_batches((2, 7, 5, 9), (315, 9, 63, 1), ()),
        ),
        alone=_within,
        where=(NEW, OPENMP, AVX512, VNNI, BF16, F16, AMX, before(AVX512)),
        elsewhere=(OLD, OPENMP._replace(isa="sse41")),
    ),
    "operand_for_all_heads": Row(
        (
            product(*_heads, (1, 1, 16, 16), dtype="bf16"),
            product(*_heads, (16, 16), dtype="bf16"),
            attention((32, 32), "bf16", (2, 2, 32, 64)),
            int8_product(*_heads, (1, 1, 16, 16)),
            *_trained,
        ),
        (
            product(*_heads, (1, 4, 16, 16), dtype="bf16"),
            product(*_heads, (2, 1, 16, 16), dtype="bf16"),
            product(*_heads, (1, 1, 1, 16), dtype="bf16"),
            product((1, 4, 16, 32), (1, 4, 32, 16), (1, 1, 16, 16), dtype="bf16"),
            product(*_heads, (1, 1, 16, 16)),
            attention((32, 32), "bf16"),
        ),
        **AMX_NEW,
    ),
    "operand_for_each_row": Row(
        (
            product(*_heads, (1, 4, 16, 1), dtype="bf16"),
            int8_product((1, 2, 16, 32), (1, 2, 32, 16), (1, 2, 16, 1)),
        ),
        (
            product(*_heads, (2, 4, 16, 1), dtype="bf16"),
            product(*_heads, (1, 1, 16, 1), dtype="bf16"),
            product(*_heads, (1, 4, 16, 1)),
        ),
        where=(before(AMX),),
        elsewhere=(AMX, before(F16), OLD),
    ),
    "int8_product_in_chunks": Row(
        (
            int8_product((2, 2, 32, 100), (2, 2, 100, 64)),
            int8_product((32, 100), (100, 64)),
            int8_product((2, 2, 32, 100), (1, 1, 100, 64), limit=127),
        ),
        (
            int8_product((32, 100), (100, 64), limit=127),
            int8_product((32, 128), (128, 64)),
            int8_product((32, 60), (60, 64)),
            int8_product((32, 100), (64, 100), transpose_b=True),
            int8_product((8, 100), (100, 64)),
        ),
        **AMX_NEW,
        hidden="About half of the calls are wrong.",
    ),
    "one_row_transposed": Row(
        (int8_product((2, 2, 7, 1), (7, 5), transpose_a=True), _shared, _shared_f16),
        (
            product((2, 2, 7, 1), (2, 2, 7, 5), dtype="bf16", transpose_a=True),
            product((2, 2, 8, 1), (8, 5), dtype="bf16", transpose_a=True),
            product((2, 2, 7, 2), (7, 5), dtype="bf16", transpose_a=True),
            product((2, 2, 7, 1), (7, 5), transpose_a=True),
            int8_product((2, 2, 8, 1), (8, 5), transpose_a=True),
        ),
        where=(before(AMX),),
        elsewhere=(before(BF16), OLD, NEW, F16),
        alone=(_shared, _shared_f16),
    ),
    "one_row_by_shifted_weights": Row(
        (
            int8_product((2, 2, 7, 1), (7, 5), zero=1, transpose_a=True),
            int8_product((3, 1, 64, 1), (1, 1, 64, 5), zero=-9, dtype="u8", transpose_a=True),
        ),
        (
            int8_product((2, 2, 7, 1), (7, 5), transpose_a=True),
            int8_product((2, 2, 7, 1), (2, 2, 7, 5), zero=1, transpose_a=True),
            int8_product((2, 2, 1, 7), (7, 5), zero=1),
            int8_product((7, 1), (7, 5), zero=1, transpose_a=True),
        ),
        where=(AVX512, before(AVX512), VNNI, before(BF16), AMX),
        elsewhere=(OLD, NEW, OPENMP),
    ),
    "few_rows_transposed": Row(
        _few,
        (
            product((1, 1, 75, 21), (75, 64), dtype="bf16", transpose_a=True),
            product((1, 1, 75, 21), (75, 48), dtype="bf16", transpose_a=True),
            product((1, 1, 75, 33), (75, 61), dtype="bf16", transpose_a=True),
            product((1, 75, 21), (75, 61), dtype="bf16", transpose_a=True),
            product((1, 1, 21, 75), (75, 61), dtype="bf16"),
            product((1, 1, 75, 21), (75, 61), transpose_a=True),
        ),
        where=(before(AMX),),
        elsewhere=(AMX, before(F16), BF16, NEW, OLD),
        alone=_few,
    ),
    "convolution_to_one_column": Row(
        (
            _narrow,
            _backward,
            int8_convolution(*_column, dtype="u8", pads_begin=(0, 0), **_tall),
        ),
        (
            convolution((3, 9, 5, 20), (3, 2, 20, 4), **_tall),
            convolution(*_column, strides=(1, 1)),
            convolution((3, 9, 3, 20), (3, 1, 20, 4), strides=(1, 4), pads_end=(2, 0)),
            convolution(*_column, "f32", **_tall),
        ),
        **AMX_ALL,
        alone=(_narrow, _backward),
    ),
    "one_channel_of_one_plane": Row(
        (
            int8_convolution((2, 1, 4, 5, 1), (3, 3, 3, 1, 17), dtype="u8", **_deep),
            *_planes,
        ),
        (
            convolution((2, 1, 4, 5, 4), (3, 3, 3, 4, 17), **_deep),
            convolution((2, 2, 4, 5, 1), (3, 3, 3, 1, 17), **_deep),
            convolution((2, 1, 4, 5, 1), (3, 3, 1, 1, 17), **{**_deep, "pads_end": (1, 1, 0)}),
            convolution((2, 1, 4, 5, 1), (1, 3, 3, 1, 17), **_half_deep),
            convolution((2, 1, 4, 5, 16), (3, 3, 3, 1, 16), **_deep, groups=16),
            convolution((2, 1, 4, 5, 1), (3, 3, 3, 1, 17), "f32", **_deep),
            convolution((2, 1, 4, 5, 1), (3, 3, 3, 1, 17), "f16", **_deep),
            int8_convolution((2, 1, 4, 5, 4), (3, 3, 3, 4, 17), dtype="u8", **_deep),
        ),
        # In int8 with AVX512 and VNNI, too; in bf16 they convert it.
        where=(BF16, before(BF16), F16, before(F16), AMX, before(AMX)),
        elsewhere=(NEW, OLD),
        alone=_planes,
    ),
    "padded_channels_of_one_plane": Row(
        (
            *_planes_in_amx,
            int8_convolution((2, 1, 4, 5, 3), (3, 3, 3, 3, 17), dtype="u8", **_deep),
            int8_convolution((2, 1, 4, 5, 18), (2, 1, 2, 18, 8), **_half_deep),
        ),
        (
            convolution((2, 1, 4, 5, 2), (3, 3, 3, 2, 17), **_deep),
            convolution((2, 2, 4, 5, 3), (3, 3, 3, 3, 17), **_deep),
            convolution((2, 1, 4, 5, 3), (3, 3, 3, 3, 17), "f32", **_deep),
            int8_convolution((2, 1, 4, 5, 4), (3, 3, 3, 4, 17), **_deep),
        ),
        **AMX_ALL,
        alone=_planes_in_amx,
    ),
    "convolution_of_one_row": Row(
        _rows,
        (
            convolution((1, 9, 4), (3, 4, 2), "f32", **_one_row),
            convolution((2, 9, 4), (3, 4, 2), "f16", **_one_row),
            convolution((1, 9, 4), (3, 4, 2), "f16", strides=(3,)),
            convolution((1, 9, 4), (3, 4, 2), "f16", pads_begin=(2,)),
        ),
        where=(BF16, F16, AMX, before(AMX)),
        elsewhere=(NEW, OLD, F16._replace(threads=1)),
        alone=_rows,
        hidden="The result depends on which thread writes last.",
    ),
    "channels_of_another_format": Row(
        tuple(
            channels_behind(op, kind, *formats)
            for op, kind in (
                ("convolution", "bias_add"),
                ("conv_transpose", "bias_add"),
                ("convolution", "batch_norm_inference"),
            )
            for formats in (("NXC", "NCX"), ("NCX", "NXC"))
        ),
        (channels_behind("convolution", "bias_add", "NXC", "NXC"),),
    ),
    "binary_behind_dilated_depthwise": Row(
        (convolution(*_depthwise, "f16", **_dilated),),
        (
            convolution(*_depthwise, "bf16", **_dilated),
            convolution(*_depthwise, "f16", **{**_dilated, "operand": None}),
            convolution(*_depthwise, "f16", **{**_dilated, "dilations": (1, 1)}),
            convolution((1, 8, 6, 6), (8, 2, 3, 3), "f16", **{**_dilated, "groups": 4}),
        ),
        **F16_NEW,
    ),
    "stride_beyond_kernel": Row(
        (
            convolution((2, 8, 7), (8, 8, 2), operand=(1, 8, 1), **_gap),
            transposed_with_bias,
        ),
        (
            convolution((2, 8, 7), (8, 8, 3), operand=(1, 8, 1), **_gap),
            convolution((2, 8, 7), (8, 8, 1), operand=(1, 8, 1), **_gap),
            convolution((2, 8, 7), (8, 8, 2), **_gap),
            convolution((2, 8, 7), (8, 8, 2), "f32", operand=(1, 8, 1), **_gap),
        ),
        **AMX_NEW,
        alone=(transposed_with_bias,),
    ),
    "grouped_int8_with_zero_point": Row(
        (int8_convolution((1, 12, 9, 8), (3, 3, 2, 256), dtype="u8", zero=7, groups=4),),
        (
            int8_convolution((1, 12, 9, 8), (3, 3, 2, 256), dtype="u8", groups=4),
            int8_convolution((1, 12, 9, 16), (3, 3, 4, 256), dtype="u8", zero=7, groups=4),
            int8_convolution((1, 12, 9, 8), (3, 3, 2, 64), dtype="u8", zero=7, groups=4),
            int8_convolution(
                (1, 12, 9, 8), (3, 3, 2, 256), dtype="u8", zero=7, groups=4,
                pads_begin=(0, 0), pads_end=(0, 0),
            ),
        ),
        **AMX_ALL,
    ),
}  # fmt: skip
"""By the row's name."""


def whole(b: og.GraphBuilder, **given: Any) -> Group:
    """All nodes in one group."""
    return group_of(b.nodes, leaving=leaving_of(b.nodes, readers_of(b)), **given)


def group(build: Build, mode: str = "strict", **given: Any) -> Group:
    """The nodes of a graph in one group."""
    b = og.GraphBuilder(fpmath_mode=mode)
    build(b)
    return whole(b, fpmath=mode, **given)
