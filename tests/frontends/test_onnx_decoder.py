"""An ONNX decoder with past keys: onnxruntime's GroupQueryAttention runs in oneDNN."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
og = pytest.importorskip("onednn_graph_py")
front = pytest.importorskip("onednn_graph_py.onnx")
oh, onh = onnx.helper, onnx.numpy_helper
F, INT = onnx.TensorProto.FLOAT, onnx.TensorProto.INT32

HEADS, KEY_HEADS, SIZE, LONGEST = 6, 2, 16, 40
RANDOM = np.random.default_rng(7)


def tables():
    angles = np.arange(LONGEST)[:, None] * 100.0 ** (-np.arange(0, SIZE, 2) / SIZE)
    return {n: f(angles).astype(np.float32) for n, f in (("cos", np.cos), ("sin", np.sin))}


def attention(packed=False, past=True, batch=1, **attributes):
    """Return a model of one attention; sequences and caches of any length."""
    width, key_width = HEADS * SIZE, KEY_HEADS * SIZE
    sizes = {"query": width, "key": key_width, "value": key_width}
    if packed:
        sizes = {"query": width + 2 * key_width}
    inputs = [oh.make_tensor_value_info(n, F, [batch, "n", s]) for n, s in sizes.items()]
    cached = [batch, KEY_HEADS, "before", SIZE]
    names = [*sizes] + [""] * (3 - len(sizes)) + (["past_key", "past_value"] if past else ["", ""])
    if past:
        inputs += [oh.make_tensor_value_info(n, F, cached) for n in names[3:]]
    inputs.append(oh.make_tensor_value_info("last", INT, [batch]))
    inputs.append(oh.make_tensor_value_info("total", INT, []))
    node = oh.make_node(
        "GroupQueryAttention", [*names, "last", "total", "cos", "sin"], ["y", "k", "v"],
        domain="com.microsoft", num_heads=HEADS, kv_num_heads=KEY_HEADS,
        **{"do_rotary": 1, **attributes},
    )  # fmt: skip
    results = [oh.make_tensor_value_info("y", F, [batch, "n", width])]
    present = [batch, KEY_HEADS, "after", SIZE]
    results += [oh.make_tensor_value_info(n, F, present) for n in ("k", "v")]
    weights = [onh.from_array(a, n) for n, a in tables().items()]
    graph = oh.make_graph([node], "g", inputs, results, weights)
    sets = [oh.make_opsetid("", 21), oh.make_opsetid("com.microsoft", 1)]
    return oh.make_model(graph, opset_imports=sets, ir_version=10)


def given(model, tokens, before, batch=1):
    """Return inputs of a call; `before` tokens are cached."""
    sizes = {"n": tokens, "before": before}
    made = {}
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        shape = [sizes[d.dim_param] if d.dim_param else d.dim_value for d in dims]
        if value.type.tensor_type.elem_type == F:
            made[value.name] = RANDOM.standard_normal(shape).astype(np.float32)
    made["last"] = np.full(batch, before + tokens - 1, np.int32)
    made["total"] = np.array(before + tokens, np.int32)
    return made


def wanted(model, inputs):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


@pytest.mark.parametrize(
    "options",
    [{}, {"packed": True}, {"rotary_interleaved": 1}, {"scale": 0.3}, {"softcap": 2.0}],
    ids=lambda o: ",".join(o) or "plain",
)
def test_prompts_and_tokens_after_them(options):
    made = attention(**options)
    model = front.load(made, fallback="error")
    for tokens, before in ((7, 0), (1, 7), (1, 8), (5, 3)):
        inputs = given(made, tokens, before)
        for ours, theirs in zip(model(**inputs), wanted(made, inputs), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_whole_text_without_a_cache():
    made = attention(past=False)
    inputs = given(made, 9, 0)
    got = front.load(made, fallback="error")(**inputs)
    for ours, theirs in zip(got, wanted(made, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_caches_with_room_are_refused_and_not_misread():
    made = attention()
    inputs = given(made, 1, 12)
    inputs["last"][:], inputs["total"][...] = 5, 6  # five of the twelve are cached
    with pytest.raises(og.OneDNNError, match=r"seqlens_k must be 12, .* got 5"):
        front.load(made, fallback="error")(**inputs)
    # By default it is an island, as onnxruntime takes them.
    for ours, theirs in zip(front.load(made)(**inputs), wanted(made, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"batch": 2}, {"do_rotary": 0}, {"local_window_size": 4}],
    ids=lambda o: next(iter(o)),
)
def test_others_run_in_onnxruntime(options):
    made = attention(**options)
    inputs = given(made, 1, 6, options.get("batch", 1))
    with pytest.raises(og.UnimplementedError):
        front.load(made, fallback="error")(**inputs)
    got = front.load(made)(**inputs)
    for ours, theirs in zip(got, wanted(made, inputs), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_the_benchmark_of_accuracy_runs(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    script = Path(__file__).parents[2] / "benchmarks" / "accuracy.py"
    sizes = ["--layers", "1", "--steps", "2", "--tokens", "9"]
    done = subprocess.run(
        [sys.executable, script, *sizes], cwd=tmp_path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("|") > 6 * 4
