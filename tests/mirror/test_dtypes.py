"""Data types between oneDNN and NumPy, and packed int4."""

import ml_dtypes
import numpy as np
import pytest
from graphs import LINKED, PACKED_TYPES, WHOLE_TYPES
from hypothesis import given, settings
from hypothesis import strategies as st

import onednn_graph_py as og
from onednn_graph_py import dtypes

NUMPY = {
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "s32": np.int32,
    "s8": np.int8,
    "u8": np.uint8,
    "boolean": np.bool_,
    "f8_e5m2": ml_dtypes.float8_e5m2,
    "f8_e4m3": ml_dtypes.float8_e4m3fn,
    "s4": ml_dtypes.int4,
    "u4": ml_dtypes.uint4,
    **({"s64": np.int64} if LINKED >= (3, 12) else {}),
}


def test_every_data_type_but_undef_has_a_numpy_dtype():
    assert set(NUMPY) == {d.name for d in og.logical_tensor.data_type} - {"undef"}
    assert set(NUMPY) == {*WHOLE_TYPES, *PACKED_TYPES}


@pytest.mark.parametrize("name", NUMPY)
def test_data_types_and_dtypes_go_both_ways(name):
    dtype = np.dtype(NUMPY[name])
    enumerator = og.logical_tensor.data_type[name]
    assert dtypes.numpy_dtype(name) == dtypes.numpy_dtype(enumerator) == dtype
    assert dtypes.data_type_of(dtype) is dtypes.data_type_of(NUMPY[name]) is enumerator


def test_names_of_dtypes_are_taken_too():
    for name in ("float32", "f4", "<f4"):
        assert dtypes.data_type_of(name) is og.logical_tensor.f32


@pytest.mark.parametrize("dtype", ["float64", "complex64", "uint16", "S3", "M8[s]", ">f4", "O"])
def test_a_dtype_that_onednn_lacks_is_refused(dtype):
    with pytest.raises(og.InvalidDataTypeError, match="no data type for NumPy's"):
        dtypes.data_type_of(dtype)


def test_an_undefined_data_type_has_no_dtype():
    with pytest.raises(og.InvalidDataTypeError, match="undef has no elements"):
        dtypes.numpy_dtype("undef")


@pytest.mark.parametrize("wrong", ["no dtype at all", 3.5])
def test_something_that_is_no_dtype_is_a_type_error(wrong):
    with pytest.raises(TypeError):
        dtypes.data_type_of(wrong)


@pytest.mark.parametrize("name", NUMPY)
def test_the_size_in_memory_is_the_dtypes(name):
    bits = 4 if name in PACKED_TYPES else np.dtype(NUMPY[name]).itemsize * 8
    size = og.logical_tensor(0, name, [16], "strided").get_mem_size()
    assert size == 16 * bits // 8


RANGE = {"s4": (-8, 7), "u4": (0, 15)}


@settings(max_examples=60)
@given(st.data(), st.sampled_from(PACKED_TYPES), st.lists(st.integers(0, 5), max_size=4))
def test_packing_and_unpacking_give_the_values_back(data, name, shape):
    low, high = RANGE[name]
    count = int(np.prod(shape))
    values = data.draw(st.lists(st.integers(low, high), min_size=count, max_size=count))
    array = np.array(values, np.int64).reshape(shape)
    packed = dtypes.pack_int4(array, name)
    assert packed.dtype == np.uint8 and packed.ndim == 1
    assert packed.size == og.logical_tensor(0, name, shape, "strided").get_mem_size() or not shape
    again = dtypes.unpack_int4(packed, shape, name)
    assert again.dtype == np.int8
    assert again.shape == tuple(shape)
    assert (again == array).all()


@pytest.mark.parametrize("name", PACKED_TYPES)
def test_the_first_element_is_in_the_low_half(name):
    assert dtypes.pack_int4([1, 2, 3], name).tolist() == [0x21, 0x03]


@pytest.mark.parametrize("name", PACKED_TYPES)
def test_packing_takes_ml_dtypes_bools_and_whole_floats(name):
    values = [0, 1, 5, 7]
    for dtype in (NUMPY[name], np.float32, np.uint8, np.int64):
        assert dtypes.pack_int4(np.array(values, dtype), name).tolist() == [0x10, 0x75]
    assert dtypes.pack_int4([True, False], name).tolist() == [1]


@pytest.mark.parametrize("name", PACKED_TYPES)
def test_values_that_do_not_fit_are_refused(name):
    low, high = RANGE[name]
    for wrong in ([low - 1], [high + 1], [2**40]):
        with pytest.raises(og.InvalidArgumentsError, match=f"{name} holds {low} to {high}"):
            dtypes.pack_int4(wrong, name)
    with pytest.raises(og.InvalidArgumentsError, match="must be integers"):
        dtypes.pack_int4([1.5], name)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused(wrong):
    with pytest.raises(og.InvalidArgumentsError):
        dtypes.pack_int4([wrong], "s4")


@pytest.mark.parametrize("name", ["s8", "f32", "nonsense", og.logical_tensor.u8])
def test_packing_is_for_int4_only(name):
    with pytest.raises(og.InvalidArgumentsError, match="must be s4 or u4"):
        dtypes.pack_int4([1], name)
    with pytest.raises(og.InvalidArgumentsError, match="must be s4 or u4"):
        dtypes.unpack_int4(np.zeros(1, np.uint8), [1], name)


def test_unpacking_checks_dtype_and_size():
    with pytest.raises(og.InvalidArgumentsError, match="must be uint8"):
        dtypes.unpack_int4(np.zeros(1, np.int8), [1], "s4")
    for size in (0, 2):
        with pytest.raises(og.InvalidShapeError, match=f"needs 1 bytes, got {size}"):
            dtypes.unpack_int4(np.zeros(size, np.uint8), [2], "s4")


@pytest.mark.parametrize("dtype", ["f8_e4m3", "f8_e5m2"])
def test_models_take_8_bit_floats_with_other_strides(dtype):
    """NumPy's own function for strides does not; and numbers for inputs depend on the largest."""
    b = og.GraphBuilder()
    x = b.input((4, 5), dtype, strides=(1, 4)).dequantize(qtype="per_tensor", scales=[0.5])
    y = x + b.input((4, 5), "s8").dequantize(qtype="per_tensor", scales=[0.5], zps=[0])
    b.output(y.quantize(dtype=dtype, qtype="per_tensor", scales=[4.0]))
    assert b.compile(warn=False).verify().ok
