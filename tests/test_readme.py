"""README.md: it stays short, its picture is the model's, its figures are those of the guide."""

import re

import doc_pages
from doc_pages import ROOT

README = ROOT / "README.md"


def blocks(language):
    return [block for block in doc_pages.blocks(README) if block.language == language]


def test_the_picture_is_the_diagram_of_the_first_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the program writes a file
    names = {}
    doc_pages.execute(blocks("python")[0], README, names)
    (picture,) = blocks("mermaid")
    model = names["model"]
    assert [step.ops for step in model.steps()] == [("MatMul", "ReLU")]
    assert picture.text == model.diagram().mermaid()
    assert f"```mermaid\n{picture.text}```" in (tmp_path / "model.md").read_text()


def test_the_table_of_speed_is_that_of_the_guide():
    rows = re.findall(r"^\|.*\|$", README.read_text(), re.MULTILINE)
    assert len(rows) == 6
    assert "\n".join(rows) in (ROOT / "docs" / "performance.md").read_text()


def test_it_is_at_most_200_lines_long():
    assert len(README.read_text().splitlines()) <= 200
