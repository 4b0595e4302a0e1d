"""ONNX files as converters and hubs make them, and islands whose runtime differs from onnx."""

import os
import subprocess
import sys

import numpy as np
import pytest

import onednn_graph_py as og

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
front = pytest.importorskip("onednn_graph_py.onnx")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from onednn_graph_py.machine.cpu import lacks  # noqa: E402
from onednn_graph_py.onnx import inference  # noqa: E402

FLOAT, U8 = TensorProto.FLOAT, TensorProto.UINT8


def floats(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def made(nodes, inputs, outputs, weights=None, opset=21, **domains):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [onnx.ValueInfoProto(name=n) for n in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (weights or {}).items()],
    )
    opsets = {"": opset, **{d.replace("_", "."): v for d, v in domains.items()}}
    return helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid(d, v) for d, v in opsets.items()],
        ir_version=10,
    )


def by_onnxruntime(model, *arrays):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {i.name: a for i, a in zip(session.get_inputs(), arrays, strict=True)})


def check(model, *calls, **options):
    loaded = front.load(model, **options)
    for arrays in calls:
        got = loaded(*arrays)
        for one, want in zip(
            got if isinstance(got, tuple) else (got,), by_onnxruntime(model, *arrays), strict=True
        ):
            assert (one.shape, one.dtype) == (want.shape, want.dtype)
            np.testing.assert_allclose(one, want, rtol=1e-4, atol=1e-4)
    return loaded


# -- dims


def between_products(node, opset, shape=(1, 2, 5), dims=None, **weights):
    """A node between products, so that oneDNN reads what it makes."""
    space = [1] * (len(shape) - 2)
    weights |= {"w0": floats(2, 2, *space), "w1": floats(3, 2, *space)}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        node,
        helper.make_node("Conv", ["c", "w1"], ["y"]),
    ]
    outputs = ["y", *node.output[1:]]
    return made(nodes, {"x": (FLOAT, dims or shape)}, outputs, weights, opset)


@pytest.mark.parametrize("opset", [11, 18, 21, 22])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "LpPool", "indices"])
def test_a_window_that_begins_behind_the_elements_does_not_count(kind, opset):
    attributes = {"kernel_shape": [2], "strides": [2], "pads": [1, 1], "ceil_mode": 1}
    if kind == "LpPool" and opset < 18:
        del attributes["ceil_mode"]
    results = ["c", "i"] if kind == "indices" else ["c"]
    node = helper.make_node(kind.replace("indices", "MaxPool"), ["b"], results, **attributes)
    check(between_products(node, opset), [floats(1, 2, 5)])


@pytest.mark.parametrize("padding", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("stride", [2, 3])
def test_padding_that_the_op_chooses_is_all_there_is(padding, stride):
    node = helper.make_node(
        "ConvTranspose", ["b", "t"], ["c"], strides=[stride], auto_pad=padding, output_padding=[1]
    )
    check(between_products(node, 21, t=floats(2, 2, 3)), [floats(1, 2, 5)])
    if padding == "VALID":
        node = helper.make_node(
            "AveragePool", ["b"], ["c"], kernel_shape=[3], pads=[1, 1], auto_pad=padding
        )
        check(between_products(node, 21), [floats(1, 2, 5)])


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize(("factor", "size"), [(1.3, 20), (1.1, 30), (2.7, 10), (0.7, 10)])
@pytest.mark.parametrize("axes", [False, True])
def test_resized_dims_are_products_in_f32(mode, factor, size, axes):
    node = helper.make_node("Resize", ["b", "", "s"], ["c"], mode=mode)
    if axes:
        node.attribute.append(helper.make_attribute("axes", [3, 2]))
    scales = np.float32([factor, 1.5] if axes else [1, 1, 1.5, factor])
    x = floats(1, 2, 4, size)
    check(between_products(node, 21, x.shape, s=scales), [x])
    open_ = between_products(node, 21, x.shape, ["n", 2, "h", "w"], s=scales)
    check(open_, [x], [floats(3, 2, 5, 7)], [x])


RESIZED = [  # dims, factors of the last ones
    ((2, 3, 7), (1.7,)),
    ((2, 3, 4, 7), (2.6, 0.55)),
    ((1, 2, 9, 8), (1, 0.5)),
    ((2, 1, 1, 6), (3, 1.5)),
    ((1, 2, 3, 4, 5), (1.4, 2, 1.3)),
    ((5, 9), (1.3, 0.7)),
]
COORDINATES = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]


@pytest.mark.parametrize("element", [FLOAT, TensorProto.BFLOAT16])
@pytest.mark.parametrize("how", [*COORDINATES, "half_pixel_symmetric"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic", "cubic, exclude_outside"])
@pytest.mark.parametrize(("shape", "factors"), RESIZED)
def test_dims_are_resized_without_an_island(shape, factors, mode, how, element):
    if element != FLOAT and (why := lacks("bf16")):
        pytest.skip(why)
    mode, _, outside = mode.partition(", ")
    attributes = {"mode": mode, "coordinate_transformation_mode": how}
    attributes |= {"exclude_outside": 1, "cubic_coeff_a": -0.5} if outside else {}
    if mode == "nearest":
        attributes["nearest_mode"] = "round_prefer_ceil" if len(shape) == 4 else "floor"
    before = shape[-len(factors) :]
    ends = [int(size * factor) for size, factor in zip(before, factors, strict=True)]
    sizes = np.array([*shape[: -len(factors)], *ends])
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], **attributes)
    model = made([node], {"x": (element, shape)}, ["y"], {"s": sizes}, 19)
    single = made([node], {"x": (FLOAT, shape)}, ["y"], {"s": sizes}, 19)
    x = floats(*shape).astype(helper.tensor_dtype_to_np_dtype(element))
    in_f32 = x.astype(np.float32)
    if mode == "cubic" and len(shape) != 4:  # which onnxruntime does not have
        (want,) = ReferenceEvaluator(single).run(None, {"x": in_f32})
    else:
        (want,) = by_onnxruntime(single, in_f32)
    got = front.load(model, fallback="error")(x)
    assert (got.shape, got.dtype) == (want.shape, x.dtype)
    error = 2e-5 if element == FLOAT else 2**-7 * abs(want).max()
    np.testing.assert_allclose(got.astype(np.float32), want, rtol=0, atol=error)


def test_images_that_products_are_slow_for_are_resized_in_islands():
    attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    node = helper.make_node("Resize", ["x", "", "", "s"], ["y"], **attributes)
    model = made([node], {"x": (FLOAT, (1, 2, 90, 70))}, ["y"], {"s": [1, 2, 180, 141]}, 19)
    loaded = check(model, [floats(1, 2, 90, 70)])
    (program,) = loaded.report().programs
    assert "products are slow" in program.left[0].why


@pytest.mark.parametrize("opset", [11, 13, 15])
def test_weights_are_normalized_by_the_statistics_that_are_given(opset):
    """Before opset 14 onnx's reference moves them, as in training."""
    node = helper.make_node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"], epsilon=0.1)
    given = {"x": floats(3, 2), "s": floats(2), "b": floats(2), "m": floats(2) + 1}
    check(made([node], {}, ["y"], {**given, "v": abs(floats(2)) + 1}, opset), ())


def test_weights_are_normalized_over_all_their_channels():
    """onnx's reference of LRN takes the number of images for that of channels."""
    node = helper.make_node("LRN", ["x"], ["y"], size=3, alpha=0.9)
    check(made([node], {}, ["y"], {"x": floats(1, 7, 6, 3)}, 13), ())


@pytest.mark.parametrize("element", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
@pytest.mark.parametrize(
    ("kind", "exact"),
    [
        ("LeakyRelu", lambda x: np.where(x < 0, np.float32(0.3) * x, x)),
        ("Sigmoid", lambda x: 1 / (1 + np.exp(-x))),
        ("Elu", lambda x: np.where(x < 0, np.float32(0.3) * np.expm1(x), x)),
        ("ReduceSum", lambda x: x.sum(keepdims=True)),
    ],
)
def test_small_floats_are_rounded_once_where_they_are_known(kind, exact, element):
    """onnx's reference rounds each of its steps."""
    dtype = helper.tensor_dtype_to_np_dtype(element)
    x = np.random.default_rng(0).uniform(-3, 3, 500).astype(dtype)
    attributes = {"alpha": 0.3} if kind in ("LeakyRelu", "Elu") else {}
    node = helper.make_node(kind, ["x"], ["y"], **attributes)
    model = front.load(made([node], {}, ["y"], {"x": x}, 22))
    assert np.array_equal(model(), exact(x.astype(np.float64)).astype(dtype))


def test_nearest_elements_are_rounded_as_runtimes_do():
    """(6 + 0.5) / 1.3 - 0.5 is 4.5 in f32, and above it in f64; 2.3333333 * 3 is 7 in f32 only."""
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="nearest")
    model = made([node], {"x": (FLOAT, (2, 1, 7))}, ["y"], {"s": np.float32([1, 1, 1.3])}, 21)
    check(model, (floats(2, 1, 7),))
    how = {"nearest_mode": "floor", "coordinate_transformation_mode": "half_pixel_symmetric"}
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="nearest", **how)
    model = made([node], {"x": (FLOAT, (2, 1, 3))}, ["y"], {"s": np.float32([1, 1, 7 / 3])}, 19)
    check(model, (floats(2, 1, 3),))


@pytest.mark.parametrize("factors", [(2, 0.8), (0.6, 1.4)])
def test_opset_10_takes_later_elements_where_images_become_smaller(factors):
    node = helper.make_node("Resize", ["x", "s"], ["y"], mode="nearest")
    scales = np.float32([1, 1, *factors])
    model = made([node], {"x": (FLOAT, (2, 3, 7, 5))}, ["y"], {"s": scales}, 10)
    check(model, (floats(2, 3, 7, 5),), fallback="error")


@pytest.mark.parametrize("dims", [(1, 2, 4, 20), ("n", 2, "h", "w")])
def test_where_onnx_infers_other_dims_the_runtime_is_right(monkeypatch, dims):
    monkeypatch.setattr(inference.NodeFacts, "_resized", lambda self, made, *_: made)
    node = helper.make_node("Resize", ["b", "", "s"], ["c"], mode="cubic", antialias=1)
    model = between_products(node, 21, (1, 2, 4, 20), dims, s=np.float32([1, 1, 1, 1.3]))
    model.graph.node.append(helper.make_node("Shape", ["y"], ["sizes"]))
    model.graph.output.append(onnx.ValueInfoProto(name="sizes"))
    loaded = front.load(model)
    for _ in range(2):
        y, sizes = loaded(floats(1, 2, 4, 20))
        np.testing.assert_allclose(
            y, by_onnxruntime(model, floats(1, 2, 4, 20))[0], rtol=1e-4, atol=1e-4
        )
        assert [*sizes] == [*y.shape]
    assert y.shape == (1, 3, 4, 26)
    assert "Resize: onnx infers other dims than it makes" in str(loaded.report())


# -- numbers


@pytest.mark.parametrize("shape", [(1, 4, 4, 4), (2, 5, 6, 4)])
def test_qlinear_conv_with_channels_last(shape):
    draw = np.random.default_rng(3)
    x = draw.integers(0, 255, shape).astype(np.uint8)
    w = draw.integers(-9, 9, (3, 4, *[3] * (len(shape) - 2))).astype(np.int8)
    weights = {
        "xs": np.float32(0.05), "xz": np.uint8(7),
        "w": w, "ws": np.float32([0.01, 0.02, 0.03]), "wz": np.zeros(3, np.int8),
        "ys": np.float32(0.02), "yz": np.uint8(128),
    }  # fmt: skip
    inputs = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    node = helper.make_node("QLinearConv", inputs, ["y"], domain="com.microsoft", channels_last=1)
    model = made([node], {"x": (U8, shape)}, ["y"], weights, 15, com_microsoft=1)
    first = np.moveaxis(x, -1, 1)
    standard = made(
        [helper.make_node("QLinearConv", inputs, ["y"])],
        {"x": (U8, first.shape)},
        ["y"],
        weights,
        15,
    )
    wanted = ReferenceEvaluator(standard).run(None, {"x": first})[0]
    got = front.load(model)(x)
    assert abs(np.moveaxis(got, -1, 1).astype(int) - wanted).max() <= 1
    assert front.load(model, fallback="error")(x).shape == got.shape


@pytest.mark.parametrize("kind", ["Clip", "Relu"])
@pytest.mark.parametrize("low", [-3.0, 0.0])
def test_islands_keep_what_stands_before_a_rounding_of_negative_scale(kind, low):
    inputs = ["d", "low", "high"] if kind == "Clip" else ["d"]
    model = made(
        [
            helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["d"]),
            helper.make_node(kind, inputs, ["c"]),
            helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["y"]),
        ],
        {"x": (U8, [64])},
        ["y"],
        {
            "xs": np.float32(0.1), "xz": np.uint8(100), "ys": np.float32(-0.05),
            "yz": np.uint8(128), "low": np.float32(low), "high": np.float32(2),
        },
    )  # fmt: skip
    x = np.arange(0, 256, 4, np.uint8)
    np.testing.assert_array_equal(
        front.load(model)(x), ReferenceEvaluator(model).run(None, {"x": x})[0]
    )


# -- files


def test_a_negative_dim_of_an_input_is_open():
    model = made([helper.make_node("Relu", ["x"], ["y"])], {"x": (FLOAT, [1, 3])}, ["y"])
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    loaded = check(model, [floats(4, 3)], [floats(2, 3)])
    assert loaded.input_dims == {"x": (None, 3)}
    assert loaded.verify(floats(5, 3))


def classifier():
    model = made(
        [
            helper.make_node("MatMul", ["x", "w"], ["s"]),
            helper.make_node("Softmax", ["s"], ["p"]),
            helper.make_node(
                "ZipMap", ["p"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[5, 7]
            ),
        ],
        {"x": (FLOAT, ["n", 3])},
        ["p"],
        {"w": floats(3, 2)},
        15,
        ai_onnx_ml=1,
    )
    of = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(FLOAT, None))
    model.graph.output.append(helper.make_value_info("z", helper.make_sequence_type_proto(of)))
    return model


def test_a_classifier_gives_maps():
    model = classifier()
    before = model.SerializeToString()
    loaded = front.load(model)
    assert model.SerializeToString() == before
    for n in (4, 1, 4):
        p, maps = loaded(floats(n, 3))
        assert [[*m] for m in maps] == [[5, 7]] * n
        np.testing.assert_array_equal([[*m.values()] for m in maps], p)
    assert loaded.verify(floats(4, 3))
    assert "ZipMap: onnx does not infer its dims" in str(loaded.report())


def test_a_map_as_an_input_is_refused_by_name():
    model = classifier()
    model.graph.input.append(model.graph.output[1])
    with pytest.raises(og.GraphFormatError, match="input 'z' is a map"):
        front.load(model)


def test_hubs_keep_files_as_links_and_stores_as_second_names(tmp_path):
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
    blobs.mkdir()
    snapshot.mkdir()
    model = made(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": (FLOAT, [2, 3])},
        ["y"],
        {"w": floats(3, 200)},
    )
    plain = onnx.ModelProto.FromString(model.SerializeToString())
    onnx.save(
        model,
        snapshot / "m.onnx",
        save_as_external_data=True,
        location="m.onnx_data",
        size_threshold=0,
    )
    for i, name in enumerate(("m.onnx", "m.onnx_data")):
        os.rename(snapshot / name, blobs / str(i))
        os.symlink(f"../blobs/{i}", snapshot / name)
    os.link(blobs / "1", blobs / "2")
    loaded = front.load(snapshot / "m.onnx")
    np.testing.assert_allclose(
        loaded(floats(2, 3)), by_onnxruntime(plain, floats(2, 3))[0], rtol=1e-5, atol=1e-6
    )
    assert loaded.verify(floats(2, 3))


def test_a_pointer_of_git_lfs_is_named(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_text("version https://git-lfs\noid sha256:12\nsize 5\n")
    with pytest.raises(og.GraphFormatError, match=r"m\.onnx: it is a pointer of Git LFS"):
        front.load(path)


FORK = """
import gc, os, sys
import numpy as np, onnx.parser, onednn_graph_py.onnx as front
model = front.load(onnx.parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
    g (float[2, 8] x) => (float[2, 3] v, int64[2, 3] i) <int64[1] k = {3}> {
        a = Relu(x) v, i = TopK(a, k) }'''))
model(np.ones((2, 8), np.float32))
pid = os.fork()
if not pid:
    if sys.argv[1] == "let go":
        del model
        gc.collect()
    sys.exit(0)
print(os.waitpid(pid, 0)[1])
"""


@pytest.mark.parametrize("how", ["let go", "end"])
def test_a_forked_child_ends_though_an_island_ran_before(how):
    done = subprocess.run(
        [sys.executable, "-c", FORK, how], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "0"


# -- names


def test_inputs_and_dims_may_have_the_names_of_options():
    names = ["self", "shapes", "seed", "rtol", "atol", "out"]
    nodes = [helper.make_node("Sum", names, ["y"])]
    dims = ["self", "shapes"]
    model = made(nodes, {n: (FLOAT, dims) for n in names}, ["y"])
    loaded = front.load(model)
    arrays = {n: floats(2, 3) * i for i, n in enumerate(names)}
    wanted = sum(arrays.values())
    np.testing.assert_allclose(loaded(arrays), wanted, rtol=1e-5)
    np.testing.assert_allclose(loaded(**arrays), wanted, rtol=1e-5)
    assert loaded.shapes(self=2, shapes=3)["out"] == (2, 3)
    assert loaded.verify(arrays)
    assert loaded.verify(arrays, rtol=1e-3)


# -- what is said


def test_explain_has_the_models_threads_and_names_its_nodes():
    model = made(
        [helper.make_node("Conv", ["x", "w"], ["a"], name="first"),
         helper.make_node("Relu", ["a"], ["y"], name="second")],
        {"x": (FLOAT, [1, 3, 9, 9])}, ["y"], {"w": floats(2, 3, 3, 3)},
    )  # fmt: skip
    text = str(front.load(model, threads=1).explain(seconds=0.01))
    assert ", 1 thread" in text
    assert "made at   Conv 'first', Relu 'second'" in text


def test_a_stage_behind_an_unknown_op_counts_as_onednns():
    model = made(
        [helper.make_node("Trilu", ["x"], ["a"], domain="com.microsoft"),
         helper.make_node("MatMul", ["a", "w"], ["b"]),
         helper.make_node("Relu", ["b"], ["y"])],
        {"x": (FLOAT, [5, 30])}, ["y"], {"w": floats(30, 40)}, com_microsoft=1,
    )  # fmt: skip
    loaded = check(model, [floats(5, 30)])
    (program,) = loaded.report().programs
    assert program.share > 0.9
    assert [(x.op, x.why) for x in program.left] == [("Trilu", "onnx does not infer its dims")]


def test_where_of_open_dims_says_what_onednn_lacks():
    model = made(
        [helper.make_node("MatMul", ["x", "w"], ["a"]),
         helper.make_node("Where", ["k", "c", "a"], ["b"])],
        {"x": (FLOAT, ["t", 3]), "k": (TensorProto.BOOL, ["t", "u"])}, ["b"],
        {"c": floats(1, 3), "w": floats(3, 3)},
    )  # fmt: skip
    loaded = check(model, *([floats(n, 3), np.arange(n)[:, None] % 2 == 0] for n in (2, 3, 4)))
    assert "its lowering fails" not in str(loaded.report())


def test_inputs_that_disagree_on_a_dim_are_named():
    model = made(
        [helper.make_node("Mul", ["ids", "mask"], ["y"])],
        {"ids": (FLOAT, ["t", 3]), "mask": (FLOAT, ["t", 3])},
        ["y"],
    )
    loaded = front.load(model)
    with pytest.raises(og.OneDNNError, match="t is 3 in ids, 4 in mask"):
        loaded(floats(3, 3), floats(4, 3))


def test_the_command_takes_values_of_inputs(tmp_path, capsys):
    from onednn_graph_py.tools.command_line import main

    path = tmp_path / "m.onnx"
    nodes = [
        helper.make_node("Equal", ["sr", "rate"], ["right"]),
        helper.make_node("If", ["right"], ["y"], then_branch=helper.make_graph(
            [helper.make_node("Relu", ["x"], ["a"])], "then", [], [onnx.ValueInfoProto(name="a")],
        ), else_branch=helper.make_graph(
            [helper.make_node("Reshape", ["x", "none"], ["b"])], "else", [],
            [onnx.ValueInfoProto(name="b")],
        )),
    ]  # fmt: skip
    inputs = {"x": (FLOAT, [2, 3]), "sr": (TensorProto.INT64, [])}
    weights = {"rate": np.int64(16000), "none": np.int64([5])}
    onnx.save(made(nodes, inputs, ["y"], weights), path)
    assert main(["onnx", str(path), "--verify", "--value", "sr=16000"]) == 0
    assert "y: right" in capsys.readouterr().out
    np.save(tmp_path / "sr.npy", np.int64(16000))
    given = f"sr={tmp_path / 'sr.npy'}"
    assert main(["onnx", str(path), "--verify", "--value", given]) == 0
    assert main(["onnx", str(path), "--verify", "--value", "rate=1"]) == 2
    assert "the inputs are x, sr" in capsys.readouterr().err
