"""Files made wrong by seed, read in processes that may crash, hang or take memory: `check`, `work`.

A module with ``mutated(seed)`` and ``outcome(data)`` is the program of such a process, by `work`:
``MODULE.py FIRST LAST`` says which seed it starts, and how it ended; ``MODULE.py SEED`` shows one
file and what becomes of it.
"""

import collections
import itertools
import os
import resource
import select
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from peaks import peak_within

BOUND = 60.0
"""Seconds for one file, on a machine that does other things too; most take some milliseconds."""

SECONDS, BYTES, MEMORY = 15, 1 << 30, 4 << 30
"""What one file may take of the CPU's time and of memory; addresses of the process in all."""


def run_worker(command: list[str], bound: float) -> tuple[list[str], str | None]:
    """Read a worker's lines; kill it when a line takes longer than `bound` seconds.

    Returns the outcomes, and what was wrong with the worker, if anything.
    """
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert worker.stdout is not None and worker.stderr is not None
    read: list[str] = []
    pending = b""
    try:
        while True:
            if not select.select([worker.stdout], [], [], bound)[0]:
                return read, f"no answer within {bound} s after: {read[-1] if read else 'nothing'}"
            chunk = os.read(worker.stdout.fileno(), 1 << 16)
            *lines, pending = (pending + chunk).split(b"\n")
            read += [line.decode(errors="replace") for line in lines]
            if not chunk:
                break
        if worker.wait() != 0:
            said = worker.stderr.read()[-1500:].decode(errors="replace")
            return read, f"status {worker.returncode} after: {read[-1] if read else ''}: {said}"
        return read, None
    finally:
        worker.kill()
        worker.wait()
        worker.stdout.close()
        worker.stderr.close()


def check(program: Path, first: int, count: int, workers: int) -> collections.Counter[str]:
    """Run seeds; count the outcomes by stage and class of error."""
    cuts = [first + count * i // workers for i in range(workers + 1)]
    commands = [
        [sys.executable, str(program), str(start), str(end)]
        for start, end in itertools.pairwise(cuts)
    ]
    with ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(lambda command: run_worker(command, BOUND), commands))
    lines = [line for read, _ in results for line in read]
    faults = [fault for _, fault in results if fault is not None]
    faults += [line for line in lines if line.startswith("end ") and " WRONG " in line]
    assert not faults, f"see `python {program} SEED`:\n" + "\n".join(faults[:5])
    ends = [line.split() for line in lines if line.startswith("end ")]
    assert len(ends) == count
    return collections.Counter(" ".join(words[2:4]) for words in ends)


def work(mutated: Callable[[int], bytes], outcome: Callable[[bytes], str]) -> None:
    """Be the program of one module's files."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if len(sys.argv) == 2:
        data = mutated(int(sys.argv[1]))
        print(data[:20_000].decode(errors="replace"))
        print(outcome(data))
        return
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        print(f"start {seed}", flush=True)
        try:
            data, began = mutated(seed), time.process_time()
            with peak_within(BYTES):
                told = outcome(data)
            took = time.process_time() - began
            assert took < SECONDS, f"{took:.1f} s"
        except Exception as e:
            told = f"WRONG {type(e).__name__}: {e}".replace("\n", " ")
        print(f"end {seed} {told[:300].encode(errors='replace').decode()}", flush=True)
