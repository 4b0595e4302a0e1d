"""The outcome of trying a graph."""

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from ...base.errors import OneDNNError
from ...base.refusals import with_reason

Symptom = Literal[
    "passed", "mismatch", "unsupported", "refused", "crash", "hang", "too large", "failed"
]

SYMPTOMS: tuple[Symptom, ...] = ("mismatch", "crash", "hang", "unsupported", "refused")
"""The symptoms that shrinking can keep."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of trying a graph; its symptom is ``failed`` if the trial itself raised."""

    symptom: Symptom
    reason: str = ""
    # Marks of this symptom: a kind of op that has no kernel, a signal, an error without its numbers
    # and names. A smaller graph shows the same symptom if it shares one of them.
    signatures: tuple[str, ...] = ()
    error: OneDNNError | None = field(default=None, compare=False)

    def with_reason(self) -> str:
        """Say it all, with oneDNN's reason, which another process finds."""
        return str(self if self.error is None else replace(self, reason=with_reason(self.error)))

    def __str__(self) -> str:
        return f"{self.symptom}: {self.reason}" if self.reason else self.symptom


_PLACES = re.compile(r"\bgraph\[\d+\](\.[a-z_]+(\[\d+\])?)*")
_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"")
_NUMBERS = re.compile(r"-?\d+(\.\d+)?(e[-+]?\d+)?")
_LISTS = re.compile(r"#([ ,x]*#)+")


def signature_of(error: BaseException) -> str:
    """Return an error's text without places, names and numbers, which change with shrinking.

    Examples
    --------
    >>> signature_of(ValueError("graph[3]: op 7 'fc' (MatMul): 2x8 does not fit 4x16x5"))
    'ValueError: : op # ~ (MatMul): # does not fit #'
    """
    text = _NAMES.sub("~", _PLACES.sub("", str(error)))
    return f"{type(error).__name__}: {_LISTS.sub('#', _NUMBERS.sub('#', text))}"
