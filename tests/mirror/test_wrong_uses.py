"""No wrong use crashes the interpreter: each raises, and says what was wrong."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import wrong_uses

WORKER = Path(wrong_uses.__file__)
# For all cases together; one alone takes milliseconds.
TIMEOUT = 240


def worker_results(names: list[str], folder: Path) -> dict[str, dict]:
    """Run cases in a worker; when it dies, the case it was at is to blame and the rest goes on."""
    results: dict[str, dict] = {}
    left = list(names)
    while left:
        try:
            done = subprocess.run(
                [sys.executable, WORKER, *left],
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
            )
            status, output = done.returncode, done.stdout
        except subprocess.TimeoutExpired as error:
            status, output = "hung", (error.stdout or b"").decode()
        running = None
        for line in output.splitlines():
            if not line.startswith("{"):
                continue
            told = json.loads(line)
            if "start" in told:
                running = told["start"]
            else:
                results[told["end"]] = told
                running = None
        if running is None:
            assert status == 0, f"the worker ended with {status}: {done.stderr}"
            break
        results[running] = {"raised": [], "message": f"the process ended with {status}"}
        left = left[left.index(running) + 1 :]
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return worker_results(list(wrong_uses.CASES), tmp_path_factory.mktemp("wrong"))


def test_there_are_at_least_550_wrong_uses():
    assert len(wrong_uses.CASES) >= 550


@pytest.mark.parametrize("name", wrong_uses.CASES)
def test_a_wrong_use_raises(name, results):
    (run, raises, says), result = wrong_uses.CASES[name], results[name]
    kinds = result["raised"] if raises == "OneDNNError" else result["raised"][:1]
    assert set(raises.split("|")) & set(kinds), f"{run}: {kinds}: {result['message']}"
    assert re.search(says, result["message"], re.DOTALL), f"{run}: {result['message']}"


def test_a_crash_is_attributed_to_its_case_and_the_rest_goes_on(tmp_path, monkeypatch):
    worker = tmp_path / "worker.py"
    worker.write_text(
        "import json, os, sys\n"
        "for name in sys.argv[1:]:\n"
        "    print(json.dumps({'start': name}), flush=True)\n"
        "    if name == 'b': os.abort()\n"
        "    end = {'end': name, 'raised': ['TypeError'], 'message': name}\n"
        "    print(json.dumps(end), flush=True)\n"
    )
    monkeypatch.setattr(sys.modules[__name__], "WORKER", worker)
    results = worker_results(["a", "b", "c"], tmp_path)
    assert results["b"]["message"] == "the process ended with -6"
    assert [results[name]["raised"] for name in "ac"] == [["TypeError"]] * 2
