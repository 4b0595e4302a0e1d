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

from ..machine.cpu import lacks
from ..machine.timing import timed
from ..model.checking.expected import Expected
from ._llama import Decoder, Sizes, continued, recomputed
from ._run import Case, Skipped

_PROMPT = [5, 240, 17, 3, 900, 42, 8, 77, 512, 1, 64, 333, 9, 256, 700, 11]
_TOKENS = 64
# Two ways to sum up differ in the last bits of a logit; of bf16 they round differently everywhere.
_CLOSE = {"f32": 1e-4, "bf16": 0.05}


def _run(dtype: str) -> Case:
    graph, cache = Decoder(Sizes(), dtype).graph()
    # Each length of a whole text is one more set of shapes.
    model = graph.compile(name="decoder", max_shapes=2 * _TOKENS)
    memory = cache.allocate(len(_PROMPT) + _TOKENS)
    made = list(continued(model, memory, _PROMPT, _TOKENS))
    shapes = model.stats().shapes
    tokens = [int(logits.argmax()) for logits in made]
    text = [*_PROMPT, *tokens]
    expected = list(recomputed(model, memory, text, _TOKENS))
    far = max(
        float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())
        for a, b in zip(made, expected, strict=True)
    )
    largest = max(float(np.abs(a.astype(np.float64)).max()) for a in expected)
    faults = []
    if not far <= _CLOSE[dtype] * largest:
        faults.append(f"logits are off by {far:.2g}; they reach {largest:.2g}")
    # Two tokens whose logits are closer than rounding may change places.
    same = 0
    for i, (token, logits) in enumerate(zip(tokens, expected, strict=True)):
        wanted = int(logits.argmax())
        same += token == wanted
        if float(logits[wanted]) - float(logits[token]) > 2 * _CLOSE[dtype] * largest:
            faults.append(f"token {i} is {token}, and {wanted} if computed anew")

    with_cache, without = (
        timed(partial(deque, logits, 0))[0]
        for logits in (
            continued(model, memory, _PROMPT, _TOKENS),
            recomputed(model, memory, text, _TOKENS),
        )
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
        expected_partitions=None,
        partitions=fused,
        comparisons={"logits of one token, all elements with NumPy in float64": compared},
        milliseconds=with_cache / _TOKENS * 1e3,
        facts=[
            f"tokens a second: {_TOKENS / with_cache:.0f} with the cache,"
            f" {_TOKENS / without:.0f} if each computes the whole text anew:"
            f" {without / with_cache:.1f} times",
            f"beside the text computed anew: {same} of {_TOKENS} tokens are the same, logits off by"
            f" up to {far:.2g} of {largest:.2g}",
            f"compiled for {shapes} sets of shapes, not for each token",
        ],
        faults=faults,
    )


def run() -> Iterator[Case | Skipped]:
    """Run in f32 and bf16."""
    for dtype in ("f32", "bf16"):
        reason = lacks(dtype)
        yield _run(dtype) if reason is None else Skipped(dtype, reason)
