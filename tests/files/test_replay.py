"""Graph JSON run again: verdicts, worker processes, bisection, the command line."""

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from graphs import LINKED

import onednn_graph_py as og
from onednn_graph_py import serialization
from onednn_graph_py.base.processes import Process
from onednn_graph_py.base.text.progress import show_progress
from onednn_graph_py.machine.cpu import lacks
from onednn_graph_py.tools import command_line as cli
from onednn_graph_py.tools.replay import (
    Case,
    Options,
    Result,
    Verdict,
    cases_of,
    first_divergence,
    replay,
    run_case,
)
from onednn_graph_py.tools.replay import run_case as run_case_function
from onednn_graph_py.tools.replay.command import bar, exit_status, line, summary

run_case_module = sys.modules[run_case_function.__module__]
VERIFY = Options(verify=True)


def saved(path, build):
    b = og.GraphBuilder()
    build(b)
    b.save(path)
    return str(path)


def small(b):
    x, y = b.input((4, 8), name="x"), b.input((4, 8), name="y")
    b.output((x + y).relu())


def two_partitions(b):
    x = b.input((4, 8), name="x")
    b.output(x.softmax(axis=-1).softmax(axis=0))


def layer_norm_and_sum(b):
    x, z = b.input((6, 16), name="x"), b.input((6, 16), name="z")
    gamma, beta = b.input((16,), name="gamma"), b.input((16,), name="beta")
    b.output(x.layer_norm(gamma, beta, keep_stats=False) + z)


def quantized_per_channel(b):
    x, w = b.input((19, 16), "u8", name="x"), b.input((16, 20), "s8", name="w")
    scaled = {"qtype": "per_tensor", "zps": [0]}
    y = x.dequantize(scales=[0.5], **scaled) @ w.dequantize(scales=[0.25], **scaled)
    scales = [2.0 ** (i % 4) for i in range(20)]
    b.output(y.quantize(dtype="s8", scales=scales, zps=[0] * 20, qtype="per_channel", axis=1))


# A graph that this oneDNN computes wrongly in one partition, and the op that is wrong.
DEFECTIVE, WRONG_OP = (
    (layer_norm_and_sum, "Add") if LINKED < (3, 8) else (quantized_per_channel, "Quantize")
)


def unsupported(b):
    x = b.input((4, 8), name="x")
    b.output(x.pow(beta=2.5))  # no oneDNN has a kernel for Pow


# -- verdicts


def test_a_right_graph_passes(tmp_path):
    result = run_case(Case(saved(tmp_path / "g.json", small)), VERIFY)
    assert result.verdict is Verdict.PASSED
    assert (result.ops, result.partitions, result.supported) == (2, 1, 1)
    assert result.error is not None
    assert result.error < 1e-6
    assert result.share is not None
    assert result.share < 1


def test_without_a_check_nothing_is_said_to_be_right(tmp_path):
    result = run_case(Case(saved(tmp_path / "g.json", small)))
    assert result.verdict is Verdict.RAN
    assert result.error is None


def test_what_is_only_partitioned_is_not_compiled(tmp_path, monkeypatch):
    monkeypatch.setattr(run_case_module, "compiled", None)
    result = run_case(Case(saved(tmp_path / "g.json", small)), Options(partition_only=True))
    assert result.verdict is Verdict.PARTITIONED
    assert (result.partitions, result.supported) == (1, 1)


def test_a_wrong_element_is_found(tmp_path, monkeypatch):
    def off_by_a_little(model, inputs):
        (made,) = right(model, inputs)
        made[1, 3] += 1e-3
        return [made]

    right = run_case_module.called
    monkeypatch.setattr(run_case_module, "called", off_by_a_little)
    result = run_case(Case(saved(tmp_path / "g.json", small)), VERIFY)
    assert result.verdict is Verdict.WRONG
    assert result.reason.startswith("t")
    assert "1 of 32 elements are wrong; the worst, at [1, 3], is" in result.reason


def test_what_oneDNN_computes_wrongly_runs_in_parts(tmp_path):
    result = run_case(Case(saved(tmp_path / "g.json", DEFECTIVE)), VERIFY)
    assert result.verdict is Verdict.SPLIT
    assert re.search("runs in parts: (oneDNN|this CPU)", result.reason)
    # The file and the first op's place in it, not a line of this package.
    assert f"made at {tmp_path / 'g.json'}: graph[0] runs" in result.reason
    assert result.error is not None  # it was verified


def test_what_oneDNN_computes_wrongly_is_found_and_bisected(tmp_path, monkeypatch):
    # The defect is real: only what knows of it is taken away.
    monkeypatch.setattr("onednn_graph_py.model.planning.fates.wrong_result", lambda *_: None)
    result = run_case(
        Case(saved(tmp_path / "g.json", DEFECTIVE)), Options(verify=True, bisect=True)
    )
    assert result.verdict is Verdict.WRONG
    assert "elements are wrong" in result.reason
    assert result.diverges.startswith(f"first wrong op: op ({WRONG_OP})")
    assert " + " in result.diverges
    assert "without fusion it is right" in result.diverges


def test_a_known_defect_is_run_bisected_and_reduced_as_it_is(tmp_path, capsys):
    path = saved(tmp_path / "g.json", DEFECTIVE)
    status, out, _ = run(capsys, path, "--as-is", "--bisect")
    assert status == 1
    assert out.startswith("wrong")
    assert f"first wrong op: op ({WRONG_OP})" in out
    assert "runs in parts" not in out
    small = str(tmp_path / "small.json")
    assert cli.main(["shrink", path, "--while", "mismatch", "--tries", "40", "-o", small]) == 0
    assert run(capsys, small, "--as-is", "--verify")[0] == 1


def test_a_right_graph_has_no_divergence():
    b = og.GraphBuilder()
    small(b)
    assert first_divergence(b, og.fill_inputs(b)) is None


def test_an_op_without_a_kernel_is_named(tmp_path):
    result = run_case(Case(saved(tmp_path / "g.json", unsupported)), VERIFY)
    assert result.verdict is Verdict.UNSUPPORTED
    assert result.reason == "op 0 (Pow): oneDNN has no kernel for it in f32"
    assert (result.partitions, result.supported) == (1, 0)


def test_ops_of_a_file_are_made_at_their_place_in_it(tmp_path):
    def named(b):
        b.output(b.relu(b.input((4, 8)), name="first").softmax(axis=-1))

    path = saved(tmp_path / "g.json", named)
    for given in (path, tmp_path / "g.json"):
        assert [n.where for n in og.load(given).nodes] == [
            f"{path}: graph[0] 'first'",
            f"{path}: graph[1]",
        ]
    text = (tmp_path / "g.json").read_text()
    assert [n.where for n in og.load(text).nodes] == ["graph[0] 'first'", "graph[1]"]


def test_hardware_that_lacks_a_type_is_named(tmp_path):
    def half(b):
        b.output(b.input((4, 8), "f16", name="x") @ b.input((8, 4), "f16", name="y"))

    result = run_case(Case(saved(tmp_path / "g.json", half)), VERIFY)
    missing = lacks("f16")
    if missing is None:
        assert result.verdict is Verdict.PASSED
    else:
        assert result.verdict is Verdict.UNSUPPORTED
        assert result.reason == f"op 0 (MatMul): hardware: {missing}"


@pytest.mark.parametrize("text", [None, "", "{", '{"version": "3.7.2"}'])
def test_what_is_no_graph_is_unreadable(tmp_path, text):
    path = tmp_path / "g.json"
    if text is not None:
        path.write_text(text)
    result = run_case(Case(str(path)))
    assert result.verdict is Verdict.UNREADABLE
    assert str(path) in result.reason


def test_what_does_not_fit_into_memory_is_not_begun(tmp_path):
    def huge(b):
        b.output(b.input((1000000, 1000000)).relu())

    began = time.monotonic()
    result = run_case(Case(saved(tmp_path / "g.json", huge)), VERIFY)
    assert result.verdict is Verdict.TOO_LARGE
    assert "GiB" in result.reason
    assert time.monotonic() - began < 60  # terabytes would take longer


def test_the_seed_decides_the_inputs(tmp_path, monkeypatch):
    seen = []
    right = run_case_module.called
    monkeypatch.setattr(
        run_case_module, "called", lambda m, i: seen.append(i[0].copy()) or right(m, i)
    )
    case = Case(saved(tmp_path / "g.json", small))
    for seed in (1, 1, 2):
        run_case(case, Options(seed=seed))
    assert np.array_equal(seen[0], seen[1])
    assert not np.array_equal(seen[0], seen[2])


# -- what is run


def test_files_folders_and_patterns_are_cases(tmp_path):
    (tmp_path / "deep").mkdir()
    for name in ("b.json", "a.json", "deep/c.json", "notes.txt"):
        (tmp_path / name).write_text("{}")
    names = [os.path.relpath(c.path, tmp_path) for c in cases_of([str(tmp_path)])]
    assert names == ["a.json", "b.json", "deep/c.json"]
    assert cases_of(str(tmp_path)) == cases_of([str(tmp_path)])
    assert len(cases_of([str(tmp_path / "*.json")])) == 2
    assert len(cases_of([str(tmp_path / "**/*.json")])) == 3
    with pytest.raises(og.InvalidArgumentsError, match="there is no JSON file"):
        cases_of([str(tmp_path / "*.nothing")])


def test_shapes_of_a_file_that_contradict_each_other_are_refused(tmp_path):
    path = saved(tmp_path / "g.json", small)
    document = json.loads(Path(path).read_text())
    reader = next(op for op in document["graph"] if op["kind"] == "ReLU")
    reader["inputs"][0]["shape"], reader["inputs"][0]["stride"] = [1, 8], [8, 1]
    Path(path).write_text(json.dumps(document))
    result = run_case(Case(path), VERIFY)
    assert result.verdict is Verdict.REFUSED
    assert "here and" in result.reason


@pytest.mark.skipif(LINKED >= (3, 11), reason="this oneDNN has both")
def test_what_needs_a_newer_onednn_is_unsupported_whatever_it_is(tmp_path):
    path = saved(tmp_path / "g.json", small)
    document = json.loads(Path(path).read_text())
    op = next(op for op in document["graph"] if op["kind"] == "ReLU")
    tensors = op["inputs"], op["outputs"]
    for kind, attrs in (
        ("RMSNorm", {"epsilon": {"type": "f32", "value": 1e-5}}),
        ("SoftMax", {"axis": {"type": "s64", "value": 1},
                     "mode": {"type": "string", "value": "none"}}),
    ):  # fmt: skip
        op["kind"], op["attrs"] = kind, attrs
        op["inputs"], op["outputs"] = tensors
        Path(path).write_text(json.dumps(document))
        result = run_case(Case(path), VERIFY)
        assert result.verdict is Verdict.UNSUPPORTED, (kind, result)
        assert "oneDNN" in result.reason


# -- worker processes


def test_workers_say_what_this_process_would(tmp_path, monkeypatch):
    builds = (small, two_partitions, unsupported)
    cases = [Case(saved(tmp_path / f"{i}.json", b)) for i, b in enumerate(builds)]
    cases.append(Case(str(tmp_path / "none.json")))
    send, sent = Process.send, []
    monkeypatch.setattr(
        Process, "send", lambda self, asked: (sent.append(asked[2]), send(self, asked))
    )
    results = dict(replay(cases, VERIFY, jobs=2, timeout=300))
    options = [pickle.loads(packed)[1][1] for packed in sent]
    # They share memory and cores.
    assert {o.memory_share for o in options} == {VERIFY.memory_share / 2}
    assert {o.threads for o in options} == {max(1, len(os.sched_getaffinity(0)) // 2)}
    assert [str(results[i].verdict) for i in range(4)] == [
        "passed",
        "passed",
        "unsupported",
        "unreadable",
    ]
    here = run_case(cases[0], Options(verify=True, threads=1))
    assert results[0].error == here.error


def crashing(case, options):
    if case.path == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if case.path == "leave":
        os._exit(3)
    if case.path == "hang":
        time.sleep(1000)
    if case.path == "raise":
        raise ArithmeticError("no number")
    return Result(case.path, Verdict.PASSED)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_crash_or_hang_ends_only_its_own_case(monkeypatch, jobs):
    module = import_module("onednn_graph_py.tools.replay.run_case")
    monkeypatch.setattr(module, "run_case", crashing)
    cases = [Case(name) for name in ("a", "crash", "b", "hang", "leave", "raise", "c")]
    results = dict(replay(cases, jobs=jobs, timeout=10))
    assert [str(results[i].verdict) for i in range(7)] == [
        "passed", "crashed", "passed", "timed out", "crashed", "crashed", "passed",
    ]  # fmt: skip
    assert results[1].reason == "the process was ended by SIGSEGV"
    assert results[3].reason == "it took longer than 10 s"
    assert results[4].reason == "the process ended with exit status 3"
    assert "ArithmeticError: no number" in results[5].reason


def test_workers_end_when_nobody_wants_more(tmp_path, monkeypatch):
    started = []
    popen = subprocess.Popen

    def start(*args, **options):
        started.append(popen(*args, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    cases = [Case(saved(tmp_path / "g.json", small))] * 4
    going = replay(cases, jobs=2, timeout=300)
    next(going)
    going.close()
    assert len(started) == 2
    assert {process.poll() for process in started} == {-signal.SIGKILL}


# -- reports


def result(verdict, **fields):
    return Result("g.json", verdict, **fields)


def test_exit_status_says_the_worst():
    passed, skipped = result(Verdict.PASSED), result(Verdict.UNSUPPORTED)
    wrong, unreadable = result(Verdict.WRONG), result(Verdict.UNREADABLE)
    assert exit_status([passed, skipped, result(Verdict.SPLIT)]) == 0
    assert exit_status([passed, wrong]) == 1
    assert exit_status([passed, unreadable]) == 2
    assert exit_status([wrong, unreadable]) == 1


def test_a_line_has_partitions_error_time_and_reasons():
    shown = line(
        result(
            Verdict.REFUSED,
            partitions=2,
            supported=1,
            error=2e-6,
            seconds=0.5,
            reason="because",
            milliseconds=0.25,
        )
    )
    first, second = shown.splitlines()
    assert " ".join(first.split()) == "refused 1/2 2e-06 0.50 s 0.250 ms g.json"
    assert second.strip() == "because"
    assert summary([result(Verdict.WRONG), result(Verdict.PASSED)]) == "2 cases: 1 passed, 1 wrong"


def test_a_bar_is_drawn_on_terminals_only(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm")
    for tty in (True, False):
        monkeypatch.setattr(sys.stderr, "isatty", lambda tty=tty: tty)
        show_progress(bar(2, 3, 1))
        said = capsys.readouterr().err
        assert ("] 2 of 3, 1 failed" in said) == tty
        assert tty or not said
    assert bar(3, 3, 1) == ""


# -- the command line


def run(capsys, *words):
    status = cli.main(["replay", *words])
    said = capsys.readouterr()
    return status, said.out, said.err


def test_the_command_prints_a_line_a_case_and_a_summary(tmp_path, capsys):
    saved(tmp_path / "a.json", small)
    saved(tmp_path / "b.json", unsupported)
    status, out, _ = run(capsys, str(tmp_path), "--verify", "--bench")
    assert status == 0
    assert out.splitlines()[0].startswith("passed")
    assert " ms  " in out.splitlines()[0]
    assert "op 0 (Pow): oneDNN has no kernel" in out
    assert out.splitlines()[-1] == "2 cases: 1 passed, 1 unsupported"


def test_the_command_prints_onednns_reason(tmp_path, capsys):
    def dequantized(b):
        b.output(b.dynamic_dequantize(b.input((4, 4), "s4"), b.input((1,), "f32")))

    status, out, _ = run(capsys, saved(tmp_path / "a.json", dequantized))
    assert status == 1
    assert out.startswith("refused")
    assert "(invalid_arguments); oneDNN's reason: reorder,invalid datatype for mask for int4" in out


def test_the_command_prints_json(tmp_path, capsys):
    path = saved(tmp_path / "a.json", small)
    status, out, _ = run(capsys, path, "--verify", "--json")
    (found,) = [json.loads(text) for text in out.splitlines()]
    assert status == 0
    assert (found["verdict"], found["case"]) == ("passed", path)
    assert found["partitions"] == found["supported"] == 1


def test_the_command_reports_failures_by_its_status(tmp_path, capsys):
    def unknown(b):
        b.output(b.input((-1, 8)).relu())

    status, out, _ = run(capsys, saved(tmp_path / "a.json", unknown))
    assert status == 1
    assert out.startswith("refused")
    assert run(capsys, str(tmp_path / "none.json"))[0] == 2


def test_a_wrong_command_ends_with_status_2(capsys):
    status, out, err = run(capsys, "nowhere/*.json")
    assert status == 2
    assert "there is no JSON file" in err
    assert not out


def test_an_interrupt_ends_the_workers_and_says_how_far_it_was(tmp_path, capsys, monkeypatch):
    paths = [saved(tmp_path / f"{name}.json", small) for name in "ab"]
    interrupt = "onednn_graph_py.tools.replay.command.bar"
    monkeypatch.setattr(interrupt, lambda *_: signal.raise_signal(signal.SIGINT))
    status, out, err = run(capsys, *paths)
    assert status == 130
    assert len(out.splitlines()) == 1
    assert "interrupted after 1 cases: 1 ran" in err


def test_a_file_that_dump_tools_wrote_runs_as_it_is(tmp_path):
    """Ids, an End and a layout of its own: what this package would not write itself."""

    def tensor(id, stride=(8, 1)):
        return serialization.TensorRecord(id, "f32", (4, 8), stride)

    doc = serialization.GraphDocument(
        "3.5.0",
        "cpu",
        (
            serialization.OpRecord(91, "r", "ReLU", {}, (tensor(7, (1, 4)),), (tensor(3),)),
            serialization.OpRecord(5, "e", "End", {}, (tensor(3),), ()),
        ),
    )
    serialization.save(doc, tmp_path / "g.json")
    made = run_case(Case(str(tmp_path / "g.json")), VERIFY)
    assert made.verdict is Verdict.PASSED
    assert (made.partitions, made.supported) == (2, 1)  # End is a partition without a kernel
