"""What users do, again and again: nothing may be left behind.

As a program it is the worker of test_leaks.py: ``leak_cases.py SCALE [NAME ...]`` runs the cases,
with so many times the rounds, and writes a JSON line for each: what grew, and which public
operations it called.
"""

import contextlib
import copy
import gc
import inspect
import io
import json
import os
import pickle
import shutil
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import leaks
import numpy as np
from graphs import RUNTIME, SAME_SIZE, random

import onednn_graph_py as og
from onednn_graph_py import (
    capture,
    export,
    ops,
    parallel,
    replay,
    selftest,
    shrinking,
    sycl_interop,
    tuning,
)
from onednn_graph_py.frontends import regions
from onednn_graph_py.model import verdicts
from onednn_graph_py.model.building.attached_methods import ArrayMethods
from onednn_graph_py.model.methods import METHODS

LT = og.logical_tensor


@dataclass(frozen=True)
class Case:
    """Something to do again and again; the function prepares it and returns what to repeat."""

    prepare: Callable[[], Callable[[], object]]
    rounds: int
    kernels: int


CASES: dict[str, Case] = {}


def prepared(rounds: int, kernels: int = 0):
    """List a case under its function's name: rounds of a batch, kernels made and run in each."""

    def listed(prepare):
        CASES[prepare.__name__] = Case(prepare, rounds, kernels)
        return prepare

    return listed


def case(rounds: int, kernels: int = 0, of: Callable[[], object] | None = None):
    """List what is to be repeated itself; it takes what `of` returns once."""

    def listed(run):
        prepare = (lambda: partial(run, of())) if of else (lambda: run)
        CASES[run.__name__] = Case(prepare, rounds, kernels)
        return run

    return listed


def fails(call: Callable[[], object], *errors: type[BaseException]) -> None:
    """Make a call that must raise."""
    try:
        call()
    except Exception as e:
        assert isinstance(e, errors or (og.OneDNNError, TypeError, ValueError, IndexError)), e
        return
    raise AssertionError("it did not fail")


class Mirror:
    """One of each object of the mirror."""

    def __init__(self) -> None:
        self.ins, self.outs = ([LT(i, "f32", [64, 64], "strided")] for i in range(2))
        self.op = og.op(0, "ReLU", self.ins, self.outs, "relu")
        self.graph = og.graph("cpu")
        self.graph.add_op(self.op)
        self.graph.finalize()
        (self.partition,) = self.graph.get_partitions()
        self.engine = og.engine("cpu", 0)
        self.stream = og.stream(self.engine)
        self.compiled = self.partition.compile(self.ins, self.outs, self.engine)
        self.x, self.y = (og.tensor(lts[0], self.engine) for lts in (self.ins, self.outs))
        self.array = np.ones((64, 64), np.float32)


def builder(shape=(1, 16, 10, 10)) -> og.GraphBuilder:
    """A convolution whose weights oneDNN reorders, with bias and ReLU."""
    b = og.GraphBuilder()
    weights, bias = random(64, shape[1], 3, 3, seed=1), random(64, seed=2)
    y = b.input(shape, name="x").convolution(b.constant(weights), b.constant(bias), **SAME_SIZE)
    b.output(y=y.relu())
    return b


X = random(1, 16, 10, 10)

# -- the mirror


@case(200)
def logical_tensors():
    lt = LT(0, "f32", [64, 64], "strided")
    lt.get_id(), lt.get_data_type(), lt.get_property_type(), lt.get_layout_type()
    lt.get_dims(), lt.get_strides(), lt.get_mem_size(), lt.is_equal(copy.copy(lt))
    fails(lt.get_layout_id), repr(LT(1, "bf16", [None], "any")), hash(lt)
    pickle.loads(pickle.dumps(lt))
    fails(lambda: LT(0, "f32", [2] * 99, "strided"))


@prepared(100)
def ops_of_the_mirror():
    lts = [LT(i, "f32", [4, 4], "strided") for i in range(2)]

    def run():
        made = og.op(0, "Convolution", "x").set_attr("strides", [1] * 12)
        made.set_attr("data_format", "NCX").get_attrs()
        made.add_input(lts[0]), made.add_inputs(lts), made.add_output(lts[1]), made.add_outputs([])
        made.get_id(), made.get_kind(), made.get_name(), made.get_inputs(), made.get_outputs()
        fails(lambda: made.set_attr("strides", "wrong")), fails(lambda: og.op(0, "nothing"))
        fails(lambda: made.add_input(None))

    return run


@case(100, of=Mirror)
def graphs(o):
    g = og.graph("cpu", "strict")
    g.set_fpmath_mode("bf16", True), g.get_fpmath_mode(), g.get_engine_kind(), g.get()
    g.add_op(o.op), g.is_finalized(), g.finalize(), g.get_ops()
    (p,) = g.get_partitions("fusion")
    p.get_ops_num(), p.get_ops(), p.get_id(), p.is_supported(), p.get_engine_kind(), p.get()
    p.get_input_ports(), p.get_output_ports()
    fails(lambda: g.add_op(o.op)), fails(lambda: og.graph("cpu").get_partitions())
    fails(lambda: og.graph("cpu").add_op(og.op(0, "ReLU", o.ins, [], "x")))


@case(50)
def engines_and_allocators():
    engine = og.engine("cpu", 0)
    stream = og.stream(engine)
    stream.wait(), stream.get_engine().get_kind(), stream.get(), engine.get()
    og.engine.get_count("cpu")
    fails(lambda: og.engine("cpu", 9))
    if RUNTIME != "SYCL":  # there memory is SYCL's
        mine = og.allocator()
        apart = og.make_engine_with_allocator("cpu", 0, mine)
        og.tensor(LT(0, "f32", [64], "strided"), apart)
        mine.statistics()
    else:
        fails(lambda: og.allocator.__new__(og.allocator).statistics(), TypeError)


@case(20, of=Mirror)
def compilations(o):
    made = o.partition.compile(o.ins, o.outs, o.engine)
    made.query_logical_tensor(1), made.get_inplace_ports(), made.get_inputs()
    made.get_outputs(), made.get()
    if hasattr(og.compiled_partition, "get_scratchpad_logical_tensor"):
        with contextlib.suppress(og.UnimplementedError):
            made.get_scratchpad_logical_tensor()
    fails(lambda: o.partition.compile([], o.outs, o.engine))
    fails(lambda: made.query_logical_tensor(77))


@case(100, of=Mirror)
def executions(o):
    o.compiled.execute(o.stream, [o.x], [o.y])
    bound = o.compiled.bind(o.stream, [o.x], [o.y])
    bound(), o.stream.wait()
    fails(lambda: o.compiled.execute(o.stream, [], []))
    fails(lambda: o.compiled.execute(o.stream, [o.x] * 3, [o.y]))
    fails(lambda: o.compiled.bind(o.stream, [o.x], [None]))


@prepared(100)
def tensors():
    o = Mirror()
    raw = bytearray(64 * 64 * 4)

    def run():
        t = og.tensor(o.ins[0], o.engine, o.array)
        t.get_data_handle(), t.get_engine(), t.get_logical_tensor(), t.get(), t.numpy()
        t.set_data_handle(raw), t.set_data_handle(o.array)
        og.tensor(o.ins[0], o.engine).numpy(), og.tensor(o.ins[0], o.engine, o.x)
        np.from_dlpack(o.x), o.x.__dlpack__(), o.x.__dlpack__(max_version=(1, 0))
        fails(lambda: og.tensor(o.ins[0], o.engine, bytearray(3)), og.OneDNNError)
        fails(lambda: og.tensor(o.ins[0], o.engine, o.array.astype("f8")), og.OneDNNError)
        fails(lambda: og.tensor(o.ins[0], o.engine, 0x10))
        with contextlib.suppress(og.OneDNNError):  # oneDNN 3.9
            og.tensor.make_scalar_tensor(LT(0, "f32", [], "strided", "host_scalar"), 3.0)

    return run


@case(50)
def data_types():
    packed = og.dtypes.pack_int4(np.arange(8) - 4, "s4")
    og.dtypes.unpack_int4(packed, (8,), "s4")
    og.dtypes.array_dtype("bf16"), og.dtypes.numpy_dtype("f8_e4m3")
    og.dtypes.data_type_of(np.dtype("int8"))
    fails(lambda: og.dtypes.array_dtype("nothing"), Exception)
    og.errors.reworded(og.InvalidShapeError("one"), "another")


@prepared(50)
def settings():
    kept = og.get_constant_tensor_cache_capacity("cpu")

    def run():
        og.set_compiled_partition_cache_capacity(og.get_compiled_partition_cache_capacity())
        og.set_primitive_cache_capacity(og.get_primitive_cache_capacity())
        og.set_constant_tensor_cache(og.get_constant_tensor_cache())
        og.get_constant_tensor_cache_capacity("cpu")
        og.set_constant_tensor_cache_capacity("cpu", kept)
        og.set_default_fpmath_mode(og.get_default_fpmath_mode())
        og.get_effective_cpu_isa(), og.get_cpu_isa_hints(), og.num_threads(), og.version()
        # oneDNN takes these only before its first kernel.
        fails(lambda: og.set_max_cpu_isa("sse41")), fails(lambda: og.set_cpu_isa_hints("no_hints"))
        og.set_verbose(0), og.set_jit_dump(False), og.set_jit_profiling_flags(0)
        og.set_jit_profiling_jitdumpdir(".")
        if hasattr(og, "set_dump_mode"):
            with contextlib.suppress(og.UnimplementedError):
                og.set_dump_mode("none")
        if RUNTIME == "SYCL":
            fails(lambda: og.set_num_threads(2), og.UnimplementedError)
        else:
            og.set_num_threads(og.num_threads())
        og.cache_info(), og.clear_caches()

    return run


@prepared(1, kernels=20)
def wrong_uses():
    import wrong_uses

    def run():
        for one in wrong_uses.CASES.values():
            fails(one.run, Exception)

    return run


# -- graphs as they are written


@prepared(10)
def building():
    from onednn_graph_py.ops import OPS

    def run():
        b = og.GraphBuilder()
        with b.scope("block"):
            x = b.input((2, 3, 4), "f32", name="x")
            y = b.op("ReLU", x)
            y = b.add_op("Abs", [y], {})
            y.transpose((1, 0, 2)).expand((3, 2, 4))
        first, _ = y.split(2, axis=2)
        b.output(first, b.input((1, 3), name="z").squeeze(0))
        y.described((2, 3, 4)), y.dims_of(y.logical_tensor)
        b.snapshot(), repr(b), pickle.loads(pickle.dumps(b))
        og.fill_inputs(b)
        fails(lambda: b.op("Nothing", x)), fails(lambda: b.matmul(x, x, transpose_a="no"))
        fails(lambda: x + np.ones((7, 7, 7), "f"))
        assert OPS

    return run


@prepared(5)
def functions_of_numpy():
    matrix = random(4, 4)
    given = {
        "astype": ["bf16"],
        "clip": [0, 1],
        "dot": [matrix],
        "repeat": [2],
        "reshape": [-1],
        "swapaxes": [0, 1],
        "take": [[0]],
    }
    names = [n for n in METHODS[ArrayMethods] if not n.startswith("_") and n != "as_numpy"]

    def run():
        b = og.GraphBuilder()
        x = b.input((4, 4)).relu()
        for name in names:
            getattr(x, name)(*given.get(name, ()))
        x.softmax(-1)
        x.to_device(x.device), fails(lambda: x.to_device("gpu"))
        x += 1.0
        np.exp(x, out=x)
        fails(lambda: np.fft.fft(x)), fails(lambda: x.take([9], axis=7)), fails(lambda: bool(x))

    return run


@prepared(5, kernels=2)
def tracing():
    def double_relu(x):
        return x.relu() * 2.0

    def run():
        og.trace(double_relu, ((2, 3), "f32"))
        made = og.jit(double_relu)
        made(np.ones((2, 3), np.float32))
        made.cache_clear()
        fails(lambda: og.trace(lambda x: x.nothing(), ((2,), "f32")), Exception)

    return run


@prepared(5)
def files():
    b = builder()
    folder = tempfile.mkdtemp()
    path = Path(folder) / "graph.json"

    def run():
        b.save(path), og.load(path), b.to_json()
        document = og.serialization.from_builder(b)
        og.serialization.to_graph(document), og.serialization.to_builder(document)
        og.serialization.to_json(document), og.serialization.parse(b.to_json())
        og.serialization.save(b, path), og.serialization.load(path)
        b.to_python(), b.to_cpp(), b.to_benchdnn(path)
        fails(lambda: og.load('{"graph": ['), og.OneDNNError)
        with contextlib.suppress(og.UnimplementedError), og.dump(folder):  # not every oneDNN can
            b.compile()

    return run


@prepared(3)
def references_of_ops():
    x = random(2, 3)

    def run():
        og.reference.run("ReLU", [x])
        og.reference.evaluate(og.reference.call_of("Abs", [x]), [x])
        call = og.reference.call_of("ReLU", [x])
        og.reference.tolerance(call)
        og.reference.round_to(x, "bf16"), og.reference.implemented()
        fails(lambda: og.reference.run("Nothing", [x]))

    return run


@prepared(2)
def exports():
    path = Path("exported.json")
    builder().save(path)
    b, large = og.GraphBuilder(), og.GraphBuilder()
    b.output(b.input((2, 8)).relu() + 1.0)
    large.output(large.input((1, 256)) @ random(256, 256))

    def run():
        export.to_python(b, "mirror"), export.to_cpp(b), export.to_cpp(b, check=True)
        export.benchdnn_command(path), export.to_benchdnn(b, path)
        fails(lambda: export.to_cpp(large, check=True))

    return run


@prepared(1, kernels=8)
def replays():
    b = builder()
    b.save("replayed.json")
    (one,) = replay.cases_of(["replayed.json"])

    def run():
        assert replay.run_case(one, replay.Options(verify=True)).verdict == "passed"
        ((_, result),) = replay.replay([one])
        assert result.as_dict()["verdict"] == "ran"
        assert replay.first_divergence(b, [X]) is None
        (nowhere,) = replay.cases_of(["nowhere.json"])
        assert replay.run_case(nowhere).verdict == "unreadable"
        fails(lambda: replay.cases_of(["nowhere/*.json"]))
        og.clear_caches()  # in which oneDNN keeps the constants of models that are gone

    return run


@prepared(1)
def shrinkings():
    b = og.GraphBuilder()
    b.output((b.input((8, 4)).relu() * 2.0).abs())
    document = og.serialization.from_builder(b)

    def run():
        made = shrinking.shrink(document, lambda d: any(op.kind == "Abs" for op in d.graph))
        assert len(made.graph) == 1
        with shrinking.Shows("mismatch") as shows:
            assert not shows(document)
            shows.outcome(document).with_reason()
        fails(lambda: shrinking.shrink(document, "nothing"))

    return run


@prepared(2)
def captures():
    builder().save("graph.json")

    def run():
        # oneDNN names a file so.
        found = capture.capture(["cp", "graph.json", "graph-100001.json"], "captured")
        (file,) = found.files
        file.unlink()
        fails(lambda: capture.capture(["no such program"], "captured"), OSError)

    return run


@prepared(20)
def splits_into_regions():
    reads = {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]}

    def run():
        parts = regions.split(reads, reads.__getitem__, lambda node: node != "c", lambda n: True)
        assert len(parts) == 3
        ring = {"a": ["b"], "b": ["a"]}
        fails(lambda: regions.split(ring, ring.__getitem__, lambda node: True))

    return run


@case(20)
def table_of_ops():
    assert ops.check("MatMul", [((2, 3), "f32"), ((3, 4), "f32")])[0].shape == (2, 4)
    ops.MatMul.flop([(2, 3), (3, 4)], [(2, 4)], {}), ops.overview((3, 7))
    fails(lambda: ops.check("MatMul", [((2, 3), "f32"), ((4, 4), "f32")]))


# -- models


@case(3, kernels=3)
def models():
    model = builder().compile(name="net")
    model(X), model(x=X)
    bound = model.bind([X])
    bound()
    model.steps(), model.stats(), model.prepare([X.shape]), og.assert_fused(model)
    model.save("model.json"), model.save("model.og"), og.load("model.og")
    model.specialization((X.shape,)), model.ordered([X], {})
    model.with_threads(1)(X)
    fails(lambda: model(X[:, :3])), fails(lambda: model(X, X)), fails(lambda: model(y=X))
    fails(lambda: model.bind([None])), fails(lambda: model.bind([X], [X[0]]))
    og.clear_caches()


@prepared(20)
def calls():
    model = builder().compile()
    out = np.empty_like(model(X))
    bound = model.bind([X], [out])
    tensor = og.tensor(LT(0, "f32", X.shape, "strided"), model.engine, X)
    counts = leaks.references([X, out])

    def run():
        model(X, out=out), model(x=X), bound()
        fails(lambda: model(X[0])), fails(lambda: model(X, out=out[0]))
        model(np.asfortranarray(X)), model(tensor)
        assert leaks.references([X, out]) == counts

    return run


@prepared(2, kernels=7)
def dynamic_dims():
    model = builder((-1, 16, -1, 10)).compile(max_shapes=2)
    sizes = [random(n, 16, m, 10) for n in (1, 2, 3) for m in (4, 5)]

    def run():
        for x in sizes:
            model(x)
        model.prepare([x.shape for x in sizes[:1]])
        fails(lambda: model(sizes[0][..., :3]))

    return run


@prepared(2, kernels=2)
def releasing():
    x = random(1, 64, 10, 10)

    def run():
        model = builder(x.shape).compile()
        before = model(x)
        if model.release_constants():
            fails(partial(pickle.dumps, model))
        np.testing.assert_array_equal(model(x), before)
        del model  # which holds the cache
        og.clear_caches()

    return run


@prepared(2, kernels=2)
def pickles():
    model = builder().compile()

    def run():
        pickle.loads(pickle.dumps(model))(X), copy.deepcopy(model)(X)
        og.clear_caches()

    return run


@prepared(10)
def host_steps():
    b = og.GraphBuilder()
    x = b.input((4, 8), name="x")
    wrong: list[bool] = []

    def step(array):
        if wrong:
            raise RuntimeError("as it was told")
        return array * 2

    y = b.call(step, x.relu(), outputs=[((4, 8), "f32")])

    def fill(array, other):
        array[...] = other

    state = b.update(fill, b.input((4, 8), name="state", updated=True), x.abs())
    b.output(y.abs(), state)
    model = b.compile()
    given = [random(4, 8), np.zeros((4, 8), np.float32)]

    def run():
        model(*given)
        wrong.append(True)
        fails(lambda: model(*given), Exception)
        wrong.clear()

    return run


@case(2, kernels=4)
def views_and_caches():
    b = og.GraphBuilder()
    cache = og.blocks.kv_cache(b, layers=1, batch=1, heads=1, size=4)
    q, k, v = (b.input((1, 1, -1, 4), "f32", name=n) for n in "qkv")
    b.output(cache.attend(q, k, v))
    model, memory = b.compile(), cache.allocate(20)
    x = np.ones((1, 1, 1, 4), np.float32)
    memory.call(model, 1, q=x, k=x, v=x), memory.call(model, 1, q=x, k=x, v=x)
    og.clear_caches()


@case(3)
def blocks():
    b = og.GraphBuilder()
    weights, row = random(4, 4), random(4)
    y = og.blocks.linear(b.input((2, 4), name="x"), weights, row)
    y = og.blocks.rms_norm(y, row)
    y = og.blocks.dequantize(og.blocks.quantize(y, "u8", 0.5), 0.5)
    image = b.input((1, 4, 5, 5))
    turned = b.input((1, 1, 2, 4))
    tables = og.blocks.rope_tables(np.arange(2), 4)
    b.output(og.blocks.gated_mlp(y, weights, weights, weights))
    b.output(og.blocks.global_avg_pool(image), og.blocks.rope(turned, *tables))
    b.output(og.blocks.embedding(b.input((3,), "s32"), weights))
    og.blocks.kv_cache(b, layers=1, batch=1, heads=1, size=4).positions(turned)
    fails(lambda: og.blocks.linear(y, weights[:, :1].T))
    document = og.serialization.from_builder(builder())
    document.with_tensors(lambda record: record)


# -- seeing


@prepared(2, kernels=4)
def seeing():
    model = builder().compile()
    path = Path(tempfile.mkdtemp()) / "seen"

    def run():
        drawn = og.diagram(model)
        drawn.mermaid(), drawn.dot(), drawn.save(path.with_suffix(".mmd"))
        with contextlib.suppress(og.OneDNNError, ImportError, OSError):  # where graphviz is
            drawn.svg()
        with og.profile() as p:
            model(X)
        p.chrome_trace(), p.save(path.with_suffix(".json")), p.steps
        model.verify(X)

    return run


@prepared(1, kernels=4)
def explaining():
    model = builder().compile()

    def run():
        made = model.explain(seconds=0.001, what_if=False)
        str(made), made.to_dict() if hasattr(made, "to_dict") else None

    return run


@prepared(1, kernels=2)
def comparing():
    b = og.GraphBuilder()
    b.output(b.input((8, 16)).relu())

    def run():
        found = og.compare(b, threads=[1], seconds=0, verify=False)
        found.to_dict()

    return run


@case(1)
def devices():
    og.devices().to_dict()


@prepared(1, kernels=4)
def verdicts_on_partitions():
    folder = tempfile.mkdtemp()

    def run():
        with patch.dict(os.environ, ONEDNN_GRAPH_PY_CACHE=folder):
            for _ in range(2):  # the second one finds the verdict of the first one on the disk
                builder().compile(check="verify")
        shutil.rmtree(folder)
        og.clear_caches()

    return run


@prepared(1, kernels=8)
def tunings():
    folder = tempfile.mkdtemp()
    b = og.GraphBuilder()
    b.output(b.input((64, 256)) @ random(256, 512))

    def run():
        with patch.dict(os.environ, ONEDNN_GRAPH_PY_CACHE=folder):
            b.compile(tune="full")
            assert len(tuning.show().splitlines()) == len(tuning.measurements()) + 1
            written = tuning.export("timings.json")
            tuning.clear()
            assert not tuning.measurements()
            assert tuning.load("timings.json") == written
            fails(lambda: tuning.load("nowhere.json"), OSError)
            tuning.clear()
        shutil.rmtree(folder)
        og.clear_caches()

    return run


@prepared(1, kernels=20)
def selftests():
    from onednn_graph_py.tools import command_line as cli

    def run():
        selftest.Finding("ops", 0, "wrong", "").as_dict()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            words = ["selftest", "--minutes", "0.005", "--only", "ops", "--json", "-o", "found"]
            assert cli.main(words) == 0

    return run


@case(2, kernels=1)
def predictors():
    made = parallel.Predictor(builder().compile, threads=1, prepare=[X.shape])
    made({"x": X})
    fails(lambda: parallel.Predictor(builder().compile, threads=0))
    og.clear_caches()


def sycl_objects():
    import dpctl
    from dpctl.memory import MemoryUSMShared

    queue = dpctl.SyclQueue("cpu", property="in_order")
    o = Mirror()

    def run():
        sycl_interop.make_engine(queue), sycl_interop.make_allocator()
        alloc = sycl_interop.make_usm_allocator("shared")
        engine = sycl_interop.make_engine_with_allocator(queue, None, alloc)
        stream = sycl_interop.make_stream(engine, queue)
        sycl_interop.get_device(engine), sycl_interop.get_context(engine)
        sycl_interop.get_queue(stream), sycl_interop.missing(), sycl_interop.runtime()
        memory = [MemoryUSMShared(64 * 64 * 4, queue=queue) for _ in range(2)]
        lts = [*o.ins, *o.outs]
        x, y = (sycl_interop.make_tensor(lt, engine, m) for lt, m in zip(lts, memory, strict=True))
        sycl_interop.execute(o.partition.compile(o.ins, o.outs, engine), stream, [x], [y]).wait()
        sycl_interop.copy_to_host(y), sycl_interop.usm_type(y)
        fails(lambda: sycl_interop.make_engine(None))
        fails(lambda: sycl_interop.make_tensor(lts[0], engine, o.array))

    return run


if sycl_interop.missing() is None:
    prepared(5, kernels=1)(sycl_objects)


# -- which operations there are, and which were called


MODULES = [
    og, og.blocks, og.dtypes, og.errors, og.reference, og.serialization, capture, export, ops,
    parallel, regions, replay, selftest, shrinking, tuning, verdicts,
]  # fmt: skip

ELSEWHERE = {
    "onednn_graph_py.torch": "test_torch.py counts what it leaves, where torch is installed",
    "onednn_graph_py.onnx": "test_onnx_model.py counts what it leaves, where onnx is installed",
    "onednn_graph_py.base.ocl_interop": "no oneDNN that is tested has OpenCL",
}
"""Public modules without a case, and why."""

if (_lacking := sycl_interop.missing()) is None:
    MODULES.append(sycl_interop)
else:
    ELSEWHERE["onednn_graph_py.base.sycl_interop"] = _lacking

WITHOUT_CODE = {"tools.parallel.Model.prepare", "tools.parallel.Model.with_threads"}
"""Operations of protocols, which classes of other modules have."""


def operations() -> dict[str, object]:
    """All public functions and methods, with what a profiler sees of a call."""
    found: dict[str, object] = {}
    for module in MODULES:
        for name in module.__all__:
            value = getattr(module, name)
            told = f"{module.__name__}.{name}".removeprefix("onednn_graph_py.")
            if not inspect.isclass(value):
                found[told] = _seen(value)
            elif not issubclass(value, Exception):
                members = dict(vars(value))
                for owner, attached in METHODS.items():
                    members |= attached if issubclass(value, owner) else {}
                for member, inner in members.items():
                    if not member.startswith("_") and not inspect.isclass(inner):
                        found[f"{told}.{member}"] = _seen(inner)
    return {
        name: seen for name, seen in found.items() if seen is not None and name not in WITHOUT_CODE
    }


def _seen(value: Any) -> object:
    value = getattr(value, "function", value)  # attached to a class
    if inspect.isclass(value):
        value = value.__init__
    value = getattr(value, "__func__", value)  # static methods, and those of the extension
    value = inspect.unwrap(value) if callable(value) else value
    return value if inspect.isbuiltin(value) else getattr(value, "__code__", None)


@contextlib.contextmanager
def called(seen: dict[int, object]) -> Iterator[None]:
    """Add what is called, by identity; code is kept, so that no other gets its identity."""

    def note(frame, event, argument):
        if event == "call":
            seen[id(frame.f_code)] = frame.f_code
        elif event == "c_call":
            seen[id(argument)] = None  # those of the extension were there before

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def run_case(name: str, scale: int) -> dict[str, Any]:
    """Run a case; return what it left behind and which operations it called."""
    one, seen = CASES[name], dict[int, object]()
    with called(seen):
        run = one.prepare()
        run()
    gc.collect()
    gc.freeze()  # what was there before is not looked at again and again
    rounds = one.rounds * scale
    grown = leaks.growth(run, rounds, kernels=one.kernels, warm=rounds - 1)
    calls = sorted(name for name, what in operations().items() if id(what) in seen)
    return {"case": name, "grown": grown, "calls": calls}


def main(scale: int, names: list[str]) -> None:
    """Run cases in an empty folder; write the outcome of each."""
    # Full from the beginning, so that what is in them does not grow.
    og.set_compiled_partition_cache_capacity(4)
    og.set_primitive_cache_capacity(4)
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        tempfile.tempdir = folder
        for name in names or CASES:
            print(f"running {name}", file=sys.stderr, flush=True)
            print(json.dumps(run_case(name, scale)), flush=True)
        os.chdir("/")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
