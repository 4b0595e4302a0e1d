"""``python -m onednn_graph_py explain``, and explanations as text and HTML."""

import json
from pathlib import Path

import pytest
from explained import Tags, chain, with_unsupported_op
from graphs import PACKS_WEIGHTS

import onednn_graph_py as og
from onednn_graph_py.tools import command_line as cli


def run(capsys, *words):
    status = cli.main(["explain", *map(str, words)])
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "graph.json"
    chain().save(path)
    return path


def test_the_command_prints_text_json_and_html(capsys, file):
    status, text, _ = run(capsys, file, "--seconds", "0", "--no-what-if")
    assert status == 0
    assert "3 steps" in text
    assert ("matmul brg_matmul" if PACKS_WEIGHTS else "matmul gemm") in text
    status, text, _ = run(capsys, file, "--json", "--seconds", "0")
    assert status == 0
    assert [len(s["ops"]) for s in json.loads(text)["steps"]] == [2, 1, 1]
    status, text, _ = run(capsys, file, "--html", "--seconds", "0", "--no-what-if")
    assert status == 0
    tags = Tags()
    tags.feed(text)
    assert not tags.open


def test_the_command_explains_what_does_not_run(capsys, tmp_path):
    path = tmp_path / "graph.json"
    with_unsupported_op().save(path)
    status, text, _ = run(capsys, path)
    assert status == 0
    assert "Pow 'p', unsupported: " in text
    b = og.GraphBuilder("gpu")
    b.output(b.input((4, 8)) @ b.input((8, 4)))
    b.save(path)
    status, text, _ = run(capsys, path, "--no-what-if")
    assert status == 0
    assert "gpu" in text
    assert "MatMul" in text


@pytest.mark.parametrize("text", [None, "{", "{}", '{"version": "3.7.2"}'])
def test_the_command_refuses_what_is_no_graph(capsys, tmp_path, text):
    path = Path(tmp_path / "bad.json")
    if text is not None:
        path.write_text(text)
    status, out, said = run(capsys, path)
    assert status == 2
    assert out == ""
    assert said.startswith("explain: ")
    assert path.name in said


def test_html_escapes_names_and_sets_no_text_colour():
    evil = "<script>alert('x')</script>&"
    b = og.GraphBuilder()
    x = b.input((4, 4), name=evil)
    b.output(**{evil: b.relu(x, name=evil)})
    b.output(b.pow(x, beta=1.5, name="<b>p"))
    found = og.explain(b, seconds=0)
    tags = Tags()
    tags.feed(found._repr_html_())
    assert not tags.open
    assert not {"script", "img"} & set(tags.seen)
    assert "<script>" not in found._repr_html_()
    assert any(evil in text for text in tags.text)
    assert any("<b>p" in text for text in tags.text)
    rules = [r.strip() for style in tags.styles for r in style.split(";")]
    assert not any(r.startswith(("color:", "background-color:")) for r in rules)
    assert "kernel" in tags.text
