"""Time chains of ops as a model runs them, as oneDNN fuses them, and with each op apart.

Every figure is the shortest of several rounds in which the three take turns. A model is to take at
most 1.2 times as long as its ops apart. Compiling takes turns too: with and without measuring.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np

import onednn_graph_py as og

AIM = 1.2

Chain = Callable[[og.GraphBuilder], og.Value]

TOKENS, WIDTH = (4, 64), 512


def _tokens(b: og.GraphBuilder) -> og.Value:
    return b.input((*TOKENS, WIDTH))


def _row(b: og.GraphBuilder) -> og.Value:
    return b.input((WIDTH,))


def _sum_and_scale(b: og.GraphBuilder) -> og.Value:
    return (_tokens(b) + _tokens(b)) * _row(b)


def _gelu(b: og.GraphBuilder) -> og.Value:
    return _tokens(b).gelu() * _row(b) + _row(b)


def _softmax(b: og.GraphBuilder) -> og.Value:
    return _tokens(b).softmax(axis=-1) * _row(b) + _row(b)


def _rms_norm(b: og.GraphBuilder) -> og.Value:
    x = _tokens(b)
    mean = x.square().reduce_mean(axes=(-1,), keep_dims=True)
    return x / (mean + 1e-5).sqrt() * _row(b)


def _layer_norm(b: og.GraphBuilder) -> og.Value:
    return _tokens(b).layer_norm(keep_stats=False, use_affine=False) * _row(b) + _row(b)


def _rank_five(b: og.GraphBuilder) -> og.Value:
    return b.input((2, 4, 8, 16, 64)).tanh() + b.input((64,))


def _scores_and_mask(b: og.GraphBuilder) -> og.Value:
    q, k = b.input((2, 12, 128, 64)), b.input((2, 12, 128, 64))
    return q.matmul(k, transpose_b=True) + b.input((1, 1, 128, 128))


def _small_weights(b: og.GraphBuilder) -> og.Value:
    whole = np.random.default_rng(0).integers(-8, 8, (1024, 1024))
    scales = b.constant(np.full((8, 1024), 0.05, np.float32))
    weights = b.constant(whole, "s4").dynamic_dequantize(
        scales, qtype="per_group", axis=0, group_shape=(128, 1)
    )
    return b.input((1, 1024)) @ weights


CHAINS: dict[str, Chain] = {
    "(x + y) * w": _sum_and_scale,
    "gelu(x) * w + b": _gelu,
    "softmax(x) * w + b": _softmax,
    "RMSNorm, written out": _rms_norm,
    "LayerNorm, scale and shift behind it": _layer_norm,
    "tanh(x) + b, rank 5": _rank_five,
    "scores + mask (1, 1, S, S)": _scores_and_mask,
    "4-bit weights, 1 row": _small_weights,
}


def _shortest(calls: list[Callable[[], object]], rounds: int, seconds: float) -> list[float]:
    best = [float("inf")] * len(calls)
    begin = time.perf_counter()
    for number in range(rounds):
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - start)
        if number and time.perf_counter() - begin > seconds:
            break
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rounds", type=int, default=200, help="number of rounds (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=2.0,
        help="time limit per chain, in seconds (default: %(default)g)",
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)
    linked = og.version()
    print(
        f"oneDNN {linked['major']}.{linked['minor']}.{linked['patch']}, "
        f"{og.get_effective_cpu_isa().name}, {og.num_threads()} threads; microseconds a call"
    )
    print(f"{'chain':38}{'model':>10}{'fused':>12}{'apart':>10}{'model/apart':>13}{'compile':>9}")
    for name, chain in CHAINS.items():
        calls, compiling = [], []
        for settings in ({}, {"slow_fusions": "run"}, {"policy": "debug", "slow_fusions": "run"}):
            b = og.GraphBuilder()
            b.output(chain(b))
            begin = time.perf_counter()
            model = b.compile(**settings)  # type: ignore[arg-type]
            compiling.append(time.perf_counter() - begin)
            inputs = og.fill_inputs(b)
            calls.append(model.bind(inputs))
            calls[-1]()
        taken, fused, apart = _shortest(calls, options.rounds, options.seconds)
        ratio = taken / apart
        told = "" if ratio <= AIM else "  missed"
        print(
            f"{name:38}{taken * 1e6:10.0f}{fused * 1e6:12.0f}{apart * 1e6:10.0f}{ratio:13.2f}"
            f"{compiling[0] * 1e3:7.0f}ms{told}"
        )


if __name__ == "__main__":
    main()
