"""`release_constants`: what oneDNN reordered is given back, and nothing that is read ever is."""

import contextlib
import copy
import gc
import pickle
import threading
import warnings

import numpy as np
import pytest
from graphs import OWN_BLOCKS, in_threads, python, random, unsanitized_memory

import onednn_graph_py as og
from onednn_graph_py import _core
from onednn_graph_py.model.building.constant_arrays import aligned_copy
from onednn_graph_py.model.running import releasing
from onednn_graph_py.tools.selftest import FAMILIES

X = random(1, 64, 14, 14, seed=1)
WEIGHTS = random(64, 64, 3, 3, seed=2)
FORMATS = {"data_format": "NCX", "weights_format": "OIX"}


def convolution(x, weights):
    """On every CPU oneDNN reorders f32 weights of such convolutions."""
    return x.convolution(
        weights, strides=[1, 1], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1], **FORMATS
    )


def built(shape=X.shape, weights=WEIGHTS):
    b = og.GraphBuilder()
    x = b.input(shape, name="x")
    b.output(convolution(x, b.constant(weights, name="weights")).relu())
    return b


def called(b, *inputs, **options):
    """Compile a builder, and call the model; return it and the result."""
    model = b.compile(**options)
    return model, model(*(inputs or (X,)))


def test_the_memory_is_given_back_and_results_stay_equal_to_the_bit():
    model, before = called(built())
    address = model.builder.constants[0].data.ctypes.data
    counted = model.stats().memory_bytes
    released = model.release_constants()
    assert released >= WEIGHTS.nbytes
    assert model.stats().memory_bytes == counted - WEIGHTS.nbytes
    for _ in range(3):
        np.testing.assert_array_equal(model(X), before)
    lt = og.logical_tensor(0, "f32", WEIGHTS.shape, "strided")
    with pytest.raises(og.InvalidArgumentsError, match="not mapped memory"):
        og.tensor(lt, og.engine("cpu", 0), address)


def test_a_second_release_does_nothing():
    model, before = called(built())
    assert model.release_constants() > 0
    assert model.release_constants() == 0
    np.testing.assert_array_equal(model(X), before)


def test_a_model_that_was_not_called_yet_reorders_first():
    model = built().compile()
    assert model.release_constants() > 0
    np.testing.assert_array_equal(model(X), called(built())[1])


def test_what_was_cleared_from_the_cache_is_reordered_first():
    model, before = called(built())
    og.clear_caches()
    assert model.release_constants() > 0
    np.testing.assert_array_equal(model(X), before)


RESIDENT = """
import numpy as np
import onednn_graph_py as og

H, ROWS = 768, (16, 32, 48, 64)
rng = np.random.default_rng(0)

def resident():
    with open("/proc/self/status") as f:
        return next(int(l.split()[1]) for l in f if l.startswith("VmRSS")) * 1024

def linear(v, to):
    return v @ rng.standard_normal((v.shape[-1], to)).astype(np.float32) * 0.03 + np.ones(to, "f")

def heads(v):
    return v.static_reshape(shape=[1, -1, 12, 64], special_zero=False).static_transpose(
        order=[0, 2, 1, 3]
    )

b = og.GraphBuilder()
v = b.input((1, -1, H))
for _ in range(2):
    q, k, u = (heads(linear(v, H)) for _ in range(3))
    a = b.matmul((b.matmul(q, k, transpose_b=True) * 0.125).softmax(axis=-1), u)
    a = a.static_transpose(order=[0, 2, 1, 3])
    v = linear(a.static_reshape(shape=[1, -1, H], special_zero=False), H) + v
    v = v.layer_norm(np.ones(H, "f"), np.zeros(H, "f"), keep_stats=False)
    v = linear(linear(v, 4 * H).gelu(), H) + v
b.output(v)
model = b.compile()
xs = [rng.standard_normal((1, rows, H)).astype(np.float32) for rows in ROWS]
before = [model(x) for x in xs]
start = resident()
plain = model.stats().memory_bytes
released = model.release_constants()
end = resident()
print(start >> 20, end >> 20, released >> 20)
assert 0 < released < 60 << 20, released
assert model.stats().memory_bytes <= plain - 0.99 * released
assert abs(start - end - released) < 0.1 * released + (4 << 20), (start, end, released)
for x, y in zip(xs, before):
    np.testing.assert_array_equal(model(x), y)
"""


@unsanitized_memory
def test_resident_memory_falls_by_what_it_returns():
    python(RESIDENT, env=OWN_BLOCKS)


def test_what_oneDNN_reads_at_each_call_stays():
    """The cache is too small for these weights, so oneDNN reorders them anew at each call."""
    python("""
        import numpy as np, onednn_graph_py as og
        og.set_constant_tensor_cache_capacity("cpu", 1)
        weights = np.random.default_rng(0).standard_normal((256, 256, 3, 3)).astype(np.float32)
        b = og.GraphBuilder()
        x = b.input((1, 256, 14, 14))
        b.output(x.convolution(weights, strides=[1, 1], pads_begin=[1, 1], pads_end=[1, 1],
                               dilations=[1, 1], data_format="NCX", weights_format="OIX"))
        model, x = b.compile(), np.ones((1, 256, 14, 14), np.float32)
        before = model(x)
        assert model.release_constants() == 0
        np.testing.assert_array_equal(model(x), before)
        np.testing.assert_array_equal(model.builder.constants[0].data, weights)
        og.set_constant_tensor_cache_capacity("cpu", 2)  # nothing is held
        np.testing.assert_array_equal(model(x), before)
    """)


def test_pages_tell_whether_anybody_read_them():
    values = random(512, 512)
    array = aligned_copy(values)
    place = _core._constant_place(array)
    place.watch()
    assert not place.were_read()
    assert array[300, 7] == values[300, 7]
    assert place.were_read()
    place.keep()
    np.testing.assert_array_equal(array, values)
    with pytest.raises(og.InvalidArgumentsError, match="array still uses the memory"):
        place.give_back(_core._constant_cache_hold("m"))
    assert not _core._is_constant_memory(values)
    del array
    place.give_back(_core._constant_cache_hold("m"))
    for again in (lambda: place.give_back(_core._constant_cache_hold("m")), place.array):
        with pytest.raises(og.InvalidArgumentsError, match="memory was given back"):
            again()


def test_operands_that_are_no_weights_stay():
    b = og.GraphBuilder()
    mask, other = random(1, 64, 14, 14, seed=3) > 0, random(1, 64, 14, 14, seed=4)
    b.output(b.select(b.constant(mask), b.input(X.shape), b.constant(other)))
    b.output(b.input(X.shape) + b.constant(other))
    model, before = called(b, X, X)
    assert model.release_constants() == 0
    for got, wanted in zip(model(X, X), before, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_constants_that_are_read_in_numpy_or_returned_stay():
    b = og.GraphBuilder()
    weights = b.constant(WEIGHTS)
    b.output(convolution(b.input(X.shape), weights), weights)
    model, before = called(b)
    assert model.release_constants() == 0
    np.testing.assert_array_equal(model(X)[1], WEIGHTS)
    np.testing.assert_array_equal(model(X)[0], before[0])


def test_small_constants_stay():
    model, before = called(built(weights=WEIGHTS[:16]))
    assert model.release_constants() == 0
    np.testing.assert_array_equal(model(X), before)


def test_int8_weights_are_released():
    rng = np.random.default_rng(0)
    weights = rng.integers(-60, 60, (128, 64, 3, 3)).astype(np.int8)
    x = rng.integers(0, 9, X.shape).astype(np.uint8)
    b = og.GraphBuilder()
    source = og.blocks.dequantize(b.input(X.shape, "u8"), 0.1)
    b.output(convolution(source, og.blocks.dequantize(b.constant(weights), 0.5)))
    model, before = called(b, x)
    assert model.release_constants() >= weights.nbytes
    np.testing.assert_array_equal(model(x), before)


def test_what_folding_made_and_what_it_was_made_of_are_released():
    b = og.GraphBuilder()
    weights = b.constant(np.ascontiguousarray(WEIGHTS.transpose(3, 2, 1, 0)), name="backwards")
    b.output(convolution(b.input(X.shape), weights.static_transpose(order=[3, 2, 1, 0])))
    model, before = called(b)
    counted = model.stats().memory_bytes
    if [s.implementation for s in model.steps()].count("constant"):
        assert model.release_constants() >= 2 * WEIGHTS.nbytes
        assert model.stats().memory_bytes == counted - 2 * WEIGHTS.nbytes
    else:
        assert model.release_constants() >= WEIGHTS.nbytes
    np.testing.assert_array_equal(model(X), before)


def test_random_graphs_give_the_same_bits_afterwards(monkeypatch):
    """On other inputs than those on which the steps ran to find out what they read."""
    monkeypatch.setattr(releasing, "_SMALLEST", 1)
    released = 0
    for family in ("chains", "int8", "blocks"):
        for seed in range(12):
            drawn = FAMILIES[family](seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of graphs that run in parts
                # One of unknown dims compiles where it is bound.
                model = drawn.builder.compile()
                bound = model.bind(drawn.calls[0])
            bound()
            before = [y.tobytes() for y in bound.outputs]
            released += model.release_constants() > 0
            bound()
            assert [y.tobytes() for y in bound.outputs] == before, (family, seed)
    assert released >= 5


# -- what needs the elements afterwards

NEEDS = {
    "pickle": lambda m, path: pickle.dumps(m),
    "pickled builder": lambda m, path: pickle.dumps(m.builder),
    "deepcopy": lambda m, path: copy.deepcopy(m),
    "save": lambda m, path: m.save(path / "g.json"),
    "save as a model": lambda m, path: m.save(path / "g.og"),
    "verify": lambda m, path: m.verify(X),
    "to_python": lambda m, path: m.builder.to_python(),
    "to_cpp": lambda m, path: m.builder.to_cpp(),
    "compile": lambda m, path: m.builder.compile(),
    "the array": lambda m, path: np.asarray(m.builder.constants[0].data),
    "an element": lambda m, path: m.builder.constants[0].data[0],
    "arithmetic": lambda m, path: 2 * m.builder.constants[0].data,
    "a method": lambda m, path: m.builder.constants[0].data.sum(),
    "len": lambda m, path: len(m.builder.constants[0].data),
    "DLPack": lambda m, path: np.from_dlpack(m.builder.constants[0].data),
    "constant of it": lambda m, path: og.GraphBuilder().constant(m.builder.constants[0].data),
    "a tensor": lambda m, path: og.tensor(
        m.builder.constants[0].logical_tensor, m.engine, m.builder.constants[0].data
    ),
}


@pytest.mark.parametrize("what", NEEDS)
def test_what_needs_the_elements_says_what_to_do(what, tmp_path):
    model, before = called(built(), name="net")
    assert model.release_constants() > 0
    with pytest.raises(og.InvalidArgumentsError, match=r"'weights' was released .* 'net'.*before"):
        NEEDS[what](model, tmp_path)
    np.testing.assert_array_equal(model(X), before)


def test_what_needs_no_elements_goes_on(tmp_path):
    b = built()
    model, _ = called(b)
    assert model.release_constants() > 0
    assert "released" in repr(b.constants[0].data)
    assert b.constants[0].data.shape == WEIGHTS.shape
    assert b.constants[0].data.nbytes == WEIGHTS.nbytes
    model.diagram()
    model.steps()
    og.assert_fused(model)
    model.bind([X])()
    with og.profile() as p:
        model(X)
    assert p.steps
    b.save(tmp_path / "g.json")  # the file has no constants


def test_new_shapes_are_refused_and_old_ones_go_on():
    model = built((-1, 64, 14, 14)).compile(name="net")
    xs = [np.concatenate([X] * n) for n in (1, 2)]
    before = [model(x) for x in xs]
    assert model.release_constants() > 0
    with pytest.raises(og.InvalidArgumentsError, match=r"'weights' .*'net'.* new shapes 3x64"):
        model(np.concatenate([X] * 3))
    for x, y in zip(xs, before, strict=True):
        np.testing.assert_array_equal(model(x), y)


def test_a_model_that_is_not_compiled_says_so():
    model = built((-1, 64, 14, 14)).compile()
    with pytest.raises(og.InvalidArgumentsError, match="needs a compiled model; call it"):
        model.release_constants()
    np.testing.assert_array_equal(model(X), called(built())[1])


# -- what others hold

HOLDS = {
    "array": lambda v: v.data,
    "view": lambda v: v.data[:, 3:5].T,
    "memoryview": lambda v: memoryview(v.data),
    "base": lambda v: v.data.base,
    "tensor": lambda v: og.tensor(v.logical_tensor, og.engine("cpu", 0), v.data),
    "DLPack": lambda v: np.from_dlpack(og.tensor(v.logical_tensor, og.engine("cpu", 0), v.data)),
}


@pytest.mark.parametrize("how", HOLDS)
def test_constants_that_somebody_holds_stay(how):
    b = built()
    model, before = called(b)
    held = HOLDS[how](b.constants[0])
    assert model.release_constants() == 0
    np.testing.assert_array_equal(b.constants[0].data, WEIGHTS)
    assert not b.constants[0].data.flags.writeable
    np.testing.assert_array_equal(model(X), before)
    # Nothing holds the cache: the memory is read again.
    og.set_constant_tensor_cache_capacity("cpu", og.cache_info().constant_capacity)
    np.testing.assert_array_equal(model(X), before)
    np.testing.assert_array_equal(model.builder.compile()(X), before)
    del held
    gc.collect()
    assert model.release_constants() > 0
    np.testing.assert_array_equal(model(X), before)


def test_constants_that_another_model_reads_stay():
    b = built()
    model, before = called(b)
    other = b.compile()
    np.testing.assert_array_equal(other(X), before)
    assert model.release_constants() == 0
    np.testing.assert_array_equal(other(X), before)
    del other
    gc.collect()
    assert model.release_constants() > 0
    np.testing.assert_array_equal(model(X), before)


def test_shapes_that_a_model_dropped_but_that_are_bound_keep_constants():
    model = built((-1, 64, 14, 14)).compile(max_shapes=1)
    two = np.concatenate([X, X])
    bound = model.bind([two])
    model(X)
    assert model.stats().shapes == 1
    assert model.release_constants() == 0
    bound()
    np.testing.assert_array_equal(bound.outputs[0][:1], model(X))


def test_the_builder_may_be_gone():
    model, before = called(built())
    gc.collect()
    assert model.release_constants() > 0
    np.testing.assert_array_equal(model(X), before)


# -- oneDNN's cache


def test_the_cache_cannot_be_emptied_while_a_released_model_lives():
    model, before = called(built(), name="net")
    capacity = og.cache_info().constant_capacity
    assert model.release_constants() > 0
    for empty in (
        lambda: og.set_constant_tensor_cache_capacity("cpu", capacity),
        lambda: og.set_constant_tensor_cache_capacity("cpu", 0),
        lambda: og.set_constant_tensor_cache(0),
    ):
        with pytest.raises(og.InvalidArgumentsError, match=r"'net' gave back .*drop the model"):
            empty()
    og.clear_caches()
    assert og.cache_info().constant_capacity == capacity
    np.testing.assert_array_equal(model(X), before)
    bound = model.bind([X])
    del model
    gc.collect()
    with pytest.raises(og.InvalidArgumentsError, match="'net'"):  # the bound call needs it too
        og.set_constant_tensor_cache_capacity("cpu", capacity)
    bound()
    np.testing.assert_array_equal(bound.outputs[0], before)
    del bound
    gc.collect()
    og.set_constant_tensor_cache_capacity("cpu", capacity)


def test_dropped_models_do_not_empty_the_cache_of_a_released_one():
    python("""
        import numpy as np, onednn_graph_py as og
        og.set_constant_tensor_cache_capacity("cpu", 16)
        rng = np.random.default_rng(0)
        x = np.ones((1, 256, 14, 14), np.float32)

        def made():
            b = og.GraphBuilder()
            weights = rng.standard_normal((256, 256, 3, 3)).astype(np.float32)
            b.output(b.input(x.shape).convolution(weights, strides=[1, 1], pads_begin=[1, 1],
                pads_end=[1, 1], dilations=[1, 1], data_format="NCX", weights_format="OIX"))
            model = b.compile()
            return model, model(x), weights

        kept, before, _ = made()
        assert kept.release_constants() > 0
        for _ in range(12):  # of 2.25 MB each
            made()
        np.testing.assert_array_equal(kept(x), before)
    """)


@contextlib.contextmanager
def calling(model, right, threads=3):
    """Call a model in threads all the while; fail for a wrong result."""
    failures, done = [], threading.Event()

    def work():
        try:
            while not done.is_set():
                if not np.array_equal(model(X), right):
                    failures.append("wrong")
        except Exception as e:
            failures.append(repr(e))

    running = [threading.Thread(target=work) for _ in range(threads)]
    for t in running:
        t.start()
    try:
        yield
    finally:
        done.set()
        for t in running:
            t.join()
    assert not failures, failures[:3]


def test_other_threads_may_call_the_model_meanwhile():
    for _ in range(10):
        model, right = called(built((-1, 64, 14, 14)))
        with calling(model, right):
            assert model.release_constants() > 0
            for _ in range(5):
                np.testing.assert_array_equal(model(X), right)


def test_first_calls_may_run_meanwhile():
    """oneDNN reorders the constants in one thread while another one releases them."""
    right = called(built())[1]
    for _ in range(20):
        model = built().compile()
        with calling(model, right, threads=2):
            assert model.release_constants() > 0
        np.testing.assert_array_equal(model(X), right)


def test_several_threads_may_release_and_empty_at_once():
    def work(_):
        for _ in range(5):
            model, right = called(built())
            model.release_constants()
            with contextlib.suppress(og.InvalidArgumentsError):
                og.set_constant_tensor_cache_capacity("cpu", 4096)
            og.clear_caches()
            np.testing.assert_array_equal(model(X), right)

    in_threads(3, work)
