"""SYCL queues, USM memory and events, on SYCL's CPU device where oneDNN and dpctl are there."""

import gc
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from graphs import in_threads

import onednn_graph_py as og
from onednn_graph_py import sycl_interop
from onednn_graph_py._core import _sycl
from onednn_graph_py.base import _dpctl

MISSING = sycl_interop.missing()
needs_sycl = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")
has_no_sycl = pytest.mark.skipif(_sycl.available(), reason="the linked oneDNN runs on SYCL")

SHAPE = (16, 64)
BYTES = 16 * 64 * 4
HOST_MEMORY = np.zeros(4096)


def lt(number: int, shape: tuple[int, ...] = SHAPE) -> og.logical_tensor:
    return og.logical_tensor(number, "f32", shape, "strided")


class Setup:
    """A queue, engine and stream, and partitions compiled for it."""

    def __init__(self, in_order: bool = True, alloc: object = None) -> None:
        self.dpctl = pytest.importorskip("dpctl")
        self.memory = pytest.importorskip("dpctl.memory")
        options = {"property": "in_order"} if in_order else {}
        self.queue = self.dpctl.SyclQueue("cpu", **options)
        self.engine = (
            sycl_interop.make_engine(self.queue)
            if alloc is None
            else sycl_interop.make_engine_with_allocator(self.queue, None, alloc)
        )
        self.stream = sycl_interop.make_stream(self.engine, self.queue)

    def compiled(self, kind: str, inputs: int, shape: tuple[int, ...] = SHAPE):
        ports = [lt(number, shape) for number in range(inputs + 1)]
        part = og.partition(og.op(0, kind, ports[:-1], ports[-1:], kind), "cpu")
        return part.compile(ports[:-1], ports[-1:], self.engine)

    def shared(self, values: object = None, nbytes: int = BYTES):
        made = self.memory.MemoryUSMShared(nbytes, queue=self.queue)
        if values is not None:
            np.frombuffer(made, np.float32)[...] = np.ravel(values)
        return made

    def tensor(self, number: int, values: object = None, shape: tuple[int, ...] = SHAPE):
        data = self.shared(values, int(np.prod(shape)) * 4)
        return sycl_interop.make_tensor(lt(number, shape), self.engine, data)

    def relu(self):
        """Everything for one execution of a ReLU, and its input."""
        x = np.random.default_rng(0).uniform(-1, 1, SHAPE).astype(np.float32)
        return self.compiled("ReLU", 1), self.tensor(0, x), self.tensor(1), x


@pytest.fixture(params=[True, False], ids=["in_order", "out_of_order"])
def setup(request):
    return Setup(request.param)


class Described:
    """Memory described as SYCL's arrays are, by whatever a test says."""

    def __init__(self, data: tuple[int, bool], shape: tuple[int, ...], queue: object, **more):
        self.__sycl_usm_array_interface__ = {
            "data": data,
            "shape": shape,
            "typestr": "<f4",
            "strides": None,
            "version": 1,
            "syclobj": queue,
            **more,
        }


def address_of(memory: object) -> int:
    return memory.__sycl_usm_array_interface__["data"][0]


# -- without SYCL ----------------------------------------------------------------------------------


@has_no_sycl
@pytest.mark.parametrize(
    "call",
    [
        lambda: sycl_interop.make_allocator(),
        lambda: sycl_interop.make_usm_allocator(),
        lambda: sycl_interop.make_engine(0, 0),
        lambda: sycl_interop.make_engine_with_allocator(0, 0, None),
        lambda: sycl_interop.make_stream(og.engine("cpu", 0), 0),
        lambda: sycl_interop.get_device(og.engine("cpu", 0)),
        lambda: sycl_interop.get_context(og.engine("cpu", 0)),
        lambda: sycl_interop.get_queue(og.stream(og.engine("cpu", 0))),
        lambda: sycl_interop.make_tensor(lt(0), og.engine("cpu", 0), None),
        lambda: sycl_interop.execute(None, None, [], []),
    ],
)
def test_a_build_without_sycl_says_so_before_anything_else(call):
    with pytest.raises(og.UnimplementedError, match=r"not in this build: .* without SYCL"):
        call()


@has_no_sycl
def test_a_build_without_sycl_has_no_sycl_runtime():
    assert sycl_interop.runtime() == ""
    assert "without SYCL" in sycl_interop.missing()


def test_what_a_build_has_is_what_the_library_says():
    linked = og.version()
    assert _sycl.available() == ("SYCL" in (linked["cpu_runtime"], linked["gpu_runtime"]))
    assert bool(sycl_interop.runtime()) == _sycl.available()


# -- engines and streams ---------------------------------------------------------------------------


@needs_sycl
def test_engine_and_stream_give_back_what_they_were_made_from(setup):
    assert sycl_interop.get_device(setup.engine) == setup.queue.sycl_device
    assert sycl_interop.get_context(setup.engine) == setup.queue.sycl_context
    assert sycl_interop.get_queue(setup.stream) == setup.queue
    assert setup.engine.get_kind() == og.engine.cpu


@needs_sycl
def test_device_and_context_may_be_given_apart_and_as_addresses():
    queue = pytest.importorskip("dpctl").SyclQueue("cpu")
    device, context = queue.sycl_device, queue.sycl_context
    for engine in (
        sycl_interop.make_engine(device, context),
        sycl_interop.make_engine(device.addressof_ref(), context.addressof_ref()),
    ):
        assert sycl_interop.get_context(engine) == context
        stream = sycl_interop.make_stream(engine, queue.addressof_ref())
        assert sycl_interop.get_queue(stream) == queue


@needs_sycl
def test_a_stream_outlives_the_objects_of_its_queue():
    setup = Setup()
    compiled, x, y, values = setup.relu()
    del setup.queue
    gc.collect()
    sycl_interop.execute(compiled, setup.stream, [x], [y]).wait()
    np.testing.assert_array_equal(y.numpy(), np.maximum(values, 0))


@needs_sycl
def test_a_queue_of_another_context_is_refused(setup):
    dpctl = setup.dpctl
    other = dpctl.SyclQueue(dpctl.SyclContext([setup.queue.sycl_device]), setup.queue.sycl_device)
    with pytest.raises(
        og.InvalidArgumentsError, match="must be of the engine's device and context"
    ):
        sycl_interop.make_stream(setup.engine, other)


@needs_sycl
@pytest.mark.parametrize("wrong", [None, "cpu", 1.0, True, object(), np.zeros(1)], ids=repr)
def test_what_is_no_sycl_object_is_refused(setup, wrong):
    device, context = setup.queue.sycl_device, setup.queue.sycl_context
    with pytest.raises(TypeError, match=r"make_stream: expected a dpctl.SyclQueue"):
        sycl_interop.make_stream(setup.engine, wrong)
    with pytest.raises(TypeError, match=r"make_engine: expected a dpctl.SyclDevice"):
        sycl_interop.make_engine(wrong, context)
    with pytest.raises(TypeError, match=r"make_engine: expected a dpctl.SyclContext"):
        sycl_interop.make_engine(device, wrong)


@needs_sycl
def test_sycl_objects_of_another_kind_are_refused(setup):
    queue = setup.queue
    with pytest.raises(TypeError, match=r"expected a dpctl.SyclQueue.*got .*SyclContext"):
        sycl_interop.make_stream(setup.engine, queue.sycl_context)
    with pytest.raises(TypeError, match=r"expected a dpctl.SyclContext.*got .*SyclDevice"):
        sycl_interop.make_engine(queue.sycl_device, queue.sycl_device)


@needs_sycl
def test_addresses_without_a_sycl_object_are_refused(setup):
    zeros = np.zeros(8, np.uint64)
    # Two words as an object has them, but what they point to is none of the runtime's.
    pointing = np.array([zeros.ctypes.data, zeros.ctypes.data], np.uint64)
    unmapped = 8
    for address in (0, 1, unmapped, 2**47 - 8, 2**63 - 8, zeros.ctypes.data, pointing.ctypes.data):
        with pytest.raises(og.InvalidArgumentsError, match=r"no sycl::queue at address"):
            sycl_interop.make_stream(setup.engine, address)
        with pytest.raises(og.InvalidArgumentsError, match=r"no sycl::context at address"):
            sycl_interop.make_engine(setup.queue.sycl_device, address)
    for address in (0, unmapped, zeros.ctypes.data):
        with pytest.raises(og.InvalidArgumentsError, match=r"no sycl::device at address"):
            sycl_interop.make_engine(address, setup.queue.sycl_context)
    for address in (-1, 2**63):
        with pytest.raises(og.InvalidArgumentsError, match="is not an address"):
            sycl_interop.make_stream(setup.engine, address)


@needs_sycl
def test_two_sycl_runtimes_in_one_process_are_an_error(monkeypatch, tmp_path):
    setup = Setup()
    other = tmp_path / "libsycl.so.9"
    other.write_bytes(b"")
    monkeypatch.setattr(
        _dpctl,
        "_sycl",
        SimpleNamespace(
            available=lambda: True,
            require=lambda what: None,
            runtime=_sycl.runtime,
            runtime_of=lambda library: str(other),
        ),
    )
    with pytest.raises(
        og.UnimplementedError, match=r"uses the SYCL runtime .* and dpctl .*libsycl"
    ):
        sycl_interop.make_stream(setup.engine, setup.queue)
    assert "one environment" in sycl_interop.missing()


# -- memory ----------------------------------------------------------------------------------------


@needs_sycl
@pytest.mark.parametrize("kind", ["MemoryUSMShared", "MemoryUSMHost"])
def test_shared_and_host_memory_is_used_in_place(setup, kind):
    memory = getattr(setup.memory, kind)(BYTES, queue=setup.queue)
    tensor = sycl_interop.make_tensor(lt(0), setup.engine, memory)
    assert tensor.get_data_handle() == address_of(memory)
    view = tensor.numpy()
    view[...] = 7
    assert np.frombuffer(memory, np.float32).tolist() == [7] * (BYTES // 4)
    assert np.shares_memory(np.asarray(tensor), view)
    np.testing.assert_array_equal(np.from_dlpack(tensor, device="cpu"), view)


@needs_sycl
def test_device_memory_computes_but_is_never_read_on_the_host(setup):
    compiled, x, _, values = setup.relu()
    memory = setup.memory.MemoryUSMDevice(BYTES, queue=setup.queue)
    y = sycl_interop.make_tensor(lt(1), setup.engine, memory)
    assert y.get_data_handle() == address_of(memory)
    sycl_interop.execute(compiled, setup.stream, [x], [y]).wait()
    for read in (y.numpy, lambda: np.asarray(y)):
        with pytest.raises(
            og.InvalidArgumentsError, match="device's own, which the host can't read"
        ):
            read()
    with pytest.raises(
        BufferError, match=r"a SYCL device, DLPack device \(14, \d+\), dl_device asks"
    ):
        np.from_dlpack(y, device="cpu")
    np.testing.assert_array_equal(sycl_interop.copy_to_host(y), np.maximum(values, 0))
    copy = memory.copy_to_host().view(np.float32).reshape(SHAPE)
    np.testing.assert_array_equal(copy, np.maximum(values, 0))


@needs_sycl
def test_typed_arrays_are_taken_with_their_offset_and_strides(setup):
    memory = setup.shared(np.arange(16 * 64))
    at = address_of(memory)
    part = Described((at, False), (4, 8), setup.queue, offset=3, strides=(64, 1))
    strided = og.logical_tensor(0, "f32", [4, 8], [64, 1])
    view = sycl_interop.make_tensor(strided, setup.engine, part).numpy()
    expected = 3 + np.arange(4)[:, None] * 64 + np.arange(8)
    np.testing.assert_array_equal(view, expected)
    with pytest.raises(og.InvalidShapeError, match="expected strides"):
        sycl_interop.make_tensor(lt(0, (4, 8)), setup.engine, part)


@needs_sycl
def test_read_only_memory_is_no_output(setup):
    compiled, x, _, _ = setup.relu()
    memory = setup.shared()
    described = Described((address_of(memory), True), SHAPE, setup.queue)
    y = sycl_interop.make_tensor(lt(1), setup.engine, described)
    with pytest.raises(og.InvalidArgumentsError, match="is read-only memory"):
        sycl_interop.execute(compiled, setup.stream, [x], [y])


@needs_sycl
@pytest.mark.parametrize("wrong", [None, 4096, np.zeros(SHAPE, np.float32), b"x" * BYTES])
def test_memory_that_sycl_does_not_describe_is_refused(setup, wrong):
    with pytest.raises(TypeError, match="expected memory of SYCL"):
        sycl_interop.make_tensor(lt(0), setup.engine, wrong)


@needs_sycl
def test_host_memory_that_claims_to_be_usm_is_refused(setup):
    array = np.zeros(SHAPE, np.float32)
    for address in (array.ctypes.data, 8, 2**46, 2**63):
        for of in (setup.queue, setup.queue.sycl_context, None):
            with pytest.raises(og.InvalidArgumentsError, match="not unified shared memory"):
                sycl_interop.make_tensor(
                    lt(0), setup.engine, Described((address, False), SHAPE, of)
                )


@needs_sycl
@pytest.mark.parametrize(
    "more", [{"data": (0, False)}, {"data": None}, {"typestr": "?!"}, {"shape": None}], ids=str
)
def test_a_malformed_description_of_memory_is_refused(setup, more):
    array = np.zeros(SHAPE, np.float32)
    described = Described((array.ctypes.data, False), SHAPE, setup.queue)
    described.__sycl_usm_array_interface__.update(more)
    with pytest.raises(TypeError, match="malformed __sycl_usm_array_interface__"):
        sycl_interop.make_tensor(lt(0), setup.engine, described)


@needs_sycl
def test_memory_of_another_context_is_refused(setup):
    dpctl = setup.dpctl
    other = dpctl.SyclQueue(dpctl.SyclContext([setup.queue.sycl_device]), setup.queue.sycl_device)
    with pytest.raises(
        og.InvalidArgumentsError, match="not unified shared memory of the engine's context"
    ):
        sycl_interop.make_tensor(
            lt(0), setup.engine, setup.memory.MemoryUSMShared(BYTES, queue=other)
        )


@needs_sycl
def test_memory_of_another_size_type_or_shape_is_refused(setup):
    at = address_of(memory := setup.shared())
    with pytest.raises(og.InvalidShapeError, match=f"expected at least {BYTES} bytes"):
        sycl_interop.make_tensor(lt(0), setup.engine, setup.shared(nbytes=BYTES - 4))
    with pytest.raises(og.InvalidDataTypeError, match="float32"):
        sycl_interop.make_tensor(
            lt(0), setup.engine, Described((at, False), SHAPE, setup.queue, typestr="<i4")
        )
    with pytest.raises(og.InvalidShapeError, match="expected shape"):
        sycl_interop.make_tensor(
            lt(0), setup.engine, Described((at, False), SHAPE[::-1], setup.queue)
        )
    assert memory is not None


# -- executions ------------------------------------------------------------------------------------


@needs_sycl
def test_an_execution_gives_an_event(setup):
    compiled, x, y, values = setup.relu()
    event = sycl_interop.execute(compiled, setup.stream, [x], [y])
    assert isinstance(event, setup.dpctl.SyclEvent)
    event.wait()
    assert event.execution_status == setup.dpctl.event_status_type.complete
    np.testing.assert_array_equal(y.numpy(), np.maximum(values, 0))


@needs_sycl
def test_a_thousand_executions_follow_each_other_by_their_events(setup):
    # On an out-of-order queue nothing but the events orders them; every step is seen in the sum.
    compiled = setup.compiled("Add", 2)
    one = setup.tensor(1, np.ones(SHAPE))
    buffers = [setup.shared(np.zeros(SHAPE)), setup.shared()]
    tensors = [
        [sycl_interop.make_tensor(lt(number), setup.engine, memory) for number in (0, 2)]
        for memory in buffers
    ]
    events = []
    for step in range(1000):
        source, target = tensors[step % 2][0], tensors[(step + 1) % 2][1]
        submit = sycl_interop.execute
        events.append(
            submit(compiled, setup.stream, [source, one], [target], events[-1:], wait=False)
        )
        if step % 100 == 99:
            events[-1].wait()
            np.testing.assert_array_equal(target.numpy(), np.float32(step + 1))
    complete = setup.dpctl.event_status_type.complete
    assert all(event.execution_status == complete for event in events)


@needs_sycl
def test_an_execution_waits_for_events_of_another_queue():
    # The copies are long enough to be under way still when the execution is submitted.
    setup = Setup(in_order=False)
    shape = (1024, 1024)
    nbytes = 4 * 1024 * 1024
    other = setup.dpctl.SyclQueue(setup.queue.sycl_context, setup.queue.sycl_device)
    compiled = setup.compiled("ReLU", 1, shape)
    target = setup.shared(nbytes=nbytes)
    x = sycl_interop.make_tensor(lt(0, shape), setup.engine, target)
    y = setup.tensor(1, shape=shape)
    # Without the dependency about half of these results are wrong on two cores.
    for value in range(1, 21):
        source = setup.shared(np.full(shape, value, np.float32), nbytes)
        copied = other.memcpy_async(target, source, nbytes)
        sycl_interop.execute(compiled, setup.stream, [x], [y], [copied]).wait()
        np.testing.assert_array_equal(y.numpy(), np.float32(value))


@needs_sycl
def test_dependencies_may_be_many_and_addresses(setup):
    compiled, x, y, values = setup.relu()
    events = [setup.queue.submit_barrier() for _ in range(20)]
    deps = (*events, *(event.addressof_ref() for event in events))
    sycl_interop.execute(compiled, setup.stream, [x], [y], deps).wait()
    np.testing.assert_array_equal(y.numpy(), np.maximum(values, 0))
    for event in events:  # still in order after oneDNN had copies of them
        event.wait()


@needs_sycl
def test_an_output_is_read_when_it_is_written(setup):
    # Without a wait of our own, by `execute` of the mirror too.
    compiled, x, y, values = setup.relu()
    for step in range(1, 200):
        x.numpy()[...] = values * step
        if step % 2:
            sycl_interop.execute(compiled, setup.stream, [x], [y], wait=False)
        else:
            compiled.execute(setup.stream, [x], [y], wait=False)
        np.testing.assert_array_equal(y.numpy(), np.maximum(values * np.float32(step), 0))


@needs_sycl
def test_many_threads_may_execute_on_streams_of_their_own():
    setup = Setup()
    compiled, x, _, values = setup.relu()

    def run(_: int) -> None:
        queue = setup.dpctl.SyclQueue(setup.queue.sycl_context, setup.queue.sycl_device)
        stream = sycl_interop.make_stream(setup.engine, queue)
        y = setup.tensor(1)
        for _ in range(50):
            y.numpy()[...] = 9
            sycl_interop.execute(compiled, stream, [x], [y]).wait()
            np.testing.assert_array_equal(y.numpy(), np.maximum(values, 0))

    in_threads(4, run)


@needs_sycl
@pytest.mark.parametrize("wrong", [None, "event", 1.5, object()], ids=repr)
def test_what_is_no_event_is_no_dependency(setup, wrong):
    compiled, x, y, _ = setup.relu()
    with pytest.raises(TypeError, match=r"execute: deps: expected a dpctl.SyclEvent"):
        sycl_interop.execute(compiled, setup.stream, [x], [y], [wrong])


@needs_sycl
def test_wrong_executions_raise(setup):
    compiled, x, y, _ = setup.relu()
    event = setup.queue.submit_barrier()
    with pytest.raises(TypeError, match=r"expected a dpctl.SyclEvent.*got .*SyclQueue"):
        sycl_interop.execute(compiled, setup.stream, [x], [y], [setup.queue])
    with pytest.raises(TypeError, match="deps must be a list or tuple"):
        sycl_interop.execute(compiled, setup.stream, [x], [y], event)
    with pytest.raises(og.InvalidArgumentsError, match="no sycl::event at address 0"):
        sycl_interop.execute(compiled, setup.stream, [x], [y], [0])
    with pytest.raises(og.InvalidArgumentsError, match="expected 1 inputs, got 0"):
        sycl_interop.execute(compiled, setup.stream, [], [y])
    with pytest.raises(og.InvalidArgumentsError, match="tensors go in the order"):
        sycl_interop.execute(compiled, setup.stream, [y], [x])
    with pytest.raises(TypeError, match="must be a tensor, got"):
        sycl_interop.execute(compiled, setup.stream, [setup.shared()], [y])
    with pytest.raises(og.InvalidArgumentsError, match="stream is empty"):
        sycl_interop.execute(compiled, og.stream(), [x], [y])
    with pytest.raises(og.InvalidArgumentsError, match="must be of the engine object"):
        sycl_interop.execute(compiled, Setup().stream, [x], [y])
    for nothing in (None, "compiled"):
        with pytest.raises(TypeError):
            sycl_interop.execute(nothing, setup.stream, [x], [y])
        with pytest.raises(TypeError):
            sycl_interop.execute(compiled, nothing, [x], [y])


# -- lifetime --------------------------------------------------------------------------------------


@needs_sycl
def test_memory_stays_alive_until_the_stream_was_waited_for(setup):
    compiled, x, _, _ = setup.relu()
    memory = Described((address_of(owner := setup.shared()), False), SHAPE, setup.queue)
    y = sycl_interop.make_tensor(lt(1), setup.engine, memory)
    alive = weakref.ref(memory)
    sycl_interop.execute(compiled, setup.stream, [x], [y], wait=False)
    del y, memory
    gc.collect()
    assert alive() is not None
    setup.stream.wait()
    gc.collect()
    assert alive() is None
    assert _sycl.kept(setup.stream) == 0
    assert owner is not None


@pytest.mark.skipif(not _sycl.available(), reason="the linked oneDNN runs synchronously")
def test_numpy_arrays_stay_alive_until_the_stream_was_waited_for():
    class Array(np.ndarray):
        """One that can be watched."""

    engine = og.engine("cpu", 0)
    stream = og.stream(engine)
    part = og.partition(og.op(0, "ReLU", [lt(0)], [lt(1)], "relu"), "cpu")
    compiled = part.compile([lt(0)], [lt(1)], engine)
    array = np.ones(SHAPE, np.float32).view(Array)
    alive = weakref.ref(array)
    y = og.tensor(lt(1), engine, np.zeros(SHAPE, np.float32))
    compiled.execute(stream, [og.tensor(lt(0), engine, array)], [y], wait=False)
    bound = compiled.bind(stream, [og.tensor(lt(0), engine, array)], [y], wait=False)
    bound()
    del array, bound
    gc.collect()
    assert alive() is not None
    stream.wait()
    gc.collect()
    assert alive() is None
    np.testing.assert_array_equal(y.numpy(), 1)


@pytest.mark.skipif(not _sycl.available(), reason="the linked oneDNN runs synchronously")
def test_a_stream_that_goes_away_waits_and_lets_go():
    engine = og.engine("cpu", 0)
    stream = og.stream(engine)
    part = og.partition(og.op(0, "ReLU", [lt(0)], [lt(1)], "relu"), "cpu")
    compiled = part.compile([lt(0)], [lt(1)], engine)
    x = og.tensor(lt(0), engine, np.ones(SHAPE, np.float32))
    y = og.tensor(lt(1), engine, np.zeros(SHAPE, np.float32))
    compiled.execute(stream, [x], [y], wait=False)
    assert _sycl.kept(stream) == 3
    compiled.execute(stream, [x], [y], wait=False)
    assert _sycl.kept(stream) == 3  # what is kept already costs nothing more
    del stream
    np.testing.assert_array_equal(y.numpy(), 1)


@needs_sycl
def test_finished_executions_are_let_go_without_a_wait(setup):
    compiled, x, _, _ = setup.relu()
    for _ in range(500):
        # Memory of its own each time.
        y = setup.tensor(1)
        event = sycl_interop.execute(compiled, setup.stream, [x], [y], wait=False)
        event.wait()
    # Of each execution: input, output, compiled partition.
    assert _sycl.kept(setup.stream) <= 3 * 65
    setup.stream.wait()
    assert _sycl.kept(setup.stream) == 0


# -- allocators ------------------------------------------------------------------------------------


def scratchpad_user(setup: Setup):
    """A convolution, which takes working memory; and its inputs, output and expected result."""
    shapes = [(1, 16, 20, 20), (16, 16, 3, 3), (1, 16, 18, 18)]
    ports = [lt(number, shape) for number, shape in enumerate(shapes)]
    convolution = og.op(0, "Convolution", ports[:2], ports[2:], "convolution")
    for name, value in (
        ("strides", [1, 1]),
        ("pads_begin", [0, 0]),
        ("pads_end", [0, 0]),
        ("dilations", [1, 1]),
        ("data_format", "NCX"),
        ("weights_format", "OIX"),
    ):
        convolution.set_attr(name, value)
    compiled = og.partition(convolution, "cpu").compile(ports[:2], ports[2:], setup.engine)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, shape).astype(np.float32) for shape in shapes[:2]]
    tensors = [setup.tensor(number, array, array.shape) for number, array in enumerate(arrays)]
    windows = np.lib.stride_tricks.sliding_window_view(arrays[0], (3, 3), axis=(2, 3))
    expected = np.einsum("nchwij,ocij->nohw", windows, arrays[1])
    return compiled, tensors, setup.tensor(2, shape=shapes[2]), expected


@needs_sycl
@pytest.mark.parametrize("usm_type", ["shared", "host", "device"])
def test_working_memory_comes_from_the_engines_allocator(usm_type):
    alloc = sycl_interop.make_usm_allocator(usm_type)
    setup = Setup(alloc=alloc)
    compiled, inputs, output, expected = scratchpad_user(setup)
    sycl_interop.execute(compiled, setup.stream, inputs, [output]).wait()
    np.testing.assert_array_equal(output.numpy(), expected)
    taken = alloc.statistics()
    assert taken["allocations"] > 0
    assert taken["peak_bytes"] > 0
    assert taken["deallocations"] == taken["allocations"]
    assert taken["bytes_in_use"] == 0


@needs_sycl
def test_an_allocator_of_callables_is_given_sycl_objects():
    memory = pytest.importorskip("dpctl.memory")
    dpctl = pytest.importorskip("dpctl")
    blocks, seen = {}, []

    def malloc(size, alignment, device, context):
        block = memory.MemoryUSMShared(
            size, alignment=alignment, queue=dpctl.SyclQueue(context, device)
        )
        seen.append((device, context))
        blocks[address_of(block)] = block
        return address_of(block)

    def free(address, device, context, event):
        seen.append((device, context))
        if event is not None:
            event.wait()
        del blocks[address]

    # The engine keeps the allocator, and so the functions.
    setup = Setup(alloc=sycl_interop.make_allocator(malloc, free))
    gc.collect()
    compiled, inputs, output, expected = scratchpad_user(setup)
    sycl_interop.execute(compiled, setup.stream, inputs, [output]).wait()
    np.testing.assert_array_equal(output.numpy(), expected)
    queue = setup.queue
    assert len(seen) >= 2
    assert all(one == (queue.sycl_device, queue.sycl_context) for one in seen)
    assert not blocks


def test_an_allocator_takes_both_callables_or_none():
    if MISSING is not None:
        with pytest.raises(og.UnimplementedError):
            sycl_interop.make_allocator()
        return
    assert sycl_interop.make_allocator().statistics() is None
    for one in ((print, None), (None, print)):
        with pytest.raises(TypeError, match="both malloc and free, or neither"):
            sycl_interop.make_allocator(*one)


@needs_sycl
@pytest.mark.parametrize(
    ("malloc", "message"),
    [
        (lambda *_: 1 / 0, "division by zero"),
        (lambda *_: None, "expected an int"),
        (lambda *_: 0, "not unified shared memory"),
        (lambda *_: 64, "not unified shared memory"),
        (lambda *_: HOST_MEMORY.ctypes.data, "not unified shared memory"),
    ],
)
def test_an_allocator_that_fails_is_reported_and_replaced(malloc, message, monkeypatch):
    reports = []
    monkeypatch.setattr("sys.unraisablehook", reports.append)
    setup = Setup(alloc=sycl_interop.make_allocator(malloc, lambda *_: 1 / 0))
    compiled, inputs, output, expected = scratchpad_user(setup)
    sycl_interop.execute(compiled, setup.stream, inputs, [output]).wait()
    np.testing.assert_array_equal(output.numpy(), expected)
    assert reports
    assert all(message in str(one.exc_value) for one in reports)


@needs_sycl
def test_only_allocators_of_sycl_are_taken(setup):
    for wrong in (None, object(), print):
        with pytest.raises(TypeError, match=r"allocator of sycl_interop.make_allocator"):
            sycl_interop.make_engine_with_allocator(setup.queue, None, wrong)
    with pytest.raises(ValueError, match="usm_type must be one of 'shared', 'host', 'device'"):
        sycl_interop.make_usm_allocator("unified")


# -- dpctl missing ---------------------------------------------------------------------------------


@pytest.mark.skipif(not _sycl.available(), reason="the linked oneDNN was built without SYCL")
def test_without_dpctl_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "dpctl", None)
    assert "pip install '.[sycl]'" in sycl_interop.missing()
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[sycl\]'"):
        sycl_interop.get_device(og.engine("cpu", 0))
