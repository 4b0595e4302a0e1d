"""Engines."""

import copy
import gc

import pytest

import onednn_graph_py as og


@pytest.fixture
def engine():
    return og.engine("cpu", 0)


@pytest.mark.parametrize("kind", ["cpu", og.engine.cpu, og.engine.kind.cpu])
def test_an_engine_takes_its_kind_as_enumerator_or_name(kind):
    engine = og.engine(kind, 0)
    assert engine.get_kind() is og.engine.kind.cpu
    assert engine


def test_there_is_one_cpu_engine_or_more():
    assert og.engine.get_count("cpu") >= 1


def test_an_engine_kind_that_this_machine_lacks_is_refused():
    count = og.engine.get_count("gpu")
    with pytest.raises(og.InvalidArgumentsError, match=rf"engine\(gpu, {count}\)"):
        og.engine("gpu", count)


def test_an_empty_engine_is_false():
    assert not og.engine()
    assert repr(og.engine()) == "engine()"


def test_engines_are_equal_only_to_themselves(engine):
    other = og.engine("cpu", 0)
    assert engine == engine
    assert engine != other
    assert engine != "cpu"
    assert og.engine() == og.engine()
    assert hash(engine) == hash(og.stream(engine).get_engine())
    assert len({engine, other, engine}) == 2


def test_the_repr_of_an_engine_tells_kind_and_index(engine):
    assert repr(engine) == "engine(cpu, 0)"


def test_the_handle_of_an_engine_is_an_address(engine):
    assert engine.get() > 0
    assert engine.get() == engine.get()


def test_an_engine_outlives_its_name_as_long_as_something_uses_it(engine):
    handle = engine.get()
    stream = og.stream(engine)
    del engine
    gc.collect()
    assert stream.get_engine().get() == handle


def test_a_copy_is_another_handle_as_in_cpp(engine):
    lt = og.logical_tensor(0, "f32", [2], "strided")
    for handle in (engine, og.stream(engine), og.graph("cpu"), og.tensor(lt, engine)):
        assert copy.copy(handle) is handle
        with pytest.raises(TypeError, match=f"cannot pickle '{type(handle).__name__}' object"):
            copy.deepcopy(handle)
