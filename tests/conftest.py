"""What every run of the tests closes with: how many were skipped, by the reason they gave."""

from collections import Counter

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count skipped tests apart from those that passed or failed."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section(f"{reasons.total()} skipped, as they said")
    for reason, count in sorted(reasons.items(), key=lambda entry: (-entry[1], entry[0])):
        terminalreporter.write_line(f"{count:5}  {reason}")
