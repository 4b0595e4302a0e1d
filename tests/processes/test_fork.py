"""Forked processes: a child answers, with one thread, or raises; the parent goes on as before.

All programs run in processes of their own, and a child that hangs ends after a time limit and fails
its test.
"""

import multiprocessing
import os
import subprocess

import pytest
from graphs import RUNTIME, SANITIZERS, python

import onednn_graph_py as og

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork")

openmp = pytest.mark.skipif(
    RUNTIME != "OpenMP", reason=f"this oneDNN runs on {RUNTIME}, which children can't use at all"
)
not_openmp = pytest.mark.skipif(
    RUNTIME == "OpenMP", reason="children go on with one of OpenMP's threads"
)

without_asan = pytest.mark.skipif(
    "asan" in SANITIZERS,
    reason="a child waits for the lock of ASan's allocator, which another thread held at the fork",
)

SETUP = """
import os, pickle, signal, sys, threading, traceback, warnings
import numpy as np
import numpy.testing  # in a thread it would leave its import unfinished in a child
import onednn_graph_py as og

# CPython warns of any fork while there are threads.
warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork")
warnings.simplefilter("error", RuntimeWarning)
OURS = "this process was forked from one in which models ran with several threads"
rng = np.random.default_rng(0)
X, W = (rng.standard_normal(s).astype(np.float32) for s in ((96, 128), (128, 160)))
Y = np.maximum(X @ W, 0)

def make(rows=96, **options):
    b = og.GraphBuilder()
    x = b.input((rows, 128), "f32", name="x")
    b.output((x @ b.constant(W)).relu())
    return b.compile(**options)

def right(y):
    np.testing.assert_allclose(y, Y, rtol=1e-4, atol=1e-4)
    return True

def raised(function, *arguments):
    try:
        function(*arguments)
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return "nothing"

def answer(body, fork=os.fork):
    "What `body` returns in a forked child."
    reading, writing = os.pipe()
    pid = fork()
    if pid == 0:
        signal.alarm(120)  # ends a child that hangs
        try:
            os.write(writing, pickle.dumps(body()))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writing)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == 0, f"the child ended with {status}"
    with open(reading, "rb") as file:
        return pickle.load(file)

def warned(function, *arguments, **named):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = function(*arguments, **named)
    return result, [str(w.message) for w in seen if w.category is RuntimeWarning]
"""
TWO = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}


def run(program: str, **env: str) -> str:
    done = python(SETUP + program, env={**TWO, **env})
    assert done.stderr == ""
    return done.stdout


@openmp
def test_a_child_answers_with_one_thread_and_warns_once():
    run(
        """
model, other = make(), make()
right(model(X))

def child():
    first, seen = warned(model, X)
    again, later = warned(model, x=X)
    _, others = warned(other, X)
    out = np.empty_like(Y)
    model(X, out=out)
    return right(first) and right(again) and right(out), seen, later, others, model.threads

fine, seen, later, others, threads = answer(child)
assert fine and len(seen) == 1 and seen[0].startswith(OURS), seen
assert (later, others, threads) == ([], [], 1)
"""
    )


@openmp
def test_the_parent_goes_on_as_before():
    run(
        """
model = make()
bound = model.bind([X])
bound()
before, stats = model(X), model.stats()
for _ in range(3):
    answer(lambda: warned(model, X)[0].shape)
bound()
assert (bound.outputs[0] == before).all() and (model(X) == before).all()
assert (model.threads, og.num_threads(), make().threads) == (2, 2, 2)
after = model.stats()
assert (after.misses, after.shapes, after.calls) == (stats.misses, 1, stats.calls + 2), after
"""
    )


@openmp
def test_models_made_in_a_child_have_one_thread():
    run(
        """
make()(X)

def child():
    (threads, given), seen = warned(lambda: (make().threads, make(threads=2)))
    og.set_num_threads(2)
    return threads, given.threads, og.num_threads(), len(seen), right(given(X))

assert answer(child) == (1, 1, 1, 1, True)
"""
    )


@openmp
def test_unknown_dims_and_functions_in_a_child():
    run(
        """
model = make(-1)

@og.jit
def double(x):
    return (x + x).relu()

model(X), double(X)

def child():
    y, seen = warned(model, X)
    z = model(X[:32])
    return right(y), len(seen), np.allclose(z, Y[:32], atol=1e-4), (double(X) >= 0).all().item()

assert answer(child) == (True, 1, True, True)
"""
    )


@openmp
def test_what_was_compiled_for_two_threads_raises_in_a_child():
    run(
        """
model = make(name="classifier")
bound = model.bind([X])
bound()
lts = [og.logical_tensor(i, "f32", [64, 64], "strided") for i in range(2)]
graph = og.graph("cpu")
graph.add_op(og.op(0, "Tanh", lts[:1], lts[1:], "squash"))
graph.finalize()
(partition,) = graph.get_partitions()
engine = og.engine("cpu", 0)
stream = og.stream(engine)
compiled = partition.compile(lts[:1], lts[1:], engine)
x, y = (og.tensor(lt, engine, np.ones((64, 64), np.float32)) for lt in lts)
execute = compiled.bind(stream, [x], [y])
execute()

def child():
    said = [
        raised(bound), raised(execute), raised(compiled.execute, stream, [x], [y])
    ]
    y.numpy()[...] = 0
    again = partition.compile(lts[:1], lts[1:], engine)
    again.execute(stream, [x], [y])
    rebound, _ = warned(model.bind, [X])
    rebound()
    return said, np.allclose(y.numpy(), np.tanh(1)), right(rebound.outputs[0])

said, fine, rebound = answer(child)
assert fine and rebound
for text, name in zip(said, ("classifier", "Tanh 'squash'", "Tanh 'squash'"), strict=True):
    assert text.startswith("ExecutionError") and name in text, text
    assert "in the parent process, before the fork" in text and "again" in text, text
execute()
"""
    )


@openmp
def test_a_model_that_released_its_constants_raises_in_a_child():
    run(
        """
W = rng.standard_normal((1024, 1024), np.float32)

def model_of(threads):
    b = og.GraphBuilder()
    b.output(b.input((96, 1024), name="x") @ b.constant(W))
    return b.compile(threads=threads)

X = rng.standard_normal((96, 1024), np.float32)
two, one = model_of(2), model_of(1)
Y = one(X)
freed = [m.release_constants() for m in (two, one)]
np.testing.assert_allclose(two(X), Y, rtol=0, atol=1e-3)

def child():
    warnings.simplefilter("ignore", RuntimeWarning)
    return raised(two, X), raised(one, X), np.array_equal(one(X), Y)

of_two, of_one, equal = answer(child)
assert of_one == "nothing" and equal
assert ("release_constants" in of_two) == (freed[0] > 0), (of_two, freed)
assert np.array_equal(one(X), Y)
"""
    )


@openmp
def test_models_with_one_thread_go_on_in_a_child():
    run(
        """
model = make(threads=1)
bound = model.bind([X])
bound()

def child():
    _, seen = warned(bound)
    right(bound.outputs[0])
    before = model.stats().misses
    return right(model(X)), seen, model.stats().misses - before

assert answer(child) == (True, [], 0)
"""
    )


@openmp
def test_a_process_that_ran_nothing_before_keeps_its_threads_in_a_child():
    run(
        """
b = og.GraphBuilder()
b.output(b.input((3,)).relu())
b.graph.finalize() if not b.graph.is_finalized() else None

def child():
    model, seen = warned(make)
    return model.threads, og.num_threads(), right(model(X)), seen

assert answer(child) == (2, 2, True, [])
"""
    )


@openmp
def test_a_child_of_a_child():
    run(
        """
model = make()
model(X)

def child():
    y, _ = warned(model, X)
    return right(y), answer(lambda: (right(model(X)), model.threads))

assert answer(child) == (True, (True, 1))
"""
    )


@openmp
@pytest.mark.parametrize("ran", ["here", "elsewhere"])
def test_a_fork_in_a_thread(ran):
    run(
        f"""
model = make()
if {ran == "elsewhere"}:
    model(X)
said = []

def work():
    if {ran == "here"}:
        model(X)
    said.append(answer(lambda: (right(warned(model, X)[0]), model.threads)))

thread = threading.Thread(target=work)
thread.start()
thread.join()
assert said == [(True, 1)], said
assert right(model(X)) and model.threads == 2
"""
    )


@openmp
def test_a_child_that_python_ends():
    run(
        """
model = make()
right(model(X))
pid = os.fork()
if pid == 0:
    signal.alarm(120)
    right(warned(model, X)[0])
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
"""
    )


@openmp
@pytest.mark.skipif(
    "tsan" in SANITIZERS, reason="TSan crashes where the only thread of a forked process ends"
)
def test_a_child_that_ends_with_its_only_thread():
    run(
        """
model = make()
right(model(X))
pids = []

def work():
    right(model(X))
    pids.append(os.fork())
    if pids[-1] == 0:
        signal.alarm(120)
        right(warned(model, X)[0])

thread = threading.Thread(target=work)
thread.start()
thread.join()
assert os.waitstatus_to_exitcode(os.waitpid(*pids, 0)[1]) == 0
assert right(model(X)) and model.threads == 2
"""
    )


@openmp
@without_asan
def test_children_while_other_threads_call_and_compile():
    run(
        """
fixed, any_rows = make(), make(-1)
stop, wrong = threading.Event(), []

def work(function):
    while not stop.is_set():
        try:
            function()
        except BaseException as e:
            wrong.append(repr(e))
            return

def new_shape():
    rows = int(rng.integers(1, 97))
    np.testing.assert_allclose(any_rows(X[:rows]), Y[:rows], rtol=1e-4, atol=1e-4)

threads = [
    threading.Thread(target=work, args=(f,))
    for f in (lambda: right(fixed(X)), new_shape, lambda: right(make()(X)))
]
for t in threads:
    t.start()

def child():
    warnings.simplefilter("ignore", RuntimeWarning)
    return right(fixed(X)), right(any_rows(X)), right(make()(X))

for _ in range(20):
    assert answer(child) == (True, True, True)
stop.set()
for t in threads:
    t.join()
assert wrong == []
assert right(fixed(X)) and fixed.threads == 2
"""
    )


@openmp
@without_asan
@pytest.mark.parametrize(
    ("starting", "forks"), [(2, 50), pytest.param(4, 150, marks=pytest.mark.slow)]
)
def test_children_while_other_threads_end(starting, forks):
    """In the end of a thread oneDNN takes a lock for each model that the thread called."""
    run(
        f"STARTING, FORKS = {starting}, {forks}"
        """
models = [make(1, threads=1) for _ in range(150)]
stop = threading.Event()

def call_all():
    for model in models:
        model(X[:1])

def start():
    while not stop.is_set():
        thread = threading.Thread(target=call_all)
        thread.start()
        thread.join()

starting = [threading.Thread(target=start) for _ in range(STARTING)]
for t in starting:
    t.start()
# It would wait for a lock that no thread of the child can give back.
for _ in range(FORKS):
    assert answer(lambda: make(2, threads=1)(X[:2]).shape) == (2, 160)
stop.set()
for t in starting:
    t.join()
"""
    )


@openmp
@without_asan
@pytest.mark.parametrize("forks", [60, pytest.param(200, marks=pytest.mark.slow)])
def test_children_while_a_thread_of_another_library_goes_on(forks, tmp_path):
    """Its Python part has ended, which looks like its end; a fork waits for it only so long."""
    source, library = tmp_path / "other.c", tmp_path / "other.so"
    source.write_text(
        """
#include <pthread.h>
#include <unistd.h>
static int ends[2];
static pthread_t thread;
static void *call_and_go_on(void *call) {
    char one;
    ((void (*)(void))call)();
    read(ends[0], &one, 1);
    return 0;
}
int begin(void (*call)(void)) {
    return pipe(ends) || pthread_create(&thread, 0, call_and_go_on, (void *)call);
}
int end(void) { return write(ends[1], "", 1) != 1 || pthread_join(thread, 0); }
"""
    )
    subprocess.check_call(["cc", "-shared", "-fPIC", "-o", library, source, "-lpthread"])
    run(
        f"""
import ctypes, time
other = ctypes.CDLL({str(library)!r})
other.begin.argtypes = [CALL := ctypes.CFUNCTYPE(None)]
model, called = make(1, threads=1), threading.Event()

@CALL
def call():
    model(X[:1])
    called.set()

assert other.begin(call) == 0
assert called.wait(60)
for _ in range({forks}):
    assert answer(lambda: make(2, threads=1)(X[:2]).shape) == (2, 160)
assert other.end() == 0
assert answer(lambda: make(2, threads=1)(X[:2]).shape) == (2, 160)
"""
    )


@openmp
def test_a_fork_while_another_thread_holds_a_model():
    run(
        """
from onednn_graph_py.model.running import model as running
model, plan = make(-1), running.make_plan
model(X[:8])
inside, go_on = threading.Event(), threading.Event()

def slow(*args, **options):
    inside.set()
    assert go_on.wait(60)
    return plan(*args, **options)

running.make_plan = slow
thread = threading.Thread(target=lambda: right(model(X)))
thread.start()
assert inside.wait(60)

def child():
    running.make_plan = plan
    return right(warned(model, X)[0])

assert answer(child) is True
go_on.set()
thread.join()
assert model.stats().shapes == 2
"""
    )


@openmp
def test_a_fork_in_a_step_that_python_computes():
    run(
        """
from onednn_graph_py.model.planning import partitions, work
from onednn_graph_py.reference import registry
groups = partitions.groups
partitions.groups = lambda draft, nodes: [
    (members, None if members[0].kind == "Abs" else partition)
    for members, partition in groups(draft, nodes)
]
parent, fork, pids = os.getpid(), [], []
compute = registry._IMPLEMENTATIONS["Abs"]

def forking(*args):
    if fork:
        pids.append(fork.pop()())
        if os.getpid() != parent:
            signal.alarm(120)
    return compute(*args)

registry._IMPLEMENTATIONS["Abs"] = forking
b = og.GraphBuilder()
b.output((b.input((96, 128)).relu().abs() + 1.0).square())
work.brief_groups = False
model = b.compile(policy="debug", warn=False, name="stepwise")
work.brief_groups = True
expected = model(X)
fork.append(os.fork)
said = raised(model, X)
if os.getpid() != parent:  # the child goes on where the parent was
    again = (warned(model, X)[0] == expected).all()
    os._exit(0 if again and said.startswith("ExecutionError: stepwise") else 1)
assert said == "nothing"
assert os.waitstatus_to_exitcode(os.waitpid(*pids, 0)[1]) == 0
assert (model(X) == expected).all()
"""
    )


@openmp
def test_a_fork_that_python_does_not_know_of_while_a_thread_is_inside_onednn():
    run(
        """
import ctypes
model = make()
model(X)
libc = ctypes.CDLL(None)
libc.aligned_alloc.restype = ctypes.c_void_p
inside, go_on = threading.Event(), threading.Event()

def malloc(size, alignment):
    inside.set()
    assert go_on.wait(60)
    return libc.aligned_alloc(max(alignment, 64), -(-size // 64) * 64)

engine = og.make_engine_with_allocator("cpu", 0, og.allocator(malloc, lambda address: None))
lt = og.logical_tensor(0, "f32", [64], "strided")
thread = threading.Thread(target=lambda: og.tensor(lt, engine))
thread.start()
assert inside.wait(60)

def child():
    return [
        raised(model, X), raised(make), raised(og.get_primitive_cache_capacity),
        raised(og.graph("cpu").finalize),
    ]

for said in answer(child, ctypes.PyDLL(None).fork):
    assert said.startswith("ExecutionError") and "another thread of the parent" in said, said
go_on.set()
thread.join()
assert right(model(X))
"""
    )


@openmp
def test_processes_of_this_package_stay_the_parents():
    run(
        """
import operator
from onednn_graph_py.base.processes import Isolated
with Isolated() as helper:
    assert helper.call(operator.add, 1, 2, timeout=60) == ("returned", 3)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(120)
        assert helper.call(operator.add, 3, 4, timeout=60) == ("returned", 7)
        os.close(writing)
        os.read(reading, 1)  # lives on while the parent ends its helper
        os._exit(0)
    assert helper.call(operator.add, 5, 6, timeout=60) == ("returned", 11)
os.close(writing)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
    )


POOL = """
import multiprocessing
model = make()
before = model(X)
warnings.simplefilter("ignore", RuntimeWarning)

def called(rows):
    return model(X), model.threads

pool = multiprocessing.get_context(METHOD).Pool(2)
with pool:
"""


@openmp
def test_a_pool_by_fork():
    run(
        "METHOD = 'fork'\n"
        + POOL
        + """
    for y, threads in pool.map_async(called, range(8)).get(60):
        assert right(y) and threads == 1
    for y in pool.map_async(model, [X] * 4).get(60):  # it is pickled
        right(y)
assert (model(X) == before).all() and model.threads == 2
"""
    )


@openmp
@pytest.mark.parametrize(
    "method", sorted({"spawn", "forkserver"} & set(multiprocessing.get_all_start_methods()))
)
def test_pools_by_other_methods_keep_all_threads(method):
    run(
        f"METHOD = {method!r}\n"
        + POOL
        + """
    assert pool.apply_async(getattr, (model, "threads")).get(60) == 2
    assert pool.apply_async(og.num_threads).get(60) == 2
    for y in pool.map_async(model, [X] * 4).get(60):
        assert (y == before).all()
"""
    )


@not_openmp
def test_a_child_raises_where_the_runtime_does_not_survive():
    run(
        """
model = make()
before = model(X)
bound = model.bind([X])
lts = [og.logical_tensor(i, "f32", [64], "strided") for i in range(2)]
engine = og.engine("cpu", 0)
partition = og.partition(og.op(0, "ReLU", lts[:1], lts[1:], "relu"), "cpu")

def child():
    return [
        raised(model, X), raised(bound), raised(make), raised(og.engine, "cpu", 0),
        raised(og.stream, engine), raised(partition.compile, lts[:1], lts[1:], engine),
        raised(og.tensor, lts[0], engine), raised(og.set_constant_tensor_cache_capacity, "cpu", 64),
    ]

for said in answer(child):
    assert said.startswith("ExecutionError") and "does not survive a fork" in said, said
assert (model(X) == before).all()
"""
    )


@not_openmp
def test_a_child_may_use_a_runtime_that_the_parent_did_not():
    run("assert answer(lambda: right(make()(X))) is True")


def test_the_calls_of_a_process_without_forks_are_not_refused():
    assert og.num_threads() >= 1
    assert not og._core._has_one_thread()
