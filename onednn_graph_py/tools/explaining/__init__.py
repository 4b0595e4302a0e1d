"""Reports of what runs, how fast, and why ops were not fused."""

from .explain import explain
from .explanation import Explanation
from .facts import Kernel, OpFacts, StepFacts, TensorFacts, Work
from .peaks import Machine, machine

__all__ = [
    "Explanation",
    "Kernel",
    "Machine",
    "OpFacts",
    "StepFacts",
    "TensorFacts",
    "Work",
    "explain",
    "machine",
]
