"""Random graphs, built, compiled and run, against the reference node by node."""

import threading
import warnings

import numpy as np
import pytest
from random_graphs import allowed, evaluate, random_graph

import onednn_graph_py as og

SEEDS = 500
BATCH = 25


def compiled(b: og.GraphBuilder, layout: str) -> og.CompiledGraph:
    with warnings.catch_warnings():
        # Graphs that oneDNN would compute wrongly are split, and say so; not what is tested here.
        warnings.simplefilter("ignore", RuntimeWarning)
        return b.compile(layout=layout, fallback="reference")


def assert_near(results, exact, tolerances, what):
    for i, (made, right, tolerance) in enumerate(zip(results, exact, tolerances, strict=True)):
        assert made.shape == right.shape
        assert made.dtype == right.dtype
        off = np.abs(made.astype(np.float64) - right.astype(np.float64)).max(initial=0)
        assert off <= tolerance, f"{what}: output {i} is off by {off}, allowed are {tolerance}"


def as_list(results):
    return list(results) if isinstance(results, tuple) else [results]


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_random_graphs_equal_the_reference(first):
    in_numpy = 0
    for seed in range(first, first + BATCH):
        b, inputs = random_graph(seed)
        exact = evaluate(b, inputs)
        tolerances = allowed(b, inputs, exact, seed)
        for layout in ("auto", "plain"):
            model = compiled(b, layout)
            in_numpy += sum(s.implementation == "reference" for s in model.steps())
            assert_near(as_list(model(*inputs)), exact, tolerances, f"seed {seed}, {layout}")
    # oneDNN itself ran nearly all of it: what it has no kernel for is rare.
    assert in_numpy <= BATCH // 5


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_four_threads_at_once_compute_the_same(first):
    for seed in range(first, first + 20):
        b, _ = random_graph(seed)
        model = compiled(b, "auto")
        sets = [[a * np.array(k, a.dtype) for a in random_graph(seed)[1]] for k in (1, 2, 3, 4)]
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
    for seed in range(20):
        b, inputs = random_graph(seed)
        if any(v.dtype != "f32" for n in b.nodes for v in n.outputs):
            continue
        exact = evaluate(b, inputs)
        wrong = [e + np.float32(1e-3) * np.abs(e).max() for e in exact]
        with pytest.raises(AssertionError, match="is off by"):
            assert_near(wrong, exact, allowed(b, inputs, exact, seed), "a test")
        noticed += 1
    assert noticed >= 5
