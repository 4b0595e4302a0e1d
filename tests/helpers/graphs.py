"""Builders, parameter lists and small tools that the tests of the mirror share."""

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import onednn_graph_py as og
from onednn_graph_py.machine.cpu import lacks

LINKED = (og.version()["major"], og.version()["minor"])
RUNTIME = og.version()["cpu_runtime"]

HELPERS = Path(__file__).parent

# Data types whose NumPy dtype stores one element in each item.
WHOLE_TYPES = ["f32", "f16", "bf16", "s32", "s8", "u8", "boolean", "f8_e5m2", "f8_e4m3"] + (
    ["s64"] if LINKED >= (3, 12) else []
)
# The three enumerations of logical_tensor.
LT_ENUMS = [
    og.logical_tensor.data_type,
    og.logical_tensor.layout_type,
    og.logical_tensor.property_type,
]
PACKED_TYPES = ["s4", "u4"]

# For tests of numbers; tests of defects say where a model runs in parts for this reason.
may_run_masks_in_parts = pytest.mark.filterwarnings(
    "ignore:.*with AMX reads an operand for all batches and heads:RuntimeWarning"
)

# Of a convolution with a kernel of 3x3: channels first, and as large as before.
SAME_SIZE = {
    "strides": (1, 1),
    "pads_begin": (1, 1),
    "pads_end": (1, 1),
    "dilations": (1, 1),
    "data_format": "NCX",
    "weights_format": "OIX",
}

# oneDNN packs f32 weights for its kernels of AVX2 and above, 3.7 for those of AVX-512 only, and has
# gemm compute them otherwise.
_PACKS_FROM = og.cpu_isa["avx2" if LINKED >= (3, 8) else "avx512_core"]
PACKS_WEIGHTS = og.get_effective_cpu_isa().value & _PACKS_FROM.value == _PACKS_FROM.value
packed_weights = pytest.mark.skipif(
    not PACKS_WEIGHTS,
    reason=f"oneDNN {LINKED[0]}.{LINKED[1]} packs f32 weights from {_PACKS_FROM.name} on",
)

host_memory = pytest.mark.skipif(
    RUNTIME == "SYCL", reason="oneDNN over SYCL takes its memory from SYCL, not from an allocator"
)
sycl_memory = pytest.mark.skipif(
    RUNTIME != "SYCL", reason=f"this oneDNN runs on {RUNTIME}, whose allocators are the host's"
)
with open("/proc/self/maps") as _maps:
    _mapped = _maps.read()
SANITIZERS = [name for name in ("asan", "tsan", "ubsan") if f"/lib{name}.so" in _mapped]
unsanitized_memory = pytest.mark.skipif(
    bool({"asan", "tsan"} & set(SANITIZERS)),
    reason="ASan keeps freed memory a while, and TSan what was accessed: ./dev test --sanitize",
)


class Counted:
    """Count the calls of a function of a module."""

    def __init__(self, monkeypatch, module, name: str):
        self.calls = 0
        self._function = getattr(module, name)
        monkeypatch.setattr(module, name, self)

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self._function(*args, **kwargs)


def since(major: int, minor: int):
    """Skip where the linked oneDNN is older."""
    return pytest.mark.skipif(
        (major, minor) > LINKED, reason=f"needs oneDNN >= {major}.{minor}, linked is {LINKED}"
    )


def before(major: int, minor: int):
    """Skip where the linked oneDNN is this new."""
    return pytest.mark.skipif(
        (major, minor) <= LINKED, reason=f"about oneDNN < {major}.{minor}, linked is {LINKED}"
    )


def needs(dtype: str) -> None:
    """Skip where this CPU has no kernels for a data type."""
    if missing := lacks(dtype):
        pytest.skip(missing)


def held_to(isa: str):
    """Skip where oneDNN can't be held to an instruction set, as it uses a lower one or another."""
    own, value = og.get_effective_cpu_isa(), og.cpu_isa[isa].value
    return pytest.mark.skipif(
        own.value & value != value, reason=f"oneDNN uses {own.name} here, not {isa} or above"
    )


def lt_of(tid: int, array: np.ndarray, prop: str = "undef") -> og.logical_tensor:
    """Return the logical tensor of an array's dtype, shape and strides."""
    strides = [s // array.itemsize for s in array.strides]
    return og.logical_tensor(tid, og.dtypes.data_type_of(array.dtype), array.shape, strides, prop)


def graph_of(*ops: og.op) -> og.graph:
    """Return a finalized graph of ops for the CPU."""
    g = og.graph("cpu")
    for o in ops:
        g.add_op(o)
    g.finalize()
    return g


def relu_op(tid: int = 0, shape=(4, 8), dtype: str = "f32") -> og.op:
    """Return a ReLU from logical tensor `tid` to `tid` + 1."""
    src, dst = (og.logical_tensor(tid + i, dtype, shape, "strided") for i in range(2))
    return og.op(tid, "ReLU", [src], [dst], f"relu{tid}")


class Model:
    """One partition, compiled: what a test of execution needs."""

    def __init__(self, ops, inputs, outputs, engine=None):
        self.engine = engine or og.engine("cpu", 0)
        self.stream = og.stream(self.engine)
        (self.partition,) = graph_of(*ops).get_partitions()
        self.compiled = self.partition.compile(inputs, outputs, self.engine)
        self.inputs, self.outputs = inputs, outputs

    def tensors(self, inputs, outputs):
        """Return tensors over arrays."""
        wrap = [
            [og.tensor(lt, self.engine, a) for lt, a in zip(lts, arrays, strict=True)]
            for lts, arrays in ((self.inputs, inputs), (self.outputs, outputs))
        ]
        return wrap[0], wrap[1]

    def run(self, inputs, outputs):
        """Execute on arrays and wait."""
        self.compiled.execute(self.stream, *self.tensors(inputs, outputs))
        self.stream.wait()
        return outputs


def relu_model(shape=(4, 8), engine=None, src=None, dst=None) -> Model:
    """Return a compiled ReLU of f32, from logical tensor 0 to 1."""
    src = src or og.logical_tensor(0, "f32", shape, "strided")
    dst = dst or og.logical_tensor(1, "f32", shape, "strided")
    return Model([og.op(0, "ReLU", [src], [dst], "relu")], [src], [dst], engine)


def matmul_relu_model(rows: int = 16, inner: int = 32, columns: int = 24, engine=None) -> Model:
    """Return relu(a @ b.T) of f32, fused into one partition."""
    a = og.logical_tensor(0, "f32", [rows, inner], "strided")
    b = og.logical_tensor(1, "f32", [columns, inner], "strided")
    between = og.logical_tensor(2, "f32", [rows, columns], "strided")
    y = og.logical_tensor(3, "f32", [rows, columns], "strided")
    matmul = og.op(0, "MatMul", [a, b], [between], "matmul").set_attr("transpose_b", True)
    return Model([matmul, og.op(1, "ReLU", [between], [y], "relu")], [a, b], [y], engine)


def softmax_model() -> Model:
    """Return a compiled SoftMax over rows of f32, which may run in place."""
    src, dst = (og.logical_tensor(i, "f32", [4, 8], "strided") for i in range(2))
    softmax = og.op(0, "SoftMax", [src], [dst], "softmax").set_attr("axis", 1)
    return Model([softmax], [src], [dst])


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """Return f32 between -1 and 1."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def whole(seed: int, *shape: int) -> np.ndarray:
    """Return small whole numbers: sums of products of them are exact in f32."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def assert_sums_close(actual, expected, magnitude, length, dtype=np.float32):
    """Compare sums of `length` products with a reference in float64.

    Each rounding is at most half a unit in the last place of what was summed so far; `magnitude`
    is the sum of the absolute products, so length * eps * magnitude bounds any order of summation.
    """
    bound = (length + 2) * np.finfo(dtype).eps * magnitude
    error = np.abs(np.asarray(actual, np.float64) - expected)
    assert (error <= bound).all(), f"error {error.max()} over bound {bound.flat[error.argmax()]}"


def in_threads(number: int, body: Callable[[int], object]) -> None:
    """Run body(i) in threads, all at once, and pass on what they raise."""
    errors: list[BaseException] = []
    start = threading.Barrier(number)

    def guarded(i: int) -> None:
        try:
            start.wait()
            body(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


# Large blocks of memory are mappings of their own, so that what is freed leaves the process.
OWN_BLOCKS = {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=1048576"}


def python(
    program: str, *, env=None, cwd=None, check=True, seconds=120
) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter; a failing or crashing one fails the test."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(program)],
        env={**os.environ, **(env or {})},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    if check:
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def importing(test_file: str) -> str:
    """A ``PYTHONPATH`` with which another process imports a test's module, and its helpers."""
    return os.pathsep.join([str(Path(test_file).parent), str(HELPERS)])


def built(build: Callable[[og.GraphBuilder], object]) -> og.GraphBuilder:
    """A builder with the graph that a function writes into it."""
    b = og.GraphBuilder()
    build(b)
    return b
