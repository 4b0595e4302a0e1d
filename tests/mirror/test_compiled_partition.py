"""Compiled partitions: what they tell."""

import gc

import numpy as np
from graphs import matmul_relu_model, random, relu_model, since, softmax_model

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


def test_the_repr_names_the_partition_and_its_tensors():
    model = relu_model()
    assert repr(model.compiled) == (
        f"compiled_partition(partition {model.partition.get_id()} (ReLU 'relu'), "
        "inputs [0: f32 4x8], outputs [1: f32 4x8])"
    )


def test_in_place_ports_are_pairs_of_an_input_and_an_output():
    assert softmax_model().compiled.get_inplace_ports() == [(0, 1)]
    assert matmul_relu_model().compiled.get_inplace_ports() == []


def test_an_empty_compiled_partition_is_false():
    assert not og.compiled_partition()
    assert repr(og.compiled_partition()) == "compiled_partition()"


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
