"""From graphs to plans: constants computed once, slow fusions, other ways to write an op."""

import pickle
import threading
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import onednn_graph_py as og
from onednn_graph_py.machine.cpu import lacks
from onednn_graph_py.machine.pace import Pace, _timed, _waits
from onednn_graph_py.model.planning import fates, pace, pipeline, plan_draft
from onednn_graph_py.model.planning.trial import Trial
from onednn_graph_py.model.planning.views import view_of
from onednn_graph_py.model.verdicts import Outcome, Verdict
from onednn_graph_py.safety.defect import Finding

PER_TENSOR = {"qtype": "per_tensor", "scales": [0.25], "zps": [0]}


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def whole(*shape, low=-8, high=8, seed=0):
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.int8)


def implementations(model, *shapes):
    return [s.implementation for s in model.steps(*shapes)]


# -- views


@pytest.mark.parametrize(
    ("dims", "strides", "shape", "moves"),
    [
        ((2, 3, 4), (12, 4, 1), (6, 4), False),
        ((1, 3, 4), (99, 4, 1), (3, 4), False),
        ((2, 3, 4), (12, 1, 3), (6, 4), True),
        ((2, 3, 4), (24, 8, 2), (6, 4), True),
    ],
)
def test_ops_that_move_nothing_are_views_as_in_numpy(dims, strides, shape, moves):
    b = og.GraphBuilder()
    x = b.input(dims, strides=strides)
    source = og.logical_tensor(x.id, "f32", dims, strides)
    memory = np.lib.stride_tricks.as_strided(np.zeros(100, np.int8), dims, strides)
    turned = x.static_transpose(order=(1, 2, 0))
    view, offset = view_of(turned.producer, source, turned.shape)
    wanted = memory.transpose(1, 2, 0)
    pairs = zip(wanted.shape, view.get_strides(), wanted.strides, strict=True)
    assert offset == 0 and all(n == 1 or made == want for n, made, want in pairs)
    reshaped = x.static_reshape(shape=shape, special_zero=False)
    found = view_of(reshaped.producer, source, shape)
    assert (found is None) == moves
    if found is not None:
        assert (found[0].get_strides(), found[1]) == ([4, 1], 0)


# -- constants


def compressed(b, rows=3):
    """A product with weights of 8 bits, which oneDNN does not fuse with their Dequantize here."""
    x = b.input((rows, 16), name="x")
    w = b.constant(whole(16, 8)).dequantize(**PER_TENSOR)
    b.output((x @ (w + 1.0)).relu())


def test_what_is_made_of_constants_alone_is_computed_once():
    b = og.GraphBuilder()
    compressed(b)
    model = b.compile()
    steps = model.steps()
    assert [s.implementation for s in steps] == ["constant"] * (len(steps) - 1) + ["oneDNN"]
    assert {k for s in steps[:-1] for k in s.ops} == {"Dequantize", "Add"}
    x = noise(3, 16)
    np.testing.assert_allclose(
        model(x), np.maximum(x @ (whole(16, 8) * np.float32(0.25) + 1), 0), rtol=1e-5, atol=1e-5
    )
    with og.profile() as p:
        model(x)
    assert [s.step for s in p.steps] == ["MatMul + ReLU"]
    assert "once (constant)" in str(model.explain(seconds=0.01, what_if=False))
    og.assert_fused(model, 1)


@pytest.mark.parametrize("kind", ["mean", "max", "sum", "prod", "l1", "l2"])
@pytest.mark.parametrize("keep_dims", [True, False])
def test_reductions_over_dims_of_1_are_computed(kind, keep_dims):
    for shape in ((2, 3, 1, 1), (2, 3, -1, -1)):
        b = og.GraphBuilder()
        x = b.input(shape)
        made = getattr(b, f"reduce_{kind}")(x, axes=[2, -1], keep_dims=keep_dims)
        b.output(made.relu())
        given = noise(2, 3, 1, 1)
        wanted = np.abs(given) if kind in ("l1", "l2") else np.maximum(given, 0)
        got = b.compile(warn=False)(given)  # not together with ReLU
        np.testing.assert_allclose(got, wanted if keep_dims else wanted[..., 0, 0], rtol=1e-6)


def test_a_constant_is_read_when_it_is_computed():
    """SYCL runs partitions while the caller goes on: one of forty models had a wrong constant."""
    one, other = noise(64, 64), noise(64, 64, seed=1)
    for _ in range(80):
        b = og.GraphBuilder()
        table = b.concat(b.constant(one)[..., None], b.constant(other)[..., None], axis=-1)
        b.output(b.input((64, 64, 2)) * table)
        got = b.compile()(np.ones((64, 64, 2), np.float32))
        np.testing.assert_array_equal(got, np.stack([one, other], -1))


def test_constants_can_be_kept_small():
    b = og.GraphBuilder()
    compressed(b)
    model = b.compile(fold_constants=False)
    assert set(implementations(model)) == {"oneDNN"}
    assert model.stats().memory_bytes < b.compile().stats().memory_bytes
    assert model.verify()
    assert b.compile().verify()


def test_all_shapes_share_what_was_computed_from_constants():
    b = og.GraphBuilder()
    compressed(b, rows=-1)
    model = b.compile()
    memory = []
    for rows in (2, 3, 5):
        x = noise(rows, 16)
        expected = np.maximum(x @ (whole(16, 8) * np.float32(0.25) + 1), 0)
        np.testing.assert_allclose(model(x), expected, rtol=1e-5, atol=1e-5)
        memory.append(sum(a.nbytes for a in model._shared.folded.arrays))
    assert len(set(memory)) == 1
    copied = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copied(x), model(x))


def test_results_of_one_op_of_constants_are_told_apart():
    b = og.GraphBuilder()
    w = b.constant(noise(3, 16) + 1)
    normalized, mean, variance = w.layer_norm(use_affine=False, keep_stats=True)
    b.output((b.input((-1, 3), name="x") * mean - variance) @ normalized)
    model = b.compile()
    for rows in (2, 5):  # the second plan takes what the first computed
        assert model.verify(noise(rows, 3))
        assert implementations(model, (rows, 3))[0] == "constant"


def test_a_constant_that_is_an_output_is_computed_at_each_call():
    b = og.GraphBuilder()
    w = b.constant(whole(4, 4)).dequantize(**PER_TENSOR)
    b.output(w=w, y=b.input((2, 4)) @ w)
    model = b.compile()
    made, y = model(x := noise(2, 4))
    np.testing.assert_array_equal(made, whole(4, 4) * np.float32(0.25))
    np.testing.assert_allclose(y, x @ made, rtol=1e-5, atol=1e-6)


def test_changing_a_result_changes_no_constant():
    b = og.GraphBuilder()
    compressed(b)
    model = b.compile()
    first = model(noise(3, 16))
    kept = first.copy()
    first[...] = 0
    np.testing.assert_array_equal(model(noise(3, 16)), kept)


# -- slow fusions


def chain(b):
    x, y, w = b.input((2, 3, 8)), b.input((2, 3, 8)), b.input((8,))
    b.output((x + y) * w)


def test_a_fusion_that_is_slower_than_its_ops_apart_is_not_used(monkeypatch):
    monkeypatch.setattr(fates, "slow_fusion", lambda *_: None)
    b = og.GraphBuilder()
    chain(b)
    asked = []

    def measured(engine, fused, apart, constants):
        asked.append((len(fused.nodes), [len(s.nodes) for s in apart]))
        return Pace(5e-3, 1e-4)

    monkeypatch.setattr(pace, "measured", measured)
    monkeypatch.setattr(pace, "known", lambda *_: None)
    monkeypatch.setattr(pace, "keep", lambda key, found: pace.Kept(found))
    model = b.compile()  # a warning would fail
    assert asked == [(2, [1, 1])]
    assert [s.ops for s in model.steps()] == [("Add",), ("Multiply",)]
    for step in model.steps():
        assert step.why == (
            "oneDNN would fuse Add + Multiply: fused, it takes 50 times as long as its separate ops"
        )
    assert "50 times as long" in str(model.explain(seconds=0.01, what_if=False))
    assert model.verify()
    fused = b.compile(slow_fusions="run")
    assert [s.ops for s in fused.steps()] == [("Add", "Multiply")]
    assert fused.steps()[0].why == ""


def test_constants_have_the_same_bits_whether_a_fusion_was_measured_or_known(monkeypatch):
    """Measuring computes the ops of a constant part alone, which rounds in another way."""
    kept, results = {}, []
    monkeypatch.setattr(fates, "slow_fusion", lambda *_: None)
    monkeypatch.setattr(pace, "known", kept.get)
    monkeypatch.setattr(pace, "keep", lambda key, found: kept.setdefault(key, pace.Kept(found)))

    def measured(engine, fused, apart, constants):
        kinds = {n.kind for n in fused.nodes}
        return Pace(1e-2 if {"MatMul", "Maximum"} <= kinds else 1e-4, 1e-4)

    monkeypatch.setattr(pace, "measured", measured)
    for first in (True, False):
        b, rng = og.GraphBuilder(), np.random.default_rng(0)
        x, w = (
            b.constant(rng.integers(-64, 65, shape).astype(np.int8)).dequantize(
                qtype="per_tensor", scales=[0.01]
            )
            for shape in ((9, 37), (37, 8))
        )
        b.output((x @ w).sigmoid().maximum(b.input((9, 8))))
        assert (not kept) == first
        model = b.compile()
        assert [s.implementation for s in model.steps()][-2:] == ["constant", "oneDNN"]
        results.append(model(np.zeros((9, 8), np.float32)))
    assert (results[0] == results[1]).all()


def test_parts_of_a_slow_fusion_are_not_slow_either(monkeypatch):
    monkeypatch.setattr(fates, "slow_fusion", lambda *_: None)
    monkeypatch.setattr(pace, "known", lambda *_: None)
    monkeypatch.setattr(pace, "keep", lambda key, found: pace.Kept(found))

    def measured(engine, fused, apart, constants):
        kinds = {n.kind for n in fused.nodes}
        return Pace(1e-2 if {"Add", "Multiply"} <= kinds else 1e-4, 1e-4)

    monkeypatch.setattr(pace, "measured", measured)
    b = og.GraphBuilder()
    x, y, z = (b.input((2, 3, 8)) for _ in range(3))
    b.output(((x + y) * z).relu())
    steps = b.compile().steps()
    assert [s.ops for s in steps] == [("Add",), ("Multiply", "ReLU")]
    with og.profile() as p:
        b.compile()(*(noise(2, 3, 8, seed=s) for s in range(3)))
    assert [s.why for s in p.steps] == [s.why for s in steps]
    assert f"Add: {steps[0].why}" in str(p)


def test_a_slow_fusion_is_used_where_its_ops_have_no_kernels(monkeypatch):
    """Reciprocal has one only together with another op."""
    monkeypatch.setattr(fates, "slow_fusion", lambda *_: Finding("", "slow (injected)", False))
    b = og.GraphBuilder()
    b.output(b.input((2, 8)).reciprocal() * b.input((2, 8)))
    model = b.compile()
    assert [s.ops for s in model.steps()] == [("Reciprocal", "Multiply")]
    assert model.verify()


def test_a_fusion_is_used_where_it_is_not_slower(monkeypatch):
    monkeypatch.setattr(fates, "slow_fusion", lambda *_: None)
    b = og.GraphBuilder()
    chain(b)
    for fused in (1e-4, 1.2e-4, 1.26e-4):
        monkeypatch.setattr(pace, "known", lambda *_, f=fused: pace.Kept(Pace(f, 1.15e-4)))
        assert [s.ops for s in b.compile().steps()] == [("Add", "Multiply")]
    monkeypatch.setattr(pace, "known", lambda *_: pace.Kept(Pace(1.5e-4, 1.15e-4)))
    assert len(b.compile().steps()) == 2


def test_equal_partitions_are_measured_once(monkeypatch, tmp_path):
    monkeypatch.setattr(fates, "slow_fusion", lambda *_: None)
    monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path))
    monkeypatch.setattr(pace, "_known", {})
    count = []

    def measured(*_):
        count.append(1)
        return Pace(1e-4, 1e-4)

    monkeypatch.setattr(pace, "measured", measured)
    for _ in range(3):
        b = og.GraphBuilder()
        x, y, w = b.input((3, 5, 24)), b.input((3, 5, 24)), b.input((24,))
        b.output((x + y) * w)
        b.compile()
    assert len(count) == 1


def test_what_other_processes_disturb_is_not_held_against_a_fusion(monkeypatch):
    monkeypatch.setattr(fates, "slow_fusion", lambda *_: None)
    monkeypatch.setattr(pace, "known", lambda *_: None)
    kept = []
    monkeypatch.setattr(pace, "keep", lambda key, found: kept.append(found) or pace.Kept(found))
    switches = iter(range(10**6))
    monkeypatch.setattr(
        "onednn_graph_py.machine.pace.getrusage",
        lambda _: SimpleNamespace(ru_nivcsw=next(switches)),
    )
    monkeypatch.setattr("onednn_graph_py.machine.pace._waits", lambda: None)
    monkeypatch.setattr(Trial, "run", lambda _: time.sleep(0.04))
    b = og.GraphBuilder()
    chain(b)
    assert [s.ops for s in b.compile().steps()] == [("Add", "Multiply")]
    assert kept == [None]


def timed_by(monkeypatch, fused, apart):
    """The pace of calls that take these seconds in turn, of which others may have added some."""
    lasting = {"fused": iter(fused), "apart": iter(apart)}

    def timed(which):
        took = next(lasting[which])
        return took if isinstance(took, tuple) else (took, 0.0)

    monkeypatch.setattr("onednn_graph_py.machine.pace._timed", timed)
    return Pace.measured("fused", "apart")


def test_runs_that_waited_for_a_cpu_decide_only_what_they_show_anyway(monkeypatch):
    # Between 10 and 60 ms against between 10 and 50 ms says nothing, however often.
    assert timed_by(monkeypatch, [(0.06, 0.05)] * 99, [(0.05, 0.04)] * 99) is None
    assert timed_by(monkeypatch, [(0.02, 0.0)] * 99, [(0.019, 0.018)] * 99) is None
    # At least 60 ms against 10 ms at most does; and 10 ms at most against at least 10.
    assert timed_by(monkeypatch, [(0.08, 0.02)] * 99, [(0.01, 0.005)] * 99).slow is not None
    assert timed_by(monkeypatch, [(0.01, 0.008)] * 99, [(0.03, 0.02)] * 99).slow is None
    # One run that did not wait is enough.
    runs = [(0.006, 0.005)] * 3, [(0.005, 0.004)] * 3
    undisturbed = ([*runs[0], 0.002, *runs[0] * 9], [*runs[1], 0.002, *runs[1] * 9])
    assert timed_by(monkeypatch, *undisturbed) is not None


def test_what_threads_waited_for_a_cpu_is_read_from_linux():
    before = _waits()
    if before is None:
        assert not Path("/proc/self/schedstat").exists()
        pytest.skip("this Linux does not show how long threads wait for a CPU")
    after = _waits()
    assert all(after[thread] >= wait >= 0 for thread, wait in before.items() if thread in after)
    assert str(threading.get_native_id()) in after
    seconds, added = _timed(lambda: time.sleep(0.01))
    assert seconds >= 0.01
    assert 0 <= added <= seconds


def test_a_brief_call_that_three_runs_find_slow_is_slow_only_if_ten_do(monkeypatch):
    # The first run of each side only sets it up.
    slow, fast = [2e-3], [1e-3]
    by_chance = timed_by(monkeypatch, slow * 5 + fast * 100, fast * 100)
    assert by_chance.slow is None
    assert timed_by(monkeypatch, slow * 100, fast * 100).slow is not None
    # Four times as slow is no chance, and neither is a call that lasts.
    assert timed_by(monkeypatch, [6e-3] * 6, fast * 6).slow is not None
    assert timed_by(monkeypatch, [4e-2] * 6, [2e-2] * 6).slow is not None


def test_large_products_are_not_measured(monkeypatch):
    monkeypatch.setattr(pace, "measured", lambda *_: pytest.fail("measured"))
    b = og.GraphBuilder()
    b.output((b.input((256, 256)) @ noise(256, 256)).relu())
    assert sum(s.implementation == "oneDNN" for s in b.compile().steps()) == 1


# -- what oneDNN gets wrong, also by itself


def wrong_where(monkeypatch, predicate):
    """Have the planner believe that oneDNN is wrong for groups of some ops."""

    def found(group, conditions):
        found = Finding("injected", "oneDNN is wrong (injected)", True)
        return found if predicate(group.ops) else None

    monkeypatch.setattr(fates, "wrong_result", found)


def test_a_product_is_written_without_transpose_a(monkeypatch):
    wrong_where(monkeypatch, lambda ops: any(o.attrs.get("transpose_a") for o in ops))
    b = og.GraphBuilder()
    x, w = b.input((2, 5, 3)), b.input((2, 5, 4))
    b.output(x.matmul(w, transpose_a=True))
    with pytest.warns(RuntimeWarning, match="its first operand transposed by a separate op"):
        model = b.compile()
    assert [s.ops for s in model.steps()] == [("StaticTranspose",), ("MatMul",)]
    assert all("injected" in s.why for s in model.steps())
    assert model.verify()
    assert model.diagram()._repr_mimebundle_()
    assert model.explain(seconds=0.01).steps


def test_strided_inputs_are_copied_first(monkeypatch):
    wrong_where(
        monkeypatch,
        lambda ops: ops[0].kind == "ReLU" and ops[0].inputs[0].strides[0] == 1,
    )
    b = og.GraphBuilder()
    x = b.input((4, 6), strides=(1, 4))
    b.output(x.relu())
    with pytest.warns(RuntimeWarning, match="with row-major inputs"):
        model = b.compile()
    assert [s.ops for s in model.steps()] == [("Reorder",), ("ReLU",)]
    array = noise(6, 4).T
    np.testing.assert_array_equal(model(array), np.maximum(array, 0))


def test_what_nothing_else_makes_right_is_computed_in_numpy(monkeypatch):
    wrong_where(monkeypatch, lambda ops: any(o.kind == "Exp" for o in ops))
    b = og.GraphBuilder()
    b.output(b.input((4, 6)).exp().relu())
    with pytest.warns(RuntimeWarning) as said:
        model = b.compile()
    assert any("it is computed in NumPy" in str(w.message) for w in said)
    assert [(s.ops, s.implementation) for s in model.steps()] == [
        (("Exp",), "reference"),
        (("ReLU",), "oneDNN"),
    ]
    assert model.verify()


def test_16_bits_are_computed_in_f32(monkeypatch):
    wrong_where(
        monkeypatch,
        lambda ops: any(o.kind == "MatMul" and o.inputs[0].dtype == "bf16" for o in ops),
    )
    b = og.GraphBuilder()
    x, w = b.input((3, 16), "bf16"), b.input((16, 4), "bf16")
    b.output(x @ w)
    if lacks("bf16") is not None:  # nothing is asked of ops that have no kernel
        assert implementations(b.compile()) == ["oneDNN"] * 4
        return
    with pytest.warns(RuntimeWarning, match="it is computed in f32"):
        model = b.compile()
    assert [s.ops for s in model.steps()].count(("TypeCast",)) == 3
    assert model.verify()


def test_less_than_f32_is_not_used_where_it_is_wrong(monkeypatch):
    modes = []
    original = plan_draft.graph_of

    def seen(*given, strict=False, **options):
        modes.append(strict)
        return original(*given, strict=strict, **options)

    monkeypatch.setattr(plan_draft, "graph_of", seen)
    calls = iter([True])
    wrong_where(monkeypatch, lambda ops: next(calls, False))
    b = og.GraphBuilder(fpmath_mode="bf16")
    b.output(b.input((3, 16)) @ b.input((16, 4)))
    with pytest.warns(RuntimeWarning, match="without a smaller floating-point type"):
        model = b.compile()
    assert modes[-1]
    assert model.verify()


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_automatic_padding_is_written_out_where_onednn_pads_wrongly(auto_pad):
    b = og.GraphBuilder()
    src, diff = b.input((1, 5, 7, 4)), b.input((1, 10, 14, 6))
    b.output(
        b.conv_transpose_backward_weights(
            src, diff, weights_shape=(3, 4, 6, 4), strides=(2, 2), auto_pad=auto_pad,
            pads_begin=(0, 0), pads_end=(0, 0), dilations=(1, 1),
        )
    )  # fmt: skip
    with pytest.warns(RuntimeWarning, match="with its paddings written out"):
        model = b.compile()
    assert implementations(model) == ["oneDNN"]
    assert model.verify()


def test_the_gradient_of_average_pooling_needs_no_shape_attribute():
    """Without it oneDNN ends the process, in all versions."""
    b = og.GraphBuilder()
    diff = b.input((2, 7, 5))
    b.output(
        b.op(
            "AvgPoolBackward", diff, outputs=[((2, 7, 6), "f32")], strides=[1], kernel=[2],
            pads_begin=[0], pads_end=[0], data_format="NCX", exclude_pad=False,
        )
    )  # fmt: skip
    model = b.compile()
    assert implementations(model) == ["oneDNN"]
    assert model.verify()


def test_a_reason_is_told_once_for_all_groups_that_it_splits(monkeypatch):
    wrong_where(monkeypatch, lambda ops: len(ops) > 1)
    b = og.GraphBuilder()
    x = b.input((4, 16))
    for seed in range(3):
        x = (x @ noise(16, 16, seed=seed)).relu()
    b.output(x)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = b.compile()
    assert len(said) == 1
    assert "(and 2 more) runs in parts: oneDNN is wrong (injected)" in str(said[0].message)
    assert len(model.steps()) == 6


# -- verified


class FakeJudge:
    """Says of partitions what a test wants."""

    def close(self):
        pass

    def verdict(self, subject):
        kinds = tuple(sorted(op.kind for op in subject.ops))
        return self.answers.get(kinds, Verdict(Outcome.RIGHT))


@pytest.fixture
def judge(monkeypatch):
    fake = type("Fake", (FakeJudge,), {"answers": {}})
    monkeypatch.setattr(pipeline, "Judge", fake)
    return fake.answers


def product(b):
    b.output((b.input((3, 16)) @ noise(16, 8)).relu())


@pytest.mark.parametrize("outcome", [Outcome.WRONG, Outcome.CRASHED, Outcome.HUNG])
def test_what_was_tried_and_failed_runs_in_parts(judge, outcome):
    judge["MatMul", "ReLU"] = Verdict(outcome, "as the test says")
    b = og.GraphBuilder()
    product(b)
    with pytest.warns(RuntimeWarning, match=f"runs in parts: .*{outcome}: as the test says"):
        model = b.compile(check="verify")
    assert [s.ops for s in model.steps()] == [("MatMul",), ("ReLU",)]
    assert model.verify()
    assert len(b.compile(check="verify", known_defects="run").steps()) == 1
    assert len(b.compile().steps()) == 1


def test_an_op_that_fails_by_itself_too_is_computed_otherwise(judge):
    judge["MatMul", "ReLU"] = judge[("MatMul",)] = Verdict(Outcome.WRONG, "as the test says")
    b = og.GraphBuilder()
    product(b)
    with pytest.warns(RuntimeWarning) as said:
        model = b.compile(check="verify")
    assert any("it is computed in NumPy" in str(w.message) for w in said)
    assert implementations(model) == ["reference", "oneDNN"]
    assert model.verify()


def test_what_cannot_be_verified_is_said(judge):
    judge["MatMul", "ReLU"] = Verdict(Outcome.UNVERIFIED, "nobody knows")
    b = og.GraphBuilder()
    product(b)
    with pytest.warns(RuntimeWarning, match=r"MatMul \+ ReLU made at .* is not verified: nobody"):
        model = b.compile(check="verify")
    assert [s.verified for s in model.steps()] == ["unverified: nobody knows"]


def test_what_is_verified_in_part_is_said(judge):
    part = "12 % of its elements were compared"
    judge["MatMul", "ReLU"] = Verdict(Outcome.RIGHT, part, reduced=True)
    b = og.GraphBuilder()
    product(b)
    assert [s.verified for s in b.compile(check="verify").steps()] == [f"right: {part}"]
    assert [s.verified for s in b.compile().steps()] == [""]


def test_a_defect_that_no_row_knows_is_found(monkeypatch, tmp_path):
    monkeypatch.setenv("ONEDNN_GRAPH_PY_CACHE", str(tmp_path))
    monkeypatch.setattr(fates, "wrong_result", lambda *_: None)
    b = og.GraphBuilder()
    x, y = b.input((4, 8, 16)), b.input((4, 1, 1))
    b.output(x @ noise(16, 12) + y)
    assert not b.compile(slow_fusions="run").verify()
    with pytest.warns(RuntimeWarning, match="elements are wrong"):
        model = b.compile(check="verify", slow_fusions="run")
    assert [s.ops for s in model.steps()] == [("MatMul",), ("Add",)]
    assert model.verify()
    monkeypatch.setattr(
        "onednn_graph_py.base.processes.isolation.Process", lambda *_, **__: pytest.fail("started")
    )
    with pytest.warns(RuntimeWarning, match="elements are wrong"):
        b.compile(check="verify", slow_fusions="run")


# -- what constants are computed from


def test_constants_of_equal_ops_that_read_other_constants_differ():
    one, two = noise(4, 4), noise(4, 4, seed=1)
    b = og.GraphBuilder()
    x, c, d = b.input((4, 4)), b.constant(one), b.constant(two)
    b.output(first=x @ ((c + d) * c), second=x @ ((c + d) * d), third=x @ ((d + c) * c))
    model = b.compile()
    assert "constant" in implementations(model)
    first, second, third = model(np.eye(4, dtype=np.float32))
    np.testing.assert_allclose(first, (one + two) * one, rtol=1e-6)
    np.testing.assert_allclose(second, (one + two) * two, rtol=1e-6)
    np.testing.assert_allclose(third, (one + two) * one, rtol=1e-6)


def test_constants_of_other_data_types_differ():
    c = noise(4, 4) * 40
    b = og.GraphBuilder()
    x, q = b.input((4, 4)), b.constant(c)
    steps = {"qtype": "per_tensor", "scales": [1.0], "zps": [0]}
    rounded = [q.quantize(dtype=t, **steps).dequantize(**steps) for t in ("s8", "u8")]
    b.output(*(x + r for r in rounded))
    first, second = b.compile()(np.zeros((4, 4), np.float32))
    np.testing.assert_array_equal(first, np.rint(c).clip(-128, 127))
    np.testing.assert_array_equal(second, np.rint(c).clip(0, 255))


def test_what_was_only_tried_leaves_nothing_behind(monkeypatch):
    monkeypatch.setattr(fates, "slow_fusion", lambda *_: None)
    monkeypatch.setattr(pace, "known", lambda *_: None)
    monkeypatch.setattr(pace, "keep", lambda key, found: pace.Kept(found))
    monkeypatch.setattr(pace, "measured", lambda *_: Pace(1e-4, 1e-4))
    b = og.GraphBuilder()
    c = b.constant(noise(3, 8)).exp()
    b.output(y=(c + 1.0) * b.input((3, 8)), z=c.tanh() * b.input((3, 8)))
    model = b.compile()
    assert model.verify()
    assert len(model._shared.folded._arrays) <= sum(
        s.implementation == "constant" for s in model.steps()
    )


# -- transposed tensors

TRANSPOSED = {
    "add": lambda b, y: y + np.ones((1, 4, 16, 32), "f"),
    "multiply": lambda b, y: y * np.ones((16, 32), "f"),
    "softmax": lambda b, y: y.softmax(axis=-1),
    "reduction": lambda b, y: y.reduce_sum(axes=[-1], keep_dims=True),
    "two readers": lambda b, y: (
        (y @ np.ones((32, 8), "f")) + y.reduce_sum(axes=[-1], keep_dims=True)
    ),
}


def pooled(data_format):
    options = {"kernel": (2, 2), "strides": (2, 2), "pads_begin": (0, 0), "pads_end": (0, 0)}
    return lambda b, y: y.max_pool(data_format=data_format, **options)


def transposed(reader, order=(0, 2, 1, 3)):
    b = og.GraphBuilder()
    x = b.input((1, 16, 4, 32))
    b.output(reader(b, x.static_transpose(order=order)))
    model = b.compile()
    (made,) = [n.outputs[0].id for n in b.nodes if n.kind == "StaticTranspose"]
    found = [
        lt
        for s in model.specialization(((1, 16, 4, 32),)).plan.steps
        for lt in s.inputs
        if lt.get_id() == made
    ]
    assert found
    return found[0]


@pytest.mark.parametrize("reader", TRANSPOSED.values(), ids=TRANSPOSED)
def test_ops_that_need_row_major_tensors_get_transposed_ones_copied(reader):
    assert tuple(transposed(reader).get_strides()) == (2048, 512, 32, 1)


def test_pools_read_channels_that_lie_last_by_their_strides():
    channels_first = transposed(pooled("NCX"), order=(0, 3, 1, 2))
    assert tuple(channels_first.get_strides()) == (2048, 1, 128, 32)
    for lt in (transposed(pooled("NXC"), order=(0, 2, 3, 1)), transposed(pooled("NCX"))):
        assert (
            lt.get_strides() == og.logical_tensor(0, "f32", lt.get_dims(), "strided").get_strides()
        )


@pytest.mark.parametrize("kind", ["softmax", "log_softmax"])
@pytest.mark.parametrize("channels", [19, 32])
def test_softmax_along_channels_reads_a_convolution_row_major(kind, channels):
    """As segmenters end; in a convolution's own layout oneDNN has a reference kernel for it."""
    random = np.random.default_rng(channels)
    b = og.GraphBuilder()
    x = b.input((2, 12, 9, 7))
    w = b.constant(random.standard_normal((channels, 12, 1, 1)).astype(np.float32))
    window = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "dilations": (1, 1)}
    scores = x.convolution(w, data_format="NCX", weights_format="OIX", **window)
    b.output(getattr(scores, kind)(axis=1))
    model = b.compile()
    assert model.verify()
    (read,) = model.specialization((x.shape,)).plan.steps[-1].inputs
    assert tuple(read.get_strides()) == (channels * 63, 63, 7, 1)


def test_products_read_transposed_tensors_by_their_strides():
    lt = transposed(lambda b, y: y @ np.ones((32, 8), "f"))
    assert tuple(lt.get_strides()) == (2048, 32, 128, 1)


def test_a_scale_along_a_kernels_dim_is_not_read_as_those_of_channels():
    """As channels' oneDNN would read 64 scales, of which there is one; it is the tensor's."""
    b = og.GraphBuilder()
    x = b.input((5, 8, 2), "u8").dequantize(scales=[2.0**-7], zps=[0], qtype="per_tensor")
    integers = np.random.default_rng(0).integers(-60, 61, (64, 2, 1)).astype(np.int8)
    w = b.constant(integers).dequantize(scales=[2.0**-7], zps=[0], qtype="per_channel", axis=2)
    window = {"strides": (2,), "pads_begin": (0,), "pads_end": (0,), "dilations": (1,)}
    y = x.convolution(w, data_format="NCX", weights_format="OIX", groups=4, **window)
    b.output(y.square())
    model = b.compile()  # a warning would fail
    assert model.verify()


def test_attention_is_right_after_a_product_of_two_transposed_operands():
    """oneDNN would take a tensor of that product's for one of the attention's."""
    b = og.GraphBuilder()
    x, w = b.input((5, 2, 8, 66)), b.input((3, 8))
    b.output(x.matmul(w, transpose_a=True, transpose_b=True))
    with pytest.warns(RuntimeWarning, match="both_transposed_and_shared"):
        product = b.compile()
    b = og.GraphBuilder()
    q, k, v = b.input((1, 10, 2, 8)), b.input((1, 5, 3, 8)), b.input((1, 5, 3, 8))
    b.output(og.blocks.sdpa(q, k, v))
    assert b.compile().verify() and product.verify()


@pytest.mark.parametrize("bias", [(1,), (1, 5, 16, 7), (3, 1, 1, 7)])
def test_attention_that_adds_a_bias_and_selects_keys_does_not_crash(bias):
    """As T5 does; oneDNN 3.7 takes a kernel for it that ends the process."""
    b = og.GraphBuilder()
    q, k, v = b.input((3, 5, 16, 8)), b.input((3, 5, 8, 7)), b.input((3, 5, 7, 8))
    scores = q.matmul(k) + b.constant(np.random.default_rng(0).random(bias, np.float32))
    seen = b.input((3, 1, 1, 7), "boolean")
    kept = b.op("Select", seen, b.constant(np.float32([-1e4])), scores)
    b.output(kept.softmax(axis=-1) @ v)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert b.compile().verify()


@pytest.mark.parametrize(("shape", "data_format"), [((15, 2), "NXC"), ((3, 5, 4, 2), "NCX")])
def test_the_gradient_of_one_slope_is_that_of_a_slope_a_channel(shape, data_format):
    """By oneDNN's reference kernel it took 2.7 ms for 64x1024 on two cores of a Zen 3, so 0.3."""
    b = og.GraphBuilder()
    inputs = b.input(shape), b.input((1,)), b.input(shape)
    results = b.op("PReLUBackward", *inputs, data_format=data_format, outputs=[(None, "f32")] * 2)
    b.output(*results)
    with pytest.warns(RuntimeWarning, match="slope_by_reference"):
        model = b.compile()
    assert [s.ops for s in model.steps()][:2] == [("Multiply",), ("PReLUBackward",)]
    x, diff = (np.random.default_rng(i).standard_normal(shape, np.float32) for i in range(2))
    of_source, of_slope = model(x, np.float32([0.25]), diff)
    np.testing.assert_allclose(of_source, np.where(x > 0, diff, 0.25 * diff), rtol=1e-6)
    np.testing.assert_allclose(of_slope, [np.minimum(x, 0).ravel() @ diff.ravel()], rtol=1e-4)
