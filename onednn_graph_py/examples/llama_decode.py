"""A decoder of Llama's shape generates tokens with a cache of keys and values.

Four layers with random weights, as one model: embedding, RMSNorm, rotary positions, grouped heads,
gated MLP. It generates 64 tokens one by one, and sets the result and the tokens a second beside a
model that computes the whole text anew for each token.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..checking.expected import Expected
from ..machine.cpu import lacks
from ..machine.timing import timed
from ._llama import Decoder, Sizes, continued, recomputed
from ._report import Case, Skipped

_PROMPT = [5, 240, 17, 3, 900, 42, 8, 77, 512, 1, 64, 333, 9, 256, 700, 11]
_TOKENS = 64
# Two ways to sum up differ in the last bits of a logit; of bf16 they round differently everywhere.
_CLOSE = {"f32": 1e-4, "bf16": 0.25}


def _run(dtype: str) -> Case:
    graph, cache = Decoder(Sizes(), dtype).graph()
    # Each length of a whole text is one more set of shapes.
    model = graph.compile(name="decoder", max_shapes=2 * _TOKENS)
    memory = cache.allocate(len(_PROMPT) + _TOKENS)
    made = list(continued(model, memory, _PROMPT, _TOKENS))
    shapes = model.stats().shapes
    expected = list(recomputed(model, memory, _PROMPT, _TOKENS))
    tokens, wanted = ([int(logits.argmax()) for logits in one] for one in (made, expected))
    far = max(
        float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())
        for a, b in zip(made, expected, strict=True)
    )
    largest = max(float(np.abs(a.astype(np.float64)).max()) for a in expected)
    faults = []
    if tokens != wanted:
        first = next(i for i in range(_TOKENS) if tokens[i] != wanted[i])
        faults.append(f"token {first} is {tokens[first]}, and {wanted[first]} if computed anew")
    if not far <= _CLOSE[dtype] * largest:
        faults.append(f"logits are off by {far:.2g}; they reach {largest:.2g}")

    with_cache, without = (
        timed(partial(deque, way(model, memory, _PROMPT, _TOKENS), 0))[0]
        for way in (continued, recomputed)
    )
    # One token behind the others, beside NumPy.
    memory.length -= 1
    inputs = {**memory.arrays(1), "tokens": np.array([[tokens[-1]]])}
    given: list[Any] = [inputs[v.name].copy() for v in graph.inputs]
    (logits,) = graph.outputs.values()
    compared = Expected(graph, given).compare({logits.id: model(*given)})
    # The layers are alike, so each way to fuse is listed once.
    steps = model.steps(*(a.shape for a in given))
    fused = list(dict.fromkeys(s.ops for s in steps if s.implementation == "oneDNN"))
    return Case(
        name=f"{dtype}, 4 layers of 256, 4 heads and 2 key heads, {_TOKENS} tokens",
        # What oneDNN fuses differs by version and CPU, and is not what this example shows.
        expected_partitions=len(fused),
        partitions=fused,
        comparisons={"logits of one token, all elements with NumPy in float64": compared},
        milliseconds=with_cache / _TOKENS * 1e3,
        facts=[
            f"tokens a second: {_TOKENS / with_cache:.0f} with the cache,"
            f" {_TOKENS / without:.0f} if each computes the whole text anew:"
            f" {without / with_cache:.1f} times",
            f"beside the text computed anew: the same {_TOKENS} tokens, logits off by up to"
            f" {far:.2g} of {largest:.2g}",
            f"compiled for {shapes} sets of shapes, not for each token",
        ],
        faults=faults,
    )


def run() -> Iterator[Case | Skipped]:
    """Run in f32 and bf16."""
    for dtype in ("f32", "bf16"):
        reason = lacks(dtype)
        yield _run(dtype) if reason is None else Skipped(dtype, reason)
