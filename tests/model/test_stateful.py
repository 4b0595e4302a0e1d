"""Random sequences of all that mirror and models can do (stateful.py), in other processes."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import stateful

WORKER = Path(stateful.__file__)
SHOWN = 60  # lines of the steps before a failure


def run(first: int, steps: int, folder: Path, seconds: int) -> None:
    """Run a worker; if it fails or dies, fail with its seed, its last steps and what it said."""
    try:
        done = subprocess.run(
            [sys.executable, WORKER, str(first), str(steps)],
            cwd=folder,
            env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
            capture_output=True,
            text=True,
            timeout=seconds,
        )
        status, output, errors = f"status {done.returncode}", done.stdout, done.stderr
        if done.returncode == 0:
            names = re.findall(r"^step \d+ (\w+)", output, re.MULTILINE)
            assert len(names) >= steps
            assert set(names) == stateful.STEPS, "a step is never made"
            return
    except subprocess.TimeoutExpired as late:
        status = f"more than {seconds} s"
        output, errors = ((t or b"").decode() for t in (late.stdout, late.stderr))
    seed = [line for line in output.splitlines() if line.startswith("seed ")][-1:]
    last = "\n".join(output.rpartition("begin")[2].splitlines()[-SHOWN:])
    pytest.fail(
        f"{status}, {seed}; `python tests/helpers/stateful.py SEED 1 shrink` repeats it\n"
        f"steps of the last machine:{last}\n{errors[-6000:]}"
    )


def test_random_steps_hold_what_is_promised(tmp_path):
    run(0, 1000, tmp_path, 600)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000_000, 1_010_000, 1000))
def test_many_random_steps_hold_what_is_promised(tmp_path, first):
    run(first, 10_000, tmp_path, 3000)


def test_a_crash_is_reported_with_its_seed_and_steps(tmp_path, monkeypatch):
    """The worker dies in a step: a machine whose first rule ends the process."""
    worker = tmp_path / "dying.py"
    worker.write_text(
        f"import sys; sys.path.insert(0, {str(WORKER.parent)!r})\n"
        "import ctypes, stateful\n"
        "stateful.calls.misuse_unfinished = lambda draft: ctypes.string_at(0)\n"
        "stateful.main(7, 1000)\n"
    )
    monkeypatch.setattr(sys.modules[__name__], "WORKER", worker)
    with pytest.raises(pytest.fail.Exception, match=r"(?s)status -11, .'seed 7'.*step .*draft"):
        run(7, 1000, tmp_path, 600)
