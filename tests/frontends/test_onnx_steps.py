"""Host steps between products: each beside onnxruntime without its optimizations."""

import numpy as np
import pytest

import onednn_graph_py as og

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
front = pytest.importorskip("onednn_graph_py.onnx")
parser = pytest.importorskip("onnx.parser")

ROWS, WIDE = 7, 12


def pad(pads, mode="constant", value=""):
    """Pad behind a product, and another product of what is padded."""
    constant = f"c = Constant <value = float {{{value}}}> ()" if value else ""
    return f"""p = Constant <value = int64[4] {{{", ".join(map(str, pads))}}}> () {constant}
        q = Pad <mode = "{mode}"> (h, p{", c" if value else ""})
        t = Transpose <perm = [1, 0]> (q) r = MatMul (t, q) y = Relu (r)"""


BODIES = {
    "constant padding of open dims": pad((0, 3, 0, 1), value="0.25"),
    "constant padding": pad((2, 3, 1, 0)),
    "reflect": pad((1, 3, 2, 5), "reflect"),
    "edge": pad((4, 0, 9, 2), "edge"),
    "a negative step": """b = Constant <value = int64[1] {-2}> ()
        e = Constant <value = int64[1] {-9223372036854775807}> ()
        a = Constant <value = int64[1] {1}> () s = Constant <value = int64[1] {-3}> ()
        q = Slice (h, b, e, a, s) y = Relu (q)""",
    **{
        op: f"q = {op} (h) y = Neg (q)"
        for op in (
            "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Floor",
            "Sign", "Sin", "Sinh", "Tan",
        )
    },
    **{
        op: f"""a = Constant <value = int64[1] {{1}}> () t = ReduceMax <axes = [1]> (h)
            r = Ceil (h) u = Min (t, r) c = {op} (r, u) q = Where (c, h, t) y = Relu (q)"""
        for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
    },
    **{
        op: f"""z = Constant <value = float {{-0.5}}> () a = Greater (h, z) t = Neg (h)
            b = Greater (t, z) c = {op} (a, b) d = Not (c) q = Where (d, h, t) y = Relu (q)"""
        for op in ("And", "Or", "Xor")
    },
    "NaN": "t = Log (h) c = IsNaN (t) q = Where (c, h, t) y = Relu (q)",
    **{
        f"{op} {attributes}": f"""t = Ceil (h) k = {op} <{attributes}> (t)
            f = Cast <to = 1> (k) g = Cast <to = 6> (h) e = Cast <to = 1> (g) s = ReduceSum (e)
            q = Mul (f, s) y = Relu (q)"""
        for op in ("ArgMax", "ArgMin")
        for attributes in (
            "axis = 0, keepdims = 1", "axis = -1, keepdims = 0",
            "axis = 1",
        )
    },
}  # fmt: skip


def model_of(body, rows):
    """The nodes of a body behind a product `h`, of rows or of an open number."""
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[{rows},5] x) => (float y) '
        f"{{h = MatMul (x, w) {body}}}"
    )
    numbers = np.random.default_rng(3).standard_normal((5, WIDE)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(numbers, "w"))
    return model


def beside_onnxruntime(model, counts, **options):
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), plain, providers=["CPUExecutionProvider"]
    )
    loaded = front.load(model, **options)
    for count in counts:
        x = np.random.default_rng(count).standard_normal((count, 5)).astype(np.float32)
        (wanted,) = session.run(None, {"x": x})
        made = loaded(x)
        assert (made.dtype, made.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-5)
    return loaded


@pytest.mark.parametrize("rows", [ROWS, "n"])
@pytest.mark.parametrize("name", BODIES)
def test_it_runs_between_oneDNNs_partitions(name, rows):
    counts = [ROWS] if rows == ROWS else [ROWS, 4 if "reflect" in name else 3, 11]
    loaded = beside_onnxruntime(model_of(BODIES[name], rows), counts, fallback="error")
    (program,) = loaded.report().programs
    assert program.is_general == (rows == "n")
    assert program.partitions


SIZE = """k = Shape (x) o = Constant <value = int64[1] {0}> () n = Gather (k, o)
    a = Constant <value = int64[1] {2}> () d = Div (n, a) u = Constant <value = int64[1] {1}> ()"""
BY_SIZES = {
    "Reshape": """f = Constant <value = int64[1] {4}> () p = Mul (n, f)
        e = Constant <value = int64[1] {3}> () s = Concat <axis = 0> (u, p, e)
        r = Reshape (h, s) q = Softmax (r) z = Constant <value = int64[1] {12}> ()
        t = Concat <axis = 0> (n, z) y = Reshape (q, t)""",
    "Reshape to two dims": """e = Constant <value = int64[1] {3}> ()
        z = Constant <value = int64[1] {4}> () s = Concat <axis = 0> (n, e, z) v = Mul (n, e)
        r = Reshape (h, s) t = Transpose <perm = [0, 2, 1]> (r) j = Concat <axis = 0> (z, v)
        g = Reshape <allowzero = 1> (t, j) y = Relu (g)""",
    "Slice": "q = Slice (h, d, n, o) y = Relu (q)",
    "Slice backwards": """m = Constant <value = int64[1] {-2}> () c = Neg (n) b = Sub (c, u)
        q = Slice (h, d, b, o, m) y = Relu (q)""",
    "Slice of all axes": """z = Constant <value = int64[1] {9}> () b = Concat <axis = 0> (d, u)
        e = Concat <axis = 0> (n, z) q = Slice (h, b, e) y = Relu (q)""",
    "Split": """r = Sub (n, d) s = Concat <axis = 0> (d, r) b, c = Split <axis = -2> (h, s)
        p = Transpose (b) q = MatMul (p, b) e = Transpose (c) g = MatMul (e, c) y = Add (q, g)""",
    "Expand": """p = ReduceMax <axes = [0]> (h) v = Neg (h) s = Concat <axis = 0> (n, u)
        q = Expand (p, s) y = Add (q, v)""",
    "Tile": "s = Concat <axis = 0> (d, u) q = Tile (h, s) y = Relu (q)",
    "Pad": """b = Neg (d) s = Concat <axis = 0> (d, u, b, u) l = Constant <value = float {0.5}> ()
        q = Pad (h, s, l) y = Relu (q)""",
    "Pad of an axis": """l = Constant <value = float {0.5}> () s = Concat <axis = 0> (d, n)
        m = Constant <value = int64[1] {-1}> () q = Pad (h, s, l, m) y = Relu (q)""",
}


@pytest.mark.parametrize("name", BY_SIZES)
def test_numbers_of_sizes_move_elements_in_one_program(name, tmp_path):
    model = model_of(SIZE + BY_SIZES[name], "n")
    model.opset_import[0].version = 18 if "axis" in name else 17
    counts = [5, 11, 8, 4, 9]
    loaded = beside_onnxruntime(model, counts, fallback="error")
    (program,) = loaded.report().programs
    assert len(program.shapes) == len(counts)
    assert program.partitions
    x = np.random.default_rng(9).standard_normal((9, 5)).astype(np.float32)
    loaded.save(tmp_path / "m.og")
    again = og.load(tmp_path / "m.og")
    assert again._ready
    np.testing.assert_array_equal(again(x), loaded(x))


UNFIT = {
    "Reshape": (
        """t = Mul (d, a) z = Constant <value = int64[1] {12}> () s = Concat <axis = 0> (t, z)
        r = Reshape (h, s) y = Relu (r)""",
        r"cannot reshape array of size 60 into shape \(4,12\); .* made at Reshape 'node_\d+'",
    ),
    "Split": (
        "s = Concat <axis = 0> (d, d) b, c = Split <axis = 0> (h, s) y = Add (b, c)",
        r"the sizes \[2, 2\] must add up to 5; .* made at Split 'node_\d+'",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_numbers_of_sizes_that_do_not_fit_are_told_with_the_node(name, tmp_path):
    body, match = UNFIT[name]
    loaded = beside_onnxruntime(model_of(SIZE + body, "n"), [8, 4], fallback="error")
    loaded.compile([(5, 5)]).save(tmp_path / "m.og")
    for model in (loaded, og.load(tmp_path / "m.og")):
        with pytest.raises(og.ExecutionError, match=match):
            model(np.ones((5, 5), np.float32))
        assert np.isfinite(model(np.ones((6, 5), np.float32))).all()


REFUSED = {
    "Pad": """p = Constant <value = int64[4] {0, -2, 0, 1}> ()
        q = Pad <mode = "edge"> (h, p) y = Relu (q)""",
    "ScatterND": """i = Constant <value = int64[1, 2] {2, 7}> ()
        u = Constant <value = float[1] {0.5}> ()
        q = ScatterND <reduction = "add"> (h, i, u) y = Relu (q)""",
    "ArgMax": """k = ArgMax <axis = 0, keepdims = 0, select_last_index = 1> (h)
        f = Cast <to = 1> (k) y = Relu (f)""",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_lowered_is_an_island(name):
    loaded = beside_onnxruntime(model_of(REFUSED[name], ROWS), [ROWS], islands="fewest")
    (program,) = loaded.report().programs
    assert [left.op for left in program.left][:1] == [name]
    assert program.islands


def test_host_steps_are_no_arithmetic_of_oneDNN_and_cause_no_part():
    """Behind an island they run in it, too."""
    body = """i = Constant <value = int64[1, 2] {2, 7}> () u = Constant <value = float[1] {0.5}> ()
        s = ScatterND <reduction = "add"> (h, i, u) q = Sin (s) c = Cos (q) y = Floor (c)"""
    loaded = beside_onnxruntime(model_of(body, ROWS), [ROWS], islands="fewest")
    (program,) = loaded.report().programs
    assert (program.regions, len(program.islands)) == (1, 1)
    model = model_of("q = Sin (h) y = Relu (q)", ROWS)
    loaded = beside_onnxruntime(model, [ROWS], islands="fewest")
    (program,) = loaded.report().programs
    assert not program.islands
    products, others = 2 * ROWS * 5 * WIDE, ROWS * WIDE
    assert program.share == (products + others) / (products + 2 * others)
