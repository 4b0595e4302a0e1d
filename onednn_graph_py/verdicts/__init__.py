"""Verdicts on partitions: whether oneDNN computes them right, and faster than their ops apart.

Each is judged once, in a process that may crash or hang; what came of it is kept on disk.
"""

from .judge import Judge
from .subject import Subject, subject_of
from .verdict import Limits, Outcome, Verdict

__all__ = ["Judge", "Limits", "Outcome", "Subject", "Verdict", "subject_of"]
