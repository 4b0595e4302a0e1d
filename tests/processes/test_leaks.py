"""Whatever is done again and again leaves nothing behind: leak_cases.py says what, leaks.py how."""

import contextlib
import ctypes
import json
import os
import re
import subprocess
import sys
import threading
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import leak_cases
import leaks
import pytest

WORKER = Path(leak_cases.__file__)

pytestmark = pytest.mark.skipif(leaks.missing() is not None, reason=str(leaks.missing()))


def worked(scale: int, *names: str) -> dict[str, dict]:
    """Run the worker; return what it says of each case."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(WORKER), str(scale), *names],
        env={**os.environ, **leaks.ENVIRONMENT},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"case"')]
    return {told["case"]: told for told in map(json.loads, lines)}


@pytest.fixture(scope="module")
def short() -> dict[str, dict]:
    """The outcomes of all cases, with as few rounds as show a leak."""
    return worked(1)


@pytest.mark.parametrize("name", leak_cases.CASES)
def test_nothing_is_left_behind(short, name):
    assert short[name]["grown"] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", leak_cases.CASES)
def test_nothing_is_left_behind_by_many_rounds(name):
    assert worked(20, name)[name]["grown"] == []


def test_every_public_operation_is_in_a_case(short):
    called = {name for told in short.values() for name in told["calls"]}
    assert set(leak_cases.operations()) - called == set()


def test_every_public_module_has_cases_or_a_reason():
    text = "".join(page.read_text() for page in (WORKER.parents[2] / "docs/api").glob("*.rst"))
    listed = set(re.findall(r"\.\. (?:auto|current)module:: (\S+)", text))
    assert len(listed) > 10
    assert listed - {module.__name__ for module in leak_cases.MODULES} == set(leak_cases.ELSEWHERE)


# -- what counts as left behind


class Leaky:
    """Leaves something behind at each call."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.kept: list[object] = []
        self.ends = threading.Event()

    def __call__(self) -> None:
        if self.what == "bytes":
            self.kept.append(ctypes.CDLL(None).malloc(8))
        elif self.what == "file descriptors":
            self.kept.append(os.fdopen(os.open(os.devnull, os.O_RDONLY)))
        elif self.what == "threads":
            self.kept.append(threading.Thread(target=self.ends.wait, daemon=True))
            self.kept[-1].start()
        elif self.what == "processes":
            self.kept.append(subprocess.Popen(["sleep", "60"]))
        elif self.what.endswith("shared memory"):
            self.kept.append(SharedMemory(create=True, size=1))
            if self.what.startswith("mappings"):
                self.kept[-1].unlink()
            else:
                self.kept[-1].close()

    def clean(self) -> None:
        """End what was left."""
        self.ends.set()
        for one in self.kept:
            if isinstance(one, subprocess.Popen):
                one.kill()
                one.wait()
            elif hasattr(one, "close"):
                one.close()
            if isinstance(one, SharedMemory):
                with contextlib.suppress(FileNotFoundError):
                    one.unlink()


@pytest.mark.parametrize(
    "what",
    [
        "bytes",
        "file descriptors",
        "threads",
        "processes",
        "mappings of shared memory",
        "segments of shared memory",
    ],
)
def test_a_leak_is_seen(what):
    leaky = Leaky(what)
    try:
        grown = leaks.growth(leaky, 1000 if what == "bytes" else 2, warm=0)
    finally:
        leaky.clean()
    assert any(
        line.endswith(f" {what} in {1000 if what == 'bytes' else 2} rounds") for line in grown
    )


def test_what_is_dropped_again_is_no_leak():
    kept: list[object] = []

    def changes():
        kept[:] = [bytearray(1000), object()]

    assert leaks.growth(changes, 50) == []
