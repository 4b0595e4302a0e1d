"""Times of the steps of models, gathered by `profile`."""

import gc
import json
import threading
from html.parser import HTMLParser

import numpy as np
import pytest
from graphs import python

import onednn_graph_py as og


def two_steps(shape=(64, 64), name="model") -> og.CompiledGraph:
    """A model of two steps: a partition of two ops, and one of one."""
    b = og.GraphBuilder()
    x = b.input(shape, "f32", name="x")
    b.output(x.matmul(np.eye(64, dtype=np.float32)).relu(name="act").softmax(axis=1, name="soft"))
    return b.compile(name=name)


ONES = np.ones((64, 64), np.float32)


def test_each_step_of_each_call_is_counted():
    model = two_steps(name="block")
    with og.profile() as p:
        for _ in range(7):
            model(ONES)
    first, second = p.steps
    assert (first.model, first.step, first.implementation) == ("block", "MatMul + act", "oneDNN")
    assert (second.step, second.count, p.calls) == ("soft", 7, 7)
    assert first.shapes == ((64, 64),)
    for s in p.steps:
        assert 0 < s.minimum <= s.median <= s.maximum <= s.total
        assert 0 <= s.spread <= s.maximum - s.minimum
    assert first.share + second.share == pytest.approx(1)
    assert first.share == pytest.approx(first.total / (first.total + second.total))


def test_times_of_steps_make_up_the_models_time():
    model = two_steps()
    model(ONES)
    before = model.stats().seconds
    with og.profile() as p:
        for _ in range(20):
            model(ONES)
    taken = model.stats().seconds - before
    # What the model counts begins earlier and ends later. The counter's rate is measured, and more
    # exactly so the longer: a few per mill are left.
    steps = sum(s.total for s in p.steps)
    assert 0 < steps <= taken * 1.02


def test_only_calls_inside_are_in_it():
    model = two_steps()
    model(ONES)
    p = og.profile()
    assert p.calls == 0
    with p:
        model(ONES)
    model(ONES)
    assert p.calls == 1


def test_a_profile_goes_on_when_it_is_entered_again():
    model = two_steps()
    p = og.profile()
    for _ in range(2):
        with p:
            model(ONES)
    assert [s.count for s in p.steps] == [2, 2]


def test_an_active_profile_can_be_read_and_not_entered():
    model = two_steps()
    with og.profile() as p:
        model(ONES)
        assert p.calls == 1
        assert "active" in repr(p)
        with pytest.raises(og.InvalidArgumentsError, match="profile: it is active already"), p:
            pass
        model(ONES)
    assert p.calls == 2
    assert "active" not in repr(p)


def test_profiles_at_the_same_time_gather_each_for_itself():
    model = two_steps()
    with og.profile() as outer:
        model(ONES)
        with og.profile() as inner:
            model(ONES)
    assert (outer.calls, inner.calls) == (2, 1)


def test_an_exception_inside_ends_it():
    model = two_steps()
    with pytest.raises(RuntimeError, match="mine"), og.profile() as p:
        model(ONES)
        raise RuntimeError("mine")
    model(ONES)
    assert p.calls == 1


def test_calls_of_all_threads_are_in_it():
    model = two_steps()
    together = threading.Barrier(3)

    def work():
        together.wait()
        for _ in range(5):
            model(ONES)

    threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(3)]
    with og.profile() as p:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert [s.count for s in p.steps] == [15, 15]
    trace = p.chrome_trace()["traceEvents"]
    assert len([e for e in trace if e["ph"] == "X"]) == 45
    # Steps of one thread follow each other.
    for tid in {e["tid"] for e in trace}:
        steps = [e for e in trace if e["tid"] == tid and e.get("cat") == "oneDNN"]
        ends = [e["ts"] + e["dur"] for e in steps]
        assert all(e["ts"] >= end - 1e-3 for e, end in zip(steps[1:], ends, strict=False))


def test_threads_at_the_same_time_are_told_apart():
    model = two_steps()
    inside = threading.Barrier(2)

    def work():
        model(ONES)
        inside.wait()  # both are alive, so their numbers differ

    other = threading.Thread(target=work, name="other")
    with og.profile() as p:
        other.start()
        work()
        other.join()
    named = {e["args"]["name"] for e in p.chrome_trace()["traceEvents"] if e["ph"] == "M"}
    assert len(named) == 2
    assert threading.current_thread().name in named


def test_models_of_different_shapes_have_rows_of_their_own():
    b = og.GraphBuilder()
    b.output(b.input((-1, 8), "f32", name="x").relu())
    model = b.compile()
    with og.profile() as p:
        for rows in (2, 4, 4):
            model(np.ones((rows, 8), np.float32))
    assert {s.shapes: s.count for s in p.steps} == {((2, 8),): 1, ((4, 8),): 2}


def test_models_that_are_gone_stay_in_it():
    with og.profile() as p:
        for _ in range(3):
            two_steps()(ONES)
            gc.collect()
    assert [s.count for s in p.steps] == [1] * 6


def test_bound_models_are_in_it():
    bound = two_steps().bind([ONES])
    with og.profile() as p:
        bound()
        bound()
    assert [s.count for s in p.steps] == [2, 2]


def test_steps_in_numpy_are_told():
    b = og.GraphBuilder()
    b.output(b.pow(b.input((3, 4)), beta=0.3, name="cube") + 1)  # no kernel has this exponent
    model = b.compile(warn=False)
    with og.profile() as p:
        model(np.ones((3, 4), np.float32))
    assert [s.implementation for s in p.steps] == ["reference", "oneDNN"]
    assert p.steps[0].step == "cube"
    assert all(s.minimum > 0 for s in p.steps)


def test_calls_that_fail_are_not_in_it():
    model = two_steps()
    with og.profile() as p, pytest.raises(og.InvalidShapeError):
        model(ONES[:2])
    assert p.calls == 0


def test_no_more_calls_are_kept_than_allowed():
    model = two_steps()
    with og.profile(max_calls=3) as p:
        for _ in range(5):
            model(ONES)
    assert (p.calls, p.dropped) == (3, 2)
    assert "2 later calls are not recorded" in str(p)
    assert "2 later calls are not recorded" in p._repr_html_()


@pytest.mark.parametrize("max_calls", [0, -1, True])
def test_a_wrong_number_of_calls_is_an_error(max_calls):
    with pytest.raises(og.InvalidArgumentsError, match="max_calls must be a whole number"):
        og.profile(max_calls=max_calls)


def test_results_are_the_same_inside():
    model = two_steps()
    expected = model(ONES)
    with og.profile():
        assert np.array_equal(model(ONES), expected)


def test_a_table_is_printed():
    model = two_steps()
    with og.profile() as p:
        model(ONES)
    head, *rows = str(p).splitlines()
    assert head.split()[:5] == ["model", "inputs", "step", "by", "count"]
    assert [r.split()[1:3] for r in rows] == [["64x64", "MatMul"], ["64x64", "soft"]]
    assert all(r.endswith("%") for r in rows)
    assert str(og.profile()) == "No calls of models."


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.cells = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_data(self, data):
        self.cells[-1] += data


def test_a_notebook_shows_a_table_with_names_escaped():
    model = two_steps(name="<script>&")
    with og.profile() as p:
        model(ONES)
    parser = Cells()
    parser.feed(p._repr_html_())
    assert "script" not in parser.tags
    assert parser.cells[9] == "<script>&"
    assert len(parser.cells) == 27


def test_the_trace_is_what_perfetto_reads(tmp_path):
    model = two_steps(name="block")
    with og.profile() as p:
        model(ONES)
        model(ONES)
    path = tmp_path / "trace.json"
    p.save(path)
    trace = json.loads(path.read_text())
    events = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert [e["name"] for e in events] == ["block", "MatMul + act", "soft"] * 2
    for e in events:
        assert set(e) == {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"}
        assert e["ts"] >= 0
        assert e["dur"] > 0
    call, matmul, soft = events[:3]
    assert call["ts"] == matmul["ts"]
    assert matmul["ts"] + matmul["dur"] == pytest.approx(soft["ts"])
    assert soft["ts"] + soft["dur"] == pytest.approx(call["ts"] + call["dur"])
    assert events[3]["ts"] > soft["ts"]
    assert call["args"] == {"call": 0, "inputs": [[64, 64]]}
    (named,) = [e for e in trace["traceEvents"] if e["ph"] == "M"]
    assert named["args"]["name"] == threading.current_thread().name


def test_a_file_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        og.profile().save(tmp_path / "none" / "trace.json")


def test_a_process_may_end_inside_of_a_profile():
    python("""
        import numpy as np
        import onednn_graph_py as og
        b = og.GraphBuilder()
        b.output(b.input((8,), name="x").relu())
        model = b.compile()
        p = og.profile()
        p.__enter__()
        model(np.ones(8, np.float32))
        assert p.calls == 1
    """)
