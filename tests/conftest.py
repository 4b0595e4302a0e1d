"""What all tests share: a count of what was skipped, by reason, and fixtures."""

import gc
from collections import Counter

import pytest


@pytest.fixture
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every fusion for as fast as its separate ops: on a busy machine times vary."""
    from onednn_graph_py.machine.pace import Pace
    from onednn_graph_py.planning import pace

    monkeypatch.setattr(pace, "known", lambda *_: Pace(1e-4, 1e-4))


def pytest_collection_finish() -> None:
    """Keep collected tests out of garbage collections, which take a second each with them."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let plugins, of which Hypothesis' looks who refers to what, see all objects again."""
    gc.unfreeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count skipped tests apart from those that passed or failed."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section(f"{reasons.total()} skipped, as they said")
    for reason, count in sorted(reasons.items(), key=lambda entry: (-entry[1], entry[0])):
        terminalreporter.write_line(f"{count:5}  {reason}")
