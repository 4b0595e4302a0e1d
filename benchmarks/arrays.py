"""Time functions that are written with NumPy, jitted and by NumPy itself.

Both take turns; each figure is the median of the rounds, and ratios are those of one run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from _numpy_programs import Block, gelu, layer_norm, mel, softmax, weights

import onednn_graph_py as og

Case = tuple[Callable[[Any], Any], tuple[int, ...]]


def cases(size: int) -> dict[str, Case]:
    """Return functions with the shapes of their arguments, for rows of this size."""
    block, row, tokens = Block(size, 2), weights(size), size // 2
    mask = np.tril(np.ones((tokens, tokens), bool))
    return {
        "encoder block": (block, (4, tokens, size)),
        "causal block": (lambda x: block(x, mask), (4, tokens, size)),
        "mel spectrogram": (mel, (8 * size, 64)),
        "gelu": (gelu, (4, size, size)),
        "softmax": (softmax, (4, size, size)),
        "layer norm": (lambda x: layer_norm(x, row, row), (4, size, size)),
    }


def main() -> None:
    """Print a line for each function."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs")
    print(f"{'':16}{'jit ms':>10}{'NumPy ms':>10}{'times':>8}")
    for name, (function, shape) in cases(args.size).items():
        x = weights(*shape)
        runs = (og.jit(function), function)
        seconds: tuple[list[float], list[float]] = ([], [])
        np.testing.assert_allclose(runs[0](x), runs[1](x), rtol=1e-3, atol=1e-4)
        for _ in range(args.rounds):
            for run, times in zip(runs, seconds, strict=True):
                start = time.perf_counter()
                run(x)
                times.append(time.perf_counter() - start)
        ours, numpy = (statistics.median(times) * 1e3 for times in seconds)
        print(f"{name:16}{ours:10.2f}{numpy:10.2f}{numpy / ours:8.1f}")


if __name__ == "__main__":
    main()
