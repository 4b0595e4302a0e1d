"""Attention of queries for which every key is masked: 0, as torch and ONNX specify it, or NaN."""

import math
import warnings

import ml_dtypes
import numpy as np
import pytest
from block_inputs import (
    DTYPES,
    F32_SCORES,
    NUMPY,
    ROUNDING,
    Inputs,
    assert_within,
    attention,
    causal_mask,
    exact,
    for_integers,
    repeated,
)
from graphs import LINKED, may_run_masks_in_parts

import onednn_graph_py as og
from onednn_graph_py import blocks

B, H, S, T, D = 2, 4, 6, 10, 16
# What the scores are, and so a mask.
BETWEEN = {d: "f32" if F32_SCORES else d for d in ("f32", "bf16", "f16")}


@pytest.fixture
def random():
    return np.random.default_rng(0)


class Attention:
    """Arrays of an attention, maybe with grouped heads, with a builder that has them as inputs."""

    def __init__(self, random, dtype, sizes=(B, H, S, T, D), kv_heads=None, grouped=False):
        batch, heads, queries, keys, size = sizes
        kv_heads = kv_heads or heads
        self.of, self.dtype, self.sizes, self.grouped = Inputs(), dtype, sizes, grouped
        shape, shared = (batch, heads, queries, size), (batch, kv_heads, keys, size)
        if grouped:
            shape = (batch, kv_heads, heads // kv_heads, queries, size)
            shared = (batch, kv_heads, 1, keys, size)
        self.arrays = [
            random.uniform(-1, 1, s).astype(NUMPY[dtype]) for s in (shape, shared, shared)
        ]
        self.values = [self.of(a) for a in self.arrays]

    def mask(self, mask):
        """A mask of 4 dims in the rank of the scores."""
        if not self.grouped or mask.ndim < 4:
            return mask
        assert mask.shape[1] == 1
        return mask[:, :, None]

    def expected(self, mask):
        q, k, v = self.arrays
        if not self.grouped:
            k, v = (repeated(a, q.shape[1]) for a in (k, v))
        return attention(q, k, v, 1 / math.sqrt(q.shape[-1]), mask, self.dtype)

    def partition_of_softmax(self):
        """The kinds of its ops."""
        kinds = {n.id: n.kind for n in self.of.b.nodes}
        (found,) = (
            ops
            for p in self.of.b.graph.get_partitions()
            if "SoftMax" in (ops := [kinds[i] for i in p.get_ops()])
        )
        return found

    def assert_right(self, y, mask):
        """Rows without a key are 0, others the softmax of the keys that are left."""
        assert self.partition_of_softmax().count("MatMul") == 2
        made = self.of.run(y)
        wanted, bound = self.expected(mask)
        masked = np.broadcast_to(np.isneginf(mask).all(-1, keepdims=True), wanted.shape)
        assert (made[masked] == 0).all()
        assert_within(made, wanted, bound)
        return masked.any()


def hidden(random, shape):
    """Where keys are hidden: in some rows all, in some all but one, which is the first or last."""
    made = random.random(shape) < 0.4
    rows = made.reshape(-1, shape[-1])
    for i, kept in enumerate((None, 0, -1, shape[-1] // 2)):
        rows[i :: max(len(rows) // 3, 5)] = True
        if kept is not None:
            rows[i :: max(len(rows) // 3, 5), kept] = False
    return made


def addend(hides):
    return np.where(hides, -np.inf, 0.0)


def given(attention, form, hides):
    """A mask as a caller may have it: an array or a value, of bool or to add."""
    what, kind = form.split()
    mask = ~hides if kind == "bool" else addend(hides).astype(NUMPY[BETWEEN[attention.dtype]])
    return attention.of(mask) if what == "value" else mask


FORMS = ["array bool", "array added", "value bool", "value added"]
SHAPES = [(B, 1, S, T), (1, 1, S, T), (B, 1, 1, T), (S, T), (T,), (B, 1, S, 1), (1,)]


@may_run_masks_in_parts
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kv_heads", [H, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_query_without_keys_gives_zero(random, dtype, kv_heads, form, shape):
    of = Attention(random, dtype, kv_heads=kv_heads)
    hides = hidden(random, shape)
    y = blocks.sdpa(*of.values, mask=given(of, form, hides))
    assert of.assert_right(y, addend(hides))


@pytest.mark.parametrize("shape", [(B, H, S, T), (1, H, 1, T), (H, S, T), (B, H, 1, T)])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_heads_may_have_masks_of_their_own(random, dtype, form, shape):
    of = Attention(random, dtype)
    hides = hidden(random, shape)
    assert of.assert_right(blocks.sdpa(*of.values, mask=given(of, form, hides)), addend(hides))


# Few heads and many, which oneDNN computes by another kernel; rows shorter than a vector, longer
# than a vector and longer than a block of oneDNN's loops; one query, as in decoding.
SIZES = [
    (1, 1, 1, 1, 8), (1, 2, 3, 1, 8), (2, 16, 5, 3, 8), (1, 1, 7, 17, 16), (2, 16, 33, 65, 32),
    (1, 2, 5, 1500, 64), (1, 16, 9, 1500, 64), (4, 8, 1, 130, 16),
]  # fmt: skip


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_number_of_keys_may_be_masked(random, dtype, grouped, form, sizes):
    batch, heads, queries, keys, _ = sizes
    kv_heads = max(heads // 2, 1)
    of = Attention(random, dtype, sizes, kv_heads if grouped else None, grouped)
    hides = of.mask(hidden(random, (batch, 1, queries, keys)))
    hides[..., 0, :] = True
    y = blocks.sdpa(*of.values, mask=given(of, form, hides))
    assert of.assert_right(y, addend(hides))


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_left_padding_and_a_causal_mask_leave_queries_without_keys(random, dtype, form, grouped):
    """Neither of both masks alone hides all keys of a query."""
    of = Attention(random, dtype, (B, H, T, T, D), 2 if grouped else None, grouped)
    hides = np.arange(T) < np.array([0, 4])[:, None]
    hides = of.mask(hides[:, None, None])
    y = blocks.sdpa(*of.values, mask=given(of, form, hides), causal="top_left")
    mask = addend(hides) + causal_mask(T, T, 0)
    made, (wanted, bound) = of.of.run(y), of.expected(mask)
    assert (made[1].reshape(-1, T, D)[:, :4] == 0).all()
    assert_within(made, wanted, bound)


@may_run_masks_in_parts
@pytest.mark.parametrize("kv_heads", [H, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_more_queries_than_keys_leave_queries_without_keys(random, dtype, kv_heads):
    of = Attention(random, dtype, (B, H, T, S, D), kv_heads)
    y = blocks.sdpa(*of.values, causal="bottom_right")
    assert of.assert_right(y, causal_mask(T, S, S - T)[None, None])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_query_without_keys_gives_nan_if_asked_for(random, dtype, form, causal):
    of = Attention(random, dtype, (B, H, S, S, D))
    hides = hidden(random, (B, 1, S, S))
    y = blocks.sdpa(*of.values, mask=given(of, form, hides), causal=causal, masked_rows="nan")
    mask = addend(hides) + (causal_mask(S, S, 0) if causal else 0)
    made, (wanted, bound) = of.of.run(y), of.expected(mask)
    masked = np.broadcast_to(np.isneginf(mask).all(-1, keepdims=True), wanted.shape)
    assert masked.any() and not masked.all()
    assert np.isnan(made[masked]).all()
    assert_within(np.where(masked, 0, made), wanted, bound)


# -- finite numbers hide no key, if all are as small


def least(dtype):
    return float(ml_dtypes.finfo(NUMPY[dtype]).min)


@pytest.mark.parametrize("form", ["array", "value"])
@pytest.mark.parametrize("small", [-1e9, "scores", "f32", -1e300])
@pytest.mark.parametrize("kv_heads", [H, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_a_small_number_are_means_of_values(random, dtype, kv_heads, small, form):
    """As in torch: such a number takes all bits of a score that it is added to."""
    between = BETWEEN[dtype]
    number = {"scores": least(between), "f32": least("f32")}.get(small, small)
    if form == "value" and number < least(between):
        pytest.skip("the data type of the value can't hold the number")
    of = Attention(random, dtype, kv_heads=kv_heads)
    hides = hidden(random, (B, 1, S, T))
    mask = np.where(hides, number, 0.0)
    passed = of.of(mask.astype(NUMPY[between])) if form == "value" else mask
    made = of.of.run(blocks.sdpa(*of.values, mask=passed))
    wanted, bound = of.expected(addend(hides))
    masked = np.broadcast_to(hides.all(-1, keepdims=True), wanted.shape)
    assert_within(made[~masked], wanted[~masked], bound[~masked])
    values = exact(repeated(of.arrays[2], H))
    mean, off = attention(0 * of.arrays[0], repeated(of.arrays[1], H), values, 1, 0.0, dtype)
    assert_within(made[masked], mean[masked], off[masked])


@pytest.mark.parametrize("form", ["array", "value"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_smallest_number_beside_infinities_is_seen(random, dtype, form):
    """As a mask to which another was added has them: its rows are means of some values."""
    of = Attention(random, dtype)
    hides = random.random((B, 1, S, T)) < 0.5
    hides[..., 0] = False
    mask = np.where(hides, -np.inf, least(BETWEEN[dtype])).astype(NUMPY[BETWEEN[dtype]])
    made = of.of.run(blocks.sdpa(*of.values, mask=of.of(mask) if form == "value" else mask))
    q, k, v = of.arrays
    assert_within(made, *attention(0 * q, k, v, 1, addend(hides), dtype))


@pytest.mark.parametrize("form", ["array", "value"])
@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("dtype", DTYPES)
def test_masks_of_nan_and_infinity_give_nan(random, dtype, number, form):
    """As in torch, for the queries whose mask has them, also beside keys that are hidden."""
    of = Attention(random, dtype)
    mask = np.zeros((B, 1, S, T))
    mask[:, :, 0, 3] = mask[:, :, 1, 0] = number
    mask[:, :, 1, 1:] = mask[:, :, 2] = -np.inf
    passed = mask.astype(NUMPY[BETWEEN[dtype]])
    made = of.of.run(blocks.sdpa(*of.values, mask=of.of(passed) if form == "value" else passed))
    assert np.isnan(made[:, :, :2]).all()
    assert (made[:, :, 2] == 0).all()
    seeing = (..., slice(3, None), slice(None))
    q, k, v = of.arrays
    assert_within(made[seeing], *attention(q[seeing], k, v, 1 / 4, 0.0, dtype))


# -- unknown dims


LENGTHS = [(1, 1, 1), (2, 7, 4), (3, 5, 17)]


@pytest.mark.parametrize("shape", ["BHST", "B11T", "11ST", "ST", "T", "B1S1"])
@pytest.mark.parametrize("form", ["added", "bool"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dims_may_be_unknown(random, dtype, form, shape):
    b = og.GraphBuilder()
    q, k, v = (b.input((-1, H, -1, D), dtype) for _ in "qkv")
    dims = {"B": -1, "H": H, "S": -1, "T": -1, "1": 1}
    mask = b.input([dims[d] for d in shape], "boolean" if form == "bool" else BETWEEN[dtype])
    b.output(blocks.sdpa(q, k, v, mask=mask))
    with warnings.catch_warnings():
        # oneDNN 3.13 selects by the row, and by conditions of some shapes, in other partitions.
        warnings.simplefilter("ignore", RuntimeWarning)
        model = b.compile()
        for batch, queries, keys in LENGTHS:
            of = Attention(random, dtype, (batch, H, queries, keys, D))
            known = {"B": batch, "H": H, "S": queries, "T": keys, "1": 1}
            hides = hidden(random, [known[d] for d in shape])
            passed = ~hides if form == "bool" else addend(hides).astype(NUMPY[BETWEEN[dtype]])
            made, (wanted, bound) = exact(model(*of.arrays, passed)), of.expected(addend(hides))
            masked = np.broadcast_to(hides.all(-1, keepdims=True), wanted.shape)
            assert (made[masked] == 0).all()
            assert_within(made, wanted, bound)


@pytest.mark.parametrize(
    "shape", [(-1, 1, S, T), (-1, H, S, T), (H, -1, T), (-1, T), (-1, 1, 1, -1)]
)
def test_booleans_of_an_unknown_batch_hide_keys_of_grouped_heads(random, shape):
    b = og.GraphBuilder()
    q, k, v = (b.input((-1, heads, n, D)) for heads, n in ((H, S), (2, T), (2, T)))
    b.output(blocks.sdpa(q, k, v, mask=b.input(shape, "boolean")))
    model = b.compile()
    for batch in (2, 3):  # one is that of the key heads
        of = Attention(random, "f32", (batch, H, S, T, D), kv_heads=2)
        whole = (batch, H, S, T)[4 - len(shape) :]
        hides = hidden(random, [n if d == -1 else d for d, n in zip(shape, whole, strict=True)])
        wanted, bound = of.expected(addend(hides))
        assert_within(exact(model(*of.arrays, ~hides)), wanted, bound)


@pytest.mark.parametrize("form", ["array", "value"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_causal_mask_in_unknown_dims_goes_with_another(random, dtype, form):
    b = og.GraphBuilder()
    q, k, v = (b.input((B, H, -1, D), dtype) for _ in "qkv")
    padding = np.where(np.arange(T) < 4, -np.inf, 0.0).astype(NUMPY[BETWEEN[dtype]])
    mask = b.input((-1,), BETWEEN[dtype]) if form == "value" else padding
    b.output(blocks.sdpa(q, k, v, mask=mask, causal=True))
    of = Attention(random, dtype, (B, H, T, T, D))
    model = b.compile()
    made = exact(model(*of.arrays, *[padding][: form == "value"]))
    wanted, bound = of.expected(padding + causal_mask(T, T, 0))
    assert (made[:, :, :4] == 0).all()
    assert_within(made, wanted, bound)


@pytest.mark.parametrize("causal", ["top_left", "bottom_right"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_boolean_mask_of_an_unknown_batch_leaves_queries_without_keys(random, dtype, causal):
    b = og.GraphBuilder()
    q, k, v = (b.input((-1, H, n, D), dtype) for n in (S, T, T))
    b.output(blocks.sdpa(q, k, v, mask=b.input((-1, 1, S, T), "boolean"), causal=causal))
    model = b.compile()
    for batch in (B, B + 1):
        of = Attention(random, dtype, (batch, H, S, T, D))
        hides = hidden(random, (batch, 1, S, T))
        hides[:, :, -1] = True
        made = exact(model(*of.arrays, ~hides))
        mask = addend(hides) + causal_mask(S, T, T - S if causal == "bottom_right" else 0)
        wanted, bound = of.expected(mask)
        masked = np.broadcast_to(np.isneginf(mask).all(-1, keepdims=True), wanted.shape)
        assert masked.any() and (made[masked] == 0).all()
        assert_within(made, wanted, bound)


# -- nothing to do


def kinds(b):
    return [(n.kind, n.attrs.get("mode")) for n in b.nodes]


@pytest.mark.parametrize("masked_rows", ["zero", "nan"])
@pytest.mark.parametrize(
    "options",
    [{}, {"causal": True}, {"causal": "bottom_right"}, {"mask": np.arange(T) > 3},
     {"mask": np.where(np.arange(T) > 3, -1e9, np.arange(T))},
     {"mask": np.arange(T) < 9, "causal": True}],
)  # fmt: skip
def test_nothing_is_added_if_every_query_sees_a_key(random, options, masked_rows):
    of = Attention(random, "f32")
    blocks.sdpa(*of.values, **options, masked_rows=masked_rows)
    added = [("Add", None)] if options else []
    wanted = ["MatMul", "Multiply", *(k for k, _ in added), "SoftMax", "MatMul"]
    assert [k for k, _ in kinds(of.of.b)] == wanted
    assert {m for _, m in kinds(of.of.b)} <= {None, "none"}


@pytest.mark.parametrize("keys", [T, -1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_one_query_at_the_end_sees_all_keys(random, dtype, keys):
    """As in decoding with cached keys, of which any number may be there."""
    b = og.GraphBuilder()
    q, k, v = (b.input((B, H, n, D), dtype) for n in (1, keys, keys))
    b.output(blocks.sdpa(q, k, v, causal="bottom_right"))
    assert [kind for kind, _ in kinds(b)] == ["MatMul", "Multiply", "SoftMax", "MatMul"]
    model = b.compile()
    for known in [T] if keys == T else [1, 5, 17]:
        of = Attention(random, dtype, (B, H, 1, known, D))
        assert_within(exact(model(*of.arrays)), *of.expected(0.0))


# -- together with other features


@pytest.mark.parametrize("form", ["array added", "value bool"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_compressed_keys_go_with_masked_rows(random, dtype, form):
    of = for_integers(dtype)
    shape, size = (B, H, T, 64), 64
    whole = random.integers(-8, 8, (2, *shape))
    scales = random.uniform(0.05, 0.1, (2, B, H, T, 2)).astype(NUMPY[dtype])
    k, v = (w * np.repeat(exact(s), 32, -1) for w, s in zip(whole, scales, strict=True))
    q = random.uniform(-1, 1, (B, H, S, size)).astype(NUMPY[dtype])
    hides = hidden(random, (B, 1, S, T))
    mask = of(~hides) if form == "value bool" else addend(hides)
    inputs = [of(a) for a in (q, *whole.astype(ml_dtypes.int4))]
    y = blocks.sdpa(*inputs, mask=mask, key_scale=scales[0], value_scale=scales[1])
    made, (wanted, bound) = of.run(y), attention(q, k, v, 1 / 8, addend(hides), dtype)
    assert (made[np.broadcast_to(hides.all(-1, keepdims=True), made.shape)] == 0).all()
    # Keys and values may be rounded to the data type once dequantized.
    scores = (np.abs(exact(q)) @ np.abs(k).swapaxes(-1, -2) / 8).max()
    assert_within(made, wanted, bound + 4 * ROUNDING[dtype] * (scores + 1) * np.abs(v).max())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kv_heads", [H, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_model_with_masked_rows_is_verified(random, dtype, kv_heads, form):
    of = Attention(random, dtype, kv_heads=kv_heads)
    hides = hidden(random, (B, 1, S, T))
    of.of.b.output(blocks.sdpa(*of.values, mask=given(of, form, hides)))
    model = of.of.b.compile()
    found = model.verify(*of.of.arrays)
    assert found, str(found)
    assert model.verify()


def test_names_of_ops_begin_with_the_blocks_name(random):
    of = Attention(random, "f32")
    mask = of.of(hidden(random, (B, 1, S, T)))
    y = blocks.sdpa(*of.values, mask=mask, name="attention")
    assert y.name == "attention"
    assert all(n.name.startswith("attention") for n in of.of.b.nodes)
    assert len({n.name for n in of.of.b.nodes}) == len(of.of.b.nodes)
    assert of.of.b.nodes[-1].name == "attention"


def test_the_mask_of_the_caller_is_not_changed(random):
    of = Attention(random, "f32")
    mask = addend(hidden(random, (B, 1, S, T)))
    before = mask.copy()
    mask.setflags(write=False)
    of.of.run(blocks.sdpa(*of.values, mask=mask))
    assert np.array_equal(mask, before)


@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_gives_the_same(random, dtype):
    torch = pytest.importorskip("torch")
    of = Attention(random, dtype)
    hides = hidden(random, (B, 1, S, T))
    made = of.of.run(blocks.sdpa(*of.values, mask=of.of(~hides)))
    q, k, v = (torch.from_numpy(exact(a)) for a in of.arrays)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=torch.from_numpy(~hides)
    ).numpy()
    assert (wanted[np.broadcast_to(hides.all(-1, keepdims=True), wanted.shape)] == 0).all()
    assert_within(made, wanted, of.expected(addend(hides))[1])


@pytest.mark.parametrize("form", ["value bool", "value added"])
def test_layers_share_what_is_made_of_their_mask(random, form):
    of = Attention(random, "f32", (B, H, S, S, D))
    mask = given(of, form, hidden(random, (B, 1, S, S)))
    first = blocks.sdpa(*of.values, mask=mask, causal=True)
    before = len(of.of.b.nodes)
    blocks.sdpa(first, *of.values[1:], mask=mask, causal=True)
    # Before 3.8, a product zeroes the masked rows.
    wanted = ["MatMul", "Multiply", "Add", "SoftMax", "MatMul"] + ["Multiply"] * (LINKED < (3, 8))
    assert [n.kind for n in of.of.b.nodes[before:]] == wanted


# -- causal masks of unknown numbers


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("mask", ["none", "boolean array", "added value"])
@pytest.mark.parametrize("causal", ["bottom_right", "top_left"])
def test_causal_masks_of_unknown_numbers(causal, mask, kv_heads):
    """A decoder's queries behind cached keys; the last query sees all of them."""
    b = og.GraphBuilder()
    shapes = {"q": (1, 4, -1, 16), "k": (1, kv_heads, -1, 16), "v": (1, kv_heads, -1, 16)}
    q, k, v = (b.input(s, "f32", name=n) for n, s in shapes.items())
    padding = np.zeros((1, 1, 1, 12), bool)
    padding[..., :9] = True
    given = {
        "none": None,
        "boolean array": padding,
        "added value": b.input((1, 1, 1, -1), "f32", name="m") if "value" in mask else None,
    }[mask]
    b.output(blocks.sdpa(q, k, v, mask=given, causal=causal))
    model = b.compile()
    rng = np.random.default_rng(0)
    for queries, keys in ((3, 12), (12, 12), (1, 12), (14, 12)):
        sizes = {"q": queries, "k": keys, "v": keys}
        arrays = {
            n: rng.standard_normal((1, s[1], sizes[n], 16)).astype(np.float32)
            for n, s in shapes.items()
        }
        offset = keys - queries if causal == "bottom_right" else 0
        hidden = np.arange(keys) > np.arange(queries)[:, None] + offset
        if mask != "none":
            hidden = hidden | ~padding[0, 0]
        named = dict(arrays)
        if "value" in mask:
            named["m"] = np.where(padding, 0, -np.inf).astype(np.float32)
        got = model(**named).astype(np.float64)
        wide = {n: a.astype(np.float64).repeat(4 // a.shape[1], 1) for n, a in arrays.items()}
        scores = wide["q"] @ wide["k"].swapaxes(-1, -2) / 4
        weights = np.where(hidden, 0.0, np.exp(scores))
        weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-300)
        np.testing.assert_allclose(got, weights @ wide["v"], rtol=0, atol=1e-5)
