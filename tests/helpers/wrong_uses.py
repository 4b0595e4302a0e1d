"""Wrong uses of the mirror, blocks and ops.check: every one must raise, and none may crash.

As a program it is the worker of test_wrong_uses.py: it reads the names of cases from its arguments
(none: all), and says on stdout, a JSON line each, which case it starts and how it ended.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import pickle
import re
import sys
from collections import deque
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
    og.op(0, "ReLU").add_input,
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
    og.tensor.__dlpack_device__,
    og.tensor.__array__,
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
    og.partition.get,
    lambda p: p.compile([], [], cpu()),
):
    bad_argument("partition.*empty", use, og.partition())
for use in (
    lambda c: c.query_logical_tensor(0),
    og.compiled_partition.get_inplace_ports,
    og.compiled_partition.get_scratchpad_logical_tensor,
    og.compiled_partition.get_inputs,
    og.compiled_partition.get_outputs,
    og.compiled_partition.get,
    lambda c: c.execute(og.stream(cpu()), [], []),
    lambda c: c.bind(og.stream(cpu()), [], []),
):
    bad_argument("compiled_partition.*empty", use, og.compiled_partition())

# -- engine, stream, allocator

bad_argument("'cpuu'.*engine kind.*did you mean 'cpu'", lambda: og.engine("cpuu", 0))
count = og.engine.get_count("cpu")
bad_argument(rf"engine\(cpu, {count}\): there are {count} engines", og.engine, "cpu", count)
type_error("engine", lambda: og.engine(1, 0))
type_error("engine", lambda: og.engine(og.op.ReLU, 0))
bad_argument("index must be below", lambda: og.engine("cpu", 10**9))
bad_argument("got -1", lambda: og.engine("cpu", -1))
for index in (2**64, 2**70, 10**40):
    bad_argument("expected an integer.*2\\*\\*63", og.engine, "cpu", index)
for index in (0.0, 0.5, True, "0", None):
    type_error("engine", og.engine, "cpu", index)
type_error("engine", lambda: og.engine("cpu"))
bad_argument("engine\\(any", lambda: og.engine("any", 0))
type_error("alloc", lambda: og.make_engine_with_allocator("cpu", 0, None))
for engine in (None, "cpu", 0):
    type_error("engine", og.stream, engine)
    type_error("tensor", og.tensor, lt(), engine, ones(4, 8))
type_error("flags", lambda: og.stream(cpu(), 3))
type_error("malloc", lambda: og.allocator(lambda size, alignment: 0))
type_error("malloc", lambda: og.allocator(1, 2))

# -- logical_tensor

for says, dims in (
    ("13 entries.*at most 12", [1] * 13),
    ("400 entries.*at most 12", [1] * 400),
    ("negative entry -2", [4, -2]),
    ("negative", [4, -(2**62)]),
    ("more elements than memory", [2**32, 2**32]),
    ("more elements than memory", [2**62]),
    ("more elements than memory", [2**62, 4]),
):
    bad_shape(f"logical_tensor 7.*{says}", LT, 7, "f32", dims, "strided")
    bad_shape(says, LT, 7, "f32", dims, [1] * len(dims))
bad_argument("64 bits", lambda: lt(0, [2**64]))
for dims in (2.0, "23", b"23", ["2"], {2, 3}, None, {4: 8}):
    type_error(".", LT, 0, "f32", dims, "strided")
type_error("1.5", lambda: lt(0, [1.5]))
type_error("sequence of integers", lambda: lt(0, [[1, 2]]))
type_error("True", lambda: lt(0, [True]))
bad_argument("'48'", lambda: LT(0, "f32", "48"))
bad_shape("one entry", lambda: LT(0, "f32", [4, 8], [8]))
bad_shape("one entry", lambda: LT(0, "f32", [4, 8], [64, 8, 1]))
bad_shape("one entry", lambda: LT(0, "f32", [4, 8], []))
bad_shape("negative", lambda: LT(0, "f32", [4, 8], [-8, 1]))
bad_shape("must be known", lambda: LT(0, "f32", [4, 8], [None, 1]))
bad_shape("further than memory", lambda: LT(0, "f32", [4, 8], [2**62, 1]))
for bad in (13, -2, 2**31, -(2**31), 2**32, 2**40, -(2**63), 2**70):
    bad_shape("ndims must be", LT, 0, "f32", bad, "strided")
type_error("logical_tensor", lambda: LT(0, "f32", True, "strided"))
type_error("logical_tensor", lambda: LT(0, "f32", 1.5, "any"))
for bad in (2**63, 2**64, 10**30):
    bad_argument("expected an integer.*2\\*\\*63", lt, bad)
    bad_argument("expected an integer", og.op, bad, "ReLU")
bad_argument("got -1", lambda: lt(-1))
for bad in ("0", 0.0, None, True):
    type_error("logical_tensor", lt, bad)
type_error("data_type", lambda: lt(0, dtype=np.float32))
type_error("data_type", lambda: lt(0, dtype=LT.strided))
type_error("property", lambda: lt(0, prop=LT.f32))
bad_argument("opaque", lambda: lt(0, layout="opaque"))
bad_argument("opaque", lambda: LT(0, "f32", 2, "opaque"))
for bad in (0, 1, 7, 2**20, 2**62):
    bad_argument("layout_id.*not one that oneDNN gave", LT, 0, "f32", [64, 48], bad)
if PACKS_WEIGHTS:  # otherwise nothing is opaque
    for dtype, dims in (("f32", [8, 8]), ("f32", [512, 256]), ("bf16", [512, 512])):
        bad_argument(
            "not one that oneDNN gave",
            lambda dtype, dims: LT(1, dtype, dims, matmul_any_weights()[1].get_layout_id()),
            dtype,
            dims,
        )
    bad_argument("another process", lambda: pickle.dumps(matmul_any_weights()[1]))
    bad_argument("needs a strided layout", lambda: matmul_any_weights()[1].get_strides())
bad_argument("known rank", lambda: LT(0, "f32").get_dims())
bad_argument("strided", lambda: lt(layout="any").get_strides())
bad_argument("opaque", lambda: lt().get_layout_id())
bad_shape("dims must be known", lambda: lt(0, [4, -1]).get_mem_size())
bad_shape("strided or opaque.*it is any", lambda: lt(layout="any").get_mem_size())
bad_shape("strided or opaque.*it is undef", lambda: lt(layout="undef").get_mem_size())
bad_data_type("undef", lambda: lt(dtype="undef").get_mem_size())
type_error("logical_tensor", lambda: LT(5))
value_error("not a pickled logical_tensor", lambda: LT.__new__(LT).__setstate__((1, 2)))
for state in ((), 3, None, (0, LT.f32, 99, [1], LT.strided, [1], LT.pt_undef)):
    wrong("ValueError|TypeError|RuntimeError", ".", LT.__new__(LT).__setstate__, state)
type_error("is_equal", lambda: lt().is_equal(None))

# -- tensor


def tensor_of(source: object, dtype: str = "f32", dims=(4, 8)) -> og.tensor:
    return og.tensor(lt(0, dims, dtype), cpu(), source)


raw = np.zeros(4 * 8 * 4 + 3, np.uint8)


def misaligned(offset: int) -> np.ndarray:
    return raw[offset : offset + 4 * 8 * 4].view(np.float32).reshape(4, 8)


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
bad_data_type("uint8", lambda: tensor_of(ones(4, 8, dtype=np.uint8), "boolean"))
bad_data_type("bool", lambda: tensor_of(ones(4, 8, dtype=bool), "u8"))
bad_data_type("bfloat16", lambda: tensor_of(ones(4, 8, dtype=np.float16), "bf16"))
bad_data_type(
    "float8_e4m3fn", lambda: tensor_of(np.ones((4, 8), ml_dtypes.float8_e4m3b11fnuz), "f8_e4m3")
)
bad_data_type("pack_int4", lambda: tensor_of(np.ones((4, 8), ml_dtypes.int4), "s4"))
for dtype in ("s4", "u4"):
    bad_shape(
        "16 bytes.*two elements a byte", lambda t: tensor_of(ones(15, dtype=np.uint8), t), dtype
    )
for dims in ((4, 7), (4, 9), (8, 4), (2, 2, 8), (4, 8, 1), (31,), (0,), (0, 8), ()):
    bad_shape("expected shape \\(4, 8\\)", lambda dims: tensor_of(ones(*dims)), dims)
bad_shape("expected strides \\(8, 1\\).*has \\(1, 4\\)", lambda: tensor_of(ones(8, 4).T))
bad_shape("expected strides", lambda: og.tensor(LT(0, "f32", [4, 8], [1, 4]), cpu(), ones(4, 8)))
bad_shape("strides", lambda: tensor_of(ones(4, 16)[:, ::2]))
for axis in (0, 1):
    bad_shape(
        "negative strides.*ascontiguousarray", lambda n: tensor_of(np.flip(ones(4, 8), n)), axis
    )
bad_shape("strides", lambda: tensor_of(np.broadcast_to(ones(8), (4, 8))))
wrong(SHAPE + "|" + ARGS, "whole elements|aligned", lambda: tensor_of(odd_strides()))
bad_shape("not whole elements", lambda: tensor_of(np.zeros((4, 8), "f4,i1")["f0"]))
for offset in (1, 2, 3):
    bad_argument("aligned to 4 bytes", lambda n: tensor_of(misaligned(n)), offset)
    bad_argument("aligned to 4 bytes", lambda n: tensor_of(memoryview(raw)[n:]), offset)
    bad_argument("aligned to 4 bytes", lambda n: tensor_of(raw.ctypes.data + n), offset)
type_error("tensor|data", lambda: tensor_of(None))
for source in ([[1.0] * 8] * 4, "x" * 128, 1.0, object(), {}, True):
    type_error("NumPy array", tensor_of, source)
bad_argument("null", lambda: tensor_of(0))
for address in (4096, 2**47, 2**63 - 8, 2**64 - 4, 2**64 - 1):  # the last marks allocation
    bad_argument("not mapped", tensor_of, address)
for address in (-8, -4, 2**64, 10**30):
    bad_argument("address", tensor_of, address)


def beyond_the_mapping() -> og.tensor:
    page = mmap.mmap(-1, mmap.PAGESIZE)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(page))
    # The map as a whole may continue with another one, but not for a terabyte.
    return tensor_of(begin, dims=(2**38,))


bad_argument("not mapped", beyond_the_mapping)
bad_shape("at least 128 bytes, got 127", lambda: tensor_of(bytes(127)))
bad_shape("at least 128", lambda: tensor_of(bytearray(8)))
bad_shape("contiguous", lambda: tensor_of(memoryview(bytes(512))[::2]))
for code in "dih":
    bad_data_type("float32", lambda code: tensor_of(memoryview(bytes(256)).cast(code)), code)
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
for data in ((), (ones(4, 8),), (2**40,)):
    bad_shape("known", og.tensor, lt(0, (4, -1)), cpu(), *data)
    bad_shape("known", og.tensor, LT(0, "f32"), cpu(), *data)
    for layout in ("any", "undef"):
        bad_shape("strided or opaque", og.tensor, lt(layout=layout), cpu(), *data)
bad_data_type("undef", lambda: og.tensor(lt(dtype="undef"), cpu(), ones(4, 8)))
type_error("tensor", lambda: og.tensor(None, cpu(), ones(4)))
type_error("tensor", lambda: og.tensor(cpu(), lt(), ones(4, 8)))
wrong("OutOfMemoryError", "allocating", lambda: og.tensor(lt(0, (2**48,)), cpu()))
bad_shape("overlap", lambda: og.tensor(LT(0, "f32", [4, 4, 4], [5, 4, 3]), cpu()))
value_error("copy", lambda: tensor_of(ones(4, 8)).__array__(np.float64, copy=False))
buffer_error("stream", lambda: tensor_of(ones(4, 8)).__dlpack__(stream=1))
buffer_error("CPU", lambda: tensor_of(ones(4, 8)).__dlpack__(dl_device=(2, 0)))
buffer_error("cop", lambda: tensor_of(ones(4, 8)).__dlpack__(copy=True))
buffer_error("DLPack", lambda: tensor_of(ones(16, dtype=np.uint8), "u4").__dlpack__())
buffer_error("read-only.*DLPack 1\\.0", lambda: tensor_of(bytes(128)).__dlpack__())
for version in (1, "1.0", (), ("1", 0), (None,)):
    wrong(
        "TypeError|ValueError|IndexError|RuntimeError",
        ".",
        lambda version: tensor_of(ones(4, 8)).__dlpack__(max_version=version),
        version,
    )
if og.version()["minor"] >= 9:
    scalar, whole = (LT(0, dtype, [], "strided", "host_scalar") for dtype in ("f32", "s32"))
    bad_argument("host_scalar", og.tensor.make_scalar_tensor, lt(0, ()), 1.0)
    bad_argument(".", lambda: lt(0, (1,), prop="host_scalar"))
    for value in ([1.0, 2.0], [1.5]):
        bad_shape("one number", og.tensor.make_scalar_tensor, scalar, value)
    for value in ("one", None, 1j):
        type_error(".", og.tensor.make_scalar_tensor, scalar, value)
    bad_argument("fit", og.tensor.make_scalar_tensor, whole, 2**40)
    bad_argument(".", og.tensor.make_scalar_tensor, whole, 1.5)
else:
    missing("needs oneDNN >= 3.9", lambda: og.tensor.make_scalar_tensor(lt(0, ()), 1.0))

# -- op

bad_argument("LastSymbol", lambda: og.op(0, og.op.LastSymbol))
bad_argument("LastSymbol", lambda: og.op(0, "LastSymbol"))
for kind in (0, 58, 9999, None, og.op.axis, og.engine.cpu, LT.f32):
    type_error("op", og.op, 0, kind)
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


bad_argument("'transpose_c'.*did you mean 'transpose_", attr, "transpose_c", True)
type_error("set_attr", attr, og.op.ReLU, 1)
for name in ("undef", "end", og.op.attr.undef, og.op.attr.end):
    bad_argument("not an attribute that can be set", attr, name, 1)
for text in ("", "a\0b"):
    bad_argument("data_format must be a non-empty string", attr, "data_format", text)
for number in (2**63, -(2**63) - 1, np.uint64(2**63), 10**30):
    bad_argument("does not fit into 64 bits", attr, "axis", number)
    bad_argument("does not fit into 64 bits", attr, "strides", [1, number])
for number in (1e39, -1e300):
    bad_argument("32-bit float", attr, "alpha", number)
    bad_argument("32-bit float", attr, "scales", [1, number])
bad_argument("alpha: the number is too large", attr, "alpha", 10**400)


def frozen() -> og.op:
    made = relu()
    graph_of(made)
    return made


bad_op("op 0 'the_relu'.*copy", lambda: frozen().set_attr("alpha", 1))
bad_op("copy", lambda: frozen().add_input(lt(5)))

# -- graph

for kind in (None, 1, og.op.MatMul, cpu()):
    type_error("graph", og.graph, kind)
for one in (None, 1, "ReLU", og.op):
    for allow in (True, False):
        type_error("add_op", og.graph("cpu").add_op, one, allow)
bad_op(
    "op 0 'the_relu' \\(ReLU\\).*already has op 0 'the_relu'",
    lambda: graph_of(relu(), relu(0, 2, 3)),
)
bad_op("logical tensor 1 is already produced by op 0", lambda: graph_of(relu(), relu(1, 5, 1)))
bad_op("two outputs", lambda: graph_of(op("SoftMax", [lt(0)], [lt(1), lt(1)], axis=1)))


bad_graph("op 1 .*finalized already", lambda: graph_of(relu()).add_op(relu(1, 1, 2)))
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


bad_graph("logical tensor 1 differs.*4x8.*8x4", lambda: joined(lt(1, (8, 4))))
bad_graph("logical tensor 1 differs", lambda: joined(LT(1, "f32", 2, "strided")))
bad_graph(
    "logical tensor 1 differs",
    lambda: graph_of(relu(), op("Exp", [lt(1, dtype="bf16")], [lt(2, dtype="bf16")], 1)),
)
bad_graph("logical tensor 1 differs", lambda: joined(lt(1, prop="constant")))
bad_graph("logical tensor 1 differs", lambda: joined(lt(1, layout="any")))
bad_graph("logical tensor 1 differs", lambda: joined(LT(1, "f32", [4, 8], [1, 4], "variable")))
bad_graph("cycle.*'the_relu'", lambda: graph_of(relu(0, 0, 1), relu(1, 1, 0)))
wrong(GRAPH + "|" + GRAPH_OP, "its own output", lambda: graph_of(relu(0, 3, 3)))

# -- schemas: oneDNN refuses, the table says why


def add(says: str, kind: str, inputs: list, outputs: list, **attrs) -> None:
    """The whole text: with the op and the reason, and without that it is oneDNN that refused it."""
    says = f"op 0 'the_{kind.lower()}' ({kind}) failed: {says} (invalid_graph_op)"
    bad_op(
        f"^graph.add_op: {re.escape(says)}$", lambda: graph_of(op(kind, inputs, outputs, **attrs))
    )


add("must have 1 input (src), got 0", "ReLU", [], [lt(1)])
add("must have 1 output (dst), got 0", "ReLU", [lt(0)], [])
add("must have 1 input (src), got 2", "ReLU", [lt(0), lt(5)], [lt(1)])
add("needs the attribute alpha", "Elu", [lt(0)], [lt(1)])
add("ReLU has no attribute 'groups'; it has none", "ReLU", [lt(0)], [lt(1)], groups=1)
for dtype in ("undef", "s32"):
    says = f"input 0 (src) must be f32 or bf16 or f16, got {dtype}"
    add(says, "ReLU", [lt(0, dtype=dtype)], [lt(1, dtype=dtype)])
says = "input 1 (weights) must be f32 as input 0 (src) is, got f16"
add(says, "MatMul", [lt(0), lt(1, (8, 4), "f16")], [lt(2, (4, 4))])
bad_op("data_format must be 'NXC' or 'NCX', got 'NCXX'", lambda: graph_of(conv(data_format="NCXX")))
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


def shaped(kind: str, inputs: list, outputs: list, **attrs) -> None:
    """Run an op on tensors of these shapes; None is an unknown one."""
    given = [*inputs, *outputs]
    lts = [
        t if isinstance(t, LT) else LT(i, "f32") if t is None else lt(i, t)
        for i, t in enumerate(given)
    ]
    run_op(op(kind, lts[: len(inputs)], lts[len(inputs) :], **attrs))


PLAIN = {"use_affine": False, "keep_stats": False}
STEPS = {"strides": [1, 1], "pads_begin": [0, 0], "pads_end": [0, 0]}
CONV = {**STEPS, "dilations": [1, 1], "data_format": "NCX", "weights_format": "OIX"}
POOL = {**STEPS, "kernel": [2, 2], "data_format": "NCX"}
IMAGE = [(1, 2, 5, 5), (3, 2, 3, 3)]
for says, kind, inputs, outputs, attrs in (
    ("output 0.* must have the shape 4x8", "ReLU", [(4, 8)], [(4, 7)], {}),
    (
        "output 1.* must have the shape 4 ",
        "LayerNorm", [(4, 32)], [(4, 32), (3,), (4,)], {"use_affine": False},
    ),
    (
        "keep_stats is False, so it has one output, got 3",
        "LayerNorm", [(4, 8)], [(4, 8), (4,), (4,)], PLAIN,
    ),
    (
        "input 0.* must have at least 3 dims, got 2x4",
        "GroupNorm", [(2, 4)], [(2, 4)], {**PLAIN, "groups": 2},
    ),
    (
        "channels that 2 groups divide",
        "GroupNorm", [(2, 5, 3)], [(2, 5, 3)], {**PLAIN, "groups": 2, "data_format": "NCX"},
    ),
    (
        "at most 5 dims",
        "Select", [lt(0, (2,) * 6, "boolean"), (2,) * 6, (2,) * 6], [(2,) * 6], {},
    ),
    (
        "at most 5 dims",
        "BatchNormInference", [(2,) * 6, *[(2,)] * 4], [(2,) * 6], {"epsilon": 0.1},
    ),
    (
        r"input 3 \(mean\) must have 4 elements \(channels\)",
        "BatchNormInference", [(2, 3, 4), (4,), (4,), (3,), (4,)], [(2, 3, 4)], {"epsilon": 0.1},
    ),
    (
        "attribute strides must have no entry below 1, got .0, 1.",
        "Convolution", IMAGE, [(1, 3, 3, 3)], {**CONV, "strides": [0, 1]},
    ),
    (
        "attribute pads_end must have 2 entries, one for each spatial dim, it has 1",
        "Convolution", IMAGE, [(1, 3, 3, 3)], {**CONV, "pads_end": [0]},
    ),
    ("output 0.* must have the shape 1x3x3x3", "Convolution", IMAGE, [(1, 3, 4, 3)], CONV),
    (
        "input 0.* must have 2 channels, as the weights say, it has 4",
        "Convolution", [(1, 4, 5, 5), IMAGE[1]], [(1, 3, 3, 3)], CONV,
    ),
    (
        "does not fit into the padded 2",
        "Convolution", [(1, 2, 2, 2), IMAGE[1]], [(1, 3, 1, 1)], CONV,
    ),
    (
        r"input 2 \(bias\) must have 3 elements \(output channels\)",
        "Convolution", [*IMAGE, (2,)], [(1, 3, 3, 3)], CONV,
    ),
    # It would compile for minutes.
    ("attribute pads_begin", "Convolution", IMAGE, [None], {**CONV, "pads_begin": [1 << 29, 0]}),
    ("input 0.* must have rank 3", "MaxPool", [(5,)], [None], POOL),
    ("output 0.* must have the shape 1x2x4x4", "MaxPool", [(1, 2, 5, 5)], [(1, 2, 5, 4)], POOL),
    ("rank 1 to 12", "MatMul", [(), (3, 4)], [None], {}),
    ("input 1.* must have dim 0 equal to 3", "MatMul", [(2, 3), (4, 5)], [None], {}),
    ("output 0.* must have the shape 2x5", "MatMul", [(2, 3), (3, 5)], [(2, 6)], {}),
    (
        "input 1.* must have a shape that broadcasts with input 0 .src_0., 2x3",
        "Add", [(2, 3), (4, 3)], [None], {},
    ),
    ("input 1.* must have dim 0 equal to 2", "Concat", [(2, 3), (4, 3)], [None], {"axis": 1}),
    (
        "has 7 elements, input 0, 2x3, has 6",
        "StaticReshape", [(2, 3)], [None], {"shape": [7], "special_zero": False},
    ),
    (
        "must name each axis of input 0, of rank 2, once",
        "StaticTranspose", [(2, 3)], [None], {"order": [0, 0]},
    ),
    ("must be different axes of input 0, of rank 2", "ReduceSum", [(2, 3)], [None], {"axes": [2]}),
    (
        "attribute scales must have one entry for each of the 3 channels .axis 1 of 2x3., got 2",
        "Quantize", [(2, 3)], [lt(9, (2, 3), "s8")],
        {"qtype": "per_channel", "axis": 1, "scales": [1.0, 1.0]},
    ),
    (
        "attribute qtype must be 'per_tensor' or 'per_channel', got 'per_group'",
        "DynamicQuantize", [(2, 4), (2, 2)], [lt(9, (2, 4), "s8")], {"qtype": "per_group"},
    ),
    (
        "input 0.* must have strides that keep its elements apart",
        "ReLU", [LT(0, "f32", [4, 8], [0, 1])], [(4, 8)], {},
    ),
    *(
        (
            "output 0.* must have strides that keep its elements apart",
            "ReLU", [(4, 8)], [LT(1, "f32", [4, 8], strides)], {},
        )
        for strides in ([0, 1], [7, 1])
    ),
    (
        "an input needs a strided or opaque layout",
        "Add", [LT(0, "f32", [], "any"), ()], [()], {},
    ),
    (
        "rank 6 with strides that are not row-major makes oneDNN",
        "Tanh", [LT(0, "f32", [2] * 6, [32, 16, 8, 4, 1, 2])], [(2,) * 6], {},
    ),
):  # fmt: skip
    wrong("OneDNNError", f"the_{kind.lower()}.*{says}", shaped, kind, inputs, outputs, **attrs)
bad_op("op feeds itself|own output", lambda: og.partition(op("ReLU", [lt(0)], [lt(0)]), "cpu"))
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
    ((4, 8), ()),
    ((), ()),
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
refused(run, "StaticReshape", lt(0), shape=[-1, -1], special_zero=False)
for order in ([0], [0, 7]):
    refused(run, "StaticTranspose", lt(0), order=order)
for kind, name in (
    ("AvgPoolBackward", "src_shape"),
    ("ConvolutionBackwardWeights", "weights_shape"),
    ("ConvolutionBackwardData", "dst_shape"),
):
    bad_op("needs the attributes strides", run, kind, lt(0), lt(1), **{name: [1] * 60})
for kind, types in {"Quantize": ("f32", "s8"), "Dequantize": ("s8", "f32")}.items():
    for scales, zps, axis in ((80, 80, 1), (8, 8, 2), (8, 8, -(2**40)), (8, 3, 1)):
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
refused(run, "Concat", lt(0), lt(1), axis=9)
refused(run, "Concat", lt(0), lt(1, (4, 9, 2)), axis=0)
refused(run, "SoftMax", lt(0), axis=5)
bad_shape("axis", run, "SoftMax", lt(0), axis=2**40)
bad_shape("begin_norm_axis", run, "LayerNorm", lt(0), begin_norm_axis=100, **PLAIN)
bad_shape("axes", run, "ReduceSum", lt(0), axes=[0] * 60)

# -- partition and compile


def compile_relu(inputs: object, outputs: object, engine: object = "own") -> object:
    return relu_partition().compile(inputs, outputs, cpu() if engine == "own" else engine)


bad_argument(
    "input 0 is missing; expected ids \\[0\\], got \\[\\]", lambda: compile_relu([], [lt(1)])
)
bad_argument("output 1 is missing", lambda: compile_relu([lt(0)], []))
bad_argument("id=7.*not a port", lambda: compile_relu([lt(0), lt(7)], [lt(1)]))
bad_argument("id=7.*not a port", lambda: compile_relu([lt(0)], [lt(1), lt(7)]))
bad_argument("given more often", lambda: compile_relu([lt(0), lt(0)], [lt(1)]))
bad_argument("output 1 is given more often", lambda: compile_relu([lt(0)], [lt(1), lt(1)]))
bad_argument("not a port; expected ids \\[0\\]", lambda: compile_relu([lt(1)], [lt(0)]))
bad_argument("empty", lambda: compile_relu([lt(0)], [LT()]))
bad_data_type(
    "data type differs from the graph", lambda: compile_relu([lt(0, dtype="f16")], [lt(1)])
)
bad_data_type("data type differs", lambda: compile_relu([lt(0)], [lt(1, dtype="s8")]))
for dims in ((4, 9), (8, 4), (32,)):
    bad_shape("shape differs", lambda dims: compile_relu([lt(0, dims)], [lt(1)]), dims)
    bad_shape("shape differs", lambda dims: compile_relu([lt(0)], [lt(1, dims)]), dims)
bad_shape("keep its elements apart", compile_relu, [lt(0)], [LT(1, "f32", [4, 8], [0, 1])])
bad_shape("known dims", lambda: compile_relu([lt(0, (4, -1))], [lt(1)]))
bad_shape("known dims", lambda: compile_relu([LT(0, "f32")], [lt(1)]))
bad_shape("strided or opaque", lambda: compile_relu([lt(0, layout="any")], [lt(1)]))
bad_shape("strided or opaque", lambda: compile_relu([lt(0, layout="undef")], [lt(1)]))
for engine in (None, "cpu", 0):
    type_error("compile", compile_relu, [lt(0)], [lt(1)], engine)
for bad in (None, 1, lt(0), [1], "f32", [ones(4, 8)]):
    type_error("compile", compile_relu, bad, [lt(1)])
    type_error("compile", compile_relu, [lt(0)], bad)


def lying_output() -> object:
    source, target = lt(0), LT(1, "f32")
    return og.partition(op("ReLU", [source], [target]), "cpu").compile(
        [source], [lt(1, (2, 4))], cpu()
    )


bad_shape("the_relu|ReLU", lying_output)


def query(tid: object) -> LT:
    return Relu().compiled.query_logical_tensor(tid)


def unsupported() -> og.partition:
    (partition,) = graph_of(op("Wildcard", [lt(0)], [lt(1)])).get_partitions()
    return partition


missing("Wildcard.*unsupported", lambda: unsupported().compile([lt(0)], [lt(1)], cpu()))
type_error("partition", lambda: og.partition(None, "cpu"))
for tid in (2, 99, 2**62):
    bad_argument(f"{tid} is neither an input nor an output", query, tid)
for tid in (None, "0", 1.0, True):
    type_error("query_logical_tensor", query, tid)
bad_argument("got -1", query, -1)


def with_scratchpad(of: Callable[[Relu], object], way: str = "execute") -> None:
    model = Relu()
    getattr(model.compiled, way)(model.stream, [model.x], [model.y], scratchpad=of(model))


if og.version()["minor"] < 13:
    missing("needs oneDNN >= 3.13", lambda: Relu().compiled.get_scratchpad_logical_tensor())
    for way in ("execute", "bind"):
        missing("scratchpad needs oneDNN >= 3.13", with_scratchpad, lambda r: r.x, way)
else:
    for scratchpad in (1, "scratchpad", b"123"):
        type_error("scratchpad must be a tensor", with_scratchpad, lambda r, s=scratchpad: s)
    bad_argument("scratchpad overlaps input", with_scratchpad, lambda r: r.x)
    bad_argument("scratchpad overlaps output", with_scratchpad, lambda r: r.y)
    bad_argument("tensor is empty", with_scratchpad, lambda r: og.tensor())

# -- execute and bind


def other(*args: object) -> Callable[[Relu], tuple[list, list]]:
    return lambda r: ([og.tensor(LT(*args), r.engine)], [r.y])


CALLS = (
    (ARGS, "expected 1 inputs, got 0", lambda r: ([], [r.y])),
    (ARGS, "expected 1 inputs, got 2", lambda r: ([r.x, r.x], [r.y])),
    (ARGS, "expected 1 outputs, got 0", lambda r: ([r.x], [])),
    (ARGS, "expected 1 outputs, got 2", lambda r: ((r.x,), (r.y, r.y))),
    (ARGS, "input 0.*in the order", lambda r: ([r.y], [r.x])),
    (ARGS, "input 0: expected logical_tensor", other(7, "f32", [4, 8], "strided")),
    (TYPE, "input 0: expected logical_tensor", other(0, "s32", [4, 8], "strided")),
    (SHAPE, "input 0: expected logical_tensor", other(0, "f32", [2, 8], "strided")),
    (SHAPE, "input 0: expected logical_tensor", other(0, "f32", [8, 4], "strided")),
    (SHAPE, "input 0: expected logical_tensor", other(0, "f32", [4, 8, 1], "strided")),
    (SHAPE, "input 0: expected logical_tensor", other(0, "f32", [4, 8], [1, 4])),
    (SHAPE, "output 0", lambda r: ([r.x], [og.tensor(lt(1, (1, 8)), r.engine)])),
    (ARGS, "output 0.*read-only", lambda r: ([r.x], [og.tensor(lt(1), r.engine, bytes(128))])),
    (ARGS, "overlaps the memory of input", lambda r: part_of_input(r)),
    (ARGS, "stream must be of the engine.*not the same object", lambda r: other_engine(r)),
)
OF_TWO = (
    (ARGS, "expected 2 inputs, got 1", lambda m: ([m.a], [m.c])),
    (ARGS, "input 0: expected.*id=0.*got.*id=1", lambda m: ([m.b, m.a], [m.c])),
    (ARGS, "overlaps the memory of input.*get_inplace_ports", lambda m: own_input(m)),
)


class Lazy(og.tensor):
    def __init__(self) -> None:
        pass


for way in ("execute", "bind"):
    for raises, says, tensors in CALLS:
        wrong(raises, f"'the_relu'.*{says}", lambda *a: Relu().call(*a), way, tensors)
    for raises, says, tensors in OF_TWO:
        wrong(raises, f"'the_matmul'.*{says}", lambda *a: MatMul().call(*a), way, tensors)
    for bad in (None, 1, "tensors", {}, iter([]), ones(1), og.tensor):
        of_inputs, of_outputs = lambda r, bad=bad: (bad, [r.y]), lambda r, bad=bad: ([r.x], bad)
        says = "puts must be a list or tuple of tensor"
        type_error(f"in{says}", lambda *a: Relu().call(*a), way, of_inputs)
        type_error(f"out{says}", lambda *a: Relu().call(*a), way, of_outputs)
    for bad in (None, 1, ones(4, 8), lt(0), og.tensor):
        of_inputs, of_outputs = lambda r, bad=bad: ([bad], [r.y]), lambda r, bad=bad: ([r.x], [bad])
        type_error("input 0 must be a tensor", lambda *a: Relu().call(*a), way, of_inputs)
        type_error("output 0 must be a tensor", lambda *a: Relu().call(*a), way, of_outputs)
    for make in (Lazy, lambda: og.tensor.__new__(og.tensor)):
        of_inputs = lambda r, make=make: ([make()], [r.y])  # noqa: E731
        type_error("input 0|__init__", lambda *a: Relu().call(*a), way, of_inputs)
    for stream in (None, 1, cpu(), og.stream):
        type_error(
            "stream|execute",
            lambda way, stream: getattr(Relu().compiled, way)(stream, [], []),
            way,
            stream,
        )


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
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        type_error("pickle", lambda make, protocol: pickle.dumps(make(), protocol), make, protocol)

# -- blocks

QKV = ((2, 4, 6, 16), (2, 4, 10, 16), (2, 4, 10, 16))
MLP = ((4, 8), (8, 6), (8, 6), (6, 4))
X = ((4, 8),)
BUILDERS = deque(maxlen=2)  # values do not keep theirs alive


def inputs(*shapes, **options) -> list[og.Value]:
    """Inputs of a builder: of f32, or of the data type behind the shape."""
    b = og.GraphBuilder(**options)
    BUILDERS.append(b)
    return [b.input(*(s if isinstance(s[-1], str) else (s, "f32"))) for s in shapes]


def block(name: str, shapes: tuple, *args: object, **options) -> None:
    getattr(og.blocks, name)(*inputs(*shapes), *args, **options)


sdpa, linear, mlp, quantize, dequantize = (
    partial(block, n) for n in ("sdpa", "linear", "gated_mlp", "quantize", "dequantize")
)
type_error(
    "sdpa: query must be a Value, got ndarray",
    lambda: og.blocks.sdpa(ones(*QKV[0]), *inputs(*QKV[1:])),
)
bad_argument(
    "sdpa: key must belong to the GraphBuilder",
    lambda: og.blocks.sdpa(*inputs(QKV[0]), *inputs(*QKV[1:])),
)
for shapes, says in (
    (((4, 6, 16), *QKV[1:]), "query must have 4 or 5 dims, got 4x6x16"),
    ((QKV[0], (2, 4, 1, 10, 16), QKV[2]), "key must have 4 dims"),
    (
        (QKV[0], (2, 4, 10, 8), (2, 4, 10, 8)),
        r"key must be \(batch, key heads, keys, head size\) = .*16.*8",
    ),
    ((*QKV[:2], (2, 4, 9, 16)), "value must be as key but.*10.*9"),
    (
        (QKV[0], (2, 3, 10, 16), (2, 3, 10, 16)),
        "the number of heads of key must divide .* 4, got 3",
    ),
    (((2, -1, 6, 16), *QKV[1:]), "the numbers of heads .* must be known"),
    (
        ((-1, 4, -1, -1), (-1, 2, -1, -1), (-1, 2, -1, -1)),
        "with fewer key heads .* at most one unknown dim",
    ),
    (
        ((2, 2, 2, 6, 16), (2, 4, 1, 10, 16), (2, 4, 1, 10, 16)),
        "key must be .batch, key heads, 1, keys, head size.",
    ),
    (
        ((2, 4, 6, -1), (2, 4, 10, -1), (2, 4, 10, -1)),
        "scale must be given if the head size is unknown",
    ),
):
    bad_shape(f"sdpa: {says}", sdpa, shapes)
bad_data_type("query must be f32 or bf16 or f16, got s8", sdpa, ((QKV[0], "s8"), *QKV[1:]))
bad_data_type("sdpa: key must be bf16 or .*, got f32", sdpa, ((QKV[0], "bf16"), *QKV[1:]))
for name, bad, says in (
    ("scale_by", "add", "scale_by must be one of 'multiply', 'divide', got 'add'"),
    ("causal", "left", "causal must be one of .*'bottom_right', got 'left'"),
    ("causal", 1, "causal must be one"),
    ("masked_rows", 0, "masked_rows must be one of 'zero', 'nan', got 0"),
    ("key_scale", 0.5, "key_scale needs a key of integers, got f32"),
):
    bad_argument(f"sdpa: {says}", sdpa, QKV, **{name: bad})
bad_data_type(
    "sdpa: mask must be boolean or f32, got u8",
    lambda: og.blocks.sdpa(*(v := inputs(*QKV, ((6, 10), "u8")))[:3], mask=v[3]),
)
bad_shape("sdpa: scale must have one element, got 4", sdpa, QKV, scale=ones(4))
bad_shape("mask must broadcast to the scores, 2x4x6x10, got 6x9", sdpa, QKV, mask=ones(6, 9))
type_error("sdpa: mask must be a", sdpa, QKV, mask="causal")
compressed = (QKV[0], (QKV[1], "s8"), QKV[2])
bad_argument(
    "sdpa: key_scale must be given for a key of s8",
    lambda: og.blocks.sdpa(*inputs(*compressed, apply_to_int=True)),
)
says = "a compressed key with fewer heads than query must have 5 dims"
bad_shape(says, sdpa, (QKV[0], ((2, 2, 10, 16), "s8"), (2, 2, 10, 16)))
says = r"sdpa: a compressed key needs GraphBuilder\(.*apply_to_int=True"
bad_argument(says, sdpa, compressed, key_scale=ones(2, 4, 10, 1))
bad_shape(r"linear: x must be \(\.\.\., inputs\) = .*9.*, got .*8", linear, X, ones(9, 4))
type_error("weights must be a Value or an array: .*inhomogeneous", linear, X, [[1], [2, 3]])
type_error("weights must be a Value or an array of numbers, got list", linear, X, ["a"])
bad_shape("linear: weights must have 2 dims", linear, X, ones(1, 8, 4))
bad_shape(r"linear: bias must be \(outputs,\) = .*4.*got .*3", linear, X, ones(8, 4), ones(3))
says = "linear: activation must be one of .*'silu', .*got 'swish'"
bad_argument(says, linear, X, ones(8, 4), activation="swish")
bad_data_type("linear: weights must be bf16, got f32", linear, (((4, 8), "bf16"), (8, 4)))
for shapes, says in (
    ((*MLP[:2], (8, 5), MLP[3]), "op .Multiply.: input 1 .*broadcasts with input 0 .*4x6, got 4x5"),
    ((*MLP[:3], (5, 4)), r"input 1 \(weights\) must have dim 0 equal to 6 .*got 5x4"),
    (
        (MLP[0], (7, 6), (7, 6), MLP[3]),
        r"input 1 \(weights\) must have dim 0 equal to 8 .*got 7x6",
    ),
):
    bad_shape(says, mlp, shapes)
bad_argument("zero_points of gate_weights need scales", mlp, MLP, zero_points=[1, 1, 1])
bad_argument("gated_mlp: scales must be 3 .* got 2", mlp, MLP, scales=[1, 1])
says, scales = "compressed gate_weights needs .*apply_to_int=True", [ones(1, n) for n in (6, 6, 4)]
bad_argument(says, mlp, (MLP[0], *((s, "u4") for s in MLP[1:])), scales=scales)
EIGHT, WHOLE = ones(64, 24, dtype=np.int8), ones(64, 24)
for bad, says, given in (
    (bad_shape, r"scales must be 1, \(outputs,\) or \(groups, outputs\).*23", {"scales": ones(23)}),
    (bad_shape, "groups that divide 64 inputs", {"scales": ones(5, 24)}),
    (
        bad_shape,
        "linear: zero_points must be of the shape of scales",
        {"scales": ones(2, 24), "zero_points": ones(4, 24)},
    ),
    (bad_argument, "linear: scales must be finite", {"scales": np.full(24, np.nan)}),
    (bad_data_type, "linear: weights without scales must be f32", {}),
    (bad_argument, "zero_points need scales", {"weights": WHOLE, "zero_points": [1]}),
    (bad_data_type, "weights with scales must be s8 or u8", {"weights": WHOLE, "scales": [1.0]}),
    (bad_argument, "linear: weights must be finite", {"weights": WHOLE * np.inf}),
    (
        bad_shape,
        r"linear: x must be \(\.\.\., inputs\)",
        {"weights": ones(63, 24, dtype=np.int8), "scales": [1.0]},
    ),
    (bad_shape, "2 dims and elements, got 64", {"weights": EIGHT[:, 0], "scales": [1.0]}),
    (type_error, "must be an array of numbers, got list", {"weights": ["a"], "scales": [1.0]}),
    (bad_argument, "linear: activations must be one of", {"activations": "int4"}),
    (bad_argument, "linear: groups must be one", {"scales": [1.0], "groups": "rows"}),
    (bad_shape, r"linear: bias must be \(outputs,\)", {"scales": [1.0], "bias": ones(3)}),
):
    bad(says, linear, ((4, 64),), **{"weights": EIGHT, "activations": "int8", **given})
type_error(
    "linear: weights must be an array",
    linear,
    ((4, 64), ((64, 24), "s8")),
    scales=[1.0],
    activations="int8",
)
bad_data_type("quantize: dtype must be u8 or .*, got s4", quantize, X, "s4", 0.5)
bad_argument("quantize: axis must be given with 8 scales", quantize, X, "s8", [0.5] * 8)
wrong(
    "InvalidIndexError", "axis 2 is out of range for 2 dims", quantize, X, "s8", [0.5] * 8, axis=2
)
says = "attribute scales must have one entry .* 8 channels .*got 7"
bad_op(says, quantize, X, "s8", [0.5] * 7, axis=1)
bad_argument("quantize: scales must be positive, got 0", quantize, X, "s8", 0)
says = "op .Quantize.: attribute zps must have as many .* 8, got 7"
bad_op(says, quantize, X, "s8", [0.5] * 8, [1] * 7, axis=1)
type_error("op .Quantize.: attribute zps takes a list of ints", quantize, X, "s8", 0.5, 0.5)
bad_shape(
    "quantize: scales must have 1 dim, as oneDNN can't quantize groups, got 2x8",
    lambda: og.blocks.quantize((v := inputs(*X, (2, 8)))[0], "s8", v[1]),
)
type_error("quantize: scales must be .* of numbers, got str", quantize, X, "s8", "a")
type_error("cast .* from .*complex128", quantize, X, "s8", [1j])
type_error("quantize: zero_points must be .*inhomogeneous", quantize, X, "u8", [1.0], [[1], [2, 3]])
type_error("rope_tables: positions .* of numbers, got str", og.blocks.rope_tables, "ab", 4)
type_error("sdpa: mask must be .*inhomogeneous", sdpa, QKV, mask=[[1], [2, 3]])
type_error(
    "linear: weights .*inhomogeneous", linear, X, [[1], [2, 3]], scales=[1.0], activations="int8"
)
INT8 = (((4, 8), "s8"),)
bad_data_type("dequantize: x must be u8 or .*, got f32", dequantize, X, 0.5)
bad_data_type("dequantize: dtype must be f32 .*s32", dequantize, INT8, 0.5, dtype="s32")
bad_data_type("dequantize: scales must be bf16", dequantize, (*INT8, (1, 8)), dtype="bf16")
says = "op .DynamicDequantize.: input 1 .*dim 0 equal to"
bad_shape(f"{says} 4 .*got 3x8", dequantize, INT8, ones(3, 8))
bad_shape(f"{says} 1 .*got 2x8", dequantize, INT8, ones(2, 8), group_shape=(4, 1))
says = "group_shape must be given if dims are unknown"
bad_shape(f"dequantize: {says}", dequantize, (((-1, 8), "s8"), (2, 8)))
says = "Dequantize.: input 1 .*1 element for per_tensor, got 4x8"
bad_op(says, dequantize, (((2, 4, 8), "s8"), (4, 8)))
for shape in ((2, 3), (2, 3, 4), (1, 2, 3, 4, 5, 6)):
    bad_shape("global_avg_pool: x", block, "global_avg_pool", (shape,))

# -- builders, models and the functions around them


def built(shape=(2, 3), **options) -> og.CompiledGraph:
    b = og.GraphBuilder()
    b.output(b.input(shape, name="x").relu())
    return b.compile(**options)


X_GRAPH = og.GraphBuilder()
X_GRAPH.output(X_GRAPH.input((2, 3), name="x").relu())
fill, unpack = og.fill_inputs, og.dtypes.unpack_int4
for bad in (0, 1.5, "2", True):
    whole = f"must be a whole number, at least 1, got {bad!r}"
    for option in ("threads", "max_shapes"):
        bad_argument(f"^{option} {whole}", built, **{option: bad})
    bad_argument(f"jit: maxsize {whole}", og.jit(maxsize=bad), abs)
type_error("name must be a str, got int", built, name=3)
type_error("a data type is needed, got None", og.GraphBuilder().input, (2, 3), None)
type_error("kind must be a str, got int", og.GraphBuilder().op, 3)
bad_argument("constant 'c': .*inhomogeneous", og.GraphBuilder().constant, [[1], [1, 2]], name="c")
type_error("an axis must be an int, got 'a'", lambda: X_GRAPH.inputs[0].squeeze("a"))
type_error("trace: function must be callable, got NoneType", og.trace, None)
type_error("jit: function must be callable, got int", og.jit, 3)
type_error("assert_fused: model must be a CompiledGraph", og.assert_fused, None)
bad_argument("partitions must be a whole number", lambda: og.assert_fused(built(), (2, 3)))
type_error("a shape must be a sequence of ints, got 3", lambda: built().steps(3))
type_error("fill_inputs: builder must be a GraphBuilder, got Comp", lambda: fill(built()))
bad_argument("fill_inputs: seed must be", fill, X_GRAPH, "a")
bad_argument("there is no input 'y'; there are: x", fill, X_GRAPH, shapes={"y": (2, 3)})
bad_shape("'x' must have the shape 2x3, got 2x4", fill, X_GRAPH, shapes={"x": (2, 4)})
bad_argument("verify: seed must be", lambda: built().verify(seed=-1))
type_error("explain: model must be a CompiledGraph or GraphBuilder", og.explain, None)
says = "explain: input 'x' must have the shape 2x3, got 2x4"
bad_shape(says, og.explain, X_GRAPH, (2, 4), seconds=0)
bad_argument("export: seed must be a whole number", lambda: X_GRAPH.to_python(seed="a"))
type_error("run_case: case must be a Case, got str", og.replay.run_case, "graph.json")
type_error("to_json: graph must be a GraphDocument", og.serialization.to_json, None)
type_error("shrink: document must be", og.shrinking.shrink, X_GRAPH, "mismatch")
for bad in (["ab"], [2**70]):
    bad_argument("pack_int4: values must be integers", og.dtypes.pack_int4, bad, "s4")
bad_argument("data_type must be s4 or u4, got None", og.dtypes.pack_int4, [1], None)
bad_argument("packed must be uint8, got int64", unpack, [1], [1], "s4")
type_error("unpack_int4: shape must be a sequence of ints", unpack, np.zeros(1, np.uint8), 2, "s4")
bad_shape("unpack_int4: shape", unpack, np.zeros(0, np.uint8), [-1, 0], "s4")
KV = og.blocks.kv_cache
type_error("kv_cache: b must be a GraphBuilder", KV, 3, layers=1, batch=1, heads=1, size=2)
cache = KV(CACHED := og.GraphBuilder(), layers=1, batch=1, heads=1, size=2)
bad_argument("kv_cache: tokens must be a whole number", cache.allocate(4).arrays, 1.5)
wrong("InvalidIndexError", "axis 5 is out of range", cache.positions, cache.length, axis=5)

# -- ops.check

check, ROWS = og.ops.check, [((4, 8), "f32")]
MATRICES = [*ROWS, ((8, 5), "f32")]
PICTURE = [((1, 6, 6, 8), "f32"), ((3, 3, 8, 16), "f32")]
WINDOW = {"strides": (1, 1), "pads_begin": (0, 0), "pads_end": (0, 0), "dilations": (1, 1)}


def mistakes(kind: str, inputs: list, *rows: tuple) -> None:
    """List graph ops that are wrong: what is said of these attributes, and of outputs if given."""
    for says, *given in rows:
        bad_op(says, check, kind, inputs, *given)


bad_op(r"op \(ReLU\): must have 1 input \(src\), got 2", check, "ReLU", ROWS * 2)
bad_op(r"1 or 3 inputs \(src, gamma, beta\), got 2", check, "LayerNorm", ROWS * 2)
bad_op(r"must have 1 to 64 inputs \(src_i\), got 0", check, "Concat", [], {"axis": 0})
bad_op(r"src\) must be f32 or bf16 or f16, got s8", check, "ReLU", [((4,), "s8")])
mistakes(
    "ReLU",
    ROWS,
    (r"must have 1 output \(dst\), got 2", {}, ROWS * 2),
    (r"0 \(dst\) must be f32 as input 0 \(src\) is, got bf16", {}, [(None, "bf16")]),
    ("ReLU has no attribute 'epsilon'; it has none", {"epsilon": 1.0}),
)
says = r"with keep_stats it has 3 outputs \(dst, mean, variance\), got 1"
bad_op(says, check, "LayerNorm", ROWS, {}, ROWS)
says = r"input 1 \(weights\) must be f32 as input 0 \(src\) is, got bf16"
bad_op(says, check, "MatMul", [*ROWS, ((8, 5), "bf16")])
says = "input and output must differ in data type, got f32 for both"
bad_op(says, check, "TypeCast", ROWS, {}, ROWS)
says = "it casts from or to f32, got bf16 to f16"
bad_op(says, check, "TypeCast", [((4,), "bf16")], {}, [((4,), "f16")])
mistakes(
    "BatchNormInference",
    [((1, 4, 4, 8), "f32")] + [((8,), "bf16")] * 4,
    ("bf16 parameters and statistics need bf16 data, got f32 data", {"epsilon": 1e-5}),
)
choices = "'None' or 'SAME_UPPER' or 'SAME_LOWER' or 'VALID', got 'same'"
mistakes(
    "Convolution",
    PICTURE,
    ("needs the attributes strides, pads_begin, pads_end, dilations",),
    ("has no attribute 'dilation', did you mean 'dilations'", {**WINDOW, "dilation": (1, 1)}),
    (f"attribute auto_pad must be {choices}", {**WINDOW, "auto_pad": "same"}),
    (r"pads_end must have no negative entry, got \[0, -1\]", {**WINDOW, "pads_end": (0, -1)}),
)
bad_op("needs the attribute alpha", check, "Elu", ROWS)
for kind, given, attrs, says in (
    ("Elu", ROWS, {"alpha": "1"}, r"alpha takes a float, got '1' \(str\)"),
    ("Elu", ROWS, {"alpha": True}, r"alpha takes a float, got True \(bool\)"),
    ("MatMul", MATRICES, {"transpose_a": 1}, r"transpose_a takes a bool, got 1 \(int\)"),
    ("Convolution", PICTURE, {**WINDOW, "strides": 1}, r"a list of ints, got 1 \(int\)"),
    ("Convolution", PICTURE, {**WINDOW, "strides": (1.5, 1)}, r"a list of ints, got 1.5 \(float"),
):
    type_error(f"attribute .*{says}", check, kind, given, attrs)
says = "attribute axis: 9223372036854775808 does not fit into 64 bits"
bad_argument(says, check, "SoftMax", ROWS, {"axis": 2**63})
says = "attribute alpha: 9.* does not fit into a 32-bit float"
bad_argument(says, check, "Elu", ROWS, {"alpha": 1e39})
mistakes(
    "Interpolate",
    [((1, 4, 4, 8), "f32")],
    (
        "exactly one of the attributes sizes and scales must be set, got neither",
        {"mode": "nearest"},
    ),
)
mistakes(
    "Quantize",
    ROWS,
    ("scales must have 1 entry for per_tensor, got 2", {"scales": (1.0, 2.0)}, [(None, "u8")]),
)
mistakes(
    "Dequantize",
    [((2, 4, 3), "u8")],
    (
        r"scales must have one entry for each of the 4 channels \(axis 1 of 2x4x3\), got 16",
        {"qtype": "per_channel", "scales": (1.0,) * 16},
    ),
    ("zps must have as many entries as scales, 1, got 2", {"scales": (1.0,), "zps": (0, 0)}),
)
given = [((4,), "f8_e4m3")], {"scales": (1.0,), "zps": (0,)}
bad_op("f8_e4m3 has no zero points", check, "Dequantize", *given)
says = r"input 1 \(weights\) must have dim 0 equal to 8 .*, got 9x5"
bad_shape(says, check, "MatMul", [*ROWS, ((9, 5), "f32")])
says = r"input 1 \(src_1\) must have a shape that broadcasts with .*4x8, got 3x8"
bad_shape(says, check, "Add", [*ROWS, ((3, 8), "f32")])
says = r"output 0 \(dst\) must have the shape 4x8 .*, got 4x9"
bad_shape(says, check, "ReLU", ROWS, {}, [((4, 9), "f32")])
given = [((1, 2, 2, 8), "f32"), PICTURE[1]]
bad_shape("window of 3 does not fit", check, "Convolution", given, WINDOW)
bad_argument("did you mean 'Convolution'?", check, "Convolutoin", PICTURE)
bad_argument("did you mean 'ReLU'?", check, "relu", ROWS)
type_error("inputs must be a Sequence, got ndarray", check, "ReLU", ones(2, 3))
type_error("attrs must be a Mapping, got list", check, "ReLU", ROWS, [1])
says = r"op \(ReLU\): input 0 \(src\): expected a TensorSpec, .*got str"
type_error(says, check, "ReLU", ["f32"])
bad_op(r"^op 3 'act' \(ReLU\): must have 1 input", check, "ReLU", [], name="act", id=3)
bad_op(r"^op 'act' \(ReLU\): ", check, "ReLU", [], name="act")

# -- settings and caches

for bad in (3, -1, 99, 2**31 - 1):
    bad_argument(f"set_verbose\\({bad}\\).*0, 1 and 2", og.set_verbose, bad)
for bad in (None, "2", 1.5, 2**40):
    type_error("set_verbose", og.set_verbose, bad)
bad_argument("first use", lambda: (Relu(), og.set_max_cpu_isa("avx2")))
bad_argument("'prefer_zmm'.*'prefer_ymm'", lambda: og.set_cpu_isa_hints("prefer_zmm"))
bad_argument("'cpy'", lambda: og.set_constant_tensor_cache_capacity("cpy", 1))
type_error("get_constant", lambda: og.get_constant_tensor_cache_capacity(1))
for bad in (None, 2, "yes"):
    type_error("set_jit_dump", og.set_jit_dump, bad)
bad_argument("-1", lambda: og.set_jit_profiling_flags(-1))
for bad in (2**32, 2**40):
    bad_argument("32 bits", og.set_jit_profiling_flags, bad)
type_error("set_jit", lambda: og.set_jit_profiling_flags("vtune"))
for bad in (1, None):
    type_error("set_jit", og.set_jit_profiling_jitdumpdir, bad)
if og.version()["minor"] < 11:
    for bad in ("graph", 1, None):
        missing("set_dump_mode needs oneDNN >= 3.11", og.set_dump_mode, bad)
else:
    bad_argument("'graphs'.*'graph'", lambda: og.set_dump_mode("graphs"))


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
