"""Ops of com.microsoft that onnxruntime's optimizers write: each beside onnxruntime."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
front = pytest.importorskip("onednn_graph_py.onnx")
helper = pytest.importorskip("onnx.helper")


def drawn(*shape, seed=0):
    return np.random.default_rng(sum(shape) + seed).standard_normal(shape).astype(np.float32)


# For each case: op, attributes, inputs (None for one that is left out), outputs, which of the
# inputs are weights.
X = drawn(2, 7, 24)
MASK = np.array([[1, 1, 1, 0, 1, 0, 0], [1, 0, 0, 0, 0, 0, 0]], np.int32)
IMAGE, KERNEL, BIAS = drawn(2, 6, 9, 11), drawn(8, 3, 3, 2), drawn(8)
WINDOWS = {"group": 2, "strides": [2, 1], "pads": [1, 0, 2, 1], "kernel_shape": [3, 2]}
IDS = np.array([[1, 0, 8, 3, 3, 7, 2], [4, 4, 5, 0, 8, 1, 6]], np.int32)
PLACES = np.array([[1, 3, 5, 0, 2, 9, 4], [3, 2, 1, 0, 6, 5, 4]], np.int32)
ANGLES = drawn(11, 4)
TABLES = [np.cos(ANGLES), np.sin(ANGLES)]
EMBEDDING = [drawn(9, 24), drawn(11, 24), drawn(2, 24), drawn(24), drawn(24, seed=1)]
QKV = [drawn(2, 7, 24), drawn(2, 5, 24, seed=1), drawn(2, 5, 24, seed=2)]
CASES = {
    "BiasGelu": ("BiasGelu", {}, [X, drawn(24)], 1, {1}),
    "FastGelu": ("FastGelu", {}, [X], 1, set()),
    "FastGelu bias": ("FastGelu", {}, [X, drawn(24)], 1, {1}),
    "QuickGelu": ("QuickGelu", {"alpha": 1.3}, [X], 1, set()),
    "QuickGelu default": ("QuickGelu", {}, [X], 1, set()),
    "FusedMatMul": (
        "FusedMatMul", {"alpha": 0.3, "transA": 1, "transB": 1},
        [drawn(3, 8, 5), drawn(3, 9, 8)], 1, {1},
    ),
    "FusedMatMul plain": ("FusedMatMul", {"alpha": -2.0}, [X, drawn(24, 9)], 1, set()),
    **{
        f"FusedConv {name}": (
            "FusedConv", {**WINDOWS, "activation": name, **more}, [IMAGE, KERNEL, BIAS], 1, {1, 2}
        )
        for name, more in {
            "Relu": {},
            "Tanh": {},
            "Sigmoid": {},
            "LeakyRelu": {"activation_params": [0.3]},
            "Clip": {"activation_params": [-0.4, 0.7]},
            "HardSigmoid": {"activation_params": [0.3, 0.4]},
        }.items()
    },
    "FusedConv sum": (
        "FusedConv", {**WINDOWS, "activation": "Relu"},
        [IMAGE, KERNEL, BIAS, drawn(2, 8, 5, 11)], 1, {1, 2},
    ),
    "FusedGemm": (
        "FusedGemm", {"activation": "LeakyRelu", "activation_alpha": 0.2, "transB": 1, "beta": 0.5},
        [drawn(5, 24), drawn(9, 24), drawn(9)], 1, {1, 2},
    ),
    "SkipLayerNormalization": (
        "SkipLayerNormalization", {"epsilon": 1e-3},
        [X, drawn(2, 7, 24, seed=3), drawn(24), drawn(24, seed=1), drawn(24, seed=2)], 4, {2, 3, 4},
    ),
    "SkipLayerNormalization bare": (
        "SkipLayerNormalization", {}, [X, drawn(2, 7, 24, seed=3), drawn(24)], 1, {2},
    ),
    "SkipSimplifiedLayerNormalization": (
        "SkipSimplifiedLayerNormalization", {"epsilon": 1e-3},
        [X, drawn(2, 7, 24, seed=3), drawn(24), drawn(24, seed=2)], 4, {2, 3},
    ),
    "Attention": ("Attention", {"num_heads": 3}, [X, drawn(24, 72), drawn(72)], 1, {1, 2}),
    "Attention causal": (
        "Attention", {"num_heads": 4, "unidirectional": 1, "scale": 0.2},
        [X, drawn(24, 72), drawn(72)], 1, {1, 2},
    ),
    "Attention mask": (
        "Attention", {"num_heads": 2}, [X, drawn(24, 72), drawn(72), MASK], 1, {1, 2}
    ),
    "RotaryEmbedding": ("RotaryEmbedding", {}, [X, PLACES.astype(np.int64), *TABLES], 1, {2, 3}),
    "RotaryEmbedding interleaved": (
        "RotaryEmbedding", {"interleaved": 1}, [X, np.array([3]), *TABLES], 1, {2, 3},
    ),
    "RotaryEmbedding in part, by head": (
        "RotaryEmbedding", {"rotary_embedding_dim": 8, "num_heads": 3},
        [drawn(2, 3, 7, 12), PLACES.astype(np.int64), *TABLES], 1, {2, 3},
    ),
    "RotaryEmbedding by head, from a place": (
        "RotaryEmbedding", {}, [drawn(2, 5, 7, 8), np.array([0]), *TABLES], 1, {2, 3},
    ),
    "EmbedLayerNormalization": (
        "EmbedLayerNormalization", {"epsilon": 1e-3},
        [IDS, IDS % 2, *EMBEDDING], 3, {2, 3, 4, 5, 6},
    ),
    "EmbedLayerNormalization without segments, with places": (
        "EmbedLayerNormalization", {},
        [IDS, None, *EMBEDDING[:2], None, *EMBEDDING[3:], None, PLACES], 2, {2, 3, 5, 6},
    ),
    "MultiHeadAttention": ("MultiHeadAttention", {"num_heads": 3}, QKV, 1, set()),
    "MultiHeadAttention bias": (
        "MultiHeadAttention", {"num_heads": 2}, [*QKV, drawn(72)], 1, {3}
    ),
    "MultiHeadAttention masks": (
        "MultiHeadAttention", {"num_heads": 2, "scale": 0.5},
        [*QKV, None, MASK[:, :5].copy(), drawn(2, 2, 7, 5)], 1, set(),
    ),
}  # fmt: skip


def model_of(op, attributes, inputs, outputs, weights):
    names = [f"i{i}" if a is not None else "" for i, a in enumerate(inputs)]
    read = (0, 2) if op == "EmbedLayerNormalization" else (0, 3)
    made = [f"o{i}" if i in read else "" for i in range(outputs)]
    node = helper.make_node(op, names, made, domain="com.microsoft", **attributes)

    def info(i):
        dtype = helper.np_dtype_to_tensor_dtype(inputs[i].dtype)
        return helper.make_tensor_value_info(names[i], dtype, inputs[i].shape)

    given = [i for i, a in enumerate(inputs) if a is not None]
    graph = helper.make_graph(
        [node],
        op,
        [info(i) for i in given if i not in weights],
        [onnx.ValueInfoProto(name=n) for n in made if n],
        [onnx.numpy_helper.from_array(inputs[i], names[i]) for i in given if i in weights],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return model, {names[i]: inputs[i] for i in given if i not in weights}


@pytest.mark.parametrize("name", CASES)
def test_what_optimizers_write_runs_in_onednn(name):
    model, inputs = model_of(*CASES[name])
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = session.run(None, inputs)
    loaded = front.load(model, fallback="error")
    made = loaded(inputs)
    made = made if isinstance(made, tuple) else (made,)
    for got, want in zip(made, wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4 if "Gelu" in name else 2e-5)
    assert loaded.report().programs[-1].share == 1


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("masked", "scales"), [(False, 1), (True, 1), (True, 72)])
def test_quantized_attention_is_attention(dynamic, masked, scales):
    """With weights whose products don't saturate where onnxruntime has no VNNI."""
    draw = np.random.default_rng(4)
    weight, bias = draw.integers(-60, 61, (24, 72)).astype(np.int8), drawn(72)
    names = ["x", "w", "bias", "x_scale", "w_scale", "mask" if masked else "", "x_point", "w_point"]
    node = helper.make_node("QAttention", names, ["y"], domain="com.microsoft", num_heads=3)
    known = {
        "w": weight,
        "bias": bias,
        "w_scale": np.linspace(0.003, 0.004, scales, dtype=np.float32),
        "w_point": np.arange(scales, dtype=np.int8) % 5,
    }
    nodes, inputs = [node], {"x": draw.integers(0, 256, (2, 7, 24)).astype(np.uint8)}
    if dynamic:
        rounded = ["x", "x_scale", "x_point"]
        nodes.insert(0, helper.make_node("DynamicQuantizeLinear", ["f"], rounded))
        inputs = {"f": X}
    else:
        known |= {"x_scale": np.float32(0.015), "x_point": np.uint8(121)}
    if masked:
        inputs["mask"] = MASK
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in inputs.items()
    ]
    weights = [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in known.items()]
    graph = helper.make_graph(
        nodes, "g", infos, [helper.make_tensor_value_info("y", 1, None)], weights
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    loaded = front.load(model, fallback="error")
    # onnxruntime rounds what is quantized as it goes; ours is exact.
    (wanted,) = session.run(None, inputs)
    np.testing.assert_allclose(loaded(inputs), wanted, rtol=1e-3, atol=3e-2 if dynamic else 1e-4)


@pytest.mark.parametrize("name", ["EmbedLayerNormalization", "RotaryEmbedding interleaved"])
def test_the_number_of_tokens_may_be_open(name):
    case = CASES[name]
    model, inputs = model_of(*case)
    for value in model.graph.input:
        if len(inputs[value.name].shape) > 1:
            value.type.tensor_type.shape.dim[1].dim_param = "tokens"
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    loaded = front.load(model, fallback="error")
    for tokens in (7, 3, 5):
        given = {n: a[:, :tokens] if a.ndim > 1 else a for n, a in inputs.items()}
        made = loaded(given)
        made = made if isinstance(made, tuple) else (made,)
        for got, want in zip(made, session.run(None, given), strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


REFUSED = {
    "RotaryEmbedding": (
        "RotaryEmbedding", {"scale": 0.5}, [X, PLACES.astype(np.int64), *TABLES], 1, {2, 3},
    ),
    "FusedMatMul": ("FusedMatMul", {"transBatchA": 1}, [drawn(8, 3, 5), drawn(3, 5, 9)], 1, set()),
    "Attention lengths": (
        "Attention", {"num_heads": 2},
        [X, drawn(24, 72), drawn(72), np.array([3, 7], np.int32)], 1, {1, 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_lowered_is_an_island(name):
    model, inputs = model_of(*REFUSED[name])
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    loaded = front.load(model, islands="fewest")
    np.testing.assert_allclose(loaded(inputs), session.run(None, inputs)[0], rtol=1e-5, atol=1e-5)
    assert loaded.report().programs[-1].partitions == 0
