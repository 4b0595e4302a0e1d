"""Explanations: what they say is what runs."""

import dataclasses
import json

import numpy as np
import pytest
from explained import chain, with_unsupported_op
from graphs import SAME_SIZE

import onednn_graph_py as og
from onednn_graph_py.machine.cpu import lacks
from onednn_graph_py.model.planning import partitions
from onednn_graph_py.tools.explaining import OpFacts, StepFacts
from onednn_graph_py.tools.explaining import peaks as speeds
from onednn_graph_py.tools.explaining.explanation import step_lines
from onednn_graph_py.tools.explaining.peaks import raised

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def found():
    return chain().compile().explain(seconds=0.02, what_if=False)


def test_steps_are_what_the_model_runs(found):
    model = chain().compile()
    assert [tuple(o.kind for o in s.ops) for s in found.steps] == [s.ops for s in model.steps()]
    assert [tuple(o.name for o in s.ops) for s in found.steps] == [s.names for s in model.steps()]
    assert [s.by for s in found.steps] == ["oneDNN"] * 3
    assert all("explained.py:" in op.where for s in found.steps for op in s.ops)
    assert found.compiled
    assert not found.reasons


def test_tensors_have_layouts_and_the_bytes_that_numpy_has(found):
    sizes = {
        t.name: (t.role, t.bytes, str(t.tensor))
        for s in found.steps
        for t in (*s.inputs, *s.outputs)
    }
    arrays = {
        "x": ("input", np.zeros((64, 256), np.float32)),
        "w0": ("constant", np.zeros((256, 512), np.float32)),
        "act": ("intermediate", np.zeros((64, 512), np.float32)),
        "probabilities": ("intermediate", np.zeros((64, 512), np.float32)),
        "w1": ("constant", np.zeros((512, 32), np.float32)),
        "y": ("output", np.zeros((64, 32), np.float32)),
    }
    assert sizes == {
        name: (role, a.nbytes, f"f32 {a.shape[0]}x{a.shape[1]}")
        for name, (role, a) in arrays.items()
    }
    assert found.input_bytes == arrays["x"][1].nbytes
    assert found.output_bytes == arrays["y"][1].nbytes
    assert found.constant_bytes == arrays["w0"][1].nbytes + arrays["w1"][1].nbytes
    moved = [s.work.bytes for s in found.steps]
    assert moved[1] == 2 * arrays["act"][1].nbytes
    assert moved[2] == sum(arrays[n][1].nbytes for n in ("probabilities", "w1", "y"))
    # Both lie in it, at the same time.
    assert found.intermediate_bytes >= arrays["act"][1].nbytes


def test_layouts_that_onednn_chose_are_told():
    b = og.GraphBuilder()
    x = b.input((1, 16, 8, 8), name="x")
    for i in range(2):
        weights = np.full((16, 16, 3, 3), 0.01, np.float32)
        x = b.convolution(x, weights, **SAME_SIZE, name=f"c{i}")
    b.output(x)
    model = b.compile()
    lt = model.specialization(((1, 16, 8, 8),)).plan.steps[0].outputs[0]
    found = model.explain(seconds=0, what_if=False)
    between = found.steps[0].outputs[0]
    assert between == dataclasses.replace(found.steps[1].inputs[0])
    assert between.tensor.layout == "strides " + "x".join(map(str, lt.get_strides()))
    assert f"f32 1x16x8x8 {between.tensor.layout}" in str(found)


def test_packed_and_smaller_types_have_their_own_sizes():
    b = og.GraphBuilder()
    x = b.input((4, 64), "bf16", name="x")
    w = b.input((64, 31), "s4", name="w")
    b.output(x=x.relu(name="r"), w=b.dynamic_dequantize(w, np.float32([0.5]), qtype="per_tensor"))
    found = og.explain(b, seconds=0, what_if=False)
    sizes = {t.name: t.bytes for s in found.steps for t in s.inputs if t.role == "input"}
    assert sizes == {"x": 4 * 64 * 2, "w": 64 * 31 // 2}
    assert found.input_bytes == sum(sizes.values())


def test_work_is_what_the_ops_are(found):
    matmul, softmax, last = [s.work for s in found.steps]
    assert matmul.operations == 2 * 64 * 256 * 512 + 64 * 512
    assert softmax.operations == 5 * 64 * 512
    assert last.operations == 2 * 64 * 512 * 32
    assert [w.dtype for w in (matmul, softmax, last)] == ["f32", None, "f32"]
    assert last.operations_per_byte == last.operations / last.bytes


@pytest.mark.parametrize(
    ("mode", "dtype", "expected"),
    [("strict", "f32", "f32"), ("bf16", "f32", "bf16"), ("strict", "bf16", "bf16")],
)
def test_products_are_measured_against_the_type_they_are_computed_in(mode, dtype, expected):
    b = og.GraphBuilder(fpmath_mode=mode)
    b.output(b.input((4, 8), dtype) @ b.input((8, 4), dtype))
    steps = og.explain(b, seconds=0, what_if=False).steps
    (step,) = (s for s in steps if s.ops[0].kind == "MatMul")
    assert step.work.dtype == (expected if dtype == "f32" or lacks(dtype) is None else "f32")


def test_int8_products_are_measured_against_int8():
    b = og.GraphBuilder()
    scale = {"scales": [0.1], "zps": [0], "qtype": "per_tensor"}
    x = b.dequantize(b.input((8, 16), "u8"), **scale)
    w = b.dequantize(b.constant(np.ones((16, 4), np.int8)), **scale)
    b.output(x @ w)
    (step,) = og.explain(b.compile(slow_fusions="run"), seconds=0, what_if=False).steps
    assert step.work.dtype == "s8"
    assert {"src:u8:ab", "src:s8:ab"} & {m for k in step.kernels for m in k.memory}


def test_times_speeds_and_shares_fit_together(found):
    assert found.calls >= 5
    assert sum(s.share for s in found.steps) == pytest.approx(1)
    peaks = found.machine
    for step in found.steps:
        work = step.work
        assert step.seconds > 0
        assert work.operations_per_second == pytest.approx(work.operations / step.seconds)
        assert work.bytes_per_second == pytest.approx(work.bytes / step.seconds)
        assert work.peak_operations == peaks.operations["f32"]
        assert work.peak_bytes == peaks.bandwidth
        more = work.operations_per_byte > peaks.operations["f32"] / peaks.bandwidth
        assert work.bound == ("compute" if more else "memory")


def test_no_peak_is_below_what_a_kernel_reached(found, monkeypatch):
    slow = dataclasses.replace(found.machine, operations={"f32": 1.0}, bandwidth=1.0)
    lifted = raised(slow, found.steps)
    assert lifted.operations == {"f32": max(s.work.operations_per_second for s in found.steps)}
    assert lifted.bandwidth == 1.0  # all that these steps read lies in the cache
    monkeypatch.setattr(speeds, "last_cache_bytes", lambda: 0)
    lifted = raised(slow, found.steps)
    assert lifted.bandwidth == max(s.work.bytes_per_second for s in found.steps)
    assert raised(found.machine, found.steps).operations == found.machine.operations


def test_another_model_of_the_same_name_does_not_disturb_times():
    import threading

    b = og.GraphBuilder()
    b.output(b.input((3, 3)).relu(name="other"))
    other = b.compile()
    stop = threading.Event()

    def call():
        while not stop.is_set():
            other(np.zeros((3, 3), np.float32))

    thread = threading.Thread(target=call)
    thread.start()
    try:
        found = chain().compile().explain(seconds=0.02, what_if=False)
    finally:
        stop.set()
        thread.join()
    assert len(found.steps) == 3
    assert all(s.seconds for s in found.steps)


def test_unknown_dims_are_explained_for_given_shapes():
    b = og.GraphBuilder()
    b.output((b.input((-1, 16), name="x") @ np.ones((16, 4), np.float32)).relu())
    model = b.compile()
    with pytest.raises(og.InvalidArgumentsError, match=r"give the shapes of x \(\?x16\)"):
        model.explain()
    for rows in (3, 7):
        found = model.explain((rows, 16), seconds=0, what_if=False)
        assert found.shapes == (("x", (rows, 16)),)
        assert found.steps[0].work.operations == rows * 4 * (2 * 16 + 1)
        assert found.steps[0].kernels[0].problem == f"{rows}x16:16x4"
    model(np.zeros((5, 16), np.float32))
    assert model.explain(seconds=0, what_if=False).shapes == (("x", (5, 16)),)
    with pytest.raises(og.InvalidShapeError, match="x"):
        model.explain((3, 17))
    with pytest.raises(og.InvalidArgumentsError, match="1 inputs, got 2 shapes"):
        model.explain((3, 16), (3, 16))
    partitions = og.explain(b, what_if=False)
    assert not partitions.compiled
    assert any("dims are unknown" in note for note in partitions.notes)
    assert partitions.steps[0].work is None
    assert og.explain(b, (2, 16), seconds=0, what_if=False).compiled


def test_fallback_and_view_steps_are_told():
    b = og.GraphBuilder()
    x = b.input((2, 3, 4), name="x")
    y = b.pow(x, beta=0.3, name="p")
    b.output(b.static_reshape(y, shape=(6, 4), special_zero=False, name="flat").softmax(axis=1))
    model = b.compile(warn=False)
    found = model.explain(seconds=0.01, what_if=False)
    assert [s.by for s in found.steps] == [s.implementation for s in model.steps()]
    by = {s.ops[0].name: s for s in found.steps}
    assert by["p"].by == "reference"
    assert by["p"].kernels == ()
    assert not by["p"].kernels_unknown
    assert by["p"].work.operations == 24
    assert by["p"].seconds > 0
    assert found.steps[-1].kernels[0].kind == "softmax"
    assert sum(s.share for s in found.steps) == pytest.approx(1)
    assert "NumPy" in str(found)


def test_a_view_takes_no_time_and_moves_nothing(monkeypatch):
    groups = partitions.groups

    def without_reshape(draft, nodes):
        return [
            (members, None if members[0].kind == "StaticReshape" else partition)
            for members, partition in groups(draft, nodes)
        ]

    monkeypatch.setattr(partitions, "groups", without_reshape)
    b = og.GraphBuilder()
    y = b.input((2, 3, 4), name="x").exp(name="e")
    y = y.static_reshape(shape=(24,), special_zero=False, name="flat")
    b.output(y.relu(name="r"))
    model = b.compile(policy="debug", warn=False)
    before, view, after = model.explain(seconds=0.01).steps
    assert (before.by, view.by, after.by) == ("oneDNN", "view", "oneDNN")
    assert (view.seconds, view.share, view.work.bytes) == (0, 0, 0)
    assert [t.tensor.shape for t in (*view.inputs, *view.outputs)] == [(2, 3, 4), (24,)]
    # The other process is not patched, and runs it; the others are the same there.
    assert [k.kind for s in (before, after) for k in s.kernels] == ["eltwise", "eltwise"]
    assert not view.kernels_unknown


@pytest.mark.filterwarnings("ignore:Pow made at")
def test_a_graph_with_an_op_in_numpy_is_explained():
    found = og.explain(with_unsupported_op(), what_if=False)
    by = {s.ops[0].name: s for s in found.steps}
    assert {name: s.by for name, s in by.items()} == {
        "e": "oneDNN",
        "p": "reference",
        "r": "oneDNN",
    }
    assert by["e"].kernels[0].kind == "eltwise"
    assert found.compiled
    assert found.seconds is not None
    assert "oneDNN has no kernel for this Pow" in str(found)


def test_reasons_name_the_op_that_has_no_kernel():
    found = with_unsupported_op().explain(seconds=0)
    reason = next(r for r in found.reasons if r.op == "p")
    assert (reason.kind, reason.status) == ("Pow", "unsupported")
    assert reason.why in str(found)
    assert f"Pow 'p', unsupported: {reason.why}" in str(found)
    told = next(r for r in found.to_dict()["reasons"] if r["op"] == "p")
    assert told["why"] == reason.why
    assert [c["description"] for c in told["changes"]] == [c.description for c in reason.changes]


def test_a_wildcard_leaves_partitions_alone():
    b = og.GraphBuilder()
    x = b.input((4, 4), name="x")
    y = b.op("Wildcard", x.relu(name="r"), outputs=[((4, 4), "f32")], name="mystery")
    b.output(y.exp(name="e"))
    found = og.explain(b, what_if=False)
    assert {s.ops[0].name: s.by for s in found.steps} == {
        "r": "oneDNN",
        "mystery": "unsupported",
        "e": "oneDNN",
    }
    assert any("Wildcard" in n for n in found.notes)


def test_a_gpu_graph_needs_no_gpu_to_be_explained():
    b = og.GraphBuilder("gpu")
    b.output(b.input((4, 8), name="x") @ b.input((8, 4), name="w"))
    found = og.explain(b, what_if=False)
    assert found.engine == "gpu"
    assert [s.label for s in found.steps] == ["MatMul"]
    if not found.compiled:
        assert any("does not compile" in note for note in found.notes)
        assert found.steps[0].kernels_unknown == "it is not compiled"


def test_steps_split_because_of_a_defect_say_so(found):
    assert all(not s.split for s in found.steps)
    b = og.GraphBuilder()
    x = b.input((1, 4, 8, 8), name="x")
    window = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "kernel": (2, 2)}
    pooled = b.max_pool(x, **window, dilations=(1, 1), data_format="NCX", name="pool")
    b.output(b.add(pooled, b.input((1, 4, 7, 7), name="other"), name="sum"))
    with pytest.warns(RuntimeWarning, match="runs in parts") as said:
        model = b.compile()
    defect = str(said[0].message).partition("runs in parts: ")[2]
    found = model.explain(seconds=0, what_if=False)
    assert [s.label for s in found.steps] == ["MaxPool 'pool'", "Add 'sum'"]
    for step in found.steps:
        assert step.split == f"oneDNN would fuse MaxPool + Add: {defect}"
    assert str(found).count(defect) == 2


def test_debug_models_have_no_reasons():
    found = chain().compile(policy="debug").explain(seconds=0)
    assert len(found.steps) == 4
    assert not found.reasons
    assert any("policy='debug'" in n for n in found.notes)


def test_a_dict_goes_through_json(found):
    told = found.to_dict()
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert [s["seconds"] for s in told["steps"]] == [s.seconds for s in found.steps]
    assert told["memory"]["constants"] == found.constant_bytes
    first = told["steps"][0]["inputs"][0]
    assert first == {
        "role": "input",
        "name": "x",
        "bytes": 64 * 256 * 4,
        "dtype": "f32",
        "shape": [64, 256],
        "layout": "row-major",
    }
    kernel = told["steps"][0]["kernels"][0]
    assert kernel["implementation"] == found.steps[0].kernels[0].implementation
    assert told["machine"]["bandwidth"] == found.machine.bandwidth


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="model must be a CompiledGraph or GraphBuilder, got str"):
        og.explain("model")


def test_places_are_told_once_and_in_a_line():
    places = ("a.py:3", "d/g.json: graph[12]", "<string>:2", "a.py:3")
    step = StepFacts(tuple(OpFacts("Add", "", p) for p in places), "oneDNN", (), ())
    assert step_lines(step) == [("made at", "a.py:3, d/g.json: graph[12]")]
