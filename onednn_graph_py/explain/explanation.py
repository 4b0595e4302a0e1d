"""What there is to know about a graph that runs, for people to read: `Explanation`."""

from __future__ import annotations

from .facts import Facts
from .page import to_html
from .text import to_text

__all__ = ["Explanation"]


class Explanation(Facts):
    """What runs, how fast, and why not otherwise; made by `explain`.

    ``print`` it, show it in a notebook, or take `to_dict`.

    Parameters
    ----------
    name : str
        The model's; ``graph`` for what does not compile.
    engine, oneDNN : str
        Kind, and version of the library.
    shapes : tuple of (str, shape)
        The inputs' names and shapes.
    compiled : bool
        Otherwise the steps are the partitions that oneDNN makes.
    steps : tuple of StepFacts
        In order.
    input_bytes, output_bytes, constant_bytes : int or None
        Memory of the model's tensors of these roles; None where dims are not known.
    intermediate_bytes : int or None
        What holds all other tensors, and scratch memory where oneDNN leaves that to its callers
        (from 3.13 on).
    seconds : float or None
        The median of the steps' sums over many calls.
    calls : int
        How many were timed.
    machine : Machine or None
        Its peaks; None if nothing was timed.
    notes : tuple of str
        What else there is to know, such as what could not be found out.
    reasons : tuple of Reason
        For ops that stayed alone or are not supported: why, and what would change it.
    """

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        return f"<Explanation of {self.name!r}: {len(self.steps)} steps>"

    def _repr_html_(self) -> str:
        return to_html(self)
