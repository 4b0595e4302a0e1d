"""What ``./dev landing``, which CI runs, and ``./dev nightly`` run, and how."""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from onednn_recipe.process import stop_group

DEV = Path(__file__).resolve().parent.parent / "dev"

# A lane runs its commands one after the other, beside the other lane: most keep one core busy. An
# environment that a command changes (an extra, the package) is of one lane only.
OURS, PYPI = "with our oneDNN", "with PyPI's"
# What stands in no other's way, or looks at times, runs when both lanes have ended.
ALONE = "alone"

# What depends on the CPU's instructions, once more with oneDNN held to fewer of them.
HELD_SHORT = """tests/ops/test_ops_agreement.py tests/ops/test_reference_forward.py
    tests/safety/test_defects.py"""
HELD = f"""{HELD_SHORT} tests/safety/test_patterns.py tests/ops/test_reference_backward.py
    tests/model/test_random.py tests/blocks/test_blocks.py"""
# Memory, and that the sanitizers see a fault.
MEMORY = """tests/project/test_sanitizers.py tests/mirror/test_execution.py
    tests/mirror/test_lifetime.py tests/mirror/test_tensor.py tests/model/test_views.py"""

# Slow tests of torch, those that only the newest oneDNN has, and those of numbers and memory.
SLOW = """tests/frontends/test_torch_draws.py tests/frontends/test_torch_models.py
    tests/frontends/test_torch_peers.py tests/frontends/test_onnx_ops.py tests/model/test_random.py
    tests/safety/test_corpus.py tests/safety/test_fuzz.py"""


class Stage(NamedTuple):
    """A command of ./dev."""

    sets: str
    """The sets that it belongs to: landing, nightly or both."""

    lane: str
    command: str


STAGES = (
    Stage("landing nightly", OURS, "test"),
    Stage("landing nightly", OURS, "examples"),
    Stage("nightly", OURS, "patterns --no-time"),
    Stage("landing", OURS, f"test --sanitize=address,undefined {MEMORY}"),
    Stage("nightly", OURS, "test --sanitize=address,undefined"),
    Stage("nightly", OURS, "test --sanitize=thread"),
    Stage("nightly", OURS, f"test --isa=avx2 {HELD}"),
    Stage("nightly", OURS, f"test --isa=avx512_core {HELD}"),
    Stage("landing nightly", OURS, "torch"),
    Stage("landing nightly", OURS, "onnx"),
    Stage("nightly", OURS, "notebooks"),
    Stage("nightly", OURS, "ray"),
    # After what installs torch, onnx and Ray, so that all of them run. Torch's take longest, so
    # that one lane runs them; what numbers and memory depend on runs with both oneDNNs.
    Stage("nightly", OURS, "test -m slow --durations=20 --ignore-glob=*/test_torch_*"),
    Stage("landing nightly", PYPI, "lint"),
    Stage("landing nightly", PYPI, "docs"),
    Stage("landing", PYPI, 'test --onednn=pypi -m "not slow and not project"'),
    Stage("nightly", PYPI, "test --onednn=pypi"),
    Stage("landing nightly", PYPI, "examples --onednn=pypi"),
    Stage("landing", PYPI, f"test --onednn=pypi --isa=avx2 {HELD_SHORT}"),
    Stage("nightly", PYPI, f"test --onednn=pypi --isa=avx2 {HELD}"),
    Stage("nightly", PYPI, f"test --onednn=pypi --isa=avx512_core {HELD}"),
    Stage("nightly", PYPI, "patterns --no-time --onednn=pypi"),
    Stage("nightly", PYPI, "torch --onednn=pypi"),
    Stage("nightly", PYPI, "onnx --onednn=pypi"),
    Stage("nightly", PYPI, "notebooks --onednn=pypi"),
    Stage("nightly", PYPI, f"test --onednn=pypi -m slow --durations=20 {SLOW}"),
    Stage("nightly", ALONE, "screens"),
    Stage("nightly", ALONE, "screens --onednn=pypi"),
)


class _Running:
    """A command at work; its output goes to a file, and is shown when it is over."""

    def __init__(self, command: str) -> None:
        self.command = " ".join(command.split())
        print(f"-- starts: ./dev {self.command}", flush=True)
        self._start = time.monotonic()
        self._output: IO[str] = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, str(DEV), *shlex.split(command)],
            stdin=subprocess.DEVNULL, stdout=self._output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip

    def over(self) -> list[str] | None:
        """The row of the table, as soon as there is one."""
        pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
        if not pid:
            return None
        self.process.returncode = os.waitstatus_to_exitcode(status)
        took, cpu = time.monotonic() - self._start, used.ru_utime + used.ru_stime
        result = "FAILED" if status else "passed"
        return [_short(self.command), result, *_counts(self.show()), f"{took:.0f}", f"{cpu:.0f}"]

    def show(self) -> str:
        """Print and return the output."""
        with self._output as file:
            file.seek(0)
            output = file.read()
        print(f"\n-- ./dev {self.command}\n{output}", flush=True)
        return output


def run(name: str) -> int:
    """Run the stages of a set, also when one has failed; return the exit status."""
    # A shell lets what it starts in the background ignore interrupts, which tests send.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    chosen = [stage for stage in STAGES if name in stage.sets.split()]
    rows = []
    for lanes in ((OURS, PYPI), (ALONE,)):
        rows += _beside([[s.command for s in chosen if s.lane == lane] for lane in lanes])
    _print_table([["./dev", "result", "passed", "failed", "skipped", "s", "CPU s"], *rows])
    return int(any(row[1] == "FAILED" for row in rows))


def _beside(lanes: list[list[str]]) -> list[list[str]]:
    """Run each lane's commands in turn, the lanes at the same time; return rows of the table."""
    rows = []
    running: dict[int, _Running] = {}
    try:
        while running or any(lanes):
            for number, lane in enumerate(lanes):
                if number not in running and lane:
                    command = lane.pop(0)
                    if why := _pointless(shlex.split(command)):
                        rows.append([_short(command), why, *_counts(""), "0", "0"])
                    else:
                        running[number] = _Running(command)
            for number, stage in list(running.items()):
                if row := stage.over():
                    rows.append(row)
                    del running[number]
            time.sleep(0.2)
    finally:
        for stage in running.values():
            stop_group(stage.process)
            stage.show()
    return rows


def _pointless(command: Sequence[str]) -> str | None:
    """Why this CPU is not to run a command that is held to an instruction set."""
    held = [word.partition("=")[2] for word in command if word.startswith("--isa=")]
    if not held:
        return None
    where = [word for word in command if word.startswith("--onednn=")]
    asked = [sys.executable, str(DEV), "isa", *where]
    isas = subprocess.run(asked, stdout=subprocess.PIPE, text=True).stdout.split()
    if isas and held[0] not in isas:
        return "skipped: this CPU lacks it"
    return "skipped: all tests use it" if held[0] in isas[-1:] else None


def _short(command: str) -> str:
    return textwrap.shorten(command, 60, placeholder=" ...")


def _counts(output: str) -> list[str]:
    """How many tests passed, failed and were skipped, by pytest's closing lines."""
    lines = re.findall(r"^=+ (.* in [\d.]+s.*) =+$", output, re.MULTILINE)
    words = (r"passed|xfailed", r"failed|errors?", r"skipped")
    found = [
        [int(n) for n in re.findall(rf"\b(\d+) (?:{word})\b", " ".join(lines))] for word in words
    ]
    return [str(sum(numbers)) if lines else "" for numbers in found]


def _print_table(rows: list[list[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        texts = [
            cell.ljust(widths[i]) if i < 2 else cell.rjust(widths[i]) for i, cell in enumerate(row)
        ]
        print("  ".join(texts))
