"""A report on a graph that runs: `Explanation`."""

from __future__ import annotations

from .facts import Facts
from .page import to_html
from .text import to_text

__all__ = ["Explanation"]


class Explanation(Facts):
    """A report of what runs, how fast, and why ops were not fused; made by `explain`.

    ``print`` it, show it in a notebook, or take `to_dict`.

    Parameters
    ----------
    name : str
        The model's name; ``graph`` for a builder that does not compile.
    engine, oneDNN : str
        The engine kind, and the version of oneDNN.
    shapes : tuple of (str, shape)
        The inputs' names and shapes.
    compiled : bool
        Whether the graph compiles; if not, the steps are the partitions that oneDNN makes.
    steps : tuple of StepFacts
        The steps, in order.
    input_bytes, output_bytes, constant_bytes : int or None
        Memory of the model's tensors of these roles; None if dims are unknown.
    intermediate_bytes : int or None
        Memory of all other tensors, and scratch memory if oneDNN leaves that to its callers (from
        3.13 on); None if the graph does not compile.
    seconds : float or None
        The median of the steps' sums over many calls.
    calls : int
        Number of timed calls.
    machine : Machine or None
        The machine's peaks; None if no calls were timed.
    notes : tuple of str
        Remarks, such as on facts that `explain` could not find.
    reasons : tuple of Reason
        For ops that stayed unfused or are not supported: the reason, and changes that help.
    """

    __str__ = to_text
    _repr_html_ = to_html

    def __repr__(self) -> str:
        return f"<Explanation of {self.name!r}: {len(self.steps)} steps>"
