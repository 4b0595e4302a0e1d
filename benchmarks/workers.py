"""Measure how throughput grows with processes that each run a model.

Every worker has the same model and a batch of its own, and calls it again and again, so that
nothing but the cores, their caches and the memory are shared. Counts of workers take turns; the
best round of each counts, because other programs only make it slower. Latency is that of a call in
the best round.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pickle
import statistics
import time
from pathlib import Path

import numpy as np

import onednn_graph_py as og
from onednn_graph_py.tools.parallel import Predictor


def model(width: int, layers: int, rows: int, dtype: str) -> og.CompiledGraph:
    """Make some products with ReLU."""
    random = np.random.default_rng(0)
    b = og.GraphBuilder(fpmath_mode="strict" if dtype == "f32" else dtype)
    x = b.input((rows, width), "f32", name="x")
    for _ in range(layers):
        x = (x @ random.uniform(-1, 1, (width, width)).astype(np.float32)).relu() * (1 / width)
    b.output(y=x)
    return b.compile(threads=1, slow_fusions="run")


def work(packed: bytes, threads: int, pipe) -> None:
    """Answer each number of seconds with the seconds of the calls made in them."""
    predictor = Predictor(pickle.loads(packed), threads)
    x = np.ones(predictor.model.inputs[0].shape, np.float32)
    predictor([x])
    pipe.send(None)
    while seconds := pipe.recv():
        begin = now = time.monotonic()
        taken = []
        while now < begin + seconds:
            predictor([x])
            before, now = now, time.monotonic()
            taken.append(now - before)
        pipe.send((taken, now - begin))


class Workers:
    """Processes that wait for a round."""

    def __init__(self, packed: bytes, count: int, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.processes, self.pipes = [], []
        for _ in range(count):
            here, there = context.Pipe()
            process = context.Process(target=work, args=(packed, threads, there), daemon=True)
            process.start()
            self.processes.append(process)
            self.pipes.append(here)
        for pipe in self.pipes:
            pipe.recv()

    def round(self, seconds: float) -> tuple[float, list[float]]:
        """Return the calls in a second of all, and the seconds of each call."""
        for pipe in self.pipes:
            pipe.send(seconds)
        answers = [pipe.recv() for pipe in self.pipes]
        return sum(len(t) / whole for t, whole in answers), [s for t, _ in answers for s in t]

    def end(self) -> None:
        """End the processes."""
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            pipe.send(0)
            process.join(10)
            process.kill()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    cpus = len(os.sched_getaffinity(0))
    add("--workers", type=int, nargs="+", default=sorted({1, max(1, cpus // 2), cpus}))
    add("--threads", type=int, default=1, help="of each worker (default: %(default)s)")
    add("--width", type=int, default=1024, help="of the weights (default: %(default)s)")
    add("--layers", type=int, default=4, help="number of products (default: %(default)s)")
    add("--rows", type=int, default=64, help="of a batch (default: %(default)s)")
    add("--dtype", choices=("f32", "bf16"), default="f32", help="(default: %(default)s)")
    add("--rounds", type=int, default=5, help="(default: %(default)s)")
    add("--seconds", type=float, default=1.0, help="of a round (default: %(default)s)")
    add("--json", type=Path, help="write the results to this file, too")
    options = parser.parse_args()
    made = model(options.width, options.layers, options.rows, options.dtype)
    packed = pickle.dumps(made)
    best: dict[int, tuple[float, list[float]]] = {}
    for _ in range(options.rounds):
        for count in options.workers:
            workers = Workers(packed, count, options.threads)
            try:
                best[count] = max(best.get(count, (0.0, [])), workers.round(options.seconds))
            finally:
                workers.end()
    size = made.stats().memory_bytes / 1e6
    print(
        f"{options.layers} products with {options.width} x {options.width} weights, {size:.0f} MB"
    )
    print(f"workers  threads  batches/s  over {options.workers[0]}  median ms  95 % ms")
    records = []
    for count, (rate, taken) in best.items():
        over = rate / best[options.workers[0]][0]
        quantiles = statistics.quantiles(taken, n=20) if len(taken) > 1 else taken * 19
        median, high = quantiles[9] * 1e3, quantiles[18] * 1e3
        print(
            f"{count:7}  {options.threads:7}  {rate:9.1f}  {over:6.2f}  {median:9.2f}  {high:7.2f}"
        )
        records.append({"workers": count, "rate": rate, "over first": over})
    if options.json:
        options.json.write_text(json.dumps(records, indent=1))


if __name__ == "__main__":
    main()
