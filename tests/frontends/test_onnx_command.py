"""``python -m onednn_graph_py onnx``: what it shows and writes, and what it says of wrong words."""

import json
import signal

import numpy as np
import pytest
from graphs import python
from interrupted_commands import COMMANDS, check_left, end, own_seconds

import onednn_graph_py as og
from onednn_graph_py.machine import current
from onednn_graph_py.machine.pace import Pace
from onednn_graph_py.model.planning import pace
from onednn_graph_py.tools import command_line as cli

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnx_ir", reason="onnx_ir is not installed")
front = pytest.importorskip("onednn_graph_py.onnx")

MLP = """
<ir_version: 10, opset_import: ["": 21]>
mlp (float[batch, sequence, 16] x) => (float[batch, sequence, 8] y)
<float[16, 32] w = {%s}, float[32, 8] v = {%s}> {
    h = MatMul(x, w)
    a = Relu(h)
    y = MatMul(a, v)
}
"""
SORTED = """
<ir_version: 10, opset_import: ["": 21]>
sorted (float[4, 16] x) => (float[4, 8] y)
<float[16, 32] w = {%s}, float[32, 8] v = {%s}, int64[1] k = {32}> {
    h = MatMul(x, w)
    t, i = TopK(h, k)
    y = MatMul(t, v)
}
"""
DEPENDING = """
<ir_version: 10, opset_import: ["": 21]>
depending (float[4, 16] x) => (float[r, 8] y)
<float[16, 32] w = {%s}, float[32, 8] v = {%s}> {
    h = MatMul(x, w)
    n = NonZero(h)
    f = Cast <to = 1> (n)
    t = Transpose(f)
    p = ReduceSum <keepdims = 1> (t)
    q = Mul(p, t)
    s = ReduceMax(q)
    e = Add(h, s)
    y = MatMul(e, v)
}
"""
GATED = """
<ir_version: 10, opset_import: ["": 21]>
gated (float[4, 16] x) => (float[16, 4] y)
<float[16, 32] w = {%s}, float[4, 4] v = {%s}> {
    h = MatMul(x, w)
    a, b = Split <axis = 1, num_outputs = 2> (h)
    g = Mul(a, b)
    t = Transpose <perm = [1, 0]> (g)
    y = MatMul(t, v)
}
"""
QUANTIZED = """
<ir_version: 10, opset_import: ["": 21]>
quantized (float[64, 64] x) => (float[64, 32] y)
<float s = {0.01}, int8 z = {0}, int8[64, 32] w = {%s}> {
    q = QuantizeLinear(x, s, z)
    d = DequantizeLinear(q, s, z)
    e = DequantizeLinear(w, s, z)
    y = MatMul(d, e)
}
"""
random = np.random.default_rng(0)


def numbers(count):
    return ", ".join(f"{x:.3f}" for x in random.uniform(-1, 1, count))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The paths of models, by name."""
    folder = tmp_path_factory.mktemp("models")
    made = {}
    for name, text in (("mlp", MLP), ("sorted", SORTED), ("depending", DEPENDING)):
        made[name] = text % (numbers(512), numbers(256))
    made["gated"] = GATED % (numbers(512), numbers(16))
    # Without VNNI sums of products of larger weights saturate in onnxruntime.
    limit = 100 if current().has("vnni") else 64
    made["quantized"] = QUANTIZED % ", ".join(map(str, random.integers(-limit, limit, 64 * 32)))
    for name, text in made.items():
        made[name] = str(folder / f"{name}.onnx")
        onnx.save(onnx.parser.parse_model(text), made[name])
    return made


def run(capsys, *words):
    """What the command returns and prints."""
    status = cli.main(["onnx", *words])
    told = capsys.readouterr()
    return status, told.out, told.err


# -- what it shows


def test_regions_partitions_and_the_share_of_the_arithmetic(files, capsys):
    status, out, err = run(capsys, files["mlp"], "--set", "batch=2,sequence=4")
    assert (status, err) == (0, "")
    first, second, third, fourth, *rest = out.splitlines()
    assert first == "mlp.onnx: opset 21, 3.0 KiB of weights"
    assert second == "  x: f32 2x4x16"
    assert third.endswith("2x4x16: 100.0% of the arithmetic in oneDNN")
    assert fourth.strip().startswith("3 nodes, 1 region, 2 partitions (0 of them int8)")
    assert [line.strip() for line in rest] == ["1 x MatMul+ReLU", "1 x MatMul"]


def test_islands_have_reasons(files, capsys):
    status, out, _ = run(capsys, files["sorted"])
    assert status == 0
    assert "2 regions" in out
    lines = [line.strip() for line in out.splitlines()]
    assert any(line.startswith("island of TopK, in ") for line in lines)
    assert "1 x TopK: oneDNN has no op for it" in lines


def test_tune_times_a_file_for_the_sizes_that_are_set(files, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path))
    monkeypatch.setattr(pace, "_known", {})
    monkeypatch.setattr(pace, "measured", lambda *_: Pace(1e-4, 2e-4))
    assert cli.main(["tune", files["mlp"], "--set", "batch=2,sequence=5", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    # Those of the model as a whole depend on onnxruntime's time.
    groups = [row["inputs"] for row in rows if not row["ops"][0].startswith("ONNX model")]
    assert groups == ["[2, 5, 16] f32 and [16, 32] f32"]
    assert cli.main(["tune", files["mlp"], "--set", "no=2"]) == 2
    assert "the model has no such dim; there are: batch, sequence" in capsys.readouterr().err


def test_json_has_all_of_it(files, capsys):
    status, out, _ = run(
        capsys, files["sorted"], "--json", "--verify", "--time", "--seconds", "0.01"
    )
    assert status == 0
    told = json.loads(out)
    assert (told["nodes"], told["regions"]) == (3, 2)
    assert [left["op"] for left in told["left"]] == ["TopK"]
    assert told["inputs"] == {"x": {"dtype": "f32", "shape": [4, 16]}}
    assert 0.9 < told["share"] < 1
    assert told["partitions"] == 2
    assert told["verified"]["ok"] is True
    assert told["times"]["seconds"] > 0
    assert len(told["times"]["steps"]) == len(told["steps"])
    assert all(seconds > 0 for seconds in told["times"]["steps"])


def test_times_stand_beside_onnxruntimes(files, capsys):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    status, out, _ = run(capsys, files["mlp"], "--time", "--seconds", "0.01", "--threads", "1")
    assert status == 0
    assert "a call takes " in out.splitlines()[-1]
    assert " times what onnxruntime " in out.splitlines()[-1]
    assert "1 x MatMul+ReLU: " in out


def test_the_slowest_steps_stand_beside_onnxruntimes_nodes(files, capsys, tmp_path, monkeypatch):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    monkeypatch.setattr(pace, "measured", lambda *_: Pace(1e-4, 2e-4))
    monkeypatch.chdir(tmp_path)
    words = ("--time", "--seconds", "0.01", "--set", "batch=2,sequence=5")
    status, out, _ = run(capsys, files["mlp"], *words)
    assert status == 0
    head = next(i for i, line in enumerate(out.splitlines()) if "slowest steps" in line)
    table = out.splitlines()[head + 1 : -1]
    assert any("MatMul+ReLU" in line[:48] for line in table)
    assert sum("MatMul" in line[48:] for line in table) == 2
    assert not list(tmp_path.glob("*.json"))
    _, out, _ = run(capsys, files["mlp"], *words, "--json")
    nodes = json.loads(out)["times"]["onnxruntime_nodes"]
    assert [seconds for _, seconds in nodes] == sorted((s for _, s in nodes), reverse=True)


def test_results_between_nodes_are_described(files, capsys, tmp_path):
    path = str(tmp_path / "x.npz")
    x = np.linspace(-1, 2, 2 * 3 * 16, dtype=np.float32).reshape(2, 3, 16)
    np.savez(path, x=x)
    words = ("--inputs", path, "--outputs", "h,y", "--outputs", "a")
    status, out, _ = run(capsys, files["mlp"], *words)
    assert status == 0
    want = dict(zip("hya", front.load(files["mlp"]).run(x, outputs=["h", "y", "a"]), strict=True))
    for name, array in want.items():
        line = next(line for line in out.splitlines() if line.startswith(f"{name}: dtype float32"))
        assert line.split(", ")[1:] == [
            f"shape 2x3x{array.shape[2]}",
            f"smallest {array.min():.6g}",
            f"largest {array.max():.6g}",
        ]
    _, out, _ = run(capsys, files["mlp"], *words, "--json")
    assert list(json.loads(out)["outputs"]) == ["h", "y", "a"]
    status, _, err = run(capsys, files["mlp"], "--outputs", "hh")
    assert status == 2
    assert "no node makes 'hh'" in err


def test_a_call_that_fails_is_no_fault_of_an_option(files, capsys, monkeypatch):
    def fail(*_, **__):
        raise og.InvalidIndexError("index 7 is out of range")

    monkeypatch.setattr(front.OnnxModel, "verify", fail)
    status, _, err = run(capsys, files["mlp"], "--verify")
    assert (status, err) == (1, "onnx: a call fails: index 7 is out of range\n")
    assert run(capsys, files["mlp"], "--verify", "--value", "x=1")[0] == 2


def test_results_are_compared(files, capsys):
    status, out, _ = run(capsys, files["mlp"], "--verify")
    assert status == 0
    assert "y: right" in out
    status, out, _ = run(capsys, files["mlp"], "--verify", "--rtol", "0", "--atol", "-1")
    assert status == 1
    assert "elements are wrong" in out


def test_a_file_has_the_inputs_and_so_the_sizes(files, capsys, tmp_path, monkeypatch):
    path = str(tmp_path / "x.npz")
    x = np.linspace(-1, 1, 2 * 3 * 16, dtype=np.float32).reshape(2, 3, 16)
    np.savez(path, x=x)
    seen = []
    verify = front.OnnxModel.verify
    monkeypatch.setattr(
        front.OnnxModel, "verify", lambda m, given, **o: seen.append(given) or verify(m, given, **o)
    )
    status, out, _ = run(capsys, files["mlp"], "--inputs", path, "--verify")
    assert (status, "x: f32 2x3x16" in out, "y: right" in out) == (0, True, True)
    np.testing.assert_array_equal(seen[0]["x"], x)


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (b"", "no file of numpy.savez"),
        (b"PK\x03\x04 cut", "no file of numpy.savez"),
        (np.float32([1, 2]), "no file of numpy.savez"),
        ({"z": np.zeros((2, 3, 16), np.float32)}, "z"),
        ({"x": np.zeros((2, 3, 17), np.float32)}, "17"),
        ({"x": np.zeros((2, 3, 16), np.float64)}, "must have the type float32"),
    ],
)
def test_a_file_of_other_inputs_is_refused(files, capsys, tmp_path, contents, message):
    path = tmp_path / "x.npz"
    if isinstance(contents, bytes):
        path.write_bytes(contents)
    elif isinstance(contents, dict):
        np.savez(path, **contents)
    else:
        with path.open("wb") as file:
            np.save(file, contents)
    status, _, err = run(capsys, files["mlp"], "--inputs", str(path), "--verify")
    assert status == 2
    assert message in err


def test_quantized_models_are_allowed_their_roundings(files, capsys):
    status, out, _ = run(capsys, files["quantized"], "--verify", "--json")
    told = json.loads(out)
    assert (status, told["verified"]["ok"]) == (0, True)
    (check,) = told["verified"]["outputs"]
    assert (told["int8_partitions"] > 0) == (check["allowed"] > 0.1)


def test_what_follows_from_numbers_is_a_part_of_its_own(files, capsys):
    status, out, _ = run(capsys, files["depending"], "--verify")
    assert status == 0
    assert "NonZero: its dims depend on numbers" in out
    assert "y: right" in out


# -- sizes


def test_sizes_that_nobody_gives_are_chosen_and_shown(files, capsys):
    status, out, _ = run(capsys, files["mlp"])
    assert status == 0
    assert "x: f32 1x128x16" in out
    assert "open dims, without a size from --set: batch=1, sequence=128" in out
    _, out, _ = run(capsys, files["mlp"], "--set", "sequence=3")
    assert "x: f32 1x3x16" in out
    assert "without a size from --set: batch=1\n" in out


@pytest.mark.parametrize(
    "words", ["x=2x3x16", "x[0]=2,x[1]=3", "batch=2,x[1]=3", "batch=2,sequence=3"]
)
def test_sizes_of_dims_places_and_shapes_of_inputs(words, files, capsys):
    status, out, _ = run(capsys, files["mlp"], "--set", words)
    assert status == 0
    assert "x: f32 2x3x16" in out
    assert "without a size" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("sequense=3", "sequense=3: the model has no such dim, did you mean 'sequence'?"),
        ("zzz=3", "zzz=3: the model has no such dim; there are: batch, sequence"),
        ("batch=two", "--set batch=two: expected a dim and its size, such as batch=1"),
        ("batch=-1", "--set batch=-1: expected a dim and its size"),
        ("batch", "--set batch: expected a dim and its size"),
        ("batch=1x2", "--set batch=1x2: a dim has one size"),
        ("x=1x2", "--set x=1x2: the input has 3 dims, got 2"),
        ("x[2]=8", "--set x[2]=8: that dim is 16 in the model"),
        ("x[7]=8", "--set x[7]=8: it has 3 dims in the model"),
        ("x=1x2x3", "input 'x' must have the shape batch x sequence x 16, got 1x2x3"),
    ],
)
def test_wrong_sizes_are_told(words, message, files, capsys):
    status, out, err = run(capsys, files["mlp"], "--set", words)
    assert (status, out) == (2, "")
    assert err.startswith("onnx: ")
    assert message in err
    assert len(err.splitlines()) == 1


def test_an_input_without_dims_needs_a_shape(tmp_path, capsys):
    path = str(tmp_path / "open.onnx")
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "open",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    status, _, err = run(capsys, path)
    assert status == 2
    assert "does not say how many dims input 'x' has; give its shape, as in --set x=1x3" in err
    status, out, _ = run(capsys, path, "--set", "x=2x3")
    assert status == 0
    assert "x: f32 2x3" in out


# -- files


def test_the_regions_are_written_as_a_graph_of_onednn(files, tmp_path, capsys):
    path = tmp_path / "graph.json"
    status, _, err = run(capsys, files["sorted"], "--graph", str(path))
    assert status == 0
    assert err == f"{path}: 2 ops of oneDNN, without the weights' numbers\n"
    builder = og.load(path)
    assert [n.kind for n in builder.nodes] == ["MatMul", "MatMul"]
    assert sorted(v.shape for v in builder.inputs) == [(4, 16), (4, 32), (16, 32), (32, 8)]
    assert sorted(v.shape for v in builder.outputs.values()) == [(4, 8), (4, 32)]
    assert builder.compile().verify().ok


def test_views_are_ops_or_inputs_of_the_graph_that_is_written(files, tmp_path, capsys):
    path = tmp_path / "graph.json"
    status, _, _ = run(capsys, files["gated"], "--graph", str(path))
    assert status == 0
    builder = og.load(path)
    assert {n.kind for n in builder.nodes} <= {"MatMul", "Multiply", "StaticTranspose"}
    assert (4, 16) in {v.shape for v in builder.inputs}  # a half of what the first op makes
    assert builder.compile().verify().ok


def test_a_model_without_a_region_can_not_be_written(tmp_path, capsys):
    path = str(tmp_path / "top.onnx")
    text = """<ir_version: 10, opset_import: ["": 21]>
        top (float[4] x) => (float[2] y, int64[2] i) <int64[1] k = {2}> { y, i = TopK(x, k) }"""
    onnx.save(onnx.parser.parse_model(text), path)
    status, _, err = run(capsys, path, "--graph", str(tmp_path / "graph.json"))
    assert status == 2
    assert "oneDNN takes no part of it" in err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory"),
        (b"", "model.onnx: "),
        (b"no model at all", "it is not an ONNX model, or only a part"),
    ],
)
def test_wrong_files_are_told_in_one_line(content, message, tmp_path, capsys):
    path = tmp_path / "model.onnx"
    if content is not None:
        path.write_bytes(content)
    status, out, err = run(capsys, str(path))
    assert (status, out) == (2, "")
    assert message in err
    assert "model.onnx" in err
    assert len(err.splitlines()) == 1


def test_a_folder_is_no_file(tmp_path, capsys):
    status, _, err = run(capsys, str(tmp_path))
    assert status == 2
    assert "is a folder; expected an ONNX file" in err


def test_a_node_that_must_not_be_an_island_is_told(files, capsys):
    status, _, err = run(capsys, files["sorted"], "--fallback", "error")
    assert status == 2
    assert "TopK" in err


# -- without onnx


def test_an_interrupted_command_leaves_nothing():
    starting = own_seconds(COMMANDS["onnx"].imports)
    left = end("onnx", signal.SIGINT, group=True, starting=starting)
    # Importing onnxruntime writes the first; the second is what was measured of the model.
    check_left("onnx", signal.SIGINT, left, ("temporary/.ses", "cache/paces/"))


def test_importing_the_package_imports_no_onnx():
    done = python("""
        import sys
        import onednn_graph_py, onednn_graph_py.tools.command_line, onednn_graph_py.onnx
        assert not {"onnx", "onnx_ir", "onnxruntime"} & set(sys.modules)
    """)
    assert done.stderr == ""
