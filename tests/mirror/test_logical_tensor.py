"""Logical tensors."""

import copy
import pickle

import numpy as np
import pytest
from graphs import PACKS_WEIGHTS, WHOLE_TYPES, Model, python

import onednn_graph_py as og

LT = og.logical_tensor


def test_the_repr_is_the_documented_one():
    lt = LT(0, LT.f32, [64, 1280], LT.strided, LT.variable)
    assert repr(lt) == "logical_tensor(id=0, f32, 64x1280, strides 1280x1, strided, variable)"


@pytest.mark.parametrize(
    ("lt", "text"),
    [
        (LT(), ""),
        (LT(3, "bf16"), "id=3, bf16, unknown rank, undef, undef"),
        (LT(3, "bf16", "any"), "id=3, bf16, unknown rank, any, undef"),
        (LT(1, "u8", 2, "any", "constant"), "id=1, u8, ?x?, any, constant"),
        (LT(1, "u8", [], "strided"), "id=1, u8, scalar, strided, undef"),
        (LT(1, "s8", [None, 3], "any"), "id=1, s8, ?x3, any, undef"),
        (LT(1, "f16", [2, 3], [1, 2]), "id=1, f16, 2x3, strides 1x2, strided, undef"),
        (LT(1, "f32", [0, 3], "strided"), "id=1, f32, 0x3, strides 3x1, strided, undef"),
    ],
)
def test_the_repr_tells_everything(lt, text):
    assert repr(lt) == f"logical_tensor({text})"


@pytest.mark.parametrize("dtype", ["undef", *WHOLE_TYPES, "s4", "u4"])
def test_every_data_type_makes_a_logical_tensor(dtype):
    assert LT(0, dtype, [2], "strided").get_data_type() is LT.data_type[dtype]


def test_of_unknown_rank():
    lt = LT(5, LT.f32)
    assert (lt.get_id(), lt.get_layout_type()) == (5, LT.lt_undef)
    assert lt.get_property_type() is LT.pt_undef
    for getter in (lt.get_dims, lt.get_strides, lt.get_mem_size, lt.get_layout_id):
        with pytest.raises(og.InvalidArgumentsError, match="id=5"):
            getter()
    assert LT(5, "f32", og.UNKNOWN_NDIMS, "undef") == lt


@pytest.mark.parametrize("rank", [0, 1, og.MAX_NDIMS, np.int64(3)])
def test_of_known_rank(rank):
    lt = LT(0, "f32", rank, "any", "variable")
    assert lt.get_dims() == [og.UNKNOWN_DIM] * rank
    assert lt.get_property_type() is LT.variable


@pytest.mark.parametrize("dims", [[2, 3, 4], (2, 3, 4), np.array([2, 3, 4]), range(2, 5)])
def test_of_dims_from_any_sequence(dims):
    lt = LT(0, "f32", dims, "strided", "constant")
    assert lt.get_dims() == [2, 3, 4]
    assert lt.get_strides() == [12, 4, 1]
    assert lt.get_mem_size() == 96
    assert lt.get_layout_type() is LT.strided
    assert lt.get_property_type() is LT.constant


def test_of_dims_and_strides():
    lt = LT(0, "f32", [2, 3], [1, 2], "variable")
    assert lt.get_dims() == [2, 3]
    assert lt.get_strides() == [1, 2]
    assert lt.get_property_type() is LT.variable


@pytest.mark.parametrize("unknown", [None, -1, og.UNKNOWN_DIM])
def test_unknown_dims_are_given_in_three_ways(unknown):
    lt = LT(0, "f32", [2, unknown], "strided")
    assert lt.get_dims() == [2, og.UNKNOWN_DIM]
    assert lt == LT(0, "f32", [2, None], "strided")


@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        (("f32", [2, 3], "strided"), 24),
        (("bf16", [2, 3], "strided"), 12),
        (("f32", [], "strided"), 4),
        (("f32", [4, 0], "strided"), 0),
        (("s4", [3], "strided"), 2),
        (("u4", [2, 3], "strided"), 3),
        (("f32", [2, 3], [10, 2]), (10 + 2 * 2 + 1) * 4),
        (("f32", [2, 3], [0, 1]), 12),  # a broadcast
        (("f32", [3, 3], [1, 1]), 20),  # strides that overlap: from first to last element
        (("f32", [1, 3], [1000, 1]), 12),  # the stride of a dim of 1 is never used
    ],
)
def test_the_size_of_the_memory_reaches_from_first_to_last_element(arguments, size):
    assert LT(0, *arguments).get_mem_size() == size


def test_a_numpy_integer_is_an_id():
    assert LT(np.uint8(200), "f32").get_id() == 200


@pytest.fixture(scope="module")
def opaque():
    """Constant weights of a MatMul in the layout that oneDNN prefers."""
    src, dst = LT(0, "f32", [64, 1024], "strided"), LT(2, "f32", [64, 512], "strided")
    weights = LT(1, "f32", [1024, 512], "any", "constant")
    matmul = og.op(0, "MatMul", [src, weights], [dst])
    lt = Model([matmul], [src, weights], [dst]).compiled.query_logical_tensor(1)
    assert (lt.get_layout_type() is LT.opaque) == PACKS_WEIGHTS
    if not PACKS_WEIGHTS:
        pytest.skip("oneDNN prefers a plain layout for MatMul weights here")
    return lt


def test_an_opaque_layout_that_onednn_gave_is_accepted(opaque):
    again = LT(1, "f32", [1024, 512], opaque.get_layout_id(), "constant")
    assert again == opaque
    assert again.is_equal(opaque)
    assert again.get_mem_size() >= 1024 * 512 * 4
    assert f"opaque {opaque.get_layout_id()}" in repr(again)


def test_empty_logical_tensors_are_equal():
    empty = LT()
    assert empty == LT()
    assert empty != LT(0, "f32")
    assert isinstance(hash(empty), int)


VARIANTS = [
    LT(0, "f32", [2, 3], "strided"),
    LT(1, "f32", [2, 3], "strided"),
    LT(0, "bf16", [2, 3], "strided"),
    LT(0, "f32", [3, 2], "strided"),
    LT(0, "f32", [2, 3, 1], "strided"),
    LT(0, "f32", [2, 3], [1, 2]),
    LT(0, "f32", [2, 3], "any"),
    LT(0, "f32", [2, 3], "strided", "constant"),
    LT(0, "f32", [2, None], "any"),
    LT(0, "f32", [], "strided"),
    LT(0, "f32", 2, "strided"),
    LT(0, "f32"),
]


@pytest.mark.parametrize("index", range(len(VARIANTS)))
def test_equality_and_hash_tell_every_difference(index):
    lt = VARIANTS[index]
    assert [lt == other for other in VARIANTS] == [i == index for i in range(len(VARIANTS))]
    assert lt == LT(lt)
    assert hash(lt) == hash(LT(lt))
    assert lt != repr(lt)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("lt", VARIANTS)
def test_pickling_keeps_everything(lt, protocol):
    again = pickle.loads(pickle.dumps(lt, protocol))
    assert again == lt
    assert repr(again) == repr(lt)


@pytest.mark.parametrize("lt", VARIANTS)
def test_copying_keeps_everything(lt):
    assert copy.copy(lt) == copy.deepcopy(lt) == lt


def test_a_pickle_travels_to_another_process():
    state = pickle.dumps(VARIANTS[5])
    done = python(f"import onednn_graph_py, pickle; print(pickle.loads({state!r}))")
    assert done.stdout.strip() == repr(VARIANTS[5])


def test_is_equal_is_onednns_own_comparison():
    lt = LT(0, "f32", [2, 3], "strided")
    assert lt.is_equal(LT(0, "f32", [2, 3], [3, 1]))
    assert not lt.is_equal(LT(0, "f32", [2, 3], [1, 2]))


def test_a_logical_tensor_is_immutable():
    lt = LT(0, "f32", [2, 3], "strided")
    lt.get_dims().append(7)
    assert lt.get_dims() == [2, 3]
    with pytest.raises(AttributeError):
        lt.id = 3
