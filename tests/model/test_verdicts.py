"""Partitions judged in a helper process, and verdicts kept on disk."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import faulty_judge
import numpy as np
import pytest
from graphs import RUNTIME, SAME_SIZE, importing

import onednn_graph_py as og
from onednn_graph_py.machine.cpu import threads_can_be_set
from onednn_graph_py.model.checking.verify import reference_values
from onednn_graph_py.model.verdicts import Judge, Outcome, Verdict, judge, running, subject_of
from onednn_graph_py.model.verdicts.examine import draws_of, examine, written
from onednn_graph_py.model.verdicts.judge import Kept
from onednn_graph_py.model.verdicts.portion import picked, picks_for, seconds_of, shapes_of
from onednn_graph_py.model.verdicts.verdict import Limits


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def faulty(monkeypatch):
    """Have judges use a helper with faults."""
    monkeypatch.setattr(judge, "_examined", faulty_judge.examined)


def subject(b, free=False, threads=0):
    """All of a builder's ops as one partition."""
    shapes = {v.id: v.shape for n in b.nodes for v in (*n.inputs, *n.outputs)}
    used = {v.id for n in b.nodes for v in n.inputs}
    inputs = [v.logical_tensor for v in (*b.inputs, *b.constants) if v.id in used]
    outputs = [
        og.logical_tensor(v.id, v.dtype, v.shape, "any") if free else v.logical_tensor
        for v in b.outputs.values()
    ]
    return subject_of(
        b.nodes,
        shapes,
        inputs,
        outputs,
        fpmath_mode=b.fpmath_mode.name,
        apply_to_int=b.apply_to_int,
        threads=threads,
    )


def unary(kind, shape=(4, 8)):
    b = og.GraphBuilder()
    attrs = {"alpha": 1.0} if kind == "Elu" else {}
    b.output(b.op(kind, b.input(shape), **attrs))
    return subject(b)


def linear(rows=6, inner=16, columns=12, **names):
    b = og.GraphBuilder()
    x = b.input((rows, inner), **names)
    w = b.constant(np.ones((inner, columns), np.float32))
    b.output(b.relu(b.matmul(x, w) + 0.5))
    return subject(b)


def convolved(b):
    x = b.input((2, 3, 10, 10), "f32")
    w = b.constant(np.ones((8, 3, 3, 3), np.float32))
    b.output(b.convolution(x, w, **SAME_SIZE).relu())


def attention(b):
    q, k, v = (b.input((2, 4, 16, 8), "f32") for _ in range(3))
    b.output((q.matmul(k, transpose_b=True) / 8**0.5).softmax(axis=-1) @ v)


def normalized(b):
    x = b.input((3, 5, 16), "f32")
    scale, shift = (b.constant(np.ones(16, np.float32)) for _ in range(2))
    b.output(b.layer_norm(x, scale, shift, keep_stats=False))


def strided(b):
    x = b.input((4, 6), "f32", strides=(1, 4))
    b.output(x.tanh())


def truths(b):
    b.output(b.select(b.input((4, 1), "boolean"), b.input((4, 6)), b.input((1, 6))))


def quantized(b, largest=63):
    """With weights of 7 bits, so that no CPU's sums saturate."""
    per_tensor = {"qtype": "per_tensor", "zps": [0]}
    w = np.resize(np.arange(-largest, largest + 1), (32, 8)).astype(np.int8)
    x = b.input((4, 32), "u8").dequantize(scales=[0.05], **per_tensor)
    y = x @ b.constant(w).dequantize(scales=[0.02], **per_tensor)
    b.output(y.quantize(dtype="u8", scales=[0.3], zps=[7], qtype="per_tensor"))


def broadcast_over_rows(b):
    """What every oneDNN up to 3.13 computes wrongly on every CPU."""
    x, w, y = b.input((4, 8, 16)), b.input((16, 12)), b.input((4, 1, 1))
    b.output(x @ w + y)


def built(write, **more):
    b = og.GraphBuilder()
    write(b)
    return subject(b, **more)


# -- what is judged


def compressed(b):
    w, scales = b.input((64, 32), "s4"), b.input((2, 32))
    about = {"qtype": "per_group", "axis": 0, "group_shape": [32, 1]}
    b.output(b.dynamic_dequantize(w, scales, dtype="f32", **about))


USUAL = [compressed, convolved, attention, normalized, strided, truths, quantized]


@pytest.mark.parametrize("write", USUAL)
@pytest.mark.parametrize("free", [False, True])
def test_usual_partitions_are_right(write, free):
    verdict = examine(built(write, free=free), Limits())
    assert (verdict.outcome, verdict.detail) == (Outcome.RIGHT, "")
    assert not verdict.reduced


def test_a_judge_finds_a_partition_right():
    with closing(Judge()) as j:
        verdict = j.verdict(linear())
    assert verdict.outcome == Outcome.RIGHT
    assert verdict.seconds > 0 and not verdict.kept


def test_a_defect_of_onednn_is_found():
    with closing(Judge()) as j:
        verdict = j.verdict(built(broadcast_over_rows))
    assert verdict.outcome == Outcome.WRONG
    assert "288 of 384 elements are wrong" in verdict.detail


def test_the_same_ops_apart_are_right():
    b = og.GraphBuilder()
    x, w = b.input((4, 8, 16)), b.input((16, 12))
    b.output(x @ w)
    c = og.GraphBuilder()
    x, y = c.input((4, 8, 12)), c.input((4, 1, 1))
    c.output(x + y)
    for each in (b, c):
        assert examine(subject(each), Limits()).outcome == Outcome.RIGHT


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("Exp", "1 of 32 elements are wrong"),
        ("Square", "differs from call to call: 2 of 32 elements"),
        ("Tanh", "it writes outside its output 0"),
    ],
)
def test_a_fault_in_what_it_makes_is_found(faulty, kind, said):
    with closing(Judge()) as j:
        verdict = j.verdict(unary(kind))
        assert j.verdict(unary("Sigmoid")).outcome == Outcome.RIGHT
    assert verdict.outcome == Outcome.WRONG
    assert said in verdict.detail


def test_an_output_that_is_not_written_differs_from_call_to_call(monkeypatch):

    def nothing(run, pattern):
        for memory in run.outputs:
            memory.own[...] = pattern
        return [np.array(m.elements()) for m in run.outputs]

    monkeypatch.setattr(running.Run, "__call__", nothing)
    verdict = examine(unary("Sigmoid"), Limits())
    assert verdict.outcome == Outcome.WRONG
    assert "differs from call to call: 32 of 32 elements" in verdict.detail


def test_numbers_that_mean_nothing_are_not_called_right():
    b = og.GraphBuilder()
    x = b.input((4, 8))
    b.output((x - 100.0).sqrt())
    verdict = examine(subject(b), Limits())
    assert verdict.outcome == Outcome.UNVERIFIED
    assert "not finite" in verdict.detail


def test_a_partition_that_onednn_makes_two_of_is_unverified():
    b = og.GraphBuilder()
    x = b.input((4, 8))
    b.output(x.softmax(axis=-1).matmul(b.constant(np.ones((8, 8), np.float32))).softmax(axis=0))
    verdict = examine(subject(b), Limits())
    assert verdict.outcome == Outcome.UNVERIFIED
    assert "oneDNN does not make one partition of it alone" in verdict.detail


def test_saturating_weights_are_judged_by_how_large_they_are(monkeypatch):
    small, large = (built(lambda b, m=m: quantized(b, m)) for m in (63, 127))
    assert small.signature != large.signature
    verdict = examine(large, Limits())
    if og.machine.current().has("vnni"):
        assert verdict.outcome == Outcome.RIGHT
    else:
        assert verdict.outcome in (Outcome.WRONG, Outcome.RIGHT)


@pytest.mark.skipif(
    not threads_can_be_set(), reason=f"{RUNTIME} itself decides on the threads of a call"
)
def test_one_thread_is_tried_too(monkeypatch):
    from onednn_graph_py.model.verdicts import examine as module

    original, asked = module._results, []

    def results(subject, arrays, threads):
        asked.append(threads)
        return [o + (threads == 1) for o in original(subject, arrays, threads)]

    monkeypatch.setattr(module, "_results", results)
    verdict = examine(replace(linear(), threads=2), Limits())
    assert asked == [2, 1]
    assert verdict.outcome == Outcome.WRONG
    assert "with one thread" in verdict.detail


# -- parts


def test_where_the_reference_takes_long_a_part_is_compared_and_said_so():
    verdict = examine(linear(512, 512, 512), Limits())
    assert verdict.outcome == Outcome.RIGHT
    assert verdict.reduced
    assert "% of its elements were compared" in verdict.detail


def test_a_part_keeps_first_and_last_and_fits_together():
    b = og.GraphBuilder()
    attention(b)
    s = subject(b)
    picks = picks_for(s, 0.0)
    assert picks
    for (tensor, axis), chosen in picks.items():
        size = s.tensors[tensor].shape[axis]
        assert chosen[0] == 0 and chosen[-1] == size - 1
        assert (np.diff(chosen) > 0).all()
    # What is summed over, or normalized, is whole.
    scores = s.ops[0].outputs[0]
    assert (scores, 3) not in picks and (scores, 2) in picks
    assert seconds_of(s, shapes_of(s, picks)) < seconds_of(s, shapes_of(s, {}))


def scaled_by_channel(b):
    scales = [0.01 * (i + 1) for i in range(64)]
    w = b.input((16, 64), "s8").dequantize(scales=scales, zps=[0] * 64, qtype="per_channel", axis=1)
    x = b.input((32, 16), "u8").dequantize(scales=[0.1], zps=[2], qtype="per_tensor")
    return x @ w


def channels(b):
    x, w = b.input((1, 6, 9, 11)), b.input((28, 6, 3, 3))
    return b.convolution(x, w, b.input((28,)), **SAME_SIZE).relu()


def depthwise(b):
    last = {**SAME_SIZE, "data_format": "NXC", "weights_format": "XIO", "groups": 24}
    return b.convolution(b.input((1, 9, 11, 24)), b.input((3, 3, 1, 24)), **last) + b.input((24,))


def transposed_depthwise(b):
    attrs = {**SAME_SIZE, "weights_format": "IOX", "groups": 24}
    return b.conv_transpose(b.input((1, 24, 5, 7)), b.input((24, 1, 3, 3)), **attrs)


@pytest.mark.parametrize(
    ("write", "shape"),
    [
        (scaled_by_channel, (4, 4)),
        (channels, (1, 4, 9, 11)),
        (depthwise, (1, 9, 11, 4)),
        (transposed_depthwise, (1, 4, 5, 7)),
    ],
)
def test_a_part_is_that_of_the_whole(write, shape):
    b = og.GraphBuilder()
    b.output(write(b))
    s = subject(b)
    picks = picks_for(s, 0.0)
    arrays = next(draws_of(s))
    whole, values = written(s, shapes_of(s, {}), {}, {})
    part, its = written(s, shapes_of(s, picks), {}, picks)
    expected = reference_values(whole, [arrays[t] for t in s.inputs])
    made = reference_values(part, [picked(arrays[t], t, picks) for t in s.inputs])
    (t,) = s.outputs
    assert its[t].shape == shape
    np.testing.assert_array_equal(made[its[t].id], picked(expected[values[t].id], t, picks))


def test_what_has_no_part_is_unverified_and_said_so():
    b = og.GraphBuilder()
    b.output(b.input((64, 4096)).softmax(axis=0).softmax(axis=1))
    whole = subject(b)
    assert not picks_for(whole, 0.0)
    verdict = examine(whole, Limits(reference=1e-4))
    assert verdict.outcome == Outcome.UNVERIFIED


@pytest.mark.parametrize("write", USUAL)
def test_parts_of_usual_partitions_are_right_too(write, monkeypatch):
    from onednn_graph_py.model.verdicts import examine as module

    monkeypatch.setattr(module, "AIM", 0.0)
    verdict = examine(built(write), Limits())
    assert verdict.outcome == Outcome.RIGHT


# -- what goes wrong with the helper


def test_a_crash_is_told_by_its_signal_and_others_are_judged_after_it(faulty):
    with closing(Judge()) as j:
        assert j.verdict(unary("Sigmoid")).outcome == Outcome.RIGHT
        verdict = j.verdict(unary("Abs"))
        assert verdict.outcome == Outcome.CRASHED
        assert "SIGSEGV" in verdict.detail
        assert j.verdict(unary("ReLU")).outcome == Outcome.RIGHT


def test_a_hang_ends_after_the_time_limit(faulty):
    start = time.monotonic()
    with closing(Judge(timeout=3.0)) as j:
        verdict = j.verdict(unary("Elu"))
    assert verdict.outcome == Outcome.HUNG
    assert "longer than 3 s" in verdict.detail
    assert time.monotonic() - start < 120


def test_a_fault_of_ours_is_unverified_and_not_kept(faulty):
    with closing(Judge()) as j:
        verdict = j.verdict(unary("Round"))
    assert verdict.outcome == Outcome.UNVERIFIED
    assert "ZeroDivisionError: on purpose" in verdict.detail
    assert Kept(og.num_threads()).find(unary("Round").signature) is None


@pytest.mark.parametrize("python", ["/nonexistent/python", "/bin/false"])
def test_where_no_helper_starts_nothing_is_verified_with_one_warning(monkeypatch, python):
    monkeypatch.setattr(sys, "executable", python)
    told = pytest.warns(RuntimeWarning, match="partitions are not verified: ")
    with closing(Judge()) as j, told as said:
        verdicts = [j.verdict(unary(kind)) for kind in ("Sigmoid", "ReLU")]
    assert len(said) == 1
    assert {v.outcome for v in verdicts} == {Outcome.UNVERIFIED}
    assert all("start" in v.detail for v in verdicts)
    with closing(Judge()) as j, pytest.warns(RuntimeWarning, match="not verified"):
        assert not j.verdict(unary("ReLU")).kept


def test_the_helper_has_the_instruction_set_of_this_process():
    assert judge._environment()["ONEDNN_MAX_CPU_ISA"].lower() == og.get_effective_cpu_isa().name


INTERRUPTED = """
import sys
from contextlib import closing
import faulty_judge
from test_verdicts import unary
from onednn_graph_py.model.verdicts import Judge, judge
judge._examined = faulty_judge.examined
with closing(Judge()) as j:
    j.verdict(unary("ReLU"))
    print(j._helper._process.pid, flush=True)
    j.verdict(unary("Elu"))
"""


def test_an_interrupt_leaves_no_process_and_no_half_file(cache):
    path = os.pathsep.join([importing(__file__), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )
    helper = int(process.stdout.readline())
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode != 0
    assert b"KeyboardInterrupt" in said
    assert not Path(f"/proc/{helper}").exists()
    files = [f.name for f in cache.rglob("*") if f.is_file()]
    assert not [f for f in files if f.endswith(".partial")]
    assert sum(f.endswith(".json") for f in files) == 1


# -- what is kept


def no_process(*args, **kwargs):
    raise AssertionError("a process is started")


def test_the_second_time_no_process_is_started(monkeypatch):
    long = og.GraphBuilder()
    long.output(long.input((1, 65536)).softmax(axis=1))
    subjects = [unary("Sigmoid"), built(broadcast_over_rows), subject(long)]
    with closing(Judge(reference=1e-3)) as j:
        first = [j.verdict(s) for s in subjects]
    assert [v.outcome.value for v in first] == ["right", "wrong", "unverified"]
    monkeypatch.setattr(judge.Isolated, "start", no_process)
    with closing(Judge(reference=1e-3)) as j:
        again = [j.verdict(s) for s in subjects]
        assert j.verdict(unary("Sigmoid")) is again[0]
    assert again == [replace(v, kept=True) for v in first]


def kept_file(cache):
    (file,) = (cache / "verdicts").glob("*/*.json")
    return file


@pytest.fixture
def signature():
    return unary("Sigmoid").signature


@pytest.fixture
def judged(signature):
    """One verdict on disk."""
    Kept(2).keep(signature, Verdict(Outcome.RIGHT, "as fast as others"))


def test_what_was_kept_is_found(signature, judged):
    assert Kept(2).find(signature) == Verdict(Outcome.RIGHT, "as fast as others", kept=True)
    assert Kept(1).find(signature) is None
    assert Kept(2).find(unary("ReLU").signature) is None


def changed(**parts):
    """Write the file's JSON again, with other parts."""

    def spoil(file):
        file.write_text(json.dumps({**json.loads(file.read_text()), **parts}))

    return spoil


SPOILT = {
    "empty": lambda file: file.write_bytes(b""),
    "half": lambda file: file.write_bytes(file.read_bytes()[:30]),
    "no text": lambda file: file.write_bytes(b"\xff\xfe\x00" * 50),
    "a list": lambda file: file.write_text("[]"),
    "no such outcome": changed(outcome="splendid"),
    "no outcome": changed(outcome=["right"]),
    "no text as detail": changed(detail=1),
    "another partition": changed(of="another"),
    "for all to write": lambda file: file.chmod(0o666),
}


@pytest.mark.parametrize("how", SPOILT)
def test_a_file_that_is_not_to_be_trusted_is_ignored_and_replaced(cache, signature, judged, how):
    SPOILT[how](kept_file(cache))
    kept = Kept(2)
    assert kept.find(signature) is None
    kept.keep(signature, Verdict(Outcome.WRONG))
    assert Kept(2).find(signature) == Verdict(Outcome.WRONG, kept=True)


def test_a_cache_from_elsewhere_is_not_trusted(cache, signature, judged, monkeypatch):
    from onednn_graph_py.model.verdicts import judge

    monkeypatch.setattr(judge, "machine", lambda: "another machine")
    assert Kept(2).find(signature) is None


def test_where_nothing_can_be_written_all_is_judged_each_time(monkeypatch, tmp_path, signature):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path / "file" / "below"))
    Kept(2).keep(signature, Verdict(Outcome.RIGHT))
    assert Kept(2).find(signature) is None


WRITER = """
import sys
from onednn_graph_py.model.verdicts import Outcome, Verdict
from onednn_graph_py.model.verdicts.judge import Kept
kept = Kept(2)
for i in range(40):
    kept.keep("shared", Verdict(Outcome.RIGHT, sys.argv[1] * 5000))
    kept.keep(f"{sys.argv[1]} {i}", Verdict(Outcome.WRONG, str(i)))
    found = Kept(2).find("shared")
    assert found is not None and len(set(found.detail)) == 1, found
"""


def test_processes_that_write_at_the_same_time_lose_and_tear_nothing(cache):
    path = os.pathsep.join(sys.path)
    writers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", WRITER, name],
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        for name in "abc"
    ]
    for process in writers:
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said.decode()
    for name in "abc":
        for i in range(40):
            assert Kept(2).find(f"{name} {i}") == Verdict(Outcome.WRONG, str(i), kept=True)
    assert not list(cache.rglob("*.partial"))


# -- signatures


def test_names_ids_weights_and_the_order_of_ops_do_not_matter():
    first = linear(name="x")
    assert first.signature == linear(name="tokens").signature
    b = og.GraphBuilder()
    with b.scope("layer/7"):
        x = b.input((6, 16))
        w = b.constant(np.full((16, 12), 0.25, np.float32), name="weight")
        b.output(logits=b.relu(b.matmul(x, w, name="product") + 0.5))
    assert first.signature == subject(b).signature

    def two(turned):
        b = og.GraphBuilder()
        x = b.input((4, 8))
        ways = [lambda: x.exp(), lambda: x.tanh() * 2.0]
        made = [way() for way in (reversed(ways) if turned else ways)]
        left, right = reversed(made) if turned else made
        b.output(left - right)
        return subject(b)

    assert two(False).signature == two(True).signature


def test_which_of_two_equal_inputs_is_read_twice_matters():
    def product(i, j):
        b = og.GraphBuilder()
        pair = [b.input((4, 4)), b.input((4, 4))]
        b.output((pair[0] + pair[1]) @ (pair[i] * pair[j]))
        return subject(b).signature

    assert product(0, 1) != product(0, 0)
    assert product(0, 0) != product(1, 1)


def variant(
    kind="relu",
    shape=(6, 16),
    dtype="f32",
    strides=None,
    weights=None,
    transpose=False,
    fpmath="strict",
    apply_to_int=False,
    free=False,
    shift=0.5,
    both=False,
):
    b = og.GraphBuilder("cpu", fpmath, apply_to_int=apply_to_int)
    x = b.input(shape, dtype, strides=strides)
    w = b.input((16, 16), dtype) if weights is None else b.constant(weights, dtype)
    product = b.matmul(x, w, transpose_b=transpose)
    y = getattr(product, kind)() + shift
    b.output(y)
    if both:
        b.output(product)
    return subject(b, free=free)


DIFFERENT = {
    "kind": {"kind": "tanh"},
    "shape": {"shape": (7, 16)},
    "dtype": {"dtype": "bf16"},
    "strides": {"strides": (1, 6)},
    "constant": {"weights": np.ones((16, 16))},
    "attribute": {"transpose": True},
    "fpmath": {"fpmath": "bf16"},
    "apply_to_int": {"apply_to_int": True},
    "layout": {"free": True},
    "a number": {"shift": 0.25},
    "an output": {"both": True},
}


def test_each_fact_that_matters_changes_the_signature():
    signatures = {"": variant().signature}
    signatures |= {name: variant(**change).signature for name, change in DIFFERENT.items()}
    assert len(set(signatures.values())) == len(signatures)


def test_threads_have_verdicts_of_their_own():
    one, two = linear(), replace(linear(), threads=linear().threads + 1)
    assert one.signature == two.signature
    Kept(one.threads).keep(one.signature, Verdict(Outcome.RIGHT))
    assert Kept(two.threads).find(two.signature) is None


def test_scales_that_change_something_are_alike():
    def with_scales(scales, zps):
        b = og.GraphBuilder()
        x = b.input((4, 8), "u8")
        b.output(x.dequantize(scales=scales, zps=zps, qtype="per_tensor"))
        return subject(b).signature

    assert with_scales([0.1], [0]) == with_scales([0.2], [0])
    assert with_scales([0.1], [0]) != with_scales([1.0], [0])
    assert with_scales([0.1], [0]) != with_scales([0.1], [3])


def test_scales_that_cancel_each_other_out_tell_partitions_apart():
    def between(before, after):
        b = og.GraphBuilder()
        about = {"zps": [0], "qtype": "per_tensor"}
        y = b.input((1, 8, 8, 4), "u8").dequantize(scales=[before], **about).relu()
        b.output(y.quantize(dtype="u8", scales=[after], **about))
        return subject(b).signature

    assert between(0.1, 0.1) == between(0.2, 0.2)
    assert between(0.1, 0.3) == between(0.2, 0.1)
    assert between(0.1, 0.1) != between(0.1, 0.2)
