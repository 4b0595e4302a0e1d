"""Whole models in onnxruntime where it is faster: what decides, what is kept and reported."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import onednn_graph_py as og
from onednn_graph_py.machine.pace import Pace
from onednn_graph_py.model.planning import pace

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
front = pytest.importorskip("onednn_graph_py.onnx")
islands = pytest.importorskip("onednn_graph_py.onnx.islands")
rivals = pytest.importorskip("onednn_graph_py.onnx.rivals")
parser = pytest.importorskip("onnx.parser")

WAYS = rivals.WAY, rivals.REGIONS, "region of "
HERE, THERE = Pace(1e-3, 2e-3), Pace(2e-3, 1e-3)  # times here, and in onnxruntime


class Known(dict):
    """Paces of this process; of oneDNN's partitions nothing is measured."""

    def get(self, key, default=None):
        return super().get(key) if key.way.startswith(WAYS) else pace.Kept(None)


@pytest.fixture
def timed(monkeypatch, tmp_path):
    """Let nothing be known, and each comparison give the next of a list; None when it is empty."""
    monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path))
    monkeypatch.setattr(pace, "_known", Known())
    given = []
    calls = []

    class Clock:
        @staticmethod
        def measured(ours, theirs, seconds):
            ours()
            theirs()
            calls.append(seconds)
            return given.pop(0) if given else None

    monkeypatch.setattr(rivals, "Pace", Clock)
    return given, calls


def model_of(weight=1.5, body="h = MatMul(x, w) y = Relu(h)", wide=32):
    """A model whose weight is large enough to stand outside of what onnxruntime is given."""
    head = '<ir_version: 8, opset_import: ["": 17]>'
    model = parser.parse_model(f"{head} g (float[n,{wide}] x) => (float[n,24] y) {{{body}}}")
    numbers = np.random.default_rng(wide).uniform(-weight, weight, (wide, 24)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(numbers, "w"))
    return model, numbers


def rows(count, wide=32):
    return np.random.default_rng(count).standard_normal((count, wide)).astype(np.float32)


def is_whole(loaded):
    program = loaded.report().programs[-1]
    whole = program.islands == ("the whole model, in onnxruntime",)
    assert whole == (program.share == 0) == (program.partitions == 0)
    return whole


@pytest.mark.parametrize("given", [HERE, THERE, None], ids=["here", "there", "disturbed"])
def test_what_is_faster_runs_and_only_a_clear_result_decides(timed, given):
    timed[0].append(given)
    model, weight = model_of()
    loaded = front.load(model)
    x = rows(7)
    np.testing.assert_allclose(loaded(x), np.maximum(x @ weight, 0), rtol=1e-5, atol=1e-5)
    assert is_whole(loaded) == (given is THERE)
    times = loaded.report().programs[-1].times
    assert times == (None if given is None else (given.fused, given.apart))
    assert ("in onnxruntime" in str(loaded.report())) == (given is not None)
    np.testing.assert_allclose(loaded(x), np.maximum(x @ weight, 0), rtol=1e-5, atol=1e-5)
    assert len(timed[1]) == 1


def regions(count, clock, given):
    """A model with running sums, which are an island, between `count` regions; its numbers."""
    clock[0].extend(given)
    body = "".join(
        f"h{i} = MatMul(x{i}, w{i}) t{i} = Tanh(h{i}) x{i + 1} = CumSum(t{i}, a) "
        for i in range(1, count)
    )
    head = '<ir_version: 8, opset_import: ["": 17]> g (float[n,40] x1) => (float[n,40] y)'
    last = f"h{count} = MatMul(x{count}, w{count}) y = Relu(h{count})"
    model = parser.parse_model(f"{head} {{{body}{last}}}")
    random = np.random.default_rng(count)
    weights = [random.uniform(-0.3, 0.3, (40, 40)).astype(np.float32) for _ in range(count)]
    numbers = {**{f"w{i + 1}": w for i, w in enumerate(weights)}, "a": np.int64(0)}
    for name, array in numbers.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))

    def expected(x):
        for weight in weights[:-1]:
            x = np.cumsum(np.tanh(x @ weight), axis=0)
        return np.maximum(x @ weights[-1], 0)

    return model, expected


def test_a_region_that_is_slower_becomes_an_island(timed, monkeypatch, tmp_path):
    """What other processes know of it decides alike, and other sizes are timed for themselves."""
    model, expected = regions(3, timed, [THERE, HERE, THERE, HERE, HERE])
    loaded = front.load(model)
    for process in range(2):
        x = rows(7, 40)
        np.testing.assert_allclose(loaded(x), expected(x), rtol=1e-4, atol=1e-4)
        program = loaded.report().programs[-1]
        assert program.islands == ("island of CumSum, MatMul, Tanh, in onnxruntime",)
        assert (program.regions, program.times) == (2, (HERE.fused, HERE.apart))
        left = {x.op: x.why for x in program.left}
        assert left["MatMul"] == left["Tanh"] == "onnxruntime takes 1 ms, oneDNN 2 ms"
        assert left["MatMul"] in str(loaded.report())
        assert len(timed[1]) == 5
        if process == 0:
            monkeypatch.setattr(pace, "_known", Known())
            loaded = front.load(model)
    timed[0].append(HERE)
    assert loaded(rows(5, 40)).shape == (5, 40)
    assert (loaded.report().programs[-1].left[0].op, len(timed[1])) == ("CumSum", 6)
    loaded.save(tmp_path / "m.og")
    monkeypatch.setattr(pace, "_known", Known())
    monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path / "empty"))
    again = og.load(tmp_path / "m.og")
    assert (again(x) == loaded(x)).all()
    assert (again.report().programs[0].regions, len(timed[1])) == (2, 6)


@pytest.mark.parametrize(
    "given",
    [
        [THERE, HERE, HERE],
        [THERE, THERE, THERE],
        [THERE, HERE, THERE, THERE],
        [THERE, HERE, THERE, None],
        [THERE, None, HERE],
    ],
    ids=["none", "all", "no gain", "gain disturbed", "region disturbed"],
)
def test_a_whole_model_stays_where_its_regions_gain_nothing(timed, monkeypatch, given):
    model, expected = regions(2, timed, given)
    for _ in range(2):
        loaded = front.load(model)
        x = rows(7, 40)
        np.testing.assert_allclose(loaded(x), expected(x), rtol=1e-4, atol=1e-4)
        assert is_whole(loaded)
        assert len(timed[1]) == len(given)
        monkeypatch.setattr(pace, "_known", Known())


def test_other_processes_know_it_for_the_same_nodes_sizes_and_threads(timed, monkeypatch):
    timed[0].append(THERE)
    front.load(model_of()[0])(rows(7))
    monkeypatch.setattr(pace, "_known", Known())  # as in another process
    model, weight = model_of(weight=3.0)  # other numbers of weights
    compiled = []
    monkeypatch.setattr(
        "onednn_graph_py.onnx.program.Program._build", lambda *_: compiled.append(1)
    )
    loaded = front.load(model)
    np.testing.assert_allclose(loaded(rows(7)), np.maximum(rows(7) @ weight, 0), atol=1e-4)
    assert is_whole(loaded)
    assert (len(timed[1]), compiled) == (1, [])


@pytest.mark.parametrize(
    "other",
    [
        lambda: front.load(model_of()[0])(rows(8)),
        lambda: front.load(model_of()[0], threads=3)(rows(7)),
        lambda: front.load(model_of()[0], requantize="exact")(rows(7)),
        lambda: front.load(model_of(body="h = MatMul(x, w) y = Tanh(h)")[0])(rows(7)),
        lambda: front.load(model_of(wide=33)[0])(rows(7, 33)),
    ],
    ids=["sizes", "threads", "options", "nodes", "weights' dims"],
)
def test_what_differs_is_timed_for_itself(timed, other):
    timed[0].append(THERE)
    front.load(model_of()[0])(rows(7))
    other()
    assert len(timed[1]) == 2


@pytest.mark.parametrize(
    "options", [{"islands": "fewest"}, {"tune": "off"}, {"fallback": "reference"}]
)
def test_nothing_is_timed_where_it_may_not_be(timed, options):
    loaded = front.load(model_of()[0], **options)
    loaded(rows(7))
    loaded.compile([(5, 32)])
    assert not is_whole(loaded)
    assert timed[1] == []


def test_fallback_error_takes_no_island_for_faster(timed):
    timed[0].append(THERE)
    loaded = front.load(model_of()[0], fallback="error")
    loaded(rows(7))
    assert not is_whole(loaded)


def test_compiling_ahead_times_with_random_inputs(timed):
    timed[0].append(THERE)
    loaded = front.load(model_of()[0]).compile([(6, 32)])
    assert is_whole(loaded)
    assert loaded(rows(6)).shape == (6, 24)
    assert len(timed[1]) == 1


def test_random_inputs_that_a_model_refuses_time_nothing(timed):
    """Compiling ahead goes on: they are not what the model is for."""
    head = '<ir_version: 8, opset_import: ["": 17]>'
    loaded = front.load(
        parser.parse_model(
            f"{head} g (float[4,6] x, int64[2] s, float[6,10] w) => (float[c,d] y) "
            "{ h = MatMul(x, w) y = Reshape(h, s) }"
        )
    )
    loaded.compile({"x": (4, 6), "s": (2,), "w": (6, 10)})
    assert timed[1] == []
    x, w = rows(4, 6), rows(6, 10)
    for sizes in ((8, 5), (5, 8)):
        np.testing.assert_allclose(loaded(x, np.int64(sizes), w), (x @ w).reshape(sizes), atol=1e-4)


def test_sizes_after_the_time_is_over_run_where_the_latest_does(timed, monkeypatch):
    monkeypatch.setattr(rivals, "SECONDS", 0.1)
    timed[0].extend([THERE, HERE])
    model, weight = model_of()
    loaded = front.load(model)
    for count in (3, 4, 5):
        made = loaded(rows(count))
        np.testing.assert_allclose(made, np.maximum(rows(count) @ weight, 0), atol=1e-4)
        assert is_whole(loaded)
    assert len(timed[1]) == 1


def test_what_onnxruntime_refuses_runs_here(timed, monkeypatch):
    monkeypatch.setattr(islands.Island, "_session", lambda self: 1 / 0)
    loaded = front.load(model_of()[0])
    assert loaded(rows(7)).shape == (7, 24)
    assert not is_whole(loaded)
    loaded(rows(8))
    assert timed[1] == []


def test_onnxruntime_is_not_asked_for_what_ends_the_process(timed, monkeypatch):
    """Its optimizations of the memory's layout end it at a convolution, GRU and LSTM in f16."""
    onnxruntime = islands.imported()
    made = []
    session = onnxruntime.InferenceSession

    def recorded(model, options, **others):
        made.append(options.graph_optimization_level)
        return session(model, options, **others)

    monkeypatch.setattr(onnxruntime, "InferenceSession", recorded)
    model, weight = model_of()
    front.load(model)(rows(7))
    del model.graph.initializer[:]
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight.astype(np.float16), "w"))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    front.load(model)(rows(7).astype(np.float16))
    levels = onnxruntime.GraphOptimizationLevel
    assert made == [levels.ORT_ENABLE_ALL, levels.ORT_ENABLE_EXTENDED]


def test_sums_that_saturate_are_no_faster(timed, monkeypatch):
    model, _ = model_of(
        body="q = QuantizeLinear(x, s) d = DequantizeLinear(q, s) h = MatMul(d, w) y = Relu(h)"
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(0.1), "s"))
    monkeypatch.setattr(islands, "largest_int8_weight", lambda: 64)
    front.load(model)(rows(7))
    assert timed[1] == []
    monkeypatch.setattr(islands, "largest_int8_weight", lambda: 127)
    front.load(model)(rows(7))
    assert len(timed[1]) == 1


@pytest.mark.parametrize(("activations", "rounds"), [("file", False), ("int8", True)])
def test_inputs_of_products_by_integers_are_rounded_if_asked_for(
    timed, monkeypatch, activations, rounds
):
    """By default onnxruntime rounds what DequantizeLinear's weights multiply to 8 bits."""
    monkeypatch.setattr(islands, "largest_int8_weight", lambda: 127)  # as with VNNI
    random = np.random.default_rng(7)
    weights = random.integers(-99, 100, (37, 23)).astype(np.int8)
    scales = random.uniform(0.01, 0.04, 23).astype(np.float32)
    head = '<ir_version: 8, opset_import: ["": 17]> g (float[n,37] x) => (float[n,23] y)'
    body = "{w = DequantizeLinear<axis = 1>(q, s) y = MatMul(x, w)}"
    model = parser.parse_model(head + body)
    for name, numbers in (("q", weights), ("s", scales)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(numbers, name))
    loaded = front.load(model, activations=activations)
    timed[0].append(THERE)
    x = random.standard_normal((5, 37)).astype(np.float32)
    y = loaded(x)
    assert is_whole(loaded)
    exact = x.astype(np.float64) @ (weights * scales.astype(np.float64))
    rounding = 37 * 2.0**-24 * (np.abs(x) @ np.abs(weights * scales)).max()
    assert (np.abs(y - exact).max() > rounding) == rounds


def test_a_model_that_depends_on_numbers_runs_whole(timed):
    timed[0].append(THERE)
    body = "z = NonZero(x) t = Transpose(z) c = Cast<to=1>(t) k = Slice(t, o, p) h = MatMul(x, w)"
    model, weight = model_of(body=f"{body} y = Relu(h)")
    model.graph.output.append(onnx.ValueInfoProto(name="c"))
    for name in "op":
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.int64([name == "p"]), name))
    loaded = front.load(model)
    x = rows(7)
    x[2] = 0
    made, places = loaded(x)
    assert is_whole(loaded)
    np.testing.assert_allclose(made, np.maximum(x @ weight, 0), atol=1e-4)
    np.testing.assert_array_equal(places, np.argwhere(x))


def test_a_whole_model_pickles_and_has_a_builder(timed):
    timed[0].append(THERE)
    model, weight = model_of()
    loaded = front.load(model)
    loaded(rows(7))
    other = pickle.loads(pickle.dumps(loaded))
    np.testing.assert_allclose(other(rows(7)), np.maximum(rows(7) @ weight, 0), atol=1e-4)
    assert is_whole(other)
    assert [n.kind for n in loaded.builder([(7, 32)]).contents.nodes] == ["MatMul", "ReLU"]


def test_weights_are_not_copied_for_onnxruntime():
    model, weight = model_of()
    loaded = front.load(model)
    island = loaded._required._rival.island
    assert len(island.model.serialized) < weight.nbytes / 2
    own = loaded._file().model.graph.initializers["w"].const_value.numpy()
    assert np.shares_memory(island.weights["w"], own)


def test_the_benchmark_of_files_runs(tmp_path):
    onnx.save(model_of()[0], tmp_path / "small.onnx")
    (tmp_path / "sizes.json").write_text('{"small.onnx": {"set": ["n=5"], "value": {"x": 2}}}')
    program = Path(__file__).parents[2] / "benchmarks" / "onnx_files.py"
    command = [sys.executable, program, tmp_path, "--threads", "1", "--json", tmp_path / "rows"]
    subprocess.run(command, check=True, timeout=120, stdout=subprocess.DEVNULL)
    row = json.loads((tmp_path / "rows").read_text())
    assert (row["name"], row["threads"]) == ("small.onnx", 1)
    assert row["error"] < 1e-5
    assert row["ratio"] == row["ours"] / row["theirs"]


def test_weights_that_no_node_reads_do_not_keep_onnxruntime_from_being_timed(timed):
    timed[0].append(THERE)
    model, weight = model_of()
    idle = np.zeros((70, 40), np.float32)  # large enough to stand outside
    model.graph.initializer.append(onnx.numpy_helper.from_array(idle, "idle"))
    loaded = front.load(model)
    np.testing.assert_allclose(loaded(rows(7)), np.maximum(rows(7) @ weight, 0), atol=1e-4)
    assert is_whole(loaded)
    assert (pickle.loads(pickle.dumps(loaded))(rows(7)) == loaded(rows(7))).all()


def test_what_the_first_call_compiles_is_not_its_time(timed, monkeypatch):
    """Else a model with dims that numbers determine is never timed."""
    timed[0].append(THERE)
    spent = [10.0, 1e-3]

    def clock(call):
        return spent.pop(0), call()

    monkeypatch.setattr(rivals, "timed", clock)
    loaded = front.load(model_of(body="h = MatMul(x, w) y = Relu(h)")[0])
    loaded(rows(7))
    assert (is_whole(loaded), spent, len(timed[1])) == (True, [], 1)
