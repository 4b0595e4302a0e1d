"""The reference against torch, where both have the op; skipped where there is no torch."""

import numpy as np
import pytest

from onednn_graph_py.reference import run

torch = pytest.importorskip("torch")
F = torch.nn.functional

NCX = {"data_format": "NCX"}
OIX = {**NCX, "weights_format": "OIX"}
IOX = {**NCX, "weights_format": "IOX"}


def window(rank, stride=1, pad=0, dilation=1, **more):
    attrs = {"strides": stride, "pads_begin": pad, "pads_end": pad, "dilations": dilation}
    return {name: (value,) * rank for name, value in attrs.items()} | more


def pool(rank, kernel, stride, pad, **more):
    attrs = window(rank, stride, pad, kernel=(kernel,) * rank, **NCX, **more)
    if "exclude_pad" in more:
        del attrs["dilations"]
    return attrs


def resized(x, mode, sizes, align):
    corners = None if mode == "nearest-exact" else align
    return F.interpolate(x, sizes, mode=mode, align_corners=corners)


def resize(mode, sizes, corners=False):
    kind = "align_corners" if corners else "half_pixel"
    return {"mode": mode, "sizes": sizes, "coordinate_transformation_mode": kind, **NCX}


def trained(x, mean, variance, gamma, beta):
    return F.batch_norm(x, mean, variance, gamma, beta, training=True, eps=0.5)


CASES = [
    ("Convolution", [(2, 6, 9), (4, 3, 3)], window(1, 2, 1, 2, groups=2, **OIX),
     lambda x, w: F.conv1d(x, w, None, 2, 1, 2, 2)),
    ("Convolution", [(2, 3, 9, 8), (4, 3, 3, 2), (4,)], window(2, 2, 1, 2, **OIX),
     lambda x, w, b: F.conv2d(x, w, b, 2, 1, 2)),
    ("Convolution", [(1, 4, 5, 6, 5), (4, 2, 2, 3, 2)], window(3, 2, 1, 1, groups=2, **OIX),
     lambda x, w: F.conv3d(x, w, None, 2, 1, 1, 2)),
    ("ConvTranspose", [(2, 6, 5), (6, 2, 3)],
     window(1, 3, 1, 1, groups=2, output_padding=(2,), **IOX),
     lambda x, w: F.conv_transpose1d(x, w, None, 3, 1, 2, 2, 1)),
    ("ConvTranspose", [(2, 4, 5, 4), (4, 3, 3, 2), (3,)], window(2, 2, 1, 2, **IOX),
     lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 0, 1, 2)),
    ("ConvTranspose", [(1, 4, 3, 4, 3), (4, 3, 2, 3, 2)], window(3, 2, 0, 1, groups=2, **IOX),
     lambda x, w: F.conv_transpose3d(x, w, None, 2, 0, 0, 2)),
    ("AvgPool", [(2, 3, 9, 8)], pool(2, 3, 2, 1, exclude_pad=True),
     lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
    ("AvgPool", [(2, 3, 9, 8)], pool(2, 3, 2, 1, exclude_pad=False),
     lambda x: F.avg_pool2d(x, 3, 2, 1)),
    ("AvgPool", [(2, 3, 10)], pool(1, 3, 2, 1, exclude_pad=True, rounding_type="ceil"),
     lambda x: F.avg_pool1d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)),
    ("MaxPool", [(1, 3, 7, 8, 9)], pool(3, 3, 2, 1), lambda x: F.max_pool3d(x, 3, 2, 1)),
    ("MaxPool", [(1, 3, 10, 12)], {**pool(2, 3, 2, 1, rounding_type="ceil"), "dilations": (2, 2)},
     lambda x: F.max_pool2d(x, 3, 2, 1, 2, ceil_mode=True)),
    ("Interpolate", [(2, 3, 5)], resize("linear", (12,)),
     lambda x: resized(x, "linear", (12,), False)),
    ("Interpolate", [(2, 3, 5, 7)], resize("bilinear", (8, 3), True),
     lambda x: resized(x, "bilinear", (8, 3), True)),
    ("Interpolate", [(1, 2, 3, 4, 5)], resize("trilinear", (7, 2, 8)),
     lambda x: resized(x, "trilinear", (7, 2, 8), False)),
    ("Interpolate", [(2, 3, 6, 7)], resize("nearest", (9, 3)),
     lambda x: resized(x, "nearest-exact", (9, 3), None)),
    ("BatchNormInference", [(2, 3, 4, 5), (3,), (3,), (3,), (3,)], {"epsilon": 0.5, **NCX},
     lambda x, g, b, m, v: F.batch_norm(x, m, v, g, b, eps=0.5)),
    ("BatchNormForwardTraining", [(2, 3, 4, 5), (3,), (3,), (3,), (3,)],
     {"epsilon": 0.5, **NCX}, trained),
    ("LayerNorm", [(3, 4, 5), (4, 5), (4, 5)],
     {"begin_norm_axis": 1, "epsilon": 0.5, "keep_stats": False},
     lambda x, g, b: F.layer_norm(x, (4, 5), g, b, 0.5)),
    ("RMSNorm", [(3, 5), (5,)], {"epsilon": 0.5}, lambda x, g: F.rms_norm(x, (5,), g, 0.5)),
    ("GroupNorm", [(2, 6, 3, 2), (6,), (6,)],
     {"groups": 3, "epsilon": 0.5, "keep_stats": False, **NCX},
     lambda x, g, b: F.group_norm(x, 3, g, b, 0.5)),
    ("SoftMax", [(3, 4, 5)], {"axis": 1}, lambda x: F.softmax(x, 1)),
    ("LogSoftmax", [(3, 4, 5)], {"axis": -2}, lambda x: F.log_softmax(x, 1)),
    ("GELU", [(50,)], {}, F.gelu),
    ("GELU", [(50,)], {"mode": "gelu_tanh"}, lambda x: F.gelu(x, approximate="tanh")),
    ("Elu", [(50,)], {"alpha": 0.5}, lambda x: F.elu(x, 0.5)),
    ("HardSwish", [(50,)], {}, F.hardswish),
    ("Mish", [(50,)], {}, F.mish),
    ("SoftPlus", [(50,)], {"beta": 2.0}, lambda x: F.softplus(x, 2)),
    ("PReLU", [(2, 3, 4), (3,)], NCX, F.prelu),
    ("MatMul", [(2, 1, 3, 4), (5, 4, 6), (6,)], {}, lambda a, b, c: a @ b + c),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "shapes", "attrs", "theirs"), CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)]
)
def test_torch_agrees(kind, shapes, attrs, theirs):
    chance = np.random.default_rng(0)
    arrays = [chance.standard_normal(s).astype(np.float32) for s in shapes]
    if kind.startswith("BatchNorm"):
        at = 4 if kind == "BatchNormInference" else 2
        arrays[at] = np.abs(arrays[at])
    outputs = [(None, "f32")] * (5 if kind == "BatchNormForwardTraining" else 1)
    made = run(kind, arrays, attrs, outputs=outputs, version=(3, 13))[0]
    expected = theirs(*(torch.from_numpy(a).double() for a in arrays)).numpy()
    np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-6)
