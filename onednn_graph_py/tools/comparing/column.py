"""One run of a comparison: its setting, its process and its results."""

from __future__ import annotations

from typing import Any

from ...model.running.model import Step
from ..replay.stages import Ended
from ..replay.verdicts import Verdict
from .graph_files import GraphFiles
from .process import WorkerProcess
from .run import Run
from .settings import DEFAULT_ISA, Setting


class Column:
    """A run with its process; `number` is the run's number."""

    def __init__(self, setting: Setting, label: str, files: GraphFiles, number: int) -> None:
        facts = setting.install.facts
        self.setting = setting
        self.files = files
        self.run = Run(
            label, setting.install.python, facts["package"], facts["onednn"], facts["runtime"]
        )
        self.process: WorkerProcess | None = None
        self.outputs = [str(files.folder / f"{number}-{i}.npy") for i in range(files.outputs)]
        self.inputs = ""  # their digest
        self.rounds: list[list[float]] = []

    @property
    def graph(self) -> dict[str, Any]:
        """The arguments that make a worker load the graph."""
        return {
            "graph": str(self.files.graph(self.setting.fpmath)),
            "constants": self.files.constants,
        }

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
        run, asked = self.run, self.setting.isa
        known = self.setting.install.facts["isas"]
        if asked not in (None, DEFAULT_ISA) and asked not in known:
            # oneDNN would silently use no limit.
            self.ended(Ended(Verdict.REFUSED, f"oneDNN {run.onednn} knows no ISA {asked!r}"))
            return
        try:
            self.process = self.setting.install.start(asked)
            run.isa = self.process.answer()["isa"]
            self.check_isa(known)
            made = self.process.ask(
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
        run.partitions, run.threads = made["partitions"], made["threads"]
        run.fpmath = made["fpmath"] + (":true" if made["apply_to_int"] else "")
        run.steps = tuple(
            Step(tuple(s["ops"]), tuple(s["names"]), s["implementation"]) for s in made["steps"]
        )
        run.notes += tuple(made["notes"])
        self.inputs = made["inputs"]
        if made["split"]:
            run.verdict, run.reason = Verdict.SPLIT, made["split"]

    def check_isa(self, known: dict[str, str]) -> None:
        """Add a note if oneDNN does not use the requested instruction set."""
        asked, used = self.setting.isa, self.run.isa
        if asked is None or asked == DEFAULT_ISA or known.get(asked) == used:
            return
        has = self.setting.install.facts["isa"]
        why = (
            f"the highest that oneDNN {self.run.onednn} can use on this CPU is {used}"
            if used == has
            else f"oneDNN {self.run.onednn} uses {used}"
        )
        self.run.notes += (f"asked for the ISA {asked}, but {why}",)
