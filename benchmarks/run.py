"""Calls, constant weights, a transformer encoder, ResNet-50: how fast, and beside other libraries.

Every ratio is of figures from one run: competitors take turns round by round, and the best round of
each counts. Each library has a process of its own, started with as many threads as are measured,
so that no pool of threads spins in another's time; and all of them must give the same answer, that
of NumPy, before they are timed. What is not installed is not measured, and said so:

    pip install --group bench .

Sections: call, weights, encoder, resnet, mobilenet, llama, decode, attention, mlp, convolutions,
shapes, build, torch, onnx; all of them by default. In the section decode, one token after 512
cached ones, GB/s are those of weights, beside the bytes that copies read and write. In the section
torch all ratios are to torch.compile with the backend of this package, in the section onnx to its
models of ONNX files, elsewhere to its models. Data types: f32, bf16, int8, and w8 and w4, where
weights are integers of so many bits and all else is f32.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import importlib
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
from _models import (
    NETWORKS,
    TOLERANCE,
    Encoder,
    Network,
    OpenNetwork,
    distance,
    inputs_of,
    parameters_of,
    reference,
    stored,
    weight_bytes,
)
from _peers import (
    PEERS,
    NotSupportedError,
    OnnxOnednn,
    OnnxRuntime,
    OpenVino,
    Ours,
    Peer,
    Prepared,
    TorchCompile,
    TorchOnednn,
    aligned,
    aligned_copy,
)
from _timing import seconds_a_call

Record = dict[str, Any]

# What is asked for. Microseconds that a call takes over C++, and ratios.
AIM_CALL = {"model(x, out=y)": 0.6, "model.bind": 0.15}
AIM_WORK = 1.02
AIM_WEIGHTS = 5.0

# Seconds that a competitor is timed for, if three rounds are over sooner.
LONGEST = 30

# A median so far above the best says that something else ran meanwhile.
UNSTEADY = 1.25

# Of a further shape: milliseconds that its first call takes over the next ones, and what all add to
# memory, over that of the weights.
AIM_SHAPE = 10.0
AIM_SHAPES_MEMORY = 0.3

SECTIONS = (
    "call", "weights", "encoder", "resnet", "mobilenet", "llama", "decode", "attention", "mlp",
    "convolutions", "shapes", "build", "torch", "onnx",
)  # fmt: skip
# By default, and what else there is.
DTYPES = {
    "weights": ("f32", "bf16"),
    "encoder": ("f32", "bf16"),
    "resnet": ("f32", "int8"),
    "mobilenet": ("f32", "int8"),
    "llama": ("f32", "bf16", "w8", "w4"),
    "decode": ("f32", "bf16", "w8", "w4"),
    "attention": ("f32", "bf16"),
    "mlp": ("f32", "bf16"),
    "convolutions": ("f32", "bf16"),
}
MORE_DTYPES = {"resnet": ("bf16",), "mobilenet": ("bf16",)}
# What networks are made with: in one row each, and with --quick.
SIZES: dict[str, list[Record]] = {
    "encoder": [{}],
    "resnet": [{}],
    "mobilenet": [{}],
    "llama": [{}],
    "decode": [{}],
    "attention": [
        {"count_heads": 12, "tokens": 512, "size": 64},
        {"count_heads": 32, "tokens": 2048, "size": 128},
        {"count_heads": 32, "tokens": 4096, "size": 128},
    ],
    "mlp": [
        {},
        *({"rows": rows, "width": width} for rows in (1, 8, 512) for width in (128, 1024, 4096)),
    ],
    "convolutions": [
        {
            "network": "wav2vec 2.0, 1-D",
            "dims": (512, 1599),
            "outputs": 512,
            "kernel": 3,
            "stride": 2,
        },
        {
            "network": "HiFi-GAN, 1-D dilated",
            "dims": (128, 2011),
            "outputs": 128,
            "kernel": 11,
            "padding": 25,
            "dilation": 5,
        },
        {
            "network": "HiFi-GAN, 1-D transposed",
            "dims": (512, 99),
            "outputs": 256,
            "kernel": 16,
            "stride": 8,
            "padding": 4,
            "transposed": True,
        },
        {
            "network": "ConvNeXt, depthwise",
            "dims": (96, 56, 56),
            "outputs": 96,
            "kernel": 7,
            "padding": 3,
            "groups": 96,
        },
        {
            "network": "EfficientNet, depthwise",
            "dims": (240, 28, 28),
            "outputs": 240,
            "kernel": 5,
            "stride": 2,
            "padding": 2,
            "groups": 240,
        },
        {
            "network": "U-Net, transposed",
            "dims": (128, 56, 56),
            "outputs": 64,
            "kernel": 2,
            "stride": 2,
            "transposed": True,
        },
        {
            "network": "DeepLab, dilated",
            "dims": (256, 33, 33),
            "outputs": 256,
            "kernel": 3,
            "padding": 12,
            "dilation": 12,
        },
        {"network": "R3D, 3-D", "dims": (64, 8, 28, 28), "outputs": 64, "kernel": 3, "padding": 1},
    ],
}
_SMALL_LLAMA = {"hidden": 256, "count_heads": 4, "key_heads": 2, "inner": 512}
QUICK_SIZES: dict[str, list[Record]] = {
    "encoder": [{"tokens": 32, "hidden": 256, "count_heads": 4, "inner": 512, "layers": 2}],
    "resnet": [{"blocks": (1, 1, 1, 1), "side": 64, "width": 32, "classes": 100}],
    "mobilenet": [{"side": 64, "width": 16, "classes": 100, "stages": 3}],
    "llama": [{**_SMALL_LLAMA, "tokens": 16}],
    "decode": [{**_SMALL_LLAMA, "cached": 24}],
    "attention": [
        {"count_heads": 2, "tokens": 48, "size": 32},
        {"count_heads": 4, "tokens": 96, "size": 64},
    ],
    "mlp": [{"rows": 3, "width": 64}, {"rows": 40, "width": 96}],
    "convolutions": [
        {"network": "1-D", "dims": (6, 23), "outputs": 5, "kernel": 3, "stride": 2, "dilation": 2},
        {
            "network": "transposed",
            "dims": (6, 9),
            "outputs": 4,
            "kernel": 4,
            "stride": 2,
            "padding": 1,
            "transposed": True,
        },
        {
            "network": "3-D",
            "dims": (8, 5, 6, 7),
            "outputs": 12,
            "kernel": 3,
            "padding": 1,
            "groups": 2,
        },
    ],
}
# What front ends are measured with, and by the name of which of the libraries.
# The sizes of all-MiniLM-L6-v2.
_MINILM: Record = {"layers": 6, "hidden": 384, "count_heads": 12, "inner": 1536}
FRONT_ENDS: dict[str, tuple[str, list[tuple[str, Record, tuple[str, ...]]]]] = {
    "torch": (
        TorchOnednn.name,
        [
            ("encoder", _MINILM, ("f32", "bf16")),
            ("resnet", {}, ("f32",)),
            (
                "llama",
                {"hidden": 1024, "count_heads": 16, "key_heads": 4, "inner": 4096},
                ("f32", "bf16"),
            ),
        ],
    ),
    "onnx": (
        OnnxOnednn.name,
        [
            ("encoder", _MINILM, ("f32",)),
            ("resnet", {}, ("f32", "int8")),
            ("mobilenet", {}, ("f32", "int8")),
        ],
    ),
}
# Tokens of the further shapes: as texts have them, and some that kernels like.
LENGTHS = (24, 41, 57, 64, 80, 99, 112, 130, 150, 177, 192, 224)
SHAPES_PEERS = (Ours, TorchOnednn, TorchCompile, OnnxOnednn, OnnxRuntime, OpenVino)
OURS = Ours.name


# -- time


def inline_timer(statement: str, names: dict[str, Any]) -> Callable[[int], float]:
    """The same of a statement, which thus needs no function around it."""
    timer, empty = timeit.Timer(statement, globals=names), timeit.Timer("pass")
    return lambda count: (timer.timeit(count) - empty.timeit(count)) / count


def calls_in(seconds: float, once: float) -> int:
    """How many calls fill a round."""
    return max(1, min(round(seconds / max(once, 1e-9)), 1_000_000))


def take_turns(timers: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Seconds a call of every round, of each competitor."""
    made: dict[str, list[float]] = {name: [] for name in timers}
    for _ in range(rounds):
        for name, timer in timers.items():
            made[name].append(timer())
    return made


# -- sections that measure this package alone, each in a process of its own


def product(shape: tuple[int, int, int], dtype: str, constant: bool) -> tuple[Any, list[Any], Any]:
    """A builder with one MatMul, the inputs of a call, and what comes out."""
    from onednn_graph_py.model.building.builder import GraphBuilder

    rows, inner, columns = shape
    random = np.random.default_rng(0)
    x = aligned_copy(stored(random.standard_normal((rows, inner), np.float32), dtype))
    w = aligned_copy(stored(random.standard_normal((inner, columns), np.float32), dtype))
    expected = x.astype(np.float32) @ w.astype(np.float32)
    builder = GraphBuilder()
    left = builder.input(x.shape, dtype, name="x")
    right = builder.constant(w, name="w") if constant else builder.input(w.shape, dtype, name="w")
    builder.output(left.matmul(right))
    return builder, [x] if constant else [x, w], expected


def same(output: Any, expected: Any, dtype: str) -> None:
    """Refuse to time what is wrong."""
    apart = distance(output.astype(np.float32), expected)
    if not apart <= TOLERANCE[dtype]:
        raise ValueError(f"the output is wrong: {apart:.1e} from NumPy's")


def cpp_timer(builder: Any, inputs: Sequence[Any], output: Any) -> Callable[[int], float]:
    """Seconds a call of the same partition from a loop in C++."""
    import onednn_graph_py as og
    from onednn_graph_py import _core

    engine = og.engine("cpu", 0)
    stream = og.stream(engine)
    (partition,) = builder.graph.get_partitions()
    ports, results = partition.get_input_ports(), partition.get_output_ports()
    compiled = partition.compile(ports, results, engine)
    by_id = {v.id: a for v, a in zip(builder.inputs, inputs, strict=True)}
    given = [og.tensor(lt, engine, by_id[lt.get_id()]) for lt in ports]
    made = [og.tensor(results[0], engine, output)]

    def timer(count: int) -> float:
        return float(_core._test.time_execute(compiled, stream, given, made, count)) / count

    return timer


def measure_call(spec: Mapping[str, Any]) -> list[Record]:
    """What a call adds to the same partition's execution from C++."""
    from onednn_graph_py.model.building.builder import GraphBuilder

    x = aligned_copy(np.linspace(-1, 1, 16, dtype=np.float32))
    builder = GraphBuilder()
    builder.output(builder.input(x.shape, name="x").relu())
    small = (builder, [x], np.maximum(x, 0), "ReLU of 16 f32")
    cases = [small]
    for shape in spec["products"]:
        of_product = product(tuple(shape), "f32", constant=False)
        cases.append((*of_product, "MatMul " + "x".join(map(str, shape)) + " f32"))
    records = []
    for builder, inputs, expected, what in cases:
        model = builder.compile()
        y = aligned(expected.shape, np.float32)
        bound = model.bind(inputs, y)
        cpp = cpp_timer(builder, inputs, y)

        names = {"model": model, "bound": bound, "y": y, **dict(zip("xw", inputs, strict=False))}
        given = ", ".join(list("xw")[: len(inputs)])
        statements = {
            "model(x, out=y)": f"model({given}, out=y)",
            "model.bind": "bound()",
        }
        for statement in statements.values():
            y[...] = 0
            exec(statement, names)
            same(y, expected, "f32")
        tiny = what == cases[0][3]
        count = calls_in(spec["seconds"], cpp(1000 if tiny else 2))
        timers: dict[str, Callable[[], float]] = {"C++": lambda cpp=cpp, n=count: cpp(n)}
        for name, statement in statements.items():
            inline = inline_timer(statement, names)
            timers[name] = lambda f=inline, n=count: f(n)
        rounds = take_turns(timers, spec["rounds"])
        best = {name: min(values) for name, values in rounds.items()}
        for name, value in best.items():
            record: Record = {"case": what, "competitor": name, "seconds": value}
            record["rounds"] = rounds[name]
            if name != "C++":
                record["over_microseconds"] = (value - best["C++"]) * 1e6
                record["ratio"] = value / best["C++"]
                aim, reached = (
                    (AIM_CALL[name], record["over_microseconds"])
                    if tiny
                    else (AIM_WORK, record["ratio"])
                )
                # Work that is over sooner says nothing about a ratio.
                if tiny or best["C++"] > 1e-4:
                    record["aim"], record["met"] = aim, reached <= aim
            records.append(record)
    return records


def measure_weights(spec: Mapping[str, Any]) -> list[Record]:
    """What it brings that weights are constant: oneDNN reorders them once."""
    shape, dtype = tuple(spec["shape"]), spec["dtype"]
    timers: dict[str, Callable[[], float]] = {}
    for name, constant in (("constant", True), ("an input", False)):
        builder, inputs, expected = product(shape, dtype, constant)
        y = aligned(expected.shape, inputs[0].dtype)
        bound = builder.compile().bind(inputs, y)
        bound()
        same(y, expected, dtype)
        count = calls_in(spec["seconds"], seconds_a_call(bound, 3))
        timers[name] = lambda f=bound, n=count: seconds_a_call(f, n)
    rounds = take_turns(timers, spec["rounds"])
    best = {name: min(values) for name, values in rounds.items()}
    what = "MatMul " + "x".join(map(str, shape)) + f" {dtype}"
    ratio = best["an input"] / best["constant"]
    return [
        {
            "case": what,
            "competitor": name,
            "seconds": value,
            "rounds": rounds[name],
            **(
                {"ratio": ratio, "aim": AIM_WEIGHTS, "met": ratio >= AIM_WEIGHTS}
                if name == "an input"
                else {}
            ),
        }
        for name, value in best.items()
    ]


# -- a library in a process of its own, which does what it is told line by line


def network_of(spec: Mapping[str, Any]) -> Network:
    """From what command lines can say."""
    sizes = {k: tuple(v) if isinstance(v, list) else v for k, v in spec["sizes"].items()}
    return NETWORKS[spec["network"]](**sizes)


class Server:
    """Sets one library up, then times rounds of it."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = spec
        self.peer = next(p for p in PEERS if p.name == spec["peer"])
        self.network = network_of(spec)
        self.parameters = parameters_of(self.network, spec["dtype"], spec["largest"])
        self.prepared: Prepared
        self.answers: dict[int, Any] = {}
        self.held = 0

    def load(self, opened: bool = False) -> Record:
        """Set up, run once, and compare; ``peak`` is the most memory that this took."""
        for module in self.peer.modules:
            importlib.import_module(module)
        source = self.peer.source(self.network, self.parameters, opened=opened)
        inputs = inputs_of(self.network, self.spec["dtype"])
        before = reset_peak()
        self.prepared = self.peer.load(source, self.spec["threads"])
        self.prepared.feed(inputs)
        self.prepared.run()
        peak = peak_bytes() - before
        weights = weight_bytes(self.parameters)
        return {**self.compare(self.network), "peak": peak, "weights": weights}

    def compare(self, network: Network) -> Record:
        """How far the last answer is from NumPy's."""
        apart = distance(self.prepared.result(), reference(network, self.parameters))
        return {"distance": apart, "right": apart <= TOLERANCE[self.spec["dtype"]]}

    def warm(self, seconds: float) -> Record:
        """Settle what the first calls do; say how many calls fill a round."""
        self.prepared.run()
        once = seconds_a_call(self.prepared.run, 2)
        count = calls_in(seconds, once)
        return {"count": count, "round": count * once}

    def round(self, count: int) -> Record:
        """Time some calls."""
        return {"seconds": seconds_a_call(self.prepared.run, count)}

    def build(self) -> Record:
        """What it takes, in time and memory, until the first answer is there."""
        for module in self.peer.modules:
            importlib.import_module(module)
        source = self.peer.source(self.network, self.parameters, opened=False)
        inputs = inputs_of(self.network, self.spec["dtype"])
        before = reset_peak()
        begin = time.perf_counter()
        self.prepared = self.peer.load(source, self.spec["threads"])
        loaded = time.perf_counter()
        self.prepared.feed(inputs)
        self.prepared.run()
        end = time.perf_counter()
        peak, kept = peak_bytes() - before, resident_bytes() - before
        made = self.compare(self.network)
        phases = {"load": loaded - begin, "first call": end - loaded, **self.prepared.phases}
        phases |= self.prepared.later()
        return {**made, "total": end - begin, "phases": phases, "peak": peak, "kept": kept}

    def another(self) -> Record:
        """How long the first answer takes for another shape of the input."""
        made = self.load(opened=True)
        other = cast(OpenNetwork, self.network).other()
        first, again = self.first_and_steady(other)
        made["right"] = made["right"] and self.compare(other)["right"]
        return {**made, "seconds": max(first - again, 0.0)}

    def first_and_steady(
        self, network: Network, calls: int = 3, answer: Any = None
    ) -> tuple[float, float]:
        """Seconds of the first call for `network`, and of the best one after it.

        `answer`, if given, is filled with that of the first call.
        """
        inputs = inputs_of(network, self.spec["dtype"])
        begin = time.perf_counter()
        self.prepared.feed(inputs)
        self.prepared.run()
        first = time.perf_counter() - begin
        if answer is not None:
            answer[...] = self.prepared.result()
        return first, min(seconds_a_call(self.prepared.run, 1) for _ in range(calls))

    def open(self, lengths: Sequence[int]) -> Record:
        """Set an encoder up for unknown lengths, and call it with its own."""
        made = self.load(opened=True)
        self.prepared.run()
        # Written to before memory is looked at, so that they don't count.
        shape = self.network.output_shape()
        self.answers = {n: np.full((1, n, shape[-1]), np.nan, np.float32) for n in lengths}
        self.held = reset_peak()
        return {**made, "weights": sum(a.nbytes for a in self.parameters.arrays.values())}

    def length(self, tokens: int, calls: int) -> Record:
        """Time a length that is new, and keep its first answer."""
        network = cast(Encoder, self.network).of_tokens(tokens)
        first, steady = self.first_and_steady(network, calls, self.answers[tokens])
        return {"first": first, "steady": steady}

    def grown(self) -> Record:
        """How much memory the new lengths added, and which answer is farthest from NumPy's."""
        kept = reset_peak() - self.held
        # Over what rounding allows at that length.
        apart = {}
        for tokens, answer in self.answers.items():
            network = cast(Encoder, self.network).of_tokens(tokens)
            apart[tokens] = distance(answer, reference(network, self.parameters))
            apart[tokens] /= network.tolerance()
        # nan, of an answer that is not there, would hide in max.
        worst = max(apart, key=lambda n: math.inf if math.isnan(apart[n]) else apart[n])
        return {"kept": kept, "worst": worst, "over_tolerance": apart[worst]}


def copied_bytes(threads: int, rounds: int, size: int = 256 << 20) -> float:
    """Bytes a second that copies of much memory read and write, in the best of some rounds."""
    sources, targets = (np.ones((threads, size // threads), np.uint8) for _ in range(2))
    with ThreadPoolExecutor(threads) as pool:

        def copy() -> None:
            list(pool.map(np.copyto, targets, sources))

        return 2 * size / min(seconds_a_call(copy, 1) for _ in range(rounds))


def resident_bytes() -> int:
    """What this process holds."""
    return _status("VmRSS")


def peak_bytes() -> int:
    """The most that it held since `reset_peak`."""
    return _status("VmHWM")


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    # Where the kernel does not tell. A maximum since the process, or its parent, began.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def reset_peak() -> int:
    """Forget the past: what was freed goes back, and the peak starts from what is held.

    ``ru_maxrss`` can't do that, and begins with what the parent had.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return min(resident_bytes(), peak_bytes())


def serve(spec: Mapping[str, Any]) -> None:
    """Do what standard input says, until it ends."""
    # Libraries print; nothing of that is to come between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    server: Server | None = None
    for line in sys.stdin:
        command, arguments = json.loads(line)
        made: Record
        try:
            if command in MEASURES:
                made = {"records": MEASURES[command](spec)}
            else:
                server = server or Server(spec)
                made = getattr(server, command)(**arguments)
        except NotSupportedError as error:
            made = {"status": f"not supported: {error}"}
        except Exception as error:
            traceback.print_exc()
            first = (str(error).strip() or "no message").splitlines()[0]
            made = {"status": f"failed: {type(error).__name__}: {first}"}
        print(json.dumps(made), file=answers, flush=True)


MEASURES = {"call": measure_call, "weights": measure_weights}


class Child:
    """Such a process, seen from here."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        threads = str(spec["threads"])
        environment = {**os.environ, "OMP_NUM_THREADS": threads}
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed with the process)
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env=environment,
        )

    def ask(self, command: str, **arguments: Any) -> Record:
        """Its answer; ``status`` says what went wrong."""
        assert self.process.stdin and self.process.stdout
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps([command, arguments]), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if line:
            made: Record = json.loads(line)
            return made
        return {"status": f"failed: the process ended with {self.process.wait()}"}

    def said(self) -> str:
        """The end of what it wrote to standard error."""
        self.errors.seek(0)
        return "".join(self.errors.readlines()[-25:])

    def close(self) -> None:
        """End it."""
        assert self.process.stdin and self.process.stdout
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


# -- sections with other libraries


class Report:
    """Prints tables, and keeps all that is measured."""

    def __init__(self, verbose: bool) -> None:
        self.verbose = verbose
        self.records: list[Record] = []

    def head(self, text: str, *columns: str) -> None:
        """Begin a table."""
        print(f"\n{text}\n{'':26}" + "".join(f"{c:>13}" for c in columns), flush=True)

    def row(self, name: str, *cells: str, remark: str = "") -> None:
        """Print a line of it."""
        line = f"  {name:24}" + "".join(f"{c:>13}" for c in cells)
        print(f"{line}  {remark}".rstrip(), flush=True)

    def failed(self, record: Record, said: str = "") -> None:
        """A competitor that is not timed."""
        self.row(record["competitor"], remark=record["status"])
        if said and self.verbose:
            print("".join(f"      {line}\n" for line in said.splitlines()), end="")
        self.records.append(record)

    def summary(self) -> int:
        """Say what was won, lost, met and missed; return the exit status."""
        won = [r for r in self.records if r.get("outcome") == "won"]
        lost = [r for r in self.records if r.get("outcome") == "lost"]
        met = [r for r in self.records if r.get("met") is True]
        missed = [r for r in self.records if r.get("met") is False]
        print(f"\n{len(won)} won, {len(lost)} lost; {len(met)} aims met, {len(missed)} missed")
        for r in (*lost, *missed):
            what = "lost to" if r in lost else "missed:"
            aim = f" (aim {r['aim']})" if "aim" in r else ""
            over = r.get("over_microseconds")
            figure = r.get("text") or f"{r['ratio']:.2f}"
            if over is not None and r["aim"] < 1:
                figure = f"{over:.2f} µs"
            print(
                f"  {r['section']}, {threads_text(r['threads'])}, {r['case']}: "
                f"{what} {r['competitor']} {r.get('of', '')} {figure}{aim}"
            )
        # Peers may lack what we compare; this package may not.
        broken = [
            r for r in self.records if "status" in r and r["competitor"] == r.get("own", OURS)
        ]
        return int(bool(broken))


def threads_text(threads: int) -> str:
    """For headings."""
    return f"{threads} thread{'s' if threads > 1 else ''}"


@contextlib.contextmanager
def children(specs: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Child]]:
    """Processes that end with the block."""
    made: dict[str, Child] = {}
    try:
        for name, spec in specs.items():
            made[name] = Child(spec)
        yield made
    finally:
        for child in made.values():
            child.close()


def competitors(peers: Sequence[Peer], dtype: str, report: Report, about: Record) -> list[Peer]:
    """Those that are installed and have the data type."""
    made = []
    for peer in peers:
        missing = peer.missing()
        if missing is not None:
            status = "not installed" + (f": {missing}" if missing != peer.modules[0] else "")
        elif dtype not in peer.dtypes:
            status = f"not supported: {dtype}"
        else:
            made.append(peer)
            continue
        report.failed({**about, "competitor": peer.name, "status": status})
    return made


def round_timer(child: Child, count: int) -> Callable[[], float]:
    """Has it time a round."""
    return lambda: float(child.ask("round", count=count).get("seconds", math.nan))


def outcome(ratio: float) -> str:
    """Of another's figure over ours."""
    return "won" if ratio >= 1 else "lost"


def compare_networks(options: argparse.Namespace, report: Report, section: str) -> None:
    """Time all libraries on a network, by turns."""
    for threads in options.threads:
        for dtype in dtypes_of(section, options):
            for sizes in sizes_of(section, options):
                spec = spec_of(section, sizes, dtype, threads)
                compare_network(options, report, spec)


def compare_front_end(options: argparse.Namespace, report: Report, section: str) -> None:
    """Time a front end and all libraries on its networks, by turns."""
    own, rows = FRONT_ENDS[section]
    for threads in options.threads:
        for network, sizes, dtypes in rows:
            for dtype in dtypes_of(network, options):
                for given in sizes_of(network, options)[:1] if options.quick else [sizes]:
                    if dtype in dtypes:
                        spec = spec_of(network, given, dtype, threads)
                        compare_network(options, report, spec, section, own)


def compare_network(
    options: argparse.Namespace, report: Report, spec: Record, section: str = "", own: str = OURS
) -> None:
    """In one table, with ratios to the library `own`."""
    network, dtype, threads = (spec[k] for k in ("network", "dtype", "threads"))
    case = f"{dtype}, {network_of(spec)}"
    if section:
        case = f"{network} {case}"
    section = section or network
    about: Record = {"section": section, "threads": threads, "case": case, "own": own}
    by_bytes = ("GB/s", "of copies") if network == "decode" else ()
    columns = ("ms", "ratio", "peak MiB", "ratio", "from NumPy", *by_bytes)
    report.head(f"{section}: {case}, {threads_text(threads)}", *columns)
    copied = copied_bytes(threads, options.rounds) if by_bytes else math.nan
    first = [p for p in PEERS if p.name == own]
    others = [p for p in options.peers if p.name != own]
    able = competitors(first + others, dtype, report, about)
    with children({p.name: {**spec, "peer": p.name} for p in able}) as running:
        ready: dict[str, Record] = {}
        for name, child in running.items():
            # One at a time: compiling takes memory and all cores.
            made = child.ask("load")
            if "status" not in made and not made["right"]:
                made["status"] = f"wrong: {made['distance']:.1e} from NumPy's output"
            if "status" not in made:
                made |= child.ask("warm", seconds=options.seconds)
            if "status" in made:
                failure = {**about, "competitor": name, "status": made["status"]}
                report.failed(failure, child.said())
            else:
                ready[name] = made
        timers = {name: round_timer(running[name], made["count"]) for name, made in ready.items()}
        slowest = max((made["round"] for made in ready.values()), default=0)
        most = max(3, int(LONGEST / max(slowest, 1e-9)))
        rounds = take_turns(timers, min(options.rounds, most))
    # nan, of one that died, would hide in min.
    best = {n: math.nan if math.isnan(sum(v)) else min(v) for n, v in rounds.items()}
    for name, value in best.items():
        if math.isnan(value):
            status = "failed: it ended while it was timed"
            report.failed({**about, "competitor": name, "status": status})
            continue
        record = {**about, "competitor": name, "seconds": value, "rounds": rounds[name]}
        record["median_seconds"] = statistics.median(rounds[name])
        record |= {k: ready[name][k] for k in ("distance", "peak")}
        remark = ratio = memory = ""
        if name != own and not math.isnan(best.get(own, math.nan)):
            record["ratio"] = value / best[own]
            remark = record["outcome"] = outcome(record["ratio"])
            ratio = f"{record['ratio']:.2f}"
            share = record["peak"] / max(ready[own]["peak"], 1)
            memory = f"{share:.2f}"
            if section == "attention":
                remark += f", {outcome(share)}"
                of = {"ratio": share, "outcome": outcome(share), "of": "in memory"}
                report.records.append({**about, "competitor": name, **of})
        if record["median_seconds"] > UNSTEADY * value:
            remark = f"{remark} (unsteady: median {record['median_seconds'] * 1e3:.3f})"
        cells = [f"{value * 1e3:.3f}", ratio, f"{record['peak'] / (1 << 20):.0f}", memory]
        cells.append(f"{record['distance']:.1e}")
        if by_bytes:
            record["bytes_a_second"] = ready[name]["weights"] / value
            record["of_copies"] = record["bytes_a_second"] / copied
            cells += [f"{record['bytes_a_second'] / 1e9:.1f}", f"{record['of_copies']:.2f}"]
        report.row(name, *cells, remark=remark.strip())
        report.records.append(record)


def compare_shapes(options: argparse.Namespace, report: Report) -> None:
    """Time and memory of further shapes of an encoder whose length is not known."""
    threads = max(options.threads)
    (sizes,) = sizes_of("encoder", options)
    spec = spec_of("encoder", {"layers": 6} | sizes, "f32", threads)
    encoder = cast(Encoder, network_of(spec))
    lengths = [n for n in LENGTHS if n != encoder.tokens]
    case = f"f32, {encoder}, then {len(lengths)} other lengths"
    about: Record = {"section": "shapes", "threads": threads, "case": case}
    columns = ("first ms", "ratio", "over ms", "steady ms", "ratio", "x weights", "x tolerance")
    report.head(f"shapes: {case}, {threads_text(threads)}", *columns)
    able = competitors([p for p in options.peers if type(p) in SHAPES_PEERS], "f32", report, about)
    own: Record = {}
    for name, made in measure_shapes(spec, able, lengths, options.rounds).items():
        record: Record = {**about, "competitor": name, **made}
        if "status" in record:
            report.failed(record, record.pop("said"))
            continue
        report.records.append(record)
        if name == OURS:
            own = record
        shapes_row(report, record, own)


def measure_shapes(
    spec: Record, peers: Sequence[Peer], lengths: Sequence[int], calls: int
) -> dict[str, Record]:
    """By name of the library, which take turns length by length; ``status`` if one failed.

    Of each further length ``each`` has the seconds of the first call and of the best of `calls`
    after it; ``first`` and ``steady`` are their means, ``share`` what all lengths added to memory
    over what the weights take.
    """
    made: dict[str, Record] = {peer.name: {"each": []} for peer in peers}
    with children({p.name: {**spec, "peer": p.name} for p in peers}) as running:

        def ask(name: str, command: str, **arguments: Any) -> Record:
            if "status" in made[name]:
                return {}
            answer = running[name].ask(command, **arguments)
            if answer.get("right") is False:
                answer["status"] = f"wrong: {answer['distance']:.1e} from NumPy's output"
            if not answer.get("over_tolerance", 0) <= 1:
                far = f"{answer['over_tolerance']:.1f} times what rounding explains"
                answer["status"] = f"wrong for {answer['worst']} tokens: {far}"
            if "status" in answer:
                made[name] |= {"status": answer["status"], "said": running[name].said()}
            return answer

        for name in running:
            made[name] |= ask(name, "open", lengths=lengths)
        for tokens in lengths:
            for name in running:
                made[name]["each"].append(ask(name, "length", tokens=tokens, calls=calls))
        for name in running:
            made[name] |= ask(name, "grown")
    for one in made.values():
        if "status" not in one:
            one["first"], one["steady"] = (
                statistics.fmean(times[which] for times in one["each"])
                for which in ("first", "steady")
            )
            one["share"] = one["kept"] / one["weights"]
            one["lengths"] = list(lengths)
    return made


def shapes_row(report: Report, record: Record, own: Record) -> None:
    """Print what `measure_shapes` found of a library, beside our own figures."""
    about = {k: record[k] for k in ("section", "threads", "case", "competitor")}
    over = record["first"] - record["steady"]
    remarks, ratios = [], {"first": "", "steady": ""}
    if record is own:
        for aim, figure, unit, of in (
            (AIM_SHAPE, over * 1e3, " ms", "over a call"),
            (AIM_SHAPES_MEMORY, record["share"], "", "of the weights"),
        ):
            met = figure <= aim
            remarks.append("met" if met else "missed")
            one = {**about, "aim": aim, "met": met, "of": of, "text": f"{figure:.2f}{unit}"}
            report.records.append(one)
    elif own:
        for which, of in (("first", "for a new shape"), ("steady", "for a known shape")):
            ratio = record[which] / own[which]
            ratios[which] = f"{ratio:.2f}"
            remarks.append(outcome(ratio))
            report.records.append({**about, "ratio": ratio, "of": of, "outcome": outcome(ratio)})
    report.row(
        record["competitor"],
        f"{record['first'] * 1e3:.2f}",
        ratios["first"],
        f"{over * 1e3:.2f}",
        f"{record['steady'] * 1e3:.2f}",
        ratios["steady"],
        f"{record['share']:.2f}",
        f"{record['over_tolerance']:.2f}",
        remark=", ".join(remarks),
    )
    each = (
        f"{tokens}: {(times['first'] - times['steady']) * 1e3:.1f}"
        for tokens, times in zip(record["lengths"], record["each"], strict=True)
    )
    report.row("", remark=f"  over ms by tokens: {', '.join(each)}")


def compare_builds(options: argparse.Namespace, report: Report) -> None:
    """Time and memory until the first answer, and time for another shape."""
    threads = max(options.threads)
    for section in ("encoder", "resnet"):
        for dtype in dtypes_of(section, options):
            (sizes,) = sizes_of(section, options)
            spec = spec_of(section, sizes, dtype, threads)
            network = cast(OpenNetwork, network_of(spec))
            case = f"{section} {dtype}, {network}"
            about: Record = {"section": "build", "threads": threads, "case": case}
            report.head(
                f"build: {case}, {threads_text(threads)}; "
                f"the other shape is {network.other().inputs()['x'].shape}",
                "ready s",
                "ratio",
                "peak MiB",
                "ratio",
                "other s",
                "ratio",
            )
            own: Record = {}
            for peer in competitors(options.peers, dtype, report, about):
                record = build_one(peer, spec, about, report)
                if "status" in record:
                    continue
                if peer.name == OURS:
                    own = record
                cells, outcomes = [], []
                for kind, scale, digits in (
                    ("total", 1, 2),
                    ("peak", 1 << 20, 0),
                    ("another", 1, 3),
                ):
                    value = record.get(kind)
                    cells.append("" if value is None else f"{value / scale:.{digits}f}")
                    ratio = ""
                    if value is not None and own.get(kind) and peer.name != OURS:
                        share = value / own[kind]
                        ratio = f"{share:.2f}"
                        outcomes.append(outcome(share))
                        of = {"total": "to be ready", "peak": "in memory"}
                        one = {**about, "competitor": peer.name, "ratio": share}
                        one |= {"outcome": outcomes[-1], "of": of.get(kind, "for another shape")}
                        report.records.append(one)
                    cells.append(ratio)
                report.row(peer.name, *cells, remark=", ".join(outcomes))
                phases = ", ".join(f"{k} {v:.3f}" for k, v in record["phases"].items())
                if peer.name == OURS:
                    report.row("", remark=f"  seconds: {phases}")
                if "another_status" in record:
                    report.row("", remark=f"  another shape: {record['another_status']}")


def build_one(peer: Peer, spec: Mapping[str, Any], about: Record, report: Report) -> Record:
    """Of one library."""
    with children({peer.name: {**spec, "peer": peer.name}}) as running:
        child = running[peer.name]
        record: Record = {**about, "competitor": peer.name, **child.ask("build")}
        if "status" not in record and not record["right"]:
            record["status"] = f"wrong: {record['distance']:.1e} from NumPy's output"
        if "status" in record:
            report.failed(record, child.said())
            return record
        another = child.ask("another")
        if "status" not in another and not another["right"]:
            another["status"] = f"wrong: {another['distance']:.1e} from NumPy's output"
        if "status" in another:
            record["another_status"] = another["status"]
        else:
            record["another"] = another["seconds"]
    report.records.append(record)
    return record


# -- the sections of this package alone


def run_alone(report: Report, section: str, spec: Record, columns: Sequence[str]) -> None:
    """Measure in a process of its own, and print."""
    about: Record = {"section": section, "threads": spec["threads"]}
    with children({section: spec}) as running:
        made = running[section].ask(section)
        said = running[section].said()
    if "status" in made:
        report.head(f"{section}, {threads_text(spec['threads'])}")
        report.failed({**about, "case": "", "competitor": OURS, "status": made["status"]}, said)
        return
    case = None
    for record in made["records"]:
        if record["case"] != case:
            case = record["case"]
            report.head(f"{section}: {case}, {threads_text(spec['threads'])}", *columns)
        over, ratio = record.get("over_microseconds"), record.get("ratio")
        cells = [f"{record['seconds'] * 1e6:.3f}"]
        if section == "call":
            cells.append("" if over is None else f"{over:.3f}")
        cells.append("" if ratio is None else f"{ratio:.3f}")
        cells.append(f"{record['aim']:.2f}" if "aim" in record else "")
        remark = {True: "met", False: "missed", None: ""}[record.get("met")]
        report.row(record["competitor"], *cells, remark=remark)
        report.records.append({**about, **record})


def measure_calls(options: argparse.Namespace, report: Report) -> None:
    """Calls beside C++."""
    products = [[1, 1024, 4096], [128, 768, 768]]
    for threads in options.threads:
        spec = {
            "threads": threads,
            "products": products[:1] if options.quick else products,
            "rounds": options.rounds * 2,
            "seconds": options.seconds / 4,
        }
        run_alone(report, "call", spec, ("µs a call", "over C++ µs", "ratio", "aim"))


def measure_constant_weights(options: argparse.Namespace, report: Report) -> None:
    """Constant weights beside weights that are an input."""
    for threads in options.threads:
        for dtype in dtypes_of("weights", options):
            spec = {
                "threads": threads,
                "shape": [1, 1024, 4096],
                "dtype": dtype,
                "rounds": options.rounds * 2,
                "seconds": options.seconds / 4,
            }
            run_alone(report, "weights", spec, ("µs a call", "ratio", "aim"))


# -- the command


def dtypes_of(section: str, options: argparse.Namespace) -> list[str]:
    """Those to measure, of what this CPU has kernels for."""
    from onednn_graph_py.machine.cpu import lacks

    able = [d for d in (*DTYPES[section], *MORE_DTYPES.get(section, ())) if lacks(d) is None]
    return [d for d in options.dtype or DTYPES[section] if d in able]


def sizes_of(section: str, options: argparse.Namespace) -> list[Record]:
    """What the network is made with, of each row."""
    given = {
        "encoder": {"layers": options.layers, "tokens": options.tokens},
        "resnet": {"side": options.side},
        "mobilenet": {"side": options.side},
    }.get(section, {})
    chosen = {k: v for k, v in given.items() if v is not None}
    return [sizes | chosen for sizes in (QUICK_SIZES if options.quick else SIZES)[section]]


def spec_of(section: str, sizes: Record, dtype: str, threads: int) -> Record:
    """What a process is told of a network."""
    from onednn_graph_py.machine.cpu import largest_int8_weight

    made: Record = {"network": section, "sizes": sizes, "dtype": dtype, "threads": threads}
    # The process of another library is not to load this package, and its OpenMP.
    return {**made, "largest": largest_int8_weight()}


def machine() -> Record:
    """What the figures are of."""
    import onednn_graph_py as og
    from onednn_graph_py.machine.cpu import lacks

    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    cpu = next((x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), "")
    linked = og.version()
    return {
        "cpu": cpu or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        # Of the last minute: what others do here makes figures worse.
        "load_before": os.getloadavg()[0],
        "isa": og.get_effective_cpu_isa().name,
        "lacking": lacks("bf16"),
        "python": platform.python_version(),
        "onednn": f"{linked['major']}.{linked['minor']}.{linked['patch']}",
        "cpu_runtime": linked["cpu_runtime"],
        "environment": {
            k: v for k, v in os.environ.items() if k.startswith(("OMP_", "GOMP_", "KMP_", "ONEDNN"))
        },
        "libraries": {p.name: None if p.missing() else p.version() for p in PEERS},
    }


def chosen_peers(words: Sequence[str] | None) -> list[Peer]:
    """This package first, and those whose names begin with one of the words."""
    if words is None:
        return PEERS
    return [p for p in PEERS if p.name == OURS or any(p.name.startswith(w) for w in words)]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument(
        "--threads",
        type=int,
        nargs="+",
        default=[1, 2],
        metavar="N",
        help="numbers of threads per call to measure (default: %(default)s)",
    )
    parser.add_argument(
        "--dtype",
        nargs="+",
        choices=["f32", "bf16", "int8", "w8", "w4"],
        help="data types to measure (default: all)",
    )
    parser.add_argument(
        "--layers",
        type=int,
        help="layers of the encoder (default: 12, in shapes 6, with --quick 2)",
    )
    parser.add_argument(
        "--tokens", type=int, help="tokens of the encoder (default: 128, with --quick 32)"
    )
    parser.add_argument(
        "--side", type=int, help="side of images, in pixels (default: 224, with --quick 64)"
    )
    parser.add_argument(
        "--peers", nargs="*", metavar="NAME", help="measure only these other libraries"
    )
    parser.add_argument(
        "--rounds", type=int, help="turns per competitor (default: 10, with --quick 3)"
    )
    parser.add_argument(
        "--seconds", type=float, help="seconds per turn (default: 0.4, with --quick 0.02)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="use small sizes, only to see whether all runs"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument(
        "--verbose", action="store_true", help="show the output of libraries that fail"
    )
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(json.loads(options.serve))
        return 0
    unknown = set(options.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {sorted(unknown)[0]!r}; there are: {', '.join(SECTIONS)}")
    options.peers = chosen_peers(options.peers)
    options.rounds = options.rounds or (3 if options.quick else 10)
    options.seconds = options.seconds or (0.02 if options.quick else 0.4)

    about = machine()
    print(
        f"{about['cpu']}, {about['cores']} cores, {about['isa']}; "
        f"oneDNN {about['onednn']} ({about['cpu_runtime']}); load before {about['load_before']:.1f}"
    )
    for name, version in about["libraries"].items():
        print(f"  {name:24}{version or 'not installed'}")
    if about["lacking"]:
        print(f"without bf16: {about['lacking']}")
    report = Report(options.verbose)
    sections: dict[str, Callable[[], None]] = {
        "call": lambda: measure_calls(options, report),
        "weights": lambda: measure_constant_weights(options, report),
        **{
            name: lambda name=name: compare_networks(options, report, name)  # type: ignore[misc]
            for name in NETWORKS
        },
        **{
            name: lambda name=name: compare_front_end(options, report, name)  # type: ignore[misc]
            for name in FRONT_ENDS
        },
        "shapes": lambda: compare_shapes(options, report),
        "build": lambda: compare_builds(options, report),
    }
    try:
        for name in options.sections or SECTIONS:
            sections[name]()
    finally:
        # An hour's figures are not to be lost with what comes last.
        if options.json is not None:
            made = {"machine": about, "quick": options.quick, "results": report.records}
            options.json.write_text(json.dumps(made, indent=1) + "\n")
    return report.summary()


if __name__ == "__main__":
    sys.exit(main())
