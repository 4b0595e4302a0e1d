"""Quantized ONNX models: what is rounded where, what runs in integers, and what is dequantized."""

import importlib
import warnings

import numpy as np
import pytest
from rounding import allowed, steps_of_columns

from onednn_graph_py.machine import current

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
oh = pytest.importorskip("onnx.helper")
onh = pytest.importorskip("onnx.numpy_helper")
ml_dtypes = pytest.importorskip("ml_dtypes")
ReferenceEvaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
front = pytest.importorskip("onednn_graph_py.onnx")
models = importlib.import_module("quantized_models")
largest_int8_weight = pytest.importorskip("onednn_graph_py.machine.cpu").largest_int8_weight
TensorProto = onnx.TensorProto

RANDOM = np.random.default_rng(0)


def floats(*shape, scale=1.0):
    return (RANDOM.standard_normal(shape) * scale).astype(np.float32)


def model_of(nodes, inputs, outputs, weights, opset=21, contrib=False):
    """Return a model; inputs and outputs are names with types and shapes."""

    def infos(given):
        return [oh.make_tensor_value_info(n, t, s) for n, (t, s) in given.items()]

    opsets = [oh.make_opsetid("", opset)]
    if contrib:
        opsets.append(oh.make_opsetid("com.microsoft", 1))
    tensors = [
        w if isinstance(w, onnx.TensorProto) else onh.from_array(np.asarray(w), n)
        for n, w in weights.items()
    ]
    graph = oh.make_graph(nodes, "g", infos(inputs), infos(outputs), tensors)
    return oh.make_model(graph, opset_imports=opsets, ir_version=10)


SATURATES = not current().has("vnni")
"""Whether onnxruntime, with which tests compare, sums products of large weights wrongly."""


def int8_steps(model):
    """Return the ops of the partitions that multiply integers."""
    (region,) = [line for line in str(model.report()).splitlines() if "partitions" in line]
    return int(region.split("partitions (")[1].split()[0])


def require_integer_products(model, narrow=False):
    """Raise unless all products of the network are computed in integers, where oneDNN can."""
    if narrow or largest_int8_weight() == 127:
        assert int8_steps(model) >= PRODUCTS + 1
    else:  # models run such products in parts, as sums would saturate
        (program,) = model.report().programs
        assert sum("saturate" in step.why for step in program.steps) >= PRODUCTS


def runtime(model, *arrays, optimized=False):
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    options = ort.SessionOptions()
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model.SerializeToString(), options)
    names = [i.name for i in session.get_inputs()]
    return session.run(None, dict(zip(names, arrays, strict=True)))[0]


F, U8, S8 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT8


# -- QuantizeLinear, DequantizeLinear


@pytest.mark.parametrize(
    "dtype, point",
    # Without a zero point the result is u8.
    [(np.uint8, p) for p in (None, 0, 3, 200)] + [(np.int8, p) for p in (0, 3, -4)],
)
def test_quantize_and_dequantize_of_tensors(dtype, point):
    parameters = ["s"] if point is None else ["s", "z"]
    weights = {"s": np.float32(0.25)}
    if point is not None:
        weights["z"] = np.array(point, dtype)
    nodes = [
        oh.make_node("Relu", ["x"], ["r"]),
        oh.make_node("QuantizeLinear", ["r", *parameters], ["q"]),
        oh.make_node("DequantizeLinear", ["q", *parameters], ["y"]),
    ]
    kind = oh.np_dtype_to_tensor_dtype(np.dtype(dtype))
    made = model_of(nodes, {"x": (F, [2, 33])}, {"y": (F, [2, 33]), "q": (kind, [2, 33])}, weights)
    x = floats(2, 33, scale=30)
    y, q = front.load(made, fallback="error")(x)
    wanted = ReferenceEvaluator(made).run(None, {"x": x})
    np.testing.assert_array_equal(y, wanted[0])
    np.testing.assert_array_equal(q, wanted[1])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scales_along_an_axis(axis):
    size = (3, 4, 5)[axis]
    weights = {"s": (RANDOM.random(size) + 0.1).astype(np.float32), "z": np.zeros(size, np.int8)}
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=axis),
        oh.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], axis=axis),
        oh.make_node("Relu", ["d"], ["y"]),
    ]
    made = model_of(nodes, {"x": (F, [3, 4, 5])}, {"y": (F, [3, 4, 5])}, weights)
    x = floats(3, 4, 5, scale=20)
    got = front.load(made, fallback="error")(x)
    wanted = ReferenceEvaluator(made).run(None, {"x": x})[0]
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_zero_points_along_an_axis_are_an_island():
    weights = {"s": np.float32([0.5, 0.25]), "z": np.int8([3, -2])}
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=1),
        oh.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=1),
    ]
    made = model_of(nodes, {"x": (F, [3, 2])}, {"y": (F, [3, 2])}, weights)
    x = floats(3, 2, scale=20)
    model = front.load(made)
    np.testing.assert_allclose(model(x), ReferenceEvaluator(made).run(None, {"x": x})[0], rtol=1e-6)
    assert "zero points that differ" in str(model.report())


# -- weights


@pytest.mark.parametrize("kind", ["s4", "u4", "s8"])
def test_weights_in_blocks_are_dequantized_once(kind):
    low, high = {"s4": (-8, 8), "u4": (0, 16), "s8": (-128, 128)}[kind]
    dtype = {"s4": ml_dtypes.int4, "u4": ml_dtypes.uint4, "s8": np.int8}[kind]
    weight = RANDOM.integers(low, high, (64, 24)).astype(dtype)
    points = RANDOM.integers(low // 2, high // 2, (4, 24)).astype(dtype)
    weights = {
        "w": onh.from_array(weight, "w"),
        "s": (RANDOM.random((4, 24)) + 0.1).astype(np.float32),
        "z": onh.from_array(points, "z"),
    }
    nodes = [
        oh.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=0, block_size=16),
        oh.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    made = model_of(nodes, {"x": (F, ["n", 64])}, {"y": (F, ["n", 24])}, weights)
    assert models.prepared(made) == {"MatMul": 1}
    x = floats(5, 64)
    got = front.load(made, fallback="error")(x)
    floated = (weight.astype(np.float32) - np.repeat(points.astype(np.float32), 16, 0)) * np.repeat(
        weights["s"], 16, 0
    )
    np.testing.assert_allclose(got, x @ floated, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [64, 72])  # 72: the last block is not full
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("points", [None, "packed", "floats"])
def test_matmul_nbits(bits, points, rows):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    columns, block = 24, 32
    blocks = -(-rows // block)
    packed = RANDOM.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8)
    weights = {"b": packed, "s": (RANDOM.random((columns, blocks)) * 0.1).astype(np.float32)}
    given = ["x", "b", "s"]
    if points == "packed":
        weights["z"] = RANDOM.integers(0, 256, (columns, -(-blocks * bits // 8))).astype(np.uint8)
        given.append("z")
    elif points == "floats":
        weights["z"] = floats(columns, blocks, scale=4)
        given.append("z")
    node = oh.make_node(
        "MatMulNBits",
        given,
        ["y"],
        domain="com.microsoft",
        K=rows,
        N=columns,
        bits=bits,
        block_size=block,
    )
    made = model_of([node], {"x": (F, [3, rows])}, {"y": (F, [3, columns])}, weights, 21, True)
    x = floats(3, rows)
    got = front.load(made, fallback="error")(x)
    if bits == 8 and points == "floats":  # onnxruntime has no kernel for it
        whole = (packed - weights["z"][..., None]) * weights["s"][..., None]
        wanted = x @ whole.reshape(columns, -1)[:, :rows].T
    else:
        wanted = runtime(made, x)
    np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())


def test_biases_are_dequantized_once():
    weights = {
        "b": np.int32([7, -3, 100]),
        "s": np.float32([0.1, 0.2, 0.3]),
        "z": np.int32([0] * 3),
    }
    nodes = [
        oh.make_node("DequantizeLinear", ["b", "s", "z"], ["d"], axis=0),
        oh.make_node("Add", ["x", "d"], ["y"]),
    ]
    made = model_of(nodes, {"x": (F, [2, 3])}, {"y": (F, [2, 3])}, weights)
    assert models.prepared(made) == {"Add": 1}
    got = front.load(made)(np.zeros((2, 3), np.float32))
    np.testing.assert_allclose(got, [[0.7, -0.6, 30]] * 2, rtol=1e-6)


def product(weight, points, x_point=3, axis=None, dtype=np.uint8):
    """Return a quantized MatMul as a model."""
    scales = np.full(weight.shape[1], 0.02, np.float32) if axis is not None else np.float32(0.02)
    weights = {
        "xs": np.float32(0.05),
        "xz": np.array(x_point, dtype),
        "w": weight,
        "ws": scales,
        "wz": points,
        "ys": np.float32(0.5),
    }
    extra = {} if axis is None else {"axis": axis}
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        oh.make_node("DequantizeLinear", ["q", "xs", "xz"], ["a"]),
        oh.make_node("DequantizeLinear", ["w", "ws", "wz"], ["b"], **extra),
        oh.make_node("MatMul", ["a", "b"], ["m"]),
        oh.make_node("QuantizeLinear", ["m", "ys", "xz"], ["r"]),
        oh.make_node("DequantizeLinear", ["r", "ys", "xz"], ["y"]),
    ]
    rows, columns = weight.shape
    return model_of(nodes, {"x": (F, [4, rows])}, {"y": (F, [4, columns])}, weights)


@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("signed", [True, False])
def test_products_of_integers(axis, signed):
    dtype = np.int8 if signed else np.uint8
    low, high = (-60, 60) if signed else (68, 188)
    weight = RANDOM.integers(low, high, (64, 32)).astype(dtype)
    point = np.array(0 if signed else 128, dtype)
    points = np.full(32, point, dtype) if axis is not None else point
    made = product(weight, points, axis=axis)
    x = floats(4, 64, scale=3)
    model = front.load(made, fallback="error")
    got, wanted = model(x), ReferenceEvaluator(made).run(None, {"x": x})[0]
    np.testing.assert_allclose(got, wanted, atol=0.5 + 1e-6)  # a step
    assert int8_steps(model) == 1


def test_weights_with_zero_points_are_dequantized():
    weight = RANDOM.integers(0, 100, (64, 32)).astype(np.uint8)
    made = product(weight, np.uint8(40))
    x = floats(4, 64, scale=3)
    got = front.load(made, fallback="error")(x)
    np.testing.assert_allclose(
        got, ReferenceEvaluator(made).run(None, {"x": x})[0], atol=0.5 + 1e-6
    )


def test_weights_alone_are_dequantized():
    weights = {
        "w": RANDOM.integers(-100, 100, (16, 8)).astype(np.int8),
        "s": np.float32(0.1),
        "z": np.int8(0),
    }
    nodes = [
        oh.make_node("DequantizeLinear", ["w", "s", "z"], ["d"]),
        oh.make_node("MatMul", ["x", "d"], ["y"]),
    ]
    made = model_of(nodes, {"x": (F, [4, 16])}, {"y": (F, [4, 8])}, weights)
    assert models.prepared(made) == {"MatMul": 1}
    x = floats(4, 16)
    wanted = x @ (weights["w"] * np.float32(0.1))
    np.testing.assert_allclose(front.load(made)(x), wanted, rtol=1e-5, atol=1e-5)


# -- quantized by onnxruntime


def residual():
    """Return two residual blocks, a pooling and a product."""
    weights, nodes = {}, []

    def conv(x, y, outputs, inputs, size, **attributes):
        weights[f"{y}.w"] = floats(outputs, inputs, size, size, scale=1.5 / np.sqrt(inputs) / size)
        weights[f"{y}.b"] = floats(outputs, scale=0.1)
        nodes.append(
            oh.make_node("Conv", [x, f"{y}.w", f"{y}.b"], [y], pads=[size // 2] * 4, **attributes)
        )
        return y

    def relu(x):
        nodes.append(oh.make_node("Relu", [x], [f"{x}.r"]))
        return f"{x}.r"

    def add(x, y, z):
        nodes.append(oh.make_node("Add", [x, y], [z]))
        return z

    x = relu(conv("x", "stem", 32, 3, 3, strides=[2, 2]))
    nodes.append(oh.make_node("MaxPool", [x], ["pool"], kernel_shape=[2, 2], strides=[2, 2]))
    for i, x in ((0, "pool"), (1, "add0.r")):
        a = relu(conv(x, f"a{i}", 32, 32, 3))
        b = conv(a, f"b{i}", 64 if i else 32, 32, 1)
        short = conv(x, "short", 64, 32, 1) if i else x
        last = relu(add(b, short, f"add{i}"))
    nodes.append(oh.make_node("GlobalAveragePool", [last], ["mean"]))
    nodes.append(oh.make_node("Flatten", ["mean"], ["flat"]))
    weights["w"], weights["b"] = floats(64, 10, scale=0.3), floats(10, scale=0.1)
    nodes.append(oh.make_node("Gemm", ["flat", "w", "b"], ["y"]))
    return model_of(nodes, {"x": (F, [1, 3, 32, 32])}, {"y": (F, [1, 10])}, weights, 17)


PRODUCTS = 7
"""Convolutions and matrix products of `residual`."""


def quantized(model, tmp_path, form="QDQ", activations="QUInt8", narrow=False):
    """Return the model in int8; narrow weights have 7 bits, of which no sum saturates."""
    quantization = pytest.importorskip("onnxruntime.quantization", reason="no onnxruntime")
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    onnx.save(model, before)
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.rest = [{"x": floats(*shape)} for _ in range(8)]

        def get_next(self):
            return self.rest.pop() if self.rest else None

    quantization.quantize_static(
        before,
        after,
        Reader(),
        quant_format=getattr(quantization.QuantFormat, form),
        per_channel=True,
        activation_type=getattr(quantization.QuantType, activations),
        weight_type=quantization.QuantType.QInt8,
        reduce_range=narrow,
    )
    return onnx.load(after)


@pytest.mark.parametrize(
    "form, activations",
    # onnxruntime has no kernels for all of the integer ops with s8.
    [("QDQ", "QUInt8"), ("QDQ", "QInt8"), ("QOperator", "QUInt8")],
)
def test_exact_rounds_where_the_file_does(tmp_path, form, activations):
    narrow = SATURATES and activations == "QUInt8"  # with s8, models run products in parts
    made = quantized(residual(), tmp_path, form, activations, narrow)
    model = front.load(made, requantize="exact", fallback="error")
    for _ in range(3):
        x = floats(1, 3, 32, 32)
        assert np.abs(model(x) - runtime(made, x)).max() <= 2.001 * models.last_scale(made)
    # And the pooling, and the average of all.
    require_integer_products(model, narrow)


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_merged_residuals_are_one_partition(tmp_path, form):
    given = residual()
    made = quantized(given, tmp_path, form, narrow=SATURATES)
    model = front.load(made, fallback="error")
    errors = []
    for _ in range(8):
        x = floats(1, 3, 32, 32)
        got, wanted, whole = model(x), runtime(made, x), runtime(given, x)
        cosine = (got * wanted).sum() / np.sqrt((got**2).sum() * (wanted**2).sum())
        assert cosine > 0.999
        errors.append((np.abs(got - whole).mean(), np.abs(wanted - whole).mean()))
    ours, theirs = np.mean(errors, 0)
    assert ours <= 1.1 * theirs  # it rounds less
    text = str(model.report())
    assert "Convolution+Add" in text or "Convolution+Dequantize+Add" in text
    alone = [line.split(" x ")[1] for line in text.splitlines() if " x " in line]
    assert "Add" not in alone
    require_integer_products(model, narrow=SATURATES)


def test_what_saturation_cuts_off_stays_cut_off():
    # A quantizer leaves out a ReLU before a zero point that is the smallest integer.
    weights = {
        "w": RANDOM.integers(-60, 60, (16, 16, 1, 1)).astype(np.int8),
        "ws": np.float32(0.02),
        "s": np.float32(0.05),
        "z": np.uint8(0),
        "o": np.int8(0),
    }
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        oh.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        oh.make_node("DequantizeLinear", ["w", "ws", "o"], ["dw"]),
        oh.make_node("Conv", ["d", "dw"], ["c"]),
        oh.make_node("QuantizeLinear", ["c", "s", "z"], ["cq"]),
        oh.make_node("DequantizeLinear", ["cq", "s", "z"], ["cd"]),
        oh.make_node("Add", ["cd", "d"], ["y"]),
    ]
    made = model_of(nodes, {"x": (F, [1, 16, 5, 5])}, {"y": (F, [1, 16, 5, 5])}, weights)
    x = floats(1, 16, 5, 5, scale=5)
    got = front.load(made, fallback="error")(x)
    wanted = ReferenceEvaluator(made).run(None, {"x": x})[0]
    np.testing.assert_allclose(got, wanted, atol=0.0251)  # half a step
    counted = models.prepared(made)
    assert counted["QuantizeLinear"] == 1
    assert counted["Clip"] == 1


def test_integers_stay_where_elements_only_move():
    weights = {
        "w": RANDOM.integers(-60, 60, (24, 8)).astype(np.int8),
        "ws": np.float32(0.02),
        "s": np.float32(0.05),
        "z": np.uint8(7),
        "o": np.int8(0),
        "to": np.int64([0, 6, 24]),
    }
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        oh.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        oh.make_node("Transpose", ["d"], ["t"], perm=[0, 2, 1, 3]),
        oh.make_node("Reshape", ["t", "to"], ["r"]),
        oh.make_node("DequantizeLinear", ["w", "ws", "o"], ["dw"]),
        oh.make_node("MatMul", ["r", "dw"], ["y"]),
    ]
    made = model_of(nodes, {"x": (F, [2, 4, 6, 6])}, {"y": (F, [2, 6, 8])}, weights)
    x = floats(2, 4, 6, 6, scale=5)
    for requantize in ("merge", "exact"):
        model = front.load(made, fallback="error", requantize=requantize)
        wanted = ReferenceEvaluator(made).run(None, {"x": x})[0]
        np.testing.assert_allclose(model(x), wanted, rtol=1e-4, atol=1e-4)
        assert "Dequantize+Dequantize+MatMul" in str(model.report())


# -- ops of onnxruntime on integers


def eight(name, shape, low=0, high=256, dtype=np.uint8):
    return {name: RANDOM.integers(low, high, shape).astype(dtype)}


def contrib(op_type, shapes, result, attributes=None, zero_points=True):
    """Return a model of such an op on tensors that are quantized and dequantized around it."""
    weights = {"s": np.float32(0.05), "z": np.uint8(117), "rs": np.float32(0.1), "rz": np.uint8(99)}
    nodes, given, inputs = [], [], {}
    for i, shape in enumerate(shapes):
        inputs[f"x{i}"] = (F, shape)
        nodes.append(oh.make_node("QuantizeLinear", [f"x{i}", "s", "z"], [f"q{i}"]))
        given += [f"q{i}", "s", "z"]
    parameters = ["rs", "rz"]
    given = parameters + given if op_type == "QLinearConcat" else given + parameters
    nodes.append(oh.make_node(op_type, given, ["q"], domain="com.microsoft", **(attributes or {})))
    nodes.append(oh.make_node("DequantizeLinear", ["q", "rs", "rz"], ["y"]))
    return model_of(nodes, inputs, {"y": (F, result)}, weights, 17, True)


CONTRIB = {
    "QLinearAdd": ([[2, 3, 4], [3, 4]], [2, 3, 4], {}),
    "QLinearMul": ([[2, 3, 4], [3, 1]], [2, 3, 4], {}),
    "QLinearGlobalAveragePool": ([[2, 3, 4, 5]], [2, 3, 1, 1], {"channels_last": 0}),
    "QLinearAveragePool": ([[2, 3, 4, 5]], [2, 3, 3, 4], {"kernel_shape": [2, 2]}),
    "QLinearSigmoid": ([[2, 3]], [2, 3], {}),
    "QLinearLeakyRelu": ([[2, 3]], [2, 3], {"alpha": 0.2}),
    "QLinearSoftmax": ([[2, 30]], [2, 30], {"axis": 1, "opset": 13}),
    "QLinearConcat": ([[2, 3], [4, 3]], [6, 3], {"axis": 0}),
}


@pytest.mark.parametrize("op_type", CONTRIB)
def test_ops_on_integers_of_onnxruntime(op_type):
    shapes, result, attributes = CONTRIB[op_type]
    made = contrib(op_type, shapes, result, attributes)
    arrays = [floats(*s, scale=3) for s in shapes]
    model = front.load(made, fallback="error")
    np.testing.assert_allclose(model(*arrays), runtime(made, *arrays), atol=0.1001)


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize("transposed", [0, 1])
def test_gemm_on_integers(rounded, transposed):
    weights = {
        "s": np.float32(0.05),
        "z": np.uint8(117),
        "w": RANDOM.integers(-60, 60, (8, 16) if transposed else (16, 8)).astype(np.int8),
        "ws": (RANDOM.random(8) * 0.1 + 0.01).astype(np.float32),
        "wz": np.zeros(8, np.int8),
        "b": RANDOM.integers(-1000, 1000, 8).astype(np.int32),
        "rs": np.float32(0.5),
        "rz": np.uint8(99),
    }
    given = ["q0", "s", "z", "w", "ws", "wz", "b", *(["rs", "rz"] if rounded else [])]
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "s", "z"], ["q0"]),
        oh.make_node(
            "QGemm", given, ["q" if rounded else "y"], domain="com.microsoft", transB=transposed
        ),
    ]
    if rounded:
        nodes.append(oh.make_node("DequantizeLinear", ["q", "rs", "rz"], ["y"]))
    made = model_of(nodes, {"x": (F, [3, 16])}, {"y": (F, [3, 8])}, weights, 17, True)
    x = floats(3, 16, scale=3)
    got = front.load(made, fallback="error")(x)
    np.testing.assert_allclose(got, runtime(made, x), rtol=1e-4, atol=0.5001 if rounded else 1e-3)


def test_matmul_on_integers():
    weights = {
        "s": np.float32(0.05),
        "z": np.uint8(117),
        "w": RANDOM.integers(-60, 60, (16, 8)).astype(np.int8),
        "ws": np.float32(0.03),
        "wz": np.int8(0),
        "rs": np.float32(0.5),
        "rz": np.uint8(99),
    }
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "s", "z"], ["q0"]),
        oh.make_node("QLinearMatMul", ["q0", "s", "z", "w", "ws", "wz", "rs", "rz"], ["q"]),
        oh.make_node("DequantizeLinear", ["q", "rs", "rz"], ["y"]),
    ]
    made = model_of(nodes, {"x": (F, [3, 16])}, {"y": (F, [3, 8])}, weights, 13)
    x = floats(3, 16, scale=3)
    model = front.load(made, fallback="error")
    np.testing.assert_allclose(model(x), runtime(made, x), atol=0.5001)
    assert int8_steps(model) == 1


@pytest.mark.parametrize("op_type", ["MatMulInteger", "ConvInteger"])
def test_products_of_integers_alone_are_right(op_type):
    shapes = ([3, 16], (16, 8), [3, 8])
    if op_type == "ConvInteger":
        shapes = ([1, 3, 5, 5], (4, 3, 3, 3), [1, 4, 3, 3])
    weights = {**eight("w", shapes[1], -100, 100, np.int8), "z": np.uint8(100)}
    node = oh.make_node(op_type, ["x", "w", "z"], ["y"])
    made = model_of([node], {"x": (U8, shapes[0])}, {"y": (TensorProto.INT32, shapes[2])}, weights)
    x = RANDOM.integers(0, 256, shapes[0]).astype(np.uint8)
    wanted = ReferenceEvaluator(made).run(None, {"x": x})[0]
    np.testing.assert_array_equal(front.load(made)(x), wanted)


# -- dynamic quantization


def perceptron():
    weights = {"a": floats(32, 64, scale=0.2), "b": floats(64), "c": floats(64, 8, scale=0.2)}
    nodes = [
        oh.make_node("MatMul", ["x", "a"], ["m"]),
        oh.make_node("Add", ["m", "b"], ["n"]),
        oh.make_node("Relu", ["n"], ["r"]),
        oh.make_node("MatMul", ["r", "c"], ["y"]),
    ]
    return model_of(nodes, {"x": (F, ["n", 32])}, {"y": (F, ["n", 8])}, weights, 17)


def convolutions():
    weights = {"a": floats(8, 3, 3, 3, scale=0.2), "b": floats(8), "c": floats(4, 8, 1, 1)}
    nodes = [
        oh.make_node("Conv", ["x", "a", "b"], ["m"]),
        oh.make_node("Relu", ["m"], ["r"]),
        oh.make_node("Conv", ["r", "c"], ["y"]),
    ]
    inputs, outputs = {"x": (F, ["n", 3, 9, 9])}, {"y": (F, ["n", 4, 7, 7])}
    return model_of(nodes, inputs, outputs, weights, 17)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("kind", ["MatMul", "Conv"])
def test_dynamically_quantized_products(tmp_path, kind, per_channel):
    quantization = pytest.importorskip("onnxruntime.quantization", reason="no onnxruntime")
    given, shape = (perceptron(), (5, 32)) if kind == "MatMul" else (convolutions(), (2, 3, 9, 9))
    onnx.save(given, tmp_path / "before.onnx")
    quantization.quantize_dynamic(
        tmp_path / "before.onnx",
        tmp_path / "after.onnx",
        op_types_to_quantize=[kind],
        weight_type=getattr(quantization.QuantType, "QUInt8" if kind == "Conv" else "QInt8"),
        per_channel=per_channel and kind == "MatMul",
        reduce_range=SATURATES,
    )
    made = onnx.load(tmp_path / "after.onnx")
    assert any(n.op_type == f"{kind}Integer" for n in made.graph.node)
    x = floats(*shape)
    wanted, whole = runtime(made, x), runtime(given, x)
    model = front.load(made, fallback="error")
    assert models.prepared(made)[kind] == 2
    # It rounds weights only.
    assert np.abs(model(x) - whole).mean() < np.abs(wanted - whole).mean()
    assert np.abs(model(x) - wanted).max() < 0.05 * np.abs(wanted).max()
    host = front.load(made, dynamic_quantization="host")
    np.testing.assert_allclose(host(x), wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
    assert models.prepared(made, dynamic_quantization="host")[f"{kind}Integer"] == 2


def test_products_of_two_that_are_rounded_dynamically():
    nodes = [
        oh.make_node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"]),
        oh.make_node("DynamicQuantizeLinear", ["y"], ["yq", "ys", "yz"]),
        oh.make_node("MatMulInteger", ["xq", "yq", "xz", "yz"], ["i"]),
        oh.make_node("Cast", ["i"], ["f"], to=F),
        oh.make_node("Mul", ["xs", "ys"], ["s"]),
        oh.make_node("Mul", ["f", "s"], ["z"]),
    ]
    inputs = {"x": (F, [3, 16]), "y": (F, [16, 8])}
    made = model_of(nodes, inputs, {"z": (F, [3, 8])}, {}, 17)
    x, y = floats(3, 16), floats(16, 8)
    assert models.prepared(made) == {"MatMul": 1}
    np.testing.assert_allclose(front.load(made)(x, y), x @ y, rtol=1e-4, atol=1e-5)


def test_what_is_dequantized_right_behind_is_not_rounded():
    nodes = [
        oh.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        oh.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        oh.make_node("Relu", ["d"], ["r"]),
        oh.make_node("Exp", ["r"], ["y"]),
    ]
    made = model_of(nodes, {"x": (F, [3, 16])}, {"y": (F, [3, 16])}, {})
    x = floats(3, 16)
    np.testing.assert_allclose(front.load(made)(x), np.exp(np.maximum(x, 0)), rtol=1e-5)
    wanted = ReferenceEvaluator(made).run(None, {"x": x})[0]
    np.testing.assert_allclose(front.load(made, dynamic_quantization="host")(x), wanted, rtol=1e-5)


def test_transposed_weights_stay_integers():
    weights = {
        "w": RANDOM.integers(-60, 60, (8, 16)).astype(np.int8),
        "ws": (RANDOM.random(8) * 0.1 + 0.01).astype(np.float32),
        "s": np.float32(0.05),
        "z": np.uint8(7),
        "o": np.zeros(8, np.int8),
    }
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        oh.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        oh.make_node("DequantizeLinear", ["w", "ws", "o"], ["dw"], axis=0),
        oh.make_node("Transpose", ["dw"], ["t"], perm=[1, 0]),
        oh.make_node("MatMul", ["d", "t"], ["y"]),
    ]
    made = model_of(nodes, {"x": (F, [3, 16])}, {"y": (F, [3, 8])}, weights)
    x = floats(3, 16, scale=3)
    model = front.load(made, fallback="error")
    wanted = ReferenceEvaluator(made).run(None, {"x": x})[0]
    np.testing.assert_allclose(model(x), wanted, rtol=1e-4, atol=1e-4)
    assert int8_steps(model) == 1


def test_dequantized_weights_are_transposed_once():
    weights = {
        "w": RANDOM.integers(-60, 60, (8, 16)).astype(np.int8),
        "s": np.float32(0.05),
        "z": np.int8(7),
    }
    nodes = [
        oh.make_node("DequantizeLinear", ["w", "s", "z"], ["d"]),
        oh.make_node("Transpose", ["d"], ["t"], perm=[1, 0]),
        oh.make_node("MatMul", ["x", "t"], ["y"]),
    ]
    made = model_of(nodes, {"x": (F, [3, 16])}, {"y": (F, [3, 8])}, weights)
    assert models.prepared(made) == {"MatMul": 1}
    x = floats(3, 16)
    wanted = ReferenceEvaluator(made).run(None, {"x": x})[0]
    np.testing.assert_allclose(front.load(made)(x), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("seed", range(6))
def test_nonsense_is_an_error_of_ours(seed):
    # Shapes, types and attributes of quantized ops that do not fit each other.
    random = np.random.default_rng(seed)

    def anything():
        dtype = random.choice(["int8", "uint8", "int32", "float32", "int64", "bool"])
        shape = random.integers(0, 4, random.integers(0, 4))
        return random.integers(-3, 100, shape).astype(dtype)

    og = pytest.importorskip("onednn_graph_py")
    ops = [("", "QuantizeLinear", 3), ("", "DequantizeLinear", 3), ("", "QLinearConv", 9)]
    ops += [("", "QLinearMatMul", 8), ("", "MatMulInteger", 4), ("", "ConvInteger", 4)]
    ops += [("com.microsoft", n, 8) for n in ("QGemm", "QLinearAdd", "QLinearConcat")]
    ops += [("com.microsoft", "MatMulNBits", 6), ("com.microsoft", "DynamicQuantizeMatMul", 5)]
    for domain, op_type, count in ops:
        for extra in (
            {},
            {"axis": 9},
            {"axis": "x"},
            {"block_size": -3, "bits": 4, "K": 8, "N": 2},
        ):
            weights = {f"w{i}": anything() for i in range(1, count)}
            for names in (["x", *weights], ["w1", *weights]):
                node = oh.make_node(op_type, names, ["y"], domain=domain, **extra)
                infos = {"x": (U8 if op_type != "QuantizeLinear" else F, [2, 3])}
                model = model_of([node], infos, {"y": (F, None)}, weights, 21, True)
                try:
                    x = np.zeros((2, 3), np.uint8 if op_type != "QuantizeLinear" else np.float32)
                    front.load(model, fallback="reference")(x)
                except og.OneDNNError:
                    pass


@pytest.mark.parametrize("shape", [[1, 8, 1, 1], [8, 1, 1], [1]])
@pytest.mark.parametrize("op_type", ["Conv", "ConvTranspose"])
def test_what_is_added_to_channels_becomes_a_bias(op_type, shape):
    weights = {"w": floats(8, 8, 3, 3), "b": floats(*shape)}
    nodes = [oh.make_node(op_type, ["x", "w"], ["c"]), oh.make_node("Add", ["b", "c"], ["y"])]
    made = model_of(nodes, {"x": (F, [1, 8, 6, 6])}, {"y": (F, None)}, weights)
    model = front.load(made)
    x = floats(1, 8, 6, 6)
    wanted = ReferenceEvaluator(made).run(None, {"x": x})[0]
    np.testing.assert_allclose(model(x), wanted, rtol=1e-4, atol=1e-3)
    ops = [kind for step in model.report().programs[0].steps for kind in step.ops]
    assert "Add" not in ops


@pytest.mark.parametrize("shape", [[8, 1], [4], [2, 8, 1, 1], [1, 8, 4, 4]])
def test_what_is_added_otherwise_does_not(shape):
    weights = {"w": floats(8, 8, 3, 3), "b": floats(*shape)}
    size = 8 if shape == [8, 1] else 4
    nodes = [oh.make_node("Conv", ["x", "w"], ["c"]), oh.make_node("Add", ["c", "b"], ["y"])]
    made = model_of(nodes, {"x": (F, [1, 8, size + 2, size + 2])}, {"y": (F, None)}, weights)
    model = front.load(made)
    x = floats(1, 8, size + 2, size + 2)
    wanted = ReferenceEvaluator(made).run(None, {"x": x})[0]
    np.testing.assert_allclose(model(x), wanted, rtol=1e-4, atol=1e-3)
    ops = [kind for step in model.report().programs[0].steps for kind in step.ops]
    assert "Add" in ops


# -- compressed weights with rounded activations


def nbits(bits, block, rows, columns, points, **attributes):
    """Return a MatMulNBits as a model, and the numbers that its weights stand for."""
    blocks = -(-rows // block)
    numbers = RANDOM.integers(0, 1 << bits, (columns, blocks * block)).astype(np.uint8)
    scales = (RANDOM.uniform(0.5, 2, (columns, blocks)) / (1 << bits)).astype(np.float32)
    parts = numbers.reshape(columns, blocks, -1, 8 // bits)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    weights = {"b": (parts << shifts).sum(-1).astype(np.uint8), "s": scales}
    zeros = np.full((columns, blocks), 1 << (bits - 1), np.float32)
    names = ["x", "b", "s"]
    if points:
        zeros = (zeros + RANDOM.uniform(-2, 2, zeros.shape)).astype(np.float32)
        weights["z"] = zeros
    names.append("z" if points else "")
    order = attributes.pop("order", None)
    groups = np.arange(rows) // block if order is None else order
    if order is not None:
        weights["g"] = order.astype(np.int32)
        names.append("g")
    node = oh.make_node(
        "MatMulNBits", names, ["y"], domain="com.microsoft", K=rows, N=columns, bits=bits,
        block_size=block, **attributes,
    )  # fmt: skip
    made = model_of(
        [node], {"x": (F, ["n", rows])}, {"y": (F, ["n", columns])}, weights, 21, contrib=True
    )
    exact = (numbers[:, :rows].astype(np.float64) - zeros[:, groups]) * scales[:, groups]
    return made, exact.T


@pytest.mark.parametrize("rows", [64, 80])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("block", [16, 32])
@pytest.mark.parametrize("ordered", [False, True])
def test_matmul_nbits_in_integers(rows, bits, points, block, ordered):
    order = RANDOM.integers(0, -(-rows // block), rows) if ordered else None
    made, exact = nbits(bits, block, rows, 24, points, accuracy_level=4, order=order)
    assert models.prepared(made) == {"Int8Linear": 1}
    assert models.prepared(made, activations="exact") == {"MatMul": 1}
    x = floats(5, rows)
    model = front.load(made, fallback="error")
    far = allowed(x, exact, steps_of_columns(exact, largest_int8_weight()))
    assert np.all(np.abs(model(x) - x @ exact) <= far)
    assert int8_steps(model) == 1
    got = front.load(made, fallback="error", activations="exact")(x)
    np.testing.assert_allclose(got, x @ exact, rtol=1e-4, atol=1e-4)


def test_weights_that_grow_are_warned_of():
    made, exact = nbits(4, 32, 1024, 640, False)
    with pytest.warns(RuntimeWarning, match="weights of 0 MiB take 2 MiB"):
        model = front.load(made, fallback="error")
    x = floats(3, 1024)
    np.testing.assert_allclose(model(x), x @ exact, rtol=1e-4, atol=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        front.load(made, fallback="error", activations="int8")(x)


@pytest.mark.parametrize("level", [None, 0, 1, 3])
def test_only_level_4_rounds_activations(level):
    attributes = {} if level is None else {"accuracy_level": level}
    made, _ = nbits(4, 32, 64, 24, False, **attributes)
    assert models.prepared(made) == {"MatMul": 1}
    assert models.prepared(made, activations="int8") == {"Int8Linear": 1}


def test_bad_orders_of_groups_are_not_read():
    og = pytest.importorskip("onednn_graph_py")
    for order in (np.full(64, 7), np.full(64, -1), np.zeros(3)):
        made, _ = nbits(4, 32, 64, 24, False, accuracy_level=4, order=np.zeros(64, np.int32))
        place = next(t for t in made.graph.initializer if t.name == "g")
        place.CopyFrom(onh.from_array(order.astype(np.int32), "g"))
        assert models.prepared(made) == {"MatMulNBits": 1}
        with pytest.raises(og.UnimplementedError):
            front.load(made, fallback="error").compile({"x": (3, 64)})


@pytest.mark.parametrize("axis, block", [(0, 16), (1, None), (0, None), (None, None)])
def test_dequantized_weights_in_integers(axis, block):
    weight = RANDOM.integers(-60, 60, (64, 24)).astype(np.int8)
    shape = {(0, 16): (4, 24), (1, None): (24,), (0, None): (64,), (None, None): ()}[axis, block]
    scales = np.asarray(RANDOM.uniform(0.5, 2, shape) / 100, np.float32)
    spread = {(0, 16): lambda: np.repeat(scales, 16, 0), (0, None): lambda: scales[:, None]}
    exact = weight * spread.get((axis, block), lambda: scales)().astype(np.float64)
    attributes = {} if axis is None else {"axis": axis}
    attributes |= {} if block is None else {"block_size": block}
    nodes = [
        oh.make_node("DequantizeLinear", ["w", "s"], ["d"], **attributes),
        oh.make_node("MatMul", ["x", "d"], ["y"]),
        oh.make_node("MatMul", ["v", "d"], ["z"]),
    ]
    outputs = {name: (F, ["n", 2, 24]) for name in "yz"}
    inputs = {name: (F, ["n", 2, 64]) for name in "xv"}
    made = model_of(nodes, inputs, outputs, {"w": weight, "s": scales})
    assert models.prepared(made, activations="int8") == {"Int8Linear": 2}
    assert models.prepared(made)["Int8Linear"] == 0
    x = floats(5, 2, 64)
    model = front.load(made, fallback="error", activations="int8")
    whole = axis in (1, None)
    flat = x.reshape(-1, 64)
    far = allowed(flat, exact, 0 if whole else steps_of_columns(exact, largest_int8_weight()))
    for y, sign in zip(model(x, -x), (1, -1), strict=True):
        assert np.all(np.abs(sign * y.reshape(-1, 24) - flat @ exact) <= far)


@pytest.mark.parametrize("points", [False, True])
def test_dynamic_quantize_matmul_in_integers(points):
    weight = RANDOM.integers(-60, 60, (64, 24)).astype(np.int8)
    scales = (RANDOM.uniform(0.5, 2, 24) / 100).astype(np.float32)
    zeros = RANDOM.integers(-4, 5, 24).astype(np.int8) if points else np.zeros(24, np.int8)
    weights = {"w": weight, "s": scales, "bias": floats(24)}
    given = ["x", "w", "s", "", "bias"]
    if points:
        weights["z"], given[3] = zeros, "z"
    node = oh.make_node("DynamicQuantizeMatMul", given, ["y"], domain="com.microsoft")
    made = model_of([node], {"x": (F, [5, 64])}, {"y": (F, [5, 24])}, weights, 21, contrib=True)
    assert models.prepared(made) == {"MatMul": 1, "Add": 1}
    x = floats(5, 64)
    exact = (weight.astype(np.float64) - zeros) * scales
    model = front.load(made, fallback="error", activations="int8")
    assert np.all(np.abs(model(x) - weights["bias"] - x @ exact) <= allowed(x, exact, 0) + 1e-6)
    assert int8_steps(model) == 1


def test_dynamically_quantized_products_in_integers(tmp_path):
    quantization = pytest.importorskip("onnxruntime.quantization", reason="no onnxruntime")
    onnx.save(perceptron(), tmp_path / "before.onnx")
    quantization.quantize_dynamic(
        tmp_path / "before.onnx", tmp_path / "after.onnx", per_channel=True,
        weight_type=quantization.QuantType.QInt8, reduce_range=SATURATES,
    )  # fmt: skip
    made = onnx.load(tmp_path / "after.onnx")
    assert models.prepared(made, activations="int8")["Int8Linear"] == 2
    x = floats(5, 32)
    model = front.load(made, fallback="error", activations="int8")
    wanted = front.load(made, fallback="error")(x)
    y = model(x)
    assert int8_steps(model) == 2
    # Its activations alone are rounded, twice: to 8 bits of the largest number of each token.
    assert np.abs(y - wanted).max() < 2 / 127 * np.abs(wanted).max()


@pytest.mark.parametrize("integers", ["uint8", "int8"])
@pytest.mark.parametrize("before", ["QuantizeLinear", "QLinearConv"])
def test_pools_with_channels_last_stay_in_oneDNN(integers, before):
    point = np.array(7 if integers == "uint8" else -9, integers)
    weights = {
        "s": np.float32(0.05), "p": point, "t": np.float32(0.02), "q": np.int8(0),
        "o": np.float32(0.11),
        "w": np.random.default_rng(1).integers(-60, 60, (8, 6, 3, 2), np.int8),
    }  # fmt: skip
    nodes = [oh.make_node("QuantizeLinear", ["x", "s", "p"], ["a"])]
    scale, pooled = "s", "a"
    if before == "QLinearConv":
        read = ["a", "s", "p", "w", "t", "q", "o", "p"]
        windows = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "channels_last": 1}
        nodes.append(oh.make_node(before, read, ["c"], domain="com.microsoft", **windows))
        scale, pooled = "o", "c"
    pool = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 0, 1], "dilations": [1, 2]}
    nodes += [
        oh.make_node("NhwcMaxPool", [pooled], ["m"], domain="com.microsoft", **pool),
        oh.make_node("DequantizeLinear", ["m", scale, "p"], ["y"]),
    ]
    made = model_of(nodes, {"x": (F, [2, 9, 11, 6])}, {"y": (F, None)}, weights)
    made.opset_import.append(oh.make_opsetid("com.microsoft", 1))
    x = floats(2, 9, 11, 6)
    model = front.load(made, fallback="error")
    wanted = runtime(made, x)
    step = 1.01 * float(weights[scale])
    np.testing.assert_allclose(model(x), wanted, rtol=0, atol=step if pooled == "c" else 1e-5)
    if before == "QLinearConv":
        assert np.mean(np.abs(model(x) - wanted) > 1e-5) < 0.02


def test_the_report_says_why_products_are_not_in_8_bits():
    rng = np.random.default_rng(0)
    weights = {
        "w": rng.integers(-90, 90, (12, 16)).astype(np.int8),
        "v": rng.standard_normal((16, 10)).astype(np.float32),
        "u": rng.integers(-90, 90, (10, 5)).astype(np.int8),
        "s": np.float32(0.03),
        "p": np.uint8(110),
        "z": np.int8(0),
    }
    nodes = [
        oh.make_node("QuantizeLinear", ["x", "s", "p"], ["q"]),
        oh.make_node("DequantizeLinear", ["q", "s", "p"], ["d"]),
        oh.make_node("DequantizeLinear", ["w", "s", "z"], ["dw"]),
        oh.make_node("MatMul", ["d", "dw"], ["a"]),
        oh.make_node("QuantizeLinear", ["a", "s", "p"], ["qa"]),
        oh.make_node("DequantizeLinear", ["qa", "s", "p"], ["da"]),
        oh.make_node("MatMul", ["da", "v"], ["b"]),
        oh.make_node("DequantizeLinear", ["u", "s", "z"], ["du"]),
        oh.make_node("MatMul", ["b", "du"], ["y"]),
    ]
    given = model_of(nodes, {"x": (F, (7, 12))}, {"y": (F, (7, 5))}, weights)
    model = front.load(given, islands="fewest")
    model(rng.standard_normal((7, 12)).astype(np.float32))
    (program,) = model.report().programs
    products = dict(program.products)
    assert products.pop("its second operand is not quantized") == 1
    assert products.pop("its first operand is not quantized") == 1
    ((why, count),) = products.items()
    assert count == 1
    assert (why == "") == (largest_int8_weight() == 127)
    assert f"{int(why == '')} of 3 products in int8" in str(model.report())
    assert "1 x not in int8: its first operand is not quantized" in str(model.report())
