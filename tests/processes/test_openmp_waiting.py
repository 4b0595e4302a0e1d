"""OpenMP's threads wait briefly, and nothing of the process shows that they were told to."""

import os
import re
import subprocess
import sys

import pytest
from graphs import RUNTIME

import onednn_graph_py as og

pytestmark = pytest.mark.skipif(
    RUNTIME != "OpenMP", reason=f"this oneDNN runs on {RUNTIME}, whose threads sleep"
)

LOAD = "import onednn_graph_py as og"
# A libgomp that another library has loaded.
BEFORE = "import ctypes; ctypes.CDLL('libgomp.so.1')"
EXPLAIN = """
import numpy as np
b = og.GraphBuilder()
b.output(b.input((4,), "f32").relu())
print(b.compile().explain(seconds=0))
"""


def run(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program; libgomp tells its settings on stderr, once for each time it is loaded."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**kept, "OMP_DISPLAY_ENV": "VERBOSE", **variables},
        text=True,
        capture_output=True,
        check=True,
    )


def spin_counts(done: subprocess.CompletedProcess[str]) -> list[str]:
    return re.findall(r"GOMP_SPINCOUNT = '(\w+)'", done.stderr)


def test_threads_wait_briefly():
    assert spin_counts(run(LOAD)) == ["1000"]


@pytest.mark.parametrize(
    "chosen", [{"GOMP_SPINCOUNT": "70"}, {"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": ""}]
)
def test_who_has_chosen_how_threads_wait_gets_that(chosen):
    # What libgomp makes of the same variables where nobody else has a say.
    assert spin_counts(run(LOAD, **chosen)) == spin_counts(run(BEFORE, **chosen)) != []


def test_a_number_of_threads_is_no_choice_of_how_they_wait():
    assert spin_counts(run(LOAD, OMP_NUM_THREADS="2")) == ["1000"]


def test_the_environment_is_as_before_for_python_for_c_and_for_children():
    program = f"""
import ctypes, os, subprocess, sys
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
def seen():
    child = subprocess.run(["env", "-0"], capture_output=True, check=True).stdout
    return dict(os.environ), libc.getenv(b"GOMP_SPINCOUNT"), sorted(child.split(b"\\0"))
before = seen()
{LOAD}
assert seen() == before
assert before[1] is None
"""
    assert spin_counts(run(program)) == ["1000"]


def test_a_libgomp_that_was_loaded_before_is_left_alone_and_explain_says_so():
    done = run(f"{BEFORE}\n{LOAD}\n{EXPLAIN}")
    assert spin_counts(done) == spin_counts(run(BEFORE)) != ["1000"]
    assert re.search(r"another library has them wait, which has loaded /\S*libgomp", done.stdout)


def test_explain_says_nothing_where_threads_wait_briefly():
    assert "libgomp" not in run(f"{LOAD}\n{EXPLAIN}").stdout


def test_a_failed_import_leaves_no_variable(monkeypatch):
    from onednn_graph_py.base.loading import openmp_waiting

    for name in openmp_waiting.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ImportError), openmp_waiting.brief():
        assert b"GOMP_SPINCOUNT=1000" in subprocess.run(["env"], capture_output=True).stdout
        raise ImportError
    assert b"GOMP_SPINCOUNT" not in subprocess.run(["env"], capture_output=True).stdout
    assert og.version().cpu_runtime == "OpenMP"
