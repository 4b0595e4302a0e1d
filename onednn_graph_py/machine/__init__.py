"""The machine: its CPU's data types and instruction sets, and the state of oneDNN on it."""

from .conditions import Conditions, current

__all__ = ["Conditions", "current"]
