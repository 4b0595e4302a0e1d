"""What stands in for kernels that oneDNN lacks; which ones it lacks is chosen here."""

import ml_dtypes
import numpy as np
import pytest

import onednn_graph_py as og
from onednn_graph_py.planning import planner

torch = pytest.importorskip("torch")

X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)


@pytest.fixture
def without(monkeypatch):
    """Make models of one op a partition, none of which is there for the given kinds."""

    def lack(*kinds):
        groups = planner.Planner.groups

        def fewer(self, nodes):
            return [
                (members, None if members[0].kind in kinds else partition)
                for members, partition in groups(self, nodes)
            ]

        monkeypatch.setattr(planner.Planner, "groups", fewer)
        return {"policy": "debug", "warn": False}

    return lack


def implementations(model):
    return [s.implementation for s in model.steps()]


def transposed_and_reshaped(b, x):
    y = x.static_transpose(order=(2, 0, 1))
    z = x.static_reshape(shape=(6, 4), special_zero=False)
    return y, z


def test_reshapes_and_transposes_are_views_of_what_oneDNN_made(without):
    options = without("StaticReshape", "StaticTranspose")
    b = og.GraphBuilder()
    y, z = transposed_and_reshaped(b, b.input(X.shape).square())
    b.output(y=y.relu(), z=z.abs())
    model = b.compile(**options)
    assert sorted(implementations(model)) == ["oneDNN"] * 3 + ["view"] * 2
    made_y, made_z = model(X)
    np.testing.assert_array_equal(made_y, (X * X).transpose(2, 0, 1))
    np.testing.assert_array_equal(made_z, (X * X).reshape(6, 4))
    with pytest.raises(AssertionError, match="view: StaticTranspose"):
        og.assert_fused(model, 3)


def test_views_of_inputs_constants_and_views(without):
    options = without("StaticReshape", "StaticTranspose")
    b = og.GraphBuilder()
    x, c = b.input(X.shape), b.constant(X + 1)
    y, z = transposed_and_reshaped(b, x)
    back = y.static_transpose(order=(1, 2, 0)).static_reshape(shape=(24,), special_zero=False)
    moved = c.static_transpose(order=(2, 0, 1))
    b.output(a=y + moved, b=z.abs(), c=back * 2)
    model = b.compile(**options)
    assert implementations(model).count("view") == 5
    first, second, third = model(X)
    np.testing.assert_array_equal(first, (X + (X + 1)).transpose(2, 0, 1))
    np.testing.assert_array_equal(second, np.abs(X).reshape(6, 4))
    np.testing.assert_array_equal(third, X.reshape(24) * 2)


def test_a_view_that_is_an_output_is_copied_out(without):
    options = without("StaticReshape", "StaticTranspose")
    b = og.GraphBuilder()
    x = b.input(X.shape)
    y, z = transposed_and_reshaped(b, x)
    b.output(y=y, z=z, again=y)
    made = b.compile(**options)(X)
    for array, right in zip(made, (X.transpose(2, 0, 1), X.reshape(6, 4)), strict=False):
        np.testing.assert_array_equal(array, right)
        assert array.flags.c_contiguous
        assert not np.shares_memory(array, X)
    np.testing.assert_array_equal(made[2], made[0])


def test_elements_that_have_to_move_are_computed(without):
    """A transposed tensor can't be reshaped in place."""
    options = without("StaticReshape", "StaticTranspose")
    b = og.GraphBuilder()
    y = b.input(X.shape).static_transpose(order=(2, 0, 1))
    b.output(y.static_reshape(shape=(8, 3), special_zero=False).abs())
    model = b.compile(**options)
    assert implementations(model) == ["view", "reference", "oneDNN"]
    np.testing.assert_array_equal(model(X), np.abs(X.transpose(2, 0, 1).reshape(8, 3)))


def test_memory_of_a_viewed_tensor_is_not_given_to_another(without):
    """It lives as long as the last reader of a view, and nothing runs in place on it."""
    options = without("StaticTranspose")
    for seed in range(8):
        random = np.random.default_rng(seed)
        b = og.GraphBuilder()
        x = b.input((4, 6))
        base = x.square()
        view = base.static_transpose(order=(1, 0))
        busy = x
        for _ in range(int(random.integers(1, 5))):
            busy = (busy * 0.5).abs() + 1.0
        late = view.relu() + busy.static_transpose(order=(1, 0)).square()
        b.output(late=late, busy=busy, base=base.abs())
        model = b.compile(**options)
        assert "view" in implementations(model)
        assert model.verify(seed=seed), seed


def test_four_bit_integers_are_unpacked_for_numpy(without):
    options = without("DynamicDequantize")
    b = og.GraphBuilder()
    values = np.arange(-8, 8).reshape(4, 4)
    w = b.constant(values, "s4")
    x = b.input((4, 4), "u4", name="x")
    scale = np.float32([0.5])
    b.output(
        w=w.dynamic_dequantize(scale, qtype="per_tensor"),
        x=x.dynamic_dequantize(scale, qtype="per_tensor"),
    )
    given = np.arange(16).reshape(4, 4)
    made = b.compile(**options)(given.astype(ml_dtypes.uint4))
    np.testing.assert_array_equal(made[0], values * np.float32(0.5))
    np.testing.assert_array_equal(made[1], given * np.float32(0.5))


def test_a_partition_that_can_be_run_is(without):
    options = without()
    b = og.GraphBuilder()
    b.output(b.input(X.shape).static_transpose(order=(2, 0, 1)))
    assert implementations(b.compile(**options)) == ["oneDNN"]


# -- other ways to write an op


def noise(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-2, 3, shape).astype(np.float32)


def tensors(*arrays):
    return [torch.from_numpy(a.astype(np.float64)) for a in arrays]


def gradient_of(function, x, diff, *rest):
    x = x.clone().requires_grad_()
    function(x, *rest).backward(diff)
    return x.grad


def power(exponent):
    return (
        f"Pow {exponent}",
        lambda b, x: x.pow(beta=exponent),
        [np.abs(noise(3, 5)) + 0.125],
        lambda x: x**exponent,
    )


def average(name, sizes, pads, kernel, stride, made, **attrs):
    """AvgPool of one dim: the windows' elements are counted here, one by one."""

    def expected(x):
        windows = []
        for i in range(made):
            inside = [j for j in range(i * stride - pads[0], i * stride - pads[0] + kernel)
                      if 0 <= j < sizes[-1]]  # fmt: skip
            count = len(inside) if attrs["exclude_pad"] else kernel
            windows.append(x[..., inside].sum(-1) / count)
        return torch.stack(windows, -1)

    build = lambda b, x: x.avg_pool(  # noqa: E731
        kernel=(kernel,), strides=(stride,), pads_begin=pads[:1], pads_end=pads[1:],
        data_format="NCX", **attrs)  # fmt: skip
    return name, build, [noise(*sizes)], expected


SLOPES = ((1,), (3,), (2, 3, 1, 1, 3, 1))
RANK6 = (2, 3, 4, 1, 3, 2)
FORMS = {"data_format": "NCX"}
NAMED = {"strides": (2, 3), "pads_begin": (1, 2), "pads_end": (2, 0), "dilations": (2, 1),
         "groups": 2, "weights_format": "OIX", **FORMS}  # fmt: skip


def convolved(x, w):
    x = torch.nn.functional.pad(x, (2, 0, 1, 2))
    return torch.nn.functional.conv2d(x, w, stride=(2, 3), dilation=(2, 1), groups=2)


def normalized(x, g, c):
    return torch.nn.functional.layer_norm(x, (3, 2), g.reshape(3, 2), c.reshape(3, 2), 1e-3)


def trained(x, g):
    mean, var = x.mean((0, 1)), x.var((0, 1), correction=0)
    return (x - mean) / (var + 1e-3).sqrt() * g


def batch_norm_gradient(b, diff, x, mean, var, gamma):
    outputs = [(None, x.dtype), (None, mean.dtype), (None, mean.dtype)]
    return b.op("BatchNormTrainingBackward", x, diff, mean, var, gamma, outputs=outputs,
                epsilon=1e-3, data_format="NXC")  # fmt: skip


X3 = noise(4, 5, 3)
WRITTEN = [
    *map(power, (-2.5, -1, 0.5, 1, 1.5, 3, 7)),
    ("Reciprocal", lambda b, x: x.reciprocal(), [np.abs(noise(3, 5)) + 0.5], lambda x: 1 / x),
    ("ReduceL2", lambda b, x: x.reduce_l2(axes=(1, -1)), [noise(3, 1, 5, 1)],
     lambda x: x.abs().reshape(3, 5)),
    ("ReduceMean", lambda b, x: x.reduce_mean(axes=(1,), keep_dims=True), [noise(3, 1, 5)],
     lambda x: x),
    ("BiasAddBackward", lambda b, x: x.bias_add_backward(**FORMS), [noise(3, 4, 5)],
     lambda x: x.sum((0, 2))),
    ("ConvolutionBackwardData",
     lambda b, diff, w: diff.convolution_backward_data(w, dst_shape=(2, 4, 9, 11), **NAMED),
     [noise(2, 6, 4, 4), noise(6, 2, 3, 2, seed=1)],
     lambda diff, w: gradient_of(convolved, torch.zeros(2, 4, 9, 11).double(), diff, w)),
    average("AvgPool ceil", (2, 3, 8), (1, 0), 3, 2, 4, exclude_pad=False, rounding_type="ceil"),
    average("AvgPool ceil and padded", (2, 3, 7), (2, 1), 3, 4, 3, exclude_pad=True,
            rounding_type="ceil"),
    *((f"PReLU {s}", lambda b, x, s: x.prelu(s, **FORMS), [noise(*RANK6), noise(*s, seed=1)],
       lambda x, s: torch.where(x > 0, x, x * (s.reshape(-1, 1, 1, 1, 1) if s.ndim == 1 else s)))
      for s in SLOPES),
    ("PReLUBackward", lambda b, x, s, diff: b.prelu_backward(x, s, diff, **FORMS)[1],
     [noise(*RANK6), noise(3, seed=1), noise(*RANK6, seed=2)],
     lambda x, s, diff: (torch.clamp(x, max=0) * diff).sum((0, 2, 3, 4, 5))),
    ("LayerNorm", lambda b, x, g, c: x.layer_norm(g, c, begin_norm_axis=-2, keep_stats=False,
                                                  epsilon=1e-3),
     [noise(*RANK6), noise(3, 2, seed=1), noise(3, 2, seed=2)], normalized),
    ("SoftMax", lambda b, x: x.softmax(axis=2), [noise(*RANK6)], lambda x: x.softmax(2)),
    ("Select", lambda b, x, y: b.select(x >= y, x, y), [noise(*RANK6), noise(3, 1, 1, 3, 2)],
     torch.maximum),
    ("BatchNormTrainingBackward", batch_norm_gradient,
     [noise(4, 5, 3, seed=1), X3, X3.mean((0, 1)), X3.var((0, 1)), noise(3, seed=2)],
     lambda diff, x, mean, var, g: gradient_of(trained, x, diff, g)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("name", [case[0] for case in WRITTEN])
def test_ops_are_written_in_another_way(name, dtype):
    """Nothing runs in NumPy, of which a warning would tell; torch computes it in f64."""
    _, build, arrays, expected = next(case for case in WRITTEN if case[0] == name)
    b = og.GraphBuilder()
    if dtype == "bf16":
        arrays = [a.astype(ml_dtypes.bfloat16) for a in arrays]
    made = build(b, *(b.input(a.shape, dtype) for a in arrays))
    b.output(*(made if isinstance(made, tuple) else (made,)))
    results = b.compile()(*arrays)
    result = results[0] if isinstance(made, tuple) else results
    right = expected(*tensors(*arrays)).numpy()
    close = {"rtol": 2e-5, "atol": 1e-5} if dtype == "f32" else {"rtol": 1e-2, "atol": 2e-2}
    np.testing.assert_allclose(np.float64(result), right, **close)
