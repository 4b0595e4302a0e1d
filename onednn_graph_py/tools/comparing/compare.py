"""Run one graph under several settings, each in its own process: `compare`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ...base.errors import InvalidArgumentsError
from ...machine.store import processor
from ...model.building.builder import GraphBuilder
from ...serialization import GraphDocument, from_builder, parse
from ...serialization.options import Rewriting, parse_rewritings
from ...serialization.read import JSONSource, file_of
from ..replay.stages import Ended
from ..replay.verdicts import Verdict
from .column import Column
from .graph_files import GraphFiles, constant_values
from .run import Run
from .settings import Settings, settings_of
from .table import Comparison
from .timing import summed_up

ROUNDS = 5  # the number of rounds in which the runs take turns at being timed

_MEMORY_SHARE = 0.9  # of what is free, for all runs together

Progress = Callable[[str], None]


def compare_document(
    document: GraphDocument,
    settings: Settings,
    *,
    name: str = "graph",
    values: dict[int, Any] | None = None,
    seconds: float = 1.0,
    verify: bool = True,
    kernels: bool = False,
    seed: int = 0,
    timeout: float = 600.0,
    progress: Progress = lambda text: None,
) -> Comparison:
    """Compare runs of a graph under settings; see `compare`.

    `values` has those of constants, by tensor id.
    """
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="onednn_graph_py-") as folder:
        files = GraphFiles(Path(folder), document, values or {}, settings.fpmath)
        columns = [
            Column(setting, settings.label(setting), files, i)
            for i, setting in enumerate(settings.all())
        ]
        try:
            for i, column in enumerate(columns):
                progress(f"compiling {i + 1} of {len(columns)}: {column.run.label}")
                column.start(seed, timeout, _MEMORY_SHARE / (len(columns) - i))
            _check_inputs(columns)
            if seconds > 0:
                _time(columns, seconds, timeout, progress)
            if kernels:
                _name_kernels(columns, timeout, progress)
            progress("comparing outputs")
            _check_outputs(columns, verify, seed, timeout)
        finally:
            for column in columns:
                column.stop()
    for i, column in enumerate(columns):
        earlier = (k for k in range(i) if columns[k].run.steps == column.run.steps)
        found = next(earlier, None) if column.run.steps else None
        column.run.same_steps_as = None if found is None else found + 1
    runs = tuple(column.run for column in columns)
    return Comparison(name, runs, processor(), seconds, ROUNDS, load)


def _check_inputs(columns: Sequence[Column]) -> None:
    """Stop runs with other inputs, as other versions of the package may fill them differently."""
    first = next((c for c in columns if c.inputs), None)
    for column in columns:
        if first is not None and column.inputs not in ("", first.inputs):
            reason = (
                f"onednn_graph_py {column.run.package} fills inputs with other numbers than "
                f"{first.run.package}"
            )
            column.inputs = ""
            column.ended(Ended(Verdict.REFUSED, reason))


def _time(columns: Sequence[Column], seconds: float, timeout: float, progress: Progress) -> None:
    for number in range(ROUNDS):
        progress(f"timing, round {number + 1} of {ROUNDS}")
        # Rounds alternate in direction, so that no run always follows the same other run.
        for column in columns if number % 2 == 0 else reversed(columns):
            if column.process is None:
                continue
            try:
                made = column.process.ask("time", timeout, seconds=seconds / ROUNDS)
                column.rounds.append(made["times"])
            except Ended as e:
                column.ended(e)
                column.rounds = []
    for column in columns:
        for name, value in summed_up(column.rounds, columns[0].rounds).items():
            setattr(column.run, name, value)
        column.run.calls = sum(map(len, column.rounds))


def _name_kernels(columns: Sequence[Column], timeout: float, progress: Progress) -> None:
    """Ask each process for its kernels' names, for which it starts another process with a log."""
    for column in columns:
        if column.process is None:
            continue
        progress(f"naming kernels: {column.run.label}")
        try:
            # The worker must end its own process before it is ended itself.
            found = column.process.ask("kernels", timeout, seconds=0.9 * timeout)
        except Ended as e:
            if e.verdict is Verdict.REFUSED:  # by a package that can't do this yet
                column.run.notes += (f"kernels are not known: {e.reason}",)
            else:
                column.ended(e)
            continue
        column.run.kernels = tuple(map(tuple, found["kernels"]))
        if found["unknown"]:
            column.run.notes += (f"kernels are not known: {found['unknown']}",)


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
            found = process.ask(
                "differences", timeout, first=columns[0].outputs, runs=[c.outputs for c in ran]
            )
            for column, difference in zip(ran, found["differences"], strict=True):
                column.run.difference = difference
        if not verify:
            return
        for graph in dict.fromkeys(c.graph["graph"] for c in ran):
            of_graph = [c for c in ran if c.graph["graph"] == graph]
            found = process.ask(
                "verify",
                timeout,
                **of_graph[0].graph,
                seed=seed,
                runs=[c.outputs for c in of_graph],
                memory_share=_MEMORY_SHARE,
            )
            for column, checked in zip(of_graph, found["runs"], strict=True):
                _judge(column.run, checked)
    except Ended as e:
        for column in ran:
            if column.run.error is None:
                column.run.notes += (f"not verified: {e.reason}",)


def _judge(run: Run, checked: dict[str, Any]) -> None:
    run.error, run.share = checked["error"], checked["share"]
    if checked["wrong"]:
        run.verdict, run.reason = Verdict.WRONG, checked["wrong"]
    elif run.verdict is Verdict.RAN:
        run.verdict = Verdict.PASSED


def _rewriting(words: str | Sequence[str]) -> Rewriting | None:
    given = [words] if isinstance(words, str) else list(words)
    if not given:
        return None
    made = parse_rewritings(o if o.startswith("--") else f"--{o}" for o in given)
    if len(made) > 1:
        raise InvalidArgumentsError(
            f"rewrite: expected one way to rewrite the graph, got {len(made)}: "
            f"{'; '.join(str(r) for r in made)}"
        )
    return made[0]


def compare(
    graph: GraphBuilder | JSONSource,
    *,
    isa: str | Sequence[str] = (),
    threads: int | Sequence[int] = (),
    fpmath: str | Sequence[str] = (),
    onednn: str | Sequence[str] = (),
    rewrite: str | Sequence[str] = (),
    seconds: float = 1.0,
    verify: bool = True,
    kernels: bool = False,
    seed: int = 0,
    timeout: float = 600.0,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Run one graph under all combinations of settings, each in its own process.

    All runs get the same inputs, which `fill_inputs` makes. Their processes exist side by side,
    but only one works at a time: after all have compiled, they are timed in rounds, so that a
    temporary slowdown of the machine affects all of them.

    Parameters
    ----------
    graph : GraphBuilder, path, str, bytes or dict
        A graph, or its JSON; constants of a GraphBuilder have their values.
    isa : str or sequence of str, optional
        Highest instruction sets, as `cpu_isa` names them, such as ``["avx2", "avx512_core"]``;
        ``default`` for no limit. A str may list several, separated by commas.
    threads : int or sequence of int, optional
        Threads per call.
    fpmath : str or sequence of str, optional
        Floating-point math modes, as `fpmath_mode` names them; ``bf16:true`` includes integers.
    onednn : str or sequence of str, optional
        Environments with this package and a oneDNN: ``here``, a Python executable, or a virtual
        environment's folder.
    rewrite : str or sequence of str, optional
        Changes to the graph, in benchdnn's options: ``in-shapes=0:8x64``, ``dt=bf16``.
    seconds : float
        Time for which to time each run, in seconds; 0 does not time them.
    verify : bool
        Compare outputs with the NumPy reference, within the rounding errors of the math mode.
    kernels : bool
        Name the kernels that oneDNN runs, as `explain` does.
    seed : int
        Seed for generated inputs.
    timeout : float
        Time limit of a process for compiling, for a round or for the reference, in seconds.
    progress : callable, optional
        Called with a text about each stage of the work.

    Returns
    -------
    Comparison
        It prints as a table, in notebooks too; `Comparison.runs` has the numbers. Crashes and
        refusals are verdicts of runs, not exceptions.

    Raises
    ------
    InvalidArgumentsError
        A setting has an invalid value; an environment lacks this package, or a suitable version.
    GraphFormatError
        The JSON is not a graph.
    OneDNNError
        The graph can't be rewritten, or can't be written as JSON.
    OSError
        The file can't be read.

    Notes
    -----
    By default runs use the graph's own math mode, the present environment, and the instruction set
    and number of threads of a new process.

    Examples
    --------
    >>> b = GraphBuilder()
    >>> b.output(b.input((8, 16)).relu())
    >>> made = compare(b, isa=["sse41", "avx2"], seconds=0)
    >>> [str(run.verdict) for run in made.runs]
    ['passed', 'passed']
    """
    settings = settings_of(isa, threads, fpmath, onednn)
    rewriting = _rewriting(rewrite)
    name = "graph"
    if isinstance(graph, GraphBuilder):
        document = from_builder(graph)
    else:
        document = parse(graph)
        name = str(file_of(graph) or name)
    if rewriting is not None:
        document = rewriting.apply(document)
        name = f"{rewriting} {name}"
    values = constant_values(graph, document) if isinstance(graph, GraphBuilder) else {}
    return compare_document(
        document,
        settings,
        name=name,
        values=values,
        seconds=seconds,
        verify=verify,
        kernels=kernels,
        seed=seed,
        timeout=timeout,
        progress=progress or (lambda text: None),
    )
