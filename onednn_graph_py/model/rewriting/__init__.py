"""Other ways to write ops: rules, and what they write."""

from .avoiding import AVOIDING, REORDERED, complete
from .fusing import fused
from .recipes import RECIPES

__all__ = ["AVOIDING", "RECIPES", "REORDERED", "complete", "fused"]
