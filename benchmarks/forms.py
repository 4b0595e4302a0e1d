"""Time groups of ops in every form, and the default model over the fastest of them.

Each row is a product by constant weights, or causal attention. The columns are the time as written
over the time in a form, as `compile(tune="full")` measures them: above 1, the form is faster. The
last column is the time of a model that is compiled by default, with nothing known from before, over
the fastest form's. The table is Markdown, for docs/performance.md.

    ./dev bench forms
    ONEDNN_MAX_CPU_ISA=AVX2 ./dev bench forms
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np

import onednn_graph_py as og
from onednn_graph_py.model.planning import forms
from onednn_graph_py.model.rewriting import FORMS

AIM = 1.1

LEAST = forms._LEAST

ROWS = (1, 4, 16, 64, 128, 512)
WEIGHTS = ((256, 256), (768, 768), (768, 3072), (3072, 768), (2048, 2048))
ATTENTION = ((12, 256, 64), (12, 512, 64), (8, 1024, 96), (4, 2048, 128))

Graph = Callable[[], og.GraphBuilder]


def _product(rows: int, terms: int, columns: int) -> og.GraphBuilder:
    weights = np.random.default_rng(0).uniform(-1, 1, (terms, columns)).astype(np.float32)
    b = og.GraphBuilder()
    b.output((b.input((rows, terms)) @ weights).relu())
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


def _shortest(calls: list[Callable[[], object]], seconds: float) -> list[float]:
    best = [float("inf")] * len(calls)
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for i, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[i] = min(best[i], time.perf_counter() - start)
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
    print(f"| | {' | '.join(FORMS)} | default over fastest |")
    print(f"| --- |{' --- |' * (len(FORMS) + 1)}")
    groups = list(_groups())
    if options.quick:
        groups = [groups[1], groups[-3]]
    worst: list[float] = []
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ONEDNN_GRAPH_PY_CACHE"] = cache
        for name, graph in groups:
            calls = []
            for tune, least in (("quick", LEAST), ("full", 0)):
                og.tuning.clear()
                forms._LEAST = least  # small groups, which no search looks at, count too
                model = graph().compile(tune=tune, threads=options.threads)
                calls.append(model.bind(og.fill_inputs(model.builder)))
                calls[-1]()
            gains = {m.way: m.written / m.other for m in og.tuning.measurements()}
            default, fastest = _shortest(calls, options.seconds)
            worst.append(default / fastest)
            cells = [f"{gains[form]:.2f}" if form in gains else "-" for form in FORMS]
            missed = "" if worst[-1] <= AIM else " (missed)"
            print(f"| {name} | {' | '.join(cells)} | {worst[-1]:.2f}{missed} |", flush=True)
    print(f"\nDefault over fastest: {max(worst):.2f} at most, {np.mean(worst):.2f} on average")


if __name__ == "__main__":
    main()
