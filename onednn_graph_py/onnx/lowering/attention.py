"""Attention and rotary position embeddings."""

import math
from functools import partial
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...blocks import masks
from ...blocks.attention import sdpa
from ...blocks.embedding import embedding
from ...blocks.heads import Heads
from ...blocks.rope import rope
from ...frontends.recipes import chosen
from ...model.building.value import Value
from ..host_steps import new_places, places_outputs, seen_keys, seen_of
from .table import FLOATS, Call, NotLowered, lowers

Array = npt.NDArray[Any]
Mask = masks.Mask | None
Causal = Literal["top_left", "bottom_right"] | None


@lowers("Attention")
def _attention(call: Call) -> list[Value]:
    query, key, value = call.floats(0, 1, 2)
    if call.attribute("softmax_precision") not in (None, 1, 10, 16):
        raise NotLowered("oneDNN has no SoftMax in this precision")
    flat = query.ndim == 3
    if flat:
        heads, kv_heads = call.attribute("q_num_heads"), call.attribute("kv_num_heads")
        query = by_head(call, query, heads)
        key, value = by_head(call, key, kv_heads), by_head(call, value, kv_heads)
    new = (key.shape or ())[2]
    if call.has(4) and call.dims(4)[2] != 0:  # else the cache of a first step
        key = call.b.concat(call.value(4), key, axis=2)
        value = call.b.concat(call.value(5), value, axis=2)
    mask, causal = _mask(call, query, key, new)
    size = (query.shape or ())[3]
    if -1 in (size, (value.shape or ())[3]):
        raise NotLowered("the size of a head is unknown")
    scale = call.attribute("scale")
    scale = 1 / math.sqrt(size) if scale is None else float(scale)
    scores = None
    if call.attribute("softcap", 0.0) or call.is_read(3) or value.shape != key.shape:
        made, scores = _by_steps(call, query, key, value, mask, causal, scale)
    else:
        if isinstance(mask, Value) and mask.dtype in FLOATS:
            mask = call.cast(mask, query.dtype)
        made = sdpa(query, key, value, mask=mask, causal=causal or False, scale=scale)
    if flat:
        made = joined_heads(call, made)
    results = [made, key, value] if scores is None else [made, key, value, scores]
    return results[: len(call.node.outputs)]


def by_head(call: Call, x: Value, heads: int) -> Value:
    """Return (batch, heads, tokens, size) of (batch, tokens, heads * size)."""
    width = (x.shape or ())[2]
    if width == -1:
        raise NotLowered("the size of a head is unknown")
    split = call.b.static_reshape(x, shape=[0, 0, heads, width // heads], special_zero=True)
    return call.b.static_transpose(split, order=[0, 2, 1, 3])


def joined_heads(call: Call, made: Value) -> Value:
    """Return (batch, tokens, heads * size) of (batch, heads, tokens, size)."""
    _, heads, _, width = made.shape or ()
    moved = call.b.static_transpose(made, order=[0, 2, 1, 3])
    return call.b.static_reshape(moved, shape=[0, 0, heads * width], special_zero=True)


def _mask(call: Call, query: Value, key: Value, new: int) -> tuple[Mask, Causal]:
    """Return a mask, and how keys after a query are hidden besides."""
    queries, keys = (query.shape or ())[2], (key.shape or ())[2]
    given: Mask = None
    if call.has(3):
        if call.dims(3)[-1] != keys:
            raise NotLowered("the mask is shorter than the keys, or a size is unknown")
        known = call.known(3)
        given = call.value(3) if known is None else known
    left, right = call.attribute("left_window_size", -1), call.attribute("right_window_size", -1)
    causal = bool(call.attribute("is_causal", 0))
    past = call.dims(4)[2] if call.has(4) else 0
    if left < 0 and right < 0 and not call.has(6):
        if not causal:
            return given, None
        if past == 0:
            return given, "top_left"
        if new == queries != -1:
            return given, "bottom_right"
    if -1 in (queries, keys, past):
        raise NotLowered("the mask follows from numbers of tokens that are unknown")
    seen = partial(seen_keys, queries, keys, causal, left, right)
    if not call.has(6):
        return _with(call, given, call.b.constant(seen(np.array([past])), "f32")), None
    # The numbers of keys that are no padding, for each of the batch.
    lengths = call.known(6)
    if lengths is not None:
        return _with(call, given, call.b.constant(seen(lengths - queries, lengths), "f32")), None
    batch = (query.shape or ())[0]
    made = call.b.call(
        partial(seen_of, seen, queries), call.value(6), outputs=[((batch, 1, queries, keys), "f32")]
    )
    return _with(call, given, made), None


def _with(call: Call, given: Mask, added: Value) -> Mask:
    """Return a mask to add that hides the keys of both."""
    if given is None:
        return added.data if added.data is not None else added
    if not isinstance(given, Value):
        if given.dtype == bool:
            given = np.where(given, 0.0, -np.inf)
        if added.data is not None:
            both: Array = given.astype(np.float64) + added.data
            return both
        return added + call.b.constant(given, "f32")
    if given.dtype == "boolean":
        return chosen(call, given, added, call.b.constant([-np.inf], "f32"))
    return call.cast(given, "f32") + added


def _by_steps(
    call: Call, query: Value, key: Value, value: Value, mask: Mask, causal: Causal, scale: float
) -> tuple[Value, Value]:
    """Return the attention and its scores, for what `sdpa` does not have."""
    b, dtype = call.b, query.dtype
    batch, count, queries, size = query.shape or ()
    _, kv_count, keys, width = (key.shape or ())[:3] + (value.shape or ())[3:]
    grouped = count != kv_count
    if -1 in (queries, keys) and (causal is not None or grouped):
        raise NotLowered("numbers of tokens are unknown")
    query, key, value = (call.cast(v, "f32") for v in (query, key, value))
    rows = [batch, kv_count, count // kv_count * queries]  # queries of one key head

    def of_heads(x: Value, columns: int) -> Value:
        shape = [batch, count, queries, columns]
        return b.static_reshape(x, shape=shape, special_zero=False) if grouped else x

    def of_key_heads(x: Value, columns: int) -> Value:
        return b.static_reshape(x, shape=[*rows, columns], special_zero=False) if grouped else x

    products = b.matmul(of_key_heads(query, size), key, transpose_b=True)
    scores = of_heads(products * scale, keys)
    mode, returned = call.attribute("qk_matmul_output_mode", 0), scores
    if cap := float(call.attribute("softcap", 0.0)):
        scores = b.tanh(scores * (1 / cap)) * cap
    returned = scores if mode == 1 else returned
    # Zeros of rows without a key are put among the weights.
    heads = Heads(batch, count, count, queries, keys, keys, keys, False, 4)
    if isinstance(mask, Value) and mask.dtype != "boolean":
        mask = call.cast(mask, "f32")
    scores, factor, attrs = masks.applied(
        scores, masks.checked(mask, heads, b, ("f32",)), heads, causal=causal, zero=True, name=None
    )
    if mode == 2 and factor is not None:
        raise NotLowered("before oneDNN 3.8 its scores are not those that are returned")
    returned = scores if mode == 2 else returned
    weights = b.softmax(scores, axis=-1, **attrs)
    weights = weights if factor is None else weights * factor
    returned = weights if mode == 3 else returned
    made = of_heads(b.matmul(of_key_heads(weights, keys), value), width)
    return call.cast(made, dtype), call.cast(returned, dtype)


lowers("RotaryEmbedding")(lambda call: rotary(call, [_table(call, i) for i in (1, 2)]))


def rotary(call: Call, tables: list[Value]) -> Value:
    """Rotate by cosines and sines of (batch, tokens, rotated / 2)."""
    [x] = call.floats(0)
    shape = x.shape or ()
    rotated = call.attribute("rotary_embedding_dim", 0)
    if x.ndim == 3:
        heads = call.attribute("num_heads", 0)
        if call.node.domain and not rotated:
            heads = shape[2] // (2 * (tables[0].shape or ())[-1])
        if shape[2] == -1 or not heads:
            raise NotLowered("the size of a head is unknown")
        x = call.b.static_reshape(x, shape=[0, 0, heads, shape[2] // heads], special_zero=True)
    tables = [t[:, :, None] if len(shape) == 3 else t[:, None] for t in tables]
    if rotated not in (0, 2 * (tables[0].shape or ())[-1]):
        raise NotLowered("the tables have another size than what is rotated")
    cos, sin = (call.cast(t, x.dtype) for t in tables)
    made = rope(x, cos, sin, interleaved=bool(call.attribute("interleaved", 0)))
    if len(shape) == 3:
        made = call.b.static_reshape(made, shape=[0, 0, shape[2]], special_zero=True)
    return made


def _table(call: Call, i: int) -> Value:
    """Return cosines or sines of (batch, tokens, rotated / 2)."""
    if not call.has(3):
        return call.value(i)
    known, places = call.known(i), call.known(3)
    if known is not None and places is not None:
        return call.b.constant(known[places], call.dtype(i))
    return embedding(call.value(3), call.value(i))


@lowers("GroupQueryAttention", domain="com.microsoft")
def _group_query_attention(call: Call) -> list[Value]:
    """Lower the attention of a decoder, which rotates positions and appends to its cache."""
    more = ("smooth_softmax", "local_window_size", "qk_output", "kv_cache_bit_width")
    if any(call.attribute(name, 0) > 0 for name in more) or len(call) > 9:
        raise NotLowered("a window, a bias, sinks or positions of its own are not lowered")
    if not call.may_refuse:
        raise NotLowered(
            "its caches may have room for more tokens, which only onnxruntime takes; with "
            "fallback='error' it is lowered"
        )
    if not call.attribute("do_rotary", 0):
        raise NotLowered("only with rotary positions it tells how many keys are padding")
    heads, kv_heads = call.attribute("num_heads"), call.attribute("kv_num_heads")
    [query] = call.floats(0)
    width = (query.shape or ())[2]
    if call.has(1):
        [key, value] = call.floats(1, 2)
    else:
        size = width // (heads + 2 * kv_heads)
        ends = [0, heads * size, (heads + kv_heads) * size, width]
        query, key, value = (query[..., a:b] for a, b in pairwise(ends))
    query = by_head(call, query, heads)
    key, value = by_head(call, key, kv_heads), by_head(call, value, kv_heads)
    batch, _, tokens, size = query.shape or ()
    tables = [call.value(i) for i in (7, 8)]
    if batch != 1 or 2 * (tables[0].shape or ())[1] != size:
        raise NotLowered("a batch's sequences may differ in length, or a head is rotated in part")
    past = [call.value(i) for i in (3, 4)] if call.has(3) and call.dims(3)[2] else []
    places = call.b.call(new_places, call.value(5), query, *past[:1], outputs=places_outputs)
    cos, sin = (call.cast(embedding(places, t), query.dtype)[:, None] for t in tables)
    interleaved = bool(call.attribute("rotary_interleaved", 0))
    query, key = (rope(x, cos, sin, interleaved=interleaved) for x in (query, key))
    if past:
        key, value = (call.b.concat(*pair, axis=2) for pair in zip(past, (key, value), strict=True))
    scale = float(call.attribute("scale", 0.0)) or 1 / math.sqrt(size)
    causal: Causal = None if tokens == 1 else "bottom_right"
    if call.attribute("softcap", 0.0):
        made, _ = _by_steps(call, query, key, value, None, causal, scale)
    else:
        made = sdpa(query, key, value, causal=causal or False, scale=scale)
    made = joined_heads(call, made)
    return [made, key, value][: len(call.node.outputs)]
