"""Compiled partitions: what they tell."""

import gc

import numpy as np
import pytest
from graphs import before, matmul_relu_model, random, relu_model, since, softmax_model

import onednn_graph_py as og

LT = og.logical_tensor


def test_inputs_and_outputs_come_in_the_order_that_execute_takes():
    compiled = matmul_relu_model().compiled
    assert compiled
    assert [lt.get_id() for lt in compiled.get_inputs()] == [0, 1]
    assert [lt.get_id() for lt in compiled.get_outputs()] == [3]
    assert compiled.get() > 0


def test_query_gives_the_final_logical_tensor():
    compiled = relu_model(dst=LT(1, "f32", [4, 8], "any")).compiled
    lt = compiled.query_logical_tensor(1)
    assert lt.get_layout_type() is LT.strided
    assert sorted(lt.get_strides()) == [1, 8]
    assert lt == compiled.get_outputs()[0]


def test_query_of_an_unknown_id_is_refused():
    compiled = relu_model().compiled
    for tid in (2, 7, 2**62):
        with pytest.raises(og.InvalidArgumentsError, match=f"{tid} is neither an input nor an out"):
            compiled.query_logical_tensor(tid)


@pytest.mark.parametrize("tid", [None, "0", 1.0, True])
def test_query_of_something_else_than_an_id_is_a_type_error(tid):
    with pytest.raises(TypeError):
        relu_model().compiled.query_logical_tensor(tid)


def test_the_repr_names_the_partition_and_its_tensors():
    model = relu_model()
    assert repr(model.compiled) == (
        f"compiled_partition(partition {model.partition.get_id()} (ReLU 'relu'), "
        "inputs [0: f32 4x8], outputs [1: f32 4x8])"
    )


def test_in_place_ports_are_pairs_of_an_input_and_an_output():
    assert softmax_model().compiled.get_inplace_ports() == [(0, 1)]
    assert matmul_relu_model().compiled.get_inplace_ports() == []


def test_an_empty_compiled_partition_is_false_and_raises_when_used():
    empty = og.compiled_partition()
    assert not empty
    assert repr(empty) == "compiled_partition()"
    for name in [
        "get_inplace_ports",
        "get_scratchpad_logical_tensor",
        "get_inputs",
        "get_outputs",
        "get",
    ]:
        with pytest.raises(og.InvalidArgumentsError, match="empty"):
            getattr(empty, name)()
    stream = og.stream(og.engine("cpu", 0))
    for use in (
        lambda: empty.query_logical_tensor(0),
        lambda: empty.execute(stream, [], []),
        lambda: empty.bind(stream, [], []),
    ):
        with pytest.raises(og.InvalidArgumentsError, match="empty"):
            use()


def test_it_outlives_its_partition_and_engine_names():
    model = relu_model()
    x, y = random(4, 8), np.empty((4, 8), np.float32)
    tensors = model.tensors([x], [y])
    compiled, stream = model.compiled, model.stream
    del model
    gc.collect()
    compiled.execute(stream, *tensors)
    stream.wait()
    assert (y == np.maximum(x, 0)).all()


@before(3, 13)
def test_a_scratchpad_needs_a_newer_onednn():
    model = relu_model()
    with pytest.raises(og.UnimplementedError, match=r"needs oneDNN >= 3\.13"):
        model.compiled.get_scratchpad_logical_tensor()
    tensors = model.tensors([random(4, 8)], [np.empty((4, 8), np.float32)])
    for call in (model.compiled.execute, model.compiled.bind):
        with pytest.raises(og.UnimplementedError, match=r"scratchpad needs oneDNN >= 3\.13"):
            call(model.stream, *tensors, tensors[0][0])


@since(3, 13)
def test_a_scratchpad_of_the_size_asked_for_is_used():
    model = matmul_relu_model(64, 512, 64)
    lt = model.compiled.get_scratchpad_logical_tensor()
    assert lt.get_data_type() is LT.u8
    a, b = random(64, 512), random(64, 512, seed=1)
    results = []
    for given in (None, "scratchpad"):
        y = np.full((64, 64), -1, np.float32)
        scratchpad = og.tensor(lt, model.engine) if given and lt.get_mem_size() else None
        model.compiled.execute(model.stream, *model.tensors([a, b], [y]), scratchpad)
        model.stream.wait()
        results.append(y)
    assert (results[0] == results[1]).all()


@since(3, 13)
@pytest.mark.parametrize("wrong", [1, "scratchpad", b"123"])
def test_a_scratchpad_of_another_type_is_a_type_error(wrong):
    model = relu_model()
    tensors = model.tensors([random(4, 8)], [np.empty((4, 8), np.float32)])
    with pytest.raises(TypeError, match="scratchpad must be a tensor"):
        model.compiled.execute(model.stream, *tensors, wrong)


@since(3, 13)
def test_a_scratchpad_that_overlaps_is_refused():
    model = relu_model()
    x, y = random(4, 8), np.empty((4, 8), np.float32)
    tensors = model.tensors([x], [y])
    lt = LT(9, "f32", [4, 8], "strided")
    for array, what in ((x, "input"), (y, "output")):
        scratchpad = og.tensor(lt, model.engine, array)
        with pytest.raises(og.InvalidArgumentsError, match=f"scratchpad overlaps {what}"):
            model.compiled.execute(model.stream, *tensors, scratchpad)


@since(3, 13)
def test_an_empty_scratchpad_tensor_is_refused():
    model = relu_model()
    tensors = model.tensors([random(4, 8)], [np.empty((4, 8), np.float32)])
    with pytest.raises(og.InvalidArgumentsError, match="tensor is empty"):
        model.compiled.execute(model.stream, *tensors, og.tensor())
