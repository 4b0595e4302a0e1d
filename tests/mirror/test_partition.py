"""Partitions and their compilation."""

import gc

import numpy as np
import pytest
from graphs import graph_of, matmul_relu_model, random, relu_op

import onednn_graph_py as og

LT = og.logical_tensor


@pytest.fixture
def engine():
    return og.engine("cpu", 0)


@pytest.fixture
def relu():
    (part,) = graph_of(relu_op()).get_partitions()
    return part


SRC = LT(0, "f32", [4, 8], "strided")
DST = LT(1, "f32", [4, 8], "strided")


def test_a_fused_partition_tells_its_ops_and_ports():
    part = matmul_relu_model().partition
    assert part
    assert part.is_supported()
    assert part.get_ops_num() == 2
    assert sorted(part.get_ops()) == [0, 1]
    assert sorted(lt.get_id() for lt in part.get_input_ports()) == [0, 1]
    assert [lt.get_id() for lt in part.get_output_ports()] == [3]
    assert part.get_engine_kind() is og.engine.cpu
    assert part.get() > 0


def test_the_ports_are_the_graphs_logical_tensors(relu):
    assert relu.get_input_ports() == [SRC]
    assert relu.get_output_ports() == [DST]


def test_a_tensor_that_feeds_two_ports_comes_twice():
    add = og.op(0, "Add", [SRC, SRC], [DST])
    (part,) = graph_of(add).get_partitions()
    assert [lt.get_id() for lt in part.get_input_ports()] == [0, 0]


@pytest.mark.parametrize("inputs", [[SRC, SRC], [SRC]])
def test_a_tensor_that_feeds_two_ports_is_given_once_or_twice(engine, inputs):
    (part,) = graph_of(og.op(0, "Add", [SRC, SRC], [DST])).get_partitions()
    compiled = part.compile(inputs, [DST], engine)
    x, y, stream = random(4, 8), np.empty((4, 8), np.float32), og.stream(engine)
    compiled.execute(
        stream, [og.tensor(SRC, engine, x) for _ in inputs], [og.tensor(DST, engine, y)]
    )
    stream.wait()
    assert (y == x + x).all()


def test_partition_ids_differ():
    ids = {p.get_id() for _ in range(3) for p in graph_of(relu_op()).get_partitions()}
    assert len(ids) == 3


def test_the_repr_names_the_ops(relu):
    assert repr(relu) == f"partition {relu.get_id()} (ReLU 'relu0') on cpu"


def test_a_partition_outlives_its_graph_and_ops(engine):
    (part,) = graph_of(relu_op()).get_partitions()
    gc.collect()
    assert part.get_input_ports() == [SRC]
    assert part.compile([SRC], [DST], engine)


def test_a_partition_of_one_op_needs_no_graph(engine):
    part = og.partition(relu_op(), "cpu")
    assert part.get_ops() == [0]
    assert part.compile([SRC], [DST], engine)


def test_an_empty_partition_is_false():
    assert not og.partition()
    assert repr(og.partition()) == "partition()"


def test_partitions_are_equal_only_to_themselves(relu):
    (other,) = graph_of(relu_op()).get_partitions()
    assert relu == relu
    assert relu != other
    assert relu != 3
    assert len({relu, other, relu}) == 2


def test_an_unsupported_partition_says_so():
    g = graph_of(og.op(0, "Wildcard", [SRC], [DST], "unknown"))
    (part,) = g.get_partitions()
    assert not part.is_supported()
    assert "unsupported" in repr(part)


def test_unknown_dims_of_a_graph_are_fixed_at_compile(engine):
    src, dst = LT(0, "f32", [None, 8], "strided"), LT(1, "f32", [None, 8], "strided")
    (part,) = graph_of(og.op(0, "ReLU", [src], [dst])).get_partitions()
    for rows in (1, 4, 7):
        given = LT(0, "f32", [rows, 8], "strided")
        compiled = part.compile([given], [dst], engine)
        assert compiled.query_logical_tensor(1).get_dims() == [rows, 8]
        assert compiled.query_logical_tensor(1).get_strides() == [8, 1]


def test_outputs_of_unknown_rank_are_inferred(engine):
    src, dst = LT(0, "f32", [4, 8], "strided"), LT(1, "f32", "strided")
    (part,) = graph_of(og.op(0, "ReLU", [src], [dst])).get_partitions()
    compiled = part.compile([src], [LT(1, "f32", "any")], engine)
    assert compiled.query_logical_tensor(1).get_dims() == [4, 8]


def test_one_partition_compiles_for_several_engines(relu):
    for _ in range(2):
        engine = og.engine("cpu", 0)
        x, y, stream = random(4, 8), np.empty((4, 8), np.float32), og.stream(engine)
        relu.compile([SRC], [DST], engine).execute(
            stream, [og.tensor(SRC, engine, x)], [og.tensor(DST, engine, y)]
        )
        stream.wait()
        assert (y == np.maximum(x, 0)).all()
