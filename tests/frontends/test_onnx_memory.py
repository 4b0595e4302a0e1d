"""`memory_limit` of ONNX models: one for all sizes, also where each has a program of its own."""

import pickle
import re

import numpy as np
import pytest

import onednn_graph_py as og

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
front = pytest.importorskip("onednn_graph_py.onnx")
parser = pytest.importorskip("onnx.parser")

WEIGHTS = {"w": (24, 40), "v": (40, 24)}
CONSTANTS = 2 * 24 * 40 * 4


def model_of(**options):
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[n,24] x) => (float[n,24] y)
        {c = MatMul(x, w) d = CumSum(c, axis) y = MatMul(d, v)}"""
    proto = parser.parse_model(text)
    for name, shape in WEIGHTS.items():
        numbers = np.random.default_rng(ord(name)).uniform(-1, 1, shape).astype(np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(numbers, name))
    axis = onnx.numpy_helper.from_array(np.int64([1]).reshape(()), "axis")
    proto.graph.initializer.append(axis)
    return front.load(proto, islands="fewest", **options)


def rows(count):
    return np.random.default_rng(count).uniform(-1, 1, (count, 24)).astype(np.float32)


def models(loaded):
    return {id(e.program.model): e.program.model for e in loaded._required.entries.values()}


def arena(loaded, count):
    (model,) = models(loaded).values()
    return model.specialization(((count, 24),)).plan.arena_bytes


@pytest.fixture(scope="module")
def free():
    loaded = model_of()
    for count in (50, 70, 300):
        loaded(rows(count))
    return loaded


def test_a_limit_below_the_weights_is_refused_when_the_model_is_loaded():
    with pytest.raises(og.InvalidArgumentsError, match=r"is 7,000 bytes.*take 7,68\d"):
        model_of(memory_limit=7000)


@pytest.mark.parametrize("limit", [0, -1, True, "1 GB", 2.5])
def test_a_limit_is_a_whole_number(limit):
    with pytest.raises(og.InvalidArgumentsError, match="memory_limit must be a whole number"):
        model_of(memory_limit=limit)


def test_a_size_that_does_not_fit_raises_and_others_go_on(free):
    limit = CONSTANTS + arena(free, 70) + 100
    loaded = model_of(memory_limit=limit)
    np.testing.assert_array_equal(loaded(rows(50)), free(rows(50)))
    text = f"memory_limit is {limit:,} bytes; a call of 300x24 needs {arena(free, 300):,}"
    with pytest.raises(og.OutOfMemoryError, match=re.escape(text)):
        loaded(rows(300))
    for count in (50, 70, 50):
        np.testing.assert_array_equal(loaded(rows(count)), free(rows(count)))
    again = pickle.loads(pickle.dumps(loaded))
    np.testing.assert_array_equal(again(rows(70)), free(rows(70)))
    with pytest.raises(og.OutOfMemoryError, match=re.escape(text)):
        again(rows(300))


def test_programs_of_single_sizes_make_room_for_each_other_and_share_weights(free):
    counts = 50, 300, 70, 50, 300
    loaded = model_of(memory_limit=CONSTANTS + arena(free, 300) + 500)
    loaded._required.failures += ["each set of dims", "gets its own"]
    for count in counts:
        np.testing.assert_array_equal(loaded(rows(count)), free(rows(count)))
        alive = {m.sizes[0][0][0] for m in models(loaded).values() if m.sizes}
        assert count in alive
        assert sum(arena(free, n) for n in alive) <= arena(free, 300) + 500
    assert len(models(loaded)) == len(set(counts))


def test_a_size_of_0_takes_nothing_and_goes_into_files(free, tmp_path):
    loaded = model_of(memory_limit=CONSTANTS + arena(free, 50) + 100)
    loaded(rows(50))
    assert loaded(rows(0)).shape == (0, 24)
    loaded.save(tmp_path / "m.og")
    again = og.load(tmp_path / "m.og")
    assert again(rows(0)).shape == (0, 24)
    np.testing.assert_array_equal(again(rows(50)), free(rows(50)))
    with pytest.raises(og.OutOfMemoryError, match="a call of 300x24"):
        again(rows(300))
