"""Graph JSON that was made wrong at random raises one clear error, or is read and comes back."""

import collections
import itertools
import json
import os
import select
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import json_mutations
import pytest

WORKER = Path(json_mutations.__file__)
# For one file, on a machine that does other things too; they take a millisecond.
BOUND = 60.0


def run_worker(command: list[str], bound: float) -> tuple[list[str], str | None]:
    """Read a worker's lines; kill it when a line takes longer than `bound` seconds.

    Returns the outcomes, and what was wrong with the worker, if anything.
    """
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert worker.stdout is not None and worker.stderr is not None
    read, pending = [], b""
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


def check(first: int, count: int, workers: int) -> collections.Counter[str]:
    """Run seeds; count the outcomes by stage and class of error."""
    cuts = [first + count * i // workers for i in range(workers + 1)]
    commands = [
        [sys.executable, str(WORKER), str(start), str(end)]
        for start, end in itertools.pairwise(cuts)
    ]
    with ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(lambda command: run_worker(command, BOUND), commands))
    lines = [line for read, _ in results for line in read]
    faults = [fault for _, fault in results if fault is not None]
    faults += [line for line in lines if line.startswith("end ") and " WRONG " in line]
    assert not faults, f"see `python {WORKER} SEED`:\n" + "\n".join(faults[:5])
    ends = [line.split() for line in lines if line.startswith("end ")]
    assert len(ends) == count
    return collections.Counter(" ".join(words[2:4]) for words in ends)


def test_two_thousand_mutated_files_give_typed_errors_or_come_back():
    counted = check(0, 2000, 1)
    # Enough of them get past the parser, and some are right.
    stages = collections.Counter(key.split()[0] for key in counted.elements())
    assert min(stages["parse"], stages["graph"], stages["all"]) > 100, counted


@pytest.mark.slow
def test_a_hundred_thousand_mutated_files_give_typed_errors_or_come_back():
    check(1_000_000, 100_000, os.cpu_count() or 1)


def test_the_samples_themselves_are_right():
    pools = {**json_mutations.samples(), **json_mutations.single_ops()}
    told = {name: json_mutations.outcome(json.dumps(f).encode()) for name, f in pools.items()}
    assert {name: t for name, t in told.items() if t != "all"} == {}
    assert len(told) > 80


def test_a_worker_that_hangs_is_killed_and_named():
    script = "import time; print('start 7', flush=True); time.sleep(600)"
    read, fault = run_worker([sys.executable, "-c", script], bound=2.0)
    assert read == ["start 7"]
    assert fault == "no answer within 2.0 s after: start 7"


def test_a_worker_that_crashes_is_named():
    script = "import os; print('start 8', flush=True); os.abort()"
    _, fault = run_worker([sys.executable, "-c", script], bound=BOUND)
    assert fault is not None and fault.startswith("status -6 after: start 8")
