"""Time functions that are written with NumPy: jitted, by NumPy itself, and by its peers.

Peers are torch.compile, which traces NumPy's functions, too, and jax.jit with jax.numpy in the
place of NumPy, where they are installed. All take turns; each figure is the median of the rounds,
and ratios are those of one run.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import onednn_graph_py as og

Function = Callable[[Any], Any]


def programs_with(numpy: Any) -> Any:
    """Return a copy of the programs, with the same weights, that call another NumPy."""
    spec = importlib.util.find_spec("_numpy_programs")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module)["np"] = numpy
    return module


def cases(size: int, numpy: Any = np) -> dict[str, tuple[Function, tuple[int, ...]]]:
    """Return functions with the shapes of their arguments, for rows of this size."""
    programs, tokens = programs_with(np), size // 2
    block, row = programs.Block(size, 2), programs.weights(size)
    programs.np = numpy
    mask = np.tril(np.ones((tokens, tokens), bool))
    return {
        "encoder block": (block, (4, tokens, size)),
        "causal block": (lambda x: block(x, mask), (4, tokens, size)),
        "mel spectrogram": (programs.mel, (8 * size, 64)),
        "gelu": (programs.gelu, (4, size, size)),
        "softmax": (programs.softmax, (4, size, size)),
        "layer norm": (lambda x: programs.layer_norm(x, row, row), (4, size, size)),
    }


def peers(size: int, wanted: list[str]) -> dict[str, dict[str, Function]]:
    """Return the functions of NumPy, and of each wanted peer that is installed."""
    found: dict[str, dict[str, Function]] = {
        "jit": {name: og.jit(f) for name, (f, _) in cases(size).items()},
        "NumPy": {name: f for name, (f, _) in cases(size).items()},
    }
    if "torch" in wanted and importlib.util.find_spec("torch") is not None:
        import torch

        torch.set_num_threads(os.cpu_count() or 1)
        found["torch.compile"] = {n: torch.compile(f) for n, (f, _) in cases(size).items()}
    if "jax" in wanted and importlib.util.find_spec("jax") is not None:
        import jax

        jitted = {n: jax.jit(f) for n, (f, _) in cases(size, jax.numpy).items()}
        found["jax.jit"] = {n: lambda x, f=f: np.asarray(f(x)) for n, f in jitted.items()}
    return found


def main() -> None:
    """Print a line for each function."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--peers", nargs="*", default=["torch", "jax"], help="default: both")
    args = parser.parse_args()
    functions = peers(args.size, args.peers)
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} CPUs; ms, and times ours")
    print(f"{'':16}" + "".join(f"{peer:>20}" for peer in functions))
    for name, (function, shape) in cases(args.size).items():
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        expected = function(x)
        seconds: dict[str, list[float]] = {}
        for peer, own in functions.items():
            np.testing.assert_allclose(own[name](x), expected, rtol=1e-3, atol=1e-4, err_msg=peer)
        for _ in range(args.rounds):
            for peer, own in functions.items():
                start = time.perf_counter()
                own[name](x)
                seconds.setdefault(peer, []).append(time.perf_counter() - start)
        median = {peer: statistics.median(times) * 1e3 for peer, times in seconds.items()}
        cells = (f"{ms:>11.2f} {ms / median['jit']:>8.1f}" for ms in median.values())
        print(f"{name:16}" + "".join(cells))


if __name__ == "__main__":
    main()
