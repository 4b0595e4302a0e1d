"""Models with unknown dims: what their shapes share, and what compiling them blocks."""

import itertools
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from graphs import Counted, assert_sums_close, importing, python, random

import onednn_graph_py as og
from onednn_graph_py.machine import constant_cache
from onednn_graph_py.model.planning import arena, choosing, fates, plan_draft
from onednn_graph_py.model.running import model as running

WIDTH = 16
LENGTHS = (5, 1, 8, 33)


def layers(count: int, length: int = -1, width: int = WIDTH) -> og.GraphBuilder:
    """Layers of attention and of two products, each with its own weights."""
    b = og.GraphBuilder()
    x = b.input((1, length, width), name="x")

    def weights(i: int, *shape: int) -> np.ndarray:
        return random(*shape, seed=i) / np.float32(np.sqrt(width))

    for layer in range(count):
        seed = 10 * layer
        scores = b.matmul(x @ weights(seed, width, width), x, transpose_b=True)
        y = x + b.softmax(scores, axis=-1) @ (x @ weights(seed + 1, width, width))
        hidden = b.matmul(y, weights(seed + 2, width, 2 * width), bias=random(2 * width)).relu()
        x = y + hidden @ weights(seed + 3, 2 * width, width)
    b.output(y=x)
    return b


def partitions(model: og.CompiledGraph, *shapes) -> list[str]:
    """The partitions that a model runs for some shapes, with oneDNN's numbers for them."""
    plan = model.specialization(tuple(shapes)).plan
    return [repr(s.compiled).split("(")[1] for s in plan.running if s.compiled is not None]


def test_each_length_is_right():
    model = layers(3).compile()
    for length in (*LENGTHS, *LENGTHS):
        x = random(1, length, WIDTH, seed=length)
        alone = layers(3, length).compile()
        made, expected = model(x), alone(x)
        if [s.ops for s in model.steps(x.shape)] == [s.ops for s in alone.steps()]:
            np.testing.assert_array_equal(made, expected)
        else:  # a fusion was measured as slow for one of the two
            assert_sums_close(made, expected, np.abs(expected) + 4, 2 * WIDTH)


def test_all_lengths_run_the_same_partitions_of_onednn():
    model = layers(1).compile(slow_fusions="run")
    first, *others = (partitions(model, (1, n, WIDTH)) for n in LENGTHS)
    assert first
    assert all(o == first for o in others)


def test_equal_layers_run_one_partition_with_their_own_weights():
    model = layers(4, 8).compile(slow_fusions="run")
    ran = partitions(model, (1, 8, WIDTH))
    assert len(set(ran)) < len(ran)
    assert model.verify()


def test_the_order_of_lengths_changes_nothing():
    one, other = layers(2).compile(slow_fusions="run"), layers(2).compile(slow_fusions="run")
    arrays = [random(1, n, WIDTH, seed=n) for n in LENGTHS]
    there = [one(x) for x in arrays]
    back = [other(x) for x in reversed(arrays)][::-1]
    for a, b in zip(there, back, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_further_length_partitions_nothing_and_compiles_each_form_once(monkeypatch):
    compiled_for = {}
    for count in (2, 5):
        model = layers(count).compile(slow_fusions="run")
        model.prepare((1, 9, WIDTH))
        graphs = Counted(monkeypatch, plan_draft, "graph_of")
        compiled = Counted(monkeypatch, fates, "compile_group")
        model.prepare((1, 12, WIDTH))
        assert graphs.calls == 0
        compiled_for[count] = compiled.calls
        monkeypatch.undo()
    assert 0 < compiled_for[2] == compiled_for[5]


def test_a_group_is_split_in_one_way_for_equal_layers_and_lengths_of_a_class(monkeypatch):
    def slow(draft, fused):
        return "the test says so" if len(fused.nodes) > 1 else None

    monkeypatch.setattr(fates, "_slowness", slow)
    model = layers(3).compile()
    alone = layers(3).compile(slow_fusions="run", policy="debug")
    first = random(1, 9, WIDTH)
    np.testing.assert_allclose(model(first), alone(first), rtol=1e-4, atol=1e-4)
    assert any("the test says so" in s.why for s in model.steps(first.shape))
    searches = Counted(monkeypatch, choosing, "_ways_to_split")
    for length in (12, 15):
        x = random(1, length, WIDTH, seed=length)
        np.testing.assert_allclose(model(x), alone(x), rtol=1e-4, atol=1e-4)
    assert searches.calls == 0
    assert [s.ops for s in model.steps((1, 15, WIDTH))] == [s.ops for s in model.steps(first.shape)]


def test_memory_of_tensors_in_use_at_once_does_not_overlap():
    draw = np.random.default_rng(0)
    for _ in range(50):
        steps = int(draw.integers(1, 40))
        blocks = []
        for _ in range(int(draw.integers(1, 60))):
            first = int(draw.integers(steps))
            last = min(first + int(draw.integers(6)), steps - 1)
            blocks.append(arena._Block(64 * int(draw.integers(1, 9)), first, last))
        total = arena._place(blocks, steps)
        assert total <= sum(b.size for b in blocks)
        for step in range(steps):
            alive = sorted((b for b in blocks if b.first <= step <= b.last), key=lambda b: b.offset)
            assert all(a.offset + a.size <= b.offset for a, b in itertools.pairwise(alive))
            assert all(b.offset + b.size <= total for b in alive)


def different(b: og.GraphBuilder, x: og.Value, i: int) -> og.Value:
    """A group that equals those with another `i`, but for one thing."""
    w = random(WIDTH, WIDTH, seed=i)
    y = x @ w
    if i == 1:
        return b.leaky_relu(y, alpha=0.5)
    if i == 2:
        return b.leaky_relu(y, alpha=0.25)
    if i == 3:
        return b.leaky_relu(x @ random(WIDTH, 2 * WIDTH), alpha=0.5) @ random(2 * WIDTH, WIDTH)
    if i == 4:
        b.output(y)  # the product leaves the group
        return b.leaky_relu(y, alpha=0.5)
    if i == 5:
        return b.leaky_relu(b.matmul(x, w, transpose_b=True), alpha=0.5)
    return b.leaky_relu(x, alpha=0.5)


def test_groups_that_differ_in_one_thing_are_not_taken_for_equal():
    b = og.GraphBuilder()
    x = b.input((4, WIDTH), name="x")
    for i in range(7):
        x = different(b, x, i) / 4.0
    b.output(x)
    assert b.compile().verify()


def test_int8_layers_with_large_and_small_weights_are_told_apart():
    b = og.GraphBuilder()
    x = b.input((-1, 32), "u8", name="x")
    each = {"qtype": "per_tensor", "zps": [0]}
    made = []
    for top in (127, 3, 127, 64):
        w = b.constant(np.full((32, 8), top, np.int8)).dequantize(scales=[0.5], **each)
        made.append(x.dequantize(scales=[0.25], **each) @ w)
    b.output(*made)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # some run in parts without VNNI
        model = b.compile()
        for rows in (1, 4, 7):
            x_ = np.full((rows, 32), 255, np.uint8)
            for top, y in zip((127, 3, 127, 64), model(x_), strict=True):
                np.testing.assert_array_equal(y, np.full((rows, 8), 32 * 255 * top * 0.125))


@pytest.mark.parametrize("length", [1, 2, 64])
def test_views_and_folded_constants_are_right_for_every_length(length):
    b = og.GraphBuilder()
    x = b.input((-1, 4, 6), name="x")
    flat = b.static_reshape(x, shape=(-1, 24), special_zero=False)
    w = b.static_transpose(b.constant(random(8, 24)), order=(1, 0))
    b.output(b.static_reshape(flat @ w, shape=(-1, 2, 4), special_zero=False))
    model = b.compile()
    for n in (3, length, 3):
        x_ = random(n, 4, 6, seed=n)
        expected = x_.reshape(n, 24).astype(np.float64) @ random(8, 24).T
        assert_sums_close(
            model(x_), expected.reshape(n, 2, 4), np.abs(expected).reshape(n, 2, 4) + 24, 24
        )


# -- memory


def test_more_shapes_take_no_further_copy_of_the_weights():
    """A copy for each of the 4 further shapes would be 4 times the weights.

    The weights are large, so that copies count more than kernels, which take up to 8 MB a shape
    (3.13). For products of one row oneDNN 3.13 chooses another layout: one copy more, not made
    here.
    """
    done = python(
        """
        import numpy as np
        from test_shapes import layers

        def resident():
            return int(open("/proc/self/statm").read().split()[1]) * 4096

        b = layers(3, width=2048)
        weights = sum(v.data.nbytes for v in b.constants)
        model = b.compile()
        for n in (128, 96):
            model(np.ones((1, n, 2048), np.float32))
        before = resident()
        for n in (64, 17, 99, 7):
            model(np.ones((1, n, 2048), np.float32))
        print((resident() - before) / weights)
        """,
        env={"PYTHONPATH": importing(__file__)},
    )
    assert float(done.stdout) < 0.5


@pytest.mark.parametrize("shapes", [2000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_ever_new_shapes_stay_within_their_bound(shapes):
    """Thousands of shapes of a small graph, each of which takes up to a MB while it is kept (3.13).

    What was freed goes back before it is counted: glibc's heap keeps 2 to 9 MB of it.
    """
    done = python(
        f"""
        import ctypes
        import numpy as np, onednn_graph_py as og

        def resident():
            ctypes.CDLL(None).malloc_trim(0)
            return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20

        b = og.GraphBuilder()
        b.output(b.input((-1, -1, 3)) @ np.ones((3, 2), np.float32))
        og.set_compiled_partition_cache_capacity(128)
        og.set_primitive_cache_capacity(128)
        model = b.compile(max_shapes=4)
        for n in range({shapes}):
            y = model(np.ones((n % 100 + 1, n // 100 + 1, 3), np.float32))
            if n == 400:  # oneDNN's own caches are full
                before = resident()
        assert (y == 3).all() and y.shape == (100, {shapes} // 100, 2)
        assert model.stats().shapes == 4 and model.stats().evictions == {shapes} - 4
        print(resident() - before)
        """,
        seconds=900,
    )
    bound = 4 if og.version()["cpu_runtime"] == "OpenMP" else 32  # for each 1,000 shapes
    assert float(done.stdout) < bound * (shapes - 400) / 1000


# -- compiling in threads


class Slow:
    """Make compiling wait until the test lets it go on."""

    def __init__(self, monkeypatch, *, fails: int = 0):
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.plans = 0
        self._fails = fails
        self._make_plan = running.make_plan
        monkeypatch.setattr(running, "make_plan", self)

    def __call__(self, *args, **kwargs):
        self.plans += 1
        failing = self.plans <= self._fails
        self.begun.set()
        assert self.may_end.wait(60)
        if failing:
            raise og.OutOfMemoryError("no memory, says the test")
        return self._make_plan(*args, **kwargs)


def test_calls_go_on_while_another_shape_is_compiled(monkeypatch):
    model = layers(1).compile()
    known, new = random(1, 4, WIDTH), random(1, 6, WIDTH)
    expected = model(known)
    slow = Slow(monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        compiling = pool.submit(model, new)
        assert slow.begun.wait(60)
        for _ in range(10):
            np.testing.assert_array_equal(model(known), expected)
        assert model.stats().shapes == 1
        slow.may_end.set()
        assert compiling.result(60).shape == (1, 6, WIDTH)


def test_two_threads_compile_a_shape_once(monkeypatch):
    model = layers(1).compile()
    slow = Slow(monkeypatch)
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(model, random(1, 6, WIDTH)) for _ in range(4)]
        assert slow.begun.wait(60)
        slow.may_end.set()
        first, *others = (c.result(60) for c in calls)
    assert slow.plans == 1
    for other in others:
        np.testing.assert_array_equal(other, first)


def test_threads_that_wait_for_a_failure_try_for_themselves(monkeypatch):
    model = layers(1).compile()
    slow = Slow(monkeypatch, fails=1)
    slow.may_end.set()
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(model, random(1, 6, WIDTH)) for _ in range(3)]
        failed = [c for c in calls if c.exception(60)]
    assert len(failed) == 1
    assert isinstance(failed[0].exception(), og.OutOfMemoryError)
    assert model(random(1, 6, WIDTH)).shape == (1, 6, WIDTH)


def test_threads_with_different_shapes_get_right_results():
    model = layers(2).compile(max_shapes=3)
    arrays = [random(1, n, WIDTH, seed=n) for n in (3, 4, 5, 6, 7, 8)]
    expected = [layers(2).compile(slow_fusions="run")(x) for x in arrays]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            for made, right in zip(pool.map(model, arrays), expected, strict=True):
                assert_sums_close(made, right, np.abs(right) + 4, 2 * WIDTH)


# -- prepare


def test_prepare_compiles_ahead():
    model = layers(1).compile()
    model.prepare((1, 4, WIDTH), [(1, 5, WIDTH)], {"x": (1, 6, WIDTH)}, (1, 4, WIDTH))
    before = model.stats()
    assert (before.shapes, before.misses) == (3, 3)
    for n in (4, 5, 6):
        model(random(1, n, WIDTH))
    assert model.stats().misses == before.misses
    model.prepare()
    model.prepare(iter((1, 7, WIDTH)), np.array([1, 7, WIDTH]))
    assert model.latest_shapes == ((1, 7, WIDTH),)


def test_prepare_takes_the_shapes_of_several_inputs():
    b = og.GraphBuilder()
    b.output(b.input((-1, 3), name="x") @ b.input((3, -1), name="w"))
    model = b.compile()
    model.prepare([(2, 3), (3, 5)], {"w": (3, 6), "x": (1, 3)})
    assert model.latest_shapes == ((1, 3), (3, 6))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([(1, WIDTH)], og.InvalidShapeError, "input 'x' must have the shape .*: expected 3 dims"),
        ([(1, 4, 7)], og.InvalidShapeError, f"expected {WIDTH} in dim 2, got 7"),
        ([(1, -1, WIDTH)], og.InvalidShapeError, "not negative in dim 1, got -1"),
        ([[(1, 4, WIDTH), (2,)]], og.InvalidArgumentsError, "expected 1 inputs, got 2"),
        ([{"y": (1, 4, WIDTH)}], og.InvalidArgumentsError, "no input 'y'"),
        ([{}], og.InvalidArgumentsError, "missing inputs: x"),
        ([(1, 4.5, WIDTH)], TypeError, "prepare: a shape must be a sequence of ints, got 1"),
        ([7], TypeError, "prepare: a set of shapes must be a Mapping or Iterable, got int"),
        (
            [(1, n, WIDTH) for n in range(1, 5)],
            og.InvalidArgumentsError,
            "at most max_shapes = 3 sets of shapes, got 4",
        ),
    ],
)
def test_prepare_refuses_shapes_that_do_not_fit(given, error, message):
    model = layers(1).compile(max_shapes=3)
    with pytest.raises(error, match=message):
        model.prepare(*given)
    assert model.stats().shapes == 0


def test_nothing_is_prepared_if_one_shape_does_not_fit():
    model = layers(1).compile()
    with pytest.raises(og.InvalidShapeError):
        model.prepare((1, 4, WIDTH), (1, 4, 7))
    assert model.stats().shapes == 0


def test_a_group_is_measured_once_for_each_power_of_two():
    model = layers(1).compile()
    for n in range(1, 40):
        model(random(1, n, WIDTH))
    plan = model.specialization(((1, 39, WIDTH),)).plan
    assert len(model._shared.paces) <= len(plan.steps) * (40 * WIDTH * WIDTH).bit_length()


def test_kernels_of_dropped_sizes_leave_onednns_caches(monkeypatch):
    emptied = []
    monkeypatch.setattr(constant_cache, "_dropped", itertools.count(1))
    monkeypatch.setattr(constant_cache, "empty_kernel_caches", lambda: emptied.append(len(called)))
    b = og.GraphBuilder()
    b.output(b.input((-1, 3)).relu())
    model, called = b.compile(max_shapes=2), []
    for rows in range(1, 70):
        called.append(rows)
        model(np.ones((rows, 3), np.float32))
    assert emptied == [66]  # 64 sizes were dropped
