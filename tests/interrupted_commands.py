"""Commands and other processes that are ended while they work, and what they leave behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import onednn_graph_py as og

# On an idle machine a command ends within 2 seconds; tests run where others work, too.
BOUND = 20.0
STARTING = 120.0


def long_graph() -> str:
    """Return a graph whose reference takes minutes, and whose compilation takes little."""
    b = og.GraphBuilder()
    x, y = (b.input((4096, 4096), "f32") for _ in range(2))
    z = x
    for _ in range(12):
        z = z @ y
    b.output(z)
    return b.to_json()


def wide_graph() -> str:
    """Return a graph of many partitions, for commands that time each."""
    b = og.GraphBuilder()
    x, y = (b.input((64, 64), "f32") for _ in range(2))
    for _ in range(30):
        x = (x @ y).softmax(axis=1)
    b.output(x)
    return b.to_json()


COMMANDS: dict[str, list[str]] = {
    "capabilities": ["capabilities", "--refresh"],
    "capture": ["capture", "-o", "captured", "--", "sleep", "600"],
    "compare": ["compare", "--threads", "1,2", "--seconds", "600", "wide.json"],
    "explain": ["explain", "--seconds", "600", "wide.json"],
    "log": ["log", "-"],
    "patterns": ["patterns"],
    "replay": ["replay", "--verify", "long.json"],
    "selftest": ["selftest", "--minutes", "10", "--json", "found.json"],
    "shrink": ["shrink", "--while", "crash", "--timeout", "600", "-o", "small.json", "long.json"],
}
HELPED = {"compare", "replay", "selftest", "shrink"}


@dataclass
class Left:
    """How a command ended, and what was there after it."""

    status: int
    seconds: float
    errors: str
    processes: list[str]
    files: list[str] = field(default_factory=list)


def members(session: int) -> dict[int, tuple[float, str]]:
    """Return the living processes of a session: seconds on the CPU, and command."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if int(stat[3]) == session and stat[0] not in "ZX":
            ticks = int(stat[11]) + int(stat[12])
            found[int(entry.name)] = (ticks / os.sysconf("SC_CLK_TCK"), command[:80])
    return found


def alive(pid: int) -> bool:
    """Whether a process lives, and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def listen_to_signals() -> None:
    """Undo what a test run under nohup, or in the background of a script, has ignored."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def wait_until(condition, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def own_seconds() -> float:
    """Return the seconds on the CPU in which a process imports this package."""
    code = "import onednn_graph_py.cli, os; print(sum(os.times()[:2]))"
    return float(subprocess.check_output([sys.executable, "-c", code]))


def at_work(name: str, process: subprocess.Popen[bytes], starting: float) -> bool:
    """Whether a command has begun with what takes long."""
    found = members(process.pid)
    helpers = [seconds for pid, (seconds, _) in found.items() if pid != process.pid]
    if name in ("capabilities", "capture"):
        return bool(helpers)
    if name in HELPED:
        return max(helpers, default=0.0) > starting or len(helpers) > 1
    return process.pid in found and found[process.pid][0] > 1.2 * starting + 0.1


def end(name: str, number: int, *, group: bool, starting: float) -> Left:
    """Start a command, send a signal to it while it works, and wait for its end."""
    with tempfile.TemporaryDirectory(prefix="interrupted-") as given:
        folder = Path(given)
        (folder / "temporary").mkdir()
        (folder / "long.json").write_text(long_graph())
        (folder / "wide.json").write_text(wide_graph())
        process = subprocess.Popen(
            [sys.executable, "-m", "onednn_graph_py", *COMMANDS[name]],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={
                **os.environ,
                "ONEDNN_GRAPH_PY_CACHE": str(folder / "cache"),
                "TMPDIR": str(folder / "temporary"),
                "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
            },
            start_new_session=True,
            preexec_fn=listen_to_signals,
        )
        assert process.stdin is not None
        try:
            if name == "log":  # what is more than a pipe holds is taken once the command reads
                process.stdin.write(b"no line of oneDNN\n" * 20_000)
                process.stdin.flush()
            else:
                begun = wait_until(lambda: at_work(name, process, starting), STARTING)
                assert begun, f"{name} does not begin: {members(process.pid)}"
            assert process.poll() is None, f"{name} has ended: {process.stderr.read()!r}"
            began = time.monotonic()
            (os.killpg if group else os.kill)(process.pid, number)
            process.wait(STARTING)
            seconds = time.monotonic() - began
            # Where the command was killed, its helpers see that and end.
            wait_until(lambda: not members(process.pid), BOUND if number == signal.SIGKILL else 1)
            left = [command for _, command in members(process.pid).values()]
        finally:
            for pid in members(process.pid):
                os.kill(pid, signal.SIGKILL)
            _, errors = process.communicate()
        files = [
            str(f.relative_to(folder))
            for f in folder.rglob("*")
            if f.is_file() and f.name not in ("long.json", "wide.json")
        ]
        return Left(process.returncode, seconds, errors.decode(), left, files)
