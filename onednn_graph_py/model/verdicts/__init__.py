"""Verdicts on partitions: whether oneDNN computes them right.

A helper process, which may crash or hang, judges each partition once; the verdict is kept on disk.
"""

from .judge import Judge
from .subject import Subject, subject_of
from .verdict import Limits, Outcome, Verdict

__all__ = ["Judge", "Limits", "Outcome", "Subject", "Verdict", "subject_of"]
