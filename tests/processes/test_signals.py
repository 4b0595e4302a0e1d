"""Ctrl-C and other signals: commands and calls end soon, and leave nothing behind."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import interrupted_commands
import pytest
from graphs import RUNTIME, python
from interrupted_commands import BOUND, COMMANDS, check_left, check_next, end, own_seconds

from onednn_graph_py import sycl_interop
from onednn_graph_py.tools import command_line as cli

# -- commands

# test_onnx_command.py interrupts `onnx`.
CTRL_C = [(name, signal.SIGINT, True) for name in COMMANDS if name != "onnx"]
# Those with helper processes or temporary files, from another process.
ENDED = [
    (name, number, False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for name in {
        signal.SIGINT: ("capture", "shrink"),
        signal.SIGTERM: ("compare", "explain", "selftest"),
        signal.SIGHUP: ("replay",),
    }[number]
]
KILLED = [(name, signal.SIGKILL, False) for name in ("compare", "replay", "shrink")]
# What commands write to by themselves.
KEPT = {
    "compare": "cache/paces/", "explain": "cache/paces/", "selftest": "cache/",
}  # fmt: skip


@pytest.fixture(scope="module")
def ended(request, peaks_folder):
    """What is left of commands that were ended while they worked, a few at a time."""
    wanted = [i.callspec.params for i in request.session.items if "ended" in i.fixturenames]
    cases = {(p["name"], p["number"], p["group"]) for p in wanted}
    starting = own_seconds()
    with ThreadPoolExecutor(3) as pool:
        made = {
            case: pool.submit(
                end, case[0], case[1], group=case[2], starting=starting, cache=peaks_folder
            )
            for case in [*CTRL_C, *ENDED, *KILLED]
            if case in cases
        }
    return lambda *case: made[case].result()


def named(value):
    return value.name if isinstance(value, signal.Signals) else None


@pytest.mark.parametrize(("name", "number", "group"), CTRL_C + ENDED, ids=named)
def test_a_command_that_is_ended_says_so_and_leaves_nothing(ended, name, number, group):
    check_left(name, number, ended(name, number, group), KEPT.get(name, "nothing"))


@pytest.mark.parametrize(("name", "number", "group"), KILLED, ids=named)
def test_helpers_of_a_command_that_is_killed_end_by_themselves(ended, name, number, group):
    left = ended(name, number, group)
    assert left.processes == []
    check_next(name, left)


def test_every_command_answers_an_interrupt_by_its_status(monkeypatch, capsys):
    def interrupted(arguments):
        raise KeyboardInterrupt

    made = cli._parser
    names = list(made()._subparsers._group_actions[0].choices)
    assert names == list(cli._MODULES)
    for name in names:
        parser = made()
        command = parser._subparsers._group_actions[0].choices[name]
        for action in command._actions:
            action.required = False
        command.set_defaults(run=interrupted)
        monkeypatch.setattr(cli, "_parser", lambda _, parser=parser: parser)
        arguments = [name, *(["x"] if name in ("compare", "onnx", "shrink", "explain") else [])]
        arguments += ["x"] if name == "export" else []
        arguments += ["-o", "x", "--", "x"] if name == "capture" else []
        assert cli.main(arguments) == 130
        assert capsys.readouterr().err == f"{name}: interrupted\n"


def test_what_ignores_a_hangup_goes_on_ignoring_it():
    program = (
        "import runpy, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
        "sys.argv[1:] = ['ops', 'ReLU']\n"
        "try: runpy.run_module('onednn_graph_py', run_name='__main__')\n"
        "except SystemExit: print(signal.getsignal(signal.SIGHUP), signal.getsignal(15))"
    )
    assert python(program).stdout.splitlines()[-1].startswith("1 <function end at ")


# -- calls

CALLS = """
import signal
import numpy as np
import onednn_graph_py as og

signal.signal(signal.SIGALRM, signal.default_int_handler)
X = np.linspace(-1, 1, 1024 * 1024, dtype=np.float32).reshape(1024, 1024)

def long_model(**options):
    b = og.GraphBuilder()
    x = b.input((1024, 1024), "f32", name="x")
    y = x
    for _ in range(5):
        y = (y @ x).softmax(axis=1)
    b.output(y)
    return b.compile(threads=1, **options)

def interrupted(call, seconds):
    try:
        try:  # which the signal may even come before, or after
            signal.setitimer(signal.ITIMER_REAL, seconds)
            call()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        return True
    return False
"""


def test_a_long_call_ends_after_the_partition_that_runs():
    done = python(
        CALLS
        + """
model = long_model()
assert len(model.steps()) >= 5
out = np.empty_like(X)
bound = model.bind([X], out=out)
expected = model(X)
for call in (lambda: model(X, out=out), bound):
    out[...] = np.nan
    assert interrupted(call, 0.01)  # 5 products of 2 GFLOP take far longer
    print(np.isnan(out).all())
    call()
    assert (out == expected).all()
assert (model(X) == expected).all()
assert model.stats().shapes == 1
"""
    )
    if RUNTIME != "SYCL":  # whose kernels may all be submitted at once, and waited for
        assert done.stdout.split() == ["True"] * 2


def test_a_handler_may_use_the_model_that_it_interrupts():
    python(
        CALLS
        + """
model, other = long_model(), long_model()
expected = model(X)
found = []
signal.signal(signal.SIGALRM, lambda *_: found.append((other(X), model(X))))
signal.setitimer(signal.ITIMER_REAL, 0.02)
assert (model(X) == expected).all()
assert len(found) == 1
assert all((y == expected).all() for y in found[0])
"""
    )


def test_an_interrupt_in_a_loop_of_calls_leaves_a_model_that_is_right():
    python(
        CALLS
        + """
b = og.GraphBuilder()
x = b.input((64, 64), "f32", name="x")
b.output((x @ x).softmax(axis=1))
model = b.compile()
Y = X[:64, :64].copy()
expected, bound = model(Y), model.bind([Y])
def loop(call):
    while True:
        call()
for i in range(20):
    assert interrupted(lambda: loop([lambda: model(Y), bound][i % 2]), 0.01 + 0.001 * i)
bound()
assert (model(Y) == expected).all() and (bound.outputs[0] == expected).all()
assert model.stats().memory_bytes < 10e6
"""
    )


def test_an_interrupted_compilation_leaves_nothing_that_disturbs_the_next():
    python(
        CALLS
        + """
b = og.GraphBuilder()
x = b.input((-1, 256), "f32", name="x")
y = x
for i in range(12):
    w = b.constant(np.full((256, 256), 1 / 256, np.float32))
    y = (y @ w).softmax(axis=1) + float(i)
b.output(y)
Z = np.ones((8, 256), np.float32)
expected = b.compile()(Z)
model, times = b.compile(), 0
for i in range(1, 11):
    rows = 8 * i
    W = np.ones((rows, 256), np.float32)
    times += interrupted(lambda: model(W), i / 5000)  # 12 partitions take milliseconds
    np.testing.assert_allclose(model(W)[:8], expected, rtol=1e-5)
assert times > 0
"""
    )


def test_interrupted_executions_end_with_the_one_that_runs():
    """On CPUs oneDNN's graph waits for each op, over SYCL too; so there is no wait to interrupt."""
    python(
        CALLS
        + """
lts = [og.logical_tensor(i, "f32", [1024, 1024], "strided") for i in range(2)]
graph = og.graph("cpu")
graph.add_op(og.op(0, "MatMul", [lts[0], lts[0]], [lts[1]], "product"))
graph.finalize()
(partition,) = graph.get_partitions()
engine = og.engine("cpu", 0)
stream = og.stream(engine)
compiled = partition.compile(lts[:1] * 2, lts[1:], engine)
x, y = (og.tensor(lt, engine, a) for lt, a in zip(lts, (X, np.empty_like(X))))
def work():
    for _ in range(2000):
        compiled.execute(stream, [x, x], [y], wait=False)
assert interrupted(work, 0.05)
stream.wait()
np.testing.assert_allclose(y.numpy(), X @ X, rtol=1e-3, atol=1e-3)
"""
    )


@pytest.mark.skipif(sycl_interop.missing() is not None, reason=str(sycl_interop.missing()))
def test_an_interrupted_wait_for_a_stream_ends_with_the_work_of_its_queue():
    python(
        CALLS
        + """
import dpctl
from dpctl.memory import MemoryUSMShared
from onednn_graph_py import sycl_interop

queue = dpctl.SyclQueue("cpu", property="in_order")
stream = sycl_interop.make_stream(sycl_interop.make_engine(queue), queue)
source, target = (MemoryUSMShared(1 << 27, queue=queue) for _ in range(2))
def copy():
    return queue.memcpy_async(target, source, 1 << 27)
copies = [copy() for _ in range(50)]  # 128 MB each: a second's work, or less on a faster machine
def done():
    return [c.execution_status == dpctl.event_status_type.complete for c in copies]
assert not all(done())
assert interrupted(stream.wait, 0.05)
assert all(done())
"""
    )


# -- helper processes

HELPED = """
import os, signal, sys, time
import processes_called
from onednn_graph_py.base.processes import Isolated, Process, calling

process = Process(*calling("processes_called"))
process.answer(120)
forks = Isolated()
forks.call(processes_called.seconds_asleep, 0, timeout=60)
print(process.pid, forks._process.pid, flush=True)
process.send("hang")
forks.call(processes_called.seconds_asleep, 600, timeout=600)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_helpers_end_with_a_caller_that_does_not_care_for_them(number):
    caller = subprocess.Popen(
        [sys.executable, "-c", HELPED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        start_new_session=True,
    )
    try:
        assert len(caller.stdout.readline().split()) == 2
        # The caller, two helpers, and the fork that sleeps.
        assert interrupted_commands.wait_until(
            lambda: len(interrupted_commands.members(caller.pid)) == 4, 60
        )
        caller.send_signal(number)
        assert caller.wait(BOUND) == -number
        members = interrupted_commands.members
        interrupted_commands.wait_until(lambda: not members(caller.pid), BOUND)
        assert members(caller.pid) == {}
    finally:
        for pid in interrupted_commands.members(caller.pid):
            os.kill(pid, signal.SIGKILL)
        caller.communicate()


# -- output files


def test_what_is_written_is_there_as_a_whole_or_not_at_all(tmp_path, monkeypatch):
    from onednn_graph_py.base.text.files import write_whole

    path = tmp_path / "graph.json"
    write_whole(path, "first é\n")
    path.chmod(0o640)
    (tmp_path / "link").symlink_to(path)
    write_whole(tmp_path / "link", "second\n")
    assert path.read_bytes() == b"second\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "link").is_symlink()
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "third" * 10_000 + "\ud800")

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(os, "replace", interrupted)
        write_whole(path, "fourth\n")
    assert path.read_bytes() == b"second\n"
    assert sorted(os.listdir(tmp_path)) == ["graph.json", "link"]


def test_what_is_no_file_is_written_to(tmp_path):
    from onednn_graph_py.base.text.files import write_whole

    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE)
    write_whole(tmp_path / "pipe", "text\n")
    assert reader.communicate(timeout=60)[0] == b"text\n"
    write_whole("/dev/null", "text\n")
    assert not Path("/dev/null").is_file()
    with pytest.raises(FileNotFoundError, match=r"nowhere.graph\.json"):
        write_whole(tmp_path / "nowhere" / "graph.json", "")
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, "")
