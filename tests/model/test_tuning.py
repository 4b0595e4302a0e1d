"""Forms are measured once, remembered, and the same for everybody."""

import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import onednn_graph_py as og
from onednn_graph_py.machine import store
from onednn_graph_py.machine.cpu import threads_can_be_set
from onednn_graph_py.machine.pace import Pace
from onednn_graph_py.model.planning import fates, pace, tuning, work
from onednn_graph_py.model.rewriting.forms import FORMS
from onednn_graph_py.tools import command_line

CONVOLUTION = next(iter(FORMS))


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A cache of its own, in which nothing is known."""
    monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path))
    monkeypatch.setattr(pace, "_known", {})
    return tmp_path


def another_process(monkeypatch):
    monkeypatch.setattr(pace, "_known", {})


def noise(seed, *shape):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def product(rows=72, terms=136, columns=232):
    b = og.GraphBuilder()
    b.output((b.input((rows, terms)) @ b.constant(noise(1, terms, columns))).tanh())
    return b


def takes(monkeypatch, written, other):
    """Have each comparison find these seconds; return the list of what was compared."""
    compared = []

    def measured(draft, choice, form, before):
        compared.append(form)
        return None if written is None else Pace(written, other)

    monkeypatch.setattr(tuning, "_measured", measured)
    return compared


def kinds(model):
    return [s.ops for s in model.steps() if s.implementation == "oneDNN"]


def is_convolution(model):
    return "Convolution" in kinds(model)[0]


def test_the_faster_form_runs_and_is_remembered(cache, monkeypatch):
    compared = takes(monkeypatch, 3e-4, 2e-4)
    model = product().compile()
    assert compared == [CONVOLUTION]
    assert is_convolution(model)
    (step,) = (s for s in model.steps() if s.implementation == "oneDNN")
    assert step.why == f"written {CONVOLUTION}: measured to be 1.5 times as fast"
    x = noise(2, 72, 136)
    exact = np.tanh(x.astype(np.float64) @ noise(1, 136, 232))
    np.testing.assert_allclose(model(x), exact, atol=136 * 2.0**-22)
    another_process(monkeypatch)
    takes(monkeypatch, 1e-4, 2e-4)
    for tune in ("quick", "full", "off"):
        assert is_convolution(product().compile(tune=tune))


def test_what_is_little_faster_runs_as_written(cache, monkeypatch):
    takes(monkeypatch, 1.05e-4, 1e-4)
    model = product().compile()
    assert not is_convolution(model)
    (step,) = model.steps()
    assert step.measured == f"as written 105 us, {CONVOLUTION} 100 us"
    assert step.measured in str(model.explain(seconds=0.01, what_if=False))


def test_off_measures_nothing(cache, monkeypatch):
    compared = takes(monkeypatch, 3e-4, 2e-4)
    monkeypatch.setattr(pace, "measured", lambda *_: pytest.fail("measured"))
    b = product()
    b.output(b.input((3, 5, 7)) * b.input((7,)) + b.input((5, 1)))
    b.compile(tune="off")
    assert compared == []
    assert not list(cache.rglob("*.json"))


def test_what_could_not_be_measured_is_not_tried_at_once_again(cache, monkeypatch):
    compared = takes(monkeypatch, None, None)
    for _ in range(2):
        product().compile()
        another_process(monkeypatch)
    assert len(compared) == 1
    assert og.tuning.measurements() == ()
    product().compile(tune="full")
    assert len(compared) == 2
    later = time.time() + 601
    monkeypatch.setattr(pace.time, "time", lambda: later)
    another_process(monkeypatch)
    product().compile()
    assert len(compared) == 3


def test_what_another_process_wrote_first_counts(cache, monkeypatch):
    """Also that it could not measure, unless a full search did now."""
    takes(monkeypatch, 3e-4, 2e-4)
    key = pace.Key(2, CONVOLUTION, '{"ops": []}')
    assert pace.keep(key, Pace(3e-4, 1e-4)).pace == Pace(3e-4, 1e-4)
    another_process(monkeypatch)
    assert pace.keep(key, Pace(1e-4, 3e-4)).pace == Pace(3e-4, 1e-4)
    assert pace.keep(key, None).pace == Pace(3e-4, 1e-4)
    other = pace.Key(1, CONVOLUTION, '{"ops": []}')
    assert pace.keep(other, None).pace is None
    assert pace.keep(other, Pace(1e-4, 2e-4)).pace is None, "the first process has its plan"
    assert pace.keep(other, Pace(1e-4, 2e-4), undecided=False).pace == Pace(1e-4, 2e-4)


def test_a_pickle_carries_what_decided(cache, monkeypatch, tmp_path):
    takes(monkeypatch, 3e-4, 2e-4)
    model = product().compile()
    pickled = pickle.dumps(model)
    another_process(monkeypatch)
    monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path / "another"))
    takes(monkeypatch, 1e-4, 2e-4)
    again = pickle.loads(pickled)
    assert kinds(again) == kinds(model)
    x = noise(2, 72, 136)
    assert np.array_equal(again(x), model(x))


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        '{"of": 1}',
        '{"of": "another", "seconds": [1.0, 2.0]}',
        '{"seconds": [1, 2]}',
        '{"seconds": [0.0, 1e999]}',
    ],
)
def test_a_damaged_entry_is_measured_again(cache, monkeypatch, damage):
    compared = takes(monkeypatch, 3e-4, 2e-4)
    product().compile()
    for file in cache.rglob("*.json"):
        of = json.loads(file.read_text())["of"]
        file.write_text(damage.replace('{"seconds"', f'{{"of": {json.dumps(of)}, "seconds"'))
    assert og.tuning.measurements() == ()
    another_process(monkeypatch)
    assert is_convolution(product().compile())
    assert len(compared) == 2
    assert len(og.tuning.measurements()) == 1


def test_the_oldest_entries_go_when_there_are_too_many(cache, monkeypatch):
    monkeypatch.setattr(store, "_MOST", 40)
    entries = store.Entries("paces")
    for i in range(257):
        entries.keep_first(f"group {i}", {"seconds": [1.0, 2.0]}, lambda _: True)
        os.utime(entries._file(f"group {i}"), ns=(i, i))
    kept = {entry["of"] for entry in entries.all()}
    # The last write was looked at before its own age was set.
    assert kept == {f"group {i}" for i in range(257 - 30, 257)}


def test_timings_go_to_another_machine_of_its_kind(cache, monkeypatch, tmp_path):
    takes(monkeypatch, 3e-4, 2e-4)
    product().compile()
    assert og.tuning.export(tmp_path / "timings.json") == 1
    (row,) = og.tuning.measurements()
    assert row[2:] == (og.num_threads(), CONVOLUTION, 3e-4, 2e-4)
    assert row.ops == ("MatMul", "Tanh") and row.inputs == "[72, 136] f32 and [136, 232] f32"
    assert "1.50" in og.tuning.show()
    og.tuning.clear()
    assert og.tuning.measurements() == ()
    takes(monkeypatch, 1e-4, 2e-4)
    assert og.tuning.load(tmp_path / "timings.json") == 1
    assert is_convolution(product().compile())
    assert og.tuning.load(tmp_path / "timings.json") == 0


def test_other_timings_are_refused(cache, monkeypatch, tmp_path):
    file = tmp_path / "timings.json"
    takes(monkeypatch, 3e-4, 2e-4)
    product().compile()
    og.tuning.export(file)
    data = json.loads(file.read_text())
    file.write_text(json.dumps({**data, "facts": [*data["facts"][:-1], "another CPU"]}))
    with pytest.raises(og.InvalidArgumentsError, match="another CPU"):
        og.tuning.load(file)
    row = data["timings"][0]
    for wrong in (row[:-1], [*row[:-1], -1.0], [*row[:2], "{", *row[3:]], ["2", *row[1:]]):
        file.write_text(json.dumps({**data, "timings": [wrong]}))
        with pytest.raises(og.GraphFormatError, match="no file of timings"):
            og.tuning.load(file)
    for text in ("", "[]", '{"format": "another"}'):
        file.write_text(text)
        with pytest.raises(og.GraphFormatError, match=r"timings\.json"):
            og.tuning.load(file)


@pytest.mark.parametrize("tune", ["fast", None, True])
def test_an_unknown_search_is_refused_with_the_list(tune):
    with pytest.raises(
        og.InvalidArgumentsError, match="tune must be one of 'quick', 'full', 'off'"
    ):
        product().compile(tune=tune)


@pytest.mark.parametrize(
    ("words", "status", "inputs"),
    [
        (["--threads", "1"], 0, "[3, 5, 24] f32 and [24] f32"),
        (["--set", "batch=2"], 2, ""),
    ],
)
def test_the_command_times_a_graph_of_a_file(
    cache, monkeypatch, tmp_path, capsys, words, status, inputs
):
    monkeypatch.setattr(fates, "slow_fusion", lambda *_: None)
    monkeypatch.setattr(pace, "measured", lambda *_: Pace(3e-4, 2e-4))
    b = og.GraphBuilder()
    b.output((b.input((3, 5, 24)) + b.input((3, 5, 24))) * b.input((24,)))
    b.save(tmp_path / "graph.json")
    assert command_line.main(["tune", str(tmp_path / "graph.json"), "--json", *words]) == status
    printed = capsys.readouterr()
    if status:
        assert printed.err.startswith("tune: ") and not og.tuning.measurements()
        return
    (row,) = json.loads(printed.out)
    assert row["ops"] == ["Add", "Multiply"] and row["threads"] == 1
    assert inputs in row["inputs"]


def test_masks_of_equal_shapes_are_other_groups(cache, monkeypatch):
    """A form may depend on the numbers of a constant."""
    blocks_ = list(FORMS)[1]
    compared = takes(monkeypatch, None, None)
    for hidden in (0, 150):
        mask = np.triu(np.full((448, 448), -np.inf, np.float32), 1 + hidden)
        b = og.GraphBuilder()
        q, k, v = (b.input((1, 3, 448, 16)) for _ in range(3))
        scores = q.matmul(k, transpose_b=True) * 0.25 + b.constant(mask)
        b.output(scores.softmax(axis=-1) @ v)
        b.compile()
    assert compared.count(blocks_) == 2


def test_processes_that_compile_at_once_agree(tmp_path):
    """Whatever each of them measured, or could not, beside the others."""
    program = """
import hashlib, sys
import numpy as np, onednn_graph_py as og
rng = np.random.default_rng(1)
b = og.GraphBuilder()
x = b.input((24, 264))
for _ in range(3):
    x = (x @ b.constant(rng.uniform(-1, 1, (264, 264)).astype(np.float32))).relu()
b.output(x)
model = b.compile()
result = model(rng.uniform(-1, 1, (24, 264)).astype(np.float32))
print([s.ops for s in model.steps()], hashlib.sha256(result.tobytes()).hexdigest())
"""
    env = {**os.environ, "ONEDNN_GRAPH_PY_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", program]
    running = [
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, cwd=Path.cwd()) for _ in range(5)
    ]
    results = {process.communicate()[0] for process in running}
    assert all(process.returncode == 0 for process in running)
    assert len(results) == 1


# -- threads of brief steps


def test_small_steps_are_planned_for_one_thread(monkeypatch):
    small, large = {}, {}
    for shapes, rows in ((small, 8), (large, 512)):
        b = product(rows, 24, 40)
        b.compile()
        shapes.update({v.id: v.shape for n in b.nodes for v in (*n.inputs, *n.outputs)})
        shapes["nodes"] = b.nodes
    assert work.is_brief(small.pop("nodes"), small)
    assert not work.is_brief(large.pop("nodes"), large)


@pytest.mark.skipif(not threads_can_be_set(), reason="the runtime decides the number of threads")
def test_a_step_has_the_threads_that_it_was_compiled_for(monkeypatch):
    """A scope of one thread around the compilation of brief groups only."""
    asked = []
    with_threads = og._core._compiling_with

    def compiling_with(count):
        asked.append(count)
        return with_threads(count)

    monkeypatch.setattr(og._core, "_compiling_with", compiling_with)
    product(8, 24, 40).compile(threads=2)
    assert asked == [2, 1]
    asked.clear()
    monkeypatch.setattr(work, "brief_groups", False)
    product(8, 24, 40).compile(threads=2)
    assert asked == [2, 2]
    x = noise(2, 8, 24)
    exact = np.tanh(x.astype(np.float64) @ noise(1, 24, 40))
    for threads in (1, 2, 3):
        model = product(8, 24, 40).compile(threads=threads)
        np.testing.assert_allclose(model(x), exact, atol=24 * 2.0**-22)
