"""Tools that show what oneDNN does: diagrams, profiles and its verbose log."""

from .diagram import Diagram, diagram, repr_mimebundle
from .profile import Profile, profile
from .verbose_log import VerboseLog, read_verbose_log, verbose_log

__all__ = [
    "Diagram",
    "Profile",
    "VerboseLog",
    "diagram",
    "profile",
    "read_verbose_log",
    "repr_mimebundle",
    "verbose_log",
]
