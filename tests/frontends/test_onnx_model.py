"""ONNX models: shapes, islands, what follows from dims and from numbers, options, pickling."""

import math
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import leaks
import numpy as np
import pytest
from graphs import in_threads

import onednn_graph_py as og
from onednn_graph_py.machine.cpu import lacks

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
front = pytest.importorskip("onednn_graph_py.onnx")
parser = pytest.importorskip("onnx.parser")
reference = pytest.importorskip("onnx.reference")
CORRECTED = pytest.importorskip("onednn_graph_py.onnx.corrections").CORRECTED

HEAD = '<ir_version: 8, opset_import: ["": 17]>'


def model_of(text, head=HEAD):
    return parser.parse_model(f"{head} {text}")


def floats(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def check(model, *calls, **options):
    """Load a model, and compare each call with onnx's own reference."""
    loaded = front.load(model, **options)
    expected = reference.ReferenceEvaluator(model, new_ops=[*CORRECTED.values()])
    names = [i.name for i in model.graph.input]
    for arrays in calls:
        made = loaded(*arrays)
        made = made if isinstance(made, tuple) else (made,)
        wanted = expected.run(None, dict(zip(names, arrays, strict=True)))
        assert len(made) == len(wanted)
        for got, want in zip(made, wanted, strict=True):
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            if want.dtype.kind == "f":
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(got, want)
    return loaded


def only_program(loaded):
    (program,) = loaded.report().programs
    return program


MATRIX = "float[8,8] w = {" + ", ".join(f"{i % 7 - 3}.5" for i in range(64)) + "}"

PRODUCT = model_of(
    f"g (float[N, 8] x) => (float[N, 8] y) <{MATRIX}> {{ a = MatMul(x, w) y = Relu(a) }}"
)

TOP = model_of(
    f"""g (float[N, 8] x) => (float[N, 3] v, int64[N, 3] i) <{MATRIX}, int64[1] k = {{3}}> {{
        a = MatMul(x, w) b, i = TopK(a, k) v = Relu(b) }}"""
)

FOUND = model_of(
    f"""g (float[N, 8] x) => (float[M, 4] y) <{MATRIX}, int64[1] one = {{1}},
        float[1, 4] row = {{1.0, 2.0, -3.0, 4.0}}> {{
        a = MatMul(x, w) z = Relu(a) n = NonZero(z) t = Transpose(n) g = GatherND(z, t)
        e = Unsqueeze(g, one) m = MatMul(e, row) y = Sigmoid(m) }}"""
)

MASKED = model_of(
    """g (float[N, S, S] x) => (float[N, S, S] y)
        <int64 two = {2}, int64 zero = {0}, int64 one = {1}, float big = {-10000.0},
         float none = {0.0}, int64[1] first = {0}, int64[1] second = {1}> {
        s = Shape(x) n = Gather(s, two) r = Range(zero, n, one)
        c = Unsqueeze(r, first) d = Unsqueeze(r, second) later = Greater(c, d)
        m = Where(later, big, none) a = Add(x, m) y = Softmax <axis = -1> (a) }"""
)


# -- shapes


def test_one_program_runs_all_sizes():
    loaded = check(PRODUCT, *([floats(n, 8)] for n in (1, 2, 3, 20, 7)))
    program = only_program(loaded)
    assert program.is_general
    assert program.share == 1
    assert len(program.shapes) == 5


def test_numbers_that_follow_from_dims_are_computed_for_each_size():
    loaded = check(MASKED, *([floats(n, s, s)] for n, s in ((2, 3), (2, 5), (1, 1), (4, 9))))
    program = only_program(loaded)
    assert program.is_general
    assert program.nodes == 2  # Add and Softmax: all others follow from dims


def test_a_reshape_that_leaves_two_dims_open_is_in_one_program():
    model = model_of(
        """g (float[N, S, 8] x) => (float[N, S, 8] y) <int64[2] flat = {-1, 8}> {
            s = Shape(x) a = Relu(x) b = Reshape(a, flat) c = Sigmoid(b) y = Reshape(c, s) }"""
    )
    calls = [[floats(n, s, 8)] for n, s in ((2, 3), (4, 3), (4, 5), (1, 1))]
    for fallback in ("auto", "error"):
        (program,) = check(model, *calls, fallback=fallback).report().programs
        assert len(program.shapes) == len(calls)
        assert program.partitions
        assert not program.islands


def test_sizes_that_take_another_branch_run_that_branch():
    model = model_of(
        """g (float[N, 8] x) => (float[N, 8] y) <int64 two = {2}, int64 zero = {0}> {
            a = Relu(x) s = Shape(x) n = Gather(s, zero) c = Greater(n, two)
            y = If (c) <then_branch = g1 () => (float[N, 8] t) { t = Sigmoid(a) },
                        else_branch = g2 () => (float[N, 8] e) { e = Neg(a) }> }"""
    )
    loaded = check(model, *([floats(n, 8)] for n in (2, 3, 4, 1, 2)))
    assert all(p.share == 1 for p in loaded.report().programs)


def test_a_size_that_is_compared_with_a_constant_is_not_taken_as_fixed():
    model = model_of(
        """g (float[N, 8] x) => (float[N, 8] y, int64 n) <int64 four = {4}, int64 zero = {0}> {
            s = Shape(x) d = Gather(s, zero) n = Min(d, four)
            f = Cast <to = 1> (n) y = Mul(x, f) }"""
    )
    check(model, *([floats(n, 8)] for n in (8, 16, 3, 2, 5)))


def test_sizes_up_to_the_largest_that_a_table_has_share_a_program():
    table = ", ".join(str(i % 5) for i in range(20))
    model = model_of(
        f"""g (float[N] x) => (float[N] y) <float[20] w = {{{table}}}, int64[1] none = {{0}}> {{
            s = Shape(x) e = Slice(w, none, s) y = Mul(e, x) }}"""
    )
    program = only_program(check(model, *([floats(n)] for n in (20, 15, 1, 2))))
    assert program.is_general


def test_keys_of_attention_as_torch_writes_them_are_transposed_for_all_sizes():
    model = model_of(
        """g (float[B, 2, S, 8] q, float[B, 2, S, 8] k) => (float[B, 2, S, S] y)
            <int64[1] all = {-1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] four = {4},
             int64[1] none = {0}> {
            s = Shape(k) n = Slice(s, two, three) e = Slice(s, three, four)
            lead = Slice(s, none, two)
            flat = Concat <axis = 0> (all, n, e) a = Reshape(k, flat)
            b = Transpose <perm = [0, 2, 1]> (a) back = Concat <axis = 0> (lead, e, n)
            c = Reshape(b, back) y = MatMul(q, c) }"""
    )
    sizes = ((2, 3), (1, 7), (4, 2), (1, 1))
    loaded = check(model, *([floats(b, 2, s, 8), floats(b, 2, s, 8)] for b, s in sizes))
    program = only_program(loaded)
    assert program.is_general
    assert program.nodes == 2


def test_empty_inputs_give_empty_outputs():
    check(PRODUCT, [floats(2, 8)], [floats(0, 8)], [floats(3, 8)])


def test_inputs_outputs_and_constants_may_be_outputs():
    model = model_of(
        """g (float[N, 8] x)
            => (float[N, 8] y, float[N, 8] z, float[8, N] t, int64[2] s, float[2] c)
            <float[2] w = {-1, 2}> {
            y = Identity(x) a = Relu(x) z = Identity(a) t = Transpose(x)
            s = Shape(x) c = Relu(w) }"""
    )
    loaded = check(model, [floats(2, 8)], [floats(3, 8)])
    x = floats(2, 8)
    y, *_ = loaded(x)
    y[...] = 0
    assert x.any()


def test_a_model_without_inputs_runs():
    check(model_of("g () => (float[2] y) <float[2] w = {-1, 2}> { y = Relu(w) }"), [])


# -- islands


def test_options_may_be_integers_of_numpy(tmp_path):
    loaded = front.load(TOP, threads=np.int64(1), max_shapes=np.uint8(3))
    assert type(loaded.options.threads) is type(loaded.options.max_shapes) is int
    x = floats(2, 8)
    wanted = loaded(x)
    loaded.save(tmp_path / "m.og")
    for made, right in zip(og.load(tmp_path / "m.og")(x), wanted, strict=True):
        np.testing.assert_array_equal(made, right)


@pytest.mark.parametrize("fallback", ["auto", "reference"])
def test_nodes_that_onednn_lacks_run_as_host_steps_of_one_model(fallback):
    program = only_program(check(TOP, [floats(2, 8)], [floats(5, 8)], fallback=fallback))
    assert program.is_general
    assert [left.op for left in program.left if "no op" in left.why] == ["TopK"]
    assert sum(s.implementation == "host" for s in program.steps) == 1


def gelu_of_opset_11(dtype):
    to = {"double": 11, "float16": 10}[dtype]
    return model_of(
        f"""g ({dtype}[2,3,4] x) => ({dtype}[2,3] y)
        <double a = {{0.5}}, double b = {{1.0}}, double c = {{1.4142135623730951}}> {{
        half = Cast <to = {to}> (a) one = Cast <to = {to}> (b) root = Cast <to = {to}> (c)
        s = Softmax <axis = 1> (x) d = Div(s, root) e = Erf(d) p = Add(e, one) m = Mul(s, p)
        n = Mul(m, half) y = ReduceSum <axes = [2], keepdims = 0> (n) }}""",
        '<ir_version: 10, opset_import: ["": 11]>',
    )


def gelu_of_probabilities(x):
    s = np.exp(x) / np.exp(x).sum((1, 2), keepdims=True)
    return (s * (1 + np.vectorize(math.erf)(s / math.sqrt(2))) / 2).sum(2)


@pytest.mark.parametrize("dims", [(), (1,), (1, 1, 1)], ids=len)
@pytest.mark.parametrize("shape", [(), (1,), (2, 3)], ids=len)
def test_the_numbers_of_gelu_may_have_more_dims_than_what_it_reads(shape, dims):
    given = model_of(
        f"""g (float{[*shape, 4]} x) => (float y) {{ r = ReduceSum <keepdims = 0> (x, last)
        d = Div (r, root) e = Erf (d) p = Add (e, one) m = Mul (r, p) y = Mul (m, half) }}"""
    )
    given.graph.output[0].type.tensor_type.ClearField("shape")
    numbers = {"root": 2**0.5, "one": 1, "half": 0.5}
    weights = {n: np.full(dims, number, np.float32) for n, number in numbers.items()}
    for name, array in {**weights, "last": np.array([-1])}.items():
        given.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    loaded = check(given, [floats(*shape, 4)], islands="fewest")
    assert "Erf" not in {n.op_type for n in loaded._required.section.nodes}


KERAS = [  # axes of the Squeeze, the bias, whether it is one of channels
    ([2], (6, 1), True),
    ([2], (1, 6, 1), True),
    ([0, 2], (6, 1), True),
    ([-2, -1], (6,), True),
    ([-2, -1], (6, 1), False),
    ([0, 2], (6, 5), False),
    ([2], (5,), False),
]


@pytest.mark.parametrize(("axes", "bias", "fused"), KERAS)
@pytest.mark.parametrize("after", ["Relu", "LeakyRelu <alpha = 0.3>", "Neg"])
def test_the_bias_behind_a_squeeze_fuses_with_the_convolution(axes, bias, fused, after):
    """Keras' one-dimensional convolutions are so."""
    x, w, b = floats(1, 3, 1, 1 if -1 in axes else 5), floats(6, 3, 1, 1), floats(*bias)
    given = model_of(
        f"""g (float[1,3,1,{x.shape[3]}] x) => (float y) {{
        c = Conv (x, w) s = Squeeze (c, axes) a = Add (b, s) y = {after} (a) }}"""
    )
    for name, array in (("w", w), ("b", b), ("axes", np.array(axes))):
        given.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    del given.graph.output[0].type.tensor_type.shape.dim[:]
    given.graph.output[0].type.tensor_type.ClearField("shape")
    added = b + np.einsum("oc,nchw->nohw", w[:, :, 0, 0], x).squeeze(tuple(axes))
    factor = {"Relu": 0, "Neg": None}.get(after, np.float32(0.3))
    wanted = -added if factor is None else np.where(added < 0, factor * added, added)
    loaded = front.load(given, fallback="error")
    np.testing.assert_allclose(loaded(x), wanted, rtol=1e-5, atol=1e-5)
    kinds = [s.ops for s in only_program(loaded).steps]
    if factor is not None and fused:
        assert kinds[0] == ("Convolution", "ReLU" if factor == 0 else "LeakyReLU")


@pytest.mark.parametrize("axis", ["", "<axis = 0>", "<axis = 2>", "<axis = -2>"])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_old_softmax_takes_all_dims_from_its_axis_on(op, axis):
    first = {"": 1, "<axis = 0>": 0, "<axis = 2>": 2, "<axis = -2>": 1}[axis]
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    rows = x.reshape(int(np.prod(x.shape[:first])), -1)
    soft = np.exp(rows) / np.exp(rows).sum(1, keepdims=True)
    hard = (rows == rows.max(1, keepdims=True)).astype(rows.dtype)
    wanted = {"Softmax": soft, "LogSoftmax": np.log(soft), "Hardmax": hard}[op].reshape(x.shape)
    for dtype, kind in (("double", np.float64), ("float", np.float32)):
        rtol = 64 * np.finfo(kind).eps  # polynomials for exp and log, and sums of 24 elements
        made = model_of(
            f"g ({dtype}[N,3,4] x) => ({dtype}[N,3,4] y) {{ y = {op} {axis} (x) }}",
            '<ir_version: 8, opset_import: ["": 11]>',
        )
        for fallback in ("auto", "reference"):
            got = front.load(made, fallback=fallback)(x.astype(kind))
            np.testing.assert_allclose(got, wanted, rtol=rtol, atol=rtol)


def test_f64_is_computed_in_f64():
    x = np.random.default_rng(0).random((2, 3, 4))
    loaded = front.load(gelu_of_opset_11("double"))
    # Erf of onnx's reference is right to 1e-7; its Gelu has constants of f32.
    np.testing.assert_allclose(loaded(x), gelu_of_probabilities(x), rtol=1e-7)
    assert "Gelu" not in {left.op for left in only_program(loaded).left}


def test_an_island_of_nodes_of_several_opsets_is_converted_to_one():
    # Softmax of opset 11 takes all dims from its axis on; a rewrite makes Gelu, of opset 20.
    # f16 makes an island of them on CPUs without it.
    x = np.random.default_rng(0).random((2, 3, 4)).astype(np.float16)
    made = front.load(gelu_of_opset_11("float16"))(x)
    wanted = gelu_of_probabilities(x.astype(np.float64))
    np.testing.assert_allclose(made, wanted, rtol=20 * np.finfo(np.float16).eps)


@pytest.mark.parametrize("fallback", ["auto", "reference"])
def test_ops_that_the_opset_of_a_file_lacks_stay_as_they_are(fallback):
    # An optimizer wrote LayerNormalization, of opset 17; a rewrite makes Gelu, of opset 20, and
    # ReduceMean has to be converted from 15 to that. Each by itself is too small for oneDNN.
    given = model_of(
        """g (float[8,8] x) => (float[8,1] y) <float root = {1.4142135}, float b = {1.0},
        float half = {0.5}, float[8] ones = {1, 1, 1, 1, 1, 1, 1, 1}> {
        t = Trilu (x) d = Div (t, root) e = Erf (d) p = Add (e, b) m = Mul (t, p)
        n = Mul (m, half) u = Trilu (n) l = LayerNormalization <axis = -1> (u, ones, ones)
        v = Trilu (l) r = ReduceMean <axes = [1]> (v) y = Trilu (r) }""",
        '<ir_version: 8, opset_import: ["": 15]>',
    )
    x = floats(8, 8)
    upper = np.triu(x.astype(np.float64))
    upper = np.triu(upper * (1 + np.vectorize(math.erf)(upper / math.sqrt(2))) / 2)
    normal = (upper - upper.mean(1, keepdims=True)) / np.sqrt(upper.var(1, keepdims=True) + 1e-5)
    wanted = np.triu(np.triu(normal + 1).mean(1, keepdims=True))
    loaded = front.load(given, islands="fewest", fallback=fallback)
    np.testing.assert_allclose(loaded(x), wanted, rtol=1e-5, atol=1e-6)
    assert {"Gelu", "LayerNormalization"} <= {left.op for left in only_program(loaded).left}


def test_islands_have_the_threads_of_the_model():
    pytest.importorskip("onnxruntime")
    loaded = og.onnx.load(TOP, threads=1, fallback="onnxruntime")
    before = set(os.listdir("/proc/self/task"))
    loaded(floats(2, 8))
    assert set(os.listdir("/proc/self/task")) <= before  # those of earlier models may end


@pytest.mark.parametrize(
    "text",
    [
        "g (double[n] x) => (double[n] y) { y = Sub (x, x) }",
        """g (float[n] x) => (float[k] y) <float[1] w = {1e38}>
        { k = Mul (w, w) l = Sub (k, k) y = Mul (x, l) }""",
    ],
    ids=["in an island", "of weights"],
)
def test_infinity_less_infinity_is_told_to_nobody(text):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        loaded = front.load(model_of(text), fallback="reference")
        x = np.full(3, np.inf, np.float64 if "double" in text else np.float32)
        assert np.isnan(loaded(x)).all()
    assert not told


@pytest.mark.parametrize("fallback", ["auto", "reference"])
def test_dims_that_follow_from_numbers_cut_the_model(fallback):
    loaded = check(FOUND, *([floats(n, 8)] for n in (2, 3, 3, 1)), fallback=fallback)
    program = loaded.report().programs[0]
    assert program.rest is not None
    (rest,) = program.rest.programs
    assert rest.is_general
    assert rest.partitions >= 1
    assert "NonZero: its dims depend on numbers" in str(loaded.report())


@pytest.mark.parametrize(
    ("nodes", "shared"),
    [
        ("y = NonZero (x)", True),
        ("i = NonZero (x) k = Shape (x) n = Gather (k, o) y = Add (i, n)", False),
    ],
)
def test_sizes_share_an_island_whose_numbers_do_not_follow_from_them(nodes, shared):
    model = model_of(f"g (float[n,8] x) => (int64[2,k] y) <int64[1] o = {{0}}> {{ {nodes} }}")
    loaded = check(model, *([np.maximum(floats(n, 8), 0)] for n in (2, 5, 3, 5)), islands="fewest")
    entries = loaded._required.entries.values()
    assert len({id(e.tail.island) for e in entries}) == (1 if shared else len(entries))


def test_nothing_found_is_an_empty_result():
    check(FOUND, [np.zeros((2, 8), np.float32)], [floats(2, 8)])


def test_functions_and_subgraphs_run():
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17, "own": 1]>
        g (float[N, 8] x, bool c) => (float[N, 8] y) {
            a = own.twice(x) b = own.twice(a)
            y = If (c) <then_branch = g1 () => (float[N, 8] t) { t = Sigmoid(b) },
                        else_branch = g2 () => (float[N, 8] e) { e = Neg(a) }> }
        <opset_import: ["": 17], domain: "own"> twice (x) => (y) {
            two = Constant <value = float {2.0}> () a = Mul(x, two) y = Relu(a) }"""
    )
    check(model, [floats(2, 8), np.array(True)], [floats(3, 8), np.array(False)])


def test_text_and_sequences_pass_through_islands():
    model = model_of(
        """g (string[N] t, float[N, 8] x) => (string[N] u, float[N, 8] y) {
            u = Identity(t) s = SplitToSequence <axis = 0> (x)
            c = ConcatFromSequence <axis = 0> (s) y = Relu(c) }"""
    )
    loaded = front.load(model)
    x = floats(2, 8)
    u, y = loaded(np.array(["a", "b"], object), x)
    assert list(u) == ["a", "b"]
    np.testing.assert_array_equal(y, np.maximum(x, 0))


def test_lookups_by_numbers_of_a_call():
    model = model_of(
        """g (int64[N, S] ids) => (float[N, S, 8] y, float[8, N, S] z) <"""
        + MATRIX
        + """> { a = Gather(w, ids) y = Relu(a) z = Gather <axis = 1> (w, ids) }"""
    )
    ids = np.array([[0, 7, -1]])
    loaded = check(model, [ids], [ids.repeat(3, 0)])
    assert only_program(loaded).is_general
    with pytest.raises(og.OneDNNError, match="8"):
        loaded(ids + 8)


def test_lookups_by_views_of_indices():
    model = model_of(
        """g (int64[N, S] ids) => (float[N, 8] y, float[S, N, 8] z) <"""
        + MATRIX
        + """, int64 last = {-1}> { c = Gather <axis = 1> (ids, last) y = Gather(w, c)
            t = Transpose <perm = [1, 0]> (ids) z = Gather(w, t) }"""
    )
    check(model, [np.array([[0, 7, -1], [3, 2, 5]])], [np.array([[4]])])


@pytest.mark.parametrize("power", [1, 2])
def test_norms_of_negative_elements_in_the_reference(power):
    model = model_of(
        f"g (float[N, 7] x) => (float[N, 7] y) {{ y = LpNormalization <axis=1, p={power}> (x) }}"
    )
    x = floats(3, 7)
    x[1] = 0
    norm = np.linalg.norm(x, power, 1, keepdims=True)
    wanted = x / np.where(norm == 0, 1, norm)
    made = front.load(model, fallback="reference", islands="fewest")(x)
    np.testing.assert_allclose(made, wanted, rtol=1e-6)


def test_elements_by_numbers_of_a_call():
    model = model_of(
        """g (float[N, 8] x, int64[M, S] i) => (float[M, S] y) {
            a = Relu(x) b = GatherElements <axis = 1> (a, i) y = Sigmoid(b) }"""
    )
    loaded = front.load(model)
    for n, m, s in ((2, 2, 8), (3, 2, 5), (4, 1, 100)):
        x, i = floats(n, 8), np.arange(m * s).reshape(m, s) % 16 - 8
        wanted = np.take_along_axis(np.maximum(x[:m], 0), i % 8, 1)
        np.testing.assert_allclose(loaded(x, i), 1 / (1 + np.exp(-wanted)), rtol=1e-5)
    assert not loaded.report().programs[-1].left
    with pytest.raises(og.OneDNNError, match="from -8 to 7"):
        loaded(x, i + 100)


def test_elements_at_places_that_follow_from_dims_are_known():
    table = ", ".join(str(i % 5) for i in range(200))
    model = model_of(
        f"""g (float[N] x) => (float[1, N] y) <float[1, 200] w = {{{table}}}, int64 zero = {{0}},
            int64 one = {{1}}, int64[1] first = {{0}}> {{
            s = Shape(x) n = Squeeze(s) r = Range(zero, n, one) i = Unsqueeze(r, first)
            e = GatherElements <axis = 1> (w, i) y = Mul(e, x) }}"""
    )
    program = only_program(check(model, [floats(70)], [floats(1)], [floats(100)]))
    assert program.nodes == 1


def test_fallback_error_lists_the_nodes():
    loaded = front.load(TOP, fallback="error")
    with pytest.raises(og.UnimplementedError, match=r"TopK .*: oneDNN has no op for it"):
        loaded(floats(2, 8))
    check(PRODUCT, [floats(2, 8)], fallback="error")


def test_a_node_that_fails_in_an_island_is_named():
    model = model_of(
        """g (float[N, 8] x, int64[1] k) => (float[N, M] y) { v, i = TopK(x, k) y = Relu(v) }"""
    )
    with pytest.raises(og.ExecutionError, match="island of TopK"):
        front.load(model)(floats(2, 8), np.array([99]))


# -- calls


def test_inputs_are_given_by_position_or_by_name():
    model = model_of("g (float[2] a, float[2] b) => (float[2] y) { y = Sub(a, b) }")
    loaded = front.load(model)
    a, b = floats(2), floats(2) * 3
    for made in (loaded(a, b), loaded(b=b, a=a), loaded(a, b=b)):
        np.testing.assert_allclose(made, a - b)


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((), {}, "missing inputs: x"),
        ((1, 2), {}, "expected 1 inputs"),
        ((), {"X": 1}, "there is no input 'X'; there are: x"),
        ((np.zeros((2, 8), np.float32),), {"x": 1}, "given twice"),
        ((np.zeros((2, 9), np.float32),), {}, "must have the shape N x 8, got 2x9"),
        ((np.zeros((2, 8)),), {}, "must have the type float32"),
    ],
)
def test_wrong_inputs_are_refused(arguments, named, message):
    with pytest.raises(og.OneDNNError, match=message):
        front.load(PRODUCT)(*arguments, **named)


def test_weights_that_are_inputs_can_be_given():
    model = model_of(
        """g (float[N, 2] x, float[2] w) => (float[N, 2] y)
            <float[2] w = {1, 2}> { y = Mul(x, w) }"""
    )
    loaded = front.load(model)
    x = floats(3, 2)
    assert loaded.input_names == ("x",)
    np.testing.assert_allclose(loaded(x), x * np.float32([1, 2]))
    np.testing.assert_allclose(loaded(x, w=np.float32([5, 6])), x * np.float32([5, 6]))
    np.testing.assert_allclose(loaded(x), x * np.float32([1, 2]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"falback": "error"}, "did you mean 'fallback'"),
        ({"fallback": "onnxruntim"}, "did you mean 'onnxruntime'"),
        ({"requantize": None}, "requantize must be one of"),
        ({"max_shapes": 0}, "at least 1"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(og.InvalidArgumentsError, match=message):
        front.load(PRODUCT, **options)


def test_max_shapes_bounds_what_is_kept():
    loaded = front.load(PRODUCT, max_shapes=2)
    for n in range(1, 6):
        loaded(floats(n, 8))
    assert sum(len(p.shapes) for p in loaded.report().programs) == 2


def test_the_share_counts_recurrent_products():
    random = np.random.default_rng(0)
    weights = {"a": (8, 8), "w": (1, 16, 8), "r": (1, 16, 4)}
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("MatMul", ["x", "a"], ["y"]),
            onnx.helper.make_node("LSTM", ["y", "w", "r"], ["z"], hidden_size=4),
        ],
        "recurrent",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [5, 2, 8])],
        [onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None)],
        [
            onnx.numpy_helper.from_array(random.standard_normal(s).astype(np.float32), n)
            for n, s in weights.items()
        ],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    loaded = og.onnx.load(model)
    loaded.compile()
    (program,) = loaded.report().programs
    product, recurrent = 2 * 5 * 2 * 8 * 8, 2 * 5 * 2 * (16 * 8 + 16 * 4)
    assert program.share == product / (product + recurrent)


def test_threads_share_programs():
    loaded = front.load(TOP)

    def work(seed):
        for n in range(1, 6):
            x = floats(n + seed % 3, 8)
            wanted = reference.ReferenceEvaluator(TOP).run(None, {"x": x})
            np.testing.assert_allclose(loaded(x)[0], wanted[0], rtol=1e-5)

    in_threads(4, work)
    assert only_program(loaded).is_general


def test_a_forked_child_gets_the_same_results_or_an_error():
    program = """
import os, signal, sys, warnings
import numpy as np
import onednn_graph_py as og
import onednn_graph_py.onnx
loaded = onednn_graph_py.onnx.load(sys.stdin.buffer.read())
x = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
wanted = loaded(x)
child = os.fork()
if child == 0:
    signal.alarm(120)  # ends the child if it hangs
    warnings.simplefilter("ignore")  # that it has one thread
    try:
        os._exit(0 if np.allclose(loaded(x), wanted, atol=1e-5) and loaded(x[:2]).size else 3)
    except og.ExecutionError as error:  # SYCL does not survive
        fits = "does not survive a fork" in str(error) and og.version()["cpu_runtime"] == "SYCL"
        os._exit(0 if fits else 4)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=FOUND.SerializeToString(),
        check=False,
        timeout=120,
    )
    assert done.returncode == 0


LEAKS = """
import onnx.parser
import numpy as np
import onednn_graph_py as og
import onednn_graph_py.onnx
text = '<ir_version: 8, opset_import: ["": 17]> g (float[N, 8] x) => (float[N, 8] y) {{ {nodes} }}'
model = onnx.parser.parse_model(text).SerializeToString()
og.set_compiled_partition_cache_capacity(4), og.set_primitive_cache_capacity(4)
xs = [np.ones((n, 8), np.float32) for n in (1, 2, 3)]

def run():
    loaded = onednn_graph_py.onnx.load(model, max_shapes=2)
    for x in xs:
        loaded(x)
    try:
        loaded(xs[0][:, :3])
    except og.OneDNNError:
        og.clear_caches()
    else:
        raise AssertionError("it did not fail")
"""


@pytest.mark.parametrize(
    "nodes", ["a = Relu(x) y = Abs(a)", "c = Constant <value_int = 1> () y = CumSum(x, c)"]
)
@pytest.mark.skipif(leaks.missing() is not None, reason=str(leaks.missing()))
def test_models_leave_nothing_behind(nodes):
    assert leaks.grown_by(LEAKS.format(nodes=nodes), run=(4, 8)) == []


def test_outputs_do_not_share_memory():
    model = model_of(
        "g (float[N, 8] x) => (float[N, 8] y, float[N, 8] z) { y = Relu(x) z = Relu(x) }"
    )
    y, z = front.load(model)(floats(2, 8))
    y[...] = 7
    assert (z != 7).all()


# -- what a model says of itself


def test_compile_prepares_sizes():
    loaded = front.load(PRODUCT)
    assert loaded.compile([{"x": (2, 8)}, loaded.shapes(N=3)]) is loaded
    assert loaded.compile({"x": (4, 8)}).compile([(5, 8)]) is loaded
    assert len(only_program(loaded).shapes) == 4
    with pytest.raises(og.InvalidArgumentsError, match="unknown dims"):
        loaded.compile()
    with pytest.raises(og.InvalidArgumentsError, match="needs a size for 'N'"):
        loaded.shapes()
    with pytest.raises(og.InvalidArgumentsError, match="there is no dim 'M'; there are: N"):
        loaded.shapes(N=3, M=4)
    fixed = front.load(model_of("g (float[2] x) => (float[2] y) { y = Relu(x) }"))
    with pytest.raises(og.InvalidArgumentsError, match=r"there is no dim 'M'; there are: none$"):
        fixed.shapes(M=4)
    for bad in (-1, "3", 1.5):
        with pytest.raises(og.InvalidArgumentsError, match="dim N must be a whole number"):
            loaded.shapes(N=bad)


def test_a_builder_can_be_saved_and_explained():
    loaded = front.load(PRODUCT)
    b = loaded.builder({"x": (2, 8)})
    assert {n.kind for n in b.nodes} == {"MatMul", "ReLU"}
    assert '"MatMul"' in b.to_json()
    assert loaded.explain({"x": (2, 8)}, seconds=0, what_if=False).steps
    island = front.load(model_of("g (float[2] x) => (int64[1, 2] y) { y = NonZero(x) }"))
    with pytest.raises(og.UnimplementedError, match="takes no part"):
        island.builder()


def test_verify_finds_what_is_wrong():
    loaded = front.load(TOP)
    found = loaded.verify(shapes={"x": (2, 8)})
    assert found
    assert [o.name for o in found.outputs] == ["v", "i"]
    assert "right" in str(found)
    assert not loaded.verify(shapes={"x": (2, 8)}, rtol=-1, atol=0)


@pytest.mark.parametrize("protocol", [4, 5])
def test_a_model_pickles(protocol):
    loaded = front.load(TOP)
    buffers = []
    extra = {"buffer_callback": buffers.append} if protocol == 5 else {}
    data = pickle.dumps(loaded, protocol, **extra)
    restored = pickle.loads(data, buffers=buffers)
    x = floats(3, 8)
    for got, want in zip(restored(x), loaded(x), strict=True):
        np.testing.assert_array_equal(got, want)
    assert restored.input_names == loaded.input_names
    if protocol == 5:
        assert any(b.raw().nbytes == 256 for b in buffers)


@pytest.mark.parametrize("kind", ["path", "bytes", "proto", "ir"])
def test_models_come_as_paths_bytes_and_objects(kind, tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(PRODUCT, path)
    ir = pytest.importorskip("onnx_ir")
    given = {
        "path": path,
        "bytes": path.read_bytes(),
        "proto": PRODUCT,
        "ir": ir.from_proto(PRODUCT),
    }[kind]
    x = floats(2, 8)
    np.testing.assert_allclose(front.load(given)(x), front.load(PRODUCT)(x))
    if kind == "ir":
        assert len(given.graph) == 2  # it stays as it is


def test_external_data_is_mapped(tmp_path):
    model = onnx.ModelProto.FromString(TOP.SerializeToString())
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    loaded = front.load(path)
    x = floats(2, 8)
    for got, want in zip(loaded(x), front.load(TOP)(x), strict=True):
        np.testing.assert_array_equal(got, want)
    restored = pickle.loads(pickle.dumps(loaded))
    np.testing.assert_array_equal(restored(x)[0], loaded(x)[0])
    assert loaded.verify(x)


def test_importing_the_package_imports_no_onnx():
    program = (
        "import sys, onednn_graph_py\n"
        "print([m for m in ('onnx', 'onnx_ir', 'onnxruntime') if m in sys.modules])"
    )
    made = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert made.stdout.strip() == "[]"


# -- what calls and the first load cost


CLIPPED = model_of(
    "g (float[n,6] x, float low, float high) => (float[n,6] y, float[n,6] z, float[n,6] v)"
    "{ y = Clip(x, low, high) z = Clip(x, low) v = Clip(x, , high) }"
)


@pytest.mark.parametrize(("low", "high"), [(-0.5, 0.75), (0.25, -0.25), (-9.0, 9.0)])
def test_clip_takes_limits_that_calls_compute(low, high):
    calls = [
        (floats(n, 6), np.array(low, np.float32), np.array(high, np.float32)) for n in (4, 1, 7)
    ]
    loaded = check(CLIPPED, *calls, fallback="error")
    assert not only_program(loaded).islands


def test_a_known_set_of_shapes_goes_to_the_model_at_once(monkeypatch):
    loaded = front.load(
        model_of("g (float[n,8] x, float[n,8] z) => (float[n,8] y) { t = Add(x, z) y = Relu(t) }")
    )
    x, z = floats(3, 8), floats(8, 3).T.copy()
    expected = loaded(x, z)
    with monkeypatch.context() as patched:
        patched.setattr(loaded._inputs, "arrays", lambda *_: pytest.fail("was asked again"))
        np.testing.assert_array_equal(loaded(x, z), expected)
        np.testing.assert_array_equal(loaded(x=x, z=z), expected)
    np.testing.assert_array_equal(loaded(z=z, x=x), expected)
    np.testing.assert_array_equal(loaded({"z": z, "x": x}), expected)
    with pytest.raises(og.InvalidDataTypeError, match="input 'x' must have the type float32"):
        loaded(x.astype(np.float64), z)
    with pytest.raises(og.InvalidArgumentsError, match="missing inputs: z"):
        loaded(x)
    with pytest.raises(og.OneDNNError, match="n is 3 in x, 2 in z"):
        loaded(x, z[:2])
    np.testing.assert_array_equal(loaded(x[:1], z[:1]), expected[:1])


def test_an_island_alone_is_called_at_once_and_says_what_it_fails_at(monkeypatch):
    loaded = front.load(
        model_of("g (float[k,5] x, int64[2,1] at) => (float[2,5] y) { y = GatherND(x, at) }")
    )
    x, at = floats(4, 5), np.array([[3], [1]])
    np.testing.assert_array_equal(loaded(x, at), x[at[:, 0]])
    with monkeypatch.context() as patched:
        patched.setattr(loaded._inputs, "arrays", lambda *_: pytest.fail("was asked again"))
        np.testing.assert_array_equal(loaded(x, at[::-1].copy()), x[at[::-1, 0]])
    with pytest.raises(og.ExecutionError, match="island of GatherND fails in"):
        loaded(x, np.array([[3], [4]]))


def test_a_small_model_imports_no_reference_evaluator(tmp_path):
    path = tmp_path / "small.onnx"
    onnx.save(
        model_of(
            f"g (float[n,8] x) => (float[n,8] y) <{MATRIX}> {{ t = MatMul(x, w) y = Relu(t) }}"
        ),
        path,
    )
    code = (
        "import sys, numpy as np, onednn_graph_py.onnx as front; "
        f"front.load({str(path)!r}, islands='fewest')(np.ones((2, 8), np.float32)); "
        "print(*(m for m in sys.modules if m in ('onnx.reference', 'onnxscript', 'onnxruntime', "
        "'onednn_graph_py.tools.explaining')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_benchmark_of_calls_runs():
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    script = Path(__file__).parents[2] / "benchmarks" / "calls.py"
    command = [sys.executable, script, "--calls", "5", "--rounds", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "an island: CumSum" in done.stdout


def test_results_between_nodes_are_computed_by_name():
    model = model_of(
        f"""g (float[n,8] x) => (float[n,4] y) <{MATRIX}, float[1,4] row = {{1, 2, -3, 4}}> {{
            h = MatMul(x, w) k = Sin(h) e = ReduceSum <keepdims = 1> (k) y = Mul(e, row) }}"""
    )
    nameless = onnx.ModelProto.FromString(model.SerializeToString())
    for i, node in enumerate(model.graph.node):
        node.name = f"node{i}"
    loaded = front.load(model)
    for rows in (3, 7):
        x = floats(rows, 8)
        h = x @ onnx.numpy_helper.to_array(model.graph.initializer[0])
        sine, total, product = loaded.run(x, outputs=["node1:0", "e", "h"])
        np.testing.assert_allclose(product, h, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(sine, np.sin(h), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(total, np.sin(h).sum().reshape(1, 1), rtol=1e-4, atol=1e-4)
        (alone,) = front.load(nameless).run({"x": x}, outputs=["y"])
        np.testing.assert_allclose(alone, loaded(x), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(front.load(nameless).run(x, outputs="y"), [alone])
    for number in range(9):
        loaded.run(x, outputs=["y"] * (number + 1))
    assert len(loaded._between) == 8
    with pytest.raises(og.InvalidArgumentsError, match="node9:0"):
        loaded.run(x, outputs=["node9:0"])


V = np.float32([(i * 5 % 13 - 6) / 8 for i in range(64)]).reshape(8, 8)
W = np.float16([(i * 7 % 11 - 5) / 16 for i in range(32)]).reshape(8, 4)
HALF = f"""g (float16[n,8] x, float16[n,8] z) => (float16[n,4] y, float16[n,8] i, bool c) <
    float[8,8] v = {{{", ".join(map(str, V.flat))}}},
    float16[8,4] w = {{{", ".join(map(str, W.view(np.uint16).flat))}}}> {{
    h = Cast <to = 10> (v) s = Add (x, z) t = MatMul (s, h)
    l = Constant <value = float16 {{{np.float16(0.5).view(np.uint16)}}}> () c = Cast <to = 9> (l)
    u = If (c) <then_branch = a () => (float16[n,8] p) {{ p = Mul (t, l) }},
                else_branch = b () => (float16[n,8] q) {{ q = Neg (t) }}>
    m = Relu (u) y = MatMul (m, w) i = Identity (x) }}"""


def test_a_cast_to_f16_and_back_rounds():
    """Files imitate f16 so; where the CPU lacks it, what computes in f16 computes in f32."""
    model = model_of(
        "g (float[n,4] x) => (float[n,4] y) { a = Cast <to = 10> (x) y = Cast <to = 1> (a) }"
    )
    x = np.float32([[1e6, 1.0001, -3e-8, 7]])
    with np.errstate(over="ignore"):
        rounded = x.astype(np.float16).astype(np.float32)
    np.testing.assert_array_equal(front.load(model, islands="fewest")(x), rounded)


def test_a_sequence_of_f16_stays_one():
    helper = onnx.helper
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT16, [1, 4])
    s = helper.make_tensor_sequence_value_info("s", onnx.TensorProto.FLOAT16, None)
    graph = helper.make_graph(
        [helper.make_node("SequenceConstruct", ["x", "x"], ["s"])], "g", [x], [s]
    )
    opsets = [helper.make_opsetid("", 18)]
    model = front.load(helper.make_model(graph, opset_imports=opsets, ir_version=9))
    array = np.float16([[1, 2, 70, -3]])
    np.testing.assert_array_equal(model(array), [array, array])


@pytest.mark.parametrize("rows", [3, 7])
def test_f16_files_run_in_oneDNN(rows):
    """In f32 where the CPU has no f16: then each result is rounded once."""
    loaded = front.load(model_of(HALF), fallback="error")
    x, z = (floats(rows, 8).astype(np.float16) for _ in range(2))
    y, same, truth = loaded(x, z)
    wanted = np.maximum((x.astype(np.float32) + z) @ V / 2, 0) @ W.astype(np.float32)
    assert (y.dtype, same.dtype, truth.item()) == (np.float16, np.float16, True)
    np.testing.assert_array_equal(same, x)
    roundings = 1 if lacks("f16") else 20
    unit = 2.0**-11 * np.abs(wanted).max()
    np.testing.assert_allclose(y.astype(np.float32), wanted, rtol=0, atol=1.1 * roundings * unit)
    assert loaded.verify(x, z)
