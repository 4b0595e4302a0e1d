"""Turn a graph into a plan: the compiled steps that run it, with their memory."""

from .options import (
    Check,
    CompileOptions,
    Fallback,
    Keep,
    KnownDefects,
    Layout,
    Policy,
    SlowFusions,
    Tune,
    engine_of,
)
from .pipeline import make_plan
from .plan import Plan, PlannedStep

__all__ = [
    "Check",
    "CompileOptions",
    "Fallback",
    "Keep",
    "KnownDefects",
    "Layout",
    "Plan",
    "PlannedStep",
    "Policy",
    "SlowFusions",
    "Tune",
    "engine_of",
    "make_plan",
]
