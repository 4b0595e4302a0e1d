"""Search for wrong and slow graphs of all families, and reduce them, in processes that may die."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ...base.errors import InvalidArgumentsError, OneDNNError
from ...base.linked import version
from ...base.processes import MODELS, STARTUP, Isolated, ending, failure
from ...base.processes import Answer as Ended
from ...machine import current
from ...machine.store import processor
from ...model.building.value import is_whole
from ...model.rewriting.rebuild import rebuild
from ...serialization import GraphDocument, parse, to_builder, to_json
from ..shrinking import Outcome, Shows, shrink
from ..shrinking.trial import Symptom, signature_of
from .draft import Drawn, inputs_of
from .draws import Family
from .questions import SLOW, Answer, Verdict, compared, compiled, several, tested
from .report import Count, Finding, Report, Slow

_BATCH = (4, 32)
"""The number of cases in a batch, at first and at most.

If the process of a batch dies, each case is judged separately.
"""
_BATCH_SECONDS = 2.0
_FINE: tuple[Verdict, ...] = ("right", "refused")

Progress = Callable[[Report, float], None]
"""A function that is called with the findings so far and the seconds left."""


def _answer(ended: Ended, timeout: float) -> Answer:
    """Return a process's answer about one case, or how it ended."""
    if ended[0] == "returned":
        answer: Answer = ended[1]
        return answer
    hung = ended[0] == "hang"
    reason = failure(ended, timeout)
    return Answer("hung" if hung else "crashed", reason, seconds=timeout if hung else 0.0)


class _Asker:
    """Judges cases in another process: all together, then those that are not right one by one.

    What is wrong only together counts too: oneDNN may be wrong because of earlier cases.
    """

    def __init__(self, process: Isolated, threads: int, timeout: float, timed: bool) -> None:
        self.process = process
        self.timed = timed
        self.threads = threads
        self.timeout = timeout

    def _each(
        self, draw: Family, seeds: Sequence[int], known: Sequence[Sequence[str] | None]
    ) -> list[Answer]:
        limit = max(self.timeout, STARTUP)
        how, what = self.process.call(
            several, draw, list(seeds), self.threads, list(known), self.timed, timeout=limit
        )
        answers: list[Answer] = what if how == "returned" else [Answer("crashed")] * len(seeds)
        results: list[Answer] = []
        for i, (answer, seed, steps) in enumerate(zip(answers, seeds, known, strict=True)):
            if answer.verdict not in _FINE:
                alone = self._alone(draw, seed, steps)
                if how != "returned" or alone.verdict not in _FINE:
                    answer = alone
                else:
                    answer = replace(answer, reason=f"behind {[*seeds[:i]]}: {answer.reason}")
            results.append(answer)
        if how == "ended" and all(a.verdict in _FINE for a in results):
            results[-1] = replace(
                results[-1], verdict="crashed", reason=f"{[*seeds]}: {ending(what)}"
            )
        return results

    def _alone(self, draw: Family, seed: int, known: Sequence[str] | None) -> Answer:
        asked = (tested, draw, seed, self.threads, known)
        return _answer(self.process.call(*asked, timeout=self.timeout), self.timeout)

    def ask(self, draw: Family, seeds: Sequence[int]) -> list[tuple[Answer, Answer | None]]:
        """Judge each graph as compiled by default; if right or refused, as oneDNN fuses it too."""
        default = self._each(draw, seeds, [None] * len(seeds))
        fine = [i for i, a in enumerate(default) if a.verdict in _FINE]
        plain: dict[int, Answer] = {}
        if fine and self.timed:
            others = self._each(draw, [seeds[i] for i in fine], [default[i].steps for i in fine])
            plain = dict(zip(fine, others, strict=True))
        return [(a, plain.get(i)) for i, a in enumerate(default)]


def _add(report: Report, family: str, seed: int, answer: Answer, plain: Answer | None) -> None:
    """Add the answers about a case to the report."""
    report.counts[family].add(answer, plain)
    if answer.verdict not in _FINE:
        finding = Finding(family, seed, answer.verdict, answer.reason, answer.steps)
        report.findings.append(finding)
    elif answer.ratio is not None and answer.ratio > SLOW:
        report.slow.append(Slow(family, seed, answer.ratio, answer.steps))


def search(
    families: Mapping[str, Family],
    *,
    seconds: float,
    seed: int = 0,
    most: int | None = None,
    timeout: float = 60.0,
    timed: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Judge random graphs of all families, each of which gets an equal share of the time.

    Running cases are still judged after `seconds`, and every family gets at least some of at most
    `most` cases. Only if `timed`, models are timed, and oneDNN's own partitions are tested too.
    """
    here = current()
    report = Report(
        version().release,
        here.runtime,
        here.isa,
        processor(),
        here.threads,
        seed,
        {name: Count() for name in families},
    )
    until = time.monotonic() + seconds
    left = {name: range(seed, sys.maxsize)[:most] for name in families}
    with Isolated(*MODELS) as process:
        asker = _Asker(process, here.threads, timeout, timed)
        while True:
            late = time.monotonic() >= until
            # Every family gets at least one batch.
            waiting = [n for n, seeds in left.items() if seeds and not (late and seeds[0] > seed)]
            if not waiting:
                return report
            # The family that had the least time so far.
            family = min(waiting, key=lambda name: report.counts[name].seconds)
            count = report.counts[family]
            size = _BATCH[0]
            if count.cases:  # as many as take about as long as a batch may
                size = min(max(1, int(_BATCH_SECONDS * count.cases / count.seconds)), _BATCH[1])
            seeds, left[family] = left[family][:size], left[family][size:]
            began = time.monotonic()
            answers = asker.ask(families[family], seeds)
            count.seconds += time.monotonic() - began
            for number, (answer, plain) in zip(seeds, answers, strict=True):
                _add(report, family, number, answer, plain)
            if progress is not None:
                progress(report, max(0.0, until - time.monotonic()))


Trial = Callable[[GraphDocument, int], Outcome]

_SYMPTOMS: dict[Verdict, Symptom] = {"wrong": "mismatch", "crashed": "crash", "hung": "hang"}
_SHARE = 0.34  # the share of the time left for one finding
_LEAST = 5.0  # seconds for one finding, at least
_TRY = 20.0  # seconds for one graph of a finding


def drawn(draw: Family, seed: int) -> str:
    """Draw a graph; return its JSON, with the sizes of its first call."""
    drawing = draw(seed)
    inputs = zip(drawing.builder.inputs, drawing.calls[0], strict=False)
    shapes = {v.id: array.shape for v, array in inputs}
    whole = all(is_whole(v.shape or ()) for v in drawing.builder.inputs)
    return to_json(drawing.builder if whole else rebuild(drawing.builder, shapes=shapes).builder)


def model_trial(document: GraphDocument, seed: int) -> Outcome:
    """Try a graph in a model compiled by default, for `Shows`, which else tries bare partitions."""
    try:
        builder = to_builder(document)
        case = Drawn(builder, [inputs_of(builder, seed)])
        wrong = compared(case, compiled(case, None), seed)
    except OneDNNError as e:
        return Outcome("refused", str(e), (signature_of(e),))
    return Outcome("passed") if wrong is None else Outcome("mismatch", wrong, ("mismatch",))


def _reduced(finding: Finding, whole: str, seconds: float, trial: Trial) -> None:
    """Search for the smallest graph with a time limit in seconds, and set it in the finding."""
    until = time.monotonic() + seconds
    document = parse(json.loads(whole))
    finding.graph = whole
    with Shows(_SYMPTOMS[finding.verdict], seed=finding.seed, timeout=_TRY, trial=trial) as shows:

        def shown(smaller: GraphDocument) -> bool:
            return time.monotonic() < until and shows(smaller)

        try:
            smallest = shrink(document, shown)
        except InvalidArgumentsError:
            finding.summary = f"its file alone does not show it: {shows.outcome(document)}"
            return
        finding.graph = to_json(smallest)
        finding.summary = " + ".join(op.kind for op in smallest.graph)
        finding.reason = shows.outcome(smallest).reason or finding.reason


def _in_turn(findings: Sequence[Finding]) -> list[Finding]:
    """Sort findings: first those unlike all before them, with the families in turn."""
    times: Counter[object] = Counter()
    order: list[tuple[int, int, Finding]] = []
    for finding in findings:
        alike = (finding.family, finding.verdict, finding.steps)
        family = (finding.family, times[alike])
        order.append((times[alike], times[family], finding))
        times[alike] += 1
        times[family] += 1
    return [finding for *_, finding in sorted(order, key=lambda o: o[:2])]


def reduce_findings(
    findings: Sequence[Finding],
    families: Mapping[str, Family],
    seconds: float,
    *,
    trial: Trial = model_trial,
    progress: Callable[[Finding], None] = lambda finding: None,
) -> None:
    """Set the smallest graphs of findings, first one of each kind, within so many seconds."""
    until = time.monotonic() + seconds
    with Isolated(*MODELS) as process:
        for finding in _in_turn(findings):
            left = until - time.monotonic()
            if left <= 0:
                return
            ended, answer = process.call(
                drawn, families[finding.family], finding.seed, timeout=_TRY
            )
            if ended != "returned":
                finding.summary = (
                    f"it has no file: {answer}"
                    if ended == "raised"
                    else "drawing it already does it"
                )
                continue
            _reduced(finding, answer, max(left * _SHARE, min(left, _LEAST)), trial)
            progress(finding)
