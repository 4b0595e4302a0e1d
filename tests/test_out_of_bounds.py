"""What makes oneDNN crash or leave its buffers: each row, under which conditions, and live."""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import fuzz
import pytest
from fuzz import Case, Op, Tensor, run_case
from graphs import needs

import onednn_graph_py as og
from onednn_graph_py import safety
from onednn_graph_py.machine import Conditions, current
from onednn_graph_py.safety import out_of_bounds
from onednn_graph_py.safety.calls import Op as SafetyOp
from onednn_graph_py.safety.calls import Tensor as SafetyTensor
from onednn_graph_py.safety.calls import schema_of
from onednn_graph_py.safety.group import Group
from onednn_graph_py.safety.out_of_bounds import DEFECTS, Features, MemoryDefect
from onednn_graph_py.safety.partitioning import partitioning_crash

CONDITIONS = [
    Conditions(version, runtime, isa, threads)
    for version, runtime, isa, threads in itertools.product(
        ((3, 7), (3, 8), (3, 13)),
        ("OpenMP", "SYCL"),
        ("avx2", "avx512_core", "avx512_core_bf16", "avx512_core_amx"),
        (1, 2),
    )
]
BY_NAME = {d.name: d for d in DEFECTS}


class Row(NamedTuple):
    """A partition that meets a defect, one like it that does not, and where the defect shows."""

    wrong: Case
    right: Case
    where: Callable[[Conditions], bool] = lambda c: True


# -- partitions


def t(number, dims, dtype="f32", strides=None, layout="strided"):
    return Tensor(number, dtype, dims, strides, layout)


def case(*ops: Op, alone: bool = False) -> Case:
    return Case(0, list(ops), alone=alone)


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


HEADS = [t(i, (2, 2, 4, 8)) for i in range(3)]


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


def masked(condition):
    def between(scores, chosen):
        operands = [t(30, condition, "boolean"), t(31, scores.dims), scores]
        return Op("Select", operands, [chosen])

    return attention(*HEADS, between)


def chosen(condition, kind="Divide"):
    """Those scores that a condition keeps, behind their scale or mask."""

    def between(scores, kept):
        scaled = t(32, scores.dims)
        return [
            Op(kind, [scores, t(33, (1,))], [scaled]),
            Op("Select", [t(30, condition, "boolean"), scaled, t(31, (1,))], [kept]),
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
    given = attention(HEADS[0], key, t(2, (2, 2, 4, 8)), keys_transposed=False)
    return case(dequantize, *given.ops)


def before_13(c: Conditions) -> bool:
    return c.version < (3, 13)


def since_8_beside_sycl(c: Conditions) -> bool:
    return since_8(c) and c.runtime != "SYCL"


def since_8(c: Conditions) -> bool:
    return c.version >= (3, 8)


FIVE = [t(0, (2, 2, 1, 3, 16)), t(1, (2, 2, 1, 4, 16)), t(2, (2, 2, 1, 4, 7))]

ROWS = {
    "binary_after_pooling": Row(pooling((1, 8, 4, 4)), pooling((1, 8, 1, 1))),
    "widening": Row(relu_add((1, 8), (4, 8)), relu_add((4, 8), (1, 8))),
    "elementwise_rank": Row(tanh((32, 16, 8, 4, 1, 2)), tanh(None)),
    "one_element_strides": Row(one_element(2, 2), one_element(1, 1)),
    "interpolation_of_one_column": Row(interpolate((2, 3, 1)), interpolate((2, 3, 2))),
    "attention_batches": Row(attention(HEADS[0], t(1, (2, 1, 4, 8)), HEADS[2]), attention(*HEADS)),
    "attention_strides": Row(
        attention(
            *(t(i, (2, 1, 4, 8), strides=(32, 64, 8, 1) if i == 0 else None) for i in range(3))
        ),
        attention(*(t(i, (2, 1, 4, 8)) for i in range(3))),
    ),
    "attention_strides_of_five_dims": Row(
        attention(FIVE[0], t(1, (2, 2, 1, 4, 16), strides=(6, 48, 24, 1, 240)), FIVE[2]),
        attention(*FIVE),
        before_13,
    ),
    "windows_in_padding": Row(padded(1), padded(0)),
    "window_behind_the_data": Row(
        short_row(1), short_row(0), lambda c: c.threads == 2 and c.runtime == "OpenMP"
    ),
    "window_around_the_data": Row(one_slice(2), one_slice(1), lambda c: c.isa.endswith("amx")),
    "pooling_backward_without_shape": Row(pool_backward(), pool_backward(src_shape=[2, 7, 5])),
    "pooling_backward_gaps": Row(
        pool_backward("bf16", (70, 10, 2), src_shape=[2, 7, 5]),
        pool_backward("bf16", src_shape=[2, 7, 5]),
    ),
    "operand_twice_behind_pooling": Row(int8_pooling(True), int8_pooling(False)),
    "operand_twice_in_attention": Row(scores_twice(True), scores_twice(False), before_13),
    "shared_weights": Row(
        matmul((2, 1, 16, 4), (1, 1, 4, 5), (2, 1, 16, 5)),
        matmul((2, 1, 16, 4), (4, 5), (2, 1, 16, 5)),
        before_13,
    ),
    "shared_matrix": Row(
        matmul((2, 1, 15, 17), (15, 4), (2, 1, 17, 4), transpose_a=True),
        matmul((2, 1, 17, 15), (15, 4), (2, 1, 17, 4)),
        lambda c: before_13(c) and c.isa != "avx2",
    ),
    "attention_select": Row(masked((1, 1, 1, 4)), masked((2, 2, 4, 4)), before_13),
    "channel_scales_after_normalization": Row(
        quantized_softmax("per_channel"), quantized_softmax("per_tensor"), before_13
    ),
    "strides_before_reshape": Row(reshaped_product((8, 1)), reshaped_product(None)),
    "gaps": Row(transposed((16, 5, 1)), transposed(None), since_8),
    "attention_condition": Row(
        attention(*HEADS, chosen((2, 1, 1, 4))),
        attention(*HEADS, chosen((2, 1, 4, 4))),
        since_8_beside_sycl,
    ),
    "attention_mask_and_select": Row(
        attention(*HEADS, chosen((2, 2, 4, 4), "Add")),
        attention(*HEADS, chosen((2, 2, 4, 4))),
        since_8_beside_sycl,
    ),
    "grouped_attention_select": Row(
        grouped_queries(True), grouped_queries(False), since_8_beside_sycl
    ),
    "attention_order": Row(scores_added(False), scores_added(True), since_8),
    "last_dim_behind_two_layouts": Row(
        two_layouts((160, 1, 20, 4)), two_layouts((160, 1, 20, 4), (4, 1, 1)), since_8
    ),
    "binary_after_int8_deconvolution": Row(
        int8_conv("ConvTranspose", (1, 8, 4, 4)), int8_conv("ConvTranspose", (1, 8, 1, 1)), since_8
    ),
    "dynamic_scale": Row(dynamic("bf16"), dynamic("f32"), since_8),
    "zero_points_of_columns": Row(
        compressed_keys("s32"),
        attention(*HEADS),
        lambda c: since_8(c) and c.isa == "avx2",
    ),
    "binary_after_grouped_int8_convolution": Row(
        int8_conv("Convolution", (1, 16, 1, 1), 8), int8_conv("Convolution", (1,), 8), since_8
    ),
}


# -- the rows, under any conditions


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
    return Group(ops, {x.id: x.dims for x in given.tensors()}, {}, fpmath)


def features_of(group: Group) -> Features:
    tensors = [x for o in group.ops for x in (*o.inputs, *o.outputs)]
    return Features(
        frozenset(o.kind for o in group.ops),
        len(group.ops) > 1,
        any(x.strides is not None and x.strides != row_major(x.shape) for x in tensors),
        group.fpmath != "strict" or any(x.dtype in ("bf16", "f16") for x in tensors),
        max(12 if x.shape is None else len(x.shape) for x in tensors),
    )


def is_met(defect: MemoryDefect, group: Group, conditions: Conditions) -> bool:
    return any(defect.met(group, op, conditions) for op in group.ops)


def test_every_defect_has_a_row():
    assert set(ROWS) == set(BY_NAME)
    assert len(BY_NAME) == len(DEFECTS)


@pytest.mark.parametrize("name", ROWS)
def test_a_defect_is_met_where_it_shows_and_nowhere_else(name):
    for conditions in CONDITIONS:
        group = group_of(ROWS[name].wrong, conditions.version)
        assert is_met(BY_NAME[name], group, conditions) == ROWS[name].where(conditions), conditions


@pytest.mark.parametrize("name", ROWS)
def test_what_is_like_it_but_right_does_not_meet_a_defect(name):
    for conditions in CONDITIONS:
        group = group_of(ROWS[name].right, conditions.version)
        assert out_of_bounds.defect_of(group, conditions) is None


@pytest.mark.parametrize("name", ROWS)
def test_no_defect_is_missed_by_what_is_cheap_to_tell(name):
    assert BY_NAME[name].may_be_met(features_of(group_of(ROWS[name].wrong)))


@pytest.mark.parametrize("seeds", [range(0, 3000), range(4_000_000, 4_003_000)])
def test_no_random_case_meets_what_is_cheap_to_tell_that_it_does_not(seeds):
    met = 0
    for seed in seeds:
        given = fuzz.make_case(seed)
        if given.mutations or any(o.kind == "End" for o in given.ops):
            continue
        group = group_of(given)
        for conditions in CONDITIONS[-1], CONDITIONS[7]:
            for defect in DEFECTS:
                if is_met(defect, group, conditions):
                    met += 1
                    assert defect.may_be_met(features_of(group)), (seed, defect.name)
    assert met > 20


def test_a_message_names_op_version_and_remedy():
    conditions = Conditions((3, 7), "OpenMP", "avx2", 1)
    found = out_of_bounds.defect_of(group_of(ROWS["shared_weights"].wrong, (3, 7)), conditions)
    assert found == (
        "op 0 (MatMul): input 0 of shape 2x1x16x4 with input 1 of shape 1x1x4x5 makes oneDNN 3.7 "
        "access memory out of bounds; leave out the dim of one element, or the ones before input "
        "1's matrix"
    )


@pytest.mark.parametrize(
    "right", [compressed_keys("s8"), compressed_keys("s32", axis=3), compressed_keys("u8")]
)
def test_other_zero_points_of_compressed_weights_are_right(right):
    for conditions in CONDITIONS:
        assert out_of_bounds.defect_of(group_of(right), conditions) is None


AMX = Conditions((3, 13), "OpenMP", "avx512_core_amx", 2)


@pytest.mark.parametrize("name", ["window_behind_the_data", "window_around_the_data"])
def test_a_floating_point_mode_makes_f32_meet_what_16_bits_do(name):
    given = short_row(1, "f32") if name == "window_behind_the_data" else one_slice(2, "f32")
    assert not is_met(BY_NAME[name], group_of(given), AMX)
    group = group_of(given, fpmath="bf16")
    assert is_met(BY_NAME[name], group, AMX)
    assert BY_NAME[name].may_be_met(features_of(group))


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "begin", "end", "auto_pad", "met"),
    [
        (8, 3, 1, 1, 1, "None", False),  # what most models have
        (7, 3, 2, 1, 1, "None", False),
        (8, 1, 2, 0, 1, "None", True),
        (7, 1, 2, 0, 1, "None", False),
        (8, 1, 1, 1, 0, "None", False),  # in front of the data it is right
        (3, 2, 2, 0, 0, "SAME_UPPER", False),
        (3, 2, 2, 0, 3, "VALID", False),
    ],
)
def test_windows_behind_the_data(size, kernel, stride, begin, end, auto_pad, met):
    attrs = {"strides": [stride], "pads_begin": [begin], "pads_end": [end], "auto_pad": auto_pad}
    x, w, y = t(0, (1, 3, size), "bf16"), t(1, (3, 3, kernel), "bf16"), t(2, None, "bf16")
    group = group_of(case(conv("Convolution", x, w, y, ndims=1, **attrs)))
    assert is_met(BY_NAME["window_behind_the_data"], group, AMX) == met


@pytest.mark.parametrize(
    ("size", "kernel", "dilation", "begin", "auto_pad", "met"),
    [
        (4, 3, 1, 1, "None", False),  # what most models have
        (4, 3, 2, 2, "None", False),
        (1, 3, 2, 2, "None", False),
        (1, 2, 2, 1, "None", True),
        (2, 2, 3, 1, "None", True),
        (1, 2, 2, 0, "SAME_UPPER", True),
        (3, 2, 2, 0, "SAME_LOWER", False),
    ],
)
def test_windows_around_the_data(size, kernel, dilation, begin, auto_pad, met):
    pads = [begin, 0, 0]
    x, w = t(0, (1, 3, size, 4, 4), "bf16"), t(1, (3, 3, kernel, 1, 1), "bf16")
    made = conv("Convolution", x, w, t(2, None, "bf16"), 3, pads_begin=pads, pads_end=pads)
    made.attrs |= {"dilations": [dilation, 1, 1], "auto_pad": auto_pad}
    assert is_met(BY_NAME["window_around_the_data"], group_of(case(made)), AMX) == met


def chain(*operands, data_format="NCX"):
    """A convolution and Binary ops behind it."""
    made = t(2, (2, 4, 8, 5))
    ops = [conv("Convolution", t(0, (2, 1, 8, 5)), t(1, (4, 1, 1, 1)), made)]
    ops[0].attrs["data_format"] = data_format
    for i, shape in enumerate(operands):
        after = t(10 + i, made.dims)
        ops.append(Op("Add", [made, t(20 + i, shape)], [after]))
        made = after
    return case(*ops)


FULL, ROWS_OF, CHANNELS, COLUMNS = (2, 4, 8, 5), (1, 1, 8, 1), (1, 4, 1, 1), (5,)


@pytest.mark.parametrize(
    ("operands", "met"),
    [
        ((ROWS_OF, FULL, COLUMNS), True),
        ((COLUMNS, FULL, COLUMNS), True),
        (((1, 4, 8, 1), FULL, COLUMNS), True),
        ((FULL, FULL, COLUMNS), False),
        ((CHANNELS, FULL, COLUMNS), False),
        ((FULL, COLUMNS), False),
        ((ROWS_OF, COLUMNS), False),
        ((ROWS_OF, FULL), False),
        ((ROWS_OF, ROWS_OF, COLUMNS), False),
        ((ROWS_OF, FULL, ROWS_OF), False),
        ((ROWS_OF, FULL, CHANNELS), False),
        ((ROWS_OF, FULL, (1,)), False),
        ((ROWS_OF, FULL, FULL), False),
        ((ROWS_OF, FULL, (8, 5)), False),
    ],
)
def test_binary_ops_behind_a_convolution_that_crash_and_those_that_are_right(operands, met):
    """As seen with 3.13.2 on AVX2."""
    assert is_met(BY_NAME["last_dim_behind_two_layouts"], group_of(chain(*operands)), AMX) == met


# -- the search for fusions


def convolution_of_bytes(quantized_weights):
    x, w = t(1, (1, 3, 8, 8)), t(3, (4, 3, 3, 3))
    ops = [
        quantization("Dequantize", t(0, x.dims, "u8"), x),
        conv("Convolution", x, w, t(4, (1, 4, 6, 6))),
    ]
    if quantized_weights:
        ops.append(quantization("Dequantize", t(2, w.dims, "s8"), w))
    return case(*ops)


@pytest.mark.parametrize("quantized", [False, True])
def test_a_graph_that_crashes_the_search_for_fusions_is_refused(quantized):
    given = convolution_of_bytes(quantized)
    found = partitioning_crash(group_of(given).ops)
    outcome = run_case(given)
    if quantized:
        assert found is None
        assert outcome.startswith("executed")
    else:
        assert found is not None
        assert "op 1 (Convolution): a convolution of the result of op 0 (Dequantize)" in found
        assert outcome.startswith("partition: KnownDefectError: op 1 'convolution1' (Convolution)")
        given.policy = "debug"
        assert run_case(given).startswith("executed")


# -- live


def partitions_of(given: Case) -> list[og.partition]:
    graph = og.graph("cpu")
    for i, o in enumerate(given.ops):
        made = og.op(i, o.kind, [x.logical() for x in o.inputs], [x.logical() for x in o.outputs])
        for name, value in o.attrs.items():
            made.set_attr(name, value)
        graph.add_op(made)
    graph.finalize()
    return graph.get_partitions()


def needs_types_of(given: Case) -> None:
    for tensor in given.tensors():
        needs(tensor.dtype)


@pytest.mark.parametrize("name", ROWS)
def test_the_mirror_refuses_what_this_onednn_would_crash_with(name):
    wrong = ROWS[name].wrong
    needs_types_of(wrong)
    if not BY_NAME[name].is_in(current()) or len(partitions_of(wrong)) > 1:
        done = without_the_check(name)
        assert done.returncode == 0, done.stderr
        # Newer versions, and CPUs with fewer instructions, have no kernel for some.
        assert re.match("executed|compile: UnimplementedError: .*compile failed", done.stdout)
        return
    outcome = run_case(wrong)
    assert outcome.startswith("compile: KnownDefectError: op "), outcome
    assert "access memory out of bounds; " in outcome or "which this CPU lacks; " in outcome


@pytest.mark.parametrize("name", ROWS)
def test_the_mirror_runs_what_is_like_it_but_right(name):
    right = ROWS[name].right
    needs_types_of(right)
    assert run_case(right) == f"executed {len(partitions_of(right))}"


def test_the_error_is_one_of_what_is_not_implemented():
    with pytest.raises(og.UnimplementedError) as caught:
        safety.check_partition(*told(ROWS["pooling_backward_without_shape"].wrong))
    assert type(caught.value) is og.KnownDefectError
    assert caught.value.status is og.status.unimplemented


def told(given: Case):
    """What the mirror tells of a partition."""
    return [tuple(o)[:-1] for o in group_of(given).ops], []


WITHOUT_THE_CHECK = """
import sys
import fuzz, onednn_graph_py.safety as safety
safety.check_partition = lambda *given: None
from test_out_of_bounds import ROWS
print(fuzz.run_case(ROWS[sys.argv[1]].wrong))
"""


def without_the_check(name: str) -> subprocess.CompletedProcess[str]:
    """Run what is wrong with it as it is, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_CHECK, name],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    "name",
    [
        "pooling_backward_without_shape",
        "last_dim_behind_two_layouts",
    ],
)
def test_without_the_check_onednn_still_crashes(name):
    """Should one pass, a row may be about to end.

    What lies behind a vector or a buffer decides how it ends: mostly with a crash, now and then
    with a kernel that refuses the numbers that it found there.
    """
    if not BY_NAME[name].is_in(current()):
        pytest.skip("this oneDNN is right here")
    done = without_the_check(name)
    assert not done.stdout.startswith("executed"), done.stdout + done.stderr
