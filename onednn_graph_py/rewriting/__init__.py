"""Other ways to write ops: rules, and what they write."""

from .avoiding import AVOIDING, REORDERED, complete
from .recipes import RECIPES

__all__ = ["AVOIDING", "RECIPES", "REORDERED", "complete"]
