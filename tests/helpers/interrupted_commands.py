"""Commands and other processes that are ended while they work, and what they leave behind."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onednn_graph_py as og

# On an idle machine a command ends within 2 seconds; tests run where others work, too. What the
# commands do would take ten minutes.
BOUND = 120.0
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


def small_graph() -> str:
    """Return a graph with which every command ends soon."""
    b = og.GraphBuilder()
    b.output(b.input((4, 8), "f32").relu())
    return b.to_json()


def onnx_model() -> bytes:
    """Return a model that loads and runs at once."""
    import onnx.parser

    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    made: bytes = onnx.parser.parse_model(text).SerializeToString()
    return made


@dataclass(frozen=True)
class Command:
    """The arguments of a command that takes minutes, and of one that takes seconds.

    `helped` says whether helper processes do what takes long, `imports` which module is imported
    before that.
    """

    long: str
    short: str
    status: int = 0  # of the short one
    helped: bool = False
    imports: str = "tools.command_line"


# `ops` and `devices` are over too soon to be interrupted on purpose.
COMMANDS = {
    "capture": Command("-o captured -- sleep 600", "-o captured -- true"),
    "compare": Command(
        "--threads 1,2 --seconds 600 wide.json", "--threads 1 --seconds 0 small.json", helped=True
    ),
    "explain": Command("--seconds 600 wide.json", "--seconds 0.01 small.json"),
    "export": Command("--format cpp-check -o made.cpp long.json", "-o made.py small.json"),
    "onnx": Command("--time --seconds 600 relu.onnx", "relu.onnx", imports="onnx.tools.timing"),
    "replay": Command("--verify long.json", "--verify small.json", helped=True),
    "selftest": Command(
        "--minutes 10 --json -o found.json", "--minutes 0.001 --only ops", helped=True
    ),
    "shrink": Command(
        "--while crash --timeout 600 -o shrunk.json long.json",
        "--while crash small.json",
        status=1,  # it does not crash
        helped=True,
    ),
}
FILES: dict[str, Callable[[], bytes]] = {
    "long.json": lambda: long_graph().encode(),
    "wide.json": lambda: wide_graph().encode(),
    "small.json": lambda: small_graph().encode(),
    "relu.onnx": onnx_model,
}


@dataclass
class Left:
    """How a command ended, what was there after it, and how the next one ended there.

    After one that left no file the next one would find what the first one found, and is not run.
    """

    status: int
    seconds: float
    errors: str
    processes: list[str]
    files: list[str]
    next_status: int | None = None
    next_errors: str = ""


def members(session: int) -> dict[int, tuple[float, str]]:
    """Return the living processes of a session: seconds on the CPU, and command."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            if int(stat[3]) != session or stat[0] in "ZX":
                continue
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        else:
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


def wait_until(condition, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def own_seconds(module: str = "tools.command_line") -> float:
    """Return the seconds on the CPU in which a process imports a module of this package."""
    code = f"import onednn_graph_py.{module}, os; print(sum(os.times()[:2]))"
    return float(subprocess.check_output([sys.executable, "-c", code]))


def at_work(name: str, process: subprocess.Popen[bytes], starting: float) -> bool:
    """Whether a command has begun with what takes long."""
    found = members(process.pid)
    helpers = [seconds for pid, (seconds, _) in found.items() if pid != process.pid]
    if name == "capture":
        return bool(helpers)
    if COMMANDS[name].helped:
        return max(helpers, default=0.0) > starting or len(helpers) > 1
    # Far behind the imports, in which Python may lose an interrupt: it ignores one that comes while
    # it clears the lock of a module. They take longer on a busy machine.
    return process.pid in found and found[process.pid][0] > 1.5 * starting + 0.5


def end(name: str, number: int, *, group: bool, starting: float, cache: Path | None = None) -> Left:
    """Start a command, send a signal to it while it works, and wait for its end.

    The command that follows finds what `cache` holds.
    """
    with tempfile.TemporaryDirectory(prefix="interrupted-") as given:
        folder = Path(given)
        (folder / "temporary").mkdir()
        command = COMMANDS[name]
        words = [[name, *given.split()] for given in (command.long, command.short)]
        for file, content in FILES.items():
            if any(file in line for line in words):
                (folder / file).write_bytes(content())
        process = _started(words[0], folder)
        assert process.stdin is not None
        try:
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
            if f.is_file() and f.name not in FILES
        ]
        found = Left(process.returncode, seconds, errors.decode(), left, files)
        if not files:
            return found
        if cache is not None:
            shutil.copytree(cache, folder / "cache", dirs_exist_ok=True)
        following = _started(words[1], folder)
        try:
            _, after = following.communicate(timeout=STARTING)
        finally:
            following.kill()
        found.next_status, found.next_errors = following.returncode, after.decode()
        return found


def _started(words: list[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start a command with a cache and temporary files of its own folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "onednn_graph_py", *words],
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
    )


def check_left(name: str, number: int, left: Left, kept: str | tuple[str, ...] = "nothing") -> None:
    """Check that a command said that it was ended, and left nothing that disturbs the next one.

    `kept` is how the names of files begin that may be left.
    """
    assert left.status == 128 + number, left
    assert left.seconds < BOUND, left
    if name == "capture":  # the rest is the program's own, if it has begun
        ends = (
            f"; or signal {int(number)} ended it before that\n",
            "capture: interrupted\n",
        )
        assert left.errors.endswith(ends), left
    else:
        assert left.errors.startswith((f"{name}: interrupted", "interrupted")), left
        assert left.errors.count("\n") == 1, left
    assert left.processes == []
    assert [f for f in left.files if not f.startswith(kept)] == []
    assert not any(".partial" in f for f in left.files), left
    check_next(name, left)


def check_next(name: str, left: Left) -> None:
    """Check that a command ran as always after one that was ended and left something."""
    assert left.next_status == (COMMANDS[name].status if left.files else None), left
    assert "Traceback" not in left.next_errors and "Warning" not in left.next_errors, left
