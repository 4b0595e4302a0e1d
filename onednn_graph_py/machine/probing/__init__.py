"""Find the ops and data types that this oneDNN runs unfused on this CPU.

>>> import onednn_graph_py as og
>>> found = og.capabilities()
>>> found["MatMul"][0]
Capability(kind='MatMul', inputs=('f32', 'f32'), outputs=('f32',), outcome='runs', reason='')
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..._core import get_effective_cpu_isa
from ...base.linked import version
from ...base.processes import NoAnswer, Process, calling, ending, quiet
from ...base.text.markup import Markup, element
from ...base.text.table import html_table, text_table
from ..store import save
from .probe import Attempt, attempts
from .store import load, path

__all__ = ["OUTCOMES", "Capabilities", "Capability", "capabilities"]

OUTCOMES = {
    "runs": "compiled and ran",
    "unsupported": "oneDNN has no kernel for the op alone",
    "refused": "the graph rejects the op",
    "not compiled": "a supported partition that does not compile",
    "not run": "compiled, but executing it raised",
    "crashed": "the process died",
}
"""The outcomes of an attempt."""

_MARKS = {
    "runs": "yes",
    "unsupported": "-",
    "refused": "refused",
    "not compiled": "no compile",
    "not run": "no run",
    "crashed": "CRASH",
}
# Background colours with a contrast of at least 4.5 to white text.
_COLOURS = {
    "runs": "#2e7d32",
    "unsupported": "#707070",
    "refused": "#6d4c41",
    "not compiled": "#b34700",
    "not run": "#ad1457",
    "crashed": "#8e0000",
}
_LEFT = "text-align:left"


def _square(text: str, outcome: str, title: str) -> Markup:
    style = (
        "display:inline-block;min-width:3.2em;margin:1px;padding:0 3px;text-align:center;"
        f"color:#fff;font-size:80%;background:{_COLOURS[outcome]}"
    )
    return element("span", text, title=title, style=style)


@dataclass(frozen=True)
class Capability:
    """The result of trying one op with one choice of data types.

    Parameters
    ----------
    kind : str
    inputs, outputs : tuple of str
        Data types, port by port.
    outcome : str
        A key of `OUTCOMES`.
    reason : str
        The error, with oneDNN's reason; empty if it runs.
    """

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    outcome: str
    reason: str

    @property
    def types(self) -> str:
        """The data types, such as ``u8 f32 -> f32``; a single name if all are equal."""
        every = {*self.inputs, *self.outputs}
        if len(every) == 1:
            return every.pop()
        return f"{' '.join(self.inputs)} -> {' '.join(self.outputs)}"


class Capabilities(Sequence[Capability]):
    """The results of probing all ops; ``found["MatMul"]`` has those of one op.

    Prints as a table, and shows as a heat map in a notebook.
    """

    def __init__(self, found: Sequence[Capability]) -> None:
        self._found = tuple(found)

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, which: int | slice | str) -> Capability | Capabilities:  # type: ignore[override]
        if isinstance(which, str):
            return Capabilities([c for c in self._found if c.kind == which])
        if isinstance(which, slice):
            return Capabilities(self._found[which])
        return self._found[which]

    def __iter__(self) -> Iterator[Capability]:
        return iter(self._found)

    def runs(self, kind: str, *inputs: str) -> bool:
        """Return whether an op runs with these input types, with any output type."""
        return any(
            c.outcome == "runs" for c in self._found if c.kind == kind and c.inputs == inputs
        )

    def count(self, outcome: str) -> int:
        """Return the number of attempts with this outcome."""
        return sum(c.outcome == outcome for c in self._found)

    def _kinds(self) -> dict[str, list[Capability]]:
        kinds = dict.fromkeys(c.kind for c in self._found)
        return {kind: [c for c in self._found if c.kind == kind] for kind in kinds}

    def _title(self) -> str:
        linked = version()
        return f"oneDNN {linked.release}, {linked.cpu_runtime}, {get_effective_cpu_isa().name}"

    def _totals(self) -> str:
        counted = [(self.count(o), o) for o in OUTCOMES]
        return ", ".join(f"{n} {o}" for n, o in counted if n)

    def __str__(self) -> str:
        rows = []
        for kind, found in self._kinds().items():
            label = kind
            for outcome, mark in _MARKS.items():
                types = "; ".join(c.types for c in found if c.outcome == outcome)
                if types:
                    rows.append((label, mark, types))
                    label = ""
        head = f"Ops that run unfused: {self._title()}"
        return "\n".join([head, *text_table(rows), self._totals()])

    def __repr__(self) -> str:
        return f"<Capabilities: {self._totals()}>"

    def _repr_html_(self) -> str:
        """Return a heat map with a row for each op and a square for each choice of data types."""
        rows = []
        for kind, found in self._kinds().items():
            squares = (
                _square(c.types, c.outcome, f"{c.types}: {OUTCOMES[c.outcome]}. {c.reason}")
                for c in found
            )
            rows.append((element("th", kind, style=_LEFT), element("td", *squares, style=_LEFT)))
        legend = (_square(o, o, meaning) for o, meaning in OUTCOMES.items() if self.count(o))
        title = element("p", self._title())
        return title + element("p", *legend) + html_table((), rows)


def _probe(count: int, progress: Callable[[int, int], None]) -> list[tuple[str, str]]:
    """Run the prober; if an attempt crashes it, start it again with the next attempt."""
    outcomes: list[tuple[str, str]] = []
    while len(outcomes) < count:
        prober = Process(*calling(f"{__package__}.probe"), environment=quiet(), keep_errors=True)
        try:
            prober.answer()
            while len(outcomes) < count:
                outcomes.append(prober.ask(len(outcomes)))
                progress(len(outcomes), count)
        except NoAnswer as e:
            status = e.status or 0
            if status >= 0:
                raise RuntimeError(f"probing failed: {ending(status)}:\n{e.errors}") from None
            outcomes.append(("crashed", f"signal {-status}"))
        finally:
            prober.stop()
    return outcomes


def capabilities(
    *, refresh: bool = False, progress: Callable[[int, int], None] = lambda done, of: None
) -> Capabilities:
    """Find which ops run here unfused, and with which data types.

    A helper process tries each op in one small use, and stores the results on disk for this oneDNN
    and CPU. An op that does not run alone may still run fused with others.

    Parameters
    ----------
    refresh : bool
        Try again instead of reading stored results.
    progress : callable
        Called with the numbers of attempts done and in all.

    Returns
    -------
    Capabilities

    Raises
    ------
    RuntimeError
        The prober could not start.
    """
    tried: list[Attempt] = attempts()
    file = path(tried)
    outcomes = None if refresh else load(file, len(tried))
    if outcomes is None:
        outcomes = _probe(len(tried), progress)
        save(file, outcomes)
    return Capabilities(
        [
            Capability(a.kind, a.inputs, a.outputs, outcome, reason)
            for a, (outcome, reason) in zip(tried, outcomes, strict=True)
        ]
    )
