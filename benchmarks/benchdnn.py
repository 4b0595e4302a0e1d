"""Beside benchdnn, oneDNN's own test driver: does it read our files, is a replay as fast?

It is built when first needed, from the same source and against the same library as the package's.

    read    graphs that were loaded, built anew and saved, and graphs of GraphBuilder: benchdnn must
            make as many partitions of them as we do and as it does of the original, and its own
            comparison must pass
    time    one execution of benchdnn's against one call of our model of the same file, each in a
            process of its own, taking turns; the least time of all rounds counts. End is a
            partition to benchdnn (parts) and no step of ours. Where there are several partitions,
            each of benchdnn's has memory of its own, and ours read what the one before wrote, so
            caches may favour us. On a busy machine measure with --threads 1: threads that wait for
            one that has no CPU are noise.

By default both, of oneDNN's complex_fusion graphs. Exit status 1 if anything in `read` disagrees.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "third_party"), str(HERE.parent)]

from _benchdnn import Answer, run  # noqa: E402
from _benchdnn_graphs import GRAPHS  # noqa: E402

import onednn_graph_py as og  # noqa: E402
from matrix import benchdnn_build  # noqa: E402
from onednn_graph_py.serialization import load, parse, to_graph  # noqa: E402
from onednn_recipe.report import RecipeError  # noqa: E402

SECTIONS = ("read", "time")


@dataclass(frozen=True)
class Setting:
    """How benchdnn and we are run."""

    program: Path
    threads: int
    timeout: float
    rounds: int
    seconds: float


# -- read


@dataclass
class Reading:
    """What became of one saved graph.

    ``agrees`` is None where there is nothing to compare: we do not load the original.
    """

    graph: str
    agrees: bool | None = None
    verdict: str = ""
    # Of the saved file in benchdnn, of the original in benchdnn, of the saved file here.
    partitions: tuple[int | None, int | None, int | None] = (None, None, None)
    reason: str = ""


def saved_of_file(path: Path, folder: Path) -> Path:
    """The file's graph, loaded, built and saved again."""
    target = folder / path.name
    load(path).save(target)
    return target


def read_case(name: str, saved: Path, original: Path | None, setting: Setting) -> Reading:
    """Have benchdnn read a saved graph, and compare."""
    ours = len(to_graph(replace(parse(saved), engine_kind="cpu")).get_partitions())
    answer = ask(saved, "C", setting)
    reference = answer
    if original is not None:
        passed = answer.verdict == "PASSED"
        # What does not pass is no fault of the file if the original fares alike.
        reference = ask(original, "I" if passed else "C", setting)
        alike = passed or answer.verdict == reference.verdict
    else:
        alike = answer.verdict == "PASSED"
    same = answer.partition_ops is not None and answer.partition_ops == reference.partition_ops
    return Reading(
        name,
        alike and same and answer.partitions == ours,
        answer.verdict,
        (answer.partitions, reference.partitions if original is not None else None, ours),
        answer.reason,
    )


def ask(path: Path, mode: str, setting: Setting, *knobs: str) -> Answer:
    """benchdnn's answer about one file."""
    return run(setting.program, path, mode, knobs, threads=setting.threads, timeout=setting.timeout)


def readings(files: list[Path], setting: Setting) -> Iterator[Reading]:
    """All graphs of GraphBuilder, then all files."""
    with tempfile.TemporaryDirectory(prefix="onednn_graph_py-benchdnn-") as folder:
        for name, make in GRAPHS.items():
            saved = Path(folder, f"{name}.json")
            make().save(saved)
            yield read_case(name, saved, None, setting)
        for path in files:
            try:
                saved = saved_of_file(path, Path(folder))
            except og.OneDNNError as error:
                yield Reading(path.stem, reason=f"not loaded: {error}")
                continue
            yield read_case(path.stem, saved, path, setting)


def show_readings(files: list[Path], setting: Setting) -> list[Reading]:
    """Print a line for each graph as it comes."""
    print("\nread: partitions by benchdnn of our file, by benchdnn of the original, by us")
    made = []
    for reading in readings(files, setting):
        counts = "/".join("-" if n is None else str(n) for n in reading.partitions)
        word = {True: "agrees", False: "DISAGREES", None: "-"}[reading.agrees]
        line = f"{reading.graph:48} {counts:>9}  {word:9} {reading.verdict} {reading.reason}"
        print(line.rstrip(), flush=True)
        made.append(reading)
    compared = [r for r in made if r.agrees is not None]
    passed = sum(r.verdict == "PASSED" for r in compared)
    agreed = sum(bool(r.agrees) for r in compared)
    print(f"{agreed} of {len(compared)} agree, of which benchdnn passes {passed} as right")
    return made


# -- time


@dataclass
class Timing:
    """Times of one file, in milliseconds; the lists hold the least of each round."""

    graph: str
    benchdnn_ms: list[float] = field(default_factory=list)
    ours_ms: list[float] = field(default_factory=list)
    partitions: int | None = None
    steps: int | None = None
    # Why there are no times, or why they are not alike.
    note: str = ""

    @property
    def measured(self) -> bool:
        """Whether both ran."""
        return bool(self.benchdnn_ms and self.ours_ms)

    @property
    def ratio(self) -> float:
        """Our time over benchdnn's."""
        return min(self.ours_ms) / min(self.benchdnn_ms)

    @property
    def noise(self) -> float:
        """How far rounds of one kind lie apart: the larger part of the median over the least."""
        kinds = (self.benchdnn_ms, self.ours_ms)
        return max(statistics.median(kind) / min(kind) for kind in kinds) - 1

    @property
    def within_noise(self) -> bool:
        """Whether the two differ no more than rounds of the same do."""
        return abs(self.ratio - 1) <= self.noise


class Replay:
    """Our replay of a file: a process that times a round when asked."""

    def __init__(self, path: Path, setting: Setting) -> None:
        self._timeout = setting.timeout
        command = [sys.executable, str(HERE / "_timed_replay.py"), str(path), str(setting.seconds)]
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "OMP_NUM_THREADS": str(setting.threads)},
            text=True,
        )

    def __enter__(self) -> Replay:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def told(self) -> dict[str, Any]:
        """Its next line; raises ReplayError with what it died of."""
        assert self._process.stdout is not None
        began = time.monotonic()
        late = threading.Timer(self._timeout, self._process.kill)
        late.start()
        line = self._process.stdout.readline()
        late.cancel()
        if line:
            return dict(json.loads(line))
        if time.monotonic() - began >= self._timeout:
            raise ReplayError(f"not over after {self._timeout:.0f} s")
        status = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().strip().splitlines() or [f"exit status {status}"]
        raise ReplayError(lines[-1])

    def least_ms(self) -> float:
        """The least time of a call in one more round."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self.told()["least_ms"])


class ReplayError(Exception):
    """Our replay ended; the message tells why."""


def time_case(path: Path, setting: Setting) -> Timing:
    """Time a file in turns."""
    timing = Timing(path.stem)
    first = _benchdnn_round(path, setting, timing)
    if first is None:
        return timing
    try:
        with Replay(path, setting) as ours:
            model = ours.told()
            timing.steps = model["steps"]
            if model["warnings"]:
                timing.note = "ours runs in parts: " + "; ".join(model["warnings"])
            timing.benchdnn_ms, timing.ours_ms = [first], [ours.least_ms()]
            while len(timing.ours_ms) < setting.rounds:
                # Each goes first in turn: what a round leaves behind meets both.
                if len(timing.ours_ms) % 2:
                    timing.ours_ms.append(ours.least_ms())
                again = _benchdnn_round(path, setting, timing)
                if again is None:
                    return timing
                timing.benchdnn_ms.append(again)
                if len(timing.ours_ms) < len(timing.benchdnn_ms):
                    timing.ours_ms.append(ours.least_ms())
    except ReplayError as error:
        timing.note = f"ours: {error}"
    return timing


def _benchdnn_round(path: Path, setting: Setting, timing: Timing) -> float | None:
    limit = f"--max-ms-per-prb={setting.seconds * 1e3:.0f}"
    answer = ask(path, "P", setting, limit)
    timing.partitions = answer.partitions
    if answer.least_ms is None:
        timing.note = f"benchdnn: {answer}"
    return answer.least_ms


def show_timings(files: list[Path], setting: Setting) -> list[Timing]:
    """Print a line for each file as it comes."""
    print(f"\ntime: least of {setting.rounds} rounds of {setting.seconds} s, taking turns, in ms")
    head = f"{'':48} {'parts':>5} {'steps':>5} {'benchdnn':>10} {'ours':>10} {'ratio':>6}"
    print(f"{head} {'noise':>6}")
    made = []
    for path in files:
        timing = time_case(path, setting)
        made.append(timing)
        line = f"{timing.graph:48}"
        if timing.measured:
            line += f" {timing.partitions!s:>5} {timing.steps!s:>5}"
            line += f" {min(timing.benchdnn_ms):10.3f} {min(timing.ours_ms):10.3f}"
            line += f" {timing.ratio:6.2f} {timing.noise:6.0%}"
        print(f"{line} {timing.note[:160]}".rstrip(), flush=True)
    # Where a known defect makes us run in parts, the work is another.
    alike = [t for t in made if t.measured and not t.note]
    if alike:
        within = sum(t.within_noise for t in alike)
        median = statistics.median(t.ratio for t in alike)
        print(f"{within} of {len(alike)} within noise of each other, median ratio {median:.3f}")
    return made


# -- the command


def corpus(tree: Path | None) -> Path:
    """Where oneDNN's own graphs lie."""
    if tree is None:
        raise RecipeError("the source of this oneDNN was not kept, and its graphs are there")
    return tree / "tests" / "benchdnn" / "inputs" / "graph"


def arguments() -> argparse.Namespace:
    """The command line's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sections", nargs="*", metavar="read|time", help="what to do (default: both)"
    )
    parser.add_argument(
        "--files", nargs="+", type=Path, metavar="PLACE",
        help="graph JSON files or folders instead of complex_fusion",
    )  # fmt: skip
    parser.add_argument(
        "--rounds", type=int, default=4, help="rounds of timing (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=0.5, help="seconds per round (default: %(default)g)"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=len(os.sched_getaffinity(0)),
        help="threads per call (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=180,
        help="time limit per process, in seconds (default: %(default)g)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    given = parser.parse_args()
    wrong = sorted(set(given.sections) - set(SECTIONS))
    if wrong:
        parser.error(f"sections are {', '.join(SECTIONS)}; given was {', '.join(wrong)}")
    return given


def main() -> int:
    """Compare and print; return an exit status."""
    given = arguments()
    try:
        built = benchdnn_build.ensure()
        places = given.files or [corpus(built.onednn.source_dir) / "complex_fusion"]
    except RecipeError as error:
        print(f"benchdnn: error: {error}", file=sys.stderr)
        return 1
    files = [f for p in places for f in (sorted(p.rglob("*.json")) if p.is_dir() else [p])]
    setting = Setting(built.program, given.threads, given.timeout, given.rounds, given.seconds)
    linked = og.version()
    version = f"{linked['major']}.{linked['minor']}.{linked['patch']}"
    load_before = os.getloadavg()[0]
    print(
        f"benchdnn {built.onednn.version}, our oneDNN {version} ({linked['cpu_runtime']}), "
        f"threads: {setting.threads}, files: {len(files)}, load average: {load_before:.1f}"
    )
    sections = given.sections or SECTIONS
    read = show_readings(files, setting) if "read" in sections else []
    timed = show_timings(files, setting) if "time" in sections else []
    if given.json is not None:
        record = {
            "benchdnn": built.onednn.version,
            "onednn": version,
            "threads": setting.threads,
            "load_average": [load_before, os.getloadavg()[0]],
            "read": [asdict(r) for r in read],
            "time": [
                asdict(t)
                | ({"ratio": t.ratio, "noise": t.noise, "within_noise": t.within_noise}
                   if t.measured else {})
                for t in timed
            ],
        }  # fmt: skip
        given.json.write_text(json.dumps(record, indent=1) + "\n")
    return int(any(r.agrees is False for r in read))


if __name__ == "__main__":
    sys.exit(main())
