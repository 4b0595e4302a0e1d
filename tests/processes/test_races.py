"""Eight threads use one object of each public class at once: right results, or typed errors."""

import inspect
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soak
import stateful_calls as calls
import stateful_subjects as subjects
from graphs import RUNTIME, host_memory, in_threads, python, relu_op

import onednn_graph_py as og

THREADS, ROUNDS = 8, 12
SOAK = soak.__file__
PAGES = 2048  # 8 MB of 110

# What never changes once it is made, so that nothing can race.
VALUES = {
    "CacheInfo", "Comparison", "Device", "Devices", "Diagram",
    "Explanation", "OutputCheck", "Stats", "Step", "Value", "Verification",
    "accumulation_mode", "cpu_isa", "cpu_isa_hints", "fpmath_mode", "graph_dump_mode", "status",
    "version_t",
}  # fmt: skip
# Raced in test_profile.py.
ELSEWHERE = {"Profile"}

RACES: dict[str, list[Callable[[], Callable[[int], object]]]] = {}


def race(name: str):
    """Register what makes an object, and returns what thread `i` does with it."""

    def register(make: Callable[[], Callable[[int], object]]):
        RACES.setdefault(name, []).append(make)
        return make

    return register


def refuses(call: Callable[[], object]) -> bool:
    try:
        call()
    except og.OneDNNError as error:
        assert str(error)
        return True
    return False


# -- the mirror ------------------------------------------------------------------------------------


@race("logical_tensor")
def a_logical_tensor_is_read():
    lt, equal = (og.logical_tensor(3, "f32", [4, og.UNKNOWN_DIM, 8], "any") for _ in range(2))

    def work(i):
        assert lt == equal
        assert lt.get_dims() == [4, og.UNKNOWN_DIM, 8]
        assert repr(lt) == repr(equal)

    return work


@race("op")
def an_op_gets_attributes_and_inputs():
    op = og.op(0, "MatMul", "matmul")

    def work(i):
        op.set_attr("transpose_a", bool(i & 1))
        op.add_input(og.logical_tensor(i, "f32", [2, 2], "strided"))
        assert set(op.get_attrs()) <= {"transpose_a", "transpose_b"}
        repr(op)

    return work


@race("graph")
def a_graph_takes_ops_and_is_finalized():
    graph = og.graph("cpu")

    def work(i):
        refuses(lambda: graph.add_op(relu_op(2 * i)))  # it has that op, or is finalized
        graph.finalize()
        assert 1 <= len(graph.get_partitions()) <= THREADS
        assert len(graph.get_ops()) >= len(graph.get_partitions())

    return work


@race("partition")
def a_partition_is_compiled_for_many_shapes():
    draft = subjects.make_draft("matmul", -1)
    draft.graph.finalize()
    engine = og.engine("cpu", 0)
    return lambda i: calls.execute(subjects.compile_draft(draft, engine, i + 1), i)


def compiled(kind: str = "matmul", engine: og.engine | None = None) -> subjects.Compiled:
    draft = subjects.make_draft(kind, 8)
    draft.graph.finalize()
    return subjects.compile_draft(draft, engine or og.engine("cpu", 0), 8)


@race("compiled_partition")
def a_compiled_partition_is_executed():
    one = compiled()
    return lambda i: calls.use(one, i)


@race("stream")
def a_stream_takes_executions():
    one = compiled()
    return lambda i: calls.execute(one, i)


@race("engine")
def an_engine_compiles_and_ends():
    engine = og.engine("cpu", 0)

    def work(i):
        calls.execute(compiled(engine=engine), i)
        og.stream(engine).wait()
        assert og.tensor(og.logical_tensor(0, "f32", [2], "strided"), engine).get_engine() == engine

    return work


@race("allocator")
def an_allocator_serves_many_engines():
    if RUNTIME == "SYCL":
        pytest.skip(host_memory.kwargs["reason"])
    allocator = og.allocator()

    def work(i):
        engine = og.make_engine_with_allocator("cpu", 0, allocator)
        calls.execute(compiled(engine=engine), i)

    return work


@race("tensor")
def a_tensor_gets_other_memory_while_it_is_in_use():
    one = compiled("relu")
    arrays = one.inputs(0)
    out = np.empty(one.out_shape, np.float32)
    (src,), (dst,) = one.tensors(arrays, out)
    right = one.draft.compute(arrays)
    one.compiled.execute(one.stream, [src], [dst])
    one.stream.wait()

    def work(i):
        if i % 2:
            refuses(lambda: src.set_data_handle(arrays[0].copy()))  # while it is in use
        else:
            own = np.empty(one.out_shape, np.float32)
            result = og.tensor(dst.get_logical_tensor(), one.engine, own)
            one.compiled.execute(og.stream(one.engine), [src], [result])
            np.testing.assert_array_equal(own, right)
        np.testing.assert_array_equal(src.numpy(), arrays[0])

    return work


@race("bound_execution")
def a_bound_execution_is_called():
    one = compiled()
    bound = calls.bind_partition(one, 0)
    check = bound.fill(1, False)

    def work(i):
        bound.run()
        one.stream.wait()

    # Kernels may write what is not yet the result, which another thread's check would see.
    return work, check


# -- models ----------------------------------------------------------------------------------------


@race("GraphBuilder")
def a_builder_is_compiled():
    constants = [subjects.whole(np.random.default_rng(0), 256, 256)]
    recipe = subjects.RECIPES["wide"]
    builder = recipe.build(-1, constants)

    def work(i):
        model = builder.compile(slow_fusions="run")
        calls.call_model(subjects.Subject(recipe, constants, model, -1), i)

    return work


@race("CompiledGraph")
@race("bound_model")
def models_are_called_bound_pickled_and_dropped():
    made = [
        subjects.make_subject(name, -1, 5, slow_fusions="run", max_shapes=2)
        for name in subjects.RECIPES
    ]
    run = calls.bind_model(made[0], 3, 4)
    check = run.fill(4, False)

    def work(i):
        subject = made[i % len(made)]
        calls.use(subject, i)
        calls.use(calls.unpickled(subject), i)
        subject.model.stats()
        run.run()
        check()
        og.clear_caches()

    return work


@race("CompiledGraph")
def a_model_has_a_cache_of_keys_for_each_thread():
    b = og.GraphBuilder()
    cache = og.blocks.kv_cache(b, layers=1, batch=1, heads=2, size=4)
    q, k, v = (b.input((1, 2, -1, 4), "f32", name=n) for n in "qkv")
    b.output(cache.attend(q, k, v))
    model = b.compile(slow_fusions="run")
    memories = [cache.allocate(ROUNDS) for _ in range(THREADS)]

    def work(i):
        x = np.full((1, 2, 1, 4), 0.01 * (i + 1), np.float32)
        made = memories[i].call(model, 1, q=x, k=x, v=x)  # an average of equal values
        np.testing.assert_allclose(made, x, rtol=1e-5)

    return work


@race("CompiledGraph")
def a_model_releases_its_constants():
    made = subjects.make_subject("wide", -1, 5, slow_fusions="run")
    calls.call_model(made, 0, 4)

    def work(i):
        if i == 0:
            calls.release(made)
        calls.call_model(made, i, 4)
        if made.released:
            calls.refused(lambda: pickle.dumps(made.model), og.InvalidArgumentsError)

    return work


# -- the tests -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [pytest.param(make, id=make.__name__) for makes in RACES.values() for make in makes],
)
def test_threads_race(make):
    made = make()
    if isinstance(made, tuple):
        work, check = made
        for _ in range(ROUNDS):
            in_threads(THREADS, work)
            check()
        return

    def body(i):
        for _ in range(ROUNDS):
            made(i)

    in_threads(THREADS, body)


def test_of_ops_with_one_id_a_graph_takes_one():
    for _ in range(50):
        graph, refused = og.graph("cpu"), []

        def body(i, graph=graph, refused=refused):
            refused.append(refuses(lambda: graph.add_op(relu_op(0))))

        in_threads(THREADS, body)
        assert refused.count(False) == 1
        graph.finalize()
        assert len(graph.get_ops()) == 1


@pytest.fixture
def threads_take_turns_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_a_builder_loses_no_op_of_threads_that_add_at_once(threads_take_turns_often):
    """It promises nothing to them, as names and the order of constants vary."""
    for _ in range(5):
        builder, sums = og.GraphBuilder(), {}
        x = builder.input((2, 8), name="x")

        def body(i, x=x, sums=sums):
            y = x
            for _ in range(ROUNDS):
                y = y + float(i)
                assert refuses(lambda y=y: y + np.ones((3, 3), np.float32))
            sums[f"sum{i}"] = y

        in_threads(THREADS, body)
        assert len(builder.constants) == len(builder.nodes) == THREADS * ROUNDS
        builder.output(**dict(sorted(sums.items())))
        results = builder.compile(slow_fusions="run")(np.zeros((2, 8), np.float32))
        assert [set(r.flat) for r in results] == [{float(ROUNDS * i)} for i in range(THREADS)]


def test_every_public_class_is_raced():
    classes = {
        name
        for name in og.__all__
        if inspect.isclass(getattr(og, name)) and not issubclass(getattr(og, name), BaseException)
    }
    assert classes - VALUES == set(RACES) | ELSEWHERE


def model_of(builder):
    model = builder.compile(slow_fusions="run")
    return lambda source: model(source)


def partition_of(builder):
    """The same through the mirror, on a stream for each call."""
    engine = og.engine("cpu", 0)
    (partition,) = builder.graph.get_partitions()
    ins, outs = partition.get_input_ports(), partition.get_output_ports()
    compiled = partition.compile(ins, outs, engine)
    constants = {v.id: v.data for v in builder.constants}

    def run(source):
        result = np.empty((3, 8), np.float32)
        given = [og.tensor(lt, engine, constants.get(lt.get_id(), source)) for lt in ins]
        compiled.execute(og.stream(engine), given, [og.tensor(outs[0], engine, result)])
        return result

    return run


@pytest.mark.parametrize("prepare", [model_of, partition_of])
def test_the_first_calls_find_scales_and_weights_where_they_belong(prepare):
    """Over SYCL oneDNN lets others read a scale in its cache before it is copied there."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        weights = rng.integers(-4, 5, (16, 8)).astype(np.int8)
        source = rng.integers(0, 5, (3, 16)).astype(np.uint8)
        b = og.GraphBuilder()
        x = b.input((3, 16), "u8").dequantize(scales=[1.0], zps=[0], qtype="per_tensor")
        w = b.constant(weights).dequantize(scales=[0.5], zps=[0], qtype="per_tensor")
        b.output(x @ w)
        run, results = prepare(b), []
        in_threads(4, lambda i, run=run, to=results, x=source: to.append(run(x)))
        expected = source.astype(np.float32) @ weights.astype(np.float32) / 2
        assert [r for r in results if not np.array_equal(r, expected)] == []
        assert len(results) == 4


def test_a_kernel_stays_until_the_threads_that_ran_it_have_ended():
    """oneDNN forgets a thread and a kernel at once, and writes out of bounds: SIGSEGV.

    Here a thread sleeps between the end of its Python part and the end of what oneDNN keeps for it.
    """
    python("""
        import ctypes
        import threading
        import numpy as np
        import onednn_graph_py as og

        libc = ctypes.CDLL(None)
        at_end = libc.__cxa_thread_atexit_impl
        at_end.argtypes = [ctypes.c_void_p] * 3
        engine = og.engine("cpu", 0)
        lts = [og.logical_tensor(i, "f32", [3, 16], "strided") for i in range(2)]
        g = og.graph("cpu")
        g.add_op(og.op(0, "ReLU", lts[:1], lts[1:], "relu"))
        g.finalize()
        (partition,) = g.get_partitions()
        kernels = [partition.compile(lts[:1], lts[1:], engine)]
        ended = ctypes.create_string_buffer(64)  # a semaphore
        libc.sem_init(ended, 0, 0)

        def run():
            arrays = [og.tensor(lt, engine, np.ones((3, 16), np.float32)) for lt in lts]
            kernels[0].execute(og.stream(engine), arrays[:1], arrays[1:])
            # The last comes first, and both before what is older.
            at_end(ctypes.cast(libc.sem_post, ctypes.c_void_p), ctypes.addressof(ended), None)
            at_end(ctypes.cast(libc.usleep, ctypes.c_void_p), 50_000, None)

        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive():  # join waits for the end of all, from Python 3.13 on
            pass
        kernels.clear()
        assert libc.sem_trywait(ended) == 0, "the kernel went before the thread's end"
    """)


@pytest.mark.parametrize("seconds", [4, pytest.param(600, marks=pytest.mark.slow)])
def test_eight_threads_get_right_results_and_nothing_grows(tmp_path, seconds):
    done = subprocess.run(
        [sys.executable, SOAK, str(seconds), str(THREADS)],
        cwd=tmp_path,
        env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
        capture_output=True,
        text=True,
        timeout=seconds + 300,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    seen = json.loads(done.stdout)
    assert seen["calls"] > 20 * THREADS
    assert seen["compiled"] >= THREADS
    assert max(seen["tasks"][10:]) <= max(seen["tasks"][:10])
    # What is in use varies; what nobody gives back stays in the least of it, too.
    assert min(seen["files"][10:]) <= min(seen["files"][:10])
    if seconds >= 60:
        early, late = (min(seen["pages"][part]) for part in (slice(2, 10), slice(10, 20)))
        assert late - early < PAGES, seen["pages"]


POISON = f"""
import itertools, sys, threading, time
sys.path.insert(0, {str(Path(SOAK).parent)!r})
import onednn_graph_py as og
import stateful_subjects as subjects

draft, engine = subjects.make_draft("matmul", -1), og.engine("cpu", 0)
draft.graph.finalize()
end = time.monotonic() + 2

def work(i):
    for k in itertools.count():
        subjects.compile_draft(draft, engine, 1 + (8 * k + i) % 97)
        if i == 0:
            og.set_compiled_partition_cache_capacity(4)  # all but a few are dropped
            og.set_compiled_partition_cache_capacity(1024)
        if time.monotonic() > end:
            return

threads = [threading.Thread(target=work, args=(i,)) for i in range({THREADS})]
[t.start() for t in threads], [t.join() for t in threads]
og.set_compiled_partition_cache_capacity(0)
"""


def test_what_threads_partition_and_compile_leaves_the_cache():
    """oneDNN searches without end for an entry whose ops were changed when it was stored."""
    python(POISON, seconds=60)
