"""Test whether graphs show a symptom, in a helper process that may crash or hang: `Shows`."""

from __future__ import annotations

from collections.abc import Callable

from ...base.errors import InvalidArgumentsError
from ...base.processes import MODELS, Isolated, cause, ending, too_long
from ...serialization import GraphDocument
from .outcome import SYMPTOMS, Outcome
from .trial import trial_of


class Shows:
    """A predicate: whether a graph shows the same symptom as the first graph that it tried.

    Parameters
    ----------
    symptom : str
        ``mismatch`` (oneDNN's fused partitions, without workarounds for known defects, differ from
        the reference), ``crash``, ``hang``, ``unsupported`` (oneDNN has no kernel for an op here)
        or ``refused`` (oneDNN or this package rejects the graph).
    seed : int
        Seed for generated inputs.
    timeout : float
        Seconds after which a graph counts as hanging.
    trial : callable, optional
        Takes a `GraphDocument` and the seed, and returns an `Outcome`. It must be a module's
        function, since another process calls it. By default the trial that finds `symptom`.

    Raises
    ------
    InvalidArgumentsError
        The symptom is unknown, or the timeout is not positive.
    """

    def __init__(
        self,
        symptom: str,
        *,
        seed: int = 0,
        timeout: float = 60.0,
        trial: Callable[[GraphDocument, int], Outcome] | None = None,
    ) -> None:
        if symptom not in SYMPTOMS:
            raise InvalidArgumentsError(
                f"a graph can be shrunk while it shows {', '.join(SYMPTOMS)}; got {symptom!r}"
            )
        if not timeout > 0:
            raise InvalidArgumentsError(f"timeout must be positive, got {timeout!r}")
        self.symptom = symptom
        self.seed = seed
        self.timeout = timeout
        self._trial = trial if trial is not None else trial_of(symptom)
        self._process = Isolated(*MODELS)
        self._wanted: str | None = None

    def outcome(self, document: GraphDocument) -> Outcome:
        """Try a graph; the symptom is ``failed`` if the trial itself raises."""
        kind, value = self._process.call(self._trial, document, self.seed, timeout=self.timeout)
        if kind == "returned":
            made: Outcome = value
            return made
        if kind == "hang":
            return Outcome("hang", too_long(self.timeout), ("hang",))
        if kind == "raised":
            return Outcome("failed", value)
        return Outcome("crash", ending(value), (cause(value),))

    def __call__(self, document: GraphDocument) -> bool:
        """Return whether a graph shows the same symptom as the first graph that showed one."""
        found = self.outcome(document)
        if found.symptom != self.symptom:
            return False
        if self._wanted is None:
            self._wanted = found.signatures[0]
        return self._wanted in found.signatures

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def __enter__(self) -> Shows:
        return self

    def __exit__(self, *of: object) -> None:
        self.close()
