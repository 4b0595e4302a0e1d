"""Helper processes: they may crash or hang without harm to their caller."""

from .forks import MODELS, Answer, Isolated
from .import_path import import_path
from .messages import end_without_caller, serve
from .process import (
    STARTUP,
    NoAnswer,
    Process,
    calling,
    cause,
    ending,
    instructions,
    quiet,
    run,
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
    "end_without_caller",
    "ending",
    "import_path",
    "instructions",
    "quiet",
    "run",
    "serve",
    "too_long",
]
