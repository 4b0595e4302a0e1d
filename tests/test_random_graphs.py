"""Random graphs, built, compiled and run, against the reference node by node."""

import threading
import warnings

import numpy as np
import pytest

import onednn_graph_py as og
from onednn_graph_py.machine.cpu import lacks
from onednn_graph_py.selftest import graphs
from onednn_graph_py.verify import compare_values, reference_values, verify

SEEDS = 500
BATCH = 25


def compiled(b: og.GraphBuilder, layout: str) -> og.CompiledGraph:
    with warnings.catch_warnings():
        # Graphs that oneDNN would compute wrongly are split, and say so; not what is tested here.
        warnings.simplefilter("ignore", RuntimeWarning)
        return b.compile(layout=layout, warn=False)


def as_list(results):
    return list(results) if isinstance(results, tuple) else [results]


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_random_graphs_equal_the_reference(first):
    in_numpy = 0
    for seed in range(first, first + BATCH):
        b, inputs = graphs.case(seed)
        for layout in ("auto", "plain"):
            model = compiled(b, layout)
            apart = sum(s.implementation == "reference" for s in model.steps())
            if not any(lacks(v.dtype) for n in b.nodes for v in (*n.inputs, *n.outputs)):
                in_numpy += apart
            verified = verify(model, *inputs, seed=seed)
            assert verified, f"seed {seed}, {layout}: {verified}"
    # oneDNN itself ran nearly all of what this CPU has data types for: other ops without a kernel
    # are rare.
    assert in_numpy <= BATCH // 5


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_four_threads_at_once_compute_the_same(first):
    for seed in range(first, first + 20):
        b, _ = graphs.case(seed)
        model = compiled(b, "auto")
        sets = [[a * np.array(k, a.dtype) for a in graphs.case(seed)[1]] for k in (1, 2, 3, 4)]
        alone = [[r.copy() for r in as_list(model(*inputs))] for inputs in sets]
        failures: list[str] = []
        start = threading.Barrier(4)

        def work(inputs, expected, model=model, failures=failures, start=start):
            start.wait()
            for _ in range(8):
                for made, right in zip(as_list(model(*inputs)), expected, strict=True):
                    if not np.array_equal(made.view(np.uint8), right.view(np.uint8)):
                        failures.append("another result than alone")

        threads = [
            threading.Thread(target=work, args=pair) for pair in zip(sets, alone, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, f"seed {seed}: {failures[0]}"


def test_a_wrong_result_would_be_noticed():
    noticed = 0
    for seed in range(60):
        b, inputs = graphs.case(seed)
        if any(v.dtype != "f32" for n in b.nodes for v in n.outputs):
            continue
        known = reference_values(b, inputs)
        exact = {v.id: known[v.id] for v in b.outputs.values()}
        assert compare_values(b, inputs, exact)
        # Of a tensor less itself only its rounding is left, so what is made of that may be off by
        # a share of the tensor itself.
        cancelled = [
            n.inputs[0] for n in b.nodes if n.kind == "Subtract" and len(set(n.inputs)) == 1
        ]
        least = max((np.abs(known[v.id]).max() for v in cancelled), default=0)
        largest = {i: max(np.abs(e).max(), least) for i, e in exact.items()}
        wrong = {i: e + np.float32(1e-3) * largest[i] for i, e in exact.items()}
        verified = compare_values(b, inputs, wrong)
        assert all(o.wrong == o.count for o in verified.outputs)
        assert "elements are wrong; the worst" in str(verified)
        noticed += 1
    # Where a CPU computes in f16 too, most graphs are not of f32 alone.
    assert noticed >= 10
