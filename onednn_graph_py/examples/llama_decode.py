"""A decoder of Llama's shape generates tokens with a cache of keys and values.

Layers with random weights, as one model: embedding, RMSNorm, rotary positions, grouped heads, gated
MLP; in f32, in bf16, and with weights of 8 and 4 bits. It generates tokens one by one after a
prompt, and sets the result beside a model that computes the whole text anew for each token, and the
speed beside torch's, if that is installed. Layers 2048 wide are those of Llama 3.2 1B.
"""

from __future__ import annotations

import importlib.util
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..machine.cpu import lacks
from ..machine.timing import timed
from ..model.checking.expected import Expected
from ._llama import Decoder, Sizes, continued, greedy, of_torch, recomputed
from ._run import Case, Skipped, resident_mib

_BITS = {"f32": 0, "bf16": 0, "w8": 8, "w4": 4}
# Two ways to sum up differ in the last bits of a logit; of bf16 they round differently everywhere,
# and so do activations of 8 bits, where a sum lies between two of them.
_CLOSE = {"f32": 1e-4, "bf16": 0.05, "w8": 0.05, "w4": 0.05}
_FEW = 4  # tokens whose whole text is computed anew, but for a small decoder in f32


def _speed(logits: Iterator[Any], count: int) -> str:
    """Say how fast tokens come, of which the first was computed before."""
    first, _ = timed(partial(next, logits))
    others, _ = timed(partial(deque, logits, 0))
    return f"{(count - 1) / others:.1f} tokens a second, the first after {first * 1e3:.1f} ms"


def _run(name: str, sizes: Sizes, count: int, prompt: int) -> Case:
    decoder = Decoder(sizes, "bf16" if name == "bf16" else "f32", _BITS[name])
    start = [5 + 37 * i % (sizes.words - 5) for i in range(prompt)]
    resident = resident_mib()
    graph, cache = decoder.graph()
    # Each length of a whole text is one more set of shapes.
    model = graph.compile(name="decoder", max_shapes=2 * count + 8)
    memory = cache.allocate(prompt + count)
    made = list(continued(model, memory, start, count))
    resident = resident_mib() - resident
    shapes = model.stats().shapes
    tokens = [int(logits.argmax()) for logits in made]
    again = count if name == "f32" and sizes.width <= 512 else min(count, _FEW)
    text = [*start, *tokens]
    expected = list(recomputed(model, memory, text, again))
    far = max(
        float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max())
        for a, b in zip(made[-again:], expected, strict=True)
    )
    largest = max(float(np.abs(a.astype(np.float64)).max()) for a in expected)
    faults = []
    if not far <= _CLOSE[name] * largest:
        faults.append(f"logits are off by {far:.2g}; they reach {largest:.2g}")
    # Two tokens whose logits are closer than rounding may change places.
    same = 0
    for i, (token, logits) in enumerate(zip(tokens[-again:], expected, strict=True)):
        wanted = int(logits.argmax())
        same += token == wanted
        if float(logits[wanted]) - float(logits[token]) > 2 * _CLOSE[name] * largest:
            faults.append(f"token {i} is {token}, and {wanted} if computed anew")

    speeds = {"with the cache": _speed(continued(model, memory, start, count), count)}
    taken, _ = timed(partial(deque, continued(model, memory, start, count), 0))
    without, _ = timed(partial(deque, recomputed(model, memory, text, again), 0))
    if not _BITS[name] and importlib.util.find_spec("torch"):
        call = of_torch(decoder, prompt + count)
        speeds["torch"] = _speed(greedy(call, start, count), count)
    # One token behind the others, beside NumPy.
    memory.length = len(text) - 1
    inputs = {**memory.arrays(1), "tokens": np.array([[tokens[-1]]])}
    given: list[Any] = [inputs[v.name].copy() for v in graph.inputs]
    (result,) = graph.outputs.values()
    compared = Expected(graph, given).compare({result.id: model(*given)})
    # The layers are alike, so each way to fuse is listed once.
    steps = model.steps(*(a.shape for a in given))
    fused = list(dict.fromkeys(s.ops for s in steps if s.implementation == "oneDNN"))
    return Case(
        name=f"{name}, {sizes.layers} layers of {sizes.width}, {sizes.heads} heads and "
        f"{sizes.key_heads} key heads, {count} tokens after {prompt}",
        expected_partitions=None,
        partitions=fused,
        comparisons={"logits of one token, all elements with NumPy in float64": compared},
        milliseconds=taken / count * 1e3,
        facts=[
            *(f"{how}: {speed}" for how, speed in speeds.items()),
            f"each computes the whole text anew: {again / without:.1f} tokens a second",
            f"beside the text computed anew: {same} of {again} tokens are the same, logits off by"
            f" up to {far:.2g} of {largest:.2g}",
            f"compiled for {shapes} sets of shapes, not for each token",
            f"memory: {resident:.0f} MiB more than before; weights as they are run take "
            f"{decoder.weight_bytes / (1 << 20):.0f}",
        ],
        faults=faults,
    )


def run(
    width: int = 256, layers: int = 4, tokens: int = 64, prompt: int = 16
) -> Iterator[Case | Skipped]:
    """Run in f32 and bf16, and with weights of 8 and 4 bits."""
    for name in _BITS:
        reason = lacks(name) if name == "bf16" else None
        if reason is not None:
            yield Skipped(name, reason)
        else:
            yield _run(name, Sizes.of(width, layers), tokens, prompt)
