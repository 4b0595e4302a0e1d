"""Every benchmark runs; how fast is for people to read, not for tests."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
QUICK = ["--quick", "--threads", "1", "--rounds", "2"]
SHORT = {
    "arrays": ["--size", "32", "--rounds", "1", "--peers"],
    "forms": ["--quick", "--seconds", "0.05"],
    "fusions": ["--rounds", "2", "--seconds", "0.1"],
    "overhead": ["--calls", "100", "--rounds", "2"],
    "run": ["call", "weights", "encoder", "shapes", *QUICK, "--peers"],
    "workers": ["--workers", "1", "--rounds", "1", "--seconds", "0.2", "--width", "128"],
}
TELLS = {
    "arrays": "times ours",
    "forms": "Default over fastest",
    "fusions": "model/apart",
    "workers": "batches/s",
}
# One builds a program of oneDNN's first, for minutes; the others need torch or onnxruntime.
ELSEWHERE = {
    "accuracy": "frontends/test_onnx_decoder.py",
    "benchdnn": "tools/test_benchdnn.py",
    "calls": "frontends/test_onnx_model.py",
    "onnx_files": "frontends/test_onnx_rivals.py",
}


def test_every_benchmark_has_a_test():
    assert {path.stem for path in BENCHMARKS.glob("[!_]*.py")} == {*SHORT, *ELSEWHERE}
    assert all((Path(__file__).parents[1] / name).is_file() for name in ELSEWHERE.values())


@pytest.mark.parametrize("name", SHORT)
def test_the_benchmark_runs(name, tmp_path):
    done = subprocess.run(
        [sys.executable, BENCHMARKS / f"{name}.py", *SHORT[name]],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert TELLS.get(name, "over C++") in done.stdout


@pytest.mark.slow  # torch compiles for some minutes
def test_the_benchmark_runs_with_all_peers_that_are_there(tmp_path):
    command = [sys.executable, BENCHMARKS / "run.py", *QUICK, "--json", "made.json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert "from NumPy" in done.stdout
    records = json.loads((tmp_path / "made.json").read_text())["results"]
    said = {record["status"] for record in records if "status" in record}
    # A library may lack what we compare, but what it computes is right.
    assert not [s for s in said if not s.startswith(("not installed", "not supported"))]
