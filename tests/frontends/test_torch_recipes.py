"""Ops for which oneDNN has no kernel, written in another way, against torch in f64."""

import ml_dtypes
import numpy as np
import pytest

import onednn_graph_py as og

torch = pytest.importorskip("torch")


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
