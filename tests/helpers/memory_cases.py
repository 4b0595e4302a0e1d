"""A partition for each row that the mirror refuses, and one like it that is right."""

import math
from typing import NamedTuple

from fuzz import Case, Op, Tensor, run_case

import onednn_graph_py as og
from onednn_graph_py import safety
from onednn_graph_py.safety.calls import Op as SafetyOp
from onednn_graph_py.safety.calls import Tensor as SafetyTensor
from onednn_graph_py.safety.calls import schema_of
from onednn_graph_py.safety.group import Group
from onednn_graph_py.safety.shapes import shapes_of


class Row(NamedTuple):
    """A partition that meets a defect, and one like it that does not."""

    wrong: Case
    right: Case
    known: str = ""
    """How the defect is known if no program of the matrix shows it."""


# -- partitions


def t(number, dims, dtype="f32", strides=None, layout="strided"):
    return Tensor(number, dtype, dims, strides, layout)


def case(*ops: Op, alone: bool = False, apply_to_int: bool = False) -> Case:
    return Case(0, list(ops), alone=alone, apply_to_int=apply_to_int)


def conv(kind, x, w, y, ndims=2, **attrs):
    same = {"strides": 1, "pads_begin": 0, "pads_end": 0, "dilations": 1}
    lists = {name: [value] * ndims for name, value in same.items()}
    weights = "IOX" if kind == "ConvTranspose" else "OIX"
    formats = {"data_format": "NCX", "weights_format": weights}
    return Op(kind, [x, w], [y], {**lists, **formats, **attrs})


def pool(kind, x, y, ndims=2, **attrs):
    lists = {name: [1] * ndims for name in ("strides",)}
    pads = {"pads_begin": [0] * ndims, "pads_end": [0] * ndims}
    kernel = {"kernel": [2] * ndims, "data_format": "NCX"}
    return Op(kind, [x], [y], {**lists, **pads, **kernel, **attrs})


def quantization(kind, x, y, **attrs):
    return Op(kind, [x], [y], {"qtype": "per_tensor", "scales": [0.5], "zps": [0], **attrs})


def attention(query, key, value, between=None, keys_transposed=True):
    """Two products with `between` of the scores and a SoftMax between them."""
    assert query.dims is not None and key.dims is not None and value.dims is not None
    columns = key.dims[-2 if keys_transposed else -1]
    batch = tuple(max(p) for p in zip(query.dims[:-2], key.dims[:-2], strict=True))
    shape = (*batch, query.dims[-2], columns)
    scores, scaled, weights = (t(i, shape) for i in (20, 21, 22))
    made = between(scores, scaled) if between else Op("Divide", [scores, t(23, (1,))], [scaled])
    return case(
        Op("MatMul", [query, key], [scores], {"transpose_b": keys_transposed}),
        *(made if isinstance(made, list) else [made]),
        Op("SoftMax", [scaled], [weights], {"axis": -1}),
        Op("MatMul", [weights, value], [t(24, (*batch, query.dims[-2], value.dims[-1]))]),
    )


def turned_shares():
    made = attention(*HEADS)
    made.ops[-1].attrs["transpose_a"] = True
    return made


def normalized_convolution(read):
    """A convolution, normalized, plus its own result or another tensor."""
    source, weights, made, normalized, total = (t(i, (2, 4, 4, 4)) for i in range(5))
    weights = t(1, (4, 4, 1, 1))
    other = made if read else t(9, (2, 4, 4, 4))
    window = {"strides": (1, 1), "dilations": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0)}
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    parameters = [t(i, (4,)) for i in range(5, 9)]
    return case(
        Op("Convolution", [source, weights], [made], {**window, **formats}),
        Op(
            "BatchNormInference",
            [made, *parameters],
            [normalized],
            {"epsilon": 1e-3, "data_format": "NCX"},
        ),
        Op("Add", [normalized, other], [total]),
    )


HEADS = [t(i, (4, 4, 16, 32)) for i in range(3)]


def pooling(shape):
    pooled, added = t(1, (1, 8, 4, 4)), t(3, (1, 8, 4, 4))
    return case(
        pool("MaxPool", t(0, (1, 8, 5, 5)), pooled), Op("Add", [pooled, t(2, shape)], [added])
    )


def relu_add(before, operand):
    made = t(1, before)
    after = before if math.prod(before) >= math.prod(operand) else operand
    return case(Op("ReLU", [t(0, before)], [made]), Op("Add", [made, t(2, operand)], [t(3, after)]))


def tanh(strides):
    return case(Op("Tanh", [t(0, (2,) * 6, strides=strides)], [t(1, (2,) * 6)]))


def broadcast_relu_add(operand):
    """On six dims, where a binary op that broadcasts starts a kernel of its own."""
    made = [t(i, (2, 3, 2, 1, 3, 2)) for i in (2, 3, 5)]
    return case(
        Op("Subtract", [t(0, made[0].dims), t(1, operand)], [made[0]]),
        Op("ReLU", [made[0]], [made[1]]),
        Op("Add", [made[1], t(4, (1,))], [made[2]]),
    )


def running_statistics(stride):
    tensors = [t(0, (2, 3, 3, 64)), *(t(i, (64,), strides=(stride,)) for i in (1, 2))]
    outputs = [t(5, tensors[0].dims), *(t(i, (64,)) for i in range(6, 10))]
    attrs = {"epsilon": 1e-3, "momentum": 0.9}
    inputs = [*tensors, t(3, (64,)), t(4, (64,))]
    return case(Op("BatchNormForwardTraining", inputs, outputs, attrs))


def pixels_gradient(size):
    """That of weights which see every second pixel."""
    windows = -(-size // 2)
    attrs = {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    formats = {"data_format": "NXC", "weights_format": "OIX", "weights_shape": [16, 1, 1]}
    inputs = [t(0, (3, size, 1)), t(1, (3, windows, 16))]
    return case(Op("ConvolutionBackwardWeights", inputs, [t(2, (16, 1, 1))], {**attrs, **formats}))


def planes_gradient(begin):
    """That of weights of 4 planes, behind some planes of padding."""
    attrs = {"strides": [2, 1, 1], "pads_begin": [begin, 0, 0], "pads_end": [1, 0, 0]}
    attrs |= {"dilations": [1, 1, 1], "weights_shape": [3, 2, 4, 1, 1]}
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    windows = (begin + 4 + 1 - 4) // 2 + 1
    inputs = [t(0, (1, 2, 4, 5, 6)), t(1, (1, 3, windows, 5, 6))]
    made = [t(2, (3, 2, 4, 1, 1))]
    return case(Op("ConvolutionBackwardWeights", inputs, made, {**attrs, **formats}))


def batch_gradient(batch, transposed=False):
    """That of weights over a batch of a size, whose gradient, or source, is strided."""
    attrs = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    formats = {"data_format": "NCX", "weights_format": "IOX" if transposed else "OIX"}
    inputs = [t(0, (batch, 3, 6)), t(1, (batch, 16, 5), strides=(90, 1, 16))]
    if transposed:
        inputs.reverse()
    kind = f"Conv{'Transpose' if transposed else 'olution'}BackwardWeights"
    every = {**attrs, **formats, "weights_shape": [16, 3, 2]}
    return case(Op(kind, inputs, [t(2, (16, 3, 2))], every))


def one_element(*strides):
    return case(Op("Add", [t(0, (1, 1), strides=strides), t(1, (1, 1))], [t(2, (1, 1))]))


def interpolate(shape):
    attrs = {"mode": "nearest", "data_format": "NCX", "sizes": [5]}
    return case(Op("Interpolate", [t(0, shape)], [t(1, (*shape[:2], 5))], attrs))


def padded(pad):
    side = 4 + 2 * pad
    made = t(2, (1, 2, side, side))
    return case(
        conv(
            "Convolution",
            t(0, (1, 3, 4, 4)),
            t(1, (2, 3, 1, 1)),
            made,
            pads_begin=[pad] * 2,
            pads_end=[pad] * 2,
        ),
        Op("ReLU", [made], [t(3, made.dims)]),
    )


def around(size):
    """Windows of two taps around some pixels, with a bias."""
    inputs = [t(0, (2, 3, size)), t(1, (9, 1, 2)), t(2, (9,))]
    attrs = {"strides": [1], "dilations": [2], "pads_begin": [1], "pads_end": [1], "groups": 3}
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    return case(Op("Convolution", inputs, [t(3, (2, 9, size))], {**attrs, **formats}))


def normalized(statistics):
    outputs = [t(1, (4, 6, 32), "bf16"), *(t(i, (4, 6), statistics) for i in (2, 3))]
    attrs = {"use_affine": False, "keep_stats": True}
    return case(Op("LayerNorm", [t(0, (4, 6, 32), "bf16")], outputs, attrs))


def short_row(pad, dtype="bf16"):
    tensors = t(0, (1, 3, 2), dtype), t(1, (3, 3, 1), dtype), t(2, (1, 3, 2 + pad), dtype)
    return case(conv("Convolution", *tensors, ndims=1, pads_end=[pad]))


def one_slice(dilation, dtype="bf16"):
    x, w = t(0, (2, 16, 1, 9, 6), dtype), t(1, (16, 16, 2, 3, 3), dtype)
    y = t(2, (2, 16, 1 if dilation == 2 else 2, 7, 4), dtype)
    pads = [1, 0, 0]
    dilations = [dilation, 1, 1]
    return case(
        conv("Convolution", x, w, y, 3, pads_begin=pads, pads_end=pads, dilations=dilations)
    )


def pool_backward(dtype="f32", strides=None, **attrs):
    attrs = {"kernel": [1], "pads_end": [1], "exclude_pad": False, **attrs}
    x, y = t(0, (2, 7, 6), dtype), t(1, (2, 7, 5), dtype, strides)
    return case(pool("AvgPoolBackward", x, y, 1, **attrs))


def int8_pooling(twice):
    tensors = [t(i, (1, 8, 4, 4)) for i in range(1, 4)]
    pooled, added = tensors[1], tensors[2]
    return case(
        quantization("Dequantize", t(0, (1, 8, 4, 4), "u8"), tensors[0]),
        pool("MaxPool", tensors[0], pooled, kernel=[1, 1]),
        Op("Add", [pooled, pooled if twice else t(4, (1, 8, 1, 1))], [added]),
        quantization("Quantize", added, t(5, (1, 8, 4, 4), "u8")),
    )


def matmul(a, b, y, **attrs):
    return case(Op("MatMul", [t(0, a), t(1, b)], [t(2, y)], attrs))


def masked(condition, other=None):
    def between(scores, chosen):
        operands = [t(30, condition, "boolean"), t(31, other or scores.dims), scores]
        return Op("Select", operands, [chosen])

    return attention(*HEADS, between)


def chosen(condition, kind="Divide", other=None):
    """Those scores that a condition keeps, behind their scale or mask; or the others."""

    def between(scores, kept):
        scaled, others = t(32, scores.dims), t(31, other or (1,))
        pair = [others, scaled] if other else [scaled, others]
        return [
            Op(kind, [scores, t(33, (1,))], [scaled]),
            Op("Select", [t(30, condition, "boolean"), *pair], [kept]),
        ]

    return between


def grouped_queries(reshaped):
    """Attention of two queries to each key, which stand in a dim of their own."""
    heads, keys = (2, 3, 2, 4, 8), (2, 3, 1, 4, 8)
    made = attention(t(0, heads), t(1, keys), t(2, keys), chosen((2, 3, 2, 4, 4)))
    if reshaped:
        attrs = {"shape": heads, "special_zero": False}
        made.ops.insert(0, Op("StaticReshape", [t(40, (2, 6, 4, 8))], [t(0, heads)], attrs))
    return made


def quantized_softmax(qtype):
    made = t(1, (4, 8))
    count = 8 if qtype == "per_channel" else 1
    return case(
        Op("SoftMax", [t(0, (4, 8))], [made], {"axis": -1}),
        quantization(
            "Quantize", made, t(2, (4, 8), "u8"), qtype=qtype, scales=[0.5] * count, zps=[0] * count
        ),
    )


def reshaped_product(strides):
    made = t(2, (4, 6), strides=strides)
    return case(
        Op("MatMul", [t(0, (4, 3)), t(1, (3, 6))], [made]),
        Op("StaticReshape", [made], [t(3, (2, 12))], {"shape": [2, 12], "special_zero": False}),
    )


def transposed(strides):
    x, y = t(0, (2, 3, 4), strides=strides), t(1, (3, 2, 4), layout="any")
    return case(Op("StaticTranspose", [x], [y], {"order": [1, 0, 2]}))


def scores_added(first):
    def between(scores, added):
        operands = [scores, t(30, scores.dims)]
        return Op("Add", operands if first else operands[::-1], [added])

    return attention(*HEADS, between)


def scores_twice(twice):
    def between(scores, added):
        return Op("Add", [scores, scores if twice else t(30, scores.dims)], [added])

    return attention(*HEADS, between)


def two_layouts(strides, operand=(5,)):
    made = t(2, (2, 4, 8, 5))
    return case(
        Op("Add", [t(0, made.dims, strides=strides), t(1, made.dims)], [made]),
        Op("Multiply", [made, t(3, operand)], [t(4, made.dims)]),
    )


def int8_conv(kind, operand, groups=1):
    channels = 8 if groups == 1 else groups
    w = (channels, 8) if kind == "ConvTranspose" else (2 * groups if groups > 1 else 8, 8 // groups)
    made = 8 if groups == 1 else 2 * groups
    x, y, added = t(2, (1, 8, 4, 4)), t(4, (1, made, 4, 4)), t(6, (1, made, 4, 4))
    return case(
        quantization("Dequantize", t(0, x.dims, "u8"), x),
        quantization("Dequantize", t(1, (*w, 1, 1), "s8"), t(3, (*w, 1, 1))),
        conv(kind, x, t(3, (*w, 1, 1)), y, groups=groups),
        Op("Add", [y, t(5, operand)], [added]),
        quantization("Quantize", added, t(7, added.dims, "u8")),
    )


def upsampled(stride):
    """A ConvTranspose with a kernel of 1, and an operand behind it."""
    shape = (1, 6 * stride + 1, 8)
    x, w, y, z = t(0, (1, 7, 16)), t(1, (16, 8, 1)), t(2, shape), t(4, shape)
    return case(
        conv("ConvTranspose", x, w, y, ndims=1, data_format="NXC", strides=[stride]),
        Op("Subtract", [y, t(3, shape)], [z]),
    )


def pointwise(size, channels):
    """An int8 convolution that reads every second one of some pixels."""
    x, w, y = t(2, (1, size, channels)), t(3, (1, channels, 1)), t(4, (1, -(-size // 2), 1))
    return case(
        quantization("Dequantize", t(0, x.dims, "s8"), x),
        quantization("Dequantize", t(1, w.dims, "s8"), w),
        conv("Convolution", x, w, y, ndims=1, data_format="NXC", strides=[2]),
    )


def dynamic(dtype):
    operands = [t(0, (4, 8), "s8"), t(1, (1,), dtype)]
    return case(Op("DynamicDequantize", operands, [t(2, (4, 8), dtype)]))


def compressed_keys(zero_points, axis=2):
    """Attention whose keys have a scale and a zero point for each group along an axis."""
    key, group = t(1, (2, 2, 8, 4)), [1, 1, 1, 1]
    group[axis] = key.dims[axis]
    groups = tuple(d // g for d, g in zip(key.dims, group, strict=True))
    compressed = t(4, key.dims, "s8"), t(5, groups), t(6, groups, zero_points)
    attrs = {"qtype": "per_group", "axis": axis, "group_shape": group}
    dequantize = Op("DynamicDequantize", list(compressed), [key], attrs)
    given = attention(t(0, (2, 2, 4, 8)), key, t(2, (2, 2, 4, 8)), keys_transposed=False)
    return case(dequantize, *given.ops, apply_to_int=True)


FOUND = (
    "The program does not show it. Fuzzing found it, or reading oneDNN's sources; what lies beside "
    "a buffer of oneDNN's own decides what becomes of it, so models avoid it all the same."
)
NEEDS_STRIDES = "It needs a strided result of an op, which programs don't have"

FIVE = [t(0, (2, 2, 1, 3, 16)), t(1, (2, 2, 1, 4, 16)), t(2, (2, 2, 1, 4, 7))]

ROWS = {
    "binary_after_pooling": Row(pooling((1, 8, 4, 4)), pooling((1, 8, 1, 1))),
    "folded_beside_its_source": Row(normalized_convolution(1), normalized_convolution(0)),
    "widening": Row(relu_add((1, 4096), (256, 4096)), relu_add((256, 4096), (1, 4096))),
    "elementwise_rank": Row(tanh((32, 16, 8, 4, 1, 2)), tanh(None)),
    "elementwise_rank_behind_broadcast": Row(broadcast_relu_add((2,)), broadcast_relu_add((1, 1))),
    "strided_running_statistics": Row(running_statistics(2), running_statistics(1)),
    "strided_pointwise_weights_gradient": Row(pixels_gradient(6), pixels_gradient(7)),
    "weights_behind_deep_padding": Row(planes_gradient(3), planes_gradient(2)),
    "weights_gradient_of_nothing": Row(batch_gradient(0), batch_gradient(2)),
    "one_element_strides": Row(one_element(2, 2), one_element(1, 1)),
    "interpolation_of_one_column": Row(interpolate((2, 3, 1)), interpolate((2, 3, 2))),
    "attention_batches": Row(
        attention(HEADS[0], t(1, (4, 1, 16, 32)), HEADS[2]), attention(*HEADS)
    ),
    "attention_strides": Row(
        attention(
            *(
                t(i, (8, 1, 16, 32), strides=(512, 8192, 32, 1) if i == 0 else None)
                for i in range(3)
            )
        ),
        attention(*(t(i, (8, 1, 16, 32)) for i in range(3))),
    ),
    "attention_strides_of_five_dims": Row(
        attention(FIVE[0], t(1, (2, 2, 1, 4, 16), strides=(6, 48, 24, 1, 240)), FIVE[2]),
        attention(*FIVE),
    ),
    "windows_in_padding": Row(padded(1), padded(0)),
    "windows_without_data": Row(around(1), around(2)),
    "window_behind_the_data": Row(
        short_row(1),
        short_row(0),
    ),
    "window_around_the_data": Row(one_slice(2), one_slice(1)),
    "pooling_backward_without_shape": Row(pool_backward(), pool_backward(src_shape=[2, 7, 5])),
    "pooling_backward_gaps": Row(
        pool_backward("bf16", (70, 10, 2), src_shape=[2, 7, 5]),
        pool_backward("bf16", src_shape=[2, 7, 5]),
    ),
    "narrow_statistics": Row(normalized("bf16"), normalized("f32")),
    "operand_twice_behind_pooling": Row(int8_pooling(True), int8_pooling(False)),
    "operand_twice_in_attention": Row(scores_twice(True), scores_twice(False)),
    "shared_weights": Row(
        matmul((2, 1, 16, 4), (1, 1, 4, 5), (2, 1, 16, 5)),
        matmul((2, 1, 16, 4), (4, 5), (2, 1, 16, 5)),
    ),
    "shared_matrix": Row(
        matmul((2, 1, 15, 17), (15, 4), (2, 1, 17, 4), transpose_a=True),
        matmul((2, 1, 17, 15), (15, 4), (2, 1, 17, 4)),
    ),
    "attention_select": Row(masked((1, 1, 1, 16)), masked((4, 1, 1, 16), (1,))),
    "channel_scales_after_normalization": Row(
        quantized_softmax("per_channel"), quantized_softmax("per_tensor")
    ),
    "strides_before_reshape": Row(reshaped_product((8, 1)), reshaped_product(None)),
    "gaps": Row(transposed((16, 5, 1)), transposed(None)),
    "attention_condition": Row(
        attention(*HEADS, chosen((4, 1, 1, 16))),
        attention(*HEADS, chosen((4, 1, 16, 16))),
    ),
    "attention_mask_and_select": Row(
        attention(*HEADS, chosen((4, 4, 16, 16), "Add")),
        attention(*HEADS, chosen((4, 4, 16, 16))),
    ),
    "attention_of_turned_shares": Row(
        turned_shares(),
        attention(*HEADS),
        known="A program that compiles it ends by SIGFPE, with 3.7.2 and 3.13.1.",
    ),
    "attention_select_behind_mask": Row(
        attention(*HEADS, chosen((4, 4, 16, 16), "Add", (4, 4, 16, 16))),
        attention(*HEADS, chosen((4, 4, 16, 16), "Divide", (4, 4, 16, 16))),
        known="A program that compiles its first graph ends with a segmentation fault.",
    ),
    "grouped_attention_select": Row(grouped_queries(True), grouped_queries(False)),
    "attention_order": Row(scores_added(False), scores_added(True)),
    "last_dim_behind_two_layouts": Row(
        two_layouts((160, 1, 20, 4)), two_layouts((160, 1, 20, 4), (4, 1, 1))
    ),
    "binary_after_int8_deconvolution": Row(
        int8_conv("ConvTranspose", (1, 8, 4, 4)), int8_conv("ConvTranspose", (1, 8, 1, 1))
    ),
    "dynamic_scale": Row(dynamic("bf16"), dynamic("f32")),
    "zero_points_of_columns": Row(
        compressed_keys("s32"),
        attention(*HEADS),
    ),
    "operand_behind_gapped_deconvolution": Row(upsampled(2), upsampled(1)),
    "strided_int8_pointwise_convolution": Row(
        pointwise(8, 1),
        pointwise(7, 1),
    ),
    "binary_after_grouped_int8_convolution": Row(
        int8_conv("Convolution", (1, 16, 1, 1), 8), int8_conv("Convolution", (1,), 8)
    ),
}

_KNOWN = {
    "attention_select": (
        "Its own program does not show it. With 3.7.2 two graphs of "
        "`attention_select_of_other_rank` crash by it."
    ),
    "folded_beside_its_source": "oneDNN never ends compiling it, with 3.7.2 and 3.13.1.",
    "gaps": "It needs a result of layout `any`, which programs don't have.",
    "strides_before_reshape": f"{NEEDS_STRIDES}.",
    "pooling_backward_gaps": (
        f"{NEEDS_STRIDES}; over guarded buffers (`tests/helpers/fuzz.py`) it ended by signal 11 "
        "with 3.7.2 and avx512_core_bf16."
    ),
}
ROWS |= {
    name: ROWS[name]._replace(known=_KNOWN.get(name, FOUND))
    for name in (
        *_KNOWN,
        "attention_strides",
        "attention_strides_of_five_dims",
        "binary_after_grouped_int8_convolution",
        "binary_after_int8_deconvolution",
        "elementwise_rank",
        "elementwise_rank_behind_broadcast",
        "grouped_attention_select",
        "one_element_strides",
        "operand_twice_in_attention",
        "strided_pointwise_weights_gradient",
        "strided_running_statistics",
        "weights_behind_deep_padding",
        "weights_gradient_of_nothing",
        "widening",
        "windows_in_padding",
        "windows_without_data",
    )
}


# -- as the package's checks see them


def row_major(dims):
    return tuple(math.prod(dims[i + 1 :]) for i in range(len(dims)))


def read(tensor: Tensor) -> SafetyTensor:
    known = bool(tensor.dims) and tensor.layout == "strided"
    strides = (tensor.strides or row_major(tensor.dims)) if known else None
    return SafetyTensor(
        tensor.id, tensor.dtype, tensor.dims, tensor.layout, strides, tensor.logical()
    )


def group_of(given: Case, version=(3, 13), fpmath="strict") -> Group:
    """The ops of a case as those of one partition."""
    ops = []
    for i, o in enumerate(given.ops):
        attrs = {n: tuple(v) if isinstance(v, list) else v for n, v in o.attrs.items()}
        ports = [tuple(map(read, ports)) for ports in (o.inputs, o.outputs)]
        ops.append(
            SafetyOp(i, o.kind, f"op {i} ({o.kind})", *ports, attrs, schema_of(o.kind, version))
        )
    return Group(ops, shapes_of(ops, {}), {}, fpmath)


def builder_of(given: Case) -> og.GraphBuilder:
    """Build a case's graph anew, with inputs of the same layouts."""
    b = og.GraphBuilder(fpmath_mode=given.fpmath, apply_to_int=given.apply_to_int)
    values: dict[int, og.Value] = {}
    for op in given.ops:
        for x in op.inputs:
            if x.id not in values:
                values[x.id] = b.input(x.dims, x.dtype, strides=x.strides)
        inputs = [values[x.id] for x in op.inputs]
        made = b.op(op.kind, *inputs, outputs=[(x.dims, x.dtype) for x in op.outputs], **op.attrs)
        outputs = made if isinstance(made, tuple) else (made,)
        values.update(zip((x.id for x in op.outputs), outputs, strict=True))
    read = {x.id for op in given.ops for x in op.inputs}
    for op in given.ops:
        b.output(*(values[x.id] for x in op.outputs if x.id not in read))
    return b


def outcome(name: str) -> str:
    """Run what is wrong of a row, with the check."""
    return run_case(ROWS[name].wrong)


def outcome_without_the_check(name: str) -> str:
    """Run what is wrong of a row as it is; this process may end by it."""
    setattr(safety, "check_partition", lambda *given: None)  # noqa: B010 (mypy forbids the other)
    return run_case(ROWS[name].wrong)
