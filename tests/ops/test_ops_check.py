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
    with pytest.raises(
        og.UnimplementedError, match=r"'mode' before oneDNN 3\.9; for gelu_tanh write x \* 0\.5"
    ):
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
