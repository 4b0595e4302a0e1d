"""Ops that are written as the one op that they are, before oneDNN sees them."""

import math

import numpy as np
import pytest
from graphs import lacks

import onednn_graph_py as og
from onednn_graph_py import reference
from onednn_graph_py.model.building.value import Node, Value, new_id
from onednn_graph_py.model.planning.grouping import needed
from onednn_graph_py.model.rewriting import PASSES, RECIPES, rewriter, rewritten
from onednn_graph_py.ops import inference
from onednn_graph_py.tools.explaining import probe
from onednn_graph_py.tools.explaining.reasons import reasons

RNG = np.random.default_rng(7)


def noise(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


SQUARES = {"Multiply": lambda d: d * d, "Square": lambda d: d.square(), "Pow": lambda d: d**2}
QUOTIENTS = {
    "Divide": lambda d, v: d / v.sqrt(),
    "Reciprocal": lambda d, v: v.sqrt().reciprocal() * d,
    "Pow -0.5": lambda d, v: d * v**-0.5,
    "Pow -1": lambda d, v: d * v.sqrt() ** -1,
    "one over it": lambda d, v: d * (1.0 / v.sqrt()),
}


def kinds(model):
    return [kind for step in model.steps() for kind in step.ops]


def normalized(x, square="Multiply", quotient="Divide", epsilon=3e-4):
    """Write a normalization over the last dim in parts."""
    d = x - x.reduce_mean(axes=[-1], keep_dims=True)
    variance = SQUARES[square](d).reduce_mean(axes=[x.ndim - 1], keep_dims=True)
    return QUOTIENTS[quotient](d, epsilon + variance)


def in_f64(x, gamma=1.0, beta=0.0, epsilon=3e-4):
    d = x - x.mean(-1, keepdims=True, dtype=np.float64)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + epsilon) * gamma + beta


@pytest.mark.parametrize("affine", ["none", "behind", "before"])
@pytest.mark.parametrize("quotient", QUOTIENTS)
@pytest.mark.parametrize("square", SQUARES)
def test_a_normalization_in_parts_is_a_layer_norm(square, quotient, affine):
    shape = (3, 5, 17)
    x, gamma, beta = noise(*shape), noise(17), noise(17)
    b = og.GraphBuilder()
    v = b.input(shape)
    if affine == "before":
        d = v - v.reduce_mean(axes=[-1], keep_dims=True)
        variance = SQUARES[square](d).reduce_mean(axes=[-1], keep_dims=True)
        y = beta + QUOTIENTS[quotient](d * gamma, variance + 3e-4)
    else:
        y = normalized(v, square, quotient)
        y = y if affine == "none" else gamma * y + beta
    b.output(y)
    model = b.compile()
    assert kinds(model) == ["LayerNorm"]
    wanted = in_f64(x) if affine == "none" else in_f64(x, gamma, beta)
    np.testing.assert_allclose(model(x), wanted, rtol=2e-5, atol=2e-6)
    assert model.verify()


def test_a_layer_norm_in_parts_of_any_size_is_one():
    b = og.GraphBuilder()
    gamma, beta = noise(6), noise(6)
    b.output(normalized(b.input((-1, -1, 6))) * gamma + beta)
    model = b.compile()
    for shape in ((2, 3, 6), (5, 1, 6)):
        x = noise(*shape)
        np.testing.assert_allclose(model(x), in_f64(x, gamma, beta), rtol=2e-5, atol=2e-6)
        assert [s.ops for s in model.steps(shape)] == [("LayerNorm",)]


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_a_layer_norm_in_parts_of_16_bits_is_one(dtype):
    if lacks(dtype) is not None:
        pytest.skip(lacks(dtype))
    b = og.GraphBuilder()
    b.output(normalized(b.input((3, 24), dtype)))
    model = b.compile()
    assert kinds(model) == ["LayerNorm"]
    assert model.verify()


def other_axis(b, x):
    d = x - x.reduce_mean(axes=[1], keep_dims=True)
    return d / ((d * d).reduce_mean(axes=[-1], keep_dims=True) + 1e-3).sqrt()


def of_another(b, x):
    d = x - x.reduce_mean(axes=[-1], keep_dims=True)
    return d / ((x * x).reduce_mean(axes=[-1], keep_dims=True) + 1e-3).sqrt()


def below_zero(b, x):
    d = x - x.reduce_mean(axes=[-1], keep_dims=True)
    return d / ((d * d).reduce_mean(axes=[-1], keep_dims=True) + -1e-6).sqrt()


def shifted_by_a_tensor(b, x):
    d = x - x.reduce_mean(axes=[-1], keep_dims=True)
    shift = np.abs(noise(4, 1)) + 0.1
    return d / ((d * d).reduce_mean(axes=[-1], keep_dims=True) + shift).sqrt()


def softmax_of_another_axis(b, x):
    e = (x - x.reduce_max(axes=[1], keep_dims=True)).exp()
    return e / e.reduce_sum(axes=[2], keep_dims=True)


def softmax_below_another(b, x):
    e = (x - x.relu().reduce_max(axes=[2], keep_dims=True)).exp()
    return e / e.reduce_sum(axes=[2], keep_dims=True)


def softmax_of_more_dims(b, x):
    most = (x * np.full((1, 1, 1, 1), 0.5, np.float32)).reduce_max(axes=[2], keep_dims=True) * 2.0
    e = (x - most).exp()
    return e / e.reduce_sum(axes=[2], keep_dims=True)


def normalized_to_more_dims(b, x):
    return normalized(x, epsilon=np.full((1, 1, 1, 1), 0.5, np.float32))


def sum_of_more_dims(b, x):
    total = x.reduce_sum(axes=[1], keep_dims=False)
    return (total * np.full((1, 1, 1), 3, np.float32))[:, None]


@pytest.mark.parametrize(
    "write",
    [
        other_axis,
        of_another,
        below_zero,
        shifted_by_a_tensor,
        softmax_of_another_axis,
        softmax_below_another,
        softmax_of_more_dims,
        normalized_to_more_dims,
        sum_of_more_dims,
    ],
)
def test_what_is_something_else_stays(write):
    b = og.GraphBuilder()
    b.output(write(b, b.input((3, 4, 7))))
    model = b.compile(warn=False)
    assert not {"LayerNorm", "SoftMax"} & set(kinds(model))
    assert model.verify()


@pytest.mark.parametrize("behind", [(1, 4, 7), (4, 7), (1,), (3, 4, 7)])
def test_a_factor_that_is_no_row_stays_behind_a_layer_norm(behind):
    b = og.GraphBuilder()
    b.output(normalized(b.input((3, 4, 7))) * noise(*behind) + noise(7))
    model = b.compile()
    assert kinds(model) == ["LayerNorm", "Multiply", "Add"]
    assert model.verify()


def test_a_part_that_is_read_elsewhere_stays():
    x, gamma, beta = noise(4, 7), noise(7), noise(7)
    b = og.GraphBuilder()
    normal = normalized(b.input((4, 7)))
    b.output(normal=normal, scaled=normal * gamma + beta)
    model = b.compile()
    assert sorted(kinds(model)) == ["Add", "LayerNorm", "Multiply"]
    normal, scaled = model(x)
    np.testing.assert_allclose(normal, in_f64(x), rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(scaled, in_f64(x, gamma, beta), rtol=2e-5, atol=2e-6)


def test_statistics_that_are_read_elsewhere_are_there():
    x = noise(4, 7)
    b = og.GraphBuilder()
    v = b.input((4, 7))
    mean = v.reduce_mean(axes=[-1], keep_dims=True)
    d = v - mean
    y = d / ((d * d).reduce_mean(axes=[-1], keep_dims=True) + 1e-5).sqrt()
    b.output(mean=mean, y=y)
    mean, y = b.compile()(x)
    np.testing.assert_allclose(mean, x.mean(-1, keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(y, in_f64(x, epsilon=1e-5), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_a_softmax_in_parts_is_one(axis):
    x = 30 * noise(3, 5, 7)
    b = og.GraphBuilder()
    v = b.input(x.shape)
    powers = (v - v.reduce_max(axes=[axis], keep_dims=True)).exp()
    b.output(powers / powers.reduce_sum(axes=[axis], keep_dims=True))
    model = b.compile()
    assert kinds(model) == ["SoftMax"]
    wanted = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    wanted /= wanted.sum(axis, keepdims=True)
    np.testing.assert_allclose(model(x), wanted, rtol=1e-4, atol=1e-6)


def softmax_of_numpy(x):
    e = np.exp(x - x.max(axis=1)[:, None])
    return e / e.sum(1)[:, np.newaxis]


def layer_norm_of_numpy(x):
    return (x - x.mean(-1)[..., None]) / np.sqrt(np.expand_dims(x.var(axis=-1), -1) + 1e-5)


def norm_of_numpy(x):
    return x / (np.linalg.norm(x, axis=1)[:, None, :] + 1)


def norm_of_another_result(x):
    fraction, whole = np.modf(x)
    d = fraction - whole.mean(-1, keepdims=True)
    return d / np.sqrt((d * d).mean(-1, keepdims=True) + np.float32(0.125))


def test_two_results_of_one_op_are_not_equal():
    x = 3 * noise(5, 11)
    made = og.jit(norm_of_another_result)(x)
    np.testing.assert_allclose(made, norm_of_another_result(x), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("write", "shape", "kind"),
    [
        (softmax_of_numpy, (5, 11), "SoftMax"),
        (layer_norm_of_numpy, (3, 5, 11), "LayerNorm"),
        (norm_of_numpy, (3, 5, 11), "ReduceSum"),
    ],
)
def test_a_reduction_keeps_dims_that_a_view_adds(write, shape, kind):
    x = 3 * noise(*shape)
    jitted = og.jit(write)
    assert kind in kinds(jitted.model(x))
    assert not [s for s in jitted.model(x).steps() if s.ops == ("Slice",)]
    np.testing.assert_allclose(jitted(x), write(x.astype("f8")), rtol=2e-5, atol=2e-6)


def test_a_view_behind_a_reduction_stays_where_it_adds_other_dims():
    x = 3 * noise(7, 7)
    for write in (
        lambda x: x / x.sum(1)[None],
        lambda x: x / (x.sum(1) + x[0])[:, None],
        lambda x: (x / x.sum(1)[:3, None][:1], x.sum(1)[:, None]),
        lambda x: [(s := x.max(1)), x - s[:, None]],
    ):
        for made, wanted in zip(og.jit(write)(x), write(x.astype("f8")), strict=True):
            np.testing.assert_allclose(made, wanted, rtol=2e-4, atol=2e-5)


def test_the_policy_debug_leaves_ops_as_they_are():
    b = og.GraphBuilder()
    b.output(normalized(b.input((4, 7))))
    assert "LayerNorm" not in kinds(b.compile(policy="debug"))


def test_nothing_is_said_against_parts_of_a_whole():
    b = og.GraphBuilder()
    x = b.input((4, 7))
    powers = (x - x.reduce_max(axes=[1], keep_dims=True)).exp()
    b.output(powers / powers.reduce_sum(axes=[1], keep_dims=True))
    (group,) = probe.grouped(b)
    assert sorted(n.kind for n in group.nodes) == sorted(n.kind for n in b.nodes)
    assert not reasons(b)


# -- rows, zeros and Dequantizes at products


def sums(b, x, w, row, form):
    """A product, and a row behind it, in one of several forms."""
    if form == "swapped":
        return row + x @ w
    if form == "behind a reshape":
        y = (x @ w).static_reshape(shape=(-1, 5, row.shape[-1]), special_zero=False)
        return y + row
    return x @ w + row


@pytest.mark.parametrize("form", ["behind", "swapped", "behind a reshape"])
@pytest.mark.parametrize("is_constant", [False, True])
def test_a_row_behind_a_product_is_its_bias(form, is_constant):
    x, w, row = noise(3, 5, 12), noise(12, 7), noise(7)
    b = og.GraphBuilder()
    v = b.input(x.shape if form != "behind a reshape" else (15, 12))
    added = b.constant(row) if is_constant else b.input((7,))
    b.output(sums(b, v, b.constant(w), added, form).relu())
    model = b.compile()
    assert "Add" not in kinds(model)
    given = [x.reshape(v.shape)] + ([] if is_constant else [row])
    wanted = np.maximum(x.astype(np.float64) @ w + row, 0)
    np.testing.assert_allclose(model(*given), wanted, rtol=1e-5, atol=1e-5)
    assert model.verify(*given)


@pytest.mark.parametrize("shape", [(1, 1, 7), (1, 7), (1,), (5, 7), (3, 1, 7), (3, 5, 1)])
def test_what_is_added_to_a_product_is_its_bias_only_if_it_is_a_row(shape):
    x, w, added = noise(3, 5, 12), noise(12, 7), noise(*shape)
    b = og.GraphBuilder()
    b.output(b.input(x.shape) @ w + added)
    model = b.compile(warn=False)
    assert ("Add" in kinds(model)) == (shape not in ((1, 1, 7), (1, 7), (1,)))
    np.testing.assert_allclose(model(x), x.astype(np.float64) @ w + added, rtol=1e-5, atol=1e-5)


def test_a_product_that_is_read_elsewhere_keeps_its_sum_apart():
    x, w, row = noise(4, 12), noise(12, 7), noise(7)
    for both in (lambda y: (y, y + row), lambda y: (y + row, (y * 2.0).relu())):
        b = og.GraphBuilder()
        b.output(*both(b.input(x.shape) @ w))
        model = b.compile(warn=False)
        assert "Add" in kinds(model)
        assert model.verify(x)


def test_a_mask_of_scores_is_no_bias():
    """A row that is added to scores stays apart, or oneDNN would not fuse attention."""
    b = og.GraphBuilder()
    q, k, v = (b.input((2, 3, 8, 16)) for _ in range(3))
    scores = b.matmul(q, k, transpose_b=True) + noise(8)
    b.output(b.softmax(scores, axis=-1) @ v)
    model = b.compile(warn=False)
    assert "Add" in kinds(model)
    assert model.verify()


@pytest.mark.parametrize("rows", [(6, 4), (9, 2)])
def test_a_row_behind_a_product_of_any_size_is_its_bias(rows):
    w, row = noise(12, 7), noise(7)
    b = og.GraphBuilder()
    y = b.input((-1, 12)) @ w
    b.output(y.static_reshape(shape=(-1, 2, 7), special_zero=False) + row)
    model = b.compile()
    x = noise(rows[0] * rows[1], 12)
    wanted = (x.astype(np.float64) @ w + row).reshape(-1, 2, 7)
    np.testing.assert_allclose(model(x), wanted, rtol=1e-5, atol=1e-5)
    assert "Add" not in [kind for s in model.steps(x.shape) for kind in s.ops]


def test_a_reshape_that_splits_rows_keeps_the_sum_behind_it():
    x, w, row = noise(4, 12), noise(12, 6), noise(3)
    b = og.GraphBuilder()
    y = (b.input(x.shape) @ w).static_reshape(shape=(4, 2, 3), special_zero=False)
    b.output(y + row)
    model = b.compile(warn=False)
    assert "Add" in kinds(model)
    wanted = (x.astype(np.float64) @ w).reshape(4, 2, 3) + row
    np.testing.assert_allclose(model(x), wanted, rtol=1e-5, atol=1e-5)


WINDOWS = {"strides": (2, 1), "dilations": (1, 2)}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", ["convolution", "conv_transpose"])
def test_channels_behind_a_convolution_are_its_bias(kind, last):
    x = noise(2, 9, 11, 3) if last else noise(2, 3, 9, 11)
    into = kind == "convolution"
    w = noise(5, 3, 3, 2) if into else noise(3, 5, 3, 2)
    row = noise(5) if last else noise(1, 5, 1, 1)
    b = og.GraphBuilder()
    y = getattr(b.input(x.shape), kind)(
        w, **WINDOWS, pads_begin=(1, 0), pads_end=(0, 2),
        data_format="NXC" if last else "NCX", weights_format="OIX" if into else "IOX",
    )  # fmt: skip
    b.output((y + row).relu())
    model = b.compile(warn=False)
    assert "Add" not in kinds(model)
    assert ("BiasAdd" in kinds(model)) == (not into)
    assert model.verify(x)


@pytest.mark.parametrize("last", [False, True])
def test_zeros_joined_before_a_convolution_are_its_padding(last):
    x = noise(2, 5, 7, 3) if last else noise(2, 3, 5, 7)
    first = 1 if last else 2
    b = og.GraphBuilder()
    y = b.input(x.shape)
    for axis, before, behind in ((first, 1, 2), (first + 1, 0, 3)):

        def zeros(count, like=y, axis=axis):
            return np.zeros([count if i == axis else d for i, d in enumerate(like.shape)], "f4")

        parts = [b.constant(zeros(before))] if before else []
        y = b.concat(*parts, y, b.constant(zeros(behind)), axis=axis)
    form = {"data_format": "NXC" if last else "NCX", "weights_format": "OIX"}
    y = y.convolution(noise(4, 3, 2, 3), strides=(1, 2), pads_begin=(1, 1), pads_end=(0, 1),
                      dilations=(2, 1), **form)  # fmt: skip
    b.output(y)
    model = b.compile(warn=False)
    assert kinds(model) == ["Convolution"]
    assert model.verify(x)


def joined_with_ones(b, x):
    return b.concat(b.constant(np.ones((2, 3, 1, 7), "f4")), x, axis=2), ()


def joined_channels(b, x):
    return b.concat(x, b.constant(np.zeros((2, 1, 5, 7), "f4")), axis=1), ()


def joined_and_read(b, x):
    joined = b.concat(b.constant(np.zeros((2, 3, 1, 7), "f4")), x, axis=2)
    return joined, (joined,)


@pytest.mark.parametrize("write", [joined_with_ones, joined_channels, joined_and_read])
def test_what_is_no_padding_stays(write):
    b = og.GraphBuilder()
    x, read = write(b, b.input((2, 3, 5, 7)))
    none = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "dilations": (1, 1)}
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    y = x.convolution(noise(4, x.shape[1], 2, 2), **none, **formats)
    b.output(y, *read)
    model = b.compile(warn=False)
    assert "Concat" in kinds(model)
    assert model.verify()


# -- what newer versions of oneDNN have


def newest(monkeypatch):
    monkeypatch.setattr(rewriter, "linked_version", lambda: (3, 13))


def written(b):
    """The ops of a graph as rules write them, without those that nothing reads."""
    return needed(b, rewritten(PASSES[0], b, b.nodes))


def evaluated(b, nodes, *arrays):
    """Compute the outputs of nodes in NumPy."""
    values = dict(zip((v.id for v in b.inputs), arrays, strict=True))
    for node in nodes:
        given = [values.get(v.id, v.data) for v in node.inputs]
        results = reference.run(node.kind, given, node.attrs,
                                outputs=[(None, v.dtype) for v in node.outputs])  # fmt: skip
        values.update(zip((v.id for v in node.outputs), results, strict=True))
    return [values[v.id] for v in b.outputs.values()]


def in_halves(x, inner):
    return (x * 0.5) * (inner.tanh() + 1.0)


def by_two(x, inner):
    return x * (1.0 + inner.tanh()) / 2.0


def half_last(x, inner):
    return 0.5 * (x * (1.0 + inner.tanh()))


CUBES = {
    "pow": lambda x: x + 0.044715 * x**3,
    "products": lambda x: x * x * x * 0.044715 + x,
    "square": lambda x: x + x * (x.square() * 0.044715),
    "factored": lambda x: x * (1.0 + x * 0.044715 * x),
}


@pytest.mark.parametrize("whole", [in_halves, by_two, half_last])
@pytest.mark.parametrize("cube", CUBES)
def test_a_gelu_in_parts_is_one(monkeypatch, whole, cube):
    newest(monkeypatch)
    x = 3 * noise(3, 5, 7)
    b = og.GraphBuilder()
    v = b.input(x.shape)
    y = v * 1.5  # a product of its own
    b.output(whole(y, 0.7978845608 * CUBES[cube](y)))
    nodes = written(b)
    assert [n.kind for n in nodes] == ["Multiply", "GELU"]
    wide = 1.5 * x.astype(np.float64)
    wanted = 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    monkeypatch.setattr(inference, "linked_version", lambda: (3, 13))
    np.testing.assert_allclose(evaluated(b, nodes, x)[0], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, z: in_halves(x, 0.7978845608 * CUBES["pow"](z)),
        lambda x, z: in_halves(z, 0.7978845608 * (x + 0.044715 * x**3)),
        lambda x, z: in_halves(x, 0.7 * CUBES["pow"](x)),
        lambda x, z: in_halves(x, 0.7978845608 * (x + 0.05 * x**3)),
        lambda x, z: in_halves(x, 0.7978845608 * (x + 0.044715 * x**2)),
        lambda x, z: x * (0.7978845608 * CUBES["pow"](x)).tanh() * 0.5,
    ],
)
def test_what_is_no_gelu_stays(monkeypatch, write):
    newest(monkeypatch)
    b = og.GraphBuilder()
    b.output(write(b.input((3, 7)), b.input((3, 7))))
    assert "GELU" not in [n.kind for n in written(b)]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("quotient", QUOTIENTS)
@pytest.mark.parametrize("square", SQUARES)
def test_a_root_mean_square_in_parts_is_one(monkeypatch, square, quotient, dtype):
    newest(monkeypatch)
    x, gamma = noise(3, 5, 17), noise(17)
    b = og.GraphBuilder()
    v = b.input(x.shape, dtype)
    wide = v if dtype == "f32" else v.type_cast(dtype="f32")
    mean = SQUARES[square](wide).reduce_mean(axes=[-1], keep_dims=True)
    normal = QUOTIENTS[quotient](wide, mean + 3e-4)
    if dtype != "f32":
        normal = normal.type_cast(dtype=dtype)
    b.output(normal * b.constant(gamma, dtype))
    found = [n.kind for n in written(b)]
    casts = [] if dtype == "f32" else ["TypeCast"]
    assert found == [*casts, *casts, "RMSNorm", *casts]
    if dtype == "f32":
        monkeypatch.setattr(inference, "linked_version", lambda: (3, 13))
        wanted = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 3e-4) * gamma
        np.testing.assert_allclose(evaluated(b, written(b), x)[0], wanted, rtol=1e-5)


def test_parts_of_a_root_mean_square_that_are_read_elsewhere_are_there(monkeypatch):
    newest(monkeypatch)
    b = og.GraphBuilder()
    x = b.input((4, 7))
    root = ((x * x).reduce_mean(axes=[-1], keep_dims=True) + 1e-5).sqrt()
    normal = x / root
    b.output(root, normal, normal * noise(7))
    found = [n.kind for n in written(b)]
    assert found.count("RMSNorm") == 1  # the factor stays behind it, as the outcome is read
    assert {"Sqrt", "Multiply"} <= {*found}


@pytest.mark.filterwarnings("ignore:.* this CPU has no VNNI")
@pytest.mark.parametrize("axis", [0, -4])
def test_one_scale_of_a_dim_of_1_is_the_tensors(axis):
    """As a channel's oneDNN reads it as one of the rows of a product, out of bounds."""
    x = np.random.default_rng(5).integers(-128, 128, (1, 3, 2, 5)).astype(np.int8)
    w = np.random.default_rng(6).integers(-63, 64, (5, 4)).astype(np.int8)
    b = og.GraphBuilder()
    one = b.input(x.shape, "s8").dequantize(scales=[0.125], qtype="per_channel", axis=axis)
    other = b.input(w.shape, "s8").dequantize(scales=[0.5])
    b.output(one @ other)
    wanted = (x.astype(np.float64) @ w) / 16
    np.testing.assert_allclose(b.compile()(x, w), wanted, rtol=1e-6, atol=5 * 2.0**-10)


# -- shapes for which oneDNN has no fast kernel


def drawn(*shape):
    return np.random.default_rng(sum(shape)).uniform(0.5, 2, shape).astype(np.float32)


def computed(build, *arrays, open_dims=False):
    """Compile a function of inputs, call it, and return its result and the steps' ops."""
    b = og.GraphBuilder()
    shapes = [(-1, *a.shape[1:]) if open_dims and a.shape[0] > 1 else a.shape for a in arrays]
    b.output(y=build(b, *map(b.input, shapes)))
    model = b.compile()
    return model(*arrays), [op for s in model.steps(*(a.shape for a in arrays)) for op in s.ops]


BINARY = {
    "add": np.add,
    "multiply": np.multiply,
    "subtract": np.subtract,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "squared_difference": lambda x, y: (x - y) ** 2,
    "greater_equal": np.greater_equal,
}
PARTS = ["1111", "1511", "3111", "3511", "1147", "1141", "1541", "1517", "3141", "1117", "71", "41"]


@pytest.mark.parametrize("open_dims", [False, True])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("op", BINARY)
def test_operands_that_broadcast_in_any_way_at_any_place(op, part, open_dims):
    x, y = drawn(3, 5, 4, 7), drawn(*map(int, part))
    if part == "71":
        x = drawn(3, 5, 7, 9)
    for arrays in ((x, y), (y, x)):
        made, _ = computed(lambda b, *v: getattr(b, op)(*v), *arrays, open_dims=open_dims)
        np.testing.assert_allclose(made, BINARY[op](*arrays), rtol=1e-6)


@pytest.mark.parametrize("part", ["3517", "1517", "517", "311", "3541", "1147"])
@pytest.mark.parametrize("op", ["add", "multiply", "subtract", "divide", "maximum"])
def test_operands_that_broadcast_along_unknown_dims(op, part):
    """Where oneDNN has a reference kernel only, hundreds of times slower, the dims move."""
    y = drawn(*(int(d) for d in part))
    x = drawn(3, 4, 7) if part == "311" else drawn(3, 5, 4, 7)
    for turned in (False, True):
        b = og.GraphBuilder()
        values = [b.input([-1 if d in (3, 4) else d for d in a.shape]) for a in (x, y)]
        arrays = [x, y]
        if turned:
            values.reverse()
            arrays.reverse()
        b.output(y=getattr(b, op)(*values))
        model = b.compile()
        np.testing.assert_allclose(model(x, y), BINARY[op](*arrays), rtol=1e-6)
        kinds = [op for s in model.steps(x.shape, y.shape) for op in s.ops]
        moved = part not in ("3541", "1147")
        if not turned:
            assert ("StaticTranspose" in kinds) == moved


@pytest.mark.parametrize("part", ["3517", "517", "311"])
def test_comparisons_that_broadcast_along_unknown_dims_make_booleans(part):
    y = drawn(*(int(d) for d in part))
    x = drawn(3, 4, 7) if part == "311" else drawn(3, 5, 4, 7)
    b = og.GraphBuilder()
    one, other = (b.input([-1 if d in (3, 4) else d for d in a.shape]) for a in (x, y))
    b.output(one >= other)
    np.testing.assert_array_equal(b.compile()(x, y), x >= y)


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("swapped", [False, True])
def test_operands_of_fewer_dims_broadcast_along_unknown_dims(op, swapped):
    arrays = drawn(3, 5, 7), drawn(1, 3, 5, 1)
    b = og.GraphBuilder()
    values = [b.input(shape) for shape in ((3, 5, -1), (1, -1, 5, 1))]
    if swapped:
        arrays, values = arrays[::-1], values[::-1]
    b.output(getattr(b, op)(*values))
    given = arrays[::-1] if swapped else arrays
    np.testing.assert_allclose(b.compile()(*given), BINARY[op](*arrays), rtol=1e-6)


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize(
    "shapes", [((3, 5, 1), (3, 1, 9)), ((1, 1, 6), (2, 5, 1)), ((4, 1), (6,)), ((2, 1, 3), (7, 3))]
)
def test_both_operands_broadcast(op, shapes):
    x, y = (drawn(*s) for s in shapes)
    made, ops = computed(lambda b, *v: getattr(b, op)(*v), x, y)
    np.testing.assert_allclose(made, BINARY[op](x, y), rtol=1e-6)
    assert "Expand" in ops


def test_a_number_less_another_is_exact_and_keeps_infinities():
    x = np.array([[0.1, -0.0, 1, np.inf, -np.inf, 3e38, np.nan]], np.float32)
    for number in (1.0, 0.0, -3e38, np.inf):
        first = np.full((1, 1), number, np.float32)
        with np.errstate(all="ignore"):
            wanted = {"subtract": first - x, "divide": first / x, "greater_equal": first >= x}
        for op, want in wanted.items():
            made, _ = computed(lambda b, v, n=first, op=op: getattr(b, op)(b.constant(n), v), x)
            # Kernels of GreaterEqual say that numbers are not below NaN.
            np.testing.assert_array_equal(made[0, :6], want[0, :6])
            if want.dtype != bool:
                assert np.isnan(made[0, 6])
                np.testing.assert_array_equal(np.signbit(made[0, :6]), np.signbit(want[0, :6]))


REDUCED = {
    "reduce_sum": np.sum,
    "reduce_mean": np.mean,
    "reduce_max": np.max,
    "reduce_min": np.min,
    "reduce_prod": np.prod,
    "reduce_l1": lambda x, axis, keepdims: np.abs(x).sum(axis=axis, keepdims=keepdims),
    "reduce_l2": lambda x, axis, keepdims: np.sqrt((x * x).sum(axis=axis, keepdims=keepdims)),
}


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (3,), (1, 2), (-3, 3), (0, 2), (1, 2, 3)])
@pytest.mark.parametrize("op", REDUCED)
def test_any_dims_are_reduced_as_the_last_ones(op, axes, keep):
    x = drawn(2, 3, 5, 4) - 1
    made, ops = computed(lambda b, v: getattr(b, op)(v, axes=axes, keep_dims=keep), x)
    want = REDUCED[op](x.astype(np.float64), axis=axes, keepdims=keep)
    np.testing.assert_allclose(made, want, rtol=1e-5, atol=1e-6)
    axis = sorted(a % 4 for a in axes)
    assert ("StaticTranspose" in ops) == (axis != [*range(4)][-len(axis) :])
    assert not {"ReduceL1", "ReduceL2"} & set(ops)


def test_unknown_dims_are_reduced_and_normalized_as_well():
    x = drawn(6, 5, 7)
    made, _ = computed(lambda b, v: b.reduce_max(v, axes=[1], keep_dims=True), x, open_dims=True)
    np.testing.assert_array_equal(made, x.max(1, keepdims=True))
    made, ops = computed(
        lambda b, v: (v - b.reduce_mean(v, axes=[-1], keep_dims=True)) * 2.0, x, open_dims=True
    )
    np.testing.assert_allclose(made, (x - x.mean(-1, keepdims=True)) * 2, rtol=1e-5, atol=1e-6)
    assert "StaticTranspose" not in ops


@pytest.mark.parametrize("open_dims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2, 3, -2])
def test_four_dims_are_joined_as_five(axis, open_dims):
    """oneDNN joins four in another layout, into which it copies all of them."""
    parts = []
    for size in (4, 1, 6):
        shape = [3, 5, 7, 2]
        shape[axis] = size
        parts.append(noise(*shape))
    b = og.GraphBuilder()
    values = [b.input((-1,) * 4 if open_dims else a.shape) for a in parts[:2]]
    y = b.concat(*values, b.constant(parts[2]), axis=axis)
    b.output(y=y, part=y[:, 1:])
    model = b.compile()
    wanted = np.concatenate(parts, axis)
    made = model(*parts[:2])
    np.testing.assert_array_equal(made[0], wanted)
    np.testing.assert_array_equal(made[1], wanted[:, 1:])
    out = np.empty_like(wanted), np.empty_like(wanted[:, 1:])
    model(*parts[:2], out=out)
    np.testing.assert_array_equal(out[0], wanted)
    (join,) = (n for n in rewritten(PASSES[1], b, b.nodes) if n.kind == "Concat")
    assert join.outputs[0].ndim == 5
    steps = model.steps(*(a.shape for a in parts[:2]))
    assert [s.ops for s in steps if s.implementation == "oneDNN"] == [("Concat",)]
    assert sum(s.names == ("copy",) for s in steps) == 1  # of the part


def test_four_dims_in_layouts_that_convolutions_choose_are_joined_as_they_are():
    x, weights = noise(2, 16, 9, 7), noise(32, 16, 3, 3)
    b = og.GraphBuilder()
    window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    order = {"data_format": "NCX", "weights_format": "OIX"}
    one = b.convolution(b.input(x.shape), b.constant(weights), **window, **order)
    b.output(b.concat(one, one.relu(), axis=1))
    (join,) = (n for n in rewritten(PASSES[1], b, b.nodes) if n.kind == "Concat")
    assert join.outputs[0].ndim == 4
    made = b.compile()(x)
    np.testing.assert_array_equal(made[:, 32:], np.maximum(made[:, :32], 0))


def test_statistics_keep_one_element_along_the_axis_of_three_dims():
    """From 3.9 on SoftMax has them as a second output."""
    b = og.GraphBuilder()
    x = b.input((2, 3, 4, 5))
    made = Value(b, x.shape, "f32"), Value(b, (2, 3, 1, 5), "f32")
    node = Node(new_id(), "SoftMax", "", (x,), made, {"axis": 2}, "")
    (rule,) = (r for r in RECIPES if r.how == "with three dims")
    written = rule.written(b, node, {v.id: v.shape for v in (x, *made)})
    (softmax,) = (n for n in written if n.kind == "SoftMax")
    assert [v.shape for v in softmax.outputs] == [(6, 4, 5), (6, 1, 5)]
