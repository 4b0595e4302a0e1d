"""Wrong uses of the mirror, one small function each: every one must raise, and none may crash.

As a program it is the worker of test_wrong_uses.py: it reads the names of cases from its arguments
(none: all), and says on stdout, a JSON line each, which case it starts and how it ended.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import pickle
import sys
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import ml_dtypes
import numpy as np
from graphs import PACKS_WEIGHTS

import onednn_graph_py as og

LT = og.logical_tensor


class Case(NamedTuple):
    """A wrong use, the exception that it must raise and what the message must say."""

    run: Callable[[], object]
    raises: str
    says: str


CASES: dict[str, Case] = {}
"""By the line of this file, and a number where that line lists several."""


def wrong(raises: str, says: str, run: Callable[..., object], *args: object, **kwargs) -> None:
    """List a wrong use; `says` is a regular expression."""
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>":
        frame = frame.f_back
    line = f"line {frame.f_lineno}"
    same = sum(name.split(",")[0] == line for name in CASES)
    CASES[f"{line}, {same}" if same else line] = Case(partial(run, *args, **kwargs), raises, says)


# -- what the cases are made from


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


class Model:
    """A compiled op with all it takes to run."""

    def __init__(self, one: og.op) -> None:
        self.lts = [*one.get_inputs(), *one.get_outputs()]
        self.engine = cpu()
        self.stream = og.stream(self.engine)
        (partition,) = graph_of(one).get_partitions()
        self.compiled = partition.compile(self.lts[:-1], self.lts[-1:], self.engine)
        self.tensors = [og.tensor(t, self.engine, ones(*t.get_dims())) for t in self.lts]

    def execute(self, inputs: object, outputs: object, **more: object) -> None:
        self.compiled.execute(self.stream, inputs, outputs, **more)

    def call(self, way: str, tensors: Callable[[Model], tuple[object, object]]) -> None:
        """Execute or bind with these inputs and outputs."""
        inputs, outputs = tensors(self)
        getattr(self.compiled, way)(self.stream, inputs, outputs)


class Relu(Model):
    def __init__(self) -> None:
        super().__init__(relu())
        self.x, self.y = self.tensors


class MatMul(Model):
    """A product of two matrices: two inputs that differ, nothing in place."""

    def __init__(self) -> None:
        super().__init__(op("MatMul", [lt(0, (4, 8)), lt(1, (8, 4))], [lt(2, (4, 4))]))
        self.a, self.b, self.c = self.tensors


def run_op(made: og.op) -> None:
    """Take an op all the way: graph, partition, compile, execute."""
    (partition,) = graph_of(made).get_partitions()
    inputs = list({t.get_id(): t for t in made.get_inputs()}.values())
    outputs = [LT(t.get_id(), t.get_data_type()) for t in made.get_outputs()]
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
missing = partial(wrong, "UnimplementedError")
type_error, value_error, buffer_error = (
    partial(wrong, e) for e in ("TypeError", "ValueError", "BufferError")
)

# -- objects without __init__, and empty ones

for cls, use in (
    (og.engine, og.engine.get_kind),
    (og.stream, og.stream.wait),
    (og.allocator, og.allocator.statistics),
    (LT, LT.get_dims),
    (og.tensor, og.tensor.numpy),
    (og.op, og.op.get_id),
    (og.graph, og.graph.finalize),
    (og.partition, og.partition.get_ops),
    (og.compiled_partition, og.compiled_partition.get_inplace_ports),
):
    type_error("__init__|non-held", use, cls.__new__(cls))
    type_error("__init__|non-held", repr, cls.__new__(cls))
    type_error("__init__", type("Forgetful", (cls,), {"__init__": lambda self: None}))
bad_argument("bind", lambda: og.bound_execution.__new__(og.bound_execution)())
type_error("No constructor", lambda: og.bound_execution())

for use in (
    og.engine.get_kind,
    og.engine.get,
    og.stream,
    lambda e: og.tensor(lt(), e, ones(4, 8)),
    lambda e: og.tensor(lt(), e),
    lambda e: relu_partition().compile([lt(0)], [lt(1)], e),
):
    bad_argument("empty", use, og.engine())
for use in (
    og.stream.wait,
    og.stream.get_engine,
    og.stream.get,
    lambda s: (lambda r: r.compiled.execute(s, [r.x], [r.y]))(Relu()),
    lambda s: (lambda r: r.compiled.bind(s, [r.x], [r.y]))(Relu()),
):
    bad_argument("stream.*empty", use, og.stream())
for use in (
    LT.get_id,
    LT.get_dims,
    LT.get_strides,
    LT.get_data_type,
    LT.get_layout_type,
    LT.get_property_type,
    LT.get_layout_id,
    LT.get_mem_size,
):
    bad_argument("logical_tensor.*empty", use, LT())
bad_argument("empty", lambda: lt().is_equal(LT()))
bad_argument("empty", lambda: op("ReLU", [LT()], [lt(1)]))
bad_argument("empty", lambda: op("ReLU", [lt(0)], [LT()]))
bad_argument("empty", lambda: og.tensor(LT(), cpu(), ones(4)))
bad_argument("empty", lambda: relu_partition().compile([LT()], [lt(1)], cpu()))
for use in (
    og.tensor.numpy,
    og.tensor.get_data_handle,
    lambda t: t.set_data_handle(ones(4)),
    og.tensor.get_engine,
    og.tensor.get_logical_tensor,
    og.tensor.get,
    np.asarray,
    og.tensor.__dlpack__,
    lambda t: (lambda r: r.execute([t], [r.y]))(Relu()),
    lambda t: (lambda r: r.execute([r.x], [t]))(Relu()),
):
    bad_argument("tensor.*empty", use, og.tensor())
for use in (
    og.partition.get_ops,
    og.partition.get_ops_num,
    og.partition.get_id,
    og.partition.is_supported,
    og.partition.get_input_ports,
    og.partition.get_output_ports,
    og.partition.get_engine_kind,
    lambda p: p.compile([], [], cpu()),
):
    bad_argument("partition.*empty", use, og.partition())
for use in (
    lambda c: c.query_logical_tensor(0),
    og.compiled_partition.get_inplace_ports,
    og.compiled_partition.get_scratchpad_logical_tensor,
    og.compiled_partition.get_inputs,
    lambda c: c.execute(og.stream(cpu()), [], []),
    lambda c: c.bind(og.stream(cpu()), [], []),
):
    bad_argument("compiled_partition.*empty", use, og.compiled_partition())

# -- engine, stream, allocator

bad_argument("'cpuu'.*engine kind.*'cpu'", lambda: og.engine("cpuu", 0))
type_error("engine", lambda: og.engine(1, 0))
type_error("engine", lambda: og.engine(og.op.ReLU, 0))
bad_argument("index must be below", lambda: og.engine("cpu", 10**9))
bad_argument("got -1", lambda: og.engine("cpu", -1))
bad_argument("2\\*\\*63", lambda: og.engine("cpu", 2**70))
type_error("engine", lambda: og.engine("cpu", 0.5))
type_error("engine", lambda: og.engine("cpu", True))
type_error("engine", lambda: og.engine("cpu"))
bad_argument("engine\\(any", lambda: og.engine("any", 0))
bad_argument("'cpx'", lambda: og.engine.get_count("cpx"))
type_error("alloc", lambda: og.make_engine_with_allocator("cpu", 0, None))
type_error("engine", lambda: og.stream(None))
type_error("engine", lambda: og.stream("cpu"))
bad_argument("'in_ordre'.*'in_order'", lambda: og.stream(cpu(), "in_ordre"))
type_error("flags", lambda: og.stream(cpu(), 3))
type_error("malloc", lambda: og.allocator(lambda size, alignment: 0))
type_error("malloc", lambda: og.allocator(1, 2))

# -- logical_tensor

for count in (13, 40, 400):
    bad_shape(f"{count} entries", lt, 0, [1] * count)
for bad in (-2, -(2**62)):
    bad_shape("negative", lt, 0, [4, bad])
bad_argument("64 bits", lambda: lt(0, [2**64]))
bad_shape("more elements", lambda: lt(0, [2**32, 2**32]))
bad_shape("more elements", lambda: lt(0, [2**62]))
type_error("1.5", lambda: lt(0, [1.5]))
type_error("sequence of integers", lambda: lt(0, [[1, 2]]))
type_error("True", lambda: lt(0, [True]))
bad_argument("'48'", lambda: LT(0, "f32", "48"))
type_error("logical_tensor", lambda: LT(0, "f32", b"48", "strided"))
type_error("logical_tensor", lambda: LT(0, "f32", {4: 8}, "strided"))
bad_shape("one entry", lambda: LT(0, "f32", [4, 8], [8]))
bad_shape("one entry", lambda: LT(0, "f32", [4, 8], [64, 8, 1]))
bad_shape("one entry", lambda: LT(0, "f32", [4, 8], []))
bad_shape("negative", lambda: LT(0, "f32", [4, 8], [-8, 1]))
bad_shape("must be known", lambda: LT(0, "f32", [4, 8], [None, 1]))
bad_shape("further than memory", lambda: LT(0, "f32", [4, 8], [2**62, 1]))
for bad in (13, -2, 2**31, 2**40, -(2**63), 2**70):
    bad_shape("ndims must be", LT, 0, "f32", bad, "strided")
type_error("logical_tensor", lambda: LT(0, "f32", True, "strided"))
type_error("logical_tensor", lambda: LT(0, "f32", 1.5, "any"))
bad_argument("got -1", lambda: lt(-1))
bad_argument("2\\*\\*63", lambda: lt(2**64))
type_error("logical_tensor", lambda: lt("0"))
type_error("logical_tensor", lambda: lt(0.0))
type_error("logical_tensor", lambda: lt(None))
bad_argument("'f31'.*'f32'", lambda: lt(0, dtype="f31"))
type_error("data_type", lambda: lt(0, dtype=np.float32))
type_error("data_type", lambda: lt(0, dtype=LT.strided))
bad_argument("'stridded'.*'strided'", lambda: lt(0, layout="stridded"))
bad_argument("'const'", lambda: lt(0, prop="const"))
type_error("property", lambda: lt(0, prop=LT.f32))
bad_argument("layout_id|opaque", lambda: lt(0, layout="opaque"))
bad_argument("opaque", lambda: LT(0, "f32", 2, "opaque"))
for bad in (0, 7, 2**20, 2**62):
    bad_argument("layout_id", LT, 0, "f32", [512, 512], bad)
bad_argument("layout_id", lambda: LT(1, "f32", [8, 8], matmul_any_weights()[1].get_layout_id()))
bad_argument("known rank", lambda: LT(0, "f32").get_dims())
bad_argument("strided", lambda: lt(layout="any").get_strides())
bad_argument("opaque", lambda: lt().get_layout_id())
bad_shape("known", lambda: lt(0, [4, -1]).get_mem_size())
bad_shape("strided or opaque", lambda: lt(layout="any").get_mem_size())
bad_data_type("undef", lambda: lt(dtype="undef").get_mem_size())
type_error("logical_tensor", lambda: LT(5))
value_error("not a pickled logical_tensor", lambda: LT.__new__(LT).__setstate__((1, 2)))
if PACKS_WEIGHTS:  # otherwise nothing is opaque
    bad_argument("pickled", lambda: pickle.dumps(matmul_any_weights()[1]))
type_error("is_equal", lambda: lt().is_equal(None))

# -- tensor


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


bad_data_type("float32.*float64", lambda: tensor_of(ones(4, 8, dtype=np.float64)))
bad_data_type("float16", lambda: tensor_of(ones(4, 8, dtype=np.float16)))
bad_data_type("float32", lambda: tensor_of(ones(4, 8, dtype=">f4")))
bad_data_type("object", lambda: tensor_of(np.full((4, 8), None)))
bad_data_type("float32", lambda: tensor_of(np.zeros((4, 8), "f4,f4")))
bad_data_type("complex64", lambda: tensor_of(ones(4, 8, dtype=np.complex64)))
bad_data_type("int64", lambda: tensor_of(ones(4, 8, dtype=np.int64), "s32"))
bad_data_type("uint8", lambda: tensor_of(ones(4, 8, dtype=np.uint8), "boolean"))
bad_data_type("bool", lambda: tensor_of(ones(4, 8, dtype=bool), "u8"))
bad_data_type("bfloat16", lambda: tensor_of(ones(4, 8, dtype=np.uint16), "bf16"))
bad_data_type("bfloat16", lambda: tensor_of(ones(4, 8, dtype=np.float16), "bf16"))
bad_data_type(
    "float8_e4m3fn", lambda: tensor_of(np.ones((4, 8), ml_dtypes.float8_e4m3b11fnuz), "f8_e4m3")
)
bad_data_type("pack_int4", lambda: tensor_of(np.ones((4, 8), ml_dtypes.int4), "s4"))
bad_shape("16 bytes", lambda: tensor_of(ones(15, dtype=np.uint8), "s4"))
bad_shape("\\(4, 8\\).*\\(4, 7\\)", lambda: tensor_of(ones(4, 7)))
bad_shape("\\(4, 8\\).*\\(4, 9\\)", lambda: tensor_of(ones(4, 9)))
bad_shape("\\(4, 8\\)", lambda: tensor_of(ones(2, 2, 8)))
bad_shape("strides", lambda: tensor_of(ones(8, 4).T))
bad_shape("strides", lambda: tensor_of(ones(4, 16)[:, ::2]))
bad_shape("negative", lambda: tensor_of(ones(4, 8)[::-1]))
bad_shape("strides", lambda: tensor_of(np.broadcast_to(ones(8), (4, 8))))
wrong(SHAPE + "|" + ARGS, "whole elements|aligned", lambda: tensor_of(odd_strides()))
bad_argument("aligned to 4", lambda: tensor_of(misaligned()))
bad_shape("\\(4, 8\\)", lambda: tensor_of(ones(31)))
bad_shape("\\(4, 8\\)", lambda: tensor_of(ones(0)))
bad_shape("\\(4, 8\\)", lambda: tensor_of(np.float32(1).reshape(())))
type_error("NumPy array", lambda: tensor_of([[1.0] * 8] * 4))
type_error("tensor|data", lambda: tensor_of(None))
type_error("NumPy array", lambda: tensor_of("x" * 128))
type_error("NumPy array", lambda: tensor_of(1.0))
type_error("NumPy array", lambda: tensor_of(object()))
type_error("NumPy array", lambda: tensor_of(True))
bad_argument("null", lambda: tensor_of(0))
bad_argument("not mapped", lambda: tensor_of(4096))
bad_argument("not mapped", lambda: tensor_of(2**64 - 4))
bad_argument("not mapped", lambda: tensor_of(2**64 - 1))  # oneDNN's marker for allocation
bad_argument("address", lambda: tensor_of(-8))
bad_argument("address", lambda: tensor_of(2**64))
bad_argument("aligned", lambda: tensor_of(ones(64).ctypes.data + 2))


def beyond_the_mapping() -> og.tensor:
    page = mmap.mmap(-1, mmap.PAGESIZE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(page))
    # The map as a whole may continue with another one, but not for a terabyte.
    return tensor_of(begin, dims=(2**38,))


bad_argument("not mapped", beyond_the_mapping)
bad_shape("at least 128 bytes, got 127", lambda: tensor_of(bytes(127)))
bad_shape("at least 128", lambda: tensor_of(bytearray(8)))
bad_shape("contiguous", lambda: tensor_of(memoryview(bytes(512))[::2]))
bad_data_type("float32", lambda: tensor_of(memoryview(bytes(256)).cast("d")))
value_error("released", lambda: tensor_of(released()))


def released() -> memoryview:
    view = memoryview(bytearray(128))
    view.release()
    return view


bad_argument("device type 2", lambda: tensor_of(Producer(None, (2, 0))))
type_error("pair|tuple|NumPy", lambda: tensor_of(Producer(None, (1,))))
wrong("TypeError|ValueError", ".", lambda: tensor_of(Producer(None, "cpu")))
type_error("capsule", lambda: tensor_of(Producer(5)))
value_error("capsule|PyCapsule", lambda: tensor_of(Producer(named_capsule(b"other"))))
value_error("capsule|PyCapsule", lambda: tensor_of(Producer(used_capsule())))
buffer_error("no export", lambda: tensor_of(Producer(BufferError("no export"))))
bad_data_type("64 bits", lambda: tensor_of(Producer(ones(4, 8, dtype=np.float64).__dlpack__())))
bad_shape("\\(4, 7\\)", lambda: tensor_of(Producer(ones(4, 7).__dlpack__())))
bad_shape("strides", lambda: tensor_of(Producer(ones(8, 4).T.__dlpack__())))
bad_shape("known", lambda: tensor_of(ones(4, 8), dims=(4, -1)))
bad_shape("known", lambda: og.tensor(LT(0, "f32"), cpu(), ones(4)))
bad_shape("strided or opaque", lambda: og.tensor(lt(layout="any"), cpu(), ones(4, 8)))
bad_shape("strided or opaque", lambda: og.tensor(lt(layout="undef"), cpu(), ones(4, 8)))
bad_data_type("undef", lambda: og.tensor(lt(dtype="undef"), cpu(), ones(4, 8)))
type_error("tensor", lambda: og.tensor(None, cpu(), ones(4)))
type_error("tensor", lambda: og.tensor(lt(), None, ones(4, 8)))
type_error("tensor", lambda: og.tensor(cpu(), lt(), ones(4, 8)))
bad_shape("known", lambda: og.tensor(lt(0, (4, -1)), cpu()))
wrong("OutOfMemoryError", "allocating", lambda: og.tensor(lt(0, (2**48,)), cpu()))
bad_shape("overlap", lambda: og.tensor(LT(0, "f32", [4, 4, 4], [5, 4, 3]), cpu()))
bad_shape("\\(4, 8\\)", lambda: tensor_of(ones(4, 8)).set_data_handle(ones(2)))
bad_data_type("float64", lambda: tensor_of(ones(4, 8)).set_data_handle(np.ones((4, 8))))
type_error("set_data_handle", lambda: tensor_of(ones(4, 8)).set_data_handle(None))
bad_argument("null", lambda: tensor_of(ones(4, 8)).set_data_handle(0))
value_error("copy", lambda: tensor_of(ones(4, 8)).__array__(np.float64, copy=False))
buffer_error("stream", lambda: tensor_of(ones(4, 8)).__dlpack__(stream=1))
buffer_error("CPU", lambda: tensor_of(ones(4, 8)).__dlpack__(dl_device=(2, 0)))
buffer_error("cop", lambda: tensor_of(ones(4, 8)).__dlpack__(copy=True))
buffer_error("DLPack", lambda: tensor_of(ones(16, dtype=np.uint8), "u4").__dlpack__())
buffer_error("read-only", lambda: tensor_of(bytes(128)).__dlpack__())
if og.version()["minor"] >= 9:
    scalar = LT(0, "f32", [], "strided", "host_scalar")
    bad_argument("host_scalar", lambda: og.tensor.make_scalar_tensor(lt(0, ()), 1.0))
    bad_shape("one number", lambda: og.tensor.make_scalar_tensor(scalar, [1.0, 2.0]))
    wrong("ValueError|TypeError|" + ARGS, ".", lambda: og.tensor.make_scalar_tensor(scalar, "one"))
    bad_argument(
        "fit",
        lambda: og.tensor.make_scalar_tensor(LT(0, "s32", [], "strided", "host_scalar"), 2**40),
    )
    bad_argument(
        "host scalar", lambda: og.tensor.make_scalar_tensor(scalar, 1.0).set_data_handle(ones(1))
    )
else:
    missing("needs oneDNN >= 3.9", lambda: og.tensor.make_scalar_tensor(lt(0, ()), 1.0))

# -- op

bad_argument("'MatMull'.*'MatMul'", lambda: og.op(0, "MatMull"))
bad_argument("'relu'.*'ReLU'", lambda: og.op(0, "relu"))
bad_argument("LastSymbol", lambda: og.op(0, og.op.LastSymbol))
type_error("op", lambda: og.op(0, 58))
type_error("op", lambda: og.op(0, 9999))
type_error("op", lambda: og.op(0, None))
type_error("op", lambda: og.op(0, og.op.axis))
bad_argument("got -1", lambda: og.op(-1, "ReLU"))
type_error("op", lambda: og.op(0.5, "ReLU"))
bad_argument("NUL", lambda: og.op(0, "ReLU", "a\0b"))
type_error("op", lambda: og.op(0, "ReLU", 5))
type_error("op", lambda: og.op(0, "ReLU", [ones(4)], [lt(1)]))
type_error("op", lambda: og.op(0, "ReLU", lt(0), lt(1)))
type_error("op", lambda: og.op(0, "ReLU", None, [lt(1)]))
type_error("add_input", lambda: og.op(0, "ReLU").add_input(None))
type_error("add_input", lambda: og.op(0, "ReLU").add_input([lt(0)]))
type_error("add_inputs", lambda: og.op(0, "ReLU").add_inputs(lt(0)))
type_error("add_output", lambda: og.op(0, "ReLU").add_output(tensor_of(ones(4, 8))))


def attr(name: object, value: object) -> og.op:
    return og.op(7, "MatMul", "fc").set_attr(name, value)


bad_argument("'transpose_c'.*'transpose_", lambda: attr("transpose_c", True))
type_error("set_attr", lambda: attr(og.op.ReLU, 1))
bad_argument("undef", lambda: attr(og.op.attr.undef, 1.0))
bad_argument("end", lambda: attr(og.op.attr.end, "x"))
for name, values in {
    "epsilon": ["x", [1.0], None, True, 1j, b"1", {}],
    "axis": [1.5, True, "1", [1], None, np.float32(1)],
    "transpose_b": [1, 0, "True", None, [True], 1.0],
    "data_format": [1, b"NCX", None, ["NCX"], True],
    "strides": [1, "11", [1.5, 1], [[1, 1]], None, [None], {1: 1}, np.ones((2, 2), int), [True]],
    "scales": [1.0, "1", ["1"], None, [None], [[1.0]], np.ones((1, 1)), [True]],
}.items():
    for value in values:
        type_error(f"op 7 'fc' .*{name}", attr, name, value)
for name in ("strides", "scales"):
    bad_argument(f"{name} must have at least one", attr, name, [])
    bad_argument(name, attr, name, np.empty(0, np.int64))
bad_argument("mode.*non-empty", lambda: attr("mode", ""))
bad_argument("NUL", lambda: attr("mode", "a\0"))
bad_argument("64 bits", lambda: attr("axis", 2**63))
bad_argument("64 bits", lambda: attr("pads_begin", [2**70, 0]))
bad_argument("32-bit float", lambda: attr("epsilon", 1e39))
bad_argument("too large|fit", lambda: attr("epsilon", 10**400))


def frozen() -> og.op:
    made = relu()
    graph_of(made)
    return made


bad_op("op 0 'the_relu'.*copy", lambda: frozen().set_attr("alpha", 1))
bad_op("copy", lambda: frozen().add_input(lt(5)))

# -- graph

bad_argument("'gpx'", lambda: og.graph("gpx"))
type_error("graph", lambda: og.graph(cpu()))
bad_argument("'bf17'.*'bf16'", lambda: og.graph("cpu", "bf17"))
type_error("add_op", lambda: og.graph("cpu").add_op(None))
type_error("add_op", lambda: og.graph("cpu").add_op("ReLU"))
bad_op("already has op 0 'the_relu'", lambda: graph_of(relu(), relu(0, 2, 3)))
bad_op("logical tensor 1 is already produced by op 0", lambda: graph_of(relu(), relu(1, 5, 1)))
bad_op("two outputs", lambda: graph_of(op("SoftMax", [lt(0)], [lt(1), lt(1)], axis=1)))


bad_graph("op 1 .*finalized", lambda: graph_of(relu()).add_op(relu(1, 1, 2)))
bad_graph("set_fpmath_mode", lambda: graph_of(relu()).set_fpmath_mode("bf16"))
bad_argument("'fusions'.*'fusion'", lambda: graph_of(relu()).get_partitions("fusions"))
type_error("get_partitions", lambda: graph_of(relu()).get_partitions(1))


def unfinalized() -> object:
    graph = og.graph("cpu")
    graph.add_op(relu())
    return graph.get_partitions()


bad_graph("finalize the graph first", unfinalized)


def joined(between: LT) -> og.graph:
    return graph_of(relu(), op("Exp", [between], [LT(2, "f32")], 1))


bad_graph("logical tensor 1 differs", lambda: joined(lt(1, (8, 4))))
bad_graph("logical tensor 1 differs", lambda: joined(LT(1, "f32", 2, "strided")))
bad_graph(
    "logical tensor 1 differs",
    lambda: graph_of(relu(), op("Exp", [lt(1, dtype="bf16")], [lt(2, dtype="bf16")], 1)),
)
bad_graph("logical tensor 1 differs", lambda: joined(lt(1, prop="constant")))
bad_graph("logical tensor 1 differs", lambda: joined(lt(1, layout="any")))
bad_graph("logical tensor 1 differs", lambda: joined(LT(1, "f32", [4, 8], [1, 4], "variable")))
bad_graph("cycle", lambda: graph_of(relu(0, 0, 1), relu(1, 1, 0)))
wrong(GRAPH + "|" + GRAPH_OP, "its own output", lambda: graph_of(relu(0, 3, 3)))

# -- schemas: oneDNN refuses, the table says why

bad_op("op 0 'the_relu' \\(ReLU\\).*must have 1 input", lambda: graph_of(op("ReLU", [], [lt(1)])))
bad_op("must have 1 output", lambda: graph_of(op("ReLU", [lt(0)], [])))
bad_op("must have 1 input", lambda: graph_of(op("ReLU", [lt(0), lt(5)], [lt(1)])))
bad_op("the_elu.*alpha|the_elu.*attr", lambda: graph_of(op("Elu", [lt(0)], [lt(1)])))
bad_op("the_relu", lambda: graph_of(op("ReLU", [lt(0)], [lt(1)], groups=1)))
bad_op("the_matmul|the_softmax|NCXX|data_format", lambda: graph_of(conv(data_format="NCXX")))
bad_op(
    "input 1 \\(weights\\) must be f32",
    lambda: graph_of(op("MatMul", [lt(0), lt(1, (8, 4), "f16")], [lt(2, (4, 4))])),
)
bad_op("the_relu", lambda: graph_of(op("ReLU", [lt(0, dtype="undef")], [lt(1, dtype="undef")])))
bad_op("partition of op 0", lambda: og.partition(op("ReLU", [lt(0)], []), "cpu"))

# -- ops that crash oneDNN


def conv(
    kind: str = "Convolution", source=(1, 4, 8, 8), weights=(4, 4, 3, 3), bias=None, **attrs
) -> og.op:
    formats = {"data_format": "NCX", "weights_format": "IOX" if "Transpose" in kind else "OIX"}
    plain = {"strides": [1, 1], "dilations": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
    inputs = [lt(0, source), lt(1, weights)] + ([lt(3, bias)] if bias else [])
    return op(kind, inputs, [LT(2, "f32")], **{**formats, **plain, **attrs})


def run_conv(kind: str, **more) -> None:
    run_op(conv(kind, **more))


def run_pool(kind: str, source=(1, 4, 8, 8), **attrs) -> None:
    plain = {"strides": [2, 2], "kernel": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0]}
    if kind == "AvgPool":
        plain["exclude_pad"] = True
    run(kind, lt(0, source), **{**plain, "data_format": "NCX", **attrs})


def run(kind: str, *inputs: LT, **attrs) -> None:
    run_op(op(kind, list(inputs), [LT(9, "f32")], **attrs))


def run_quantized(kind: str, source: str, target: str, **attrs) -> None:
    run_op(op(kind, [lt(0, dtype=source)], [LT(1, target)], **attrs))


def refused(use: Callable[..., object], kind: str, *args: object, **kwargs) -> None:
    """By oneDNN, and the message names the op."""
    wrong("OneDNNError", f"the_{kind.lower()}|{kind}", use, kind, *args, **kwargs)


for kind in ("Convolution", "ConvTranspose"):
    for attrs in (
        {"strides": [0, 1]},
        {"strides": [-1, 1]},
        {"strides": [0, 0], "auto_pad": "SAME_UPPER"},
        {"dilations": [0, 1]},
        {"groups": 0},
        {"groups": -1},
        {"groups": 3},
        {"strides": [1]},
        {"strides": [1, 1, 1]},
        {"dilations": [1]},
        {"pads_begin": [0]},
        {"pads_end": [-1, 0]},
        {"strides": [1] * 60},
        {"pads_begin": [0] * 13},
        {"pads_begin": [2**40, 0]},
        {"bias": (5,)},
        {"weights": (4, 4, 3)},
        {"weights": (5, 5, 3, 3)},
        {"source": (4, 8)},
    ):
        refused(run_conv, kind, **attrs)
refused(run_conv, "Convolution", weights=(4, 4, 30, 30))
refused(run_conv, "ConvTranspose", output_padding=[0])
bad_shape("output_padding", run_conv, "ConvTranspose", output_padding=[0] * 13)
for kind in ("MaxPool", "AvgPool"):
    for attrs in (
        {"strides": [0, 2]},
        {"kernel": [0, 2]},
        {"kernel": [2]},
        {"strides": [2]},
        {"kernel": [2] * 60},
        {"source": (8,)},
        {"source": (8, 8)},
        {"source": ()},
        {"kernel": [20, 20]},
    ):
        refused(run_pool, kind, **attrs)
bad_op("dilations", run_pool, "MaxPool", dilations=[0, 1])
for first, second in (
    ((), (8, 4)),
    ((4, 8), ()),
    ((), ()),
    ((4, 8), (9, 4)),
    ((2, 4, 8), (3, 8, 4)),
):
    refused(run, "MatMul", lt(0, first), lt(1, second))
bad_shape("the_prelu.*at least 2 dims", run, "PReLU", lt(0, (16,)), lt(1, (16,)))
for count in (13, 60):
    bad_shape("shape", run, "StaticReshape", lt(0), shape=[1] * count, special_zero=False)
    bad_shape("order", run, "StaticTranspose", lt(0), order=list(range(count)))
bad_shape(
    "attribute shape \\[2, -6\\] has an entry below -1",
    lambda attrs: og.ops.check("StaticReshape", [((4, 8), "f32")], attrs),
    {"shape": [2, -6], "special_zero": False},
)
for shape in ([5, 5], [-1, -1]):
    refused(run, "StaticReshape", lt(0), shape=shape, special_zero=False)
for order in ([0, 0], [0], [0, 7]):
    refused(run, "StaticTranspose", lt(0), order=order)
for kind, name in (
    ("AvgPoolBackward", "src_shape"),
    ("ConvolutionBackwardWeights", "weights_shape"),
    ("ConvolutionBackwardData", "dst_shape"),
):
    bad_op("needs the attributes strides", run, kind, lt(0), lt(1), **{name: [1] * 60})
for kind, types in {"Quantize": ("f32", "s8"), "Dequantize": ("s8", "f32")}.items():
    for scales, zps, axis in ((3, 3, 1), (80, 80, 1), (8, 8, 2), (8, 8, -(2**40)), (8, 3, 1)):
        attrs = {"scales": [1.0] * scales, "zps": [0] * zps, "axis": axis, "qtype": "per_channel"}
        refused(run_quantized, kind, *types, **attrs)
grouped = {"qtype": "per_group", "group_shape": [1, 0]}
bad_op("group_shape", run, "DynamicDequantize", lt(0, dtype="u8"), lt(1, (4, 1)), **grouped)
nearest = {"mode": "nearest", "data_format": "NCX"}
for attrs in (
    {"sizes": [4]},
    {"sizes": [4, 4, 4]},
    {"sizes": [-4, 4]},
    {"sizes": [4] * 60},
    {"scales": [2.0]},
):
    refused(run, "Interpolate", lt(0, (1, 4, 8, 8)), **attrs, **nearest)
channels = [lt(0, (1, 4, 8, 8)), *(lt(i, (3,)) for i in range(1, 5))]
refused(run, "BatchNormInference", *channels, epsilon=1e-5, data_format="NCX")
refused(run, "BiasAdd", lt(0), lt(1, (3,)), data_format="NXC")
refused(run, "Add", lt(0), lt(1, (5,)))
refused(run, "Concat", lt(0), lt(1), axis=9)
refused(run, "Concat", lt(0), lt(1, (4, 9, 2)), axis=0)
refused(run, "SoftMax", lt(0), axis=5)
bad_shape("axis", run, "SoftMax", lt(0), axis=2**40)
plain = {"use_affine": False, "keep_stats": False}
bad_shape("begin_norm_axis", run, "LayerNorm", lt(0), begin_norm_axis=100, **plain)
bad_shape("axes", run, "ReduceSum", lt(0), axes=[0] * 60)
refused(run, "ReduceSum", lt(0), axes=[7])

# -- partition and compile


def compile_relu(inputs: object, outputs: object, engine: object = "own") -> object:
    return relu_partition().compile(inputs, outputs, cpu() if engine == "own" else engine)


bad_argument("input 0 is missing", lambda: compile_relu([], [lt(1)]))
bad_argument("output 1 is missing", lambda: compile_relu([lt(0)], []))
bad_argument("not a port", lambda: compile_relu([lt(0), lt(7)], [lt(1)]))
bad_argument("not a port", lambda: compile_relu([lt(0)], [lt(1), lt(7)]))
bad_argument("more often", lambda: compile_relu([lt(0), lt(0)], [lt(1)]))
bad_argument("not a port", lambda: compile_relu([lt(1)], [lt(0)]))
bad_data_type("differs from the graph", lambda: compile_relu([lt(0, dtype="f16")], [lt(1)]))
bad_data_type("differs", lambda: compile_relu([lt(0)], [lt(1, dtype="s8")]))
bad_shape("differs", lambda: compile_relu([lt(0, (4, 9))], [lt(1)]))
bad_shape("differs", lambda: compile_relu([lt(0)], [lt(1, (4, 4))]))
bad_shape("differs", lambda: compile_relu([lt(0, (32,))], [lt(1)]))
bad_shape("known dims", lambda: compile_relu([lt(0, (4, -1))], [lt(1)]))
bad_shape("known dims", lambda: compile_relu([LT(0, "f32")], [lt(1)]))
bad_shape("strided or opaque", lambda: compile_relu([lt(0, layout="any")], [lt(1)]))
bad_shape("strided or opaque", lambda: compile_relu([lt(0, layout="undef")], [lt(1)]))
type_error("compile", lambda: compile_relu([lt(0)], [lt(1)], None))
type_error("compile", lambda: compile_relu([lt(0)], [lt(1)], "cpu"))
type_error("compile", lambda: compile_relu([ones(4, 8)], [lt(1)]))
type_error("compile", lambda: compile_relu(None, None))


def lying_output() -> object:
    source, target = lt(0), LT(1, "f32")
    return og.partition(op("ReLU", [source], [target]), "cpu").compile(
        [source], [lt(1, (2, 4))], cpu()
    )


bad_shape("the_relu|ReLU", lying_output)


def unsupported() -> og.partition:
    (partition,) = graph_of(op("Wildcard", [lt(0)], [lt(1)])).get_partitions()
    return partition


missing("Wildcard.*unsupported", lambda: unsupported().compile([lt(0)], [lt(1)], cpu()))
type_error("partition", lambda: og.partition(None, "cpu"))
bad_argument("'cp'", lambda: og.partition(relu(), "cp"))
bad_argument("neither an input nor an output", lambda: Relu().compiled.query_logical_tensor(99))
bad_argument("got -1", lambda: Relu().compiled.query_logical_tensor(-1))
if og.version()["minor"] < 13:
    missing("3.13", lambda: Relu().compiled.get_scratchpad_logical_tensor())
    missing("3.13", lambda: (lambda r: r.execute([r.x], [r.y], scratchpad=r.x))(Relu()))
else:
    type_error("scratchpad", lambda: (lambda r: r.execute([r.x], [r.y], scratchpad=5))(Relu()))
    bad_argument(
        "scratchpad overlaps", lambda: (lambda r: r.execute([r.x], [r.y], scratchpad=r.y))(Relu())
    )
    bad_argument(
        "empty", lambda: (lambda r: r.execute([r.x], [r.y], scratchpad=og.tensor()))(Relu())
    )

# -- execute and bind

CALLS = (
    (ARGS, "expected 1 inputs, got 0", lambda r: ([], [r.y])),
    (ARGS, "expected 1 outputs, got 0", lambda r: ([r.x], [])),
    (ARGS, "expected 1 inputs, got 2", lambda r: ([r.x, r.x], [r.y])),
    (ARGS, "input 0", lambda r: ([r.y], [r.x])),
    (TYPE, "input 0", lambda r: ([og.tensor(lt(0, dtype="s32"), r.engine)], [r.y])),
    (SHAPE, "input 0", lambda r: ([og.tensor(lt(0, (2, 8)), r.engine)], [r.y])),
    (SHAPE, "output 0", lambda r: ([r.x], [og.tensor(lt(1, (1, 8)), r.engine)])),
    (SHAPE, "input 0", lambda r: ([og.tensor(LT(0, "f32", [4, 8], [1, 4]), r.engine)], [r.y])),
    ("TypeError", "input 0 must be a tensor", lambda r: ([None], [r.y])),
    ("TypeError", "input 0 must be a tensor", lambda r: ([ones(4, 8)], [r.y])),
    ("TypeError", "input 0 must be a tensor", lambda r: ([lt(0)], [r.y])),
    ("TypeError", "list or tuple", lambda r: (r.x, r.y)),
    ("TypeError", "list or tuple", lambda r: ((t for t in [r.x]), [r.y])),
    ("TypeError", "list or tuple", lambda r: ({0: r.x}, [r.y])),
    ("TypeError", "list or tuple", lambda r: (None, None)),
    ("TypeError", "input 0", lambda r: ([og.tensor.__new__(og.tensor)], [r.y])),
    (ARGS, "output 0.*read-only", lambda r: ([r.x], [og.tensor(lt(1), r.engine, bytes(128))])),
    (ARGS, "overlaps the memory of input", lambda r: part_of_input(r)),
    (ARGS, "stream must be of the engine", lambda r: other_engine(r)),
)
OF_TWO = (
    (ARGS, "expected 2 inputs, got 1", lambda m: ([m.a], [m.c])),
    (ARGS, "input 0: expected.*id=0.*got.*id=1", lambda m: ([m.b, m.a], [m.c])),
    (ARGS, "overlaps the memory of input", lambda m: own_input(m)),
)
for way in ("execute", "bind"):
    for raises, says, tensors in CALLS:
        wrong(raises, says, lambda way, tensors: Relu().call(way, tensors), way, tensors)
    for raises, says, tensors in OF_TWO:
        wrong(raises, says, lambda way, tensors: MatMul().call(way, tensors), way, tensors)


def own_input(model: MatMul) -> tuple[list, list]:
    shared = ones(4, 8)
    a = og.tensor(model.lts[0], model.engine, shared)
    return [a, model.b], [og.tensor(model.lts[2], model.engine, shared.reshape(-1)[:16])]


def part_of_input(model: Relu) -> tuple[list, list]:
    moved_onto_input(model)
    return [model.x], [model.y]


def other_engine(model: Relu) -> tuple[list, list]:
    model.stream = og.stream(cpu())
    return [model.x], [model.y]


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


bad_argument("outputs.*overlap", two_outputs_in_one_place)
type_error("execute|stream", lambda: (lambda r: r.compiled.execute(None, [r.x], [r.y]))(Relu()))
type_error("execute", lambda: (lambda r: r.compiled.execute(r.engine, [r.x], [r.y]))(Relu()))
type_error("stream", lambda: (lambda r: r.compiled.bind(None, [r.x], [r.y]))(Relu()))


def bound_then(call: Callable[[Relu, og.bound_execution], object]) -> object:
    model = Relu()
    return call(model, model.compiled.bind(model.stream, [model.x], [model.y]))


type_error("no arguments", lambda: bound_then(lambda r, b: b(1)))
type_error("no arguments", lambda: bound_then(lambda r, b: b(x=1)))
bad_argument("read-only", lambda: bound_then(lambda r, b: (r.y.set_data_handle(bytes(128)), b())))
bad_argument("overlaps", lambda: bound_then(lambda r, b: (moved_onto_input(r), b())))


def moved_onto_input(model: Relu) -> None:
    shared = ones(5, 8)
    model.x.set_data_handle(shared[:4])
    model.y.set_data_handle(shared[1:])


# -- pickling what has no meaning elsewhere

for make in (
    cpu,
    lambda: og.stream(cpu()),
    relu,
    lambda: og.graph("cpu"),
    relu_partition,
    lambda: Relu().compiled,
    lambda: Relu().x,
):
    for protocol in (0, 2):
        type_error("pickle", lambda make, protocol: pickle.dumps(make(), protocol), make, protocol)

# -- settings and caches

for bad in (3, -1, 2**31 - 1):
    bad_argument("set_verbose", og.set_verbose, bad)
type_error("set_verbose", lambda: og.set_verbose("2"))
wrong("TypeError|" + ARGS, "set_verbose", lambda: og.set_verbose(2**40))
bad_argument("'avx3'", lambda: og.set_max_cpu_isa("avx3"))
bad_argument("first use", lambda: (Relu(), og.set_max_cpu_isa("avx2")))
bad_argument("'prefer_zmm'.*'prefer_ymm'", lambda: og.set_cpu_isa_hints("prefer_zmm"))
bad_argument("'bf61'", lambda: og.set_default_fpmath_mode("bf61"))
for setter in (og.set_compiled_partition_cache_capacity, og.set_primitive_cache_capacity):
    bad_argument("-1", setter, -1)
    bad_argument("too large", setter, 2**31)
    type_error("set_.*_cache_capacity", setter, 1.5)
bad_argument("'cpy'", lambda: og.set_constant_tensor_cache_capacity("cpy", 1))
bad_argument("-5", lambda: og.set_constant_tensor_cache_capacity("cpu", -5))
type_error("set_constant", lambda: og.set_constant_tensor_cache_capacity("cpu", "1"))
type_error("get_constant", lambda: og.get_constant_tensor_cache_capacity(1))
type_error("set_jit_dump", lambda: og.set_jit_dump("yes"))
bad_argument("-1", lambda: og.set_jit_profiling_flags(-1))
bad_argument("32 bits", lambda: og.set_jit_profiling_flags(2**40))
type_error("set_jit", lambda: og.set_jit_profiling_jitdumpdir(1))
if og.version()["minor"] < 11:
    missing("needs oneDNN >= 3.11", lambda: og.set_dump_mode("graph"))
else:
    bad_argument("'graphs'.*'graph'", lambda: og.set_dump_mode("graphs"))
bad_data_type("undef", lambda: og.dtypes.numpy_dtype("undef"))
bad_data_type("float64", lambda: og.dtypes.data_type_of(np.float64))
type_error(".", lambda: og.dtypes.data_type_of("nonsense"))
bad_argument("-8 to 7", lambda: og.dtypes.pack_int4([8], "s4"))
bad_argument("integers", lambda: og.dtypes.pack_int4([0.5], "u4"))
bad_argument("s4 or u4", lambda: og.dtypes.pack_int4([1], "s8"))
bad_shape("2 bytes", lambda: og.dtypes.unpack_int4(np.zeros(1, np.uint8), [3], "s4"))


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
