"""Models on SYCL queues: arrays where they lie, asynchronous calls, nothing read too early."""

import ctypes
import functools
import gc
import pickle
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from graphs import in_threads, needs

import onednn_graph_py as og
from onednn_graph_py import sycl_interop
from onednn_graph_py._core import _sycl
from onednn_graph_py.base import _dpctl
from onednn_graph_py.model.running import queue as queues
from onednn_graph_py.model.running.queue import ModelQueue

MISSING = sycl_interop.missing()
needs_sycl = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")
has_no_sycl = pytest.mark.skipif(_sycl.available(), reason="the linked oneDNN runs on SYCL")

KINDS = {"shared": "MemoryUSMShared", "host": "MemoryUSMHost", "device": "MemoryUSMDevice"}
RNG = np.random.default_rng(0)
# Whole numbers, so that sums are exact in any order.
X = RNG.integers(-4, 5, (16, 64)).astype(np.float32)
W = RNG.integers(-4, 5, (64, 32)).astype(np.float32)
EXPECTED = np.maximum(X @ W, 0)


@functools.cache
def queue_of(in_order: bool = False):
    """A queue that stays for all tests.

    Intel's OpenCL runtime hung once where each test had its own: one of its threads freed the list
    of commands of a queue that had ended, and waited there for the command that it was in.
    """
    dpctl = pytest.importorskip("dpctl")
    return dpctl.SyclQueue("cpu", **({"property": "in_order"} if in_order else {}))


@pytest.fixture(params=[True, False], ids=["in_order", "out_of_order"])
def queue(request):
    return queue_of(request.param)


def builder(rows: int = 16) -> og.GraphBuilder:
    b = og.GraphBuilder()
    x = b.input((rows, 64), "f32", name="x")
    b.output(x.matmul(W).relu())
    return b


def usm(array: np.ndarray, kind: str, queue: object):
    """Memory of dpctl with the array's bytes."""
    memory = getattr(pytest.importorskip("dpctl.memory"), KINDS[kind])(array.nbytes, queue=queue)
    memory.copy_from_host(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    return memory


def tensor_of(
    array: np.ndarray, kind: str, queue: object, engine: og.engine, number: int = 0
) -> og.tensor:
    name = {"float32": "f32", "bfloat16": "bf16"}[array.dtype.name]
    lt = og.logical_tensor(number, name, array.shape, "strided")
    return sycl_interop.make_tensor(lt, engine, usm(array, kind, queue))


def pending(queue: object):
    """An event of work that takes a while, on the device."""
    memory = pytest.importorskip("dpctl.memory")
    size = 64 << 20
    one, two = (memory.MemoryUSMShared(size, queue=queue) for _ in range(2))
    event = queue.submit_barrier()
    for _ in range(15):
        event = queue.memcpy_async(one, two, size, [event])
    KEPT.append((event, one, two))
    return event


KEPT: list[tuple[object, ...]] = []


@pytest.fixture
def late(monkeypatch):
    """A device that computes later than it is told to, as GPUs do.

    oneDNN's Graph API waits for each primitive on a CPU device, so that nothing is ever unfinished
    there: here an output holds -1 until work that takes a while is done, and is written then.
    """
    execute = ModelQueue.execute

    def execute_late(self, stream, compiled, inputs, outputs, scratchpad, deps):
        for event in (*deps, execute(self, stream, compiled, inputs, outputs, scratchpad, deps)):
            event.wait()
        copies = []
        for tensor in outputs:
            size = tensor.get_logical_tensor().get_mem_size()
            address = tensor.get_data_handle()
            right = sycl_interop.copy_to_host(tensor).ravel()
            where = np.frombuffer((ctypes.c_char * size).from_address(address), np.float32)
            where[...] = -1
            copies.append((where, right, size))
        done = pending(self.queue)
        for copy in copies:
            done = self.queue.memcpy_async(*copy, [done])
            KEPT.append((done, *copy))
        return done

    monkeypatch.setattr(ModelQueue, "execute", execute_late)
    yield queue_of()
    for event, *_ in KEPT:
        event.wait()
    KEPT.clear()


def is_complete(event: object) -> bool:
    dpctl = pytest.importorskip("dpctl")
    return event.execution_status == dpctl.event_status_type.complete


# -- without SYCL ----------------------------------------------------------------------------------


@has_no_sycl
def test_a_build_without_sycl_takes_no_queue():
    with pytest.raises(og.UnimplementedError, match=r"compile.*not in this build.*without SYCL"):
        builder().compile(queue=object())


@has_no_sycl
def test_usm_arrays_are_no_arrays_of_a_build_without_sycl():
    model = builder().compile()

    class OnDevice:
        shape = (16, 64)

        def __dlpack_device__(self):
            return 14, 0

        def __dlpack__(self, **options):
            raise BufferError("only for consumers on the device")

    with pytest.raises(og.InvalidArgumentsError, match="expected memory on the CPU"):
        model(OnDevice())


def test_copy_takes_none_or_false():
    with pytest.raises(og.InvalidArgumentsError, match="copy must be one of None, False, got True"):
        builder().compile(copy=True)


def test_a_copy_that_is_not_wanted_raises():
    model = builder().compile(copy=False)
    np.testing.assert_array_equal(model(X), EXPECTED)
    with pytest.raises(og.InvalidArgumentsError, match=r"input 'x'.*strides.*copy=False"):
        model(np.asfortranarray(X))
    assert model.copies == 0
    assert pickle.loads(pickle.dumps(model)).options["copy"] is False


def test_a_model_without_a_queue_knows_no_wait():
    model = builder().compile()
    assert model.queue is None
    with pytest.raises(og.InvalidArgumentsError, match="there is no input 'wait'"):
        model(X, wait=False)


# -- queues ----------------------------------------------------------------------------------------


@needs_sycl
def test_a_model_runs_on_its_queue(queue):
    model = builder().compile(queue=queue)
    assert model.queue == queue
    assert sycl_interop.get_device(model.engine) == queue.sycl_device
    assert sycl_interop.get_context(model.engine) == queue.sycl_context
    np.testing.assert_array_equal(model(X), EXPECTED)
    np.testing.assert_array_equal(model(x=X), EXPECTED)
    assert model.verify()
    assert model.copies == 0
    assert model.stats().calls >= 2


@needs_sycl
def test_models_of_one_device_and_context_share_their_engine():
    dpctl = pytest.importorskip("dpctl")
    one, two = (builder().compile(queue=queue_of()) for _ in range(2))
    assert one.engine is two.engine
    device = dpctl.SyclDevice("cpu")
    apart = builder().compile(queue=dpctl.SyclQueue(dpctl.SyclContext([device]), device))
    assert apart.engine is not one.engine
    np.testing.assert_array_equal(apart(X), EXPECTED)
    kept = weakref.ref(apart.engine)
    del apart
    gc.collect()
    assert kept() is None


@needs_sycl
@pytest.mark.parametrize("wrong", ["cpu", 5, object()], ids=repr)
def test_what_is_no_queue_is_a_type_error(wrong):
    with pytest.raises(TypeError, match=r"queue must be a SyclQueue, got"):
        builder().compile(queue=wrong)


@needs_sycl
def test_a_queue_of_another_kind_of_device_raises():
    b = og.GraphBuilder("gpu")
    b.output(b.input((4,), "f32").relu())
    with pytest.raises(
        og.InvalidArgumentsError, match=r"engine kind gpu, and queue is of a cpu device"
    ):
        b.compile(queue=queue_of())


@needs_sycl
def test_a_model_with_a_queue_pickles():
    model = builder().compile(queue=queue_of())
    back = pickle.loads(pickle.dumps(model))
    assert back.queue.sycl_device == model.queue.sycl_device
    np.testing.assert_array_equal(back(X), EXPECTED)


@needs_sycl
def test_constants_are_on_the_device_once():
    b = og.GraphBuilder()
    x = b.input((-1, 64), "f32", name="x")
    b.output(x.matmul(W).relu())
    model = b.compile(queue=queue_of())
    for rows in (1, 16, 3):
        np.testing.assert_array_equal(model(X[:rows]), EXPECTED[:rows])
    assert model.stats().shapes == 3
    (memory,) = model._device_constants.values()
    assert memory.get_usm_type() == "device"
    np.testing.assert_array_equal(memory.copy_to_host().view(np.float32), W.ravel())


# -- arrays where they lie -------------------------------------------------------------------------


@needs_sycl
@pytest.mark.parametrize("kind", KINDS)
def test_usm_inputs_give_usm_outputs_of_the_same_kind(queue, kind):
    model = builder().compile(queue=queue, copy=False)
    x = tensor_of(X, kind, queue, model.engine)
    y = model(x)
    assert isinstance(y, og.tensor)
    assert sycl_interop.usm_type(y) == kind
    np.testing.assert_array_equal(sycl_interop.copy_to_host(y), EXPECTED)
    assert model.copies == 0
    # As dpctl's memory itself: raw bytes.
    again = model(usm(X, kind, queue))
    np.testing.assert_array_equal(sycl_interop.copy_to_host(again), EXPECTED)


@needs_sycl
@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (("host", "host"), "host"),
        (("host", "shared"), "shared"),
        (("shared", "device"), "device"),
        (("host", "device"), "device"),
        ((None, "host"), "host"),
        ((None, "device"), "device"),
        ((None, None), None),
    ],
)
def test_the_most_restricted_kind_of_memory_wins(kinds, expected):
    queue = queue_of()
    b = og.GraphBuilder()
    b.output(b.input((16, 64), "f32") + b.input((16, 64), "f32"))
    model = b.compile(queue=queue)
    y = model(*(X if k is None else tensor_of(X, k, queue, model.engine) for k in kinds))
    if expected is None:
        assert isinstance(y, np.ndarray)
        np.testing.assert_array_equal(y, 2 * X)
    else:
        assert sycl_interop.usm_type(y) == expected
        np.testing.assert_array_equal(sycl_interop.copy_to_host(y), 2 * X)
    assert model.copies == 0  # a CPU device reads the host's memory
    assert queues.coerced_usm_type(kinds) == expected


@needs_sycl
@pytest.mark.parametrize("kind", KINDS)
def test_arrays_of_dpnp_come_back_as_arrays_of_dpnp(kind):
    dpnp = pytest.importorskip("dpnp")
    queue = queue_of()
    model = builder().compile(queue=queue, copy=False)
    array = dpnp.asarray(X, usm_type=kind, sycl_queue=queue)
    y = model(array)
    assert isinstance(y, dpnp.ndarray)
    assert y.usm_type == kind
    assert y.sycl_queue == queue
    np.testing.assert_array_equal(dpnp.asnumpy(y), EXPECTED)
    raw = model(dpnp.get_usm_ndarray(array))
    assert type(raw) is type(dpnp.get_usm_ndarray(array))
    np.testing.assert_array_equal(dpnp.asnumpy(dpnp.asarray(raw)), EXPECTED)
    np.testing.assert_array_equal(dpnp.asnumpy(y + 1), EXPECTED + 1)


@needs_sycl
def test_what_dpnp_has_submitted_comes_first():
    dpnp = pytest.importorskip("dpnp")
    b = og.GraphBuilder()
    b.output(b.input((512, 512), "f32").relu())
    model = b.compile(queue=queue_of(in_order=True))
    for step in range(1, 20):
        x = dpnp.full((512, 512), step, dtype="f4")  # on dpnp's own queue
        for _ in range(3):
            x = x + 1
        assert float(dpnp.min(model(x))) == step + 3


@needs_sycl
def test_dpnp_writes_where_it_is_told(queue):
    dpnp = pytest.importorskip("dpnp")
    model = builder().compile(queue=queue)
    out = dpnp.zeros((16, 32), dtype="f4", sycl_queue=queue)
    assert model(X, out=out) is out
    np.testing.assert_array_equal(dpnp.asnumpy(out), EXPECTED)


@needs_sycl
def test_bf16_has_no_array_of_dpnp_and_stays_a_tensor():
    needs("bf16")
    import ml_dtypes

    queue = queue_of()
    b = og.GraphBuilder()
    b.output(b.input((16, 64), "bf16").relu())
    model = b.compile(queue=queue)
    y = model(tensor_of(X.astype(ml_dtypes.bfloat16), "device", queue, model.engine))
    assert isinstance(y, og.tensor)
    assert not hasattr(y, "__sycl_usm_array_interface__")
    got = sycl_interop.copy_to_host(y)
    assert got.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(got.astype(np.float32), np.maximum(X, 0))


@needs_sycl
@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_another_context_raises(kind):
    dpctl = pytest.importorskip("dpctl")
    device = dpctl.SyclDevice("cpu")
    elsewhere = dpctl.SyclQueue(dpctl.SyclContext([device]), device)
    model = builder().compile(queue=queue_of())
    other = sycl_interop.make_engine(elsewhere)
    for given in (usm(X, kind, elsewhere), tensor_of(X, kind, elsewhere, other)):
        with pytest.raises(
            og.InvalidArgumentsError, match=r"input 'x'.*not unified shared memory of the engine's"
        ):
            model(given)


@needs_sycl
def test_device_memory_of_another_device_raises(monkeypatch):
    queue = queue_of()
    model = builder().compile(queue=queue)
    memory = usm(X, "device", queue)
    # There is one device here: what is called another one is this one.
    roots = iter(["one", "another"])
    monkeypatch.setattr(_dpctl, "root_of", lambda device: next(roots))
    with pytest.raises(og.InvalidArgumentsError, match="its memory is of another device"):
        model(memory)


@needs_sycl
def test_wrong_usm_arrays_raise_before_anything_runs():
    queue = queue_of()
    model = builder().compile(queue=queue)
    engine = model.engine
    with pytest.raises(og.InvalidShapeError, match=r"input 'x' must have the shape 16x64"):
        model(tensor_of(X[:8], "shared", queue, engine))
    with pytest.raises(og.InvalidShapeError, match="at least 4096 bytes"):
        model(usm(X[:8], "shared", queue))
    lt = og.logical_tensor(0, "s32", (16, 64), "strided")
    wrong = sycl_interop.make_tensor(lt, engine, usm(X, "shared", queue))
    with pytest.raises(og.InvalidDataTypeError, match="input 'x' must be f32, got s32"):
        model(wrong)
    lt = og.logical_tensor(0, "f32", (16, 64), [1, 16])
    wrong = sycl_interop.make_tensor(lt, engine, usm(X, "shared", queue))
    with pytest.raises(og.InvalidShapeError, match=r"must have the strides \[64, 1\]"):
        model(wrong)
    with pytest.raises(TypeError, match="must be a NumPy array or support DLPack"):
        model("x")
    with pytest.raises(og.InvalidArgumentsError, match=r"expected 1 inputs \(x\), got 2"):
        model(X, X)
    assert model.stats().calls == 0


@needs_sycl
def test_outputs_are_checked_on_a_queue_too(queue):
    model = builder().compile(queue=queue)
    out = np.empty((16, 32), np.float32)
    assert model(X, out=out) is out
    np.testing.assert_array_equal(out, EXPECTED)
    with pytest.raises(og.InvalidShapeError, match=r"out .* must have the shape 16x32"):
        model(X, out=np.empty((16, 31), np.float32))
    frozen = np.empty((16, 32), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(og.InvalidArgumentsError, match="read-only"):
        model(X, out=frozen)
    memory = usm(np.zeros((16, 64), np.float32), "shared", queue)
    with pytest.raises(og.InvalidArgumentsError, match="overlaps the memory of input 'x'"):
        model(memory, out=memory)


# -- a device that can't read the host's memory ----------------------------------------------------


@pytest.fixture
def far_device(monkeypatch):
    """A queue whose device is taken for one that can't read the host's memory."""
    made = ModelQueue.__init__

    def init(self, *arguments: object) -> None:
        made(self, *arguments)
        self.reads_host_memory = False

    monkeypatch.setattr(ModelQueue, "__init__", init)
    return queue_of()


@needs_sycl
def test_a_far_device_gets_one_copy_of_each_host_input(far_device):
    model = builder().compile(queue=far_device)
    y = model(X)
    assert isinstance(y, np.ndarray)
    np.testing.assert_array_equal(y, EXPECTED)
    assert model.copies == 1
    out = np.empty((16, 32), np.float32)
    model(X, out=out)
    np.testing.assert_array_equal(out, EXPECTED)
    assert model.copies == 3  # in, and out
    x = tensor_of(X, "device", far_device, model.engine)
    np.testing.assert_array_equal(sycl_interop.copy_to_host(model(x)), EXPECTED)
    assert model.copies == 3


@needs_sycl
def test_a_far_device_raises_where_copies_are_not_wanted(far_device):
    model = builder().compile(queue=far_device, copy=False)
    with pytest.raises(
        og.InvalidArgumentsError, match=r"input 'x' from the host to the device .*copy=False"
    ):
        model(X)
    x = tensor_of(X, "device", far_device, model.engine)
    np.testing.assert_array_equal(sycl_interop.copy_to_host(model(x)), EXPECTED)
    with pytest.raises(og.InvalidArgumentsError, match="from the device to the host"):
        model(x, out=np.empty((16, 32), np.float32))
    assert model.copies == 0


# -- steps of all kinds ----------------------------------------------------------------------------


def two_steps() -> og.GraphBuilder:
    """Pow and a partition, of which Pow runs in NumPy."""
    b = og.GraphBuilder()
    x = b.input((16, 64), "f32", name="x")
    b.output(product=(x**3.0).matmul(W), input=x)
    return b


@needs_sycl
@pytest.mark.parametrize("kind", [None, *KINDS])
def test_steps_in_numpy_run_between_partitions(queue, kind):
    model = two_steps().compile(queue=queue, warn=False)
    assert {s.implementation for s in model.steps()} == {"reference", "oneDNN"}
    x = X if kind is None else tensor_of(X, kind, queue, model.engine)
    for _ in range(3):
        product, same = model(x)
        if kind is not None:
            product, same = map(sycl_interop.copy_to_host, (product, same))
        np.testing.assert_array_equal(product, X**3 @ W)
        np.testing.assert_array_equal(same, X)
    assert (model.copies > 0) == (kind == "device")


@needs_sycl
def test_a_model_of_many_partitions_uses_its_arena(queue):
    b = og.GraphBuilder()
    h = b.input((16, 64), "f32", name="x")
    square = RNG.integers(-1, 2, (64, 64)).astype(np.float32)
    expected = X
    for _ in range(4):
        h = h.matmul(square).relu()
        expected = np.maximum(expected @ square, 0)
    b.output(h)
    model = b.compile(queue=queue, policy="debug")
    assert len(model.steps()) == 8
    for _ in range(5):
        np.testing.assert_array_equal(model(X), expected)
    submissions = [model(X * n, wait=False) for n in range(20)]
    for n, one in enumerate(submissions):
        np.testing.assert_array_equal(one.outputs.numpy(), expected * n)
    assert 1 <= model._queue_run.contexts <= 4


@needs_sycl
def test_many_threads_call_one_model(queue):
    model = builder().compile(queue=queue)

    def run(i: int) -> None:
        for _ in range(20):
            np.testing.assert_array_equal(model(X * (i + 1)), EXPECTED * (i + 1))

    in_threads(4, run)


@needs_sycl
def test_bound_calls_read_what_the_arrays_hold(queue):
    model = builder().compile(queue=queue)
    x = X.copy()
    bound = model.bind([x])
    for factor in (1, 2, 3):
        x[...] = X * factor
        bound()
        np.testing.assert_array_equal(bound.outputs[0], EXPECTED * factor)
    assert bound.inputs[0] is x


# -- asynchronous calls ----------------------------------------------------------------------------


@needs_sycl
def test_a_thousand_asynchronous_calls_each_behind_the_one_before(queue):
    b = og.GraphBuilder()
    x = b.input((64, 64), "f32", name="x")
    step = b.input((64, 64), "f32", name="step")
    b.output(x + step)
    model = b.compile(queue=queue)
    values = RNG.integers(0, 9, (64, 64)).astype(np.float32)
    value = tensor_of(values, "shared", queue, model.engine)
    one = tensor_of(np.ones((64, 64), np.float32), "shared", queue, model.engine)
    deps: list[object] = []
    for _ in range(1000):
        value, event = model(value, one, wait=False, deps=deps)
        deps = [event]
    event.wait()
    np.testing.assert_array_equal(value.numpy(), values + 1000)


@needs_sycl
def test_an_asynchronous_output_is_an_input_without_being_told(late):
    # Out of order, no deps given: the tensor knows what writes it.
    model = builder().compile(queue=late)
    b = og.GraphBuilder()
    b.output(b.input((16, 32), "f32").sqrt())
    last = b.compile(queue=late)
    first = model(X, wait=False)
    assert not is_complete(first.event)
    second = last(first.outputs, wait=False, deps=[])
    np.testing.assert_allclose(second.outputs.numpy(), np.sqrt(EXPECTED), rtol=1e-6)


@needs_sycl
def test_calls_that_run_have_intermediate_memory_of_their_own(monkeypatch):
    model = builder().compile(queue=queue_of())
    for _ in range(5):
        model(X)
    assert model._queue_run.contexts == 1
    # Nothing is ever known to be done.
    monkeypatch.setattr(ModelQueue, "is_complete", lambda self, event: False)
    for expected in (2, 3, 4, 4, 4):  # the rest queue up on the device
        np.testing.assert_array_equal(model(X, wait=False).outputs.numpy(), EXPECTED)
        assert model._queue_run.contexts == expected


@needs_sycl
def test_everything_stays_alive_until_the_event():
    class Array(np.ndarray):
        """One that can be watched."""

    model = builder().compile(queue=queue_of())
    array = X.copy().view(Array)
    alive = weakref.ref(array)
    # What the stream lets go is what is complete when it looks: nothing has looked yet.
    result = model(array, wait=False)
    del array
    gc.collect()
    assert alive() is not None
    result.event.wait()
    model(X)  # looks
    gc.collect()
    assert alive() is None
    np.testing.assert_array_equal(result.outputs.numpy(), EXPECTED)


@needs_sycl
def test_deps_are_events():
    model = builder().compile(queue=queue_of())
    for wrong in (None, "event", 5):
        with pytest.raises(TypeError, match=r"deps must be a SyclEvent, got"):
            model(X, deps=[wrong])
    with pytest.raises(TypeError, match="deps must be a list or tuple"):
        model(X, deps=model.queue.submit_barrier())


# -- nothing is read too early ---------------------------------------------------------------------

READERS = {
    "numpy": lambda t: t.numpy(),
    "asarray": np.asarray,
    "dlpack": lambda t: np.from_dlpack(t, device="cpu"),
    "dlpack_capsule": lambda t: (t.__dlpack__(), t.numpy())[1],
    "copy_to_host": sycl_interop.copy_to_host,
    "usm_interface": lambda t: (
        pytest.importorskip("dpctl.memory").as_usm_memory(t).copy_to_host().view(np.float32)
    ),
    "dpnp": lambda t: pytest.importorskip("dpnp").asnumpy(
        pytest.importorskip("dpnp").from_dlpack(t)
    ),
    "array": np.array,
}


@needs_sycl
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_of_an_asynchronous_output_waits(late, reader):
    model = builder().compile(queue=late)
    out, event = model(X, wait=False)
    assert not is_complete(event)
    got = READERS[reader](out)
    assert is_complete(event)
    np.testing.assert_array_equal(np.reshape(got, EXPECTED.shape), EXPECTED)


@needs_sycl
def test_an_asynchronous_output_has_no_buffer(late):
    model = builder().compile(queue=late)
    out, event = model(X, wait=False)
    for attempt in (memoryview, bytes, np.frombuffer):
        with pytest.raises((TypeError, ValueError)):
            attempt(out)
    assert not is_complete(event)


@needs_sycl
def test_wait_false_takes_no_output_that_shows_what_is_unfinished():
    queue = queue_of()
    model = builder().compile(queue=queue)
    with pytest.raises(og.InvalidArgumentsError, match=r"with wait=False it must be a tensor.*got"):
        model(X, out=np.empty((16, 32), np.float32), wait=False)
    with pytest.raises(og.InvalidArgumentsError, match="with wait=False it must be a tensor"):
        model(X, out=usm(EXPECTED, "shared", queue), wait=False)
    on_host = og.tensor(
        og.logical_tensor(0, "f32", (16, 32), "strided"), model.engine, np.empty_like(EXPECTED)
    )
    with pytest.raises(og.InvalidArgumentsError, match="must be a tensor of SYCL's memory"):
        model(X, out=on_host, wait=False)
    for look in (
        lambda t: t.numpy(),
        lambda t: t.__dlpack__(),
        lambda t: np.from_dlpack(t, device="cpu"),
        lambda t: t.__sycl_usm_array_interface__,
    ):
        out = tensor_of(np.zeros_like(EXPECTED), "shared", queue, model.engine)
        view = look(out)
        with pytest.raises(og.InvalidArgumentsError, match="an output whose memory has views"):
            model(X, out=out, wait=False)
        del view
    out = tensor_of(np.zeros_like(EXPECTED), "shared", queue, model.engine)
    out.numpy()  # a view that is gone shows nothing
    assert model(X, out=out, wait=False).outputs is out
    np.testing.assert_array_equal(out.numpy(), EXPECTED)


@needs_sycl
def test_only_wait_false_and_a_pointer_show_what_is_unfinished(late):
    model = builder().compile(queue=late)
    out = tensor_of(np.zeros_like(EXPECTED), "shared", late, model.engine)
    _, event = model(X, out=out, wait=False)
    last = out.get_data_handle() + EXPECTED.nbytes - 4
    stale = ctypes.c_float.from_address(last).value
    assert not is_complete(event)
    assert stale == -1
    event.wait()
    assert ctypes.c_float.from_address(last).value == EXPECTED[-1, -1]


@needs_sycl
@pytest.mark.parametrize("how", ["positions", "names", "out", "bound", "usm"])
def test_default_calls_are_finished_when_they_return(late, how):
    model = builder().compile(queue=late)
    out = np.zeros_like(EXPECTED)
    if how == "bound":
        model.bind([X], out)()
        got = out
    else:
        got = {
            "positions": lambda: model(X),
            "names": lambda: model(x=X),
            "out": lambda: model(X, out=out),
            "usm": lambda: model(usm(X, "shared", late)),
        }[how]()
    if how == "usm":
        # By address, as nothing of ours waits there.
        flat = (ctypes.c_float * EXPECTED.size).from_address(got.get_data_handle())
        got = np.array(flat).reshape(EXPECTED.shape)
    np.testing.assert_array_equal(got, EXPECTED)


def mirror_relu(queue: object, engine: og.engine):
    """A ReLU in the mirror: compiled, stream, input, output in shared memory."""
    lts = [og.logical_tensor(i, "f32", X.shape, "strided") for i in range(2)]
    part = og.partition(og.op(0, "ReLU", lts[:1], lts[1:], "relu"), "cpu")
    compiled = part.compile(lts[:1], lts[1:], engine)
    stream = sycl_interop.make_stream(engine, queue)
    x, y = (tensor_of(X, "shared", queue, engine, number) for number in range(2))
    return compiled, stream, x, y


@needs_sycl
@pytest.mark.parametrize("reader", READERS)
def test_readers_of_the_mirrors_outputs_wait_for_the_stream(queue, reader):
    engine = sycl_interop.make_engine(queue)
    compiled, stream, x, y = mirror_relu(queue, engine)
    sycl_interop.execute(compiled, stream, [x], [y], wait=False)
    event = pending(queue)  # the stream is not done before
    READERS[reader](y)
    assert is_complete(event)


@needs_sycl
@pytest.mark.parametrize("execute", ["execute", "bound", "with_event"])
@pytest.mark.parametrize("shown", ["array", "usm", "view", "dlpack", "interface", "nothing"])
@pytest.mark.parametrize("wait", [True, False])
def test_the_mirror_is_done_on_return_where_an_output_is_shown(queue, execute, shown, wait):
    engine = sycl_interop.make_engine(queue)
    compiled, stream, x, y = mirror_relu(queue, engine)
    if shown == "array":
        y = og.tensor(y.get_logical_tensor(), engine, np.empty_like(X))
    elif shown not in ("usm", "interface"):  # what the caller has brought
        y = og.tensor(y.get_logical_tensor(), engine)  # memory that nobody else knows
    view = {
        "view": y.numpy,
        "dlpack": lambda: y.__dlpack__(),
        "interface": lambda: y.__sycl_usm_array_interface__,
    }.get(shown, lambda: None)()
    event = pending(queue)
    if execute == "execute":
        compiled.execute(stream, [x], [y], wait=wait)
    elif execute == "bound":
        compiled.bind(stream, [x], [y], wait=wait)()
    else:
        sycl_interop.execute(compiled, stream, [x], [y], wait=wait)
    waited = wait and shown != "nothing"
    # In order, oneDNN's own wait for its primitive takes care of what is before.
    assert is_complete(event) == (waited or queue.is_in_order)
    assert (_sycl.kept(stream) == 0) == waited
    del view
    np.testing.assert_array_equal(y.numpy(), np.maximum(X, 0))


# -- DLPack ----------------------------------------------------------------------------------------


@needs_sycl
@pytest.mark.parametrize("kind", KINDS)
def test_tensors_of_usm_memory_are_on_a_sycl_device_to_dlpack(kind):
    queue = queue_of()
    engine = sycl_interop.make_engine(queue)
    tensor = tensor_of(X, kind, queue, engine)
    assert tensor.__dlpack_device__() == (14, queue.sycl_device.get_device_id())
    back = og.tensor(og.logical_tensor(5, "f32", X.shape, "strided"), engine, tensor)
    assert back.get_data_handle() == tensor.get_data_handle()
    assert sycl_interop.usm_type(back) == kind
    np.testing.assert_array_equal(sycl_interop.copy_to_host(back), X)
    with pytest.raises(BufferError, match=r"dl_device asks for \(2, 0\)"):
        tensor.__dlpack__(dl_device=(2, 0))


@needs_sycl
@pytest.mark.parametrize("kind", KINDS)
def test_dpnp_and_tensors_share_memory_both_ways(kind):
    dpnp = pytest.importorskip("dpnp")
    array = dpnp.asarray(X, usm_type=kind)
    engine = sycl_interop.make_engine(array.sycl_queue)

    class OnlyDlpack:
        def __dlpack_device__(self):
            return array.__dlpack_device__()

        def __dlpack__(self, **options):
            return array.__dlpack__(**options)

    address = array.__sycl_usm_array_interface__["data"][0]
    lt = og.logical_tensor(0, "f32", X.shape, "strided")
    for source in (array, OnlyDlpack()):
        tensor = og.tensor(lt, engine, source)
        assert tensor.get_data_handle() == address
        assert sycl_interop.usm_type(tensor) == kind
        for back in (dpnp.from_dlpack(tensor), dpnp.tensor.asarray(tensor)):
            assert back.__sycl_usm_array_interface__["data"][0] == address
            assert back.usm_type == kind
    model = builder().compile(queue=array.sycl_queue, copy=False)
    np.testing.assert_array_equal(sycl_interop.copy_to_host(model(OnlyDlpack())), EXPECTED)


@needs_sycl
def test_dlpack_does_not_name_memory_outside_of_the_default_context():
    dpctl = pytest.importorskip("dpctl")
    device = dpctl.SyclDevice("cpu")
    queue = dpctl.SyclQueue(dpctl.SyclContext([device]), device)
    engine = sycl_interop.make_engine(queue)
    shared = tensor_of(X, "shared", queue, engine)
    assert shared.__dlpack_device__() == (1, 0)
    np.testing.assert_array_equal(np.from_dlpack(shared), X)
    with pytest.raises(BufferError, match="default context"):
        tensor_of(X, "device", queue, engine).__dlpack_device__()


@needs_sycl
def test_host_memory_has_no_usm_type():
    tensor = og.tensor(og.logical_tensor(0, "f32", X.shape, "strided"), og.engine("cpu", 0), X)
    assert sycl_interop.usm_type(tensor) is None
    assert not hasattr(tensor, "__sycl_usm_array_interface__")
    assert tensor.__dlpack_device__() == (1, 0)
    np.testing.assert_array_equal(sycl_interop.copy_to_host(tensor), X)
    assert not queues.is_usm(SimpleNamespace())


@needs_sycl
@pytest.mark.parametrize("kind", KINDS)
def test_views_and_host_steps_run_on_a_queue(kind, queue):
    b = og.GraphBuilder()
    x = b.input((16, 64), "f32", name="x")
    low, high = x[:, :32], x[:, 32:]
    shifted = b.call(lambda a: a + np.float32(1), high, outputs=[((16, 32), "f32")], name="shift")
    b.output(low @ W[:32] + shifted, x[4:8, ::2], high[0])
    model = b.compile(queue=queue)
    assert {"view", "host", "oneDNN"} == {s.implementation for s in model.steps()} - {"reference"}
    given = tensor_of(X, kind, queue, model.engine)
    results = [model(X), model(given)]
    for product, rows, first in (tuple(map(_numpy, r)) for r in results):
        np.testing.assert_array_equal(product, X[:, :32] @ W[:32] + X[:, 32:] + 1)
        np.testing.assert_array_equal(rows, X[4:8, ::2])
        np.testing.assert_array_equal(first, X[0, 32:])


def _numpy(made):
    if isinstance(made, og.tensor):
        return sycl_interop.copy_to_host(made)
    return made if isinstance(made, np.ndarray) else np.asarray(_dpctl.array_of(made, "result"))


@needs_sycl
def test_a_queue_takes_only_data_types_of_onednn(queue):
    b = og.GraphBuilder()
    b.output(b.call(np.copy, b.input((4,), "f64", name="x"), outputs=[((4,), "f64")]))
    with pytest.raises(og.UnimplementedError, match="input 'x' is f64, which oneDNN lacks"):
        b.compile(queue=queue)
    b = og.GraphBuilder()
    b.output(b.update(np.copyto, b.input((4,), "f32", name="x", updated=True), np.ones(4, "f4")))
    with pytest.raises(og.UnimplementedError, match="input 'x' is updated"):
        b.compile(queue=queue)
