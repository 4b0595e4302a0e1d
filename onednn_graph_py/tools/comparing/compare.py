"""Run one graph under several settings, each in its own process: `compare`."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..._core import cpu_isa, fpmath_mode, get_effective_cpu_isa
from ...base.arguments import need_whole
from ...base.errors import InvalidArgumentsError
from ...base.linked import version
from ...base.processes import STARTUP, NoAnswer, Process, calling, quiet
from ...base.text.names import did_you_mean
from ...machine.store import processor
from ...model.building.builder import GraphBuilder
from ...serialization import GraphDocument, from_builder, parse
from ...serialization.read import JSONSource, file_of
from ..replay.stages import Ended
from ..replay.verdicts import Verdict
from .table import Comparison, Run
from .timing import summed_up

DEFAULT_ISA = "default"  # oneDNN's name for no limit
# Some have two names.
ISAS = {name: m.name for name, m in cpu_isa.__members__.items() if name != "isa_default"}


def onednn() -> str:
    """Return the version and the runtime of the linked oneDNN."""
    return f"{version().release} {version().cpu_runtime}"


@dataclass(frozen=True)
class Setting:
    """One combination of settings, None for those that are not varied; the label has the others."""

    isa: str | None
    threads: int | None
    fpmath: str | None
    label: str = ""


def _unknown(what: str, name: str, known: Iterable[str]) -> InvalidArgumentsError:
    names = dict.fromkeys(known)
    hint = did_you_mean(name, names, str) or f"; there are: {', '.join(names)}"
    return InvalidArgumentsError(f"{what}: oneDNN knows no {name!r}{hint}")


def _isa(text: str) -> str:
    name = text.lower()
    if name not in (DEFAULT_ISA, *ISAS):
        raise _unknown("isa", name, (DEFAULT_ISA, *ISAS))
    return name


def _math_mode(text: str) -> str:
    mode, colon, integers = text.partition(":")
    if mode not in fpmath_mode.__members__:
        raise _unknown("fpmath", mode, fpmath_mode.__members__)
    if colon and integers not in ("true", "false"):
        raise InvalidArgumentsError(f"fpmath: expected MODE[:true|false], got {text!r}")
    return text


def _listed(words: str | Sequence[str]) -> list[str]:
    return words.split(",") if isinstance(words, str) else list(words)


def settings_of(
    isa: str | Sequence[str] = (),
    threads: int | Sequence[int] = (),
    fpmath: str | Sequence[str] = (),
) -> list[Setting]:
    """Check the settings to vary; return all combinations, the last setting changing fastest."""
    several = threads if isinstance(threads, Iterable) else [threads]
    counts = [need_whole("threads", n) for n in several]
    isas: Sequence[str | None] = [*dict.fromkeys(map(_isa, _listed(isa)))] or [None]
    numbers: Sequence[int | None] = [*dict.fromkeys(counts)] or [None]
    modes: Sequence[str | None] = [*dict.fromkeys(map(_math_mode, _listed(fpmath)))] or [None]
    settings = [Setting(*each) for each in itertools.product(isas, numbers, modes)]
    return [replace(setting, label=_label(setting, (isas, numbers, modes))) for setting in settings]


def _label(setting: Setting, varied: Sequence[Sized]) -> str:
    count = setting.threads
    texts = (setting.isa, f"{count} thread{'s' if count != 1 else ''}", setting.fpmath)
    parts = [str(t) for t, values in zip(texts, varied, strict=True) if len(values) > 1]
    return ", ".join(parts) or onednn()


ROUNDS = 5  # the number of rounds in which the runs take turns at being timed

_MEMORY_SHARE = 0.9  # of what is free, for all runs together
# The older name is a synonym.
_MAX_ISA = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")

Progress = Callable[[str], None]
Constants = Mapping[int, npt.NDArray[Any]]
"""Values of constants as a builder keeps them, by tensor id."""


class WorkerProcess(Process):
    """A process that answers one request at a time, with this highest instruction set."""

    def __init__(self, isa: str | None = None) -> None:
        environment = quiet()
        if isa is not None:
            for name in _MAX_ISA:
                environment.pop(name, None)
            environment[_MAX_ISA[0]] = isa
        super().__init__(
            *calling(f"{__package__}.worker"), environment=environment, keep_errors=True
        )

    def answer(self, timeout: float | None = STARTUP) -> dict[str, Any]:
        """Return the worker's next answer; the first one has its instruction set.

        It raises `Ended` if the worker ended, took too long, or can't continue with the graph.
        """
        try:
            answer: dict[str, Any] = super().answer(timeout)
        except NoAnswer as e:
            self.stop()
            raise Ended(Verdict.TIMED_OUT if e.status is None else Verdict.CRASHED, e) from None
        if "verdict" in answer:
            raise Ended(answer["verdict"], answer["reason"])
        return answer

    def ask(self, request: str, timeout: float | None = STARTUP, **what: Any) -> dict[str, Any]:
        """Send a request by the worker's name for it; return the answer."""
        self.send({"do": request, **what})
        return self.answer(timeout)


class Column:
    """A run with its process; `number` is the run's number."""

    def __init__(
        self,
        setting: Setting,
        document: GraphDocument,
        constants: Constants,
        folder: Path,
        number: int,
    ) -> None:
        self.setting = setting
        if setting.fpmath is not None:
            mode, colon, integers = setting.fpmath.partition(":")
            document = replace(document, fpmath_mode=mode)
            if colon:
                document = replace(document, fpmath_mode_apply_to_int=integers == "true")
        self.graph = {"document": document, "constants": constants}
        self.run = Run(setting.label)
        self.process: WorkerProcess | None = None
        self.outputs = [str(folder / f"{number}-{i}.npy") for i in range(len(document.outputs()))]
        self.rounds: list[list[float]] = []

    def ended(self, end: Ended) -> None:
        """Record why the run ended early, and end its process."""
        self.run.verdict, self.run.reason = end.verdict, end.reason
        self.stop()

    def stop(self) -> None:
        """End its process."""
        if self.process is not None:
            self.process.stop()
            self.process = None

    def start(self, seed: int, timeout: float, memory_share: float) -> None:
        """Start the process, and have it load the graph."""
        run = self.run
        try:
            self.process = WorkerProcess(self.setting.isa)
            run.isa = self.process.answer()["isa"]
            self.check_isa()
            answer = self.process.ask(
                "load",
                timeout,
                **self.graph,
                threads=self.setting.threads,
                seed=seed,
                outputs=self.outputs,
                memory_share=memory_share,
            )
        except Ended as e:
            self.ended(e)
            return
        run.partitions, run.threads, run.fpmath = (
            answer[name] for name in ("partitions", "threads", "fpmath")
        )
        run.steps = tuple(answer["steps"])
        run.notes += tuple(answer["notes"])
        if answer["split"]:
            run.verdict, run.reason = Verdict.SPLIT, answer["split"]

    def check_isa(self) -> None:
        """Add a note if oneDNN does not use the requested instruction set."""
        asked, used = self.setting.isa, self.run.isa
        if asked is None or asked == DEFAULT_ISA or ISAS[asked] == used:
            return
        why = (
            f"the highest that oneDNN can use on this CPU is {used}"
            if used == get_effective_cpu_isa().name
            else f"oneDNN uses {used}"
        )
        self.run.notes += (f"asked for the ISA {asked}, but {why}",)


def constants_of(builder: GraphBuilder, document: GraphDocument) -> Constants:
    """Return the constants that ops read, by their ids in the builder's document."""
    read = {v.id for n in builder.nodes for v in n.inputs}
    constants = [v for v in builder.constants if v.id in read]
    ids = (document.input_ports or ())[len(builder.inputs) :]
    return {i: np.asarray(v.data) for i, v in zip(ids, constants, strict=True)}


def _time(columns: Sequence[Column], seconds: float, timeout: float, progress: Progress) -> None:
    for number in range(ROUNDS):
        progress(f"timing, round {number + 1} of {ROUNDS}")
        # Rounds alternate in direction, so that no run always follows the same other run.
        for column in columns if number % 2 == 0 else reversed(columns):
            if column.process is None:
                continue
            try:
                answer = column.process.ask("time", timeout, seconds=seconds / ROUNDS)
                column.rounds.append(answer["times"])
            except Ended as e:
                column.ended(e)
                column.rounds = []
    for column in columns:
        for name, value in summed_up(column.rounds, columns[0].rounds).items():
            setattr(column.run, name, value)
        column.run.calls = sum(map(len, column.rounds))


def _check_outputs(columns: Sequence[Column], verify: bool, seed: int, timeout: float) -> None:
    """Compare outputs with the first run's and the reference, in one of the processes."""
    ran = [c for c in columns if c.run.verdict in (Verdict.RAN, Verdict.SPLIT)]
    if not ran:
        return
    for column in columns:
        if column is not ran[0]:
            column.stop()  # for its memory
    process = ran[0].process
    assert process is not None
    try:
        if ran[0] is columns[0]:
            answer = process.ask(
                "differences", timeout, first=columns[0].outputs, runs=[c.outputs for c in ran]
            )
            for column, difference in zip(ran, answer["differences"], strict=True):
                column.run.difference = difference
        if not verify:
            return
        for mode in dict.fromkeys(c.setting.fpmath for c in ran):
            of_graph = [c for c in ran if c.setting.fpmath == mode]
            answer = process.ask(
                "verify",
                timeout,
                **of_graph[0].graph,
                seed=seed,
                runs=[c.outputs for c in of_graph],
                memory_share=_MEMORY_SHARE,
            )
            for column, checked in zip(of_graph, answer["runs"], strict=True):
                run = column.run
                run.error, run.share = checked["error"], checked["share"]
                if checked["wrong"]:
                    run.verdict, run.reason = Verdict.WRONG, checked["wrong"]
                elif run.verdict is Verdict.RAN:
                    run.verdict = Verdict.PASSED
    except Ended as e:
        for column in ran:
            if column.run.error is None:
                column.run.notes += (f"not verified: {e.reason}",)


def compare(
    graph: GraphBuilder | GraphDocument | JSONSource,
    *,
    isa: str | Sequence[str] = (),
    threads: int | Sequence[int] = (),
    fpmath: str | Sequence[str] = (),
    seconds: float = 1.0,
    verify: bool = True,
    seed: int = 0,
    timeout: float = 600.0,
    progress: Progress | None = None,
    name: str = "",
) -> Comparison:
    """Run one graph under all combinations of settings, each in its own process.

    All runs get the same inputs, which `fill_inputs` makes. Their processes exist side by side,
    but only one works at a time: after all have compiled, they are timed in rounds, so that a
    temporary slowdown of the machine affects all of them.

    Parameters
    ----------
    graph : GraphBuilder, GraphDocument, path, str, bytes or dict
        A graph, or its JSON; constants of a GraphBuilder have their values.
    isa : str or sequence of str, optional
        Highest instruction sets, as `cpu_isa` names them, such as ``["avx2", "avx512_core"]``;
        ``default`` for no limit. A str may list several, separated by commas.
    threads : int or sequence of int, optional
        Threads per call.
    fpmath : str or sequence of str, optional
        Floating-point math modes, as `fpmath_mode` names them; ``bf16:true`` includes integers.
    seconds : float
        Time for which to time each run, in seconds; 0 does not time them.
    verify : bool
        Compare outputs with the NumPy reference, within the rounding errors of the math mode.
    seed : int
        Seed for generated inputs.
    timeout : float
        Time limit of a process for compiling, for a round or for the reference, in seconds.
    progress : callable, optional
        Called with a text about each stage of the work.
    name : str, optional
        The graph's name in the table; by default its file's, or ``graph``.

    Returns
    -------
    Comparison
        It prints as a table, in notebooks too; `Comparison.runs` has the numbers. Crashes and
        refusals are verdicts of runs, not exceptions.

    Raises
    ------
    InvalidArgumentsError
        A setting has an invalid value.
    GraphFormatError
        The JSON is not a graph.
    OneDNNError
        The graph can't be written as JSON.
    OSError
        The file can't be read.

    Notes
    -----
    By default runs use the graph's own math mode, and the instruction set and number of threads of
    a new process.

    Examples
    --------
    >>> b = GraphBuilder()
    >>> b.output(b.input((8, 16)).relu())
    >>> made = compare(b, isa=["sse41", "avx2"], seconds=0)
    >>> [str(run.verdict) for run in made.runs]
    ['passed', 'passed']
    """
    settings = settings_of(isa, threads, fpmath)
    constants: Constants = {}
    if isinstance(graph, GraphBuilder):
        document = from_builder(graph)
        constants = constants_of(graph, document)
    elif isinstance(graph, GraphDocument):
        document = graph
    else:
        document = parse(graph)
        name = name or str(file_of(graph) or "")
    report = progress or (lambda text: None)
    with tempfile.TemporaryDirectory(prefix="onednn_graph_py-") as folder:
        columns = [
            Column(setting, document, constants, Path(folder), i)
            for i, setting in enumerate(settings)
        ]
        try:
            for i, column in enumerate(columns):
                report(f"compiling {i + 1} of {len(columns)}: {column.run.label}")
                column.start(seed, timeout, _MEMORY_SHARE / (len(columns) - i))
            if seconds > 0:
                _time(columns, seconds, timeout, report)
            report("comparing outputs")
            _check_outputs(columns, verify, seed, timeout)
        finally:
            for column in columns:
                column.stop()
    for i, column in enumerate(columns):
        earlier = (k for k in range(i) if columns[k].run.steps == column.run.steps)
        same = next(earlier, None) if column.run.steps else None
        column.run.same_steps_as = None if same is None else same + 1
    runs = tuple(column.run for column in columns)
    return Comparison(name or "graph", runs, processor(), onednn(), seconds, ROUNDS)
