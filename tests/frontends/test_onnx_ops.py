"""Every node case of onnx, and its small models: equal, or an island with its reason."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnx_ir")

import onnx
import onnx.backend.test.runner
import onnx.helper
import onnx.shape_inference
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx_cases import (
    DATA_DIR,
    PAGE,
    Case,
    Outcome,
    difference,
    fixed,
    model_cases,
    node_cases,
    opened,
    outcome,
    page,
    runs_in_reference,
)

import onednn_graph_py as og
import onednn_graph_py.onnx
from onednn_graph_py.base.errors import ExecutionError, InvalidArgumentsError, UnimplementedError
from onednn_graph_py.base.linked import linked_version
from onednn_graph_py.onnx import backend

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

REFERENCE = {"fallback": "reference"}
"""Islands whose results are those that onnx expects."""


def named(expanded: bool):
    """Return the names of cases: those of ops, or of the functions that some of them are."""
    return [n for n in node_cases() if ("_expanded" in n) == expanded]


def check(name: str) -> None:
    """Run a case as it is, with constants, and what oneDNN takes of it with open dims."""
    case = node_cases()[name]
    found = require(case)
    if (constant := fixed(case)) is not None:
        found = require(constant)
    if found.ops and (general := opened(constant or case)) is not None:
        require(general)


def require(case: Case) -> Outcome:
    """Run a case; skip the test if onnx's reference, which runs the islands, can't run it."""
    try:
        found = outcome(case, **REFERENCE)
    except (ExecutionError, UnimplementedError):
        # It gives the subgraphs of FlexAttention nothing from outside, such as their weights.
        if runs_in_reference(case) and case.model.graph.node[0].op_type != "FlexAttention":
            raise
        pytest.skip("onnx's reference does not run it")
    assert not found.wrong, f"{found.wrong}; {sorted(found.ops)}; {found.reasons}"
    assert all(found.reasons.values())
    return found


@pytest.mark.parametrize("name", named(expanded=False))
def test_a_node_gives_what_onnx_expects(name):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", named(expanded=True))
def test_the_function_of_a_node_gives_what_onnx_expects(name):
    check(name)


ONNXRUNTIME_DIFFERS = {
    "test_maxunpool_export_with_output_shape",
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
    "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal",
    "test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal",
}
"""Cases of which onnxruntime, too, gives other numbers than onnx expects."""


@pytest.mark.slow
@pytest.mark.parametrize("name", named(expanded=False))
def test_islands_in_onnxruntime_give_what_onnx_expects(name):
    pytest.importorskip("onnxruntime")
    case = node_cases()[name]
    try:
        found = outcome(case, fallback="auto")
    except (ExecutionError, UnimplementedError):
        if runs_in_reference(case) and case.model.graph.node[0].op_type != "FlexAttention":
            raise
        pytest.skip("neither onnxruntime nor onnx's reference runs it")
    assert bool(found.wrong) == (name in ONNXRUNTIME_DIFFERS and not found.ops), found.wrong


@pytest.mark.parametrize("name", model_cases())
def test_a_small_model_gives_what_onnx_expects(name):
    require(model_cases()[name])


def light_models():
    return sorted(Path(DATA_DIR, "light").glob("*.onnx"))


@pytest.mark.parametrize("path", light_models(), ids=lambda p: p.stem)
def test_a_network_with_weights_of_few_numbers_gives_what_onnx_expects(path):
    model = onnx.load(path)
    weights = {w.name for w in model.graph.initializer}
    runner = onnx.backend.test.runner.Runner
    given = [
        runner.generate_dummy_data(v, seed=0, name=path.stem, random=False)
        for v in model.graph.input
        if v.name not in weights
    ]
    stored = path.with_name(f"{path.stem}_output_0.pb").read_bytes()
    wanted = numpy_helper.to_array(onnx.TensorProto.FromString(stored))
    loaded = og.onnx.load(model, **REFERENCE)
    assert not difference(loaded(*given), wanted, 1e-3, 1e-6, False)
    (program,) = loaded.report().programs
    assert program.share > 0.99
    assert not program.left


ENTIRELY = {
    "Conv": "test_basic_conv_with_padding",
    "Gemm": "test_gemm_all_attributes",
    "Attention": "test_attention_4d_gqa",
    "RMSNormalization": "test_rms_normalization_default_axis",
    "RotaryEmbedding": "test_rotary_embedding_interleaved",
    "Softmax": "test_softmax_axis_0",
    "Resize": "test_resize_upsample_scales_linear",
    "AveragePool": "test_averagepool_2d_pads_count_include_pad",
    "ConvTranspose": "test_convtranspose_output_shape",
    "LayerNormalization": "test_layer_normalization_4d_axis1",
    "Slice": "test_slice",
    "Where": "test_where_example",
}
"""Ops that must run in oneDNN, whatever else changes."""


@pytest.mark.parametrize("name", ENTIRELY.values(), ids=ENTIRELY)
def test_what_onednn_has_runs_there(name):
    case = node_cases()[name]
    found = outcome(fixed(case) or case, **REFERENCE)
    assert not found.reasons
    assert not found.wrong


SPECIAL = np.float32([math.inf, -math.inf, 0, -0.0, 1, -1, 0.5, 2.5, -3.5, 1e-30, -20, 60, 1e19])

OF_ROWS = ["ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"]
OF_ONE = [
    *("Abs", "Celu", "Elu", "Exp", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Neg"),
    *("Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Softsign", "Sqrt", "Tanh"),
]
OF_TWO = ["Add", "Div", "Max", "Min", "Mul", "Sub"]


@pytest.mark.parametrize("name", [*OF_ONE, *OF_TWO, *OF_ROWS])
def test_infinities_give_what_onnx_says(name):
    pairs = np.float32([*itertools.product(SPECIAL, SPECIAL)])
    attributes = {"axes": [1]} if name.startswith("Reduce") else {}
    version = 11 if attributes else 22
    given = {"x": pairs}
    if name in OF_TWO:
        given = {"x": pairs[:, :1].copy(), "y": pairs[:, 1:].copy()}
    elif name in OF_ROWS:
        given = {"x": np.stack([*pairs.T, np.full(len(pairs), 0.25, np.float32)], 1)}
    node = onnx.helper.make_node(name, [*given], ["z"], **attributes)
    infos = [onnx.helper.make_tensor_value_info(n, 1, a.shape) for n, a in given.items()]
    graph = onnx.helper.make_graph([node], "special", infos, [onnx.ValueInfoProto(name="z")])
    opsets = [onnx.helper.make_opsetid("", version)]
    model = onnx.shape_inference.infer_shapes(
        onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    )
    with np.errstate(all="ignore"):
        (wanted,) = ReferenceEvaluator(model).run(None, given)
    loaded = og.onnx.load(model, fallback="error")
    result = loaded(**given)
    np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=1e-6)


def row_of(name):
    return next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name} |"))


def test_the_page_of_ops_names_all():
    names = {s.name for s in onnx.defs.get_all_schemas() if not s.domain}
    assert all(f"| {n} |" in PAGE.read_text() for n in names)
    assert "MatMul, Softmax" not in row_of("Attention")
    assert "SoftMax" in row_of("Attention")


@pytest.mark.slow
@pytest.mark.skipif(linked_version() < (3, 13), reason="the page is of the newest oneDNN")
def test_the_page_of_ops_is_fresh():
    assert PAGE.read_text() == page(), "run python tests/helpers/onnx_cases.py"


def test_the_backend_runs_a_node():
    node = onnx.helper.make_node("Add", ["x", "y"], ["z"])
    x = np.float32([[1, 2]])
    (made,) = backend.run_node(node, [x, x])
    assert np.array_equal(made, x + x)
    (made,) = backend.run_node(node, {"x": x, "y": x}, outputs_info=[(np.float32, (1, 2))])
    assert np.array_equal(made, x + x)


def test_the_backend_runs_a_model_by_names():
    prepared = backend.prepare(node_cases()["test_add"].model)
    (inputs, wanted), *_ = node_cases()["test_add"].sets
    (made,) = prepared.run(dict(zip(prepared.model.input_names, inputs, strict=True)))
    assert np.allclose(made, wanted[0])


def test_the_backend_has_a_cpu_only():
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA:1")
    with pytest.raises(InvalidArgumentsError, match="CUDA"):
        backend.prepare(node_cases()["test_add"].model, "CUDA")
