"""Graph JSON that was made wrong at random raises one clear error, or is read and comes back."""

import collections
import json
import os
import sys
from pathlib import Path

import json_mutations
import pytest
from mutation_worker import BOUND, check, run_worker

WORKER = Path(json_mutations.__file__)


def test_two_thousand_mutated_files_give_typed_errors_or_come_back():
    counted = check(WORKER, 0, 2000, 1)
    # Enough of them get past the parser, and some are right.
    stages = collections.Counter(key.split()[0] for key in counted.elements())
    assert min(stages["parse"], stages["graph"], stages["all"]) > 100, counted


@pytest.mark.slow
def test_a_hundred_thousand_mutated_files_give_typed_errors_or_come_back():
    check(WORKER, 1_000_000, 100_000, os.cpu_count() or 1)


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
