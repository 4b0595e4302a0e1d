"""Execution: right numbers, checked memory, threads and the GIL."""

import gc
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from graphs import (
    RUNTIME,
    Model,
    assert_sums_close,
    graph_of,
    lt_of,
    matmul_relu_model,
    random,
    relu_model,
    relu_op,
    softmax_model,
)
from numpy.lib.stride_tricks import sliding_window_view

import onednn_graph_py as og

LT = og.logical_tensor


# -- numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "inner", "columns"), [(1, 1, 1), (16, 32, 24), (33, 129, 65)])
def test_matmul_and_relu_in_one_partition_are_right(rows, inner, columns):
    model = matmul_relu_model(rows, inner, columns)
    a, b = random(rows, inner), random(columns, inner, seed=1)
    (y,) = model.run([a, b], [np.empty((rows, columns), np.float32)])
    wide = [x.astype(np.float64) for x in (a, b)]
    assert_sums_close(y, np.maximum(wide[0] @ wide[1].T, 0), abs(wide[0]) @ abs(wide[1]).T, inner)


def conv_model(nxc: bool, shape, weights_shape):
    """Return relu(conv(x, w) + bias) with 3x3 kernels and pads of 1."""
    n, c, h, w = shape
    oc = weights_shape[0]
    kind = {"data_format": "NXC" if nxc else "NCX", "weights_format": "XIO" if nxc else "OIX"}
    x = LT(0, "f32", [n, h, w, c] if nxc else shape, "strided")
    o, i, kh, kw = weights_shape
    weights = LT(1, "f32", [kh, kw, i, o] if nxc else weights_shape, "strided")
    bias = LT(2, "f32", [oc], "strided")
    out = [n, h, w, oc] if nxc else [n, oc, h, w]
    between, y = LT(3, "f32", out, "strided"), LT(4, "f32", out, "strided")
    conv = og.op(0, "Convolution", [x, weights, bias], [between], "conv")
    for name in ("strides", "pads_begin", "pads_end", "dilations"):
        conv.set_attr(name, [1, 1])
    for name, value in kind.items():
        conv.set_attr(name, value)
    relu = og.op(1, "ReLU", [between], [y], "relu")
    return Model([conv, relu], [x, weights, bias], [y]), out


def conv_reference(x, w):
    """Return the convolution in NCX/OIX, in float64."""
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.einsum("nchwyx,ocyx->nohw", sliding_window_view(padded, (3, 3), (2, 3)), w)


@pytest.mark.parametrize("nxc", [True, False], ids=["NXC", "NCX"])
def test_convolution_bias_and_relu_in_one_partition_are_right(nxc):
    x, w, bias = random(2, 5, 9, 7), random(6, 5, 3, 3, seed=1), random(6, seed=2)
    model, out = conv_model(nxc, x.shape, w.shape)
    layout = [(0, 2, 3, 1), (2, 3, 1, 0)] if nxc else [(0, 1, 2, 3), (0, 1, 2, 3)]
    given = [np.ascontiguousarray(a.transpose(p)) for a, p in zip((x, w), layout, strict=True)]
    (y,) = model.run([*given, bias], [np.empty(out, np.float32)])
    wide = bias.astype(np.float64)[:, None, None]
    expected = np.maximum(conv_reference(x, w.astype(np.float64)) + wide, 0)
    magnitude = conv_reference(abs(x), abs(w).astype(np.float64)) + abs(wide)
    assert_sums_close(y.transpose(0, 3, 1, 2) if nxc else y, expected, magnitude, 5 * 9 + 1)


VIEWS = {
    "transposed": lambda a: a.T,
    "every other": lambda a: a[:, ::2],
    "window": lambda a: a[3:12, 5:20],
    "odd strides": lambda a: a.reshape(-1)[: 37 * 24].reshape(24, 37)[:, :11],
    "one row": lambda a: a[7:8],
}


@pytest.mark.parametrize("how", VIEWS)
def test_strided_inputs_and_outputs_are_right(how):
    x, whole = VIEWS[how](random(32, 32)), np.full((32, 32), 7, np.float32)
    y = VIEWS[how](whole)
    model = relu_model(src=lt_of(0, x), dst=lt_of(1, y))
    model.run([x], [y])
    assert (y == np.maximum(x, 0)).all()
    untouched = np.ones(whole.shape, bool)
    VIEWS[how](untouched)[...] = False
    assert (whole[untouched] == 7).all()


def test_a_strided_matmul_operand_is_right():
    a, b = random(20, 40)[::2, 1::2], random(20, 8, seed=1).T
    y = np.empty((10, 8), np.float32)
    lts = [lt_of(0, a), lt_of(1, b), lt_of(2, y)]
    matmul = og.op(0, "MatMul", lts[:2], lts[2:]).set_attr("transpose_b", True)
    Model([matmul], lts[:2], lts[2:]).run([a, b], [y])
    wide = [x.astype(np.float64) for x in (a, b)]
    assert_sums_close(y, wide[0] @ wide[1].T, abs(wide[0]) @ abs(wide[1]).T, 20)


def test_bf16_goes_through_f32_and_back():
    lts = [LT(0, "f32", [64], "strided"), LT(1, "bf16", [64], "strided")]
    x, y = random(64), np.empty(64, og.dtypes.numpy_dtype("bf16"))
    Model([og.op(0, "TypeCast", lts[:1], lts[1:])], lts[:1], lts[1:]).run([x], [y])
    assert (y == x.astype(y.dtype)).all()


def test_a_scalar_operand_is_right():
    x, one = LT(0, "f32", [4, 8], "strided"), LT(1, "f32", [1], "strided")
    y = LT(2, "f32", [4, 8], "strided")
    model = Model([og.op(0, "Multiply", [x, one], [y])], [x, one], [y])
    values = random(4, 8)
    (got,) = model.run([values, np.array([3], np.float32)], [np.empty_like(values)])
    assert (got == values * np.float32(3)).all()


# -- bind -------------------------------------------------------------------------------------


def test_a_bound_execution_runs_again_and_again():
    model = relu_model()
    x, y = random(4, 8), np.empty((4, 8), np.float32)
    bound = model.compiled.bind(model.stream, *model.tensors([x], [y]))
    for sign in (1, -1):
        x *= sign
        assert bound() is None
        model.stream.wait()
        assert (y == np.maximum(x, 0)).all()


def test_a_bound_execution_follows_set_data_handle():
    model = relu_model()
    x, y = random(4, 8), np.empty((4, 8), np.float32)
    (src,), (dst,) = model.tensors([x], [y])
    bound = model.compiled.bind(model.stream, [src], [dst])
    bound()
    model.stream.wait()
    other_x, other_y = random(4, 8, seed=5), np.empty((4, 8), np.float32)
    before = y.copy()
    src.set_data_handle(other_x)
    dst.set_data_handle(other_y)
    bound()
    model.stream.wait()
    assert (other_y == np.maximum(other_x, 0)).all()
    assert (y == before).all()


def test_a_bound_execution_checks_new_memory():
    model = relu_model()
    x, y = random(4, 8), np.empty((4, 8), np.float32)
    (src,), (dst,) = model.tensors([x], [y])
    bound = model.compiled.bind(model.stream, [src], [dst])
    dst.set_data_handle(bytes(128))
    for _ in range(2):  # it stays refused
        with pytest.raises(og.InvalidArgumentsError, match="read-only"):
            bound()
    dst.set_data_handle(np.concatenate([np.zeros(4, np.float32), x.reshape(-1)])[:32])
    bound()


def test_a_bound_execution_keeps_all_it_needs_alive():
    model = relu_model()
    x, y = random(4, 8), np.empty((4, 8), np.float32)
    owner, engine = weakref.ref(x), model.engine.get()
    bound = model.compiled.bind(model.stream, *model.tensors([x], [y]))
    assert engine
    expected = np.maximum(x, 0)
    del model, x
    gc.collect()
    bound()
    assert owner() is not None
    assert (y == expected).all()
    del bound
    gc.collect()
    assert owner() is None


def test_a_bound_execution_tells_its_partition():
    model = relu_model()
    bound = model.compiled.bind(model.stream, *model.tensors([random(4, 8)], [random(4, 8)]))
    assert repr(bound).startswith("bound_execution(partition")


# -- what is refused --------------------------------------------------------------------------


@pytest.fixture
def model():
    return relu_model()


def test_a_read_only_input_is_fine(model):
    x = random(4, 8)
    x.flags.writeable = False
    (y,) = model.run([x], [np.empty_like(x)])
    assert (y == np.maximum(x, 0)).all()


def test_in_place_ports_may_share_their_memory():
    model = softmax_model()
    assert model.compiled.get_inplace_ports() == [(0, 1)]
    x = random(4, 8)
    (expected,) = model.run([x], [np.empty_like(x)])
    model.run([x], [x])
    assert (x == expected).all()
    np.testing.assert_allclose(x.sum(1), 1, rtol=8 * np.finfo(np.float32).eps)


def test_in_place_ports_share_all_of_their_memory_or_none():
    model = softmax_model()
    memory = random(40)
    lists = model.tensors([memory[:32].reshape(4, 8)], [memory[8:].reshape(4, 8)])
    with pytest.raises(og.InvalidArgumentsError, match="overlaps the memory of"):
        model.compiled.execute(model.stream, *lists)


def test_interleaved_views_are_no_overlap():
    whole = random(4, 16)
    x, y = whole[:, ::2], whole[:, 1::2]
    model = relu_model(src=lt_of(0, x), dst=lt_of(1, y))
    expected = np.maximum(x, 0)
    model.run([x], [y])
    assert (y == expected).all()


def test_a_failed_call_changes_no_output(model):
    y = np.full((4, 8), 5, np.float32)
    (src,), (dst,) = model.tensors([random(4, 8)], [y])
    with pytest.raises(og.InvalidArgumentsError):
        model.compiled.execute(model.stream, [src, src], [dst])
    assert (y == 5).all()


# -- threads ----------------------------------------------------------------------------------


def steps_of_another_thread(calls):
    """Return how often another thread got the GIL while `calls` ran.

    The other thread sleeps a little and counts, for ever. The interpreter is told not to take the
    GIL away from us, so it can only have been given up by the calls themselves.
    """
    stop, count = threading.Event(), [0]

    def tick():
        while not stop.is_set():
            time.sleep(0.0002)
            count[0] += 1

    other = threading.Thread(target=tick)
    interval = sys.getswitchinterval()
    # Before the other thread starts: one that waits already keeps to the interval it began with.
    sys.setswitchinterval(100)
    other.start()
    try:
        time.sleep(0.01)
        before = count[0]
        for call in calls:
            call()
        return count[0] - before
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        other.join()


def hold_the_gil():
    """Take about 50 ms without giving the GIL up."""
    sum(range(2_000_000))


def executions():
    size = 1024
    model = matmul_relu_model(size, size, size)
    lists = model.tensors([random(size, size)] * 2, [np.empty((size, size), np.float32)])

    def call():
        model.compiled.execute(model.stream, *lists)
        model.stream.wait()

    return [call] * 10


def bound_executions():
    size = 1024
    model = matmul_relu_model(size, size, size)
    lists = model.tensors([random(size, size)] * 2, [np.empty((size, size), np.float32)])
    return [model.compiled.bind(model.stream, *lists), model.stream.wait] * 10


def chain(length):
    graph = og.graph("cpu")
    for i in range(length):
        graph.add_op(relu_op(i, (2,)))
    return graph


def finalizations():
    return [chain(800).finalize for _ in range(25)]


def partitionings():
    graphs = [chain(300) for _ in range(12)]
    for graph in graphs:
        graph.finalize()
    return [graph.get_partitions for graph in graphs]


def compilations():
    engine = og.engine("cpu", 0)
    lts = [LT(0, "f32", [None, 64], "strided"), LT(1, "f32", [64, 48], "strided")]
    lts.append(LT(2, "f32", [None, 48], "strided"))
    (part,) = graph_of(og.op(0, "MatMul", lts[:2], lts[2:])).get_partitions()
    return [
        lambda n=n: part.compile([LT(0, "f32", [n, 64], "strided"), lts[1]], lts[2:], engine)
        for n in range(1, 400)
    ]


def test_the_test_for_the_gil_notices_when_it_is_held():
    assert steps_of_another_thread([hold_the_gil] * 3) <= 1


@pytest.mark.parametrize(
    "calls", [executions, bound_executions, finalizations, partitionings, compilations]
)
def test_other_threads_run_meanwhile(calls):
    # On a busy machine the other thread may have no core at that moment.
    assert any(steps_of_another_thread(calls()) >= 3 for _ in range(30))


@pytest.mark.skipif(RUNTIME != "SYCL", reason=f"with {RUNTIME} execute returns when it is done")
def test_other_threads_run_while_wait_waits():
    size = 1536
    model = matmul_relu_model(size, size, size)
    lists = model.tensors([random(size, size)] * 2, [np.empty((size, size), np.float32)])
    bound = model.compiled.bind(model.stream, *lists)
    bound()
    model.stream.wait()

    def submit_and_wait():
        for _ in range(5):
            bound()
        model.stream.wait()

    assert any(steps_of_another_thread([submit_and_wait] * 3) >= 3 for _ in range(30))
