"""Files of ONNX models: another process computes the same bits, and measures nothing anew."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from graphs import Counted
from model_files import DAMAGED, refused, rewritten

import onednn_graph_py as og
from onednn_graph_py.machine.pace import Pace
from onednn_graph_py.model.planning import fates, pace
from onednn_graph_py.serialization import model_file

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
front = pytest.importorskip("onednn_graph_py.onnx")
inference = pytest.importorskip("onednn_graph_py.onnx.inference")
rivals = pytest.importorskip("onednn_graph_py.onnx.rivals")
parser = pytest.importorskip("onnx.parser")

HERE, THERE = Pace(1e-3, 2e-3), Pace(2e-3, 1e-3)  # times here, and in onnxruntime
BODIES = {
    "whole": "(float[n,32] x) => (float[n,24] y) {h = MatMul(x, w) y = Softmax <axis=-1> (h)}",
    "islands": """(float[n,32] x) => (float[n,24] y)
        {h = MatMul(x, w) a = Det(s) c = Sin(h) d = Erf(c) r = Relu(d) y = Add(r, a)}""",
    "an open end": """(float[n,32] x) => (int64[2,k] i, float[k,5] y)
        {h = MatMul(x, w) i = NonZero(h) t = Transpose(i) f = Cast <to=1> (t)
         q = MatMul(f, v) y = Relu(q)}""",
    "an island": "(float[n,32] x) => (float[n,24] y) {h = MatMul(x, w) c = Hardmax(h) y = Relu(c)}",
    # A sum that sizes decide, and an output that is an input.
    "wired": """(float[n,32] x) => (float[n,24] y, float[n,32] z)
        {h = MatMul(x, w) k = Shape(x) f = Cast <to=1> (k) m = ReduceSum(f) g = Add(h, m)
         y = Relu(g) z = Identity(x)}""",
    "a default": "(float[n,32] x, float[24] b) => (float[n,24] y) {h = MatMul(x, w) y = Add(h, b)}",
}
SHAPES = {"w": (32, 24), "v": (2, 5), "s": (3, 3), "b": (24,)}


def model_of(name):
    """A model with weights for all that its nodes read besides `x`."""
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {BODIES[name]}')
    read = {i for node in model.graph.node for i in node.input}
    for weight in sorted(SHAPES.keys() & read):
        numbers = np.random.default_rng(ord(weight)).uniform(-1, 1, SHAPES[weight])
        array = onnx.numpy_helper.from_array(numbers.astype(np.float32), weight)
        model.graph.initializer.append(array)
    return model


def rows(count):
    return np.random.default_rng(count).standard_normal((count, 32)).astype(np.float32)


def listed(made):
    return list(made) if isinstance(made, tuple) else [made]


def told(model):
    """What runs where, as a process can tell another."""
    programs = model.report().programs
    return json.loads(json.dumps([[p.shapes, p.islands, p.share, p.steps] for p in programs]))


def known(model, count, measured):
    """Let it be known of calls with so many rows how long they take here and in onnxruntime."""
    key = model._required._rival.key([(count, 32)])
    pace.remember({key: pace.Kept(measured)})
    return key


CHILD = """
import json, numpy as np, onednn_graph_py as og
from onednn_graph_py.machine.pace import Pace
measured = []
Pace.measured = staticmethod(lambda *given: measured.append(given))
from test_onnx_saved import listed, told
model = og.load("m.og")
with np.load("x.npz") as given:
    made = [a for x in given.values() for a in listed(model(x))]
    model.report()  # which reads the nodes
    again = [a for x in given.values() for a in listed(model(x))]
np.savez("y.npz", *made)
np.savez("z.npz", *again)
print(json.dumps([len(measured), told(model)]))
"""


def saved_for_two_sizes(model, faster, folder):
    """Save a model, and inputs of two sizes for which it is compiled; return their results."""
    inputs = [rows(7), rows(3)]
    for x in inputs:
        known(model, len(x), faster)
    results = [a for x in inputs for a in listed(model(x))]
    model.save(folder / "m.og")
    np.savez(folder / "x.npz", *inputs)
    return results


@pytest.mark.parametrize("faster", [HERE, THERE, None], ids=["here", "there", "undecided"])
@pytest.mark.parametrize("name", BODIES)
def test_another_process_computes_the_same_bits_and_measures_nothing(name, faster, tmp_path):
    model = front.load(model_of(name))
    wanted = saved_for_two_sizes(model, faster, tmp_path)
    output = subprocess.run(
        [sys.executable, "-W", "error", "-c", CHILD],
        cwd=tmp_path,
        env={
            **os.environ,
            "ONEDNN_GRAPH_PY_CACHE": str(tmp_path / "empty"),
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)]),
        },
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    ).stdout
    assert json.loads(output) == [0, told(model)]
    assert any("the whole model" in i for p in told(model) for i in p[1]) == (faster is THERE)
    for file in ("y.npz", "z.npz"):
        with np.load(tmp_path / file) as made:
            for one, other in zip(made.values(), wanted, strict=True):
                np.testing.assert_array_equal(one, other)


ALONE = """
import sys, numpy as np, onednn_graph_py as og
model = og.load("m.og")
with np.load("x.npz") as given:
    made = [model(**{"x": x}) for x in given.values()]
np.savez("y.npz", *(a for m in made for a in (m if isinstance(m, tuple) else [m])))
print(*sorted({"onnx", "onnx_ir", "onnxruntime"} & sys.modules.keys()))
"""


@pytest.mark.parametrize(
    ("name", "faster", "needs"),
    [
        ("whole", HERE, ""),
        ("whole", THERE, "onnxruntime"),
        ("islands", HERE, "onnxruntime"),
        ("an island", HERE, "onnxruntime"),
        ("wired", HERE, ""),
        ("wired", THERE, "onnxruntime"),
    ],
)
def test_sizes_of_a_file_need_no_more_than_their_islands(name, faster, needs, tmp_path):
    model = front.load(model_of(name), fallback="onnxruntime" if needs else "auto")
    wanted = saved_for_two_sizes(model, faster, tmp_path)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ALONE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    assert done.stdout.strip() == needs
    with np.load(tmp_path / "y.npz") as made:
        for one, other in zip(made.values(), wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_size_that_a_file_lacks_is_compiled_of_its_nodes(tmp_path, monkeypatch):
    model = front.load(model_of("whole"), islands="fewest").compile([(7, 32)])
    model.save(tmp_path / "m.og")
    loaded = og.load(tmp_path / "m.og")
    np.testing.assert_array_equal(loaded(rows(7)), model(rows(7)))
    with monkeypatch.context() as patched:
        patched.delitem(sys.modules, "onednn_graph_py.onnx.file_model")
        patched.setitem(sys.modules, "onnx_ir", None)
        with pytest.raises(ModuleNotFoundError, match="its file has no program for needs onnx_ir"):
            loaded(rows(4))
    np.testing.assert_array_equal(loaded(rows(4)), model(rows(4)))
    np.testing.assert_array_equal(loaded(rows(7)), model(rows(7)))


def test_sizes_options_and_what_was_measured_come_back(tmp_path, monkeypatch):
    model = front.load(model_of("whole"), max_shapes=3, threads=1)
    keys = [known(model, count, p) for count, p in ((5, HERE), (9, THERE))]
    wanted = model(rows(9)), model(rows(5))
    model.save(tmp_path / "m.og")
    monkeypatch.setattr(pace, "_known", {})
    loaded = og.load(tmp_path / "m.og")
    assert isinstance(loaded, front.OnnxModel)
    assert (loaded.options, loaded.name, repr(loaded)) == (model.options, model.name, repr(model))
    assert list(loaded._required.entries) == [((9, 32),), ((5, 32),)]
    assert [pace.paces()[k].pace for k in keys] == [HERE, THERE]
    for x, y in zip((rows(9), rows(5)), wanted, strict=True):
        np.testing.assert_array_equal(loaded(x), y)
    assert loaded.verify(rows(4))
    loaded.save(tmp_path / "again.og")
    np.testing.assert_array_equal(og.load(tmp_path / "again.og")(rows(9)), wanted[0])


def test_a_default_may_be_given_to_a_loaded_model(tmp_path):
    model = front.load(model_of("a default"))
    b = np.linspace(-1, 1, 24, dtype=np.float32)
    wanted = model(x=rows(6), b=b)
    model.save(tmp_path / "m.og")
    np.testing.assert_array_equal(og.load(tmp_path / "m.og")(x=rows(6), b=b), wanted)


def test_weights_are_the_memory_of_the_file(tmp_path):
    file = tmp_path / "m.og"
    model = front.load(model_of("whole"))
    known(model, 7, HERE)
    model(rows(7))
    model.save(file)
    loaded = og.load(file)
    maps = Path("/proc/self/maps").read_text().splitlines()
    places = [line.split()[0].split("-") for line in maps if line.endswith(str(file))]
    spans = [(int(low, 16), int(high, 16)) for low, high in places]
    (weight,) = loaded.builder([(7, 32)]).constants
    address = weight.data.ctypes.data
    assert any(low <= address < high for low, high in spans)
    assert address % 64 == 0


def equal_layers(count):
    """Layers of one form, each with its own weights."""
    nodes = " ".join(
        f"a{i} = MatMul(x{i}, w{i}) b{i} = Add(a{i}, c{i}) "
        f"h{i} = Relu(b{i}) x{i + 1} = Add(h{i}, x{i})"
        for i in range(count)
    )
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> '
        f"g (float[n,32] x0) => (float[n,32] x{count}) {{{nodes}}}"
    )
    for i in range(count):
        for name, shape in ((f"w{i}", (32, 32)), (f"c{i}", (32,))):
            numbers = np.random.default_rng(i).uniform(-0.2, 0.2, shape).astype(np.float32)
            model.graph.initializer.append(onnx.numpy_helper.from_array(numbers, name))
    return model


def in_a_file(model, folder):
    """The path of a model whose weights begin at multiples of 64 bytes of another file."""
    numbers = b""
    for weight in model.graph.initializer:
        data = weight.raw_data
        for key, value in (("location", "w"), ("offset", len(numbers)), ("length", len(data))):
            weight.external_data.add(key=key, value=str(value))
        weight.data_location = onnx.TensorProto.EXTERNAL
        weight.ClearField("raw_data")
        numbers += data + bytes(-len(data) % 64)
    (folder / "w").write_bytes(numbers)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def test_a_further_size_of_equal_layers_compiles_and_infers_each_form_once(tmp_path, monkeypatch):
    wanted = front.load(equal_layers(5), islands="fewest", fallback="error")
    external = front.load(in_a_file(equal_layers(5), tmp_path), islands="fewest", fallback="error")
    wanted.compile([(3, 32)]).save(tmp_path / "m.og")
    x = rows(7)
    counts = []
    for model in (wanted, external, og.load(tmp_path / "m.og")):
        model.compile([(3, 32)])
        with monkeypatch.context() as patched:
            groups = Counted(patched, fates, "compile_group")
            made = model(x)
        np.testing.assert_array_equal(made, wanted(x))
        counts.append(groups.calls)
    (program,) = wanted.report().programs
    assert counts[0] == counts[1] == counts[2] < program.partitions
    before = inference._inferred.cache_info().misses
    wanted.compile([(9, 32)])
    inferred = inference._inferred.cache_info().misses - before
    assert inferred == 4  # a product, the sums with a vector and with the layer's input, and Relu


def test_weights_of_a_file_beside_the_model_are_in_it(tmp_path):
    proto = model_of("whole")
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0)
    model = front.load(tmp_path / "m.onnx")
    wanted = model(rows(7))
    model.save(tmp_path / "m.og")
    for file in tmp_path.glob("m.onnx*"):
        file.unlink()
    for file in set(tmp_path.iterdir()) - {tmp_path / "m.og"}:
        file.unlink()
    np.testing.assert_array_equal(og.load(tmp_path / "m.og")(rows(7)), wanted)


def test_another_cpu_chooses_again_with_one_warning(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path / "empty"))
    model = front.load(model_of("whole"))
    key = known(model, 7, THERE)
    model(rows(7))
    model.save(tmp_path / "m.og")
    monkeypatch.setattr(pace, "_known", {})
    monkeypatch.setattr(model_file, "facts", lambda: ["another CPU"])
    calls = []
    monkeypatch.setattr(rivals.Pace, "measured", staticmethod(lambda *given: calls.append(given)))
    with pytest.warns(RuntimeWarning, match="another CPU or oneDNN chose the forms") as caught:
        loaded = og.load(tmp_path / "m.og")
    assert len(caught) == 1
    assert calls
    assert pace.paces()[key].pace is None
    np.testing.assert_allclose(loaded(rows(7)), model(rows(7)), rtol=1e-4, atol=1e-6)


# -- damaged and foreign files


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "m.og"
    model = front.load(model_of("whole"))
    known(model, 7, HERE)
    model(rows(7))
    model.save(file)
    return file.read_bytes()


def test_a_rewritten_file_is_as_it_was(contents):
    assert rewritten(contents, lambda h: None) == contents


@pytest.mark.parametrize(("damage", "match"), DAMAGED)
def test_a_damaged_file_is_refused(tmp_path, contents, damage, match):
    refused(tmp_path, damage(contents), match)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda h: h.pop("onnx"), "'fpmath'"),
        (lambda h: h.pop("options"), "'options'"),
        (lambda h: h["options"].update(tune="sometimes"), "tune"),
        (lambda h: h["options"].update(unheard=1), "unheard"),
        (lambda h: h["sizes"].append([[5, 33]]), "must have the shape"),
        (lambda h: h["sizes"].append([[-5, 32]]), "must have the shape"),
        (lambda h: h["sizes"].append([["x", 32]]), "no file of a model.*'x'"),
        (lambda h: h["sizes"].append([[5, 32], [5, 32]]), "expected the shapes of 1 inputs"),
        (lambda h: h["measured"].append([1]), "no file of a model"),
        (lambda h: h["graph"]["constants"][1].__setitem__(0, [24, 33]), "reshape"),
        (lambda h: h["ready"]["required"].clear(), "expected the shapes of 0 inputs, got 1"),
        (lambda h: h["ready"]["inputs"][0].__setitem__(1, "z"), "'z'"),
        (lambda h: h["ready"].pop("outputs"), "'outputs'"),
        (lambda h: h["ready"]["programs"][0][1][0].__setitem__(0, 5), "index out of range"),
        (lambda h: h["ready"]["programs"][0][1][0][1].append([999]), "index out of range"),
        (lambda h: h["ready"]["programs"][0][1][0][1].append(7), "7 is not in range"),
        (lambda h: h["ready"]["programs"][0][1][0][2].append(-4), "-4 is not in range"),
        (lambda h: h["ready"]["programs"][0].__setitem__(0, {}), "0 is not in range"),
        (lambda h: h["ready"]["programs"][0][1][0][1].clear(), "must read 1 arrays, for 1 out"),
        (lambda h: h["ready"]["programs"][0][1][0][2].append(0), "must read 1 arrays, for 1 out"),
        (
            lambda h: h["ready"]["programs"][0][0]["graph"]["constants"].clear(),
            "index out of range",
        ),
        (lambda h: h["weights"].pop(""), "''"),
    ],
)
def test_a_header_that_makes_no_model_is_refused(tmp_path, contents, change, match):
    refused(tmp_path, rewritten(contents, change), match)


@pytest.mark.parametrize(
    ("nodes", "match"),
    [
        (b"", "no graph"),
        (b"\x08\x08garbage", "not an ONNX model"),
        (model_of("whole").SerializeToString()[:-40], "not an ONNX model"),
    ],
)
def test_nodes_that_are_no_model_are_refused(tmp_path, contents, nodes, match):
    without = rewritten(contents, lambda h: h.pop("ready"), nodes)
    refused(tmp_path, without, match)
    file = tmp_path / "m.og"
    file.write_bytes(rewritten(contents, lambda h: None, nodes))
    model = og.load(file)
    model(rows(7))  # for which no nodes are read
    for _ in range(2):
        with pytest.raises(og.GraphFormatError, match=match):
            model(rows(4))


def test_weights_that_are_not_those_of_the_nodes_are_refused(tmp_path, contents):
    file = tmp_path / "m.og"
    file.write_bytes(rewritten(contents, lambda h: h["weights"].__setitem__("z", 1)))
    with pytest.raises(og.GraphFormatError, match="its nodes have no weight 'z'"):
        og.load(file).report()
