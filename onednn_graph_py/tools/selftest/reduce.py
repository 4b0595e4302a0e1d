"""Search for the smallest graph of each finding, for a model compiled by default."""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from ...base.errors import InvalidArgumentsError, OneDNNError
from ...base.processes import MODELS, Isolated
from ...model.building.value import is_whole
from ...model.rewriting.rebuild import rebuild
from ...serialization import GraphDocument, parse, to_builder, to_json
from ..shrinking import Outcome, Shows, shrink
from ..shrinking.outcome import Symptom, signature_of
from .draft import Drawn, inputs_of
from .draws import Family
from .questions import Verdict, compared, compiled
from .report import Finding

Trial = Callable[[GraphDocument, int], Outcome]

_SYMPTOMS: dict[Verdict, Symptom] = {"wrong": "mismatch", "crashed": "crash", "hung": "hang"}
_SHARE = 0.34  # the share of the time left for one finding
_LEAST = 5.0  # seconds for one finding, at least
_TRY = 20.0  # seconds for one graph of a finding


def drawn(draw: Family, seed: int) -> str:
    """Draw a graph; return its JSON, with the sizes of its first call."""
    made = draw(seed)
    inputs = zip(made.builder.inputs, made.calls[0], strict=False)
    shapes = {v.id: array.shape for v, array in inputs}
    whole = all(is_whole(v.shape or ()) for v in made.builder.inputs)
    return to_json(made.builder if whole else rebuild(made.builder, shapes=shapes).builder)


def model_trial(document: GraphDocument, seed: int) -> Outcome:
    """Try a graph in a model compiled by default, for `Shows`, which else tries bare partitions."""
    try:
        builder = to_builder(document)
        made = Drawn(builder, [inputs_of(builder, seed)])
        wrong = compared(made, compiled(made, None), seed)
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
            made = shrink(document, shown)
        except InvalidArgumentsError:
            finding.told = f"its file alone does not show it: {shows.outcome(document)}"
            return
        finding.graph = to_json(made)
        finding.told = " + ".join(op.kind for op in made.graph)
        finding.reason = shows.outcome(made).reason or finding.reason


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
                finding.told = (
                    f"it has no file: {answer}"
                    if ended == "raised"
                    else "drawing it already does it"
                )
                continue
            _reduced(finding, answer, max(left * _SHARE, min(left, _LEAST)), trial)
            progress(finding)
