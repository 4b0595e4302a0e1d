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


def test_an_empty_stream_is_false():
    assert not og.stream()
    assert repr(og.stream()) == "stream()"


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
