"""Exported programs: each is run, and prints what the others print."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from cpp import needs_compiler, needs_headers

import onednn_graph_py as og
from matrix.programs import COMPILER, HEADERS, LIBRARY
from onednn_graph_py.machine.cpu import lacks
from onednn_graph_py.model.checking.filling import Fill, filled
from onednn_graph_py.model.checking.verify import reference_values
from onednn_graph_py.tools.command_line import main
from onednn_graph_py.tools.export import benchdnn_command, to_cpp, to_python

PER_TENSOR = {"qtype": "per_tensor"}


# What attention computes in: both are exported, and not every CPU has bf16.
FLOAT = "f32" if lacks("bf16") else "bf16"


def attention(b):
    q, k, v = (b.input((2, 4, 16, 8), FLOAT, name=n) for n in ("class", "key point", "v"))
    mask = b.input((2, 1, 16, 16), FLOAT, name="mask")
    p = (q.matmul(k, transpose_b=True) * 0.25 + mask).softmax(axis=-1)
    b.output(probabilities=p, y=p @ v)


def int8_convolution(b):
    x = b.input((1, 6, 6, 8), "u8")
    w = b.constant(np.random.default_rng(3).integers(-8, 8, (3, 3, 8, 16)).astype(np.int8))
    y = x.dequantize(scales=[0.25], zps=[5], **PER_TENSOR).convolution(
        w.dequantize(scales=[0.125 * (1 + i % 3) for i in range(16)], qtype="per_channel", axis=3,
                     zps=[0] * 16),
        strides=(1, 1), pads_begin=(1, 1), pads_end=(1, 1), dilations=(1, 1),
    )  # fmt: skip
    b.output(y.relu().quantize(dtype="s8", scales=[0.5], zps=[-3], **PER_TENSOR))


def strided(b):
    x = b.input((2, 3, 4), strides=(12, 1, 3), name="x")
    b.output((x.elu(alpha=0.3) + 1.5).reduce_sum(axes=(1,), keep_dims=True))


def chosen(b):
    c = b.input((3, 4), "boolean", name="c")
    x = b.input((3, 4))
    b.output(b.select(c, x.exp(), x.clamp(min=-0.5, max=float("inf"))))


def four_bit_weights(b):
    x = b.input((4, 32), name="x")
    w = b.input((32, 8), "u4", name="w")
    s, z = b.input((4, 8), name="s"), b.input((4, 8), "u8", name="z")
    w = w.dynamic_dequantize(s, z, qtype="per_group", axis=0, group_shape=(8, 1))
    b.output(x @ w)


def normalized(b):
    x = b.input((2, 5, 8), name="x")
    g, s, m, v = (b.input((8,), name=n) for n in ("gamma", "beta", "mean", "variance"))
    y = x.batch_norm_inference(g, s, m, v, epsilon=1e-3)
    b.output(a=y.tanh(), b=(y @ b.constant(np.arange(16, dtype=np.float32).reshape(8, 2) / 3)))


def in_bf16_and_f16(b):
    x = b.input((6, 7), name="x")
    b.output(a=x.type_cast(dtype="bf16"), b=x.type_cast(dtype="f16"))


GRAPHS = {
    f.__name__: f
    for f in (
        attention, int8_convolution, strided, chosen, four_bit_weights, normalized, in_bf16_and_f16
    )
}  # fmt: skip
OPTIONS = {"four_bit_weights": {"fpmath_mode": "strict", "apply_to_int": True}}


def built(name):
    b = og.GraphBuilder(**OPTIONS.get(name, {}))
    GRAPHS[name](b)
    return b


def run_python(text, folder):
    path = folder / "program.py"
    path.write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-W", "error", path], capture_output=True, text=True, timeout=300
    )


IN_ONE_PROCESS = """
import contextlib, io, json, runpy, sys
said = []
for path in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(path, run_name="__main__")
    said.append(out.getvalue())
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the Python programs of all graphs print, by name and style; they run in one process."""
    folder, paths = tmp_path_factory.mktemp("python"), {}
    for name in GRAPHS:
        for style in ("mirror", "builder"):
            paths[name, style] = folder / f"{name}_{style}.py"
            paths[name, style].write_text(to_python(built(name), style), encoding="utf-8")
    command = [sys.executable, "-W", "error", "-c", IN_ONE_PROCESS, *paths.values()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return dict(zip(paths, json.loads(done.stdout), strict=True))


def compile_cpp(*words):
    flags = ["-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", "-isystem", HEADERS]
    subprocess.run([COMPILER, *flags, *words], check=True, capture_output=True, text=True)


def run_cpp(text, folder, *words):
    source, program = folder / "program.cpp", folder / "program"
    if not program.exists():
        source.write_text(text, encoding="utf-8")
        compile_cpp(
            source, "-o", program,
            LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-Wl,--allow-shlib-undefined",
        )  # fmt: skip
    # SYCL's plug-ins lie beside the library, and are only found so.
    folders = {**os.environ, "LD_LIBRARY_PATH": str(LIBRARY.parent)}
    return subprocess.run(
        [program, *words], capture_output=True, text=True, timeout=300, env=folders
    )


def one_of(programs):
    """A program that is the one of several whose name it gets, as compiling each takes seconds."""
    includes = dict.fromkeys(re.findall(r"^#include .*$", "".join(programs.values()), re.M))
    lines = [*includes, "#include <string>"]
    for name, text in programs.items():
        lines += [f"namespace {name} {{", re.sub(r"^#include .*$", "", text, flags=re.M), "}"]
    lines += ["int main(int, char **words) {", "  const std::string name = words[1];"]
    lines += [f'  if (name == "{name}") return {name}::main();' for name in programs]
    return "\n".join([*lines, "  return 1;", "}", ""])


@pytest.fixture(scope="module")
def cpp(tmp_path_factory):
    """Runs the C++ program of a graph by its name."""
    texts = {f"{name}_": to_cpp(built(name), check=True) for name in GRAPHS}
    text = one_of({**texts, "odd_names_": to_cpp(odd_names())})
    folder = tmp_path_factory.mktemp("cpp")
    return lambda name: run_cpp(text, folder, f"{name}_")


def expected_lines(b):
    """What a right program prints, but for rounding: numbers by output."""
    values = reference_values(b, og.fill_inputs(b))
    return {n: values[v.id].astype(np.float64).ravel() for n, v in b.outputs.items()}


def assert_right(said, b):
    lines = said.splitlines()
    assert lines[0].startswith("partitions: ")
    for line, (name, right) in zip(lines[1:], expected_lines(b).items(), strict=True):
        head, _, rest = line.partition(": sum ")
        assert head == name
        words = rest.replace(",", "").split()
        magnitude = np.abs(right).sum()
        assert abs(float(words[0]) - right.sum()) <= 0.02 * magnitude + 1e-6
        assert abs(float(words[2]) - magnitude) <= 0.02 * magnitude + 1e-6
        first = [float(w) for w in words[words.index("first") + 1 :]]
        # One bf16 rounding, or a step of an integer at a tie.
        np.testing.assert_allclose(first, right[:4], rtol=0.02, atol=0.02 * np.abs(right).max())


@pytest.mark.parametrize("name", GRAPHS)
def test_python_programs_run_and_agree(name, printed):
    b = built(name)
    mirror, builder = (printed[name, style] for style in ("mirror", "builder"))
    assert_right(mirror, b)
    assert_right(builder, b)
    assert mirror.splitlines()[0] == builder.splitlines()[0]


@pytest.mark.parametrize("dtype", ["s4", "u4"])
def test_constants_of_four_bits_come_back(dtype, capsys):
    b = og.GraphBuilder(apply_to_int=True)
    weights = np.random.default_rng(0).integers(0, 8, (32, 8))
    scales = b.input((4, 8), name="s")
    w = b.constant(weights, dtype).dynamic_dequantize(
        scales, qtype="per_group", axis=0, group_shape=(8, 1)
    )
    b.output(b.input((4, 32), name="x") @ w)
    said = []
    for style in ("mirror", "builder"):
        exec(to_python(b, style), {"__name__": "__main__"})
        said.append(capsys.readouterr().out)
    assert_right(said[0], b)
    assert said[0] == said[1]


@needs_compiler
@needs_headers
@pytest.mark.parametrize("name", GRAPHS)
def test_cpp_prints_what_the_mirror_prints_and_finds_it_right(name, printed, cpp):
    """Programs that don't check share all but their memory with these, and run below."""
    done = cpp(name)
    assert done.returncode == 0, done.stdout + done.stderr
    lines, mirrors = done.stdout.splitlines(), printed[name, "mirror"].splitlines()
    assert lines[: len(mirrors)] == mirrors
    found = [line.endswith(": right") for line in lines[len(mirrors) :]]
    assert found == [True] * len(built(name).outputs)


@needs_compiler
@needs_headers
def test_cpp_says_what_is_not_supported(tmp_path):
    b = og.GraphBuilder()
    b.output(b.input((4,)).pow(beta=1.5))
    done = run_cpp(to_cpp(b), tmp_path)
    assert done.returncode == 3
    assert "oneDNN does not support partition" in done.stderr


def test_large_constants_are_filled_and_the_program_says_so():
    b = og.GraphBuilder()
    b.output(b.input((1, 256)) @ b.constant(np.ones((256, 128), np.float32), name="weights"))
    for text in (to_cpp(b), to_python(b), to_python(b, "mirror")):
        assert "its 131072 bytes are not kept: filled like an input" in text
        assert len(text) < 20_000


def test_a_program_that_checks_holds_all_constants():
    b = og.GraphBuilder()
    b.output(b.input((1, 256)) @ b.constant(np.ones((256, 128), np.float32), name="weights"))
    with pytest.raises(og.InvalidGraphError, match="more than 65,536 bytes"):
        to_cpp(b, check=True)


def test_a_seed_gives_other_numbers(tmp_path):
    b = built("strided")
    first, other = (run_python(to_python(b, seed=s), tmp_path).stdout for s in (0, 1))
    assert first != other


def odd_names():
    b = og.GraphBuilder()
    x = b.input((2,), name='a "quoted" \\ név\n*/')
    y = b.op("ReLU", x, name='x"; import os #')
    b.output(**{"out %s {} \\n": y})
    return b


def test_names_can_be_anything(tmp_path, request):
    b = odd_names()
    b.compile()
    done = run_python(to_python(b, "mirror"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "out %s {} \\n: sum" in done.stdout
    assert run_python(to_python(b), tmp_path).stdout == done.stdout
    if COMPILER and HEADERS:
        assert request.getfixturevalue("cpp")("odd_names").stdout == done.stdout


def test_what_can_not_be_exported_is_said():
    b = og.GraphBuilder()
    x = b.input((-1, 4), name="x")
    with pytest.raises(og.InvalidGraphError, match="no output that an op makes"):
        to_cpp(b)
    b.output(x.relu())
    with pytest.raises(og.InvalidShapeError, match="input 'x': its shape must be given"):
        to_cpp(b)
    assert "{3, 4}" in to_cpp(b, shapes={"x": (3, 4)})
    with pytest.raises(og.InvalidArgumentsError, match="style must be one of 'builder', 'mirror'"):
        to_python(b, "c")


def test_methods_of_the_builder_are_the_same():
    b = built("chosen")
    assert b.to_cpp(seed=3) == to_cpp(b, seed=3)
    assert b.to_python("mirror") == to_python(b, "mirror")


def test_benchdnn_command(tmp_path):
    b = built("attention")
    path = tmp_path / "graph.json"
    b.save(path)
    assert benchdnn_command(path, mode="P") == [
        "benchdnn", "--graph", "--mode=P", "--engine=cpu", f"--case={path}"
    ]  # fmt: skip
    line = b.to_benchdnn(tmp_path / "an other.json")
    assert line == f"benchdnn --graph --mode=C --engine=cpu '--case={tmp_path}/an other.json'"
    assert og.load(tmp_path / "an other.json").compile().verify()
    path.write_text("{}")
    with pytest.raises(og.GraphFormatError):
        benchdnn_command(path)


def test_a_graph_for_benchdnn_states_what_it_asks_for(tmp_path):
    """It refuses a Convolution without groups, and crashes with a MaxPool without dilations."""
    b, ones = og.GraphBuilder(), np.ones((3, 3, 4, 4), np.float32)
    window = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1)}
    x, weights = b.input((1, 8, 8, 4), name="x"), b.input(ones.shape, name="weights")
    y = b.convolution(x, weights, **window, dilations=(1, 1))
    b.output(b.max_pool(y, **window, kernel=(3, 3)))
    b.to_benchdnn(tmp_path / "graph.json")
    convolution, pool = (op.values for op in og.serialization.parse(tmp_path / "graph.json").graph)
    assert (convolution["groups"], convolution["auto_pad"]) == (1, "None")
    assert (convolution["data_format"], convolution["weights_format"]) == ("NXC", "XIO")
    assert (pool["dilations"], pool["rounding_type"]) == ((1, 1), "floor")
    assert (pool["kernel"], pool["pads_begin"]) == ((3, 3), (1, 1))  # as they were
    data = np.random.default_rng(0).standard_normal((1, 8, 8, 4), np.float32)
    stated = og.load(tmp_path / "graph.json")
    np.testing.assert_array_equal(stated.compile()(data, ones), b.compile()(data, ones))


def test_command_line(tmp_path, capsys):
    b = built("normalized")
    path = tmp_path / "a graph.json"
    b.save(path)
    for to in ("python", "mirror", "cpp"):
        assert main(["export", str(path), "--format", to]) == 0
        assert "A oneDNN graph, exported by onednn_graph_py" in capsys.readouterr().out
    assert main(["export", str(path), "--format", "benchdnn"]) == 0
    assert capsys.readouterr().out == f"benchdnn --graph --mode=C --engine=cpu '--case={path}'\n"
    made = tmp_path / "out.py"
    assert main(["export", str(path), "-o", str(made)]) == 0
    assert run_python(made.read_text(), tmp_path).returncode == 0
    assert main(["export", str(tmp_path / "none.json")]) == 2
    assert "export: " in capsys.readouterr().err


@pytest.mark.parametrize("dtype", ["f32", "bf16", "s8", "u4", "boolean"])
def test_filled_arrays_are_in_range(dtype):
    fill = {"boolean": Fill("mostly true"), "f32": Fill("uniform", -2, 3)}.get(dtype)
    fill = fill or Fill("uniform" if dtype == "bf16" else "whole", 0, 7)
    made = filled(fill, (40, 50), dtype, seed=1, number=2).astype(np.float64)
    low, high = (0, 1) if dtype == "boolean" else (fill.low, fill.high)
    assert made.min() >= low
    assert made.max() <= high
    assert made.mean() == pytest.approx(0.75 if dtype == "boolean" else (low + high) / 2, rel=0.1)
