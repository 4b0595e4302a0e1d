"""Constants used where they lie: files, shared memory, buffers of pickles."""

import gc
import pickle
import resource
import textwrap
from multiprocessing import shared_memory
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from graphs import Counted, python, unsanitized_memory, whole

import onednn_graph_py as og
from onednn_graph_py.machine import current
from onednn_graph_py.model.planning import (
    CompileOptions,
    compiling,
    fates,
    make_plan,
    partition_ids,
)
from onednn_graph_py.model.planning.shared import Shared


def aligned(values, past=0):
    """Return a read-only copy at an address this many bytes past a multiple of 64."""
    memory = np.empty(values.nbytes + 128, np.uint8)
    start = -memory.ctypes.data % 64 + past
    made = memory[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    made[...] = values
    made.flags.writeable = False
    return made


def products(constants, dtype="f32"):
    b = og.GraphBuilder()
    x = b.input((4, 64), dtype, name="x")
    for i, array in enumerate(constants):
        b.output(**{f"y{i}": x @ b.constant(array, copy=False)})
    return b


X = whole(0, 4, 64)


def of_file(tmp_path, *shape):
    whole(1, *shape).tofile(tmp_path / "weights")
    return np.memmap(tmp_path / "weights", np.float32, "r", shape=shape)


def test_a_mapped_file_is_used_where_it_lies_and_kept(tmp_path):
    weights = of_file(tmp_path, 64, 32)
    right = X @ weights
    b = products([weights])
    assert np.shares_memory(b.constants[0].data, weights)
    model = b.compile()
    del b, weights
    gc.collect()
    for _ in range(2):
        np.testing.assert_array_equal(model(X), right)


def test_shared_memory_is_used_where_it_lies():
    memory = shared_memory.SharedMemory(create=True, size=64 * 32 * 4)
    try:
        weights = np.ndarray((64, 32), np.float32, memory.buf)
        weights[...] = whole(1, 64, 32)
        weights.flags.writeable = False
        model = products([weights]).compile()
        assert np.shares_memory(model.builder.constants[0].data, weights)
        np.testing.assert_array_equal(model(X), X @ weights)
        del model, weights
        gc.collect()
    finally:
        memory.close()
        memory.unlink()


def test_neighbours_in_a_file_are_not_confused(tmp_path):
    """oneDNN's hash of an address collides between neighbours; see planning/partition_ids.py."""
    weights = of_file(tmp_path, 300, 64, 32)
    model = products(weights).compile()
    for _ in range(2):
        for y, one in zip(model(X), weights, strict=True):
            np.testing.assert_array_equal(y, X @ one)


def test_addresses_of_the_caller_are_not_hashed(tmp_path, monkeypatch):
    spaced = []

    def partition_of(g, ops):
        spaced.append(partition_ids.partition_of(g, ops).get_id())
        return partition_ids.partition_of(g, ops)

    monkeypatch.setattr(compiling, "partition_of", partition_of)
    b = products(of_file(tmp_path, 3, 64, 32))
    plan = make_plan(b, {b.inputs[0].id: (4, 64)}, CompileOptions())
    assert len(spaced) == 3 and all(i % partition_ids.SPACING == 0 for i in spaced)
    kinds = {
        lt.get_property_type().name for s in plan.running for _, _, lt, _ in plan.arguments(s)[0]
    }
    assert "constant" not in kinds


@pytest.mark.parametrize("kind", ["Add", "Minimum", "Multiply", "Subtract"])
@pytest.mark.parametrize("order", [(1, 5, 3), (4, 1, 6)])
def test_scales_of_one_size_are_not_those_of_another(kind, order):
    """An operand for each sample is fused for one sample only, and scales are cached by id."""
    draw = np.random.default_rng(3)
    w = draw.integers(-64, 65, (33, 17)).astype(np.int8)  # whose sums never saturate
    b = og.GraphBuilder()
    x, z = b.input((-1, 7, 33), "s8"), b.input((-1, 1, 17))
    product = b.dequantize(x, scales=[0.03125], zps=[0]) @ b.dequantize(
        b.constant(w), scales=[0.0625], zps=[0]
    )
    b.output(b.quantize(b.op(kind, product, z), scales=[0.125], zps=[12], dtype="s8"))
    model = b.compile()
    of_numpy = getattr(np, kind.lower())
    for batch in order:
        a = draw.integers(-100, 100, (batch, 7, 33)).astype(np.int8)
        one = whole(batch, batch, 1, 17)
        exact = of_numpy(0.03125 * a @ (0.0625 * w), one)
        right = np.clip(np.rint(exact / 0.125) + 12, -128, 127)
        np.testing.assert_array_equal(model(a, one), right)


def test_constants_in_place_and_copies_mix(tmp_path):
    weights, bias = of_file(tmp_path, 64, 32), whole(2, 32)
    b = og.GraphBuilder()
    x = b.input((4, 64), name="x")
    b.output(b.relu(x @ b.constant(weights, copy=False) + b.constant(bias)))
    model = b.compile()
    for _ in range(2):
        np.testing.assert_array_equal(model(X), np.maximum(X @ weights + bias, 0))


@pytest.mark.parametrize(
    ("biases", "count"), [((2, 3, 4), 1), ((2, 2, 3), 2), ((2, None, 3), 2), ((None,) * 3, 3)]
)
def test_equal_layers_of_weights_in_place_share_what_is_compiled(biases, count):
    """Only where each layer has a constant of its own; packed weights are cached by its address."""
    b = og.GraphBuilder()
    y = b.input((-1, 48), name="x")
    weights = [aligned(whole(i, 48, 48)) for i in range(3)]
    kept = {seed: b.constant(whole(seed, 48)) for seed in biases if seed is not None}
    for array, seed in zip(weights, biases, strict=True):
        zero = b.constant(aligned(np.zeros(48, np.float32)), copy=False)
        y = b.clamp(y @ b.constant(array, copy=False) + kept.get(seed, zero), min=-3, max=3)
    b.output(y)
    model = b.compile()
    for rows in (5, 7, 2):
        right = given = whole(rows, rows, 48)
        for array, seed in zip(weights, biases, strict=True):
            right = np.clip(right @ array + (0 if seed is None else whole(seed, 48)), -3, 3)
        for _ in range(2):
            np.testing.assert_array_equal(model(given), right)
        plan = model.specialization(((rows, 48),)).plan
        assert len({id(step.compiled) for step in plan.running}) == count


@pytest.mark.parametrize("copies", [(False, True), (True, False)])
def test_a_layer_of_copied_weights_has_its_own_beside_one_in_place(copies):
    """With one bias for both, only the address of the copy tells the packed weights apart."""
    b = og.GraphBuilder()
    y = b.input((5, 48), name="x")
    weights, bias = [aligned(whole(i, 48, 48)) for i in range(2)], b.constant(whole(2, 48))
    for array, copy in zip(weights, copies, strict=True):
        y = b.clamp(y @ b.constant(array, copy=copy) + bias, min=-3, max=3)
    b.output(y)
    right = given = whole(3, 5, 48)
    for array in weights:
        right = np.clip(right @ array + whole(2, 48), -3, 3)
    model = b.compile()
    for _ in range(2):
        np.testing.assert_array_equal(model(given), right)


def test_constants_in_place_are_transposed_and_serve_all_shapes(tmp_path):
    weights = of_file(tmp_path, 32, 64)
    b = og.GraphBuilder()
    x = b.input((-1, 64), name="x")
    turned = b.static_transpose(b.constant(weights, copy=False), order=[1, 0])
    b.output(b.matmul(x, turned))
    model = b.compile()
    for rows in (1, 4, 7, 4):
        given = whole(rows, rows, 64)
        np.testing.assert_array_equal(model(given), given @ weights.T)


def test_one_memory_serves_two_models_and_new_values_after_them():
    memory = np.empty(64 * 32 + 16, np.float32)
    start = -memory.ctypes.data % 64 // 4
    values = memory[start : start + 64 * 32].reshape(64, 32)
    shown = values.view()
    shown.flags.writeable = False
    for seed in range(50):
        values[...] = whole(seed, 64, 32)
        first, second = (products([shown]).compile() for _ in range(2))
        np.testing.assert_array_equal(first(X), X @ values)
        np.testing.assert_array_equal(second(X), X @ values)
        del first, second


def test_values_that_change_under_a_model_are_old_or_new():
    memory = whole(1, 64 * 32 + 16)
    start = -memory.ctypes.data % 64 // 4
    values = memory[start : start + 64 * 32].reshape(64, 32)
    shown = values.view()
    shown.flags.writeable = False
    model = products([shown]).compile()
    old = model(X)
    values[...] = whole(2, 64, 32)
    new = model(X)
    assert np.array_equal(new, old) or np.array_equal(new, X @ values)


MISFITS = {
    "writable": (whole(1, 64, 32), None, "got a writable array"),
    "list": ([[1.0, 2.0]], "f32", "an array of f32, got float64"),
    "strided": (
        aligned(whole(1, 32, 64)).T,
        None,
        r"got an array with strides of \(4, 256\) bytes",
    ),
    "unaligned": (aligned(whole(1, 64, 32), past=16), None, "got an address 16 bytes past one"),
    "other type": (aligned(whole(1, 64, 32)), "bf16", "an array of bf16, got float32"),
    "packed": (aligned(whole(1, 64, 32).astype(ml_dtypes.int4)), None, "which must be packed"),
}


@pytest.mark.parametrize("case", MISFITS)
def test_an_array_that_does_not_fit_is_refused_or_copied(case):
    array, dtype, message = MISFITS[case]
    b = og.GraphBuilder()
    with pytest.raises(
        og.InvalidArgumentsError, match=f"constant 'w': copy=False needs .*{message}"
    ):
        b.constant(array, dtype, name="w", copy=False)
    assert b.constants == ()
    copied = b.constant(array, dtype, name="w", copy=None)
    always = b.constant(array, dtype, name="w")
    assert not np.shares_memory(copied.data, np.asarray(array))
    assert copied.data.tobytes() == always.data.tobytes()
    assert copied.data.ctypes.data % 64 == 0


def test_copy_none_uses_what_fits():
    array = aligned(whole(1, 64, 32))
    b = og.GraphBuilder()
    assert np.shares_memory(b.constant(array, copy=None).data, array)
    assert not np.shares_memory(b.constant(array).data, array)


def test_copy_must_be_a_bool_or_none():
    with pytest.raises(og.InvalidArgumentsError, match="one of True, False, None, got 'never'"):
        og.GraphBuilder().constant(X, copy="never")


# -- pickles


def weights_of(dtype):
    values = whole(1, 64, 32)
    return values if dtype == "f32" else values.astype(ml_dtypes.bfloat16)


def model_of(weights, dtype):
    b = og.GraphBuilder()
    b.output(b.input((4, 64), dtype) @ b.constant(weights))
    return b


def test_4_bit_constants_pickle_out_of_band():
    b = og.GraphBuilder()
    b.constant(whole(1, 64, 33).astype(ml_dtypes.int4))
    buffers = []
    written = pickle.dumps(b, protocol=5, buffer_callback=buffers.append)
    (constant,) = pickle.loads(written, buffers=buffers).constants
    assert (constant.dtype, constant.shape) == ("s4", (64, 33))
    assert np.shares_memory(constant.data, b.constants[0].data)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_constants_pickle_out_of_band_and_are_not_copied(dtype):
    b = model_of(weights_of(dtype), dtype)
    buffers = []
    written = pickle.dumps(b, protocol=5, buffer_callback=buffers.append)
    assert sum(buffer.raw().nbytes for buffer in buffers) == b.constants[0].data.nbytes
    assert len(written) < 2000
    (constant,) = pickle.loads(written, buffers=buffers).constants
    assert np.shares_memory(constant.data, b.constants[0].data)
    assert constant.data.dtype == b.constants[0].data.dtype
    np.testing.assert_array_equal(constant.data, b.constants[0].data)


def test_a_model_is_made_of_buffers_in_a_file(tmp_path):
    weights, buffers = whole(1, 64, 32), []
    model = model_of(weights, "f32").compile()
    written = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    (buffer,) = buffers
    (tmp_path / "constants").write_bytes(buffer.raw())
    mapped = np.memmap(tmp_path / "constants", np.uint8, "r")
    again = pickle.loads(written, buffers=[mapped])
    assert np.shares_memory(again.builder.constants[0].data, mapped)
    np.testing.assert_array_equal(again(X), X @ weights)


def test_an_unaligned_buffer_is_copied():
    b, buffers = model_of(whole(1, 64, 32), "f32"), []
    written = pickle.dumps(b, protocol=5, buffer_callback=buffers.append)
    array = aligned(np.frombuffer(buffers[0].raw(), np.uint8), past=8)
    (constant,) = pickle.loads(written, buffers=[array]).constants
    assert not np.shares_memory(constant.data, array)
    np.testing.assert_array_equal(constant.data, whole(1, 64, 32))
    assert constant.data.ctypes.data % 64 == 0 and not constant.data.flags.writeable


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_constants_pickle_in_band(protocol):
    b = model_of(weights_of("bf16"), "bf16")
    (constant,) = pickle.loads(pickle.dumps(b, protocol)).constants
    assert (constant.dtype, constant.data.dtype) == ("bf16", ml_dtypes.bfloat16)
    np.testing.assert_array_equal(constant.data, b.constants[0].data)
    assert constant.data.ctypes.data % 64 == 0 and not constant.data.flags.writeable


MEMORY = """
import pickle
import numpy as np
import onednn_graph_py as og

def private():
    with open("/proc/self/status") as f:
        return next(int(l.split()[1]) for l in f if l.startswith("RssAnon")) // 1024

def model_of(weights, copy):
    b = og.GraphBuilder()
    b.output(b.input((16, 1024)) @ b.constant(weights, copy=copy))
    return b.compile()

X = np.ones((16, 1024), np.float32)
model_of(np.zeros((1024, 64), np.float32), True)(X)
"""


@unsanitized_memory
def test_a_mapped_file_takes_no_memory_of_the_process(tmp_path):
    path = str(tmp_path / "weights")
    np.full((1024, 16384), 2, np.float32).tofile(path)
    done = python(
        MEMORY
        + textwrap.dedent(f"""
        weights = np.memmap({path!r}, np.float32, "r", shape=(1024, 16384))
        before = private()
        model = model_of(weights, False)
        compiled = private() - before
        assert (model(X) == 2048).all()
        # What oneDNN reordered is the only copy.
        called = private() - before
        buffers = []
        written = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
        again = pickle.loads(written, buffers=buffers)
        pickled = private() - before - called
        copied = model_of(weights, True)
        print(compiled, called, pickled, private() - before - called - pickled)
        """)
    )
    compiled, called, pickled, copied = map(int, done.stdout.split())
    assert compiled < 16 and called < 64 + 24 and pickled < 16 and copied > 56, done.stdout


def asked_for():
    """Return the bytes of memory for which this process asked for huge pages."""
    size = total = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line.startswith("Size:"):
            size = int(line.split()[1]) << 10
        elif line.startswith("VmFlags:") and " hg" in line:
            total += size
    return total


@pytest.mark.skipif(not current().has("vnni"), reason="without VNNI oneDNN packs no such weights")
@pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="the system has no huge pages"
)
@pytest.mark.skipif(og.version().cpu_runtime == "SYCL", reason="oneDNN takes memory from SYCL")
def test_large_blocks_of_models_are_asked_for_as_huge_pages():
    size = 40 << 20
    b = og.GraphBuilder()
    x = b.input((1, 2048), "s8", name="x")
    one = {"qtype": "per_tensor", "scales": [1.0]}
    weights = np.ones((2048, size // 2048), np.int8)
    y = x.dequantize(**one) @ b.constant(weights).dequantize(**one)
    b.output(y)
    before = asked_for()
    model = b.compile()  # where such weights rest in files, oneDNN packs them here
    model(np.ones((1, 2048), np.int8))
    assert asked_for() - before >= size


def test_calls_take_no_new_pages():
    """What lies between the kernels of a partition stays where it was in the call before."""
    b = og.GraphBuilder()
    weights = np.random.default_rng(1).uniform(-1, 1, (72, 1, 5, 5)).astype(np.float32)
    x = b.input((1, 72, 60, 52))
    strides = {"strides": [1, 1], "pads_begin": [2, 2], "pads_end": [2, 2], "dilations": [1, 1]}
    formats = {"groups": 72, "data_format": "NCX", "weights_format": "OIX"}
    b.output(b.convolution(x, b.constant(weights), **strides, **formats).relu())
    call = b.compile(threads=1).bind(og.fill_inputs(b))
    faults = []  # of rounds of calls: other threads of this process take new pages, too
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(20):
            call()
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    # 72 x 60 x 52 numbers take 219 pages, and oneDNN reorders two such tensors in each call.
    assert min(faults) < 219


def test_products_of_arrays_of_the_caller_are_judged_once_and_compiled_each(monkeypatch):
    arrays = [whole(seed, 64, 32) for seed in (1, 2, 3)]
    b = products([aligned(a) for a in arrays])
    judged = Counted(monkeypatch, fates, "wrong_result")
    compiled = Counted(monkeypatch, fates, "compile_group")
    model = b.compile()
    assert (judged.calls, compiled.calls) == (1, 3)
    for _ in range(2):
        for made, array in zip(model(X), arrays, strict=True):
            np.testing.assert_array_equal(made, X @ array)


@pytest.mark.parametrize("other", [np.inf, 3.0])
def test_constants_that_safety_tells_apart_are_of_other_forms(other):
    b = og.GraphBuilder()
    x, fill = b.input((4, 64)), np.full((1, 64), 2, np.float32)
    fills = [fill, fill.copy(), fill.copy()]
    fills[2][0, 5] = other
    for array in fills:
        b.output(x + b.constant(array))
    shared = Shared(b, CompileOptions())
    one, equal, unlike = (shared.form((n,), strict=False).number for n in b.nodes)
    assert one == equal != unlike
