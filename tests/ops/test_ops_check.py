"""ops.check: what it infers, and what it says about mistakes."""

import ml_dtypes
import numpy as np
import pytest

import onednn_graph_py as og
from onednn_graph_py.ops import TensorSpec, check

CONV = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "dilations": (1, 1)}
IMAGE = [((1, 6, 6, 8), "f32"), ((3, 3, 8, 16), "f32")]
MATRICES = [((4, 8), "f32"), ((8, 5), "f32")]
ROWS = [((4, 8), "f32")]


@pytest.mark.parametrize(
    "given",
    [
        TensorSpec((4, 8), "f32"),
        ((4, 8), "f32"),
        ([4, 8], "f32"),
        np.zeros((4, 8), np.float32),
        og.logical_tensor(0, "f32", [4, 8], "strided"),
    ],
    ids=["spec", "pair", "list", "array", "logical_tensor"],
)
def test_a_tensor_is_told_in_several_ways(given):
    assert check("ReLU", [given]) == (TensorSpec((4, 8), "f32"),)


def test_arrays_of_ml_dtypes_are_known():
    assert check("Exp", [np.zeros((2, 3), ml_dtypes.bfloat16)]) == (TensorSpec((2, 3), "bf16"),)


def test_unknown_dims_ranks_and_types_pass():
    assert check("ReLU", [((-1, 8), None)]) == (TensorSpec((-1, 8), None),)
    assert check("ReLU", [(None, "f32")]) == (TensorSpec(None, "f32"),)
    lt = og.logical_tensor(0, "f32", 2, "strided")
    assert check("MatMul", [lt, ((8, 5), "f32")]) == (TensorSpec((-1, 5), "f32"),)


def test_the_expected_output_fills_what_does_not_follow():
    (made,) = check("ReLU", [((-1, 8), "f32")], outputs=[((4, 8), "f32")])
    assert made == TensorSpec((4, 8), "f32")


@pytest.mark.parametrize(
    ("kind", "inputs", "types"),
    [
        ("Quantize", ["f32"], [None]),  # u8, s8 and f8 are all possible
        ("Dequantize", ["u8"], ["f32"]),
        ("TypeCast", ["bf16"], ["f32"]),
        ("TypeCast", ["f32"], [None]),
        ("GreaterEqual", ["f32", "f32"], ["boolean"]),
        ("MatMul", ["bf16", "bf16"], ["bf16"]),
        ("SoftMax", ["f16"], ["f16"]),
        ("DynamicDequantize", ["u8", "bf16"], ["bf16"]),
        ("LayerNorm", ["bf16", "f32", "f32"], ["bf16", "f32", "f32"]),
    ],
)
def test_output_types_follow_where_inputs_decide(kind, inputs, types):
    shapes, attrs = og.ops.OPS[kind].sample
    made = check(kind, list(zip(shapes, inputs, strict=True)), attrs)
    assert [spec.dtype for spec in made] == types


def test_a_sum_of_different_types_is_f32():
    mixed = [((4,), "f32"), ((4,), "bf16")]
    assert check("Add", mixed, version=(3, 8)) == (TensorSpec((4,), "f32"),)
    with pytest.raises(og.InvalidGraphOpError, match=r"input 1 \(src_1\) must be f32 as input 0"):
        check("Add", mixed, version=(3, 7))


WRONG = {
    "count of inputs": (
        ("ReLU", ROWS * 2),
        og.InvalidGraphOpError,
        r"op \(ReLU\): must have 1 input \(src\), got 2",
    ),
    "count of two possible ones": (
        ("LayerNorm", ROWS * 2),
        og.InvalidGraphOpError,
        r"must have 1 or 3 inputs \(src, gamma, beta\), got 2",
    ),
    "count of many": (
        ("Concat", [], {"axis": 0}),
        og.InvalidGraphOpError,
        r"must have 1 to 64 inputs \(src_i\), got 0",
    ),
    "count of outputs": (
        ("ReLU", ROWS, {}, ROWS * 2),
        og.InvalidGraphOpError,
        r"must have 1 output \(dst\), got 2",
    ),
    "statistics": (
        ("LayerNorm", ROWS, {}, ROWS),
        og.InvalidGraphOpError,
        r"with keep_stats it has 3 outputs \(dst, mean, variance\), got 1",
    ),
    "type": (
        ("ReLU", [((4,), "s8")]),
        og.InvalidGraphOpError,
        r"input 0 \(src\) must be f32 or bf16 or f16, got s8",
    ),
    "types that differ": (
        ("MatMul", [((4, 8), "f32"), ((8, 5), "bf16")]),
        og.InvalidGraphOpError,
        r"input 1 \(weights\) must be f32 as input 0 \(src\) is, got bf16",
    ),
    "output type": (
        ("ReLU", ROWS, {}, [(None, "bf16")]),
        og.InvalidGraphOpError,
        r"output 0 \(dst\) must be f32 as input 0 \(src\) is, got bf16",
    ),
    "cast to the same": (
        ("TypeCast", ROWS, {}, ROWS),
        og.InvalidGraphOpError,
        "input and output must differ in data type, got f32 for both",
    ),
    "cast between halves": (
        ("TypeCast", [((4,), "bf16")], {}, [((4,), "f16")]),
        og.InvalidGraphOpError,
        "it casts from or to f32, got bf16 to f16",
    ),
    "bf16 parameters": (
        ("BatchNormInference", [((1, 4, 4, 8), "f32")] + [((8,), "bf16")] * 4, {"epsilon": 1e-5}),
        og.InvalidGraphOpError,
        "bf16 parameters and statistics need bf16 data, got f32 data",
    ),
    "missing attributes": (
        ("Convolution", IMAGE),
        og.InvalidGraphOpError,
        "needs the attributes strides, pads_begin, pads_end, dilations",
    ),
    "missing attribute": (
        ("Elu", ROWS),
        og.InvalidGraphOpError,
        "needs the attribute alpha",
    ),
    "misspelt attribute": (
        ("Convolution", IMAGE, {**CONV, "dilation": (1, 1)}),
        og.InvalidGraphOpError,
        "Convolution has no attribute 'dilation', did you mean 'dilations'?",
    ),
    "attribute of another op": (
        ("ReLU", ROWS, {"epsilon": 1.0}),
        og.InvalidGraphOpError,
        "ReLU has no attribute 'epsilon'; it has none",
    ),
    "attribute type": (
        ("Elu", ROWS, {"alpha": "1"}),
        TypeError,
        r"attribute alpha takes a float, got '1' \(str\)",
    ),
    "bool for a number": (
        ("Elu", ROWS, {"alpha": True}),
        TypeError,
        r"attribute alpha takes a float, got True \(bool\)",
    ),
    "number for a bool": (
        ("MatMul", MATRICES, {"transpose_a": 1}),
        TypeError,
        r"attribute transpose_a takes a bool, got 1 \(int\)",
    ),
    "number for a list": (
        ("Convolution", IMAGE, {**CONV, "strides": 1}),
        TypeError,
        r"attribute strides takes a list of ints, got 1 \(int\)",
    ),
    "fractions in a list of ints": (
        ("Convolution", IMAGE, {**CONV, "strides": (1.5, 1)}),
        TypeError,
        r"attribute strides takes a list of ints, got 1.5 \(float\)",
    ),
    "too large": (
        ("SoftMax", ROWS, {"axis": 2**63}),
        og.InvalidArgumentsError,
        "attribute axis: 9223372036854775808 does not fit into 64 bits",
    ),
    "too large a float": (
        ("Elu", ROWS, {"alpha": 1e39}),
        og.InvalidArgumentsError,
        "attribute alpha: 9.* does not fit into a 32-bit float",
    ),
    "choice": (
        ("Convolution", IMAGE, {**CONV, "auto_pad": "same"}),
        og.InvalidGraphOpError,
        "attribute auto_pad must be 'None' or 'SAME_UPPER' or 'SAME_LOWER' or 'VALID', got 'same'",
    ),
    "negative pads": (
        ("Convolution", IMAGE, {**CONV, "pads_end": (0, -1)}),
        og.InvalidGraphOpError,
        r"attribute pads_end must have no negative entry, got \[0, -1\]",
    ),
    "sizes and scales": (
        ("Interpolate", [((1, 4, 4, 8), "f32")], {"mode": "nearest"}),
        og.InvalidGraphOpError,
        "exactly one of the attributes sizes and scales must be set, got neither",
    ),
    "scales per tensor": (
        ("Quantize", ROWS, {"scales": (1.0, 2.0)}, [(None, "u8")]),
        og.InvalidGraphOpError,
        "attribute scales must have 1 entry for per_tensor, got 2",
    ),
    "scales per channel": (
        ("Dequantize", [((2, 4, 3), "u8")], {"qtype": "per_channel", "scales": (1.0,) * 16}),
        og.InvalidGraphOpError,
        r"scales must have one entry for each of the 4 channels \(axis 1 of 2x4x3\), got 16",
    ),
    "zero points": (
        ("Dequantize", [((4,), "u8")], {"scales": (1.0,), "zps": (0, 0)}),
        og.InvalidGraphOpError,
        "attribute zps must have as many entries as scales, 1, got 2",
    ),
    "zero points of f8": (
        ("Dequantize", [((4,), "f8_e4m3")], {"scales": (1.0,), "zps": (0,)}),
        og.InvalidGraphOpError,
        "f8_e4m3 has no zero points",
    ),
    "shapes": (
        ("MatMul", [((4, 8), "f32"), ((9, 5), "f32")]),
        og.InvalidShapeError,
        r"input 1 \(weights\) must have dim 0 equal to 8 .*, got 9x5",
    ),
    "shapes that don't broadcast": (
        ("Add", [((4, 8), "f32"), ((3, 8), "f32")]),
        og.InvalidShapeError,
        r"input 1 \(src_1\) must have a shape that broadcasts with .*4x8, got 3x8",
    ),
    "output shape": (
        ("ReLU", ROWS, {}, [((4, 9), "f32")]),
        og.InvalidShapeError,
        r"output 0 \(dst\) must have the shape 4x8 .*, got 4x9",
    ),
    "window": (
        ("Convolution", [((1, 2, 2, 8), "f32"), IMAGE[1]], CONV),
        og.InvalidShapeError,
        "window of 3 does not fit",
    ),
    "kind": (("Convolutoin", IMAGE), og.InvalidArgumentsError, "did you mean 'Convolution'?"),
    "case of the kind": (("relu", ROWS), og.InvalidArgumentsError, "did you mean 'ReLU'?"),
    "tensor": (
        ("ReLU", ["f32"]),
        TypeError,
        r"op \(ReLU\): input 0 \(src\): expected a TensorSpec, .*got str",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_told_by_op_argument_expectation_and_gift(case):
    arguments, error, message = WRONG[case]
    with pytest.raises(error, match=message):
        check(*arguments)


def test_messages_name_the_op_by_name_and_id():
    with pytest.raises(og.InvalidGraphOpError, match=r"^op 3 'act' \(ReLU\): must have 1 input"):
        check("ReLU", [], name="act", id=3)
    with pytest.raises(og.InvalidGraphOpError, match=r"^op 'act' \(ReLU\): "):
        check("ReLU", [], name="act")


@pytest.mark.parametrize(
    ("kind", "inputs", "name", "documented"),
    [
        ("Convolution", IMAGE, "auto_pad", "same_upper"),
        ("Convolution", IMAGE, "auto_pad", "none"),
        ("Convolution", IMAGE, "data_format", "nxc"),
        ("ConvTranspose", [IMAGE[0], ((3, 3, 16, 8), "f32")], "weights_format", "XIO"),
    ],
)
def test_the_documents_spelling_is_taken(kind, inputs, name, documented):
    check(kind, inputs, {**CONV, name: documented})


def test_numpy_scalars_and_arrays_are_attribute_values():
    attrs = {name: np.array(value) for name, value in CONV.items()}
    assert check("Convolution", IMAGE, attrs) == (TensorSpec((1, 4, 4, 16), "f32"),)
    check("Elu", ROWS, {"alpha": np.float32(0.5)})
    check("SoftMax", ROWS, {"axis": np.int32(-1)})


def test_what_a_newer_onednn_brought_is_told():
    with pytest.raises(og.UnimplementedError, match=r"RMSNorm needs oneDNN >= 3.11, this is 3.7"):
        check("RMSNorm", ROWS, version=(3, 7))
    with pytest.raises(og.UnimplementedError, match=r"no attribute 'mode' before oneDNN 3\.9"):
        check("GELU", ROWS, {"mode": "gelu_tanh"}, version=(3, 7))
    check("GELU", ROWS, {"mode": "gelu_tanh"}, version=(3, 9))
    assert len(check("SoftMax", ROWS, outputs=[(None, "f32")] * 2, version=(3, 9))) == 2
    with pytest.raises(og.InvalidGraphOpError, match="must have 1 output"):
        check("SoftMax", ROWS, outputs=[(None, "f32")] * 2, version=(3, 8))


def test_a_row_is_called_like_a_function():
    assert og.ops.MatMul(*MATRICES) == (TensorSpec((4, 5), "f32"),)
    assert og.ops.MatMul(weights=MATRICES[1], src=MATRICES[0]) == (TensorSpec((4, 5), "f32"),)
    bias = ((5,), "f32")
    assert og.ops.MatMul(*MATRICES, bias) == (TensorSpec((4, 5), "f32"),)
    assert og.ops.Concat(*ROWS * 3, axis=0) == (TensorSpec((12, 8), "f32"),)
    with pytest.raises(og.InvalidGraphOpError, match="did you mean 'transpose_a'"):
        og.ops.MatMul(*MATRICES, transposea=True)
    with pytest.raises(og.InvalidGraphOpError, match="must have 2 or 3 inputs"):
        og.ops.MatMul(MATRICES[0])
    with pytest.raises(og.InvalidGraphOpError, match="got 2"):
        og.ops.ReLU(*ROWS * 2)


def test_check_changes_nothing_it_is_given():
    attrs = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}
    kept = {name: list(value) for name, value in attrs.items()}
    inputs = [list(IMAGE[0]), list(IMAGE[1])]
    check("Convolution", [tuple(i) for i in inputs], attrs)
    assert attrs == kept


@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceMin"])
def test_no_element_is_the_largest_or_smallest_of_none(kind):
    b = og.GraphBuilder()
    x = b.input((3, 0))
    with pytest.raises(og.InvalidShapeError, match=rf"{kind}.*no elements along axes \[1\]"):
        b.op(kind, x, axes=(1,), keep_dims=False)
    assert b.op(kind, x, axes=(0,), keep_dims=False).shape == (0,)
    assert b.reduce_sum(x, axes=(1,), keep_dims=False).shape == (3,)


def test_nothing_is_interpolated_between_no_elements():
    b = og.GraphBuilder()
    x = b.input((2, 3, 0, 4))
    with pytest.raises(og.InvalidShapeError, match=r"spatial dims \[0, 4\] of input 0 must be"):
        x.interpolate(mode="nearest", sizes=(5, 6), data_format="NCX")
