"""Which fusions run in reference kernels: told before, and found again in oneDNN's log."""

import itertools
import math

import numpy as np
import pytest
from wrong_cases import AMX, NEW, OLD, OPENMP, attention, before

import onednn_graph_py as og
from onednn_graph_py.machine import current
from onednn_graph_py.model.planning.group import group_of
from onednn_graph_py.model.planning.work import may_be_slow
from onednn_graph_py.safety.defect import SLOW
from onednn_graph_py.safety.table import faster_form, of_effect, slow_fusion
from onednn_graph_py.tools.kernels import job_of, kernels_of


def chain(shape, *steps):
    """Each step is a function of the builder and the value, the shape of an operand, or a kind."""

    def build(b):
        y = b.input(shape)
        for step in steps:
            if isinstance(step, tuple):
                y = y * b.input(step)
            else:
                y = getattr(y, step)() if isinstance(step, str) else step(b, y)
        b.output(y)

    return build


def normalized(b, x):
    last = (x.shape[-1],)
    return b.layer_norm(x, np.ones(last, "f"), np.zeros(last, "f"), keep_stats=False)


def normalized_in_groups(data_format):
    def step(b, x):
        channels = (x.shape[1 if data_format == "NCX" else -1],)
        return b.group_norm(
            x, np.ones(channels, "f"), np.zeros(channels, "f"), keep_stats=False, groups=1,
            data_format=data_format,
        )  # fmt: skip

    return step


def softmax(b, x):
    return x.softmax(axis=-1)


def mean(b, x):
    return x.reduce_mean(axes=[-1], keep_dims=True)


def product(b, x):
    return x @ b.input((*x.shape[:-2], x.shape[-1], 24))


def matrix_product(b, x):
    return x @ b.input((x.shape[-1], 24))


def swish(b, x):
    return x * x.sigmoid()


def group(build):
    b = og.GraphBuilder()
    build(b)
    return group_of(b.nodes)


S = (4, 16, 64)
CHANNEL, ROW, ONE, SECOND, FIRST = (64,), (4, 16, 1), (1,), (1, 16, 1), (4, 1, 1)

EVERYWHERE = (OLD, NEW, OPENMP, AMX, before(AMX))
OLD_ONLY = (OLD, before(AMX))
NOWHERE = ()

CASES = {
    "(x * y) * channel": (chain(S, S, CHANNEL), OLD_ONLY),
    "x * row * channel": (chain(S, ROW, CHANNEL), OLD_ONLY),
    "x * y * first": (chain(S, S, FIRST), EVERYWHERE),
    "x * y * second": (chain(S, S, SECOND), NOWHERE),
    "x * y * one": (chain(S, S, ONE), NOWHERE),
    "x * y * row": (chain(S, S, ROW), NOWHERE),
    "relu * y": (chain(S, "relu", S), EVERYWHERE),
    "gelu * channel": (chain(S, "gelu", CHANNEL), EVERYWHERE),
    "gelu * channel, 5 dims": (chain((2, 2, 4, 4, 64), "gelu", CHANNEL), EVERYWHERE),
    "tanh * one": (chain(S, "tanh", ONE), EVERYWHERE),
    "tanh * row": (chain(S, "tanh", ROW), NOWHERE),
    "few elements": (chain((2, 4), "relu", (2, 4)), NOWHERE),
    "swish": (chain(S, swish), NOWHERE),
    "swish * y": (chain(S, swish, S), EVERYWHERE),
    "softmax * channel": (chain(S, softmax, CHANNEL), EVERYWHERE),
    "softmax * channel, 2 dims": (chain((16, 64), softmax, CHANNEL), NOWHERE),
    "softmax * y": (chain(S, softmax, S), NOWHERE),
    "layer norm * y": (chain(S, normalized, S), EVERYWHERE),
    "layer norm * channel": (chain(S, normalized, CHANNEL), NOWHERE),
    "group norm + relu": (chain(S, normalized_in_groups("NCX"), "relu"), EVERYWHERE),
    "group norm + relu, NXC": (chain(S, normalized_in_groups("NXC"), "relu"), NOWHERE),
    "group norm * y, NXC": (chain(S, normalized_in_groups("NXC"), S), EVERYWHERE),
    "mean * first": (chain((16, 64, 8), mean, (16, 1, 1)), EVERYWHERE),
    "mean * second": (chain((16, 64, 8), mean, (1, 64, 1)), NOWHERE),
    "product * row": (chain((16, 64), product, (16, 1)), EVERYWHERE),
    "product * mask": (chain((2, 3, 16, 64), product, (1, 1, 16, 24)), OLD_ONLY),
    "product * batch's mask": (chain((2, 3, 16, 64), product, (2, 1, 16, 24)), NOWHERE),
}


@pytest.mark.parametrize("name", CASES)
def test_slow_fusions_are_told(name):
    build, where = CASES[name]
    given = group(build)
    assert tuple(c for c in EVERYWHERE if slow_fusion(given, c) is not None) == where


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize(("hidden", "large"), [(1024, True), (1023, False)])
def test_products_whose_weights_are_not_packed_are_told(constant, hidden, large):
    b = og.GraphBuilder()
    x = b.input((4, 1024))
    shapes = (1024, hidden), (1024, hidden), (hidden, 1024)
    gate, up, down = (b.constant(np.ones(s, "f")) if constant else b.input(s) for s in shapes)
    b.output(((x @ gate).relu() * (x @ up)) @ down)
    given = group_of(b.nodes)
    told = tuple(c for c in EVERYWHERE if slow_fusion(given, c) is not None)
    assert told == ((NEW, OPENMP) if constant and large else NOWHERE)
    wide = (NEW._replace(isa="avx512_core_bf16"), NEW._replace(isa="avx10_1_512_amx"))
    assert [slow_fusion(given, c) is not None for c in wide] == [constant and large, False]
    alone = group_of(b.nodes[:1])
    assert slow_fusion(alone, NEW) is None


FUNCTIONS = {
    "gelu": ("gelu", True),
    "tanh": ("tanh", True),
    "softplus": ("softplus", True),
    "log": ("log", True),
    "swish": (swish, True),
    "relu": ("relu", False),
    "sigmoid": ("sigmoid", False),
    "exp": ("exp", False),
}


@pytest.mark.parametrize("shape", [(128, 256), (127, 256), (128, 255), (8, 16, 256)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_are_slower_in_products_are_told(name, shape):
    function, slower = FUNCTIONS[name]

    def wide(b, x):
        return x @ b.input((x.shape[-1], 64))

    given = group(chain(shape, wide, function))
    long = slower and math.prod(shape[:-1]) >= 128 and shape[-1] >= 256
    told = tuple(c for c in EVERYWHERE if slow_fusion(given, c) is not None)
    assert told == ((NEW, OPENMP) if long else NOWHERE)
    alone = group(chain(shape, function))
    assert slow_fusion(alone, NEW) is None


def test_functions_of_integer_products_are_not_slower():
    def quantized(b, x):
        w = b.input((256, 64), "s8").dequantize(qtype="per_tensor", scales=[1.0], zps=[0])
        x = b.input((128, 256), "u8").dequantize(qtype="per_tensor", scales=[1.0], zps=[0])
        return x @ w

    assert slow_fusion(group(chain((128, 256), quantized, "gelu")), NEW) is None


def test_a_function_that_is_slower_in_a_product_runs_by_itself():
    b = og.GraphBuilder()
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((128, 256), "f"), rng.standard_normal((256, 512), "f")
    b.output((b.input(x.shape) @ b.constant(w)).tanh())
    model = b.compile()
    slower = slow_fusion(group_of(b.nodes), current()) is not None
    assert sum(s.implementation == "oneDNN" for s in model.steps()) == 1 + slower
    np.testing.assert_allclose(model(x), np.tanh(x @ w), rtol=0, atol=1e-4)


def test_large_gated_products_run_apart():
    b = og.GraphBuilder()
    x = b.input((2, 1024))
    rng = np.random.default_rng(0)
    gate, up, down = (b.constant(rng.standard_normal((1024, 1024), "f")) for _ in range(3))
    b.output(((x @ gate).relu() * (x @ up)) @ down)
    model = b.compile()
    packed = slow_fusion(group_of(b.nodes), current()) is not None
    c = current()
    packs = c.has("avx2") and not c.has("amx")
    assert packed == (c.version >= (3, 8) and packs)
    in_form = faster_form(group_of(b.nodes), current()) is not None
    assert (len(model.steps()) > 1) == (packed or in_form)
    assert len(b.compile(slow_fusions="run").steps()) == 1
    x = rng.standard_normal((2, 1024), "f")
    expected = (np.maximum(x @ gate.data, 0) * (x @ up.data)) @ down.data
    np.testing.assert_allclose(model(x), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_attention_that_takes_one_head_after_another_is_not_slow():
    given = group(attention((1, 1, 32, 32)))
    assert slow_fusion(given, OLD) is None
    many = OLD._replace(threads=64)
    assert slow_fusion(given, many) is not None
    assert slow_fusion(given, NEW) is None


def test_nothing_is_said_where_dims_are_unknown():
    b = og.GraphBuilder()
    b.output(b.input((-1, 64)).relu() * b.input((-1, 64)))
    assert slow_fusion(group_of(b.nodes), current()) is None


def test_rows_say_how_slow():
    for row in of_effect(SLOW):
        assert "times slower" in row.what


# -- what is measured where no row knows


def pooled(b, x):
    return x.max_pool(
        kernel=(2, 2), strides=(2, 2), pads_begin=(0, 0), pads_end=(0, 0), data_format="NXC"
    )


def windowed(op):
    def step(b, x):
        weights = b.input((3, 3, x.shape[-1], 8))
        plain = {"strides": (1, 1), "pads_begin": (1, 1), "pads_end": (1, 1), "dilations": (1, 1)}
        return getattr(b, op)(
            x, weights, data_format="NXC",
            weights_format="XOI" if op == "conv_transpose" else "XIO", **plain,
        )  # fmt: skip

    return step


@pytest.mark.parametrize(
    ("build", "measured"),
    [
        (chain(S, softmax, CHANNEL), True),
        (chain((8, 1024, 1024), softmax, (1024,)), False),
        (chain(S, product, (24,)), True),
        (chain((64, 256, 256), product, (24,)), False),
        (chain((1, 8, 8, 4), pooled, (4,)), True),
        (chain((1, 8, 8, 8), windowed("convolution"), "relu"), True),
        (chain((1, 64, 64, 8), windowed("convolution"), "relu"), False),
        (chain((1, 8, 8, 8), windowed("conv_transpose"), "relu"), True),
        (chain((8, 256, 512, 8), windowed("conv_transpose"), "relu"), False),
        (attention((1, 1, 32, 32)), True),
        (attention((1, 1, 32, 32), shape=(4, 8, 32, 64)), True),
        (attention((1, 1, 128, 128), shape=(2, 4, 128, 64)), False),
        (attention((1, 1, 32, 32), shape=(32, 16, 32, 64)), False),
    ],
)
def test_what_is_cheap_to_measure_and_may_be_slow_is_measured(build, measured):
    b = og.GraphBuilder()
    build(b)
    shapes = {v.id: v.shape for n in b.nodes for v in (*n.inputs, *n.outputs)}
    assert may_be_slow(b.nodes, shapes) == measured


def test_products_of_inputs_with_strides_of_their_own_are_measured():
    b = og.GraphBuilder()
    shape = (2, 512, 256)
    build = chain(shape, product, "relu")
    build(b)
    shapes = {v.id: v.shape for n in b.nodes for v in (*n.inputs, *n.outputs)}
    plain = og.logical_tensor(0, "f32", shape, "strided")
    turned = og.logical_tensor(0, "f32", shape, (1, 2, 1024))
    single = og.logical_tensor(0, "f32", (1, 512, 256), (5, 256, 1))
    assert not may_be_slow(b.nodes, shapes, [plain, single])
    assert may_be_slow(b.nodes, shapes, [plain, turned])


# -- as oneDNN's log has it


def operands(shape):
    """Every way to broadcast to a shape."""
    return [tuple(d if m else 1 for d, m in zip(shape, mask, strict=True))
            for mask in itertools.product((0, 1), repeat=len(shape))]  # fmt: skip


def every_case():
    shapes = ((6, 32), (6, 5, 32), (1, 7, 32), (6, 3, 4, 32), (2, 3, 2, 4, 32))
    bases = {
        "relu": ("relu",), "softmax": (softmax,), "layer norm": (normalized,), "mean": (mean,),
        "product": (product,), "by a matrix": (matrix_product,),
    }  # fmt: skip
    for name, build in CASES.items():
        yield name, build[0]
    for shape in shapes:
        results = {"mean": (*shape[:-1], 1), "product": (*shape[:-1], 24)}
        results["by a matrix"] = results["product"]
        for base, steps in bases.items():
            for operand in operands(results.get(base, shape)):
                yield f"{base} {shape} * {operand}", chain(shape, *steps, operand)
        for operand in operands(shape):
            yield f"x * y {shape} * {operand}", chain(shape, shape, operand)
            yield f"x * channel {shape} * {operand}", chain(shape, shape[-1:], operand)


def test_reference_kernels_are_those_that_were_told():
    names, told, jobs = [], [], []
    for name, build in every_case():
        b = og.GraphBuilder()
        build(b)
        if math.prod(next(iter(b.outputs.values())).shape) <= 128 and name != "few elements":
            continue
        model = b.compile(known_defects="run", slow_fusions="run", layout="plain")
        if len(model.steps()) > 1:
            continue
        names.append(name)
        told.append(slow_fusion(group_of(b.nodes), current()) is not None)
        jobs.append(job_of(model, tuple(v.shape for v in model.inputs)))
    found = []
    for kernels in kernels_of(jobs, timeout=600):
        assert not kernels.unknown
        (step,) = kernels.of.values()
        found.append(
            any(
                k.implementation.startswith(("ref", "simple"))
                and any(a.startswith("attr-post-ops") for a in k.attributes)
                for k in step.kernels
            )
        )
    few = names.index("few elements")
    del names[few], told[few], found[few]
    assert len(names) > 250
    # Without AVX2 oneDNN has fewer kernels, so more cases run in the reference than are told.
    few_kernels = not current().has("avx2")
    cases = zip(names, told, found, strict=True)
    assert [n for n, t, f in cases if t != f and not (few_kernels and f)] == []
