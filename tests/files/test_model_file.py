"""Files of compiled models: what is loaded is what was saved, and nothing else is taken."""

import json
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from graphs import Counted
from model_files import DAMAGED, refused, rewritten

import onednn_graph_py as og
from onednn_graph_py.machine.pace import Pace
from onednn_graph_py.model.building import constant_arrays
from onednn_graph_py.model.planning import fates, pace
from onednn_graph_py.serialization import model_file

RNG = np.random.default_rng(7)


def noise(*shape):
    return np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)


def perceptron(b):
    x = b.input((5, 24), name="x")
    hidden = b.matmul(x, noise(24, 36), name="wide").gelu()
    return (hidden @ noise(36, 7) + noise(7)).softmax(axis=-1)


def int8_product(b):
    x = b.input((3, 5, 16), "u8", name="x")
    w = RNG.integers(-64, 65, (16, 9)).astype(np.int8)
    scales = [0.01 * (i + 1) for i in range(9)]
    weights = b.constant(w).dequantize(scales=scales, zps=[0] * 9, qtype="per_channel", axis=1)
    return x.dequantize(scales=[0.03], zps=[7], qtype="per_tensor") @ weights


def views(b):
    x = b.input((4, 6, 10), name="x")
    part = x[1:, ::2, None, -3]
    return part.relu() + np.where(part > 0, 0.5, 1.5)


def host_steps(b):
    x = b.input((-1, 6), name="x")
    sums = np.logaddexp.accumulate(np.floor(np.cumsum(x, axis=-1)), axis=1)
    return np.sort(np.tanh(x), axis=0) @ noise(6, 3) + sums[:, :3]


def ufuncs(b):
    x = b.input((-1, 6), name="x")
    high = np.where(np.logical_and(x > 0, ~np.isnan(x)), x, x[:, :1])
    return np.add.accumulate(np.hypot(high, 1), axis=1) @ noise(6, 3)


def chosen_with_copies(b):
    x = b.input((4, 6), name="x").astype("s32")
    return np.where(x[:, :1] > 0, x[:1], x[:, :1]).astype("f32").flatten() * 2


def bf16_convolution(b):
    x = b.input((2, 3, 9, 11), "bf16", name="x")
    weights = b.constant(noise(5, 3, 3, 2), "bf16")
    options = {"strides": [2, 1], "pads_begin": [1, 0], "pads_end": [0, 1], "dilations": [1, 2]}
    return x.convolution(weights, **options, data_format="NCX", weights_format="OIX").relu()


GRAPHS = {
    f.__name__: f
    for f in (
        perceptron,
        int8_product,
        views,
        host_steps,
        ufuncs,
        chosen_with_copies,
        bf16_convolution,
    )
}


def model_of(make, **options):
    b = og.GraphBuilder()
    b.output(y=make(b))
    return b.compile(**options)


def inputs_of(model):
    (value,) = model.inputs
    shape = [9 if d < 0 else d for d in value.shape]
    if value.dtype == "u8":
        return RNG.integers(0, 256, shape).astype(np.uint8)
    array = RNG.uniform(-2, 2, shape).astype(np.float32)
    return array.astype(ml_dtypes.bfloat16) if value.dtype == "bf16" else array


@pytest.mark.parametrize("name", GRAPHS)
def test_a_loaded_model_computes_the_same_bits(name, tmp_path):
    file = tmp_path / "model.og"
    model = model_of(GRAPHS[name], name="first", max_shapes=5)
    x = inputs_of(model)
    expected = model(x)
    model.save(file)
    loaded = og.load(file)
    assert isinstance(loaded, og.CompiledGraph)
    np.testing.assert_array_equal(loaded(x), expected)
    assert loaded.options == model.options
    assert repr(loaded) == repr(model)
    assert [s.ops for s in loaded.steps(x.shape)] == [s.ops for s in model.steps(x.shape)]
    assert loaded.verify(x)
    loaded.save(tmp_path / "again.og")
    np.testing.assert_array_equal(og.load(tmp_path / "again.og")(x), expected)


def test_another_process_computes_the_same_bits(tmp_path):
    model = model_of(perceptron)
    x = inputs_of(model)
    np.save(tmp_path / "x.npy", x)
    model.save(tmp_path / "m.og")
    code = (
        "import numpy as np, onednn_graph_py as og\n"
        "np.save('y.npy', og.load('m.og')(np.load('x.npy')))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=300)
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), model(x))


def test_constants_are_the_memory_of_the_file(tmp_path):
    file = tmp_path / "m.og"
    model_of(perceptron).save(file)
    loaded = og.load(file)
    maps = Path("/proc/self/maps").read_text().splitlines()
    places = [line.split()[0].split("-") for line in maps if line.endswith(str(file))]
    spans = [(int(low, 16), int(high, 16)) for low, high in places]
    for value in loaded.builder.constants:
        address = value.data.ctypes.data
        assert any(low <= address < high for low, high in spans)
        assert address % 64 == 0


def equal_layers(b):
    x = b.input((-1, 20), name="x")
    for seed in range(5):
        draw = np.random.default_rng(seed)
        wide = b.matmul(x, draw.uniform(-1, 1, (20, 52)).astype(np.float32)).relu()
        x = x + wide @ draw.uniform(-0.2, 0.2, (52, 20)).astype(np.float32)
    return x


def test_a_further_size_of_a_loaded_model_compiles_each_form_once(tmp_path, monkeypatch):
    model = model_of(equal_layers, slow_fusions="run")
    model.save(tmp_path / "m.og")
    loaded = og.load(tmp_path / "m.og")
    made, compiled = [], []
    for m in (model, loaded):
        m.prepare((3, 20))
        with monkeypatch.context() as patched:
            groups = Counted(patched, fates, "compile_group")
            made.append(m(noise(7, 20)))
        compiled.append(groups.calls)
    np.testing.assert_array_equal(*made)
    # Both forms; the last group too, whose result is the output, as oneDNN's choice is plain.
    partitions = [s.ops for s in loaded.steps((7, 20)) if s.implementation == "oneDNN"]
    assert compiled == [len({*partitions})] * 2
    assert len(partitions) == 10


def test_what_is_mapped_lies_far_from_other_constants_until_nobody_has_it(tmp_path):
    file = tmp_path / "numbers"
    file.write_bytes(bytes(range(256)) * 64)

    def maps():
        return Path("/proc/self/maps").read_text().count(str(file))

    with file.open("rb") as opened:
        spans = [(0, 5), (64, 8128), (4160, 4096), (8192, 8192), (128, 0)]
        arrays = [constant_arrays.mapped(opened.fileno(), *span) for span in spans]
    for (at, size), array in zip(spans, arrays, strict=True):
        assert array.tobytes() == file.read_bytes()[at : at + size]
        assert constant_arrays.lies_apart(array)
        assert not array.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        arrays[0].flags.writeable = True
    places = sorted(a.ctypes.data for a in arrays)
    assert np.diff(places).min() > 1 << 20
    assert maps() == 4
    view = arrays[1][3:]
    del array, arrays
    assert maps() == 1
    assert view[0] == 67
    del view
    assert maps() == 0


def test_the_sizes_are_compiled_again(tmp_path):
    model = model_of(host_steps)
    for rows in (4, 11):
        model(np.zeros((rows, 6), np.float32))
    model.save(tmp_path / "m.og")
    loaded = og.load(tmp_path / "m.og")
    assert set(loaded.sizes) == {((4, 6),), ((11, 6),)}


def test_what_was_measured_goes_with_the_model_to_a_cpu_of_its_kind_only(tmp_path, monkeypatch):
    key = pace.Key(2, "as a convolution", '{"ops": [], "tensors": {}}')
    model = model_of(perceptron)
    model._shared.measured[key] = pace.Kept(Pace(3e-4, 2e-4))
    model.save(tmp_path / "m.og")
    monkeypatch.setattr(pace, "_known", {})
    og.load(tmp_path / "m.og")
    assert pace.paces()[key] == pace.Kept(Pace(3e-4, 2e-4))
    monkeypatch.setattr(pace, "_known", {})
    monkeypatch.setattr(model_file, "facts", lambda: ["another CPU"])
    with pytest.warns(RuntimeWarning, match="another CPU or oneDNN chose the forms") as caught:
        og.load(tmp_path / "m.og")
    assert len(caught) == 1
    assert key not in pace.paces()


def test_json_has_the_graph_alone(tmp_path):
    model_of(perceptron).save(tmp_path / "graph.json")
    assert isinstance(og.load(tmp_path / "graph.json"), og.GraphBuilder)
    assert json.loads((tmp_path / "graph.json").read_text())["graph"]


def test_a_decoder_with_a_cache_is_saved(tmp_path):
    b = og.GraphBuilder()
    q, k, v = (b.input((1, 2, -1, 16), name=n) for n in "qkv")
    cache = og.blocks.kv_cache(b, layers=1, batch=1, heads=2, size=16)
    sines, _ = og.blocks.rope_tables(cache.positions(q), 16)
    b.output(y=cache.attend(q, k, v), sines=sines)
    model = b.compile()
    model.save(tmp_path / "m.og")
    results = []
    for one in (model, og.load(tmp_path / "m.og")):
        memory = cache.allocate(20)
        draw = np.random.default_rng(3)
        for tokens in (5, 1, 2):
            arrays = {n: draw.standard_normal((1, 2, tokens, 16), np.float32) for n in "qkv"}
            results.append(memory.call(one, tokens, **arrays))
    for first, second in zip(results[:3], results[3:], strict=True):
        for expected, got in zip(first, second, strict=True):
            np.testing.assert_array_equal(got, expected)


# -- what can't be saved


def test_a_function_of_the_caller_is_refused(tmp_path):
    b = og.GraphBuilder()
    x = b.input((3, 4), name="x")
    b.output(b.call(lambda a: a * 2, x, outputs=[((3, 4), "f32")], name="twice"))
    with pytest.raises(og.InvalidGraphError, match=r"twice.*only functions of NumPy"):
        b.compile().save(tmp_path / "m.og")
    assert not list(tmp_path.iterdir())


def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch):
    file = tmp_path / "m.og"
    file.write_text("before")

    def full(head, constants):
        yield head
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_file, "_parts", full)
    with pytest.raises(OSError, match="No space left"):
        model_of(perceptron).save(file)
    assert file.read_text() == "before"
    assert os.listdir(tmp_path) == ["m.og"]


# -- damaged and foreign files


@pytest.fixture(scope="module")
def contents(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "m.og"
    model_of(perceptron).save(file)
    return file.read_bytes()


@pytest.mark.parametrize(("damage", "match"), DAMAGED)
def test_a_damaged_file_is_refused(tmp_path, contents, damage, match):
    refused(tmp_path, damage(contents), match)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda h: h.pop("graph"), "'graph'"),
        (lambda h: h["graph"]["nodes"][0].__setitem__(3, [99]), "out of range"),
        (lambda h: h["graph"]["nodes"][0].__setitem__(0, "Explode"), "Explode"),
        (lambda h: h["graph"]["constants"][0].__setitem__(0, [24, 37]), "reshape"),
        (lambda h: h["graph"]["constants"][0].__setitem__(1, "f64x"), "f64x"),
        (lambda h: h["constants"][0].__setitem__(0, 0.5), "was cut within constant"),
        (lambda h: h["options"].update(tune="sometimes"), "tune"),
        (lambda h: h["options"].update(unheard=1), "unheard"),
        (lambda h: h["measured"].append([1]), "no file of a model"),
        (lambda h: h["sizes"].append([[5, 25]]), "25"),
    ],
)
def test_a_header_that_makes_no_model_is_refused(tmp_path, contents, change, match):
    refused(tmp_path, rewritten(contents, change), match)


def test_a_file_calls_no_function_but_those_of_the_table(tmp_path):
    file = tmp_path / "m.og"
    model_of(host_steps).save(file)
    assert b'"sort"' in file.read_bytes()
    for name in ("fromfile", "lib.format.open_memmap", "load", "add.__reduce__", "add.__class__"):

        def call(header, name=name):
            (node,) = (n for n in header["graph"]["nodes"] if n[4] == "call" and n[5][0] == "sort")
            node[5][0] = name

        refused(tmp_path, rewritten(file.read_bytes(), call), f"it calls '{name}'")


@pytest.mark.parametrize("name", ["np", "partial", "nothing", "__loader__", "a.b"])
def test_a_file_calls_only_functions_that_a_block_defines(tmp_path, name):
    file = tmp_path / "m.og"
    b = og.GraphBuilder()
    b.output(og.blocks.embedding(b.input((3,), "s32", name="ids"), noise(9, 4)))
    b.compile().save(file)
    loaded = og.load(file)
    np.testing.assert_array_equal(loaded(np.array([8, 0, 3], np.int32)), noise(9, 4)[[8, 0, 3]])

    def call(header):
        (node,) = (n for n in header["graph"]["nodes"] if n[4] == "block's call")
        node[5][0]["function"][1] = name

    refused(tmp_path, rewritten(file.read_bytes(), call), "is no function of a block")
