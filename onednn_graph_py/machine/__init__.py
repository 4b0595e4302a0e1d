"""The machine: what its CPU computes in, and which oneDNN runs on it how."""

from .conditions import Conditions, current

__all__ = ["Conditions", "current"]
