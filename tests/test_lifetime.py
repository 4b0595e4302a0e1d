"""Objects die in any order, and nothing is left behind."""

import pytest
from graphs import python

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
