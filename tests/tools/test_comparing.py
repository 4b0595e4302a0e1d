"""One graph under several settings, each in a process: what is varied, told, and judged."""

import json
import os
import pickle
import re
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from graphs import RUNTIME

import onednn_graph_py as og
from onednn_graph_py import serialization
from onednn_graph_py.machine.cpu import has
from onednn_graph_py.model.running.model import Step
from onednn_graph_py.tools import command_line as cli
from onednn_graph_py.tools.comparing import Comparison, Run, worker
from onednn_graph_py.tools.comparing import compare as compare_function
from onednn_graph_py.tools.comparing.compare import ISAS, WorkerProcess, settings_of
from onednn_graph_py.tools.comparing.timing import summed_up, time_in_batches
from onednn_graph_py.tools.replay import Verdict

compare_module = sys.modules[compare_function.__module__]
ISA = og.get_effective_cpu_isa().name
HERE = Path(og.__file__).parents[1]

two_isas = pytest.mark.skipif(
    ISA == "sse41", reason="oneDNN uses sse41 here, the lowest instruction set"
)


def matmul_relu():
    b = og.GraphBuilder()
    x, w = b.input((32, 96), name="x"), b.input((96, 64), name="w")
    b.output((x @ w).relu())
    return b


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    path = tmp_path_factory.mktemp("graphs") / "matmul <relu>.json"
    matmul_relu().save(path)
    return str(path)


# -- settings


@two_isas
def test_instruction_sets_have_other_kernels_and_right_numbers(graph):
    made = og.compare(graph, isa=["sse41", ISA], seconds=0.1)
    assert made.ok
    assert [r.isa for r in made.runs] == ["sse41", ISA]
    assert [r.label for r in made.runs] == ["sse41", ISA]
    assert [r.verdict for r in made.runs] == [Verdict.PASSED] * 2
    first, second = made.runs
    assert first.steps[0].ops == ("MatMul", "ReLU")
    assert (first.partitions, second.same_steps_as) == (1, 1)
    assert first.difference == 0
    assert second.difference < 1e-4  # other kernels may add in another order
    assert 0 < second.error < 1e-4
    assert second.share < 1
    for run in made.runs:
        assert 0 < run.fastest <= run.milliseconds
        assert run.spread >= 0
        assert run.calls >= made.rounds
    assert first.ratio == 1
    assert second.ratio > 0


def test_an_instruction_set_that_is_not_there_is_told(graph):
    made = og.compare(graph, isa="avx512_core_amx_fp16", seconds=0, verify=False)
    (run,) = made.runs
    if ISA == "avx512_core_amx_fp16":
        assert run.notes == ()
    elif "ONEDNN_MAX_CPU_ISA" in os.environ:  # the run uses more than this process
        note = f"asked for the ISA avx512_core_amx_fp16, but oneDNN uses {run.isa}"
        assert run.notes[0] == note or run.isa == "avx512_core_amx_fp16"
    else:
        assert run.isa == ISA
        assert run.notes[0].startswith("asked for the ISA avx512_core_amx_fp16, but the highest ")
        assert run.notes[0].endswith(f"can use on this CPU is {ISA}")
        assert run.notes[0] in str(made)
    assert run.verdict is Verdict.RAN


def test_both_names_of_an_instruction_set_are_one():
    assert ISAS["avx10_1_512"] == ISAS["avx512_core_fp16"]
    assert ISA in ISAS
    assert "isa_default" not in ISAS


def test_threads(graph):
    made = og.compare(graph, threads=[1, 2], seconds=0)
    assert made.ok
    assert [r.label for r in made.runs] == ["1 thread", "2 threads"]
    if RUNTIME == "OpenMP":
        assert [r.threads for r in made.runs] == [1, 2]
        assert [r.notes for r in made.runs] == [(), ()]
    else:
        assert [r.threads for r in made.runs] == [None, None]
        assert made.runs[0].notes == ("asked for 1 threads, but the runtime decides how many",)


def test_a_math_mode_may_be_less_exact_within_its_tolerance(graph):
    made = og.compare(graph, fpmath=["strict", "bf16:true"], seconds=0)
    strict, narrow = made.runs
    assert made.ok
    assert [r.fpmath for r in made.runs] == ["strict", "bf16:true"]
    # What is allowed grows: the error is a smaller part of it.
    assert narrow.share / narrow.error < strict.share / strict.error / 100
    if has(ISA, "amx"):
        assert narrow.error > 10 * strict.error
    else:  # oneDNN has no such kernels for other CPUs
        assert narrow.difference == 0


def test_all_combinations_are_run_in_order():
    settings = settings_of("avx2,sse41", [1, 2], ["strict", "bf16"])
    labels = [setting.label for setting in settings]
    assert labels[:3] == [
        "avx2, 1 thread, strict",
        "avx2, 1 thread, bf16",
        "avx2, 2 threads, strict",
    ]
    assert len(labels) == 8
    assert len(set(labels)) == 8


def test_what_is_given_twice_is_run_once():
    assert len(settings_of(["avx2", "AVX2"], [2, 2], ["any", "any"])) == 1
    assert [s.threads for s in settings_of(threads=np.int64(2))] == [2]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"isa": "avx3"}, r"isa: oneDNN knows no 'avx3', did you mean avx"),
        ({"isa": "q"}, r"isa: oneDNN knows no 'q'; there are: default, .*avx2"),
        ({"fpmath": "bf17"}, r"fpmath: oneDNN knows no 'bf17', did you mean bf16\?"),
        ({"fpmath": "bf16:1"}, r"fpmath: expected MODE\[:true\|false\], got 'bf16:1'"),
        ({"threads": 0}, r"threads must be a whole number, at least 1, got 0"),
        ({"threads": [1, 2.0]}, r"threads must be a whole number, at least 1, got 2\.0"),
    ],
)
def test_what_is_no_setting_is_told(graph, given, told):
    with pytest.raises(og.InvalidArgumentsError, match=told):
        og.compare(graph, **given)


# -- graphs


def test_constants_are_given_to_the_processes():
    b = og.GraphBuilder()
    x = b.input((4, 8), name="x")
    weights = np.arange(32, dtype=np.float32).reshape(8, 4) / 32
    scale = b.constant(np.float32([0.5]), "bf16").type_cast(dtype="f32")
    b.output((x @ weights) * scale)
    made = og.compare(b, seconds=0)
    assert made.ok
    assert made.runs[0].error < 1e-5
    assert made.graph == "graph"


@pytest.mark.parametrize("dtype", ["f32", "bf16", "s8", "u8", "s4", "u4"])
def test_constants_travel_in_their_own_types(dtype):
    b = og.GraphBuilder()
    values = np.arange(-4 if dtype[0] != "u" else 0, 4).repeat(3).reshape(2, -1)
    given = {"f32": np.float32(values) / 3}.get(dtype, values)
    constant = b.constant(og.reference.round_to(given, dtype), name="c")
    if dtype in ("f32", "bf16"):
        b.output(b.input((6, 2), dtype, name="x") @ constant)
    else:
        scale = b.input((1,), "f32", name="x")
        b.output(constant.dynamic_dequantize(scale, qtype="per_tensor"))
    b.constant(np.float32([1, 2, 3]))  # no op reads it
    document = serialization.from_builder(b)
    request = {"document": document, "constants": compare_module.constants_of(b, document)}
    made = worker._builder(pickle.loads(pickle.dumps(request)))
    assert [v.shape for v in made.inputs] == [b.inputs[0].shape]
    (travelled,) = made.constants
    assert travelled.data.dtype == constant.data.dtype
    np.testing.assert_array_equal(travelled.data, constant.data)


def test_a_refusal_is_a_cell():
    b = og.GraphBuilder()
    b.output(b.input((-1, 8), name="x").relu())
    made = og.compare(b)
    assert made.runs[0].verdict is Verdict.REFUSED
    assert "its shape must be given" in made.runs[0].reason
    assert not made.ok
    assert "1: input 't" in str(made)


def test_an_op_without_a_kernel_is_a_cell():
    b = og.GraphBuilder()
    b.output(b.input((4, 8), name="x").pow(beta=2.5))
    made = og.compare(b)
    assert made.runs[0].verdict is Verdict.UNSUPPORTED
    assert "(Pow)" in made.runs[0].reason
    assert made.ok  # nothing is wrong with the graph


# -- what goes wrong in a process


@pytest.fixture
def interfered(monkeypatch):
    """Has something done to a worker before it is asked."""

    def install(command, number, action):
        asked = []
        right = WorkerProcess.ask

        def ask(self, name, timeout, **what):
            if name == command:
                asked.append(self)
                if len(asked) == number:
                    given = {"timeout": timeout, **what}
                    return action(self, given, lambda: right(self, name, **given))
            return right(self, name, timeout, **what)

        monkeypatch.setattr(WorkerProcess, "ask", ask)

    return install


def killed(process, given, ask):
    os.kill(process.pid, signal.SIGKILL)
    return ask()


def test_a_worker_that_crashes_is_a_cell(graph, interfered):
    interfered("load", 2, killed)
    made = og.compare(graph, fpmath="strict,bf16,any", seconds=0.05)
    assert [r.verdict for r in made.runs] == [Verdict.PASSED, Verdict.CRASHED, Verdict.PASSED]
    assert made.runs[1].reason == "the process was ended by SIGKILL"
    assert not made.ok
    assert made.runs[1].milliseconds is None
    assert made.runs[2].milliseconds > 0
    assert "2: the process was ended by SIGKILL" in str(made)


def test_a_crash_while_timing_leaves_the_others(graph, interfered):
    interfered("time", 1, killed)
    made = og.compare(graph, fpmath="strict,bf16", seconds=0.05)
    assert [r.verdict for r in made.runs] == [Verdict.CRASHED, Verdict.PASSED]
    assert made.runs[1].milliseconds > 0
    assert made.runs[1].ratio is None
    assert made.runs[1].difference is None


def test_a_worker_that_hangs_is_ended(graph, interfered):
    def hangs(process, given, ask):
        given |= {"seconds": 60, "timeout": 0.2}
        return ask()

    interfered("time", 1, hangs)
    made = og.compare(graph, seconds=0.05)
    assert made.runs[0].verdict is Verdict.TIMED_OUT
    assert made.runs[0].reason == "it took longer than 0.2 s"


def test_a_wrong_output_is_found(graph, interfered):
    def off(process, given, ask):
        made = ask()
        (path,) = given["outputs"]
        array = np.load(path)
        array[3, 5] += 1
        np.save(path, array)
        return made

    interfered("load", 2, off)
    made = og.compare(graph, fpmath="strict,bf16", seconds=0)
    assert [r.verdict for r in made.runs] == [Verdict.PASSED, Verdict.WRONG]
    assert "1 of 2048 elements are wrong; the worst, at [3, 5]" in made.runs[1].reason
    assert made.runs[1].difference == pytest.approx(1, rel=1e-3)


# -- times


def test_times_are_of_single_calls(monkeypatch):
    clock = [0.0]
    calls = []

    def call():
        calls.append(1)
        clock[0] += 2.0**-20

    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    times = time_in_batches(call, 0.02)
    assert len(calls) > len(times) > 1
    assert set(times) == {2.0**-20}


def test_a_slow_call_is_timed_once():
    ticks = iter(range(0, 10**6, 10))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.perf_counter", lambda: float(next(ticks)))
        assert time_in_batches(lambda: None, 0.1) == [10.0]


def test_ratios_are_of_rounds():
    slow_round = summed_up([[2e-3, 2e-3], [20e-3], [2e-3]], [[1e-3], [10e-3], [1e-3]])
    assert slow_round["ratio"] == pytest.approx(2)
    # Of rounds that differ in their numbers of samples each counts as much.
    uneven = summed_up([[1e-3] * 99, [5e-3] * 3, [9e-3]], [])
    assert uneven["milliseconds"] == pytest.approx(5)
    assert uneven["spread"] == pytest.approx(8)
    assert uneven["fastest"] == pytest.approx(1)
    assert slow_round["milliseconds"] == pytest.approx(2)
    assert slow_round["fastest"] == pytest.approx(2)
    assert summed_up([], [[1.0]]) == {}
    assert summed_up([[1.0]], [])["ratio"] is None


# -- the table


def run(label, *ops, **more):
    steps = tuple(Step(kinds, ("",) * len(kinds), "oneDNN") for kinds in ops)
    return Run(label, steps=steps, **more)


DIFFERENT = Comparison(
    "<g|raph>",
    (
        run("a", ("MatMul", "ReLU"), partitions=1, verdict=Verdict.PASSED),
        run("b", ("MatMul",), ("ReLU",), partitions=2, verdict=Verdict.CRASHED, reason="<b>"),
        run("c", ("MatMul", "ReLU"), partitions=1, same_steps_as=1, error=float("inf")),
    ),
    "CPU & co",
    "3.7.2 OpenMP",
    1.0,
    5,
)


def test_steps_that_column_1_has_not_are_marked():
    text = str(DIFFERENT)
    assert re.search(r"fused +MatMul \+ ReLU +\* MatMul +same as column 1", text)
    assert re.search(r"\n +\* ReLU\n", text)
    assert "* not in column 1" in text
    assert "2: <b>" in text


def test_nothing_is_marked_where_column_1_has_nothing():
    failed = Run("a", verdict=Verdict.REFUSED)
    text = str(replace(DIFFERENT, runs=(failed, DIFFERENT.runs[1])))
    assert re.search(r"fused +- +MatMul\n", text)
    assert "* " not in text


def test_columns_that_do_not_fit_come_below(monkeypatch):
    monkeypatch.setattr(shutil, "get_terminal_size", lambda fallback: os.terminal_size((60, 24)))
    lines = str(DIFFERENT).splitlines()
    assert max(map(len, lines)) <= 60
    assert sum(line.startswith("ISA ") for line in lines) == 2


def test_html_is_escaped():
    html = DIFFERENT._repr_html_()
    assert "&lt;g|raph&gt;" in html
    assert "CPU &amp; co" in html
    assert "2: &lt;b&gt;" in html
    assert "* MatMul<br>* ReLU" in html


def test_everything_is_in_the_dict():
    told = json.loads(json.dumps(DIFFERENT.to_dict(), allow_nan=False))
    assert told["runs"][1]["verdict"] == "crashed"
    assert told["runs"][2]["error"] == "inf"
    assert told["runs"][0]["steps"] == [
        {
            "ops": ["MatMul", "ReLU"],
            "names": ["", ""],
            "implementation": "oneDNN",
            "why": "",
            "verified": "",
            "measured": "",
        }
    ]


# -- the command line


def test_the_command_prints_json(graph, capsys):
    assert cli.main(["compare", graph, "--threads", "1", "--seconds", "0.05", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert told["graph"] == graph
    assert told["runs"][0]["verdict"] == "passed"
    assert told["runs"][0]["milliseconds"] > 0


def test_the_command_prints_html_for_each_graph(graph, capsys):
    words = ["compare", graph, graph, "--seconds", "0", "--no-verify", "--html"]
    assert cli.main(words) == 0
    html = capsys.readouterr().out
    assert html.count("<table") == 2
    assert "matmul &lt;relu&gt;.json" in html


def test_a_run_that_is_not_right_is_an_exit_status(graph, capsys, interfered):
    interfered("load", 1, killed)
    assert cli.main(["compare", graph, "--seconds", "0"]) == 1
    assert "crashed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["no.json"], "compare: no.json: "),
        (["g.json", "--isa", "avx3"], "compare: isa: oneDNN knows no 'avx3'"),
    ],
)
def test_what_can_not_be_read_is_told(words, told, capsys):
    assert cli.main(["compare", *words]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--threads", "0"], ["--seconds", "-1"], ["--threads", "two"]])
def test_what_is_no_number_is_told(words, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(["compare", "g.json", *words])
    assert end.value.code == 2
    assert words[0] in capsys.readouterr().err
