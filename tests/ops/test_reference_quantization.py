"""Quantization by hand, and what oneDNN makes of the same."""

import ml_dtypes
import numpy as np
import pytest

from onednn_graph_py.reference import round_to, run

INT8 = ["u8", "s8"]
FLOAT8 = ["f8_e4m3", "f8_e5m2"]


@pytest.mark.parametrize(
    ("dtype", "zps", "x", "expected"),
    [
        # Ties go to the even number of what results, zero point included.
        ("u8", None, [0.5, 1.5, 2.5, -1, 300], [0, 2, 2, 0, 255]),
        ("u8", (3,), [0.5, 1.5, -4, 252], [4, 4, 0, 255]),
        ("s8", None, [-0.5, -1.5, 127.5, -129], [0, -2, 127, -128]),
        ("s8", (-128,), [0, 1, 255, 256], [-128, -127, 127, 127]),
    ],
)
def test_quantize_rounds_and_saturates(dtype, zps, x, expected):
    attrs = {"scales": (1.0,)} | ({"zps": zps} if zps else {})
    (made,) = run("Quantize", [np.float32(x)], attrs, outputs=[(None, dtype)])
    assert made.tolist() == expected


def test_scales_and_zero_points_of_channels():
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    attrs = {"qtype": "per_channel", "axis": 1, "scales": (1.0, 0.5, 2.0), "zps": (0, 1, 2)}
    (made,) = run("Quantize", [x], attrs, outputs=[(None, "u8")])
    assert made.tolist() == [[1, 5, 4], [4, 11, 5]]  # 3 / 2 + 2 = 3.5, which goes to 4
    (back,) = run("Dequantize", [made], attrs)
    assert back.tolist() == [[1, 2, 4], [4, 5, 6]]
    down = {**attrs, "axis": -2, "scales": (1.0, 2.0), "zps": (0, 0)}
    (made,) = run("Quantize", [x], down, outputs=[(None, "s8")])
    assert made.tolist() == [[1, 2, 3], [2, 2, 3]]


@pytest.mark.parametrize("dtype", ["s4", "u4"])
def test_groups_of_four_bits(dtype):
    x = np.arange(8).reshape(4, 2).astype(ml_dtypes.int4 if dtype == "s4" else ml_dtypes.uint4)
    scales, zps = np.float32([[1, 2], [10, 20]]), np.int32([[0, 1], [1, 0]])
    attrs = {"qtype": "per_group", "group_shape": (2, 1), "axis": 0}
    (made,) = run("DynamicDequantize", [x, scales, zps], attrs)
    assert made.tolist() == [[0, 0], [2, 4], [30, 100], [50, 140]]


def test_one_zero_point_for_all_channels():
    x, scales, zps = np.uint8([[1, 2]]), np.float32([1, 10]), np.int32([1])
    (made,) = run("DynamicDequantize", [x, scales, zps], {"qtype": "per_channel", "axis": 1})
    assert made.tolist() == [[0, 10]]


@pytest.mark.parametrize("dtype", [*INT8, *FLOAT8])
def test_what_a_type_holds_survives_a_round_trip(dtype):
    bits = np.arange(256, dtype=np.uint8)
    values = bits.view({"u8": np.uint8, "s8": np.int8}.get(dtype) or round_to(0, dtype).dtype)
    values = values[np.isfinite(values.astype(np.float32))]
    attrs = {"scales": (0.25,)}
    (wide,) = run("Dequantize", [values], attrs)
    (back,) = run("Quantize", [wide], attrs, outputs=[(None, dtype)])
    np.testing.assert_array_equal(back.view(np.uint8), values.view(np.uint8))


def test_groups_of_no_elements_have_scales_too():
    attrs = {"qtype": "per_group", "group_shape": (1, 2), "axis": 1}
    inputs = [np.zeros((0, 4), np.int8), np.ones((0, 2), np.float32)]
    assert run("DynamicDequantize", inputs, attrs)[0].shape == (0, 4)
