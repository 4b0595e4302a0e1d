"""Graphs that a process partitions, this one or another, are kept as files."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from graphs import LINKED, importing, in_threads

import onednn_graph_py as og
from onednn_graph_py import serialization
from onednn_graph_py.ops import OPS
from onednn_graph_py.tools.capture import capture
from onednn_graph_py.tools.capture.dump import can_write
from onednn_graph_py.tools.capture.folder import DumpFolder
from onednn_graph_py.tools.capture.program import Captured
from onednn_graph_py.tools.command_line import main

needs_dump = pytest.mark.skipif(
    not can_write(),
    reason="the linked oneDNN was built without ONEDNN_ENABLE_GRAPH_DUMP",
)
pytestmark = needs_dump


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
    folder = tmp_path / "working"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def chain():
    b = og.GraphBuilder()
    b.output((b.input((6, 32)).relu() @ b.input((32, 8))).softmax(axis=-1))
    return b


def given(files):
    """The graphs as they were given to oneDNN."""
    return [serialization.parse(f) for f in files if "-partitioning" not in f.name]


def shown(document):
    """Ops with their attributes; oneDNN writes those too that nobody set."""
    return [
        (op.kind, {**defaults(op.kind), **op.values}, [t.shape for t in op.inputs])
        for op in document.graph
    ]


def defaults(kind):
    return {a.name: a.default for a in OPS[kind].attributes if a.default is not None}


# -- in this process


def test_a_dump_has_the_graphs_as_they_are_saved(tmp_path, working_directory):
    document = serialization.from_builder(chain())
    with og.dump(tmp_path / "graphs") as files:
        serialization.to_graph(document).get_partitions()
    assert len(files) == 2
    assert all(f.parent == tmp_path / "graphs" for f in files)
    (made,) = given(files)
    assert shown(made) == shown(document)
    assert made.tensors() == document.tensors()
    with og.dump(tmp_path / "again") as files_again:
        serialization.to_graph(made).get_partitions()
    assert given(files_again) == [made]
    assert list(working_directory.iterdir()) == []
    assert sorted((tmp_path / "graphs").iterdir()) == files


def test_a_model_is_dumped_when_it_is_compiled(tmp_path):
    b = chain()
    with og.dump(tmp_path) as files:
        b.compile()
    (made,) = given(files)
    assert shown(made) == shown(serialization.from_builder(b))
    b = og.load(files[0])
    x, w = og.fill_inputs(b)
    assert b.compile().verify(x, w)


def quantized():
    """What is partitioned again for an id that suits oneDNN's cache, and runs in parts."""
    b = og.GraphBuilder()
    scaled = {"scales": [0.5], "zps": [0], "qtype": "per_tensor"}
    x = b.input((1, 4, 4, 8), "s8").dequantize(**scaled)
    window = {"kernel": (2, 2), "strides": (2, 2), "pads_begin": (0, 0), "pads_end": (0, 0)}
    b.output(x.max_pool(**window).relu().quantize(dtype="s8", **scaled))
    return b


@pytest.mark.filterwarnings("ignore:.*runs in parts")
def test_parts_of_a_model_are_left_out(tmp_path):
    with og.dump(tmp_path / "whole") as files:
        quantized().compile()
    assert [len(serialization.parse(f).graph) for f in files] == [4, 4]


def test_parts_of_a_programs_models_are_left_out(tmp_path, monkeypatch):
    program = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        "import test_capture as t; t.quantized().compile()",
    ]
    monkeypatch.setenv("PYTHONPATH", importing(__file__))
    assert main(["capture", "-o", str(tmp_path / "graphs"), "--", *program]) == 0
    assert len(list((tmp_path / "graphs").iterdir())) == 2


def test_a_graph_that_grew_is_no_part(tmp_path):
    b = og.GraphBuilder()
    y = b.input((4, 8)).relu()
    b.output(y)
    with og.dump(tmp_path) as files:
        b.compile()
        b.output(y.abs())
        b.compile()
        b.compile()
    assert sorted(len(f.graph) for f in given(files)) == [1, 3]  # with an End


def test_graphs_of_others_are_no_parts_though_ids_are_equal(tmp_path):
    """Ids that count from 0 say nothing about what belongs together."""
    document = serialization.from_builder(chain())
    cut = replace(document, graph=document.graph[:1])
    with og.dump(tmp_path) as files:
        serialization.to_graph(document).get_partitions()
        serialization.to_graph(cut).get_partitions()
    assert len(given(files)) == 2


def test_nothing_is_dumped_before_and_after(tmp_path, working_directory):
    serialization.to_graph(serialization.from_builder(chain())).get_partitions()
    with og.dump(tmp_path / "graphs") as files:
        pass
    serialization.to_graph(serialization.from_builder(chain())).get_partitions()
    assert files == []
    assert list(working_directory.iterdir()) == []
    assert list((tmp_path / "graphs").iterdir()) == []


def test_graphs_of_all_threads_are_dumped(tmp_path):
    def partition(_):
        for _ in range(3):
            serialization.to_graph(serialization.from_builder(chain())).get_partitions()

    with og.dump(tmp_path) as files:
        in_threads(4, partition)
    assert len(given(files)) == 12
    assert len({tuple(op.id for op in d.graph) for d in given(files)}) == 1


def test_files_that_are_there_are_kept(tmp_path, working_directory):
    for folder in (working_directory, tmp_path):
        for i in range(100001, 100300):
            (folder / f"graph-{i}.json").write_text("mine")
    with og.dump(tmp_path) as files:
        serialization.to_graph(serialization.from_builder(chain())).get_partitions()
    (made,) = given(files)
    assert len(made.graph) == 3
    for folder in (working_directory, tmp_path):
        mine = [f for f in folder.glob("graph-*.json") if f not in files]
        assert len(mine) == 299
        assert {f.read_text() for f in mine} == {"mine"}


def test_a_dump_into_the_working_directory_stays_there(working_directory):
    (working_directory / "graph-100000.json").write_text("mine")
    with og.dump(".") as files:
        serialization.to_graph(serialization.from_builder(chain())).get_partitions()
    assert {f.parent for f in files} == {working_directory}
    assert len(list(working_directory.iterdir())) == 3
    assert (working_directory / "graph-100000.json").read_text() == "mine"


def test_a_dump_ends_with_an_error(tmp_path, working_directory):
    with pytest.raises(RuntimeError, match="mine"), og.dump(tmp_path / "graphs"):
        serialization.to_graph(serialization.from_builder(chain())).get_partitions()
        raise RuntimeError("mine")
    assert len(given(sorted((tmp_path / "graphs").iterdir()))) == 1
    serialization.to_graph(serialization.from_builder(chain())).get_partitions()
    assert list(working_directory.iterdir()) == []


def test_two_dumps_at_a_time_are_refused(tmp_path):
    with (
        og.dump(tmp_path / "one"),
        pytest.raises(og.OneDNNError, match="another dump goes on"),
        og.dump(tmp_path / "two"),
    ):
        pass
    with (
        DumpFolder(Path.cwd(), tmp_path / "three"),
        pytest.raises(og.OneDNNError, match="another capture takes the graphs"),
        og.dump(tmp_path / "one"),
    ):
        pass
    with og.dump(tmp_path / "two"):
        pass


def test_wrong_arguments_are_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"), og.dump(tmp_path / "file"):
        pass
    with og.dump(tmp_path / "after") as files:
        pass
    assert files == []


def test_a_onednn_that_can_not_dump_is_told(tmp_path, monkeypatch, working_directory):
    module = sys.modules["onednn_graph_py.tools.capture.dump"]

    def refuses(modes):
        raise og.InvalidArgumentsError("set_dump_mode")

    monkeypatch.setattr(module, "_set_modes", refuses)
    monkeypatch.setattr(module, "can_write", lambda: False)
    with (
        pytest.raises(og.UnimplementedError, match="without ONEDNN_ENABLE_GRAPH_DUMP"),
        og.dump(tmp_path),
    ):
        pass
    assert list(working_directory.iterdir()) == []


def test_the_variable_is_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setenv("ONEDNN_GRAPH_DUMP", "none")
    with og.dump(tmp_path):
        if LINKED < (3, 11):
            assert os.environ["ONEDNN_GRAPH_DUMP"] == "graph"
    assert os.environ["ONEDNN_GRAPH_DUMP"] == "none"


# -- another program

PROGRAM = """
import sys
import onednn_graph_py as og
for n in (16, 24):
    b = og.GraphBuilder()
    b.output(b.input((4, n)).relu() + 1.0)
    b.compile()
open("output.txt", "w").write(open("input.txt").read())
sys.exit(3)
"""


def test_a_program_runs_as_it_would_and_its_graphs_are_kept(tmp_path, working_directory):
    (working_directory / "input.txt").write_text("hello")
    (working_directory / "graph-100001.json").write_text("mine")
    script = tmp_path / "a script.py"
    script.write_text(PROGRAM)
    found = capture([sys.executable, script], tmp_path / "the graphs")
    assert found.status == 3
    assert [shown(d)[0][2] for d in given(found.files)] == [[(4, 16)], [(4, 24)]]
    assert found.graphs == 2
    assert len(found.files) == 4
    assert sorted(f.name for f in working_directory.iterdir()) == [
        "graph-100001.json",
        "input.txt",
        "output.txt",
    ]
    assert (working_directory / "graph-100001.json").read_text() == "mine"
    assert sorted((tmp_path / "the graphs").iterdir()) == list(found.files)


def test_an_example_is_captured(tmp_path, capfd):
    folder = tmp_path / "some graphs"
    command = ["capture", "-o", str(folder), "--", sys.executable, "-m"]
    assert main([*command, "onednn_graph_py.examples", "cpu_getting_started"]) == 0
    assert "capture: 1 graph in 2 files in" in capfd.readouterr().err
    (made,) = given(sorted(folder.iterdir()))
    assert [op.kind for op in made.graph] == ["Convolution", "BiasAdd", "ReLU"] * 2
    assert serialization.parse(serialization.to_json(made)) == made
    whole = [f for f in folder.iterdir() if "-partitioning" in f.name]
    assert {op.attrs["backend"].value for op in serialization.parse(whole[0]).graph} != set()


def test_a_second_capture_keeps_the_first(tmp_path, working_directory):
    (working_directory / "input.txt").write_text("")
    words = [sys.executable, "-c", PROGRAM]
    first = capture(words, tmp_path / "graphs")
    second = capture(words, tmp_path / "graphs")
    assert not set(first.files) & set(second.files)
    assert sorted((tmp_path / "graphs").iterdir()) == sorted(first.files + second.files)
    assert given(first.files) == given(second.files)


def test_processes_that_follow_each_other_do_not_overwrite_their_graphs(tmp_path):
    one = "import onednn_graph_py as og; b = og.GraphBuilder(); b.output(b.input((4, {})).relu())"
    programs = [f"'{sys.executable}' -c '{one.format(n)}; b.compile(); '" for n in (3, 5)]
    found = capture(["sh", "-c", f"{programs[0]}; sleep 0.3; {programs[1]}"], tmp_path)
    assert {d.graph[0].inputs[0].shape for d in given(found.files)} == {(4, 3), (4, 5)}


def test_a_program_without_onednn_is_told(tmp_path, capfd):
    assert main(["capture", "-o", str(tmp_path), "--", sys.executable, "-c", "print('hi')"]) == 0
    said = capfd.readouterr()
    assert said.out == "hi\n"
    assert said.err.startswith("capture: no graphs: the program partitioned none with oneDNN's ")
    assert "signal" not in said.err


def test_a_program_that_a_signal_ended_is_told():
    assert Captured(-11, ()).why_none.endswith("; or signal 11 ended it before that")


@pytest.mark.parametrize(
    ("program", "status"), [("exit 7", 7), ("kill -KILL $$", 128 + signal.SIGKILL)]
)
def test_the_exit_status_is_the_programs(program, status, tmp_path):
    assert main(["capture", "-o", str(tmp_path), "--", "sh", "-c", program]) == status


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["--", "no such program"], 127, "no such program"),
        (["--", "/etc/hostname"], 126, "/etc/hostname"),
        (["-o", "/etc/hostname", "--", "true"], 125, "/etc/hostname"),
        (["-o", "/proc/graphs", "--", "true"], 125, "/proc/graphs"),
        (["--"], 125, "no program is given"),
    ],
)
def test_what_can_not_be_run_is_told(words, status, said, capsys):
    assert main(["capture", *words]) == status
    assert said in capsys.readouterr().err


class RaisingLock:
    """The lock of a `subprocess.Popen`, with a signal as soon as it is taken."""

    def __init__(self, number):
        self._lock, self._number = threading.Lock(), number

    def acquire(self, blocking):
        taken = self._lock.acquire(blocking)
        if taken and self._number:
            number, self._number = self._number, None
            signal.raise_signal(number)
        return taken

    def release(self):
        self._lock.release()


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_within_popen_ends_the_program(number, started, tmp_path, monkeypatch):
    made = []

    class Signalled(subprocess.Popen):
        def __init__(self, *arguments, **settings):
            super().__init__(*arguments, **settings)
            made.append(self)
            if started:
                self._waitpid_lock = RaisingLock(number)
            else:
                signal.raise_signal(number)

    def end(number, frame):
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", Signalled)
    before = signal.signal(number, end)
    try:
        found = capture(["sleep", "600"], tmp_path / "graphs")
        assert signal.getsignal(number) is end
    finally:
        signal.signal(number, before)
        for process in made:
            process.kill()
    assert found.status == -number


def test_what_another_handler_raises_ends_the_program(tmp_path, monkeypatch):
    def fail(number, frame):
        raise RuntimeError("no interrupt")

    before = signal.signal(signal.SIGINT, fail)
    began = time.monotonic()
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(RuntimeError, match="no interrupt"):
            capture(["sleep", "600"], tmp_path / "graphs")
        assert signal.getsignal(signal.SIGINT) is fail
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - began < 60


def test_whoever_ends_the_capture_ends_the_program(tmp_path, working_directory):
    program = "import time, pathlib; pathlib.Path('up').touch(); time.sleep(60)"
    words = ["capture", "-o", str(tmp_path), "--", sys.executable, "-c", program]
    command = subprocess.Popen([sys.executable, "-m", "onednn_graph_py", *words])
    until = time.monotonic() + 60
    while not (working_directory / "up").exists() and time.monotonic() < until:
        time.sleep(0.05)
    command.send_signal(signal.SIGTERM)
    assert command.wait(60) == 128 + signal.SIGTERM
    assert [f.name for f in working_directory.iterdir()] == ["up"]


def test_a_graph_that_is_not_whole_is_kept(tmp_path):
    program = "open('graph-7.json', 'w').write('{')"
    found = capture([sys.executable, "-c", program], tmp_path)
    assert [f.name for f in found.files] == ["graph-7.json"]


def test_files_are_taken_only_when_they_are_whole(tmp_path, working_directory):
    file = working_directory / "graph-1.json"
    with DumpFolder(working_directory, tmp_path / "graphs") as watched:
        file.write_text('{\n  "version": "3.7.2",\n  "graph": [\n  ]')
        watched.take()
        assert file.exists()
        file.write_text('{\n  "version": "3.7.2",\n  "graph": [\n  ]\n}\n')
        watched.take()
        assert not file.exists()
        (working_directory / "graph-x.json").write_text("mine")
        (working_directory / "graph-1-x.json").write_text("mine")
    assert [f.name for f in watched.files] == ["graph-1.json"]
    assert len(list(working_directory.iterdir())) == 2


def test_the_captured_graph_of_a_model_verifies(tmp_path):
    with og.dump(tmp_path) as files:
        model = chain().compile()
    made = og.load(files[0]).compile()
    arrays = og.fill_inputs(og.load(files[0]))
    np.testing.assert_array_equal(made(*arrays), model(*arrays))
