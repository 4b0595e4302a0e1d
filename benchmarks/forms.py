"""Time groups of ops in every form, and the default model over the fastest of them.

Each row is products of a row or several by constant weights, or causal attention. The second column
is the time as written over the time in the form: above 1, the form is faster. The last one is the
time of a model that is compiled by default, with nothing known from before, over the fastest's. A
model has as many products as take 64 MB of weights, 8 at most, so that large weights come from
memory. With one thread CPU time is measured, which other processes hardly change. The table is
Markdown, for docs/performance.md.

    ./dev bench forms --threads 1
    ONEDNN_MAX_CPU_ISA=AVX2 ./dev bench forms
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from unittest import mock

import numpy as np

import onednn_graph_py as og
from onednn_graph_py.model.planning import forms

AIM = 1.1

ROWS = (1, 4, 16, 128)
WEIGHTS = ((256, 256), (768, 768), (768, 3072), (3072, 768), (2048, 2048))
ATTENTION = ((12, 256, 64), (12, 512, 64), (8, 1024, 96), (4, 2048, 128))

Graph = Callable[[], og.GraphBuilder]


def _product(rows: int, terms: int, columns: int) -> og.GraphBuilder:
    random = np.random.default_rng(0)
    b = og.GraphBuilder()
    x = b.input((rows, terms))
    for _ in range(max(1, min(8, (64 << 20) // (4 * terms * columns)))):
        weights = random.uniform(-1, 1, (terms, columns)).astype(np.float32)
        b.output((x @ weights).relu())
    return b


def _causal(heads: int, tokens: int, size: int) -> og.GraphBuilder:
    b = og.GraphBuilder()
    q, k, v = (b.input((1, heads, tokens, size)) for _ in range(3))
    b.output(og.blocks.sdpa(q, k, v, causal=True))
    return b


def _groups() -> Iterator[tuple[str, Graph]]:
    for terms, columns in WEIGHTS:
        for rows in ROWS:
            sizes = (rows, terms, columns)
            yield f"{rows}x{terms} @ {terms}x{columns}", lambda sizes=sizes: _product(*sizes)
    for sizes in ATTENTION:
        name = "causal attention 1x{}x{}x{}".format(*sizes)
        yield name, lambda sizes=sizes: _causal(*sizes)


def _shortest(
    calls: list[Callable[[], object]], seconds: float, clock: Callable[[], float]
) -> list[float]:
    best = [float("inf")] * len(calls)
    for call in calls:
        call()  # it packs the weights
    begin, rounds = clock(), 0
    while rounds < 3 or clock() - begin < seconds:
        rounds += 1
        for i, call in enumerate(calls):
            start = clock()
            call()
            best[i] = min(best[i], clock() - start)
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, help="threads of a call (default: all)")
    parser.add_argument("--seconds", type=float, default=0.5, help="time of a comparison")
    parser.add_argument("--quick", action="store_true", help="a few groups, to see if all runs")
    options = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)
    linked, load = og.version(), os.getloadavg()[0]
    print(
        f"oneDNN {linked['major']}.{linked['minor']}.{linked['patch']}, "
        f"{og.get_effective_cpu_isa().name}, {options.threads or og.num_threads()} threads, "
        f"load {load:.1f} before\n"
    )
    print("| | as written over form | default over fastest |")
    print("| --- | --- | --- |")
    groups = list(_groups())
    if options.quick:
        groups = [groups[1], groups[-3]]
    worst: list[float] = []
    clock = time.process_time if options.threads == 1 else time.perf_counter
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ONEDNN_GRAPH_PY_CACHE"] = cache
        for name, graph in groups:
            og.tuning.clear()
            models = [graph().compile(threads=options.threads)]
            off = {"threads": options.threads, "tune": "off"}
            models.append(graph().compile(slow_fusions="run", **off))
            with mock.patch.object(forms, "always", True):
                models.append(graph().compile(**off))
            arrays = og.fill_inputs(models[0].builder)
            default, written, form = _shortest(
                [m.bind(arrays) for m in models], options.seconds, clock
            )
            worst.append(default / min(written, form))
            missed = "" if worst[-1] <= AIM else " (missed)"
            print(f"| {name} | {written / form:.2f} | {worst[-1]:.2f}{missed} |", flush=True)
    print(f"\nDefault over fastest: {max(worst):.2f} at most, {np.mean(worst):.2f} on average")


if __name__ == "__main__":
    main()
