"""CompiledGraph: what a call takes, refuses, writes, counts; memory, shapes, threads, pickles."""

import gc
import pickle
import threading

import ml_dtypes
import numpy as np
import pytest
from graphs import LINKED, RUNTIME, needs, python, random

import onednn_graph_py as og
from onednn_graph_py.machine.cpu import lacks

OPENMP = RUNTIME == "OpenMP"


def sum_model(**options):
    """y = x + w, z = 2 * x; two inputs, two outputs."""
    b = og.GraphBuilder()
    x, w = b.input((3, 4), name="x"), b.input((4,), name="w")
    b.output(y=x + w, z=x * 2.0)
    return b.compile(**options)


def relu_model(shape=(3, 4), dtype="f32", **options):
    b = og.GraphBuilder()
    b.output(b.relu(b.input(shape, dtype, name="x")))
    return b.compile(name="relu", **options)


X = np.arange(12, dtype=np.float32).reshape(3, 4) - 5
W = np.float32([1, 10, 100, 1000])


# -- calls


def test_inputs_come_by_position_or_by_name_in_any_mixture():
    model = sum_model()
    for y, z in (model(X, W), model(X, w=W), model(w=W, x=X)):
        np.testing.assert_array_equal(y, X + W)
        np.testing.assert_array_equal(z, X * 2)


def test_out_is_written_and_returned():
    y = np.full((3, 4), np.nan, np.float32)
    model = relu_model()
    assert model(X, out=y) is y
    np.testing.assert_array_equal(y, np.maximum(X, 0))
    pair = (np.empty_like(X), np.empty_like(X))
    assert sum_model()(X, W, out=pair) is pair
    np.testing.assert_array_equal(pair[0], X + W)
    np.testing.assert_array_equal(pair[1], X * 2)


def test_results_of_calls_do_not_share_memory():
    model = relu_model()
    first = model(X)
    kept = first.copy()
    second = model(-X)
    assert not np.shares_memory(first, second)
    np.testing.assert_array_equal(first, kept)


def test_inputs_are_left_as_they_are():
    x = X.copy()
    x.flags.writeable = False
    relu_model()(x)
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize("name", ["bf16", "f32"])
def test_arrays_of_other_strides_are_copied_and_counted(name):
    needs(name)
    model, dtype = relu_model(dtype=name), og.dtypes.numpy_dtype(name)
    turned = np.asfortranarray(X.astype(dtype))
    assert model.copies == 0
    np.testing.assert_array_equal(model(turned), np.maximum(X.astype(dtype), 0))
    assert model.copies == 1
    model(np.ascontiguousarray(turned))
    assert model.copies == 1


def test_strides_of_dims_of_1_do_not_matter():
    model = relu_model((1, 4), copy=False)
    x, out = (np.full((6, 8), -1, np.float32)[::3, :4][:1] for _ in range(2))
    assert x.strides == (96, 4)
    assert model(x, out=out) is out
    np.testing.assert_array_equal(out, [[0, 0, 0, 0]])
    b = og.GraphBuilder()
    b.output(b.input((3, 4)) + b.input((1, 4)))
    model = b.compile()
    np.testing.assert_array_equal(model(np.asfortranarray(X), x), X - 1)
    assert model.copies == 1  # of the other


def test_declared_strides_are_used_as_they_are():
    b = og.GraphBuilder()
    b.output(b.relu(b.input((3, 4), strides=(1, 3), name="x")))
    model = b.compile()
    np.testing.assert_array_equal(model(np.asfortranarray(X)), np.maximum(X, 0))
    assert model.copies == 0
    np.testing.assert_array_equal(model(X), np.maximum(X, 0))
    assert model.copies == 1


def test_a_misaligned_array_is_copied():
    memory = np.zeros(X.nbytes + 1, np.uint8)
    x = memory[1:].view(np.float32).reshape(X.shape)
    x[...] = X
    model = relu_model()
    np.testing.assert_array_equal(model(x), np.maximum(X, 0))
    assert model.copies == 1


class Exporter:
    """Another library's array, as far as DLPack goes."""

    def __init__(self, array):
        self.array = array
        self.shape = array.shape

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack_objects_are_read_and_written():
    model = relu_model()
    np.testing.assert_array_equal(model(Exporter(X)), np.maximum(X, 0))
    y = np.zeros_like(X)
    out = Exporter(y)
    assert model(X, out=out) is out
    np.testing.assert_array_equal(y, np.maximum(X, 0))


def test_tensors_of_the_mirror_are_taken_in_bf16_too():
    needs("bf16")
    model = relu_model(dtype="bf16")
    x = X.astype(ml_dtypes.bfloat16)
    lt = og.logical_tensor(0, "bf16", x.shape, "strided")
    np.testing.assert_array_equal(model(og.tensor(lt, model.engine, x)), np.maximum(x, 0))


def test_scalars_and_empty_arrays_run():
    b = og.GraphBuilder()
    b.output(b.relu(b.input((0, 4))))
    assert b.compile()(np.empty((0, 4), np.float32)).shape == (0, 4)


def read_only():
    y = np.empty((3, 4), np.float32)
    y.flags.writeable = False
    return y


WRONG = {
    "no input": (lambda m: m(), og.InvalidArgumentsError, "expected 2 inputs, got 0"),
    "one too few": (lambda m: m(X), og.InvalidArgumentsError, "expected 2 inputs, got 1"),
    "one too many": (lambda m: m(X, W, W), og.InvalidArgumentsError, "expected 2 inputs, got 3"),
    "one missing by name": (lambda m: m(x=X), og.InvalidArgumentsError, "missing inputs: w"),
    "unknown name": (
        lambda m: m(X, v=W), og.InvalidArgumentsError, "no input 'v'; there are: x, w",
    ),
    "given twice": (lambda m: m(X, x=X), og.InvalidArgumentsError, "'x' is given twice"),
    "too many with names": (lambda m: m(X, W, W, w=W), og.InvalidArgumentsError, "expected 2"),
    "shape": (lambda m: m(X[:2], W), og.InvalidShapeError, "'x' must have the shape 3x4, got 2x4"),
    "rank": (lambda m: m(X.ravel(), W), og.InvalidShapeError, "must have the shape 3x4, got 12"),
    "dtype": (
        lambda m: m(X.astype(np.float64), W), og.InvalidDataTypeError, "must be f32.*float64",
    ),
    "byte order": (lambda m: m(X.astype(">f4"), W), og.InvalidDataTypeError, "must be f32.*>f4"),
    "a list": (lambda m: m(X.tolist(), W), TypeError, "'x' must be a NumPy array.*got list"),
    "None": (lambda m: m(None, W), TypeError, "got NoneType"),
    "out: one array for two": (lambda m: m(X, W, out=X.copy()), TypeError, "2 arrays"),
    "out: count": (
        lambda m: m(X, W, out=[X.copy()]), og.InvalidArgumentsError, "out must have 2.*got 1",
    ),
    "out: read-only": (
        lambda m: m(X, W, out=[read_only(), X.copy()]), og.InvalidArgumentsError, "is read-only",
    ),
    "out: shape": (
        lambda m: m(X, W, out=[X[:2].copy(), X.copy()]), og.InvalidShapeError, "out 'y' must have",
    ),
    "out: dtype": (
        lambda m: m(X, W, out=[X.astype(int), X.copy()]), og.InvalidDataTypeError, "'y' must be",
    ),
    "out: strides": (
        lambda m: m(X, W, out=[np.asfortranarray(X), X.copy()]), og.InvalidShapeError, "row-major",
    ),
    "out: no array": (lambda m: m(X, W, out=["y", X.copy()]), TypeError, "out 'y' must be a NumPy"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_call_says_what_is_wrong(wrong):
    call, error, text = WRONG[wrong]
    with pytest.raises(error, match=text):
        call(sum_model())


def test_nothing_is_written_by_a_call_that_is_refused():
    y, z = np.full((3, 4), 7, np.float32), np.full((3, 4), 7, np.float64)
    with pytest.raises(og.InvalidDataTypeError):
        sum_model()(X, W, out=(y, z))
    assert (y == 7).all()


def test_outputs_that_overlap_inputs_or_each_other_are_refused():
    model, x = sum_model(), X.copy()
    with pytest.raises(og.InvalidArgumentsError, match="out y overlaps the memory of input x"):
        model(x, W, out=(x, X.copy()))
    y = X.copy()
    with pytest.raises(og.InvalidArgumentsError, match="out z overlaps the memory of out y"):
        model(x, W, out=(y, y))
    np.testing.assert_array_equal(x, X)


def test_interleaved_memory_is_no_overlap():
    memory = np.zeros((3, 8), np.float32)
    b = og.GraphBuilder()
    b.output(b.relu(b.input((3, 4), strides=(8, 1), name="x")))
    model = b.compile()
    memory[:, 4:] = X
    with pytest.raises(og.InvalidShapeError, match="row-major"):
        model(memory[:, 4:], out=memory[:, :4])
    np.testing.assert_array_equal(model(memory[:, 4:]), np.maximum(X, 0))
    assert model.copies == 0


# -- bind


def test_a_bound_model_reads_and_writes_its_arrays_each_time():
    model, x = relu_model(), X.copy()
    bound = model.bind([x])
    bound()
    np.testing.assert_array_equal(bound.outputs[0], np.maximum(X, 0))
    x[...] = -X
    bound()
    np.testing.assert_array_equal(bound.outputs[0], np.maximum(-X, 0))
    y = np.empty_like(X)
    model.bind({"x": x}, y)()
    np.testing.assert_array_equal(y, np.maximum(-X, 0))


def test_a_bound_model_keeps_its_arrays_and_its_model():
    bound = relu_model().bind([X.copy()])
    gc.collect()
    bound()
    np.testing.assert_array_equal(bound.outputs[0], np.maximum(X, 0))


def test_a_bound_array_that_changes_is_refused():
    model, x = relu_model(), X.copy()
    bound = model.bind([x])
    x.resize((2, 4), refcheck=False)
    with pytest.raises(og.InvalidArgumentsError, match="no longer the array that was bound"):
        bound()
    y = np.empty_like(X)
    bound = model.bind([X], y)
    y.flags.writeable = False
    with pytest.raises(og.InvalidArgumentsError, match="no longer the array that was bound"):
        bound()


def test_bind_refuses_what_a_call_refuses():
    with pytest.raises(og.InvalidShapeError, match="3x4"):
        relu_model().bind([X[:1]])
    with pytest.raises(og.InvalidArgumentsError, match="missing inputs: x"):
        relu_model().bind([])
    with pytest.raises(TypeError, match="takes no arguments"):
        relu_model().bind([X])(1)


# -- unknown dims


def open_model(**options):
    b = og.GraphBuilder()
    x = b.input((-1, 4), name="x")
    b.output(b.softmax(x @ np.eye(4, dtype=np.float32) + W, axis=-1))
    return b.compile(**options)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_unknown_dims_specialize_and_are_counted():
    model = open_model(max_shapes=2)
    for rows in (1, 2, 1, 3, 3, 1):
        x = np.ones((rows, 4), np.float32)
        np.testing.assert_allclose(model(x), softmax(x + W), rtol=1e-5)
    stats = model.stats()
    assert stats.calls == 6
    # 1 and 2 are compiled, 3 pushes out 2, the least recently used.
    assert (stats.misses, stats.hits, stats.evictions, stats.shapes) == (3, 3, 1, 2)


def test_an_evicted_shape_comes_back():
    model = open_model(max_shapes=1)
    for rows in (1, 2, 1, 2):
        assert model(np.ones((rows, 4), np.float32)).shape == (rows, 4)
    assert model.stats().evictions == 3


def test_a_known_dim_of_an_open_model_is_checked():
    with pytest.raises(og.InvalidShapeError, match="'x' must have the shape \\?x4, got 2x5"):
        open_model()(np.ones((2, 5), np.float32))
    with pytest.raises(TypeError, match="got list"):
        open_model()([[1.0, 2.0, 3.0, 4.0]])


# -- what runs


def test_steps_tell_what_is_fused():
    b = og.GraphBuilder()
    x = b.input((8, 16))
    b.output(b.relu(b.matmul(x, np.ones((16, 4), np.float32), name="fc"), name="act"))
    model = b.compile()
    assert model.steps() == (og.Step(("MatMul", "ReLU"), ("fc", "act"), "oneDNN"),)
    og.assert_fused(model, 1)
    with pytest.raises(AssertionError, match="in 2 oneDNN partitions, but has 1 steps"):
        og.assert_fused(model, 2)


def test_one_dequantize_may_have_many_readers():
    """Each gets one of its own, or oneDNN would compute in f32."""
    b = og.GraphBuilder()
    per_tensor = {"scales": [0.5], "zps": [0], "qtype": "per_tensor"}
    x = b.input((8, 16), "u8").dequantize(**per_tensor)
    made = []
    for _ in range(2):
        w = b.constant(np.ones((16, 4), np.int8)).dequantize(**per_tensor)
        made.append((x @ w).quantize(dtype="s8", **per_tensor))
    b.output(*made)
    model = b.compile()
    og.assert_fused(model, 2)
    a, c = model(np.ones((8, 16), np.uint8))
    assert (a == 8).all()
    assert (c == 8).all()


@pytest.mark.parametrize("fallback", ["error", "reference"])
def test_what_has_no_kernel_is_computed_by_ops_that_have_one(fallback):
    b = og.GraphBuilder()
    x = b.input((3, 4))
    b.output(b.pow(x, beta=3.0) + 1, x.reciprocal(), x**-1.5)
    model = b.compile(fallback=fallback)
    assert {"oneDNN"} <= {s.implementation for s in model.steps()} <= {"oneDNN", "constant"}
    positive = np.abs(X) + 0.5
    for made, wanted in zip(
        model(positive), (positive**3 + 1, 1 / positive, positive**-1.5), strict=True
    ):
        np.testing.assert_allclose(made, wanted, rtol=1e-6)


def test_end_is_left_out():
    b = og.GraphBuilder()
    y = b.relu(b.input((3, 4)))
    b.end(y)
    b.output(y)
    np.testing.assert_array_equal(b.compile()(X), np.maximum(X, 0))


# -- memory


def chain(layers, rows=64):
    b = og.GraphBuilder()
    x = b.input((rows, 64))
    for i in range(layers):
        # A softmax is its own partition, so every layer leaves an intermediate tensor.
        x = (x @ np.float32(np.eye(64) * (i + 1))).softmax(axis=-1)
    b.output(x)
    return b.compile()


def test_intermediate_memory_is_planned_by_lifetime():
    few, many = chain(6), chain(12)
    x = np.ones((64, 64), np.float32)
    few(x), many(x)
    constants = 64 * 64 * 4
    held = [m.stats().memory_bytes - n * constants for m, n in ((few, 6), (many, 12))]
    # Nobody reads a layer's tensors after the next one: the chain's length does not matter.
    assert held[0] == held[1]
    assert 0 < held[0] <= 4 * 64 * 64 * 4


def products(x, count=3):
    """Products that can't run in place, and a SoftMax behind each."""
    for i in range(count):
        x = (x @ random(64, 64, seed=i)).softmax(axis=0) * 8.0
    return x


def read_as_it_is_written(b, x):
    return products(x)


def read_after_an_op_in_place(b, x):
    y = products(x, 1)
    return (y * 0.5).softmax(axis=1) @ random(64, 64) + y


def read_as_a_view(b, x):
    y = products(x, 1)
    view = y[8:40]
    return products(y)[:32] + view


@pytest.mark.parametrize(
    "graph", [read_as_it_is_written, read_after_an_op_in_place, read_as_a_view]
)
def test_tensors_that_are_needed_at_once_share_no_memory(graph):
    b = og.GraphBuilder()
    b.output(graph(b, b.input((64, 64))))
    for policy in ("fusion", "debug"):
        checked = b.compile(policy=policy, warn=False).verify()
        assert checked, f"{policy}: {checked}"


def test_calls_one_after_the_other_share_their_memory():
    model, x = chain(3), np.ones((64, 64), np.float32)
    model(x)
    before = model.stats().memory_bytes
    for _ in range(10):
        model(x)
    assert model.stats().memory_bytes == before
    assert model.stats().calls == 11
    assert model.stats().seconds > 0


# -- threads


def test_the_gil_is_released():
    """A thread in Python goes on while another is inside a call."""
    b = og.GraphBuilder()
    x = b.input((1024, 1024))
    y = x
    for _ in range(6):
        y = y @ x
    b.output(y)
    model, a = b.compile(), np.eye(1024, dtype=np.float32)
    model(a)
    done, counted = threading.Event(), 0

    def work():
        model(a)
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    while not done.is_set():
        counted += 1
    thread.join()
    # With the GIL held for all of the call, it would have counted only before and after.
    assert counted > 100


@pytest.mark.skipif(not OPENMP, reason="the linked oneDNN does not run on OpenMP")
def test_the_number_of_threads_is_the_model_s_own():
    done = python("""
        import numpy as np, onednn_graph_py as og
        assert og.num_threads() == 3
        b = og.GraphBuilder(); b.output(b.relu(b.input((4,)))); first = b.compile()
        og.set_num_threads(1)
        assert og.num_threads() == 1
        assert (first.threads, b.compile().threads, b.compile(threads=2).threads) == (3, 1, 2)
        np.testing.assert_array_equal(first(np.float32([-1, 0, 1, 2])), [0, 0, 1, 2])
    """, env={"OMP_NUM_THREADS": "3"})  # fmt: skip
    assert done.returncode == 0


@pytest.mark.skipif(not OPENMP, reason="the linked oneDNN does not run on OpenMP")
def test_a_call_leaves_the_caller_s_number_of_threads_alone():
    done = python("""
        import numpy as np, onednn_graph_py as og
        b = og.GraphBuilder(); b.output(b.relu(b.input((4,)))); model = b.compile(threads=2)
        model(np.ones(4, np.float32))
        assert og.num_threads() == 1
    """, env={"OMP_NUM_THREADS": "1"})  # fmt: skip
    assert done.returncode == 0


def test_wrong_numbers_of_threads_are_refused():
    with pytest.raises((og.InvalidArgumentsError, og.UnimplementedError)):
        og.set_num_threads(0)
    with pytest.raises(TypeError):
        og.set_num_threads("2")


# -- pickles


def test_a_model_pickles_with_its_constants():
    dtype = "f32" if lacks("bf16") else "bf16"
    b = og.GraphBuilder()
    x = b.input((-1, 4), dtype, name="x")
    b.output(b.relu(x @ np.ones((4, 4), og.dtypes.numpy_dtype(dtype))), x=x)
    model = b.compile(max_shapes=5, name="mine")
    copy = pickle.loads(pickle.dumps(model))
    a = np.ones((2, 4), og.dtypes.numpy_dtype(dtype))
    for one, other in zip(model(a), copy(a), strict=True):
        np.testing.assert_array_equal(one, other)
    assert repr(copy) == repr(model)


def test_four_bit_inputs_lie_in_memory_as_declared():
    values = np.arange(-8, 8).reshape(4, 4)
    for strides in ((4, 1), (1, 4)):
        b = og.GraphBuilder()
        x = b.input((4, 4), "s4", name="x", strides=strides)
        scale = b.constant(np.float32([1, 2, 4, 8]))
        b.output(x.dynamic_dequantize(scale, qtype="per_channel", axis=1))
        made = b.compile()(values.astype(ml_dtypes.int4))
        np.testing.assert_array_equal(made, values * np.float32([1, 2, 4, 8]))


def test_four_bit_inputs_with_gaps_are_refused():
    b = og.GraphBuilder()
    x = b.input((4, 4), "s4", name="x", strides=(8, 1))
    b.output(x.dynamic_dequantize(np.float32([1] * 4), qtype="per_channel", axis=1))
    model = b.compile(warn=False)  # oneDNN has no kernel for it
    with pytest.raises(og.InvalidShapeError, match=r"must fill their memory without gaps, got"):
        model(np.zeros((4, 4), ml_dtypes.int4))


@pytest.mark.skipif(LINKED < (3, 9), reason="SoftMax has no statistics before oneDNN 3.9")
def test_a_softmax_that_returns_its_statistics_is_read_by_others():
    """oneDNN 3.13 leaves the layout of the other output open where it may choose it."""
    b = og.GraphBuilder()
    x = b.input((4, 8))
    y, stats = b.op("SoftMax", x, axis=-1, outputs=[(None, "f32")] * 2)
    b.output(y @ np.eye(8, 5, dtype=np.float32), stats)
    assert b.compile().verify().ok
