"""Parts of front ends: `split` divides a graph into parts that oneDNN runs, and others.

The front ends of this package share the rest: `lowering` and `recipes` write an op into a graph,
`report` says what runs where.
"""

from .regions import MOST_PASSES, Part, split

__all__ = ["MOST_PASSES", "Part", "split"]
