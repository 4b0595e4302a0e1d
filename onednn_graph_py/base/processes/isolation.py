"""Calls of functions in a helper process, where a crash or a hang does no harm."""

from __future__ import annotations

import ctypes
import os
import pickle
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from ..errors import InvalidArgumentsError
from .forked import renew_in_forks
from .import_path import import_path
from .process import STARTUP, NoAnswer, Process, calling, ending, too_long

_T = TypeVar("_T")

Answer = tuple[Literal["returned", "raised", "ended", "hang"], Any]
"""The outcome of a call, with the returned object, the text of an error, an exit status (negative
for a signal) or None."""

MODELS = ("numpy.ma", "numpy.random", f"{__name__.partition('.')[0]}.model.running.model")
"""The modules of calls that compile and run models, for `Isolated`."""


def failure(answer: Answer, timeout: float | None, who: str = "") -> str:
    """Describe why a call has no result."""
    how, what = answer
    if how == "hang":
        return too_long(timeout or 0, who or "it")
    return ending(what, who or "the process") if how == "ended" else str(what).strip()


def printed(call: Callable[[], _T]) -> tuple[_T, str]:
    """Call a function, in a fork of `Isolated` only; return its result and what C code printed."""
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        result = call()
        ctypes.CDLL(None).fflush(None)
        file.seek(0)
        return result, file.read().decode("utf-8", "replace")


class Isolated:
    """A process that makes each call in a separate fork; the first call starts it.

    - `*modules`: modules that the calls need: imported once, where each fork would import them
      again
    - `environment`: by default the caller's
    """

    def __init__(self, *modules: str, environment: Mapping[str, str] | None = None) -> None:
        self._modules = modules
        self._environment = environment
        self._process: Process | None = None
        self._interrupted = False
        renew_in_forks(self)

    def _after_fork(self) -> None:
        self._process = None

    def call(self, function: Callable[..., Any], *arguments: Any, timeout: float | None) -> Answer:
        """Call a function.

        - `function`: of a module that can be imported
        - `*arguments`: objects that pickle
        - `timeout`: seconds after which the call is ended; None for no limit
        - raises `InvalidArgumentsError`: the function is not one that another process can import
        - raises `KeyboardInterrupt`: another thread has called `interrupt`
        """
        module = getattr(function, "__module__", None) or __package__
        if module == "__main__":
            raise InvalidArgumentsError(
                f"{function.__name__} is of __main__, which another process can't import; "
                "put it into a module"
            )
        try:
            packed = pickle.dumps((function, arguments))
        except (pickle.PicklingError, AttributeError, TypeError) as e:
            raise InvalidArgumentsError(f"another process can't import it: {e}") from None
        why, process = self.start(), self._process
        if process is None:
            return "raised", why
        answer: Answer
        try:
            self._check_interrupted()
            modules = (*self._modules, module)
            answer = process.ask((import_path(module), modules, packed, timeout))
        except NoAnswer as e:
            answer = "ended", e.status
            self.close()
            self._check_interrupted()
        except BaseException:  # interrupted: the next call would take this one's answer for its own
            self.close()
            raise
        return answer

    def start(self) -> str:
        """Start the process if it has not been started; return why it does not start, if so."""
        if self._process is not None:
            return ""
        worker = calling(f"{__package__}.fork_worker")
        try:
            process = Process(*worker, environment=self._environment, keep_errors=True)
        except OSError as e:
            return f"no process could be started: {e}"
        self._process = process
        try:
            self._check_interrupted()
            process.answer(STARTUP)
        except BaseException as e:
            process.kill()
            self.close()
            self._check_interrupted()
            if not isinstance(e, NoAnswer):
                raise
            return f"the process did not start: {e}"
        return ""

    def _check_interrupted(self) -> None:
        if self._interrupted:
            raise KeyboardInterrupt

    def interrupt(self) -> None:
        """End the process from another thread than the one that calls: its calls raise."""
        self._interrupted = True
        process = self._process
        if process is not None:
            process.kill()  # what it has forked ends with it

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.leave()  # it ends what it has forked

    def __enter__(self) -> Isolated:
        return self

    def __exit__(self, *of: object) -> None:
        self.close()
