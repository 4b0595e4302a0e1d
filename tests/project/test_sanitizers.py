"""Runs with sanitizers: what is set for them, and that they see what they are for."""

import subprocess
import sys
from pathlib import Path

import pytest
import sanitizers
from graphs import SANITIZERS

import onednn_graph_py as og

EXTENSION = Path(og._core.__file__)
FAULTS = {
    "asan": "libc.malloc.restype = ctypes.c_void_p\n"
    "libc.memset(ctypes.c_void_p(libc.malloc(8)), 0, 9)",
    # One byte only: TSan looks at each on which two threads collide, which takes long.
    "tsan": "at, (out, into) = ctypes.create_string_buffer(1), os.pipe()\n"
    "both = [threading.Thread(target=libc.read, args=(out, at, 1)) for _ in range(2)]\n"
    "[t.start() for t in both]; time.sleep(0.5)  # both wait, without the GIL\n"
    "os.write(into, b'ab'); [t.join() for t in both]",
}
"""What Python can do wrong without the extension, by the sanitizer that sees it."""


def sanitized(name: str):
    """Skip where the process runs without a sanitizer."""
    return pytest.mark.skipif(
        name not in SANITIZERS, reason=f"{name} runs with ./dev test --sanitize"
    )


@pytest.mark.parametrize("names", sanitizers.KNOWN)
def test_processes_are_told_where_reports_go(names, tmp_path):
    variables = sanitizers.environment(names, EXTENSION, tmp_path)
    for tool in ("ASAN", "UBSAN", "TSAN"):
        assert f"log_path={tmp_path}/report" in variables[f"{tool}_OPTIONS"]
    assert "libstdc++.so" in variables["LD_PRELOAD"]
    assert ("PYTHONMALLOC" in variables) == ("address" in names)
    rules = [
        line
        for line in (tmp_path / "suppressions.txt").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert len(rules) >= 3
    assert not [rule for rule in rules if "_core" in rule or "ogp" in rule]


def test_only_findings_count_as_reports(tmp_path):
    texts = {
        "1": "==1==WARNING: AddressSanitizer failed to allocate 0x80 bytes",
        "2": "==2==ERROR: AddressSanitizer: heap-use-after-free",
        "3": "WARNING: ThreadSanitizer: data race (pid=3)",
        "4": "bindings/op.cpp:3:4: runtime error: shift exponent 32 is too large",
    }
    for process, text in texts.items():
        (tmp_path / f"report.{process}").write_text(text)
    assert sanitizers.reports(tmp_path) == [texts["2"], texts["3"], texts["4"]]


@pytest.mark.parametrize(
    ("name", "symbol"),
    [
        pytest.param("asan", "__asan_report_store", marks=sanitized("asan")),
        pytest.param("tsan", "__tsan_write", marks=sanitized("tsan")),
        pytest.param("ubsan", "__ubsan_handle", marks=sanitized("ubsan")),
    ],
)
def test_the_extension_calls_the_sanitizer(name, symbol):
    names = subprocess.check_output(["nm", "-D", "--undefined-only", str(EXTENSION)], text=True)
    assert symbol in names


@pytest.mark.parametrize("name", [pytest.param(n, marks=sanitized(n)) for n in FAULTS])
def test_a_fault_is_reported(name, tmp_path, monkeypatch):
    names = {"asan": "address", "tsan": "thread"}[name]
    for variable, value in sanitizers.environment(names, EXTENSION, tmp_path).items():
        monkeypatch.setenv(variable, value)
    program = f"import ctypes, os, threading, time\nlibc = ctypes.CDLL(None)\n{FAULTS[name]}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode != 0
    (report,) = sanitizers.reports(tmp_path)
    assert {"asan": "heap-buffer-overflow", "tsan": "data race"}[name] in report
