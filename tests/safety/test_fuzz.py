"""Random graphs neither crash the interpreter nor touch memory beside their buffers."""

import subprocess
import sys
from pathlib import Path

import fuzz
import pytest

WORKER = Path(fuzz.__file__)


def run_seeds(first: int, last: int, folder: Path) -> tuple[list[str], list[str]]:
    """Run a range of seeds; return the outcomes, and the seeds at which a worker died."""
    outcomes: list[str] = []
    deaths: list[str] = []
    while first < last:
        done = subprocess.run(
            [sys.executable, WORKER, str(first), str(last)],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        lines = done.stdout.splitlines()
        outcomes += [line.split(" ", 2)[2] for line in lines if line.startswith("end ")]
        if done.returncode == 0:
            return outcomes, deaths
        running = [line for line in lines if line.startswith("start ")]
        assert running, done.stderr
        seed = int(running[-1].split()[1])
        deaths.append(f"seed {seed}: status {done.returncode}: {done.stderr[-1500:]}")
        first = seed + 1
    return outcomes, deaths


def check(first: int, count: int, folder: Path) -> None:
    outcomes, deaths = run_seeds(first, first + count, folder)
    assert not deaths, (
        f"{len(deaths)} of {count}; see `python tests/helpers/fuzz.py SEED`:\n" + deaths[0]
    )
    beside = [outcome for outcome in outcomes if "outside the buffer" in outcome]
    assert not beside
    # The cases must be worth something: a good part of them is valid and computes.
    executed = [o for o in outcomes if o.startswith("executed") and o != "executed 0"]
    assert len(executed) > count / 5


def test_random_graphs_run_or_raise(tmp_path):
    check(0, 400, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", [1_000_000, 2_000_000, 3_000_000])
def test_many_random_graphs_run_or_raise(tmp_path, first):
    check(first, 3000, tmp_path)


def test_a_buffer_ends_where_memory_ends():
    buffer = fuzz.GuardedBuffer(12, 4)
    assert buffer.bytes.size == 12
    assert (buffer.address + 12) % fuzz.PAGE == 0
    buffer.check()
    buffer._slack[0][-1] = 0
    with pytest.raises(AssertionError, match="written outside"):
        buffer.check()


def test_every_op_kind_is_among_the_cases():
    count = len(fuzz.KINDS)
    for turn, kind in enumerate(fuzz.KINDS):  # half of the seeds of its turn draw it
        seeds = range(turn, 4000, count)
        assert any(kind in {o.kind for o in fuzz.make_case(seed).ops} for seed in seeds), kind
