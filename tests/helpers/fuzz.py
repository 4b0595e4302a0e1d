"""Random graphs, right and wrong, run over buffers that end at an unreadable page.

`make_case` turns a seed into a case: ops with logical tensors and attributes, mostly valid, with a
few mutations. `run_case` takes it through add_op, finalize, get_partitions, compile and execute.
A case may raise; it may not crash, hang, or touch a byte outside its buffers.

As a program it is the worker of test_fuzz.py: ``fuzz.py FIRST LAST`` says on stdout which seed it
starts and how it ended; ``fuzz.py SEED`` shows one case and runs it.
"""

import ctypes
import faulthandler
import mmap
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import onednn_graph_py as og
from onednn_graph_py import GraphBuilder
from onednn_graph_py.serialization import TensorRecord, from_builder
from onednn_graph_py.serialization.links import strides_of
from onednn_graph_py.tools.selftest.draft import Draft
from onednn_graph_py.tools.selftest.draws import FAMILIES
from onednn_graph_py.tools.selftest.ops import ROWS, drawn, source

PAGE = mmap.PAGESIZE
BITS = {
    "f32": 32,
    "s32": 32,
    "f16": 16,
    "bf16": 16,
    "s8": 8,
    "u8": 8,
    "boolean": 8,
    "f8_e4m3": 8,
    "f8_e5m2": 8,
    "s4": 4,
    "u4": 4,
    "s64": 64,
}
Dims = tuple[int, ...]
Sizes = dict[int, Dims]


@dataclass
class Tensor:
    """A logical tensor of a case; dims of None have an unknown rank."""

    id: int
    dtype: str = "f32"
    dims: Dims | None = ()
    strides: Dims | None = None
    layout: str = "strided"
    property: str = "variable"

    def logical(self) -> og.logical_tensor:
        if self.dims is None:
            return og.logical_tensor(self.id, self.dtype, -1, self.layout, self.property)
        if self.strides is not None:
            return og.logical_tensor(self.id, self.dtype, self.dims, self.strides, self.property)
        return og.logical_tensor(self.id, self.dtype, self.dims, self.layout, self.property)


@dataclass
class Op:
    kind: str
    inputs: list[Tensor]
    outputs: list[Tensor]
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass
class Case:
    """Ops, and what compile is told about the ids in `told` instead of what the graph says."""

    seed: int
    ops: list[Op]
    told: dict[int, Tensor] = field(default_factory=dict)
    any_outputs: bool = False
    policy: str = "fusion"
    fpmath: str = "strict"
    apply_to_int: bool = False
    alone: bool = False  # partition(op) instead of a graph
    mutations: list[str] = field(default_factory=list)

    def tensors(self) -> list[Tensor]:
        return [t for o in self.ops for t in (*o.inputs, *o.outputs)]


# -- valid ops -------------------------------------------------------------------------------------

KINDS = tuple(k.name for k in og.op.kind if k.name != "LastSymbol")
_FAMILIES = ("chains",) * 6 + ("int8", "int8", "attention", "attention", "blocks")


def _tensor(record: TensorRecord) -> Tensor:
    dims, strides = record.dims, record.strides
    if dims is not None and strides == strides_of(dims):
        strides = None
    return Tensor(record.id, record.dtype, dims, strides, property=record.property_type)


def _one_op(kind: str, seed: int) -> GraphBuilder:
    """Draw a graph of one op of a kind; one that computes nothing is End or Wildcard."""
    d = Draft("fuzz", seed)
    d.opens = False
    if kind in ROWS and d.has(kind):
        drawn(d, kind, source(d, kind))
        return d.b
    x = d.input(d.dims(1, 4), strided=False)
    d.b.op(kind, x, outputs=[] if kind == "End" else [(x.shape, x.dtype)])
    return d.b


def _drawn(rng: random.Random, seed: int, kinds: Sequence[str]) -> tuple[list[Op], Sizes]:
    """Draw ops as selftest does, and sizes for dims that are unknown.

    Each use of a tensor has its own object, so that a mutation can make uses differ.
    """
    arrays: Sequence[Any] = ()
    try:
        if rng.random() < 0.5:
            builder = _one_op(kinds[seed % len(kinds)], rng.randrange(1 << 30))
        else:
            made = FAMILIES[rng.choice(_FAMILIES)](rng.randrange(1 << 30))
            builder, arrays = made.builder, made.calls[0] if made.calls else ()
        document = from_builder(builder)
    except og.OneDNNError:  # it does not fit together, or has steps or inputs that JSON can't hold
        return _drawn(rng, seed, kinds)
    sizes = dict(zip(document.inputs(), (a.shape for a in arrays), strict=False))
    ops = []
    for record in document.graph:
        inputs, outputs = map(_tensor, record.inputs), map(_tensor, record.outputs)
        attrs = {n: list(v) if isinstance(v, tuple) else v for n, v in record.values.items()}
        ops.append(Op(record.kind, list(inputs), list(outputs), attrs))
        if record.kind == "Dropout":
            for scalar in ops[-1].inputs[1:]:
                scalar.property = "host_scalar"
    return ops, sizes


# -- mutations -------------------------------------------------------------------------------------


def _other_size(rng: random.Random, d: int) -> int:
    return rng.choice((0, 1, 2, d + 1, max(0, d - 1), d * 2, 3, 64, 129))


def _set_dims(case: Case, old: Tensor, dims: Dims | None) -> None:
    """Changes a tensor's dims at one use, or at all."""
    everywhere = case.seed % 5 != 0
    for t in case.tensors():
        if t is old or (everywhere and t.id == old.id):
            t.dims, t.strides = dims, None


def mutate(rng: random.Random, case: Case) -> None:
    """Makes one thing wrong, or unusual."""
    o = rng.choice(case.ops)
    tensors = [*o.inputs, *o.outputs]
    t = rng.choice(tensors) if tensors else None
    choice = rng.random()
    note = case.mutations.append
    if choice < 0.2 and t is not None and t.dims:
        i = rng.randrange(len(t.dims))
        dims = list(t.dims)
        dims[i] = _other_size(rng, dims[i])
        note(f"dims of {t.id}: {t.dims} -> {dims}")
        _set_dims(case, t, tuple(dims))
    elif choice < 0.3 and t is not None and t.dims is not None:
        dims = list(t.dims)
        if dims and rng.random() < 0.5:
            del dims[rng.randrange(len(dims))]
        else:
            dims.insert(rng.randint(0, len(dims)), rng.choice((1, 1, 2, 3)))
        note(f"rank of {t.id}: {t.dims} -> {dims}")
        _set_dims(case, t, tuple(dims[:12]))
    elif choice < 0.5 and o.attrs:
        name = rng.choice(sorted(o.attrs))
        value = o.attrs[name]
        new: Any = value
        if isinstance(value, list) and value:
            new = list(value)
            how = rng.random()
            if how < 0.25:
                new.pop()
            elif how < 0.45:
                new.append(rng.choice(new))
            elif how < 0.5:
                new = new * 7
            else:
                number = (0, 1, -1, 2, 5, 63, 1 << 20, 1 << 29, -3, 1 << 40)
                new[rng.randrange(len(new))] = (
                    rng.choice((0.0, -1.0, float("nan"), 1e30, 0.3))
                    if isinstance(new[0], float)
                    else rng.choice(number)
                )
        elif isinstance(value, bool):
            new = not value
        elif isinstance(value, int):
            new = rng.choice((0, 1, -1, 2, 3, -2, 5, 11, -12, 1 << 20, 1 << 40, -7))
        elif isinstance(value, float):
            new = rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e30))
        elif isinstance(value, str):
            new = rng.choice(
                (
                    "NCX",
                    "NXC",
                    "XIO",
                    "OIX",
                    "IOX",
                    "XOI",
                    "per_tensor",
                    "per_channel",
                    "per_group",
                    "none",
                    "numpy",
                    "None",
                    "SAME_UPPER",
                    "SAME_LOWER",
                    "VALID",
                    "nearest",
                    "linear",
                    "bilinear",
                    "trilinear",
                    "ceil",
                    "bogus",
                )
            )
        if rng.random() < 0.1:
            del o.attrs[name]
            note(f"without {name}")
        else:
            if new != []:
                o.attrs[name] = new
            note(f"{name}: {value} -> {new}")
    elif choice < 0.55 and t is not None:
        new_type = rng.choice(("f32", "bf16", "f16", "s8", "u8", "s32", "boolean", "s4", "u4"))
        note(f"dtype of {t.id}: {t.dtype} -> {new_type}")
        for x in case.tensors():
            if x.id == t.id:
                x.dtype = new_type
    elif choice < 0.6 and o.inputs:
        if rng.random() < 0.5:
            note("an input less")
            o.inputs.pop(rng.randrange(len(o.inputs)))
        else:
            note("an input again")
            o.inputs.insert(rng.randint(0, len(o.inputs)), rng.choice(o.inputs))
    elif choice < 0.63 and len(o.inputs) > 1:
        note("inputs shuffled")
        rng.shuffle(o.inputs)
    elif choice < 0.66 and len(o.inputs) > 1:
        a, b = rng.sample(range(len(o.inputs)), 2)
        o.inputs[a] = o.inputs[b]
        note(f"input {b} also as {a}")
    elif choice < 0.8 and t is not None and t.dims:
        # The graph does not know; compile is told the truth or a lie.
        produced = {x.id for p in case.ops for x in p.outputs}
        unknown: Dims | None = None if rng.random() < 0.4 else tuple(-1 for _ in t.dims)
        if t.id in produced or rng.random() < 0.5:
            told = replace(t)
            if rng.random() < 0.5:
                dims = list(t.dims)
                i = rng.randrange(len(dims))
                dims[i] = _other_size(rng, dims[i])
                told.dims = tuple(dims)
            elif rng.random() < 0.3:
                told.dims = (*t.dims, 2) if rng.random() < 0.5 else t.dims[1:]
            elif rng.random() < 0.5 and t.id in produced:
                told = None  # type: ignore[assignment]
            note(f"{t.id} unknown {unknown}, told {told and told.dims}")
            _set_dims(case, t, unknown)
            if told is not None:
                case.told[t.id] = told
    elif choice < 0.95 and t is not None and t.dims:
        how = rng.random()
        order = list(range(len(t.dims)))
        rng.shuffle(order)
        strides = [0] * len(order)
        step = 1
        for i in order:
            strides[i] = 0 if how < 0.15 and rng.random() < 0.5 else step
            step *= max(1, t.dims[i]) + (rng.randint(1, 3) if how > 0.6 else 0)
        note(f"strides of {t.id}: {strides}")
        for x in case.tensors():
            if x.id == t.id and x.dims is not None and len(x.dims) == len(strides):
                x.strides = tuple(strides)
    elif t is not None:
        layout = rng.choice(("any", "any", "undef"))
        note(f"layout of {t.id}: {layout}")
        for x in case.tensors():
            if x.id == t.id:
                x.layout, x.strides = layout, None


def make_case(seed: int, kinds: tuple[str, ...] = KINDS) -> Case:
    """A case from a seed, always the same for the same linked oneDNN."""
    rng = random.Random(seed)
    ops, sizes = _drawn(rng, seed, kinds)
    case = Case(seed, ops)
    for t in case.tensors():
        if t.dims is not None and -1 in t.dims and t.id in sizes:
            case.told[t.id] = replace(t, dims=sizes[t.id])
    # What a chain computes in between, its maker often does not know.
    produced = {t.id for o in ops for t in o.outputs}
    if rng.random() < 0.3:
        any_layouts = {id_ for id_ in produced if rng.random() < 0.1}
        for t in case.tensors():
            if t.id in produced:
                t.dims, t.layout = None, "any" if t.id in any_layouts else "strided"
    for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 3))):
        mutate(rng, case)
    case.any_outputs = rng.random() < 0.2
    case.policy = "debug" if rng.random() < 0.1 else "fusion"
    case.alone = len(ops) == 1 and rng.random() < 0.15
    case.fpmath = rng.choice(("strict",) * 6 + ("bf16", "any"))
    case.apply_to_int = rng.random() < 0.3
    return case


# -- running ---------------------------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
MAX_BYTES = 1 << 24


class GuardedBuffer:
    """Memory with unreadable pages right behind it (or right before it)."""

    CANARY = 0xA5
    GUARD = 1 << 22  # wide, because a wrong stride leads far away

    def __init__(self, size: int, align: int = 8, *, before: bool = False) -> None:
        span = -(-max(size, 1) // PAGE) * PAGE
        self._map = mmap.mmap(-1, span + 2 * self.GUARD, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        first = base + self.GUARD
        for guard in (base, first + span):
            if _libc.mprotect(guard, self.GUARD, 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        self.address = first if before else (first + span - size) // align * align
        start = self.address - first
        whole = np.frombuffer(self._map, np.uint8)[self.GUARD : self.GUARD + span]
        whole[:] = self.CANARY
        self._slack = (whole[:start], whole[start + size :])
        self.bytes = whole[start : start + size]

    def check(self) -> None:
        """Raise if something was written beside the buffer."""
        for slack in self._slack:
            if (slack != self.CANARY).any():
                raise AssertionError("written outside the buffer")


class OutOfBounds(Exception):
    """A kernel wrote beside its buffer."""


def _fill(rng: random.Random, buffer: np.ndarray, dtype: str) -> None:
    if dtype == "boolean":
        buffer[:] = np.random.RandomState(rng.randrange(1 << 31)).randint(0, 2, buffer.size)
    elif dtype == "f32":
        random_state = np.random.RandomState(rng.randrange(1 << 31))
        count = buffer.size // 4
        buffer[: count * 4].view(np.float32)[:] = random_state.rand(count)
    else:
        buffer[:] = np.random.RandomState(rng.randrange(1 << 31)).randint(0, 60, buffer.size)


def run_case(case: Case) -> str:
    """Take the case as far as it goes; return how far, e.g. "executed 2" or the exception."""
    rng = random.Random(case.seed + 1)
    told: dict[int, Tensor] = dict(case.told)
    stage = "build"
    try:
        g = og.graph("cpu")
        g.set_fpmath_mode(case.fpmath, case.apply_to_int)
        for i, o in enumerate(case.ops):
            made = og.op(i, o.kind, f"{o.kind.lower()}{i}")
            made.add_inputs([t.logical() for t in o.inputs])
            made.add_outputs([t.logical() for t in o.outputs])
            for name, value in o.attrs.items():
                made.set_attr(name, value)
            stage = "add_op"
            if case.alone:
                partitions = [og.partition(made, "cpu")]
            else:
                g.add_op(made)
        if not case.alone:
            stage = "finalize"
            g.finalize()
            stage = "partition"
            partitions = g.get_partitions(case.policy)
        engine = og.engine("cpu", 0)
        stream = og.stream(engine)
        known: dict[int, og.logical_tensor] = {
            t.id: t.logical() for o in case.ops for t in o.inputs
        }
        known |= {id_: t.logical() for id_, t in told.items()}
        done = 0
        data: dict[int, GuardedBuffer] = {}
        pending = list(partitions)
        compiled_of: dict[int, og.logical_tensor] = {}
        while pending:
            produced = {lt.get_id() for p in pending for lt in p.get_output_ports()}
            ready = [
                p for p in pending if not any(lt.get_id() in produced for lt in p.get_input_ports())
            ]
            part = (ready or pending)[0]
            pending.remove(part)
            stage = "compile"
            inputs = []
            seen = set()
            for lt in part.get_input_ports():
                if lt.get_id() in seen:
                    continue
                seen.add(lt.get_id())
                inputs.append(compiled_of.get(lt.get_id(), known.get(lt.get_id(), lt)))
            outputs = []
            for lt in part.get_output_ports():
                out = known[lt.get_id()] if lt.get_id() in told else lt
                if case.any_outputs and rng.random() < 0.7:
                    dims = _dims_of(out)
                    out = (
                        og.logical_tensor(out.get_id(), out.get_data_type(), -1, "any")
                        if dims is None
                        else og.logical_tensor(out.get_id(), out.get_data_type(), dims, "any")
                    )
                outputs.append(out)
            compiled = part.compile(inputs, outputs, engine)
            stage = "tensors"
            tensors: list[list[og.tensor]] = [[], []]
            buffers = []
            for which, lts in enumerate((compiled.get_inputs(), compiled.get_outputs())):
                for lt in lts:
                    id_ = lt.get_id()
                    compiled_of[id_] = lt
                    if lt.get_property_type().name == "host_scalar":
                        tensors[which].append(og.tensor.make_scalar_tensor(lt, 1))
                        continue
                    size = lt.get_mem_size()
                    if size > MAX_BYTES:
                        return "too large to run"
                    if id_ not in data or which == 1:
                        item = max(1, BITS[lt.get_data_type().name] // 8)
                        data[id_] = GuardedBuffer(size, item, before=rng.random() < 0.2)
                        if which == 0:
                            _fill(rng, data[id_].bytes, lt.get_data_type().name)
                    buffers.append(data[id_])
                    tensors[which].append(og.tensor(lt, engine, data[id_].address))
            stage = "execute"
            compiled.execute(stream, tensors[0], tensors[1])
            stream.wait()
            for buffer in buffers:
                try:
                    buffer.check()
                except AssertionError as e:
                    raise OutOfBounds(f"{part}: {e}") from e
            done += 1
        return f"executed {done}"
    except (og.OneDNNError, TypeError, ValueError, OverflowError) as e:
        return f"{stage}: {type(e).__name__}: {e}"


def _dims_of(lt: og.logical_tensor) -> list[int] | None:
    try:
        return lt.get_dims()
    except og.InvalidArgumentsError:
        return None


def describe(case: Case) -> str:
    """The case in words, to reproduce it by hand."""
    lines = [
        f"seed {case.seed}, policy {case.policy}, fpmath {case.fpmath}, "
        f"apply_to_int {case.apply_to_int}, any outputs {case.any_outputs}, alone {case.alone}"
    ]
    for i, o in enumerate(case.ops):
        lines.append(f"op {i} {o.kind} {o.attrs}")
        for which, ts in (("in", o.inputs), ("out", o.outputs)):
            lines += [f"  {which} {t}" for t in ts]
    lines += [f"told {t}" for t in case.told.values()]
    lines += [f"mutation {m}" for m in case.mutations]
    return "\n".join(lines)


SECONDS_FOR_A_CASE = 60


def main(arguments: list[str]) -> None:
    """Run one seed, or a range of them."""
    faulthandler.enable()
    first = int(arguments[0])
    if len(arguments) == 1:
        case = make_case(first)
        print(describe(case), flush=True)
        print(run_case(case))
        return
    # The cache would hide what a case does behind what an earlier one did.
    og.set_compiled_partition_cache_capacity(0)
    for seed in range(first, int(arguments[1])):
        print(f"start {seed}", flush=True)
        faulthandler.dump_traceback_later(SECONDS_FOR_A_CASE, exit=True)
        outcome = run_case(make_case(seed)).replace("\n", " ")
        faulthandler.cancel_dump_traceback_later()
        print(f"end {seed} {outcome}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
