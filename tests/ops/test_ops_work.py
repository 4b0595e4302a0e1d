"""How many operations ops are, against closed forms and against counting them one by one."""

import itertools
import math

import pytest

from onednn_graph_py.ops import OPS, check

WINDOW = {"strides": (2, 1), "pads_begin": (1, 0), "pads_end": (0, 1), "dilations": (1, 2)}


def flop(kind, *use):
    return OPS[kind].flop(*use)


def counted(kind, inputs, attrs=None, dtypes=None, outputs=None):
    """Operations of an op whose outputs' shapes follow."""
    given = list(zip(inputs, dtypes or ["f32"] * len(inputs), strict=True))
    made = outputs or [s.shape for s in check(kind, given, attrs or {})]
    return flop(kind, inputs, made, attrs or {})


def test_every_op_has_a_count():
    for kind, row in OPS.items():
        shapes, attrs = row.sample
        outputs = [shapes[0]] * len(row.outputs) if shapes else []
        if "weights_shape" in attrs:
            outputs = [attrs["weights_shape"]]
        assert flop(kind, shapes, outputs, attrs) >= 0, kind


@pytest.mark.parametrize(
    ("inputs", "attrs", "expected"),
    [
        ([(4, 16), (16, 8)], {}, 2 * 4 * 16 * 8),
        ([(4, 16), (16, 8), (8,)], {}, 2 * 4 * 16 * 8 + 4 * 8),
        ([(16, 4), (8, 16)], {"transpose_a": True, "transpose_b": True}, 2 * 4 * 16 * 8),
        ([(3, 1, 4, 16), (5, 16, 8)], {}, 3 * 5 * 2 * 4 * 16 * 8),
        ([(16,), (16,)], {}, 2 * 16),
    ],
)
def test_matmul(inputs, attrs, expected):
    assert counted("MatMul", inputs, attrs) == expected


def products_of_convolution(image, kernel, attrs, groups, inputs, outputs):
    """Products of a convolution of the whole image, window by window, padding included."""
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, attrs["dilations"], strict=True)]
    padded = [
        n + b + e for n, b, e in zip(image, attrs["pads_begin"], attrs["pads_end"], strict=True)
    ]
    places = [
        range(0, n - span + 1, s)
        for n, span, s in zip(padded, spans, attrs["strides"], strict=True)
    ]
    count = 0
    for _ in itertools.product(*places):
        for out in range(outputs):
            group = out // (outputs // groups)
            count += sum(c // (inputs // groups) == group for c in range(inputs)) * math.prod(
                kernel
            )
    return count


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("data_format", ["NXC", "NCX"])
@pytest.mark.parametrize("transposed", [False, True])
def test_convolutions_are_two_operations_a_product(groups, data_format, transposed):
    image, kernel, narrow, wide = (7, 6), (3, 2), 4, 6
    one = products_of_convolution(image, kernel, WINDOW, groups, narrow, wide)
    attrs = {**WINDOW, "groups": groups, "data_format": data_format}

    def tensor(spatial, channels):
        return (2, *spatial, channels) if data_format == "NXC" else (2, channels, *spatial)

    shapes = {
        "XIO": (*kernel, narrow // groups, wide),
        "OIX": (wide, narrow // groups, *kernel),
        "XOI": (*kernel, narrow // groups, wide),
        "IOX": (wide, narrow // groups, *kernel),
    }
    src = tensor(image, narrow)
    for order in ("XOI", "IOX") if transposed else ("XIO", "OIX"):
        weights, attrs["weights_format"] = shapes[order], order
        (dst,) = check(
            "Convolution",
            [(src, "f32"), (shapes["XIO"], "f32")],
            {**attrs, "weights_format": "XIO"},
        )
        expected = 2 * 2 * one  # two images, two operations
        if not transposed:
            assert flop("Convolution", [src, weights], [dst.shape], attrs) == expected
            with_bias = flop("Convolution", [src, weights, (wide,)], [dst.shape], attrs)
            assert with_bias == expected + math.prod(dst.shape)
            kinds = ("ConvolutionBackwardData", "ConvolutionBackwardWeights")
            assert flop(kinds[0], [dst.shape, weights], [src], attrs) == expected
            assert flop(kinds[1], [src, dst.shape], [weights], attrs) == expected
        else:  # the other way round: from the small image to the large one
            assert flop("ConvTranspose", [dst.shape, weights], [src], attrs) == expected
            kinds = ("ConvTransposeBackwardData", "ConvTransposeBackwardWeights")
            assert flop(kinds[0], [src, weights], [dst.shape], attrs) == expected
            assert flop(kinds[1], [dst.shape, src], [weights], attrs) == expected


POOL = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "kernel": (2, 3)}


@pytest.mark.parametrize(
    ("kind", "inputs", "attrs", "expected"),
    [
        ("AvgPool", [(1, 6, 6, 8)], {**POOL, "exclude_pad": False}, 5 * 4 * 8 * 6),
        ("MaxPool", [(1, 6, 6, 8)], {**POOL, "dilations": (1, 1)}, 5 * 4 * 8 * 6),
        ("Exp", [(3, 5)], {}, 15),
        ("ReLUBackward", [(3, 5), (3, 5)], {}, 30),
        ("Add", [(3, 1), (1, 5)], {}, 15),
        ("BiasAdd", [(2, 4, 4, 8), (8,)], {}, 2 * 4 * 4 * 8),
        ("SoftMax", [(3, 5)], {"axis": 1}, 5 * 15),
        ("LayerNorm", [(3, 5), (5,), (5,)], {"keep_stats": False}, 8 * 15),
        ("LayerNorm", [(3, 5)], {"keep_stats": False, "use_affine": False}, 6 * 15),
        ("BatchNormInference", [(2, 3, 3, 4), *[(4,)] * 4], {"epsilon": 1e-5}, 2 * 72),
        ("ReduceSum", [(3, 5)], {"axes": (1,)}, 15),
        ("ReduceL2", [(3, 5)], {"axes": (1,)}, 30),
        ("Interpolate", [(1, 4, 4, 2)], {"mode": "linear", "sizes": (8, 8)}, 8 * 8 * 2 * 2 * 4),
        ("Interpolate", [(1, 4, 4, 2)], {"mode": "nearest", "sizes": (8, 8)}, 0),
        ("StaticTranspose", [(3, 5)], {"order": (1, 0)}, 0),
        ("TypeCast", [(3, 5)], {}, 0),
    ],
)
def test_other_ops(kind, inputs, attrs, expected):
    if kind == "Interpolate":
        attrs = {**attrs, "coordinate_transformation_mode": "half_pixel"}
    outputs = [(3, 5)] if kind == "TypeCast" else None
    assert counted(kind, inputs, attrs, outputs=outputs) == expected


def test_a_zero_point_is_one_more_operation():
    attrs = {"scales": [0.5], "qtype": "per_tensor"}
    assert flop("Quantize", [(3, 5)], [(3, 5)], {**attrs, "zps": [0]}) == 15
    assert flop("Quantize", [(3, 5)], [(3, 5)], {**attrs, "zps": [3]}) == 30
    assert flop("DynamicDequantize", [(3, 5), (1,)], [(3, 5)], {}) == 15
    assert flop("DynamicDequantize", [(3, 5), (1,), (1,)], [(3, 5)], {}) == 30


def test_an_unknown_kind_is_refused():
    with pytest.raises(KeyError, match="Nonsense"):
        flop("Nonsense", [], [], {})
