"""Predictors without Ray: cores, locks, affinity, batches, processes."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import pytest
import worker_models
from worker_models import batches, masks_by_thread, mlp

import onednn_graph_py as og
from onednn_graph_py.machine import store
from onednn_graph_py.tools.parallel import Predictor, UnpinnedWarning, cores, locks, predictor
from onednn_graph_py.tools.parallel.topology import Cpu, choose, cpus

ALL = frozenset(os.sched_getaffinity(0))
needs_two = pytest.mark.skipif(len(ALL) < 2, reason="this process may use one CPU only")
spawn = multiprocessing.get_context("spawn")
LONG = 60


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """Reservations that no other test run sees; none is left behind."""
    monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path))
    monkeypatch.setattr(predictor, "_warned", False)
    global _pinned_before
    _pinned_before = {t for t, mask in masks_by_thread().items() if mask != ALL}
    yield
    gc.collect()
    assert masks() == {ALL}
    folder = store.folder() / "cores"
    assert not folder.exists() or locks_free()


_pinned_before: set[int] = set()
"""Threads that another runtime pinned before the test, as SYCL's does on CPUs."""


def masks() -> set[frozenset[int]]:
    """The sets of CPUs of all other threads."""
    return {m for t, m in masks_by_thread().items() if t not in _pinned_before}


def locks_free() -> bool:
    """Whether no process has reserved a core."""
    program = (
        "import os; from onednn_graph_py.tools.parallel.locks import CpuLocks; locks = CpuLocks()\n"
        "with locks.choosing(): print(*locks.take(os.sched_getaffinity(0))); locks.keep(())"
    )
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=LONG)
    return {int(n) for n in done.stdout.split()} == ALL


@pytest.fixture(scope="module")
def model():
    return mlp(threads=1)


@pytest.fixture(scope="module")
def packed():
    return pickle.dumps(mlp())


@contextlib.contextmanager
def holders(packed, count, wait=30.0, affinity="required"):
    """Processes with a predictor each, and what they tell; they are killed at the end."""
    queue = spawn.Queue()
    started = [
        spawn.Process(target=worker_models.hold, args=(packed, queue, wait, affinity))
        for _ in range(count)
    ]
    try:
        for process in started:
            process.start()
        yield started, [queue.get(timeout=LONG) for _ in started]
    finally:
        for process in started:
            process.kill()
            process.join(LONG)
            assert process.exitcode is not None
        queue.close()


# -- batches


def test_a_dict_gives_a_dict_and_passes_through_what_the_model_does_not_read(model):
    batch = batches(1)[0]
    with Predictor(model, affinity=None, prepare=[(4, 64)]) as p:
        made = p(batch)
        assert list(made) == ["id", "y"] and made["id"] is batch["id"]
        assert (made["y"] == model(batch["x"])).all()
        assert p.ready and model.stats().shapes == 1


def test_a_list_gives_a_list_of_all_outputs():
    b = og.GraphBuilder()
    x, y = b.input((2,), "f32", name="x"), b.input((2,), "f32", name="y")
    b.output(sum=x + y, product=x * y)
    one, two = np.float32([1, 2]), np.float32([3, 4])
    with Predictor(b.compile(), affinity=None) as p:
        total, product = p([one, two])
        assert total.tolist() == [4, 6] and product.tolist() == [3, 8]
        assert [a.tolist() for a in p((one, two))] == [[4, 6], [3, 8]]
        assert list(p({"y": two, "x": one})) == ["sum", "product"]


def test_wrong_batches_raise_and_the_next_one_runs(model):
    batch = batches(1)[0]
    with Predictor(model, affinity=None) as p:
        with pytest.raises(og.InvalidArgumentsError, match="missing inputs: x; the batch has: id"):
            p({"id": batch["id"]})
        with pytest.raises(og.InvalidArgumentsError, match="has 'y', which is not an input"):
            p({**batch, "y": 1})
        with pytest.raises(og.InvalidDataTypeError):
            p({"x": batch["x"].astype(np.float64)})
        with pytest.raises(og.InvalidShapeError):
            p([batch["x"][:, :3]])
        with pytest.raises(TypeError, match="expected a batch as a dict, or as a list"):
            p(batch["x"])
        assert p(batch)["y"].shape == (4, 64)
    assert not p.ready
    with pytest.raises(og.InvalidArgumentsError, match="the predictor is closed"):
        p(batch)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threads": 0}, "threads must be a whole number above 0, got 0"),
        ({"threads": True}, "threads must be a whole number above 0, got True"),
        ({"affinity": "all"}, "affinity must be 'auto', 'required' or None, got 'all'"),
        ({"affinity": [0]}, "affinity must be 'auto', 'required' or None, got"),
        ({"affinity": "required", "threads": 4096}, "expected 4096 free cores for itself"),
        ({"prepare": [(4, 3)]}, "must have the shape"),
    ],
)
def test_wrong_arguments_raise_and_reserve_nothing(model, arguments, message):
    with pytest.raises(og.InvalidArgumentsError, match=message):
        Predictor(model, **arguments)
    assert masks() == {ALL}


def test_what_is_no_model_is_refused():
    with pytest.raises(TypeError, match=r"expected a compiled model, .* got int"):
        Predictor(3)
    with pytest.raises(TypeError, match=r"expected a compiled model, .* got dict"):
        Predictor(dict)


def test_a_function_may_give_the_model(model):
    with Predictor(lambda: model, threads=1, affinity=None) as p:
        assert p.model is model


def test_a_builders_method_may_give_the_model(model):
    with Predictor(model.builder.compile, threads=1, affinity=None) as p:
        assert p.model.input_names == model.input_names


# -- threads


def test_a_model_is_compiled_for_other_threads(model):
    with Predictor(model, threads=2, affinity=None) as p:
        assert p.threads == p.model.threads == 2 and model.threads == 1
        batch = batches(1)[0]
        assert np.allclose(p(batch)["y"], model(batch["x"]), rtol=1e-5, atol=1e-6)


def test_the_environment_decides_if_nothing_else_does(packed):
    program = (
        "import pickle, sys; from onednn_graph_py.tools.parallel import Predictor\n"
        "model = pickle.loads(sys.stdin.buffer.read())\n"
        "print(Predictor(model, affinity=None).threads, Predictor(model, 3, None).threads)"
    )
    if og.version().cpu_runtime != "OpenMP":
        pytest.skip("the linked oneDNN does not run on OpenMP, so its runtime decides")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, input=packed, capture_output=True, env=environment, timeout=LONG)
    assert done.stdout.split() == [b"1", b"3"], done.stderr


# -- cores and affinity


def test_all_threads_are_pinned_and_restored(model):
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        with Predictor(model, affinity="required") as p:
            assert len(p.cores) == 1
            later = threading.Thread(target=stop.wait)
            later.start()
            p(batches(1)[0])
            assert masks() == {frozenset(p.cores)}
        assert p.cores == () and masks() == {ALL}
    finally:
        stop.set()
        thread.join()
        later.join()


@needs_two
def test_a_thread_gets_its_own_affinity_back(model):
    stop, ready = threading.Event(), threading.Event()
    found = []

    def narrow():
        os.sched_setaffinity(0, {max(ALL)})
        ready.set()
        stop.wait()
        found.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=narrow)
    thread.start()
    assert ready.wait(LONG)
    Predictor(model, affinity="required").close()
    stop.set()
    thread.join()
    assert found == [{max(ALL)}]


@needs_two
def test_predictors_of_a_process_share_its_cores_which_grow(model):
    one = Predictor(model)
    two = Predictor(model)
    assert one.cores == two.cores and len(one.cores) == 1
    with Predictor(model, threads=2) as more:
        assert set(one.cores) < set(more.cores) or one.cores == more.cores
        assert len(more.cores) == 2
    one.close()
    assert masks() == {frozenset(two.cores)} and "cores" in repr(two)
    one.close()  # twice does no harm
    two.close()
    assert "closed" in repr(two)
    assert masks() == {ALL}


def test_a_predictor_that_is_dropped_gives_its_cores_back(model):
    Predictor(model)
    gc.collect()
    assert masks() == {ALL} and locks_free()


@needs_two
def test_processes_get_cores_that_no_other_has(packed):
    count = min(len(ALL), 3)
    with holders(packed, count) as (_, told):
        taken = [set(cores) for _, cores, _, _ in told]
        assert len(set().union(*taken)) == sum(map(len, taken)) == count
        assert all(m == {frozenset(c)} for _, c, m, _ in told)
        assert len({y.tobytes() for *_, y in told}) == 1


def test_more_workers_than_cores_warn_or_raise_and_a_kill_frees(packed, model):
    with holders(packed, len(ALL)) as (started, told):
        assert all(isinstance(t, tuple) for t in told), told
        with pytest.raises(og.InvalidArgumentsError, match="expected 1 free cores for itself"):
            Predictor(model, affinity="required")
        with pytest.warns(UnpinnedWarning, match=r"runs unpinned.*use fewer workers"):
            p = Predictor(model)
        assert p.cores == () and masks() == {ALL} and "not pinned" in repr(p)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Predictor(model).close()  # it is said once
        assert p(batches(1)[0])["y"].shape == (4, 64)
        started[0].kill()
        started[0].join(LONG)
        (freed,) = next(cores for pid, cores, _, _ in told if pid == started[0].pid)
        with Predictor(model, affinity="required") as mine:
            assert mine.cores == (freed,)


def test_a_forked_process_has_no_cores_and_leaves_the_parents_alone(model):
    with Predictor(model, affinity="required") as p:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns of forks with threads
            child = os.fork()
        if child == 0:
            status = 1
            with contextlib.suppress(BaseException):
                assert p.cores == () and os.sched_getaffinity(0) == ALL
                p.close()
                cores.give_back(1)
                status = 0
            os._exit(status)
        deadline = time.monotonic() + LONG
        while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline:
            time.sleep(0.01)
        if not ended[0]:
            os.kill(child, signal.SIGKILL)
        assert ended == (child, 0)
        assert masks() == {frozenset(p.cores)} and not locks_free()


def test_without_affinity_in_the_system_it_runs_unpinned(model, monkeypatch):
    monkeypatch.setattr(cores, "has_affinity", lambda: False)
    with pytest.warns(UnpinnedWarning, match="can't keep a process on some of its CPUs"):
        assert Predictor(model).cores == ()
    with pytest.raises(og.UnimplementedError, match="can't keep a process"):
        Predictor(model, affinity="required")
    Predictor(model, affinity=None).close()


def test_a_model_on_a_queue_is_not_pinned(model):
    class OnQueue:
        name, input_names, output_names, threads = "gpu", ("x",), ("y",), 2
        queue = object()

        def prepare(self, *shapes):
            """Compile nothing."""

    for affinity in ("auto", "required"):
        with pytest.raises(og.UnimplementedError, match="on a SYCL queue can't be pinned"):
            Predictor(OnQueue(), affinity=affinity)
    assert Predictor(OnQueue(), affinity=None).cores == ()


# -- locks


def place():
    return store.folder() / "cores"


def test_the_file_is_private_and_goes_with_the_last_lock(model):
    with Predictor(model, affinity="required"):
        (file,) = place().iterdir()
        assert stat.S_IMODE(place().stat().st_mode) == 0o700
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(place().iterdir()) == []


@pytest.mark.parametrize("spoil", ["mode", "folder is a link", "file is a link"])
def test_a_place_that_others_could_write_to_is_not_used(model, spoil, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if spoil == "folder is a link":
        place().symlink_to(elsewhere)
    else:
        place().mkdir(0o777 if spoil == "mode" else 0o700)
        place().chmod(0o777 if spoil == "mode" else 0o700)
    if spoil == "file is a link":
        with locks.CpuLocks().choosing():
            (file,) = place().iterdir()
        file.symlink_to(elsewhere / "made")
    with pytest.raises(og.UnimplementedError, match="cores can't be reserved here"):
        Predictor(model, affinity="required")
    with pytest.warns(UnpinnedWarning):
        Predictor(model).close()
    assert list(elsewhere.iterdir()) == []
    assert masks() == {ALL}
    if place().is_symlink():
        place().unlink()
    else:
        place().chmod(0o700)
        for file in place().iterdir():
            file.unlink()


def test_a_process_that_chooses_for_too_long_is_not_waited_for(model, monkeypatch):
    monkeypatch.setattr(locks, "PATIENCE", 0.05)
    program = (
        "import sys; from onednn_graph_py.tools.parallel.locks import CpuLocks\n"
        "with CpuLocks().choosing(): print(1, flush=True); sys.stdin.read()"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", program], **pipes) as other:
        assert other.stdout.readline() == b"1\n"
        with pytest.raises(og.UnimplementedError, match="is locked for"):
            Predictor(model, affinity="required")
        other.stdin.close()
        assert other.wait(LONG) == 0


# -- which cores


def test_cpus_are_read_from_the_system(tmp_path):
    for number, siblings in {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}.items():
        folder = tmp_path / f"cpu/cpu{number}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings + "\n")
    for node, listed in {0: "0,2\n", 1: "1,3\n"}.items():
        (tmp_path / f"node/node{node}").mkdir(parents=True)
        (tmp_path / f"node/node{node}/cpulist").write_text(listed)
    every = (Cpu(0, 0, 0), Cpu(1, 1, 0), Cpu(2, 0, 1), Cpu(3, 1, 1))
    assert cpus(range(4), tmp_path) == every
    assert cpus([2, 3], tmp_path) == (Cpu(2, 0, 0), Cpu(3, 1, 0))  # whole cores for us
    assert cpus([1, 0], tmp_path / "none") == (Cpu(0, 0, 0), Cpu(1, 0, 0))
    assert [c.number for c in cpus(ALL)] == sorted(ALL)


def test_whole_cores_of_one_node_come_first():
    # Two nodes of three cores with two hyper-threads each.
    every = [Cpu(n, n % 6 // 3, n // 6) for n in range(12)]
    assert choose(every, 3) == (0, 1, 2)
    assert choose(every[1:], 3) == (3, 4, 5)
    assert choose(every[1:], 2) == (3, 4)  # the emptier node
    assert choose(every, 4) == (0, 1, 2, 6)  # a hyper-thread sooner than another node
    assert choose(every, 1, [every[3]]) == (3,)  # where the process is
    assert choose(every, 7) == (0, 1, 2, 3, 4, 5, 6)  # more than a node has
    assert choose(every, 12) == tuple(range(12)) and choose(every, 13) is None


# -- pickling and workers


def test_it_is_made_anew_where_it_is_unpickled(model):
    p = Predictor(model, threads=1, affinity="required", prepare=[(4, 64)])
    p.close()
    clone = pickle.loads(pickle.dumps(p))
    assert clone.ready and len(clone.cores) == 1 and clone.threads == 1
    assert clone.model.stats().shapes == 1
    batch = batches(1)[0]
    assert clone(batch)["y"].tobytes() == model(batch["x"]).tobytes()
    clone.close()


def test_a_function_pickles_instead_of_its_model():
    p = Predictor(mlp, threads=1, affinity=None)
    packed = pickle.dumps(p)
    assert len(packed) < 500
    assert pickle.loads(packed).threads == 1


def test_a_pool_gives_each_result_once_and_in_order(packed):
    given = batches(40)
    pool = ProcessPoolExecutor(2, spawn, worker_models.start, (packed,))
    try:
        made = list(pool.map(worker_models.work, given, timeout=LONG))
    finally:
        pool.shutdown(cancel_futures=True)
    assert [int(m["id"][0]) for m, *_ in made] == list(range(40))
    where = {(pid, cores) for _, pid, cores in made}
    assert len({c for _, c in where}) == len(where) or len(ALL) < 2
    wanted = pickle.loads(packed).with_threads(1)
    assert all((m["y"] == wanted(b["x"])).all() for (m, *_), b in zip(made, given, strict=True))


def test_a_dead_worker_ends_its_pool_and_frees_its_core(packed):
    with ProcessPoolExecutor(1, spawn, worker_models.start, (packed,)) as pool:
        assert pool.submit(worker_models.work, batches(1)[0]).result(LONG)[2]
        with pytest.raises(BrokenProcessPool):
            pool.submit(os._exit, 1).result(LONG)
    assert locks_free()


def test_a_model_exported_from_torch_runs_as_any_other():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    from onednn_graph_py.torch import export

    module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).eval()
    x = torch.randn(3, 8)
    p = Predictor(export(module, (x,)), threads=1, affinity="required")
    p.close()
    with pickle.loads(pickle.dumps(p)) as clone:
        (y,) = clone([x.numpy()])
        assert np.allclose(y, module(x).detach().numpy(), atol=1e-5)


def test_an_onnx_model_runs_as_any_other():
    parser = pytest.importorskip("onnx.parser", reason="onnx is not installed")
    front = pytest.importorskip("onednn_graph_py.onnx", reason="there is no room for ONNX")
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,4] x) => (float[N,4] y) { a = Relu(x) y = Add(a, x) }"""
    model = front.load(parser.parse_model(text))
    sets = [(3, 4), {"x": (5, 4)}, [(6, 4)]]
    p = Predictor(model, threads=1, affinity="required", prepare=sets)
    x = np.ones((3, 4), np.float32)
    made = p({"x": x, "id": 1})
    assert made["id"] == 1 and (made["y"] == 2).all() and p.threads == 1
    p.close()
    with pickle.loads(pickle.dumps(p)) as clone:
        assert (clone([x])[0] == 2).all()


def test_importing_it_imports_no_engine():
    program = (
        "import onednn_graph_py.tools.parallel, sys; print({'ray', 'joblib'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set()\n"
