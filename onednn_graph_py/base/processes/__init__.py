"""Helper processes: they may crash or hang without harm to their caller."""

from .ending import cause, ending, too_long
from .environment import instructions, quiet
from .forks import MODELS, Answer, Isolated
from .import_path import import_path
from .messages import serve
from .orphans import end_without_caller
from .process import STARTUP, NoAnswer, Process, calling
from .program import run

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
