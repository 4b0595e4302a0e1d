"""What is refused because oneDNN would crash on it, or read or write out of bounds."""

import re
from contextlib import suppress

import pytest
from fuzz import Case, Op, Tensor, run_case

import onednn_graph_py as og
from onednn_graph_py.ops import OPS

LINKED = (og.version()["major"], og.version()["minor"])


def case(kind, inputs, outputs, attrs=None, **more):
    """One op over f32 tensors, each a shape or a Tensor."""
    tensors = [
        t if isinstance(t, Tensor) else Tensor(i, dims=t) for i, t in enumerate([*inputs, *outputs])
    ]
    o = Op(kind, tensors[: len(inputs)], tensors[len(inputs) :], attrs or {})
    return Case(0, [o], **more)


WINDOW = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
CONV = {**WINDOW, "dilations": [1, 1], "data_format": "NCX", "weights_format": "OIX"}
POOL = {**WINDOW, "kernel": [2, 2], "data_format": "NCX"}

REFUSED = {
    "an elementwise op whose output is smaller": (
        case("ReLU", [(4, 8)], [(4, 7)]),
        "output 0.* must have the shape 4x8",
    ),
    "statistics of LayerNorm that are too short": (
        case("LayerNorm", [(4, 32)], [(4, 32), (3,), (4,)], {"use_affine": False}),
        "output 1.* must have the shape 4 ",
    ),
    "keep_stats False with statistics": (
        case(
            "LayerNorm", [(4, 8)], [(4, 8), (4,), (4,)], {"use_affine": False, "keep_stats": False}
        ),
        "keep_stats is False, so it has one output, got 3",
    ),
    "GroupNorm of rank 2": (
        case(
            "GroupNorm", [(2, 4)], [(2, 4)], {"groups": 2, "use_affine": False, "keep_stats": False}
        ),
        "input 0.* must have at least 3 dims, got 2x4",
    ),
    "GroupNorm whose groups don't divide": (
        case(
            "GroupNorm",
            [(2, 5, 3)],
            [(2, 5, 3)],
            {"groups": 2, "use_affine": False, "keep_stats": False, "data_format": "NCX"},
        ),
        "channels that 2 groups divide",
    ),
    "Select of rank 6": (
        case("Select", [Tensor(0, "boolean", (2,) * 6), (2,) * 6, (2,) * 6], [(2,) * 6]),
        "at most 5 dims",
    ),
    "BatchNorm of rank 6": (
        case(
            "BatchNormInference", [(2,) * 6, (2,), (2,), (2,), (2,)], [(2,) * 6], {"epsilon": 0.1}
        ),
        "at most 5 dims",
    ),
    "BatchNorm with too few means": (
        case(
            "BatchNormInference", [(2, 3, 4), (4,), (4,), (3,), (4,)], [(2, 3, 4)], {"epsilon": 0.1}
        ),
        r"input 3 \(mean\) must have 4 elements \(channels\)",
    ),
    "Convolution with stride 0": (
        case(
            "Convolution", [(1, 2, 5, 5), (3, 2, 3, 3)], [(1, 3, 3, 3)], {**CONV, "strides": [0, 1]}
        ),
        "attribute strides must have no entry below 1, got .0, 1.",
    ),
    "Convolution with a short list": (
        case(
            "Convolution", [(1, 2, 5, 5), (3, 2, 3, 3)], [(1, 3, 3, 3)], {**CONV, "pads_end": [0]}
        ),
        "attribute pads_end must have 2 entries, one for each spatial dim, it has 1",
    ),
    "Convolution with a wrong output": (
        case("Convolution", [(1, 2, 5, 5), (3, 2, 3, 3)], [(1, 3, 4, 3)], CONV),
        "output 0.* must have the shape 1x3x3x3",
    ),
    "Convolution with wrong channels": (
        case("Convolution", [(1, 4, 5, 5), (3, 2, 3, 3)], [(1, 3, 3, 3)], CONV),
        "input 0.* must have 2 channels, as the weights say, it has 4",
    ),
    "Convolution with a kernel larger than the image": (
        case("Convolution", [(1, 2, 2, 2), (3, 2, 3, 3)], [(1, 3, 1, 1)], CONV),
        "does not fit into the padded 2",
    ),
    "Convolution with a short bias": (
        case("Convolution", [(1, 2, 5, 5), (3, 2, 3, 3), (2,)], [(1, 3, 3, 3)], CONV),
        r"input 2 \(bias\) must have 3 elements \(output channels\)",
    ),
    "paddings that compile for minutes": (
        case(
            "Convolution",
            [(1, 2, 5, 5), (3, 2, 3, 3)],
            [None],
            {**CONV, "pads_begin": [1 << 29, 0]},
        ),
        "attribute pads_begin",
    ),
    "MaxPool of rank 1": (case("MaxPool", [(5,)], [None], POOL), "input 0.* must have rank 3"),
    "MaxPool with a wrong output": (
        case("MaxPool", [(1, 2, 5, 5)], [(1, 2, 5, 4)], POOL),
        "output 0.* must have the shape 1x2x4x4",
    ),
    "MatMul with a rank-0 operand": (case("MatMul", [(), (3, 4)], [None]), "rank 1 to 12"),
    "MatMul whose columns and rows differ": (
        case("MatMul", [(2, 3), (4, 5)], [None]),
        "input 1.* must have dim 0 equal to 3",
    ),
    "MatMul with a wrong output": (
        case("MatMul", [(2, 3), (3, 5)], [(2, 6)]),
        "output 0.* must have the shape 2x5",
    ),
    "a binary op whose shapes don't broadcast": (
        case("Add", [(2, 3), (4, 3)], [None]),
        "input 1.* must have a shape that broadcasts with input 0 .src_0., 2x3",
    ),
    "Concat with other dims": (
        case("Concat", [(2, 3), (4, 3)], [None], {"axis": 1}),
        "input 1.* must have dim 0 equal to 2",
    ),
    "StaticReshape to another count": (
        case("StaticReshape", [(2, 3)], [None], {"shape": [7], "special_zero": False}),
        "has 7 elements, input 0, 2x3, has 6",
    ),
    "StaticTranspose with a repeated axis": (
        case("StaticTranspose", [(2, 3)], [None], {"order": [0, 0]}),
        "must name each axis of input 0, of rank 2, once",
    ),
    "a reduction over an axis that is not there": (
        case("ReduceSum", [(2, 3)], [None], {"axes": [2]}),
        "must be different axes of input 0, of rank 2",
    ),
    "Quantize with too few scales": (
        case(
            "Quantize",
            [(2, 3)],
            [Tensor(9, "s8", (2, 3))],
            {"qtype": "per_channel", "axis": 1, "scales": [1.0, 1.0]},
        ),
        "attribute scales must have one entry for each of the 3 channels .axis 1 of 2x3., got 2",
    ),
    "DynamicQuantize per group": (
        case(
            "DynamicQuantize", [(2, 4), (2, 2)], [Tensor(9, "s8", (2, 4))], {"qtype": "per_group"}
        ),
        "attribute qtype must be 'per_tensor' or 'per_channel', got 'per_group'",
    ),
    "an input with stride 0": (
        case("ReLU", [Tensor(0, "f32", (4, 8), (0, 1))], [(4, 8)]),
        "input 0.* must have strides that keep its elements apart",
    ),
    "an output with stride 0": (
        case("ReLU", [(4, 8)], [Tensor(1, "f32", (4, 8), (0, 1))]),
        "output 0.* must have strides that keep its elements apart",
    ),
    "an output whose rows overlap": (
        case("ReLU", [(4, 8)], [Tensor(1, "f32", (4, 8), (7, 1))]),
        "output 0.* must have strides that keep its elements apart",
    ),
    "an op that feeds itself": (
        case("ReLU", [Tensor(0, dims=(4,))], [Tensor(0, dims=(4,))], alone=True),
        "depends on its own output",
    ),
    "a scalar input of layout any": (
        case("Add", [Tensor(0, dims=(), layout="any"), ()], [()]),
        "an input needs a strided or opaque layout",
    ),
    "an elementwise op of rank 6 that is not row-major": (
        case("Tanh", [Tensor(0, "f32", (2, 2, 2, 2, 2, 2), (32, 16, 8, 4, 1, 2))], [(2,) * 6]),
        "rank 6 with strides that are not row-major makes oneDNN",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_reason_that_names_op_and_port(name):
    wrong, says = REFUSED[name]
    outcome = run_case(wrong)
    assert re.search(says, outcome), outcome
    assert f"({wrong.ops[0].kind}" in outcome


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "attrs"),
    [
        ("MatMul", [(2, 3, 4), (4, 5)], (2, 3, 5), {}),
        ("MatMul", [(4,), (4, 5)], (5,), {}),
        ("MatMul", [(3, 2), (5, 3)], (2, 5), {"transpose_a": True, "transpose_b": True}),
        ("Add", [(2, 1, 4), (3, 1)], (2, 3, 4), {}),
        ("Concat", [(2, 3), (2, 4)], (2, 7), {"axis": -1}),
        # As in C++, gamma and beta are not read.
        ("LayerNorm", [(4, 8), (8,), (8,)], (4, 8), {"use_affine": False, "keep_stats": False}),
        (
            "GroupNorm",
            [(2, 4, 3), (4,), (4,)],
            (2, 4, 3),
            {"groups": 2, "use_affine": False, "keep_stats": False, "data_format": "NCX"},
        ),
        (
            "LayerNormBackward",
            [(4, 8), (4, 8), (4,), (4,), (8,), (8,)],
            (4, 8),
            {"use_affine": False},
        ),
        ("ReduceSum", [(2, 3, 4)], (2, 4), {"axes": [1]}),
        ("ReduceSum", [(2, 3, 4)], (2, 1, 4), {"axes": [-2], "keep_dims": True}),
        ("StaticReshape", [(2, 6)], (3, 4), {"shape": [3, -1], "special_zero": False}),
        ("StaticTranspose", [(2, 3, 4)], (4, 2, 3), {"order": [2, 0, 1]}),
        ("Convolution", [(1, 2, 7, 7), (4, 2, 3, 3)], (1, 4, 3, 3), {**CONV, "strides": [2, 2]}),
        (
            "Convolution",
            [(1, 2, 7, 7), (4, 2, 3, 3)],
            (1, 4, 4, 4),
            {**CONV, "strides": [2, 2], "auto_pad": "SAME_UPPER"},
        ),
        (
            "ConvTranspose",
            [(1, 2, 4, 4), (2, 3, 3, 3)],
            (1, 3, 9, 9),
            {**CONV, "weights_format": "IOX", "strides": [2, 2]},
        ),
        (
            "AvgPool",
            [(1, 2, 6, 6)],
            (1, 2, 3, 3),
            {**POOL, "strides": [2, 2], "exclude_pad": False},
        ),
        (
            "MaxPool",
            [(1, 2, 5, 5)],
            (1, 2, 3, 3),
            {**POOL, "strides": [2, 2], "rounding_type": "ceil"},
        ),
        ("Interpolate", [(1, 4, 4, 2)], (1, 8, 8, 2), {"mode": "nearest", "scales": [2.0, 2.0]}),
    ],
)
def test_the_shape_that_is_checked_is_the_one_that_onednn_infers(kind, inputs, output, attrs):
    made = og.op(0, kind)
    made.add_inputs([og.logical_tensor(i, "f32", d, "strided") for i, d in enumerate(inputs)])
    made.add_output(og.logical_tensor(9, "f32", -1, "strided"))
    for name, value in attrs.items():
        made.set_attr(name, value)
    part = og.partition(made, "cpu")
    compiled = part.compile(part.get_input_ports(), part.get_output_ports(), og.engine("cpu", 0))
    assert tuple(compiled.get_outputs()[0].get_dims()) == output
    told = case(kind, inputs, [output], attrs)
    assert run_case(told) == "executed 1"


def test_a_wrong_shape_between_fused_ops_is_found_behind_unknown_ones():
    middle = Tensor(1, dims=None)
    first = Op("MatMul", [Tensor(0, dims=(4, 8)), Tensor(7, dims=(8, 16))], [middle])
    second = Op("ReLU", [middle], [Tensor(2, dims=(4, 15))])
    outcome = run_case(Case(0, [first, second]))
    assert "output 0 (dst) must have the shape 4x16" in outcome
    assert "(ReLU)" in outcome


def test_pooling_with_a_full_operand_is_refused_only_where_it_is_fused():
    pooled = Tensor(1, dims=(1, 8, 4, 4))
    ops = [
        Op("MaxPool", [Tensor(0, dims=(1, 8, 5, 5))], [pooled], POOL),
        Op("Add", [pooled, Tensor(2, dims=(1, 8, 4, 4))], [Tensor(3, dims=(1, 8, 4, 4))]),
    ]
    assert "fused after pooling makes oneDNN" in run_case(Case(0, ops))
    assert run_case(Case(0, ops, policy="debug")) == "executed 2"


@pytest.mark.skipif(LINKED >= (3, 13), reason="fixed in oneDNN 3.13")
@pytest.mark.parametrize(
    ("condition", "masked"), [((1, 1, 1, 16), (2, 12, 16, 16)), ((2, 12, 16, 16), (1,))]
)
def test_attention_that_selects_by_a_broadcast_condition_is_refused(condition, masked):
    scores, chosen, weights = (Tensor(i, dims=(2, 12, 16, 16)) for i in (10, 11, 12))
    query, key, value = (Tensor(i, dims=(2, 12, 16, 8)) for i in (0, 1, 2))
    operands = [Tensor(3, "boolean", condition), Tensor(4, dims=masked), scores]
    ops = [
        Op("MatMul", [query, key], [scores], {"transpose_b": True}),
        Op("Select", operands, [chosen]),
        Op("SoftMax", [chosen], [weights], {"axis": -1}),
        Op("MatMul", [weights, value], [Tensor(13, dims=(2, 12, 16, 8))]),
    ]
    assert "attention that selects input 1 in place of scores" in run_case(Case(0, ops))
    assert run_case(Case(0, ops, policy="debug")) == "executed 4"
    operands[:2] = Tensor(3, "boolean", (2, 12, 16, 16)), Tensor(4, dims=(2, 12, 16, 16))
    ops[1] = Op("Select", operands, [chosen])
    assert run_case(Case(0, ops)) == "executed 1"


@pytest.mark.skipif(LINKED >= (3, 13), reason="fixed in oneDNN 3.13")
def test_matmul_with_weights_shared_by_a_batch_of_four_dims_is_refused():
    wrong = case("MatMul", [(2, 1, 16, 4), (1, 1, 4, 5)], [(2, 1, 16, 5)])
    assert "out of bounds" in run_case(wrong)
    for right in ([(2, 16, 4), (1, 4, 5)], [(2, 1, 16, 4), (4, 5)]):
        output = (*right[0][:-1], 5)
        assert run_case(case("MatMul", right, [output])) == "executed 1"


@pytest.mark.skipif(LINKED < (3, 8), reason="oneDNN 3.7 is right")
def test_a_16_bit_scale_for_a_whole_tensor_is_refused():
    tensors = [Tensor(0, "s8", (4, 8)), Tensor(1, "bf16", (1,))]
    wrong = case("DynamicDequantize", tensors, [Tensor(2, "bf16", (4, 8))])
    assert "scale of type bf16" in run_case(wrong)


@pytest.mark.parametrize(("shape", "data_format"), [((1, 4, 1, 3), "NXC"), ((2, 3, 1), "NCX")])
def test_interpolation_of_one_column_is_refused(shape, data_format):
    spatial = shape[1:-1] if data_format == "NXC" else shape[2:]
    attrs = {"mode": "nearest", "data_format": data_format, "sizes": [5] * len(spatial)}
    assert "innermost spatial dim of 1" in run_case(case("Interpolate", [shape], [None], attrs))
    wider = tuple(2 if d == 1 and i else d for i, d in enumerate(shape))
    assert run_case(case("Interpolate", [wider], [None], attrs)) == "executed 1"


def _slightly_wrong(kind: str):
    """Uses of an op that lack an input or an attribute, or have another value of one."""
    schema = OPS[kind].at(LINKED)
    shapes, attrs = schema.sample
    inputs = [Tensor(i, dims=s) for i, s in enumerate(shapes)]
    outputs = [Tensor(9 + i, dims=None) for i in range(max(schema.counts("outputs"), default=0))]
    others = {
        "string": ["", "nonsense"],
        "s64": [-13, -1, 0, 1 << 40],
        "s64[]": [(), (0,), (-1,) * 13],
    }
    changed = [{**attrs, a.name: v} for a in schema.attributes for v in others.get(a.type, [])]
    changed += [{n: v for n, v in attrs.items() if n != gone} for gone in attrs]
    yield from ((inputs, outputs, c) for c in changed)
    yield from ((inputs[:i], outputs, attrs) for i in range(len(inputs)))
    yield [Tensor(i, dims=None) for i in range(len(inputs))], outputs, attrs


@pytest.mark.parametrize("kind", [k for k, row in OPS.items() if row.since <= LINKED])
def test_the_mirror_judges_any_use_that_nobody_validated(kind):
    """Shape functions read what the table did not check first, so they must get along with it."""
    for inputs, outputs, attrs in _slightly_wrong(kind):
        made = og.op(0, kind, [t.logical() for t in inputs], [t.logical() for t in outputs])
        with suppress(og.OneDNNError, ValueError):
            for name, value in attrs.items():
                made.set_attr(name, list(value) if isinstance(value, tuple) else value)
        with suppress(og.OneDNNError):
            og.graph("cpu").add_op(made, validate=False)


@pytest.mark.parametrize("strides", [(0, 0), (1, 3)])
def test_strides_of_unknown_dims_are_refused_where_known_dims_would_overlap(strides):
    x, y = Tensor(0, dims=(-1, 2)), Tensor(1, dims=(-1, 2), strides=strides)
    told = {0: Tensor(0, dims=(16, 2))}
    found = run_case(Case(0, [Op("ReLU", [x], [y])], told))
    assert re.match("compile: InvalidShapeError: .*keep its elements apart", found)
