"""Objects die in any order, and nothing is left behind."""

import os
import time

import pytest
from graphs import RUNTIME, python

# OpenMP's threads sleep between kernels instead of spinning, which on a busy machine takes long.
PATIENT = {"OMP_WAIT_POLICY": "PASSIVE"}

SETUP = """
import gc, itertools, os, sys
import numpy as np
import onednn_graph_py as og
LT = og.logical_tensor

def make():
    src, dst = (LT(i, "f32", [64, 64], "strided") for i in range(2))
    op = og.op(0, "ReLU", [src], [dst], "relu")
    graph = og.graph("cpu")
    graph.add_op(op)
    graph.finalize()
    (partition,) = graph.get_partitions()
    engine = og.engine("cpu", 0)
    stream = og.stream(engine)
    compiled = partition.compile([src], [dst], engine)
    x, y = og.tensor(src, engine), og.tensor(dst, engine)
    x.numpy()[...] = -1
    bound = compiled.bind(stream, [x], [y])
    bound()
    stream.wait()
    view = y.numpy()
    assert (view == 0).all()
    return dict(op=op, graph=graph, partition=partition, engine=engine, stream=stream,
                compiled=compiled, x=x, y=y, bound=bound, view=view)
"""


def test_objects_die_in_any_order():
    # 10 objects have too many orders to try all: each one is the first, the last, and every pair
    # dies in both orders.
    python(
        SETUP
        + """
names = list(make())
orders = [names, names[::-1]]
orders += [[first, *(n for n in names if n != first)] for first in names]
orders += [[*(n for n in names if n != last), last] for last in names]
for a, b in itertools.permutations(names, 2):
    orders.append([a, *(n for n in names if n not in (a, b)), b])
for order in orders:
    objects = make()
    for name in order:
        del objects[name]
        if "view" in objects:
            assert (objects["view"] == 0).all()
        if "bound" in objects:
            objects["bound"]()
""",
        env=PATIENT,
    )


@pytest.mark.parametrize(
    "held",
    [
        "everything = make()",
        "view = make()['view']",
        "bound = make()['bound']",
        "compiled = make()['compiled']",
        "capsule = make()['y'].__dlpack__()",
        "sys.modules['kept'] = make()",
        "a = [make()]; a.append(a)",
        "class C:\n    objects = make()\n    def __del__(self): self.objects.clear()\nc = C()",
        "np.kept = make()",
        "os.kept = [make() for _ in range(3)]",
    ],
)
def test_the_interpreter_ends_with_living_objects(held):
    done = python(SETUP + held + "\nprint('end', flush=True)\n")
    assert done.stdout == "end\n"
    assert done.stderr == ""


@pytest.mark.parametrize("call", ["execute", "compile"])
def test_the_interpreter_ends_while_a_daemon_thread_works(call):
    body = {
        "execute": "objects['bound']()",
        "compile": "objects['partition'].compile(objects['partition'].get_input_ports(), "
        "objects['partition'].get_output_ports(), objects['engine'])",
    }[call]
    program = f"""
import threading, time
objects = make()
def work():
    while True:
        {body}
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.2)
print("end", flush=True)
"""
    done = python(SETUP + program)
    assert done.stdout == "end\n"


def test_an_exit_in_the_middle_of_a_with_block_of_errors_is_clean():
    done = python(
        SETUP
        + """
objects = make()
try:
    objects["compiled"].execute(objects["stream"], [], [])
except og.InvalidArgumentsError as error:
    sys.exit(3 if "expected 1 inputs" in str(error) else 4)
""",
        check=False,
    )
    assert done.returncode == 3
    assert done.stderr == ""


def test_a_subinterpreter_or_a_second_import_changes_nothing():
    python(
        SETUP
        + """
import importlib
objects = make()
importlib.reload(og)
objects["bound"]()
assert og.engine is type(objects["engine"])
"""
    )


def test_a_fork_can_build_and_drop_graphs():
    # oneDNN's own threads don't survive a fork; what needs none of them does.
    python(
        SETUP
        + """
objects = make()
pid = os.fork()
if pid == 0:
    objects.clear()
    gc.collect()
    graph = og.graph("cpu")
    graph.finalize()
    os._exit(0 if graph.get_partitions() == [] else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""
    )


def test_failing_calls_leave_no_references():
    python(
        SETUP
        + """
import weakref
class Array(np.ndarray):
    pass
objects = make()
lt = LT(0, "f32", [5], "strided")
for source in (np.zeros(6, np.float32), np.zeros(5, np.int8)):
    mine = source.view(Array)
    seen = weakref.ref(mine)
    try:
        og.tensor(lt, objects["engine"], mine)
    except og.OneDNNError:
        pass
    else:
        raise SystemExit("not refused")
    del mine
    gc.collect()
    assert seen() is None
before = sys.getrefcount(objects["x"])
for _ in range(50):
    try:
        objects["compiled"].execute(objects["stream"], [objects["x"]] * 3, [objects["y"]])
    except og.OneDNNError:
        pass
assert sys.getrefcount(objects["x"]) == before
"""
    )


MODELS = """
import atexit, os, sys, threading, time
import numpy as np
import onednn_graph_py as og

X = np.linspace(-1, 1, 256 * 256, dtype=np.float32).reshape(256, 256)

def make(**options):
    b = og.GraphBuilder()
    x = b.input((256, 256), "f32", name="x")
    b.output(((x @ b.constant(X)).softmax(axis=1) @ x).relu())
    return b.compile(**options)

model = make()
Y = model(X)
bound = model.bind([X])

def right():
    bound()
    assert (model(X) == Y).all() and (bound.outputs[0] == Y).all()
    return True

def work(times=None):
    while times is None or times:
        right()
        times = times and times - 1
"""

# What a program does at its end, and what it still prints.
ENDS = {
    "threads go on": (
        "for _ in range(3):\n    threading.Thread(target=work, args=(20,)).start()\n"
        "print('end', flush=True)",
        "end\n",
    ),
    "daemons go on": (
        "for _ in range(3):\n    threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(0.2)\nprint('end', flush=True)",
        "end\n",
    ),
    "daemons compile": (
        "for _ in range(2):\n"
        "    threading.Thread(target=lambda: [make() for _ in range(1000)], daemon=True).start()\n"
        "time.sleep(0.2)\nprint('end', flush=True)",
        "end\n",
    ),
    "atexit": ("atexit.register(lambda: print(right(), flush=True))", "True\n"),
    "atexit while daemons go on": (
        "threading.Thread(target=work, daemon=True).start()\n"
        "atexit.register(lambda: print(right(), flush=True))",
        "True\n",
    ),
    "atexit compiles": ("atexit.register(lambda: print((make()(X) == Y).all()))", "True\n"),
    "before threads are joined": (
        "threading._register_atexit(lambda: print(right(), flush=True))",
        "True\n",
    ),
    "thread-local models": (
        "local = threading.local()\n"
        "def kept():\n    local.model = make()\n    local.bound = local.model.bind([X])\n"
        "    local.bound()\n    time.sleep(600)\n"
        "threading.Thread(target=kept, daemon=True).start()\ntime.sleep(0.3)\nprint('end')",
        "end\n",
    ),
    "a call by what dies last": (
        "class Last:\n"
        "    def __init__(self):\n"
        "        self.calls, self.x, self.write = [bound, model], X, os.write\n"
        "    def __del__(self):\n"
        "        self.calls[0]()\n        self.calls[1](self.x)\n"
        "        self.write(1, b'last\\n')\n"
        "last = Last()",
        "last\n",
    ),
    "a fork that ends as programs do": (
        "import warnings\nwarnings.simplefilter('ignore')\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    sys.exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), right())",
        "7 True\n",
    ),
    "a fork of a daemon's process": (
        "import warnings\nwarnings.simplefilter('ignore')\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n    sys.exit(8)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), right())",
        "8 True\n",
    ),
}


@pytest.mark.parametrize("how", ENDS)
def test_the_interpreter_ends_with_living_models(how):
    if "fork" in how and RUNTIME == "SYCL":
        pytest.skip("SYCL's runtime hangs in C's exit() of a forked process")
    program, said = ENDS[how]
    done = python(MODELS + program, env=PATIENT)
    assert done.stdout == said
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("leaves", "status"),
    [
        ("os._exit(5)", 5),
        ("threading.Thread(target=os._exit, args=(6,)).start(); time.sleep(600)", 6),
        ("sys.exit(9)", 9),
        ("import signal; os.kill(os.getpid(), signal.SIGTERM); time.sleep(600)", -15),
    ],
)
def test_a_status_is_kept_while_calls_go_on(leaves, status):
    program = "for _ in range(2):\n    threading.Thread(target=work, daemon=True).start()\n"
    done = python(MODELS + program + "time.sleep(0.1)\n" + leaves, env=PATIENT, check=False)
    assert done.returncode == status
    assert done.stderr == ""


def test_an_exit_in_a_host_step_is_that_of_the_program():
    done = python(
        MODELS
        + """
def leave(x):
    sys.exit(11)
b = og.GraphBuilder()
x = b.input((256, 256), "f32", name="x")
b.output(b.call(leave, x.relu(), outputs=[((256, 256), "f32")], name="leaving"))
leaving = b.compile()
caught = []
def in_thread():
    try:
        leaving(X)
    except SystemExit as e:
        caught.append(e.code)
thread = threading.Thread(target=in_thread)
thread.start()
thread.join()
assert caught == [11] and right()
leaving(X)
""",
        env=PATIENT,
        check=False,
    )
    assert done.returncode == 11
    assert done.stderr == ""


def test_a_dump_of_all_threads_during_calls_disturbs_none():
    # faulthandler's own thread and its signal handlers read the frames of threads that run on,
    # which ends CPython 3.11 now and then, without this package too. Here a thread dumps that holds
    # the GIL, so that the others stand still.
    done = python(
        MODELS
        + """
import faulthandler, signal
faulthandler.enable()
faulthandler.register(signal.SIGUSR1, all_threads=False)

dumps = []

def dump():
    while threads[0].is_alive():
        faulthandler.dump_traceback(all_threads=True)
        dumps.append(1)
        time.sleep(0.02)

def work_on():
    work(30)
    while len(dumps) < 5:
        work(1)

threads = [threading.Thread(target=work_on) for _ in range(3)]
threads.append(threading.Thread(target=dump))
for thread in threads:
    thread.start()
for _ in range(30):
    os.kill(os.getpid(), signal.SIGUSR1)
    right()
for thread in threads:
    thread.join()
print("end")
""",
        env=PATIENT,
    )
    assert done.stdout == "end\n"
    assert "in work" in done.stderr and "in dump" in done.stderr
    assert "Fatal" not in done.stderr


def test_helper_processes_end_with_the_program_that_did_not_close_them():
    done = python(
        MODELS
        + """
from onednn_graph_py.base.processes import Isolated
from onednn_graph_py.model.verdicts import Judge
forks = Isolated()
assert forks.call(os.getpid, timeout=60)[0] == "returned"
verified = make(check="verify")
kept = forks._process.pid
print(kept)
"""
    )
    (pid,) = map(int, done.stdout.split())
    for _ in range(500):
        if not os.path.exists(f"/proc/{pid}"):
            return
        time.sleep(0.02)
    raise AssertionError(f"process {pid} is left")
