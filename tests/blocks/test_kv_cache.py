"""Inputs that a model updates, and the cache of keys and values."""

import importlib
import pickle
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from graphs import needs

import onednn_graph_py as og
from onednn_graph_py import blocks
from onednn_graph_py.model.checking.expected import Expected

rng = np.random.default_rng(0)


def put(array, at, row):
    array[int(at[0])] = row


def counter(read=True):
    """A table whose row `at` a call replaces, and the sum of all rows."""
    b = og.GraphBuilder()
    table = b.input((-1, 4), "f32", name="table", updated=True)
    at, row = b.input((1,), "s64", name="at"), b.input((4,), "f32", name="row")
    after = b.update(put, table, at, row, name="put")
    b.output(after.reduce_sum(axes=[0]) if read else row.relu())
    return b


def test_an_update_writes_to_the_callers_array():
    model = counter().compile()
    # The rows are moved behind before they are added up.
    steps = model.steps((3, 4), (1,), (4,))
    assert [s.implementation for s in steps] == ["host", "oneDNN", "oneDNN"]
    table = np.zeros((3, 4), np.float32)
    for i in range(3):
        row = rng.standard_normal(4).astype(np.float32)
        got = model(table, np.array([i]), row)
        np.testing.assert_array_equal(table[i], row)
        np.testing.assert_allclose(got, table.sum(0), rtol=1e-6, atol=1e-6)
    again = pickle.loads(pickle.dumps(model))
    again(table, np.array([0]), np.ones(4, np.float32))
    assert (table[0] == 1).all()


def test_an_update_runs_even_if_nothing_reads_its_result():
    model = counter(read=False).compile()
    table = np.zeros((3, 4), np.float32)
    model(table, np.array([1]), np.ones(4, np.float32))
    assert table.sum(1).tolist() == [0, 4, 0]


def test_an_updated_array_is_neither_copied_nor_read_only():
    model = counter().compile()
    at, row = np.array([0]), np.ones(4, np.float32)
    table = np.zeros((3, 4), np.float32)
    table.flags.writeable = False
    with pytest.raises(og.InvalidArgumentsError, match="'table' is read-only"):
        model(table, at, row)
    strided = np.zeros((3, 8), np.float32)[:, ::2]
    with pytest.raises(og.InvalidArgumentsError, match="'table' is updated, so it must be aligned"):
        model(strided, at, row)
    memory = np.zeros(16, np.float32)
    with pytest.raises(og.InvalidArgumentsError, match=r"table, which is updated, overlaps.* row"):
        model(memory[:12].reshape(3, 4), at, memory[8:12])
    bound_table = np.zeros((3, 4), np.float32)
    bound = model.bind([bound_table, at, row])
    bound()
    assert bound_table[0].tolist() == [1] * 4
    bound_table.flags.writeable = False
    with pytest.raises(og.InvalidArgumentsError, match="no longer the array that was bound"):
        bound()


def test_wrong_updates():
    b = og.GraphBuilder()
    plain = b.input((3, 4), "f32", name="plain")
    table = b.input((3, 4), "f32", name="table", updated=True)
    for target in (plain, plain.relu(), b.constant(np.zeros(3, np.float32))):
        with pytest.raises(og.InvalidArgumentsError, match="made with updated=True"):
            b.update(put, target)
    with pytest.raises(TypeError, match="must be callable"):
        b.update(3, table)
    after = b.update(put, table, np.array([0]), plain[0], name="put")
    with pytest.raises(og.InvalidArgumentsError, match="that no op reads"):
        b.update(put, table)
    b.output(after, before=table.relu())
    with pytest.raises(og.InvalidGraphError, match=r"ReLU.*reads the input 'table', which.*'put'"):
        b.compile()
    other = counter()
    other.output(table=other.inputs[0])
    with pytest.raises(og.InvalidGraphError, match="output 'table' is the input 'table', which"):
        other.compile()


# -- the cache


def attention(q, k, v):
    """Causal attention to the bottom right, in f64."""
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    per_key = q.shape[1] // k.shape[1]
    k, v = k.repeat(per_key, 1), v.repeat(per_key, 1)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    hidden = np.arange(k.shape[2]) > np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2]
    scores[..., hidden] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


# With AVX-512 oneDNN 3.7 reads shared heads with gaps wrongly, and a model says what it does then.
shared_heads = pytest.mark.filterwarnings(
    r"ignore:(?s).*\[gaps_between_shared_weights\]:RuntimeWarning"
)
DTYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}


@shared_heads
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("heads", "query_heads"), [(2, 2), (2, 6), (1, 4)])
@pytest.mark.parametrize("batch", [1, 2])
def test_attention_over_the_cache(dtype, heads, query_heads, batch):
    needs(dtype)
    of = DTYPES[dtype]
    b = og.GraphBuilder()
    cache = blocks.kv_cache(b, layers=2, batch=batch, heads=heads, size=16, dtype=dtype)
    shapes = {"q": query_heads, "k": heads, "v": heads}
    values = {n: b.input((batch, h, -1, 16), dtype, name=n) for n, h in shapes.items()}
    positions = cache.positions(values["q"], axis=2)
    first = cache.attend(values["q"], values["k"], values["v"])
    second = cache.attend(values["q"], values["v"], values["k"], scale=0.25)
    b.output(first=first, second=second, positions=positions)
    model = b.compile()
    memory = cache.allocate(200)
    seen = {n: np.zeros((batch, h, 0, 16), of) for n, h in shapes.items()}
    for tokens in (5, 1, 1, 60, 1, 3, 100):
        new = {n: rng.standard_normal((batch, h, tokens, 16)).astype(of) for n, h in shapes.items()}
        first, second, positions = memory.call(model, tokens, **new)
        seen = {n: np.concatenate([a, new[n]], 2) for n, a in seen.items()}
        length = seen["k"].shape[2]
        assert memory.length == length
        assert positions.tolist() == list(range(length - tokens, length))
        # Scores, weights and results are rounded; weights sum up to 1.
        unit = 2.0**-24 * 200 if dtype == "f32" else 2.0**-8 * 4
        for got, expected in (
            (first, attention(new["q"], seen["k"], seen["v"])),
            (second, attention(new["q"], seen["v"], seen["k"])),
        ):
            allowed = unit * np.abs(seen["v"].astype(np.float64)).max() * 4
            np.testing.assert_allclose(got.astype(np.float64), expected, rtol=0, atol=allowed)
    assert model.stats().copies == 0
    assert len({s for s in model._made}) == 6  # of the tokens, and of a power of two of the cache


def test_the_cache_does_not_move():
    b = og.GraphBuilder()
    cache = blocks.kv_cache(b, layers=1, batch=1, heads=1, size=4)
    x = b.input((1, 1, -1, 4), "f32", name="x")
    b.output(cache.attend(x, x, x))
    model = b.compile()
    memory = cache.allocate(256)
    addresses = set()
    for i in range(130):
        memory.call(model, 1, x=np.full((1, 1, 1, 4), i, np.float32))
        keys = memory.arrays(1)["cache.0.keys"]
        addresses.add(keys.ctypes.data)
        np.testing.assert_array_equal(keys[: i + 1, 0, 0, 0], np.arange(i + 1))
    assert len(addresses) == 1
    assert model.stats().shapes == 3  # 64, 128 and 256 tokens
    memory.length = 10  # forgets the later ones
    memory.call(model, 1, x=np.full((1, 1, 1, 4), -1, np.float32))
    assert memory.length == 11 and memory.arrays(1)["cache.0.keys"][10, 0, 0, 0] == -1


def test_a_call_that_fails_caches_nothing():
    b = og.GraphBuilder()
    cache = blocks.kv_cache(b, layers=1, batch=1, heads=1, size=4)
    x = b.input((1, 1, -1, 4), "f32", name="x")
    fails = [True]

    def sometimes(a):
        if fails.pop() if fails else False:
            raise KeyError("later")
        return a.copy()

    y = cache.attend(x, x, x)
    b.output(b.call(sometimes, y, outputs=[((1, 1, -1, 4), "f32")]))
    model = b.compile()
    memory = cache.allocate(8)
    given = np.ones((1, 1, 2, 4), np.float32)
    with pytest.raises(KeyError):
        memory.call(model, 2, x=given)
    assert memory.length == 0
    np.testing.assert_allclose(memory.call(model, 2, x=given), given, rtol=1e-6)
    with pytest.raises(og.InvalidArgumentsError, match="room for 8 tokens, got 2 cached and 7 new"):
        memory.call(model, 7, x=np.ones((1, 1, 7, 4), np.float32))
    memory.length = -1
    with pytest.raises(og.InvalidArgumentsError, match="got -1 cached"):
        memory.arrays(1)


def test_wrong_lengths_never_leave_the_memory():
    b = og.GraphBuilder()
    cache = blocks.kv_cache(b, layers=1, batch=1, heads=1, size=4)
    x = b.input((1, 1, -1, 4), "f32", name="x")
    b.output(cache.attend(x, x, x))
    model = b.compile()
    keys, values = np.zeros((2, 8, 1, 1, 4), np.float32)
    for length in (8, -1, 2**40, -(2**40)):
        with pytest.raises(og.InvalidShapeError, match="memory for 8 tokens can't take tokens"):
            model(np.array([length]), keys, values, np.ones((1, 1, 1, 4), np.float32))
    assert not keys.any() and not values.any()


def test_wrong_arguments():
    b = og.GraphBuilder()
    for wrong in ({"layers": 0}, {"batch": -1}, {"heads": True}, {"size": 0}, {"dtype": "s8"}):
        with pytest.raises(og.InvalidArgumentsError, match=next(iter(wrong))):
            blocks.kv_cache(b, **{"layers": 1, "batch": 1, "heads": 2, "size": 4, **wrong})
    assert not b.inputs
    cache = blocks.kv_cache(b, layers=1, batch=1, heads=2, size=4)
    q = b.input((1, 2, -1, 4), "f32", name="q")
    three = b.input((1, 3, -1, 4), "f32", name="three")
    with pytest.raises(og.InvalidShapeError, match="query must have a multiple of 2 heads, got 3"):
        cache.attend(three, q, q)
    with pytest.raises(og.InvalidShapeError, match=r"key must be .*1x2x"):
        cache.attend(q, three, q)
    with pytest.raises(og.InvalidDataTypeError, match="key must be f32"):
        cache.attend(q, b.input((1, 2, -1, 4), "bf16", name="k"), q)
    cache.attend(q, q, q)
    with pytest.raises(og.InvalidArgumentsError, match="it has 1 layers, and each has"):
        cache.attend(q, q, q)
    with pytest.raises(og.InvalidArgumentsError, match="capacity must be a whole number"):
        cache.allocate(0)


# -- a decoder


@shared_heads
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_decoder_generates_what_it_computes_anew(dtype, monkeypatch):
    needs(dtype)
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "docs" / "programs")
    program = importlib.import_module("llama_decode")
    sizes = program.Sizes(layers=2, width=64, heads=4, key_heads=2, hidden=96, words=200)
    graph, cache = program.Decoder(sizes, dtype).graph()
    model = graph.compile(max_shapes=100)
    prompt, count = [1, 2, 3, 5, 8], 64
    memory = cache.allocate(len(prompt) + count)
    made = list(program.continued(model, memory, prompt, count))
    assert model.stats().shapes == 3  # the prompt, and one token over 64 and over all tokens
    tokens = [int(m.argmax()) for m in made]
    text = [*prompt, *tokens]
    # Each is a size of its own to compile. The last depends on what all calls before it have kept.
    for place in (0, 1, 2, 30, 57, 58, 59, 60, 63):
        (anew,) = program.recomputed(model, memory, text[: len(prompt) + place + 1], 1)
        anew = anew.astype(np.float64)
        close = {"f32": 1e-4, "bf16": 0.05}[dtype] * np.abs(anew).max()
        np.testing.assert_allclose(made[place].astype(np.float64), anew, rtol=0, atol=close)
        assert anew[tokens[place]] >= anew.max() - 2 * close  # the same, or as good as
        assert dtype != "f32" or tokens[place] == anew.argmax()
    # One more token, beside the reference in NumPy.
    memory.length = len(prompt) + count - 1
    inputs = {**memory.arrays(1), "tokens": np.array([[7]])}
    given = [inputs[v.name].copy() for v in graph.inputs]
    (logits,) = graph.outputs.values()
    assert Expected(graph, given).compare({logits.id: model(*given)})
    names = {name for s in model.steps(*(a.shape for a in given)) for name in s.ops}
    assert {"Slice", "Call", "Update", "MatMul"} <= names


@pytest.mark.parametrize("causal", [False, "bottom_right"])
def test_heads_of_one_token_that_share_keys_are_rows(causal):
    random = np.random.default_rng(3)
    shapes = {"q": (2, 6, 1, 16), "k": (2, 3, 21, 16), "v": (2, 3, 21, 16)}
    q, k, v = (random.standard_normal(s).astype(np.float32) for s in shapes.values())
    b = og.GraphBuilder()
    values = [b.input(s, name=n) for n, s in shapes.items()]
    b.output(og.blocks.sdpa(*values, causal=causal))
    assert {n.outputs[0].ndim for n in b.nodes if n.kind == "MatMul"} == {4}
    scores = np.einsum("bhgd,bhkd->bhgk", q.reshape(2, 3, 2, 16), k.astype(np.float64)) / 4
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    wanted = np.einsum("bhgk,bhkd->bhgd", weights, v).reshape(2, 6, 1, 16)
    np.testing.assert_allclose(b.compile()(q, k, v), wanted, rtol=1e-4, atol=1e-5)
