"""Allocators, their statistics and their slots."""

import ctypes
import gc
import sys

import numpy as np
import pytest
from graphs import host_memory, matmul_relu_model, python, random, relu_model, sycl_memory

import onednn_graph_py as og

SLOTS = 64


def run_once(engine) -> None:
    """Allocate and free through an engine: a tensor of oneDNN's, and a kernel's scratchpad."""
    model = relu_model((64, 64), engine)
    src = og.tensor(model.inputs[0], engine)
    src.numpy()[...] = -1
    dst = og.tensor(model.outputs[0], engine)
    model.compiled.execute(model.stream, [src], [dst])
    assert (dst.numpy() == 0).all()


class Blocks:
    """Two callables over the C library's aligned allocation, that count."""

    def __init__(self):
        self.libc = ctypes.CDLL(None)
        self.libc.aligned_alloc.restype = ctypes.c_void_p
        self.libc.aligned_alloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
        self.libc.free.argtypes = [ctypes.c_void_p]
        self.taken: dict[int, int] = {}
        self.calls = 0

    def malloc(self, size, alignment):
        self.calls += 1
        unit = max(alignment, 64)
        address = self.libc.aligned_alloc(unit, (size + unit - 1) // unit * unit)
        self.taken[address] = size
        return address

    def free(self, address):
        del self.taken[address]
        self.libc.free(address)


@sycl_memory
def test_a_host_allocator_over_sycl_is_unimplemented():
    with pytest.raises(og.UnimplementedError, match="SYCL") as caught:
        og.allocator()
    assert caught.value.status is og.status.unimplemented
    with pytest.raises(og.UnimplementedError, match="SYCL"):
        og.allocator(lambda size, alignment: 0, lambda address: None)


@host_memory
def test_statistics_start_at_zero():
    assert og.allocator().statistics() == {
        "bytes_in_use": 0,
        "peak_bytes": 0,
        "allocations": 0,
        "deallocations": 0,
    }


@host_memory
def test_statistics_add_up_over_a_tensor_that_onednn_allocates():
    allocator = og.allocator()
    engine = og.make_engine_with_allocator("cpu", 0, allocator)
    lt = og.logical_tensor(0, "f32", [1000], "strided")
    first, second = og.tensor(lt, engine), og.tensor(lt, engine)
    held = allocator.statistics()
    assert held["allocations"] - held["deallocations"] == 2
    assert held["bytes_in_use"] >= 2 * 4000
    assert held["peak_bytes"] >= held["bytes_in_use"]
    del first, second
    gc.collect()
    after = allocator.statistics()
    assert after["allocations"] == after["deallocations"] == held["allocations"]
    assert after["bytes_in_use"] == 0
    assert after["peak_bytes"] == held["peak_bytes"]


@host_memory
def test_what_a_kernel_takes_comes_back():
    allocator = og.allocator()
    run_once(og.make_engine_with_allocator("cpu", 0, allocator))
    gc.collect()
    told = allocator.statistics()
    assert told["allocations"] >= 2
    assert told["peak_bytes"] >= 2 * 64 * 64 * 4


@host_memory
def test_the_repr_tells_the_statistics():
    assert repr(og.allocator()) == "allocator(0 bytes in use, peak 0 bytes, 0 allocations)"


@host_memory
def test_memory_comes_from_python_callables():
    blocks = Blocks()
    allocator = og.allocator(blocks.malloc, blocks.free)
    engine = og.make_engine_with_allocator("cpu", 0, allocator)
    tensor = og.tensor(og.logical_tensor(0, "f32", [100], "strided"), engine)
    assert tensor.get_data_handle() in blocks.taken
    assert blocks.taken[tensor.get_data_handle()] >= 400
    told = allocator.statistics()
    assert told["allocations"] == blocks.calls
    assert told["bytes_in_use"] == sum(blocks.taken.values())
    del tensor
    gc.collect()
    assert not blocks.taken
    assert allocator.statistics()["bytes_in_use"] == 0


@host_memory
def test_results_are_right_on_memory_from_python_callables():
    blocks = Blocks()
    engine = og.make_engine_with_allocator("cpu", 0, og.allocator(blocks.malloc, blocks.free))
    run_once(engine)
    assert blocks.calls >= 2


@pytest.fixture
def unraisable(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: seen.append(what.exc_value))
    return seen


def raises(size, alignment):
    raise MemoryError("no memory today")


@host_memory
@pytest.mark.parametrize(
    ("malloc", "reason"),
    [
        (raises, "no memory today"),
        (lambda size, alignment: None, "address as an int"),
        (lambda size, alignment: "0x1000", "address as an int"),
        (lambda size, alignment: -1, "address as an int"),
        (lambda size, alignment: 64, "not writable memory"),
        (lambda size, alignment: 0, "not writable memory"),
        (lambda size, alignment: 65, "not aligned"),
        (lambda size: 64, "positional argument"),
    ],
)
def test_a_malloc_that_fails_is_reported_and_the_system_stands_in(unraisable, malloc, reason):
    freed = []
    allocator = og.allocator(malloc, freed.append)
    engine = og.make_engine_with_allocator("cpu", 0, allocator)
    tensor = og.tensor(og.logical_tensor(0, "f32", [16], "strided"), engine)
    tensor.numpy()[...] = 3
    assert tensor.numpy().sum() == 48
    assert unraisable and all(reason in str(error) for error in unraisable)
    del tensor
    gc.collect()
    assert freed == []  # the callables never hear of the system's memory
    assert allocator.statistics()["bytes_in_use"] == 0


@host_memory
def test_a_free_that_fails_is_reported(unraisable):
    blocks = Blocks()

    def free(address):
        blocks.free(address)
        raise ValueError("free went wrong")

    engine = og.make_engine_with_allocator("cpu", 0, og.allocator(blocks.malloc, free))
    tensor = og.tensor(og.logical_tensor(0, "f32", [16], "strided"), engine)
    del tensor
    gc.collect()
    assert not blocks.taken
    assert [str(error) for error in unraisable] == ["free went wrong"]


@host_memory
@pytest.mark.parametrize("wrong", [(1, 2), (None, None), (len, None), ("malloc", "free"), (len,)])
def test_an_allocator_of_something_else_than_callables_is_a_type_error(wrong):
    with pytest.raises(TypeError):
        og.allocator(*wrong)


@host_memory
def test_slots_are_reused_once_their_memory_came_back():
    for _ in range(2 * SLOTS):
        allocator = og.allocator()
        engine = og.make_engine_with_allocator("cpu", 0, allocator)
        og.tensor(og.logical_tensor(0, "f32", [16], "strided"), engine)
        del allocator, engine
    gc.collect()


@host_memory
def test_too_many_living_allocators_are_out_of_memory_until_one_dies():
    # In a process of its own: other tests' compiled partitions may hold slots in oneDNN's caches.
    python(f"""
        import onednn_graph_py as og
        alive = [og.allocator() for _ in range({SLOTS})]
        try:
            og.allocator()
        except og.OutOfMemoryError as e:
            assert e.status is og.status.out_of_memory and "64 allocators" in str(e), e
        else:
            raise SystemExit("not refused")
        del alive[7]
        og.allocator()
    """)


@host_memory
def test_an_engine_keeps_its_allocator_alive():
    blocks = Blocks()
    engine = og.make_engine_with_allocator("cpu", 0, og.allocator(blocks.malloc, blocks.free))
    gc.collect()
    model = matmul_relu_model(engine=engine)
    y = np.empty((16, 24), np.float32)
    model.run([random(16, 32), random(24, 32)], [y])
    assert (y >= 0).all()


@host_memory
def test_an_engine_with_an_allocator_says_so():
    engine = og.make_engine_with_allocator("cpu", 0, og.allocator())
    assert repr(engine) == "engine(cpu, 0, with allocator)"


@host_memory
@pytest.mark.parametrize("wrong", [None, 1, "allocator"])
def test_an_engine_with_something_else_than_an_allocator_is_a_type_error(wrong):
    with pytest.raises(TypeError):
        og.make_engine_with_allocator("cpu", 0, wrong)


@host_memory
def test_an_engine_with_allocator_past_the_last_is_refused():
    with pytest.raises(og.InvalidArgumentsError, match="index must be below"):
        og.make_engine_with_allocator("cpu", og.engine.get_count("cpu"), og.allocator())


@host_memory
def test_clear_caches_gives_back_what_waits_for_the_next_call():
    python("""
        import onednn_graph_py as og

        og.clear_caches()
        size, engine = 1 << 20, og.make_engine_with_allocator("cpu", 0, og.allocator())
        tensor = og.tensor(og.logical_tensor(0, "s8", [size], "strided"), engine)
        del tensor
        assert size <= og._core._release_kept_blocks() < size + 4096
        assert og._core._release_kept_blocks() == 0
        tensor = og.tensor(og.logical_tensor(0, "s8", [size], "strided"), engine)
        del tensor
        og.clear_caches()
        assert og._core._release_kept_blocks() == 0
    """)
