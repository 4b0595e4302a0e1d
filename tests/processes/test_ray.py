"""Predictors as workers of Ray: real processes, which are killed, too."""

import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import worker_models
from worker_models import batches, mlp

import onednn_graph_py as og
from onednn_graph_py.tools.parallel import Predictor

ray = pytest.importorskip("ray", reason="ray is not installed")

ALL = frozenset(os.sched_getaffinity(0))
needs_two = pytest.mark.skipif(len(ALL) < 2, reason="this process may use one CPU only")
# Ray's own: sockets and files that are closed when they are collected, deprecations.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PROGRAMS = Path(__file__).parents[2] / "docs" / "programs"
LONG = 600  # seconds; on a busy machine a worker of Ray takes a minute to start


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cache = tmp_path_factory.mktemp("cache")
    patch = pytest.MonkeyPatch()
    patch.setenv("ONEDNN_GRAPH_PY_CACHE", str(cache))
    here = str(Path(worker_models.__file__).parent)
    patch.setenv("PYTHONPATH", os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]))
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=256 << 20,
        configure_logging=False,
    )
    yield ray
    ray.shutdown()
    patch.undo()


class Worker:
    """An actor with a predictor; it ends when it is told to."""

    def __init__(self, model, threads=None):
        self.predictor = Predictor(model, threads, prepare=[(4, 64)])

    def facts(self):
        """Threads of the model and of OpenMP."""
        return self.predictor.threads, og.num_threads()

    def run(self, batch):
        """Run a batch."""
        return self.predictor(batch)

    def pid(self):
        """The process."""
        return os.getpid()


def actors(cluster, count, cpus, *arguments, **named):
    made = cluster.remote(num_cpus=cpus)(Worker)
    return [made.remote(*arguments, **named) for _ in range(count)]


def get(cluster, references):
    return cluster.get(references, timeout=LONG)


def end(cluster, started):
    for one in started:
        cluster.kill(one)


@needs_two
def test_threads_are_rays_cpus(cluster):
    shared = cluster.put(mlp())
    workers = actors(cluster, 2, 1, shared)
    found = get(cluster, [w.facts.remote() for w in workers])
    batch = batches(1)[0]
    made = get(cluster, [w.run.remote(batch) for w in workers])
    end(cluster, workers)
    assert found == [(1, 1)] * 2
    assert made[0]["y"].tobytes() == made[1]["y"].tobytes()
    wide = actors(cluster, 1, 2, shared)
    found = get(cluster, [wide[0].facts.remote()])
    end(cluster, wide)
    assert found == [(2, 2)]


class Sharing:
    """A worker that tells what its model takes."""

    def __init__(self, shared):
        before = proportional()
        model = ray.get(shared[0])
        self.array = np.asarray(model.builder.constants[0].data)
        self.predictor = Predictor(model)
        self.before, self.compiled = before, False

    def compile(self):
        """Compile, which reorders the weights."""
        self.predictor.model.prepare((4, self.array.shape[0]))

    def facts(self):
        """Read all weights; return the growth of this process, and where the weights are."""
        self.array.sum()
        return {
            "grown": proportional() - self.before,
            "weights": proportional(self.array.ctypes.data),
            "read only": not self.array.flags.writeable,
            "aligned": self.array.ctypes.data % 64 == 0,
        }


def proportional(address=None) -> int:
    """Bytes of this process, or of its mapping of an address, shared ones by their share."""
    if address is None:
        with open("/proc/self/smaps_rollup") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))
    size, inside = 0, False
    with open("/proc/self/smaps") as file:
        for line in file:
            first = line.split()[0]
            if not first.endswith(":"):
                begin, last = (int(n, 16) for n in first.split("-"))
                inside = begin <= address < last
            elif inside and first == "Pss:":
                size = int(line.split()[1]) << 10
    return size


@needs_two
def test_the_weights_are_in_memory_once(cluster):
    """What workers have of their own is what oneDNN packs of the weights."""
    size = 4096
    weights = np.random.default_rng(0).uniform(-1, 1, (size, size)).astype(np.float32)  # 64 MB
    b = og.GraphBuilder()
    b.output(y=b.input((-1, size), "f32", name="x") @ weights)
    shared = cluster.put(b.compile(threads=1, slow_fusions="run"))
    remote = cluster.remote(num_cpus=1)(Sharing)
    workers = [remote.remote([shared]) for _ in range(2)]
    get(cluster, [w.facts.remote() for w in workers])  # both have read all
    facts = get(cluster, [w.facts.remote() for w in workers])
    assert all(f["read only"] and f["aligned"] for f in facts)
    assert sum(f["weights"] for f in facts) <= 1.1 * weights.nbytes
    # 10 MB each for what is imported and allocated on the way.
    slack = 10 << 20
    assert sum(f["grown"] - slack for f in facts) <= 1.3 * weights.nbytes
    get(cluster, [w.compile.remote() for w in workers])
    packed = get(cluster, [w.facts.remote() for w in workers])
    end(cluster, workers)
    assert sum(f["weights"] for f in packed) <= 1.1 * weights.nbytes
    reordered = 2 * weights.nbytes  # one copy a worker at most
    assert sum(f["grown"] - slack for f in packed) <= 1.3 * weights.nbytes + reordered


class Moody(Predictor):
    """It says where each row was computed; its process ends once at row 400, by a file."""

    def __init__(self, source, folder, slow=0.0):
        super().__init__(source(), prepare=[(4, 64)])
        self.folder, self.slow = Path(folder), slow
        (self.folder / f"start-{os.getpid()}").touch()

    def __call__(self, batch):
        time.sleep(self.slow)
        if 400 in batch["id"] and not (self.folder / "died").exists():
            (self.folder / "died").touch()
            os._exit(1)
        made = super().__call__(batch)
        with (self.folder / f"made-{os.getpid()}").open("a") as file:
            print(*batch["id"], file=file)
        return {**made, "pid": np.full(len(made["id"]), os.getpid())}


def rows(batch):
    numbers = batch["id"].astype(np.float32)
    return {"id": batch["id"], "x": np.sin(numbers[:, None] + np.arange(64, dtype=np.float32))}


@pytest.fixture
def data(cluster):
    import ray.data

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True
    return ray.data


@needs_two
def test_a_worker_that_dies_in_the_middle_loses_no_batch(cluster, data, tmp_path):
    model = mlp()
    shared = cluster.put(model)
    made = (
        data.range(800, override_num_blocks=200)  # a task is a batch
        .map_batches(rows, batch_size=4)
        .map_batches(
            Moody,
            fn_constructor_args=[partial(ray.get, shared), str(tmp_path)],
            batch_size=4,
            num_cpus=1,
            compute=data.ActorPoolStrategy(size=2),
        )
        .take_all()
    )
    assert (tmp_path / "died").exists()
    assert len(list(tmp_path.glob("start-*"))) == 3
    assert [row["id"] for row in made] == list(range(800))
    again = sum(len(f.read_text().split()) for f in tmp_path.glob("made-*")) - 800
    assert 0 <= again <= 4 * 4  # rows of what it had been given, and not told yet
    whole = model.with_threads(1)
    given = rows({"id": np.arange(800)})["x"]
    wanted = [whole(given[i : i + 4]) for i in range(0, 800, 4)]
    got = np.stack([row["y"] for row in made])
    assert got.tobytes() == np.concatenate(wanted).tobytes()  # whoever computed them
    assert len({row["pid"] for row in made}) >= 2


def test_a_poisoned_batch_fails_alone(cluster):
    given = batches(5)
    given[2]["x"] = given[2]["x"].astype(np.float64)
    given[3]["x"] = given[3]["x"][:, :3]
    (worker,) = actors(cluster, 1, 1, cluster.put(mlp()))
    told = []
    for batch in given:
        try:
            get(cluster, worker.run.remote(batch))
            told.append("ran")
        except ray.exceptions.RayTaskError as e:
            told.append(type(e.cause).__name__)
    pid = get(cluster, worker.pid.remote())
    end(cluster, [worker])
    assert told == ["ran", "ran", "InvalidDataTypeError", "InvalidShapeError", "ran"]
    assert pid > 0


def test_a_slow_consumer_holds_the_workers_back(cluster, data, tmp_path):
    """Of 400 MB only some are made before the consumer, ten times slower, wants them."""
    from ray._private.internal_api import memory_summary

    def wide(batch):
        return {**rows(batch), "load": np.zeros((len(batch["id"]), 1 << 18), np.float32)}  # 1 MB

    found = (
        data.range(400, override_num_blocks=100)
        .map_batches(wide, batch_size=4)
        .map_batches(
            Moody,
            fn_constructor_args=[partial(ray.get, cluster.put(mlp())), str(tmp_path)],
            batch_size=4,
            num_cpus=1,
            compute=data.ActorPoolStrategy(size=1),
        )
    )
    (tmp_path / "died").touch()  # nobody has to die here
    used, seen = [], []
    for batch in found.iter_batches(batch_size=4, prefetch_batches=0):
        seen += batch["id"].tolist()
        time.sleep(0.05)
        if len(seen) % 40 == 0:
            text = memory_summary(stats_only=True)
            assert "Spilled" not in text
            used.append(float(re.search(r"Plasma memory usage (\d+) MiB", text)[1]))
    assert seen == list(range(400))
    assert 0 < max(used) <= 200  # MiB, of a store of 256


@needs_two
@pytest.mark.parametrize("name", ["one_machine", "ray_data", "ray_serve"])
def test_the_programs_of_the_guide_run_and_leave_nothing(name, tmp_path):
    if name == "ray_serve":
        pytest.importorskip("ray.serve")
    environment = {**os.environ, "ONEDNN_GRAPH_PY_CACHE": str(tmp_path / "cache")}
    before = processes()
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / f"{name}.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=2 * LONG,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "in order" in done.stdout or "requests, the first is digit" in done.stdout
    deadline = time.monotonic() + LONG
    while (left := own(processes() - before, tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left == set()


@needs_two
def test_a_replica_is_healthy_only_when_it_is_compiled(cluster, tmp_path, monkeypatch):
    serve = pytest.importorskip("ray.serve")
    monkeypatch.syspath_prepend(str(PROGRAMS))
    import ray_serve

    file, port = tmp_path / "compiled", 8124
    slow = worker_models.SlowToCompile(4.0, str(file))
    application = ray_serve.Classifier.options(num_replicas=1).bind([cluster.put(slow)])
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    starting = threading.Thread(target=serve.run, args=(application,), daemon=True)
    told = []
    try:
        starting.start()
        end = time.monotonic() + LONG
        while time.monotonic() < end and (not told or told[-1][0] != 200):
            before = file.exists()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                    told.append((answer.status, file.exists()))
            except OSError as e:
                told.append((getattr(e, "code", 0), before))
            time.sleep(0.2)
        starting.join(LONG)
    finally:
        serve.shutdown()
    assert told[-1] == (200, True)
    assert (200, False) not in told and any(not compiled for _, compiled in told)


def processes() -> set[int]:
    return {int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()}


def own(pids: set[int], folder: Path) -> set[int]:
    """Those whose environment has the folder: descendants of what a test started."""
    found = set()
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in text:
            found.add(pid)
    return found
