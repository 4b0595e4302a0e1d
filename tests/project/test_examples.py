"""The examples: what they print, and that they fail when something is wrong."""

import importlib
import inspect
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import onednn_graph_py as og
from onednn_graph_py import (
    InvalidArgumentsError,
    cpu_isa,
    engine,
    graph,
    logical_tensor,
    op,
)
from onednn_graph_py.examples import __main__ as command
from onednn_graph_py.examples import (
    _run,
    cpu_getting_started,
    gated_mlp,
    gated_mlp_int4,
    gated_mlp_wei_combined,
    gpu_opencl_getting_started,
)
from onednn_graph_py.examples._run import Case, compare
from onednn_graph_py.machine import cpu

# All that oneDNN 3.13.1 has.
UPSTREAM = [
    "cpu_getting_started",
    "cpu_inference_int8",
    "cpu_single_op_partition",
    "gated_mlp",
    "gated_mlp_int4",
    "gated_mlp_wei_combined",
    "gpu_opencl_getting_started",
    "gqa",
    "gqa_training",
    "mqa",
    "sdpa",
    "sdpa_bottom_right_causal_mask",
    "sdpa_quantized",
    "sdpa_stacked_qkv",
    "sycl_getting_started",
    "sycl_single_op_partition",
]
# Those that have no kind of engine to choose.
OF_ONE_KIND = ("cpu_", "gpu_", "sycl_single")
SMALL_SDPA = ["sdpa", "cpu", "2", "64", "4", "16"]
SHARE = re.compile(r"maximum error: \S+ of values up to \S+; at most (\S+) of a tolerance used")


def run(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run as users do, from a folder that has no source tree in it."""
    return subprocess.run(
        [sys.executable, "-m", "onednn_graph_py.examples", *words],
        cwd=folder,
        # Threads of NumPy and of oneDNN would take the CPUs from each other.
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **env},
        capture_output=True,
        text=True,
        timeout=300,
    )


def verdicts(output: str) -> list[str]:
    """The last column of the closing table."""
    table = output[output.index("example  ") :].split("\n\n")[0]
    return [line.split()[-1] for line in table.splitlines()[1:]]


def check_passed(done: subprocess.CompletedProcess[str], partitions: list[list[str]]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    fused = re.findall(r"^ +\d+\. (\d+) ops?: (.*)$", done.stdout, re.MULTILINE)
    assert [ops.split(" + ") for _, ops in fused] == partitions
    assert [int(count) for count, _ in fused] == [len(ops) for ops in partitions]
    shares = SHARE.findall(done.stdout)
    assert shares
    assert all(float(share) <= 1 for share in shares)
    told = verdicts(done.stdout)
    times = re.findall(r"^ +time: [\d.]+ ms \(median\)$", done.stdout, re.MULTILINE)
    assert len(times) == told.count("ok")
    assert set(told) <= {"ok", "skipped"}
    assert told.count("skipped") == done.stdout.count("\n    skipped: ")
    assert done.stdout.splitlines()[-1].startswith("nothing failed; ")


ATTENTION = ["MatMul", "Divide", "Add", "SoftMax", "MatMul"]
# Types in which attention runs on this CPU.
TYPES = [name for name in ("f32", "bf16", "f16") if cpu.lacks(name) is None]


def test_getting_started_runs_in_two_partitions(tmp_path):
    done = run(tmp_path, "cpu_getting_started")
    check_passed(done, [["Convolution", "BiasAdd", "ReLU"]] * 2)
    assert "between the partitions: logical_tensor(id=5, f32, 8x96x54x54" in done.stdout
    assert re.search(r"allocator: (\d+ allocations, at most [\d.]+ MiB|none, because)", done.stdout)


def test_a_single_op_runs_without_a_graph(tmp_path):
    check_passed(run(tmp_path, "cpu_single_op_partition"), [["MatMul"]])


def test_int8_inference_runs_in_one_partition(tmp_path):
    done = run(tmp_path, "cpu_inference_int8")
    check_passed(done, [["Dequantize", "Dequantize", "Convolution", "ReLU", "Quantize"]])
    positive = re.search(r"range: (\d+)% of the results are above zero", done.stdout)
    assert positive is not None
    assert 20 < int(positive[1]) < 80


def test_attention_is_one_partition_in_all_types(tmp_path):
    done = run(tmp_path, *SMALL_SDPA, "17")
    check_passed(done, [ATTENTION] * len(TYPES))
    for name in ("f32", "bf16", "f16"):
        assert f"\n  {name}, 2x64, 4 heads of 16, 17 queries\n" in done.stdout


@pytest.mark.slow
def test_attention_of_upstreams_size_is_one_partition(tmp_path):
    done = run(tmp_path, "sdpa", "cpu")
    check_passed(done, [ATTENTION] * len(TYPES))
    assert "f32, 32x384, 16 heads of 64" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gated_mlp", "gated_mlp_wei_combined", "gated_mlp_int4"])
def test_gated_mlps_of_upstreams_size_are_one_partition(name, tmp_path):
    done = run(tmp_path, name)
    assert done.returncode == 0, done.stdout
    told = verdicts(done.stdout)
    assert (told.count("ok"), len(told)) == (len(TYPES), 3)
    assert "f32, mb 1, ic 4096, oc 14336" in done.stdout


@pytest.mark.slow
def test_all_examples_run_or_are_skipped_with_a_reason(tmp_path):
    done = run(tmp_path, "--all")
    assert done.returncode == 0, done.stdout
    assert done.stderr == ""
    told = [line.split() for line in done.stdout[done.stdout.index("example  ") :].splitlines()]
    rows = told[1 : told.index([])]
    assert {row[0] for row in rows} == set(UPSTREAM)
    skipped = [row[0] for row in rows if row[-1] == "skipped"]
    assert {row[-1] for row in rows} == {"ok", "skipped"}
    last = done.stdout.splitlines()[-1]
    assert f", {len(rows) - len(skipped)} passed, {len(skipped)} skipped, 0 failed, in " in last
    assert "ic 1024, oc 3584" in done.stdout


@pytest.mark.skipif(platform.machine() != "x86_64", reason="instruction sets of x64")
def test_a_cpu_without_bf16_and_vnni_runs_the_rest(tmp_path):
    done = run(tmp_path, *SMALL_SDPA, ONEDNN_MAX_CPU_ISA="AVX2")
    assert done.returncode == 0, done.stdout
    assert verdicts(done.stdout) == ["ok", "skipped", "skipped"]
    for dtype in ("bf16", "f16"):
        told = rf"skipped: oneDNN uses (avx2|avx|sse41) on this CPU, and {dtype} needs"
        assert re.search(told, done.stdout)


def test_without_a_name_all_examples_are_listed(capsys):
    assert command.main([]) == 0
    listed = re.findall(r"^    (\w+)", capsys.readouterr().out, re.MULTILINE)
    assert listed == command.names()


def test_every_example_of_upstream_is_there():
    assert command.names() == UPSTREAM


@pytest.mark.parametrize("name", UPSTREAM)
def test_an_example_takes_a_kind_of_engine_where_upstreams_does(name):
    example = importlib.import_module(f"onednn_graph_py.examples.{name}")
    takes = "engine_kind" in inspect.signature(example.run).parameters
    assert takes == (not name.startswith(OF_ONE_KIND))


def refused(words, capsys) -> str:
    with pytest.raises(SystemExit) as end:
        command.main(words)
    assert end.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_an_unknown_name_gets_the_nearest_one(capsys):
    error = refused(["spda"], capsys)
    assert "there is no example 'spda', did you mean 'sdpa'?" in error
    assert all(name in error for name in command.names())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["32", "sdpa"], "there is no example '32'"),
        (["sdpa", "cpu", "0"], "mb: must be at least 1, got 0"),
        (["sdpa", "cpu", "2", "-4"], "seq: must be at least 1, got -4"),
        (["sdpa", "cpu", "1", "2", "3", "4", "5", "6"], "unrecognized arguments: 6"),
        (["sdpa", "tpu"], "invalid choice: 'tpu'"),
        (["cpu_getting_started", "1"], "unrecognized arguments: 1"),
        (["--everything"], "unrecognized arguments: --everything"),
        (["--all", "sdpa"], "--all runs all examples, without a name"),
    ],
)
def test_a_wrong_command_line_says_what_is_wrong(words, message, capsys):
    assert message in refused(words, capsys)


no_gpu = pytest.mark.skipif(engine.get_count("gpu") > 0, reason="there is a GPU")


@no_gpu
def test_without_a_gpu_a_graph_is_only_partitioned_for_it(tmp_path):
    done = run(tmp_path, "sdpa", "gpu", *SMALL_SDPA[2:])
    assert done.returncode == 0, done.stdout
    assert verdicts(done.stdout) == ["skipped"] * 3
    assert done.stdout.count("1. 5 ops: MatMul + Divide + Add + SoftMax + MatMul") == 3
    assert "GPU" in _run.without_device("gpu")
    reason = f"{_run.without_device('gpu')}; partitioned for gpu: 1 partition"
    assert done.stdout.count(f"    skipped: {reason}\n") == 3
    last = done.stdout.splitlines()[-1]
    assert last.startswith("nothing failed; 1 example, 0 passed, 3 skipped, 0 failed, in ")


def test_a_device_is_missing_where_the_library_says_so():
    assert _run.without_device("cpu") is None
    with pytest.raises(InvalidArgumentsError):
        _run.without_device("tpu")


@no_gpu
def test_the_opencl_example_is_partitioned_and_says_what_is_missing(tmp_path, monkeypatch):
    done = run(tmp_path, "gpu_opencl_getting_started")
    assert done.returncode == 0, done.stdout
    assert verdicts(done.stdout) == ["skipped"]
    assert done.stdout.count("ops: Convolution + BiasAdd + ReLU\n") == 2
    runtime = og.version().gpu_runtime
    assert runtime != "OpenCL"
    assert f"here is built with {runtime}; partitioned for gpu: 2 partitions" in done.stdout
    opencl = SimpleNamespace(gpu_runtime="OpenCL")
    monkeypatch.setattr(gpu_opencl_getting_started, "version", lambda: opencl)
    (skipped,) = gpu_opencl_getting_started.run()
    assert skipped.reason.startswith("engine kind gpu: no device to compile for and run on: ")


@pytest.mark.parametrize("example", [gated_mlp, gated_mlp_int4, gated_mlp_wei_combined])
def test_sizes_of_all_are_arguments_of_the_example(example):
    parameters = inspect.signature(example.run).parameters
    for name, size in example.SIZES_IN_ALL.items():
        assert 1 <= size < parameters[name].default


def test_examples_after_a_failed_one_still_run(monkeypatch, capsys):
    def refuses():
        raise InvalidArgumentsError("it does not fit")
        yield

    monkeypatch.setattr(cpu_getting_started, "run", refuses)
    both = ["cpu_getting_started", "cpu_single_op_partition"]
    monkeypatch.setattr(command, "names", lambda: both)
    assert command.main(["--all"]) == 1
    output = capsys.readouterr().out
    assert "  InvalidArgumentsError: it does not fit\n" in output
    assert verdicts(output) == ["FAILED", "ok"]
    assert output.splitlines()[-1].startswith(
        "failed: cpu_getting_started; 2 examples, 1 passed, 0 skipped, 1 failed, in"
    )


def off_by_a_thousandth(array: np.ndarray) -> np.ndarray:
    return (array * 1.001).astype(array.dtype)


def one_element_is_zero(array: np.ndarray) -> np.ndarray:
    array.flat[np.abs(array.astype(np.float32)).argmax()] = 0
    return array


def corrupt(monkeypatch: pytest.MonkeyPatch, wrong) -> None:
    """Have every pipeline and model compute something wrong."""
    for runs in (_run.Execution, _run.BuiltRun):

        def output(self, which, right=runs.output):
            return wrong(right(self, which).copy())

        monkeypatch.setattr(runs, "output", output)


@pytest.mark.parametrize("wrong", [one_element_is_zero, off_by_a_thousandth])
@pytest.mark.parametrize(
    "words", [["cpu_single_op_partition", "8", "64", "32"], ["sdpa", "cpu", "2", "32", "3", "16"]]
)
def test_a_wrong_kernel_makes_an_example_fail(wrong, words, monkeypatch, capsys):
    corrupt(monkeypatch, wrong)
    assert command.main(words) == 1
    output = capsys.readouterr().out
    f32_and_perhaps_others = verdicts(output)
    assert f32_and_perhaps_others[0] == "FAILED"
    # A thousandth is less than a rounding in bf16.
    if wrong is not off_by_a_thousandth:
        assert set(f32_and_perhaps_others) <= {"FAILED", "skipped"}
    assert "WRONG: " in output


def test_an_integer_one_step_off_away_from_ties_makes_an_example_fail(monkeypatch, capsys):
    def one_step(array: np.ndarray) -> np.ndarray:
        # Zero point of what ReLU has set to zero: no tie is near.
        array.flat[array.argmin()] += 1
        return array

    corrupt(monkeypatch, one_step)
    assert command.main(["cpu_inference_int8"]) == 1
    assert "WRONG: 1 of 1605632 elements" in capsys.readouterr().out


def test_another_number_of_partitions_is_a_fault():
    case = Case("f32", [["MatMul"], ["ReLU"]], {}, 1.0)
    assert case.all_faults() == ["expected 1 partitions, got 2"]
    assert case.lines()[-1] == "WRONG: expected 1 partitions, got 2"


def chain() -> tuple[graph, list[logical_tensor]]:
    """Two ops that oneDNN does not fuse: SoftMax behind SoftMax."""
    tensors = [
        logical_tensor(number, logical_tensor.f32, [4, 8], logical_tensor.strided)
        for number in range(3)
    ]
    net = graph(engine.cpu)
    for number in range(2):
        softmax = op(number, op.SoftMax, [tensors[number]], [tensors[number + 1]])
        net.add_op(softmax.set_attr(op.axis, -1))
    net.finalize()
    return net, tensors


def test_partitions_run_in_the_order_of_their_data():
    net, (source, _, result) = chain()
    array = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    for order in (1, -1):
        partitions = net.get_partitions()[::order]
        assert len(partitions) == 2
        pipeline = _run.Pipeline(partitions, [source], [result], engine(engine.cpu, 0))
        execution = pipeline.bind({0: array})
        assert compare(net.get_ops(), {0: array}, {2: execution.output(result)})


def test_a_pipeline_asks_for_what_it_lacks():
    net, (source, _, result) = chain()
    device = engine(engine.cpu, 0)
    with pytest.raises(ValueError, match=r"nothing is known of its inputs \[0\]"):
        _run.Pipeline(net.get_partitions(), [], [result], device)
    pipeline = _run.Pipeline(net.get_partitions(), [source], [result], device)
    with pytest.raises(ValueError, match=r"no array was given for logical_tensor\(id=0"):
        pipeline.bind({})


def test_small_types_and_large_int8_weights_depend_on_the_instruction_set(monkeypatch):
    facts = {}
    for isa in (
        cpu_isa.avx2,
        cpu_isa.avx2_vnni,
        cpu_isa.avx2_vnni_2,
        cpu_isa.avx512_core,
        cpu_isa.avx512_core_vnni,
        cpu_isa.avx512_core_bf16,
        cpu_isa.avx512_core_fp16,
        cpu_isa.avx512_core_amx,
    ):
        monkeypatch.setattr(cpu, "get_effective_cpu_isa", lambda isa=isa: isa)
        types = [name for name in ("bf16", "f16", "f8_e4m3") if cpu.lacks(name) is None]
        facts[isa] = (types, cpu.largest_int8_weight())
    every = ["bf16", "f16", "f8_e4m3"]
    assert facts == {
        cpu_isa.avx2: ([], 64),
        cpu_isa.avx2_vnni: ([], 127),
        cpu_isa.avx2_vnni_2: (["bf16", "f16"], 127),
        cpu_isa.avx512_core: (["bf16"], 64),
        cpu_isa.avx512_core_vnni: (["bf16"], 127),
        cpu_isa.avx512_core_bf16: (["bf16"], 127),
        cpu_isa.avx512_core_fp16: (every, 127),
        cpu_isa.avx512_core_amx: (every, 127),
    }


def test_types_that_every_cpu_computes_in_lack_nothing():
    assert [cpu.lacks(name) for name in ("f32", "s8", "u8")] == [None] * 3
