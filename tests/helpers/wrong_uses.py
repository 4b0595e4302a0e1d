"""Wrong uses of the mirror, one small function each: every one must raise, and none may crash.

As a program it is the worker of test_wrong_uses.py: it reads the names of cases from its arguments
(none: all), and says on stdout, a JSON line each, which case it starts and how it ended.
"""

# Regular expressions and names of cases are not to be broken over lines.
# ruff: noqa: E501

from __future__ import annotations

import ctypes
import json
import mmap
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import ml_dtypes
import numpy as np
from graphs import PACKS_WEIGHTS

import onednn_graph_py as og

LT = og.logical_tensor


@dataclass(frozen=True)
class Case:
    """A wrong use, the exception that it must raise and what the message must say."""

    run: Callable[[], object]
    raises: str
    says: str


CASES: dict[str, Case] = {}


def wrong(raises: str, name: str, says: str, run: Callable[[], object]) -> None:
    """List a wrong use; `says` is a regular expression."""
    assert name not in CASES, name
    CASES[name] = Case(run, raises, says)


# -- what the cases are made from ------------------------------------------------------------------


def lt(tid: int = 0, dims=(4, 8), dtype="f32", layout="strided", prop="variable") -> LT:
    return LT(tid, dtype, list(dims), layout, prop)


def cpu() -> og.engine:
    return og.engine("cpu", 0)


def ones(*dims: int, dtype=np.float32) -> np.ndarray:
    return np.ones(dims, dtype)


def graph_of(*ops: og.op) -> og.graph:
    graph = og.graph("cpu")
    for one in ops:
        graph.add_op(one)
    graph.finalize()
    return graph


def op(kind: str, inputs: list, outputs: list, number: int = 0, **attrs) -> og.op:
    made = og.op(number, kind, inputs, outputs, f"the_{kind.lower()}")
    for name, value in attrs.items():
        made.set_attr(name, value)
    return made


def relu(number: int = 0, source: int = 0, target: int = 1) -> og.op:
    return op("ReLU", [lt(source)], [lt(target)], number)


def relu_partition() -> og.partition:
    (partition,) = graph_of(relu()).get_partitions()
    return partition


class Relu:
    """A compiled ReLU with all it takes to run."""

    def __init__(self) -> None:
        self.engine = cpu()
        self.stream = og.stream(self.engine)
        self.compiled = relu_partition().compile([lt(0)], [lt(1)], self.engine)
        self.x = og.tensor(lt(0), self.engine, ones(4, 8))
        self.y = og.tensor(lt(1), self.engine, ones(4, 8))

    def execute(self, inputs: object, outputs: object, **more: object) -> None:
        self.compiled.execute(self.stream, inputs, outputs, **more)


class MatMul:
    """A compiled product of two matrices: two inputs that differ, nothing in place."""

    def __init__(self) -> None:
        self.engine = cpu()
        self.stream = og.stream(self.engine)
        self.lts = [lt(0, (4, 8)), lt(1, (8, 4)), lt(2, (4, 4))]
        (partition,) = graph_of(op("MatMul", self.lts[:2], self.lts[2:])).get_partitions()
        self.compiled = partition.compile(self.lts[:2], self.lts[2:], self.engine)
        self.a = og.tensor(self.lts[0], self.engine, ones(4, 8))
        self.b = og.tensor(self.lts[1], self.engine, ones(8, 4))
        self.c = og.tensor(self.lts[2], self.engine, ones(4, 4))

    def execute(self, inputs: object, outputs: object, **more: object) -> None:
        self.compiled.execute(self.stream, inputs, outputs, **more)


def run_op(made: og.op, output: tuple[int, ...] | None = None) -> None:
    """Take an op all the way: graph, partition, compile, execute."""
    (partition,) = graph_of(made).get_partitions()
    inputs = list({t.get_id(): t for t in made.get_inputs()}.values())
    outputs = [
        lt(t.get_id(), output, t.get_data_type()) if output else LT(t.get_id(), t.get_data_type())
        for t in made.get_outputs()
    ]
    engine = cpu()
    compiled = partition.compile(inputs, outputs, engine)
    compiled.execute(
        og.stream(engine),
        [og.tensor(t, engine) for t in compiled.get_inputs()],
        [og.tensor(t, engine) for t in compiled.get_outputs()],
    )


def matmul_any_weights() -> tuple[og.compiled_partition, LT]:
    source, weights, product = (
        lt(0, (64, 512)),
        lt(1, (512, 512), layout="any", prop="constant"),
        lt(2, (64, 512)),
    )
    compiled = og.partition(op("MatMul", [source, weights], [product]), "cpu").compile(
        [source, weights], [product], cpu()
    )
    return compiled, compiled.query_logical_tensor(1)


ARGS, SHAPE, TYPE = "InvalidArgumentsError", "InvalidShapeError", "InvalidDataTypeError"
GRAPH, GRAPH_OP = "InvalidGraphError", "InvalidGraphOpError"
bad_argument, bad_shape, bad_data_type = (partial(wrong, e) for e in (ARGS, SHAPE, TYPE))
bad_graph, bad_op = partial(wrong, GRAPH), partial(wrong, GRAPH_OP)
missing, refused = partial(wrong, "UnimplementedError"), partial(wrong, "OneDNNError")
type_error, value_error, buffer_error = (
    partial(wrong, e) for e in ("TypeError", "ValueError", "BufferError")
)

# -- objects without __init__, and empty ones -------------------------------------------------------

for cls, use in (
    (og.engine, lambda o: o.get_kind()),
    (og.stream, lambda o: o.wait()),
    (og.allocator, lambda o: o.statistics()),
    (og.logical_tensor, lambda o: o.get_dims()),
    (og.tensor, lambda o: o.numpy()),
    (og.op, lambda o: o.get_id()),
    (og.graph, lambda o: o.finalize()),
    (og.partition, lambda o: o.get_ops()),
    (og.compiled_partition, lambda o: o.get_inplace_ports()),
):
    type_error(
        f"{cls.__name__} without init",
        "__init__|non-held",
        lambda cls=cls, use=use: use(cls.__new__(cls)),
    )
    type_error(
        f"{cls.__name__} printed without init",
        "__init__|non-held",
        lambda cls=cls: repr(cls.__new__(cls)),
    )
    type_error(
        f"{cls.__name__} subclass that forgets init",
        "__init__",
        lambda cls=cls: type("Forgetful", (cls,), {"__init__": lambda self: None})(),
    )
bad_argument(
    "bound_execution without init", "bind", lambda: og.bound_execution.__new__(og.bound_execution)()
)
type_error("bound_execution by hand", "No constructor", lambda: og.bound_execution())

for name, call in {
    "get_kind": lambda e: e.get_kind(),
    "get": lambda e: e.get(),
    "as a stream's engine": lambda e: og.stream(e),
    "as a tensor's engine": lambda e: og.tensor(lt(), e, ones(4, 8)),
    "to allocate from": lambda e: og.tensor(lt(), e),
    "to compile for": lambda e: relu_partition().compile([lt(0)], [lt(1)], e),
}.items():
    bad_argument(f"empty engine {name}", "empty", lambda call=call: call(og.engine()))
for name, call in {
    "wait": lambda s: s.wait(),
    "get_engine": lambda s: s.get_engine(),
    "get": lambda s: s.get(),
    "to execute on": lambda s: (lambda r: r.compiled.execute(s, [r.x], [r.y]))(Relu()),
    "to bind to": lambda s: (lambda r: r.compiled.bind(s, [r.x], [r.y]))(Relu()),
}.items():
    bad_argument(f"empty stream {name}", "stream.*empty", lambda call=call: call(og.stream()))
for getter in (
    "get_id",
    "get_dims",
    "get_strides",
    "get_data_type",
    "get_layout_type",
    "get_property_type",
    "get_layout_id",
    "get_mem_size",
):
    bad_argument(
        f"empty logical_tensor {getter}",
        "logical_tensor.*empty",
        lambda getter=getter: getattr(LT(), getter)(),
    )
bad_argument("empty logical_tensor is_equal", "empty", lambda: lt().is_equal(LT()))
bad_argument("empty logical_tensor as an input", "empty", lambda: op("ReLU", [LT()], [lt(1)]))
bad_argument("empty logical_tensor as an output", "empty", lambda: op("ReLU", [lt(0)], [LT()]))
bad_argument("empty logical_tensor for a tensor", "empty", lambda: og.tensor(LT(), cpu(), ones(4)))
bad_argument(
    "empty logical_tensor to compile",
    "empty",
    lambda: relu_partition().compile([LT()], [lt(1)], cpu()),
)
for name, call in {
    "numpy": lambda t: t.numpy(),
    "get_data_handle": lambda t: t.get_data_handle(),
    "set_data_handle": lambda t: t.set_data_handle(ones(4)),
    "get_engine": lambda t: t.get_engine(),
    "get_logical_tensor": lambda t: t.get_logical_tensor(),
    "get": lambda t: t.get(),
    "as an array": lambda t: np.asarray(t),
    "to DLPack": lambda t: t.__dlpack__(),
    "as an input": lambda t: (lambda r: r.execute([t], [r.y]))(Relu()),
    "as an output": lambda t: (lambda r: r.execute([r.x], [t]))(Relu()),
}.items():
    bad_argument(f"empty tensor {name}", "tensor.*empty", lambda call=call: call(og.tensor()))
for name, call in {
    "get_ops": lambda p: p.get_ops(),
    "get_ops_num": lambda p: p.get_ops_num(),
    "get_id": lambda p: p.get_id(),
    "is_supported": lambda p: p.is_supported(),
    "get_input_ports": lambda p: p.get_input_ports(),
    "get_output_ports": lambda p: p.get_output_ports(),
    "get_engine_kind": lambda p: p.get_engine_kind(),
    "compile": lambda p: p.compile([], [], cpu()),
}.items():
    bad_argument(
        f"empty partition {name}", "partition.*empty", lambda call=call: call(og.partition())
    )
for name, call in {
    "query_logical_tensor": lambda c: c.query_logical_tensor(0),
    "get_inplace_ports": lambda c: c.get_inplace_ports(),
    "get_scratchpad_logical_tensor": lambda c: c.get_scratchpad_logical_tensor(),
    "get_inputs": lambda c: c.get_inputs(),
    "execute": lambda c: c.execute(og.stream(cpu()), [], []),
    "bind": lambda c: c.bind(og.stream(cpu()), [], []),
}.items():
    bad_argument(
        f"empty compiled_partition {name}",
        "compiled_partition.*empty",
        lambda call=call: call(og.compiled_partition()),
    )

# -- engine, stream, allocator ----------------------------------------------------------------------

bad_argument(
    "engine of a misspelt kind", "'cpuu'.*engine kind.*'cpu'", lambda: og.engine("cpuu", 0)
)
type_error("engine of a number", "engine", lambda: og.engine(1, 0))
type_error("engine of another enumeration", "engine", lambda: og.engine(og.op.ReLU, 0))
bad_argument("engine of a huge index", "index must be below", lambda: og.engine("cpu", 10**9))
bad_argument("engine of a negative index", "got -1", lambda: og.engine("cpu", -1))
bad_argument("engine of an index beyond 64 bits", "2\\*\\*63", lambda: og.engine("cpu", 2**70))
type_error("engine of a fraction", "engine", lambda: og.engine("cpu", 0.5))
type_error("engine of a bool", "engine", lambda: og.engine("cpu", True))
type_error("engine without an index", "engine", lambda: og.engine("cpu"))
bad_argument("engine of kind any", "engine\\(any", lambda: og.engine("any", 0))
bad_argument("engine count of a misspelt kind", "'cpx'", lambda: og.engine.get_count("cpx"))
type_error(
    "engine with no allocator", "alloc", lambda: og.make_engine_with_allocator("cpu", 0, None)
)
type_error("stream of None", "engine", lambda: og.stream(None))
type_error("stream of a kind", "engine", lambda: og.stream("cpu"))
bad_argument(
    "stream with a misspelt flag", "'in_ordre'.*'in_order'", lambda: og.stream(cpu(), "in_ordre")
)
type_error("stream with a number for flags", "flags", lambda: og.stream(cpu(), 3))
type_error("allocator of one callable", "malloc", lambda: og.allocator(lambda size, alignment: 0))
type_error("allocator of numbers", "malloc", lambda: og.allocator(1, 2))

# -- logical_tensor ---------------------------------------------------------------------------------

for count in (13, 40, 400):
    bad_shape(
        f"logical_tensor of {count} dims",
        f"{count} entries",
        lambda count=count: lt(0, [1] * count),
    )
for bad in (-2, -(2**62)):
    bad_shape(
        f"logical_tensor of dim {bad}",
        "negative",
        lambda bad=bad: og.tensor(lt(0, [4, bad]), cpu()),
    )
bad_argument("logical_tensor of a dim beyond 64 bits", "64 bits", lambda: lt(0, [2**64]))
bad_shape("logical_tensor of dims that overflow", "more elements", lambda: lt(0, [2**32, 2**32]))
bad_shape("logical_tensor of more bytes than memory", "more elements", lambda: lt(0, [2**62]))
type_error("logical_tensor of fractional dims", "1.5", lambda: lt(0, [1.5]))
type_error("logical_tensor of nested dims", "sequence of integers", lambda: lt(0, [[1, 2]]))
type_error("logical_tensor of bool dims", "True", lambda: lt(0, [True]))
bad_argument("logical_tensor of a str for dims", "'48'", lambda: LT(0, "f32", "48"))
type_error(
    "logical_tensor of bytes for dims", "logical_tensor", lambda: LT(0, "f32", b"48", "strided")
)
type_error(
    "logical_tensor of a dict for dims", "logical_tensor", lambda: LT(0, "f32", {4: 8}, "strided")
)
bad_shape("logical_tensor of short strides", "one entry", lambda: LT(0, "f32", [4, 8], [8]))
bad_shape("logical_tensor of long strides", "one entry", lambda: LT(0, "f32", [4, 8], [64, 8, 1]))
bad_shape("logical_tensor of no strides", "one entry", lambda: LT(0, "f32", [4, 8], []))
bad_shape("logical_tensor of negative strides", "negative", lambda: LT(0, "f32", [4, 8], [-8, 1]))
bad_shape(
    "logical_tensor of unknown strides", "must be known", lambda: LT(0, "f32", [4, 8], [None, 1])
)
bad_shape(
    "logical_tensor of far strides", "further than memory", lambda: LT(0, "f32", [4, 8], [2**62, 1])
)
for bad in (13, -2, 2**31, 2**40, -(2**63), 2**70):
    bad_shape(
        f"logical_tensor of ndims {bad}",
        "ndims must be",
        lambda bad=bad: LT(0, "f32", bad, "strided"),
    )
type_error(
    "logical_tensor of a bool for ndims", "logical_tensor", lambda: LT(0, "f32", True, "strided")
)
type_error(
    "logical_tensor of a fraction for ndims", "logical_tensor", lambda: LT(0, "f32", 1.5, "any")
)
bad_argument("logical_tensor of a negative id", "got -1", lambda: lt(-1))
bad_argument("logical_tensor of an id beyond 64 bits", "2\\*\\*63", lambda: lt(2**64))
type_error("logical_tensor of a str for an id", "logical_tensor", lambda: lt("0"))
type_error("logical_tensor of a float for an id", "logical_tensor", lambda: lt(0.0))
type_error("logical_tensor of None for an id", "logical_tensor", lambda: lt(None))
bad_argument("logical_tensor of a misspelt data type", "'f31'.*'f32'", lambda: lt(0, dtype="f31"))
type_error("logical_tensor of a NumPy dtype", "data_type", lambda: lt(0, dtype=np.float32))
type_error(
    "logical_tensor of a layout for a data type", "data_type", lambda: lt(0, dtype=LT.strided)
)
bad_argument(
    "logical_tensor of a misspelt layout", "'stridded'.*'strided'", lambda: lt(0, layout="stridded")
)
bad_argument("logical_tensor of a misspelt property", "'const'", lambda: lt(0, prop="const"))
type_error("logical_tensor of a data type for a property", "property", lambda: lt(0, prop=LT.f32))
bad_argument(
    "logical_tensor opaque without an id", "layout_id|opaque", lambda: lt(0, layout="opaque")
)
bad_argument("logical_tensor opaque of ndims", "opaque", lambda: LT(0, "f32", 2, "opaque"))
for bad in (0, 7, 2**20, 2**62):
    bad_argument(
        f"logical_tensor of forged layout id {bad}",
        "layout_id",
        lambda bad=bad: LT(0, "f32", [512, 512], bad),
    )
bad_argument(
    "logical_tensor of a layout id of other dims",
    "layout_id",
    lambda: LT(1, "f32", [8, 8], matmul_any_weights()[1].get_layout_id()),
)
bad_argument(
    "logical_tensor get_dims of unknown rank", "known rank", lambda: LT(0, "f32").get_dims()
)
bad_argument("logical_tensor get_strides of any", "strided", lambda: lt(layout="any").get_strides())
bad_argument("logical_tensor get_layout_id of strided", "opaque", lambda: lt().get_layout_id())
bad_shape(
    "logical_tensor get_mem_size of unknown dims", "known", lambda: lt(0, [4, -1]).get_mem_size()
)
bad_shape(
    "logical_tensor get_mem_size of any",
    "strided or opaque",
    lambda: lt(layout="any").get_mem_size(),
)
bad_data_type(
    "logical_tensor get_mem_size of undef", "undef", lambda: lt(dtype="undef").get_mem_size()
)
type_error("logical_tensor copied from a number", "logical_tensor", lambda: LT(5))
value_error(
    "logical_tensor of a forged pickle",
    "not a pickled logical_tensor",
    lambda: LT.__new__(LT).__setstate__((1, 2)),
)
if PACKS_WEIGHTS:  # otherwise nothing is opaque
    bad_argument(
        "logical_tensor opaque pickled", "pickled", lambda: pickle.dumps(matmul_any_weights()[1])
    )
type_error("logical_tensor compared with None by is_equal", "is_equal", lambda: lt().is_equal(None))

# -- tensor -----------------------------------------------------------------------------------------


def tensor_of(source: object, dtype: str = "f32", dims=(4, 8)) -> og.tensor:
    return og.tensor(lt(0, dims, dtype), cpu(), source)


def misaligned() -> np.ndarray:
    return np.frombuffer(bytearray(4 * 8 * 4 + 1), np.uint8)[1:].view(np.float32).reshape(4, 8)


def odd_strides() -> np.ndarray:
    packed = np.zeros((4, 8), np.dtype([("pad", "u1"), ("value", "f4")]))
    return packed["value"]


class Producer:
    """A DLPack producer that tells whatever it is given to tell."""

    def __init__(self, capsule: object, device: object = (1, 0)) -> None:
        self.capsule, self.device = capsule, device

    def __dlpack__(self, **_: object) -> object:
        if isinstance(self.capsule, Exception):
            raise self.capsule
        return self.capsule

    def __dlpack_device__(self) -> object:
        return self.device


def named_capsule(name: bytes) -> object:
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    kept.append(name)
    return new(id(name), name, None)


kept: list[bytes] = []


def used_capsule() -> object:
    capsule = ones(4, 8).__dlpack__()
    np.from_dlpack(Producer(capsule))
    return capsule


bad_data_type(
    "tensor of float64", "float32.*float64", lambda: tensor_of(ones(4, 8, dtype=np.float64))
)
bad_data_type(
    "tensor of half as wide elements", "float16", lambda: tensor_of(ones(4, 8, dtype=np.float16))
)
bad_data_type("tensor of foreign byte order", "float32", lambda: tensor_of(ones(4, 8, dtype=">f4")))
bad_data_type("tensor of objects", "object", lambda: tensor_of(np.full((4, 8), None)))
bad_data_type("tensor of records", "float32", lambda: tensor_of(np.zeros((4, 8), "f4,f4")))
bad_data_type(
    "tensor of complex numbers", "complex64", lambda: tensor_of(ones(4, 8, dtype=np.complex64))
)
bad_data_type(
    "tensor of int64 for s32", "int64", lambda: tensor_of(ones(4, 8, dtype=np.int64), "s32")
)
bad_data_type(
    "tensor of uint8 for boolean", "uint8", lambda: tensor_of(ones(4, 8, dtype=np.uint8), "boolean")
)
bad_data_type("tensor of bool for u8", "bool", lambda: tensor_of(ones(4, 8, dtype=bool), "u8"))
bad_data_type(
    "tensor of uint16 for bf16", "bfloat16", lambda: tensor_of(ones(4, 8, dtype=np.uint16), "bf16")
)
bad_data_type(
    "tensor of float16 for bf16",
    "bfloat16",
    lambda: tensor_of(ones(4, 8, dtype=np.float16), "bf16"),
)
bad_data_type(
    "tensor of another f8",
    "float8_e4m3fn",
    lambda: tensor_of(np.ones((4, 8), ml_dtypes.float8_e4m3b11fnuz), "f8_e4m3"),
)
bad_data_type(
    "tensor of unpacked int4", "pack_int4", lambda: tensor_of(np.ones((4, 8), ml_dtypes.int4), "s4")
)
bad_shape(
    "tensor of too few packed bytes", "16 bytes", lambda: tensor_of(ones(15, dtype=np.uint8), "s4")
)
bad_shape("tensor of a smaller array", "\\(4, 8\\).*\\(4, 7\\)", lambda: tensor_of(ones(4, 7)))
bad_shape("tensor of a larger array", "\\(4, 8\\).*\\(4, 9\\)", lambda: tensor_of(ones(4, 9)))
bad_shape("tensor of another rank", "\\(4, 8\\)", lambda: tensor_of(ones(2, 2, 8)))
bad_shape("tensor of a transposed array", "strides", lambda: tensor_of(ones(8, 4).T))
bad_shape("tensor of every other column", "strides", lambda: tensor_of(ones(4, 16)[:, ::2]))
bad_shape("tensor of a reversed array", "negative", lambda: tensor_of(ones(4, 8)[::-1]))
bad_shape(
    "tensor of a repeated row", "strides", lambda: tensor_of(np.broadcast_to(ones(8), (4, 8)))
)
wrong(
    SHAPE + "|" + ARGS,
    "tensor of odd byte strides",
    "whole elements|aligned",
    lambda: tensor_of(odd_strides()),
)
bad_argument("tensor of misaligned memory", "aligned to 4", lambda: tensor_of(misaligned()))
bad_shape("tensor of a short flat array", "\\(4, 8\\)", lambda: tensor_of(ones(31)))
bad_shape("tensor of an empty array", "\\(4, 8\\)", lambda: tensor_of(ones(0)))
bad_shape("tensor of a scalar array", "\\(4, 8\\)", lambda: tensor_of(np.float32(1).reshape(())))
type_error("tensor of a list", "NumPy array", lambda: tensor_of([[1.0] * 8] * 4))
type_error("tensor of None", "tensor|data", lambda: tensor_of(None))
type_error("tensor of a str", "NumPy array", lambda: tensor_of("x" * 128))
type_error("tensor of a float", "NumPy array", lambda: tensor_of(1.0))
type_error("tensor of an object", "NumPy array", lambda: tensor_of(object()))
type_error("tensor of a bool", "NumPy array", lambda: tensor_of(True))
bad_argument("tensor at the null address", "null", lambda: tensor_of(0))
bad_argument("tensor at an unmapped address", "not mapped", lambda: tensor_of(4096))
bad_argument("tensor at the last address", "not mapped", lambda: tensor_of(2**64 - 4))
bad_argument(
    "tensor at oneDNN's own marker for allocation", "not mapped", lambda: tensor_of(2**64 - 1)
)
bad_argument("tensor at a negative address", "address", lambda: tensor_of(-8))
bad_argument("tensor at an address beyond 64 bits", "address", lambda: tensor_of(2**64))
bad_argument(
    "tensor at a misaligned address", "aligned", lambda: tensor_of(ones(64).ctypes.data + 2)
)


def beyond_the_mapping() -> og.tensor:
    page = mmap.mmap(-1, mmap.PAGESIZE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(page))
    # The map as a whole may continue with another one, but not for a terabyte.
    return tensor_of(begin, dims=(2**38,))


bad_argument("tensor beyond its mapping", "not mapped", beyond_the_mapping)
bad_shape("tensor of too few bytes", "at least 128 bytes, got 127", lambda: tensor_of(bytes(127)))
bad_shape("tensor of a short bytearray", "at least 128", lambda: tensor_of(bytearray(8)))
bad_shape("tensor of gappy bytes", "contiguous", lambda: tensor_of(memoryview(bytes(512))[::2]))
bad_data_type(
    "tensor of a typed buffer", "float32", lambda: tensor_of(memoryview(bytes(256)).cast("d"))
)
value_error("tensor of a released buffer", "released", lambda: tensor_of(released()))


def released() -> memoryview:
    view = memoryview(bytearray(128))
    view.release()
    return view


bad_argument(
    "tensor from DLPack on a GPU", "device type 2", lambda: tensor_of(Producer(None, (2, 0)))
)
type_error(
    "tensor from DLPack without a device",
    "pair|tuple|NumPy",
    lambda: tensor_of(Producer(None, (1,))),
)
wrong(
    "TypeError|ValueError",
    "tensor from DLPack of a nonsense device",
    ".",
    lambda: tensor_of(Producer(None, "cpu")),
)
type_error("tensor from DLPack without a capsule", "capsule", lambda: tensor_of(Producer(5)))
value_error(
    "tensor from DLPack of a foreign capsule",
    "capsule|PyCapsule",
    lambda: tensor_of(Producer(named_capsule(b"other"))),
)
value_error(
    "tensor from DLPack of a used capsule",
    "capsule|PyCapsule",
    lambda: tensor_of(Producer(used_capsule())),
)
buffer_error(
    "tensor from DLPack that raises",
    "no export",
    lambda: tensor_of(Producer(BufferError("no export"))),
)
bad_data_type(
    "tensor from DLPack of float64",
    "64 bits",
    lambda: tensor_of(Producer(ones(4, 8, dtype=np.float64).__dlpack__())),
)
bad_shape(
    "tensor from DLPack of a smaller array",
    "\\(4, 7\\)",
    lambda: tensor_of(Producer(ones(4, 7).__dlpack__())),
)
bad_shape(
    "tensor from DLPack of a transposed array",
    "strides",
    lambda: tensor_of(Producer(ones(8, 4).T.__dlpack__())),
)
bad_shape("tensor of unknown dims", "known", lambda: tensor_of(ones(4, 8), dims=(4, -1)))
bad_shape("tensor of unknown rank", "known", lambda: og.tensor(LT(0, "f32"), cpu(), ones(4)))
bad_shape(
    "tensor of layout any",
    "strided or opaque",
    lambda: og.tensor(lt(layout="any"), cpu(), ones(4, 8)),
)
bad_shape(
    "tensor of layout undef",
    "strided or opaque",
    lambda: og.tensor(lt(layout="undef"), cpu(), ones(4, 8)),
)
bad_data_type(
    "tensor of type undef", "undef", lambda: og.tensor(lt(dtype="undef"), cpu(), ones(4, 8))
)
type_error("tensor without a logical tensor", "tensor", lambda: og.tensor(None, cpu(), ones(4)))
type_error("tensor without an engine", "tensor", lambda: og.tensor(lt(), None, ones(4, 8)))
type_error(
    "tensor of arguments in another order", "tensor", lambda: og.tensor(cpu(), lt(), ones(4, 8))
)
bad_shape("tensor of unknown dims allocated", "known", lambda: og.tensor(lt(0, (4, -1)), cpu()))
wrong(
    "OutOfMemoryError",
    "tensor of a petabyte",
    "allocating",
    lambda: og.tensor(lt(0, (2**48,)), cpu()),
)
bad_shape(
    "tensor allocated with overlapping strides",
    "overlap",
    lambda: og.tensor(LT(0, "f32", [4, 4, 4], [5, 4, 3]), cpu()),
)
bad_shape(
    "tensor given a smaller array later",
    "\\(4, 8\\)",
    lambda: tensor_of(ones(4, 8)).set_data_handle(ones(2)),
)
bad_data_type(
    "tensor given another dtype later",
    "float64",
    lambda: tensor_of(ones(4, 8)).set_data_handle(np.ones((4, 8))),
)
type_error(
    "tensor given None later",
    "set_data_handle",
    lambda: tensor_of(ones(4, 8)).set_data_handle(None),
)
bad_argument(
    "tensor given a null address later", "null", lambda: tensor_of(ones(4, 8)).set_data_handle(0)
)
value_error(
    "tensor as an array of another dtype without a copy",
    "copy",
    lambda: tensor_of(ones(4, 8)).__array__(np.float64, copy=False),
)
buffer_error(
    "tensor to DLPack on a stream", "stream", lambda: tensor_of(ones(4, 8)).__dlpack__(stream=1)
)
buffer_error(
    "tensor to DLPack on another device",
    "CPU",
    lambda: tensor_of(ones(4, 8)).__dlpack__(dl_device=(2, 0)),
)
buffer_error(
    "tensor to DLPack as a copy", "cop", lambda: tensor_of(ones(4, 8)).__dlpack__(copy=True)
)
buffer_error(
    "tensor of int4 to DLPack",
    "DLPack",
    lambda: tensor_of(ones(16, dtype=np.uint8), "u4").__dlpack__(),
)
buffer_error(
    "tensor read-only to old DLPack", "read-only", lambda: tensor_of(bytes(128)).__dlpack__()
)
if og.version()["minor"] >= 9:
    scalar = LT(0, "f32", [], "strided", "host_scalar")
    bad_argument(
        "host scalar of another property",
        "host_scalar",
        lambda: og.tensor.make_scalar_tensor(lt(0, ()), 1.0),
    )
    bad_shape(
        "host scalar of an array",
        "one number",
        lambda: og.tensor.make_scalar_tensor(scalar, [1.0, 2.0]),
    )
    wrong(
        "ValueError|TypeError|" + ARGS,
        "host scalar of a str",
        ".",
        lambda: og.tensor.make_scalar_tensor(scalar, "one"),
    )
    bad_argument(
        "host scalar that does not fit",
        "fit",
        lambda: og.tensor.make_scalar_tensor(LT(0, "s32", [], "strided", "host_scalar"), 2**40),
    )
    bad_argument(
        "host scalar given memory",
        "host scalar",
        lambda: og.tensor.make_scalar_tensor(scalar, 1.0).set_data_handle(ones(1)),
    )
else:
    missing(
        "host scalar before oneDNN 3.9",
        "needs oneDNN >= 3.9",
        lambda: og.tensor.make_scalar_tensor(lt(0, ()), 1.0),
    )

# -- op ---------------------------------------------------------------------------------------------

bad_argument("op of a misspelt kind", "'MatMull'.*'MatMul'", lambda: og.op(0, "MatMull"))
bad_argument("op of a kind in lower case", "'relu'.*'ReLU'", lambda: og.op(0, "relu"))
bad_argument("op of kind LastSymbol", "LastSymbol", lambda: og.op(0, og.op.LastSymbol))
type_error("op of a number", "op", lambda: og.op(0, 58))
type_error("op of an unknown number", "op", lambda: og.op(0, 9999))
type_error("op of None", "op", lambda: og.op(0, None))
type_error("op of an attribute", "op", lambda: og.op(0, og.op.axis))
bad_argument("op of a negative id", "got -1", lambda: og.op(-1, "ReLU"))
type_error("op of a fractional id", "op", lambda: og.op(0.5, "ReLU"))
bad_argument("op of a name with NUL", "NUL", lambda: og.op(0, "ReLU", "a\0b"))
type_error("op of a name that is no str", "op", lambda: og.op(0, "ReLU", 5))
type_error("op of arrays for inputs", "op", lambda: og.op(0, "ReLU", [ones(4)], [lt(1)]))
type_error("op of a single input", "op", lambda: og.op(0, "ReLU", lt(0), lt(1)))
type_error("op of None for inputs", "op", lambda: og.op(0, "ReLU", None, [lt(1)]))
type_error("op given None as input", "add_input", lambda: og.op(0, "ReLU").add_input(None))
type_error("op given a list as input", "add_input", lambda: og.op(0, "ReLU").add_input([lt(0)]))
type_error(
    "op given one tensor as inputs", "add_inputs", lambda: og.op(0, "ReLU").add_inputs(lt(0))
)
type_error(
    "op given tensors with memory",
    "add_output",
    lambda: og.op(0, "ReLU").add_output(tensor_of(ones(4, 8))),
)


def attr(name: object, value: object) -> og.op:
    return og.op(7, "MatMul", "fc").set_attr(name, value)


bad_argument("attribute misspelt", "'transpose_c'.*'transpose_", lambda: attr("transpose_c", True))
type_error("attribute of an op kind", "set_attr", lambda: attr(og.op.ReLU, 1))
bad_argument("attribute undef", "undef", lambda: attr(og.op.attr.undef, 1.0))
bad_argument("attribute end", "end", lambda: attr(og.op.attr.end, "x"))
for name, values in {
    "epsilon": ["x", [1.0], None, True, 1j, b"1", {}],
    "axis": [1.5, True, "1", [1], None, np.float32(1)],
    "transpose_b": [1, 0, "True", None, [True], 1.0],
    "data_format": [1, b"NCX", None, ["NCX"], True],
    "strides": [
        1,
        "11",
        [1.5, 1],
        [[1, 1]],
        None,
        [None],
        {1: 1},
        np.ones((2, 2), np.int64),
        [True],
    ],
    "scales": [1.0, "1", ["1"], None, [None], [[1.0]], np.ones((1, 1)), [True]],
}.items():
    for value in values:
        type_error(
            f"attribute {name} of {value!r}".replace("\n", ""),
            f"op 7 'fc' .*{name}",
            lambda name=name, value=value: attr(name, value),
        )
for name in ("strides", "scales"):
    bad_argument(
        f"attribute {name} of an empty list",
        f"{name} must have at least one",
        lambda name=name: attr(name, []),
    )
    bad_argument(
        f"attribute {name} of an empty array",
        name,
        lambda name=name: attr(name, np.empty(0, np.int64)),
    )
bad_argument("attribute mode of an empty str", "mode.*non-empty", lambda: attr("mode", ""))
bad_argument("attribute mode with NUL", "NUL", lambda: attr("mode", "a\0"))
bad_argument("attribute axis beyond 64 bits", "64 bits", lambda: attr("axis", 2**63))
bad_argument(
    "attribute pads_begin beyond 64 bits", "64 bits", lambda: attr("pads_begin", [2**70, 0])
)
bad_argument("attribute epsilon beyond 32 bits", "32-bit float", lambda: attr("epsilon", 1e39))
bad_argument("attribute epsilon beyond 64 bits", "too large|fit", lambda: attr("epsilon", 10**400))


def frozen() -> og.op:
    made = relu()
    graph_of(made)
    return made


bad_op(
    "op changed after a graph took it",
    "op 0 'the_relu'.*copy",
    lambda: frozen().set_attr("alpha", 1),
)
bad_op("op extended after a graph took it", "copy", lambda: frozen().add_input(lt(5)))

# -- graph ------------------------------------------------------------------------------------------

bad_argument("graph of a misspelt kind", "'gpx'", lambda: og.graph("gpx"))
type_error("graph of an engine", "graph", lambda: og.graph(cpu()))
bad_argument("graph of a misspelt mode", "'bf17'.*'bf16'", lambda: og.graph("cpu", "bf17"))
type_error("graph given None", "add_op", lambda: og.graph("cpu").add_op(None))
type_error("graph given a kind", "add_op", lambda: og.graph("cpu").add_op("ReLU"))
bad_op(
    "graph given an id twice",
    "already has op 0 'the_relu'",
    lambda: graph_of(relu(), relu(0, 2, 3)),
)
bad_op(
    "graph with two producers",
    "logical tensor 1 is already produced by op 0",
    lambda: graph_of(relu(), relu(1, 5, 1)),
)
bad_op(
    "graph with an output given twice",
    "two outputs",
    lambda: graph_of(op("SoftMax", [lt(0)], [lt(1), lt(1)], axis=1)),
)


def finalized_then(call: Callable[[og.graph], object]) -> object:
    return call(graph_of(relu()))


bad_graph(
    "graph given an op after finalize",
    "op 1 .*finalized",
    lambda: finalized_then(lambda g: g.add_op(relu(1, 1, 2))),
)
bad_graph(
    "graph given a mode after finalize",
    "set_fpmath_mode",
    lambda: finalized_then(lambda g: g.set_fpmath_mode("bf16")),
)
bad_argument(
    "graph given a misspelt policy",
    "'fusions'.*'fusion'",
    lambda: finalized_then(lambda g: g.get_partitions("fusions")),
)
type_error(
    "graph given a number for a policy",
    "get_partitions",
    lambda: finalized_then(lambda g: g.get_partitions(1)),
)


def unfinalized() -> object:
    graph = og.graph("cpu")
    graph.add_op(relu())
    return graph.get_partitions()


bad_graph("graph partitioned before finalize", "finalize the graph first", unfinalized)


def joined(between: LT) -> og.graph:
    return graph_of(relu(), op("Exp", [between], [LT(2, "f32")], 1))


bad_graph(
    "graph whose uses differ in dims", "logical tensor 1 differs", lambda: joined(lt(1, (8, 4)))
)
bad_graph(
    "graph whose uses differ in rank",
    "logical tensor 1 differs",
    lambda: joined(LT(1, "f32", 2, "strided")),
)
bad_graph(
    "graph whose uses differ in data type",
    "logical tensor 1 differs",
    lambda: graph_of(relu(), op("Exp", [lt(1, dtype="bf16")], [lt(2, dtype="bf16")], 1)),
)
bad_graph(
    "graph whose uses differ in property",
    "logical tensor 1 differs",
    lambda: joined(lt(1, prop="constant")),
)
bad_graph(
    "graph whose uses differ in layout",
    "logical tensor 1 differs",
    lambda: joined(lt(1, layout="any")),
)
bad_graph(
    "graph whose uses differ in strides",
    "logical tensor 1 differs",
    lambda: joined(LT(1, "f32", [4, 8], [1, 4], "variable")),
)
bad_graph("graph with a cycle", "cycle", lambda: graph_of(relu(0, 0, 1), relu(1, 1, 0)))
wrong(
    GRAPH + "|" + GRAPH_OP,
    "graph with an op that feeds itself",
    "its own output",
    lambda: graph_of(relu(0, 3, 3)),
)

# -- schemas: oneDNN refuses, the table says why --------------------------------------------------

bad_op(
    "op without its input",
    "op 0 'the_relu' \\(ReLU\\).*must have 1 input",
    lambda: graph_of(op("ReLU", [], [lt(1)])),
)
bad_op("op without its output", "must have 1 output", lambda: graph_of(op("ReLU", [lt(0)], [])))
bad_op(
    "op with too many inputs",
    "must have 1 input",
    lambda: graph_of(op("ReLU", [lt(0), lt(5)], [lt(1)])),
)
bad_op(
    "op without a required attribute",
    "the_elu.*alpha|the_elu.*attr",
    lambda: graph_of(op("Elu", [lt(0)], [lt(1)])),
)
bad_op(
    "op with an attribute of another op",
    "the_relu",
    lambda: graph_of(op("ReLU", [lt(0)], [lt(1)], groups=1)),
)
bad_op(
    "op with an attribute that it does not allow",
    "the_matmul|the_softmax|NCXX|data_format",
    lambda: graph_of(conv(data_format="NCXX")),
)
bad_op(
    "op of two data types",
    "input 1 \\(weights\\) must be f32",
    lambda: graph_of(op("MatMul", [lt(0), lt(1, (8, 4), "f16")], [lt(2, (4, 4))])),
)
bad_op(
    "op of data type undef",
    "the_relu",
    lambda: graph_of(op("ReLU", [lt(0, dtype="undef")], [lt(1, dtype="undef")])),
)
bad_op(
    "op of a schema failure as a partition",
    "partition of op 0",
    lambda: og.partition(op("ReLU", [lt(0)], []), "cpu"),
)

# -- ops that crash oneDNN ------------------------------------------------------------------------------


def conv(
    kind: str = "Convolution", source=(1, 4, 8, 8), weights=(4, 4, 3, 3), bias=None, **attrs
) -> og.op:
    formats = {"data_format": "NCX", "weights_format": "IOX" if "Transpose" in kind else "OIX"}
    plain = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    inputs = [lt(0, source), lt(1, weights)] + ([lt(3, bias)] if bias else [])
    return op(kind, inputs, [LT(2, "f32")], **{**formats, **plain, **attrs})


def pool(kind: str = "MaxPool", source=(1, 4, 8, 8), **attrs) -> og.op:
    plain = {
        "strides": [2, 2],
        "kernel": [2, 2],
        "pads_begin": [0, 0],
        "pads_end": [0, 0],
        "data_format": "NCX",
    }
    if kind == "AvgPool":
        plain["exclude_pad"] = True
    return op(kind, [lt(0, source)], [LT(2, "f32")], **{**plain, **attrs})


for kind in ("Convolution", "ConvTranspose"):
    for name, attrs in {
        "stride 0": {"strides": [0, 1]},
        "negative stride": {"strides": [-1, 1]},
        "stride 0 and SAME": {"strides": [0, 0], "auto_pad": "SAME_UPPER"},
        "dilation 0": {"dilations": [0, 1]},
        "groups 0": {"groups": 0},
        "negative groups": {"groups": -1},
        "groups that do not divide": {"groups": 3},
        "short strides": {"strides": [1]},
        "long strides": {"strides": [1, 1, 1]},
        "short dilations": {"dilations": [1]},
        "short pads": {"pads_begin": [0]},
        "negative pads": {"pads_end": [-1, 0]},
        "60 strides": {"strides": [1] * 60},
        "13 pads": {"pads_begin": [0] * 13},
        "huge pads": {"pads_begin": [2**40, 0]},
        "a bias of other length": {"bias": (5,)},
        "weights of another rank": {"weights": (4, 4, 3)},
        "weights of other channels": {"weights": (5, 5, 3, 3)},
        "a source of rank 2": {"source": (4, 8)},
    }.items():
        refused(
            f"{kind} with {name}",
            f"the_{kind.lower()}|{kind}",
            lambda kind=kind, attrs=attrs: run_op(conv(kind, **attrs)),
        )
refused(
    "Convolution with a kernel beyond its source",
    "the_convolution",
    lambda: run_op(conv(weights=(4, 4, 30, 30))),
)
refused(
    "ConvTranspose with short output_padding",
    "output_padding|the_convtranspose",
    lambda: run_op(conv("ConvTranspose", output_padding=[0])),
)
bad_shape(
    "ConvTranspose with 13 output_padding",
    "output_padding",
    lambda: run_op(conv("ConvTranspose", output_padding=[0] * 13)),
)
for kind in ("MaxPool", "AvgPool"):
    for name, attrs in {
        "stride 0": {"strides": [0, 2]},
        "kernel 0": {"kernel": [0, 2]},
        "a kernel shorter than the rank": {"kernel": [2]},
        "strides shorter than the rank": {"strides": [2]},
        "60 kernels": {"kernel": [2] * 60},
        "a source of rank 1": {"source": (8,)},
        "a source of rank 2": {"source": (8, 8)},
        "a scalar source": {"source": ()},
        "a kernel beyond its source": {"kernel": [20, 20]},
    }.items():
        refused(
            f"{kind} with {name}",
            f"the_{kind.lower()}|{kind}",
            lambda kind=kind, attrs=attrs: run_op(pool(kind, **attrs)),
        )
bad_op("MaxPool with dilation 0", "dilations", lambda: run_op(pool(dilations=[0, 1])))
for name, first, second in (
    ("a scalar first", (), (8, 4)),
    ("a scalar second", (4, 8), ()),
    ("two scalars", (), ()),
    ("inner dims that differ", (4, 8), (9, 4)),
    ("batches that do not broadcast", (2, 4, 8), (3, 8, 4)),
):
    refused(
        f"MatMul of {name}",
        "the_matmul|MatMul",
        lambda first=first, second=second: run_op(
            op("MatMul", [lt(0, first), lt(1, second)], [LT(2, "f32")])
        ),
    )
bad_shape(
    "PReLU of one dim",
    "the_prelu.*at least 2 dims",
    lambda: run_op(op("PReLU", [lt(0, (16,)), lt(1, (16,))], [LT(2, "f32", -1, "strided")])),
)
for count in (13, 60):
    bad_shape(
        f"StaticReshape to {count} dims",
        "shape has|shape",
        lambda count=count: run_op(
            op("StaticReshape", [lt(0)], [LT(1, "f32")], shape=[1] * count, special_zero=False)
        ),
    )
    bad_shape(
        f"StaticTranspose of {count} dims",
        "order",
        lambda count=count: run_op(
            op("StaticTranspose", [lt(0)], [LT(1, "f32")], order=list(range(count)))
        ),
    )
refused(
    "StaticReshape to other elements",
    "the_staticreshape|StaticReshape",
    lambda: run_op(op("StaticReshape", [lt(0)], [LT(1, "f32")], shape=[5, 5], special_zero=False)),
)
bad_shape(
    "StaticReshape to a dim of -6",
    "attribute shape \\[2, -6\\] has an entry below -1",
    lambda: og.ops.check(
        "StaticReshape", [((4, 8), "f32")], dict(shape=[2, -6], special_zero=False)
    ),
)
refused(
    "StaticReshape with two unknowns",
    "the_staticreshape|StaticReshape",
    lambda: run_op(
        op("StaticReshape", [lt(0)], [LT(1, "f32")], shape=[-1, -1], special_zero=False)
    ),
)
refused(
    "StaticTranspose of a repeated dim",
    "the_statictranspose|StaticTranspose",
    lambda: run_op(op("StaticTranspose", [lt(0)], [LT(1, "f32")], order=[0, 0])),
)
refused(
    "StaticTranspose of too few dims",
    "the_statictranspose|StaticTranspose",
    lambda: run_op(op("StaticTranspose", [lt(0)], [LT(1, "f32")], order=[0])),
)
refused(
    "StaticTranspose of a dim that is not there",
    "the_statictranspose|StaticTranspose|order",
    lambda: run_op(op("StaticTranspose", [lt(0)], [LT(1, "f32")], order=[0, 7])),
)
for name in ("src_shape", "weights_shape", "dst_shape"):
    kind = {
        "src_shape": "AvgPoolBackward",
        "weights_shape": "ConvolutionBackwardWeights",
        "dst_shape": "ConvolutionBackwardData",
    }[name]
    bad_op(
        f"{kind} with 60 {name}",
        "needs the attributes strides",
        lambda kind=kind, name=name: run_op(
            op(kind, [lt(0), lt(1)], [LT(2, "f32")], **{name: [1] * 60})
        ),
    )
for kind in ("Quantize", "Dequantize"):
    for name, attrs in {
        "too few scales": {"scales": [1.0] * 3, "zps": [0] * 3, "axis": 1},
        "too many scales": {"scales": [1.0] * 80, "zps": [0] * 80, "axis": 1},
        "an axis that is not there": {"scales": [1.0] * 8, "zps": [0] * 8, "axis": 2},
        "an axis far below": {"scales": [1.0] * 8, "zps": [0] * 8, "axis": -(2**40)},
        "too few zero points": {"scales": [1.0] * 8, "zps": [0] * 3, "axis": 1},
    }.items():
        types = ("f32", "s8") if kind == "Quantize" else ("s8", "f32")
        refused(
            f"{kind} with {name}",
            f"the_{kind.lower()}|{kind}",
            lambda kind=kind, attrs=attrs, types=types: run_op(
                op(kind, [lt(0, dtype=types[0])], [LT(1, types[1])], qtype="per_channel", **attrs)
            ),
        )
bad_op(
    "DynamicDequantize with a group of 0",
    "group_shape",
    lambda: run_op(
        op(
            "DynamicDequantize",
            [lt(0, dtype="u8"), lt(1, (4, 1))],
            [LT(2, "f32")],
            qtype="per_group",
            group_shape=[1, 0],
        )
    ),
)
for name, attrs in {
    "short sizes": {"sizes": [4]},
    "long sizes": {"sizes": [4, 4, 4]},
    "negative sizes": {"sizes": [-4, 4]},
    "60 sizes": {"sizes": [4] * 60},
    "short scales": {"scales": [2.0]},
}.items():
    refused(
        f"Interpolate with {name}",
        "the_interpolate|Interpolate",
        lambda attrs=attrs: run_op(
            op(
                "Interpolate",
                [lt(0, (1, 4, 8, 8))],
                [LT(1, "f32")],
                mode="nearest",
                data_format="NCX",
                **attrs,
            )
        ),
    )
refused(
    "BatchNormInference with parameters of other channels",
    "the_batchnorminference|BatchNorm",
    lambda: run_op(
        op(
            "BatchNormInference",
            [lt(0, (1, 4, 8, 8)), *(lt(i, (3,)) for i in range(1, 5))],
            [LT(6, "f32")],
            epsilon=1e-5,
            data_format="NCX",
        )
    ),
)
refused(
    "BiasAdd with a bias of other channels",
    "the_biasadd|BiasAdd",
    lambda: run_op(op("BiasAdd", [lt(0), lt(1, (3,))], [LT(2, "f32")], data_format="NXC")),
)
refused(
    "Add of shapes that do not broadcast",
    "the_add|Add",
    lambda: run_op(op("Add", [lt(0), lt(1, (5,))], [LT(2, "f32")])),
)
refused(
    "Concat on an axis that is not there",
    "the_concat|Concat",
    lambda: run_op(op("Concat", [lt(0), lt(1)], [LT(2, "f32")], axis=9)),
)
refused(
    "Concat of shapes that differ",
    "the_concat|Concat",
    lambda: run_op(op("Concat", [lt(0), lt(1, (4, 9, 2))], [LT(2, "f32")], axis=0)),
)
refused(
    "SoftMax on an axis that is not there",
    "the_softmax|SoftMax|axis",
    lambda: run_op(op("SoftMax", [lt(0)], [LT(1, "f32")], axis=5)),
)
bad_shape(
    "SoftMax on an axis far away",
    "axis",
    lambda: run_op(op("SoftMax", [lt(0)], [LT(1, "f32")], axis=2**40)),
)
bad_shape(
    "LayerNorm from an axis far away",
    "begin_norm_axis",
    lambda: run_op(
        op(
            "LayerNorm",
            [lt(0)],
            [LT(1, "f32")],
            keep_stats=False,
            use_affine=False,
            begin_norm_axis=100,
        )
    ),
)
bad_shape(
    "ReduceSum over 60 axes",
    "axes",
    lambda: run_op(op("ReduceSum", [lt(0)], [LT(1, "f32")], axes=[0] * 60)),
)
refused(
    "ReduceSum over an axis that is not there",
    "the_reducesum|ReduceSum|axes",
    lambda: run_op(op("ReduceSum", [lt(0)], [LT(1, "f32")], axes=[7])),
)

# -- partition and compile --------------------------------------------------------------------------


def compile_relu(inputs: object, outputs: object, engine: object = "own") -> object:
    return relu_partition().compile(inputs, outputs, cpu() if engine == "own" else engine)


bad_argument("compile without its input", "input 0 is missing", lambda: compile_relu([], [lt(1)]))
bad_argument("compile without its output", "output 1 is missing", lambda: compile_relu([lt(0)], []))
bad_argument(
    "compile with an input too many", "not a port", lambda: compile_relu([lt(0), lt(7)], [lt(1)])
)
bad_argument(
    "compile with an output too many", "not a port", lambda: compile_relu([lt(0)], [lt(1), lt(7)])
)
bad_argument(
    "compile with an input twice", "more often", lambda: compile_relu([lt(0), lt(0)], [lt(1)])
)
bad_argument(
    "compile with inputs for outputs", "not a port", lambda: compile_relu([lt(1)], [lt(0)])
)
bad_data_type(
    "compile with another data type",
    "differs from the graph",
    lambda: compile_relu([lt(0, dtype="f16")], [lt(1)]),
)
bad_data_type(
    "compile with another output data type",
    "differs",
    lambda: compile_relu([lt(0)], [lt(1, dtype="s8")]),
)
bad_shape("compile with another shape", "differs", lambda: compile_relu([lt(0, (4, 9))], [lt(1)]))
bad_shape(
    "compile with another output shape", "differs", lambda: compile_relu([lt(0)], [lt(1, (4, 4))])
)
bad_shape("compile with another rank", "differs", lambda: compile_relu([lt(0, (32,))], [lt(1)]))
bad_shape(
    "compile with unknown dims", "known dims", lambda: compile_relu([lt(0, (4, -1))], [lt(1)])
)
bad_shape("compile with unknown rank", "known dims", lambda: compile_relu([LT(0, "f32")], [lt(1)]))
bad_shape(
    "compile with layout any for an input",
    "strided or opaque",
    lambda: compile_relu([lt(0, layout="any")], [lt(1)]),
)
bad_shape(
    "compile with layout undef for an input",
    "strided or opaque",
    lambda: compile_relu([lt(0, layout="undef")], [lt(1)]),
)
type_error("compile without an engine", "compile", lambda: compile_relu([lt(0)], [lt(1)], None))
type_error("compile for an engine's kind", "compile", lambda: compile_relu([lt(0)], [lt(1)], "cpu"))
type_error("compile with arrays", "compile", lambda: compile_relu([ones(4, 8)], [lt(1)]))
type_error("compile with None", "compile", lambda: compile_relu(None, None))


def lying_output() -> object:
    source, target = lt(0), LT(1, "f32")
    return og.partition(op("ReLU", [source], [target]), "cpu").compile(
        [source], [lt(1, (2, 4))], cpu()
    )


bad_shape("compile with output dims that are not so", "the_relu|ReLU", lying_output)


def unsupported() -> og.partition:
    (partition,) = graph_of(op("Wildcard", [lt(0)], [lt(1)])).get_partitions()
    return partition


missing(
    "compile of an unsupported partition",
    "Wildcard.*unsupported",
    lambda: unsupported().compile([lt(0)], [lt(1)], cpu()),
)
type_error("partition of None", "partition", lambda: og.partition(None, "cpu"))
bad_argument("partition of an op for a misspelt kind", "'cp'", lambda: og.partition(relu(), "cp"))
bad_argument(
    "query of an id that is not there",
    "neither an input nor an output",
    lambda: Relu().compiled.query_logical_tensor(99),
)
bad_argument("query of a negative id", "got -1", lambda: Relu().compiled.query_logical_tensor(-1))
if og.version()["minor"] < 13:
    missing(
        "scratchpad before oneDNN 3.13",
        "3.13",
        lambda: Relu().compiled.get_scratchpad_logical_tensor(),
    )
    missing(
        "execute with a scratchpad before oneDNN 3.13",
        "3.13",
        lambda: (lambda r: r.execute([r.x], [r.y], scratchpad=r.x))(Relu()),
    )
else:
    type_error(
        "execute with a number for a scratchpad",
        "scratchpad",
        lambda: (lambda r: r.execute([r.x], [r.y], scratchpad=5))(Relu()),
    )
    bad_argument(
        "execute with the output as scratchpad",
        "scratchpad overlaps",
        lambda: (lambda r: r.execute([r.x], [r.y], scratchpad=r.y))(Relu()),
    )
    bad_argument(
        "execute with an empty scratchpad",
        "empty",
        lambda: (lambda r: r.execute([r.x], [r.y], scratchpad=og.tensor()))(Relu()),
    )

# -- execute and bind -------------------------------------------------------------------------------

for way in ("execute", "bind"):

    def call(model: Relu | MatMul, inputs: object, outputs: object, way: str = way) -> None:
        getattr(model.compiled, way)(model.stream, inputs, outputs)

    def case(name: str, raises: str, says: str, run: Callable[[], object], way: str = way) -> None:
        wrong(raises, f"{way} {name}", says, run)

    case(
        "without inputs",
        ARGS,
        "expected 1 inputs, got 0",
        lambda c=call: (lambda r: c(r, [], [r.y]))(Relu()),
    )
    case(
        "without outputs",
        ARGS,
        "expected 1 outputs, got 0",
        lambda c=call: (lambda r: c(r, [r.x], []))(Relu()),
    )
    case(
        "with an input too few",
        ARGS,
        "expected 2 inputs, got 1",
        lambda c=call: (lambda m: c(m, [m.a], [m.c]))(MatMul()),
    )
    case(
        "with an input too many",
        ARGS,
        "expected 1 inputs, got 2",
        lambda c=call: (lambda r: c(r, [r.x, r.x], [r.y]))(Relu()),
    )
    case(
        "with inputs in another order",
        ARGS,
        "input 0: expected.*id=0.*got.*id=1",
        lambda c=call: (lambda m: c(m, [m.b, m.a], [m.c]))(MatMul()),
    )
    case(
        "with inputs for outputs",
        ARGS,
        "input 0",
        lambda c=call: (lambda r: c(r, [r.y], [r.x]))(Relu()),
    )
    case(
        "with another data type",
        TYPE,
        "input 0",
        lambda c=call: (lambda r: c(r, [og.tensor(lt(0, dtype="s32"), r.engine)], [r.y]))(Relu()),
    )
    case(
        "with another shape",
        "InvalidShapeError",
        "input 0",
        lambda c=call: (lambda r: c(r, [og.tensor(lt(0, (2, 8)), r.engine)], [r.y]))(Relu()),
    )
    case(
        "with a smaller output",
        "InvalidShapeError",
        "output 0",
        lambda c=call: (lambda r: c(r, [r.x], [og.tensor(lt(1, (1, 8)), r.engine)]))(Relu()),
    )
    case(
        "with other strides",
        "InvalidShapeError",
        "input 0",
        lambda c=call: (lambda r: c(r, [og.tensor(LT(0, "f32", [4, 8], [1, 4]), r.engine)], [r.y]))(
            Relu()
        ),
    )
    case(
        "with None among the inputs",
        "TypeError",
        "input 0 must be a tensor",
        lambda c=call: (lambda r: c(r, [None], [r.y]))(Relu()),
    )
    case(
        "with arrays",
        "TypeError",
        "input 0 must be a tensor",
        lambda c=call: (lambda r: c(r, [ones(4, 8)], [r.y]))(Relu()),
    )
    case(
        "with logical tensors",
        "TypeError",
        "input 0 must be a tensor",
        lambda c=call: (lambda r: c(r, [lt(0)], [r.y]))(Relu()),
    )
    case(
        "with one tensor for a list",
        "TypeError",
        "list or tuple",
        lambda c=call: (lambda r: c(r, r.x, r.y))(Relu()),
    )
    case(
        "with a generator",
        "TypeError",
        "list or tuple",
        lambda c=call: (lambda r: c(r, (t for t in [r.x]), [r.y]))(Relu()),
    )
    case(
        "with a dict",
        "TypeError",
        "list or tuple",
        lambda c=call: (lambda r: c(r, {0: r.x}, [r.y]))(Relu()),
    )
    case(
        "with None",
        "TypeError",
        "list or tuple",
        lambda c=call: (lambda r: c(r, None, None))(Relu()),
    )
    case(
        "with a tensor without init",
        "TypeError",
        "input 0",
        lambda c=call: (lambda r: c(r, [og.tensor.__new__(og.tensor)], [r.y]))(Relu()),
    )
    case(
        "into read-only memory",
        ARGS,
        "output 0.*read-only",
        lambda c=call: (lambda r: c(r, [r.x], [og.tensor(lt(1), r.engine, bytes(128))]))(Relu()),
    )
    case("into its own input", ARGS, "overlaps the memory of input", lambda c=call: own_input(c))
    case(
        "into part of its input",
        ARGS,
        "overlaps the memory of input",
        lambda c=call: part_of_input(c),
    )
    case(
        "on another engine's stream",
        ARGS,
        "stream must be of the engine",
        lambda c=call: other_engine(c),
    )


def own_input(call: Callable[..., object]) -> object:
    model, shared = MatMul(), ones(4, 8)
    a = og.tensor(model.lts[0], model.engine, shared)
    return call(
        model, [a, model.b], [og.tensor(model.lts[2], model.engine, shared.reshape(-1)[:16])]
    )


def part_of_input(call: Callable[..., object]) -> object:
    model, shared = Relu(), ones(5, 8)
    x = og.tensor(lt(0), model.engine, shared[:4])
    return call(model, [x], [og.tensor(lt(1), model.engine, shared[1:])])


def other_engine(call: Callable[..., object]) -> object:
    model = Relu()
    model.stream = og.stream(cpu())
    return call(model, [model.x], [model.y])


def two_outputs_in_one_place() -> object:
    lts = [lt(0), lt(1), lt(2, (4, 1)), lt(3, (4, 1))]
    layer_norm = op("LayerNorm", lts[:1], [lts[1], lt(2, (4,)), lt(3, (4,))], use_affine=False)
    engine = cpu()
    compiled = og.partition(layer_norm, "cpu").compile(
        lts[:1], [lts[1], lt(2, (4,)), lt(3, (4,))], engine
    )
    shared = ones(4)
    outputs = [og.tensor(lts[1], engine), *(og.tensor(lt(i, (4,)), engine, shared) for i in (2, 3))]
    return compiled.execute(og.stream(engine), [og.tensor(lts[0], engine)], outputs)


bad_argument("execute with two outputs in one place", "outputs.*overlap", two_outputs_in_one_place)
type_error(
    "execute on None",
    "execute|stream",
    lambda: (lambda r: r.compiled.execute(None, [r.x], [r.y]))(Relu()),
)
type_error(
    "execute on an engine",
    "execute",
    lambda: (lambda r: r.compiled.execute(r.engine, [r.x], [r.y]))(Relu()),
)
type_error(
    "bind to None", "stream", lambda: (lambda r: r.compiled.bind(None, [r.x], [r.y]))(Relu())
)


def bound_then(call: Callable[[Relu, og.bound_execution], object]) -> object:
    model = Relu()
    return call(model, model.compiled.bind(model.stream, [model.x], [model.y]))


type_error("bound call with an argument", "no arguments", lambda: bound_then(lambda r, b: b(1)))
type_error("bound call with a keyword", "no arguments", lambda: bound_then(lambda r, b: b(x=1)))
bad_argument(
    "bound call into memory that became read-only",
    "read-only",
    lambda: bound_then(lambda r, b: (r.y.set_data_handle(bytes(128)), b())),
)
bad_argument(
    "bound call into memory that became its input",
    "overlaps",
    lambda: bound_then(lambda r, b: (moved_onto_input(r), b())),
)


def moved_onto_input(model: Relu) -> None:
    shared = ones(5, 8)
    model.x.set_data_handle(shared[:4])
    model.y.set_data_handle(shared[1:])


# -- pickling what has no meaning elsewhere ------------------------------------------------------------

for name, make in {
    "engine": cpu,
    "stream": lambda: og.stream(cpu()),
    "op": relu,
    "graph": lambda: og.graph("cpu"),
    "partition": relu_partition,
    "compiled_partition": lambda: Relu().compiled,
    "tensor": lambda: Relu().x,
}.items():
    for protocol in (0, 2):
        type_error(
            f"{name} pickled with protocol {protocol}",
            "pickle",
            lambda make=make, protocol=protocol: pickle.dumps(make(), protocol),
        )

# -- settings and caches ----------------------------------------------------------------------------

for bad in (3, -1, 2**31 - 1):
    bad_argument(f"set_verbose({bad})", "set_verbose", lambda bad=bad: og.set_verbose(bad))
type_error("set_verbose of a str", "set_verbose", lambda: og.set_verbose("2"))
wrong(
    "TypeError|" + ARGS, "set_verbose beyond 32 bits", "set_verbose", lambda: og.set_verbose(2**40)
)
bad_argument("set_max_cpu_isa of a misspelt name", "'avx3'", lambda: og.set_max_cpu_isa("avx3"))
bad_argument(
    "set_max_cpu_isa after first use", "first use", lambda: (Relu(), og.set_max_cpu_isa("avx2"))
)
bad_argument(
    "set_cpu_isa_hints of a misspelt name",
    "'prefer_zmm'.*'prefer_ymm'",
    lambda: og.set_cpu_isa_hints("prefer_zmm"),
)
bad_argument(
    "set_default_fpmath_mode of a misspelt name",
    "'bf61'",
    lambda: og.set_default_fpmath_mode("bf61"),
)
for name in ("compiled_partition", "primitive"):
    setter = f"set_{name}_cache_capacity"
    bad_argument(f"{setter} of -1", "-1", lambda setter=setter: getattr(og, setter)(-1))
    bad_argument(
        f"{setter} beyond 32 bits", "too large", lambda setter=setter: getattr(og, setter)(2**31)
    )
    type_error(f"{setter} of a fraction", setter, lambda setter=setter: getattr(og, setter)(1.5))
bad_argument(
    "constant cache of a misspelt kind",
    "'cpy'",
    lambda: og.set_constant_tensor_cache_capacity("cpy", 1),
)
bad_argument(
    "constant cache of a negative size",
    "-5",
    lambda: og.set_constant_tensor_cache_capacity("cpu", -5),
)
type_error(
    "constant cache of a str",
    "set_constant",
    lambda: og.set_constant_tensor_cache_capacity("cpu", "1"),
)
type_error(
    "constant cache size of a number for a kind",
    "get_constant",
    lambda: og.get_constant_tensor_cache_capacity(1),
)
type_error("set_jit_dump of a str", "set_jit_dump", lambda: og.set_jit_dump("yes"))
bad_argument("set_jit_profiling_flags of -1", "-1", lambda: og.set_jit_profiling_flags(-1))
bad_argument(
    "set_jit_profiling_flags beyond 32 bits", "32 bits", lambda: og.set_jit_profiling_flags(2**40)
)
type_error(
    "set_jit_profiling_jitdumpdir of a number",
    "set_jit",
    lambda: og.set_jit_profiling_jitdumpdir(1),
)
if og.version()["minor"] < 11:
    missing(
        "set_dump_mode before oneDNN 3.11",
        "needs oneDNN >= 3.11",
        lambda: og.set_dump_mode("graph"),
    )
else:
    bad_argument(
        "set_dump_mode of a misspelt name", "'graphs'.*'graph'", lambda: og.set_dump_mode("graphs")
    )
bad_data_type("numpy_dtype of undef", "undef", lambda: og.dtypes.numpy_dtype("undef"))
bad_data_type("data_type_of float64", "float64", lambda: og.dtypes.data_type_of(np.float64))
type_error("data_type_of nonsense", ".", lambda: og.dtypes.data_type_of("nonsense"))
bad_argument("pack_int4 out of range", "-8 to 7", lambda: og.dtypes.pack_int4([8], "s4"))
bad_argument("pack_int4 of a fraction", "integers", lambda: og.dtypes.pack_int4([0.5], "u4"))
bad_argument("pack_int4 of another type", "s4 or u4", lambda: og.dtypes.pack_int4([1], "s8"))
bad_shape(
    "unpack_int4 of too few bytes",
    "2 bytes",
    lambda: og.dtypes.unpack_int4(np.zeros(1, np.uint8), [3], "s4"),
)


def main(names: list[str]) -> None:
    """Run cases and tell about each."""
    for name in names or list(CASES):
        print(json.dumps({"start": name}), flush=True)
        try:
            result = CASES[name].run()
            outcome = {"raised": [], "message": f"returned {result!r}"[:300]}
        except Exception as error:
            outcome = {"raised": [t.__name__ for t in type(error).__mro__], "message": str(error)}
        print(json.dumps({"end": name, **outcome}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
