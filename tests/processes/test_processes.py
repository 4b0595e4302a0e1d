"""Other processes: how they are found, asked, given up, and how they end, in words."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager
from pathlib import Path

import processes_called
import pytest
from graphs import HELPERS

import onednn_graph_py as og
from onednn_graph_py.base.processes import (
    Isolated,
    NoAnswer,
    Process,
    calling,
    ending,
    failure,
    import_path,
    isolation,
    quiet,
)


@contextmanager
def process(**options):
    made = Process(*calling("processes_called"), **options)
    try:
        assert made.answer(120) == "hello"
        yield made
    finally:
        made.stop()
        assert not Path(f"/proc/{made.pid}").exists()


def test_it_answers_and_finds_what_this_process_finds(monkeypatch):
    monkeypatch.syspath_prepend("/nowhere/at all")
    before = dict(os.environ)
    with process() as p:
        assert p.ask({"any": (1, 2)}) == {"any": (1, 2)}
        assert p.ask("path") == import_path("processes_called")
        assert p.ask("environment").items() >= before.items()
    assert dict(os.environ) == before


def test_a_process_that_crashes_says_how_and_its_last_words():
    with process(keep_errors=True) as p:
        with pytest.raises(NoAnswer, match=r"^the process was ended by SIGSEGV: last words$") as e:
            p.ask("crash")
        assert e.value.status == -signal.SIGSEGV
        with pytest.raises(NoAnswer, match="SIGSEGV"):  # and again
            p.ask("path", 1)


def test_a_process_that_raises_ends_with_the_error():
    with (
        process(keep_errors=True) as p,
        pytest.raises(NoAnswer, match=r"^the process ended with exit status 1: ValueError: not re"),
    ):
        p.ask("raise")


def test_a_process_that_hangs_is_given_up():
    with process() as p:
        with pytest.raises(NoAnswer, match=r"^it took longer than 0\.2 s$") as e:
            p.ask("hang", 0.2)
        assert e.value.status is None


def test_it_ends_by_itself_when_nobody_wants_more():
    p = Process(*calling("processes_called"))
    p.answer(120)
    p.leave()
    assert not Path(f"/proc/{p.pid}").exists()


def test_what_can_not_be_started_leaves_nothing_open(monkeypatch):
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(OSError, match="nowhere"):
        Process(keep_errors=True)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_c_code_prints_in_a_fork_is_returned():
    with Isolated() as process:
        answer = process.call(processes_called.printing, timeout=120)
    assert answer == ("returned", (3, "of Python\nof C\n"))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (("hang", None), "it took longer than 15 s"),
        (("ended", -11), "the process was ended by SIGSEGV"),
        (("raised", "no process could be started: none\n"), "no process could be started: none"),
    ],
)
def test_a_call_without_a_result_says_why(answer, words):
    assert failure(answer, 15) == words


def test_what_has_onednn_print_is_not_passed_on(monkeypatch):
    for name in ("ONEDNN_VERBOSE", "DNNL_VERBOSE_TIMESTAMP", "ONEDNN_GRAPH_DUMP", "DNNL_JIT_DUMP"):
        monkeypatch.setenv(name, "1")
    assert os.environ.items() - quiet().items() == {
        (name, "1")
        for name in (
            "ONEDNN_VERBOSE", "DNNL_VERBOSE_TIMESTAMP", "ONEDNN_GRAPH_DUMP", "DNNL_JIT_DUMP",
        )
    }  # fmt: skip


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "it ended with exit status 0"),
        (81, "it ended with exit status 81"),
        (-11, "it was ended by SIGSEGV"),
        (-63, "it was ended by signal 63"),
    ],
)
def test_endings_are_told_in_words(status, words):
    assert ending(status, "it") == words


def test_calls_in_forks_return_raise_crash_and_hang():
    with Isolated() as forks:
        assert forks.call(processes_called.large, timeout=60) == ("returned", b"x" * 3_000_000)
        assert forks.call(os._exit, 3, timeout=60) == ("ended", 3)
        assert forks.call(os.abort, timeout=60) == ("ended", -signal.SIGABRT)
        assert forks.call(processes_called.seconds_asleep, 600, timeout=0.2) == ("hang", None)
        how, text = forks.call(processes_called.answer, "raise", timeout=60)
        assert (how, text.splitlines()[-1]) == ("raised", "ValueError: not ready")
        assert forks.call(processes_called.unpicklable, timeout=60) == ("ended", 1)
        assert forks.call(processes_called.seconds_asleep, 0, timeout=60) == ("returned", 0)


def test_modules_of_calls_are_imported_before_the_forks():
    for modules in ((), ("colorsys",)):
        with Isolated(*modules) as forks:
            found = forks.call(processes_called.imported, "colorsys", timeout=120)
            assert found == ("returned", bool(modules))
    with Isolated("no_such_module") as forks:
        how, said = forks.call(processes_called.imported, "colorsys", timeout=120)
        assert how == "raised" and "no_such_module" in said


def test_an_interrupted_call_ends_what_was_called():
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with Isolated() as forks:
            assert forks.call(processes_called.seconds_asleep, 0, timeout=60) == ("returned", 0)
            began = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.3)
                forks.call(processes_called.seconds_asleep, 600, timeout=600)
            assert time.monotonic() - began < 60
            assert forks.call(processes_called.seconds_asleep, 0, timeout=60) == ("returned", 0)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_no_process_to_fork_from_is_told(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with Isolated() as forks:
        how, why = forks.call(processes_called.large, timeout=60)
    assert how == "raised"
    assert why.startswith("no process could be started: ")


def test_a_process_that_does_not_start_in_time_is_killed(monkeypatch):
    hanging = ("-c", "import time; time.sleep(600)")
    monkeypatch.setattr(isolation, "STARTUP", 0.2)
    monkeypatch.setattr(isolation, "calling", lambda module: hanging)
    with Isolated() as process:
        how, why = process.call(processes_called.large, timeout=60)
        assert (how, why) == ("raised", "the process did not start: it took longer than 0.2 s")


def test_a_start_that_was_interrupted_is_made_again(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with Isolated() as process:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(Process, "answer", interrupted)
            process.start()
        assert process.call(processes_called.seconds_asleep, 0, timeout=60) == ("returned", 0)


def test_a_process_that_cannot_fork_says_why(monkeypatch, tmp_path):
    (tmp_path / "no_forks.py").write_text(
        "import os\ndef fork():\n    raise BlockingIOError('no more processes')\nos.fork = fork\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with Isolated("no_forks") as process:
        how, why = process.call(processes_called.large, timeout=60)
    assert how == "raised"
    assert why.endswith("no more processes\n")


# -- the current folder

WAYS = {
    "-c": ["-c", "exec(open('helper_kinds.py').read())"],
    "-m": ["-m", "helper_kinds"],
    "-I": ["-I", "helper_kinds.py"],
    "script": ["helper_kinds.py"],
    "interactive": ["-i"],
    "frozen": ["helper_kinds.py"],
}


@pytest.mark.parametrize(
    "way", [w if w in ("-c", "-I") else pytest.param(w, marks=pytest.mark.slow) for w in WAYS]
)
def test_helper_processes_import_nothing_from_the_current_folder(tmp_path, way, peaks_folder):
    shutil.copytree(peaks_folder, tmp_path / "cache")
    shutil.copy(HELPERS / "helper_kinds.py", tmp_path)
    done = subprocess.run(
        [sys.executable, *WAYS[way]],
        cwd=tmp_path,
        env={
            **os.environ,
            "PACKAGE_IN": str(Path(og.__file__).parents[1]),
            "ONEDNN_GRAPH_PY_CACHE": str(tmp_path / "cache"),
        }
        | ({"FROZEN": "1"} if way == "frozen" else {}),
        input="import runpy; runpy.run_path('helper_kinds.py')\n",
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "all have run" in done.stdout, done.stdout + done.stderr
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()


def test_the_current_folder_comes_last_where_what_is_called_lies_there(monkeypatch):
    here = str(Path(processes_called.__file__).parent)
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", ["", here, *sys.path])
    assert "" not in import_path()
    assert here not in import_path()
    assert import_path("processes_called")[-1] == here
    with process() as p:
        assert p.ask("path")[-1] == here
    monkeypatch.setattr(sys, "path", [Path("/x"), b"/x", "/a\nb", *sys.path])
    with process() as p:  # only what Python minds, and as it is
        assert p.ask("path")[0] == "/a\nb"


def test_variables_for_python_go_on_as_the_caller_takes_them(tmp_path):
    program = f"""
        import sys
        sys.path.append({str(Path(og.__file__).parents[1])!r})
        from onednn_graph_py.base.processes import Isolated
        import processes_called
        with Isolated() as forks:
            print(forks.call(processes_called.flags, timeout=120)[1])
        """
    said = {
        flag: subprocess.run(
            [sys.executable, *flag, "-c", textwrap.dedent(program)],
            env={**os.environ, "PYTHONPATH": str(HELPERS), "PYTHONOPTIMIZE": "1"},
            capture_output=True,
            text=True,
            cwd=tmp_path,
        ).stdout
        for flag in ((), ("-s",))
    }
    assert list(said.values()) == ["(1, 0)\n", "(1, 1)\n"]
