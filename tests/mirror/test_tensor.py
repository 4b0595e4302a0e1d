"""Tensors: the memory that they wrap, and what they give back."""

import array
import ctypes
import gc
import importlib.util
import mmap
import weakref

import ml_dtypes
import numpy as np
import pytest
from graphs import PACKED_TYPES, WHOLE_TYPES, lt_of, since

import onednn_graph_py as og

LT = og.logical_tensor
TORCH = importlib.util.find_spec("torch") is not None


@pytest.fixture(scope="module")
def engine():
    return og.engine("cpu", 0)


def f32(*shape, tid=0):
    return LT(tid, "f32", shape, "strided")


# -- NumPy ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", WHOLE_TYPES)
def test_an_array_of_every_dtype_is_used_in_place(engine, dtype):
    given = np.arange(6).reshape(2, 3).astype(og.dtypes.numpy_dtype(dtype))
    tensor = og.tensor(LT(0, dtype, [2, 3], "strided"), engine, given)
    view = tensor.numpy()
    assert view.dtype == given.dtype
    assert view.shape == (2, 3)
    assert tensor.get_data_handle() == given.ctypes.data == view.ctypes.data
    given[1, 2] = 1
    assert view.tobytes() == given.tobytes()


@pytest.mark.parametrize("dtype", PACKED_TYPES)
def test_int4_is_packed_two_to_a_byte(engine, dtype):
    values = np.arange(5)
    packed = og.dtypes.pack_int4(values, dtype)
    tensor = og.tensor(LT(0, dtype, [5], "strided"), engine, packed)
    assert tensor.numpy().dtype == np.uint8
    assert tensor.numpy().shape == (3,)
    assert (og.dtypes.unpack_int4(tensor.numpy(), [5], dtype) == values).all()


@pytest.mark.parametrize("dtype", WHOLE_TYPES)
def test_an_array_of_another_dtype_is_refused(engine, dtype):
    lt = LT(0, dtype, [4], "strided")
    for other in {"float32", "int8", "uint16", "int64", "complex64", "float64", "S4"}:
        if np.dtype(other) == og.dtypes.numpy_dtype(dtype):
            continue
        with pytest.raises(og.InvalidDataTypeError, match="expected an array of dtype"):
            og.tensor(lt, engine, np.zeros(4, other))


def test_a_flat_array_of_the_right_size_is_raw_memory(engine):
    flat = np.arange(6, dtype=np.float32)
    tensor = og.tensor(LT(0, "f32", [2, 3], [1, 2]), engine, flat)
    assert tensor.numpy().tolist() == [[0, 2, 4], [1, 3, 5]]


STRIDED = {
    "transposed": lambda a: a.T,
    "every other column": lambda a: a[:, ::2],
    "every third row": lambda a: a[::3],
    "a window": lambda a: a[1:4, 2:7],
    "swapped axes": lambda a: a.reshape(4, 2, 9).swapaxes(0, 2),
    "one column": lambda a: a[:, 3:4],
    "one row": lambda a: a[2:3],
    "broadcast": lambda a: np.broadcast_to(a[0], (5, 9)),
    "odd strides": lambda a: a.reshape(-1)[: 5 * 13].reshape(5, 13)[:, :7],
    "overlapping windows": lambda a: np.lib.stride_tricks.sliding_window_view(a[0], 3),
    "no elements": lambda a: a[:0],
}


@pytest.mark.parametrize("how", STRIDED)
def test_the_strides_of_a_view_are_honoured(engine, how):
    view = STRIDED[how](np.arange(72, dtype=np.float32).reshape(8, 9))
    back = og.tensor(lt_of(0, view), engine, view).numpy()
    assert back.shape == view.shape
    assert (back == view).all()
    assert back.size == 0 or np.shares_memory(back, view)
    assert back.flags.writeable == view.flags.writeable


def test_the_stride_of_a_dim_of_one_does_not_matter(engine):
    view = np.zeros((4, 5), np.float32)[::-1][:1]
    assert og.tensor(f32(1, 5), engine, view).numpy().shape == (1, 5)


def test_a_scalar_has_one_element(engine):
    number = np.array(1.5, np.float32)
    tensor = og.tensor(f32(), engine, number)
    assert tensor.numpy().shape == ()
    number[()] = 2.5
    assert float(tensor.numpy()) == 2.5


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0, 2)])
@pytest.mark.parametrize("how", ["array", "address", "bytes", "library"])
def test_a_tensor_of_no_elements_has_no_bytes(engine, shape, how):
    given = {"array": [np.zeros(shape, np.float32)], "address": [0], "bytes": [bytearray()]}
    tensor = og.tensor(f32(*shape), engine, *given.get(how, []))
    assert tensor.numpy().shape == shape
    assert "0 bytes" in repr(tensor)


def test_a_subclass_of_ndarray_is_an_array(engine):
    mine = np.zeros((2, 3), np.float32).view(np.recarray)
    assert np.shares_memory(og.tensor(f32(2, 3), engine, mine).numpy(), mine)


def test_the_array_protocol_gives_views_and_copies_as_asked(engine):
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = og.tensor(f32(2, 3), engine, given)
    assert np.shares_memory(np.asarray(tensor), given)
    assert not np.shares_memory(np.array(tensor), given)
    assert np.asarray(tensor, np.int32).tolist() == given.tolist()
    with pytest.raises(ValueError, match="needs a copy"):
        tensor.__array__(np.int32, copy=False)
    assert not np.shares_memory(tensor.__array__(copy=True), given)
    assert np.shares_memory(tensor.__array__(np.float32, copy=False), given)


# -- buffers and addresses --------------------------------------------------------------------


def anonymous_map():
    return mmap.mmap(-1, 4096)


BUFFERS = {
    "bytearray": lambda: bytearray(24),
    "a larger bytearray": lambda: bytearray(100),
    "memoryview": lambda: memoryview(bytearray(24)),
    "typed memoryview": lambda: memoryview(bytearray(24)).cast("f", (2, 3)),
    "array.array of floats": lambda: array.array("f", [0] * 6),
    "array.array of bytes": lambda: array.array("B", [0] * 24),
    "mmap": anonymous_map,
    "ctypes": lambda: (ctypes.c_float * 3 * 2)(),
}


@pytest.mark.parametrize("kind", BUFFERS)
def test_a_buffer_is_used_in_place(engine, kind):
    buffer = BUFFERS[kind]()
    tensor = og.tensor(f32(2, 3), engine, buffer)
    tensor.numpy()[...] = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert bytes(memoryview(buffer).cast("B"))[:24] == np.arange(6, dtype=np.float32).tobytes()


def test_a_bytearray_cannot_shrink_under_a_tensor(engine):
    buffer = bytearray(24)
    tensor = og.tensor(f32(6), engine, buffer)
    with pytest.raises(BufferError):
        buffer.clear()
    del tensor
    gc.collect()
    buffer.clear()


def test_read_only_memory_is_told(engine):
    frozen = np.zeros(6, np.float32)
    frozen.flags.writeable = False
    for source in (bytes(24), frozen, memoryview(bytes(24))):
        tensor = og.tensor(f32(6), engine, source)
        assert repr(tensor).endswith("24 bytes, read-only)")
        assert "versioned" in repr(tensor.__dlpack__(max_version=(1, 0)))
        with pytest.raises(ValueError, match="read-only"):
            tensor.numpy()[0] = 1


@pytest.mark.parametrize("integer", [int, np.uint64, np.int64])
def test_an_integer_is_an_address(engine, integer):
    memory = np.arange(6, dtype=np.float32)
    tensor = og.tensor(f32(2, 3), engine, integer(memory.ctypes.data))
    tensor.numpy()[1, 2] = 9
    assert memory[5] == 9


def test_an_address_of_read_only_memory_is_read_only(engine):
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ)
    address = np.frombuffer(memory, np.uint8).ctypes.data
    assert "read-only" in repr(og.tensor(f32(6), engine, address))


# -- memory of oneDNN's -----------------------------------------------------------------------


@pytest.mark.parametrize("dtype", WHOLE_TYPES + PACKED_TYPES)
def test_onednn_allocates_where_no_memory_is_given(engine, dtype):
    tensor = og.tensor(LT(0, dtype, [3, 5], "strided"), engine)
    view = tensor.numpy()
    view[...] = 1
    assert tensor.get_data_handle() == view.ctypes.data
    assert view.nbytes == LT(0, dtype, [3, 5], "strided").get_mem_size()
    assert (view == 1).all()


def test_a_view_of_library_memory_outlives_tensor_and_engine():
    view = og.tensor(f32(1000), og.engine("cpu", 0)).numpy()
    view[...] = 7
    gc.collect()
    assert (view == 7).all()


# -- DLPack -----------------------------------------------------------------------------------


class DLDevice(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class DLDataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", DLDevice),
        ("ndim", ctypes.c_int32),
        ("dtype", DLDataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER))


class ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)


class Producer:
    """A DLPack producer over a NumPy array, with everything that may be wrong adjustable."""

    def __init__(self, source, *, versioned=True, strides=True, **wrong):
        self.source, self.versioned, self.strides, self.wrong = source, versioned, strides, wrong
        self.deleted = 0

    def __dlpack_device__(self):
        return self.wrong.get("device", (1, 0))

    def old_style(self):
        return self.capsule(Managed, b"dltensor")

    def __dlpack__(self, **options):
        if "capsule" in self.wrong:
            return self.wrong["capsule"]
        if "error" in self.wrong:
            raise self.wrong["error"]
        if not self.versioned:
            if options:
                raise TypeError("unexpected keyword argument 'max_version'")
            return self.old_style()
        assert options["max_version"][0] >= 1
        return self.capsule(ManagedVersioned, b"dltensor_versioned")

    def capsule(self, kind, name):
        source, managed = self.source, kind()
        code = {"f": 2, "i": 0, "u": 1, "b": 6}.get(source.dtype.kind, 4)
        shape = self.wrong.get("shape", source.shape)
        steps = self.wrong.get("steps", [s // source.itemsize for s in source.strides])
        self.shape = (ctypes.c_int64 * max(len(shape), 1))(*shape)
        self.steps = (ctypes.c_int64 * max(len(steps), 1))(*steps)
        offset = self.wrong.get("byte_offset", 0)
        managed.tensor = DLTensor(
            source.ctypes.data - offset,
            DLDevice(*self.wrong.get("tensor_device", (1, 0))),
            len(shape),
            DLDataType(
                self.wrong.get("code", code), source.itemsize * 8, self.wrong.get("lanes", 1)
            ),
            self.shape,
            self.steps if self.strides else None,
            offset,
        )
        if kind is ManagedVersioned:
            managed.major, managed.flags = self.wrong.get("major", 1), self.wrong.get("flags", 0)
        managed.deleter = self.deleter = DELETER(self.delete)
        self.managed = managed
        return new_capsule(ctypes.addressof(managed), name, None)

    def delete(self, _):
        self.deleted += 1


VERSIONS = pytest.mark.parametrize("versioned", [True, False], ids=["1.0", "unversioned"])


@VERSIONS
@pytest.mark.parametrize("dtype", [t for t in WHOLE_TYPES if not t.startswith("f8")])
def test_a_dlpack_producer_is_used_in_place(engine, versioned, dtype):
    source = np.arange(6).reshape(2, 3).astype(og.dtypes.numpy_dtype(dtype))
    producer = Producer(source, versioned=versioned)
    tensor = og.tensor(LT(0, dtype, [2, 3], "strided"), engine, producer)
    assert np.shares_memory(tensor.numpy(), source)
    assert (tensor.numpy() == source).all()
    assert producer.deleted == 0
    del tensor
    gc.collect()
    assert producer.deleted == 1


@VERSIONS
def test_dlpack_strides_and_offset_are_honoured(engine, versioned):
    source = np.arange(24, dtype=np.float32).reshape(4, 6)[::2, 1::2]
    producer = Producer(source, versioned=versioned, byte_offset=8)
    tensor = og.tensor(lt_of(0, source), engine, producer)
    assert (tensor.numpy() == source).all()


@VERSIONS
def test_dlpack_without_strides_is_row_major(engine, versioned):
    source = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = og.tensor(f32(2, 3), engine, Producer(source, versioned=versioned, strides=False))
    assert (tensor.numpy() == source).all()


def test_a_dlpack_view_keeps_the_producers_memory(engine):
    producer = Producer(np.arange(6, dtype=np.float32))
    view = og.tensor(f32(6), engine, producer).numpy()
    gc.collect()
    assert producer.deleted == 0
    assert view.tolist() == [0, 1, 2, 3, 4, 5]
    del view
    gc.collect()
    assert producer.deleted == 1


def test_dlpack_memory_that_is_read_only_is_told(engine):
    tensor = og.tensor(f32(6), engine, Producer(np.zeros(6, np.float32), flags=1))
    assert "read-only" in repr(tensor)
    assert not tensor.numpy().flags.writeable


WRONG_DLPACK = [
    ({"device": (2, 0)}, og.InvalidArgumentsError, "device type 2"),
    ({"tensor_device": (2, 0)}, og.InvalidArgumentsError, "CPU"),
    ({"device": (1, 0, 0)}, TypeError, "pair"),
    ({"code": 0}, og.InvalidDataTypeError, "type code 0"),
    ({"lanes": 4}, og.InvalidDataTypeError, "expected elements"),
    ({"major": 2}, BufferError, "version 2"),
    ({"shape": (3, 2)}, og.InvalidShapeError, "expected shape"),
    ({"shape": (2, 3, 1), "steps": (3, 1, 1)}, og.InvalidShapeError, "expected shape"),
    ({"steps": (-3, 1)}, og.InvalidShapeError, "negative strides"),
    ({"steps": (1, 2)}, og.InvalidShapeError, "expected strides"),
    ({"capsule": 7}, TypeError, "capsule"),
    ({"capsule": None}, TypeError, "capsule"),
    ({"error": ZeroDivisionError("mine")}, ZeroDivisionError, "mine"),
]


@pytest.mark.parametrize(("wrong", "error", "reason"), WRONG_DLPACK)
def test_a_wrong_dlpack_producer_is_refused(engine, wrong, error, reason):
    producer = Producer(np.zeros((2, 3), np.float32), **wrong)
    with pytest.raises(error, match=reason):
        og.tensor(f32(2, 3), engine, producer)
    gc.collect()
    assert producer.deleted <= 1


@pytest.mark.parametrize("dtype", ["f32", "f16", "s32", "s8", "u8", "boolean"])
@pytest.mark.parametrize("how", STRIDED)
def test_numpy_takes_a_tensor_through_dlpack(engine, dtype, how):
    whole = np.arange(72).reshape(8, 9).astype(og.dtypes.numpy_dtype(dtype))
    view = STRIDED[how](whole)
    tensor = og.tensor(lt_of(0, view), engine, view)
    back = np.from_dlpack(tensor)
    assert (back == view).all()
    assert back.size == 0 or np.shares_memory(back, whole)
    assert tensor.__dlpack_device__() == (1, 0)


def test_a_dlpack_capsule_outlives_its_tensor():
    tensor = og.tensor(f32(1000), og.engine("cpu", 0))
    tensor.numpy()[...] = 5
    back = np.from_dlpack(tensor)
    del tensor
    gc.collect()
    assert (back == 5).all()


def test_a_dlpack_capsule_that_nobody_takes_is_freed(engine):
    source = np.zeros(6, np.float32)
    owner = weakref.ref(source)
    tensor = og.tensor(f32(6), engine, source)
    capsules = [tensor.__dlpack__(), tensor.__dlpack__(max_version=(1, 0))]
    assert ["dltensor" in repr(c) for c in capsules] == [True, True]
    del source, tensor
    gc.collect()
    assert owner() is not None
    del capsules
    gc.collect()
    assert owner() is None


def test_dlpack_describes_bf16(engine):
    tensor = og.tensor(LT(0, "bf16", [4], "strided"), engine, np.ones(4, ml_dtypes.bfloat16))
    again = og.tensor(LT(0, "bf16", [4], "strided"), engine, DLPackOnly(tensor))
    assert np.shares_memory(again.numpy(), tensor.numpy())


class DLPackOnly:
    """Hides everything of a tensor but DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_one_tensor_wraps_another_without_a_copy(engine):
    first = og.tensor(f32(6), engine, np.arange(6, dtype=np.float32))
    second = og.tensor(f32(2, 3), engine, first)
    assert second.get_data_handle() == first.get_data_handle()


@pytest.mark.skipif(not TORCH, reason="torch is not installed")
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "s32", "s8", "u8", "boolean"])
def test_torch_tensors_go_both_ways(engine, dtype):
    import torch

    kind = {
        "f32": torch.float32,
        "f16": torch.float16,
        "bf16": torch.bfloat16,
        "s32": torch.int32,
        "s8": torch.int8,
        "u8": torch.uint8,
        "boolean": torch.bool,
    }[dtype]
    source = torch.arange(6).reshape(3, 2).to(kind).T
    tensor = og.tensor(LT(0, dtype, [2, 3], [1, 2]), engine, source)
    assert tensor.get_data_handle() == source.data_ptr()
    back = torch.from_dlpack(tensor)
    assert back.data_ptr() == source.data_ptr()
    assert torch.equal(back, source)


# -- other memory later -----------------------------------------------------------------------


def test_set_data_handle_takes_every_kind_of_memory(engine):
    tensor = og.tensor(f32(6), engine, np.zeros(6, np.float32))
    kept = np.arange(6, dtype=np.float32)
    for source in (
        kept,
        bytearray(24),
        Producer(kept),
        kept.ctypes.data,
        array.array("f", [1] * 6),
    ):
        tensor.set_data_handle(source)
        assert tensor.numpy().shape == (6,)
    assert tensor.numpy().tolist() == [1] * 6


def test_set_data_handle_is_checked_as_the_constructor_and_changes_nothing_on_failure(engine):
    first = np.arange(6, dtype=np.float32)
    tensor = og.tensor(f32(6), engine, first)
    for wrong, error in [
        (np.zeros(5, np.float32), og.InvalidShapeError),
        (np.zeros(6, np.int32), og.InvalidDataTypeError),
        (bytearray(23), og.InvalidShapeError),
        (0, og.InvalidArgumentsError),
        (None, TypeError),
        ("x", TypeError),
    ]:
        with pytest.raises(error):
            tensor.set_data_handle(wrong)
        assert tensor.get_data_handle() == first.ctypes.data


def test_set_data_handle_lets_the_old_memory_go_and_views_keep_it(engine):
    first, second = np.zeros(6, np.float32), np.ones(6, np.float32)
    owner = weakref.ref(first)
    tensor = og.tensor(f32(6), engine, first)
    view = tensor.numpy()
    del first
    tensor.set_data_handle(second)
    gc.collect()
    assert owner() is not None
    assert (view == 0).all() and (tensor.numpy() == 1).all()
    del view
    gc.collect()
    assert owner() is None


def test_a_tensor_and_its_views_keep_the_owner_alive(engine):
    source = np.zeros(6, np.float32)
    owner = weakref.ref(source)
    tensor = og.tensor(f32(6), engine, source)
    view = tensor.numpy()
    del source
    gc.collect()
    assert owner() is not None
    del tensor
    gc.collect()
    assert owner() is not None
    del view
    gc.collect()
    assert owner() is None


# -- the rest ---------------------------------------------------------------------------------


def test_the_getters_tell_what_was_given(engine):
    lt = f32(2, 3)
    tensor = og.tensor(lt, engine, np.zeros((2, 3), np.float32))
    assert tensor
    assert tensor.get_engine() is engine
    assert tensor.get_logical_tensor() == lt
    assert tensor.get() > 0
    assert repr(tensor) == "tensor(id=0, f32, 2x3, strides 3x1, strided, undef, 24 bytes)"


def test_an_empty_tensor_is_false():
    assert not og.tensor()
    assert repr(og.tensor()) == "tensor()"


@since(3, 9)
@pytest.mark.parametrize(
    ("dtype", "value"), [("f32", 1.5), ("s32", -7), ("f32", np.float64(2)), ("s32", np.array(3))]
)
def test_a_host_scalar_holds_a_copy_of_its_value(dtype, value):
    scalar = og.tensor.make_scalar_tensor(LT(0, dtype, [], "strided", "host_scalar"), value)
    assert scalar.numpy() == value
    assert not scalar.numpy().flags.writeable
    for use in (scalar.get_engine, lambda: scalar.set_data_handle(np.array(1, np.float32))):
        with pytest.raises(og.InvalidArgumentsError, match="host scalar"):
            use()
