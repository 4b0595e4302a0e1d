"""Streams."""

import gc

import numpy as np
import pytest
from graphs import random, relu_model

import onednn_graph_py as og


@pytest.fixture
def engine():
    return og.engine("cpu", 0)


def test_a_stream_gives_back_the_engine_object_it_was_made_with(engine):
    assert og.stream(engine).get_engine() is engine


def test_wait_returns_the_stream(engine):
    stream = og.stream(engine)
    assert stream.wait() is stream


@pytest.mark.parametrize("flags", ["in_order", "default_flags", og.stream.flags.in_order])
def test_flags_are_taken_as_enumerator_or_name(engine, flags):
    assert og.stream(engine, flags).wait()


def test_flags_combine():
    both = og.stream.flags.in_order | og.stream.flags.out_of_order
    assert both.value == og.stream.in_order.value | og.stream.out_of_order.value
    assert str(both) == "in_order|out_of_order"


@pytest.mark.parametrize("wrong", [None, "cpu", 0])
def test_a_stream_of_something_else_than_an_engine_is_a_type_error(wrong):
    with pytest.raises(TypeError):
        og.stream(wrong)


def test_an_empty_stream_is_false_and_raises_when_used():
    empty = og.stream()
    assert not empty
    assert repr(empty) == "stream()"
    for use in (empty.wait, empty.get, empty.get_engine):
        with pytest.raises(og.InvalidArgumentsError, match="empty"):
            use()


def test_executing_on_an_empty_stream_is_refused():
    model = relu_model()
    tensors = model.tensors([random(4, 8)], [np.empty((4, 8), np.float32)])
    with pytest.raises(og.InvalidArgumentsError, match="stream is empty"):
        model.compiled.execute(og.stream(), *tensors)


def test_executing_on_a_stream_of_another_engine_is_refused():
    model = relu_model()
    tensors = model.tensors([random(4, 8)], [np.empty((4, 8), np.float32)])
    with pytest.raises(og.InvalidArgumentsError, match="not the same object"):
        model.compiled.execute(og.stream(og.engine("cpu", 0)), *tensors)


def test_streams_are_equal_only_to_themselves(engine):
    stream, other = og.stream(engine), og.stream(engine)
    assert stream == stream
    assert stream != other
    assert stream != engine
    assert len({stream, other, stream}) == 2


def test_the_repr_of_a_stream_tells_its_engine(engine):
    assert repr(og.stream(engine)) == "stream(engine(cpu, 0))"


def test_a_stream_keeps_its_engine_alive():
    stream = og.stream(og.engine("cpu", 0))
    gc.collect()
    assert stream.wait().get_engine().get_kind() is og.engine.cpu
    assert stream.get() > 0


def test_several_streams_of_one_engine_run_one_partition():
    model = relu_model()
    x = random(4, 8)
    for _ in range(3):
        y = np.empty_like(x)
        stream = og.stream(model.engine)
        model.compiled.execute(stream, *model.tensors([x], [y]))
        stream.wait()
        assert (y == np.maximum(x, 0)).all()
