"""Seeing what oneDNN does."""

from .diagram import Diagram, diagram
from .verbose_log import VerboseLog, read_verbose_log, verbose_log

__all__ = ["Diagram", "VerboseLog", "diagram", "read_verbose_log", "verbose_log"]
