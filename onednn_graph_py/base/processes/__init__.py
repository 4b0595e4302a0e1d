"""Helper processes: they may crash or hang without harm to their caller."""

from .import_path import import_path
from .isolation import MODELS, Answer, Isolated, failure, printed
from .messages import serve
from .process import (
    STARTUP,
    NoAnswer,
    Process,
    calling,
    cause,
    ending,
    instructions,
    quiet,
    too_long,
)

__all__ = [
    "MODELS",
    "STARTUP",
    "Answer",
    "Isolated",
    "NoAnswer",
    "Process",
    "calling",
    "cause",
    "ending",
    "failure",
    "import_path",
    "instructions",
    "printed",
    "quiet",
    "serve",
    "too_long",
]
