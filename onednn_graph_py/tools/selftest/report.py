"""The results of a selftest: counts and findings, as text and as JSON."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ...base.text.names import shortened
from ...base.text.table import text_table
from ...serialization import parse, to_builder
from ..export.python_program import to_python
from .questions import SLOW, Answer, Verdict

_SHOWN_SLOW = 11

_HEADINGS = (
    "family", "cases", "wrong", "crashed", "avoided", "slow", "refused", "NumPy", "seconds",
)  # fmt: skip


@dataclass
class Count:
    """The counts of a family's cases by verdict; a case that hangs counts as crashed."""

    cases: int = 0
    right: int = 0
    wrong: int = 0
    crashed: int = 0
    refused: int = 0
    # Wrong or crashed in oneDNN's own partitions, but not as compiled by default.
    avoided: int = 0
    # NumPy computes an op.
    numpy: int = 0
    slow: int = 0
    seconds: float = 0.0

    def add(self, answer: Answer, plain: Answer | None) -> None:
        """Count a case by its verdicts: as compiled by default, and in oneDNN's own partitions."""
        self.cases += 1
        self.right += answer.verdict == "right"
        self.wrong += answer.verdict == "wrong"
        self.crashed += answer.verdict in ("crashed", "hung")
        self.refused += answer.verdict == "refused"
        self.numpy += any(step.startswith("reference ") for step in answer.steps)
        self.slow += answer.ratio is not None and answer.ratio > SLOW
        self.avoided += plain is not None and plain.verdict in ("wrong", "crashed", "hung")


@dataclass(frozen=True)
class Slow:
    """A graph that takes `ratio` times as long as its separate ops."""

    family: str
    seed: int
    ratio: float
    steps: tuple[str, ...]


@dataclass
class Finding:
    """A graph that is wrong, crashes or hangs in a model compiled by default."""

    family: str
    seed: int
    verdict: Verdict
    reason: str
    steps: tuple[str, ...] = ()
    # The smallest graph that shows it, as JSON; empty if the graph was not reduced.
    graph: str = ""
    # The ops of that graph, or the reason why there is none.
    summary: str = "not reduced"

    @property
    def name(self) -> str:
        """The name of the finding's file."""
        return f"{self.verdict}_{self.family}_{self.seed}"

    @property
    def program(self) -> str:
        """Python that builds the graph, without what runs it; empty if it was not reduced."""
        if not self.graph:
            return ""
        text = to_python(to_builder(parse(json.loads(self.graph))))
        return text[text.index("b = og.") : text.index("\nmodel = ")].strip()

    def as_dict(self) -> dict[str, Any]:
        """Return the data as a dict for JSON."""
        graph = json.loads(self.graph) if self.graph else None
        return {**asdict(self), "steps": list(self.steps), "graph": graph, "program": self.program}

    def __str__(self) -> str:
        lines = [f"{self.verdict}: {self.family} {self.seed}: {self.summary}", self.reason]
        return "\n    ".join([*lines, *self.program.splitlines()])


@dataclass
class Report:
    """The findings of a selftest, and the machine that it ran on."""

    version: str
    runtime: str
    isa: str
    cpu: str
    threads: int
    # The first seed of each family.
    seed: int
    counts: Mapping[str, Count]
    findings: list[Finding] = field(default_factory=list)
    slow: list[Slow] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether no model compiled by default is wrong or crashes."""
        return not self.findings

    @property
    def total(self) -> Count:
        """The counts of all families together."""
        total = Count()
        for count in self.counts.values():
            for name, value in vars(count).items():
                setattr(total, name, getattr(total, name) + value)
        return total

    def as_dict(self) -> dict[str, Any]:
        """Return the data as a dict for JSON."""
        facts = ("version", "runtime", "isa", "cpu", "threads", "seed", "ok")
        return {
            **{name: getattr(self, name) for name in facts},
            "families": {name: asdict(count) for name, count in self.counts.items()},
            "findings": [f.as_dict() for f in self.findings],
            "slow": [asdict(s) for s in self.slow],
        }

    def __str__(self) -> str:
        rows = [_HEADINGS, *(_row(name, c) for name, c in self.counts.items())]
        if len(self.counts) > 1:
            rows.append(_row("all", self.total))
        return "\n".join(
            [
                f"oneDNN {self.version} ({self.runtime}), {self.isa}, {self.cpu}, "
                f"{self.threads} threads, seeds from {self.seed}",
                "",
                *text_table(rows, right=range(1, len(_HEADINGS))),
                *self._slowest(),
                *self._found(),
            ]
        )

    def _slowest(self) -> Iterable[str]:
        if not self.slow:
            return
        yield "\nslower than their separate ops:"
        ordered = sorted(self.slow, key=lambda s: -s.ratio)
        yield from shortened(
            [f"{s.ratio:.1f} times: {s.family} {s.seed}: {', '.join(s.steps)}" for s in ordered],
            _SHOWN_SLOW,
        )

    def _found(self) -> Iterable[str]:
        if self.ok:
            yield "\nnothing is wrong or crashes in models compiled by default"
            return
        yield "\nin models compiled by default:"
        for finding in self.findings:
            if finding.graph:
                yield str(finding)
        others = [f for f in self.findings if not f.graph]
        for (family, verdict), n in Counter((f.family, f.verdict) for f in others).items():
            seeds = [str(f.seed) for f in others if (f.family, f.verdict) == (family, verdict)]
            more = f" and {n - 5} more" if n > 5 else ""
            yield f"{verdict}, not reduced: {family} {', '.join(seeds[:5])}{more}"


def _row(name: str, c: Count) -> tuple[str, ...]:
    counts = (c.cases, c.wrong, c.crashed, c.avoided, c.slow, c.refused, c.numpy)
    return (name, *(str(n) for n in counts), f"{c.seconds:.1f}")
