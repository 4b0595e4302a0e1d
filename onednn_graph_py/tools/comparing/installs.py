"""Python environments with this package and a oneDNN, and workers in them."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..._core import __version__
from ...base.errors import InvalidArgumentsError
from ...base.loading.opencl_drivers import VARIABLE, provided
from ...base.processes import JSON, STARTUP, NoAnswer, Process, import_path, quiet
from ..replay.stages import Ended
from ..replay.verdicts import Verdict
from . import bootstrap
from .worker import hello

HERE = "here"  # the name of the caller's environment

# The older name is a synonym.
_MAX_ISA = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")


class WorkerProcess(Process):
    """A worker process of any install, which answers one request at a time.

    It runs a Python file, with the file descriptor of a connection as its argument. `status` is its
    exit status, set when an answer was missing because the process had ended.
    """

    def __init__(self, python: str, script: str, environment: Mapping[str, str]) -> None:
        self.status: int | None = None
        super().__init__(
            script,
            python=python,
            environment=environment,
            # Not the caller's folder: `python -m` there would prefer the packages in it.
            folder=tempfile.gettempdir(),
            keep_errors=True,
            form=JSON,
        )

    def answer(self, timeout: float | None = STARTUP) -> dict[str, Any]:
        """Return the worker's next answer, which is first `worker.hello`; the limit is in seconds.

        It raises `Ended` if the worker ended, took too long, or can't continue with the graph.
        """
        try:
            answer: dict[str, Any] = super().answer(timeout)
        except NoAnswer as e:
            self.status = e.status
            self.stop()
            verdict = Verdict.TIMED_OUT if e.status is None else Verdict.CRASHED
            raise Ended(verdict, e) from None
        if "verdict" in answer:
            raise Ended(Verdict(answer["verdict"]), answer["reason"])
        return answer

    def ask(self, request: str, timeout: float | None = STARTUP, **what: Any) -> dict[str, Any]:
        """Send a request by the worker's name for it, with JSON arguments; return the answer."""
        self.send({"do": request, **what})
        return self.answer(timeout)


@dataclass(frozen=True)
class Install:
    """A Python environment with this package.

    `where` is its name, as the user gave it: `HERE`, a Python executable, or the folder of a
    virtual environment. `facts` are those that `worker.hello` returns there.
    """

    where: str
    python: str
    facts: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def onednn(self) -> str:
        """The version and the runtime of its oneDNN."""
        return f"{self.facts['onednn']} {self.facts['runtime']}"

    def start(self, isa: str | None = None) -> WorkerProcess:
        """Start a worker, with the highest instruction set that oneDNN may use there."""
        environment = quiet()
        if self.where == HERE:  # the worker must import the same modules as the caller
            environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, import_path()))
        else:
            for name in ("PYTHONPATH", "PYTHONHOME"):  # of the caller's Python
                environment.pop(name, None)
            if provided() is not None:  # the caller's package has found its own environment's
                environment.pop(VARIABLE, None)
        if isa is not None:
            for name in _MAX_ISA:
                environment.pop(name, None)
            environment[_MAX_ISA[0]] = isa
        return WorkerProcess(self.python, bootstrap.__file__, environment)


def _executable(where: str) -> str:
    path = Path(where).expanduser()
    if path.is_dir():
        path = path / "bin" / "python"
        if not path.is_file():
            raise InvalidArgumentsError(f"onednn {where!r}: this folder has no bin/python")
    elif not path.is_file():
        raise InvalidArgumentsError(
            f"onednn {where!r}: expected 'here', a Python executable, or the folder of a virtual "
            "environment; there is no such file"
        )
    if not os.access(path, os.X_OK):
        raise InvalidArgumentsError(f"onednn {where!r}: {path} can't be executed")
    return os.path.abspath(path)  # a link as it is: its place is what makes it an environment's


def find_install(where: str) -> Install:
    """Find a Python environment (see `Install.where`), and check that its package can compare."""
    if where == HERE:
        return Install(HERE, sys.executable, hello())
    install = Install(where, _executable(where))
    try:
        process = install.start()
    except OSError as e:
        raise InvalidArgumentsError(f"onednn {where!r}: {e}") from None
    try:
        facts = process.answer()
    except Ended as e:
        why = {
            bootstrap.MISSING: "onednn_graph_py is not installed there",
            bootstrap.TOO_OLD: "the onednn_graph_py there is too old to compare",
        }.get(process.status if process.status is not None else 0)
        raise InvalidArgumentsError(
            f"onednn {where!r}: {why or f'the worker did not start: {e.reason}'}"
        ) from None
    finally:
        process.stop()
    if facts["package"] != __version__:
        raise InvalidArgumentsError(
            f"onednn {where!r}: its onednn_graph_py is {facts['package']}, and this one "
            f"{__version__}: install equal versions"
        )
    return Install(where, install.python, facts)
