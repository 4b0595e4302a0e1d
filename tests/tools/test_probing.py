"""What runs here: probing, its store on disk, its tables."""

import contextlib
import json
import sys

import ml_dtypes
import numpy as np
import pytest
from graphs import LINKED

import onednn_graph_py as og
from onednn_graph_py.machine import probing
from onednn_graph_py.machine.cpu import lacks
from onednn_graph_py.machine.probing import store
from onednn_graph_py.machine.store import save
from onednn_graph_py.ops import OPS
from onednn_graph_py.tools import command_line as cli


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("cache")
        patch.setenv("ONEDNN_GRAPH_PY_CACHE", str(root))
        yield root


@pytest.fixture(scope="module")
def found(cache):
    return og.capabilities()


def test_every_op_of_the_linked_version_is_tried(found):
    tried = {c.kind for c in found}
    # Wildcard takes any type, so there is no combination to try.
    assert tried == {k for k, row in OPS.items() if row.since <= LINKED} - {"Wildcard"}


def test_known_facts(found):
    for kind in ("ReLU", "MatMul", "Convolution", "SoftMax", "LayerNorm"):
        assert any(c.outcome == "runs" and set(c.inputs) == {"f32"} for c in found[kind]), kind
    # Documented as ops, but no CPU kernel takes them alone.
    never = {"End", "Pow", "Reciprocal", "BiasAddBackward", "Dropout"}
    for kind in never:
        assert {c.outcome for c in found[kind]} <= {"unsupported"}, kind
    assert found.count("crashed") == 0
    # In f32 and whole numbers all else runs on any CPU; 4-bit integers do with a scale for a group.
    other = {"bf16", "f16", "f8_e5m2", "f8_e4m3", "s4", "u4"}
    everywhere = [c for c in found if c.kind not in never and not other & {*c.inputs, *c.outputs}]
    assert [c for c in everywhere if c.outcome != "runs"] == []
    assert {c.kind for c in found if c.outcome == "runs"} == {c.kind for c in found} - never
    if lacks("bf16") is None:
        assert found.count("runs") > 100
    assert found.runs("Quantize", "f32")
    assert not found.runs("Pow", "f32")


def test_what_runs_is_what_a_partition_says(found):
    """One op is asked again, by hand."""
    lts = [og.logical_tensor(i, "bf16", [4, 16], "strided") for i in range(2)]
    g = og.graph("cpu")
    g.add_op(og.op(0, "Exp", [lts[0]], [lts[1]]))
    g.finalize()
    (partition,) = g.get_partitions()
    runs = False
    if partition.is_supported():
        engine = og.engine("cpu", 0)
        with contextlib.suppress(og.UnimplementedError):
            compiled = partition.compile([lts[0]], [lts[1]], engine)
            a, b = (np.zeros((4, 16), ml_dtypes.bfloat16) for _ in range(2))
            stream = og.stream(engine)
            src, dst = og.tensor(lts[0], engine, a), og.tensor(lts[1], engine, b)
            compiled.execute(stream, [src], [dst])
            stream.wait()
            np.testing.assert_array_equal(b, np.ones((4, 16), ml_dtypes.bfloat16))
            runs = True
    assert found.runs("Exp", "bf16") == runs


def test_results_are_kept_and_read_again(cache, found, monkeypatch):
    (file,) = (cache / "capabilities").iterdir()
    assert len(json.loads(file.read_text())) == len(found)
    monkeypatch.setattr(probing, "_probe", lambda *_: pytest.fail("probed again"))
    assert list(og.capabilities()) == list(found)


@pytest.mark.parametrize("text", ["", "[", "{}", "[]", '[["runs", ""]]', "[1, 2]"])
def test_a_spoilt_file_is_no_result(tmp_path, text):
    file = tmp_path / "file.json"
    file.write_text(text)
    assert store.load(file, 2) is None
    assert store.load(tmp_path / "missing.json", 2) is None


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    save(tmp_path / "file" / "below" / "x.json", [("runs", "")])


def test_a_crash_costs_one_attempt(tmp_path, monkeypatch):
    """The prober is started anew behind what it crashed on."""
    prober = tmp_path / "prober.py"
    prober.write_text(
        f"#!{sys.executable}\n"
        "import os, signal, sys\n"
        "from onednn_graph_py.base.processes import serve\n"
        "def answer(number):\n"
        "    if number == 2:\n"
        "        os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    return 'runs', ''\n"
        "serve(int(sys.argv[-1]), answer)\n"
    )
    prober.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(prober))
    steps = []
    outcomes = probing._probe(5, lambda done, of: steps.append((done, of)))
    assert [o for o, _ in outcomes] == ["runs", "runs", "crashed", "runs", "runs"]
    assert outcomes[2][1] == "signal 11"
    assert steps[-1] == (5, 5)


def test_a_prober_that_fails_is_told(tmp_path, monkeypatch):
    prober = tmp_path / "prober.sh"
    prober.write_text("#!/bin/sh\necho no such thing >&2\nexit 3\n")
    prober.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(prober))
    with pytest.raises(RuntimeError, match=r"(?s)status 3:.*no such thing"):
        probing._probe(5, lambda done, of: None)


def test_it_prints_as_a_table_and_shows_as_a_heat_map(found):
    text = str(found)
    assert f"oneDNN {og.version()['major']}." in text
    assert text.splitlines()[-1].startswith(f"{found.count('runs')} runs")
    page = found._repr_html_()
    for kind in {c.kind for c in found}:
        assert f">{kind}</th>" in page
    assert page.count("<span") == len(found) + sum(found.count(o) > 0 for o in probing.OUTCOMES)
    assert repr(found).startswith("<Capabilities: ")
    assert len(found[:3]) == 3
    assert found[0] in list(found)


def test_the_command_line_prints_it(cache, found, capsys):
    assert cli.main(["capabilities"]) == 0
    assert capsys.readouterr().out == f"{found}\n"
    assert cli.main(["capabilities", "--html"]) == 0
    assert capsys.readouterr().out == f"{found._repr_html_()}\n"
