"""The process that runs cases, one after the other, and may crash."""

from ...base.processes import serve
from .run_case import run_case

__all__ = ["main"]


def main(descriptor: int) -> None:
    """Read cases and options from a connection, and answer with results, until it ends."""
    serve(descriptor, lambda request: run_case(*request))
