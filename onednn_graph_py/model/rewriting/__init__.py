"""Other ways to write ops: rules, and what they write."""

from .avoiding import AVOIDING, REORDERED, complete
from .forms import FORMS
from .fusing import fused
from .recipes import RECIPES
from .rule import Ops

__all__ = ["AVOIDING", "FORMS", "RECIPES", "REORDERED", "Ops", "complete", "fused"]
