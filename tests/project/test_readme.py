"""README.md: it stays short, and its figures are those of the guide."""

import re

from doc_pages import ROOT

README = (ROOT / "README.md").read_text()
PERFORMANCE = (ROOT / "docs" / "performance.md").read_text()
SPEED = README[README.index("## Speed") :]


def test_the_table_of_speed_is_that_of_the_guide():
    rows = re.findall(r"^\|.*\|$", SPEED, re.MULTILINE)
    assert len(rows) == 6
    assert "\n".join(rows) in PERFORMANCE


def test_how_much_longer_torch_takes_is_that_of_the_table():
    rows = (row.split("|")[2:4] for row in re.findall(r"^\|.*\|$", SPEED, re.MULTILINE)[2:])
    times = [float(torch) / float(ours) for ours, torch in rows if torch.strip()[0].isdigit()]
    assert len(times) == 3
    assert f"took {min(times):.1f} to {max(times):.1f} times as long" in " ".join(README.split())


def test_what_others_do_faster_is_said_with_the_figures_of_the_guide():
    lost = re.findall(
        r"\b\d+\.\d\b", SPEED[SPEED.index("Where we are slower:") : SPEED.index("[All pages]")]
    )
    assert len(lost) == 8
    assert [figure for figure in lost if figure not in PERFORMANCE] == []


def test_it_is_at_most_150_lines_long():
    assert len(README.splitlines()) <= 150
