"""All ONNX files of a folder beside onnxruntime: right, how fast, how much in oneDNN, memory.

    python benchmarks/onnx_files.py FOLDER [--threads 1 2] [--only WORD]

Results are right if they are those of onnxruntime without its optimizations, for several draws of
inputs. Times are the shortest of rounds in which the two take turns, each in a process of its own.
Open dims get the sizes that the command `onnx` guesses. A file sizes.json of the folder says more:
`{"vad.onnx": {"set": ["batch=2"], "value": {"sr": 16000}, "below": {"ids": 30000}}}`; `value` is
what all elements of an input are, and `below` what bounds its random whole numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from onednn_graph_py.machine.timing import time_calls
from onednn_graph_py.onnx import load
from onednn_graph_py.onnx.tools.sizes import chosen_shapes, parsed

ROUNDS, SECONDS, PAUSE = 4, 0.2, 0.05
RTOL, RTOL_INT8 = 1e-4, 0.05

Arrays = dict[str, Any]


def draws(path: Path, about: Mapping[str, Any], **options: Any) -> tuple[Any, list[Arrays]]:
    """Return a model, and inputs for it: drawn, drawn again, and zeros."""
    model = load(path, **options)
    shapes, _ = chosen_shapes(model.input_dims, parsed(about.get("set", ())))
    made = []
    for seed in (0, 1, 2):
        inputs = model.random_inputs(shapes, seed)
        generator = np.random.default_rng(seed)
        for name, most in about.get("below", {}).items():
            inputs[name] = generator.integers(0, most, shapes[name]).astype(inputs[name].dtype)
        if seed == 2:
            inputs = {n: np.zeros_like(a) for n, a in inputs.items()}
        for name, value in about.get("value", {}).items():
            inputs[name] = np.full_like(inputs[name], value)
        made.append(inputs)
    return model, made


def _ours(path: Path, inputs: list[Arrays], threads: int) -> tuple[Callable[..., Any], Any]:
    began = time.perf_counter()
    model = load(path, threads=threads)
    model(inputs[0])
    first = time.perf_counter() - began

    def told() -> Arrays:
        programs = model.report().programs
        return {
            "first": first,
            "share": programs[-1].share,
            "islands": sum(len(p.islands) for p in programs),
            "report": str(model.report()),
        }

    return lambda given: model(**given), told


def _theirs(
    path: Path, inputs: list[Arrays], threads: int, *, plain: bool = False
) -> tuple[Callable[..., Any], Any]:
    import onnxruntime

    began = time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    if plain:
        level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.graph_optimization_level = level
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    session.run(None, inputs[0])
    first = time.perf_counter() - began
    return lambda given: session.run(None, given), lambda: {"first": first}


def peak() -> float:
    """Return the most MiB that this process has had in memory; `getrusage` counts the parent's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(x for x in lines if x.startswith("VmHWM")).split()[1]) / 1024


def child(path: Path, side: str, threads: int) -> None:
    """Answer the parent's words: results, time, end."""
    inputs = pickle.load(sys.stdin.buffer)
    before = peak()
    if side == "ours":
        run, told = _ours(path, inputs, threads)
    else:
        run, told = _theirs(path, inputs, threads, plain=side == "plain")
    out = os.fdopen(os.dup(1), "wb")

    def answer(value: Any) -> None:
        pickle.dump(value, out)
        out.flush()

    answer("ready")
    for line in sys.stdin.buffer:
        if line == b"results\n":
            made = [run(given) for given in inputs]
            answer([list(m) if isinstance(m, (tuple, list)) else [m] for m in made])
        elif line == b"time\n":
            time.sleep(PAUSE)
            run(inputs[0])
            answer(min(time_calls(lambda: run(inputs[0]), SECONDS, least=2)))
        else:
            answer({**told(), "memory": peak() - before})
            return


class Child:
    """A process that runs a model in one way."""

    def __init__(self, path: Path, side: str, threads: int, inputs: list[Arrays]) -> None:
        command = [sys.executable, __file__, str(path), "--side", side, "--threads", str(threads)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment)
        assert self.process.stdin is not None and self.process.stdout is not None
        self._in, self._out = self.process.stdin, self.process.stdout
        pickle.dump(inputs, self._in)
        self._in.flush()
        self.answer()

    def answer(self) -> Any:
        """Return what it says next."""
        return pickle.load(self._out)

    def ask(self, word: str) -> Any:
        """Ask for something, and return the answer."""
        self._in.write(f"{word}\n".encode())
        self._in.flush()
        made = self.answer()
        if word == "end":
            self.process.wait()
        return made


def error(ours: list[list[Any]], plain: list[list[Any]]) -> float:
    """Return the largest difference, relative to the largest number of its output."""
    worst = 0.0
    for made, wanted in zip(ours, plain, strict=True):
        for one, other in zip(made, wanted, strict=True):
            if not isinstance(other, np.ndarray) or other.dtype.kind not in "biuf":
                worst = max(worst, 0.0 if np.array_equal(one, other) else np.inf)
                continue
            if one.shape != other.shape or one.dtype != other.dtype:
                return np.inf
            one, other = one.astype(np.float64), other.astype(np.float64)
            if not np.array_equal(np.isfinite(one), np.isfinite(other)):
                return np.inf
            largest = np.abs(other[np.isfinite(other)]).max(initial=0.1)
            difference = np.abs(one - other)[np.isfinite(other)].max(initial=0.0)
            worst = max(worst, float(difference / largest))
    return worst


def row(path: Path, about: Mapping[str, Any], threads: int) -> Arrays:
    """Measure one file."""
    _, inputs = draws(path, about, threads=threads, islands="fewest")
    plain = Child(path, "plain", threads, inputs)
    wanted = plain.ask("results")
    plain.ask("end")
    sides = {side: Child(path, side, threads, inputs) for side in ("ours", "theirs")}
    made = sides["ours"].ask("results")
    best = dict.fromkeys(sides, np.inf)
    for _ in range(ROUNDS):
        for side, process in sides.items():
            best[side] = min(best[side], process.ask("time"))
    ours, theirs = (process.ask("end") for process in sides.values())
    return {
        "name": path.name,
        "threads": threads,
        "error": error(made, wanted),
        "ours": best["ours"],
        "theirs": best["theirs"],
        "ratio": best["ours"] / best["theirs"],
        "share": ours["share"],
        "islands": ours["islands"],
        "first": ours["first"],
        "first_theirs": theirs["first"],
        "memory": ours["memory"],
        "memory_theirs": theirs["memory"],
        "report": ours["report"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", default="", help="files whose names have this word")
    parser.add_argument("--json", type=Path, help="append rows to this file")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        child(given.folder, given.side, given.threads[0])
        return
    about = given.folder / "sizes.json"
    sizes = json.loads(about.read_text()) if about.exists() else {}
    ratios: dict[int, list[float]] = {n: [] for n in given.threads}
    print("right  threads  ms ours   theirs  ratio   share isl  first    (theirs)  MB  (theirs)")
    for path in sorted(given.folder.glob("*.onnx")):
        if given.only not in path.name:
            continue
        for threads in given.threads:
            try:
                made = row(path, sizes.get(path.name, {}), threads)
            except Exception as e:  # a row of the table, too
                print(f"FAILS  {path.name}: {type(e).__name__}: {str(e)[:300]}", flush=True)
                continue
            ratios[threads].append(made["ratio"])
            print(
                f"{made['error']:6.0e} {threads}  {made['ours'] * 1e3:8.3f} "
                f"{made['theirs'] * 1e3:8.3f}  {made['ratio']:5.2f}  {made['share']:6.1%} "
                f"{made['islands']:2} {made['first']:6.2f} ({made['first_theirs']:5.2f}) "
                f"{made['memory']:4.0f} ({made['memory_theirs']:4.0f})  {path.name}",
                flush=True,
            )
            if given.json is not None:
                with given.json.open("a") as file:
                    file.write(json.dumps(made) + "\n")
    for threads, found in ratios.items():
        if found:
            mean = np.exp(np.mean(np.log(found)))
            above = sum(r > 1.1 for r in found)
            print(f"{threads} threads: {len(found)} files, mean {mean:.2f}, {above} above 1.1")


if __name__ == "__main__":
    main()
