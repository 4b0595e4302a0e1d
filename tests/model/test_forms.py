"""Groups in a form that is faster: right against NumPy in f64, seen, and never taken in vain."""

import pickle
from unittest import mock

import ml_dtypes
import numpy as np
import pytest
from graphs import needs

import onednn_graph_py as og
from onednn_graph_py import blocks
from onednn_graph_py.machine import current
from onednn_graph_py.model.planning import fates, forms
from onednn_graph_py.model.rewriting.forms import FORMS
from onednn_graph_py.safety.speed import (
    masked_attention,
    product_of_integers,
    product_of_some_rows,
    query_blocks,
    row_by_large_matrix,
    windows_of_pages,
)

CONVOLUTION, BLOCKS, PARTS = FORMS


@pytest.fixture
def everywhere(monkeypatch):
    """Take products with constant weights as convolutions, whatever is faster here."""
    monkeypatch.setattr(forms, "always", True)


def noise(seed, *shape):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def kinds(model, *shapes):
    return [s.ops for s in model.steps(*shapes) if s.implementation not in ("view", "constant")]


def tolerance(terms):
    """The relative error of a sum in f32, of terms up to 1, with an epilogue of a few ops."""
    return (terms + 16) * 2.0**-24 * 4


# -- products as convolutions


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(7, 48), (3, 5, 48), (1, 2, 48), (2, 1, 48)])
def test_products_by_constants_are_convolutions(everywhere, shape, transposed):
    weights, bias = noise(1, 48, 96), noise(2, 96)
    x, operand, factor = noise(3, *shape), noise(4, *shape[:-1], 96), noise(5, 96)
    b = og.GraphBuilder()
    values = [b.input(a.shape) for a in (x, operand)]
    matrix = b.constant(np.ascontiguousarray(weights.T) if transposed else weights)
    y = values[0].matmul(matrix, b.constant(bias), transpose_b=transposed)
    b.output(((y + values[1]) * b.constant(factor)).relu())
    model = b.compile()
    assert "Convolution" in kinds(model)[0]
    assert "MatMul" not in str(kinds(model))
    exact = (x.astype(np.float64) @ weights + bias + operand) * factor
    np.testing.assert_allclose(model(x, operand), np.maximum(exact, 0), atol=48 * tolerance(48))
    assert model.verify()
    alone = b.compile(slow_fusions="run")
    assert "MatMul" in kinds(alone)[0]
    again = pickle.loads(pickle.dumps(model))
    assert kinds(again) == kinds(model)
    assert np.array_equal(again(x, operand), model(x, operand))


def test_results_read_by_others_are_there_too(everywhere):
    """Within a chain of products of matrices, whose results are outputs and operands elsewhere."""
    one, two = noise(1, 40, 56), noise(2, 56, 24)
    x = noise(3, 9, 40)
    b = og.GraphBuilder()
    middle = (b.input(x.shape) @ b.constant(one)).relu()
    last = middle @ b.constant(two)
    b.output(middle=middle, sum=middle.reduce_sum(axes=(0,), keep_dims=False), last=last.tanh())
    b.output(product=last)  # which its partition reads too
    found = b.compile()(x)
    exact = np.maximum(x.astype(np.float64) @ one, 0)
    expected = {"middle": exact, "sum": exact.sum(0), "last": np.tanh(exact @ two)}
    expected["product"] = exact @ two
    for name, value in zip(expected, found, strict=True):
        limit = 40 * 56 * tolerance(56) if name in ("last", "product") else 360 * tolerance(40)
        np.testing.assert_allclose(value, expected[name], atol=limit)


@pytest.mark.parametrize("shape", [(-1, 48), (-1, -1, 48)])
def test_models_of_several_sizes_run_as_written(everywhere, shape):
    """oneDNN would pack the weights in several layouts."""
    b = og.GraphBuilder()
    b.output((b.input(shape) @ b.constant(noise(1, 48, 96))).relu())
    model = b.compile()
    for rows in (51, 1, 7):
        x = noise(rows, *((rows,) if len(shape) == 2 else (2, rows)), 48)
        exact = np.maximum(x.astype(np.float64) @ noise(1, 48, 96), 0)
        np.testing.assert_allclose(model(x), exact, atol=48 * tolerance(48))
        assert {kind for ops in kinds(model, x.shape) for kind in ops} == {"MatMul", "ReLU"}


def test_a_result_with_other_dims_is_written_where_it_belongs(everywhere):
    b = og.GraphBuilder()
    y = (b.input((9, 48)) @ b.constant(noise(1, 48, 96))).relu()
    b.output(y=y, again=y, part=y[:3])
    x = noise(2, 9, 48)
    model = b.compile()
    (constant,) = model.builder.constants
    folded = model._shared.folded.arrays
    assert folded and all(np.shares_memory(a, constant.data) for a in folded)
    exact = np.maximum(x.astype(np.float64) @ noise(1, 48, 96), 0)
    for found, expected in zip(model(x), (exact, exact, exact[:3]), strict=True):
        np.testing.assert_allclose(found, expected, atol=48 * tolerance(48))
    # The first output needs no copy; the others are a second one and a part.
    assert sum(s.names == ("copy",) for s in model.steps()) == 2
    out = [np.empty((9, 48), np.float32).repeat(2, 1) for _ in range(2)]
    model(x, out=(*out, last := np.empty((3, 96), np.float32)))
    assert np.array_equal(out[0], out[1]) and np.array_equal(out[0][:3], last)


def test_what_is_no_product_of_rows_stays(everywhere):
    weights = noise(1, 48, 96)
    b = og.GraphBuilder()
    x = b.input((2, 48, 5))
    b.output(x.matmul(b.constant(weights), transpose_a=True))  # columns
    b.output(b.input((2, 3, 5, 48)) @ b.constant(weights))  # a product for each of two dims
    b.output(b.input((48,)) @ b.constant(weights))  # no row
    model = b.compile()
    assert {"MatMul"} == {kind for ops in kinds(model) for kind in ops}
    assert model.verify()


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("rows", "count"), [((64,), 1), ((67,), 3), ((1, 71), 3)])
def test_many_rows_of_many_terms_are_sums_behind_other_products(
    everywhere, rows, count, transposed
):
    up, down = noise(1, 24, 6152), noise(2, 6152, 10)
    bias, factor = noise(3, 10), noise(4, 10)
    matrix = np.ascontiguousarray(down.T) if transposed else down
    other = noise(5, *rows, 10)
    b = og.GraphBuilder()
    values = [b.input((*rows, 24)), b.input(other.shape)]
    y = (values[0] @ b.constant(up)).relu()
    y = y.matmul(b.constant(matrix), b.constant(bias), transpose_b=transposed)
    b.output(sum=((y + values[1]) * b.constant(factor)).tanh(), y=y)
    model = b.compile()
    shown = kinds(model)
    assert "MatMul" not in str(shown)
    assert sum("Convolution" in ops for ops in shown) == 1 + count
    x = noise(6, *rows, 24)
    exact = np.maximum(x.astype(np.float64) @ up, 0) @ down + bias
    found = model(x, other)
    limit = 24 * 6152 * tolerance(6152)
    np.testing.assert_allclose(found[0], np.tanh((exact + other) * factor), atol=limit)
    np.testing.assert_allclose(found[1], exact, atol=limit)
    assert sum(s.implementation == "constant" for s in model.steps()) == 1 + count


def test_integers_of_many_rows_and_terms_stay_a_product(everywhere):
    """Sums of parts would be rounded."""
    integers = np.random.default_rng(6)
    weights = integers.integers(-6, 6, (4104, 24)).astype(np.int8)
    x = integers.integers(0, 12, (67, 4104)).astype(np.uint8)
    scales = {"qtype": "per_tensor", "scales": [0.5], "zps": [0]}
    b = og.GraphBuilder()
    rows, matrix = b.input(x.shape, "u8"), b.constant(weights, "s8")
    b.output(rows.dequantize(**scales) @ matrix.dequantize(**scales))
    model = b.compile()
    assert "Convolution" not in str(kinds(model))
    exact = x.astype(np.float64) @ weights / 4
    np.testing.assert_allclose(model(x), exact, atol=np.abs(exact).max() * tolerance(4104))


def test_a_form_that_does_not_run_is_not_taken(everywhere, monkeypatch):
    add_group = forms.add_group

    def refused(draft, nodes, *more, **options):
        if nodes[0].kind == "Convolution":
            return fates.Refused(og.UnimplementedError("a test"))
        return add_group(draft, nodes, *more, **options)

    monkeypatch.setattr(forms, "add_group", refused)
    b = og.GraphBuilder()
    b.output((b.input((6, 48)) @ b.constant(noise(1, 48, 96))).relu())
    assert kinds(b.compile()) == [("MatMul", "ReLU")]


# -- products of one row, as convolutions of one window


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(1, 192), (1, 1, 192)])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_product_of_one_row_is_a_convolution_of_one_window(everywhere, shape, transposed, dtype):
    """What reads more than a number runs by itself: oneDNN would take a reference kernel."""
    if dtype != "f32":
        needs(dtype)
    as_stored = np.float32 if dtype == "f32" else ml_dtypes.bfloat16
    of = ((192, 88), (88,), shape, (*shape[:-1], 88), (*shape[:-1], 1))
    arrays = [noise(i, *dims).astype(as_stored) for i, dims in enumerate(of)]
    weights, bias, x, row, number = (a.astype(np.float32) for a in arrays)
    b = og.GraphBuilder()
    values = [b.input(a.shape, dtype) for a in (x, row, number)]
    matrix = b.constant(np.ascontiguousarray(weights.T) if transposed else weights, dtype)
    y = values[0].matmul(matrix, b.constant(bias, dtype), transpose_b=transposed)
    b.output(y=(y * values[2]).relu(), z=(y.tanh() * values[1]).abs())
    model = b.compile()
    fused = [ops for ops in kinds(model) if "Convolution" in ops]
    assert fused and not any("Abs" in ops for ops in fused)
    assert "MatMul" not in str(kinds(model))
    assert model.verify()
    found = [np.asarray(r, np.float64) for r in model(*arrays[2:])]
    exact = x.astype(np.float64) @ weights + bias
    expected = np.maximum(exact * number, 0), np.abs(np.tanh(exact) * row)
    limit = 192 * tolerance(192) if dtype == "f32" else 4 * 2.0**-9 * np.abs(exact).max()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=limit)
    again = pickle.loads(pickle.dumps(model))
    assert kinds(again) == kinds(model)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("channels", [1, 56])
@pytest.mark.parametrize(("dtype", "zero"), [("s8", 0), ("u8", 7)])
@pytest.mark.parametrize("shape", [(1, 128), (9, 104), (1, 5, 104)])
def test_rows_of_integers_are_windows_too(everywhere, shape, dtype, zero, channels, transposed):
    """Sums are exact, so that what reads more than a number runs by itself with equal bits."""
    integers = np.random.default_rng(6)
    weights = integers.integers(-60, 60, (shape[-1], 56)).astype(np.int8)
    x = integers.integers(0, 120, shape).astype(np.uint8 if dtype == "u8" else np.int8)
    scales, factor = np.abs(noise(7, channels)) + 0.5, noise(8, 1, 1)
    by_row, by_column = noise(9, *shape[:-1], 1), noise(10, 56)
    b = og.GraphBuilder()
    rows, number = b.input(x.shape, dtype), b.input(factor.shape)
    matrix = b.constant(np.ascontiguousarray(weights.T) if transposed else weights, "s8")
    matrix = matrix.dequantize(
        scales=scales.tolist(),
        zps=[0] * channels,
        qtype="per_tensor" if channels == 1 else "per_channel",
        axis=0 if transposed else 1,
    )
    rows = rows.dequantize(scales=[0.25], zps=[zero], qtype="per_tensor")
    y = rows.matmul(matrix, transpose_b=transposed) * number
    b.output(y=y, z=(y * b.constant(by_row) + b.constant(by_column)).relu())
    model = b.compile()
    # Without VNNI sums of a convolution of s8 saturate, so the product stays.
    written = dtype == "u8" or current().has("vnni")
    assert ("Convolution" if written else "MatMul") in str(kinds(model))
    exact = (x.astype(np.float64) - zero) * 0.25 @ (weights * scales.astype(np.float64)) * factor
    limit = np.abs(exact).max() * tolerance(shape[-1])
    found = model(x, factor)
    np.testing.assert_allclose(found[0], exact, atol=limit)
    np.testing.assert_allclose(found[1], np.maximum(exact * by_row + by_column, 0), atol=limit)


def test_products_of_one_row_in_one_group_are_windows(everywhere):
    gate, up, down = noise(1, 64, 192), noise(2, 64, 192), noise(3, 192, 40)
    x = noise(4, 1, 1, 64)
    b = og.GraphBuilder()
    rows = b.input(x.shape)
    one = rows @ b.constant(gate)
    both = one * one.sigmoid() * (rows @ b.constant(up))
    b.output(last=both @ b.constant(down), both=both)
    model = b.compile()
    assert sum("Convolution" in ops for ops in kinds(model)) == 3
    product = x.astype(np.float64) @ gate
    exact = product / (1 + np.exp(-product)) * (x @ up.astype(np.float64))
    last, middle = model(x)
    np.testing.assert_allclose(middle, exact, atol=64 * 64 * tolerance(64))
    np.testing.assert_allclose(last, exact @ down, atol=192 * 64 * 64 * tolerance(192))


def test_a_row_of_known_dims_takes_its_form_in_a_model_of_several_sizes(everywhere):
    b = og.GraphBuilder()
    b.output(row=b.input((1, 64)) @ b.constant(noise(1, 64, 40)), rest=b.input((-1, 3)).relu())
    model = b.compile()
    x, rest = noise(2, 1, 64), noise(3, 7, 3)
    assert ("Convolution",) in kinds(model, x.shape, rest.shape)
    exact = x.astype(np.float64) @ noise(1, 64, 40)
    np.testing.assert_allclose(model(x, rest)[0], exact, atol=64 * tolerance(64))


def group_of(b):
    from onednn_graph_py.model.planning.options import CompileOptions
    from onednn_graph_py.model.planning.plan_draft import PlanDraft

    shapes = {v.id: v.shape for n in b.nodes for v in (*n.inputs, *n.outputs)}
    draft = PlanDraft(b, None, shapes, CompileOptions())
    return draft.group(tuple(draft.nodes))


def test_the_row_of_products_is_about_rows_and_constants():
    here = current()._replace(version=(3, 7), isa="avx2", runtime="OpenMP")

    def found(shape, make, dtype="f32"):
        b = og.GraphBuilder()
        x = b.input(shape, dtype)
        b.output(make(b, x))
        return product_of_some_rows.find(group_of(b), here) is not None

    weights = noise(1, 384, 352)
    assert found((2, 384), lambda b, x: x @ b.constant(weights))
    assert found((1, 256, 384), lambda b, x: (x @ b.constant(weights)).gelu())
    assert found((4, 64, 384), lambda b, x: x @ b.constant(weights))
    assert not found((5, 51, 384), lambda b, x: x @ b.constant(weights))
    assert not found((1, 257, 384), lambda b, x: x @ b.constant(weights))
    assert not found((1, 384), lambda b, x: x @ b.constant(weights))
    assert not found((3, 1, 384), lambda b, x: x @ b.constant(weights))
    assert not found((2, 384), lambda b, x: x @ b.input((384, 352)))
    assert not found((2, 6), lambda b, x: x @ b.constant(noise(1, 6, 9)))
    integers = {"scales": [0.5], "zps": [0], "qtype": "per_tensor"}
    assert not found((2, 384), lambda b, x: x.dequantize(**integers) @ b.constant(weights), "s8")
    assert found((1, 17, 384), lambda b, x: x @ b.constant(weights))
    here = here._replace(version=(3, 8))
    assert found((16, 384), lambda b, x: x @ b.constant(weights))
    assert not found((1, 17, 384), lambda b, x: x @ b.constant(weights))
    assert not product_of_some_rows.is_in(here._replace(isa="avx512_core"))


def test_the_row_of_rows_is_about_large_constants():
    here = current()._replace(version=(3, 7), isa="avx2", runtime="OpenMP")

    def found(shape, columns, dtype="f32", conditions=here):
        b = og.GraphBuilder()
        weights = b.constant(np.zeros((shape[-1], columns), np.float32), dtype)
        b.output(b.input(shape, dtype) @ weights)
        return row_by_large_matrix.find(group_of(b), conditions) is not None

    assert found((1, 1024), 520) and found((1, 1, 2048), 260)
    assert not found((2, 1024), 1040) and not found((1, 1024), 500)
    assert not found((1, 1030), 1040)  # has no parts
    assert not found((1, 1024), 1040, "bf16")
    assert found((1, 1024), 1040, "bf16", here._replace(isa="avx512_core_bf16", version=(3, 13)))
    assert not row_by_large_matrix.is_in(here._replace(isa="avx512_core_amx"))

    b = og.GraphBuilder()
    one = {"qtype": "per_tensor", "scales": [1.0]}
    weights = b.constant(np.zeros((1024, 520), np.int8)).dequantize(zps=[0], **one)
    b.output(b.input((1, 1024), "u8").dequantize(zps=[128], **one) @ weights)
    for isa, faster in {"avx2": True, "avx512_core": True, "avx512_core_vnni": False}.items():
        row = row_by_large_matrix.find(group_of(b), here._replace(isa=isa))
        assert (row is not None) == faster


def test_the_row_of_integers_is_about_some_rows_of_u8():
    here = current()._replace(version=(3, 7), isa="avx2", runtime="OpenMP")

    def found(shape, columns, dtype="u8", zero=0):
        b = og.GraphBuilder()
        one = {"qtype": "per_tensor", "scales": [1.0]}
        weights = b.constant(np.zeros((shape[-1], columns), np.int8))
        weights = weights.dequantize(zps=[zero], **one)
        b.output(b.input(shape, dtype).dequantize(zps=[0], **one) @ weights)
        return product_of_integers.find(group_of(b), here) is not None

    assert found((2, 96), 88) and found((1, 64, 96), 88) and found((1, 96), 88)
    assert not found((65, 96), 88) and not found((3, 5, 96), 88)  # many rows, several images
    assert not found((2, 96), 85)  # few weights
    assert not found((2, 96), 88, "s8") and not found((2, 96), 88, zero=3)
    assert product_of_integers.is_in(here._replace(version=(3, 13)))
    assert not product_of_integers.is_in(here._replace(isa="avx512_core"))


# -- convolutions in parts of channels


@pytest.mark.parametrize(("data_format", "weights_format"), [("NCX", "OIX"), ("NXC", "XIO")])
@pytest.mark.parametrize(
    ("channels", "space", "kernel", "strides", "pads", "parts"),
    [
        (512, (37,), (3,), [2], [0, 1], 2),
        (1024, (29,), (2,), [2], [1, 0], 4),
        (256, (5, 21), (2, 5), [1, 4], [1, 0], 2),
    ],
)
def test_convolutions_whose_windows_are_pages_apart_are_sums(
    everywhere, channels, space, kernel, strides, pads, parts, data_format, weights_format
):
    rank = len(space)
    x, weights = noise(1, 3, channels, *space), noise(2, 24, channels, *kernel)
    bias, factor = noise(3, 24), noise(4, 24, *[1] * rank)
    exact = convolved(x, weights, bias, strides, pads)
    other = noise(5, *exact.shape)
    last = data_format == "NXC"

    def ordered(array):
        return np.ascontiguousarray(np.moveaxis(array, 1, -1) if last else array)

    b = og.GraphBuilder()
    values = [b.input(ordered(a).shape) for a in (x, other)]
    y = b.convolution(
        values[0],
        b.constant(weights if weights_format == "OIX" else np.moveaxis(weights, (0, 1), (-1, -2))),
        b.constant(bias),
        strides=strides,
        pads_begin=[pads[0]] * rank,
        pads_end=[pads[1]] * rank,
        dilations=[1] * rank,
        data_format=data_format,
        weights_format=weights_format,
    )
    factors = b.constant(ordered(factor[None]))
    b.output(((y + values[1]) * factors).relu(), y.tanh())
    model = b.compile()
    assert sum("Convolution" in ops for ops in kinds(model)) == parts
    assert all(PARTS in s.why for s in model.steps() if "Convolution" in s.ops)
    found = model(ordered(x), ordered(other))
    limit = 4 * channels * np.prod(kernel) * tolerance(channels)
    expected = np.maximum((exact + other) * factor, 0), np.tanh(exact)
    for one, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, ordered(wanted), atol=limit)
    assert model.verify()
    again = pickle.loads(pickle.dumps(model))
    assert kinds(again) == kinds(model)
    whole = b.compile(slow_fusions="run")
    assert sum("Convolution" in ops for ops in kinds(whole)) == 1


def convolved(x, weights, bias, strides, pads):
    """Convolve in f64, window by window."""
    rank = len(strides)
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *[tuple(pads)] * rank])
    axes = tuple(range(2, 2 + rank))
    windows = np.lib.stride_tricks.sliding_window_view(padded, weights.shape[2:], axes)
    windows = windows[(slice(None), slice(None), *(slice(None, None, s) for s in strides))]
    operands = [1, *range(2 + rank, 2 + 2 * rank)]
    y = np.tensordot(windows, weights, (operands, [*range(1, 2 + rank)]))
    return np.moveaxis(y, -1, 1) + bias.reshape(-1, *[1] * rank)


def test_the_row_of_pages_is_about_long_rows_of_windows():
    here = current()._replace(version=(3, 7), isa="avx512_core", runtime="OpenMP")

    def found(channels, length, stride=2, outputs=136, kernel=3, dtype="f32", groups=1):
        b = og.GraphBuilder()
        weights = np.zeros((outputs, channels // groups, kernel), np.float32)
        x = b.input((1, channels, length), dtype)
        b.output(
            b.convolution(
                x,
                b.constant(weights, dtype),
                strides=[stride],
                pads_begin=[0],
                pads_end=[0],
                dilations=[1],
                groups=groups,
                data_format="NCX",
                weights_format="OIX",
            )
        )
        return windows_of_pages.find(group_of(b), here) is not None

    assert found(512, 99) and found(1024, 131) and found(1024, 51, stride=1, kernel=2)
    assert not found(512, 93)  # few windows
    assert not found(512, 99, kernel=1) and not found(512, 99, outputs=120)
    assert not found(480, 99) and not found(2048, 991, stride=4)  # no pages, or many
    assert not found(512, 99, dtype="bf16") and not found(512, 99, groups=2)
    assert not windows_of_pages.is_in(here._replace(isa="avx2"))
    assert not windows_of_pages.is_in(here._replace(isa="avx512_core_amx"))


# -- attention in blocks of queries


def attention(q, k, v, mask):
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    scores = scores + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v.astype(np.float64)


def causal(queries, keys, offset):
    return np.where(np.arange(queries)[:, None] + offset < np.arange(keys), -np.inf, 0.0)


def banded(queries, keys, width):
    mask = causal(queries, keys, keys - queries)
    mask[np.arange(queries)[:, None] + keys - queries - width > np.arange(keys)] = -np.inf
    return mask


def scattered(queries, keys):
    hidden = np.random.default_rng(5).uniform(size=(queries, keys)) < 0.3
    hidden[:, 0] = False
    return np.where(hidden, -np.inf, causal(queries, keys, keys - queries))


MASKS = {
    "top_left": lambda q, k: causal(q, k, 0),
    "bottom_right": lambda q, k: causal(q, k, k - q),
    "band": lambda q, k: banded(q, k, 70),
    "scattered": scattered,
}


@pytest.mark.skipif(
    not masked_attention.is_in(current()), reason="blocks are no faster here, as the row says"
)
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize(("queries", "keys"), [(391, 391), (401, 470)])
def test_attention_with_a_mask_runs_in_blocks_of_queries(name, queries, keys):
    mask = MASKS[name](queries, keys)
    q, k, v = noise(1, 2, 3, queries, 24), noise(2, 2, 3, keys, 24), noise(3, 2, 3, keys, 24)
    b = og.GraphBuilder()
    values = [b.input(a.shape) for a in (q, k, v)]
    b.output(blocks.sdpa(*values, mask=mask))
    model = b.compile()
    shown = kinds(model)
    assert shown[-1] == ("Concat",)
    assert len(shown) == 1 + queries // 64
    assert all(BLOCKS in s.why for s in model.steps() if "SoftMax" in s.ops)
    found, exact = model(q, k, v), attention(q, k, v, mask)
    np.testing.assert_allclose(found, exact, atol=64 * tolerance(24))
    whole = b.compile(slow_fusions="run")
    assert len(kinds(whole)) < len(shown)
    np.testing.assert_allclose(found, whole(q, k, v), atol=64 * tolerance(24))


@pytest.mark.parametrize(
    ("heads", "queries", "threads", "in_blocks"),
    [
        (1, 255, 1, False),
        (1, 257, 1, True),
        (1, 257, 2, False),
        (9, 257, 2, True),
        (1, 385, 2, True),
    ],
)
def test_few_scores_a_thread_stay_whole(heads, queries, threads, in_blocks):
    here = current(threads)._replace(version=(3, 7), isa="avx2", runtime="OpenMP")
    b = og.GraphBuilder()
    values = [b.input((1, heads, queries, 24)) for _ in range(3)]
    b.output(blocks.sdpa(*values, mask=causal(queries, queries, 0)))
    assert (masked_attention.find(group_of(b), here) is not None) == in_blocks


def test_queries_without_keys_are_zero_in_blocks_too():
    mask = causal(400, 400, -3)  # the first three queries see no key
    q, k, v = noise(1, 1, 2, 400, 16), noise(2, 1, 2, 400, 16), noise(3, 1, 2, 400, 16)
    b = og.GraphBuilder()
    b.output(blocks.sdpa(*(b.input(a.shape) for a in (q, k, v)), mask=mask))
    found = b.compile()(q, k, v)
    assert not found[:, :, :3].any()
    exact = attention(q, k, v, np.where(np.arange(400)[:, None] < 3, 0.0, mask))
    np.testing.assert_allclose(found[:, :, 3:], exact[:, :, 3:], atol=64 * tolerance(16))


CAUSAL, COLUMN = causal(400, 400, 0), noise(7, 400, 1)


@pytest.mark.parametrize(
    ("mask", "changed", "axis"),
    [
        (CAUSAL, lambda x: x, -2),
        (CAUSAL, np.tanh, -1),
        (CAUSAL, lambda x: np.maximum(x, 0), -1),
        (COLUMN, lambda x: x, -1),
    ],
)
def test_a_softmax_that_sees_what_a_mask_hides_stays_whole(mask, changed, axis):
    """Along the queries, of other numbers than the mask's, or where all keys share the mask's."""
    q, k, v = (noise(i, 1, 2, 400, 16) for i in range(3))
    b = og.GraphBuilder()
    values = [b.input(a.shape) for a in (q, k, v)]
    scores = values[0].matmul(values[1], transpose_b=True) + mask.astype(np.float32)
    b.output(changed(scores).softmax(axis=axis) @ values[2])
    with mock.patch.object(forms, "always", True):
        model = b.compile()
    exact = changed(q.astype(np.float64) @ k.swapaxes(-1, -2) + mask)
    weights = np.exp(exact - exact.max(axis, keepdims=True))
    weights /= weights.sum(axis, keepdims=True)
    np.testing.assert_allclose(model(q, k, v), weights @ v, atol=400 * tolerance(16))


def test_a_mask_that_hides_little_stays_whole():
    mask = np.zeros((400, 400))
    mask[:, 380:] = -np.inf  # padding
    b = og.GraphBuilder()
    b.output(blocks.sdpa(*(b.input((1, 2, 400, 16)) for _ in range(3)), mask=mask))
    assert "Concat" not in str(kinds(b.compile()))


def test_blocks_cover_all_queries_and_what_they_see():
    mask = MASKS["scattered"](403, 517)
    found = query_blocks(mask)
    assert [b[0] for b in found] + [403] == [0] + [b[1] for b in found]
    for first, end, key, last in found:
        outside = np.delete(mask[first:end], np.s_[key:last], axis=1)
        assert np.isneginf(outside).all()
    assert query_blocks(np.full((128, 9), -np.inf)) == [(0, 64, 0, 1), (64, 128, 0, 1)]
    assert query_blocks(np.zeros(7)) == []


def test_the_row_of_attention_names_its_form():
    assert masked_attention.remedy == BLOCKS and product_of_some_rows.remedy == CONVOLUTION
    if current().has("avx2") and not current().has("avx512"):
        b = og.GraphBuilder()
        b.output(b.input((6, 384)) @ b.constant(noise(1, 384, 352)))
        (step,) = (s for s in b.compile().steps() if s.implementation == "oneDNN")
        assert step.why.startswith(f"written {CONVOLUTION}: oneDNN computes this product")


def test_weights_in_a_form_are_released(everywhere):
    weights = noise(1, 160, 256)
    b = og.GraphBuilder()
    b.output((b.input((12, 160)) @ b.constant(weights)).relu())
    model = b.compile()
    x = noise(2, 12, 160)
    before = model(x)
    released = model.release_constants()
    if current().isa != "avx":  # there oneDNN reads the weights as they are
        assert released >= weights.nbytes // 4096 * 4096
    assert np.array_equal(model(x), before)


@pytest.mark.parametrize("option", [{"policy": "debug"}, {"fold_constants": False}])
def test_graphs_that_run_as_written_keep_their_form(everywhere, option):
    b = og.GraphBuilder()
    b.output(b.input((12, 160)) @ b.constant(noise(1, 160, 256)))
    assert kinds(b.compile(**option)) == [("MatMul",)]
