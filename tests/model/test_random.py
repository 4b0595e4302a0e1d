"""Random graphs: what is drawn, and that models compute it right, as the reference says.

`test_torch_reference.py` holds the reference against torch on the same draws.
"""

import contextlib
import os
import time
import warnings

import numpy as np
import pytest
from graphs import LINKED, in_threads
from selftest_families import DRAWS
from uneven import uneven

import onednn_graph_py as og
from onednn_graph_py.model.checking.filling import fill_inputs
from onednn_graph_py.ops import OPS
from onednn_graph_py.tools.selftest import FAMILIES, questions, search
from onednn_graph_py.tools.selftest.draft import Draft
from onednn_graph_py.tools.selftest.ops import ROWS, drawn, source

MANY = 50_000
REFUSED, IN_NUMPY, EVEN = 0.03, 0.3, 0.45  # the largest shares
DRAWN = 200  # of each family, whose entries of lists are changed


def assert_right(name, first, count):
    """All are right in models compiled by default, and nearly all run in oneDNN."""
    chosen = {name: FAMILIES[name]}
    report = search(chosen, seconds=86400.0, seed=first, most=count, timed=False)
    (found,) = report.counts.values()
    assert report.ok, str(report)
    assert found.cases == count
    assert found.refused <= REFUSED * count
    assert found.numpy <= IN_NUMPY * count


@pytest.mark.parametrize("family", DRAWS)
def test_models_compute_random_graphs_right(family):
    assert_right(family, 0, DRAWS[family])


@pytest.mark.parametrize("family", FAMILIES)
def test_most_random_graphs_show_each_entry_of_a_list(family):
    even = 0
    for seed in range(DRAWN):
        drawn = FAMILIES[family](seed)
        even += not uneven(drawn.builder, drawn.calls[0])
    assert even <= EVEN * DRAWN


@pytest.mark.slow
@pytest.mark.parametrize("part", range(20))
@pytest.mark.parametrize("family", DRAWS)
def test_models_compute_new_random_graphs_right(family, part):
    """Of seeds that no run has had before; a failure names them."""
    first = int(os.environ.get("ONEDNN_GRAPH_PY_SEED", time.time_ns() // 10**9 * 10**4))
    assert_right(family, first + part * MANY, MANY * DRAWS[family] // sum(DRAWS.values()) // 20)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_draws_the_same_graph_and_arrays_again(family):
    for seed in (0, 1, 7):
        one, other = (FAMILIES[family](seed) for _ in range(2))
        assert one.options == other.options
        for a, b in zip(one.builder.nodes, other.builder.nodes, strict=True):
            assert (a.kind, dict(a.attrs)) == (b.kind, dict(b.attrs))
            assert [v.shape for v in a.inputs] == [v.shape for v in b.inputs]
        for given, again in zip(one.calls, other.calls, strict=True):
            for x, y in zip(given, again, strict=True):
                assert x.dtype == y.dtype and x.tobytes() == y.tobytes()
        for x, y in zip(one.builder.constants, other.builder.constants, strict=True):
            assert np.array_equal(x.data, y.data)


def test_every_op_is_drawn():
    seen = {n.kind for seed in range(800) for n in FAMILIES["ops"](seed).builder.nodes}
    assert seen >= {kind for kind in ROWS if OPS[kind].since <= LINKED}


# -- what users found that random graphs with equal entries did not show


def of_kind(b, *kinds):
    return [n for n in b.nodes if n.kind in kinds]


def differing(attribute):
    return lambda n: len(set(n.attrs.get(attribute) or ())) > 1


def zero_points_of_product(b):
    return any(
        v.producer and v.producer.kind == "Dequantize" and differing("zps")(v.producer)
        for n in of_kind(b, "MatMul")
        for v in n.inputs[:2]
    )


def scales_of_residual(b):
    return any(
        differing("scales")(v.producer)
        for n in of_kind(b, "Add")
        for v in n.inputs
        if v.producer and v.producer.kind == "Dequantize" and of_kind(b, "Quantize")
    )


def operand_behind_vector(b):
    made = {n.outputs[0].id for n in of_kind(b, "MatMul") if n.inputs[1].ndim == 1}
    others = of_kind(b, "Add", "Subtract", "Multiply", "Minimum", "Select")
    return any(v.id in made for n in others for v in n.inputs)


def keys_of_five_dims(b):
    return bool(of_kind(b, "SoftMax")) and any(
        n.inputs[1].ndim == 5 and (n.inputs[1].shape or ())[2] > 1 for n in of_kind(b, "MatMul")
    )


@pytest.mark.parametrize(
    ("family", "condition", "wrong_here"),
    [
        ("int8", zero_points_of_product, True),
        ("int8", scales_of_residual, True),
        ("chains", operand_behind_vector, LINKED < (3, 8)),
        # It may access memory out of bounds, so it never runs as oneDNN fuses it.
        ("attention", keys_of_five_dims, False),
    ],
)
def test_onednn_itself_is_found_wrong(family, condition, wrong_here):
    """Within the draws of the default time, as oneDNN fuses them."""
    draw = FAMILIES[family]
    assert any(
        condition(draw(seed).builder)
        and (
            not wrong_here or questions.tested(draw, seed, known=(), timed=False).verdict == "wrong"
        )
        for seed in range(DRAWS[family])
    )


# -- models in threads


@pytest.mark.parametrize("family", ["chains", "attention"])
def test_four_threads_at_once_compute_the_same(family):
    for seed in range(40):
        case = FAMILIES[family](seed)
        with warnings.catch_warnings(), contextlib.suppress(og.OneDNNError):
            warnings.simplefilter("ignore", RuntimeWarning)
            model = case.builder.compile(slow_fusions="run")
            alike(model, [case.calls[k % len(case.calls)] for k in range(4)])


# oneDNN up to 3.12 leaves memory for intermediate results to their primitives; 3.13 to one.
SHARED = [
    "AvgPoolBackward",
    "BatchNormTrainingBackward",
    "ConvTransposeBackwardData",
    "ConvTransposeBackwardWeights",
    "ConvolutionBackwardData",
    "ConvolutionBackwardWeights",
    "MaxPoolBackward",
]


@pytest.mark.parametrize("kind", SHARED)
def test_gradients_are_the_same_in_threads_that_did_not_compile_them(kind):
    """Where oneDNN keeps memory by the thread, another one has none, and the process ends."""
    for seed in range(8):
        d = Draft(kind, seed)
        d.opens, d.most, d.dtype = False, 2000, "f32"
        builder = d.finished(*drawn(d, kind, source(d, kind))).builder
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            model = builder.compile()
        alike(model, [fill_inputs(builder, seed=k) for k in range(4)], calls=20)


def alike(model, sets, calls=4):
    """Calls in threads give what each call gives alone."""
    alone = [results(model, inputs) for inputs in sets]

    def work(i):
        for _ in range(calls):
            assert results(model, sets[i]) == alone[i]

    in_threads(len(sets), work)


def results(model, inputs):
    made = model(*inputs)
    return [m.tobytes() for m in (made if isinstance(made, tuple) else (made,))]


def test_sizes_change_from_call_to_call_and_operands_broadcast_both_ways():
    graphs = [FAMILIES["chains"](seed) for seed in range(200)]
    assert sum(len(d.calls) > 1 for d in graphs) >= 20
    known = [d.builder for d in graphs if len(d.calls) == 1]
    grown = [n for b in known for n in of_kind(b, "Add", "Multiply", "Maximum", "Divide")]
    assert any(n.inputs[0].shape != n.outputs[0].shape != n.inputs[1].shape for n in grown)
    assert {len(d.options) for d in graphs} == {1, 2}
