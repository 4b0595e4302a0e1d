"""README.md: it stays short, and its figures are those of the guide."""

import re

from doc_pages import PAGES, ROOT

README = (ROOT / "README.md").read_text()
PERFORMANCE = (ROOT / "docs" / "performance.md").read_text()
SPEED = README[README.index("## Speed") :]


def test_the_table_of_speed_is_that_of_the_guide():
    rows = re.findall(r"^\|.*\|$", SPEED, re.MULTILINE)
    assert len(rows) == 8
    assert "\n".join(rows) in PERFORMANCE


def test_bold_is_the_least_time_of_each_row():
    for row in re.findall(r"^\| .*\d \|$", PERFORMANCE[: PERFORMANCE.index("Zen 3")], re.MULTILINE):
        cells = [c.strip() for c in row.split("|")[2:-1]]
        times = {c: float(c.strip("*")) for c in cells if re.fullmatch(r"\**[\d.]+\**", c)}
        assert min(times, key=times.get).startswith("**"), row
        assert sum(c.startswith("**") for c in cells) == 1, row


def test_what_others_do_faster_is_said_with_the_figures_of_the_guide():
    lost = re.findall(
        r"\b\d+\.\d+\b", SPEED[SPEED.index("Where we are slower:") : SPEED.index("[All pages]")]
    )
    assert len(lost) == 8
    assert [figure for figure in lost if figure not in PERFORMANCE] == []


def test_it_is_at_most_150_lines_long():
    assert len(README.splitlines()) <= 150


def test_pages_that_people_write_do_not_grow():
    """Lines that a page gains, another loses; programs write the other pages and tables."""
    others = ("CONTRIBUTING", "onednn_", "onnx_ops", "patterns", "performance")
    pages = [page for page in PAGES if not page.name.startswith(others)]
    table = re.compile(r"<!-- table -->.*?<!-- end of the table -->", re.DOTALL)
    texts = [table.sub("", page.read_text()) for page in pages]
    assert len(texts) > 15
    assert sum(len(text.splitlines()) for text in texts) <= 2920
