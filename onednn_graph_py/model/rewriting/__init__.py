"""Other ways to write ops: rules, and what they write."""

from .avoiding import AVOIDING, REORDERED, complete
from .early import EARLY, has_few_factors, selects_by_any_shape
from .forms import FORMS
from .fusing import FUSING
from .products import PRODUCTS
from .recipes import RECIPES
from .rewriter import rewritten
from .rule import Ops
from .shapes import SHAPES

__all__ = [
    "AVOIDING",
    "FORMS",
    "PASSES",
    "RECIPES",
    "REORDERED",
    "Ops",
    "complete",
    "has_few_factors",
    "rewritten",
    "selects_by_any_shape",
]

PASSES = ((*PRODUCTS, *FUSING, *EARLY), SHAPES)  # rules that write a graph before oneDNN sees it
