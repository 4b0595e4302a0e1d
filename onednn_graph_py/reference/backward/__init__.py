"""Gradients of the ops, for training.

Inputs are the forward op's inputs or results, and the gradient of a loss with respect to its result
(diff_dst); outputs are the gradients with respect to the forward op's inputs.
"""

from __future__ import annotations

# Each of these modules registers the ops that it computes.
from . import elementwise as elementwise
from . import interpolation as interpolation
from . import normalization as normalization
from . import parameters as parameters
from . import pooling as pooling
