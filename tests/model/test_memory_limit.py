"""`memory_limit`: what a model takes stays below it, or a typed error says what does not fit."""

import contextlib
import gc
import pickle
import re

import numpy as np
import pytest
from graphs import in_threads

import onednn_graph_py as og


def graph():
    """Its intermediate tensors grow with the rows; a host step keeps them apart."""
    b = og.GraphBuilder()
    x = b.input((-1, 24), name="x")
    w = np.random.default_rng(3).uniform(-1, 1, (24, 40)).astype(np.float32)
    b.output(y=np.cumsum(x @ w, axis=-1).relu() @ w.T.copy())
    return b


def rows(count):
    return np.random.default_rng(count).uniform(-1, 1, (count, 24)).astype(np.float32)


@pytest.fixture(scope="module")
def sizes():
    """The bytes of the constants, and of the intermediate tensors of some numbers of rows."""
    model = graph().compile()
    constants = model.stats().memory_bytes
    arenas = {n: model.specialization(((n, 24),)).plan.arena_bytes for n in (5, 50, 70, 300)}
    assert constants == 2 * 24 * 40 * 4
    assert 0 < arenas[5] < arenas[50] < arenas[70] < arenas[300]
    return constants, arenas


def test_a_limit_below_the_constants_is_refused_with_both_numbers(sizes):
    constants, _ = sizes
    with pytest.raises(
        og.InvalidArgumentsError, match=f"is {constants - 1:,} bytes.*{constants:,}"
    ):
        graph().compile(memory_limit=constants - 1)


def test_a_size_that_does_not_fit_raises_and_others_go_on(sizes):
    constants, arenas = sizes
    model = graph().compile(memory_limit=constants + arenas[70])
    expected = graph().compile()
    np.testing.assert_array_equal(model(rows(50)), expected(rows(50)))
    text = f"a call of 300x24 needs {arenas[300]:,}, its constants take {constants:,}"
    with pytest.raises(og.OutOfMemoryError, match=re.escape(text)):
        model(rows(300))
    assert model.sizes == (((50, 24),),)  # it was not dropped in vain
    np.testing.assert_array_equal(model(rows(70)), expected(rows(70)))


def test_sizes_are_dropped_to_make_room_the_least_recently_used_first(sizes):
    constants, arenas = sizes
    limit = constants + arenas[50] + arenas[70]
    model = graph().compile(memory_limit=limit)
    for n in (50, 5, 50, 70):
        model(rows(n))
        assert model.stats().memory_bytes <= limit
    assert model.sizes == (((50, 24),), ((70, 24),))
    assert model.stats().evictions == 1


def test_calls_at_once_take_no_more_than_the_limit():
    def run(extra):
        """Call from within a host step: two calls at once, without luck."""
        b = og.GraphBuilder()
        x = b.input((70, 24), name="x")
        inner = []

        def step(a):
            if len(inner) < 2:
                inner.append(None)
                inner[-1] = model(rows(70))
            return a

        b.output(y=b.call(step, x.relu(), outputs=[((70, 24), "f32")]).tanh())
        arena = b.compile().specialization(((70, 24),)).plan.arena_bytes
        model = b.compile(memory_limit=arena * 3 - extra)
        return model, inner

    model, inner = run(0)
    np.testing.assert_allclose(model(rows(70)), np.tanh(np.maximum(rows(70), 0)), rtol=1e-5)
    assert len(inner) == 2
    model, _ = run(1)
    with pytest.raises(og.OneDNNError, match="one more call at a time needs"):
        model(rows(70))
    assert model.stats().memory_bytes > 0


def test_arrays_that_are_bound_hold_memory_too(sizes):
    constants, arenas = sizes
    model = graph().compile(memory_limit=constants + arenas[70])
    bound = model.bind([rows(70)])
    bound()
    with pytest.raises(og.OutOfMemoryError, match="one more call at a time"):
        model(rows(70))
    with pytest.raises(og.OutOfMemoryError, match="compiled sizes"):
        model(rows(50))  # the size is dropped, but what is bound lives
    del bound
    gc.collect()
    np.testing.assert_array_equal(model(rows(50)), graph().compile()(rows(50)))


def test_threads_that_call_at_once_stay_below_the_limit(sizes):
    constants, arenas = sizes
    limit = constants + 2 * arenas[50]
    model = graph().compile(memory_limit=limit, threads=1)
    expected = model(rows(50))
    refused, most = [], []

    def call(_):
        for _ in range(20):
            try:
                np.testing.assert_array_equal(model(rows(50)), expected)
            except og.OutOfMemoryError as e:
                refused.append(str(e))
            most.append(model.stats().memory_bytes)

    in_threads(6, call)
    assert max(most) <= limit
    assert len(refused) < len(most)


def test_threads_that_compile_at_once_stay_below_the_limit(sizes):
    constants, arenas = sizes
    limit = constants + arenas[70] + arenas[50]
    model = graph().compile(memory_limit=limit, threads=1)
    expected = [(n, graph().compile(threads=1)(rows(n))) for n in (5, 50, 70, 70)]
    most = []

    def call(i):
        n, right = expected[i]
        for _ in range(10):
            with contextlib.suppress(og.OutOfMemoryError):
                np.testing.assert_array_equal(model(rows(n)), right)
            most.append(model.stats().memory_bytes)

    in_threads(4, call)
    assert max(most) <= limit


@pytest.mark.parametrize("limit", ["1 GB", 1.5, True, [7], float("nan")])
def test_a_limit_is_a_whole_number(limit):
    with pytest.raises(TypeError, match=r"model: memory_limit must be a number of bytes, got"):
        graph().compile(memory_limit=limit)


def test_constants_that_are_folded_count(sizes):
    b = og.GraphBuilder()
    x = b.input((3, 8), name="x")
    w = np.random.default_rng(1).integers(-9, 9, (8, 2000)).astype(np.int8)
    scales = np.linspace(0.1, 0.2, 2000)
    b.output(
        x @ b.constant(w).dequantize(scales=scales, zps=[0] * 2000, qtype="per_channel", axis=1)
    )
    with pytest.raises(og.OutOfMemoryError, match="its constants take 80,000"):
        b.compile(memory_limit=w.nbytes + 1000, warn=False)


def test_a_limit_goes_with_pickles_files_and_threads(sizes, tmp_path):
    constants, arenas = sizes
    model = graph().compile(memory_limit=constants + arenas[50])
    model(rows(5))
    model.save(tmp_path / "m.og")
    for other in (
        pickle.loads(pickle.dumps(model)),
        og.load(tmp_path / "m.og"),
        model.with_threads(1),
    ):
        other(rows(5))
        with pytest.raises(og.OutOfMemoryError):
            other(rows(300))


def test_a_size_of_0_takes_nothing_and_goes_into_files(sizes, tmp_path):
    constants, arenas = sizes
    model = graph().compile(memory_limit=constants + arenas[5])
    for _ in range(2):
        assert model(rows(5)).shape == (5, 24)
        assert model(rows(0)).shape == (0, 24)
    assert {s[0][0] for s in model.sizes} == {0, 5}
    model.save(tmp_path / "m.og")
    loaded = og.load(tmp_path / "m.og")
    assert loaded.sizes == model.sizes
    assert loaded(rows(0)).shape == (0, 24)
